/* fuzz_heap.c: the memory that a collection of an unchanging process would free, computed as simply
 * as possible.
 * Knows: the off-heap lists, and which slices of which Binaries are visible, from the reached
 * objects of fuzz_mark.c.
 * Does not know: tallies, sorting, time slices: it shares no code with the walk, only the
 * limits. */
#include "fuzz/fuzz.h"
#include "process/queue.h"

#include <string.h>

struct model {
    const struct layout *lay;
    uint64_t proc;
    bool refused, overlap;
    uint64_t steps;
    unsigned n; /* blocks */
    uint64_t from[MARKING_BLOCKS_MAX], to[MARKING_BLOCKS_MAX];
    uint64_t left; /* how many more entries have room */
    unsigned entries_n;
    uint64_t entries[ENTRIES_MAX]; /* of binaries */
    bool broken;                   /* behind these entries */
};

static uint64_t word(struct model *m, uint64_t address)
{
    const uint64_t *w = memory_at(address);
    m->refused = m->refused || !w;
    return w ? *w : 0;
}

static uint64_t own(struct model *m, enum layout_field f)
{
    return word(m, m->proc + m->lay->f[f]);
}

static void refuse_if(struct model *m, bool odd)
{
    m->refused = m->refused || odd;
}

/* ---- chains ---------------------------------------------------------------------------------- */

bool fuzz_abandoned(const struct layout *lay, uint64_t proc, struct block *used)
{
    const uint64_t *at = memory_at(proc + LF(lay, abandoned));
    const uint64_t *size = memory_at(proc + LF(lay, heap_sz));
    *used = (struct block){0, 0};
    if (!at || !size)
        return false;
    if (*at == 0)
        return true;
    const uint64_t *last = memory_at(*at + 8 * *size - 8);
    if (*at % 8 != 0 || !last || *last >= *size || *size > 1ULL << 44)
        return false;
    *used = (struct block){*at, *at + 8 * *last};
    return true;
}

static void add_block(struct model *m, uint64_t from, uint64_t to)
{
    refuse_if(m, to < from || to - from > 8ULL << 44 || m->n == MARKING_BLOCKS_MAX);
    for (unsigned i = 0; i < m->n && !m->refused; i++) {
        if ((from < m->to[i] && m->from[i] < to) || from == m->from[i])
            m->overlap = true;
    }
    if (m->refused)
        return;
    m->from[m->n] = from;
    m->to[m->n++] = to;
}

static void add_fragments(struct model *m, uint64_t frag)
{
    while (frag != 0 && !m->refused) {
        uint64_t mem = frag + LF(m->lay, frag_mem);
        uint64_t used = word(m, frag + LF(m->lay, frag_used));
        refuse_if(m, used > 1ULL << 44 || ++m->steps > MESSAGES_MAX);
        add_block(m, mem, mem + used * 8);
        frag = word(m, frag + LF(m->lay, frag_next));
    }
}

static void add_blocks(struct model *m)
{
    add_block(m, own(m, LF_heap), own(m, LF_htop));
    add_block(m, own(m, LF_old_heap), own(m, LF_old_htop));
    if (own(m, LF_abandoned) != 0) {
        struct block used;
        refuse_if(m, !fuzz_abandoned(m->lay, m->proc, &used) || ++m->steps > MESSAGES_MAX);
        add_block(m, used.from, used.to);
    }
    add_fragments(m, own(m, LF_mbuf));
    for (uint64_t at = own(m, LF_msg_frag); at != 0 && !m->refused;) {
        uint64_t attached = word(m, at + LF(m->lay, msg_attached));
        refuse_if(m, ++m->steps > MESSAGES_MAX);
        add_fragments(m, attached == 1 ? at + LF(m->lay, msg_hfrag) : attached);
        at = word(m, at + LF(m->lay, msg_next));
    }
    uint64_t words = 0;
    for (unsigned i = 0; i < m->n; i++)
        words += (m->to[i] - m->from[i]) / 8;
    m->left = words / 3 + m->n + 1 < ENTRIES_MAX ? words / 3 + m->n + 1 : ENTRIES_MAX;
}

static bool inside(const struct model *m, uint64_t p, uint64_t words)
{
    for (unsigned i = 0; i < m->n; i++) {
        if (p >= m->from[i] && p < m->to[i] && m->to[i] - p >= words * 8)
            return true;
    }
    return false;
}

static void chain(struct model *m, uint64_t entry)
{
    while (entry != 0 && !m->refused) {
        uint64_t object = word(m, entry);
        uint64_t next = word(m, entry + LF(m->lay, oh_next));
        refuse_if(m, !inside(m, entry, 3) || (object & 3) != 0 || m->left == 0);
        if (m->refused)
            return;
        m->left--;
        if (object == LF(m->lay, bin_thing))
            m->entries[m->entries_n++] = entry;
        entry = next;
    }
}

/* A caller that asks only whether there is a binary gets an answer even if the chains are broken
 * behind the first one. */
static void chains(struct model *m)
{
    chain(m, own(m, LF_off_heap));
    chain(m, own(m, LF_wrt_bins));
    for (uint64_t frag = own(m, LF_mbuf); frag != 0 && !m->refused;) {
        uint64_t first = word(m, frag + LF(m->lay, frag_off_heap));
        frag = word(m, frag + LF(m->lay, frag_next));
        refuse_if(m, m->left == 0);
        m->left -= !m->refused;
        chain(m, first);
    }
    m->broken = m->refused;
    m->refused = m->refused && m->entries_n == 0;
}

/* ---- entries that nothing reaches --------------------------------------------------------------- */

static bool in_reach(const struct reach *r, uint64_t p, uint64_t words)
{
    for (unsigned i = 0; i < r->blocks_n; i++) {
        if (p >= r->from[i] && p < r->to[i] && r->to[i] - p >= words * 8)
            return true;
    }
    return false;
}

static uint64_t unreached(struct model *m, const struct reach *r)
{
    uint64_t n = 0;
    refuse_if(m, m->broken);
    for (unsigned i = 0; i < m->entries_n; i++)
        n += !reach_has(r, m->entries[i]);
    return n;
}

static uint64_t binary_of(struct model *m, uint64_t refc)
{
    return word(m, refc + LF(m->lay, bin_ptr));
}

/* Counts each Binary at its first entry. */
static uint64_t unreached_bytes(struct model *m, const struct reach *r)
{
    uint64_t sum = 0;
    refuse_if(m, unreached(m, r) > WASTE_ENTRIES_MAX);
    for (unsigned i = 0; i < m->entries_n && !m->refused; i++) {
        uint64_t binary = binary_of(m, m->entries[i]);
        uint64_t n = 0;
        bool first = true;
        if (reach_has(r, m->entries[i]))
            continue;
        refuse_if(m, !in_reach(r, m->entries[i], LF(m->lay, bin_ptr) / 8 + 1));
        for (unsigned k = 0; k < m->entries_n; k++) {
            bool same = !reach_has(r, m->entries[k]) && binary_of(m, m->entries[k]) == binary;
            n += same;
            first = first && !(same && k < i);
        }
        uint64_t refc = word(m, binary + LF(m->lay, bin_refc));
        uint64_t size = word(m, binary + LF(m->lay, bin_size));
        if (first && refc == n)
            sum += size;
    }
    return sum;
}

/* ---- slices ---------------------------------------------------------------------------------------- */

struct seen {
    uint64_t binary, from, to;
};

struct slices_seen {
    unsigned n;
    struct seen s[MARKING_SLICES_MAX];
};

static void saw(struct model *m, struct slices_seen *all, uint64_t refc, uint64_t from,
                uint64_t size)
{
    uint64_t binary = binary_of(m, refc);
    assert(all->n < MARKING_SLICES_MAX); /* with more, model_reach refuses */
    all->s[all->n++] = (struct seen){binary, from, from + size};
}

/* Up to OTP 26 the ProcBin points at its own bytes. */
static void saw_whole(struct model *m, struct slices_seen *all, uint64_t p)
{
    uint64_t first = binary_of(m, p) + LF(m->lay, bin_bytes);
    saw(m, all, p, word(m, p + LF(m->lay, bin_ptr) + 8) - first, word(m, p + 8));
}

static void saw_part(struct model *m, struct slices_seen *all, const struct reach *r, uint64_t p)
{
    uint64_t w1 = word(m, p + 8);
    uint64_t w2 = word(m, p + 16);
    uint64_t w3 = word(m, p + 24);
    uint64_t refc = word(m, p + 32) & ~7ULL;
    uint64_t header = in_reach(r, refc, 1) ? word(m, refc) : 0;
    bool old = m->lay->otp <= 26;
    if ((int)(header >> 2 & 15) != fuzz_tag(m->lay, KIND_REFC) ||
        (old && (w3 & 0xFFFFFF) == 0 && w1 <= 24))
        return;
    uint64_t first = binary_of(m, refc) + LF(m->lay, bin_bytes);
    uint64_t base = old ? word(m, refc + LF(m->lay, bin_ptr) + 8) : w1 & ~3ULL;
    if (old)
        saw(m, all, refc, base - first + w2, w1 + ((w3 & 0xFFFF) != 0));
    else
        saw(m, all, refc, (w1 & 2 ? 0 : base - first) + w2 / 8,
            w3 > w2 ? (w3 + 7) / 8 - w2 / 8 : 0);
}

/* The address of the i-th word of the memory. */
static uint64_t address_of(unsigned i)
{
    return i < MEMORY_WORDS ? MEMORY_BASE + i * 8ULL : MEMORY_TOP + (i - MEMORY_WORDS) * 8ULL;
}

static void collect_slices(struct model *m, const struct reach *r, struct slices_seen *all)
{
    enum { AS_BOXED = 2 };
    for (unsigned i = 0; i < REACH_WORDS; i++) {
        uint64_t p = address_of(i);
        if (r->whole[i])
            saw_whole(m, all, p);
        if (r->seen[i] == AS_BOXED &&
            (int)(word(m, p) >> 2 & 15) == fuzz_tag(m->lay, KIND_SUB_BINARY))
            saw_part(m, all, r, p);
    }
}

/* The bytes that this slice shows and none of the slices before it does. */
static uint64_t only_here(const struct slices_seen *all, unsigned i)
{
    const struct seen *s = &all->s[i];
    uint64_t at = s->from;
    uint64_t bytes = 0;
    while (at < s->to) {
        uint64_t end = s->to;
        bool covered = false;
        for (unsigned k = 0; k < i; k++) {
            const struct seen *o = &all->s[k];
            if (o->binary != s->binary || o->to <= at)
                continue;
            if (o->from <= at) {
                end = o->to < s->to ? o->to : s->to;
                covered = true;
                break;
            }
            end = o->from < end ? o->from : end;
        }
        bytes += covered ? 0 : end - at;
        at = end;
    }
    return bytes;
}

/* A slice outside of its Binary shows memory of a native library: all of the Binary counts as
 * visible. */
static void see_natives(struct model *m, struct slices_seen *all)
{
    for (unsigned i = 0; i < all->n && !m->refused; i++) {
        struct seen *s = &all->s[i];
        uint64_t size = word(m, s->binary + LF(m->lay, bin_size));
        if (s->from > s->to || s->to > size)
            *s = (struct seen){.binary = s->binary, .from = 0, .to = size};
    }
}

static uint64_t unseen(struct model *m, const struct reach *r)
{
    static struct slices_seen all;
    uint64_t sum = 0;
    all.n = 0;
    collect_slices(m, r, &all);
    see_natives(m, &all);
    for (unsigned i = 0; i < all.n && !m->refused; i++) {
        const struct seen *s = &all.s[i];
        uint64_t size = word(m, s->binary + LF(m->lay, bin_size));
        bool first = true;
        (void)word(m, s->binary + LF(m->lay, bin_refc));
        for (unsigned k = 0; k < i; k++)
            first = first && all.s[k].binary != s->binary;
        if (!m->refused)
            sum += (first ? size : 0) - only_here(&all, i);
    }
    return sum;
}

/* ---- the answers ----------------------------------------------------------------------------------- */

static struct verdict verdict(const struct model *m, bool any, uint64_t value)
{
    struct verdict v = {m->refused ? REFUSED : MUST, (int64_t)value, false, m->steps};
    if (any || m->overlap)
        v.kind = ANY;
    return v;
}

static uint64_t value_of(struct model *m, enum attr attr, const struct reach *r, uint64_t garbage)
{
    switch (attr) {
    case ATTR_garbage_bytes:
        return garbage * 8;
    case ATTR_bin_garbage:
        return unreached(m, r);
    case ATTR_bin_garbage_bytes:
        return unreached_bytes(m, r);
    default:
        return unseen(m, r);
    }
}

/* Messages wait, or may wait where only the process itself finds them. */
static bool may_wait(struct model *m)
{
    uint64_t state = own(m, LF_state);
    return (own(m, LF_sig_first) | own(m, LF_inq_first)) != 0 || (state & MIDDLE_Q) ||
           in_buffers(m->lay, state);
}

struct verdict model_waste(const struct vm *vm, enum attr attr, uint64_t proc)
{
    static struct reach r;
    struct model m = {.lay = vm->lay, .proc = proc};
    uint64_t reached = 0;
    /* binaries in messages are visible, but on no chain */
    bool waits = attr == ATTR_bin_waste && may_wait(&m);
    if (attr != ATTR_garbage_bytes) {
        if (!waits && (own(&m, LF_off_heap) | own(&m, LF_wrt_bins) | own(&m, LF_mbuf)) == 0)
            return verdict(&m, false, 0);
        add_blocks(&m);
        if (!m.refused)
            chains(&m);
        m.steps += 3ULL * (m.n + ENTRIES_MAX);
        /* for the question about slices, one entry is enough */
        if (attr == ATTR_bin_waste && m.entries_n > 0)
            m.refused = false;
        if (m.refused || (m.entries_n == 0 && !waits))
            return verdict(&m, false, 0);
    }
    unsigned want = attr == ATTR_bin_waste ? MARKING_VISIBLE | MARKING_SLICES : 0;
    model_reach(vm, proc, want, ATTR_WORDS_MAX, MARKING_SLICES_MAX, &r);
    for (unsigned i = 0; i < ROOT_COUNT; i++)
        reached += r.words[i];
    m.steps += r.steps + reached + r.size + 3ULL * MESSAGES_MAX + MEMORY_WORDS;
    refuse_if(&m, r.kind == REFUSED || reached > r.size);
    if (m.refused || r.kind == MAY)
        return verdict(&m, r.lied || r.doubted || r.kind == MAY, 0);
    return verdict(&m, false, value_of(&m, attr, &r, r.size - reached));
}
