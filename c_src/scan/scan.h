/* scan.h: the same questions to every process, in slices.
 * Knows: the order of the sweep, retries, and which processes must be asked.
 * Does not know: Erlang terms, schedulers, how one process is read, or what becomes of its answer. */
#ifndef SONDE_SCAN_H
#define SONDE_SCAN_H

#include "binary/account.h"
#include "scan/attr.h"
#include "process/sample.h"
#include "scan/stack_tree.h"
#include "scan/stripes.h"
#include "util/top_n.h"

enum scan_mode {
    SCAN_TOP,     /* the N largest */
    SCAN_SAMPLE,  /* remember every process: the first look of a window */
    SCAN_DIFF,    /* the N largest differences to the sample */
    SCAN_HOLDERS, /* remember each process with binaries that a collection may change */
    SCAN_ALL,     /* remember every process, for bin_leak */
    SCAN_AFTER,   /* the N largest drops since HOLDERS or ALL, in the remembered processes */
    SCAN_EACH,    /* nothing is kept: each process' values are handed out */
    SCAN_ACCOUNT, /* what each process holds goes into an account, with binary_unique */
    SCAN_STACKS,  /* the stack of each process goes into a tree, with stack */
    SCAN_GROUPS /* what it belongs to goes there, with origin as the last question, and sums of the others */
};

enum {
    SCAN_BATCH = BOUND(16, 4),
    SCAN_RETRIES = BOUND(1024, 6),
    SCAN_ASKS = BOUND(256, 6),
    SCAN_QUESTIONS =
        ATTR_minor_gcs, /* at once: each that a caller may choose; those from it on are sonde's own */
    SCAN_WALKS = 20,    /* of a batch; SCAN_QUESTIONS and SCAN_BATCH at least */
    SCAN_OUT = BOUND(1024, 40), /* room for what a batch gives: 2 * SCAN_WALKS at least */
    SCAN_EXCLUDE = 24
};

struct scan_counters {
    uint64_t native, busy, torn, asked;
};

/* A process that is to be looked at. */
struct target {
    size_t slot;
    uintptr_t proc;
    uint64_t pid; /* expected there; 0: any process */
};

struct scan {
    struct vm vm;
    unsigned qn, per; /* questions, and processes in a batch, */
    unsigned most;    /* or in the largest one: `per' may have become smaller since it was opened */
    struct question q[SCAN_QUESTIONS];
    struct places places;
    enum scan_mode mode;
    int phase;
    struct stripes table;
    struct turnover turnover; /* when the sweep began */
    uint64_t seen;            /* slots in use */
    bool may_pause; /* the slice is not on a scheduler that it may hold only for a moment */
    size_t next;    /* in the sample, or among those to look at again */
    unsigned round;
    unsigned lines; /* cache lines of a process that the plan touches */
    uint16_t line[16];
    unsigned n, settled; /* processes of the batch, and how many of them gave their answer */
    unsigned turns;      /* of each walk, so far */
    unsigned sorted;     /* of the tops */
    /* The k-th question to the i-th process is i * qn + k. The first one has the stamp for all. */
    uint32_t walking;      /* a set of these */
    uint32_t closed;       /* sets of processes */
    uint32_t kept, merged; /* of ACCOUNT: what they hold is not freed yet; is in the account */
    struct walk walks[SCAN_WALKS];
    uint8_t process[SCAN_WALKS];     /* of a walk */
    enum status outcome[SCAN_BATCH]; /* of a process: the worst of its walks, then of its stamp */
    struct target targets[SCAN_BATCH];
    struct target ahead[SCAN_BATCH]; /* the next ones; their lines are prefetched */
    unsigned ahead_n, retry_n, kept_n, ask_n, exclude_n;
    uint64_t retry[SCAN_RETRIES], ask[SCAN_ASKS], exclude[SCAN_EXCLUDE];
    uint64_t exclude_bits;     /* a bit that depends on the pid, for each that is excluded */
    bool ask_large[SCAN_ASKS]; /* whether that one's heap is too large */
    uint64_t patience_ns, patient_until; /* 0: a few rounds, with pauses */
    struct top_n top[SCAN_QUESTIONS];
    unsigned out_n; /* words of out: a pid, its values, the next pid */
    int64_t out[SCAN_OUT];
    struct sample *sample; /* of this scan, or of the first look (DIFF) */
    struct sample own;
    struct account *account;
    struct merge merge; /* of the process that goes into it */
    enum status failed; /* why one could not */
    struct stack_tree stacks;
    uint64_t left;
    uint64_t answered, too_large; /* processes that have a row; of those to be asked */
    struct scan_counters counters;
};

enum scan_result {
    SCAN_MORE, /* call again */
    SCAN_ASK,  /* answer scan->ask[0..ask_n) with scan_answer, then scan_asked, call again */
    SCAN_ROWS, /* take what is in scan->out, then scan_taken, call again */
    SCAN_DONE, /* top is complete */
    SCAN_FULL, /* more processes than the sample may remember, or too many stacks or groups */
    SCAN_LOST, /* the process table cannot be read any more */
    SCAN_NOMEM
};

/* Only TOP (the N largest of each), EACH and GROUPS take several questions. */
void scan_init(struct scan *s, const struct vm *vm, const enum attr *attrs, unsigned qn,
               enum scan_mode mode, size_t n, struct sample *first, size_t max_entries);
void scan_free(struct scan *s);

/* From now on. false: no more of them. */
bool scan_exclude(struct scan *s, uint64_t pid);
bool scan_excludes(const struct scan *s, uint64_t pid);

/* Before the first step, of a scan that asks for waits_for or waits_call: the process waits at a place that counts.
 * OK, BUSY (it does not wait), TORN, GONE; NOMEM: no more places. */
enum status scan_place(struct scan *s, size_t slot, uintptr_t proc);

/* The same for all of a function. false: no more places. */
bool scan_function(struct scan *s, const struct block *code);

/* Before the first step: larger heaps are not marked; such a process is asked, and counted. Of a stack, so many
 * frames are read. */
void scan_limit(struct scan *s, uint64_t max_words);

/* Before the first step: of `n' parts of the process table only the i-th, from 0. A process stays in its part,
 * so several scans, each with its own part, cover what one would, and may run at the same time. A second scan of a
 * window has the part of its first one. */
void scan_part(struct scan *s, unsigned i, unsigned n);

/* Before the first step, of a scan of few processes: look again without a pause, at one process at a time,
 * for so long. A process that runs all the time leaves its processor for less than a microsecond, at the end of
 * each time slice. */
void scan_patience(struct scan *s, uint64_t ns);

/* Before the first step of ACCOUNT: where it puts what it finds. It stays with the caller. */
void scan_account(struct scan *s, struct account *account);

/* Before the first step of ACCOUNT, EACH or TOP: these processes, and no other. false: no more of them. */
bool scan_only(struct scan *s, uint64_t pid);

/* At most about `ns` nanoseconds. The reader may have changed since the last slice. */
enum scan_result scan_step(struct scan *s, enum peek_reader reader, uint64_t ns);

/* The first step, on a scheduler that it may hold only for a moment: it never pauses, and looks at no process twice.
 * It does nothing, and returns MORE, where that moment may be longer: by the slower reader, for one of several
 * scans at the same time, and for an attribute whose walk takes memory or visits a heap. */
enum scan_result scan_begin(struct scan *s, enum peek_reader reader, uint64_t ns);

/* What process_info answered to each question; dead: it answered undefined. EACH, ACCOUNT, STACKS and GROUPS
 * ignore the answers. */
enum status scan_answer(struct scan *s, uint64_t pid, bool dead, const int64_t *values);
void scan_asked(struct scan *s);
void scan_taken(struct scan *s);

/* Processes that the sweep has not reached or not finished: at most `max` of them, and not all if there
 * are many empty slots. */
unsigned scan_waiting(struct scan *s, enum peek_reader reader, uint64_t *pids, unsigned max);

bool scan_is_finished(const struct scan *s);

/* It has not looked at any process yet, and is not of few. */
bool scan_is_new(const struct scan *s);

/* From HOLDERS or ALL to AFTER; false: it is not finished, or another mode. */
bool scan_after(struct scan *s);

#endif
