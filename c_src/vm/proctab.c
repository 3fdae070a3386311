#include "vm/proctab.h"

#include "vm/executable.h"

/* A cache line has eight slots, and consecutive pids lie in different lines: the lowest bits of the
 * number select the line, the next three bits the slot in it. Up to 25 the pid's lower half is the
 * number; from 26 it contains the slot in place of the number's lowest bits. */
enum { SLOT_BITS = 3 };

uint64_t proctab_order(const struct layout *lay, const struct proctab *tab, uint64_t pid)
{
    if (lay->pid_slot_high)
        return (pid & 0xFFFFFFFF) >> 4;
    uint64_t slot = proctab_slot(lay, tab, pid);
    uint64_t lines = tab->max >> SLOT_BITS;
    return ((pid >> 4) & ~(tab->max - 1)) | (slot & ((1 << SLOT_BITS) - 1)) * lines |
           slot >> SLOT_BITS;
}

uint64_t proctab_data(uint64_t slots, uint64_t number)
{
    uint64_t lines = slots >> SLOT_BITS;
    uint64_t low = number & (slots - 1);
    return (number & ~(slots - 1)) | (low % lines) << SLOT_BITS | low / lines;
}

struct search {
    enum peek_reader reader;
    const struct layout *lay;
    uint64_t limit, self_pid;
    uintptr_t self_proc;
    unsigned hits;
    struct proctab found;
};

bool proctab_record(enum peek_reader r, const struct layout *lay, uintptr_t record,
                    struct proctab *out)
{
    uint64_t max;
    uint64_t tab;
    if (!peek_word(r, record + LF(lay, ptab_max), &max) ||
        !peek_word(r, record + LF(lay, ptab_tab), &tab))
        return false;
    *out = (struct proctab){.tab = (uintptr_t)tab, .max = (uint32_t)max, .record = record};
    return true;
}

bool proctab_read(enum peek_reader r, const struct layout *lay, uintptr_t record,
                  struct proctab *out)
{
    uint64_t size;
    return peek_word(r, record + LF(lay, ptab_element_size), &size) && size == LF(lay, proc_size) &&
           proctab_record(r, lay, record, out);
}

/* The VM exports no symbols (distributions strip it, OTP 29 hides them), but the table's record
 * lies in the main executable's own data. Its read-only part is easy to recognize: the table
 * pointer, a power of two that is the official process limit, sizeof(Process). The proof is that
 * the caller's slot of that table holds the caller's own Process. */
static void try_record(struct search *s, uintptr_t record)
{
    uint64_t proc;
    struct proctab found;
    if (!proctab_read(s->reader, s->lay, record, &found) || found.max != s->limit)
        return;
    size_t slot = proctab_slot(s->lay, &found, s->self_pid);
    if (peek_word(s->reader, found.tab + slot * 8, &proc) && proc == s->self_proc) {
        s->found = found;
        s->hits++;
    }
}

static void search_segment(void *arg, uintptr_t from, uintptr_t to)
{
    from = (from + PROCTAB_RECORD_ALIGN - 1) & ~(uintptr_t)(PROCTAB_RECORD_ALIGN - 1);
    for (uintptr_t a = from; a + PROCTAB_RECORD_ALIGN <= to; a += PROCTAB_RECORD_ALIGN)
        try_record(arg, a);
}

/* The largest table has 2^27 slots, but one of them is never used. */
uint64_t proctab_slots(uint64_t limit)
{
    return limit == (1U << 27) - 1 ? limit + 1 : limit;
}

bool proctab_find(enum peek_reader r, const struct layout *lay, uint64_t process_limit,
                  uint64_t self_pid, uintptr_t self_proc, struct proctab *out)
{
    process_limit = proctab_slots(process_limit);
    if (process_limit == 0 || (process_limit & (process_limit - 1)) != 0)
        return false;
    struct search s = {.reader = r,
                       .lay = lay,
                       .limit = process_limit,
                       .self_pid = self_pid,
                       .self_proc = self_proc};
    executable_data(search_segment, &s);
    if (s.hits != 1)
        return false;
    *out = s.found;
    return true;
}

/* The volatile part of the record is the cache line before the read-only part, in every release. */
enum { TURNOVER_BEFORE = 56 };

bool proctab_turnover(enum peek_reader r, const struct proctab *tab, struct turnover *out)
{
    uint64_t both;
    if (tab->record == 0 || !peek_word(r, tab->record - TURNOVER_BEFORE, &both))
        return false;
    *out = (struct turnover){(uint32_t)both, (uint32_t)(both >> 32)};
    return true;
}
