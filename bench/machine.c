/* machine.c: what this machine's memory can do. Not shipped.
 * Knows: the time of a load that waits for the one before it, and the rate of loads that do not.
 * Does not know: sonde, or the VM. */
#include <erl_nif.h>

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* More than any cache holds. A line has eight words, the first of which is the number of the next. */
enum { WORDS = 32 << 20, LINE = 8, LINES = WORDS / LINE, LOADS = 4 << 20, SUMS = 3 };

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* One cycle through all lines, in random order (Sattolo's algorithm). */
static void link_lines(uint64_t *words)
{
    uint64_t random = 88172645463325252U;
    for (uint64_t i = 0; i < WORDS; i++)
        words[i] = i / LINE;
    for (uint64_t i = LINES - 1; i > 0; i--) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        uint64_t *a = &words[i * LINE];
        uint64_t *b = &words[random % i * LINE];
        uint64_t swapped = *a;
        *a = *b;
        *b = swapped;
    }
}

static double load_ns(const uint64_t *words, uint64_t *last)
{
    uint64_t at = 0;
    double start = now_ns();
    for (unsigned i = 0; i < LOADS; i++)
        at = words[at * LINE];
    *last = at;
    return (now_ns() - start) / LOADS;
}

/* Several sums, because one addition would wait for the one before it. */
static double sum_ns(const uint64_t *words, uint64_t *sum)
{
    uint64_t s[4] = {0};
    double start = now_ns();
    for (size_t i = 0; i < WORDS; i += 4) {
        for (unsigned k = 0; k < 4; k++)
            s[k] += words[i + k];
    }
    *sum += s[0] + s[1] + s[2] + s[3];
    return now_ns() - start;
}

static ERL_NIF_TERM memory(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc, (void)argv;
    /* (): {Ns of a random load, GB/s of the fastest sum, a number that needs all loads} */
    uint64_t *words = malloc(WORDS * sizeof *words);
    uint64_t seen = 0;
    double fastest = 0;
    if (!words)
        return enif_make_badarg(env);
    link_lines(words);
    double load = load_ns(words, &seen);
    for (unsigned i = 0; i < SUMS; i++) {
        double ns = sum_ns(words, &seen);
        if (i == 0 || ns < fastest)
            fastest = ns;
    }
    free(words);
    return enif_make_tuple3(env, enif_make_double(env, load),
                            enif_make_double(env, (double)WORDS * sizeof *words / fastest),
                            enif_make_uint64(env, seen));
}

static ErlNifFunc functions[] = {{"memory", 0, memory, ERL_NIF_DIRTY_JOB_CPU_BOUND}};

ERL_NIF_INIT(bench_machine, functions, NULL, NULL, NULL, NULL)
