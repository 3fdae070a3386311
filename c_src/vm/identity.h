/* identity.h: the name of a process, the function that it began with, and the one that it is in.
 * Knows: how to find these words in a Process, from processes of which they are known.
 * Does not know: the texts of atoms.
 *
 * No table has these offsets: process_info gives all of this for a process that answers. They are needed for
 * processes of another OS process, where nothing can be asked, and for those that are stuck. */
#ifndef SONDE_IDENTITY_H
#define SONDE_IDENTITY_H

#include "vm/code.h"
#include "vm/layout.h"

struct identity_form {
    bool is_known;
    bool has_place; /* the first two are known */
    uint16_t call;  /* module, function and arity of its first call; all in bytes from its start */
    uint16_t current;     /* pointer to the function in which it is, where the VM keeps one */
    uint16_t entry;       /* pointer to its registration */
    uint16_t name, owner; /* in that: its name, and the process */
};

struct identity {
    uint64_t name;   /* an atom, or 0 */
    struct mfa call; /* the word of the module is 0: not known */
    struct mfa current;
    bool name_unread, current_unread; /* there is one, but in memory that is not readable */
};

/* `who.name' and `who.current.module' are 0 where there is none. */
struct known_process {
    uintptr_t proc;
    struct identity who;
};

/* Some of them need a name, some none, and one a function that the VM keeps a pointer to. false: there is no
 * place, or several places, that are right for all. */
bool identity_learn(enum peek_reader r, const struct layout *lay, const struct known_process *known,
                    unsigned n, struct identity_form *out);

/* The same without names: `who.name' does not matter. Leaves `is_known' false. */
bool identity_learn_place(enum peek_reader r, const struct layout *lay,
                          const struct known_process *known, unsigned n, struct identity_form *out);

/* The words of a function at that address. false: not readable, or no function. */
bool identity_mfa(enum peek_reader r, uint64_t at, struct mfa *out);

/* *name: the atom that is its name, or 0. As identity_read. false: it may have one, which is not readable. */
bool identity_name(enum peek_reader r, const struct identity_form *form, uintptr_t proc,
                   uint64_t *name);

/* Of the Process at this address, which must be checked before and after. false: not readable. */
bool identity_read(enum peek_reader r, const struct identity_form *form, uintptr_t proc,
                   struct identity *out);

/* The same without its name. */
bool identity_read_place(enum peek_reader r, const struct identity_form *form, uintptr_t proc,
                         struct identity *out);

#endif
