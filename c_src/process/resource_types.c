#include "process/resource_types.h"

#include "util/alloc.h"

uint32_t resource_types_index(struct resource_types *ts, const struct resource_type *type,
                              uint32_t max)
{
    if (ts->n == 0) {
        if (!SONDE_GROW(ts->list, ts->cap, 4))
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
    if (ts->n == ts->cap && !SONDE_GROW(ts->list, ts->cap, 4))
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
