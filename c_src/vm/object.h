/* object.h: one boxed object on a heap: its kind, its size in words, which words are terms.
 * Knows: headers, and the words that contain a length. Reads at most the first four words.
 * Does not know: where the object lies, or whether its words fit there. */
#ifndef SONDE_OBJECT_H
#define SONDE_OBJECT_H

#include "vm/stamp.h"
#include "vm/term.h"

struct object {
    enum kind kind;
    uint64_t header;
    uint64_t words;       /* including the header */
    uint64_t first, last; /* the words in [first, last) are terms */
};

/* No object has more words: a tuple's arity has 26 bits, a bignum's and a binary's fewer. */
enum { OBJECT_WORDS_MAX = 1 << 27 };

/* The bits of a map's header above its tag. */
enum { MAP_FLAT, MAP_NODE, MAP_HEAD_ARRAY, MAP_HEAD_BITMAP, MAP_FLAT_MAX = 64 };

static inline unsigned map_type(uint64_t header)
{
    return (unsigned)(header >> 6) & 3;
}

/* A flatmap: its size, the tuple of keys, the values. A hashmap's head has a size; its nodes have
 * none. */
static inline bool object_map(enum peek_reader r, uintptr_t at, struct object *t)
{
    uint64_t size;
    unsigned children = (unsigned)__builtin_popcountll(t->header >> 16 & 0xFFFF);
    switch (map_type(t->header)) {
    case MAP_FLAT:
        if (!peek_word(r, at + 8, &size) || size > MAP_FLAT_MAX)
            return false;
        t->words = 3 + size;
        t->first = 2;
        return true;
    case MAP_NODE:
        t->words = 1 + children;
        t->first = 1;
        return true;
    default:
        t->words = 2 + children;
        t->first = 2;
        return true;
    }
}

static inline bool object_fun(enum peek_reader r, const struct fun_form *form, uintptr_t at,
                              struct object *t)
{
    uint64_t says = t->header;
    if (form->word != 0 && !peek_word(r, at + form->word * (uintptr_t)8, &says))
        return false;
    t->first = form->raw;
    t->words = form->raw + (says >> form->shift & form->mask) + form->more;
    return true;
}

static inline bool object_form(enum peek_reader r, const struct layout *lay, uintptr_t at,
                               struct object *t)
{
    switch (t->kind) {
    case KIND_NONE:
        return false;
    case KIND_TUPLE:
    case KIND_RECORD:
        t->first = 1;
        return t->words <= OBJECT_WORDS_MAX;
    case KIND_MAP:
        return object_map(r, at, t);
    case KIND_FUN:
        return object_fun(r, &lay->fun, at, t);
    case KIND_SUB_BINARY: /* the last word refers to the whole binary */
        t->first = 4;
        t->words = 5;
        return true;
    case KIND_MATCH: /* the matched binary, then positions */
        t->first = 1;
        t->last = 2;
        return t->words >= 2 && t->words <= OBJECT_WORDS_MAX;
    default: /* raw words only */
        t->first = t->words;
        return t->words <= OBJECT_WORDS_MAX;
    }
}

/* false: it cannot be read, or it is not an object of this release. */
static inline bool object_read(enum peek_reader r, const struct layout *lay, uintptr_t at,
                               uint64_t header, struct object *t)
{
    t->kind = lay->kinds[header >> 2 & 15];
    t->header = header;
    t->words = 1 + term_header_arity(header);
    t->last = 0;
    if (!object_form(r, lay, at, t))
        return false;
    if (t->last == 0)
        t->last = t->words;
    return true;
}

/* Whether a collection copies the bytes of this sub-binary and releases the whole binary: it does
 * so for a few whole bytes that are not writable. false: it cannot be read. */
static inline bool object_is_copied(enum peek_reader r, const struct layout *lay, uintptr_t at,
                                    bool *copied)
{
    uint64_t size;
    uint64_t flags;
    *copied = false;
    if (lay->copied_bytes == 0)
        return true;
    if (!peek_word(r, at + 8, &size) || !peek_word(r, at + 24, &flags))
        return false;
    *copied = (flags & 0xFFFFFF) == 0 && size <= lay->copied_bytes;
    return true;
}

#endif
