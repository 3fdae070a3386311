/* fuzz.h: what the parts of the fuzzer share.
 * Knows: a memory that is made up, how an input builds processes in it, and what a walker must answer.
 * Does not know: how a walker finds its answer.
 *
 *     fuzz_memory.c  words at addresses where nothing is; peek reads from them and from nowhere else
 *     fuzz_build.c   a small language of bytes that puts processes there, whole ones and broken ones
 *     fuzz_model.c   the answers, computed in the plainest way there is
 *     fuzz_walk.c    asks the walkers and the scan, and compares
 *
 * A new attribute needs a row in the model's table (the fuzzer ends at once without it) and, where it
 * walks something new, a verb in the language that builds it. A reader that is no attribute gets a
 * function of its own beside check_proof in fuzz_walk.c. See CONTRIBUTING.md. */
#ifndef SONDE_FUZZ_H
#define SONDE_FUZZ_H

#include "proof.h"
#include "scan.h"

/* What libFuzzer calls, and test_corpus.c. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Says what is wrong and ends. */
_Noreturn void fuzz_fail(const char *what, const char *where);

/* ---- memory -------------------------------------------------------------------------------- */

/* No address of a real process has such high bits, so a walker that looks without peek ends. A few
 * more words lie at the very end of all addresses, where sums overflow. */
#define MEMORY_BASE 0x00A5000000000000ULL
#define MEMORY_TOP  (0ULL - MEMORY_TOP_WORDS * 8ULL)
enum { MEMORY_WORDS = 2048, MEMORY_TOP_WORDS = 64, CHANGES_MAX = 16 };

/* All words are 0, nothing changes, nothing was read. */
void memory_clear(void);

/* NULL: no aligned word of the memory. */
uint64_t *memory_at(uint64_t address);

/* What a process that runs meanwhile writes: at the so-manieth read this word gets this value. In
 * ascending order of reads. */
void memory_change(uint64_t after, uint64_t address, uint64_t value);

/* From here on: as it was built, with all changes still to come (or none), and at most so many reads. */
void memory_begin(bool changing, uint64_t reads);
void memory_built(void); /* remembers what memory_begin puts back */
void memory_change_all(void);
unsigned memory_changes(void); /* to come in all */
unsigned memory_changed(void); /* so far */
uint64_t memory_still(void);   /* reads since the last one */

/* ---- what an input builds ------------------------------------------------------------------- */

enum { SLOTS = 16 };

struct image {
    struct vm vm;
    enum attr attr;
    unsigned mode;       /* of the scan: bits */
    unsigned rows;       /* how many are wanted */
    unsigned remembered; /* how many processes a sample may hold */
    unsigned steps;      /* of a slice */
    long fail_at;        /* the n-th allocation fails; 0: none does */
    struct proof proof;
};

void image_build(struct image *img, const uint8_t *data, size_t size);

/* ---- what must be answered ------------------------------------------------------------------ */

enum opened {
    OPEN_OK,
    OPEN_NOBODY, /* no process, or a dead one: no row, and nobody is asked */
    OPEN_BUSY
};

struct verdict {
    enum {
        REFUSED, /* whatever the walker says, it must not be an answer */
        MAY,     /* if it is an answer, then this one (blocks that overlap, which none do) */
        MUST     /* this answer */
    } kind;
    int64_t value;
    bool clean;
    uint64_t steps; /* entries, nodes, messages and fragments that had to be looked at */
};

enum opened model_open(const struct vm *vm, enum attr attr, bool waiting, size_t slot,
                       uint64_t proc);
struct verdict model_answer(const struct vm *vm, enum attr attr, bool waiting, uint64_t proc);

/* The fields of a process that must not move between opening and closing, one value for all; the
 * settled state among them. false: it cannot be read, or is not settled. */
bool model_stamp(const struct vm *vm, enum attr attr, bool waiting, uint64_t proc, uint64_t *sum);

#endif
