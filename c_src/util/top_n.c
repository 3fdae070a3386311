#include "util/top_n.h"

#include "util/alloc.h"

enum { FIRST_CAP = BOUND(64, 4) };

void top_n_init(struct top_n *t, size_t limit)
{
    *t = (struct top_n){.limit = limit};
}

void top_n_free(struct top_n *t)
{
    sonde_free(t->rows);
    t->rows = NULL;
    t->n = t->cap = 0;
}

/* Without a branch: of equal values, as idle processes have, the order is not to be guessed. */
static bool less(const struct row *a, const struct row *b)
{
    return (a->value < b->value) | ((a->value == b->value) & (a->order < b->order));
}

static void swap(struct row *a, struct row *b)
{
    struct row t = *a;
    *a = *b;
    *b = t;
}

static void sift_up(struct row *rows, size_t i)
{
    while (i > 0 && less(&rows[i], &rows[(i - 1) / 2])) {
        swap(&rows[i], &rows[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
}

/* The lesser child moves up until the row has found its place. */
static void sift_down(struct row *rows, size_t n, const struct row *row)
{
    size_t i = 0;
    for (size_t k = 1; k < n; k = 2 * i + 1) {
        k += k + 1 < n && less(&rows[k + 1], &rows[k]);
        if (!less(&rows[k], row))
            break;
        rows[i] = rows[k];
        i = k;
    }
    rows[i] = *row;
}

bool top_n_push(struct top_n *t, const struct row *row)
{
    if (t->n < t->limit) {
        if (t->n == t->cap && !SONDE_GROW(t->rows, t->cap, FIRST_CAP))
            return false;
        t->rows[t->n] = *row;
        sift_up(t->rows, t->n++);
    } else if (t->n > 0 && less(&t->rows[0], row)) {
        sift_down(t->rows, t->n, row);
    }
    return true;
}

/* Heap sort, one row a step: the smallest unsorted row moves to the end of the unsorted ones. */
bool top_n_sort(struct top_n *t, struct budget *b)
{
    if (t->unsorted == 0)
        t->unsorted = t->n;
    for (; t->unsorted > 1; t->unsorted--) {
        if (!budget_step(b))
            return false;
        struct row last = t->rows[t->unsorted - 1];
        t->rows[t->unsorted - 1] = t->rows[0];
        sift_down(t->rows, t->unsorted - 1, &last);
    }
    return true;
}
