/* prune.h: which nodes are kept where there are too many, and what of the others hangs on each of them.
 * Knows: who dominates whom, and how much each node retains.
 * Does not know: how a kept one, or what is folded, is shown.
 *
 * Kept are those that retain most; and whatever dominates a kept one, which retains more. The
 * rest are subtrees of the tree of dominators, and all that hang on one kept node become one. What they
 * lead to outside of themselves is taken for a link of its dominator: so dominators stay what they are. */
#ifndef SONDE_PRUNE_H
#define SONDE_PRUNE_H

#include "graph/dominators.h"
#include "util/top_n.h"

/* Sizes in steps of a sixteenth of a power of two. */
enum { PRUNE_BUCKETS = 33 * 16 };

struct prune {
    struct graph *g;
    struct dominators *d;
    uint64_t *kept; /* bits; NULL: all are kept */
    struct top_n
        links; /* value: minus the dominator's number; pid: the place of what it leads to */
    uint64_t max_kept;
    int stage;
    uint32_t at;
    uint64_t place;
    bool entered;
    struct inside inside;
    unsigned smallest;       /* bucket that is kept */
    uint64_t some;           /* of the next smaller one, still to be kept */
    uint64_t objects, words; /* folded */
    uint32_t owners;         /* nodes, not the root, that something folded hangs on */
    uint32_t kept_n;
    uint32_t buckets[PRUNE_BUCKETS];
};

void prune_start(struct prune *f, struct graph *g, struct dominators *d, uint64_t max_nodes);

/* After dominators_make was OK. Afterwards `retained' says of each kept node, and of roots, how many
 * words are folded that hang on it. OK, TIMESLICE, TORN, NOMEM. */
enum status prune_make(struct prune *f, const struct vm *vm, struct budget *b);

void prune_end(struct prune *f);
size_t prune_bytes(const struct prune *f);

/* Words of what is folded right below this node. */
static inline uint32_t prune_below(const struct prune *f, uint32_t node)
{
    return f->kept ? f->d->retained[node] : 0;
}

static inline bool prune_keeps(const struct prune *f, struct mark k)
{
    return !f->kept || bit_test(f->kept, k);
}

/* The links that a node has in place of folded ones: the first, and those from there on with the same
 * value, in f->links.rows. */
size_t prune_links(const struct prune *f, uint32_t node, size_t *n);

#endif
