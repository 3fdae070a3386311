#include "process/look.h"

#include "util/alloc.h"
#include "util/clock.h"

/* About 5 us if everything is in the cache, and little more than a millisecond if nothing is, or if
 * each word costs a system call. */
enum { LOOK_STEPS = BOUND(1024, 16) };

enum { CLOSE_TRIES = BOUND(64, 2) };

/* Adds the trace flags to every look's stamp, so that no content goes out that was copied while the
 * process became sensitive. */
static void add_flags(enum layout_field *fields)
{
    while (*fields != LAYOUT_FIELD_COUNT && *fields != LF_trace_flags)
        fields++;
    if (*fields == LF_trace_flags)
        return;
    fields[0] = LF_trace_flags;
    fields[1] = LAYOUT_FIELD_COUNT;
}

enum status look_start(struct look *l, const struct vm *vm, size_t slot, uintptr_t proc,
                       const struct walker *walker, const struct look_args *args)
{
    enum layout_field fields[LOOK_FIELDS_MAX + 1];
    l->vm = *vm;
    l->lay = *vm->lay;
    l->vm.lay = &l->lay;
    l->rd = (struct reading){&l->vm, &l->plan, &l->view, NULL};
    l->walker = walker;
    l->args = *args;
    l->state = NULL;
    walker->fields(fields);
    add_flags(fields);
    plan_make(&l->plan, &l->lay, STATE_UNSETTLED, walker->locks != 0 ? walker->locks : LOCK_MAIN,
              fields);
    l->st = stamp_open(&l->vm, &l->plan, slot, proc, &l->view);
    if (l->st != ST_OK)
        return l->st;
    l->state = sonde_alloc(walker->size);
    if (!l->state)
        return l->st = ST_NOMEM;
    if (stamp_is_sensitive(&l->rd))
        l->args.content = CONTENT_SENSITIVE;
    if (l->args.content != CONTENT_SHOWN)
        l->args.want &= ~LOOK_WANT_CONTENT;
    walker->start(l->state, &l->rd, &l->args);
    l->st = ST_TIMESLICE;
    return ST_OK;
}

/* Retries, because a lock that is held for a moment changes nothing yet: fields that are equal a
 * little later never changed. */
enum status look_close(const struct look *l)
{
    enum status st = ST_TORN;
    for (unsigned i = 0; st != ST_OK && i < CLOSE_TRIES; i++) {
        peek_barrier();
        st = stamp_close(&l->rd);
    }
    return st;
}

/* Reads the slot last: if it still holds the process, the flags read before belong to it. */
enum status look_may_tell(const struct look *l)
{
    const struct plan *p = &l->plan;
    unsigned flags = p->at[LF_trace_flags];
    unsigned id = p->at[LF_id];
    uint64_t word;
    uint64_t pid;
    uint64_t proc;
    if (l->args.content == CONTENT_SENSITIVE)
        return ST_OK;
    if (!peek_word(l->vm.reader, l->view.proc + p->off[flags], &word))
        return ST_GONE;
    peek_barrier();
    if (!peek_word(l->vm.reader, l->view.proc + p->off[id], &pid) || pid != l->view.pid ||
        !peek_word(l->vm.reader, l->vm.tab.tab + l->view.slot * 8, &proc) || proc != l->view.proc)
        return ST_GONE;
    return (word >> p->shift[flags] & p->mask[flags] & TRACE_SENSITIVE) != 0 ? ST_TORN : ST_OK;
}

enum status look_step(struct look *l, enum peek_reader reader, uint64_t ns)
{
    uint64_t end = clock_ns() + ns;
    if (l->st != ST_TIMESLICE)
        return l->st;
    l->vm.reader = reader;
    /* if the process ran meanwhile, the rest of the walk is useless */
    l->st = look_close(l);
    if (l->st != ST_OK)
        return l->st;
    do {
        struct budget b = BUDGET(LOOK_STEPS);
        l->rd.budget = &b;
        l->st = l->walker->walk(l->state, &l->rd);
    } while (l->st == ST_TIMESLICE && clock_ns() < end);
    stamp_hold(&l->view, STAMP_WALKED);
    /* TOO_LARGE, GONE and NOMEM, too, are true only if the process did not change */
    if (l->st == ST_OK || l->st == ST_TOO_LARGE || l->st == ST_GONE || l->st == ST_NOMEM) {
        enum status st = look_close(l);
        l->st = st == ST_OK ? l->st : st;
    }
    return l->st;
}

bool look_end(struct look *l, uint64_t ns)
{
    uint64_t end = clock_ns() + ns;
    while (l->state && !l->walker->end(l->state)) {
        if (clock_ns() >= end)
            return false;
    }
    sonde_free(l->state);
    l->state = NULL;
    return true;
}
