/* histogram.h: the number and size of the objects of each kind that a walk met.
 * Knows: kinds, arities of tuples, the function of a fun.
 * Does not know: how objects are found, or the names of functions. */
#ifndef SONDE_HISTOGRAM_H
#define SONDE_HISTOGRAM_H

#include "util/budget.h"
#include "vm/object.h"

/* clang-format off */
#define BAR_LIST(X)                                                                                \
    X(CONS, "cons") X(FLATMAP, "flatmap") X(HASHMAP, "hashmap") X(BIGNUM, "bignum")                \
    X(FLOAT, "float") X(HEAP_BINARY, "heap_binary") X(SUB_BINARY, "sub_binary")                    \
    X(REFC_BINARY, "refc_binary") X(REF, "ref") X(EXTERNAL, "external") X(RECORD, "record")        \
    X(OTHER, "other")
/* clang-format on */

enum bar_kind {
#define X(Id, Name) BAR_##Id,
    BAR_LIST(X)
#undef X
        BAR_COUNT
};

/* The bars of the kinds that have only one; NONE: a list cell. */
extern const enum bar_kind histogram_bars[];

struct bar {
    uint64_t count, words;
};

/* Each arity of a tuple and each function of a fun is a kind of its own. */
struct keyed_bar {
    uint64_t key; /* 0: free */
    struct bar bar;
};

/* The VM's entry of a function, up to its last name: at most this many words in any release. */
enum { FUN_ENTRY_WORDS = 12 };
struct fun_bar {
    uint64_t key; /* address of the entry; 0: free */
    struct bar bar;
    uint64_t entry[FUN_ENTRY_WORDS];
    uint64_t free; /* terms in the environment of the first fun met */
};

enum { BARS_TUPLES = BOUND(64, 4), BARS_KEYED = BOUND(1024, 8) };

struct histogram {
    bool nameless; /* distinguish funs only by the size of their environment */
    struct bar bars[BAR_COUNT];
    struct bar tuples[BARS_TUPLES];     /* of small arities */
    struct keyed_bar large[BARS_KEYED]; /* of others; key: arity + 1 */
    struct fun_bar funs[BARS_KEYED];
};

/* Copies the words that this VM has; the rest is 0. false: it cannot be read. */
bool fun_entry_read(const struct vm *vm, uint64_t at, uint64_t entry[FUN_ENTRY_WORDS]);

struct histogram *histogram_new(bool nameless); /* NULL: no memory */

static inline void histogram_cells(struct histogram *g, uint64_t n)
{
    g->bars[BAR_CONS].count += n;
    g->bars[BAR_CONS].words += 2 * n;
}

static inline void histogram_small_tuple(struct histogram *g, uint64_t arity)
{
    g->tuples[arity].count++;
    g->tuples[arity].words += 1 + arity;
}

static inline void histogram_small_map(struct histogram *g, uint64_t words)
{
    g->bars[BAR_FLATMAP].count++;
    g->bars[BAR_FLATMAP].words += words;
}

/* Counts the object at this address; in BAR_OTHER once its table is full. false: torn. */
bool histogram_add(struct histogram *g, const struct vm *vm, uintptr_t at, const struct object *t);

#endif
