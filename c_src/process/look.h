/* look.h: one walk over one process under one stamp, in slices.
 * Knows: when the stamp is taken and compared. Does not know: what is walked. */
#ifndef SONDE_LOOK_H
#define SONDE_LOOK_H

#include "util/budget.h"
#include "vm/stamp.h"

/* Whether the content of terms may go out. A sensitive process shows only numbers: no values, no
 * atoms, no names of functions. If the node's owner forbids content, names still go out. */
enum content { CONTENT_SHOWN, CONTENT_FORBIDDEN, CONTENT_SENSITIVE };

/* The bits of `want' that request content. */
#define LOOK_WANT_CONTENT 0xFFFF0000U

/* The arguments of a walker; each walker uses some of them. */
struct look_args {
    unsigned want;
    uint64_t max_words;
    uint64_t max_entries; /* entries that it may remember */
    uint64_t n;           /* number of rows, which root, or number of atoms */
    enum content
        content; /* unless CONTENT_SHOWN, look_start clears the bits of LOOK_WANT_CONTENT */
};

struct walker {
    size_t size;
    void (*fields)(enum layout_field *fields); /* at most LOOK_FIELDS_MAX, including the end */
    void (*start)(void *w, const struct reading *rd, const struct look_args *args);
    /* OK, TIMESLICE, TORN, BUSY, TOO_LARGE, NOMEM; GONE: it did not find its term */
    enum status (*walk)(void *w, const struct reading *rd);
    /* Words walked so far, and their total; 0: unknown. */
    void (*progress)(const void *w, uint64_t *done, uint64_t *total);
    /* Frees its memory, about one large block a call; false: call again. */
    bool (*end)(void *w);
    uint32_t locks; /* must be free at the opening and at the close; 0: the main lock */
};

enum { LOOK_FIELDS_MAX = 48 };

struct look {
    struct vm vm;
    struct layout lay; /* a look outlives an upgrade that proves anew */
    struct plan plan;
    struct view view;
    struct reading rd; /* points to these three */
    const struct walker *walker;
    struct look_args args;
    void *state; /* NULL: it did not start */
    enum status st;
};

/* OK: continue with look_step. BUSY, TORN, GONE, NOMEM. Always call look_end afterwards,
 * until it is done. */
enum status look_start(struct look *l, const struct vm *vm, size_t slot, uintptr_t proc,
                       const struct walker *walker, const struct look_args *args);

/* TIMESLICE: call again. OK: the walker's answer is right. Any other status ends the look. */
enum status look_step(struct look *l, enum peek_reader reader, uint64_t ns);

/* Whether everything read so far belongs to one state of the process: OK, TORN. */
enum status look_close(const struct look *l);

/* Whether content copied earlier may still go out. OK; GONE: the process ended, perhaps as a
 * sensitive one; TORN: it became sensitive. */
enum status look_may_tell(const struct look *l);

/* Frees its memory, for about so long; false: call again. */
bool look_end(struct look *l, uint64_t ns);

#endif
