/* resource_types.h: the resource types of native libraries.
 * Knows: each type once, with its name. Does not know: where types are found. */
#ifndef SONDE_RESOURCE_TYPES_H
#define SONDE_RESOURCE_TYPES_H

#include <stddef.h>
#include <stdint.h>

struct resource_type {
    uint64_t at;           /* its address; 0: memory of the VM itself */
    uint64_t module, name; /* atoms */
    uint64_t count, bytes; /* of resources, each counted once */
    uint64_t holders;      /* processes */
};

/* The first type stands for all unknown ones. */
struct resource_types {
    uint32_t n;
    size_t cap;
    struct resource_type *list;
};

#define RESOURCE_TYPES_NOMEM UINT32_MAX

/* The index of the type, which is added if there are fewer than max; else 0. Or
 * RESOURCE_TYPES_NOMEM. */
uint32_t resource_types_index(struct resource_types *ts, const struct resource_type *type,
                              uint32_t max);
void resource_types_free(struct resource_types *ts);

#endif
