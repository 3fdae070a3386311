#include "heap/marking.h"

#include "util/alloc.h"
#include "heap/near.h"
#include "process/offheap.h"
#include "process/queue.h"
#include "vm/object.h"

#include <string.h>

enum stages { COLLECT, INNER, OUTER, SORT, PREPARE, CLEAR, MARK, DONE };

void marking_fields(enum layout_field *fields)
{
    const enum layout_field *const all[] = {offheap_fields, queue_fields, roots_fields};
    unsigned n = 0;
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        for (const enum layout_field *f = all[i]; *f != LAYOUT_FIELD_COUNT; f++)
            fields[n++] = *f;
    }
    assert(n < MARKING_FIELDS_MAX);
    fields[n] = LAYOUT_FIELD_COUNT;
}

void marking_start(struct marking *h, const struct reading *rd, unsigned want, uint64_t max_words)
{
    h->want = want;
    h->stage = COLLECT;
    h->nameless = stamp_is_sensitive(rd);
    h->max_words = max_words;
    h->words = h->fragment_words = 0;
    blocks_init(&h->blocks, stamp_word(rd, LF_heap), stamp_word(rd, LF_htop),
                stamp_word(rd, LF_old_heap), stamp_word(rd, LF_old_htop));
    h->blocks.max = MARKING_BLOCKS_MAX;
    fragments_of(&h->collect, rd);
    h->collect.steps = MESSAGES_MAX;
    h->marks.base = h->marks.base_first;
    h->marks.black = h->marks.black_first;
    h->marks.grey = h->marks.summary = NULL;
    h->now = h->spill = (struct part){0, 0};
    parts_start(&h->stack, 0);
    h->spilled = h->drained = h->has_map_nodes = h->has_seconds = false;
    memset(h->reached, 0, sizeof h->reached);
    h->literals = h->literal_words = h->visible = 0;
    h->leaves.pages = NULL;
    memset(h->leaf, 0xFF, sizeof h->leaf); /* immediate: no such word is followed */
    h->histogram = NULL;
    slices_init(&h->slices, MARKING_SLICES_MAX);
}

void marking_end(struct marking *h)
{
    marks_end(&h->marks);
    blocks_end(&h->blocks);
    parts_end(&h->stack);
    sonde_free(h->histogram);
    h->histogram = NULL;
    slices_end(&h->slices);
    literal_bits_end(&h->leaves);
}

uint64_t marking_reached(const struct marking *h)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < ROOT_COUNT; i++)
        sum += h->reached[i];
    return sum;
}

bool marking_has_reached(const struct marking *h, uintptr_t p)
{
    const struct block *block = blocks_find(&h->blocks, p, 1);
    return block && marks_test(&h->marks, marks_of(&h->marks, block, p));
}

bool marking_may_hold(const struct marking *h, const struct vm *vm, uintptr_t p, uint64_t words)
{
    const struct block *block = blocks_find(&h->blocks, p, 1);
    if (words > OBJECT_WORDS_MAX)
        return false;
    if (!block && vm->literals.to != 0)
        block = &vm->literals;
    return !block || block_holds(block, p, (unsigned)words);
}

size_t marking_bytes(const struct marking *h)
{
    size_t bytes = sizeof *h + marks_bytes(&h->marks);
    bytes += h->stack.list != h->stack.first ? h->stack.cap * sizeof *h->stack.list : 0;
    return bytes + (h->blocks.list != h->blocks.first ? h->blocks.cap * sizeof *h->blocks.list : 0);
}

/* ---- the stack ------------------------------------------------------------------------------ */

static enum status boxed_again(struct marking *h, const struct vm *vm, const struct block *block,
                               uintptr_t at);

static enum status leaf(struct marking *h, const struct vm *vm, uint64_t word);

/* Marks the object that the word refers to grey, so that take_grey finds it again. A literal, or an
 * object reached before, is handled at once as follow does. */
static enum status spill_word(struct marking *h, const struct vm *vm, uint64_t word)
{
    uintptr_t at = term_pointer(word);
    if (term_is_immediate(word))
        return ST_OK;
    if (term_is_header(word))
        return ST_TORN;
    const struct block *block = blocks_find(&h->blocks, at, term_is_list(word) ? 2 : 1);
    if (!block)
        return leaf(h, vm, word);
    struct mark k = marks_of(&h->marks, block, at);
    if (marks_test(&h->marks, k))
        return term_is_list(word) ? ST_OK : boxed_again(h, vm, block, at);
    return marks_set_grey(&h->marks, k) ? ST_OK : ST_NOMEM;
}

/* In slices, because a span may be a tuple of millions. OK: nothing is left to spill; TIMESLICE. */
static enum status spill(struct marking *h, const struct vm *vm, struct budget *b)
{
    enum status st = ST_OK;
    while (st == ST_OK && h->spill.at != h->spill.to) {
        uint64_t word;
        if (!budget_step(b))
            return ST_TIMESLICE;
        if (!peek_word(vm->reader, h->spill.at, &word))
            return ST_TORN;
        st = spill_word(h, vm, word);
        h->spill.at += 8;
    }
    return st;
}

/* The stack has no room for it. */
static enum status spill_part(struct marking *h, const struct vm *vm, struct part span,
                              struct budget *b)
{
    h->spilled = true;
    h->spill = span;
    return spill(h, vm, b);
}

/* ---- objects --------------------------------------------------------------------------------- */

/* The bytes that a sub-binary sees. Up to 26 its fields are bytes, relative to the whole binary;
 * from 27 they are bits, relative to a base that is rounded down. *copied: a collection makes it a
 * heap binary. */
static bool read_view(const struct vm *vm, uintptr_t at, struct view_of_bytes *v, bool *copied)
{
    uint64_t w[3];
    for (unsigned i = 0; i < 3; i++) {
        if (!peek_word(vm->reader, at + 8 + i * (uintptr_t)8, &w[i]))
            return false;
    }
    if (vm->lay->refc_is_term) {
        uint64_t odd = w[2] & 0xFFFF; /* bits after the last byte, bits before the first */
        *v = (struct view_of_bytes){.size = w[0] + (odd != 0), .from = w[1]};
        *copied = (w[2] & 0xFFFFFF) == 0 && w[0] <= vm->lay->copied_bytes;
    } else {
        *v = (struct view_of_bytes){
            .base = w[0] & ~(uint64_t)3, .volatile_base = (w[0] & 2) != 0, .from = w[1] / 8};
        v->size = w[2] > w[1] ? (w[2] + 7) / 8 - v->from : 0;
        *copied = false;
    }
    return true;
}

/* Where a word that leads to a literal is remembered, so that the next one is only counted: the maps of a heap
 * mostly share few tuples of keys, which are literals. */
static uint64_t *leaf_place(struct marking *h, uint64_t word)
{
    return &h->leaf[(word >> 3) % MARKING_LEAVES];
}

/* A literal: the walk does not go below it, nor into any object outside all known areas. */
static enum status leaf(struct marking *h, const struct vm *vm, uint64_t word)
{
    uint64_t header;
    struct object t = {.words = 2};
    h->literals++;
    if (*leaf_place(h, word) == word)
        return ST_OK;
    if (!term_is_header(word)) /* no term; a binary may refer to it nevertheless */
        *leaf_place(h, word) = word;
    enum status st =
        h->leaves.pages ? literal_bits_mark(&h->leaves, vm, term_pointer(word)) : ST_GONE;
    if (st != ST_OK)
        return st == ST_NOMEM ? st : ST_OK;
    if (!term_is_list(word) && (!peek_word(vm->reader, term_pointer(word), &header) ||
                                !object_read(vm->reader, vm->lay, term_pointer(word), header, &t)))
        return ST_TORN;
    h->literal_words += t.words;
    return ST_OK;
}

static enum status see(struct marking *h, const struct vm *vm, uintptr_t refc,
                       const struct view_of_bytes *v)
{
    h->visible += v->size;
    return h->want & MARKING_SLICES ? slices_add(&h->slices, vm, refc, v) : ST_OK;
}

/* Up to 26 a ProcBin is a term, and then it sees its whole Binary, unless only sub-binaries refer
 * to it. The bit of its second word, where no object begins, records that a term reached it. */
static enum status whole_binary(struct marking *h, const struct vm *vm, const struct block *block,
                                uintptr_t at)
{
    struct view_of_bytes v = {0};
    if (!block_holds(block, at, 2) || !marks_set(&h->marks, marks_of(&h->marks, block, at + 8)))
        return ST_OK;
    h->has_seconds = true;
    return peek_word(vm->reader, at + 8, &v.size) ? see(h, vm, at, &v) : ST_TORN;
}

static enum status count_thing(struct marking *h, const struct vm *vm, const struct block *block,
                               uintptr_t at, struct object *t)
{
    uint64_t header;
    if (!peek_word(vm->reader, at, &header) || !term_is_header(header) ||
        !object_read(vm->reader, vm->lay, at, header, t) ||
        !block_holds(block, at, (unsigned)t->words) ||
        (h->histogram && !histogram_add(h->histogram, vm, at, t)))
        return ST_TORN;
    h->reached[h->roots.root] += t->words;
    h->has_map_nodes |= t->kind == KIND_MAP && map_type(header) != MAP_FLAT;
    return ST_OK;
}

/* The whole binary of a sub-binary or match state; it refers to no other object. */
static enum status part_of(struct marking *h, const struct vm *vm, uint64_t orig,
                           const struct view_of_bytes *v)
{
    uint64_t header;
    struct object t;
    uintptr_t at = term_pointer(orig);
    const struct block *block = blocks_find(&h->blocks, at, 1);
    if (!block)
        return leaf(h, vm, orig);
    if (!peek_word(vm->reader, at, &header) || !term_is_header(header))
        return ST_TORN;
    enum kind kind = vm->lay->kinds[header >> 2 & 15];
    if (kind != KIND_REFC && kind != KIND_HEAP_BINARY)
        return ST_TORN;
    enum status st = ST_OK;
    if (marks_set(&h->marks, marks_of(&h->marks, block, at)))
        st = count_thing(h, vm, block, at, &t);
    return st == ST_OK && kind == KIND_REFC && v ? see(h, vm, at, v) : st;
}

static enum status sub_binary(struct marking *h, const struct vm *vm, uintptr_t at)
{
    struct view_of_bytes v;
    uint64_t orig;
    bool copied;
    if (!read_view(vm, at, &v, &copied) || !peek_word(vm->reader, at + 32, &orig))
        return ST_TORN;
    return copied ? ST_OK : part_of(h, vm, orig, &v);
}

static enum status match_state(struct marking *h, const struct vm *vm, uintptr_t at)
{
    uint64_t orig;
    return peek_word(vm->reader, at + 8, &orig) ? part_of(h, vm, orig, NULL) : ST_TORN;
}

/* A boxed object, reached for the first time. */
static enum status boxed(struct marking *h, const struct vm *vm, const struct block *block,
                         uintptr_t at, struct part *span)
{
    struct object t;
    enum status st = count_thing(h, vm, block, at, &t);
    if (st != ST_OK)
        return st;
    switch (t.kind) {
    case KIND_SUB_BINARY:
        return sub_binary(h, vm, at);
    case KIND_MATCH:
        return match_state(h, vm, at);
    case KIND_REFC:
        return vm->lay->refc_is_term ? whole_binary(h, vm, block, at) : ST_OK;
    default:
        *span = (struct part){at + t.first * 8, at + t.last * 8};
        return ST_OK;
    }
}

/* Reached before, perhaps only through a sub-binary, and now as a term. */
static enum status boxed_again(struct marking *h, const struct vm *vm, const struct block *block,
                               uintptr_t at)
{
    uint64_t header;
    if (!vm->lay->refc_is_term || !(h->want & MARKING_VISIBLE))
        return ST_OK;
    if (!peek_word(vm->reader, at, &header))
        return ST_TORN;
    return header == LF(vm->lay, bin_thing) ? whole_binary(h, vm, block, at) : ST_OK;
}

/* Follows a word that is not immediate. *span: the terms of its object; empty if it has none, or if
 * it was reached before. */
static inline enum status follow(struct marking *h, const struct vm *vm, uint64_t word,
                                 struct part *span)
{
    uintptr_t at = term_pointer(word);
    *span = (struct part){0, 0};
    if (term_is_header(word))
        return ST_TORN;
    bool is_list = term_is_list(word);
    const struct block *block = blocks_find(&h->blocks, at, is_list ? 2 : 1);
    if (!block)
        return leaf(h, vm, word);
    bool fresh = marks_set(&h->marks, marks_of(&h->marks, block, at));
    if (!is_list)
        return fresh ? boxed(h, vm, block, at, span) : boxed_again(h, vm, block, at);
    if (fresh) {
        *span = (struct part){at, at + 16};
        h->reached[h->roots.root] += 2;
        if (h->histogram)
            histogram_cells(h->histogram, 1);
    }
    return ST_OK;
}

/* ---- marking -------------------------------------------------------------------------------- */

/* A grey object: a list cell if its first word is not a header. */
static enum status take_grey(struct marking *h, const struct vm *vm)
{
    uintptr_t at;
    uint64_t word;
    enum status st = h->spilled ? marks_take_grey(&h->marks, &at) : ST_GONE;
    if (st != ST_OK)
        return st;
    if (!peek_word(vm->reader, at, &word))
        return ST_TORN;
    return follow(h, vm, at | (term_is_header(word) ? TAG_BOXED : TAG_LIST), &h->now);
}

/* One that near_follow left. */
static enum status follow_far(struct marking *h, const struct vm *vm, struct near *near,
                              uint64_t word, struct part *below)
{
    if (*leaf_place(h, word) == word) {
        h->literals++;
        *below = (struct part){0, 0};
        return ST_OK;
    }
    near_close(near);
    enum status st = follow(h, vm, word, below);
    near_open(near);
    return st;
}

/* Marks everything below the root followed last. */
static enum status drain(struct marking *h, const struct vm *vm, struct budget *b)
{
    bool again = vm->lay->refc_is_term && (h->want & MARKING_VISIBLE);
    enum status st = spill(h, vm, b);
    struct part now = h->now;
    struct near near = near_start(&h->marks, h->histogram);
    while (st == ST_OK) {
        uint64_t word;
        struct part below;
        if (!budget_step(b)) {
            st = ST_TIMESLICE;
            break;
        }
        if (now.at == now.to) {
            if (h->stack.n > 0) {
                now = h->stack.list[--h->stack.n];
                continue;
            }
            near_close(&near);
            st = take_grey(h, vm);
            near_open(&near);
            now = h->now;
            continue;
        }
        if (!peek_word(vm->reader, now.at, &word)) {
            st = ST_TORN;
            break;
        }
        now.at += 8;
        if (term_is_immediate(word))
            continue;
        if (!near_follow(&near, vm, word, again, &below))
            st = follow_far(h, vm, &near, word, &below);
        if (st != ST_OK || below.at == below.to)
            continue;
        if (now.at != now.to && !parts_push(&h->stack, now)) {
            near_close(&near);
            st = spill_part(h, vm, now, b);
            near_open(&near);
        }
        now = below;
    }
    h->reached[h->roots.root] += near_end(&near);
    h->now = now;
    return st;
}

static enum status mark(struct marking *h, const struct reading *rd)
{
    for (;;) {
        uint64_t word;
        enum status st = h->drained ? ST_GONE : drain(h, rd->vm, rd->budget);
        if (st != ST_GONE)
            return st;
        h->drained = true; /* kept if no step is left for the next root */
        st = roots_next(&h->roots, rd, &word);
        h->drained = st != ST_OK;
        if (st == ST_OK)
            st = follow(h, rd->vm, word, &h->now);
        if (st != ST_OK)
            return st == ST_GONE ? ST_OK : st;
    }
}

/* ---- stages --------------------------------------------------------------------------------- */

static enum status prepare(struct marking *h, const struct vm *vm)
{
    const struct block *list = h->blocks.list;
    uint64_t young = (list[BLOCK_YOUNG].to - list[BLOCK_YOUNG].from) / 8;
    uint64_t old = (list[BLOCK_OLD].to - list[BLOCK_OLD].from) / 8;
    if (!blocks_words(&h->blocks, &h->words))
        return ST_TORN;
    h->fragment_words = h->words - young - old - h->collect.used;
    if (h->words > h->max_words)
        return ST_TOO_LARGE;
    h->stack.max = h->words / PARTS_SHARE;
    if ((h->want & MARKING_HISTOGRAM) && !(h->histogram = histogram_new(h->nameless)))
        return ST_NOMEM;
    enum status st = h->want & MARKING_LITERALS ? literal_bits_start(&h->leaves, vm) : ST_OK;
    /* ASK: the literal area is unknown */
    return st == ST_NOMEM ? st : marks_init(&h->marks, &h->blocks);
}

static enum status collect(struct marking *h, const struct vm *vm, struct budget *b)
{
    enum status st = fragments_collect(&h->collect, vm, &h->blocks, b);
    /* more than MARKING_BLOCKS_MAX fragments */
    return st == ST_ASK ? ST_TOO_LARGE : st;
}

static enum status walk_stage(struct marking *h, const struct reading *rd)
{
    switch (h->stage) {
    case COLLECT:
    case INNER:
    case OUTER:
        return collect(h, rd->vm, rd->budget);
    case SORT:
        return blocks_sort(&h->blocks, rd->budget) ? ST_OK : ST_TIMESLICE;
    case PREPARE:
        return prepare(h, rd->vm);
    case CLEAR:
        return marks_clear(&h->marks, rd->budget) ? ST_OK : ST_TIMESLICE;
    default:
        return mark(h, rd);
    }
}

static void next_stage(struct marking *h, const struct reading *rd)
{
    switch (++h->stage) {
    case INNER:
        fragments_collect_queue(&h->collect, stamp_word(rd, LF_sig_first));
        break;
    case OUTER:
        fragments_collect_queue(&h->collect, stamp_word(rd, LF_inq_first));
        break;
    case MARK:
        roots_start(&h->roots, h->collect.waiting);
        break;
    default:
        break;
    }
}

enum status marking_walk(struct marking *h, const struct reading *rd)
{
    enum status st = h->stage == COLLECT ? roots_readable(rd) : ST_OK;
    while (st == ST_OK && h->stage != DONE) {
        st = walk_stage(h, rd);
        if (st == ST_OK)
            next_stage(h, rd);
    }
    return st;
}
