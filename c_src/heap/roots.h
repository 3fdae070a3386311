/* roots.h: the roots of a process, word by word, as a collection would use them.
 * Knows: stack, argument registers, dictionary, messages, and the rarer places.
 * Does not know: what the roots refer to.
 *
 * A BIF that yielded may leave heap fragments without any record of which objects in them are still
 * live. The next collection keeps all of these objects, including garbage, and only the collection
 * after it finds the garbage: so every object in these fragments is a root (Process.live_hf_end
 * marks the last of them).
 *
 * fvalue and ftrace of a process are roots too, but the VM empties them when an exception is
 * caught, and a settled process that is not exiting has caught what it raised. */
#ifndef SONDE_ROOTS_H
#define SONDE_ROOTS_H

#include "process/fragments.h"

/* An object that several roots reach counts for the first of them. */
enum root { ROOT_STACK, ROOT_REGISTERS, ROOT_DICTIONARY, ROOT_MAILBOX, ROOT_OTHER, ROOT_COUNT };

/* The fields that the walk needs in its plan; LAYOUT_FIELD_COUNT ends them. */
extern const enum layout_field roots_fields[];

struct roots {
    enum root root;    /* of the last word */
    uint64_t index;    /* of the last word in its root: number of the word, slot, or message */
    unsigned place;    /* in the order of places in roots.c */
    uintptr_t at, to;  /* words left of the current place or message */
    uintptr_t message; /* the next message */
    uint64_t messages; /* messages left, of those that waited at the start */
    uint64_t steps;    /* steps left; a longer queue is a cycle */
    uintptr_t live;    /* the next fragment that a collection keeps whole */
    bool in_live;      /* at and to are in such a fragment */
};

/* messages: how many wait in all queues; messages that arrive later are left out. */
void roots_start(struct roots *r, uint64_t messages);

/* The next word that is a term and not immediate. OK; GONE: no more; TIMESLICE; TORN. */
enum status roots_next(struct roots *r, const struct reading *rd, uint64_t *word);

/* Whether all roots of this process can be read: OK, BUSY or TORN. */
enum status roots_readable(const struct reading *rd);

#endif
