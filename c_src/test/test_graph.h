/* test_graph.h: walks over the graph of a heap, for their tests.
 * Knows: how to run one to its end, or slice by slice.
 * Does not know: what is tested. */
#ifndef SONDE_TEST_GRAPH_H
#define SONDE_TEST_GRAPH_H

#include "graph/top_retained.h"
#include "graph/snapshot.h"
#include "test/test_world.h"

enum { ALL = 100000 }; /* more words, rows or nodes than any heap here has */

static inline uint64_t small(uint64_t n)
{
    return n << 4 | 15;
}

/* ---- a look from start to end ---------------------------------------------------------------- */

/* n: the limit of rows or nodes. */
static inline enum status look_with(const struct walker *walker, struct world *w, struct look *l,
                                    uint64_t n)
{
    struct look_args args = {.want = TOP_RETAINED_CONTENT | SNAPSHOT_VALUES,
                             .max_words = ALL,
                             .max_entries = n,
                             .n = 1000};
    enum status st = look_start(l, &w->vm, 7, (uintptr_t)w->table[7], walker, &args);
    if (st != ST_OK)
        return st;
    do {
        st = look_step(l, w->vm.reader, NOTHING);
        if (st == ST_ASK) {
            snapshot_taken(l->state);
            l->st = st = ST_TIMESLICE;
        }
    } while (st == ST_TIMESLICE);
    return st;
}

static inline enum status look(struct world *w, struct look *l, uint64_t rows)
{
    return look_with(&top_retained_walker, w, l, rows);
}

static inline void end_look(struct look *l)
{
    while (!look_end(l, 0)) {
    }
}

/* ---- a walk slice by slice ------------------------------------------------------------------ */

struct slow {
    const struct walker *walker;
    void *state;
    struct plan plan;
    struct view view;
    struct budget budget;
    struct reading reading;
};

static inline void slow_start(struct slow *s, const struct world *w, const struct walker *walker,
                              const struct look_args *args)
{
    enum layout_field fields[MARKING_FIELDS_MAX];
    *s = (struct slow){.walker = walker, .state = malloc(walker->size)};
    marking_fields(fields);
    plan_make(&s->plan, w->vm.lay, STATE_UNSETTLED, LOCK_MAIN, fields);
    if (!s->state || stamp_open(&w->vm, &s->plan, 7, (uintptr_t)w->table[7], &s->view) != ST_OK)
        abort();
    s->reading = (struct reading){&w->vm, &s->plan, &s->view, &s->budget};
    walker->start(s->state, &s->reading, args);
}

/* ST_ASK: a snapshot's text is to be taken. */
static inline enum status slow_slice(struct slow *s, uint32_t steps)
{
    s->budget = BUDGET(steps);
    return s->walker->walk(s->state, &s->reading);
}

/* The same, and drops the text of a snapshot. */
static inline enum status slow_slice_dropped(struct slow *s, uint32_t steps)
{
    enum status st = slow_slice(s, steps);
    if (st == ST_ASK)
        snapshot_taken(s->state);
    return st == ST_ASK ? ST_TIMESLICE : st;
}

static inline void slow_end(struct slow *s)
{
    while (!s->walker->end(s->state)) {
    }
    free(s->state);
}

#endif
