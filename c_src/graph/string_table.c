#include "graph/string_table.h"

#include "util/alloc.h"

#include <string.h>

/* The table grows, because most heaps have few different strings. */
enum { NAMES_FIRST = BOUND(256, 4), SLOTS_EACH = 4 };

const char *const string_table_fixed[STRING_TABLE_FIXED_N] = {
#define X(Id, Text) [NAME_##Id] = (Text),
    STRING_TABLE_FIXED(X)
#undef X
};

void string_table_end(struct string_table *ns)
{
    sonde_free(ns->list);
    sonde_free(ns->slots);
    sonde_free(ns->funs);
    *ns = (struct string_table){.list = NULL};
}

size_t string_table_bytes(const struct string_table *ns)
{
    return ns->cap * (sizeof *ns->list + SLOTS_EACH * sizeof *ns->slots) +
           ns->funs_cap * sizeof *ns->funs;
}

static bool same(const struct name *a, const struct name *b)
{
    /* for a fun, n is only an index */
    return a->kind == b->kind && a->word == b->word && (a->n == b->n || a->kind == NAME_OF_FUN);
}

/* Its slot, or the free slot for it. At most a quarter of the slots, a power of two, is used. */
static uint32_t *slot(const struct string_table *ns, const struct name *name)
{
    uint64_t n = name->kind == NAME_OF_FUN ? 0 : name->n;
    uint64_t hash = (name->word ^ n << 40 ^ (uint64_t)name->kind << 56) * 0x9E3779B97F4A7C15ULL;
    for (hash >>= 32;; hash++) {
        uint32_t *s = &ns->slots[hash & (ns->cap * SLOTS_EACH - 1)];
        if (*s == 0 || same(&ns->list[*s - 1], name))
            return s;
    }
}

/* Doubles the room for names, and puts all of them into larger slots. */
static bool grow(struct string_table *ns)
{
    size_t cap = ns->cap;
    uint32_t *slots =
        sonde_alloc((cap == 0 ? NAMES_FIRST : cap * 2) * SLOTS_EACH * sizeof *ns->slots);
    if (!slots || !SONDE_GROW(ns->list, ns->cap, NAMES_FIRST)) {
        sonde_free(slots);
        return false;
    }
    sonde_free(ns->slots);
    ns->slots = slots;
    memset(slots, 0, ns->cap * SLOTS_EACH * sizeof *slots);
    for (uint32_t i = 0; i < ns->n; i++)
        *slot(ns, &ns->list[i]) = i + 1;
    return true;
}

enum status string_table_put(struct string_table *ns, struct name name, uint32_t *index)
{
    uint32_t *s = ns->cap != 0 ? slot(ns, &name) : NULL;
    if (!s || *s == 0) {
        if (ns->n == STRING_TABLE_MAX)
            return ST_GONE;
        if (ns->n == ns->cap && !grow(ns))
            return ST_NOMEM;
        ns->list[ns->n] = name;
        s = slot(ns, &name);
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
