/* roots.h: the words of a process from which a collection would start, one after the other.
 * Knows: stack, argument registers, dictionary, messages, and the rarer places.
 * Does not know: what hangs on them.
 *
 * A BIF that gave way may leave heap fragments of which nobody knows what in them is still needed. The
 * next collection takes them as they are, garbage and all, and only the one after it looks: so all
 * that lies in them is a root (Process.live_hf_end says up to which fragment).
 *
 * fvalue and ftrace of a process are roots too, but the VM empties them when an exception is caught,
 * and a settled process that is not exiting has caught what it raised. */
#ifndef SONDE_ROOTS_H
#define SONDE_ROOTS_H

#include "process/fragments.h"

/* What several reach counts for the first. */
enum root { ROOT_STACK, ROOT_REGISTERS, ROOT_DICTIONARY, ROOT_MAILBOX, ROOT_OTHER, ROOT_COUNT };

/* What a plan for such a walk must hold; ended by LAYOUT_FIELD_COUNT. */
extern const enum layout_field roots_fields[];

struct roots {
    enum root root;    /* that of the last word */
    uint64_t index;    /* which one of that root: word, slot, or message */
    unsigned place;    /* in the order of places in roots.c */
    uintptr_t at, to;  /* words still to come of the place or message at hand */
    uintptr_t message; /* the next message */
    uint64_t messages; /* still to come: no more than were there at the beginning */
    uint64_t steps;    /* left, before the signals must be a cycle */
    uintptr_t live;    /* the next fragment that is taken as it is */
    bool in_live;      /* at and to are in such a one */
};

/* How many messages wait in all queues; who comes later is left out. */
void roots_start(struct roots *r, uint64_t messages);

/* The next word that is a term and no immediate. OK; GONE: there are no more; TIMESLICE; TORN. */
enum status roots_next(struct roots *r, const struct reading *rd, uint64_t *word);

/* Whether all roots of this process can be read at all: OK or BUSY. */
enum status roots_readable(const struct reading *rd);

#endif
