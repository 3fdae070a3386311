/* test_peek.h: shared by the test programs of peek.c.
 * Knows: how to make memory that cannot be read, how to count tests.
 * Does not know: what is tested. */
#ifndef SONDE_TEST_PEEK_H
#define SONDE_TEST_PEEK_H

#include "vm/handler.h"
#include "vm/peek.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

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

static inline bool expect(bool ok, const char *what, int line)
{
    if (!ok && complaints++ < 5)
        (void)printf("FAILED %s: %s (line %d)\n", running, what, line);
    return ok;
}

#define EXPECT(cond) expect((cond), #cond, __LINE__)

/* For steps of a test that must not fail, in this process or in a child. */
static inline void must(bool ok, const char *what)
{
    if (!ok) {
        perror(what);
        _exit(98);
    }
}

static inline void pause_ms(long ms)
{
    struct timespec t = {0, ms * 1000000};
    (void)nanosleep(&t, NULL);
}

/* Valgrind delivers signals in its own way (another SIGBUS, no restarts), and its reports about
 * them do not concern peek. It also needs --vex-iropt-unroll-thresh=0: it reports a wrong program
 * counter for a fault in a loop that it unrolled. */
static inline bool under_valgrind(void)
{
    const char *preload = getenv("LD_PRELOAD"); // NOLINT(concurrency-mt-unsafe)
    return preload != NULL && strstr(preload, "vgpreload") != NULL;
}

static int passed, failed;

static inline void begin(const char *name)
{
    running = name;
    complaints = 0;
}

static inline void end(const char *skipped)
{
    if (complaints)
        failed++;
    else if (skipped)
        (void)printf("skipped %s: %s\n", running, skipped);
    else
        passed++;
}

static inline int outcome(void)
{
    (void)printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}

/* ---- memory -------------------------------------------------------------------------------- */

static size_t page_size;

/* Before all tests. */
static inline void set_up(void)
{
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    page_size = (size_t)sysconf(_SC_PAGESIZE);
}

static inline uint64_t known(size_t i)
{
    return 0x5eed000000000000U + i;
}

static inline void fill(uint64_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        words[i] = known(i);
}

static inline void *map(size_t bytes, int prot)
{
    void *p = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(p != MAP_FAILED, "mmap");
    return p;
}

/* A temporary file: empty, or with a page of known words. */
static inline int file_of(bool full)
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

/* A page of a truncated file: SIGBUS instead of SIGSEGV. */
static inline uint64_t *cut_page(void)
{
    int fd = file_of(true);
    void *p = mmap(NULL, page_size, PROT_READ, MAP_SHARED, fd, 0);
    must(p != MAP_FAILED && ftruncate(fd, 0) == 0 && close(fd) == 0, "cut_page");
    return p;
}

/* All five ways to read fail at this address. */
static inline bool refuses(enum peek_reader r, uintptr_t addr)
{
    static const uint16_t offsets[2] = {0, 8};
    uint64_t out[2];
    size_t found = 0;
    return !peek_word(r, addr, out) && !peek_gather(r, addr, offsets, 2, out) &&
           !peek_differ(r, addr, offsets, 2, out, &out[0]) && !peek_block(r, addr, 2, out) &&
           !peek_scan(r, addr, 0, 2, &found);
}

static inline void start(pthread_t *t, void *(*run)(void *), void *arg)
{
    must(pthread_create(t, NULL, run, arg) == 0, "pthread_create");
}

#endif
