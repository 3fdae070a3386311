#include "heap/literal_bits.h"

#include "util/alloc.h"

#include <string.h>

enum { PAGE_WORDS = 1 << 16 };

enum status literal_bits_start(struct literal_bits *l, const struct vm *vm)
{
    l->pages = NULL;
    if (vm->literals.to == 0)
        return ST_ASK;
    l->n = (vm->literals.to - vm->literals.from) / 8 / PAGE_WORDS + 1;
    l->pages = sonde_alloc(l->n * sizeof *l->pages);
    if (!l->pages)
        return ST_NOMEM;
    memset(l->pages, 0, l->n * sizeof *l->pages);
    return ST_OK;
}

void literal_bits_end(struct literal_bits *l)
{
    for (size_t i = 0; l->pages && i < l->n; i++)
        sonde_free(l->pages[i]);
    sonde_free(l->pages);
    l->pages = NULL;
}

enum status literal_bits_mark(struct literal_bits *l, const struct vm *vm, uintptr_t at)
{
    if (!block_holds(&vm->literals, at, 1))
        return ST_ASK;
    size_t word = (at - vm->literals.from) / 8;
    uint64_t **page = &l->pages[word / PAGE_WORDS];
    if (!*page) {
        *page = sonde_alloc(PAGE_WORDS / 8);
        if (!*page)
            return ST_NOMEM;
        memset(*page, 0, PAGE_WORDS / 8);
    }
    uint64_t *bits = &(*page)[word % PAGE_WORDS / 64];
    uint64_t bit = 1ULL << (word % 64);
    if (*bits & bit)
        return ST_GONE;
    *bits |= bit;
    return ST_OK;
}
