/* ports.h: which port is at an address, and its name.
 * Knows: how to find the port table, from the port that every VM has; how a port keeps its name.
 * Does not know: which port runs, or anything else of one.
 *
 * The table has the form of the process table, and a port begins as a process does. No layout has where
 * the name is: it is found in the port that is known. */
#ifndef SONDE_PORTS_H
#define SONDE_PORTS_H

#include "vm/proctab.h"

struct port_form {
    struct proctab tab; /* max 0: not known */
    uint64_t slots;     /* of the own VM's table */
    uint16_t name;      /* in a port: the pointer to its name */
};

enum { PORT_NAME_MAX = 255 };

struct port {
    uint64_t id;
    unsigned n; /* bytes of the name; what is longer is cut */
    unsigned char name[PORT_NAME_MAX];
};

/* `limit': that of ports, as the VM says. false: no table, or several, have the VM's first port. */
bool ports_learn(enum peek_reader r, const struct layout *lay, uint64_t limit,
                 struct port_form *out);

/* In another OS process, where the table's record was moved by `shift'. false, and not known any more: the first port
 * is not there. */
bool ports_move(enum peek_reader r, const struct layout *lay, uintptr_t shift,
                struct port_form *form);

/* What is at that address, which the table must have too. It must be checked again afterwards that it is still
 * there. false: no port, one that is closed, or not readable. */
bool port_read(enum peek_reader r, const struct layout *lay, const struct port_form *form,
               uintptr_t at, struct port *out);

/* After it: whether that port is still there. */
bool port_is_there(enum peek_reader r, const struct layout *lay, const struct port_form *form,
                   uintptr_t at, uint64_t id);

/* The id that the own VM prints as that VM prints this one: the id has the slot as well as the number, and the tables
 * may differ in size. */
uint64_t port_id_here(const struct layout *lay, const struct port_form *form, uint64_t id);

#endif
