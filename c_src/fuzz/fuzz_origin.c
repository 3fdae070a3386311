/* fuzz_origin.c: what an unchanging process belongs to, found as simply as possible.
 * Knows: where the VM keeps group leader and first call, and how a dictionary looks.
 * Does not know: scans; it shares no code with the walker, only its limit. */
#include "fuzz/fuzz.h"
#include "vm/term.h"

enum { MOST_PAIRS = BOUND(512, 8), HEADER_2 = 0x80, HEADER_3 = 0xC0, ARITY_MAX = 255 };

struct dictionary {
    const struct vm *vm;
    uint64_t proc;
    unsigned left;
    bool found, unclear;
    uint64_t function[3];
};

static uint64_t own(const struct dictionary *d, enum layout_field f)
{
    return fuzz_word(d->proc + d->vm->lay->f[f]);
}

static uint64_t half(uint64_t at)
{
    return fuzz_word(at & ~7ULL) >> (at & 7) * 8 & 0xFFFFFFFF;
}

/* NULL: not all of it lies on the heap of the process, or it is not there. */
static const uint64_t *object(const struct dictionary *d, uint64_t term, unsigned words)
{
    uint64_t at = term & ~7ULL;
    uint64_t end = at + 8ULL * words;
    bool young = at >= own(d, LF_heap) && end <= own(d, LF_htop);
    bool old = at >= own(d, LF_old_heap) && end <= own(d, LF_old_htop);
    return end >= at && (young || old) && memory_at(end - 8) ? memory_at(at) : NULL;
}

static const uint64_t *tuple(const struct dictionary *d, uint64_t term, uint64_t header)
{
    const uint64_t *w = (term & 3) == 2 ? object(d, term, 1 + (unsigned)(header >> 6)) : NULL;
    return w && w[0] == header ? w + 1 : NULL;
}

static void read_pair(struct dictionary *d, uint64_t term)
{
    const uint64_t *pair = tuple(d, term, HEADER_2);
    if (!pair) {
        d->unclear = true;
        return;
    }
    if (pair[0] != FUZZ_KEY)
        return;
    const uint64_t *f = tuple(d, pair[1], HEADER_3);
    d->found = true;
    d->unclear =
        !f || (f[0] & 63) != 11 || (f[1] & 63) != 11 || (f[2] & 15) != 15 || f[2] >> 4 > ARITY_MAX;
    for (unsigned i = 0; !d->unclear && i < 3; i++)
        d->function[i] = i < 2 ? f[i] : f[i] >> 4;
}

/* The order in which pairs come decides which of several is found. */
static void read_slot(struct dictionary *d, uint64_t term)
{
    for (; (term & 3) == 1 && d->left > 0 && !d->found; d->left--) {
        const uint64_t *cell = object(d, term, 2);
        if (!cell) {
            d->unclear = true;
            return;
        }
        read_pair(d, cell[0]);
        term = cell[1];
    }
    if (!d->found && term != TERM_NIL)
        read_pair(d, term);
}

static void read_slots(struct dictionary *d, uint64_t at)
{
    uint64_t used_at = at + d->vm->lay->f[LF_dict_used];
    uint64_t used = half(used_at);
    d->unclear = !memory_at(used_at & ~7ULL);
    for (uint64_t i = 0; i < used && d->left > 0 && !d->found; i++) {
        uint64_t slot = at + d->vm->lay->f[LF_dict_head] + 8 * i;
        d->left--;
        if (!memory_at(slot))
            d->unclear = true;
        else
            read_slot(d, fuzz_word(slot));
    }
    d->unclear = d->unclear || (!d->found && d->left == 0);
}

struct verdict model_origin(const struct vm *vm, uint64_t proc, struct origin *key)
{
    struct dictionary d = {.vm = vm, .proc = proc, .left = MOST_PAIRS};
    struct verdict v = {.kind = MUST, .value = 0};
    uint64_t call[3];
    bool there = true;
    for (unsigned i = 0; i < 3; i++) {
        call[i] = fuzz_word(proc + vm->identity.call + 8ULL * i);
        there = there && memory_at(proc + vm->identity.call + 8ULL * i);
    }
    if (own(&d, LF_dictionary) != 0)
        read_slots(&d, own(&d, LF_dictionary));
    uint64_t leader = own(&d, LF_group_leader);
    *key = (struct origin){{(leader & 15) == 3 ? leader : 0, call[0], call[1] << 8 | call[2],
                            d.function[0], d.function[1] << 8 | d.function[2]}};
    bool late = d.function[0] == 0 && memcmp(call, &vm->begins_late, sizeof call) == 0;
    if (late || !there || (call[0] & 63) != 11 || (call[1] & 63) != 11 || call[2] > ARITY_MAX ||
        call[1] >> 56 != 0 || d.function[1] >> 56 != 0 || d.unclear ||
        (half(proc + vm->lay->f[LF_trace_flags]) & TRACE_SENSITIVE))
        v.kind = REFUSED;
    return v;
}
