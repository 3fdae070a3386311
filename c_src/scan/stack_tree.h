/* stack_tree.h: how many processes have which stack, or which other few words; and sums over these processes.
 * Knows: a tree of words, in which stacks share the calls that they have in common.
 * Does not know: what the words mean, or how they were read. */
#ifndef SONDE_STACK_TREE_H
#define SONDE_STACK_TREE_H

#include "util/budget.h"
#include "util/status.h"

#include <stddef.h>
#include <stdint.h>

/* A rehash of so many takes a few milliseconds. */
enum { STACK_NODES_MAX = BOUND(1 << 18, 12) };

struct stack_node {
    uint64_t address;
    uint64_t pid;    /* of the first process whose stack ends here */
    uint32_t parent; /* the call that came later; 0: none */
    uint32_t count;  /* processes whose stack ends here */
};

/* The first node is not used, so 0 is no node. */
struct stack_tree {
    size_t n, cap, slots;
    struct stack_node *nodes;
    uint32_t *slot; /* of a hash table of nodes */
    unsigned width; /* sums for each node; does not change after the first add */
    int64_t *sums;
};

/* Adds the stack of a process: the last call first, n > 0; and its values, as many as the width is. OK,
 * TOO_LARGE (too many different ones), NOMEM. */
enum status stack_tree_add(struct stack_tree *t, const uint64_t *frames, unsigned n, uint64_t pid,
                           const int64_t *values);

/* The frames of a node, the last call first; at most `max'. */
unsigned stack_tree_frames(const struct stack_tree *t, size_t node, uint64_t *frames, unsigned max);

void stack_tree_free(struct stack_tree *t);

#endif
