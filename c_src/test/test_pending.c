/* test_pending.c: compares accounts of many records, which come into the census late, with plain lists.
 * Knows: what each process holds. Does not know: which records wait, or when they are settled. */
#include "binary/account.h"
#include "binary/pending.h"
#include "test/test_world.h"

enum { EACH = 30, ALL = 1200000, PROCESSES = 30000, PARTS = 3 };

/* What is expected of each Binary. */
static struct {
    uint32_t holders, queued, first;
} expected[ALL];

static const struct proctab table = {.max = 1 << 15};
static unsigned smaller_until; /* Binaries of the processes below it were smaller, and are freed */

static uint64_t binary_of(unsigned i)
{
    return 0x7F0000000000 + i * 48ULL;
}

/* The same for the same process each time; two of one process are never the same. */
static unsigned held_by(unsigned p, unsigned j, unsigned binaries)
{
    unsigned from = (unsigned)(p * 0x9E3779B97F4A7C15ULL >> 33) % binaries;
    return (from + j * (binaries / EACH)) % binaries;
}

static bool is_queued(unsigned p, unsigned j)
{
    return (p + j) % 7 == 0;
}

static bool comes_before(const struct layout *lay, const struct proctab *tab, unsigned p,
                         unsigned q)
{
    return proctab_order(lay, tab, pid_in(lay, p)) < proctab_order(lay, tab, pid_in(lay, q));
}

/* The first one is the first that lists it, or else the first with a message. */
/* Returns how many Binaries are held. */
static size_t expect(const struct layout *lay, unsigned binaries)
{
    size_t held = 0;
    memset(expected, 0, sizeof expected);
    for (unsigned p = 0; p < PROCESSES; p++) {
        for (unsigned j = 0; j < EACH; j++) {
            unsigned i = held_by(p, j, binaries);
            bool queued = is_queued(p, j);
            bool only_queued = expected[i].queued == expected[i].holders;
            if (expected[i].holders == 0 || (only_queued && !queued) ||
                (only_queued == queued && comes_before(lay, &table, p, expected[i].first)))
                expected[i].first = p;
            held += expected[i].holders == 0;
            expected[i].holders++;
            expected[i].queued += queued;
        }
    }
    return held;
}

static enum status merge_one(struct account *a, unsigned p, unsigned binaries, uint32_t steps)
{
    struct census c;
    const struct resource_types none = {0};
    struct merge m = {0};
    struct known *k;
    enum status st = ST_OK;
    census_init(&c, EACH, true);
    for (unsigned j = 0; j < EACH && st == ST_OK; j++) {
        uint64_t binary = binary_of(held_by(p, j, binaries));
        st = census_add(&c, binary, &k);
        if (st == ST_OK)
            *k = (struct known){.binary = binary,
                                .size = p < smaller_until ? 70 : 100,
                                .refc = 1,
                                .refs = 1,
                                .first = is_queued(p, j)};
    }
    st = st == ST_OK ? ST_TIMESLICE : st;
    while (st == ST_TIMESLICE) {
        struct budget b = BUDGET(steps);
        st = account_merge(a, &m, pid_in(a->lay, p), &c, &none, &b);
    }
    census_free(&c);
    return st;
}

static uint64_t waiting(const struct account *a)
{
    uint64_t n = 0;
    for (size_t part = 0; part < PENDING_PARTS; part++)
        n += pending_count(&a->pending, part);
    return n;
}

struct filling {
    unsigned binaries, parts;
    size_t max;
    bool keeps;
    uint64_t most; /* records that waited in an account at the same time */
    bool within;   /* they and the entries were never more than the limit */
};

static enum status fill_parts(struct account *part, struct filling *f)
{
    enum status st = ST_OK;
    for (unsigned p = 0; p < PROCESSES && st == ST_OK; p++) {
        struct account *a = &part[p * f->parts / PROCESSES];
        st = merge_one(a, p, f->binaries, 7 + p % 50);
        uint64_t n = p % 64 == 0 ? waiting(a) : 0;
        f->most = n > f->most ? n : f->most;
        f->within = f->within && n + a->all.n <= a->all.max;
    }
    return st;
}

enum what { JOIN, SETTLE, RETURN };

static enum status go_on(enum what what, struct account *a, struct account *from)
{
    enum status st = ST_TIMESLICE;
    while (st == ST_TIMESLICE) {
        struct budget b = BUDGET(100);
        st = what == JOIN     ? account_join(a, from, &b)
             : what == SETTLE ? account_settle(a, &b)
                              : account_return(a, from, &b);
    }
    return st;
}

/* All of them settle parts of the first one. */
static enum status settle(struct account *part, unsigned parts)
{
    enum status st = ST_OK;
    for (unsigned i = 1; i < parts && st == ST_OK; i++)
        st = account_lend(part, &part[i], i, parts);
    for (unsigned i = 0; i < parts && st == ST_OK; i++)
        st = go_on(SETTLE, &part[i], NULL);
    for (unsigned i = 1; i < parts; i++) {
        st = st == ST_OK ? go_on(RETURN, part, &part[i]) : st;
        account_free(&part[i]);
    }
    return st;
}

/* Fills several accounts, and joins them in the first one. */
static enum status fill(struct account *part, const struct layout *lay, struct filling *f)
{
    f->most = 0;
    f->within = true;
    for (unsigned i = 0; i < f->parts; i++)
        account_init(&part[i], lay, &table, f->max, false, f->keeps);
    enum status st = fill_parts(part, f);
    for (unsigned i = 1; i < f->parts; i++) {
        st = st == ST_OK ? go_on(JOIN, part, &part[i]) : st;
        account_free(&part[i]);
    }
    return st == ST_OK ? settle(part, f->parts) : st;
}

static bool is_expected(const struct account *a, const struct known *k)
{
    size_t i = (k->binary - binary_of(0)) / 48;
    unsigned listed = expected[i].holders - expected[i].queued;
    unsigned kinds = (listed > 0 ? CENSUS_HEAP : 0) | (listed > 1 ? CENSUS_SEVERAL : 0) |
                     (expected[i].queued > 0 ? CENSUS_QUEUE : 0);
    return k->refs == expected[i].holders && k->holders == expected[i].holders &&
           k->kinds == kinds && a->pids[k->first] == pid_in(a->lay, expected[i].first);
}

/* What is in the account is right. *n: how many there are. */
static bool is_right(const struct account *a, size_t *n)
{
    struct budget b = BUDGET(UINT32_MAX);
    const struct known *k;
    size_t at = 0;
    bool right = true;
    for (*n = 0; census_next(&a->all, &at, &b, &k) == ST_OK; ++*n)
        right = right && is_expected(a, k);
    return right;
}

/* few: the same Binaries come again and again, and records wait only until there are a few per entry. */
static void test_many(const struct layout *lay, struct filling f, bool few)
{
    static struct account part[PARTS];
    size_t n = 0;
    size_t held = expect(lay, f.binaries);
    check(fill(part, lay, &f) == ST_OK && waiting(part) == 0, "many records are settled",
          lay->name);
    check(is_right(part, &n), "each Binary has all its holders", lay->name);
    check(f.max < held ? n > 0 && n <= f.max : n == held, "and none is missing", lay->name);
    check(f.within && (!few || f.most <= (uint64_t)3 * PENDING_PARTS * PENDING_BLOCK),
          "records that wait have a limit", lay->name);
    check(!few || census_bytes(&part->all) <= 3 * sizeof(struct known) * n + (1 << 14),
          "nor is there room for many more", lay->name);
    check(f.max < held || f.most > 0, "some did wait", lay->name);
    account_free(part);
}

/* Each Binary's address was that of a smaller one before, which half of the processes held. An account that is
 * joined may lose some holders of such a Binary, but never has one of the old ones. */
static void test_address_of_another(const struct layout *lay, unsigned parts)
{
    static struct account part[PARTS];
    struct filling f = {.binaries = 8000, .parts = parts, .max = 20000000, .keeps = true};
    const uint64_t present = (uint64_t)(PROCESSES - PROCESSES / 2) * EACH;
    struct budget b = BUDGET(UINT32_MAX);
    struct holding g;
    uint64_t sum = 0;
    uint64_t held = 0;
    bool right = true;
    smaller_until = PROCESSES / 2;
    check(fill(part, lay, &f) == ST_OK, "addresses are taken again", lay->name);
    smaller_until = 0;
    account_list_start(part);
    memset(expected, 0, sizeof expected);
    for (; account_list(part, &b, &g) == ST_OK; held++) {
        right = right && g.holder >= PROCESSES / 2;
        expected[(g.binary - binary_of(0)) / 48].holders++;
    }
    check(right && (parts > 1 ? held <= present : held == present), "a freed Binary has no holder",
          lay->name);
    for (unsigned i = 0; i < f.binaries && right; i++) {
        const struct known *k = census_find(&part->all, binary_of(i));
        right = k && k->size == 100 && expected[i].holders <= k->holders;
    }
    check(right, "no holder is listed that does not count", lay->name);
    account_rank_start(part, PROCESSES, BY_PARTS);
    check(account_rank(part, &b) == ST_OK, "a ranking", lay->name);
    for (size_t i = 0; i < part->top.n; i++)
        sum += (uint64_t)part->top.rows[i].value;
    check(parts > 1 ? sum <= 100UL * f.binaries : sum == 100UL * f.binaries, "parts add up",
          lay->name);
    account_free(part);
}

/* The account was emptied while records waited. */
static void test_emptied(const struct layout *lay)
{
    static struct account part[PARTS];
    struct filling f = {.binaries = 8000, .parts = 1, .max = 20000000};
    bool done = false;
    size_t n;
    account_init(part, lay, &table, f.max, false, f.keeps);
    check(fill_parts(part, &f) == ST_OK && waiting(part) > 0, "records wait", lay->name);
    while (!done) {
        struct budget b = BUDGET(3);
        done = account_free_some(part, &b) == ST_OK;
    }
    check(go_on(SETTLE, part, NULL) == ST_OK && is_right(part, &n) && n == 0, "none is left",
          lay->name);
    account_free(part);
}

/* So many that each part gets one. */
static bool add_others(struct account *a)
{
    enum status st = ST_OK;
    for (unsigned i = 0; i < 1000 && st == ST_OK; i++) {
        const struct known k = {.binary = binary_of(i) + 8, .size = 100, .refc = 1, .refs = 1};
        st = account_add(a, CENSUS_TABLE, &k);
    }
    return st == ST_OK;
}

/* What was lent comes back once, to the account that lent it, and only if nothing else was done in between. */
static void test_lent(const struct layout *lay)
{
    static struct account part[PARTS];
    struct filling f = {.binaries = 8000, .parts = 1, .max = 20000000};
    struct budget b = BUDGET(UINT32_MAX);
    size_t held = expect(lay, f.binaries);
    enum status st = ST_OK;
    size_t n;
    account_init(&part[0], lay, &table, f.max, false, false);
    account_init(&part[1], lay, &table, f.max, false, false);
    account_init(&part[2], lay, &table, f.max, false, false);
    check(account_lend(part, &part[1], 1, 2) == ST_OK &&
              account_return(part, &part[1], &b) == ST_OK,
          "a small account has nothing to lend", lay->name);
    check(fill_parts(part, &f) == ST_OK, "filled", lay->name);
    for (unsigned p = 0; p < PROCESSES && st == ST_OK; p++)
        st = account_note(&part[2], part[0].pids[p]);
    check(account_lend(part, &part[2], 1, 2) == ST_TOO_LARGE &&
              account_lend(part, &part[1], 0, 2) == ST_TOO_LARGE &&
              account_lend(part, &part[1], 2, 2) == ST_TOO_LARGE,
          "only to an empty one, and not all", lay->name);
    check(account_return(part, &part[2], &b) == ST_TOO_LARGE, "nothing was lent", lay->name);
    check(account_lend(part, &part[1], 1, 2) == ST_OK && part[1].all.n > 0, "lent", lay->name);
    check(account_return(&part[2], &part[1], &b) == ST_TOO_LARGE, "by another one", lay->name);
    account_free(&part[2]);
    check(account_lend(&part[1], &part[2], 1, 2) == ST_TOO_LARGE, "a borrowed part is not lent on",
          lay->name);
    check(go_on(SETTLE, part, NULL) == ST_OK && go_on(SETTLE, &part[1], NULL) == ST_OK &&
              account_return(part, &part[1], &b) == ST_OK && is_right(part, &n) && n == held,
          "and comes back", lay->name);
    check(account_return(part, &part[1], &b) == ST_TOO_LARGE, "but once", lay->name);
    account_free(&part[1]);
    check(account_lend(part, &part[1], 1, 2) == ST_OK, "lent again", lay->name);
    census_lower(&part[1].all, 2);
    check(account_return(part, &part[1], &b) == ST_OK && part[0].all.level == 2,
          "of two samples, the smaller one", lay->name);
    account_free(&part[1]);
    check(account_lend(part, &part[1], 1, 2) == ST_OK && add_others(part),
          "a part grows while it is lent", lay->name);
    check(account_return(part, &part[1], &b) == ST_TOO_LARGE, "so nothing is returned", lay->name);
    account_free(&part[1]);
    while (part[0].n <= ACCOUNT_LENDS && st == ST_OK)
        st = account_note(part, 64);
    check(account_lend(part, &part[1], 1, 2) == ST_OK && part[1].n == 0,
          "of too many processes nothing is lent", lay->name);
    account_free(part);
    account_free(&part[1]);
}

static void test_no_memory(const struct layout *lay)
{
    static struct account part[PARTS];
    struct filling f = {.binaries = 8000, .parts = 2, .max = 20000000};
    enum status st = ST_NOMEM;
    unsigned failures = 0;
    for (long fails = 8; st == ST_NOMEM; fails += fails / 3) {
        fail_at = fails;
        st = fill(part, lay, &f);
        failures += st == ST_NOMEM;
        fail_at = 0;
        account_free(part);
    }
    check(st == ST_OK && failures > 10, "each allocation fails once", lay->name);
}

int main(void)
{
    for (unsigned i = 0; i < layout_count(); i += layout_count() - 1) {
        const struct layout *lay = layout_table(i);
        for (unsigned parts = 1; parts <= PARTS; parts += 2) {
            test_many(lay, (struct filling){.binaries = 5000, .parts = parts, .max = 20000000},
                      true);
            test_many(lay, (struct filling){.binaries = ALL, .parts = parts, .max = 20000000},
                      false);
            test_many(lay, (struct filling){.binaries = ALL, .parts = parts, .max = 700000}, false);
            test_many(lay, (struct filling){.binaries = ALL, .parts = parts, .max = 550000}, false);
            test_many(lay, (struct filling){.binaries = ALL, .parts = parts, .max = 200000}, false);
            test_address_of_another(lay, parts);
        }
        test_emptied(lay);
        test_lent(lay);
        test_no_memory(lay);
    }
    return outcome();
}
