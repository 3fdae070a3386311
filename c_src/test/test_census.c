/* test_census.c: compares a census with a plain list.
 * Knows: the references that it added. Does not know: processes, or how an entry is found. */
#include "test/test_account.h"

enum { ADDITIONS = 60000 };

static uint32_t added[ALL]; /* expected references of each Binary */

static enum status add_one(struct census *c, unsigned i)
{
    enum status st;
    struct known *k = place_of(c, i, &st);
    if (k)
        k->refs++;
    return st == ST_GONE ? ST_OK : st;
}

/* Adds each of the first n once, in order or backwards, then random ones of them. */
static enum status fill(struct census *c, unsigned n, bool backwards)
{
    enum status st = ST_OK;
    rng = 7;
    for (unsigned i = 0; i < n && st == ST_OK; i++)
        st = add_one(c, backwards ? n - 1 - i : i);
    for (unsigned i = 0; i < ADDITIONS && i < 3 * n && st == ST_OK; i++)
        st = add_one(c, draw(n));
    return st;
}

static void fill_list(unsigned n)
{
    memset(added, 0, sizeof added);
    rng = 7;
    for (unsigned i = 0; i < n; i++)
        added[i]++;
    for (unsigned i = 0; i < ADDITIONS && i < 3 * n; i++)
        added[draw(n)]++;
}

static uint8_t seen[ALL];

/* Visits every entry, in slices of `steps` steps; returns how many it visited. */
static size_t visit(const struct census *c, uint32_t steps, unsigned n, const char *what)
{
    size_t visited = 0;
    size_t at = 0;
    bool right = true;
    const struct known *k;
    enum status st = ST_TIMESLICE;
    memset(seen, 0, sizeof seen);
    while (st != ST_GONE) {
        struct budget b = BUDGET(steps);
        while ((st = census_next(c, &at, &b, &k)) == ST_OK) {
            unsigned i = index_of(k->binary);
            right =
                right && i < n && !seen[i] && k->refs == added[i] && census_find(c, k->binary) == k;
            seen[i < n ? i : 0] = 1;
            visited++;
        }
    }
    check(right, what, "each once, with all its references, and found again");
    return visited;
}

static void test_whole(unsigned n)
{
    struct census c;
    census_init(&c, n, true);
    fill_list(n);
    check(fill(&c, n, false) == ST_OK, "whole", "all are taken");
    check(c.n == n && c.level == 0, "whole", "a count");
    check(visit(&c, 1, n, "whole, slices of 1") == n, "whole", "every one, a step at a time");
    check(visit(&c, UINT32_MAX, n, "whole") == n, "whole", "every one");
    check(!census_find(&c, binary_of(n)), "whole", "not one that is not there");
    check(census_bytes(&c) >= n * sizeof(struct known), "whole", "its memory");
    enum status st;
    check(!place_of(&c, n, &st) && st == ST_TOO_LARGE, "whole", "one too many");
    check(place_of(&c, n / 2, &st) && st == ST_OK, "whole", "one that is there is not too many");
    census_free(&c);
}

/* The address alone decides whether a Binary is in the sample, so each one in it has all its
 * references. */
static void test_sample(unsigned n, size_t max)
{
    struct census c[2];
    uint8_t kept[ALL];
    fill_list(n);
    for (unsigned i = 0; i < 2; i++) {
        census_init(&c[i], max, false);
        check(fill(&c[i], n, i == 1) == ST_OK, "sample", "never too many");
        size_t visited = visit(&c[i], 1 + i * 6, n, "sample");
        check(visited <= max && visited > max / 4, "sample", "not more than wanted, and not few");
        check(c[i].level > 0 && (n >> c[i].level) < 2 * max, "sample", "a level that fits");
        check(i == 0 || memcmp(kept, seen, sizeof kept) == 0, "sample",
              "the order does not matter");
        memcpy(kept, seen, sizeof kept);
    }
    check(c[0].level == c[1].level, "sample", "nor for the level");
    bool right = true;
    for (unsigned i = 0; i < n; i++) {
        enum status st;
        const struct known *k = place_of(&c[0], i, &st);
        right = right && (k != NULL) == kept[i] && st == (kept[i] ? ST_OK : ST_GONE) &&
                (!k || k->refs == added[i]) &&
                (census_find(&c[1], binary_of(i)) != NULL) == kept[i];
    }
    check(right, "sample", "nobody is lost who belongs to it");
    /* a smaller sample is a subset of a larger one */
    struct census less;
    census_init(&less, max / 8 + 1, false);
    (void)fill(&less, n, false);
    (void)visit(&less, 3, n, "a smaller sample");
    right = less.level > c[0].level;
    for (unsigned i = 0; i < n; i++)
        right = right && (!seen[i] || kept[i]);
    check(right, "sample", "a smaller one is a part of it");
    census_free(&less);
    census_free(&c[0]);
    census_free(&c[1]);
}

/* Makes one allocation at a time fail; the census frees what it has (the sanitizer checks that). */
static void test_no_memory(size_t max, bool whole)
{
    const unsigned n = 6000;
    enum status st = ST_NOMEM;
    unsigned failures = 0;
    for (long fails = 1; st == ST_NOMEM; fails++) {
        struct census c;
        census_init(&c, max, whole);
        fail_at = fails;
        st = fill(&c, n, false);
        failures += st == ST_NOMEM;
        fail_at = 0;
        census_free(&c);
        fails += fails > 40 ? 50 : 0; /* its thousand parts are alike: try some */
    }
    check(st == ST_OK && failures > 10, "no memory", "each allocation fails once");
}

int main(void)
{
    test_whole(10);
    test_whole(4096);
    test_whole(ALL - 1);
    test_sample(ALL, 1000);
    test_sample(ALL, 9000);
    test_sample(500, 40);
    test_no_memory(ALL, true);
    test_no_memory(1000, false);
    return outcome();
}
