/* snapshot.h: one heap as the numbers of a V8 heap snapshot, text piece by piece.
 * Knows: the order and the form of that file, and which small subtrees become one node when there are too
 * many nodes.
 * Does not know: how names are spelled, or where the text goes.
 *
 * The head and the arrays of nodes and edges are written here; the strings, which come last, by Erlang.
 * Each object is a node, in the order in which a walk from the roots meets them, the nearest first. */
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
    SNAPSHOT_CONTENT = 1 << 16 /* keys that are no atoms; as TOP_RETAINED_CONTENT */
};

/* A piece of text, and what is more than that waits for the next one. */
enum { SNAPSHOT_PIECE = BOUND(1 << 16, 1 << 10), SNAPSHOT_PREVIEWS = BOUND(256, 3) };

/* The node's name and so many tokens. */
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
    bool entered, folds; /* there are too many objects */
    uint32_t *number;    /* by node: the how manyth in the file, without that of what is folded */
    uint32_t *queue;     /* places of nodes, in that order */
    uint32_t n;          /* nodes in the queue */
    uint32_t at, done;
    struct inside inside;
    struct roots roots;
    size_t other, others; /* links of the node at hand in place of folded ones */
    unsigned type;        /* of the node at hand, */
    uint32_t name;
    uint32_t links;            /* and how many of its links were met */
    uint32_t folded;           /* nodes of what is folded, so far */
    uint64_t nodes, edges;     /* still to be written, */
    uint64_t nodes_n, edges_n; /* of so many */
    bool begun;                /* of the array at hand something is written */
    size_t text_n;
    char *text;
    struct titled titled[SNAPSHOT_PREVIEWS];
    uint32_t titled_n;
    struct tokens tokens;
};

extern const struct walker snapshot_walker;

/* The text so far; afterwards there is room again. */
void snapshot_taken(struct snapshot *s);

#endif
