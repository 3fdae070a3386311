/* names.h: strings of a snapshot, as what they are made of, each once.
 * Knows: that there are few different ones, and how to find one again.
 * Does not know: how they are spelled; that takes the names of atoms, which Erlang knows. */
#ifndef SONDE_NAMES_H
#define SONDE_NAMES_H

#include "heap/histogram.h"
#include "util/status.h"

/* Always there, in this order, before all others. */
/* clang-format off */
#define NAMES_FIXED(X)                                                                        \
    X(EMPTY, "") X(STACK, "stack") X(REGISTERS, "registers") X(DICTIONARY, "dictionary")      \
    X(MAILBOX, "mailbox") X(OTHER_ROOTS, "other") X(GROUP_LEADER, "group_leader")             \
    X(PARENT, "parent") X(SEQ_TOKEN, "seq_trace_token") X(RECV_MARKER, "receive_marker")      \
    X(NODE, "node") X(TAIL, "tail") X(KEY, "key") X(KEYS, "keys") X(BINARY_OF, "binary")      \
    X(PAIR, "pair") X(FOLDED, "folded") X(LIST, "list") X(MAP, "map") X(MAP_NODE, "map node") \
    X(MAP_PAIR, "map pair") X(BIGNUM, "bignum") X(FLOAT, "float") X(REF, "ref")               \
    X(REFC, "refc binary") X(HEAP_BINARY, "heap binary") X(SUB_BINARY, "sub binary")          \
    X(EXTERNAL, "external") X(RECORD, "record") X(THING, "thing") X(FUN, "fun")               \
    X(TUPLE, "tuple") X(SOME_KEY, "{key,...}")
/* clang-format on */

enum name_fixed {
#define X(Id, Text) NAME_##Id,
    NAMES_FIXED(X)
#undef X
        NAMES_FIXED_N
};

extern const char *const names_fixed[NAMES_FIXED_N];

enum name_kind {
    NAME_OF_NOTHING,
    NAME_OF_TUPLE,  /* n: arity; word: its first element, if that is an atom, else 0 */
    NAME_OF_FUN,    /* word: the address of the entry; n: which of the funs */
    NAME_OF_KEY,    /* word: a key of a map that is an atom */
    NAME_OF_ENTRY,  /* word: a key of the dictionary that is an atom or a small number */
    NAME_OF_NUMBER, /* n */
    NAME_OF_FOLDED  /* n: things; word: bytes */
};

struct name {
    uint8_t kind;
    uint32_t n;
    uint64_t word;
};

enum { NAMES_MAX = BOUND(1 << 16, 16) };

struct names {
    struct name *list;
    uint32_t n;
    uint32_t *slots; /* a hash table: numbers in the list, from 1 */
    struct fun_bar *funs;
    uint32_t funs_n, funs_cap;
};

enum status names_init(struct names *ns);
void names_end(struct names *ns);
size_t names_bytes(const struct names *ns);

/* *index: in the list. OK, NOMEM; GONE: there are too many already. */
enum status names_put(struct names *ns, struct name name, uint32_t *index);

/* The same of a fun, with what its entry says. */
enum status names_put_fun(struct names *ns, const struct vm *vm, uint64_t entry, uint64_t free,
                          uint32_t *index);

#endif
