/* resource_types.h: the types of resources that native libraries made.
 * Knows: each once, with what it is called. Does not know: where they are found. */
#ifndef SONDE_RESOURCE_TYPES_H
#define SONDE_RESOURCE_TYPES_H

#include <stddef.h>
#include <stdint.h>

struct resource_type {
    uint64_t at;           /* its address; 0: memory of the VM's own */
    uint64_t module, name; /* atoms */
    uint64_t count, bytes; /* resources, each once */
    uint64_t holders;      /* processes */
};

/* The first one stands for all that are not known. */
struct resource_types {
    uint32_t n, cap;
    struct resource_type *list;
};

#define RESOURCE_TYPES_NOMEM UINT32_MAX

/* Which one it is; a new one where there are fewer than max; else 0. Or RESOURCE_TYPES_NOMEM. */
uint32_t resource_types_index(struct resource_types *ts, const struct resource_type *type,
                              uint32_t max);
void resource_types_free(struct resource_types *ts);

#endif
