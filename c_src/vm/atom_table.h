/* atom_table.h: the texts of atoms, by the VM's own table.
 * Knows: how the table is found, and how it keeps a text. Does not know: whose atoms they are.
 *
 * The word of an atom contains its index. The VM keeps atoms for ever, in pages of 1024; a record in the
 * executable's own data has the number of atoms, and leads to the pages. Up to OTP 27 an atom points at the
 * bytes of its text, in OTP 29 at a binary in the area of literals. */
#ifndef SONDE_ATOM_TABLE_H
#define SONDE_ATOM_TABLE_H

#include "vm/peek.h"

enum { ATOM_TEXT_MAX = 1020 }; /* 255 characters of UTF-8 */

struct atom_table {
    uintptr_t record; /* 0: not known */
    bool is_term;     /* a text is a term */
};

/* UTF-8, without an end mark. */
struct atom_text {
    unsigned n;
    unsigned char bytes[ATOM_TEXT_MAX];
};

struct known_atom {
    uint64_t word;
    unsigned n;
    const unsigned char *bytes;
};

/* From atoms whose texts are known. false: no table, or several tables, have them all. */
bool atom_table_learn(enum peek_reader r, const struct known_atom *known, unsigned n,
                      struct atom_table *out);

/* false: the table has no such atom. */
bool atom_table_text(enum peek_reader r, const struct atom_table *t, uint64_t word,
                     struct atom_text *out);

#endif
