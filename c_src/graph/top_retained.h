/* top_retained.h: the objects of one heap that retain most, each with a path and a preview.
 * Knows: which nodes deserve a row, and the shortest path to each.
 * Does not know: how a row is printed. */
#ifndef SONDE_TOP_RETAINED_H
#define SONDE_TOP_RETAINED_H

#include "graph/bfs.h"
#include "graph/dominators.h"
#include "process/look.h"
#include "graph/preview.h"
#include "graph/path_step.h"
#include "util/top_n.h"

enum top_retained_want {
    TOP_RETAINED_CONTENT = 1 << 16 /* previews, and keys that are not atoms */
};

/* A longer path is cut in the middle. */
enum { WAY_MAX = 32, WAY_BEGIN = 15, WAY_END = WAY_MAX - 1 - WAY_BEGIN };

/* The step to a node, from the node that bfs found it from. */
struct edge {
    uint32_t child, parent;
    bool known;
    uint8_t key_n; /* tokens of the key */
    size_t key;
    struct path_step step;
};

struct large {
    uint32_t node, place;
    uint64_t retained, self; /* words */
    bool cut;
    unsigned n;
    uint32_t way[WAY_MAX]; /* edges, from the root; cut after WAY_BEGIN */
    enum kind kind;        /* NONE: a list */
    uint64_t header;
    struct fun_bar fun;
    size_t preview, preview_n; /* tokens */
};

struct top_retained {
    struct marking heap;
    struct graph graph;
    struct dominators dominators;
    struct bfs breadth;
    unsigned want;
    int stage;
    size_t at;
    uint64_t place;   /* of the node that may be chosen next */
    struct top_n top; /* pid: the place */
    size_t large;     /* of the dominators' large nodes: compared with the rows */
    struct large *rows;
    size_t n;
    struct edge *edges;
    size_t edges_n, edges_cap;
    uint32_t *slots; /* from a node to its edge: a hash table of edge numbers, from 1 */
    size_t slots_n;
    struct tokens tokens;
    bool entered, roots_done;
    struct inside inside;
    struct roots roots;
    const uint32_t *parent;  /* by node: the node before it on the shortest path */
    uint32_t climbed, climb; /* climbing from a row: nodes so far; the current node */
    uint32_t begin[WAY_BEGIN];
    uint32_t beginning; /* the one of depth WAY_BEGIN, while it is told; otherwise 0 */
    size_t peak;        /* bytes */
};

/* Bytes of memory that it takes now. */
size_t top_retained_bytes(const struct top_retained *l);

extern const struct walker top_retained_walker;

#endif
