#include "process/sample.h"

#include "util/alloc.h"
#include "util/budget.h"

enum { FIRST_CAP = BOUND(1024, 4) };

void sample_init(struct sample *s, const struct layout *lay, const struct proctab *tab, size_t max)
{
    *s = (struct sample){.lay = lay, .tab = *tab, .max = max};
}

void sample_free(struct sample *s)
{
    sonde_free(s->entries);
    s->entries = NULL;
    s->n = s->cap = 0;
}

enum status sample_add(struct sample *s, uint64_t pid, int64_t value, unsigned marks)
{
    if (s->n == s->max)
        return ST_ASK;
    if (s->n == s->cap && !SONDE_GROW(s->entries, s->cap, FIRST_CAP))
        return ST_NOMEM;
    s->entries[s->n++] = (struct entry){(pid & ~(uint64_t)15) | marks, value};
    return ST_OK;
}

static size_t slot_of(const struct sample *s, const struct entry *e)
{
    return proctab_slot(s->lay, &s->tab, entry_pid(e));
}

/* The second scan follows the same order, so the entry is mostly the next one. */
struct entry *sample_find(struct sample *s, uint64_t pid)
{
    size_t slot = proctab_slot(s->lay, &s->tab, pid);
    size_t lo = 0;
    size_t hi = s->n;
    if (s->hint < s->n && slot_of(s, &s->entries[s->hint]) >= slot &&
        (s->hint == 0 || slot_of(s, &s->entries[s->hint - 1]) < slot)) {
        lo = s->hint;
        hi = lo;
    }
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (slot_of(s, &s->entries[mid]) < slot)
            lo = mid + 1;
        else
            hi = mid;
    }
    s->hint = lo + 1;
    return lo < s->n && entry_pid(&s->entries[lo]) == pid ? &s->entries[lo] : NULL;
}
