/* overview.h: what can be read of one process, all under one stamp.
 * Knows: the attributes that a caller may choose, the stack, the names, the state. One that cannot be read
 * spoils no other.
 * Does not know: how an attribute is read, or the texts of names. */
#ifndef SONDE_OVERVIEW_H
#define SONDE_OVERVIEW_H

#include "process/look.h"
#include "scan/attr.h"

/* The first of ATTR_LIST: what process_info has, too. */
enum { OVERVIEW_ATTRS = ATTR_catchlevel + 1 };

struct overview {
    unsigned at;  /* the attribute that is read now */
    bool is_open; /* its walk has begun */
    struct question question;
    struct walk walk;
    int64_t values[OVERVIEW_ATTRS];
    enum status outcome[OVERVIEW_ATTRS]; /* OK, BUSY, ASK, TOO_LARGE */
    struct stack_frames stack;
    struct identity who;
    bool is_known;  /* who it is */
    uint64_t state; /* bits */
    uint64_t leader;
};

/* max_words: frames of the stack. */
extern const struct walker overview_walker;

#endif
