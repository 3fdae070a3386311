/* offheap.c: the off-heap chains of a process: how many binaries, how many bytes.
 * Knows: chain entries, heap fragments, and in which blocks an entry may lie.
 * Does not know: who asks, or whether the process stayed still meanwhile. */
#include "offheap.h"

#include "alloc.h"
#include "term.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const enum layout_field offheap_fields[] = {
    LF_heap,       LF_hend,     LF_heap_sz,    LF_htop,      LF_stop,
    LF_high_water, LF_old_heap, LF_old_htop,   LF_old_hend,  LF_gen_gcs,
    LF_mbuf,       LF_mbuf_sz,  LF_msg_frag,   LF_off_heap,  LF_wrt_bins,
    LF_arity,      LF_arg_reg,  LF_dictionary, LF_sig_first, LAYOUT_FIELD_COUNT};

/* The order is that of process_info: the chain, writable binaries, the fragments' own chains. */
enum stages { COLLECT_MBUF, COLLECT_MSG, SORT, CHAIN, WRITABLE, FRAGMENT, FRAGMENT_CHAIN, DONE };

/* ---- blocks -------------------------------------------------------------------------------- */

enum { YOUNG = 0, OLD = 1, FRAGMENTS = 2 };

static bool blocks_grow(struct blocks *bs)
{
    unsigned cap = bs->cap * 4;
    struct block *list = sonde_alloc(cap * sizeof *list);
    if (!list)
        return false;
    memcpy(list, bs->list, bs->n * sizeof *list);
    if (bs->list != bs->first)
        sonde_free(bs->list);
    bs->list = list;
    bs->cap = cap;
    return true;
}

static const uint64_t block_words_max = (uint64_t)1 << 44;

static enum status blocks_add(struct blocks *bs, uintptr_t from, uint64_t words)
{
    /* more fragments than this: the answer is left to process_info */
    if (bs->n == BLOCKS_MAX)
        return ST_ASK;
    if (bs->n == bs->cap && !blocks_grow(bs))
        return ST_NOMEM;
    if (words > block_words_max || from + words * 8 < from)
        return ST_TORN;
    bs->list[bs->n++] = (struct block){from, from + words * 8};
    return ST_OK;
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = ((const struct block *)a)->from;
    uintptr_t y = ((const struct block *)b)->from;
    return (x > y) - (x < y);
}

static bool in_block(const struct block *b, uintptr_t p, unsigned words)
{
    return p >= b->from && p < b->to && b->to - p >= (uintptr_t)words * 8;
}

static const struct block *in_fragments(const struct blocks *bs, uintptr_t p, unsigned words)
{
    unsigned lo = FRAGMENTS;
    unsigned hi = bs->n;
    while (lo < hi) {
        unsigned mid = lo + (hi - lo) / 2;
        if (bs->list[mid].to <= p)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < bs->n && in_block(&bs->list[lo], p, words) ? &bs->list[lo] : NULL;
}

/* The block in which so many words lie; NULL: none. */
static const struct block *find_block(const struct blocks *bs, uintptr_t p, unsigned words)
{
    if (in_block(&bs->list[YOUNG], p, words))
        return &bs->list[YOUNG];
    if (in_block(&bs->list[OLD], p, words))
        return &bs->list[OLD];
    return in_fragments(bs, p, words);
}

/* ---- the walk ------------------------------------------------------------------------------ */

/* An entry has three words or more, so a longer chain is a cycle. false: pointers of a heap that were
 * read while they moved, which may be in any order, and would make any chain look short enough. */
static bool entries_max(const struct blocks *bs, uint64_t *max)
{
    uint64_t words = 0;
    for (unsigned i = 0; i < bs->n; i++) {
        const struct block *b = &bs->list[i];
        if (b->to < b->from || (b->to - b->from) / 8 > block_words_max)
            return false;
        words += (b->to - b->from) / 8;
    }
    *max = words / 3 + bs->n + 1;
    if (*max > ENTRIES_MAX)
        *max = ENTRIES_MAX;
    return true;
}

void offheap_start(struct offheap *w, const struct vm *vm, const struct plan *plan,
                   const struct view *view, bool sizes)
{
    w->sizes = sizes;
    w->writable = vm->lay->wrt_bins_listed;
    w->stage = COLLECT_MBUF;
    w->cursor = 0;
    w->frag = stamp_word(plan, view, LF_mbuf);
    w->steps = BLOCKS_MAX + 1;
    w->count = w->bytes = w->unlisted = 0;
    w->asked = 0;
    w->blocks.list = w->blocks.first;
    w->blocks.cap = BLOCKS_INLINE;
    w->blocks.n = FRAGMENTS;
    /* most processes: nothing hangs anywhere */
    if ((stamp_word(plan, view, LF_off_heap) | stamp_word(plan, view, LF_wrt_bins) | w->frag) == 0)
        w->stage = DONE;
    else if ((w->frag | stamp_word(plan, view, LF_msg_frag)) == 0)
        w->stage = SORT;
    w->blocks.list[YOUNG] =
        (struct block){stamp_word(plan, view, LF_heap), stamp_word(plan, view, LF_htop)};
    w->blocks.list[OLD] =
        (struct block){stamp_word(plan, view, LF_old_heap), stamp_word(plan, view, LF_old_htop)};
}

void offheap_end(struct offheap *w)
{
    if (w->blocks.list && w->blocks.list != w->blocks.first)
        sonde_free(w->blocks.list);
    w->blocks.list = NULL;
}

static bool add_size(struct offheap *w, const struct vm *vm, unsigned i)
{
    uint64_t size;
    if (!peek_word(vm->reader, w->pending[i % OFFHEAP_PENDING], &size))
        return false;
    w->bytes += size;
    return true;
}

enum status offheap_finish(struct offheap *w, const struct vm *vm)
{
    unsigned i = w->asked < OFFHEAP_PENDING ? 0 : w->asked - OFFHEAP_PENDING;
    for (; i != w->asked; i++) {
        if (!add_size(w, vm, i))
            return ST_TORN;
    }
    w->asked = 0;
    return ST_OK;
}

/* The header of a Binary is a cache line of its own: ask for it now, read it sixteen later. */
static bool ask_size(struct offheap *w, const struct vm *vm, uint64_t bin)
{
    if (bin == 0 || (bin & 7) || (w->asked >= OFFHEAP_PENDING && !add_size(w, vm, w->asked)))
        return false;
    uintptr_t at = bin + LF(vm->lay, bin_size);
    peek_prefetch(at);
    w->pending[w->asked++ % OFFHEAP_PENDING] = at;
    return true;
}

/* Further than the processor fetches on its own. */
static bool is_far(uintptr_t entry, uintptr_t next)
{
    const uintptr_t near = 512;
    return next != 0 && next - entry + near > near + near;
}

static enum status come_again(uintptr_t entry)
{
    offheap_prefetch(entry);
    return ST_TIMESLICE;
}

static bool read_size(struct offheap *w, const struct vm *vm, const struct block *block,
                      uintptr_t entry)
{
    uint64_t bin;
    return in_block(block, entry, LF(vm->lay, bin_ptr) / 8 + 1) &&
           peek_word(vm->reader, entry + LF(vm->lay, bin_ptr), &bin) && ask_size(w, vm, bin);
}

/* TIMESLICE: `w->cursor` is to be looked at next. Counts into *binaries. */
static enum status walk_entries(struct offheap *w, const struct vm *vm, struct budget *b,
                                bool sizes, uint64_t *binaries)
{
    enum { ENTRY_WORDS = 3 }; /* at least */
    const uint64_t binary = LF(vm->lay, bin_thing);
    const uintptr_t next = LF(vm->lay, oh_next);
    const struct block *block = &w->blocks.list[YOUNG];
    for (uint64_t entry = w->cursor; entry != 0; entry = w->cursor) {
        uint64_t thing;
        if (!budget_step(b))
            return come_again(entry);
        if (!in_block(block, entry, ENTRY_WORDS))
            block = find_block(&w->blocks, entry, ENTRY_WORDS);
        if (!block || w->steps-- == 0 || !peek_word(vm->reader, entry, &thing) ||
            !term_is_header(thing) || !peek_word(vm->reader, entry + next, &w->cursor))
            return ST_TORN;
        *binaries += thing == binary;
        if (sizes && thing == binary && !read_size(w, vm, block, entry))
            return ST_TORN;
        if (b->shared && is_far(entry, w->cursor))
            return come_again(w->cursor);
    }
    return ST_OK;
}

static enum status walk_chain(struct offheap *w, const struct vm *vm, struct budget *b)
{
    bool listed = w->stage != WRITABLE || w->writable;
    uint64_t binaries = 0;
    enum status st = walk_entries(w, vm, b, listed && w->sizes, &binaries);
    if (listed)
        w->count += binaries;
    else
        w->unlisted += binaries;
    return st;
}

/* One more fragment of the process; its words are where chain entries may lie. */
static enum status collect_fragment(struct offheap *w, const struct vm *vm)
{
    uint64_t used;
    uint64_t at = w->frag;
    if (w->steps-- == 0)
        return ST_ASK;
    if ((at & 7) || !peek_word(vm->reader, at + LF(vm->lay, frag_used), &used) ||
        !peek_word(vm->reader, at + LF(vm->lay, frag_next), &w->frag))
        return ST_TORN;
    return blocks_add(&w->blocks, at + LF(vm->lay, frag_mem), used);
}

/* A received message keeps its data until the next collection: behind itself (1) or apart. */
static enum status collect_message(struct offheap *w, const struct vm *vm)
{
    uint64_t attached;
    uint64_t at = w->cursor;
    if (w->steps-- == 0)
        return ST_ASK;
    if ((at & 7) || !peek_word(vm->reader, at + LF(vm->lay, msg_attached), &attached) ||
        !peek_word(vm->reader, at + LF(vm->lay, msg_next), &w->cursor))
        return ST_TORN;
    w->frag = attached == 1 ? at + LF(vm->lay, msg_hfrag) : attached;
    return ST_OK;
}

static enum status collect_all(struct offheap *w, const struct vm *vm, struct budget *b)
{
    while (w->cursor != 0 || w->frag != 0) {
        if (!budget_step(b))
            return ST_TIMESLICE;
        enum status st = w->frag != 0 ? collect_fragment(w, vm) : collect_message(w, vm);
        if (st != ST_OK)
            return st;
    }
    return ST_OK;
}

/* To the next fragment that has a chain of its own. */
static enum status next_fragment(struct offheap *w, const struct vm *vm)
{
    uint64_t at = w->frag;
    if (at == 0) {
        w->stage = DONE;
        return ST_OK;
    }
    if (w->steps == 0 || !peek_word(vm->reader, at + LF(vm->lay, frag_next), &w->frag) ||
        !peek_word(vm->reader, at + LF(vm->lay, frag_off_heap), &w->cursor))
        return ST_TORN;
    w->steps--;
    w->stage = FRAGMENT_CHAIN;
    return ST_OK;
}

static void next_stage(struct offheap *w, const struct plan *plan, const struct view *view)
{
    switch (w->stage) {
    case COLLECT_MBUF:
        w->stage = COLLECT_MSG;
        w->cursor = stamp_word(plan, view, LF_msg_frag);
        break;
    case COLLECT_MSG:
        w->stage = SORT;
        break;
    case SORT:
        w->stage = CHAIN;
        w->cursor = stamp_word(plan, view, LF_off_heap);
        break;
    case CHAIN:
        w->stage = WRITABLE;
        w->cursor = stamp_word(plan, view, LF_wrt_bins);
        break;
    case WRITABLE:
        w->stage = FRAGMENT;
        w->frag = stamp_word(plan, view, LF_mbuf);
        break;
    default:
        w->stage = FRAGMENT;
        break;
    }
}

static enum status sort_blocks(struct offheap *w, struct budget *b)
{
    if (w->blocks.n > FRAGMENTS + 1)
        qsort(w->blocks.list + FRAGMENTS, w->blocks.n - FRAGMENTS, sizeof *w->blocks.list,
              by_address);
    /* of so many that it takes a good part of a slice */
    if (w->blocks.n > BLOCKS_INLINE)
        b->steps = 0;
    return entries_max(&w->blocks, &w->steps) ? ST_OK : ST_TORN;
}

static enum status walk_stage(struct offheap *w, const struct vm *vm, struct budget *b)
{
    switch (w->stage) {
    case COLLECT_MBUF:
    case COLLECT_MSG:
        return collect_all(w, vm, b);
    case SORT:
        return sort_blocks(w, b);
    default:
        return walk_chain(w, vm, b);
    }
}

enum status offheap_walk(struct offheap *w, const struct vm *vm, const struct plan *plan,
                         const struct view *view, struct budget *b)
{
    while (w->stage != DONE) {
        enum status st;
        if (w->stage == FRAGMENT) {
            st = budget_step(b) ? next_fragment(w, vm) : ST_TIMESLICE;
        } else {
            st = walk_stage(w, vm, b);
            if (st == ST_OK)
                next_stage(w, plan, view);
        }
        if (st != ST_OK)
            return st;
    }
    return ST_OK;
}
