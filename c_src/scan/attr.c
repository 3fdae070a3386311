/* attr.c: what can be asked of one process, and how the answer is put together.
 * Knows: which fields and walks make up each attribute, as process_info computes it.
 * Does not know: how processes are found, or what happens to the answers. */
#include "scan/attr.h"

#include "util/alloc.h"
#include "heap/root_size.h"

#include <assert.h>
#include <string.h>

/* What a process must be while an attribute is read. */
enum stamp_kind {
    SETTLED,    /* its heap does not change */
    WAITING,    /* the same, and it waits: process_info's status */
    QUEUE_LOCK, /* nothing comes into its outer queue; it may run */
    ONE_WORD    /* anything: one load is a moment's truth */
};

/* How one attribute is read; NULL: there is nothing to do. */
struct attribute {
    enum stamp_kind stamp;
    int what;                           /* which of the numbers that the walker can count */
    const enum layout_field *fields[4]; /* besides the run detectors of stamp.c */
    void (*start)(struct walk *w, const struct reading *rd);
    enum status (*go)(struct walk *w, const struct reading *rd);
    enum status (*finish)(struct walk *w, const struct vm *vm);
    void (*end)(struct walk *w);
    const enum layout_field *first; /* where they point is asked for before the walk */
};

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
static uint64_t block_words(const struct reading *rd)
{
    uint64_t old = (stamp_word(rd, LF_old_hend) - stamp_word(rd, LF_old_heap)) / 8;
    return stamp_word(rd, LF_heap_sz) + stamp_word(rd, LF_mbuf_sz) +
           (stamp_word(rd, LF_old_heap) != 0 ? old : 0);
}

/* Words of a fragment that serves as the heap, which total_heap_size does not count. */
static uint64_t more_words(const struct reading *rd)
{
    return fragments_have_heap(rd) ? (stamp_word(rd, LF_hend) - stamp_word(rd, LF_heap)) / 8 : 0;
}

static enum status fixed_bytes(struct walk *w, const struct reading *rd)
{
    add(w, LF(rd->vm->lay, proc_size) + 8 * (block_words(rd) + more_words(rd)));
    if (stamp_word(rd, LF_arg_reg) != rd->view->proc + LF(rd->vm->lay, def_arg_reg))
        add(w, 8 * stamp_field(rd, LF_arity));
    enum status st = psd_bytes(w, rd);
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
        add(w, block_words(rd));
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

enum binaries_what { BINARY_COUNT, BINARY_BYTES };

static void start_binaries(struct walk *w, const struct reading *rd)
{
    offheap_start(&w->u.offheap, rd, w->q->row->what == BINARY_BYTES);
}

static enum status go_binaries(struct walk *w, const struct reading *rd)
{
    struct offheap *o = &w->u.offheap;
    enum status st = offheap_walk(o, rd);
    w->value = (int64_t)o->count;
    w->clean = w->q->waiting && o->count + o->unlisted == 0 && queue_is_empty(rd);
    return st;
}

static enum status finish_binary_memory(struct walk *w, const struct vm *vm)
{
    enum status st = offheap_finish(&w->u.offheap, vm);
    w->value = (int64_t)w->u.offheap.bytes;
    return st;
}

static void end_binaries(struct walk *w)
{
    offheap_end(&w->u.offheap);
}

static void start_ties(struct walk *w, const struct reading *rd)
{
    (void)rd;
    links_monitors_start(&w->u.ties, (enum links_monitors_what)w->q->row->what);
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

static enum status go_heap_size(struct walk *w, const struct reading *rd)
{
    w->value = (int64_t)stamp_word(rd, LF_heap_sz);
    return ST_OK;
}

static enum status go_stack_size(struct walk *w, const struct reading *rd)
{
    w->value = (int64_t)((stamp_word(rd, LF_hend) - stamp_word(rd, LF_stop)) / 8);
    return ST_OK;
}

static enum status go_reductions(struct walk *w, const struct reading *rd)
{
    w->value = (int64_t)stamp_word(rd, LF_reds);
    return ST_OK;
}

static enum status go_catchlevel(struct walk *w, const struct reading *rd)
{
    w->value = (int64_t)stamp_word(rd, LF_catches);
    return ST_OK;
}

static enum status go_minor_gcs(struct walk *w, const struct reading *rd)
{
    w->value = (int64_t)stamp_field(rd, LF_gen_gcs);
    return ST_OK;
}

/* A number for what is at the head of the inner queue: a message, which stays there until it is received, or a
 * mark of a receive; 0: there is nothing. No address leaves the library. */
static enum status go_oldest_message(struct walk *w, const struct reading *rd)
{
    w->value = (int64_t)(stamp_word(rd, LF_sig_first) * 0x9E3779B97F4A7C15ULL >> 32);
    return ST_OK;
}

/* The room stays for the next process, because threads that are no schedulers share one allocator of the
 * VM, behind a lock. */
static void *room(struct walk *w, size_t size)
{
    if (!w->room)
        w->room = sonde_alloc(size);
    return w->room;
}

enum awaited_what { AWAITED_WHOM, AWAITED_CALL };

static bool at_a_place(const struct question *q, const struct reading *rd)
{
    uint64_t pc = stamp_word(rd, LF_pc);
    for (unsigned i = 0; q->places && i < q->places->n; i++) {
        if (pc >= q->places->at[i].from && pc < q->places->at[i].to)
            return true;
    }
    return false;
}

/* In a function whose name can be read: if that were a place, it would be known. */
static bool is_elsewhere(const struct question *q, const struct reading *rd)
{
    const struct vm *vm = rd->vm;
    struct mfa mfa;
    struct atom_text text;
    if (!q->places || !q->places->some_unread)
        return true;
    enum code_found found = code_look(vm->reader, &vm->code, stamp_word(rd, LF_pc), &mfa, NULL);
    return found == CODE_NONE ||
           (found == CODE_FOUND && atom_table_text(vm->reader, &vm->atoms, mfa.module, &text) &&
            atom_table_text(vm->reader, &vm->atoms, mfa.function, &text));
}

/* A process at another place is not walked. */
static enum status go_awaited(struct walk *w, const struct reading *rd)
{
    if (!w->u.awaited) {
        if (!at_a_place(w->q, rd))
            return is_elsewhere(w->q, rd) ? ST_OK : ST_ASK;
        w->u.awaited = room(w, sizeof *w->u.awaited);
        if (!w->u.awaited)
            return ST_NOMEM;
        awaited_start(w->u.awaited);
    }
    enum status st = awaited_walk(w->u.awaited, rd);
    w->value = (int64_t)(w->q->row->what == AWAITED_CALL ? awaited_call(w->u.awaited)
                                                         : awaited_answer(w->u.awaited));
    return st;
}

/* The number of frames; the frames themselves stay in the room. */
static enum status go_stack(struct walk *w, const struct reading *rd)
{
    if (!w->u.stack) {
        w->u.stack = room(w, sizeof *w->u.stack);
        if (!w->u.stack)
            return ST_NOMEM;
        stack_frames_start(w->u.stack, rd, w->q->max_words);
    }
    enum status st = stack_frames_walk(w->u.stack, rd);
    w->value = w->u.stack->n;
    return st;
}

/* The words themselves stay in the walk. */
static enum status go_origin(struct walk *w, const struct reading *rd)
{
    return origin_read(rd, &w->u.origin);
}

/* Most processes have no binaries, and a mark is large: it is made only where there is something. */
static enum status go_waste(struct walk *w, const struct reading *rd)
{
    if (!w->u.waste) {
        memset(w->waste, 0, sizeof w->waste);
        if (waste_is_none(w->q->waste, rd))
            return ST_OK;
        w->u.waste = room(w, sizeof *w->u.waste);
        if (!w->u.waste)
            return ST_NOMEM;
        waste_start(w->u.waste, rd, w->q->waste, w->q->max_words);
    }
    enum status st = waste_walk(w->u.waste, rd);
    for (unsigned i = 0; i < WASTE_TOGETHER && st == ST_OK; i++)
        w->waste[i] = (int64_t)waste_value(w->u.waste, 1U << i);
    w->value = walk_value(w, w->q);
    return st;
}

int64_t walk_value(const struct walk *w, const struct question *q)
{
    return q->row->go == go_waste ? w->waste[__builtin_ctz((unsigned)q->row->what)] : w->value;
}

static void end_waste(struct walk *w)
{
    while (w->u.waste && !waste_end(w->u.waste)) {
    }
    w->u.waste = NULL;
}

/* Words of all terms in stack, registers, dictionary and messages. */
static enum status go_flat(struct walk *w, const struct reading *rd)
{
    const struct look_args all = {.want = ROOT_SIZE_STACK | ROOT_SIZE_REGISTERS |
                                          ROOT_SIZE_DICTIONARY | ROOT_SIZE_MESSAGES,
                                  .max_words = w->q->max_words};
    if (!w->u.flat) {
        w->u.flat = room(w, sizeof *w->u.flat);
        if (!w->u.flat)
            return ST_NOMEM;
        root_size_walker.start(w->u.flat, rd, &all);
    }
    enum status st = root_size_walker.walk(w->u.flat, rd);
    w->value = (int64_t)w->u.flat->measure.sum.words;
    return st;
}

static void end_flat(struct walk *w)
{
    while (w->u.flat && !root_size_walker.end(w->u.flat)) {
    }
    w->u.flat = NULL;
}

/* Most processes have no binaries. */
static enum status go_hold(struct walk *w, const struct reading *rd)
{
    enum held_binaries_what what = (enum held_binaries_what)w->q->row->what;
    if (w->q->each)
        what = HELD_ALL;
    if (!w->u.hold) {
        if (held_binaries_is_none(rd))
            return ST_OK;
        w->u.hold = room(w, sizeof *w->u.hold);
        if (!w->u.hold)
            return ST_NOMEM;
        held_binaries_start(w->u.hold, rd, what);
    }
    enum status st = held_binaries_walk(w->u.hold, rd);
    w->value = (int64_t)w->u.hold->value;
    return st;
}

static void end_hold(struct walk *w)
{
    if (w->u.hold)
        held_binaries_end(w->u.hold);
    w->u.hold = NULL;
}

/* ---- which attribute is read how ------------------------------------------------------------- */

static const enum layout_field heap_size[] = {LF_heap_sz, LAYOUT_FIELD_COUNT};
static const enum layout_field reductions[] = {LF_reds, LAYOUT_FIELD_COUNT};
static const enum layout_field catchlevel[] = {LF_catches, LAYOUT_FIELD_COUNT};
static const enum layout_field minor_gcs[] = {LF_gen_gcs, LAYOUT_FIELD_COUNT};
static const enum layout_field oldest_message[] = {LF_sig_first, LAYOUT_FIELD_COUNT};
static const enum layout_field stack_size[] = {LF_hend, LF_stop, LAYOUT_FIELD_COUNT};
static const enum layout_field dictionary[] = {LF_dictionary, LF_trace_flags, LAYOUT_FIELD_COUNT};
static const enum layout_field heaps[] = {
    LF_heap,    LF_hend, LF_abandoned,  LF_heap_sz, LF_old_heap, LF_old_hend,
    LF_mbuf_sz, LF_psd,  LF_dictionary, LF_arity,   LF_arg_reg,  LAYOUT_FIELD_COUNT};

/* What is asked for first. */
static const enum layout_field first_chain[] = {LF_off_heap, LAYOUT_FIELD_COUNT};
static const enum layout_field first_keys[] = {LF_dictionary, LAYOUT_FIELD_COUNT};
static const enum layout_field first_stack[] = {LF_stop, LAYOUT_FIELD_COUNT};
static const enum layout_field first_marked[] = {LF_stop, LF_dictionary, LAYOUT_FIELD_COUNT};
static const enum layout_field first_marked_chain[] = {LF_stop, LF_dictionary, LF_off_heap,
                                                       LAYOUT_FIELD_COUNT};
static const enum layout_field first_memory[] = {LF_links, LF_monitors, LF_sig_first, LF_dictionary,
                                                 LAYOUT_FIELD_COUNT};

#define BINARIES                                                                                   \
    {offheap_fields}, .start = start_binaries, .go = go_binaries, .end = end_binaries,             \
                      .first = first_chain
#define TIES                                                                                       \
    {links_monitors_fields}, .start = start_ties, .go = go_ties, .first = links_monitors_fields
#define HELD                                                                                       \
    {held_binaries_fields, queue_fields}, .go = go_hold, .end = end_hold, .first = first_chain
#define AWAITED {awaited_fields, links_monitors_fields}, .go = go_awaited
/* as marking_fields has them */
#define MARKED offheap_fields, queue_fields, roots_fields
#define WASTE  {MARKED}, .go = go_waste, .end = end_waste

static const struct attribute attributes[ATTR_COUNT] = {
    [ATTR_memory] = {SETTLED,
                     0,
                     {heaps, links_monitors_fields, queue_fields},
                     .go = go_memory,
                     .first = first_memory},
    [ATTR_total_heap_size] = {SETTLED, 0, {heaps, queue_fields}, .go = go_total_heap_size},
    [ATTR_heap_size] = {ONE_WORD, 0, {heap_size}, .go = go_heap_size},
    [ATTR_stack_size] = {SETTLED, 0, {stack_size}, .go = go_stack_size},
    /* the counters are right also while the process runs */
    [ATTR_message_queue_len] = {QUEUE_LOCK, 0, {queue_fields}, .go = go_queue_len},
    [ATTR_reductions] = {ONE_WORD, 0, {reductions}, .go = go_reductions},
    [ATTR_binary_memory] = {SETTLED, BINARY_BYTES, BINARIES, .finish = finish_binary_memory},
    [ATTR_binary_count] = {SETTLED, BINARY_COUNT, BINARIES},
    [ATTR_link_count] = {SETTLED, LINKS_MONITORS_LINKS, TIES},
    [ATTR_monitor_count] = {SETTLED, LINKS_MONITORS_MONITORS, TIES},
    [ATTR_monitored_by_count] = {SETTLED, LINKS_MONITORS_MONITORED_BY, TIES},
    [ATTR_dictionary_size] = {SETTLED, 0, {dictionary}, .go = go_dictionary, .first = first_keys},
    [ATTR_catchlevel] = {ONE_WORD, 0, {catchlevel}, .go = go_catchlevel},
    [ATTR_garbage_bytes] = {SETTLED, WASTE_HEAP, WASTE, .first = first_marked},
    [ATTR_bin_garbage] = {SETTLED, WASTE_ENTRIES, WASTE, .first = first_marked_chain},
    [ATTR_bin_garbage_bytes] = {SETTLED, WASTE_ENTRY_BYTES, WASTE, .first = first_marked_chain},
    [ATTR_bin_waste] = {SETTLED, WASTE_UNSEEN, WASTE, .first = first_marked_chain},
    [ATTR_flat_size] = {SETTLED, 0, {MARKED}, .go = go_flat, .end = end_flat},
    [ATTR_binary_unique] = {SETTLED, HELD_UNIQUE, HELD},
    [ATTR_binary_exclusive] = {SETTLED, HELD_EXCLUSIVE, HELD},
    [ATTR_minor_gcs] = {ONE_WORD, 0, {minor_gcs}, .go = go_minor_gcs},
    [ATTR_waits_for] = {WAITING, AWAITED_WHOM, AWAITED},
    [ATTR_waits_call] = {WAITING, AWAITED_CALL, AWAITED},
    [ATTR_oldest_message] = {ONE_WORD, 0, {oldest_message}, .go = go_oldest_message},
    [ATTR_origin] =
        {SETTLED, 0, {first_call_fields, origin_fields}, .go = go_origin, .first = first_keys},
    [ATTR_stack] = {SETTLED, 0, {stack_frames_fields}, .go = go_stack, .first = first_stack},
};

/* ---- one question, one walk ---------------------------------------------------------------------- */

static const uint32_t unsettled[] = {[SETTLED] = STATE_UNSETTLED,
                                     [WAITING] = STATE_UNSETTLED | STATE_ACTIVE | STATE_SUSPENDED,
                                     [ONE_WORD] = 0};
static const uint32_t locks[] = {
    [SETTLED] = LOCK_MAIN, [WAITING] = LOCK_MAIN, [QUEUE_LOCK] = LOCK_MSGQ, [ONE_WORD] = 0};

static unsigned append(enum layout_field *all, unsigned n, const enum layout_field *fields)
{
    for (; *fields != LAYOUT_FIELD_COUNT; fields++)
        all[n++] = *fields;
    all[n] = LAYOUT_FIELD_COUNT;
    return n;
}

void question_make(struct question *q, const struct layout *lay, enum attr attr, bool waiting)
{
    enum layout_field all[LAYOUT_FIELD_COUNT * 2] = {LAYOUT_FIELD_COUNT};
    const struct attribute *row = &attributes[attr];
    unsigned n = 0;
    assert(row->go);
    for (unsigned i = 0; row->fields[i]; i++)
        n = append(all, n, row->fields[i]);
    if (waiting)
        (void)append(all, n, queue_fields);
    *q = (struct question){.attr = attr,
                           .row = row,
                           .one_word = row->stamp == ONE_WORD,
                           .at_once = row->stamp == ONE_WORD,
                           .waiting = waiting,
                           .is_pid = attr == ATTR_waits_for,
                           .sparse = attr == ATTR_waits_for,
                           .waste = row->go == go_waste ? (unsigned)row->what : 0,
                           .max_words = ATTR_WORDS_MAX};
    plan_make(&q->plan, lay, unsettled[row->stamp], locks[row->stamp], all);
}

bool attr_has_stamp(enum attr attr)
{
    return attributes[attr].stamp != ONE_WORD;
}

/* `fields' ends with LAYOUT_FIELD_COUNT. */
static bool has_field(const enum layout_field *fields, enum layout_field field)
{
    while (*fields != LAYOUT_FIELD_COUNT && *fields != field)
        fields++;
    return *fields == field;
}

unsigned attr_fields(enum attr attr, enum layout_field *fields, unsigned n)
{
    const struct attribute *row = &attributes[attr];
    fields[n] = LAYOUT_FIELD_COUNT;
    for (unsigned i = 0; row->fields[i]; i++) {
        for (const enum layout_field *f = row->fields[i]; *f != LAYOUT_FIELD_COUNT; f++) {
            if (has_field(fields, *f))
                continue;
            fields[n++] = *f;
            fields[n] = LAYOUT_FIELD_COUNT;
        }
    }
    return n;
}

void questions_join(struct question *q, unsigned n, const struct layout *lay)
{
    enum layout_field all[LAYOUT_FIELD_COUNT + 1] = {LAYOUT_FIELD_COUNT};
    uint32_t bits = 0;
    uint32_t held = 0;
    unsigned fields = 0;
    unsigned marks = n; /* the first one that marks */
    for (unsigned k = 0; k < n; k++) {
        q[k].from = q[k].waste != 0 && marks < k ? marks : k;
        if (q[k].waste != 0)
            q[q[k].from].waste |= q[k].waste;
        if (q[k].waste != 0 && marks == n)
            marks = k;
        fields = attr_fields(q[k].attr, all, fields);
        bits |= unsettled[q[k].row->stamp];
        held |= locks[q[k].row->stamp];
        q->one_word = q->one_word && q[k].one_word;
    }
    plan_make(&q->plan, lay, bits, held, all);
}

static void start(struct walk *w, const struct reading *rd, const struct question *q)
{
    w->q = q;
    w->stage = START;
    w->value = 0;
    w->clean = false;
    w->u.waste = NULL; /* or any other that is not yet made */
    if (q->row->start)
        q->row->start(w, rd);
}

static struct reading reading_of(const struct walk *w, const struct vm *vm, struct budget *b)
{
    return (struct reading){vm, &w->stamp->q->plan, &w->stamp->view, b};
}

void walk_start(struct walk *w, const struct vm *vm, const struct question *q,
                const struct walk *stamp)
{
    w->q = q;
    w->stamp = stamp;
    const struct reading rd = reading_of(w, vm, NULL);
    start(w, &rd, q);
}

void walk_start_under(struct walk *w, const struct reading *rd, const struct question *q)
{
    w->view = *rd->view;
    w->stamp = NULL; /* the caller's */
    start(w, rd, q);
}

void walk_prefetch(const struct walk *w, enum peek_reader r)
{
    const struct reading rd = reading_of(w, NULL, NULL);
    const enum layout_field *field = w->q->row->first;
    for (; field && *field != LAYOUT_FIELD_COUNT; field++) {
        uint64_t at = stamp_word(&rd, *field);
        if (at != 0 && *field == LF_off_heap)
            offheap_prefetch(r, at);
        else if (at != 0)
            peek_prefetch(r, at);
    }
}

static bool refuses(enum status st)
{
    return st == ST_NOMEM || st == ST_TOO_LARGE;
}

/* A refusal counts only if the stamp is unchanged: a torn heap size can ask for more memory than there is. */
enum status walk_go(struct walk *w, const struct vm *vm, struct budget *b)
{
    const struct reading rd = reading_of(w, vm, b);
    enum status st = w->q->row->go(w, &rd);
    if (!refuses(st))
        return st;
    peek_barrier();
    enum status closed = walk_close(w->stamp, vm);
    return closed == ST_OK ? st : closed;
}

enum status walk_go_under(struct walk *w, const struct reading *rd)
{
    return w->q->row->go(w, rd);
}

enum status walk_finish(struct walk *w, const struct vm *vm)
{
    return w->q->row->finish ? w->q->row->finish(w, vm) : ST_OK;
}

enum status walk_close(const struct walk *w, const struct vm *vm)
{
    const struct reading rd = {vm, &w->q->plan, &w->view, NULL};
    uint64_t proc;
    if (!w->q->one_word)
        return stamp_close(&rd);
    return peek_word(vm->reader, vm->tab.tab + w->view.slot * 8, &proc) && proc == w->view.proc
               ? ST_OK
               : ST_GONE;
}

void walk_end(struct walk *w)
{
    if (w->q->row->end)
        w->q->row->end(w);
}

void walk_free(struct walk *w)
{
    sonde_free(w->room);
    w->room = NULL;
}
