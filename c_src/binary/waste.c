#include "binary/waste.h"

#include "util/alloc.h"
#include "util/fill.h"
#include "process/look.h"
#include "process/queue.h"

enum stages { ANY, MARK, SORT, GROUPS, MERGE, COUNT, CLEAR, MATCH, SUM, DONE };

/* What each stage is needed for. */
enum {
    OF_LISTS = WASTE_ENTRIES | WASTE_ENTRY_BYTES | WASTE_UNSEEN,
    OF_SLICES = WASTE_UNSEEN | WASTE_SLICES | WASTE_ACCOUNT,
    OF_TALLIES = WASTE_ENTRY_BYTES | WASTE_ACCOUNT
};
static const unsigned needed[] = {
    [ANY] = OF_LISTS,     [MARK] = WASTE_HEAP | OF_LISTS | OF_SLICES,
    [SORT] = OF_SLICES,   [GROUPS] = WASTE_SLICES,
    [MERGE] = OF_SLICES,  [COUNT] = WASTE_ENTRIES | OF_TALLIES,
    [CLEAR] = OF_TALLIES, [MATCH] = OF_TALLIES,
    [SUM] = OF_TALLIES,
};

/* Terms in waiting messages see binaries that are on no off-heap list of the process. Where messages may wait in a
 * queue that cannot be walked, the mark says so. */
static bool sees_messages(unsigned what, const struct reading *rd)
{
    return (what & WASTE_UNSEEN) != 0 && !queue_is_empty(rd);
}

bool waste_is_none(unsigned what, const struct reading *rd)
{
    return !(what & WASTE_HEAP) && !sees_messages(what, rd) && offheap_is_none(rd);
}

void waste_start(struct waste *w, const struct reading *rd, unsigned what, uint64_t max_words)
{
    unsigned want = what & OF_SLICES ? MARKING_VISIBLE | MARKING_SLICES : 0;
    want |= what & WASTE_ACCOUNT ? MARKING_HISTOGRAM | MARKING_LITERALS : 0;
    w->what = what;
    w->stage = what & OF_LISTS ? ANY : MARK;
    w->entered = false;
    w->heap_bytes = w->entries = w->entry_bytes = w->unseen = 0;
    w->live = w->garbage = w->pinned_bytes = 0;
    w->max_entries = WASTE_ENTRIES_MAX;
    w->slots = w->slot = w->used = 0;
    w->tallies = NULL;
    w->slice = w->n = w->cap = 0;
    w->now = (struct pinned){0};
    w->pinned = NULL;
    w->offheap.blocks.list = NULL;
    marking_start(&w->heap, rd, want, max_words);
}

bool waste_end(struct waste *w)
{
    if (SONDE_DROP(w->pinned) || SONDE_DROP(w->tallies))
        return false;
    offheap_end(&w->offheap);
    marking_end(&w->heap);
    return true;
}

/* ---- entries of the off-heap lists ------------------------------------------------------------ */

/* Stops the walk at the first entry. */
static enum status any_entry(void *ctx, const struct vm *vm, uintptr_t entry)
{
    (void)ctx, (void)vm, (void)entry;
    return ST_GONE;
}

static enum status count_entry(void *ctx, const struct vm *vm, uintptr_t entry)
{
    struct waste *w = ctx;
    (void)vm;
    w->entries += (w->what & WASTE_ACCOUNT) || !marking_has_reached(&w->heap, entry);
    return ST_OK;
}

/* At most half of the slots are used: there are two for each counted entry. */
static struct tally *find(const struct waste *w, uint64_t binary)
{
    const uint64_t golden = 0x9E3779B97F4A7C15;
    size_t i = (size_t)((binary * golden >> 32) * w->slots >> 32);
    while (w->tallies[i].n != 0 && w->tallies[i].binary != binary)
        i = i + 1 == w->slots ? 0 : i + 1;
    return &w->tallies[i];
}

static enum status tally_entry(void *ctx, const struct vm *vm, uintptr_t entry)
{
    struct waste *w = ctx;
    uint64_t binary;
    unsigned words = LF(vm->lay, bin_ptr) / 8 + 1;
    bool live = marking_has_reached(&w->heap, entry);
    if (live && !(w->what & WASTE_ACCOUNT))
        return ST_OK;
    /* more entries than were counted: the process ran meanwhile */
    if (w->used++ == w->entries || !blocks_find(&w->heap.blocks, entry, words) ||
        !peek_word(vm->reader, entry + LF(vm->lay, bin_ptr), &binary))
        return ST_TORN;
    struct tally *t = find(w, binary);
    t->binary = binary;
    t->n = (t->n + 1) | (live ? TALLY_LIVE : 0);
    return ST_OK;
}

static void start_chains(struct waste *w, const struct reading *rd, offheap_each *each)
{
    offheap_end(&w->offheap);
    offheap_start(&w->offheap, rd, false);
    w->offheap.blocks.max = MARKING_BLOCKS_MAX;
    w->offheap.collect.steps = MESSAGES_MAX;
    w->offheap.each = each;
    w->offheap.ctx = w;
}

static enum status walk_chains(struct waste *w, const struct reading *rd)
{
    enum status st = offheap_walk(&w->offheap, rd);
    return st == ST_ASK ? ST_TOO_LARGE : st;
}

static enum status any(struct waste *w, const struct reading *rd)
{
    enum status st = walk_chains(w, rd);
    bool lists_only = (w->what & ~(unsigned)OF_LISTS) == 0;
    if (st == ST_OK && lists_only && !sees_messages(w->what, rd)) /* no entry: skip the rest */
        w->stage = DONE - 1;
    return st == ST_GONE ? ST_OK : st;
}

/* ---- Binaries that only garbage refers to ------------------------------------------------------ */

static enum status start_tallies(struct waste *w)
{
    if (w->entries > w->max_entries)
        return ST_TOO_LARGE;
    w->slots = 2 * w->entries;
    w->tallies = w->slots > 0 ? sonde_alloc(w->slots * sizeof *w->tallies) : NULL;
    return w->slots > 0 && !w->tallies ? ST_NOMEM : ST_OK;
}

static enum status sum(struct waste *w, const struct vm *vm, struct budget *b)
{
    for (; w->slot < w->slots; w->slot++) {
        const struct tally *t = &w->tallies[w->slot];
        uint64_t refc;
        uint64_t size;
        if (!budget_step(b))
            return ST_TIMESLICE;
        if (t->n == 0)
            continue;
        if (!peek_word(vm->reader, t->binary + LF(vm->lay, bin_refc), &refc) ||
            !peek_word(vm->reader, t->binary + LF(vm->lay, bin_size), &size))
            return ST_TORN;
        w->entry_bytes += refc == t->n ? size : 0;
        *(t->n & TALLY_LIVE ? &w->live : &w->garbage) += size;
    }
    return ST_OK;
}

/* ---- Binaries that slices see -------------------------------------------------------------------- */

static bool is_another(const struct slices *s, size_t i)
{
    return i == 0 || s->list[i].binary != s->list[i - 1].binary;
}

/* Counts the Binaries first, so that the list need not grow. */
static enum status groups(struct waste *w, struct budget *b)
{
    const struct slices *s = &w->heap.slices;
    for (; w->slice < s->n; w->slice++) {
        if (!budget_step(b))
            return ST_TIMESLICE;
        w->cap += is_another(s, w->slice);
    }
    w->slice = 0;
    w->pinned = w->cap > 0 ? sonde_alloc(w->cap * sizeof *w->pinned) : NULL;
    return w->cap > 0 && !w->pinned ? ST_NOMEM : ST_OK;
}

static void leave_binary(struct waste *w)
{
    w->unseen += w->now.size - w->now.visible;
    w->pinned_bytes += w->now.size;
    if (w->pinned && w->now.n > 0)
        w->pinned[w->n++] = w->now;
}

static bool enter_binary(struct waste *w, const struct vm *vm, uint64_t binary)
{
    leave_binary(w);
    w->now = (struct pinned){.binary = binary, .first = w->slice};
    w->seen = 0;
    return peek_word(vm->reader, binary + LF(vm->lay, bin_size), &w->now.size) &&
           peek_word(vm->reader, binary + LF(vm->lay, bin_refc), &w->now.refc);
}

/* The bytes may be a native library's memory outside the Binary, which only keeps that memory alive
 * (enif_make_resource_binary). Such a Binary counts as wholly visible. */
static bool is_elsewhere(const struct slice *at, uint64_t size)
{
    return at->from > at->to || at->to > size;
}

static void see(struct waste *w, struct slice *at)
{
    uint64_t from = at->from > w->seen ? at->from : w->seen;
    if (is_elsewhere(at, w->now.size)) {
        *at = (struct slice){.binary = at->binary, .from = 0, .to = w->now.size};
        w->now.visible = w->seen = w->now.size;
    } else if (at->to > from) {
        w->now.visible += at->to - from;
        w->seen = at->to;
    }
}

static enum status merge(struct waste *w, const struct vm *vm, struct budget *b)
{
    const struct slices *s = &w->heap.slices;
    for (; w->slice < s->n; w->slice++) {
        struct slice *at = &s->list[w->slice];
        if (!budget_step(b))
            return ST_TIMESLICE;
        if (is_another(s, w->slice) && !enter_binary(w, vm, at->binary))
            return ST_TORN;
        see(w, at);
        w->now.n++;
    }
    leave_binary(w);
    return ST_OK;
}

/* ---- stages -------------------------------------------------------------------------------------- */

static enum status enter_stage(struct waste *w, const struct reading *rd)
{
    switch (w->stage) {
    case ANY:
        start_chains(w, rd, any_entry);
        return ST_OK;
    case COUNT:
        start_chains(w, rd, count_entry);
        return ST_OK;
    case CLEAR:
        return start_tallies(w);
    case MATCH:
        start_chains(w, rd, tally_entry);
        return ST_OK;
    default:
        w->slot = 0;
        return ST_OK;
    }
}

static enum status walk_stage(struct waste *w, const struct reading *rd)
{
    switch (w->stage) {
    case ANY:
        return any(w, rd);
    case MARK:
        return marking_walk(&w->heap, rd);
    case CLEAR:
        return wipe(w->tallies, sizeof *w->tallies, w->slots, &w->slot, rd->budget);
    case SUM:
        return sum(w, rd->vm, rd->budget);
    case SORT:
        return slices_sort(&w->heap.slices, rd->budget) ? ST_OK : ST_TIMESLICE;
    case GROUPS:
        return groups(w, rd->budget);
    case MERGE:
        return merge(w, rd->vm, rd->budget);
    default:
        return walk_chains(w, rd);
    }
}

/* TORN: more words reached than the heap has means overlapping objects, which no process has. */
static enum status leave_stage(struct waste *w)
{
    uint64_t reached = marking_reached(&w->heap);
    if (w->stage == MARK && reached > w->heap.words)
        return ST_TORN;
    if (w->stage == MARK)
        w->heap_bytes = 8 * (w->heap.words - reached);
    if (w->stage == COUNT && w->entries == 0)
        w->stage = DONE - 1;
    do
        w->stage++;
    while (w->stage != DONE && !(needed[w->stage] & w->what));
    w->entered = false;
    return ST_OK;
}

uint64_t waste_value(const struct waste *w, enum waste_what what)
{
    switch (what) {
    case WASTE_HEAP:
        return w->heap_bytes;
    case WASTE_ENTRIES:
        return w->entries;
    case WASTE_ENTRY_BYTES:
        return w->entry_bytes;
    default:
        return w->unseen;
    }
}

enum status waste_walk(struct waste *w, const struct reading *rd)
{
    while (w->stage != DONE) {
        enum status st = w->entered ? ST_OK : enter_stage(w, rd);
        w->entered = true;
        if (st == ST_OK)
            st = walk_stage(w, rd);
        if (st == ST_OK)
            st = leave_stage(w);
        if (st != ST_OK)
            return st;
    }
    return ST_OK;
}

/* ---- one process alone ------------------------------------------------------------------------------ */

static void slices_start(void *w, const struct reading *rd, const struct look_args *args)
{
    struct waste *s = w;
    waste_start(s, rd, WASTE_SLICES, args->max_words);
    if (args->max_entries != 0)
        s->heap.slices.max = args->max_entries;
}

static void account_start(void *w, const struct reading *rd, const struct look_args *args)
{
    waste_start(w, rd, WASTE_ACCOUNT, args->max_words);
}

static enum status walk(void *w, const struct reading *rd)
{
    return waste_walk(w, rd);
}

static void progress(const void *w, uint64_t *done, uint64_t *total)
{
    const struct waste *s = w;
    *done = marking_reached(&s->heap);
    *total = s->heap.words;
}

static bool end(void *w)
{
    return waste_end(w);
}

const struct walker slices_walker = {
    sizeof(struct waste), marking_fields, slices_start, walk, progress, end, 0};

const struct walker account_walker = {
    sizeof(struct waste), marking_fields, account_start, walk, progress, end, 0};
