/* snapshot.h: writes one heap as a V8 heap snapshot, in pieces of text.
 * Knows: the order and the format of that file, and how folded nodes appear in it.
 * Does not know: how names are spelled, or where the text goes.
 *
 * This writes the head and the arrays of nodes and edges; Erlang writes the strings, which come
 * last. Nodes come in breadth-first order from the roots. */
#ifndef SONDE_SNAPSHOT_H
#define SONDE_SNAPSHOT_H

#include "graph/bfs.h"
#include "graph/dominators.h"
#include "graph/prune.h"
#include "process/look.h"
#include "graph/string_table.h"
#include "graph/preview.h"
#include "graph/path_step.h"

enum snapshot_want {
    SNAPSHOT_VALUES = 1 << 17, /* names with previews */
    SNAPSHOT_CONTENT = 1 << 16 /* keys that are not atoms; same bit as TOP_RETAINED_CONTENT */
};

/* Limits of one piece. */
enum { SNAPSHOT_PIECE = BOUND(1 << 16, 1 << 10), SNAPSHOT_PREVIEWS = BOUND(64, 3) };

/* A node's name, and the number of its tokens. */
struct titled {
    uint32_t name;
    uint32_t tokens;
};

struct snapshot {
    struct marking heap;
    struct graph graph;
    struct dominators dominators;
    struct prune fold;
    struct bfs breadth;
    struct string_table names;
    unsigned want;
    int stage;
    uint64_t max_nodes;
    bool entered, folds; /* folds: there are too many nodes, and some are folded */
    uint32_t *number; /* by node: its number in the file, not counting the node for folded ones */
    uint32_t *queue;  /* places of nodes, in that order */
    uint32_t n;       /* nodes in the queue */
    uint32_t at, done;
    struct inside inside;
    struct roots roots;
    size_t other, others; /* of the current node's links that replace folded nodes: next; left */
    unsigned type;        /* of the current node, */
    uint32_t name;
    uint32_t links;            /* and how many of its links were met */
    uint32_t folded;           /* folded nodes linked so far */
    uint64_t nodes, edges;     /* still to be written, */
    uint64_t nodes_n, edges_n; /* and their totals */
    bool begun;                /* the current array has a record */
    size_t text_n;
    char *text;
    struct titled titled[SNAPSHOT_PREVIEWS];
    uint32_t titled_n;
    struct tokens tokens;
};

extern const struct walker snapshot_walker;

/* The caller has taken the piece: makes room for the next one. */
void snapshot_taken(struct snapshot *s);

#endif
