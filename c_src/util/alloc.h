/* alloc.h: the allocator of sonde's own memory.
 * Knows: it is enif_alloc in a node and malloc in a test program; any call may fail.
 * Does not know: what the memory is for. */
#ifndef SONDE_ALLOC_H
#define SONDE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

void *sonde_alloc(size_t bytes);
void *sonde_realloc(void *p, size_t bytes);
void sonde_free(void *p);

/* Doubles the room of a full array; First: for how many entries the first time. false: no memory. */
#define SONDE_GROW(List, Cap, First) sonde_grow((void *)&(List), &(Cap), (First), sizeof *(List))

static inline bool sonde_grow(void *list, size_t *cap, size_t first, size_t size)
{
    void *old;
    size_t more = *cap == 0 ? first : *cap * 2;
    memcpy(&old, list, sizeof old);
    void *grown = sonde_realloc(old, more * size);
    if (!grown)
        return false;
    memcpy(list, &grown, sizeof grown);
    *cap = more;
    return true;
}

/* Frees p, if there is anything; true: there was. For memory that is freed block by block, because
 * freeing a large one takes milliseconds. */
#define SONDE_DROP(p) ((p) && (sonde_free(p), (p) = NULL, true))

#endif
