/* fuzz_process.c: the verbs that build a process: its heaps, chains, fragments, messages, links and monitors.
 * Knows: the structures of the VM by each layout table.
 * Does not know: terms. */
#include "fuzz/fuzz_build.h"

/* param: the slot, for the first process; operands: words of the young and the old heap, and how
 * many processes had the slot before */
void build_process(struct builder *b, unsigned param)
{
    uint64_t young = 8ULL * (byte(b) % 16);
    uint64_t old = 4ULL * (byte(b) % 16);
    unsigned slot = (param + b->procs_n) % SLOTS;
    unsigned life = byte(b);
    if (b->procs_n == PROCS)
        return;
    struct process p = {.at = make(b, LF(b->lay, proc_size))};
    uint64_t heap = make(b, young * 8);
    uint64_t old_heap = old > 0 ? make(b, old * 8) : 0;
    if (p.at == 0 || heap == 0 || (old > 0 && old_heap == 0))
        return;
    p.young_end = heap + young * 8;
    p.old_end = old_heap + old * 8;
    b->p = &b->procs[b->procs_n++];
    *b->p = p;
    uint64_t pid = b->lay->pid_slot_high ? (uint64_t)slot << 32 | (life * SLOTS + slot) << 4 | 3
                                         : (uint64_t)(life * SLOTS + slot) << 4 | 3;
    set(b, LF_id, pid);
    set(b, LF_state, 0x2A);
    set(b, LF_reds, 1000 + 10 * life);
    set(b, LF_heap, heap);
    set(b, LF_htop, heap);
    set(b, LF_hend, p.young_end);
    set(b, LF_stop, p.young_end);
    set(b, LF_heap_sz, young);
    set(b, LF_old_heap, old_heap);
    set(b, LF_old_htop, old_heap);
    set(b, LF_old_hend, p.old_end);
    set(b, LF_arg_reg, p.at + LF(b->lay, def_arg_reg));
    set(b, LF_sig_flags, 2);
    set(b, LF_group_leader, pid);
    set(b, LF_parent, pid);
    set(b, LF_seq_token, NIL);
    set(b, LF_live_frag_end, ~7ULL);
    put_word(p.at + FUZZ_FIRST_CALL(b->lay), FUZZ_ATOM(life % 2));
    put_word(p.at + FUZZ_FIRST_CALL(b->lay) + 8, FUZZ_ATOM(3));
    put_word(p.at + FUZZ_FIRST_CALL(b->lay) + 16, life % 3);
    put_word(b->img->vm.tab.tab + 8 * (uint64_t)slot, p.at);
}

uint64_t build_room(struct builder *b, unsigned block, uint64_t words)
{
    static const enum layout_field tops[] = {LF_htop, LF_old_htop};
    static const enum layout_field heaps[] = {LF_heap, LF_old_heap};
    if (block >= 2) {
        uint64_t used = get(b, b->p->frag, LF_frag_used);
        uint64_t at = b->p->frag + LF(b->lay, frag_mem) + used * 8;
        if (b->p->frag == 0 || used > MEMORY_WORDS || at + words * 8 > b->p->frag_end)
            return 0;
        put(b, b->p->frag, LF_frag_used, used + words);
        return at;
    }
    uint64_t end = block == 0 ? b->p->young_end : b->p->old_end;
    uint64_t at = own(b, tops[block]);
    if (own(b, heaps[block]) == 0 || at + words * 8 > end || at + words * 8 < at)
        return 0;
    set(b, tops[block], at + words * 8);
    return at;
}

/* A resource of a native library, or magic memory of the VM. how: bits: 4: the last one again, 8:
 * with a type, 16: freed by another function. */
static uint64_t a_resource(struct builder *b, unsigned how)
{
    if (!(how & 4) || b->resource == 0) {
        uint64_t type = how & 8 ? make(b, LF(b->lay, type_name) + 8) : 0;
        b->resource = make(b, LF(b->lay, magic_data) + 8);
        put_word(b->resource, 1);
        put(b, b->resource, LF_bin_size, 200 + how);
        put(b, b->resource, LF_magic_free, how & 16);
        put(b, b->resource, LF_magic_data, type);
        put(b, type, LF_type_module, 0x0B);
        put(b, type, LF_type_name, 0x4B);
    }
    put(b, b->resource, LF_bin_refc, get(b, b->resource, LF_bin_refc) + 1);
    return b->resource;
}

/* param: the block and the chain; operand: what it is */
void build_entry(struct builder *b, unsigned param)
{
    static const uint16_t others[] = {0xD4, MAGIC_THING, 0xF0, 0x84, 0x1F, 0x22, 0xA8, 0x160};
    unsigned what = byte(b);
    bool binary = (what & 3) != 0;
    uint64_t least = LF(b->lay, bin_ptr) / 8 + 1 < 3 ? 3 : LF(b->lay, bin_ptr) / 8 + 1;
    uint64_t words = binary ? (what & 4 ? least : least * 3 / 2) : 3;
    if (binary && (!(what & 8) || b->binary == 0)) {
        b->binary = make(b, LF(b->lay, bin_size) + 8);
        put(b, b->binary, LF_bin_size, 65 + what);
    }
    uint64_t at = build_room(b, param & 3, words);
    if (at == 0)
        return;
    mark(b, at, words * 8);
    uint64_t list = param & 4 ? b->p->at + LF(b->lay, wrt_bins) : b->p->at + LF(b->lay, off_heap);
    if ((param & 8) && b->p->frag != 0)
        list = b->p->frag + LF(b->lay, frag_off_heap);
    put_word(at, binary ? LF(b->lay, bin_thing) : others[what >> 5]);
    put_word(at + LF(b->lay, oh_next), get_word(list));
    if (binary)
        put_word(at + LF(b->lay, bin_ptr), b->binary);
    else if (others[what >> 5] == MAGIC_THING)
        put_word(at + LF(b->lay, ref_bin), a_resource(b, what));
    if (binary) /* others may refer to it, too */
        put(b, b->binary, LF_bin_refc, get(b, b->binary, LF_bin_refc) + (what & 16 ? 2 : 1));
    put_word(list, at);
}

static uint64_t make_fragment(struct builder *b, uint64_t words)
{
    uint64_t frag = make(b, LF(b->lay, frag_mem) + words * 8);
    b->p->frag = frag;
    b->p->frag_end = frag == 0 ? 0 : frag + LF(b->lay, frag_mem) + words * 8;
    return frag;
}

/* The heap is full while collections are delayed: a fragment becomes the heap, and gets a copy of the stack. */
void build_abandoned(struct builder *b, unsigned param)
{
    uint64_t heap = own(b, LF_heap);
    uint64_t stop = own(b, LF_stop);
    uint64_t size = own(b, LF_heap_sz);
    uint64_t stack = (own(b, LF_hend) - stop) / 8;
    uint64_t words = stack + 4ULL * param;
    if (own(b, LF_abandoned) != 0 || stack > MEMORY_WORDS)
        return;
    uint64_t at = make(b, LF(b->lay, frag_mem) + words * 8);
    if (at == 0)
        return;
    at += LF(b->lay, frag_mem);
    b->p->young_end = at + words * 8;
    for (uint64_t i = 0; i < stack; i++)
        put_word(b->p->young_end - (stack - i) * 8, get_word(stop + i * 8));
    put_word(heap + (size - 1) * 8, (own(b, LF_htop) - heap) / 8);
    set(b, LF_abandoned, heap);
    set(b, LF_heap, at);
    set(b, LF_htop, at);
    set(b, LF_stop, b->p->young_end - stack * 8);
    set(b, LF_hend, b->p->young_end);
}

void build_mbuf(struct builder *b, unsigned param)
{
    uint64_t frag = make_fragment(b, param);
    if (frag == 0)
        return;
    put(b, frag, LF_frag_next, own(b, LF_mbuf));
    set(b, LF_mbuf, frag);
    set(b, LF_mbuf_sz, own(b, LF_mbuf_sz) + param);
}

/* param: the queue, and where its data is; operands: words of data, and the kind of signal */
void build_message(struct builder *b, unsigned param)
{
    static const enum layout_field queues[] = {LF_sig_first, LF_inq_first, LF_msg_frag,
                                               LF_sig_first};
    static const uint16_t tags[] = {0x1F, 0x1F, 0x30 | 16 << 6, 0x30 | 0xFF << 6, 0x30 | 3 << 6, 0};
    unsigned how = byte(b);
    enum layout_field queue = queues[param & 3];
    uint64_t words = how & 15;
    uint64_t tag = tags[(how >> 4) % 6];
    bool combined = (param >> 2) == 1;
    uint64_t m = make(b, LF(b->lay, msg_size) + (combined ? LF(b->lay, frag_mem) + words * 8 : 0));
    if (m == 0)
        return;
    put(b, m, LF_msg_tag, tag);
    put_word(m + LF(b->lay, msg_tag) + 8, NIL);
    put_word(m + LF(b->lay, msg_tag) + 16, NIL);
    if (combined) {
        b->p->frag = m + LF(b->lay, msg_hfrag);
        b->p->frag_end = b->p->frag + LF(b->lay, frag_mem) + words * 8;
        put(b, b->p->frag, LF_frag_used, queue == LF_msg_frag ? 0 : words);
        put(b, m, LF_msg_attached, 1);
    }
    for (unsigned i = param >> 2; i >= 2; i--) {
        uint64_t frag = make_fragment(b, words);
        put(b, frag, LF_frag_next, get(b, m, LF_msg_attached));
        put(b, frag, LF_frag_used, queue == LF_msg_frag ? 0 : words);
        put(b, m, LF_msg_attached, frag);
    }
    if (queue == LF_inq_first && own(b, queue) == 0)
        put_word(b->p->at + LF(b->lay, inq_first) + 8, m + LF(b->lay, msg_next));
    put(b, m, LF_msg_next, own(b, queue));
    set(b, queue, m);
    if (tag == 0x1F && queue == LF_sig_first)
        set(b, LF_sig_len, own(b, LF_sig_len) + 1);
    if (tag == 0x1F && queue == LF_inq_first)
        set(b, LF_inq_len, own(b, LF_inq_len) + 1);
}

static void put_kind(struct builder *b, uint64_t node, unsigned type, unsigned flags)
{
    unsigned shift = b->lay->flags_shift;
    put(b, node, LF_node_flags, (uint64_t)flags << shift);
    if (shift > 0)
        put(b, node, LF_node_type, (uint64_t)flags << shift | type);
    else
        put(b, node, LF_node_type, type);
}

/* Follows the bits of a byte down the tree to a free place. */
static uint64_t free_branch(struct builder *b, enum layout_field root, unsigned way)
{
    uint64_t at = b->p->at + b->lay->f[root];
    for (unsigned i = 0; i < 64 && get_word(at) != 0; i++) {
        unsigned turn = i < 7 ? way >> i & 1 : way >> 7;
        at = get_word(at) + b->lay->f[turn ? LF_tree_right : LF_tree_left];
    }
    return at;
}

/* param: the tree or list, and which end; operands: type, flags, and the way down the tree */
void build_tie(struct builder *b, unsigned param)
{
    static const enum layout_field roots[] = {LF_links, LF_monitors, LF_lt_monitors, LF_links};
    static const uint64_t headers[] = {0x90, 0xD0, 0x138, 16 << 6, 17 << 6, 3, 1, 0};
    unsigned kind = byte(b);
    unsigned flags = byte(b);
    unsigned way = byte(b);
    enum layout_field root = roots[param & 3];
    bool target = (param & 4) != 0;
    uint64_t data = make(b, LF(b->lay, mon_size) + 24);
    uint64_t node = data + (target ? LF(b->lay, link_size) : 0);
    unsigned type = root == LF_links ? 10 + kind % 4 % 3 : kind % 11;
    if (data == 0)
        return;
    put_kind(b, data, type, flags & 0x30);
    put_kind(b, node, type, (flags & 0x30) | target);
    put(b, node, LF_node_other, own(b, LF_id) + 16ULL * (way & 3));
    put(b, node, LF_node_offset, node - data);
    if (root == LF_links)
        put(b, node, LF_link_unlinking, flags & 1);
    else
        put(b, data, LF_mon_refc, flags & 3);
    if (root != LF_links && (flags & 12) != 0)
        put(b, data, LF_mon_ref, data + LF(b->lay, mon_size) + 2);
    put_word(data + LF(b->lay, mon_size), headers[(flags >> 6) + (flags & 4)]);
    put_word(data + LF(b->lay, mon_size) + 8, way >> 2 & 1);
    put_word(data + LF(b->lay, mon_size) + 16, (uint64_t)way << 32);
    if (root == LF_lt_monitors) {
        uint64_t first = own(b, root);
        put(b, node, LF_list_next, first == 0 ? node : get(b, first, LF_list_next));
        if (first == 0)
            set(b, root, node);
        else
            put(b, first, LF_list_next, node);
    } else {
        put_word(free_branch(b, root, way), node);
    }
}

void build_put_reference(uint64_t at, unsigned number)
{
    put_word(at, MAGIC_THING);
    put_word(at + 8, number);
    put_word(at + 16, (uint64_t)number << 32 | 7);
}

void build_monitor(struct builder *b, unsigned number, unsigned how, uint64_t end)
{
    uint64_t data = make(b, LF(b->lay, mon_size) + 24);
    uint64_t node = data + (how & 2 ? LF(b->lay, link_size) : 0);
    if (data == 0)
        return;
    put_kind(b, data, how & 4 ? number % 11 : 0, 0);
    put_kind(b, node, how & 4 ? number % 11 : 0, 0);
    put(b, node, LF_node_other, how & 1 ? build_value(b) : end);
    put(b, node, LF_node_offset, node - data);
    put(b, data, LF_mon_refc, 1);
    put(b, node, LF_mon_ref, data + LF(b->lay, mon_size) + 2);
    build_put_reference(data + LF(b->lay, mon_size), number);
    put_word(free_branch(b, LF_monitors, number), node);
}

void build_dictionary(struct builder *b, unsigned param)
{
    uint64_t dict = make(b, LF(b->lay, dict_head) + 8 * (uint64_t)param);
    uint64_t psd = param & 1 ? make(b, LF(b->lay, psd_size)) : 0;
    if (dict == 0)
        return;
    put(b, dict, LF_dict_array, param);
    put(b, dict, LF_dict_count, byte(b));
    set(b, LF_dictionary, dict);
    set(b, LF_psd, psd);
    if (param & 8) /* more registers than the struct has room for */
        set(b, LF_arg_reg, dict);
    set(b, LF_arity, param);
}
