/* test_peek.c: tests of peek.c, without a VM: what it reads and what it refuses.
 * Knows: how to make unreadable memory, with every kind of edge.
 * Does not know: how peek works.
 *
 * Prints a line for each failure or skipped test, and the totals. test_peek_signals.c,
 * test_peek_ready.c and test_peek_leave.c test signals and handlers. */
#include "test/test_peek.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <signal.h>

enum gone { UNMAPPED, NO_ACCESS, CUT_OFF, GONES };

/* Returns the end of a page of zeros, behind which lies a page that cannot be read. */
static uint64_t *edge_new(enum gone how)
{
    char *p = map(2 * page_size, PROT_READ | PROT_WRITE);
    char *second = p + page_size;
    if (how == UNMAPPED) {
        must(munmap(second, page_size) == 0, "munmap");
    } else if (how == NO_ACCESS) {
        must(mprotect(second, page_size, PROT_NONE) == 0, "mprotect");
    } else {
        int fd = file_of(false);
        void *q = mmap(second, page_size, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
        must(q == second && close(fd) == 0, "mmap over");
    }
    return (uint64_t *)(void *)(p + page_size);
}

static void edge_free(uint64_t *edge, enum gone how)
{
    char *p = (char *)edge - page_size;
    must(munmap(p, how == UNMAPPED ? page_size : 2 * page_size) == 0, "munmap");
}

/* ---- reading: each test runs with both readers ---------------------------------------------- */

static bool reads(enum peek_reader r, const uint64_t *p, uint64_t value)
{
    uint64_t w = ~value;
    return peek_word(r, (uintptr_t)p, &w) && w == value;
}

static void test_readable(enum peek_reader r)
{
    static const uint64_t constant = 0x0123456789abcdef;
    uint64_t local = 42;
    uint64_t *heap = malloc(sizeof *heap);
    must(heap != NULL, "malloc");
    *heap = ~(uint64_t)0;
    uint64_t *page = map(page_size, PROT_READ | PROT_WRITE);
    fill(page, page_size / 8);
    must(mprotect(page, page_size, PROT_READ) == 0, "mprotect");
    EXPECT(reads(r, &constant, constant));
    EXPECT(reads(r, &local, 42));
    EXPECT(reads(r, heap, ~(uint64_t)0));
    EXPECT(reads(r, page, known(0)));
    EXPECT(reads(r, page + page_size / 8 - 1, known(page_size / 8 - 1)));
    must(munmap(page, page_size) == 0, "munmap");
    free(heap);
}

static void test_unreadable(enum peek_reader r)
{
    static const uintptr_t wild[] = {
        0,
        8,
        4096,
        0x0000800000000000,
        0x5555555555555550,
        0x7ffffffffffffff8,
        0x8000000000000000,
        0xffff800000000000,
        0xffffffff80000000,
        0xfffffffffffffff8,
    };
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++)
        EXPECT(refuses(r, wild[i]));
    for (enum gone how = 0; how < GONES; how++) {
        uint64_t *edge = edge_new(how);
        EXPECT(refuses(r, (uintptr_t)edge));
        EXPECT(refuses(r, (uintptr_t)edge + page_size - 16));
        edge_free(edge, how);
    }
}

static void test_truncated_file(enum peek_reader r)
{
    uint64_t *page = cut_page();
    EXPECT(refuses(r, (uintptr_t)page));
    must(munmap(page, page_size) == 0, "munmap");
}

static void test_misaligned(enum peek_reader r)
{
    static const uint64_t words[4] = {1, 2, 3, 4};
    for (uintptr_t by = 1; by < 8; by++)
        EXPECT(refuses(r, (uintptr_t)words + by));
}

enum { NEAR = 12, CANARY = 77 };

/* Reads n words that start `before` words ahead of the edge: it reads all of them, or fails. */
static void block_at(enum peek_reader r, const uint64_t *edge, size_t before, size_t n)
{
    uint64_t out[NEAR + 1];
    const uint64_t *from = edge - before;
    out[n] = CANARY;
    bool ok = peek_block(r, (uintptr_t)from, n, out);
    EXPECT(ok == (n <= before));
    EXPECT(!ok || memcmp(out, from, n * sizeof *out) == 0);
    EXPECT(out[n] == CANARY);
}

static void gather_at(enum peek_reader r, const uint64_t *edge, size_t before, unsigned n)
{
    uint16_t up[NEAR];
    uint16_t down[NEAR];
    uint64_t out[NEAR + 1];
    const uint64_t *from = edge - before;
    for (unsigned i = 0; i < n; i++)
        down[n - 1 - i] = up[i] = (uint16_t)(i * 8);
    out[n] = CANARY;
    bool ok = peek_gather(r, (uintptr_t)from, up, n, out);
    EXPECT(ok == (n <= before));
    EXPECT(!ok || memcmp(out, from, n * sizeof *out) == 0);
    uint64_t bits = 1;
    EXPECT(peek_differ(r, (uintptr_t)from, up, n, out, &bits) == ok);
    EXPECT(!ok || bits == 0);
    EXPECT(peek_gather(r, (uintptr_t)from, down, n, out) == ok);
    for (unsigned i = 0; ok && i < n; i++)
        EXPECT(out[i] == from[n - 1 - i]);
    EXPECT(out[n] == CANARY);
}

/* Scans zeros only, then with a hit at each readable place. */
static void scan_at(enum peek_reader r, uint64_t *edge, size_t before, size_t n)
{
    uintptr_t table = (uintptr_t)(edge - NEAR);
    size_t from = NEAR - before;
    size_t found = 0;
    bool ok = peek_scan(r, table, from, from + n, &found);
    EXPECT(ok == (n <= before));
    EXPECT(!ok || found == from + n);
    for (size_t hit = 0; hit < n && hit < before; hit++) {
        edge[(ptrdiff_t)hit - (ptrdiff_t)before] = 1;
        ok = peek_scan(r, table, from, from + n, &found);
        EXPECT(ok || n > before); /* a scan may read ahead */
        EXPECT(!ok || found == from + hit);
        edge[(ptrdiff_t)hit - (ptrdiff_t)before] = 0;
    }
}

static void test_edge(enum peek_reader r)
{
    for (enum gone how = 0; how < GONES; how++) {
        uint64_t *edge = edge_new(how);
        for (unsigned before = 0; before <= NEAR; before++)
            for (unsigned n = 0; n <= NEAR; n++)
                scan_at(r, edge, before, n);
        fill(edge - NEAR, NEAR);
        for (unsigned before = 0; before <= NEAR; before++) {
            for (unsigned n = 0; n <= NEAR; n++) {
                block_at(r, edge, before, n);
                gather_at(r, edge, before, n);
            }
        }
        edge_free(edge, how);
    }
}

/* Each kind of page next to every other, in both orders: readable (R), unmapped (U), no access (N),
 * cut off (C). */
static const char pages[] = "RURNRCURNCNUCRUNRR";
enum { PAGES = sizeof pages - 1 };

static uint64_t *pages_new(void)
{
    char *p = map(PAGES * page_size, PROT_READ | PROT_WRITE);
    int fd = file_of(false);
    fill((uint64_t *)(void *)p, PAGES * page_size / 8);
    for (size_t i = 0; i < PAGES; i++) {
        char *page = p + i * page_size;
        bool ok = true;
        if (pages[i] == 'U')
            ok = munmap(page, page_size) == 0;
        else if (pages[i] == 'N')
            ok = mprotect(page, page_size, PROT_NONE) == 0;
        else if (pages[i] == 'C')
            ok = mmap(page, page_size, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == (void *)page;
        must(ok, "pages_new");
    }
    must(close(fd) == 0, "close");
    return (uint64_t *)(void *)p;
}

static void pages_free(uint64_t *words)
{
    char *p = (char *)words;
    for (size_t i = 0; i < PAGES; i++) /* not the holes: they may be mapped again by now */
        must(pages[i] == 'U' || munmap(p + i * page_size, page_size) == 0, "munmap");
}

static bool is_readable(size_t word, size_t n)
{
    for (size_t i = word; i < word + n; i++) {
        if (pages[i * 8 / page_size] != 'R')
            return false;
    }
    return true;
}

/* Reads n words from `from` on in all five ways. Only a scan may succeed without reading all of
 * them. */
static void range_at(enum peek_reader r, const uint64_t *words, size_t from, size_t n)
{
    static const uint16_t offsets[NEAR] = {0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88};
    bool readable = is_readable(from, n);
    uintptr_t addr = (uintptr_t)(words + from);
    uint64_t out[NEAR + 1] = {0};
    uint64_t bits = 1;
    size_t found = 0;
    out[n] = CANARY;
    EXPECT(peek_word(r, addr, &bits) == is_readable(from, 1));
    EXPECT(peek_block(r, addr, n, out) == readable);
    for (size_t i = 0; readable && i < n; i++)
        EXPECT(out[i] == known(from + i));
    EXPECT(peek_differ(r, addr, offsets, (unsigned)n, out, &bits) == readable);
    EXPECT(!readable || bits == 0);
    EXPECT(peek_gather(r, addr, offsets, (unsigned)n, out) == readable);
    for (size_t i = 0; readable && i < n; i++)
        EXPECT(out[i] == known(from + i));
    bool ok = peek_scan(r, (uintptr_t)words, from, from + n, &found);
    EXPECT(ok || !readable);
    EXPECT(!ok || (found == from && is_readable(from, n > 0 ? 1 : 0)));
    EXPECT(out[n] == CANARY);
}

static void test_boundaries(enum peek_reader r)
{
    uint64_t *words = pages_new();
    size_t per_page = page_size / 8;
    for (size_t page = 1; page < PAGES; page++) {
        for (size_t from = page * per_page - NEAR; from < page * per_page + 2; from++) {
            for (size_t n = 0; n <= NEAR; n++)
                range_at(r, words, from, n);
        }
        for (uintptr_t by = 1; by < 8; by++) /* a word that spans both pages */
            EXPECT(refuses(r, (uintptr_t)(words + page * per_page) - by));
    }
    pages_free(words);
}

static void test_gather(enum peek_reader r)
{
    enum { MANY = 200, SPAN = 8192 }; /* more words than the syscall reader reads in one call */
    static uint64_t base[SPAN];
    uint16_t offsets[MANY];
    uint64_t out[MANY];
    fill(base, SPAN);
    for (unsigned i = 0; i < MANY; i++)
        offsets[i] = (uint16_t)(i * 5477U % SPAN * 8U);
    for (unsigned n = 0; n <= MANY; n = n % 64 < 2 || n % 64 > 61 ? n + 1 : n + 4) {
        memset(out, 0, sizeof out);
        EXPECT(peek_gather(r, (uintptr_t)base, offsets, n, out));
        for (unsigned i = 0; i < MANY; i++)
            EXPECT(out[i] == (i < n ? known(offsets[i] / 8) : 0));
    }
}

/* A change of a single bit is noticed, in whichever word it is. */
static void test_differ(enum peek_reader r)
{
    uint64_t base[PEEK_GATHER_MAX];
    uint64_t seen[PEEK_GATHER_MAX];
    uint16_t offsets[PEEK_GATHER_MAX];
    uint64_t bits = 1;
    fill(base, PEEK_GATHER_MAX);
    for (unsigned i = 0; i < PEEK_GATHER_MAX; i++)
        offsets[i] = (uint16_t)((PEEK_GATHER_MAX - 1 - i) * 8U);
    for (unsigned n = 0; n <= PEEK_GATHER_MAX; n++) {
        EXPECT(peek_gather(r, (uintptr_t)base, offsets, n, seen));
        EXPECT(peek_differ(r, (uintptr_t)base, offsets, n, seen, &bits) && bits == 0);
        for (unsigned i = 0; i < n; i++) {
            uint64_t bit = 1ULL << (i * 5 % 64);
            seen[i] ^= bit;
            EXPECT(peek_differ(r, (uintptr_t)base, offsets, n, seen, &bits) && bits == bit);
            seen[i] ^= bit;
        }
    }
}

static void test_block(enum peek_reader r)
{
    enum { WORDS = 5000 };
    static uint64_t from[WORDS];
    static uint64_t out[WORDS + 1];
    fill(from, WORDS);
    out[WORDS] = CANARY;
    EXPECT(peek_block(r, (uintptr_t)from, WORDS, out));
    EXPECT(memcmp(from, out, sizeof from) == 0);
    EXPECT(out[WORDS] == CANARY);
}

static void test_scan(enum peek_reader r)
{
    enum { WORDS = 26 };
    static uint64_t table[WORDS + 1];
    for (size_t from = 0; from <= WORDS; from++) {
        for (size_t to = from; to <= WORDS; to++) {
            for (size_t hit = 0; hit <= WORDS; hit++) {
                size_t found = ~(size_t)0;
                table[hit] = (uint64_t)1 << (hit * 7 % 64);
                EXPECT(peek_scan(r, (uintptr_t)table, from, to, &found));
                EXPECT(found == (hit >= from && hit < to ? hit : to));
                table[hit] = 0;
            }
        }
    }
}

static void test_scan_long(enum peek_reader r)
{
    enum { WORDS = 3001 };
    static uint64_t table[WORDS];
    static const size_t hits[] = {511, 512, 513, 1024, 2999, 3000};
    size_t found = 0;
    EXPECT(peek_scan(r, (uintptr_t)table, 1, WORDS, &found) && found == WORDS);
    for (size_t i = 0; i < sizeof hits / sizeof *hits; i++) {
        table[hits[i]] = 1;
        EXPECT(peek_scan(r, (uintptr_t)table, 1, WORDS, &found) && found == hits[i]);
        table[hits[i]] = 0;
    }
}

static void test_fault_count(enum peek_reader r)
{
    uint64_t caught = r == PEEK_GUARDED ? 5 : 0; /* refuses() tries five ways */
    uint64_t w = 0;
    uint64_t before = handler_faults();
    errno = EXDEV;
    EXPECT(refuses(r, 8));
    EXPECT(r == PEEK_SYSCALL || errno == EXDEV);
    EXPECT(handler_faults() == before + caught);
    EXPECT(peek_word(r, (uintptr_t)&w, &w));
    EXPECT(handler_faults() == before + caught);
}

/* ---- threads ------------------------------------------------------------------------------- */

static atomic_bool stop;

/* Writes each number to the first word and only then to the second. */
static void *count_up(void *arg)
{
    _Atomic uint64_t *pair = arg;
    for (uint64_t i = 1; !atomic_load_explicit(&stop, memory_order_relaxed); i++) {
        atomic_store_explicit(&pair[0], i, memory_order_release);
        atomic_store_explicit(&pair[1], i, memory_order_release);
    }
    return NULL;
}

/* A reader that reads the second word first never sees the first one behind it. */
static void test_order(enum peek_reader r)
{
    static _Atomic uint64_t pair[2];
    static const uint16_t second_first[2] = {8, 0};
    int rounds = r == PEEK_GUARDED ? 100000 : 10000;
    uint64_t out[2];
    pthread_t writer;
    bool kept = true;
    atomic_store(&pair[1], 0);
    atomic_store(&pair[0], 0);
    atomic_store(&stop, false);
    start(&writer, count_up, pair);
    for (int i = 0; i < rounds && kept; i++) {
        kept = peek_gather(r, (uintptr_t)pair, second_first, 2, out) && out[1] >= out[0] &&
               peek_word(r, (uintptr_t)&pair[1], &out[0]) &&
               peek_word(r, (uintptr_t)&pair[0], &out[1]) && out[1] >= out[0];
        peek_barrier();
    }
    EXPECT(kept);
    atomic_store(&stop, true);
    (void)pthread_join(writer, NULL);
}

struct crowd {
    enum peek_reader reader;
    uint64_t *page;
    atomic_long yes, no, wrong;
};

static void *read_while_it_flickers(void *arg)
{
    static const uint16_t offsets[3] = {16, 0, 8};
    struct crowd *c = arg;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        uint64_t out[8];
        size_t found = 0;
        uintptr_t p = (uintptr_t)c->page;
        bool word = peek_word(c->reader, p, out);
        bool right = !word || out[0] == known(0);
        if (peek_gather(c->reader, p, offsets, 3, out))
            right = right && out[0] == known(2) && out[1] == known(0) && out[2] == known(1);
        if (peek_block(c->reader, p + page_size - 64, 8, out))
            right = right && out[7] == known(page_size / 8 - 1);
        if (peek_scan(c->reader, p, 0, 8, &found))
            right = right && found == 0;
        atomic_fetch_add(word ? &c->yes : &c->no, 1);
        atomic_fetch_add(&c->wrong, !right);
    }
    return NULL;
}

static long now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Maps one address again and again: readable, cut off, readable, no access. */
static void flicker(struct crowd *c, int full, int empty)
{
    enum { USUAL = 300, AT_MOST = 10000 };
    long start_ms = now_ms();
    for (unsigned i = 0; now_ms() < start_ms + USUAL ||
                         (now_ms() < start_ms + AT_MOST && (c->yes < 100 || c->no < 100));
         i++) {
        int fd = i % 2 == 0 ? full : empty;
        int prot = i % 4 == 3 ? PROT_NONE : PROT_READ;
        void *p = mmap(c->page, page_size, prot, MAP_SHARED | MAP_FIXED, fd, 0);
        must(p == c->page, "mmap over");
        (void)sched_yield();
    }
}

static void test_crowd(enum peek_reader r)
{
    enum { THREADS = 3 };
    struct crowd c = {.reader = r, .page = map(page_size, PROT_NONE)};
    pthread_t threads[THREADS];
    int full = file_of(true);
    int empty = file_of(false);
    uint64_t before = handler_faults();
    atomic_store(&stop, false);
    for (int i = 0; i < THREADS; i++)
        start(&threads[i], read_while_it_flickers, &c);
    flicker(&c, full, empty);
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    EXPECT(c.yes > 0 && c.no > 0);
    EXPECT(c.wrong == 0);
    EXPECT(r == PEEK_SYSCALL || handler_faults() >= before + (uint64_t)c.no);
    must(munmap(c.page, page_size) == 0 && close(full) == 0 && close(empty) == 0, "close");
}

enum { STACK = 1 << 17 };

/* Catches a fault. If there is an alternate stack, the handler must have run on it. */
static void *fault_here(void *arg)
{
    unsigned char *alt = arg;
    stack_t ss = {.ss_flags = SS_DISABLE};
    stack_t old;
    if (alt != NULL) {
        memset(alt, CANARY, STACK);
        ss = (stack_t){.ss_sp = alt, .ss_size = STACK};
    }
    must(sigaltstack(&ss, &old) == 0, "sigaltstack");
    EXPECT(peek_ready(PEEK_GUARDED) == PEEK_GUARDED);
    EXPECT(refuses(PEEK_GUARDED, 8));
    (void)sigaltstack(&old, NULL);
    size_t untouched = 0;
    while (alt != NULL && !under_valgrind() && untouched < STACK && alt[untouched] == CANARY)
        untouched++;
    EXPECT(alt == NULL || untouched < STACK);
    return NULL;
}

static void test_stacks(enum peek_reader r)
{
    pthread_t t;
    if (r != PEEK_GUARDED)
        return;
    unsigned char *alt = map(STACK, PROT_READ | PROT_WRITE);
    start(&t, fault_here, alt);
    (void)pthread_join(t, NULL);
    start(&t, fault_here, NULL);
    (void)pthread_join(t, NULL);
    must(munmap(alt, STACK) == 0, "munmap");
}

/* ---- all of them --------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(enum peek_reader r);
} reading[] = {
    {"readable", test_readable},
    {"unreadable", test_unreadable},
    {"truncated file", test_truncated_file},
    {"misaligned", test_misaligned},
    {"edge", test_edge},
    {"boundaries", test_boundaries},
    {"gather", test_gather},
    {"the least difference is seen", test_differ},
    {"block", test_block},
    {"scan", test_scan},
    {"long scan", test_scan_long},
    {"fault count", test_fault_count},
    {"order", test_order},
    {"crowd", test_crowd},
    {"stacks", test_stacks},
};

static void test_reader(enum peek_reader r, const char *what)
{
    char name[64];
    begin(what);
    if (peek_ready(r) != r) {
        EXPECT(r == PEEK_SYSCALL || !ALWAYS_GUARDED);
        end("this reader does not work here");
        return;
    }
    for (size_t i = 0; i < sizeof reading / sizeof *reading; i++) {
        (void)snprintf(name, sizeof name, "%s: %s", what, reading[i].name);
        begin(name);
        reading[i].run(r);
        end(NULL);
    }
}

int main(void)
{
    set_up();
    test_reader(PEEK_SYSCALL, "syscall reader");
    test_reader(PEEK_GUARDED, "guarded reader");
    return outcome();
}
