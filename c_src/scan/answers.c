#include "scan/answers.h"

#include <assert.h>

bool answers_are_remembered(const struct scan *s)
{
    return s->mode == SCAN_SAMPLE || s->mode == SCAN_HOLDERS || s->mode == SCAN_ALL;
}

static enum status rank_in(const struct scan *s, struct top_n *top, uint64_t pid, int64_t value)
{
    struct row row = {value, proctab_order(s->vm.lay, &s->vm.tab, pid), pid};
    return top_n_push(top, &row) ? ST_OK : ST_NOMEM;
}

static enum status rank(struct scan *s, uint64_t pid, int64_t value)
{
    return top_n_may_take(s->top, value) ? rank_in(s, s->top, pid, value) : ST_OK;
}

static enum status rank_all(struct scan *s, uint64_t pid, const int64_t *values)
{
    enum status st = ST_OK;
    for (unsigned k = 0; k < s->qn && st == ST_OK; k++) {
        if (top_n_may_take(&s->top[k], values[k]))
            st = rank_in(s, &s->top[k], pid, values[k]);
    }
    return st;
}

/* There is room: scan_step lets the rows be taken before a batch could overflow them. */
static enum status hand_out(struct scan *s, uint64_t pid, const int64_t *values)
{
    assert(s->out_n + 1 + s->qn <= SCAN_OUT);
    for (unsigned k = 0; k < s->qn; k++) {
        if (s->q[k].sparse && values[k] == 0)
            return ST_OK;
    }
    s->out[s->out_n++] = (int64_t)pid;
    for (unsigned k = 0; k < s->qn; k++)
        s->out[s->out_n++] = values[k];
    return ST_OK;
}

/* The first value that is worth a name: if its process is dead after the window, it has one. */
static enum status rank_first(struct scan *s, uint64_t pid, int64_t value)
{
    return s->mode == SCAN_SAMPLE ? rank(s, pid, value) : ST_OK;
}

/* An answer that comes after the sweep passed its slot, where an entry waits for it. */
static enum status fill(struct scan *s, uint64_t pid, int64_t value)
{
    struct entry *e = sample_find(s->sample, pid);
    if (!e)
        return ST_OK;
    e->value = value;
    e->key &= ~(uint64_t)SAMPLE_UNKNOWN;
    return rank_first(s, pid, value);
}

static enum status remember(struct scan *s, uint64_t pid, int64_t value, bool clean)
{
    if (clean && s->mode == SCAN_HOLDERS) {
        s->left++;
        return rank(s, pid, 0);
    }
    enum status st = rank_first(s, pid, value);
    return st == ST_OK ? sample_add(s->sample, pid, value, 0) : st;
}

/* Of numbers that a process made up while it was torn down it may be anything, but never undefined. */
static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static enum status emit_diff(struct scan *s, uint64_t pid, int64_t value)
{
    struct entry *e = sample_find(s->sample, pid);
    if (e)
        e->key |= SAMPLE_SEEN;
    return rank(s, pid, e && !(e->key & SAMPLE_UNKNOWN) ? minus(value, e->value) : value);
}

static enum status emit_drop(struct scan *s, uint64_t pid, int64_t value)
{
    struct entry *e = sample_find(s->sample, pid);
    if (!e || (e->key & (SAMPLE_SKIP | SAMPLE_SEEN)))
        return ST_OK;
    e->key |= SAMPLE_SEEN;
    return rank(s, pid, e->key & SAMPLE_UNKNOWN ? 0 : minus(e->value, value));
}

enum status answers_add(struct scan *s, uint64_t pid, const int64_t *values, bool clean, bool late)
{
    s->answered++;
    switch (s->mode) {
    case SCAN_TOP:
        return rank_all(s, pid, values);
    case SCAN_ACCOUNT:
        return ST_OK;
    case SCAN_EACH:
        return hand_out(s, pid, values);
    case SCAN_DIFF:
        return emit_diff(s, pid, values[0]);
    case SCAN_AFTER:
        return emit_drop(s, pid, values[0]);
    default:
        return late ? fill(s, pid, values[0]) : remember(s, pid, values[0], clean);
    }
}

enum { LEFTOVERS_STEP = 16384 };

/* A process of the first look that the second one did not meet is dead: a window keeps its first value,
 * bin_leak says 0. */
enum status answers_of_the_dead(struct scan *s)
{
    enum status st = ST_OK;
    size_t end = s->next + LEFTOVERS_STEP;
    if (s->mode != SCAN_DIFF && s->mode != SCAN_AFTER)
        return ST_OK;
    for (; s->next < s->sample->n && s->next < end && st == ST_OK; s->next++) {
        const struct entry *e = &s->sample->entries[s->next];
        if (e->key & (SAMPLE_SEEN | SAMPLE_SKIP))
            continue;
        if (s->mode == SCAN_AFTER)
            st = rank(s, entry_pid(e), 0);
        else if (!(e->key & SAMPLE_UNKNOWN) && !scan_excludes(s, entry_pid(e)))
            st = rank(s, entry_pid(e), e->value);
    }
    return st == ST_OK && s->next < s->sample->n ? ST_TIMESLICE : st;
}
