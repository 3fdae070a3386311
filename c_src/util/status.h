/* status.h: the outcomes of reading a live VM, as values.
 * Knows: one name and one text for each outcome.
 * Does not know: what is read, or how a caller reacts. */
#ifndef SONDE_STATUS_H
#define SONDE_STATUS_H

/* clang-format off */
#define STATUS_LIST(X)                                                          \
    X(OK,        "ok",        "the answer is right")                            \
    X(BUSY,      "busy",      "the process may be changing its heap")           \
    X(TORN,      "torn",      "the process changed while it was read")          \
    X(GONE,      "gone",      "the process is dead or exiting")                 \
    X(ASK,       "ask",       "only process_info can answer for this process")  \
    X(TOO_LARGE, "too_large", "more than the caller allows")                    \
    X(TIMESLICE, "timeslice", "the slice is used up, the walk can go on")       \
    X(NOMEM,     "nomem",     "an allocation failed")
/* clang-format on */

enum status {
#define X(Id, Name, Text) ST_##Id,
    STATUS_LIST(X)
#undef X
};

static inline const char *status_name(enum status st)
{
    static const char *const names[] = {
#define X(Id, Name, Text) Name,
        STATUS_LIST(X)
#undef X
    };
    return names[st];
}

#endif
