/* code.h: the function that an address of loaded code lies in.
 * Knows: how the VM lists the address ranges of its modules, and what is at the start of a module's code.
 * Does not know: which process is there, or the texts of atoms.
 *
 * For each of its three code indexes, of which one is active, the VM keeps a record: a sorted array of
 * address ranges, one for each module. A range begins with the header of the module: first the number of its
 * functions, later a pointer to each, in ascending order, and one to their end. Before the code of a function
 * are its module, name and arity. Where in the header the pointers begin differs between releases and
 * flavours; it is learned from a function that is known. So is where the header points to the table of lines. */
#ifndef SONDE_CODE_H
#define SONDE_CODE_H

#include "vm/blocks.h"
#include "vm/peek.h"

enum { CODE_INDEXES = 3 };

struct code {
    unsigned n; /* records found; 0: not known */
    uintptr_t ranges[CODE_INDEXES];
    unsigned functions; /* word of a header at which the pointers begin */
    unsigned lines;     /* word of a header that points to the table of lines; 0: not known */
};

/* The words of two atoms, and a number. */
struct mfa {
    uint64_t module, function, arity;
};

/* From an address in a known function. false: it was not found. */
bool code_learn(enum peek_reader r, uint64_t pc, const struct mfa *known, struct code *out);

struct known_line {
    uint64_t pc;
    unsigned line;
};

/* After code_learn, from addresses whose lines are known. false: no word of a header, or several, are right for all. */
bool code_learn_lines(enum peek_reader r, const struct known_line *known, unsigned n,
                      struct code *code);

/* NONE: the address is in no function of a module. UNREAD: it may be in one, but the list of modules, or the module
 * that it lies in, is not readable, or is no module any more. */
enum code_found { CODE_FOUND, CODE_NONE, CODE_UNREAD };

/* line: NULL, or where the line of the address goes; 0: it has none, or it is not known. */
enum code_found code_look(enum peek_reader r, const struct code *code, uint64_t pc, struct mfa *out,
                          unsigned *line);

/* The same, if what is not found need not be told apart. */
bool code_find_line(enum peek_reader r, const struct code *code, uint64_t pc, struct mfa *out,
                    unsigned *line);
bool code_find(enum peek_reader r, const struct code *code, uint64_t pc, struct mfa *out);

/* One module after the other, of all records: a module may come several times, and old code, too. Starts at
 * {0}. */
struct code_cursor {
    unsigned record;
    uint64_t i;
    bool unread; /* a list of modules was not readable, or its end */
};

struct code_module {
    struct block range;
    unsigned functions;
    uint64_t n;    /* functions; 0: it cannot be read */
    uint64_t name; /* the word of an atom */
};

/* false: there are no more. */
bool code_next(enum peek_reader r, const struct code *code, struct code_cursor *at,
               struct code_module *out);

/* The i-th function of the module. false: it cannot be read. */
bool code_function(enum peek_reader r, const struct code_module *m, uint64_t i, struct mfa *names,
                   struct block *out);

#endif
