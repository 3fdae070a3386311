/* look.h: one process looked at from end to end under one stamp, in slices, by some walker.
 * Knows: when the stamp is taken and compared. Does not know: what is walked. */
#ifndef SONDE_LOOK_H
#define SONDE_LOOK_H

#include "util/budget.h"
#include "vm/stamp.h"

/* Whether what is in terms may go out. Of a sensitive process nothing does but numbers: neither values
 * nor atoms nor the names of functions. Where the node's owner forbids content, names still do. */
enum content { CONTENT_SHOWN, CONTENT_FORBIDDEN, CONTENT_SENSITIVE };

/* These bits of what a walker is to do ask for content. */
#define LOOK_WANT_CONTENT 0xFFFF0000U

/* What a walker is to do. Each takes from it what it needs. */
struct look_args {
    unsigned want;
    uint64_t max_words;
    uint64_t max_entries; /* of what it remembers */
    uint64_t n;           /* rows, which root, or how many atoms there are */
    enum content content; /* without it no bit of `want' asks for any */
};

struct walker {
    size_t size;
    void (*fields)(enum layout_field *fields); /* at most LOOK_FIELDS_MAX with the end */
    void (*start)(void *w, const struct reading *rd, const struct look_args *args);
    /* OK, TIMESLICE, TORN, BUSY, TOO_LARGE, NOMEM; GONE: what is looked for is not there */
    enum status (*walk)(void *w, const struct reading *rd);
    /* Words looked at so far, and how many there are; where they are not known, 0. */
    void (*progress)(const void *w, uint64_t *done, uint64_t *total);
    void (*end)(void *w);
    uint32_t locks; /* that must be free at the opening and at the close; 0: the main lock */
};

enum { LOOK_FIELDS_MAX = 48 };

struct look {
    struct vm vm;
    struct layout lay; /* a look outlives an upgrade that proves anew */
    struct plan plan;
    struct view view;
    struct reading rd; /* of these three */
    const struct walker *walker;
    struct look_args args;
    void *state; /* NULL: it did not begin */
    enum status st;
};

/* OK: go on with look_step. BUSY, TORN, GONE, NOMEM. Afterwards look_end, in any case. */
enum status look_start(struct look *l, const struct vm *vm, size_t slot, uintptr_t proc,
                       const struct walker *walker, const struct look_args *args);

/* TIMESLICE: call again. OK: the walker's answer is right. Anything else ends it. */
enum status look_step(struct look *l, enum peek_reader reader, uint64_t ns);

/* Whether all that was seen so far was seen of one and the same state: OK, TORN. */
enum status look_close(const struct look *l);

/* Whether what was copied earlier may still be given away. OK; GONE: the process ended, so it cannot
 * be known whether it was sensitive in the end; TORN: it is sensitive by now. */
enum status look_may_tell(const struct look *l);

void look_end(struct look *l);

#endif
