/* origin.h: what a process belongs to: its group leader, the function that it began with, and the one for which
 * proc_lib started it, as a few words that are the same for all processes of a group.
 * Does not know: what these mean, or how many processes have them. */
#ifndef SONDE_ORIGIN_H
#define SONDE_ORIGIN_H

#include "process/first_call.h"

/* A leader of another node is 0, and so is the second function if there is none. */
enum {
    ORIGIN_LEADER,
    ORIGIN_CALL,
    ORIGIN_FIRST = ORIGIN_CALL + 2,
    ORIGIN_WORDS = ORIGIN_FIRST + 2
};

struct origin {
    uint64_t word[ORIGIN_WORDS];
};

extern const enum layout_field origin_fields[];

/* Under a stamp. OK; TORN; ASK: as first_call_find, or proc_lib has started it, but it has not run yet. */
enum status origin_read(const struct reading *rd, struct origin *out);

/* The module is 0: there is none. */
struct mfa origin_function(const uint64_t words[2]);

#endif
