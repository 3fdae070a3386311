/* offheap.h: the off-heap chains of a process: how many binaries, how many bytes.
 * Knows: chain entries, heap fragments, and in which blocks an entry may lie.
 * Does not know: who asks, or whether the process stayed still meanwhile. */
#ifndef SONDE_OFFHEAP_H
#define SONDE_OFFHEAP_H

#include "process/fragments.h"

/* More references to binaries than a process can have. */
enum { ENTRIES_MAX = BOUND(1 << 30, 400) };

enum { OFFHEAP_PENDING = BOUND(16, 4) }; /* about as many misses as a core can have at a time */

/* Called for each entry that is a binary, on whichever chain; what is not OK ends the walk. Where the caller
 * wants references to other memory too, it sees by the entry's first word what it is. */
typedef enum status offheap_each(void *ctx, const struct vm *vm, uintptr_t entry);

/* A walk over all chains of one process; it can stop and go on. */
struct offheap {
    bool sizes;    /* read each binary's header too */
    bool writable; /* count the chain of writable binaries */
    bool magic;    /* `each' wants references to other memory too */
    int stage;
    struct fragments collect;
    uint64_t cursor;   /* next entry */
    uint64_t frag;     /* fragment whose chain is walked */
    uint64_t steps;    /* entries left before the chain must be a cycle */
    uint64_t count;    /* references to binaries, repeats counted */
    uint64_t bytes;    /* sizes of the binaries they refer to */
    uint64_t unlisted; /* references on the writable chain where it is not counted */
    unsigned asked;    /* headers asked for; the last of them are not yet read: */
    uintptr_t pending[OFFHEAP_PENDING]; /* a ring */
    offheap_each *each;                 /* NULL, unless the caller sets it after offheap_start */
    void *ctx;
    struct blocks blocks;
};

/* What a plan for such a walk must hold; ended by LAYOUT_FIELD_COUNT. */
extern const enum layout_field offheap_fields[];

/* An entry of a chain has up to six words, which may lie in two cache lines. */
static inline void offheap_prefetch(uintptr_t entry)
{
    peek_prefetch(entry);
    peek_prefetch(entry + 24);
}

/* Whether nothing is on any chain: so it is with most processes. */
bool offheap_is_none(const struct reading *rd);

void offheap_start(struct offheap *w, const struct reading *rd, bool sizes);

/* OK, TIMESLICE (call again), TORN, ASK, NOMEM. `bytes` is right only after offheap_finish. */
enum status offheap_walk(struct offheap *w, const struct reading *rd);

/* After OK: then the chains of one message that waits, with offheap_walk. OK, TORN, NOMEM, TOO_LARGE. */
enum status offheap_message(struct offheap *w, const struct vm *vm, uintptr_t message,
                            struct budget *b);

/* After OK: reads the last headers. OK or TORN. */
enum status offheap_finish(struct offheap *w, const struct vm *vm);

/* Also after a walk that did not finish. */
void offheap_end(struct offheap *w);

#endif
