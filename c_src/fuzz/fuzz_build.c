/* fuzz_build.c: a small language of bytes that builds processes in the model memory.
 * Knows: the structures of the VM by each layout table, and how to break them.
 * Does not know: which walker will read them.
 *
 * The first bytes choose the query; verbs follow, each a byte (the verb in its low half, a
 * parameter in its high half) with its operands. Most verbs build a whole structure and link it
 * where it belongs, so most inputs are processes as a VM has them; the others move a pointer by a
 * word, write a word somewhere, or let it change at a later read. Operands are relative to
 * structures that exist, for example the end of the last fragment and eight bytes, so that a
 * mutated byte still names an interesting place. */
#include "fuzz/fuzz.h"

#include <string.h>

enum { PROCS = 12, MARKS = 160, TERMS = 32 };

#define NIL 0x3BULL

struct process {
    uint64_t at;
    uint64_t young_end, old_end; /* ends of the allocated memory: the heaps grow up to there */
    uint64_t frag, frag_end;     /* the last fragment */
};

struct place {
    uint64_t from, to;
};

struct builder {
    const uint8_t *in, *end;
    struct image *img;
    const struct layout *lay;
    uint64_t used; /* bytes of the memory */
    unsigned procs_n, marks_n;
    struct process procs[PROCS], *p;
    struct place marks[MARKS];
    uint64_t binary; /* the last one */
    uint64_t refc;   /* the last object that points at one */
    uint64_t heap_binary;
    uint64_t resource; /* the last one */
    unsigned terms_n;
    uint64_t terms[TERMS]; /* the last ones, a ring */
};

static unsigned byte(struct builder *b)
{
    return b->in < b->end ? *b->in++ : 0;
}

static uint64_t bytes(struct builder *b, unsigned n)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < n; i++)
        sum |= (uint64_t)byte(b) << 8 * i;
    return sum;
}

/* ---- words ---------------------------------------------------------------------------------- */

static void put_word(uint64_t address, uint64_t value)
{
    uint64_t *w = memory_at(address);
    if (w)
        *w = value;
}

static uint64_t get_word(uint64_t address)
{
    const uint64_t *w = memory_at(address);
    return w ? *w : 0;
}

static void put(struct builder *b, uint64_t object, enum layout_field field, uint64_t value)
{
    uint64_t at = object + b->lay->f[field];
    unsigned width = layout_width(b->lay, field);
    uint64_t mask = width == 8 ? ~0ULL : ((1ULL << width * 8) - 1) << (at & 7) * 8;
    uint64_t old = get_word(at & ~7ULL);
    put_word(at & ~7ULL, (old & ~mask) | (value << (at & 7) * 8 & mask));
}

static uint64_t get(struct builder *b, uint64_t object, enum layout_field field)
{
    uint64_t at = object + b->lay->f[field];
    return layout_narrow(get_word(at & ~7ULL), at & 7, layout_width(b->lay, field));
}

static uint64_t own(struct builder *b, enum layout_field field)
{
    return get(b, b->p->at, field);
}

static void set(struct builder *b, enum layout_field field, uint64_t value)
{
    put(b, b->p->at, field, value);
}

static void mark(struct builder *b, uint64_t from, uint64_t size)
{
    if (b->marks_n < MARKS)
        b->marks[b->marks_n++] = (struct place){from, from + size};
}

/* 0: the memory is full. Objects follow each other without a gap. */
static uint64_t make(struct builder *b, uint64_t size)
{
    size = (size + 7) & ~7ULL;
    if (b->used + size > MEMORY_WORDS * 8ULL)
        return 0;
    uint64_t at = MEMORY_BASE + b->used;
    b->used += size;
    mark(b, at, size);
    return at;
}

/* ---- operands ------------------------------------------------------------------------------- */

static int64_t delta(unsigned i)
{
    static const int8_t deltas[] = {0,   8,  -8,  16, -16, 24, -24, 32,
                                    -32, 40, -40, 1,  -1,  4,  64,  -64};
    return deltas[i % sizeof deltas];
}

static const struct place *any_mark(struct builder *b)
{
    unsigned i = byte(b);
    return &b->marks[b->marks_n - 1 - i % b->marks_n];
}

static const enum layout_field pointers[] = {
    LF_htop,       LF_heap,     LF_hend,      LF_heap_sz,     LF_stop,       LF_old_htop,
    LF_old_heap,   LF_mbuf,     LF_old_hend,  LF_off_heap,    LF_wrt_bins,   LF_msg_frag,
    LF_links,      LF_monitors, LF_arg_reg,   LF_lt_monitors, LF_arity,      LF_sig_first,
    LF_inq_first,  LF_sig_len,  LF_inq_len,   LF_psd,         LF_dictionary, LF_mbuf_sz,
    LF_high_water, LF_gen_gcs,  LF_sig_flags, LF_trace_flags, LF_reds,       LF_pc,
    LF_id,         LF_state,    LF_lock};

/* The highest byte values select fields that were added later, so all others keep their meaning. */
static const enum layout_field more_pointers[] = {LF_group_leader, LF_parent, LF_seq_token,
                                                  LF_recv_marks};

static enum layout_field any_field(struct builder *b)
{
    unsigned i = byte(b);
    return i >= 252 ? more_pointers[i - 252] : pointers[i % (sizeof pointers / sizeof *pointers)];
}

static uint64_t place(struct builder *b)
{
    const struct place *m = any_mark(b);
    return m->from + 8ULL * (byte(b) % ((m->to - m->from) / 8 + 2));
}

static uint64_t special(unsigned i)
{
    static const uint64_t words[] = {
        MEMORY_TOP,         MEMORY_TOP + 8,  MEMORY_TOP + 40, 0 - 8ULL,   0 - 24ULL,  0 - 1ULL,
        0 - 0x48ULL,        MEMORY_BASE,     MEMORY_BASE - 8, 1ULL << 44, 1ULL << 47, 1ULL << 61,
        (1ULL << 44) + 1,   1ULL << 63,      0x8DEFFACD,      0x160,      0xA8,       0xF0,
        (1ULL << 63) - 1,   MEMORY_TOP + 48, 0x30 | 16 << 6,  0x3FF0,     0x1F,       0x90,
        0xFFFFFFFFFFFFFFF3, 0xFFFFFFF3,      1 << 27,         0x100000000};
    return words[i % (sizeof words / sizeof *words)];
}

static uint64_t value(struct builder *b)
{
    unsigned kind = byte(b);
    unsigned rest = kind >> 3;
    switch (kind & 7) {
    case 0:
        return rest;
    case 1:
        return any_mark(b)->from + (uint64_t)delta(rest);
    case 2:
        return any_mark(b)->to + (uint64_t)delta(rest);
    case 3:
        return place(b) + (uint64_t)delta(rest);
    case 4:
        return special(rest);
    case 5:
        return get_word(place(b)) + (uint64_t)delta(rest);
    case 6:
        return own(b, any_field(b)) + (uint64_t)delta(rest);
    default:
        return bytes(b, 1 + rest % 8);
    }
}

/* ---- verbs that make whole objects --------------------------------------------------------------- */

/* param: the slot, for the first process; operands: words of the young and the old heap, and how
 * many processes had the slot before */
static void make_process(struct builder *b, unsigned param)
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
    put_word(b->img->vm.tab.tab + 8 * (uint64_t)slot, p.at);
}

/* Room for an object in one of the process's blocks; 0: none. */
static uint64_t room(struct builder *b, unsigned block, uint64_t words)
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
static void make_entry(struct builder *b, unsigned param)
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
    uint64_t at = room(b, param & 3, words);
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

static void make_mbuf(struct builder *b, unsigned param)
{
    uint64_t frag = make_fragment(b, param);
    if (frag == 0)
        return;
    put(b, frag, LF_frag_next, own(b, LF_mbuf));
    set(b, LF_mbuf, frag);
    set(b, LF_mbuf_sz, own(b, LF_mbuf_sz) + param);
}

/* param: the queue, and where its data is; operands: words of data, and the kind of signal */
static void make_message(struct builder *b, unsigned param)
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
static void make_tie(struct builder *b, unsigned param)
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

static void put_reference(uint64_t at, unsigned number)
{
    put_word(at, MAGIC_THING);
    put_word(at + 8, number);
    put_word(at + 16, (uint64_t)number << 32 | 7);
}

/* how: bits: 1: of something that is not a process, 2: of the other end, 4: of another type */
static void make_monitor(struct builder *b, unsigned number, unsigned how, uint64_t end)
{
    uint64_t data = make(b, LF(b->lay, mon_size) + 24);
    uint64_t node = data + (how & 2 ? LF(b->lay, link_size) : 0);
    if (data == 0)
        return;
    put_kind(b, data, how & 4 ? number % 11 : 0, 0);
    put_kind(b, node, how & 4 ? number % 11 : 0, 0);
    put(b, node, LF_node_other, how & 1 ? value(b) : end);
    put(b, node, LF_node_offset, node - data);
    put(b, data, LF_mon_refc, 1);
    put(b, node, LF_mon_ref, data + LF(b->lay, mon_size) + 2);
    put_reference(data + LF(b->lay, mon_size), number);
    put_word(free_branch(b, LF_monitors, number), node);
}

static void make_dictionary(struct builder *b, unsigned param)
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

/* ---- objects on a heap ---------------------------------------------------------------------------- */

static void remember(struct builder *b, uint64_t term)
{
    b->terms[b->terms_n++ % TERMS] = term;
}

static uint64_t last_term(struct builder *b, unsigned back)
{
    unsigned n = b->terms_n < TERMS ? b->terms_n : TERMS;
    return n == 0 ? NIL : b->terms[(b->terms_n - 1 - back % n) % TERMS];
}

/* Usually an earlier term, a small integer or []; rarely an arbitrary word. */
static uint64_t any_term(struct builder *b)
{
    unsigned how = byte(b);
    switch (how & 7) {
    case 0:
        return NIL;
    case 1:
        return (uint64_t)how << 4 | 15;
    case 2: /* an address where nothing is */
        return 0x7000 + (uint64_t)how * 64 + 2;
    case 3:
        return how > 240 ? value(b) : last_term(b, how >> 3);
    default:
        return last_term(b, how >> 3);
    }
}

/* Makes an object of this many words, the header first; 0: no room, or no such object in this
 * release. */
static uint64_t boxed_thing(struct builder *b, unsigned block, enum kind kind, uint64_t words,
                            uint64_t arity)
{
    int tag = fuzz_tag(b->lay, kind);
    uint64_t at = tag < 0 ? 0 : room(b, block, words);
    if (at == 0)
        return 0;
    mark(b, at, words * 8);
    put_word(at, arity << 6 | (uint64_t)tag << 2);
    remember(b, at + 2);
    return at;
}

static void terms_into(struct builder *b, uint64_t at, uint64_t from, uint64_t words)
{
    for (uint64_t i = from; at != 0 && i < words; i++)
        put_word(at + i * 8, any_term(b));
}

static void a_cons(struct builder *b, unsigned block)
{
    uint64_t head = any_term(b);
    uint64_t tail = any_term(b);
    uint64_t at = room(b, block, 2);
    if (at == 0)
        return;
    mark(b, at, 16);
    put_word(at, head);
    put_word(at + 8, tail);
    remember(b, at + 1);
}

static void a_map(struct builder *b, unsigned block, unsigned how)
{
    uint64_t type = how >> 3 & 3;
    uint64_t n = (how & 7) + (type == MAP_FLAT && how > 220 ? 60 : 0);
    uint64_t bits = ((1ULL << (how & 7)) - 1) << 10;
    uint64_t words = type == MAP_FLAT ? 3 + n : (type == MAP_NODE ? 1 : 2) + n;
    uint64_t at = boxed_thing(b, block, KIND_MAP, words, type == MAP_FLAT ? 0 : bits | type);
    if (at != 0 && type != MAP_NODE)
        put_word(at + 8, n);
    terms_into(b, at, type == MAP_NODE ? 1 : 2, words);
}

static void a_fun(struct builder *b, unsigned block, unsigned how)
{
    uint64_t n = how & 7;
    bool old = b->lay->otp <= 26;
    uint64_t words = old ? 5 + n : 2 + n;
    uint64_t at = boxed_thing(b, block, KIND_FUN, words, old ? 3 : n << 10);
    if (at == 0)
        return;
    put_word(at + 8, MEMORY_BASE + 64ULL * (how >> 3 & 7));
    if (old)
        put_word(at + 24, n << 8);
    terms_into(b, at, old ? 4 : 2, words);
}

static void a_refc(struct builder *b, unsigned block, unsigned how)
{
    bool old = b->lay->otp <= 26;
    uint64_t at = boxed_thing(b, block, KIND_REFC, old ? 6 : 3, old ? 5 : 2);
    if (at == 0)
        return;
    if (b->binary == 0)
        b->binary = make(b, LF(b->lay, bin_bytes) + 8);
    b->refc = at;
    put_word(at + LF(b->lay, bin_ptr), b->binary);
    if (old) {
        put_word(at + 8, 65 + how);
        put_word(at + 32, b->binary + LF(b->lay, bin_bytes));
    }
}

static void a_part(struct builder *b, unsigned block, unsigned how)
{
    uint64_t at = boxed_thing(b, block, KIND_SUB_BINARY, 5, 4);
    uint64_t size = how >> 2;
    if (at == 0)
        return;
    if (b->lay->otp <= 26) {
        put_word(at + 8, size);
        put_word(at + 16, how & 15);
        put_word(at + 24, how & 64 ? 0x10003ULL << (how & 16) : 0);
    } else {
        put_word(at + 16, 8ULL * (how & 15));
        put_word(at + 24, 8ULL * (how & 15) + size * 8 + (how & 64 ? 3 : 0));
    }
    put_word(at + 32, how & 1 ? b->refc + 2 : how & 2 ? b->heap_binary + 2 : any_term(b));
}

static void a_match(struct builder *b, unsigned block, unsigned how)
{
    uint64_t at = boxed_thing(b, block, KIND_MATCH, 6, 5);
    if (at != 0)
        put_word(at + 8, how & 1 ? b->refc + 2 : b->heap_binary + 2);
}

/* param: the block; operands: which kind, how large, and its terms */
static void make_thing(struct builder *b, unsigned param)
{
    static const enum kind raw[] = {KIND_BIGNUM,  KIND_FLOAT,    KIND_REF,
                                    KIND_FUN_REF, KIND_EXTERNAL, KIND_HEAP_BINARY};
    unsigned kind = byte(b) % 16;
    unsigned block = param & 3;
    if (kind < 3) {
        a_cons(b, block);
        return;
    }
    unsigned how = byte(b);
    switch (kind) {
    case 3:
    case 4:
        terms_into(b, boxed_thing(b, block, KIND_TUPLE, 1 + how % 10, how % 10), 1, 1 + how % 10);
        break;
    case 5:
    case 6:
        a_map(b, block, how);
        break;
    case 7:
        a_fun(b, block, how);
        break;
    case 8:
        a_refc(b, block, how);
        break;
    case 9:
    case 10:
        a_part(b, block, how);
        break;
    case 11:
        a_match(b, block, how);
        break;
    case 12:
        terms_into(b, boxed_thing(b, block, KIND_RECORD, 1 + how % 5, how % 5), 1, 1 + how % 5);
        break;
    default: {
        uint64_t at = boxed_thing(b, block, raw[how % 6], 1 + how / 64, how / 64);
        if (at != 0 && raw[how % 6] == KIND_HEAP_BINARY)
            b->heap_binary = at;
    }
    }
}

/* Wraps the last term in a long or a deep one. param: the block, and which element holds the next
 * level */
static void make_deep(struct builder *b, unsigned param)
{
    unsigned n = byte(b);
    for (unsigned i = 0; i < n; i++) {
        uint64_t at = room(b, param & 3, 2 + (param & 4 ? 1 : 0));
        uint64_t term = last_term(b, 0);
        uint64_t other = param & 8 ? last_term(b, 1) : NIL;
        if (at == 0)
            return;
        mark(b, at, 16);
        if (param & 4)
            put_word(at, 2 << 6);
        put_word(at + (param & 4 ? 8 : 0), i & 1 ? term : other);
        put_word(at + (param & 4 ? 16 : 8), i & 1 ? other : term);
        remember(b, at + (param & 4 ? 2 : 1));
    }
}

/* Puts a term in word `at` of an area of roots; the words below it that were not in use become
 * []. */
static void hold_in(uint64_t from, uint64_t used, uint64_t at, uint64_t term)
{
    for (uint64_t i = used; i < at; i++)
        put_word(from + i * 8, NIL);
    put_word(from + at * 8, term);
}

static void hold_in_dictionary(struct builder *b, unsigned at, uint64_t term)
{
    uint64_t dict = own(b, LF_dictionary);
    if (dict == 0) {
        dict = make(b, LF(b->lay, dict_head) + 64);
        put(b, dict, LF_dict_array, 8);
        set(b, LF_dictionary, dict);
    }
    uint64_t used = get(b, dict, LF_dict_used);
    hold_in(dict + LF(b->lay, dict_head), used, at & 7, term);
    if (used <= (at & 7))
        put(b, dict, LF_dict_used, (at & 7) + 1);
}

static void hold_in_message(struct builder *b, unsigned at, uint64_t term)
{
    uint64_t m = own(b, at & 1 ? LF_inq_first : LF_sig_first);
    if (m != 0)
        put_word(m + LF(b->lay, msg_tag) + 8ULL * (at / 2 % 3), term);
}

/* The pair that a look at one term searches for. */
static uint64_t in_slot(struct builder *b, uint64_t term)
{
    uint64_t at = boxed_thing(b, 0, KIND_TUPLE, 3, 2);
    if (at == 0)
        return term;
    put_word(at + 8, 1 << 4 | 15);
    put_word(at + 16, term);
    return at + 2;
}

static void push(struct builder *b, uint64_t word)
{
    uint64_t stop = own(b, LF_stop) - 8;
    if (stop < own(b, LF_htop) || stop >= own(b, LF_hend))
        return;
    put_word(stop, word);
    set(b, LF_stop, stop);
}

/* param: which root holds a term from now on; operands: where in it, and which term */
static void hold(struct builder *b, unsigned param)
{
    static const enum layout_field fields[] = {LF_seq_token, LF_group_leader, LF_parent};
    unsigned at = byte(b);
    uint64_t term = any_term(b);
    uint64_t block = own(b, LF_recv_marks);
    switch (param & 7) {
    case 1: {
        uint64_t used = own(b, LF_arity);
        hold_in(own(b, LF_arg_reg), used, at & 3, term);
        if (used <= (at & 3))
            set(b, LF_arity, (at & 3) + 1);
        break;
    }
    case 2:
        hold_in_dictionary(b, at, term);
        break;
    case 3:
        hold_in_message(b, at, term);
        break;
    case 4:
        set(b, fields[at % 3], term);
        break;
    case 5:
        if (block == 0) {
            block = make(b, 64);
            hold_in(block, 0, 7, NIL);
            set(b, LF_recv_marks, block);
        }
        put_word(block + 8ULL * (at & 7), term);
        break;
    case 6: { /* a NIF that yielded */
        uint64_t psd = make(b, LF(b->lay, psd_size));
        put_word(psd + LF(b->lay, psd_nfunc), at & 1);
        set(b, LF_state, own(b, LF_state) | (at & 2 ? 0x2000 : 0));
        set(b, LF_psd, psd);
        if (at & 4) /* what a BIF left: all fragments, or up to the last one made */
            set(b, LF_live_frag_end, at & 8 ? b->p->frag : 0);
        break;
    }
    default: /* rarely a return address */
        if (param & 8)
            term = in_slot(b, term);
        push(b, at > 240 ? (uint64_t)at << 4 : term);
    }
}

/* A call that waits for its answer. param: bits: 1: its reference lies outside of the heap, 2: it lies in the
 * old heap, 4: the frame holds the pid instead, 8: the frame ends before it; operands: the number of the
 * reference, and the monitor: 8: there is none, otherwise as make_monitor */
static void make_call(struct builder *b, unsigned param)
{
    unsigned number = byte(b);
    unsigned how = byte(b);
    uint64_t end = own(b, LF_id) + 16ULL * (how >> 4 & 3);
    uint64_t at = param & 1 ? make(b, 24) : room(b, param >> 1 & 1, 3);
    if (at == 0)
        return;
    mark(b, at, 24);
    put_reference(at, number);
    if (!(how & 8))
        make_monitor(b, number, how, end);
    push(b, param & 4 ? end : at + 2);
    if (param & 8) /* a return address: the frames of those that called it follow */
        push(b, MEMORY_BASE);
}

/* ---- verbs that break them --------------------------------------------------------------------- */

static void write_word(struct builder *b, unsigned param)
{
    uint64_t at = place(b);
    (void)param;
    put_word(at, value(b));
}

static void write_field(struct builder *b, unsigned param)
{
    enum layout_field f = any_field(b);
    (void)param;
    set(b, f, value(b));
}

static void nudge_field(struct builder *b, unsigned param)
{
    enum layout_field f = any_field(b);
    set(b, f, own(b, f) + (uint64_t)delta(param));
}

static void unsettle(struct builder *b, unsigned param)
{
    unsigned bit = byte(b) % 32;
    enum layout_field f = param & 1 ? LF_lock : LF_state;
    set(b, f, own(b, f) ^ 1ULL << bit);
}

/* A word somewhere changes at a later read. */
static void change_word(struct builder *b, unsigned param)
{
    uint64_t after = (uint64_t)param * 16 + byte(b) % 16;
    uint64_t at = place(b);
    memory_change(after, at, value(b));
}

/* A field of the process changes at a later read: the process runs. */
static void change_field(struct builder *b, unsigned param)
{
    uint64_t after = (uint64_t)param * 4 + byte(b) % 4;
    uint64_t at = (b->p->at + b->lay->f[any_field(b)]) & ~7ULL;
    unsigned how = byte(b);
    uint64_t by = how < 128 ? (uint64_t)delta(how) : 1ULL << how % 64;
    memory_change(after, at, get_word(at) + by);
}

static void write_slot(struct builder *b, unsigned param)
{
    put_word(b->img->vm.tab.tab + 8 * (uint64_t)(param % SLOTS), value(b));
}

static void select_process(struct builder *b, unsigned param)
{
    b->p = &b->procs[param % b->procs_n];
}

typedef void verb(struct builder *b, unsigned param);
static verb *const verbs[16] = {make_entry,      make_mbuf,     make_message, make_tie,
                                make_dictionary, write_word,    write_field,  nudge_field,
                                change_word,     change_field,  unsettle,     write_slot,
                                make_process,    select_process};

/* More verbs, and room for new ones that the kept inputs do not use yet: byte 14 with the number of
 * the verb as parameter; the verb's own parameter is the next byte. */
static verb *const more_verbs[16] = {make_thing, make_deep, hold, make_call};

static bool run_verb(struct builder *b, unsigned op)
{
    bool more = (op & 15) == 14;
    verb *v = more ? more_verbs[op >> 4] : verbs[op & 15];
    if (v)
        v(b, more ? byte(b) & 15 : op >> 4);
    return v != NULL;
}

/* Runs the verbs in order. A byte that is no verb repeats the last verb, so short inputs build long
 * chains. */
static void run_verbs(struct builder *b)
{
    const uint8_t *last = NULL;
    while (b->in < b->end) {
        const uint8_t *start = b->in;
        unsigned op = byte(b);
        if (run_verb(b, op)) {
            last = start;
            continue;
        }
        const uint8_t *after = b->in;
        unsigned param = op >> 4;
        for (unsigned i = 0; i <= param && last; i++) {
            b->in = last;
            op = byte(b);
            (void)run_verb(b, op);
        }
        b->in = after;
    }
}

/* ---- what to ask --------------------------------------------------------------------------------- */

static void choose_proof(struct builder *b, struct proof *p)
{
    unsigned how = byte(b);
    p->n = how % (PROOF_STEPS + 1);
    p->op = (enum proof_op)(how / 8 % OP_COUNT);
    p->words = 8;
    p->other = any_field(b);
    p->word = special(how);
    p->other_proc = b->procs[b->procs_n - 1].at;
    for (unsigned i = 0; i < p->n; i++) {
        unsigned step = byte(b);
        p->path[i].kind = (enum proof_step_kind)(step % 3);
        p->path[i].field = (enum layout_field)(step / 3 % LAYOUT_FIELD_COUNT);
    }
}

/* Most byte values select one of the first twelve, and others one of eight, so kept inputs keep their
 * attribute. */
static enum attr any_attr(unsigned i)
{
    enum { FIRST = 12, LIMIT = 192, LATER = 8, WHOM = 255, CALL = 254 };
    if (i >= CALL)
        return i == WHOM ? ATTR_waits_for : ATTR_waits_call;
    unsigned attr = i < LIMIT ? i % FIRST : FIRST + i % LATER;
    return attr < ATTR_COUNT ? (enum attr)attr : ATTR_binary_unique;
}

void image_build(struct image *img, const uint8_t *data, size_t size)
{
    struct builder b = {.in = data, .end = data + size, .img = img};
    unsigned table = byte(&b);
    memset(img, 0, sizeof *img);
    b.lay = layout_table(table % layout_count());
    img->vm = (struct vm){.reader = PEEK_SYSCALL,
                          .lay = b.lay,
                          .tab = {make(&b, SLOTS * 8ULL), SLOTS},
                          .fun_module = 32};
    img->attr = any_attr(byte(&b));
    img->mode = byte(&b);
    img->steps = 1 + byte(&b) % 16;
    img->rows = byte(&b) % (SLOTS + 2);
    img->remembered = byte(&b) % (2 * SLOTS);
    img->fail_at = byte(&b) % 16 == 15 ? 1 + byte(&b) % 8 : 0;
    make_process(&b, 3);
    if (b.procs_n == 0)
        fuzz_fail("no room for a process", "");
    choose_proof(&b, &img->proof);
    run_verbs(&b);
    if (table >= 250) /* the table's end cannot be read */
        img->vm.tab.tab = MEMORY_BASE + MEMORY_WORDS * 8ULL - (table - 249) * 8ULL;
    memory_built();
}
