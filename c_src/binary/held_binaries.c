#include "binary/held_binaries.h"

#include "process/queue.h"
#include "vm/term.h"

enum { FLAG_MAGIC = 1 }; /* Binary.intern.flags, the first word: it is not a binary */

enum stages { CHAINS, INNER, OUTER, WAIT, PENDING, SUM, FREE, DONE };

bool held_binaries_is_none(const struct reading *rd)
{
    return offheap_is_none(rd) && queue_is_empty(rd);
}

/* ---- references ------------------------------------------------------------------------------- */

/* A Binary's address is a multiple of 8, so its lowest bits have room. QUEUED: the reference is in
 * a message. SEEN: it is a ProcBin or BinRef. */
enum { QUEUED = 1, SEEN = 2, MARKS = QUEUED | SEEN };

/* A magic Binary counts if it has the allocator type of binary memory. *type: the address of its
 * resource type if it belongs to a native library; else 0. */
static enum status read_resource(const struct vm *vm, uint64_t binary, bool *counts, uint64_t *type)
{
    uintptr_t data = binary + LF(vm->lay, magic_data);
    uint64_t alloc;
    uint64_t frees;
    *type = 0;
    if (!peek_word(vm->reader, data - 8, &alloc) ||
        !peek_word(vm->reader, binary + LF(vm->lay, magic_free), &frees))
        return ST_TORN;
    *counts = alloc >> 32 == vm->binary_alloc;
    if (!*counts || frees != vm->resource_free)
        return ST_OK;
    return peek_word(vm->reader, data, type) ? ST_OK : ST_TORN;
}

/* The type can be read: it exists as long as one of its resources does. */
static enum status find_type(struct resource_types *ts, const struct vm *vm, uint64_t at,
                             uint32_t *type)
{
    struct resource_type t = {.at = at};
    if (at != 0 &&
        ((at & 7) != 0 || !peek_word(vm->reader, at + LF(vm->lay, type_module), &t.module) ||
         !peek_word(vm->reader, at + LF(vm->lay, type_name), &t.name) || !term_is_atom(t.module) ||
         !term_is_atom(t.name)))
        return ST_TORN;
    *type = resource_types_index(ts, &t, HELD_TYPES);
    return *type == RESOURCE_TYPES_NOMEM ? ST_NOMEM : ST_OK;
}

/* A term may see such memory as a binary, too (enif_make_resource_binary). */
static enum status name_resource(struct held_binaries *h, const struct vm *vm, struct known *k,
                                 bool *counts)
{
    uint64_t at;
    enum status st = read_resource(vm, k->binary, counts, &at);
    if (st != ST_OK || !*counts)
        return st;
    k->kinds = CENSUS_RESOURCE;
    return find_type(&h->types, vm, at, &k->first);
}

static enum status take(struct held_binaries *h, const struct vm *vm)
{
    uint64_t pending = h->pending[h->taken++ % HELD_PENDING];
    uint64_t binary = pending & ~(uint64_t)MARKS;
    uint64_t flags;
    uint64_t size;
    uint64_t refc;
    struct known *k;
    bool counts = true;
    if (!peek_word(vm->reader, binary, &flags) ||
        !peek_word(vm->reader, binary + LF(vm->lay, bin_size), &size) ||
        !peek_word(vm->reader, binary + LF(vm->lay, bin_refc), &refc))
        return ST_TORN;
    struct known found = {.binary = binary, .size = size & KNOWN_SIZE_MAX};
    enum status st = ST_OK;
    if (h->what == HELD_ALL && (flags & FLAG_MAGIC))
        st = name_resource(h, vm, &found, &counts);
    if (st == ST_OK && counts)
        st = census_add(&h->binaries, binary, &k);
    if (st != ST_OK || !counts)
        return st;
    if (k->refs == 0) {
        *k = found;
        h->value += found.size;
    }
    k->refc = census_count32(refc);
    k->refs += k->refs < UINT32_MAX;
    k->first += k->kinds & CENSUS_RESOURCE ? 0 : pending & QUEUED;
    k->holders |= (pending & SEEN) != 0;
    return ST_OK;
}

/* The header of a Binary is in its own cache line: prefetch it now, read it later. */
static enum status refers(void *ctx, const struct vm *vm, uintptr_t entry)
{
    struct held_binaries *h = ctx;
    uint64_t object;
    uint64_t binary;
    if (!peek_word(vm->reader, entry, &object))
        return ST_TORN;
    uint16_t at = object == LF(vm->lay, bin_thing) ? LF(vm->lay, bin_ptr) : LF(vm->lay, ref_bin);
    if (!blocks_find(&h->offheap.blocks, entry, at / 8 + 1) ||
        !peek_word(vm->reader, entry + at, &binary) || binary == 0 || (binary & 7) != 0)
        return ST_TORN;
    enum status st = h->n - h->taken == HELD_PENDING ? take(h, vm) : ST_OK;
    peek_prefetch(vm->reader, binary + LF(vm->lay, bin_refc));
    h->pending[h->n++ % HELD_PENDING] = binary | (h->queued ? (uint64_t)QUEUED : 0) |
                                        (object == LF(vm->lay, bin_thing) ? (uint64_t)SEEN : 0);
    return st;
}

static enum status take_rest(struct held_binaries *h, const struct vm *vm)
{
    enum status st = ST_OK;
    while (st == ST_OK && h->taken != h->n)
        st = take(h, vm);
    return st;
}

/* ---- messages --------------------------------------------------------------------------------- */

/* A message from another node that is not decoded has no binaries yet. The inner queue has receive
 * markers, too; any other signal may change the queue. */
static enum status next_message(struct held_binaries *h, const struct vm *vm, struct budget *b)
{
    uint64_t tag;
    uintptr_t at = h->message;
    if (h->steps-- == 0 || (at & 7) || !peek_word(vm->reader, at + LF(vm->lay, msg_tag), &tag) ||
        !peek_word(vm->reader, at + LF(vm->lay, msg_next), &h->message))
        return ST_TORN;
    if (h->message != 0)
        peek_prefetch(vm->reader, h->message);
    if (!signal_is_message(tag))
        return h->stage == INNER && signal_op(tag) == SIGNAL_RECV_MARK ? ST_OK : ST_BUSY;
    return tag != SIGNAL_EXTERNAL_MSG ? offheap_message(&h->offheap, vm, at, b) : ST_OK;
}

static enum status one_queue(struct held_binaries *h, const struct reading *rd)
{
    for (;;) {
        enum status st = offheap_walk(&h->offheap, rd);
        if (st != ST_OK || h->message == 0)
            return st;
        if (!budget_step(rd->budget))
            return ST_TIMESLICE;
        st = next_message(h, rd->vm, rd->budget);
        if (st != ST_OK)
            return st;
    }
}

/* ---- stages ----------------------------------------------------------------------------------- */

static enum status sum_exclusive(struct held_binaries *h, struct budget *b)
{
    const struct known *k;
    enum status st;
    while ((st = census_next(&h->binaries, &h->at, b, &k)) == ST_OK)
        h->value += k->refs == k->refc ? k->size : 0;
    return st == ST_GONE ? ST_OK : st;
}

void held_binaries_start(struct held_binaries *h, const struct reading *rd,
                         enum held_binaries_what what)
{
    h->what = what;
    h->stage = CHAINS;
    h->queued = h->waited = false;
    h->value = 0;
    h->message = 0;
    h->steps = MESSAGES_MAX;
    h->at = 0;
    h->n = h->taken = 0;
    offheap_start(&h->offheap, rd, false);
    h->offheap.blocks.max = HELD_BLOCKS_MAX;
    h->offheap.collect.steps = MESSAGES_MAX;
    h->offheap.magic = what == HELD_ALL;
    h->offheap.each = refers;
    h->offheap.ctx = h;
    census_init(&h->binaries, HELD_MAX, true);
    h->types = (struct resource_types){0};
}

void held_binaries_end(struct held_binaries *h)
{
    offheap_end(&h->offheap);
    census_free(&h->binaries);
    resource_types_free(&h->types);
}

static void enter_stage(struct held_binaries *h, const struct reading *rd)
{
    h->queued = h->stage == INNER || h->stage == OUTER;
    if (h->stage == INNER)
        h->message = stamp_word(rd, LF_sig_first);
    if (h->stage == OUTER)
        h->message = stamp_word(rd, LF_inq_first);
    if (h->stage == SUM && h->what != HELD_UNIQUE)
        h->value = 0; /* until now it was the sum of all Binaries */
}

/* The last headers were asked for just now: meanwhile another walk has its turn. */
static enum status wait(struct held_binaries *h, const struct budget *b)
{
    bool wait = b->shared && h->taken != h->n && !h->waited;
    h->waited = true;
    return wait ? ST_TIMESLICE : ST_OK;
}

static enum status walk_stage(struct held_binaries *h, const struct reading *rd)
{
    switch (h->stage) {
    case CHAINS:
        return queue_is_walkable(rd) ? offheap_walk(&h->offheap, rd) : ST_BUSY;
    case INNER:
    case OUTER:
        return one_queue(h, rd);
    case WAIT:
        return wait(h, rd->budget);
    case PENDING:
        return take_rest(h, rd->vm);
    case SUM:
        return h->what == HELD_EXCLUSIVE ? sum_exclusive(h, rd->budget) : ST_OK;
    default: /* the caller of HELD_ALL needs the entries */
        return h->what == HELD_ALL || census_free_some(&h->binaries, rd->budget) ? ST_OK
                                                                                 : ST_TIMESLICE;
    }
}

enum status held_binaries_walk(struct held_binaries *h, const struct reading *rd)
{
    while (h->stage != DONE) {
        enum status st = walk_stage(h, rd);
        if (st != ST_OK)
            return st == ST_ASK ? ST_TOO_LARGE : st;
        h->stage++;
        enter_stage(h, rd);
    }
    return ST_OK;
}
