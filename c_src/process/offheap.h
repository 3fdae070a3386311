/* offheap.h: the off-heap lists of a process: the number of binaries and their bytes.
 * Knows: list entries, heap fragments, and in which blocks an entry may lie.
 * Does not know: why they are counted, or whether the process changed meanwhile. */
#ifndef SONDE_OFFHEAP_H
#define SONDE_OFFHEAP_H

#include "process/fragments.h"

/* No process has more references to binaries. */
enum { ENTRIES_MAX = BOUND(1 << 30, 400) };

enum { OFFHEAP_PENDING = BOUND(32, 4) }; /* about the cache misses that a core handles at a time */

/* Called for each binary on any list, and with `magic` for each magic reference; the entry's first
 * word tells them apart. Any status but OK ends the walk. */
typedef enum status offheap_each(void *ctx, const struct vm *vm, uintptr_t entry);

/* A walk over all off-heap lists of one process; it can stop and resume. */
struct offheap {
    bool sizes;    /* read each binary's header too */
    bool writable; /* count the list of writable binaries */
    bool magic;    /* call `each' for magic references too */
    int stage;
    struct fragments collect;
    uint64_t cursor;                    /* next entry */
    uint64_t frag;                      /* the next fragment with a list to walk */
    uint64_t steps;                     /* entries left; a longer list is a cycle */
    uint64_t count;                     /* references to binaries, including repeats */
    uint64_t bytes;                     /* sizes of the binaries they refer to */
    uint64_t unlisted;                  /* references on the writable list if it is not counted */
    unsigned asked;                     /* headers prefetched; the last of them are not read yet: */
    uintptr_t pending[OFFHEAP_PENDING]; /* a ring */
    offheap_each *each;                 /* NULL unless the caller sets it after offheap_start */
    void *ctx;
    struct blocks blocks;
};

/* The fields that the walk needs in its plan; LAYOUT_FIELD_COUNT ends them. */
extern const enum layout_field offheap_fields[];

/* An entry has up to six words, which may lie in two cache lines. */
static inline void offheap_prefetch(enum peek_reader r, uintptr_t entry)
{
    peek_prefetch(r, entry);
    peek_prefetch(r, entry + 24);
}

/* Whether all lists are empty, as in most processes. */
bool offheap_is_none(const struct reading *rd);

void offheap_start(struct offheap *w, const struct reading *rd, bool sizes);

/* OK, TIMESLICE (call again), TORN, ASK, NOMEM. `bytes` is right only after offheap_finish. */
enum status offheap_walk(struct offheap *w, const struct reading *rd);

/* After OK: starts the lists of one waiting message for offheap_walk. OK, TORN, NOMEM,
 * TOO_LARGE. */
enum status offheap_message(struct offheap *w, const struct vm *vm, uintptr_t message,
                            struct budget *b);

/* After OK: reads the pending headers. OK or TORN. */
enum status offheap_finish(struct offheap *w, const struct vm *vm);

/* Also after an unfinished walk. */
void offheap_end(struct offheap *w);

#endif
