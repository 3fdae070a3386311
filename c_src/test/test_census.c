/* test_census.c: compares a census, and an account of many holders, with plain lists.
 * Knows: the references that it added. Does not know: processes, or how an entry is found. */
#include "binary/account.h"
#include "test/test_world.h"

enum { ALL = 20000, ADDITIONS = 60000 };

static uint64_t rng;

static unsigned draw(unsigned n)
{
    rng = rng * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(rng >> 33) % n;
}

/* Groups of 64 lie side by side, like blocks of one carrier. */
static uint64_t binary_of(unsigned i)
{
    return 0x7F0000000000 + (i / 64) * 0x40000ULL + (i % 64) * 48ULL;
}

static unsigned index_of(uint64_t binary)
{
    uint64_t at = binary - 0x7F0000000000;
    return (unsigned)(at / 0x40000 * 64 + at % 0x40000 / 48);
}

static struct known *place_of(struct census *c, unsigned i, enum status *st)
{
    struct known *k = NULL;
    *st = census_add(c, binary_of(i), &k);
    return *st == ST_OK ? k : NULL;
}

/* ---- one census ------------------------------------------------------------------------------- */

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
        struct budget b = {steps, false};
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

/* ---- an account ------------------------------------------------------------------------------- */

enum { PIDS = 40, BINARIES = 300, TABLES = 3, TYPES = 1 };

/* The plain list: how many references each holder has to one Binary. */
struct plain {
    uint64_t size;
    uint32_t refc, refs;
    uint32_t listed[PIDS], queued[PIDS], tables;
    bool literal;
};

static struct plain plain[BINARIES];

static enum status merge_entry(struct account *a, unsigned pid, const struct known *has);
static enum status merge_queued(struct account *a, const struct known *has);

static uint64_t test_pid(const struct account *a, unsigned i)
{
    return a->lay->pid_slot_high ? (uint64_t)i << 32 | i << 4 | 3 : (uint64_t)i << 4 | 3;
}

static void choose(void)
{
    memset(plain, 0, sizeof plain);
    for (unsigned i = 0; i < BINARIES; i++) {
        struct plain *p = &plain[i];
        unsigned kind = draw(8);
        p->size = 65 + draw(1000);
        for (unsigned k = 0; k < PIDS; k++) {
            p->listed[k] = kind < 5 && draw(kind == 0 ? PIDS : 5) == 0 ? 1 + draw(3) : 0;
            p->queued[k] = kind > 3 && kind < 6 && draw(9) == 0 ? 1 + draw(2) : 0;
            p->refs += p->listed[k] + p->queued[k];
        }
        p->tables = kind == 3 || kind == 6 ? draw(TABLES + 1) : 0;
        p->literal = kind == 7 || (kind == 2 && draw(4) == 0);
        p->refs += p->tables + p->literal;
        p->refc = p->refs + (draw(5) == 0 ? 1 + draw(2) : 0);
    }
}

static struct known entry_of(unsigned i, uint32_t refs)
{
    return (struct known){
        .binary = binary_of(i), .size = plain[i].size, .refc = plain[i].refc, .refs = refs};
}

/* The census of one process, as hold.c makes it. */
static enum status census_of(struct census *c, unsigned pid)
{
    enum status st = ST_OK;
    census_init(c, BINARIES, true);
    for (unsigned i = 0; i < BINARIES && st == ST_OK; i++) {
        uint32_t refs = plain[i].listed[pid] + plain[i].queued[pid];
        struct known *k = refs == 0 ? NULL : place_of(c, i, &st);
        if (k) {
            *k = entry_of(i, refs);
            k->first = plain[i].queued[pid];
        }
    }
    return st;
}

static enum status merge_one(struct account *a, unsigned pid, uint32_t steps)
{
    struct census c;
    const struct resource_types none = {0};
    struct merge m = {0};
    enum status st = census_of(&c, pid);
    if (st == ST_OK)
        st = ST_TIMESLICE;
    while (st == ST_TIMESLICE) {
        struct budget b = {steps, false};
        st = account_merge(a, &m, test_pid(a, pid), &c, &none, &b);
    }
    census_free(&c);
    return st;
}

static enum status add_others(struct account *a)
{
    enum status st = ST_OK;
    for (unsigned i = 0; i < BINARIES && st == ST_OK; i++) {
        struct known k = entry_of(i, 1);
        for (unsigned t = 0; t < plain[i].tables && st == ST_OK; t++)
            st = account_add(a, CENSUS_TABLE, &k);
        if (plain[i].literal && st == ST_OK)
            st = account_add(a, CENSUS_LITERAL, &k);
    }
    return st;
}

enum { PARTS = 4 };

static enum status settle(struct account *a, uint32_t steps)
{
    enum status st = ST_TIMESLICE;
    while (st == ST_TIMESLICE) {
        struct budget b = {steps, false};
        st = account_settle(a, &b);
    }
    return st;
}

static enum status join(struct account *a, struct account *from, uint32_t steps)
{
    enum status st = ST_TIMESLICE;
    while (st == ST_TIMESLICE) {
        struct budget b = {steps, false};
        st = account_join(a, from, &b);
    }
    return st;
}

/* Adds the tables before or after the processes, and the processes out of order: to one account, or to
 * several that are joined. */
static enum status fill_account(struct account *a, bool tables_first, unsigned parts,
                                uint32_t steps)
{
    static struct account part[PARTS];
    enum status st = tables_first ? add_others(a) : ST_OK;
    for (unsigned i = 1; i < parts; i++)
        account_init(&part[i], a->lay, &a->tab, ALL, false, a->keeps);
    for (unsigned i = 0; i < PIDS && st == ST_OK; i++)
        st = merge_one(i % parts == 0 ? a : &part[i % parts], i * 7 % PIDS, steps);
    for (unsigned i = 1; i < parts; i++) {
        st = st == ST_OK ? join(a, &part[i], steps) : st;
        account_free(&part[i]);
    }
    st = st == ST_OK ? settle(a, steps) : st;
    return st == ST_OK && !tables_first ? add_others(a) : st;
}

static unsigned count_of(const uint32_t *refs)
{
    unsigned n = 0;
    for (unsigned i = 0; i < PIDS; i++)
        n += refs[i] > 0;
    return n;
}

/* The first process that has references, in term order. */
static unsigned first_of(const struct account *a, const uint32_t *refs)
{
    unsigned first = PIDS;
    for (unsigned i = 0; i < PIDS; i++) {
        if (refs[i] > 0 &&
            (first == PIDS || proctab_order(a->lay, &a->tab, test_pid(a, i)) <
                                  proctab_order(a->lay, &a->tab, test_pid(a, first))))
            first = i;
    }
    return first;
}

static uint64_t parts[PIDS]; /* expected bytes of each process */

/* The first holder gets the remainder of the division. */
static void add_parts(const struct account *a, unsigned i)
{
    const struct plain *p = &plain[i];
    unsigned others = p->refs < p->refc || p->literal;
    unsigned listed = count_of(p->listed);
    unsigned holders = listed + count_of(p->queued) + p->tables + others;
    unsigned first = first_of(a, listed > 0 ? p->listed : p->queued);
    if (others > 0 || (listed == 0 && p->tables > 0))
        first = PIDS;
    for (unsigned k = 0; k < PIDS; k++) {
        unsigned places = (p->listed[k] > 0) + (p->queued[k] > 0);
        if (places > 0)
            parts[k] += p->size / holders * places + (k == first ? p->size % holders : 0);
    }
}

static void rank(struct account *a, size_t n, enum account_by by, const char *layout)
{
    enum status st;
    account_rank_start(a, n, by);
    do {
        struct budget b = {3, false};
        st = account_rank(a, &b);
    } while (st == ST_TIMESLICE);
    check(st == ST_OK, "a ranking", layout);
}

static uint64_t part_of(const struct account *a, unsigned pid)
{
    for (size_t i = 0; i < a->top.n; i++) {
        if (a->top.rows[i].pid == test_pid(a, pid))
            return (uint64_t)a->top.rows[i].value;
    }
    return UINT64_MAX;
}

static void test_parts(struct account *a, const char *layout)
{
    bool right = true;
    memset(parts, 0, sizeof parts);
    for (unsigned i = 0; i < BINARIES; i++)
        add_parts(a, i);
    rank(a, PIDS, BY_PARTS, layout);
    for (unsigned k = 0; k < PIDS; k++)
        right = right && part_of(a, k) == parts[k];
    for (size_t i = 1; i < a->top.n; i++)
        right = right && a->top.rows[i].value <= a->top.rows[i - 1].value;
    check(right && a->top.n == PIDS, "each has its part, the first has the rest", layout);
}

/* The references of all holdings that are listed, of each process and Binary once. */
static bool lists(struct account *a, unsigned from, unsigned to)
{
    static bool seen_by[PIDS][BINARIES];
    struct holding g;
    enum status st = ST_OK;
    size_t n = 0;
    bool right = true;
    memset(seen_by, 0, sizeof seen_by);
    account_list_start(a);
    while (st != ST_GONE) {
        struct budget b = {3, false};
        for (; (st = account_list(a, &b, &g)) == ST_OK; n++) {
            unsigned i = index_of(g.binary);
            unsigned k = 0;
            while (k < PIDS - 1 && test_pid(a, k) != a->pids[g.holder])
                k++;
            right = right && i >= from && i < to && !seen_by[k][i] &&
                    g.queued == plain[i].queued[k] && g.refs == plain[i].listed[k] + g.queued;
            seen_by[k][i < BINARIES ? i : 0] = true;
        }
    }
    for (unsigned i = from; i < to; i++) {
        for (unsigned k = 0; k < PIDS; k++)
            n -= plain[i].listed[k] + plain[i].queued[k] > 0;
    }
    return right && n == 0;
}

static void test_holdings(struct account *a, const char *layout)
{
    check(lists(a, 0, BINARIES), "what each has is listed", layout);
    check(account_want(a, binary_of(7)) == ST_OK && account_want(a, binary_of(8)) == ST_OK &&
              lists(a, 7, 9),
          "later only what is wanted", layout);
}

static enum share share_kind(const struct plain *p)
{
    unsigned listed = count_of(p->listed);
    bool queued = count_of(p->queued) > 0;
    if (p->refs < p->refc)
        return SHARE_ELSEWHERE;
    if ((listed > 0) + queued + (p->tables > 0) + p->literal > 1)
        return SHARE_MIXED;
    if (listed > 0)
        return listed > 1 ? SHARE_SHARED : SHARE_EXCLUSIVE;
    return queued ? SHARE_QUEUES : p->tables > 0 ? SHARE_TABLES : SHARE_LITERALS;
}

static void test_sums(struct account *a, const char *layout)
{
    uint64_t bytes[SHARE_COUNT] = {0};
    uint64_t count = 0;
    enum status st;
    for (unsigned i = 0; i < BINARIES; i++) {
        if (plain[i].refs == 0)
            continue;
        bytes[share_kind(&plain[i])] += plain[i].size;
        count++;
    }
    do {
        struct budget b = {3, false};
        st = account_sum(a, &b);
    } while (st == ST_TIMESLICE);
    check(st == ST_OK && a->sums.count == count, "each Binary is counted once", layout);
    check(memcmp(a->sums.bytes, bytes, sizeof bytes) == 0, "whose bytes they are", layout);
}

static void test_rank(struct account *a, enum account_by by, const char *layout)
{
    enum { ROWS = 20 };
    rank(a, ROWS, by, layout);
    bool right = a->top.n == ROWS;
    for (unsigned i = 0; i < BINARIES && right; i++) {
        int64_t value = by == BY_REFERENCES ? plain[i].refs : (int64_t)plain[i].size;
        bool in = false;
        for (unsigned k = 0; k < ROWS; k++)
            in = in || a->top.rows[k].pid == binary_of(i);
        right = in ? value >= a->top.rows[ROWS - 1].value
                   : plain[i].refs == 0 || value <= a->top.rows[ROWS - 1].value;
    }
    check(right, by == BY_REFERENCES ? "most references" : "the largest", layout);
}

static void test_account(const struct layout *lay)
{
    const struct proctab tab = {0, 64};
    for (unsigned i = 0; i < 6; i++) {
        struct account a;
        account_init(&a, lay, &tab, ALL, false, true);
        rng = 11 + i;
        choose();
        check(fill_account(&a, i & 1, 1 + i % PARTS, 1 + i * 3) == ST_OK, "an account is filled",
              lay->name);
        test_sums(&a, lay->name);
        test_parts(&a, lay->name);
        test_rank(&a, BY_SIZE, lay->name);
        test_rank(&a, BY_REFERENCES, lay->name);
        test_holdings(&a, lay->name);
        account_free(&a);
    }
}

/* Merges two processes in alternating steps, as two scans that fill one account do. */
static enum status merge_two(struct account *a, unsigned pid)
{
    struct census c[2];
    struct merge m[2] = {0};
    const struct resource_types none = {0};
    enum status st[2] = {census_of(&c[0], pid), census_of(&c[1], pid + 1)};
    bool goes_on = st[0] == ST_OK && st[1] == ST_OK;
    for (unsigned i = 0; goes_on; i = 1 - i) {
        struct budget b = {1 + i, false};
        if (st[i] == ST_OK || st[i] == ST_TIMESLICE)
            st[i] = account_merge(a, &m[i], test_pid(a, pid + i), &c[i], &none, &b);
        st[i] = st[i] == ST_OK ? ST_GONE : st[i];
        goes_on = st[0] == ST_TIMESLICE || st[1] == ST_TIMESLICE || st[1] == ST_OK;
    }
    census_free(&c[0]);
    census_free(&c[1]);
    return st[0] == ST_GONE && st[1] == ST_GONE ? ST_OK : ST_TORN;
}

static void test_two_scans(const struct layout *lay)
{
    const struct proctab tab = {0, 64};
    struct account a;
    bool right = true;
    account_init(&a, lay, &tab, ALL, false, true);
    rng = 3;
    choose();
    for (unsigned i = 0; i < PIDS; i += 2)
        right = right && merge_two(&a, i) == ST_OK;
    check(right && add_others(&a) == ST_OK, "two scans fill one account", lay->name);
    test_sums(&a, lay->name);
    test_parts(&a, lay->name);
    account_free(&a);
}

/* Once some of an account is freed, nothing of it is ranked or listed, and nothing goes on with it. */
static void test_freed_in_slices(const struct layout *lay)
{
    const struct proctab tab = {0, 64};
    struct account a;
    struct budget b = {0, false};
    account_init(&a, lay, &tab, ALL, false, true);
    rng = 8;
    choose();
    check(fill_account(&a, true, 1, BUDGET_STEPS) == ST_OK, "an account is filled", lay->name);
    test_rank(&a, BY_SIZE, lay->name);
    uint32_t era = a.era;
    check(account_free_some(&a, &b) == ST_TIMESLICE && !a.ranked && a.top.n == 0 && a.era != era &&
              a.list_at.i == 0,
          "what is partly freed has no rows", lay->name);
    account_free(&a);
}

/* If the account is emptied during a merge, the merge starts again. */
static void test_emptied_meanwhile(const struct layout *lay)
{
    const struct proctab tab = {0, 64};
    const struct resource_types none = {0};
    struct account a;
    struct census c;
    struct merge m = {0};
    struct budget b = {2, false};
    account_init(&a, lay, &tab, ALL, false, true);
    rng = 4;
    choose();
    check(merge_one(&a, 1, BUDGET_STEPS) == ST_OK && census_of(&c, 2) == ST_OK &&
              account_merge(&a, &m, test_pid(&a, 2), &c, &none, &b) == ST_TIMESLICE,
          "a merge stops", lay->name);
    account_free(&a);
    b.steps = UINT32_MAX;
    check(account_merge(&a, &m, test_pid(&a, 2), &c, &none, &b) == ST_OK && a.n == 1 &&
              a.pids[0] == test_pid(&a, 2),
          "and begins anew where the account was emptied", lay->name);
    census_free(&c);
    account_free(&a);
}

/* ---- changes meanwhile ------------------------------------------------------------------------- */

/* If the address of a counted Binary now belongs to another one, the first one's holders hold nothing. */
static void test_address_of_another(const struct layout *lay, bool resource, unsigned parts_n)
{
    const struct proctab tab = {0, 64};
    struct account a[2];
    struct known has = {.binary = binary_of(0), .size = 100, .refc = 1, .refs = 1};
    struct known other = has;
    struct known third = has;
    other.size = 200;
    other.kinds = resource ? CENSUS_RESOURCE : 0;
    other.holders = 1;
    third.binary = binary_of(1);
    for (unsigned i = 0; i < 2; i++)
        account_init(&a[i], lay, &tab, ALL, false, true);
    check(merge_entry(a, 0, &has) == ST_OK && merge_entry(a, 0, &third) == ST_OK &&
              merge_entry(&a[parts_n - 1], 1, &other) == ST_OK &&
              (parts_n == 1 || join(a, &a[1], 1) == ST_OK),
          "a Binary is freed, and another one has its address", lay->name);
    rank(a, 3, BY_PARTS, lay->name);
    check(a->top.n == 3 && a->top.rows[0].value == 200 && a->top.rows[1].value == 100 &&
              a->top.rows[2].value == 0,
          "no part of what is another one now", lay->name);
    for (unsigned i = 0; i < 2; i++)
        account_free(&a[i]);
}

/* More references than fit beside an address, in both places. */
static void test_many_references(const struct layout *lay)
{
    const struct proctab tab = {0, 64};
    struct account a;
    struct budget b = {UINT32_MAX, false};
    struct holding g;
    struct known has = {
        .binary = binary_of(3), .size = 64, .refc = UINT32_MAX, .refs = UINT32_MAX, .first = 5};
    account_init(&a, lay, &tab, ALL, false, true);
    check(merge_queued(&a, &has) == ST_OK && account_list(&a, &b, &g) == ST_OK &&
              g.binary == has.binary && g.refs == UINT32_MAX && g.queued == 5 &&
              account_list(&a, &b, &g) == ST_GONE,
          "numbers of references", lay->name);
    account_free(&a);
}

/* No more is kept than the limit of entries takes. */
static void test_too_many_holdings(const struct layout *lay)
{
    const struct proctab tab = {0, 64};
    struct account a;
    struct known has = {.binary = binary_of(0), .size = 64, .refc = PIDS, .refs = 1};
    unsigned n = 0;
    account_init(&a, lay, &tab, 2, false, true);
    while (n < PIDS && merge_entry(&a, n, &has) == ST_OK)
        n++;
    check(n == 4, "holdings have a limit", lay->name);
    account_free(&a);
}

static void test_account_no_memory(const struct layout *lay, size_t max, bool keeps)
{
    const struct proctab tab = {0, 64};
    enum status st = ST_NOMEM;
    unsigned failures = 0;
    rng = 5;
    choose();
    for (long fails = 1; st == ST_NOMEM; fails++) {
        struct account a;
        account_init(&a, lay, &tab, max, false, keeps);
        fail_at = fails;
        st = fill_account(&a, false, 2, BUDGET_STEPS);
        failures += st == ST_NOMEM;
        fail_at = 0;
        account_free(&a);
    }
    check(st == ST_OK && failures > 10, "each allocation fails once", lay->name);
}

/* ---- resources ----------------------------------------------------------------------------------- */

static enum status merge_with(struct account *a, unsigned pid, const struct known *has,
                              uint32_t queued)
{
    struct census c;
    struct resource_types types = {0};
    const struct resource_type type = {.at = 64, .module = 0x0B, .name = 0x4B};
    struct budget b = {UINT32_MAX, false};
    struct merge m = {0};
    struct known *k;
    census_init(&c, 1, true);
    enum status st = census_add(&c, has->binary, &k);
    if (st == ST_OK) {
        *k = *has;
        k->first = has->kinds & CENSUS_RESOURCE ? resource_types_index(&types, &type, 2) : queued;
        st = account_merge(a, &m, test_pid(a, pid), &c, &types, &b);
    }
    resource_types_free(&types);
    census_free(&c);
    return st;
}

/* Merges a process that has only this entry. */
static enum status merge_entry(struct account *a, unsigned pid, const struct known *has)
{
    return merge_with(a, pid, has, 0);
}

static enum status merge_queued(struct account *a, const struct known *has)
{
    return merge_with(a, 0, has, has->first);
}

/* Before all processes are read, a Binary of the same size may take the address of a freed
 * resource. */
static void test_resource_freed(const struct layout *lay)
{
    const struct proctab tab = {0, 64};
    struct budget b = {UINT32_MAX, false};
    struct account a;
    bool right = true;
    account_init(&a, lay, &tab, ALL, false, true);
    for (unsigned i = 0; i < PIDS; i++) {
        struct known has = {.binary = binary_of(i / 2), .size = 100, .refc = 1, .refs = 1};
        has.kinds = i % 2 == 0 ? CENSUS_RESOURCE : 0;
        right = right && merge_entry(&a, i, &has) == ST_OK;
    }
    check(right && account_sum(&a, &b) == ST_OK, "what was a resource is a Binary", lay->name);
    check(a.sums.bytes[SHARE_EXCLUSIVE] == 100ULL * (PIDS / 2) &&
              a.sums.bytes[SHARE_RESOURCES] == 0,
          "and is no resource any more", lay->name);
    account_free(&a);
}

/* A term may show a resource as a binary. Then no holder gets the remainder of the division. */
static void test_resource_seen(const struct layout *lay)
{
    const struct proctab tab = {0, 64};
    struct budget b = {UINT32_MAX, false};
    struct account a;
    struct known has = {.binary = binary_of(0), .size = 101, .refc = 2, .refs = 1};
    has.kinds = CENSUS_RESOURCE;
    has.holders = 1;
    account_init(&a, lay, &tab, ALL, false, true);
    check(merge_entry(&a, 0, &has) == ST_OK && merge_entry(&a, 1, &has) == ST_OK,
          "two have a resource", lay->name);
    check(account_sum(&a, &b) == ST_OK && a.sums.bytes[SHARE_RESOURCES] == 101 &&
              a.types.list[TYPES].holders == 2 && a.types.list[TYPES].count == 1 &&
              a.types.list[TYPES].bytes == 101,
          "and is one of its type", lay->name);
    rank(&a, 2, BY_PARTS, lay->name);
    check(part_of(&a, 0) == 50 && part_of(&a, 1) == 50, "each has half of a resource", lay->name);
    account_free(&a);
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
    for (unsigned i = 0; i < layout_count(); i++) {
        const struct layout *lay = layout_table(i);
        test_account(lay);
        test_two_scans(lay);
        test_emptied_meanwhile(lay);
        test_freed_in_slices(lay);
        for (unsigned k = 0; k < 4; k++)
            test_address_of_another(lay, k & 1, 1 + k / 2);
        test_many_references(lay);
        test_too_many_holdings(lay);
        test_account_no_memory(lay, BINARIES / 3, false);
        test_account_no_memory(lay, ALL, true);
        test_resource_freed(lay);
        test_resource_seen(lay);
    }
    return outcome();
}
