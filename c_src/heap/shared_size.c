#include "heap/shared_size.h"

#include "vm/object.h"

enum { LATER_MAX = BOUND(1 << 24, 64) };

enum status shared_size_start(struct shared_size *s, const struct vm *vm,
                              const struct term_size *measure)
{
    uint64_t words;
    s->measure = NULL;
    if (!blocks_words(measure->blocks, &words))
        return ST_TORN;
    if (words > SHARED_SIZE_WORDS_MAX)
        return ST_TOO_LARGE;
    s->measure = measure;
    s->leaves.pages = NULL;
    s->now = s->spill = (struct part){0, 0};
    s->spilled = false;
    s->words = s->literals = 0;
    s->refs = NULL;
    parts_start(&s->stack, 0);
    parts_start(&s->later, LATER_MAX);
    enum status st = marks_init(&s->marks, measure->blocks);
    if (st != ST_OK)
        return st;
    s->stack.max = words / PARTS_SHARE;
    return literal_bits_start(&s->leaves, vm);
}

void shared_size_end(struct shared_size *s)
{
    if (!s->measure)
        return;
    marks_end(&s->marks);
    parts_end(&s->stack);
    parts_end(&s->later);
    literal_bits_end(&s->leaves);
}

/* ---- objects ---------------------------------------------------------------------------------- */

static enum status mark(struct shared_size *s, const struct vm *vm, const struct block *block,
                        uintptr_t at)
{
    if (block == &vm->literals)
        return literal_bits_mark(&s->leaves, vm, at);
    return marks_set(&s->marks, marks_of(&s->marks, block, at)) ? ST_OK : ST_GONE;
}

static void count(struct shared_size *s, const struct vm *vm, const struct block *block,
                  uint64_t words)
{
    if (block == &vm->literals)
        s->literals += words;
    else
        s->words += words;
}

/* Records a literal's reference to a Binary, once, because each literal is marked. */
static enum status note_ref(const struct shared_size *s, const struct vm *vm, uintptr_t at)
{
    uint64_t binary;
    uint64_t size;
    uint64_t refc;
    struct known *k;
    if (!block_holds(&vm->literals, at, LF(vm->lay, bin_ptr) / 8 + 1) ||
        !peek_word(vm->reader, at + LF(vm->lay, bin_ptr), &binary) || binary == 0 ||
        (binary & 7) != 0 || !peek_word(vm->reader, binary + LF(vm->lay, bin_size), &size) ||
        !peek_word(vm->reader, binary + LF(vm->lay, bin_refc), &refc))
        return ST_TORN;
    enum status st = census_add(s->refs, binary, &k);
    if (st != ST_OK)
        return st;
    k->size = size & KNOWN_SIZE_MAX;
    k->refc = census_count32(refc);
    k->refs += k->refs < UINT32_MAX;
    return ST_OK;
}

/* The whole binary of a sub-binary among the literals. */
static enum status note_whole(struct shared_size *s, const struct vm *vm, uintptr_t at)
{
    uint64_t orig;
    if (!peek_word(vm->reader, at + 32, &orig))
        return ST_TORN;
    enum status st = literal_bits_mark(&s->leaves, vm, term_pointer(orig));
    if (st != ST_OK)
        return st == ST_GONE ? ST_OK : st;
    return note_ref(s, vm, term_pointer(orig));
}

/* From 27 sub-binaries share their whole binary; up to 26 each counts all words of a message. */
static enum status count_bits(struct shared_size *s, const struct vm *vm, const struct block *block,
                              uintptr_t at, const struct object *t)
{
    struct bits bits;
    uint64_t orig;
    uint64_t header;
    enum status st = term_size_bits(s->measure, vm, at, t, &bits);
    if (st != ST_OK)
        return st;
    bool apart = t->kind == KIND_SUB_BINARY && bits.binary != 0 && !vm->lay->refc_is_term;
    if (!apart || block == &vm->literals) {
        bool refers = s->refs && block == &vm->literals && bits.binary != 0;
        count(s, vm, block, bits.words);
        return refers ? note_whole(s, vm, at) : ST_OK;
    }
    s->words += t->words;
    if (!peek_word(vm->reader, at + 32, &orig) ||
        !peek_word(vm->reader, term_pointer(orig), &header))
        return ST_TORN;
    const struct block *there = blocks_find(s->measure->blocks, term_pointer(orig), 1);
    if (there && marks_set(&s->marks, marks_of(&s->marks, there, term_pointer(orig))))
        s->words += 1 + term_header_arity(header);
    return ST_OK;
}

static enum status boxed(struct shared_size *s, const struct vm *vm, const struct block *block,
                         uintptr_t at, struct part *part)
{
    struct object t;
    uint64_t header;
    if (!peek_word(vm->reader, at, &header) || !term_is_header(header) ||
        !object_read(vm->reader, vm->lay, at, header, &t) ||
        !block_holds(block, at, (unsigned)t.words))
        return ST_TORN;
    if (t.kind == KIND_SUB_BINARY)
        return count_bits(s, vm, block, at, &t);
    if (t.kind == KIND_TUPLE && t.words == 1)
        return ST_OK;
    count(s, vm, block, t.words);
    *part = (struct part){at + t.first * 8, at + t.last * 8};
    return s->refs && header == LF(vm->lay, bin_thing) && block == &vm->literals
               ? note_ref(s, vm, at)
               : ST_OK;
}

/* *part: the terms of the object; empty if it was marked before. */
static inline enum status follow(struct shared_size *s, const struct vm *vm, uint64_t word,
                                 struct part *part)
{
    uintptr_t at = term_pointer(word);
    *part = (struct part){0, 0};
    if (term_is_header(word))
        return ST_TORN;
    bool is_list = term_is_list(word);
    const struct block *block = term_size_find(s->measure, vm, at, is_list ? 2 : 1);
    if (!block)
        return ST_TORN;
    enum status st = mark(s, vm, block, at);
    if (st != ST_OK)
        return st == ST_GONE ? ST_OK : st;
    if (!is_list)
        return boxed(s, vm, block, at, part);
    count(s, vm, block, 2);
    *part = (struct part){at, at + 16};
    return ST_OK;
}

/* ---- parts that have no room on the stack ----------------------------------------------------- */

static enum status spill_word(struct shared_size *s, const struct vm *vm, uint64_t word)
{
    struct part part;
    uintptr_t at = term_pointer(word);
    if (term_is_header(word))
        return ST_TORN;
    const struct block *block = blocks_find(s->measure->blocks, at, 1);
    if (block) {
        struct mark k = marks_of(&s->marks, block, at);
        return marks_test(&s->marks, k) || marks_set_grey(&s->marks, k) ? ST_OK : ST_NOMEM;
    }
    enum status st = follow(s, vm, word, &part);
    if (st == ST_OK && part.at != part.to && !parts_push(&s->later, part))
        st = ST_NOMEM;
    return st;
}

/* In slices, because a part may be a tuple of millions. OK: nothing is left to spill; TIMESLICE. */
static enum status spill(struct shared_size *s, const struct vm *vm, struct budget *b)
{
    enum status st = ST_OK;
    while (st == ST_OK && s->spill.at != s->spill.to) {
        uint64_t word;
        if (!budget_step(b))
            return ST_TIMESLICE;
        if (!peek_word(vm->reader, s->spill.at, &word))
            return ST_TORN;
        if (!term_is_immediate(word))
            st = spill_word(s, vm, word);
        s->spill.at += 8;
    }
    return st;
}

/* A grey object: a list cell if its first word is not a header. */
static enum status take_grey(struct shared_size *s, const struct vm *vm, struct part *now)
{
    uintptr_t at;
    uint64_t word;
    enum status st = s->spilled ? marks_take_grey(&s->marks, &at) : ST_GONE;
    if (st != ST_OK)
        return st;
    if (!peek_word(vm->reader, at, &word))
        return ST_TORN;
    return follow(s, vm, at | (term_is_header(word) ? TAG_BOXED : TAG_LIST), now);
}

/* GONE: nothing is left. */
static enum status next_part(struct shared_size *s, const struct vm *vm, struct part *now)
{
    struct parts *p = s->stack.n > 0 ? &s->stack : &s->later;
    if (p->n == 0)
        return take_grey(s, vm, now);
    *now = p->list[--p->n];
    return ST_OK;
}

/* ---- marking --------------------------------------------------------------------------------- */

enum status shared_size_of(struct shared_size *s, const struct vm *vm, uint64_t term)
{
    return term_is_immediate(term) ? ST_OK : follow(s, vm, term, &s->now);
}

enum status shared_size_go(struct shared_size *s, const struct vm *vm, struct budget *b)
{
    struct part now = s->now;
    enum status st = spill(s, vm, b);
    while (st == ST_OK) {
        uint64_t word;
        struct part below;
        if (!budget_step(b)) {
            st = ST_TIMESLICE;
        } else if (now.at == now.to) {
            st = next_part(s, vm, &now);
        } else if (!peek_word(vm->reader, now.at, &word)) {
            st = ST_TORN;
        } else {
            now.at += 8;
            if (term_is_immediate(word))
                continue;
            st = follow(s, vm, word, &below);
            if (st != ST_OK || below.at == below.to)
                continue;
            if (now.at != now.to && !parts_push(&s->stack, now)) {
                s->spilled = true;
                s->spill = now;
                st = spill(s, vm, b);
            }
            now = below;
        }
    }
    s->now = now;
    return st == ST_GONE ? ST_OK : st;
}
