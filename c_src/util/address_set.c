#include "util/address_set.h"

#include "util/alloc.h"

#include <string.h>

enum { PARTS = BOUND(1024, 2), FIRST_CAP = BOUND(8, 2) };

struct part_of_set {
    uint64_t *keys; /* 0: free; no Binary is at 0 */
    uint32_t n, cap;
};

struct address_set {
    uint64_t bytes;
    size_t n;
    struct part_of_set parts[PARTS];
};

struct address_set *address_set_new(void)
{
    struct address_set *s = sonde_alloc(sizeof *s);
    if (s)
        memset(s, 0, sizeof *s);
    return s;
}

void address_set_free(struct address_set *s)
{
    if (!s)
        return;
    for (unsigned i = 0; i < PARTS; i++)
        sonde_free(s->parts[i].keys);
    sonde_free(s);
}

static uint64_t hash(uint64_t binary)
{
    return (binary >> 3) * 0x9E3779B97F4A7C15ULL >> 20;
}

/* Its slot, or the free slot for it: there is always one, because half of the slots stay free. */
static uint64_t *place(const struct part_of_set *p, uint64_t binary)
{
    uint32_t i = (uint32_t)(hash(binary) / PARTS) & (p->cap - 1);
    while (p->keys[i] != 0 && p->keys[i] != binary)
        i = (i + 1) & (p->cap - 1);
    return &p->keys[i];
}

bool address_set_has(const struct address_set *s, uint64_t binary)
{
    const struct part_of_set *p = &s->parts[hash(binary) % PARTS];
    return p->cap != 0 && *place(p, binary) == binary;
}

static bool grow(struct part_of_set *p)
{
    uint32_t cap = p->cap == 0 ? FIRST_CAP : p->cap * 2;
    struct part_of_set more = {sonde_alloc(cap * sizeof *more.keys), p->n, cap};
    if (!more.keys)
        return false;
    memset(more.keys, 0, cap * sizeof *more.keys);
    for (uint32_t i = 0; i < p->cap; i++) {
        if (p->keys[i] != 0)
            *place(&more, p->keys[i]) = p->keys[i];
    }
    sonde_free(p->keys);
    *p = more;
    return true;
}

enum status address_set_add(struct address_set *s, uint64_t binary, uint64_t bytes)
{
    struct part_of_set *p = &s->parts[hash(binary) % PARTS];
    if (s->n == ADDRESS_SET_MAX || ((p->n + 1) * 2 > p->cap && !grow(p)))
        return ST_NOMEM;
    *place(p, binary) = binary;
    p->n++;
    s->n++;
    s->bytes += bytes;
    return ST_OK;
}

uint64_t address_set_bytes(const struct address_set *s)
{
    return s->bytes;
}
