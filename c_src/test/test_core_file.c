/* test_core_file.c: the memory of an OS process that has ended, read from a file.
 * Knows: what a reader promises. Does not know: how a core file is written. */
#include "test/test_peek.h"
#include "fuzz/failing_alloc.h"
#include "vm/core_file.h"
#include "vm/executable.h"

#include <sys/stat.h>

/* ---- a file of words, each of which is its own number -------------------------------------------------- */

#define PAGE       4096UL
#define PAGE_WORDS (PAGE / 8)
enum { PAGES = 6, WORDS = PAGES * PAGE_WORDS };

static char path[] = "/tmp/test_core_file.XXXXXX";
static int file;

static void write_file(size_t bytes)
{
    static uint64_t words[WORDS];
    for (unsigned i = 0; i < WORDS; i++)
        words[i] = i + 1;
    must(ftruncate(file, 0) == 0 && pwrite(file, words, bytes, 0) == (ssize_t)bytes, "write");
}

static struct core_seen seen_now(void)
{
    struct stat st;
    must(fstat(file, &st) == 0, "fstat");
    return (struct core_seen){(uint64_t)st.st_size, (uint64_t)st.st_mtime, st.st_ino};
}

static enum core_status open_core(const struct core_segment *s, size_t n, struct core_file **out)
{
    struct core_seen seen = seen_now();
    return core_file_open(path, &seen, (const unsigned char *)s, n, out);
}

/* Addresses of no memory of this process. Two segments lie side by side, and in the file the other way round;
 * behind them is a hole. */
#define AT   0x00A5000000000000ULL
#define HOLE (AT + 3ULL * PAGE)
#define LAST (AT + 8ULL * PAGE)
static const struct core_segment segments[] = {
    {AT, PAGE, 4 * PAGE}, {AT + PAGE, 2 * PAGE, PAGE}, {LAST, PAGE, 0}};
enum { SEGMENTS = sizeof segments / sizeof *segments };

static void test_reader(void)
{
    struct core_file *core;
    uint64_t w;
    uint64_t bits;
    uint64_t block[3 * PAGE_WORDS];
    size_t found;
    const uint16_t off[] = {16, 8, 4096, 16, 8};
    uint64_t got[5];
    write_file(WORDS * 8UL);
    EXPECT(open_core(segments, SEGMENTS, &core) == CORE_OK);
    peek_aim_core(core);
    enum peek_reader r = peek_ready(PEEK_OTHER);
    EXPECT(r == PEEK_OTHER);
    EXPECT(peek_word(r, AT, &w) && w == 4 * PAGE_WORDS + 1);
    EXPECT(peek_word(r, AT + PAGE, &w) && w == PAGE_WORDS + 1);
    EXPECT(peek_word(r, HOLE - 8, &w) && w == 3 * PAGE_WORDS);
    EXPECT(!peek_word(r, HOLE, &w) && !peek_word(r, AT - 8, &w));
    EXPECT(!peek_word(r, HOLE + PAGE, &w) && !peek_word(r, AT + 1, &w));
    EXPECT(peek_word(r, LAST + PAGE - 8, &w) && w == PAGE_WORDS);
    EXPECT(!peek_word(r, LAST + PAGE, &w) && !peek_word(r, 0ULL - 8, &w));
    EXPECT(peek_block(r, AT + PAGE - 8, 2, block) && block[0] == 5 * PAGE_WORDS &&
           block[1] == PAGE_WORDS + 1);
    EXPECT(peek_block(r, AT, 3UL * PAGE_WORDS, block) && block[PAGE_WORDS] == PAGE_WORDS + 1);
    EXPECT(!peek_block(r, AT, 3UL * PAGE_WORDS + 1, block));
    peek_expect(r, AT, off, 5);
    EXPECT(peek_gather(r, AT, off, 5, got) && got[0] == 4 * PAGE_WORDS + 3 &&
           got[2] == PAGE_WORDS + 1 && got[3] == got[0] && got[4] == got[1]);
    EXPECT(!peek_gather(r, HOLE - 16, off, 5, got));
    EXPECT(peek_gather(r, AT, off, 5, got) && peek_differ(r, AT, off, 5, got, &bits) && bits == 0);
    got[2] ^= 1;
    EXPECT(peek_differ(r, AT, off, 5, got, &bits) && bits != 0);
    EXPECT(peek_scan(r, AT, 0, 3UL * PAGE_WORDS, &found) && found == 0);
    EXPECT(!peek_scan(r, HOLE, 0, 3UL * PAGE_WORDS, &found));
    EXPECT(core_file_has(core, AT, 3 * PAGE) && !core_file_has(core, AT, 3 * PAGE + 1) &&
           !core_file_has(core, AT - 1, 2) && !core_file_has(core, LAST, UINT64_MAX));
    peek_aim_core(NULL);
    EXPECT(peek_ready(PEEK_OTHER) == PEEK_NONE);
    core_file_close(core);
    EXPECT(allocated == 0);
}

/* What is not in a file that was cut off is not read; nothing takes its place. */
static void test_cut_off(void)
{
    struct core_file *core;
    uint64_t w;
    write_file(2UL * PAGE + 100);
    EXPECT(open_core(segments, SEGMENTS, &core) == CORE_OK);
    peek_aim_core(core);
    EXPECT(!core_file_has(core, AT, 1) && core_file_has(core, AT + PAGE, PAGE + 100) &&
           !core_file_has(core, AT + PAGE, PAGE + 101));
    EXPECT(!peek_word(PEEK_OTHER, AT, &w));
    EXPECT(peek_word(PEEK_OTHER, AT + PAGE, &w) && w == PAGE_WORDS + 1);
    EXPECT(!peek_word(PEEK_OTHER, AT + 2 * PAGE, &w)); /* a page of which a part is there */
    EXPECT(peek_word(PEEK_OTHER, LAST, &w) && w == 1);
    peek_aim_core(NULL);
    core_file_close(core);
}

/* A file that is written or replaced meanwhile is none. */
static void test_changed(void)
{
    struct core_file *core;
    struct core_seen seen;
    write_file(WORDS * 8UL);
    seen = seen_now();
    for (unsigned i = 0; i < 3; i++) {
        struct core_seen other = seen;
        *(i == 0 ? &other.size : i == 1 ? &other.mtime : &other.inode) += 1;
        EXPECT(core_file_open(path, &other, (const unsigned char *)segments, SEGMENTS, &core) ==
               CORE_CHANGED);
    }
    EXPECT(core_file_open("/", &seen, (const unsigned char *)segments, SEGMENTS, &core) ==
           CORE_CHANGED);
    EXPECT(core_file_open("/nonexistent", &seen, (const unsigned char *)segments, SEGMENTS,
                          &core) == CORE_CHANGED);
    EXPECT(open_core(segments, SEGMENTS, &core) == CORE_OK);
    peek_aim_core(core);
    EXPECT(peek_ready(PEEK_OTHER) == PEEK_OTHER && core_file_is_same(core));
    must(ftruncate(file, WORDS * 8L + 1) == 0, "ftruncate");
    EXPECT(peek_ready(PEEK_OTHER) == PEEK_NONE && !core_file_is_same(core));
    peek_aim_core(NULL);
    core_file_close(core);
    EXPECT(open_core(segments, SEGMENTS, &core) == CORE_OK);
    const struct timespec times[2] = {{1, 0}, {1, 1}};
    must(futimens(file, times) == 0, "futimens");
    EXPECT(!core_file_is_same(core));
    core_file_close(core);
    EXPECT(allocated == 0);
}

static void test_refused(void)
{
    static struct core_segment many[CORE_SEGMENTS_MAX + 1];
    struct core_file *core;
    write_file(WORDS * 8UL);
    const struct core_segment wrong[][2] = {
        {{AT, PAGE, 0}, {AT, PAGE, 0}},             /* the same twice */
        {{AT + PAGE, PAGE, 0}, {AT, PAGE, 0}},      /* not in order */
        {{AT, PAGE + 1, 0}, {AT + PAGE, PAGE, 0}},  /* they overlap */
        {{AT, 0, 0}, {AT + PAGE, PAGE, 0}},         /* empty */
        {{0ULL - PAGE, PAGE + 1, 0}, {0, PAGE, 0}}, /* beyond the last address */
        {{AT, PAGE, INT64_MAX}, {AT + PAGE, PAGE, 0}},
        {{AT, UINT64_MAX - AT, 0}, {0, 0, 0}},
    };
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++)
        EXPECT(open_core(wrong[i], 2, &core) == CORE_BAD && !core);
    for (unsigned i = 0; i <= CORE_SEGMENTS_MAX; i++)
        many[i] = (struct core_segment){AT + i * 16ULL, 8, 8ULL * (i % WORDS)};
    EXPECT(open_core(many, CORE_SEGMENTS_MAX + 1, &core) == CORE_BAD);
    EXPECT(open_core(many, CORE_SEGMENTS_MAX, &core) == CORE_OK);
    uint64_t w;
    EXPECT(core_file_read(core, AT + 16ULL * (CORE_SEGMENTS_MAX - 1), &w, 8) &&
           w == (CORE_SEGMENTS_MAX - 1) % WORDS + 1);
    core_file_close(core);
    EXPECT(open_core(NULL, 0, &core) == CORE_OK && !core_file_has(core, AT, 1) &&
           core_file_has(core, AT, 0));
    core_file_close(core);
    fail_at = 1;
    EXPECT(open_core(segments, SEGMENTS, &core) == CORE_NOMEM && !core);
    fail_at = 0;
    core_file_close(NULL);
    EXPECT(allocated == 0);
}

/* ---- this program ------------------------------------------------------------------------------------- */

static const uint64_t constants[2] = {0x636F6E7374616E74, 0x7320676F20686572};
static uint64_t variable = 1;

static void test_program(void)
{
    const uintptr_t shift = 0x10000000;
    struct core_file *core;
    uint64_t w[2];
    write_file(WORDS * 8UL);
    EXPECT(open_core(segments, SEGMENTS, &core) == CORE_OK);
    uintptr_t at = (uintptr_t)constants + shift;
    EXPECT(!core_file_read(core, at, w, sizeof w));
    core_file_lend(core, shift);
    EXPECT(core_file_read(core, at, w, sizeof w) && w[0] == constants[0] && w[1] == constants[1]);
    EXPECT(core_file_has(core, at, sizeof w));
    /* what the other one may have changed is only in its file */
    EXPECT(!core_file_read(core, (uintptr_t)&variable + shift, w, 8));
    EXPECT(core_file_read(core, AT, w, 8) && w[0] == 4 * PAGE_WORDS + 1);
    core_file_close(core);
    EXPECT(executable_headers() != 0);
    uintptr_t id;
    size_t bytes;
    EXPECT(!executable_build_id(&id, &bytes) ||
           (id != 0 && bytes > 0 && bytes <= EXECUTABLE_ID_MAX));
}

int main(void)
{
#if defined(__linux__) && defined(__x86_64__)
    file = mkstemp(path);
    must(file >= 0, "mkstemp");
    running = "reader", test_reader();
    running = "cut off", test_cut_off();
    running = "changed", test_changed();
    running = "refused", test_refused();
    running = "program", test_program();
    (void)unlink(path);
#endif
    variable += (uint64_t)complaints;
    (void)printf("%d complaints\n", complaints);
    return complaints > 0;
}
