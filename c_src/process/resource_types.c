/* resource_types.c: the resource types of native libraries. */
#include "process/resource_types.h"

#include "util/alloc.h"

#include <stdbool.h>

static bool grow(struct resource_types *ts)
{
    uint32_t cap = ts->cap == 0 ? 4 : ts->cap * 2;
    struct resource_type *list = sonde_realloc(ts->list, cap * sizeof *list);
    if (!list)
        return false;
    ts->list = list;
    ts->cap = cap;
    return true;
}

uint32_t resource_types_index(struct resource_types *ts, const struct resource_type *type,
                              uint32_t max)
{
    if (ts->n == 0) {
        if (!grow(ts))
            return RESOURCE_TYPES_NOMEM;
        ts->list[ts->n++] = (struct resource_type){0};
    }
    for (uint32_t i = 0; i < ts->n; i++) {
        const struct resource_type *t = &ts->list[i];
        if (t->at == type->at && t->module == type->module && t->name == type->name)
            return i;
    }
    if (ts->n >= max)
        return 0;
    if (ts->n == ts->cap && !grow(ts))
        return RESOURCE_TYPES_NOMEM;
    ts->list[ts->n] =
        (struct resource_type){.at = type->at, .module = type->module, .name = type->name};
    return ts->n++;
}

void resource_types_free(struct resource_types *ts)
{
    sonde_free(ts->list);
    *ts = (struct resource_types){0};
}
