/* schedulers.h: what each scheduler thread runs.
 * Knows: how the VM keeps its schedulers, learned from the one that runs the caller; the words that tell.
 * Does not know: any process, but how to recognize its structure.
 *
 * No table has these offsets: the caller's own scheduler has six words that are known, and each of the
 * others is checked in the same way. */
#ifndef SONDE_SCHEDULERS_H
#define SONDE_SCHEDULERS_H

#include "util/status.h"
#include "vm/layout.h"
#include "vm/proctab.h"

/* In the VM's own order. */
enum scheduler_kind { SCHEDULER_NORMAL, SCHEDULER_DIRTY_CPU, SCHEDULER_DIRTY_IO, SCHEDULER_KINDS };

/* The VM allows no more of any kind. */
enum { SCHEDULERS_MAX = 1024 };

/* Static variables that point to the first scheduler of a kind: one always does, others may do so now. */
enum { SCHEDULER_VARIABLES = 8 };
struct scheduler_variables {
    unsigned n;
    uintptr_t at[SCHEDULER_VARIABLES];
};

struct scheduler_form {
    bool is_known;
    uintptr_t first[SCHEDULER_KINDS]; /* where the first of each kind is */
    struct scheduler_variables variables[SCHEDULER_KINDS];
    uint32_t stride;  /* bytes from one scheduler to the next */
    uint16_t current; /* in a scheduler: the pointer to the process that it runs */
    uint16_t back;    /* in a run queue: the pointer to its first scheduler */
    uint16_t length;  /* in a run queue: how many wait, 32 bits; 0: not known */
};

/* The scheduler that runs the caller. */
struct own_scheduler {
    uintptr_t at;
    unsigned no;
    uint16_t current, back;
};

/* On a normal scheduler, which has this number: `proc' is the caller's Process, `env' its environment. false:
 * no place, or several places, are right. */
bool scheduler_find_own(enum peek_reader r, const struct layout *lay, uintptr_t proc, uintptr_t env,
                        unsigned no, struct own_scheduler *out);

/* Searches the program's data for the schedulers of each kind; `counts': how many the VM says there are. */
bool schedulers_learn(enum peek_reader r, const struct layout *lay, const struct own_scheduler *own,
                      const unsigned counts[SCHEDULER_KINDS], struct scheduler_form *out);

/* In another OS process, where all variables were moved by `shift', and memory is where it is there. false, and not
 * known any more: no variable points to the first of its kind. */
bool schedulers_move(enum peek_reader r, const struct layout *lay, uintptr_t shift,
                     struct scheduler_form *form);

/* How many there are; of dirty I/O schedulers, for which nothing says it, the most that there can be: they end
 * with the first that is none. 0: not readable. */
unsigned schedulers_count(enum peek_reader r, const struct layout *lay,
                          const struct scheduler_form *form, enum scheduler_kind kind);

struct scheduler {
    uint64_t process; /* 0: none */
    uint64_t port;    /* that it runs, or 0; only of a normal one without a process */
    uint64_t queue;
};

/* The one of that kind, counted from 0. false: there is none, or it is not readable. */
bool scheduler_read(enum peek_reader r, const struct layout *lay, const struct scheduler_form *form,
                    enum scheduler_kind kind, unsigned i, struct scheduler *out);

/* After the words of its process were read, of which these are its pid and its state. OK: they are all of this one, because
 * the scheduler runs it still, and the table has it there, unless it ends: then it is in no table any more. BUSY: the
 * scheduler runs another one. TORN: no process, or another one was there before. */
enum status scheduler_confirm(enum peek_reader r, const struct layout *lay,
                              const struct proctab *tab, const struct scheduler_form *form,
                              enum scheduler_kind kind, unsigned i, uintptr_t proc, uint64_t pid,
                              uint64_t state);

/* A number that stays the same only while the scheduler does not come to what it runs next. false: not readable. */
bool scheduler_turn(enum peek_reader r, const struct scheduler_form *form, enum scheduler_kind kind,
                    unsigned i, uint64_t *turn);

/* Words of 32 bits of a run queue that may be its length. */
enum { QUEUE_WORDS = 128 };
struct queue_guess {
    bool is_new; /* `fits' is not yet heard */
    bool fits[QUEUE_WORDS], out[QUEUE_WORDS];
};

/* Which words have that length now. false: not readable. */
bool queue_guess(enum peek_reader r, const struct scheduler *s, uint32_t length,
                 struct queue_guess *g);

/* That was the length: leaves the other words out. The offset if only one is left, or 0. */
uint16_t queue_guess_narrow(struct queue_guess *g);

#endif
