/* string_table.h: the strings of a snapshot, each once, as the data to spell them.
 * Knows: how to find a string again. There are few different ones.
 * Does not know: how they are spelled: that needs the names of atoms, which Erlang has. */
#ifndef SONDE_STRING_TABLE_H
#define SONDE_STRING_TABLE_H

#include "heap/histogram.h"
#include "util/status.h"

/* The first strings of every snapshot, in this order. */
/* clang-format off */
#define STRING_TABLE_FIXED(X)                                                                        \
    X(EMPTY, "") X(STACK, "stack") X(REGISTERS, "registers") X(DICTIONARY, "dictionary")      \
    X(MAILBOX, "mailbox") X(OTHER_ROOTS, "other") X(GROUP_LEADER, "group_leader")             \
    X(PARENT, "parent") X(SEQ_TOKEN, "seq_trace_token") X(RECV_MARKER, "receive_marker")      \
    X(NODE, "node") X(TAIL, "tail") X(KEY, "key") X(KEYS, "keys") X(BINARY_OF, "binary")      \
    X(PAIR, "pair") X(FOLDED, "folded") X(LIST, "list") X(MAP, "map") X(MAP_NODE, "map node") \
    X(MAP_PAIR, "map pair") X(BIGNUM, "bignum") X(FLOAT, "float") X(REF, "ref")               \
    X(REFC, "refc binary") X(HEAP_BINARY, "heap binary") X(SUB_BINARY, "sub binary")          \
    X(EXTERNAL, "external") X(RECORD, "record") X(THING, "object") X(FUN, "fun")               \
    X(TUPLE, "tuple") X(SOME_KEY, "{key,...}")
/* clang-format on */

enum name_fixed {
#define X(Id, Text) NAME_##Id,
    STRING_TABLE_FIXED(X)
#undef X
        STRING_TABLE_FIXED_N
};

extern const char *const string_table_fixed[STRING_TABLE_FIXED_N];

enum name_kind {
    NAME_OF_NOTHING,
    NAME_OF_TUPLE,  /* n: arity; word: the first element if that is an atom, else 0 */
    NAME_OF_FUN,    /* word: the address of the entry; n: index in funs */
    NAME_OF_KEY,    /* word: a key of a map that is an atom */
    NAME_OF_ENTRY,  /* word: a key of the dictionary that is an atom or a small number */
    NAME_OF_NUMBER, /* n */
    NAME_OF_FOLDED  /* n: objects; word: bytes */
};

struct name {
    uint8_t kind;
    uint32_t n;
    uint64_t word;
};

enum { STRING_TABLE_MAX = BOUND(1 << 16, 16) };

struct string_table {
    struct name *list;
    uint32_t n;
    size_t cap;
    uint32_t *slots; /* a hash table of indices into list, from 1 */
    struct fun_bar *funs;
    uint32_t funs_n;
    size_t funs_cap;
};

/* It starts as zeros. */
void string_table_end(struct string_table *ns);
size_t string_table_bytes(const struct string_table *ns);

/* Finds or adds a name; *index is its index in list. OK; GONE: the table is full;
 * NOMEM. */
enum status string_table_put(struct string_table *ns, struct name name, uint32_t *index);

/* The same for a fun, with a copy of its entry. OK, GONE, NOMEM, TORN. */
enum status string_table_put_fun(struct string_table *ns, const struct vm *vm, uint64_t entry,
                                 uint64_t free, uint32_t *index);

#endif
