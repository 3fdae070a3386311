/* histogram.h: how many objects of each kind a walk has met, and how many words they take.
 * Knows: kinds, arities of tuples, and which function a fun is of.
 * Does not know: how objects are found, or the names of functions. */
#ifndef SONDE_HISTOGRAM_H
#define SONDE_HISTOGRAM_H

#include "util/budget.h"
#include "vm/object.h"

enum bar_kind {
    BAR_CONS,
    BAR_FLATMAP,
    BAR_HASHMAP,
    BAR_BIGNUM,
    BAR_FLOAT,
    BAR_HEAP_BINARY,
    BAR_SUB_BINARY,
    BAR_REFC_BINARY,
    BAR_REF,
    BAR_EXTERNAL,
    BAR_RECORD,
    BAR_OTHER,
    BAR_COUNT
};

struct bar {
    uint64_t count, words;
};

/* Of tuples and funs there are as many kinds as there are arities and functions. */
struct keyed_bar {
    uint64_t key; /* 0: free */
    struct bar bar;
};

/* The VM's entry of the function, as far as it names it: at most so many words, in any release. */
enum { FUN_ENTRY_WORDS = 12 };
struct fun_bar {
    uint64_t key; /* its address; 0: free */
    struct bar bar;
    uint64_t entry[FUN_ENTRY_WORDS];
    uint64_t free; /* terms in the environment of the first fun met */
};

enum { BARS_TUPLES = BOUND(64, 4), BARS_KEYED = BOUND(1024, 8) };

struct histogram {
    bool nameless; /* funs are told apart by the size of their environment alone */
    struct bar bars[BAR_COUNT];
    struct bar tuples[BARS_TUPLES];     /* of small arities */
    struct keyed_bar large[BARS_KEYED]; /* of others; key: arity + 1 */
    struct fun_bar funs[BARS_KEYED];
};

/* All of it that this VM has; the rest is 0. false: it cannot be read. */
bool fun_entry_read(const struct vm *vm, uint64_t at, uint64_t entry[FUN_ENTRY_WORDS]);

struct histogram *histogram_new(bool nameless); /* NULL: no memory */
void histogram_free(struct histogram *g);

static inline void histogram_cons(struct histogram *g)
{
    g->bars[BAR_CONS].count++;
    g->bars[BAR_CONS].words += 2;
}

/* The object at this address. What has no bar of its own any more counts as other. false: torn. */
bool histogram_add(struct histogram *g, const struct vm *vm, uintptr_t at, const struct object *t);

#endif
