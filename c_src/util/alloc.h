/* alloc.h: the allocator of sonde's own memory.
 * Knows: it is enif_alloc in a node and malloc in a test program; any call may fail.
 * Does not know: what the memory is for. */
#ifndef SONDE_ALLOC_H
#define SONDE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

void *sonde_alloc(size_t bytes);
void *sonde_realloc(void *p, size_t bytes);
void sonde_free(void *p);

/* Frees p, if there is anything; true: there was. For memory that is freed block by block, because
 * freeing a large one takes milliseconds. */
#define SONDE_DROP(p) ((p) && (sonde_free(p), (p) = NULL, true))

#endif
