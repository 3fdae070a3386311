#include "graph/prune.h"

#include "util/alloc.h"

#include <string.h>

enum stages { ALLOCATE, CLEAR, MEASURE, CHOOSE, KEEP, MARK, LINK, SORT, EMPTY, ADD, DONE };

enum { CLEAR_STEP = 128 };

void prune_start(struct prune *f, struct graph *g, struct dominators *d, uint64_t max_nodes)
{
    memset(f, 0, sizeof *f);
    f->g = g;
    f->d = d;
    f->max_kept = max_nodes / 2; /* each kept node may have a folded one */
    top_n_init(&f->links, SIZE_MAX);
}

void prune_end(struct prune *f)
{
    sonde_free(f->kept);
    f->kept = NULL;
    top_n_free(&f->links);
}

size_t prune_bytes(const struct prune *f)
{
    return f->kept ? f->g->heap->marks.n * sizeof *f->kept + f->links.cap * sizeof *f->links.rows
                   : 0;
}

static enum status allocate(struct prune *f)
{
    size_t n = f->g->heap->marks.n;
    f->kept = sonde_alloc(n * sizeof *f->kept + 1);
    f->g->seen = sonde_alloc(n * sizeof *f->g->seen + 1);
    return f->kept && f->g->seen ? ST_OK : ST_NOMEM;
}

static enum status clear(struct prune *f, struct budget *b)
{
    for (size_t n = f->g->heap->marks.n; f->at < n; f->at++) {
        if (f->at % CLEAR_STEP == 0 && !budget_step(b))
            return ST_TIMESLICE;
        f->kept[f->at] = 0;
        f->g->seen[f->at] = 0;
    }
    return ST_OK;
}

static unsigned bucket(uint32_t words)
{
    unsigned log = words == 0 ? 0 : 31U - (unsigned)__builtin_clz(words);
    return words < 16 ? words : (log - 3) * 16 + (words >> (log - 4) & 15);
}

typedef enum status (*each)(struct prune *f, uint32_t node, struct mark k);

static enum status all(struct prune *f, struct budget *b, each do_it)
{
    for (; f->at < f->d->n; f->at++) {
        struct mark k = place_mark(f->d->order[f->at]);
        if (!budget_step(b))
            return ST_TIMESLICE;
        enum status st = do_it(f, graph_node(f->g, k), k);
        if (st != ST_OK)
            return st;
    }
    return ST_OK;
}

static enum status measure(struct prune *f, uint32_t node, struct mark k)
{
    (void)k;
    f->buckets[bucket(f->d->retained[node])]++;
    return ST_OK;
}

/* Finds the smallest bucket to keep whole, and how many nodes of the next smaller one. */
static void choose(struct prune *f)
{
    uint64_t sum = 0;
    for (f->smallest = PRUNE_BUCKETS; f->smallest > 0; f->smallest--) {
        uint32_t here = f->buckets[f->smallest - 1];
        if (sum + here > f->max_kept)
            break;
        sum += here;
    }
    f->some = f->max_kept - sum;
}

static bool keeps_dominator(const struct prune *f, uint32_t node)
{
    uint32_t idom = f->d->idom[node];
    return idom < NODE_FIRST || prune_keeps(f, place_mark(graph_place(f->g, idom)));
}

/* A dominator comes before the nodes that it dominates, so keeps_dominator knows it already. */
static enum status keep(struct prune *f, uint32_t node, struct mark k)
{
    unsigned size = bucket(f->d->retained[node]);
    bool one_of_some = size + 1 == f->smallest && f->some > 0 && keeps_dominator(f, node);
    if (size < f->smallest && !one_of_some) {
        f->objects++;
        return ST_OK;
    }
    f->some -= one_of_some;
    f->kept[k.at] |= k.bit;
    f->kept_n++;
    return ST_OK;
}

/* Marks the kept nodes that folded nodes lead to. */
static enum status mark(struct prune *f, const struct vm *vm, struct budget *b)
{
    for (; f->at < f->d->n; f->at++) {
        struct link link;
        enum status st = ST_OK;
        uint32_t place = f->d->order[f->at];
        if (!f->entered && !budget_step(b))
            return ST_TIMESLICE;
        if (prune_keeps(f, place_mark(place)))
            continue;
        if (!f->entered)
            st = inside_start(f->g, vm, place, &f->inside);
        f->entered = true;
        while (st == ST_OK && (st = inside_next(f->g, vm, &f->inside, b, &link)) == ST_OK) {
            if (prune_keeps(f, link.mark))
                f->g->seen[link.mark.at] |= link.mark.bit;
        }
        if (st != ST_GONE)
            return st;
        f->entered = false;
    }
    return ST_OK;
}

static enum status link_up(struct prune *f, uint32_t node, struct mark k)
{
    struct row row = {-(int64_t)f->d->idom[node], UINT32_MAX - mark_place(k), mark_place(k)};
    if (!bit_test(f->g->seen, k))
        return ST_OK;
    return top_n_push(&f->links, &row) ? ST_OK : ST_NOMEM;
}

static enum status empty(struct prune *f, uint32_t node, struct mark k)
{
    if (prune_keeps(f, k))
        f->d->retained[node] = 0;
    return ST_OK;
}

static enum status add(struct prune *f, uint32_t node, struct mark k)
{
    uint32_t idom = f->d->idom[node];
    if (prune_keeps(f, k) || !keeps_dominator(f, node))
        return ST_OK;
    f->owners += f->d->retained[idom] == 0 && idom != NODE_ROOT;
    f->d->retained[idom] += f->d->retained[node];
    f->words += f->d->retained[node];
    return ST_OK;
}

static enum status make_stage(struct prune *f, const struct vm *vm, struct budget *b)
{
    switch (f->stage) {
    case ALLOCATE:
        return allocate(f);
    case CLEAR:
        return clear(f, b);
    case MEASURE:
        return all(f, b, measure);
    case CHOOSE:
        choose(f);
        return ST_OK;
    case KEEP:
        return all(f, b, keep);
    case MARK:
        return mark(f, vm, b);
    case LINK:
        return all(f, b, link_up);
    case SORT:
        return top_n_sort(&f->links, b) ? ST_OK : ST_TIMESLICE;
    case EMPTY:
        memset(f->d->retained, 0, NODE_FIRST * sizeof *f->d->retained);
        return all(f, b, empty);
    default:
        return all(f, b, add);
    }
}

enum status prune_make(struct prune *f, const struct vm *vm, struct budget *b)
{
    while (f->stage != DONE) {
        enum status st = make_stage(f, vm, b);
        if (st != ST_OK)
            return st;
        f->stage++;
        f->at = 0;
        f->entered = false;
    }
    return ST_OK;
}

/* The first link of this node, or of the next node that has one. */
static size_t first_link(const struct prune *f, uint32_t node)
{
    size_t lo = 0;
    size_t hi = f->links.n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (f->links.rows[mid].value > -(int64_t)node)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

size_t prune_links(const struct prune *f, uint32_t node, size_t *n)
{
    size_t first = first_link(f, node);
    *n = first_link(f, node + 1) - first;
    return first;
}
