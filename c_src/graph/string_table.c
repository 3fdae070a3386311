#include "graph/string_table.h"

#include "util/alloc.h"

#include <string.h>

enum { SLOTS = 4 * STRING_TABLE_MAX };

const char *const string_table_fixed[STRING_TABLE_FIXED_N] = {
#define X(Id, Text) [NAME_##Id] = (Text),
    STRING_TABLE_FIXED(X)
#undef X
};

enum status string_table_init(struct string_table *ns)
{
    *ns = (struct string_table){.list = sonde_alloc(STRING_TABLE_MAX * sizeof *ns->list),
                                .slots = sonde_alloc(SLOTS * sizeof *ns->slots)};
    if (!ns->list || !ns->slots)
        return ST_NOMEM;
    memset(ns->slots, 0, SLOTS * sizeof *ns->slots);
    return ST_OK;
}

void string_table_end(struct string_table *ns)
{
    sonde_free(ns->list);
    sonde_free(ns->slots);
    sonde_free(ns->funs);
    *ns = (struct string_table){.list = NULL};
}

size_t string_table_bytes(const struct string_table *ns)
{
    return ns->list ? STRING_TABLE_MAX * sizeof *ns->list + SLOTS * sizeof *ns->slots +
                          ns->funs_cap * sizeof *ns->funs
                    : 0;
}

static bool same(const struct name *a, const struct name *b)
{
    /* for a fun, n is only an index */
    return a->kind == b->kind && a->word == b->word && (a->n == b->n || a->kind == NAME_OF_FUN);
}

/* Its slot, or the free slot for it. At most a quarter of the slots is used. */
static uint32_t *slot(const struct string_table *ns, const struct name *name)
{
    uint64_t n = name->kind == NAME_OF_FUN ? 0 : name->n;
    uint64_t hash = (name->word ^ n << 40 ^ (uint64_t)name->kind << 56) * 0x9E3779B97F4A7C15ULL;
    for (hash >>= 32;; hash++) {
        uint32_t *s = &ns->slots[hash % SLOTS];
        if (*s == 0 || same(&ns->list[*s - 1], name))
            return s;
    }
}

enum status string_table_put(struct string_table *ns, struct name name, uint32_t *index)
{
    uint32_t *s = slot(ns, &name);
    if (*s == 0) {
        if (ns->n == STRING_TABLE_MAX)
            return ST_GONE;
        ns->list[ns->n] = name;
        *s = ++ns->n;
    }
    *index = *s - 1;
    return ST_OK;
}

enum status string_table_put_fun(struct string_table *ns, const struct vm *vm, uint64_t entry,
                                 uint64_t free, uint32_t *index)
{
    struct name name = {NAME_OF_FUN, ns->funs_n, entry};
    uint32_t before = ns->n;
    if (ns->funs_n == ns->funs_cap && !SONDE_GROW(ns->funs, ns->funs_cap, 16))
        return ST_NOMEM;
    struct fun_bar *f = &ns->funs[ns->funs_n];
    *f = (struct fun_bar){.key = entry, .free = free};
    enum status st = string_table_put(ns, name, index);
    if (st != ST_OK || ns->n == before)
        return st;
    ns->funs_n++;
    return fun_entry_read(vm, entry, f->entry) ? ST_OK : ST_TORN;
}
