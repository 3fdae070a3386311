/* preview.h: the beginning of a term, word by word, as a row of tokens.
 * Knows: how to go down a few levels and see a few elements, however large or broken the term is.
 * Does not know: how a token is shown, or whether the process stayed still meanwhile.
 *
 * A literal lies in no block; as long as the process is as it was, so are the literals it refers to. All
 * reads are guarded, and there are few. */
#ifndef SONDE_PREVIEW_H
#define SONDE_PREVIEW_H

#include "heap/marking.h"
#include "vm/object.h"

enum token_kind {
    TOKEN_WORD,   /* word: an immediate */
    TOKEN_FLOAT,  /* word: its bits */
    TOKEN_BIGNUM, /* n: bytes */
    TOKEN_BINARY, /* n: bytes */
    TOKEN_TUPLE,  /* n: arity; so many shown follow */
    TOKEN_LIST,   /* so many shown follow; n: how it goes on */
    TOKEN_MAP,    /* n: size; so many shown pairs follow */
    TOKEN_RECORD, /* n: words */
    TOKEN_FUN,
    TOKEN_REF,
    TOKEN_EXTERNAL,
    TOKEN_OTHER,
    TOKEN_CUT, /* too deep, or too much */
    TOKEN_KINDS
};

enum token_list { LIST_ENDS, LIST_GOES_ON, LIST_IMPROPER /* the tail follows as one token more */ };

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

/* Appends what the word means: at least one token. OK, TORN, NOMEM. */
enum status preview_take(struct tokens *ts, const struct marking *h, const struct vm *vm,
                         uint64_t word, const struct preview_limits *limits);

void preview_end(struct tokens *ts);

#endif
