#include "vm/stamp.h"

#include <assert.h>
#include <string.h>
#ifdef SONDE_TEST
#include <stdatomic.h>
#include <time.h>
#endif

unsigned layout_width(const struct layout *lay, enum layout_field field)
{
    switch (field) {
    case LF_state:
    case LF_lock:
    case LF_sig_flags:
    case LF_trace_flags:
    case LF_dict_array:
    case LF_dict_used:
    case LF_mon_refc:
        return 4;
    case LF_gen_gcs:
    case LF_node_offset:
    case LF_node_flags:
    case LF_node_type:
        return 2;
    case LF_arity:
        return lay->arity_width;
    default:
        return 8;
    }
}

bool layout_in_process(const struct layout *lay, enum layout_field field)
{
    return lay->f[field] + layout_width(lay, field) <= LF(lay, proc_size);
}

uint64_t layout_narrow(uint64_t word, unsigned offset, unsigned width)
{
    word >>= (offset & 7) * 8;
    return width == 8 ? word : word & ((1ULL << (width * 8)) - 1);
}

static void add_field(struct plan *plan, const struct layout *lay, enum layout_field field)
{
    assert(plan->n < STAMP_MAX);
    unsigned width = layout_width(lay, field);
    /* read a whole word exactly at the table's offset, so that the proof finds a wrong one */
    unsigned in_word = width == 8 ? 0 : lay->f[field] & 7;
    plan->at[field] = (uint8_t)plan->n;
    plan->shift[plan->n] = (uint8_t)(in_word * 8);
    plan->mask[plan->n] = width == 8 ? ~0ULL : (1ULL << (width * 8)) - 1;
    plan->off[plan->n++] = (uint16_t)(lay->f[field] - in_word);
}

/* Each once, but for the first field of a plan. */
static void add_fields(struct plan *plan, const struct layout *lay, const enum layout_field *fields)
{
    for (; *fields != LAYOUT_FIELD_COUNT; fields++) {
        if (plan->at[*fields] == 0)
            add_field(plan, lay, *fields);
    }
}

void plan_make(struct plan *plan, const struct layout *lay, uint32_t unsettled, uint32_t locks,
               const enum layout_field *fields)
{
    /* id changes if the slot is reused; reductions or program counter change with every run */
    static const enum layout_field always[] = {LF_state, LF_lock, LF_id,
                                               LF_reds,  LF_pc,   LAYOUT_FIELD_COUNT};
    /* nothing to be compared: the fewest cache lines, and state in place of the lock */
    static const enum layout_field unlocked[] = {LF_state, LF_state, LF_id, LAYOUT_FIELD_COUNT};
    plan->unsettled = unsettled;
    plan->locks = locks;
    plan->n = 0;
    memset(plan->at, 0, sizeof plan->at);
    bool has_lock = unsettled != 0 || locks != 0;
    add_fields(plan, lay, has_lock ? always : unlocked);
    add_fields(plan, lay, fields);
    assert(has_lock || plan->at[LF_inq_first] == 0);
    if (plan->at[LF_inq_first] != 0)
        plan->locks |= LOCK_MSGQ;
    plan->off[plan->n] = plan->off[0];
    plan->off[plan->n + 1] = plan->off[1];
}

/* pair: the words of state and lock, the first two of every plan */
static inline enum status settled(const struct plan *plan, const uint64_t *pair)
{
    uint64_t state = pair[0] >> plan->shift[0] & plan->mask[0];
    uint64_t lock = pair[1] >> plan->shift[1] & plan->mask[1];
    if (state & STATE_GONE)
        return ST_GONE;
    return (state & plan->unsettled) || (lock & plan->locks) ? ST_BUSY : ST_OK;
}

static inline enum status settled_twice(const struct plan *plan, const struct view *view)
{
    enum status st = settled(plan, view->w);
    return st != ST_OK ? st : settled(plan, view->w + plan->n);
}

enum status stamp_begin(const struct vm *vm, const struct plan *plan, size_t slot, uintptr_t proc,
                        struct view *view)
{
    if (!peek_gather(vm->reader, proc, plan->off, plan->n + 2, view->w))
        return ST_TORN;
    view->slot = slot;
    view->proc = proc;
    view->pid = view->w[plan->at[LF_id]];
    /* the memory may have been freed and reused */
    if (!proctab_may_hold(vm->lay, &vm->tab, slot, view->pid))
        return ST_TORN;
    enum status st = settled_twice(plan, view);
    if (st == ST_OK)
        stamp_hold(view, STAMP_OPENED);
    return st;
}

enum status stamp_confirm(const struct reading *rd)
{
    uint64_t pair[2];
    return peek_gather(rd->vm->reader, rd->view->proc, rd->plan->off, 2, pair)
               ? settled(rd->plan, pair)
               : ST_TORN;
}

enum status stamp_open(const struct vm *vm, const struct plan *plan, size_t slot, uintptr_t proc,
                       struct view *view)
{
    const struct reading rd = {vm, plan, view, NULL};
    enum status st = stamp_begin(vm, plan, slot, proc, view);
    if (!PEEK_REORDERED || st != ST_OK)
        return st;
    peek_barrier();
    return stamp_confirm(&rd);
}

#ifdef SONDE_TEST
static _Atomic uint64_t hold_pid[STAMP_LEARNED + 1]; /* 0: hold no reader */
static atomic_bool is_held;

void stamp_hold_next(uint64_t pid, enum stamp_place place)
{
    atomic_store(&hold_pid[place], pid);
}

bool stamp_is_held(void)
{
    return atomic_load(&is_held);
}

void stamp_go_on(void)
{
    for (unsigned i = 0; i <= STAMP_LEARNED; i++)
        atomic_store(&hold_pid[i], 0);
    atomic_store(&is_held, false);
}

void stamp_hold(const struct view *view, enum stamp_place place)
{
    const struct timespec ms = {0, 1000000};
    uint64_t pid = view->pid;
    if (pid == 0 || !atomic_compare_exchange_strong(&hold_pid[place], &pid, 0))
        return;
    atomic_store(&is_held, true);
    for (unsigned i = 0; i < STAMP_HOLD_MS && stamp_is_held(); i++)
        (void)nanosleep(&ms, NULL);
    atomic_store(&is_held, false);
}

_Atomic int stamp_weakness;

static bool weak_close(const struct reading *rd, enum status *st)
{
    const struct plan *plan = rd->plan;
    const struct view *view = rd->view;
    uint64_t reds = ~view->w[plan->at[LF_reds]];
    int weakness = stamp_weakness;
    *st = ST_OK;
    if (weakness == STAMP_REDUCTIONS &&
        (!peek_word(rd->vm->reader, view->proc + plan->off[plan->at[LF_reds]], &reds) ||
         reds != view->w[plan->at[LF_reds]]))
        *st = ST_TORN;
    return weakness != STAMP_SOUND;
}
#else
static bool weak_close(const struct reading *rd, enum status *st)
{
    (void)rd, (void)st;
    return false;
}
#endif

/* State and lock first. false: not readable. */
static bool is_equal(const struct reading *rd, bool *equal)
{
    enum peek_reader reader = rd->vm->reader;
    const struct plan *plan = rd->plan;
    const struct view *view = rd->view;
    uint64_t now[STAMP_MAX + 2];
    uint64_t bits = 0;
    if (reader == PEEK_OTHER) { /* one system call */
        if (!peek_gather(reader, view->proc, plan->off, plan->n, now))
            return false;
        for (unsigned i = 2; i < plan->n; i++)
            bits |= now[i] ^ view->w[i];
    } else if (!peek_gather(reader, view->proc, plan->off, 2, now) ||
               (settled(plan, now) == ST_OK &&
                !peek_differ(reader, view->proc, plan->off + 2, plan->n - 2, view->w + 2, &bits))) {
        return false;
    }
    *equal = settled(plan, now) == ST_OK && bits == 0;
    return true;
}

enum status stamp_close(const struct reading *rd)
{
    const struct vm *vm = rd->vm;
    const struct view *view = rd->view;
    bool equal;
    uint64_t proc;
    enum status weak;
    if (weak_close(rd, &weak))
        return weak;
    if (!is_equal(rd, &equal) || !equal ||
        !peek_word(vm->reader, vm->tab.tab + view->slot * 8, &proc))
        return ST_TORN;
    return proc == view->proc ? ST_OK : ST_TORN;
}
