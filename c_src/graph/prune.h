/* prune.h: limits the number of nodes: keeps the largest and folds the others into them.
 * Knows: each node's dominator and retained size.
 * Does not know: how kept and folded nodes are printed.
 *
 * Kept are the nodes that retain most, and with them their dominators, which retain more. The other
 * nodes are subtrees of the dominator tree; all subtrees below one kept node become one folded
 * node. Edges that leave a folded subtree are attributed to the dominator of the node that they
 * lead to, so that dominators do not change. */
#ifndef SONDE_PRUNE_H
#define SONDE_PRUNE_H

#include "graph/dominators.h"
#include "util/top_n.h"

/* Buckets of retained sizes: sixteen for each power of two. */
enum { PRUNE_BUCKETS = 33 * 16 };

struct prune {
    struct graph *g;
    struct dominators *d;
    uint64_t *kept; /* bits of nodes; NULL: all are kept */
    struct top_n
        links; /* value: minus the dominator's number; pid: the place of the node it leads to */
    uint64_t max_kept;
    int stage;
    uint32_t at;
    uint64_t place;
    bool entered;
    struct inside inside;
    unsigned smallest;       /* the smallest bucket kept whole */
    uint64_t some;           /* nodes of the next smaller bucket still to keep */
    uint64_t objects, words; /* folded */
    uint32_t owners;         /* nodes, without the root, that dominate folded ones */
    uint32_t kept_n;
    uint32_t buckets[PRUNE_BUCKETS];
};

void prune_start(struct prune *f, struct graph *g, struct dominators *d, uint64_t max_nodes);

/* After dominators_make was OK. Afterwards `retained' of each kept node, and of each root, is the
 * number of words folded below it. OK, TIMESLICE, TORN, NOMEM. */
enum status prune_make(struct prune *f, const struct vm *vm, struct budget *b);

void prune_end(struct prune *f);
size_t prune_bytes(const struct prune *f);

/* Words folded directly below this node. */
static inline uint32_t prune_below(const struct prune *f, uint32_t node)
{
    return f->kept ? f->d->retained[node] : 0;
}

static inline bool prune_keeps(const struct prune *f, struct mark k)
{
    return !f->kept || bit_test(f->kept, k);
}

/* The links of a node that replace folded nodes: the first one's index in f->links.rows, and *n,
 * their number. */
size_t prune_links(const struct prune *f, uint32_t node, size_t *n);

#endif
