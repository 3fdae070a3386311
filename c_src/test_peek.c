/* test_peek.c: tests of peek.c, without a VM: what it reads, and that no signal changes its meaning.
 * Knows: how to make memory that cannot be read, and children that are meant to die.
 * Does not know: how peek does it.
 *
 * Prints a line for what failed or was skipped, and the totals. A child without our handler is the
 * measure for one with it: the wait statuses must be the same. */
#include "peek.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

#if defined(__SANITIZE_ADDRESS__)
#define ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASAN 1
#endif
#endif
#ifndef ASAN
#define ASAN 0
#endif

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#define ALWAYS_GUARDED 1
#else
#define ALWAYS_GUARDED 0
#endif

/* ---- the harness --------------------------------------------------------------------------- */

static const char *running = "";
static int complaints;

static bool expect(bool ok, const char *what, int line)
{
    if (!ok && complaints++ < 5)
        (void)printf("FAILED %s: %s (line %d)\n", running, what, line);
    return ok;
}

#define EXPECT(cond) expect((cond), #cond, __LINE__)

/* For the steps of a test that must not fail, here or in a child. */
static void must(bool ok, const char *what)
{
    if (!ok) {
        perror(what);
        _exit(98);
    }
}

static void pause_ms(long ms)
{
    struct timespec t = {0, ms * 1000000};
    (void)nanosleep(&t, NULL);
}

/* Valgrind delivers signals in a way of its own (another SIGBUS, no restarts), and none of what it
 * says about them is about us. It also needs --vex-iropt-unroll-thresh=0: in a loop that it has
 * unrolled, the program counter of a fault is off. */
static bool under_valgrind(void)
{
    const char *preload = getenv("LD_PRELOAD"); // NOLINT(concurrency-mt-unsafe)
    return preload != NULL && strstr(preload, "vgpreload") != NULL;
}

/* ---- memory -------------------------------------------------------------------------------- */

static size_t page_size;

static uint64_t known(size_t i)
{
    return 0x5eed000000000000U + i;
}

static void fill(uint64_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        words[i] = known(i);
}

static void *map(size_t bytes, int prot)
{
    void *p = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(p != MAP_FAILED, "mmap");
    return p;
}

/* A temporary file: a page of known words, or nothing at all. */
static int file_of(bool full)
{
    FILE *f = tmpfile();
    must(f != NULL, "tmpfile");
    for (size_t i = 0; full && i < page_size / 8; i++) {
        uint64_t w = known(i);
        must(fwrite(&w, sizeof w, 1, f) == 1, "fwrite");
    }
    must(fflush(f) == 0, "fflush");
    return dup(fileno(f)); /* the stream itself is left to exit() */
}

/* A page whose file has been cut away under it: SIGBUS instead of SIGSEGV. */
static uint64_t *cut_page(void)
{
    int fd = file_of(true);
    void *p = mmap(NULL, page_size, PROT_READ, MAP_SHARED, fd, 0);
    must(p != MAP_FAILED && ftruncate(fd, 0) == 0 && close(fd) == 0, "cut_page");
    return p;
}

enum gone { UNMAPPED, NO_ACCESS, CUT_OFF, GONES };

/* A page of zeros, and after it a page that cannot be read. The end of the first is returned. */
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

/* What cannot be read cannot be read in any of the five ways. */
static bool refuses(enum peek_reader r, uintptr_t addr)
{
    static const uint16_t offsets[2] = {0, 8};
    uint64_t out[2];
    size_t found = 0;
    return !peek_word(r, addr, out) && !peek_gather(r, addr, offsets, 2, out) &&
           !peek_differ(r, addr, offsets, 2, out, &out[0]) && !peek_block(r, addr, 2, out) &&
           !peek_scan(r, addr, 0, 2, &found);
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

/* `n` words from `before` words ahead of the edge: all of them, or a clean no. */
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

/* Nothing but zeros, then with a hit at each place that can be read. */
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
        EXPECT(ok || n > before); /* it may have read ahead */
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

static void test_gather(enum peek_reader r)
{
    enum { MANY = 200, SPAN = 8192 }; /* more than one call of the syscall reader takes */
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

/* Every single bit that is not as it was is seen, wherever it is. */
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
    uint64_t before = peek_faults();
    errno = EXDEV;
    EXPECT(refuses(r, 8));
    EXPECT(r == PEEK_SYSCALL || errno == EXDEV);
    EXPECT(peek_faults() == before + caught);
    EXPECT(peek_word(r, (uintptr_t)&w, &w));
    EXPECT(peek_faults() == before + caught);
}

/* ---- threads ------------------------------------------------------------------------------- */

static void start(pthread_t *t, void *(*run)(void *), void *arg)
{
    must(pthread_create(t, NULL, run, arg) == 0, "pthread_create");
}

static atomic_bool stop;

/* Counts one word up and only then another. */
static void *count_up(void *arg)
{
    _Atomic uint64_t *pair = arg;
    for (uint64_t i = 1; !atomic_load_explicit(&stop, memory_order_relaxed); i++) {
        atomic_store_explicit(&pair[0], i, memory_order_release);
        atomic_store_explicit(&pair[1], i, memory_order_release);
    }
    return NULL;
}

/* Read in the opposite order, the first can never be behind the second. */
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

/* Readable, no access, cut off, readable, ... at one address. */
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
    uint64_t before = peek_faults();
    atomic_store(&stop, false);
    for (int i = 0; i < THREADS; i++)
        start(&threads[i], read_while_it_flickers, &c);
    flicker(&c, full, empty);
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    EXPECT(c.yes > 0 && c.no > 0);
    EXPECT(c.wrong == 0);
    EXPECT(r == PEEK_SYSCALL || peek_faults() >= before + (uint64_t)c.no);
    must(munmap(c.page, page_size) == 0 && close(full) == 0 && close(empty) == 0, "close");
}

enum { STACK = 1 << 17 };

/* A caught fault, and did the alternate stack (if there is one) see it? */
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

/* ---- children ------------------------------------------------------------------------------ */

/* In a child: a page that faults, one that gives SIGBUS, and the two ends of a talk with us. */
static volatile uint64_t *trap;
static volatile uint64_t *hole;
static int ready_fd, go_fd;
static const char *core_dir;

enum { PATIENCE = 4, MUCH_PATIENCE = 60 }; /* seconds */

static void die_with_parent(void)
{
#if defined(__linux__)
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
}

static void be_a_child(unsigned seconds)
{
    struct rlimit core = {0, 0};
    die_with_parent();
    (void)alarm(seconds);
    int null =
        open("/dev/null", O_WRONLY | O_CLOEXEC); /* sanitizers and emulators comment deaths */
    must(null >= 0 && dup2(null, STDERR_FILENO) >= 0, "/dev/null");
    (void)getrlimit(RLIMIT_CORE, &core);
    core.rlim_cur = core_dir ? core.rlim_max : 0;
    (void)setrlimit(RLIMIT_CORE, &core);
    must(!core_dir || chdir(core_dir) == 0, "chdir");
}

/* Runs `body` in a child; returns its wait status. */
static int child(void (*body)(void))
{
    (void)fflush(NULL);
    pid_t pid = fork();
    must(pid >= 0, "fork");
    if (pid == 0) {
        be_a_child(MUCH_PATIENCE);
        body();
        _exit(97);
    }
    int status = 0;
    must(waitpid(pid, &status, 0) == pid, "waitpid");
    return status;
}

static bool blocked(int sig)
{
    sigset_t now;
    return pthread_sigmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, sig) == 1;
}

/* What the program had installed before us: handlers that tell by the exit code what they saw. */

enum { SAW_ADDRESS = 1, SAW_SENDER = 2, SAW_MASK = 4, SAW_SELF_BLOCKED = 8, SAW_INFO = 64 };

// cppcheck-suppress constParameter; a handler has this type
static void tell_info(int sig, siginfo_t *si, void *ctx)
{
    int saw = SAW_INFO;
    if (si->si_addr == (void *)trap)
        saw |= SAW_ADDRESS;
    else if (si->si_pid == getppid())
        saw |= SAW_SENDER;
    if (blocked(SIGUSR1))
        saw |= SAW_MASK;
    if (blocked(sig))
        saw |= SAW_SELF_BLOCKED;
    _exit(ctx != NULL && si->si_signo == sig ? saw : 1);
}

static void tell_signal(int sig)
{
    _exit(sig);
}

static void do_nothing(int sig)
{
    (void)sig;
}

static volatile sig_atomic_t repairs;

static void repair(int sig)
{
    (void)sig;
    repairs++;
    (void)mprotect((void *)trap, page_size, PROT_READ); // NOLINT(bugprone-signal-handler)
}

static void fault_again(int sig)
{
    (void)sig;
    (void)*trap;
}

struct had {
    void (*handler)(int);
    void (*action)(int, siginfo_t *, void *);
    int flags;
};

static const struct had dfl = {SIG_DFL, NULL, 0};
static const struct had dfl_info = {SIG_DFL, NULL, SA_SIGINFO};
static const struct had ign = {SIG_IGN, NULL, 0};
static const struct had ign_info = {SIG_IGN, NULL, SA_SIGINFO};
static const struct had info = {NULL, tell_info, SA_SIGINFO};
static const struct had info_nodefer = {NULL, tell_info, SA_SIGINFO | SA_NODEFER};
static const struct had plain = {tell_signal, NULL, 0};
static const struct had idle = {do_nothing, NULL, 0};
static const struct had idle_restart = {do_nothing, NULL, SA_RESTART};
static const struct had idle_once = {do_nothing, NULL, (int)SA_RESETHAND};
static const struct had repairing = {repair, NULL, 0};
static const struct had repairing_once = {repair, NULL, (int)SA_RESETHAND};
static const struct had clumsy = {fault_again, NULL, 0};

static void install(const struct had *had)
{
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    (void)sigemptyset(&sa.sa_mask);
    (void)sigaddset(&sa.sa_mask, SIGUSR1);
    if (had->action)
        sa.sa_sigaction = had->action;
    else
        sa.sa_handler = had->handler;
    sa.sa_flags = had->flags;
    must(sigaction(SIGSEGV, &sa, NULL) == 0 && sigaction(SIGBUS, &sa, NULL) == 0, "sigaction");
}

/* What then happens. */

static void do_fault(void)
{
    (void)*trap;
}

static void do_bus(void)
{
    (void)*hole;
}

static void do_raise(void)
{
    (void)raise(SIGSEGV);
}

/* After a repair the load goes on with the value, and the mask is what it was. */
static void do_fault_twice(void)
{
    if (*trap != 0 || repairs != 1 || blocked(SIGUSR1) || blocked(SIGSEGV))
        _exit(2);
    (void)mprotect((void *)trap, page_size, PROT_NONE);
    if (*trap != 0 || repairs != 2)
        _exit(3);
}

static void do_raise_twice(void)
{
    (void)pthread_kill(pthread_self(), SIGSEGV);
    (void)pthread_kill(pthread_self(), SIGSEGV);
}

/* The parent sends a signal while we wait for the end of the pipe. 4: the wait was broken off. */
static void do_wait(void)
{
    char c = 0;
    must(write(ready_fd, &c, 1) == 1, "write");
    if (read(go_fd, &c, 1) != 0)
        _exit(4);
}

static const struct scenario {
    const char *name;
    const struct had *had;
    void (*happens)(void); /* do_wait: the parent sends SIGSEGV */
    int exits, dies;       /* expected: exit code, or signal */
} scenarios[] = {
    {"default, fault", &dfl, do_fault, 0, SIGSEGV},
    {"default, SIGBUS fault", &dfl, do_bus, 0, SIGBUS},
    {"default, kill", &dfl, do_wait, 0, SIGSEGV},
    {"default, raise", &dfl, do_raise, 0, SIGSEGV},
    {"default with SA_SIGINFO, fault", &dfl_info, do_fault, 0, SIGSEGV},
    {"default with SA_SIGINFO, kill", &dfl_info, do_wait, 0, SIGSEGV},
    {"ignored, fault", &ign, do_fault, 0, SIGSEGV},
    {"ignored, SIGBUS fault", &ign, do_bus, 0, SIGBUS},
    {"ignored, kill", &ign, do_wait, 0, 0},
    {"ignored, raise", &ign, do_raise, 0, 0},
    {"ignored with SA_SIGINFO, kill", &ign_info, do_wait, 0, 0},
    {"ignored with SA_SIGINFO, fault", &ign_info, do_fault, 0, SIGSEGV},
    {"siginfo handler, fault", &info, do_fault,
     SAW_INFO | SAW_ADDRESS | SAW_MASK | SAW_SELF_BLOCKED, 0},
    {"siginfo handler, kill", &info, do_wait, SAW_INFO | SAW_SENDER | SAW_MASK | SAW_SELF_BLOCKED,
     0},
    {"SA_NODEFER handler, fault", &info_nodefer, do_fault, SAW_INFO | SAW_ADDRESS | SAW_MASK, 0},
    {"plain handler, fault", &plain, do_fault, SIGSEGV, 0},
    {"plain handler, SIGBUS fault", &plain, do_bus, SIGBUS, 0},
    {"plain handler, kill", &plain, do_wait, SIGSEGV, 0},
    {"handler that returns, kill", &idle, do_wait, 4, 0},
    {"SA_RESTART handler, kill", &idle_restart, do_wait, 0, 0},
    {"handler that repairs, two faults", &repairing, do_fault_twice, 0, 0},
    {"SA_RESETHAND handler, one fault", &repairing_once, do_fault, 0, 0},
    {"SA_RESETHAND handler, two faults", &repairing_once, do_fault_twice, 0, SIGSEGV},
    {"SA_RESETHAND handler, two raises", &idle_once, do_raise_twice, 0, SIGSEGV},
    {"handler that faults itself", &clumsy, do_fault, 0, SIGSEGV},
};

static void play(const struct scenario *s, bool with_us)
{
    be_a_child(PATIENCE);
    install(s->had);
    if (with_us && peek_ready(PEEK_GUARDED) != PEEK_GUARDED)
        _exit(99);
    if (with_us && !refuses(PEEK_GUARDED, (uintptr_t)trap))
        _exit(96);
    s->happens();
    _exit(0);
}

/* The wait status of a child that goes through the scenario. */
static int outcome(const struct scenario *s, bool with_us)
{
    int ready[2];
    int go[2];
    must(pipe(ready) == 0 && pipe(go) == 0, "pipe");
    (void)fflush(NULL);
    pid_t pid = fork();
    must(pid >= 0, "fork");
    if (pid == 0) {
        ready_fd = ready[1];
        go_fd = go[0];
        must(close(go[1]) == 0, "close");
        play(s, with_us);
    }
    must(close(ready[1]) == 0 && close(go[0]) == 0, "close");
    char c = 0;
    if (s->happens == do_wait && read(ready[0], &c, 1) == 1) {
        pause_ms(10);
        (void)kill(pid, SIGSEGV);
        pause_ms(2);
    }
    int status = 0;
    must(close(go[1]) == 0 && waitpid(pid, &status, 0) == pid, "waitpid");
    must(close(ready[0]) == 0, "close");
    return status;
}

static const char *test_scenario(const struct scenario *s)
{
    int without = outcome(s, false);
    if (WIFSIGNALED(without) && WTERMSIG(without) == SIGALRM)
        return "a child without our handler hangs"; /* a bug of qemu-user */
    int with = outcome(s, true);
    bool right = s->dies ? WIFSIGNALED(without) && WTERMSIG(without) == s->dies
                         : WIFEXITED(without) && WEXITSTATUS(without) == s->exits;
    if (with != without)
        (void)printf("%s: wait status %#x without us, %#x with us\n", s->name, without, with);
    EXPECT(with == without);
    return right ? NULL : "the same with our handler and without, but not what Linux does";
}

static void empty_and_remove(const char *dir)
{
    DIR *d = opendir(dir);
    must(d != NULL, "opendir");
    for (struct dirent *e = readdir(d); e; e = readdir(d)) // NOLINT(concurrency-mt-unsafe)
        (void)unlinkat(dirfd(d), e->d_name, 0);
    (void)closedir(d);
    (void)rmdir(dir);
}

/* A death leaves a core where it would have left one without us. */
static const char *test_core(void)
{
    static const struct scenario fault = {"core of a fault", &dfl, do_fault, 0, SIGSEGV};
    static const struct scenario sent = {"core of a kill", &dfl, do_wait, 0, SIGSEGV};
    char dir[] = "/tmp/test_peek.XXXXXX";
    char pattern = 0;
    int fd = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!read(fd, &pattern, 1);
        (void)close(fd);
    }
    if (ASAN || pattern == '|' || pattern == '/')
        return "cores are not ours to make here";
    must(mkdtemp(dir) != NULL, "mkdtemp");
    core_dir = dir;
    bool cores = WCOREDUMP(outcome(&fault, false));
    if (cores) {
        (void)test_scenario(&fault);
        (void)test_scenario(&sent);
    }
    core_dir = NULL;
    empty_and_remove(dir);
    return cores ? NULL : "a child without our handler leaves no core either";
}

/* ---- children: which reader works ----------------------------------------------------------- */

/* In a child: the exit code is the line of the first check that failed. */
#define CHILD_EXPECT(cond)                                                                         \
    do {                                                                                           \
        if (!(cond))                                                                               \
            _exit(__LINE__ % 251 + 1);                                                             \
    } while (0)

static void change_mask(int how, int sig)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, sig);
    must(pthread_sigmask(how, &set, NULL) == 0, "pthread_sigmask");
}

static void replaced_or_blocked(void)
{
    static const int sigs[2] = {SIGSEGV, SIGBUS};
    enum peek_reader other = peek_ready(PEEK_SYSCALL); /* NONE under an emulator */
    install(&dfl);
    CHILD_EXPECT(peek_ready(PEEK_NONE) == PEEK_NONE);
    for (int i = 0; i < 2; i++) {
        struct sigaction ours;
        struct sigaction theirs;
        CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_GUARDED);
        change_mask(SIG_BLOCK, sigs[i]);
        CHILD_EXPECT(peek_ready(PEEK_GUARDED) == other);
        change_mask(SIG_UNBLOCK, sigs[i]);
        CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_GUARDED);
        memset(&theirs, 0, sizeof theirs);
        theirs.sa_handler = tell_signal;
        CHILD_EXPECT(sigaction(sigs[i], &theirs, &ours) == 0);
        CHILD_EXPECT(peek_ready(PEEK_GUARDED) == other);
        theirs = ours;
        theirs.sa_flags &= ~SA_ONSTACK;
        CHILD_EXPECT(sigaction(sigs[i], &theirs, NULL) == 0);
        CHILD_EXPECT(peek_ready(PEEK_GUARDED) == other);
        CHILD_EXPECT(sigaction(sigs[i], &ours, NULL) == 0);
    }
    CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_GUARDED);
    CHILD_EXPECT(refuses(PEEK_GUARDED, (uintptr_t)trap));
    _exit(0);
}

/* Asked for the syscall reader, we touch no handler. */
static void syscall_installs_nothing(void)
{
    struct sigaction now;
    install(&plain);
    (void)peek_ready(PEEK_SYSCALL);
    CHILD_EXPECT(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == tell_signal);
    CHILD_EXPECT(sigaction(SIGBUS, NULL, &now) == 0 && now.sa_handler == tell_signal);
    _exit(0);
}

static pthread_t target;
enum { SENT = 300 };
static atomic_int sent_signals, seen_signals;

static void count_seen(int sig)
{
    (void)sig;
    atomic_fetch_add(&seen_signals, 1);
}

static const struct had counting = {count_seen, NULL, 0};

static void *send_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < SENT; i++) {
        must(pthread_kill(target, SIGSEGV) == 0, "pthread_kill");
        atomic_fetch_add(&sent_signals, 1);
        while (atomic_load(&seen_signals) < atomic_load(&sent_signals))
            (void)sched_yield();
    }
    atomic_store(&stop, true);
    return NULL;
}

/* A signal that somebody sends in the middle of a guarded load is not a fault. */
static void sent_while_reading(void)
{
    static uint64_t zeros[512];
    pthread_t sender;
    install(&counting);
    CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_GUARDED);
    target = pthread_self();
    atomic_store(&stop, false);
    start(&sender, send_many, NULL);
    while (!atomic_load(&stop)) {
        size_t found = 0;
        CHILD_EXPECT(peek_scan(PEEK_GUARDED, (uintptr_t)zeros, 0, 512, &found));
        CHILD_EXPECT(found == 512);
    }
    CHILD_EXPECT(peek_faults() == 0 && atomic_load(&seen_signals) == SENT);
    _exit(0);
}

enum { NOT_HERE = 95 };

#if defined(__linux__)
/* No handler of ours, and the system call denied: no reader, and no harm. */
static void denied(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    install(&dfl);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        _exit(NOT_HERE);
    CHILD_EXPECT(peek_ready(PEEK_SYSCALL) == PEEK_NONE);
    CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_GUARDED);
    change_mask(SIG_BLOCK, SIGSEGV);
    CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_NONE);
    change_mask(SIG_UNBLOCK, SIGSEGV);
    install(&plain);
    CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_NONE);
    _exit(0);
}

/* As the first process of a container: a sent signal does nothing, a fault kills. */
static void first_process(void)
{
    /* No system call reader: an emulator, whose first process cannot die of a fault. */
    if (peek_ready(PEEK_SYSCALL) != PEEK_SYSCALL || unshare(CLONE_NEWPID) != 0)
        _exit(NOT_HERE);
    pid_t pid = fork();
    if (pid == 0) {
        die_with_parent();
        if (getpid() != 1)
            _exit(NOT_HERE);
        install(&dfl);
        CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_GUARDED);
        CHILD_EXPECT(raise(SIGSEGV) == 0);
        CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_GUARDED);
        (void)*trap;
        _exit(0);
    }
    int status = 0;
    must(pid > 0 && waitpid(pid, &status, 0) == pid, "waitpid");
    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status) == 0 ? 1 : WEXITSTATUS(status));
    _exit(WTERMSIG(status) == SIGSEGV ? 0 : 2);
}
#else
static void denied(void)
{
    _exit(NOT_HERE);
}

static void first_process(void)
{
    _exit(NOT_HERE);
}
#endif

static const char *test_child(void (*body)(void))
{
    int status = child(body);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_HERE)
        return "not possible here";
    if (status != 0)
        (void)printf("%s: wait status %#x\n", running, status);
    EXPECT(status == 0);
    return NULL;
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

static const struct {
    const char *name;
    void (*body)(void);
} children[] = {
    {"handler replaced, signal blocked", replaced_or_blocked},
    {"syscall reader installs nothing", syscall_installs_nothing},
    {"signals sent while reading", sent_while_reading},
    {"system call denied", denied},
    {"first process of a container", first_process},
};

static int passed, failed;

static void begin(const char *name)
{
    running = name;
    complaints = 0;
}

static void end(const char *skipped)
{
    if (complaints)
        failed++;
    else if (skipped)
        (void)printf("skipped %s: %s\n", running, skipped);
    else
        passed++;
}

static void test_signals(void)
{
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        begin(scenarios[i].name);
        end(test_scenario(&scenarios[i]));
    }
    for (size_t i = 0; i < sizeof children / sizeof *children; i++) {
        begin(children[i].name);
        end(test_child(children[i].body));
    }
    begin("core");
    end(test_core());
}

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
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    page_size = (size_t)sysconf(_SC_PAGESIZE);
    trap = map(page_size, PROT_NONE);
    hole = cut_page();
    begin("signals");
    if (under_valgrind())
        end("not under valgrind");
    else
        test_signals(); /* first: they need a process without our handler */
    test_reader(PEEK_SYSCALL, "syscall reader");
    test_reader(PEEK_GUARDED, "guarded reader");
    (void)printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
