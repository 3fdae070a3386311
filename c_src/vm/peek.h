/* peek.h: reads memory that may not be mapped, without ever crashing.
 * Knows: the guarded loads, the syscall in their place, and when the handler may go.
 * Does not know: what is at an address, or why it is read. */
#ifndef SONDE_PEEK_H
#define SONDE_PEEK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* guarded: plain loads; our SIGSEGV/SIGBUS handler catches their faults.
 * syscall: process_vm_readv on this OS process; several hundred times slower for one word, but it
 *          needs no handler.
 * other:   another OS process: process_vm_readv on that of peek_aim, or the core file of peek_aim_core. */
enum peek_reader { PEEK_NONE, PEEK_GUARDED, PEEK_SYSCALL, PEEK_OTHER };

/* Installs the handler if `want` is guarded (once for the OS process; later calls are free), and
 * returns the reader that works in this thread now. Every native call starts with it: another
 * library may have replaced the handler since, or the thread may block the signals, and then a
 * guarded load would kill the node. */
enum peek_reader peek_ready(enum peek_reader want);

/* From now on the reader `other' reads this OS process. It is ready as long as the word at that address has
 * its value of now; so it is not when the process has ended, even if its number was given to another one. No
 * thread may read meanwhile, and each calls peek_ready before it reads again. Returns 0, or an errno; ENOSYS also
 * where not even our own memory can be read so. */
int peek_aim(int process, uintptr_t known);

/* The same for an OS process that has ended. The reader is ready as long as the file stays as it is. The file must
 * stay open until another aim is taken; NULL: no aim. */
struct core_file;
void peek_aim_core(const struct core_file *core);

/* From now on no reader is ready. The handler is removed as soon as no call is between peek_enter and
 * peek_exit; then all is as before the first peek_ready. This needs our handler to be in place for both
 * signals: with another one over it, it stays until that one is gone and peek_settle is called again. */
void peek_leave(void);

/* Removes the handler after peek_leave, if it can be removed now. */
void peek_settle(void);

/* Reverts peek_leave. */
void peek_return(void);

/* A thread calls peek_enter before its first peek_ready and peek_exit after its last load. Threads
 * use different slots, as far as a hash of their stacks separates them, and share no cache line. */
enum { PEEK_SLOTS = 64 };
struct peek_slot {
    _Alignas(64) atomic_uint calls;
};
extern struct peek_slot peek_slots[PEEK_SLOTS] __attribute__((visibility("hidden")));
extern atomic_bool peek_left __attribute__((visibility("hidden")));

static inline struct peek_slot *peek_enter(void)
{
    uint64_t area = (uintptr_t)__builtin_frame_address(0) >> 16;
    struct peek_slot *its = &peek_slots[(area * 0x9E3779B97F4A7C15U) >> 58];
    atomic_fetch_add(&its->calls, 1);
    return its;
}

static inline void peek_exit(struct peek_slot *slot)
{
    atomic_fetch_sub(&slot->calls, 1);
    if (atomic_load(&peek_left))
        peek_settle();
}

/* Aligned words only. false: some word is not readable (`out` is then unspecified). One load reads
 * one word, and the words are read in the order given, except in what the kernel copies in its own order: a
 * block; and of another OS process the first two words of a gather, the last two if they are the same, and those
 * between, each as a piece. */
static inline bool peek_word(enum peek_reader r, uintptr_t addr, uint64_t *out);
static inline bool peek_gather(enum peek_reader r, uintptr_t base, const uint16_t *offsets,
                               unsigned n, uint64_t *out);

/* Sets *bits to 0 if these words still equal `seen`. n is at most PEEK_GATHER_MAX. */
static inline bool peek_differ(enum peek_reader r, uintptr_t base, const uint16_t *offsets,
                               unsigned n, const uint64_t *seen, uint64_t *bits);
bool peek_block(enum peek_reader r, uintptr_t addr, size_t words, uint64_t *out);

/* Index of the first word in table[from..to) that is not 0, or `to`. Reads ahead: false may also
 * mean that a later word of the range is not readable. */
bool peek_scan(enum peek_reader r, uintptr_t table, size_t from, size_t to, size_t *found);

/* Orders all reads before it against all reads after it for every thread, even if the other thread
 * used only release stores. Does nothing on x86-64; one membarrier elsewhere. */
void peek_barrier(void);

/* Whether another thread's stores may be seen in another order than it made them. */
#if defined(__x86_64__)
enum { PEEK_REORDERED = 0 };
#else
enum { PEEK_REORDERED = 1 };
#endif

/* ---- the calls that every process costs dozens of, without a detour -------------------------- */

enum { PEEK_GATHER_MAX = 64 };

/* The fuzzer's memory is a model that load instructions cannot read. */
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(SONDE_FUZZ)
#define PEEK_HAVE_GUARDED 1
#else
#define PEEK_HAVE_GUARDED 0
#endif

/* A guarded load inside a C function: the section sonde_guarded pairs its address with that of a
 * landing place, which reports the fault (the kernel's exception table does the same). */
#if PEEK_HAVE_GUARDED && defined(__ELF__)
#define PEEK_HAVE_INLINE 1
#else
#define PEEK_HAVE_INLINE 0
#endif

#if PEEK_HAVE_INLINE
#define PEEK_LANDING(Fault)                                                                        \
    ".pushsection .text.sonde_landing, \"ax\"\n"                                                   \
    "3: " Fault "\n"                                                                               \
    ".popsection\n"                                                                                \
    ".pushsection sonde_guarded, \"a\"\n"                                                          \
    ".p2align 2\n"                                                                                 \
    ".long 1b - ., 3b - .\n"                                                                       \
    ".popsection"

static inline bool peek_inline(uintptr_t addr, uint64_t *out)
{
    uint64_t value;
    uint32_t fault = 0;
#if defined(__x86_64__)
    __asm__ __volatile__("1: movq (%2), %0\n"
                         "2:\n" PEEK_LANDING("xorl %k0, %k0\n movl $1, %1\n jmp 2b")
                         : "=&r"(value), "+&r"(fault)
                         : "r"(addr));
#else /* ldar: a later load may not move before it */
    __asm__ __volatile__("1: ldar %0, [%2]\n"
                         "2:\n" PEEK_LANDING("mov %0, #0\n mov %w1, #1\n b 2b")
                         : "=&r"(value), "+&r"(fault)
                         : "r"(addr));
#endif
    *out = value;
    return fault == 0;
}
#endif

/* peek_load.S */
struct loaded {
    uint64_t value;
    uint64_t fault;
};
#if !PEEK_HAVE_INLINE
struct loaded sonde_load(uintptr_t addr);
#endif
struct loaded sonde_gather(uintptr_t base, const uint16_t *off, unsigned n, uint64_t *out);
struct loaded sonde_differ(uintptr_t base, const uint16_t *off, unsigned n, const uint64_t *seen);
struct loaded sonde_copy(uintptr_t addr, size_t n, uint64_t *out);
struct loaded sonde_scan(uintptr_t table, size_t from, size_t to);

bool peek_word_slowly(enum peek_reader r, uintptr_t addr, uint64_t *out);
bool peek_gather_slowly(enum peek_reader r, uintptr_t base, const uint16_t *offsets, unsigned n,
                        uint64_t *out);
bool peek_differ_slowly(enum peek_reader r, uintptr_t base, const uint16_t *offsets, unsigned n,
                        const uint64_t *seen, uint64_t *bits);

static inline bool peek_word(enum peek_reader r, uintptr_t addr, uint64_t *out)
{
#if PEEK_HAVE_INLINE
    if (r == PEEK_GUARDED && (addr & 7) == 0)
        return peek_inline(addr, out);
#elif PEEK_HAVE_GUARDED
    if (r == PEEK_GUARDED && (addr & 7) == 0) {
        struct loaded got = sonde_load(addr);
        *out = got.value;
        return !got.fault;
    }
#endif
    return peek_word_slowly(r, addr, out);
}

static inline bool peek_gather(enum peek_reader r, uintptr_t base, const uint16_t *offsets,
                               unsigned n, uint64_t *out)
{
#if PEEK_HAVE_GUARDED
    if (r == PEEK_GUARDED && (base & 7) == 0)
        return !sonde_gather(base, offsets, n, out).fault;
#endif
    return peek_gather_slowly(r, base, offsets, n, out);
}

static inline bool peek_differ(enum peek_reader r, uintptr_t base, const uint16_t *offsets,
                               unsigned n, const uint64_t *seen, uint64_t *bits)
{
#if PEEK_HAVE_GUARDED
    if (r == PEEK_GUARDED && (base & 7) == 0) {
        struct loaded got = sonde_differ(base, offsets, n, seen);
        *bits = got.value;
        return !got.fault;
    }
#endif
    return peek_differ_slowly(r, base, offsets, n, seen, bits);
}

/* peek_gather will be called with these arguments, after the ones that are already expected: the reader `other'
 * reads all of them when the first one is called. A barrier ends all expectations. Only for speed. */
void peek_expect_other(uintptr_t base, const uint16_t *offsets, unsigned n);

static inline void peek_expect(enum peek_reader r, uintptr_t base, const uint16_t *offsets,
                               unsigned n)
{
    if (r == PEEK_OTHER)
        peek_expect_other(base, offsets, n);
}

/* The reader `other' reads this page in the same system call as the next page that it needs. A gather, a barrier
 * or peek_ready ends the request, and of a core file there is none. */
void peek_want_other(uintptr_t addr);

/* Only for speed; never faults. */
static inline void peek_prefetch(enum peek_reader r, uintptr_t addr)
{
    if (r == PEEK_OTHER)
        peek_want_other(addr);
    else
        __builtin_prefetch((const void *)addr, 0, 3); // NOLINT(performance-no-int-to-ptr)
}

#endif
