/* attr.c: what can be asked of one process, and how the answer is put together.
 * Knows: which fields and walks make up each attribute, as process_info computes it.
 * Does not know: how processes are found, or what happens to the answers. */
#include "scan/attr.h"

#include "util/alloc.h"
#include "heap/root_size.h"

#include <assert.h>

/* What each question reads besides the run detectors of stamp.c. */
static const enum layout_field none[] = {LAYOUT_FIELD_COUNT};
static const enum layout_field heap_size[] = {LF_heap_sz, LAYOUT_FIELD_COUNT};
static const enum layout_field stack_size[] = {LF_hend, LF_stop, LAYOUT_FIELD_COUNT};
static const enum layout_field dictionary[] = {LF_dictionary, LF_trace_flags, LAYOUT_FIELD_COUNT};
static const enum layout_field heaps[] = {
    LF_heap, LF_hend,       LF_heap_sz, LF_old_heap, LF_old_hend,       LF_mbuf_sz,
    LF_psd,  LF_dictionary, LF_arity,   LF_arg_reg,  LAYOUT_FIELD_COUNT};

struct recipe {
    bool one_word;
    bool settled;
    const enum layout_field *fields[4];
};

/* As marking_fields has them. */
#define MARKED offheap_fields, queue_fields, roots_fields

static const struct recipe recipes[ATTR_COUNT] = {
    [ATTR_memory] = {false, true, {heaps, links_monitors_fields, queue_fields}},
    [ATTR_total_heap_size] = {false, true, {heaps, queue_fields}},
    [ATTR_heap_size] = {true, false, {heap_size}},
    [ATTR_stack_size] = {false, true, {stack_size}},
    /* the counters are right also while the process runs; only the queue's lock matters */
    [ATTR_message_queue_len] = {false, false, {queue_fields}},
    [ATTR_reductions] = {true, false, {none}},
    [ATTR_binary_memory] = {false, true, {offheap_fields}},
    [ATTR_binary_count] = {false, true, {offheap_fields}},
    [ATTR_link_count] = {false, true, {links_monitors_fields}},
    [ATTR_monitor_count] = {false, true, {links_monitors_fields}},
    [ATTR_monitored_by_count] = {false, true, {links_monitors_fields}},
    [ATTR_dictionary_size] = {false, true, {dictionary}},
    [ATTR_garbage_bytes] = {false, true, {MARKED}},
    [ATTR_bin_garbage] = {false, true, {MARKED}},
    [ATTR_bin_garbage_bytes] = {false, true, {MARKED}},
    [ATTR_bin_waste] = {false, true, {MARKED}},
    [ATTR_flat_size] = {false, true, {MARKED}},
    [ATTR_binary_unique] = {false, true, {held_binaries_fields, queue_fields}},
    [ATTR_binary_exclusive] = {false, true, {held_binaries_fields, queue_fields}},
    [ATTR_binary_proportional] = {false, true, {held_binaries_fields, queue_fields}},
};

static unsigned append(enum layout_field *all, unsigned n, const enum layout_field *fields)
{
    for (; *fields != LAYOUT_FIELD_COUNT; fields++)
        all[n++] = *fields;
    all[n] = LAYOUT_FIELD_COUNT;
    return n;
}

void question_make(struct question *q, const struct layout *lay, enum attr attr, bool waiting)
{
    enum layout_field all[LAYOUT_FIELD_COUNT * 2];
    unsigned n = append(all, 0, none);
    const struct recipe *r = &recipes[attr];
    for (unsigned i = 0; r->fields[i]; i++)
        n = append(all, n, r->fields[i]);
    if (waiting)
        (void)append(all, n, queue_fields);
    *q = (struct question){
        .attr = attr, .one_word = r->one_word, .waiting = waiting, .max_words = ATTR_WORDS_MAX};
    if (r->one_word)
        plan_make(&q->plan, lay, 0, 0, all);
    else if (r->settled)
        plan_make(&q->plan, lay, STATE_UNSETTLED, LOCK_MAIN, all);
    else
        plan_make(&q->plan, lay, 0, LOCK_MSGQ, all);
}

/* ---- memory and total_heap_size ------------------------------------------------------------ */

/* Until the closing stamp is compared, any number may be nonsense: sums wrap, they do not overflow. */
static void add(struct walk *w, uint64_t n)
{
    w->value = (int64_t)((uint64_t)w->value + n);
}

static enum status dictionary_bytes(struct walk *w, const struct reading *rd)
{
    uint64_t dict = stamp_word(rd, LF_dictionary);
    uint64_t slots;
    if (dict == 0)
        return ST_OK;
    if (!peek_word(rd->vm->reader, dict + LF(rd->vm->lay, dict_array), &slots))
        return ST_TORN;
    add(w, LF(rd->vm->lay, dict_head) + 8 * (slots & 0xFFFFFFFF));
    return ST_OK;
}

static enum status psd_bytes(struct walk *w, const struct reading *rd)
{
    uint64_t psd = stamp_word(rd, LF_psd);
    uint64_t saved_calls;
    if (psd == 0)
        return ST_OK;
    if (!peek_word(rd->vm->reader, psd + LF(rd->vm->lay, psd_saved_calls), &saved_calls))
        return ST_TORN;
    add(w, LF(rd->vm->lay, psd_size));
    return saved_calls == 0 ? ST_OK : ST_ASK; /* a debugging aid of one process in a million */
}

/* Words of the blocks; the messages come later. */
static enum status block_words(const struct reading *rd, uint64_t *words)
{
    uint64_t young = (stamp_word(rd, LF_hend) - stamp_word(rd, LF_heap)) / 8;
    uint64_t old = (stamp_word(rd, LF_old_hend) - stamp_word(rd, LF_old_heap)) / 8;
    /* they differ only while collection is delayed and the heap is a fragment meanwhile */
    if (young != stamp_word(rd, LF_heap_sz))
        return ST_ASK;
    *words = young + stamp_word(rd, LF_mbuf_sz) + (stamp_word(rd, LF_old_heap) != 0 ? old : 0);
    return ST_OK;
}

static enum status fixed_bytes(struct walk *w, const struct reading *rd)
{
    uint64_t words = 0;
    enum status st = block_words(rd, &words);
    add(w, LF(rd->vm->lay, proc_size) + 8 * words);
    if (stamp_word(rd, LF_arg_reg) != w->view.proc + LF(rd->vm->lay, def_arg_reg))
        add(w, 8 * stamp_field(rd, LF_arity));
    if (st == ST_OK)
        st = psd_bytes(w, rd);
    return st == ST_OK ? dictionary_bytes(w, rd) : st;
}

enum stages { START, TIES, QUEUE, DONE };

static enum status go_memory(struct walk *w, const struct reading *rd)
{
    enum status st = ST_OK;
    if (w->stage == START) {
        st = fixed_bytes(w, rd);
        links_monitors_start(&w->u.ties, LINKS_MONITORS_BYTES);
        w->stage = TIES;
    }
    if (st == ST_OK && w->stage == TIES) {
        st = links_monitors_walk(&w->u.ties, rd);
        if (st == ST_OK) {
            add(w, w->u.ties.sum);
            queue_start(&w->u.queue, rd);
            w->stage = QUEUE;
        }
    }
    if (st == ST_OK && w->stage == QUEUE) {
        st = queue_walk(&w->u.queue, rd);
        if (st == ST_OK) {
            add(w, w->u.queue.struct_bytes + 8 * w->u.queue.attached_words);
            w->stage = DONE;
        }
    }
    return st;
}

enum { FLAG_ON_HEAP_MSGQ = 2 }; /* sig_qs.flags */

static enum status go_total_heap_size(struct walk *w, const struct reading *rd)
{
    enum status st = ST_OK;
    if (w->stage == START) {
        uint64_t words = 0;
        st = block_words(rd, &words);
        add(w, words);
        queue_start(&w->u.queue, rd);
        w->stage = QUEUE;
    }
    if (st == ST_OK && w->stage == QUEUE && (stamp_field(rd, LF_sig_flags) & FLAG_ON_HEAP_MSGQ)) {
        st = queue_walk(&w->u.queue, rd);
        if (st == ST_OK)
            add(w, w->u.queue.attached_words);
    }
    return st;
}

/* ---- the others ---------------------------------------------------------------------------- */

static enum status go_binaries(struct walk *w, const struct question *q, const struct reading *rd)
{
    struct offheap *o = &w->u.offheap;
    enum status st = offheap_walk(o, rd);
    w->value = (int64_t)o->count;
    w->clean = q->waiting && o->count + o->unlisted == 0 && queue_is_empty(rd);
    return st;
}

static enum status go_ties(struct walk *w, const struct reading *rd)
{
    enum status st = links_monitors_walk(&w->u.ties, rd);
    w->value = (int64_t)w->u.ties.sum;
    return st;
}

static enum status go_queue_len(struct walk *w, const struct reading *rd)
{
    uint64_t length = 0;
    enum status st = queue_length(rd, &length);
    w->value = (int64_t)length;
    return st;
}

static enum status go_dictionary(struct walk *w, const struct reading *rd)
{
    uint64_t dict = stamp_word(rd, LF_dictionary);
    uint64_t keys = 0;
    /* process_info shows nothing of a process that is flagged sensitive */
    if (stamp_field(rd, LF_trace_flags) != 0)
        return ST_ASK;
    if (dict != 0 && !peek_word(rd->vm->reader, dict + LF(rd->vm->lay, dict_count), &keys))
        return ST_TORN;
    w->value = (int64_t)keys;
    return ST_OK;
}

/* Of a mark; no other question. */
static bool is_waste(enum attr attr)
{
    return attr >= ATTR_garbage_bytes && attr <= ATTR_bin_waste;
}

static enum waste_what waste_of(enum attr attr)
{
    switch (attr) {
    case ATTR_garbage_bytes:
        return WASTE_HEAP;
    case ATTR_bin_garbage:
        return WASTE_ENTRIES;
    case ATTR_bin_garbage_bytes:
        return WASTE_ENTRY_BYTES;
    default:
        return WASTE_UNSEEN;
    }
}

/* Most processes have no binaries, and a mark is large: it is made only where there is something. */
static enum status go_waste(struct walk *w, const struct question *q, const struct reading *rd)
{
    enum waste_what what = waste_of(q->attr);
    if (!w->u.waste) {
        if (waste_is_none(what, rd))
            return ST_OK;
        w->u.waste = sonde_alloc(sizeof *w->u.waste);
        if (!w->u.waste)
            return ST_NOMEM;
        waste_start(w->u.waste, rd, what, q->max_words);
    }
    enum status st = waste_walk(w->u.waste, rd);
    w->value = (int64_t)w->u.waste->value;
    return st;
}

static void end_waste(struct walk *w)
{
    if (w->u.waste)
        waste_end(w->u.waste);
    sonde_free(w->u.waste);
    w->u.waste = NULL;
}

/* Words of all terms in stack, registers, dictionary and messages. */
static enum status go_flat(struct walk *w, const struct question *q, const struct reading *rd)
{
    const struct look_args all = {.want = ROOT_SIZE_STACK | ROOT_SIZE_REGISTERS |
                                          ROOT_SIZE_DICTIONARY | ROOT_SIZE_MESSAGES,
                                  .max_words = q->max_words};
    if (!w->u.flat) {
        w->u.flat = sonde_alloc(sizeof *w->u.flat);
        if (!w->u.flat)
            return ST_NOMEM;
        root_size_walker.start(w->u.flat, rd, &all);
    }
    enum status st = root_size_walker.walk(w->u.flat, rd);
    w->value = (int64_t)w->u.flat->measure.sum.words;
    return st;
}

/* Of what it holds; the last ones. */
static bool is_hold(enum attr attr)
{
    return attr >= ATTR_binary_unique;
}

static enum held_binaries_what hold_of(const struct question *q)
{
    if (q->attr == ATTR_binary_unique && q->account)
        return HELD_ALL;
    switch (q->attr) {
    case ATTR_binary_unique:
        return HELD_UNIQUE;
    case ATTR_binary_exclusive:
        return HELD_EXCLUSIVE;
    default:
        return HELD_SHARE;
    }
}

/* Most processes have no binaries. */
static enum status go_hold(struct walk *w, const struct question *q, const struct reading *rd)
{
    if (q->attr == ATTR_binary_proportional && !q->account)
        return ST_ASK; /* nobody knows who else holds what */
    if (!w->u.hold) {
        if (held_binaries_is_none(rd))
            return ST_OK;
        w->u.hold = sonde_alloc(sizeof *w->u.hold);
        if (!w->u.hold)
            return ST_NOMEM;
        held_binaries_start(w->u.hold, rd, hold_of(q), q->account);
    }
    enum status st = held_binaries_walk(w->u.hold, rd);
    w->value = (int64_t)w->u.hold->value;
    return st;
}

static void end_hold(struct walk *w)
{
    if (w->u.hold)
        held_binaries_end(w->u.hold);
    sonde_free(w->u.hold);
    w->u.hold = NULL;
}

static void end_flat(struct walk *w)
{
    if (w->u.flat)
        root_size_walker.end(w->u.flat);
    sonde_free(w->u.flat);
    w->u.flat = NULL;
}

void walk_start(struct walk *w, const struct vm *vm, const struct question *q)
{
    const struct reading rd = {vm, &q->plan, &w->view, NULL};
    w->stage = START;
    w->value = 0;
    w->clean = false;
    switch (q->attr) {
    case ATTR_binary_memory:
    case ATTR_binary_count:
        offheap_start(&w->u.offheap, &rd, q->attr == ATTR_binary_memory);
        break;
    case ATTR_link_count:
        links_monitors_start(&w->u.ties, LINKS_MONITORS_LINKS);
        break;
    case ATTR_monitor_count:
        links_monitors_start(&w->u.ties, LINKS_MONITORS_MONITORS);
        break;
    case ATTR_monitored_by_count:
        links_monitors_start(&w->u.ties, LINKS_MONITORS_MONITORED_BY);
        break;
    case ATTR_flat_size:
        w->u.flat = NULL;
        break;
    case ATTR_binary_unique:
    case ATTR_binary_exclusive:
    case ATTR_binary_proportional:
        w->u.hold = NULL;
        break;
    default:
        w->u.waste = NULL;
        break;
    }
}

static void ask_for(const struct reading *rd, const enum layout_field *fields)
{
    for (; *fields != LAYOUT_FIELD_COUNT; fields++) {
        uint64_t at = stamp_word(rd, *fields);
        if (at != 0)
            peek_prefetch((uintptr_t)at);
    }
}

void walk_prefetch(const struct walk *w, const struct question *q)
{
    static const enum layout_field memory[] = {LF_links, LF_monitors, LF_sig_first, LF_dictionary,
                                               LAYOUT_FIELD_COUNT};
    static const enum layout_field keys[] = {LF_dictionary, LAYOUT_FIELD_COUNT};
    static const enum layout_field marked[] = {LF_stop, LF_dictionary, LAYOUT_FIELD_COUNT};
    static const enum layout_field *const first[ATTR_COUNT] = {
        [ATTR_memory] = memory,
        [ATTR_link_count] = links_monitors_fields,
        [ATTR_monitor_count] = links_monitors_fields,
        [ATTR_monitored_by_count] = links_monitors_fields,
        [ATTR_dictionary_size] = keys,
        [ATTR_garbage_bytes] = marked,
        [ATTR_bin_garbage] = marked,
        [ATTR_bin_garbage_bytes] = marked,
        [ATTR_bin_waste] = marked,
    };
    const struct reading rd = {.plan = &q->plan, .view = &w->view};
    if (first[q->attr])
        ask_for(&rd, first[q->attr]);
    if (q->attr == ATTR_binary_memory || q->attr == ATTR_binary_count ||
        (is_waste(q->attr) && q->attr != ATTR_garbage_bytes) || is_hold(q->attr))
        offheap_prefetch(stamp_word(&rd, LF_off_heap));
}

enum status walk_go(struct walk *w, const struct vm *vm, const struct question *q, struct budget *b)
{
    const struct reading rd = {vm, &q->plan, &w->view, b};
    switch (q->attr) {
    case ATTR_memory:
        return go_memory(w, &rd);
    case ATTR_total_heap_size:
        return go_total_heap_size(w, &rd);
    case ATTR_heap_size:
        w->value = (int64_t)stamp_word(&rd, LF_heap_sz);
        return ST_OK;
    case ATTR_stack_size:
        w->value = (int64_t)((stamp_word(&rd, LF_hend) - stamp_word(&rd, LF_stop)) / 8);
        return ST_OK;
    case ATTR_message_queue_len:
        return go_queue_len(w, &rd);
    case ATTR_reductions:
        w->value = (int64_t)stamp_word(&rd, LF_reds);
        return ST_OK;
    case ATTR_binary_memory:
    case ATTR_binary_count:
        return go_binaries(w, q, &rd);
    case ATTR_dictionary_size:
        return go_dictionary(w, &rd);
    case ATTR_garbage_bytes:
    case ATTR_bin_garbage:
    case ATTR_bin_garbage_bytes:
    case ATTR_bin_waste:
        return go_waste(w, q, &rd);
    case ATTR_flat_size:
        return go_flat(w, q, &rd);
    case ATTR_binary_unique:
    case ATTR_binary_exclusive:
    case ATTR_binary_proportional:
        return go_hold(w, q, &rd);
    default:
        return go_ties(w, &rd);
    }
}

enum status walk_finish(struct walk *w, const struct vm *vm, const struct question *q)
{
    if (q->attr != ATTR_binary_memory)
        return ST_OK;
    enum status st = offheap_finish(&w->u.offheap, vm);
    w->value = (int64_t)w->u.offheap.bytes;
    return st;
}

enum status walk_close(const struct walk *w, const struct vm *vm, const struct question *q)
{
    const struct reading rd = {vm, &q->plan, &w->view, NULL};
    uint64_t proc;
    if (!q->one_word)
        return stamp_close(&rd);
    return peek_word(vm->reader, vm->tab.tab + w->view.slot * 8, &proc) && proc == w->view.proc
               ? ST_OK
               : ST_GONE;
}

void walk_end(struct walk *w, const struct question *q)
{
    if (q->attr == ATTR_binary_memory || q->attr == ATTR_binary_count)
        offheap_end(&w->u.offheap);
    if (is_waste(q->attr))
        end_waste(w);
    if (q->attr == ATTR_flat_size)
        end_flat(w);
    if (is_hold(q->attr))
        end_hold(w);
}
