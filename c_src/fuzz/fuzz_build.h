/* fuzz_build.h: what the verbs of fuzz_build.c share.
 * Knows: the state of an input that is being built, its operands, and words of the model memory.
 * Does not know: what an input asks. */
#ifndef SONDE_FUZZ_BUILD_H
#define SONDE_FUZZ_BUILD_H

#include "fuzz/fuzz.h"

enum { PROCS = 12, MARKS = 160, TERMS = 32 };

#define NIL 0x3BULL

struct process {
    uint64_t at;
    uint64_t young_end, old_end; /* ends of the allocated memory: the heaps grow up to there */
    uint64_t frag, frag_end;     /* the last fragment */
};

struct place {
    uint64_t from, to;
};

struct builder {
    const uint8_t *in, *end;
    struct image *img;
    const struct layout *lay;
    uint64_t used; /* bytes of the memory */
    unsigned procs_n, marks_n;
    struct process procs[PROCS], *p;
    struct place marks[MARKS];
    uint64_t binary; /* the last one */
    uint64_t refc;   /* the last object that points at one */
    uint64_t heap_binary;
    uint64_t resource; /* the last one */
    unsigned terms_n;
    uint64_t terms[TERMS]; /* the last ones, a ring */
};

static inline unsigned byte(struct builder *b)
{
    return b->in < b->end ? *b->in++ : 0;
}

/* ---- words ---------------------------------------------------------------------------------- */

static inline void put_word(uint64_t address, uint64_t value)
{
    uint64_t *w = memory_at(address);
    if (w)
        *w = value;
}

static inline uint64_t get_word(uint64_t address)
{
    const uint64_t *w = memory_at(address);
    return w ? *w : 0;
}

static inline void put(struct builder *b, uint64_t object, enum layout_field field, uint64_t value)
{
    uint64_t at = object + b->lay->f[field];
    unsigned width = layout_width(b->lay, field);
    uint64_t mask = width == 8 ? ~0ULL : ((1ULL << width * 8) - 1) << (at & 7) * 8;
    uint64_t old = get_word(at & ~7ULL);
    put_word(at & ~7ULL, (old & ~mask) | (value << (at & 7) * 8 & mask));
}

static inline uint64_t get(struct builder *b, uint64_t object, enum layout_field field)
{
    uint64_t at = object + b->lay->f[field];
    return layout_narrow(get_word(at & ~7ULL), at & 7, layout_width(b->lay, field));
}

static inline uint64_t own(struct builder *b, enum layout_field field)
{
    return get(b, b->p->at, field);
}

static inline void set(struct builder *b, enum layout_field field, uint64_t value)
{
    put(b, b->p->at, field, value);
}

static inline void mark(struct builder *b, uint64_t from, uint64_t size)
{
    if (b->marks_n < MARKS)
        b->marks[b->marks_n++] = (struct place){from, from + size};
}

/* 0: the memory is full. Objects follow each other without a gap. */
static inline uint64_t make(struct builder *b, uint64_t size)
{
    size = (size + 7) & ~7ULL;
    if (b->used + size > MEMORY_WORDS * 8ULL)
        return 0;
    uint64_t at = MEMORY_BASE + b->used;
    b->used += size;
    mark(b, at, size);
    return at;
}

/* An operand that names a place in the structures built so far. */
uint64_t build_value(struct builder *b);

/* ---- of fuzz_process.c ------------------------------------------------------------------------ */

typedef void verb(struct builder *b, unsigned param);
verb build_process, build_entry, build_mbuf, build_message, build_tie, build_dictionary,
    build_abandoned;

/* Room for an object in one of the process's blocks; 0: none. */
uint64_t build_room(struct builder *b, unsigned block, uint64_t words);
void build_put_reference(uint64_t at, unsigned number);

/* how: bits: 1: of something that is not a process, 2: of the other end, 4: of another type */
void build_monitor(struct builder *b, unsigned number, unsigned how, uint64_t end);

/* ---- of fuzz_term.c ------------------------------------------------------------------------------ */

verb build_thing, build_deep, build_hold, build_call, build_frames, build_first_call;

#endif
