#include "vm/peek_other.h"

#include "vm/core_file.h"
#include "vm/peek_syscall.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

/* A barrier of ours orders no stores of another OS process; on x86-64 none is needed. */
#if defined(__linux__) && defined(__x86_64__)
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Written by peek_aim and peek_aim_core. What is read from a core file does not change, so that only a new call
 * forgets it. */
static struct {
    int process;
    const struct core_file *core;
    uintptr_t known;
    uint64_t value;
} aimed;

static bool target_block(uintptr_t addr, size_t words, uint64_t *out)
{
    if (aimed.core)
        return core_file_read(aimed.core, addr, out, words * sizeof *out);
    struct iovec remote = {syscall_address(addr), words * sizeof *out};
    return syscall_pieces(aimed.process, &remote, 1, out, words);
}

/* For each piece the kernel has to find a page. So of another OS process the words of a stamp are read in two or
 * three pieces, if each lies close together: the first two, those between, and the first two again. A stamp needs
 * no order within these: state shows a run, the lock what others do to the process, and neither has to be read
 * before the other; what belongs to a run or a lock is stored before these say that it has ended. */
enum { PART_WORDS = 128, PARTS = 3 };

struct part {
    unsigned first, n;    /* of the offsets */
    unsigned from, words; /* from: in bytes */
};

static bool make_part(const uint16_t *off, unsigned first, unsigned n, struct part *out)
{
    unsigned from = off[first];
    unsigned to = off[first];
    for (unsigned i = first + 1; i < first + n; i++) {
        from = off[i] < from ? off[i] : from;
        to = off[i] > to ? off[i] : to;
    }
    *out = (struct part){first, n, from, (to - from) / 8 + 1};
    return (from & 7) == 0 && (to & 7) == 0 && out->words <= PART_WORDS;
}

/* 0: word by word */
static unsigned make_parts(const uint16_t *off, unsigned n, struct part *out)
{
    bool again = n > 4 && off[n - 2] == off[0] && off[n - 1] == off[1];
    unsigned end = again ? n - 2 : n;
    if (n < 3 || !make_part(off, 0, 2, out) || !make_part(off, 2, end - 2, out + 1) ||
        (again && !make_part(off, end, 2, out + 2)))
        return 0;
    return again ? PARTS : PARTS - 1;
}

/* Returns the words of these pieces. */
static unsigned part_pieces(uintptr_t base, const struct part *parts, unsigned n, struct iovec *out)
{
    unsigned words = 0;
    for (unsigned i = 0; i < n; i++) {
        out[i] = (struct iovec){syscall_address(base + parts[i].from), 8UL * parts[i].words};
        words += parts[i].words;
    }
    return words;
}

static void part_words(const uint16_t *off, const struct part *parts, unsigned n, const uint64_t *w,
                       uint64_t *out)
{
    for (const struct part *p = parts; p < parts + n; w += p++->words) {
        for (unsigned i = p->first; i < p->first + p->n; i++)
            out[i] = w[(off[i] - p->from) / 8];
    }
}

static bool other_parts(uintptr_t base, const uint16_t *off, const struct part *parts, unsigned n,
                        uint64_t *out)
{
    uint64_t w[PARTS * PART_WORDS];
    struct iovec remote[PARTS];
    unsigned words = part_pieces(base, parts, n, remote);
    if (!syscall_pieces(aimed.process, remote, n, w, words))
        return false;
    part_words(off, parts, n, w, out);
    return true;
}

/* ---- pages of another OS process ----------------------------------------------------------------
 *
 * A system call for each word would make a walk several hundred times slower. So a thread keeps the pages that
 * it reads, until the next peek_gather, peek_barrier or peek_ready: a page is never older than the latest opening
 * of a stamp, and what is read after a barrier was in memory after it. The page that peek_scan searches is kept
 * until the next barrier: it has the process table, where a slot is always read again after one.
 *
 * Walks say which pages they will read (peek_want_other), so that one system call reads up to 32 of them. */
enum { PAGE_WORDS = 512, PAGE_BYTES = PAGE_WORDS * 8, PAGE_BITS = 6, PAGES = 1 << PAGE_BITS };
enum { WANTED = 32, EXPECTED = 16 };
static_assert((int)PAGES <= 64, "a set of places has 64 bits");

struct kept {
    unsigned n;
    uintptr_t at[PAGES + 1]; /* 0: none; the last one is of peek_scan */
    uint64_t words[PAGES + 1][PAGE_WORDS];
    unsigned wanted_n;
    uintptr_t wanted[WANTED];
};

struct gather {
    uintptr_t base;
    const uint16_t *off;
    unsigned n, part_n;
    unsigned words; /* the first of its words */
    struct part parts[PARTS];
};

struct expected {
    unsigned n, taken;
    bool is_read;
    struct gather gathers[EXPECTED];
    uint64_t words[EXPECTED * PARTS * PART_WORDS];
};

/* What a thread keeps. It is not thread-local itself: the C library would give that memory to each thread that uses
 * any thread-local variable of this library, in nodes that look at no other process, too. */
struct other {
    struct kept kept;
    struct expected expected;
};

static _Thread_local struct other *other;
static pthread_key_t other_key; /* gives it back when the thread ends */
static bool has_key;

static void end_other(void *o)
{
    (void)munmap(o, sizeof(struct other));
}

static void make_key(void)
{
    has_key = pthread_key_create(&other_key, end_other) == 0;
}

/* false: no memory, so nothing can be read. */
static bool has_other(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (other)
        return true;
    (void)pthread_once(&once, make_key);
    if (!has_key)
        return false;
    void *o = mmap(NULL, sizeof *other, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (o == MAP_FAILED)
        return false;
    if (pthread_setspecific(other_key, o) != 0) {
        end_other(o);
        return false;
    }
    other = o;
    return true;
}

static void forget(bool all)
{
    if (!other)
        return;
    if (other->kept.n > 0)
        memset(other->kept.at, 0, PAGES * sizeof *other->kept.at);
    other->kept.n = other->kept.wanted_n = 0;
    if (all)
        other->kept.at[PAGES] = 0;
}

static void forget_walks(void)
{
    if (aimed.process != 0)
        forget(false);
}

/* ---- stamps of another OS process ---------------------------------------------------------------------
 *
 * What several stamps will read is known before the first of them, and is read in one system call, as if each
 * of them were read at that moment, one after the other. */
static_assert((int)PEEK_GATHER_MAX <= PARTS * (int)PART_WORDS &&
                  EXPECTED * (int)PEEK_GATHER_MAX <= 1024,
              "there is room for all, and the kernel takes 1024 pieces");

static void forget_expected(void)
{
    if (!other)
        return;
    other->expected.n = other->expected.taken = 0;
    other->expected.is_read = false;
}

void peek_expect_other(uintptr_t base, const uint16_t *off, unsigned n)
{
    if (aimed.core || !has_other())
        return;
    if (other->expected.is_read)
        forget_expected();
    if (other->expected.n < EXPECTED && n <= PEEK_GATHER_MAX)
        other->expected.gathers[other->expected.n++] =
            (struct gather){.base = base, .off = off, .n = n};
}

static void read_expected(void)
{
    struct iovec remote[EXPECTED * PEEK_GATHER_MAX];
    unsigned pieces = 0;
    unsigned words = 0;
    for (unsigned i = 0; i < other->expected.n; i++) {
        struct gather *g = &other->expected.gathers[i];
        g->words = words;
        g->part_n = make_parts(g->off, g->n, g->parts);
        words += g->part_n > 0 ? part_pieces(g->base, g->parts, g->part_n, remote + pieces) : g->n;
        if (g->part_n == 0)
            syscall_word_pieces(g->base, g->off, g->n, remote + pieces);
        pieces += g->part_n > 0 ? g->part_n : g->n;
    }
    other->expected.is_read = true;
    if (!syscall_pieces(aimed.process, remote, pieces, other->expected.words, words))
        other->expected.n = 0; /* one of them is not readable: each for itself */
}

static bool take_expected(uintptr_t base, const uint16_t *off, unsigned n, uint64_t *out)
{
    if (!other)
        return false;
    const struct gather *g = &other->expected.gathers[other->expected.taken];
    if (other->expected.taken >= other->expected.n || g->base != base || g->off != off || g->n != n)
        return false;
    if (!other->expected.is_read) {
        forget_walks();
        read_expected();
    }
    if (other->expected.n == 0)
        return false;
    other->expected.taken++;
    if (g->part_n > 0)
        part_words(off, g->parts, g->part_n, other->expected.words + g->words, out);
    else
        memcpy(out, other->expected.words + g->words, n * sizeof *out);
    return true;
}

void other_barrier(void)
{
    if (aimed.process != 0) {
        forget(true);
        forget_expected();
    }
}

void other_begin(void)
{
    other_barrier();
    if (aimed.core) {
        forget(true);
        forget_expected();
    }
}

static uintptr_t page_of(uintptr_t addr)
{
    return addr & ~(uintptr_t)(PAGE_BYTES - 1);
}

static unsigned place_of(uintptr_t addr)
{
    return (unsigned)(addr / PAGE_BYTES * 0x9E3779B97F4A7C15U >> (64 - PAGE_BITS));
}

static bool fetch_page(unsigned i, uintptr_t at)
{
    other->kept.at[i] = 0;
    if (!target_block(at, PAGE_WORDS, other->kept.words[i]))
        return false;
    other->kept.at[i] = at;
    other->kept.n++;
    return true;
}

void peek_want_other(uintptr_t addr)
{
    uintptr_t at = page_of(addr);
    if (aimed.core || !has_other())
        return;
    struct kept *k = &other->kept;
    bool again = k->wanted_n > 0 && k->wanted[k->wanted_n - 1] == at;
    if (at != 0 && !again && k->wanted_n < WANTED && k->at[place_of(addr)] != at)
        k->wanted[k->wanted_n++] = at;
}

struct pages {
    unsigned n;
    uint64_t places; /* a set */
    struct iovec local[WANTED + 1], remote[WANTED + 1];
};

static void add_page(struct pages *p, unsigned place, uintptr_t at)
{
    p->places |= 1ULL << place % PAGES;
    p->local[p->n] = (struct iovec){other->kept.words[place], PAGE_BYTES};
    p->remote[p->n++] = (struct iovec){syscall_address(at), PAGE_BYTES};
    other->kept.at[place] = 0;
}

/* With the one that is needed, those that are wanted, at most one for each place. The kernel ends at the first that
 * is not readable; those behind it are read when they are needed. */
static bool fetch_wanted(uintptr_t at)
{
    struct pages p = {.n = 0};
    add_page(&p, place_of(at), at);
    for (unsigned k = 0; k < other->kept.wanted_n; k++) {
        unsigned place = place_of(other->kept.wanted[k]);
        if (!(p.places & 1ULL << place % PAGES) && other->kept.at[place] != other->kept.wanted[k])
            add_page(&p, place, other->kept.wanted[k]);
    }
    other->kept.wanted_n = 0;
    ssize_t got = process_vm_readv(aimed.process, p.local, p.n, p.remote, p.n, 0);
    for (unsigned k = 0; k < p.n && got >= (ssize_t)(k + 1) * PAGE_BYTES; k++) {
        uintptr_t is = (uintptr_t)p.remote[k].iov_base;
        other->kept.at[place_of(is)] = is;
        other->kept.n++;
    }
    return other->kept.at[place_of(at)] == at;
}

bool other_word(uintptr_t addr, uint64_t *out)
{
    uintptr_t at = page_of(addr);
    if (at == 0 || !has_other())
        return false;
    unsigned i = other->kept.at[PAGES] == at ? PAGES : place_of(addr);
    if (other->kept.at[i] != at &&
        !(other->kept.wanted_n > 0 ? fetch_wanted(at) : fetch_page(i, at)))
        return false;
    *out = other->kept.words[i][addr % PAGE_BYTES / 8];
    return true;
}

static bool core_gather(uintptr_t base, const uint16_t *off, unsigned n, uint64_t *out)
{
    for (unsigned i = 0; i < n; i++) {
        if ((off[i] & 7) != 0 || !other_word(base + off[i], &out[i]))
            return false;
    }
    return true;
}

/* The kernel reads the pieces one after the other, so the order of the words is kept. */
static bool process_gather(uintptr_t base, const uint16_t *off, unsigned n, uint64_t *out)
{
    struct part parts[PARTS];
    unsigned part_n = make_parts(off, n, parts);
    return part_n > 0 ? other_parts(base, off, parts, part_n, out)
                      : syscall_words(aimed.process, base, off, n, out);
}

bool other_gather(uintptr_t base, const uint16_t *off, unsigned n, uint64_t *out)
{
    if (take_expected(base, off, n, out))
        return true;
    forget_walks();
    return aimed.core ? core_gather(base, off, n, out) : process_gather(base, off, n, out);
}

bool other_block(uintptr_t addr, size_t words, uint64_t *out)
{
    if (words > PAGE_WORDS)
        return target_block(addr, words, out);
    for (size_t i = 0; i < words; i++) {
        if (!other_word(addr + 8 * i, &out[i]))
            return false;
    }
    return true;
}

bool other_scan(uintptr_t table, size_t from, size_t to, size_t *found)
{
    if (!has_other())
        return false;
    for (*found = from; *found < to; ++*found) {
        uintptr_t addr = table + 8 * *found;
        uintptr_t at = page_of(addr);
        if (at == 0 || (other->kept.at[PAGES] != at && !fetch_page(PAGES, at)))
            return false;
        if (other->kept.words[PAGES][addr % PAGE_BYTES / 8] != 0)
            return true;
    }
    return true;
}

bool other_works(void)
{
    uint64_t seen;
    if (aimed.core)
        return core_file_is_same(aimed.core);
    return aimed.process != 0 && target_block(aimed.known, 1, &seen) && seen == aimed.value;
}

void peek_aim_core(const struct core_file *core)
{
    aimed.process = 0;
    aimed.core = core;
    forget(true);
    forget_expected();
}

int peek_aim(int process, uintptr_t known)
{
    aimed.core = NULL;
    aimed.process = process;
    aimed.known = known;
    forget(true);
    forget_expected();
    errno = EFAULT;
    if ((known & 7) == 0 && target_block(known, 1, &aimed.value))
        return 0;
    int failed = errno;
    uint64_t own;
    aimed.process = 0;
    return syscall_block((uintptr_t)&aimed.value, 1, &own) ? failed : ENOSYS;
}
#else
bool other_works(void)
{
    return false;
}

int peek_aim(int process, uintptr_t known)
{
    (void)process, (void)known;
    return ENOSYS;
}

void peek_aim_core(const struct core_file *core)
{
    (void)core;
}

void other_barrier(void)
{
}

void other_begin(void)
{
}

void peek_expect_other(uintptr_t base, const uint16_t *off, unsigned n)
{
    (void)base, (void)off, (void)n;
}

void peek_want_other(uintptr_t addr)
{
    (void)addr;
}

bool other_word(uintptr_t addr, uint64_t *out)
{
    (void)addr, (void)out;
    return false;
}

bool other_gather(uintptr_t base, const uint16_t *off, unsigned n, uint64_t *out)
{
    (void)base, (void)off, (void)n, (void)out;
    return false;
}

bool other_block(uintptr_t addr, size_t words, uint64_t *out)
{
    (void)addr, (void)words, (void)out;
    return false;
}

bool other_scan(uintptr_t table, size_t from, size_t to, size_t *found)
{
    (void)table, (void)from, (void)to, (void)found;
    return false;
}
#endif
