/* fuzz_memory.c: model memory at addresses that are not mapped; peek reads from it.
 * Knows: which addresses are readable, which word changes at which read, how many reads are too
 * many.
 * Does not know: what the words mean. */
#include "fuzz/fuzz.h"

#include <string.h>

struct words {
    uint64_t base[MEMORY_WORDS];
    uint64_t top[MEMORY_TOP_WORDS];
};

struct change {
    uint64_t at, address, value;
};

static struct words now;
static struct words built;
static struct change changes[CHANGES_MAX];
static unsigned changes_n;
static unsigned changed;
static bool changing;
static uint64_t reads;
static uint64_t reads_then; /* at the last change */
static uint64_t reads_max;

void memory_clear(void)
{
    memset(&now, 0, sizeof now);
    changes_n = changed = 0;
    changing = false;
    reads = 0;
}

uint64_t *memory_at(uint64_t address)
{
    if (address & 7)
        return NULL;
    if (address >= MEMORY_TOP)
        return &now.top[(address - MEMORY_TOP) / 8];
    return address - MEMORY_BASE < sizeof now.base ? &now.base[(address - MEMORY_BASE) / 8] : NULL;
}

void memory_change(uint64_t after, uint64_t address, uint64_t value)
{
    uint64_t last = changes_n > 0 ? changes[changes_n - 1].at : 0;
    if (changes_n < CHANGES_MAX)
        changes[changes_n++] = (struct change){last + after, address, value};
}

void memory_built(void)
{
    if (changes_n > 0)
        built = now;
}

void memory_begin(bool with_changes, uint64_t at_most)
{
    if (changed > 0)
        now = built;
    changed = 0;
    changing = with_changes;
    reads = reads_then = 0;
    reads_max = at_most;
}

static void change_next(void)
{
    const struct change *c = &changes[changed++];
    reads_then = reads - 1;
    uint64_t *word = memory_at(c->address);
    if (word)
        *word = c->value;
}

void memory_change_all(void)
{
    while (changed < changes_n)
        change_next();
}

unsigned memory_changes(void)
{
    return changes_n;
}

unsigned memory_changed(void)
{
    return changed;
}

uint64_t memory_still(void)
{
    return reads - reads_then;
}

/* ---- peek, in this memory -------------------------------------------------------------------- */

static bool read_word(uint64_t address, uint64_t *out)
{
    if (++reads > reads_max)
        fuzz_fail("more reads than the image has objects to look at", "");
    while (changing && changed < changes_n && changes[changed].at < reads)
        change_next();
    const uint64_t *word = memory_at(address);
    *out = word ? *word : 0xDEADDEADDEADDEAD;
    return word != NULL;
}

bool peek_word_slowly(enum peek_reader r, uintptr_t addr, uint64_t *out)
{
    return r != PEEK_NONE && read_word(addr, out);
}

bool peek_gather_slowly(enum peek_reader r, uintptr_t base, const uint16_t *offsets, unsigned n,
                        uint64_t *out)
{
    bool ok = r != PEEK_NONE && (base & 7) == 0;
    for (unsigned i = 0; i < n && ok; i++)
        ok = read_word(base + offsets[i], &out[i]);
    return ok;
}

bool peek_differ_slowly(enum peek_reader r, uintptr_t base, const uint16_t *offsets, unsigned n,
                        const uint64_t *seen, uint64_t *bits)
{
    uint64_t word[PEEK_GATHER_MAX];
    if (n > PEEK_GATHER_MAX || !peek_gather_slowly(r, base, offsets, n, word))
        return false;
    *bits = 0;
    for (unsigned i = 0; i < n; i++)
        *bits |= word[i] ^ seen[i];
    return true;
}

bool peek_block(enum peek_reader r, uintptr_t addr, size_t words, uint64_t *out)
{
    bool ok = r != PEEK_NONE;
    for (size_t i = 0; i < words && ok; i++)
        ok = read_word(addr + i * 8, &out[i]);
    return ok;
}

bool peek_scan(enum peek_reader r, uintptr_t table, size_t from, size_t to, size_t *found)
{
    uint64_t word = 0;
    bool ok = r != PEEK_NONE;
    for (*found = from; *found < to; ++*found) {
        ok = ok && read_word(table + *found * 8, &word);
        if (!ok || word != 0)
            break;
    }
    return ok;
}

void peek_expect_other(uintptr_t base, const uint16_t *offsets, unsigned n)
{
    (void)base, (void)offsets, (void)n;
}

void peek_want_other(uintptr_t addr)
{
    (void)addr;
}

void peek_barrier(void)
{
}

enum peek_reader peek_ready(enum peek_reader want)
{
    return want;
}
