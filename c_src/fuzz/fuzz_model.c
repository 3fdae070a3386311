/* fuzz_model.c: the expected answers for an unchanging process, computed as simply as possible.
 * Knows: the structures of the VM, and what process_info would report of them.
 * Does not know: slices, retries: it shares no code with the walkers, only their limits. */
#include "heap/root_size.h"
#include "fuzz/fuzz.h"

/* What the frame of a caller holds, and the ends that are among it. */
struct waited {
    uint64_t word[AWAITED_FRAME];
    unsigned words;
    uint64_t ref, pid, monitor, call;
    bool some_ref, several_refs, some_pid, several_pids, some_monitor, several_monitors;
};

struct model {
    const struct layout *lay;
    uint64_t proc;
    bool refused;
    bool doubtful;
    uint64_t steps;
    struct waited waited;
};

static void refuse_if(struct model *m, bool odd)
{
    m->refused = m->refused || odd;
}

static uint64_t word(struct model *m, uint64_t address)
{
    const uint64_t *w = memory_at(address);
    refuse_if(m, !w);
    return w ? *w : 0;
}

/* A field, which may be narrower than a word. */
static uint64_t field(struct model *m, uint64_t object, enum layout_field f)
{
    uint64_t address = object + m->lay->f[f];
    uint64_t value = word(m, address & ~7ULL) >> (address & 7) * 8;
    unsigned width = layout_width(m->lay, f);
    refuse_if(m, object & 7);
    return width == 8 ? value : value & ((1ULL << width * 8) - 1);
}

static uint64_t own(struct model *m, enum layout_field f)
{
    return field(m, m->proc, f);
}

/* ---- what must be still ---------------------------------------------------------------------- */

enum {
    NOT_SETTLED = 0x7C228000,
    DEAD = 0xC00
}; /* otp-internals: running, GC, dirty; free, exiting */

/* The fields end at the first 0, which is no field of a process. */
struct stillness {
    uint32_t state, lock;
    enum layout_field fields[40];
};

#define BINARIES                                                                                   \
    LF_heap, LF_hend, LF_abandoned, LF_heap_sz, LF_htop, LF_stop, LF_high_water, LF_old_heap,      \
        LF_old_htop, LF_old_hend, LF_gen_gcs, LF_mbuf, LF_mbuf_sz, LF_msg_frag, LF_off_heap,       \
        LF_wrt_bins, LF_arity, LF_arg_reg, LF_dictionary, LF_sig_first
#define BLOCKS                                                                                     \
    LF_heap, LF_hend, LF_abandoned, LF_heap_sz, LF_old_heap, LF_old_hend, LF_mbuf_sz, LF_psd,      \
        LF_dictionary, LF_arity, LF_arg_reg
#define ROOTS                                                                                      \
    LF_dictionary, LF_psd, LF_group_leader, LF_parent, LF_seq_token, LF_recv_marks,                \
        LF_def_arg_reg, LF_live_frag_end
#define TIES   LF_links, LF_monitors, LF_lt_monitors
#define QUEUES LF_sig_first, LF_sig_len, LF_sig_flags, LF_inq_first, LF_inq_len, LF_trace_flags

static const struct stillness always = {0, 0, {LF_id, LF_reds, LF_pc}};
static const struct stillness queues = {0, 0, {QUEUES}};
static const struct stillness still[] = {
    [ATTR_memory] = {NOT_SETTLED, 3, {BLOCKS, TIES, QUEUES}},
    [ATTR_total_heap_size] = {NOT_SETTLED, 3, {BLOCKS, QUEUES}},
    [ATTR_heap_size] = {0, 0, {LF_heap_sz}},
    [ATTR_stack_size] = {NOT_SETTLED, 1, {LF_hend, LF_stop}},
    [ATTR_message_queue_len] = {0, 2, {QUEUES}},
    [ATTR_reductions] = {0, 0, {0}},
    [ATTR_binary_memory] = {NOT_SETTLED, 1, {BINARIES}},
    [ATTR_binary_count] = {NOT_SETTLED, 1, {BINARIES}},
    [ATTR_link_count] = {NOT_SETTLED, 1, {TIES}},
    [ATTR_monitor_count] = {NOT_SETTLED, 1, {TIES}},
    [ATTR_monitored_by_count] = {NOT_SETTLED, 1, {TIES}},
    [ATTR_dictionary_size] = {NOT_SETTLED, 1, {LF_dictionary, LF_trace_flags}},
    [ATTR_catchlevel] = {0, 0, {LF_catches}},
    [ATTR_garbage_bytes] = {NOT_SETTLED, 3, {BINARIES, QUEUES, ROOTS}},
    [ATTR_bin_garbage] = {NOT_SETTLED, 3, {BINARIES, QUEUES, ROOTS}},
    [ATTR_bin_garbage_bytes] = {NOT_SETTLED, 3, {BINARIES, QUEUES, ROOTS}},
    [ATTR_bin_waste] = {NOT_SETTLED, 3, {BINARIES, QUEUES, ROOTS}},
    [ATTR_flat_size] = {NOT_SETTLED, 3, {BINARIES, QUEUES, ROOTS}},
    [ATTR_binary_unique] = {NOT_SETTLED, 3, {BINARIES, QUEUES}},
    [ATTR_binary_exclusive] = {NOT_SETTLED, 3, {BINARIES, QUEUES}},
    [ATTR_minor_gcs] = {0, 0, {LF_gen_gcs}},
    /* and active, or suspended */
    [ATTR_waits_for] = {NOT_SETTLED | 0x12000,
                        1,
                        {LF_heap, LF_htop, LF_hend, LF_stop, LF_old_heap, LF_old_htop, TIES}},
    [ATTR_waits_call] = {NOT_SETTLED | 0x12000,
                         1,
                         {LF_heap, LF_htop, LF_hend, LF_stop, LF_old_heap, LF_old_htop, TIES}},
    [ATTR_oldest_message] = {0, 0, {LF_sig_first}},
    [ATTR_stack] = {NOT_SETTLED, 1, {LF_stop, LF_hend}},
    [ATTR_origin] = {NOT_SETTLED,
                     1,
                     {LF_dictionary, LF_trace_flags, LF_heap, LF_htop, LF_old_heap, LF_old_htop,
                      LF_group_leader}},
};
_Static_assert(sizeof still / sizeof *still == ATTR_COUNT,
               "what must be still, for each attribute");

/* otp-internals: MAIN is 1; MSGQ, which protects the outer queue, is 2. */
static uint32_t locks(enum attr attr, bool waiting)
{
    return still[attr].lock | (waiting ? 2U : 0U);
}

static uint64_t sum_of(struct model *m, const struct stillness *s)
{
    uint64_t sum = 0;
    for (unsigned i = 0; s->fields[i] != 0; i++)
        sum = (sum ^ own(m, s->fields[i])) * 0x9E3779B97F4A7C15;
    return sum;
}

bool model_stamp(const struct vm *vm, enum attr attr, bool waiting, uint64_t proc, uint64_t *sum)
{
    struct model m = {.lay = vm->lay, .proc = proc};
    uint64_t state = own(&m, LF_state);
    uint64_t lock = own(&m, LF_lock);
    *sum = sum_of(&m, &always) + 3 * sum_of(&m, &still[attr]);
    if (waiting)
        *sum += 5 * sum_of(&m, &queues);
    refuse_if(&m, (state & (still[attr].state | DEAD)) || (lock & locks(attr, waiting)));
    return !m.refused;
}

enum opened model_open(const struct vm *vm, enum attr attr, bool waiting, size_t slot,
                       uint64_t proc)
{
    struct model m = {.lay = vm->lay, .proc = proc};
    uint64_t pid = own(&m, LF_id);
    uint64_t number = vm->lay->pid_slot_high ? pid >> 32 : pid >> 4;
    bool nobody = vm->lay->pid_slot_high ? (uint32_t)pid == 0xFFFFFFF3 : pid == 0xFFFFFFFFFFFFFFF3;
    (void)sum_of(&m, &always);
    (void)sum_of(&m, &still[attr]);
    if (waiting)
        (void)sum_of(&m, &queues);
    uint64_t state = own(&m, LF_state);
    uint64_t lock = own(&m, LF_lock);
    if (m.refused || (pid & 15) != 3 || number % vm->tab.max != slot || nobody || (state & DEAD))
        return OPEN_NOBODY;
    return (state & still[attr].state) || (lock & locks(attr, waiting)) ? OPEN_BUSY : OPEN_OK;
}

/* ---- links and monitors ---------------------------------------------------------------------- */

enum monitor_types {
    PROC = 0,
    TIME_OFFSET = 2,
    DIST_PROC,
    DIST_PORT,
    RESOURCE,
    SUSPEND = 8,
    ALIAS,
    LINK_PROC,
    LINK_PORT,
    LINK_DIST_PROC
};
enum flags { TARGET = 1, EXTENDED = 16, SPAWN_PENDING = 32 };

enum tied { LINKS, MONITORS, LT_MONITORS };

static uint64_t type_of(struct model *m, uint64_t node)
{
    return field(m, node, LF_node_type) & m->lay->type_mask;
}

enum { REMOTE_END = 1, UNCLEAR_END = 2 };

/* NULL: no reference. */
static const uint64_t *reference(uint64_t term)
{
    const uint64_t *at = memory_at(term & ~7ULL);
    bool is_ref = (term & 3) == 2 && at && memory_at((term & ~7ULL) + 16) &&
                  (*at >> 6 == 2 || *at >> 6 == 3) && (*at & 0x3F) == 0x10;
    return is_ref ? at : NULL;
}

static bool in_heap(struct model *m, uint64_t term)
{
    uint64_t at = term & ~7ULL;
    uint64_t top = own(m, LF_htop);
    uint64_t old_top = own(m, LF_old_htop);
    return (at >= own(m, LF_heap) && at < top && top - at >= 24) ||
           (at >= own(m, LF_old_heap) && at < old_top && old_top - at >= 24);
}

static void remember(uint64_t end, uint64_t *last, bool *some, bool *several)
{
    *several = *several || (*some && *last != end);
    *some = true;
    *last = end;
}

/* Of many pids or references the first eight count. */
static bool has_pid(const struct waited *w, uint64_t pid)
{
    unsigned pids = 0;
    for (unsigned i = 0; i < w->words; i++) {
        if ((w->word[i] & 15) == 3 && pids++ < 8 && w->word[i] == pid)
            return true;
    }
    return false;
}

static bool has_ref(struct model *m, const uint64_t *ref)
{
    const struct waited *w = &m->waited;
    unsigned refs = 0;
    for (unsigned i = 0; i < w->words; i++) {
        const uint64_t *held =
            (w->word[i] & 3) == 2 && in_heap(m, w->word[i]) ? reference(w->word[i]) : NULL;
        if (held && refs++ < 8 && held[1] == ref[1] && (uint32_t)held[2] == (uint32_t)ref[2])
            return true;
    }
    return false;
}

static void linked(struct model *m, uint64_t type, uint64_t node)
{
    struct waited *w = &m->waited;
    uint64_t pid = type == LINK_PROC ? word(m, node + LF(m->lay, node_other)) : 3;
    refuse_if(m, (pid & 15) != 3 ||
                     (type != LINK_PROC && type != LINK_PORT && type != LINK_DIST_PROC));
    if (!m->refused && type == LINK_PROC && has_pid(w, pid))
        remember(pid, &w->pid, &w->some_pid, &w->several_pids);
}

static void monitored(struct model *m, uint64_t type, uint64_t flags, uint64_t node)
{
    struct waited *w = &m->waited;
    refuse_if(m, type > ALIAS);
    if (m->refused || (flags & (TARGET | SPAWN_PENDING)) || (type != PROC && type != DIST_PROC))
        return;
    uint64_t end = word(m, node + LF(m->lay, node_other));
    const uint64_t *ref = reference(word(m, node + LF(m->lay, mon_ref)));
    refuse_if(m, field(m, node, LF_node_offset) != 0 || !ref || (type == PROC && (end & 15) != 3));
    if (m->refused)
        return;
    if (type == DIST_PROC)
        end = REMOTE_END;
    remember(end, &w->monitor, &w->some_monitor, &w->several_monitors);
    if (has_ref(m, ref)) {
        remember(end, &w->ref, &w->some_ref, &w->several_refs);
        w->call = ref[1];
    }
    if (type == PROC && has_pid(w, end))
        remember(end, &w->pid, &w->some_pid, &w->several_pids);
}

static uint64_t link_of(struct model *m, enum links_monitors_what what, uint64_t node)
{
    uint64_t type = type_of(m, node);
    if (what == LINKS_MONITORS_EACH) {
        linked(m, type, node);
        return 0;
    }
    refuse_if(m, type != LINK_PROC && type != LINK_PORT);
    if (what == LINKS_MONITORS_BYTES)
        return LF(m->lay, link_size);
    return word(m, node + LF(m->lay, link_unlinking)) == 0;
}

static uint64_t monitor_size(struct model *m, uint64_t node, uint64_t flags)
{
    uint64_t data = node - field(m, node, LF_node_offset);
    uint64_t refc = field(m, data, LF_mon_refc);
    uint64_t type = type_of(m, data);
    uint64_t size = LF(m->lay, mon_size);
    refuse_if(m, refc < 1 || refc > 2);
    if (type == ALIAS) {
        size = LF(m->lay, mon_alias_size);
    } else if (type == SUSPEND) {
        size = LF(m->lay, mon_suspend_size);
    } else if (flags & EXTENDED) {
        uint64_t ref = word(m, data + LF(m->lay, mon_ref));
        size = LF(m->lay, mon_ext_size) - 8;
        if ((ref & 3) != 3) {
            uint64_t header = word(m, ref & ~7ULL);
            refuse_if(m, (header & 3) != 0 || header >> 6 > 16);
            size += 8 * (1 + (header >> 6));
        }
    }
    return m->refused ? 0 : size / refc;
}

static uint64_t monitor_of(struct model *m, enum links_monitors_what what, uint64_t node)
{
    uint64_t type = type_of(m, node);
    uint64_t flags = field(m, node, LF_node_flags) >> m->lay->flags_shift;
    if (what == LINKS_MONITORS_EACH) {
        monitored(m, type, flags, node);
        return 0;
    }
    refuse_if(m, type > ALIAS);
    if (what == LINKS_MONITORS_MONITORS)
        return type <= DIST_PORT && !(flags & (TARGET | SPAWN_PENDING));
    if (what == LINKS_MONITORS_MONITORED_BY)
        return type <= RESOURCE && type != TIME_OFFSET && (flags & TARGET);
    refuse_if(m, type == DIST_PROC || type == DIST_PORT);
    return monitor_size(m, node, flags);
}

static uint64_t tie(struct model *m, enum links_monitors_what what, enum tied in, uint64_t node)
{
    refuse_if(m, ++m->steps > LINKS_MONITORS_MAX);
    (void)field(m, node, LF_node_offset);
    return in == LINKS ? link_of(m, what, node) : monitor_of(m, what, node);
}

/* waiting: the nodes to the right of the path to here, which a walker must remember. */
// NOLINTNEXTLINE(misc-no-recursion): as deep as the tree, which the model bounds
static uint64_t tree(struct model *m, enum links_monitors_what what, enum tied in, uint64_t node,
                     unsigned waiting)
{
    if (node == 0 || m->refused)
        return 0;
    uint64_t right = word(m, node + LF(m->lay, tree_right));
    uint64_t left = word(m, node + LF(m->lay, tree_left));
    refuse_if(m, waiting + (left != 0) + (right != 0) > LINKS_MONITORS_DEPTH);
    return tie(m, what, in, node) + tree(m, what, in, left, waiting + (right != 0)) +
           tree(m, what, in, right, waiting);
}

static uint64_t circle(struct model *m, enum links_monitors_what what, uint64_t first)
{
    uint64_t sum = 0;
    uint64_t node = first;
    while (node != 0 && !m->refused) {
        sum += tie(m, what, LT_MONITORS, node);
        node = word(m, node + LF(m->lay, list_next));
        if (node == first)
            break;
    }
    return sum;
}

static uint64_t ties(struct model *m, enum links_monitors_what what)
{
    uint64_t sum = 0;
    if (what == LINKS_MONITORS_LINKS || what >= LINKS_MONITORS_BYTES)
        sum += tree(m, what, LINKS, own(m, LF_links), 0);
    if (what != LINKS_MONITORS_LINKS)
        sum += tree(m, what, MONITORS, own(m, LF_monitors), 0);
    if (what == LINKS_MONITORS_MONITORED_BY || what == LINKS_MONITORS_BYTES)
        sum += circle(m, what, own(m, LF_lt_monitors));
    return sum;
}

static void read_frame(struct model *m)
{
    struct waited *w = &m->waited;
    uint64_t at = own(m, LF_stop);
    uint64_t end = own(m, LF_hend);
    refuse_if(m, at > end);
    while (!m->refused && w->words < AWAITED_FRAME && end - at >= 8) {
        w->word[w->words] = word(m, at);
        if ((w->word[w->words] & 3) == 0)
            return;
        w->words++;
        at += 8;
    }
}

static uint64_t waits_for(struct model *m, enum attr attr)
{
    const struct waited *w = &m->waited;
    bool holds = false;
    if (own(m, LF_pc) != MODEL_PLACE)
        return 0;
    read_frame(m);
    (void)ties(m, LINKS_MONITORS_EACH);
    for (unsigned i = 0; i < w->words; i++)
        holds = holds || (w->word[i] & 15) == 3 ||
                ((w->word[i] & 3) == 2 && in_heap(m, w->word[i]) && reference(w->word[i]));
    if (attr == ATTR_waits_call)
        return w->some_ref && !w->several_refs ? w->call : 0;
    if (w->some_ref)
        return w->several_refs ? UNCLEAR_END : w->ref;
    if (w->some_pid && !w->several_pids)
        return w->pid;
    if (!w->some_monitor)
        return 0;
    return w->several_monitors || holds ? UNCLEAR_END : w->monitor;
}

/* The number of different return addresses in a row, with the program counter. */
static uint64_t stack(struct model *m)
{
    uint64_t stop = own(m, LF_stop);
    uint64_t hend = own(m, LF_hend);
    uint64_t last = own(m, LF_pc);
    uint64_t n = 1;
    refuse_if(m, stop > hend);
    for (uint64_t at = stop; !m->refused && n < STACK_FRAMES_MAX && at < hend && hend - at >= 8;
         at += 8) {
        uint64_t address = word(m, at);
        refuse_if(m, at & 7);
        m->steps++;
        if ((address & 3) != 0 || (address >= stop && address <= hend) || address == last)
            continue;
        last = address;
        n++;
    }
    return n;
}

/* ---- messages -------------------------------------------------------------------------------- */

static uint64_t queue_len(struct model *m)
{
    uint64_t outer = own(m, LF_inq_first);
    uint64_t len = own(m, LF_sig_len) + own(m, LF_inq_len);
    refuse_if(m, in_buffers(m->lay, own(m, LF_state)));
    if (!m->lay->len_is_biased) {
        refuse_if(m, own(m, LF_state) & (MIDDLE_Q | SIG_IN_Q));
    } else {
        refuse_if(m, own(m, LF_sig_flags) & 0x40);
        if (outer != 0)
            refuse_if(m, (word(m, outer + LF(m->lay, msg_tag)) & 0x3FFF) == (0xFF << 6 | 0x30));
    }
    refuse_if(m, len > MESSAGES_MAX);
    return len;
}

struct queued {
    uint64_t bytes, words;
};

static void message(struct model *m, uint64_t at, bool inner, struct queued *sum)
{
    uint64_t tag = word(m, at + LF(m->lay, msg_tag));
    uint64_t attached = word(m, at + LF(m->lay, msg_attached));
    if ((tag & 0x3F) == 0x30) {
        refuse_if(m, !inner || (tag >> 6 & 0xFF) != 16);
        sum->bytes += LF(m->lay, marker_size);
        return;
    }
    refuse_if(m, tag == 0);
    sum->bytes += LF(m->lay, msg_size);
    uint64_t frag = attached == 1 ? at + LF(m->lay, msg_hfrag) : attached;
    while (frag != 0 && !m->refused) {
        refuse_if(m, ++m->steps > MESSAGES_MAX);
        sum->words += word(m, frag + LF(m->lay, frag_used));
        frag = word(m, frag + LF(m->lay, frag_next));
    }
}

static struct queued queued(struct model *m)
{
    struct queued sum = {0, 0};
    uint64_t before = m->steps;
    m->steps = 0;
    refuse_if(m, own(m, LF_trace_flags) != 0 || (own(m, LF_state) & MIDDLE_Q));
    refuse_if(m, in_buffers(m->lay, own(m, LF_state)));
    for (int inner = 1; inner >= 0; inner--) {
        uint64_t at = own(m, inner ? LF_sig_first : LF_inq_first);
        while (at != 0 && !m->refused) {
            refuse_if(m, ++m->steps > MESSAGES_MAX);
            message(m, at, inner, &sum);
            at = word(m, at + LF(m->lay, msg_next));
        }
    }
    m->steps += before;
    return sum;
}

/* ---- binaries -------------------------------------------------------------------------------- */

struct extent {
    uint64_t from, to;
};

struct chains {
    bool sizes;
    unsigned n;
    struct extent span[BLOCKS_MAX];
    uint64_t visited, visited_max;
    uint64_t count, bytes, unlisted;
};

static void add_span(struct model *m, struct chains *c, uint64_t from, uint64_t to)
{
    refuse_if(m, to < from || to - from > 8ULL << 44 || c->n == BLOCKS_MAX);
    if (m->refused)
        return;
    for (unsigned i = 0; i < c->n; i++) {
        if ((from < c->span[i].to && c->span[i].from < to) || from == c->span[i].from)
            m->doubtful = true;
    }
    c->span[c->n++] = (struct extent){from, to};
}

static bool inside(const struct chains *c, uint64_t p, uint64_t words)
{
    for (unsigned i = 0; i < c->n; i++) {
        if (p >= c->span[i].from && p < c->span[i].to && c->span[i].to - p >= words * 8)
            return true;
    }
    return false;
}

static void add_fragments(struct model *m, struct chains *c, uint64_t frag)
{
    while (frag != 0 && !m->refused) {
        uint64_t mem = frag + LF(m->lay, frag_mem);
        uint64_t used = word(m, frag + LF(m->lay, frag_used));
        refuse_if(m, used > 1ULL << 44 || ++m->steps > BLOCKS_MAX + 1);
        add_span(m, c, mem, mem + used * 8);
        frag = word(m, frag + LF(m->lay, frag_next));
    }
}

static void add_messages(struct model *m, struct chains *c, uint64_t at)
{
    while (at != 0 && !m->refused) {
        uint64_t attached = word(m, at + LF(m->lay, msg_attached));
        refuse_if(m, ++m->steps > BLOCKS_MAX + 1);
        add_fragments(m, c, attached == 1 ? at + LF(m->lay, msg_hfrag) : attached);
        at = word(m, at + LF(m->lay, msg_next));
    }
}

static void add_size(struct model *m, struct chains *c, uint64_t entry)
{
    uint64_t bin = word(m, entry + LF(m->lay, bin_ptr));
    refuse_if(m, bin == 0 || (bin & 7) || !inside(c, entry, LF(m->lay, bin_ptr) / 8 + 1));
    c->bytes += word(m, bin + LF(m->lay, bin_size));
}

static void chain(struct model *m, struct chains *c, uint64_t entry, bool listed)
{
    while (entry != 0 && !m->refused) {
        uint64_t object = word(m, entry);
        refuse_if(m, !inside(c, entry, 3) || (object & 3) != 0 || ++c->visited > c->visited_max);
        if (object == LF(m->lay, bin_thing)) {
            if (listed && c->sizes)
                add_size(m, c, entry);
            c->count += listed;
            c->unlisted += !listed;
        }
        entry = word(m, entry + LF(m->lay, oh_next));
    }
}

/* How many entries have room. A walker may count a little more, or stop at chains that lead into
 * each other. */
static uint64_t entries_max(const struct chains *c)
{
    uint64_t words = 0;
    for (unsigned i = 0; i < c->n; i++)
        words += (c->span[i].to - c->span[i].from) / 8;
    return words / 3 + c->n < ENTRIES_MAX ? words / 3 + c->n : ENTRIES_MAX;
}

static void binaries(struct model *m, struct chains *c)
{
    uint64_t mbuf = own(m, LF_mbuf);
    if (own(m, LF_off_heap) == 0 && own(m, LF_wrt_bins) == 0 && mbuf == 0)
        return;
    add_span(m, c, own(m, LF_heap), own(m, LF_htop));
    add_span(m, c, own(m, LF_old_heap), own(m, LF_old_htop));
    if (own(m, LF_abandoned) != 0) {
        struct block used;
        refuse_if(m, !fuzz_abandoned(m->lay, m->proc, &used) || ++m->steps > BLOCKS_MAX + 1);
        add_span(m, c, used.from, used.to);
    }
    add_fragments(m, c, mbuf);
    add_messages(m, c, own(m, LF_msg_frag));
    if (m->refused)
        return;
    c->visited_max = entries_max(c) + 1;
    chain(m, c, own(m, LF_off_heap), true);
    chain(m, c, own(m, LF_wrt_bins), m->lay->wrt_bins_listed);
    for (; mbuf != 0 && !m->refused; mbuf = word(m, mbuf + LF(m->lay, frag_next))) {
        refuse_if(m, ++c->visited > c->visited_max);
        chain(m, c, word(m, mbuf + LF(m->lay, frag_off_heap)), true);
    }
    m->doubtful = m->doubtful || c->visited >= c->visited_max;
    m->steps += c->visited;
}

/* ---- the attributes -------------------------------------------------------------------------- */

static uint64_t heap_words(struct model *m)
{
    uint64_t old = (own(m, LF_old_hend) - own(m, LF_old_heap)) / 8;
    return own(m, LF_heap_sz) + own(m, LF_mbuf_sz) + (own(m, LF_old_heap) == 0 ? 0 : old);
}

static uint64_t total_heap_size(struct model *m)
{
    uint64_t words = heap_words(m);
    return own(m, LF_sig_flags) & 2 ? words + queued(m).words : words;
}

static uint64_t memory(struct model *m)
{
    uint64_t bytes = LF(m->lay, proc_size) + 8 * heap_words(m) + ties(m, LINKS_MONITORS_BYTES);
    struct queued q = queued(m);
    uint64_t dictionary = own(m, LF_dictionary);
    if (own(m, LF_abandoned) != 0) /* the heap that has its place */
        bytes += (own(m, LF_hend) - own(m, LF_heap)) / 8 * 8;
    uint64_t psd = own(m, LF_psd);
    if (own(m, LF_arg_reg) != m->proc + LF(m->lay, def_arg_reg))
        bytes += 8 * own(m, LF_arity);
    if (psd != 0) {
        refuse_if(m, word(m, psd + LF(m->lay, psd_saved_calls)) != 0);
        bytes += LF(m->lay, psd_size);
    }
    if (dictionary != 0)
        bytes += LF(m->lay, dict_head) + 8 * field(m, dictionary, LF_dict_array);
    return bytes + q.bytes + 8 * q.words;
}

static uint64_t dictionary_size(struct model *m)
{
    uint64_t dictionary = own(m, LF_dictionary);
    refuse_if(m, own(m, LF_trace_flags) != 0);
    return dictionary == 0 ? 0 : word(m, dictionary + LF(m->lay, dict_count));
}

static bool queues_empty(struct model *m)
{
    uint64_t state = own(m, LF_state);
    return own(m, LF_sig_first) == 0 && own(m, LF_inq_first) == 0 && !(state & MIDDLE_Q) &&
           !in_buffers(m->lay, state);
}

static uint64_t value_of(struct model *m, enum attr attr, struct chains *c)
{
    switch (attr) {
    case ATTR_memory:
        return memory(m);
    case ATTR_total_heap_size:
        return total_heap_size(m);
    case ATTR_heap_size:
        return own(m, LF_heap_sz);
    case ATTR_stack_size:
        return (own(m, LF_hend) - own(m, LF_stop)) / 8;
    case ATTR_message_queue_len:
        return queue_len(m);
    case ATTR_reductions:
        return own(m, LF_reds);
    case ATTR_catchlevel:
        return own(m, LF_catches);
    case ATTR_minor_gcs:
        return own(m, LF_gen_gcs);
    case ATTR_oldest_message:
        return own(m, LF_sig_first) * 11400714819323198485ULL >> 32;
    case ATTR_binary_memory:
    case ATTR_binary_count:
        c->sizes = attr == ATTR_binary_memory;
        binaries(m, c);
        return c->sizes ? c->bytes : c->count;
    case ATTR_link_count:
        return ties(m, LINKS_MONITORS_LINKS);
    case ATTR_monitor_count:
        return ties(m, LINKS_MONITORS_MONITORS);
    case ATTR_monitored_by_count:
        return ties(m, LINKS_MONITORS_MONITORED_BY);
    case ATTR_dictionary_size:
        return dictionary_size(m);
    case ATTR_waits_for:
    case ATTR_waits_call:
        return waits_for(m, attr);
    case ATTR_stack:
        return stack(m);
    default:
        fuzz_fail("no model of this attribute", "");
    }
}

static struct verdict flat_size(const struct vm *vm, uint64_t proc)
{
    unsigned all =
        ROOT_SIZE_STACK | ROOT_SIZE_REGISTERS | ROOT_SIZE_DICTIONARY | ROOT_SIZE_MESSAGES;
    struct sizes s = model_flat(vm, proc, all, 0, ATTR_WORDS_MAX);
    struct verdict v = {ANY, (int64_t)s.words, false, 4ULL * ATTR_WORDS_MAX};
    if (!s.crowded) /* else a walker may have too much to remember */
        v.kind = s.kind;
    return v;
}

struct verdict model_answer(const struct vm *vm, enum attr attr, bool waiting, uint64_t proc)
{
    struct model m = {.lay = vm->lay, .proc = proc};
    struct chains c = {.n = 0};
    struct origin key;
    if (attr == ATTR_origin)
        return model_origin(vm, proc, &key);
    if (fuzz_is_waste(attr))
        return model_waste(vm, attr, proc);
    if (attr == ATTR_flat_size)
        return flat_size(vm, proc);
    if (attr == ATTR_binary_unique || attr == ATTR_binary_exclusive)
        return model_hold(vm, attr, proc);
    uint64_t value = value_of(&m, attr, &c);
    struct verdict v = {m.refused    ? REFUSED
                        : m.doubtful ? MAY
                                     : MUST,
                        (int64_t)value, false, m.steps};
    v.clean = waiting && c.count + c.unlisted == 0 && queues_empty(&m);
    return v;
}
