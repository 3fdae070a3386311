/* test_leftovers.c: how much of a large block goes back to the system in each step, and that all of it does.
 * Knows: which pages are in memory. Does not know: how long a step takes. */
#include "test/test_peek.h"
#include "util/leftovers.h"

enum {
    WHOLE = 10,
    SMALL_BYTES = LEFTOVER_ALONE / 2,
    SMALL_N = 2 * LEFTOVER_STEP / SMALL_BYTES + 1,
    ALONE_N = 5
};

static unsigned released;

static void release(void *block)
{
    released++;
    free(block);
}

static void *touched(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *block = aligned_alloc(page, (bytes + page - 1) / page * page);
    must(block != NULL, "aligned_alloc");
    memset(block, 1, bytes);
    return block;
}

/* Bytes of whole pages that are in memory. */
static size_t in_memory(void *block, size_t bytes)
{
    static unsigned char pages[1 << 16];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t n = bytes / page;
    size_t sum = 0;
    must(n <= sizeof pages && mincore(block, n * page, pages) == 0, "mincore");
    for (size_t i = 0; i < n; i++)
        sum += pages[i] & 1 ? page : 0;
    return sum;
}

static bool take(struct leftovers *l, void *block, size_t bytes)
{
    leftovers_collect(l);
    bool taken = leftovers_take(block, bytes);
    leftovers_collect(NULL);
    return taken;
}

static void test_only_asked(void)
{
    struct leftovers l = {NULL};
    void *block = touched(LEFTOVER_STEP);
    running = "collects only large blocks, and only between the calls";
    EXPECT(!leftovers_take(block, LEFTOVER_STEP));
    EXPECT(!take(&l, block, LEFTOVER_MIN - 1));
    EXPECT(take(&l, block, LEFTOVER_MIN));
    EXPECT(!leftovers_take(block, LEFTOVER_STEP));
    released = 0;
    EXPECT(leftovers_step(&l, release) && released == 1);
    EXPECT(leftovers_step(&l, release) && released == 1);
}

/* The pages' count is Linux's: elsewhere the advice may do nothing. */
static void test_large(void)
{
    size_t bytes = (size_t)WHOLE * LEFTOVER_STEP;
    struct leftovers l = {NULL};
    void *block = touched(bytes);
    size_t before = in_memory(block, bytes);
    running = "a large block goes back a step at a time";
    EXPECT(before == bytes && take(&l, block, bytes));
    released = 0;
    for (unsigned i = 1; i < WHOLE; i++) {
        EXPECT(!leftovers_step(&l, release) && released == 0);
#if defined(__linux__)
        size_t now = in_memory(block, bytes);
        EXPECT(before - now == LEFTOVER_STEP);
        before = now;
#endif
    }
    EXPECT(leftovers_step(&l, release) && released == 1);
}

static void test_small(void)
{
    struct leftovers l = {NULL};
    unsigned steps = 1;
    running = "smaller blocks go back as many at a time as fit in a step";
    for (unsigned i = 0; i < SMALL_N; i++)
        EXPECT(take(&l, touched(SMALL_BYTES), SMALL_BYTES));
    for (released = 0; !leftovers_step(&l, release); steps++)
        EXPECT(released <= steps * LEFTOVER_STEP / SMALL_BYTES);
    EXPECT(released == SMALL_N && steps == 3);
}

static void test_alone(void)
{
    struct leftovers l = {NULL};
    running = "a block with a segment of its own goes back alone";
    for (unsigned i = 0; i < ALONE_N; i++)
        EXPECT(take(&l, touched(LEFTOVER_ALONE), LEFTOVER_ALONE));
    released = 0;
    for (unsigned i = 1; i <= ALONE_N; i++)
        EXPECT(leftovers_step(&l, release) == (i == ALONE_N) && released == i);
}

/* In the middle, as a destructor does it. */
static void test_all(void)
{
    struct leftovers l = {NULL};
    const size_t bytes = (size_t)3 * LEFTOVER_STEP;
    running = "a destructor frees what is left";
    for (unsigned i = 0; i < 3; i++)
        EXPECT(take(&l, touched(bytes), bytes));
    released = 0;
    EXPECT(!leftovers_step(&l, release));
    leftovers_free(&l, release);
    EXPECT(released == 3 && !l.first);
}

int main(void)
{
    test_only_asked();
    test_large();
    test_small();
    test_alone();
    test_all();
    return complaints > 0;
}
