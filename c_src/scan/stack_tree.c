#include "scan/stack_tree.h"

#include "util/alloc.h"

#include <string.h>

_Static_assert(sizeof(struct stack_node) + 2 * sizeof(uint32_t) == 32, "an entry has 32 bytes");

enum { FIRST_CAP = BOUND(512, 2) };

static uint64_t hash(uint32_t parent, uint64_t address)
{
    uint64_t h = (address ^ (uint64_t)parent << 40) * 0xBF58476D1CE4E5B9ULL;
    h = (h ^ h >> 31 ^ parent) * 0x94D049BB133111EBULL;
    return h ^ h >> 29;
}

/* Its slot, or the free slot for it: half of them are free. */
static size_t place(const struct stack_tree *t, uint32_t parent, uint64_t address)
{
    size_t i = hash(parent, address) & (t->slots - 1);
    while (t->slot[i] != 0 &&
           (t->nodes[t->slot[i]].parent != parent || t->nodes[t->slot[i]].address != address))
        i = (i + 1) & (t->slots - 1);
    return i;
}

static bool grow_sums(struct stack_tree *t)
{
    if (t->width == 0)
        return true;
    int64_t *sums = sonde_realloc(t->sums, t->cap * t->width * sizeof *sums);
    if (sums)
        t->sums = sums;
    return sums != NULL;
}

static enum status grow(struct stack_tree *t)
{
    if (t->n >= STACK_NODES_MAX)
        return ST_TOO_LARGE;
    if (!SONDE_GROW(t->nodes, t->cap, FIRST_CAP))
        return ST_NOMEM;
    uint32_t *slot = sonde_realloc(t->slot, 2 * t->cap * sizeof *slot);
    if (slot)
        t->slot = slot;
    if (!slot || !grow_sums(t)) {
        t->cap = t->slots / 2;
        return ST_NOMEM;
    }
    t->slots = 2 * t->cap;
    memset(slot, 0, t->slots * sizeof *slot);
    for (size_t i = 1; i < t->n; i++)
        slot[place(t, t->nodes[i].parent, t->nodes[i].address)] = (uint32_t)i;
    return ST_OK;
}

static enum status add(struct stack_tree *t, uint32_t parent, uint64_t address)
{
    if (t->n == t->cap) {
        enum status st = grow(t);
        if (st != ST_OK)
            return st;
        if (t->n == 0)
            t->nodes[t->n++] = (struct stack_node){0};
    }
    t->slot[place(t, parent, address)] = (uint32_t)t->n;
    for (unsigned k = 0; k < t->width; k++)
        t->sums[t->n * t->width + k] = 0;
    t->nodes[t->n++] = (struct stack_node){.address = address, .parent = parent};
    return ST_OK;
}

/* From a node to the one of the next call. */
static enum status step(struct stack_tree *t, uint32_t *at, uint64_t address)
{
    uint32_t found = t->n > 0 ? t->slot[place(t, *at, address)] : 0;
    if (found == 0) {
        enum status st = add(t, *at, address);
        if (st != ST_OK)
            return st;
        found = (uint32_t)t->n - 1;
    }
    *at = found;
    return ST_OK;
}

/* What was added of a stack that has no room in the end counts no process. */
enum status stack_tree_add(struct stack_tree *t, const uint64_t *frames, unsigned n, uint64_t pid,
                           const int64_t *values)
{
    uint32_t at = 0;
    for (unsigned i = 0; i < n; i++) {
        enum status st = step(t, &at, frames[i]);
        if (st != ST_OK)
            return st;
    }
    struct stack_node *node = &t->nodes[at];
    if (node->count == 0)
        node->pid = pid;
    node->count++;
    for (unsigned k = 0; k < t->width;
         k++) { /* values that were torn down may be anything: sums wrap */
        int64_t *sum = &t->sums[(size_t)at * t->width + k];
        *sum = (int64_t)((uint64_t)*sum + (uint64_t)values[k]);
    }
    return ST_OK;
}

/* A node comes after its parent, so this ends. */
unsigned stack_tree_frames(const struct stack_tree *t, size_t node, uint64_t *frames, unsigned max)
{
    unsigned n = 0;
    for (size_t at = node; at != 0 && n < max; at = t->nodes[at].parent)
        frames[n++] = t->nodes[at].address;
    for (unsigned i = 0; i < n / 2; i++) {
        uint64_t last = frames[n - 1 - i];
        frames[n - 1 - i] = frames[i];
        frames[i] = last;
    }
    return n;
}

void stack_tree_free(struct stack_tree *t)
{
    sonde_free(t->nodes);
    sonde_free(t->slot);
    sonde_free(t->sums);
    *t = (struct stack_tree){0};
}
