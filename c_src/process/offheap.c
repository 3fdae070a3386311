#include "process/offheap.h"

#include "process/message_fragments.h"
#include "vm/term.h"

#include <assert.h>

const enum layout_field offheap_fields[] = {
    LF_heap,       LF_hend,      LF_heap_sz,        LF_htop,     LF_stop,    LF_abandoned,
    LF_high_water, LF_old_heap,  LF_old_htop,       LF_old_hend, LF_gen_gcs, LF_mbuf,
    LF_mbuf_sz,    LF_msg_frag,  LF_off_heap,       LF_wrt_bins, LF_arity,   LF_arg_reg,
    LF_dictionary, LF_sig_first, LAYOUT_FIELD_COUNT};

/* The order of process_info: the off-heap list, writable binaries, the fragments' lists. */
enum stages { COLLECT, SORT, CHAIN, WRITABLE, FRAGMENT, FRAGMENT_CHAIN, DONE };

/* ---- the walk ------------------------------------------------------------------------------ */

/* An entry has three words or more, so a longer list is a cycle. false: the heap's pointers moved
 * while they were read. In the wrong order they would allow a list of any length. */
static bool entries_max(const struct blocks *bs, uint64_t *max)
{
    uint64_t words = 0;
    if (!blocks_words(bs, &words))
        return false;
    *max = words / 3 + bs->n + 1;
    if (*max > ENTRIES_MAX)
        *max = ENTRIES_MAX;
    return true;
}

bool offheap_is_none(const struct reading *rd)
{
    return !(stamp_word(rd, LF_off_heap) | stamp_word(rd, LF_wrt_bins) | stamp_word(rd, LF_mbuf));
}

void offheap_start(struct offheap *w, const struct reading *rd, bool sizes)
{
    w->sizes = sizes;
    w->writable = rd->vm->lay->wrt_bins_listed;
    w->stage = COLLECT;
    fragments_of(&w->collect, rd);
    w->count = w->bytes = w->unlisted = 0;
    w->asked = 0;
    w->magic = false;
    w->each = NULL;
    w->ctx = NULL;
    blocks_init(&w->blocks, stamp_word(rd, LF_heap), stamp_word(rd, LF_htop),
                stamp_word(rd, LF_old_heap), stamp_word(rd, LF_old_htop));
    /* most processes have no entry */
    if (offheap_is_none(rd))
        w->stage = DONE;
    else if (fragments_are_none(&w->collect))
        w->stage = SORT;
}

void offheap_end(struct offheap *w)
{
    blocks_end(&w->blocks);
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

/* The header of a Binary is in its own cache line: prefetch it now, read it later. */
static bool ask_size(struct offheap *w, const struct vm *vm, uint64_t bin)
{
    if (bin == 0 || (bin & 7) || (w->asked >= OFFHEAP_PENDING && !add_size(w, vm, w->asked)))
        return false;
    uintptr_t at = bin + LF(vm->lay, bin_size);
    peek_prefetch(vm->reader, at);
    w->pending[w->asked++ % OFFHEAP_PENDING] = at;
    return true;
}

/* Farther than the processor prefetches by itself. */
static bool is_far(uintptr_t entry, uintptr_t next)
{
    const uintptr_t near = 512;
    return next != 0 && next - entry + near > near + near;
}

static enum status come_again(const struct vm *vm, uintptr_t entry)
{
    offheap_prefetch(vm->reader, entry);
    return ST_TIMESLICE;
}

static bool read_size(struct offheap *w, const struct vm *vm, const struct block *block,
                      uintptr_t entry)
{
    uint64_t bin;
    return block_holds(block, entry, LF(vm->lay, bin_ptr) / 8 + 1) &&
           peek_word(vm->reader, entry + LF(vm->lay, bin_ptr), &bin) && ask_size(w, vm, bin);
}

/* Counts into *binaries. TIMESLICE: `w->cursor` is the next entry. */
static enum status walk_entries(struct offheap *w, const struct vm *vm, struct budget *b,
                                bool sizes, uint64_t *binaries)
{
    enum { ENTRY_WORDS = 3 }; /* or more */
    const uint64_t binary = LF(vm->lay, bin_thing);
    const uintptr_t next = LF(vm->lay, oh_next);
    const struct block *block = &w->blocks.list[BLOCK_YOUNG];
    for (uint64_t entry = w->cursor, following; entry != 0; entry = following) {
        uint64_t object;
        if (!budget_step(b))
            return come_again(vm, entry);
        if (!block_holds(block, entry, ENTRY_WORDS))
            block = blocks_find(&w->blocks, entry, ENTRY_WORDS);
        if (!block || w->steps-- == 0 || !peek_word(vm->reader, entry, &object) ||
            !term_is_header(object) || !peek_word(vm->reader, entry + next, &following))
            return ST_TORN;
        *binaries += object == binary;
        if (sizes && object == binary && !read_size(w, vm, block, entry))
            return ST_TORN;
        w->cursor = following;
        bool wanted = object == binary || (w->magic && object == MAGIC_THING);
        enum status st = w->each && wanted ? w->each(w->ctx, vm, entry) : ST_OK;
        if (st != ST_OK)
            return st;
        if (b->shared && is_far(entry, following))
            return come_again(vm, following);
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

static void next_stage(struct offheap *w, const struct reading *rd)
{
    switch (w->stage) {
    case COLLECT:
        w->stage = SORT;
        break;
    case SORT:
        w->stage = CHAIN;
        w->cursor = stamp_word(rd, LF_off_heap);
        break;
    case CHAIN:
        w->stage = WRITABLE;
        w->cursor = stamp_word(rd, LF_wrt_bins);
        break;
    case WRITABLE:
        w->stage = FRAGMENT;
        w->frag = stamp_word(rd, LF_mbuf);
        break;
    default:
        w->stage = FRAGMENT;
        break;
    }
}

/* A message's fragments have off-heap lists, as those of a process do. */
enum status offheap_message(struct offheap *w, const struct vm *vm, uintptr_t message,
                            struct budget *b)
{
    uint64_t attached;
    enum status st = message_fragments_collect(&w->blocks, vm, message, b);
    if (st != ST_OK)
        return st;
    if (!peek_word(vm->reader, message + LF(vm->lay, msg_attached), &attached) ||
        !entries_max(&w->blocks, &w->steps))
        return ST_TORN;
    w->frag = attached == 1 ? message + LF(vm->lay, msg_hfrag) : attached;
    w->stage = FRAGMENT;
    return ST_OK;
}

static enum status sort_blocks(struct offheap *w, struct budget *b)
{
    if (!blocks_sort(&w->blocks, b))
        return ST_TIMESLICE;
    return entries_max(&w->blocks, &w->steps) ? ST_OK : ST_TORN;
}

static enum status walk_stage(struct offheap *w, const struct vm *vm, struct budget *b)
{
    switch (w->stage) {
    case COLLECT:
        return fragments_collect(&w->collect, vm, &w->blocks, b);
    case SORT:
        return sort_blocks(w, b);
    default:
        return walk_chain(w, vm, b);
    }
}

enum status offheap_walk(struct offheap *w, const struct reading *rd)
{
    while (w->stage != DONE) {
        enum status st;
        if (w->stage == FRAGMENT) {
            st = budget_step(rd->budget) ? next_fragment(w, rd->vm) : ST_TIMESLICE;
        } else {
            st = walk_stage(w, rd->vm, rd->budget);
            if (st == ST_OK)
                next_stage(w, rd);
        }
        if (st != ST_OK)
            return st;
    }
    return ST_OK;
}
