#include "heap/term_size.h"

#include "vm/object.h"

/* A bit of both addresses of a part inside a fun or a record, where TERM_SIZE_BYTES counts no
 * bytes. */
enum { HELD = 1 };

/* With CROWDED entries on the stack, small parts are measured at once: first those of up to
 * TINY_WORDS, then those of up to SMALL_WORDS. */
enum { CROWDED = BOUND(4096, 4), TINY_WORDS = BOUND(8, 1), SMALL_WORDS = BOUND(64, 8) };

enum { ENTRIES = BOUND(1 << 24, 64) };

enum { SUB_WORDS = 5, HEAP_BINARY_WORDS = 2, REFC_BYTES = 64 };

void term_size_start(struct term_size *m, const struct blocks *blocks, unsigned want,
                     uint64_t max_words)
{
    m->blocks = blocks;
    blocks_init(&m->own, 0, 0, 0, 0);
    m->want = want;
    m->max_words = max_words;
    m->sum = (struct sums){0};
    m->constants = 0;
    m->binaries = NULL;
    m->now = (struct part){0, 0};
    parts_start(&m->stack, ENTRIES);
}

void term_size_end(struct term_size *m)
{
    blocks_end(&m->own);
    parts_end(&m->stack);
    address_set_free(m->binaries);
    m->binaries = NULL;
}

static enum status nowhere(const struct vm *vm)
{
    return vm->literals.to == 0 ? ST_ASK : ST_TORN;
}

/* Where the literals of another OS process lie is not known. But a term of one that is at rest can lie nowhere
 * else, so there they count without a size. */
static enum status constant(struct term_size *m, const struct vm *vm)
{
    if (vm->reader != PEEK_OTHER)
        return nowhere(vm);
    m->constants++;
    return ST_OK;
}

/* ---- binaries ------------------------------------------------------------------------------- */

/* The size of the sub-binary at `at': up to 26 in bytes and the bits beyond them, from 27 in bits.
 * *odd: up to 26, the bytes that a copy may need beyond its own. */
static bool read_size(const struct vm *vm, uintptr_t at, struct bits *bits, unsigned *odd)
{
    uint64_t w[3];
    if (!peek_block(vm->reader, at + 8, 3, w))
        return false;
    *odd = 0;
    if (vm->lay->refc_is_term) {
        unsigned after = w[2] & 0xFF;
        unsigned before = w[2] >> 8 & 0xFF;
        bits->size = w[0] * 8 + after;
        *odd = after + before > 8 ? 2 : after + before > 0;
    } else {
        bits->size = w[2] > w[1] ? w[2] - w[1] : 0;
    }
    return true;
}

static enum status read_binary(const struct vm *vm, uintptr_t refc, struct bits *bits)
{
    return peek_word(vm->reader, refc + LF(vm->lay, bin_ptr), &bits->binary) ? ST_OK : ST_TORN;
}

/* Up to 26 a message gets only the ProcBin if the sub-binary sees whole bytes, from 27 both
 * objects. The visible bytes of a heap binary are copied. */
static enum status sub_binary(const struct term_size *m, const struct vm *vm, uintptr_t at,
                              struct bits *bits)
{
    uint64_t orig;
    uint64_t header;
    unsigned odd;
    if (!read_size(vm, at, bits, &odd) || !peek_word(vm->reader, at + 32, &orig) ||
        (orig & 3) != TAG_BOXED)
        return ST_TORN;
    const struct block *block = term_size_find(m, vm, term_pointer(orig), 2);
    if (!block)
        return nowhere(vm);
    if (!peek_word(vm->reader, term_pointer(orig), &header) || !term_is_header(header))
        return ST_TORN;
    bits->words = odd != 0 ? SUB_WORDS : 0;
    if (vm->lay->kinds[header >> 2 & 15] == KIND_REFC) {
        bits->words =
            (odd != 0 || !vm->lay->refc_is_term ? SUB_WORDS : 0) + 1 + term_header_arity(header);
        return read_binary(vm, term_pointer(orig), bits);
    }
    uint64_t bytes = vm->lay->refc_is_term ? bits->size / 8 + odd : (bits->size + 7) / 8;
    bits->words += HEAP_BINARY_WORDS + (bytes + 7) / 8;
    return ST_OK;
}

enum status term_size_bits(const struct term_size *m, const struct vm *vm, uintptr_t at,
                           const struct object *t, struct bits *bits)
{
    *bits = (struct bits){.words = t->words};
    if (t->kind == KIND_SUB_BINARY)
        return sub_binary(m, vm, at, bits);
    if (!peek_word(vm->reader, at + 8, &bits->size))
        return ST_TORN;
    if (vm->lay->refc_is_term)
        bits->size *= 8;
    return t->kind == KIND_REFC ? read_binary(vm, at, bits) : ST_OK;
}

static enum status remember(struct term_size *m, const struct vm *vm, uint64_t binary)
{
    uint64_t bytes;
    if (!m->binaries && !(m->binaries = address_set_new()))
        return ST_NOMEM;
    if (address_set_has(m->binaries, binary))
        return ST_OK;
    if (binary == 0 || !peek_word(vm->reader, binary + LF(vm->lay, bin_size), &bytes))
        return ST_TORN;
    return address_set_add(m->binaries, binary, bytes);
}

static enum status count_bits(struct term_size *m, const struct vm *vm, uintptr_t at,
                              const struct object *t, uintptr_t held)
{
    struct bits bits;
    enum status st = term_size_bits(m, vm, at, t, &bits);
    if (st != ST_OK)
        return st == ST_ASK ? constant(m, vm) : st;
    m->sum.words += bits.words;
    if ((m->want & TERM_SIZE_BYTES) && !held && bits.size % 8 == 0 && bits.size / 8 > REFC_BYTES)
        m->sum.bytes += bits.size / 8;
    if (!(m->want & TERM_SIZE_VISIBLE) || bits.binary == 0)
        return ST_OK;
    m->sum.visible += (bits.size + 7) / 8;
    return (m->want & TERM_SIZE_BINARIES) ? remember(m, vm, bits.binary) : ST_OK;
}

/* ---- objects --------------------------------------------------------------------------------- */

/* Counts the object; *part: its words that are terms. */
static enum status boxed(struct term_size *m, const struct vm *vm, uintptr_t at, uintptr_t held,
                         struct part *part)
{
    struct object t;
    uint64_t header;
    const struct block *block = term_size_find(m, vm, at, 1);
    if (!block)
        return constant(m, vm);
    if (!peek_word(vm->reader, at, &header) || !term_is_header(header) ||
        !object_read(vm->reader, vm->lay, at, header, &t) ||
        !block_holds(block, at, (unsigned)t.words))
        return ST_TORN;
    switch (t.kind) {
    case KIND_SUB_BINARY:
    case KIND_HEAP_BINARY:
        return count_bits(m, vm, at, &t, held);
    case KIND_REFC:
        if (vm->lay->refc_is_term)
            return count_bits(m, vm, at, &t, held);
        break;
    case KIND_MATCH: /* not a term, though the stack may refer to it */
        return ST_OK;
    case KIND_FUN:
    case KIND_RECORD:
        held = HELD;
        break;
    case KIND_TUPLE:
        if (t.words == 1) /* there is only one {}, and it is never copied */
            return ST_OK;
        break;
    default:
        break;
    }
    m->sum.words += t.words;
    *part = (struct part){(at + t.first * 8) | held, (at + t.last * 8) | held};
    return ST_OK;
}

static inline enum status enter(struct term_size *m, const struct vm *vm, uint64_t word,
                                uintptr_t held, struct part *part)
{
    uintptr_t at = term_pointer(word);
    *part = (struct part){0, 0};
    if (!term_is_list(word))
        return term_is_header(word) ? ST_TORN : boxed(m, vm, at, held, part);
    if (!term_size_find(m, vm, at, 2))
        return constant(m, vm);
    m->sum.words += 2;
    *part = (struct part){at | held, (at + 16) | held};
    return ST_OK;
}

static inline bool next_word(const struct vm *vm, struct part *part, uint64_t *word)
{
    if (!peek_word(vm->reader, part->at & ~(uintptr_t)HELD, word))
        return false;
    part->at += 8;
    return true;
}

/* ---- the crowded stack ---------------------------------------------------------------------- */

/* Measures a part at once if it has at most `words` words; *done: it had. */
static enum status try_small(struct term_size *m, const struct vm *vm, struct part part,
                             unsigned words, bool *done)
{
    struct part stack[2 * SMALL_WORDS];
    unsigned n = 0;
    struct sums before = m->sum;
    *done = false;
    if (part.to - part.at > (uintptr_t)words * 8)
        return ST_OK;
    for (;;) {
        uint64_t word;
        struct part below;
        while (part.at == part.to) {
            if (n == 0) {
                *done = true;
                return ST_OK;
            }
            part = stack[--n];
        }
        if (!next_word(vm, &part, &word))
            return ST_TORN;
        if (term_is_immediate(word))
            continue;
        enum status st = enter(m, vm, word, part.at & HELD, &below);
        if (st != ST_OK)
            return st;
        if (m->sum.words - before.words > words) {
            m->sum = before;
            return ST_OK;
        }
        if (below.at == below.to)
            continue;
        stack[n++] = part;
        part = below;
    }
}

/* Measures the small terms at the start of a part; *rest begins with the first large one. */
static enum status try_rest(struct term_size *m, const struct vm *vm, struct part *rest,
                            unsigned words, struct budget *b)
{
    while (rest->at != rest->to && budget_step(b)) {
        struct part after = *rest;
        struct part below;
        struct sums before = m->sum;
        uint64_t word;
        bool done = true;
        if (!next_word(vm, &after, &word))
            return ST_TORN;
        enum status st = ST_OK;
        if (!term_is_immediate(word)) {
            st = enter(m, vm, word, after.at & HELD, &below);
            if (st == ST_OK && below.at != below.to)
                st = try_small(m, vm, below, words, &done);
        }
        if (st != ST_OK)
            return st;
        if (!done) {
            m->sum = before;
            return ST_OK;
        }
        *rest = after;
    }
    return ST_OK;
}

/* ---- measuring ------------------------------------------------------------------------------ */

/* Avoids an entry for a rest that contains only immediates. */
static enum status skip_immediates(const struct vm *vm, struct part *rest, struct budget *b)
{
    while (rest->at != rest->to) {
        struct part after = *rest;
        uint64_t word;
        if (!next_word(vm, &after, &word))
            return ST_TORN;
        if (!term_is_immediate(word) || !budget_step(b))
            return ST_OK;
        *rest = after;
    }
    return ST_OK;
}

/* Continues with `below`, and keeps the rest of the current part on the stack. */
static enum status descend(struct term_size *m, const struct vm *vm, struct part *now,
                           struct part below, struct budget *b)
{
    bool done = false;
    enum status st = skip_immediates(vm, now, b);
    for (unsigned words = TINY_WORDS; m->stack.n >= CROWDED && words <= SMALL_WORDS; words *= 8) {
        if (st == ST_OK && now->at != now->to)
            st = try_small(m, vm, below, words, &done);
        if (st == ST_OK && !done)
            st = try_rest(m, vm, now, words, b);
        if (st != ST_OK || done)
            return st;
    }
    if (st != ST_OK)
        return st;
    if (now->at != now->to && !parts_push(&m->stack, *now))
        return m->stack.cap * 2 > m->stack.max ? ST_TOO_LARGE : ST_NOMEM;
    *now = below;
    return ST_OK;
}

enum status term_size_of(struct term_size *m, const struct vm *vm, uint64_t term)
{
    assert(m->stack.n == 0 && m->now.at == m->now.to);
    if (term_is_immediate(term))
        return ST_OK;
    enum status st = enter(m, vm, term, 0, &m->now);
    return st == ST_OK && m->sum.words > m->max_words ? ST_TOO_LARGE : st;
}

enum status term_size_go(struct term_size *m, const struct vm *vm, struct budget *b)
{
    struct part now = m->now;
    enum status st = ST_OK;
    for (;;) {
        uint64_t word;
        struct part below;
        if (now.at == now.to) {
            if (m->stack.n == 0)
                break;
            now = m->stack.list[--m->stack.n];
        }
        if (!budget_step(b)) {
            st = ST_TIMESLICE;
            break;
        }
        if (!next_word(vm, &now, &word)) {
            st = ST_TORN;
            break;
        }
        if (term_is_immediate(word))
            continue;
        st = enter(m, vm, word, now.at & HELD, &below);
        if (st == ST_OK && below.at != below.to)
            st = descend(m, vm, &now, below, b);
        if (st == ST_OK && m->sum.words > m->max_words)
            st = ST_TOO_LARGE;
        if (st != ST_OK)
            break;
    }
    m->now = now;
    return st;
}
