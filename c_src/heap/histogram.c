#include "heap/histogram.h"

#include "util/alloc.h"

#include <string.h>

const enum bar_kind histogram_bars[] = {
    [KIND_NONE] = BAR_CONS,
    [KIND_RECORD] = BAR_RECORD,
    [KIND_BIGNUM] = BAR_BIGNUM,
    [KIND_FLOAT] = BAR_FLOAT,
    [KIND_REF] = BAR_REF,
    [KIND_REFC] = BAR_REFC_BINARY,
    [KIND_HEAP_BINARY] = BAR_HEAP_BINARY,
    [KIND_SUB_BINARY] = BAR_SUB_BINARY,
    [KIND_MATCH] = BAR_OTHER,
    [KIND_EXTERNAL] = BAR_EXTERNAL,
    [KIND_FUN_REF] = BAR_OTHER,
};

struct histogram *histogram_new(bool nameless)
{
    struct histogram *g = sonde_alloc(sizeof *g);
    if (g) {
        memset(g, 0, sizeof *g);
        g->nameless = nameless;
    }
    return g;
}

static void count(struct bar *bar, uint64_t words)
{
    bar->count++;
    bar->words += words;
}

static uint64_t place_of(uint64_t key, unsigned try)
{
    return ((key * 0x9E3779B97F4A7C15ULL >> 40) + try) % BARS_KEYED;
}

static void add_large_tuple(struct histogram *g, const struct object *t)
{
    for (unsigned i = 0; i < BARS_KEYED; i++) {
        struct keyed_bar *b = &g->large[place_of(t->words, i)];
        if (b->key == 0)
            b->key = t->words;
        if (b->key == t->words) {
            count(&b->bar, t->words);
            return;
        }
    }
    count(&g->bars[BAR_OTHER], t->words);
}

static void add_tuple(struct histogram *g, const struct object *t)
{
    uint64_t arity = t->words - 1;
    if (arity < BARS_TUPLES)
        histogram_small_tuple(g, arity);
    else
        add_large_tuple(g, t);
}

/* A hashmap counts as one map: its head is counted, the nodes below it only add their words. */
static void add_map(struct histogram *g, const struct object *t)
{
    unsigned type = map_type(t->header);
    struct bar *bar = &g->bars[type == MAP_FLAT ? BAR_FLATMAP : BAR_HASHMAP];
    bar->count += type != MAP_NODE;
    bar->words += t->words;
}

/* The offset of the module depends on the number of code addresses before it, which the emulator's
 * flavour decides; calibration found it with a known fun. Without it no function can be named. */
bool fun_entry_read(const struct vm *vm, uint64_t at, uint64_t entry[FUN_ENTRY_WORDS])
{
    unsigned words = vm->fun_module == 0 ? 0 : vm->fun_module / 8u + vm->lay->fun_names;
    memset(entry, 0, FUN_ENTRY_WORDS * sizeof *entry);
    return !(at & 7) && words <= FUN_ENTRY_WORDS && peek_block(vm->reader, at, words, entry);
}

/* Copies the entry of a new function now, while the stamp guarantees that the function is alive. */
static bool add_fun(struct histogram *g, const struct vm *vm, uintptr_t at, const struct object *t)
{
    uint64_t free = t->words - t->first;
    uint64_t entry = free << 1;
    if (!g->nameless && !peek_word(vm->reader, at + 8, &entry))
        return false;
    for (unsigned i = 0; i < BARS_KEYED; i++) {
        struct fun_bar *b = &g->funs[place_of(entry, i)];
        if (b->key == 0) {
            if (g->nameless || !fun_entry_read(vm, entry, b->entry))
                memset(b->entry, 0, sizeof b->entry); /* then it has no name */
            b->key = entry | 1;
            b->free = free;
        }
        if (b->key == (entry | 1)) {
            count(&b->bar, t->words);
            return true;
        }
    }
    count(&g->bars[BAR_OTHER], t->words);
    return true;
}

bool histogram_add(struct histogram *g, const struct vm *vm, uintptr_t at, const struct object *t)
{
    switch (t->kind) {
    case KIND_TUPLE:
        add_tuple(g, t);
        return true;
    case KIND_MAP:
        add_map(g, t);
        return true;
    case KIND_FUN:
        return add_fun(g, vm, at, t);
    default:
        count(&g->bars[histogram_bars[t->kind]], t->words);
        return true;
    }
}
