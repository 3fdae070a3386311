/* fuzz.h: shared by all parts of the fuzzer.
 * Knows: the model memory, how an input builds processes in it, and the expected answer of a
 * walker.
 * Does not know: how a walker finds its answer.
 *
 *     fuzz_memory.c  words at addresses that are not mapped; peek reads only from them
 *     fuzz_build.c   a small language of bytes that builds whole and broken processes there
 *     fuzz_process.c its verbs for the structures of a process
 *     fuzz_term.c    its verbs for terms and the roots that hold them
 *     fuzz_model.c   the expected answers, computed as simply as possible
 *     fuzz_origin.c  the same for what a process belongs to
 *     fuzz_mark.c    the same for the objects that the roots of a process reach
 *     fuzz_heap.c    the same for the memory that a collection would free
 *     fuzz_size.c    the same for the sizes of terms and for mailboxes
 *     fuzz_hold.c    the same for the Binaries that one process or all processes hold
 *     fuzz_look.c    runs the walkers of look.h over one process, and compares
 *     fuzz_reach.c   marks the objects that each process reaches, and compares
 *     fuzz_scan.c    runs whole scans, and compares their rows
 *     fuzz_walk.c    runs the other walkers, and compares
 *
 * A new attribute needs a row in the model's table (without it the fuzzer ends at once) and, if it
 * walks a new structure, a verb in the language that builds one. A reader that is not an attribute
 * gets its own function beside check_proof in fuzz_walk.c. See CONTRIBUTING.md. */
#ifndef SONDE_FUZZ_H
#define SONDE_FUZZ_H

#include "heap/marking.h"
#include "heap/mailbox.h"
#include "vm/proof.h"
#include "scan/scan.h"

/* libFuzzer and test_corpus.c call it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Prints the failure and ends the program. */
_Noreturn void fuzz_fail(const char *what, const char *where);

/* Unless ok: fails, and names the attribute. */
void fuzz_must(bool ok, const char *what, enum attr attr);

/* ---- memory -------------------------------------------------------------------------------- */

/* No real address has such high bits, so a walker that reads without peek crashes. A few more words
 * lie at the end of the address space, where sums overflow. */
#define MEMORY_BASE 0x00A5000000000000ULL
#define MEMORY_TOP  (0ULL - MEMORY_TOP_WORDS * 8ULL)
enum { MEMORY_WORDS = 2048, MEMORY_TOP_WORDS = 64, CHANGES_MAX = 16 };

/* Sets all words to 0 and forgets all changes and reads. */
void memory_clear(void);

/* NULL: the address is not an aligned word of the memory. */
uint64_t *memory_at(uint64_t address);

/* The word at this address; 0 where no memory is. */
uint64_t fuzz_word(uint64_t address);

/* A write by a process that runs meanwhile: at read number `after' this word gets this value. Call
 * it in ascending order of reads. */
void memory_change(uint64_t after, uint64_t address, uint64_t value);

/* Restores the memory as it was built, with all changes still to come (or none), and at most
 * `reads' reads. */
void memory_begin(bool changing, uint64_t reads);
void memory_built(void); /* saves the state that memory_begin restores */
void memory_change_all(void);
unsigned memory_changes(void); /* number of all changes */
unsigned memory_changed(void); /* number of changes so far */
uint64_t memory_still(void);   /* reads since the last change */

/* ---- the image that an input builds ---------------------------------------------------------- */

enum { SLOTS = 16 };

struct image {
    struct vm vm;
    enum attr attr;
    unsigned mode;       /* of the scan: bits */
    unsigned rows;       /* number of wanted rows */
    unsigned remembered; /* limit of processes in a sample */
    unsigned steps;      /* of a slice */
    long fail_at;        /* the n-th allocation fails; 0: none fails */
    struct proof proof;
};

void image_build(struct image *img, const uint8_t *data, size_t size);

/* The words in use of the heap that was abandoned; none if there is no such heap. false: they cannot be read, or
 * are as many as no heap has. */
bool fuzz_abandoned(const struct layout *lay, uint64_t proc, struct block *used);

/* Process.state. If self_bit is set, MSG_IN_Q means something else. */
enum { MSG_IN_Q = 0x1000, ACTIVE = 0x2000, SIG_IN_Q = 0x80000, OFF_HEAP_Q = 0x1000000 };
enum { MIDDLE_Q = 0x2000000 };

/* Messages may wait in the buffers that senders fill. */
static inline bool in_buffers(const struct layout *lay, uint64_t state)
{
    uint64_t arrived = ACTIVE | SIG_IN_Q | (lay->self_bit ? 0 : MSG_IN_Q);
    return (state & OFF_HEAP_Q) && (state & arrived);
}

/* Call it before a walk: memory_begin, and allocations may fail. */
void fuzz_begin(const struct image *img, bool changing, uint64_t reads);
bool fuzz_failed(void); /* an allocation failed since then */

/* A monitor needs the most reads: its node, the node of the other end, the count, the reference. A
 * message's chains may be those of others, too. */
enum { THING_READS = 12, FIXED_READS = 240 };
/* A word of a frame, and what it may point to. */
enum { FRAME_READS = 4 * (int)AWAITED_FRAME };

#define MOST_THINGS                                                                                \
    ((uint64_t)LINKS_MONITORS_MAX + MESSAGES_MAX + 3 * (uint64_t)ENTRIES_MAX +                     \
     2 * (uint64_t)BLOCKS_MAX + 16 * (uint64_t)MEMORY_WORDS +                                      \
     (uint64_t)MESSAGES_MAX * ENTRIES_MAX)
#define MOST_READS (FIXED_READS + THING_READS * MOST_THINGS)

/* Mark every process of the image, and scan all of them. */
void check_marks(const struct image *img);
void check_scans(const struct image *img);

/* Runs what only a look at another OS process reads. */
void check_there(const struct image *img);

/* Runs the walkers of look.h over every process of the image. */
void check_looks(const struct image *img);

/* ---- expected answers ------------------------------------------------------------------------ */

enum opened {
    OPEN_OK,
    OPEN_NOBODY, /* no process, or a dead one: no row, and no call of process_info */
    OPEN_BUSY
};

struct verdict {
    enum {
        REFUSED, /* any status, but no answer */
        MAY,     /* this answer or none (blocks overlap, as they never do in a VM) */
        MUST,    /* this answer */
        ANY      /* any answer: it depends on the order of marking, as it never does in a VM */
    } kind;
    int64_t value;
    bool clean;
    uint64_t steps; /* entries, nodes, messages and fragments that the walk needs */
};

/* The one place in the code that waits_for counts: the program counter of new processes. */
enum { MODEL_PLACE = 0 };
extern const struct places fuzz_place;

enum opened model_open(const struct vm *vm, enum attr attr, bool waiting, size_t slot,
                       uint64_t proc);
struct verdict model_answer(const struct vm *vm, enum attr attr, bool waiting, uint64_t proc);

/* A hash of the fields that must not change between opening and closing, including the settled
 * state. false: it cannot be read, or the process is not settled. */
bool model_stamp(const struct vm *vm, enum attr attr, bool waiting, uint64_t proc, uint64_t *sum);

/* Atoms; and one under which proc_lib keeps the first call. */
#define FUZZ_ATOM(I) ((uint64_t)(I) << 6 | 0x0B)
enum { FUZZ_KEY = 0x4B };

/* The last words of a Process, which no table has. */
#define FUZZ_FIRST_CALL(Lay) (uint16_t)((LF(Lay, proc_size) & ~7U) - 24)

/* What the process belongs to; the value is 0. */
struct verdict model_origin(const struct vm *vm, uint64_t proc, struct origin *key);

/* ---- reached objects ------------------------------------------------------------------------- */

enum { REACH_BLOCKS = 24, REACH_WORDS = MEMORY_WORDS + MEMORY_TOP_WORDS };

struct reach {
    int kind;  /* of verdict: REFUSED, MAY, MUST */
    bool lied; /* REFUSED, for a tag that does not fit its object; a walk that spills may miss it */
    bool
        doubted; /* blocks overlap, or a word is two objects: a walk that finds the other one first may
                     miss what is REFUSED */
    unsigned want;
    uint64_t slices_max;
    uint64_t words[ROOT_COUNT];
    uint64_t literals, visible;
    struct bar bars[BAR_COUNT]; /* funs and large tuples count as other */
    struct bar tuples[BARS_TUPLES];
    uint64_t size; /* words of all blocks */
    unsigned blocks_n;
    uint64_t from[REACH_BLOCKS], to[REACH_BLOCKS];
    uint64_t steps; /* objects, fragments and messages */
    bool cyclic;    /* an object leads back to itself, or objects overlap: never in a VM */
    bool odd; /* a fun without an entry, or a map without its keys: no walker can describe them */
    unsigned maps; /* levels of parts of maps inside each other */
    uint8_t seen[REACH_WORDS], whole[REACH_WORDS], open[REACH_WORDS], taken[REACH_WORDS];
};

void model_reach(const struct vm *vm, uint64_t proc, unsigned want, uint64_t max_words,
                 uint64_t max_slices, struct reach *r);

/* The words reached if nothing leads to that object; only if the verdict is MUST. */
uint64_t model_reach_without(const struct vm *vm, uint64_t proc, uint64_t object);

/* Whether an object at this address was reached. */
bool reach_has(const struct reach *r, uint64_t p);

/* As model_stamp, for the fields that a mark needs. */
bool model_reach_stamp(const struct vm *vm, uint64_t proc, uint64_t *sum);

/* The attributes that need a mark. */
static inline bool fuzz_is_waste(enum attr attr)
{
    return attr == ATTR_garbage_bytes || attr == ATTR_bin_garbage ||
           attr == ATTR_bin_garbage_bytes || attr == ATTR_bin_waste;
}

struct verdict model_waste(const struct vm *vm, enum attr attr, uint64_t proc);

/* ---- holders of Binaries ------------------------------------------------------------------------- */

/* The answer for one process. */
struct verdict model_hold(const struct vm *vm, enum attr attr, uint64_t proc);

/* Fills accounts of an image without changes, and compares them. */
void check_account(const struct image *img);

/* ---- sizes of terms ------------------------------------------------------------------------------ */

struct sizes {
    int kind;                               /* of verdict: REFUSED, MAY, MUST */
    bool crowded;                           /* the walker's stack may be too small */
    uint64_t words, bytes, visible, pinned; /* as struct sums; pinned: of Binaries, each once */
    uint64_t shared;                        /* of the term in the slot, each part once */
};

/* want, n, max_words: the arguments of root_size_walker. */
struct sizes model_flat(const struct vm *vm, uint64_t proc, unsigned want, uint64_t n,
                        uint64_t max_words);

struct mail {
    struct sizes sizes;
    uint64_t messages, examined;
    uint64_t last; /* the link of the last message in the outer queue */
    unsigned n;
    struct shape shapes[SHAPES_MAX + 1]; /* without `from'; the last one is SHAPE_OTHER */
};

void model_mailbox(const struct vm *vm, uint64_t proc, uint64_t sample, uint64_t max_words,
                   struct mail *mail);

/* The size in words of the object at this address; *first: its first term. 0: no object. */
uint64_t fuzz_thing(const struct vm *vm, uint64_t p, enum kind *kind, uint64_t *first);

/* The four tag bits of such an object's header; -1: this release has no such object. */
int fuzz_tag(const struct layout *lay, enum kind kind);

#endif
