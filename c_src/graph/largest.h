/* largest.h: the things of one heap that retain most, with the way to each and what it looks like.
 * Knows: which nodes are worth a row, and the nearest way to each.
 * Does not know: how a row is written. */
#ifndef SONDE_LARGEST_H
#define SONDE_LARGEST_H

#include "graph/breadth.h"
#include "graph/dominators.h"
#include "process/look.h"
#include "graph/preview.h"
#include "graph/step.h"
#include "util/top.h"

enum largest_want {
    LARGEST_CONTENT = 1 << 16 /* previews, and keys that are no atoms */
};

/* A longer way is cut in the middle. */
enum { WAY_MAX = 32, WAY_BEGIN = 15, WAY_END = WAY_MAX - 1 - WAY_BEGIN };

/* The step to a node, from the one by which it was found. */
struct edge {
    uint32_t child, parent;
    bool known;
    uint8_t key_n; /* tokens of the key */
    size_t key;
    struct step step;
};

struct large {
    uint32_t node, place;
    uint64_t retained, self; /* words */
    bool cut;
    unsigned n;
    uint32_t way[WAY_MAX]; /* edges, from the root; where it is cut, after WAY_BEGIN */
    enum kind kind;        /* NONE: a list */
    uint64_t header;
    struct fun_bar fun;
    size_t preview, preview_n; /* tokens */
};

struct largest {
    struct heap heap;
    struct graph graph;
    struct dominators dominators;
    struct breadth breadth;
    unsigned want;
    int stage;
    size_t at;
    uint32_t done;
    struct top top;
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
    uint32_t climbed, climb; /* on the way up from a row: nodes so far; where it is */
    uint32_t begin[WAY_BEGIN];
    size_t peak; /* bytes */
};

/* Bytes of memory that it holds now. */
size_t largest_bytes(const struct largest *l);

extern const struct walker largest_walker;

#endif
