/* preview.h: the beginning of a term as a list of tokens.
 * Knows: how to read a few levels and a few elements of a term of any size, even a broken one.
 * Does not know: how a token is printed, or whether the process changed meanwhile.
 *
 * A literal lies in no block. While the process does not change, neither do the literals that it
 * refers to. All reads are guarded, and there are few. */
#ifndef SONDE_PREVIEW_H
#define SONDE_PREVIEW_H

#include "heap/marking.h"
#include "vm/object.h"

enum token_kind {
    TOKEN_WORD,   /* word: an immediate */
    TOKEN_FLOAT,  /* word: its bits */
    TOKEN_BIGNUM, /* n: bytes */
    TOKEN_BINARY, /* n: bytes */
    TOKEN_TUPLE,  /* n: arity; `shown' elements follow */
    TOKEN_LIST,   /* `shown' elements follow; n: enum token_list */
    TOKEN_MAP,    /* n: size; `shown' pairs follow */
    TOKEN_RECORD, /* n: words */
    TOKEN_FUN,
    TOKEN_REF,
    TOKEN_EXTERNAL,
    TOKEN_OTHER,
    TOKEN_CUT, /* too deep, or too many tokens */
    TOKEN_KINDS
};

enum token_list { LIST_ENDS, LIST_GOES_ON, LIST_IMPROPER /* the tail follows, too */ };

struct token {
    uint8_t kind;
    uint8_t shown;
    uint64_t n;
    uint64_t word;
};

struct tokens {
    struct token *list;
    size_t n, cap;
};

struct preview_limits {
    unsigned depth, elements, tokens;
};

enum { PREVIEW_DEPTH_MAX = 3, PREVIEW_ELEMENTS_MAX = 10 };

/* Appends the tokens of the term, at least one. OK, TORN, NOMEM. */
enum status preview_take(struct tokens *ts, const struct marking *h, const struct vm *vm,
                         uint64_t word, const struct preview_limits *limits);

void preview_end(struct tokens *ts);

#endif
