/* fuzz.h: what the parts of the fuzzer share.
 * Knows: a memory that is made up, how an input builds processes in it, and what a walker must answer.
 * Does not know: how a walker finds its answer.
 *
 *     fuzz_memory.c  words at addresses where nothing is; peek reads from them and from nowhere else
 *     fuzz_build.c   a small language of bytes that puts processes there, whole ones and broken ones
 *     fuzz_model.c   the answers, computed in the plainest way there is
 *     fuzz_mark.c    the same for what the roots of a process reach
 *     fuzz_heap.c    and for what a collection would free
 *     fuzz_size.c    and for how large terms are, and what waits in a mailbox
 *     fuzz_hold.c    and for which Binaries are held, by one process and by all
 *     fuzz_look.c    asks the walkers over one process, and compares
 *     fuzz_walk.c    asks the walkers and the scan, and compares
 *
 * A new attribute needs a row in the model's table (the fuzzer ends at once without it) and, where it
 * walks something new, a verb in the language that builds it. A reader that is no attribute gets a
 * function of its own beside check_proof in fuzz_walk.c. See CONTRIBUTING.md. */
#ifndef SONDE_FUZZ_H
#define SONDE_FUZZ_H

#include "heap/marking.h"
#include "heap/mailbox.h"
#include "vm/proof.h"
#include "scan/scan.h"

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

/* Before a walk: as memory_begin, and allocations may fail. */
void fuzz_begin(const struct image *img, bool changing, uint64_t reads);
bool fuzz_failed(void); /* since then one did */

/* The walkers that look.h knows, over every process of the image. */
void check_looks(const struct image *img);

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
        MUST,    /* this answer */
        ANY      /* whatever it likes: what is marked first decides, which no heap leaves open */
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

/* ---- what must be reached ------------------------------------------------------------------- */

enum { REACH_BLOCKS = 24, REACH_WORDS = MEMORY_WORDS + MEMORY_TOP_WORDS };

struct reach {
    int kind; /* of verdict: REFUSED, MAY, MUST */
    bool
        lied; /* REFUSED, for a tag that does not fit what it points at: who spills may not see it */
    bool
        doubted; /* blocks overlap, or a word is two objects: who finds another of the two first may not
                     come to what is REFUSED */
    unsigned want;
    uint64_t slices_max;
    uint64_t words[ROOT_COUNT];
    uint64_t literals, visible;
    struct bar bars[BAR_COUNT]; /* funs and tuples that are no small ones are other */
    struct bar tuples[BARS_TUPLES];
    uint64_t size; /* words of all blocks */
    unsigned blocks_n;
    uint64_t from[REACH_BLOCKS], to[REACH_BLOCKS];
    uint64_t steps; /* objects, fragments and messages */
    bool
        cyclic; /* an object leads back to itself, or objects lie on each other: no heap has that */
    bool
        odd; /* a fun without an entry, or a map without its keys, a part of no term: nobody can describe them */
    unsigned maps; /* so many parts of maps are inside each other */
    uint8_t seen[REACH_WORDS], whole[REACH_WORDS], open[REACH_WORDS], taken[REACH_WORDS];
};

void model_reach(const struct vm *vm, uint64_t proc, unsigned want, uint64_t max_words,
                 uint64_t max_slices, struct reach *r);

/* All words that are reached if nothing leads to that object; of one that is MUST. */
uint64_t model_reach_without(const struct vm *vm, uint64_t proc, uint64_t object);

/* Whether an object at this address was reached. */
bool reach_has(const struct reach *r, uint64_t p);

/* As model_stamp, of the fields that a mark starts from. */
bool model_reach_stamp(const struct vm *vm, uint64_t proc, uint64_t *sum);

/* The attributes that need a mark. */
static inline bool fuzz_is_waste(enum attr attr)
{
    return attr == ATTR_garbage_bytes || attr == ATTR_bin_garbage ||
           attr == ATTR_bin_garbage_bytes || attr == ATTR_bin_waste;
}

struct verdict model_waste(const struct vm *vm, enum attr attr, uint64_t proc);

/* ---- who holds which Binaries ------------------------------------------------------------------- */

/* Those that processes hold, of each process; of proportional as the account of all processes has it. */
struct verdict model_hold(const struct vm *vm, enum attr attr, uint64_t proc);

/* Before all others, of an image that lies still: fills an account and compares it. It is there until
 * model_account_end. */
void check_account(const struct image *img);
struct account *model_account(void);
void model_account_end(void);

/* ---- how large terms are ----------------------------------------------------------------------- */

struct sizes {
    int kind;                               /* of verdict: REFUSED, MAY, MUST */
    bool crowded;                           /* there may be too much to remember */
    uint64_t words, bytes, visible, pinned; /* as struct sums; of Binaries, each once */
    uint64_t shared;                        /* of what is in the slot: each part once */
};

/* want, n, max_words: as root_size_walker takes them. */
struct sizes model_flat(const struct vm *vm, uint64_t proc, unsigned want, uint64_t n,
                        uint64_t max_words);

struct mail {
    struct sizes sizes;
    uint64_t messages, examined;
    unsigned n;
    struct shape shapes[SHAPES_MAX + 1]; /* without from; the last one is the others */
};

void model_mailbox(const struct vm *vm, uint64_t proc, uint64_t sample, uint64_t max_words,
                   struct mail *mail);

/* What lies at this address: how many words, which is the first one that is a term. 0: nothing. */
uint64_t fuzz_thing(const struct vm *vm, uint64_t p, enum kind *kind, uint64_t *first);

/* The four bits of a header of such an object; -1: this release has none. */
int fuzz_tag(const struct layout *lay, enum kind kind);

#endif
