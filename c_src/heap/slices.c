#include "heap/slices.h"

#include "util/alloc.h"

#include <string.h>

void slices_init(struct slices *s, size_t max)
{
    s->n = 0;
    s->cap = SLICES_INLINE;
    s->max = max;
    s->list = s->first;
    s->sorting = false;
}

void slices_end(struct slices *s)
{
    if (s->list != s->first)
        sonde_free(s->list);
    s->list = s->first;
}

static bool grow(struct slices *s)
{
    size_t bytes = s->cap * sizeof *s->list;
    bool is_first = s->list == s->first;
    struct slice *list = is_first ? sonde_alloc(2 * bytes) : sonde_realloc(s->list, 2 * bytes);
    if (!list)
        return false;
    if (is_first)
        memcpy(list, s->first, bytes);
    s->list = list;
    s->cap *= 2;
    return true;
}

/* Finds the first byte of the view in its Binary. Up to 26 the ProcBin points at the bytes. */
static bool locate(const struct vm *vm, uintptr_t refc, const struct view_of_bytes *v,
                   struct slice *s)
{
    uint64_t base = v->base;
    if (!peek_word(vm->reader, refc + LF(vm->lay, bin_ptr), &s->binary))
        return false;
    uint64_t first = s->binary + LF(vm->lay, bin_bytes);
    if (vm->lay->refc_is_term && !peek_word(vm->reader, refc + LF(vm->lay, bin_ptr) + 8, &base))
        return false;
    s->from = (v->volatile_base ? 0 : base - first) + v->from;
    s->to = s->from + v->size;
    return true;
}

enum status slices_add(struct slices *s, const struct vm *vm, uintptr_t refc,
                       const struct view_of_bytes *v)
{
    if (s->n == s->max)
        return ST_TOO_LARGE;
    if (s->n == s->cap && !grow(s))
        return ST_NOMEM;
    return locate(vm, refc, v, &s->list[s->n]) ? (s->n++, ST_OK) : ST_TORN;
}

/* ---- sorting -------------------------------------------------------------------------------- */

static bool before(const struct slice *a, const struct slice *b)
{
    if (a->binary != b->binary)
        return a->binary < b->binary;
    return a->from != b->from ? a->from < b->from : a->to < b->to;
}

static void swap(struct slice *a, struct slice *b)
{
    struct slice t = *a;
    *a = *b;
    *b = t;
}

static void sift_down(struct slice *list, size_t n, size_t i)
{
    for (;;) {
        size_t last = i;
        for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < n; k++) {
            if (before(&list[last], &list[k]))
                last = k;
        }
        if (last == i)
            return;
        swap(&list[i], &list[last]);
        i = last;
    }
}

/* One step for each level: in a large binary heap each is a cache miss. */
static bool sift_step(const struct slices *s, struct budget *b)
{
    uint32_t levels = 64 - (uint32_t)__builtin_clzll(s->n | 1);
    if (!budget_step(b))
        return false;
    b->steps -= b->steps < levels ? b->steps : levels;
    return true;
}

bool slices_sort(struct slices *s, struct budget *b)
{
    if (!s->sorting) {
        s->sorting = true;
        s->loose = s->n / 2;
        s->unsorted = s->n;
    }
    for (; s->loose > 0; s->loose--) {
        if (!sift_step(s, b))
            return false;
        sift_down(s->list, s->n, s->loose - 1);
    }
    for (; s->unsorted > 1; s->unsorted--) {
        if (!sift_step(s, b))
            return false;
        swap(&s->list[0], &s->list[s->unsorted - 1]);
        sift_down(s->list, s->unsorted - 1, 0);
    }
    return true;
}
