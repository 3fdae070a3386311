/* test_account.c: compares an account of many holders with plain lists: sums, parts, ranks and
 * holdings, in slices, from several scans, and without memory.
 * Knows: the references that each holder has. Does not know: how a process is read. */
#include "test/test_account.h"

#include "binary/account_merge.h"

enum { BINARIES = 300, TABLES = 3 };

/* The plain list: how many references each holder has to one Binary. */
struct plain {
    uint64_t size;
    uint32_t refc, refs;
    uint32_t listed[PIDS], queued[PIDS], tables;
    bool literal;
};

static struct plain plain[BINARIES];

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

/* The census of one process, as held_binaries.c makes it. */
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
        struct budget b = BUDGET(steps);
        st = account_merge(a, &m, pid_in(a->lay, pid), &c, &none, &b);
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
        struct budget b = BUDGET(steps);
        st = account_settle(a, &b);
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
            (first == PIDS || proctab_order(a->lay, &a->tab, pid_in(a->lay, i)) <
                                  proctab_order(a->lay, &a->tab, pid_in(a->lay, first))))
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

static enum status of_two(struct account *a, struct account *from)
{
    enum status st = ST_TIMESLICE;
    while (st == ST_TIMESLICE) {
        struct budget b = BUDGET(3);
        st = account_take_parts(a, from, &b);
    }
    return st;
}

/* Some of the shares, in any order. */
static enum status add_shares(struct account *a, unsigned n, unsigned of)
{
    enum status st = ST_OK;
    for (unsigned k = 0; k < n && st == ST_OK; k++) {
        struct account other;
        account_init(&other, a->lay, &a->tab, 1, false, false);
        do {
            struct budget b = BUDGET(3);
            st = account_parts(&other, a, (k * 3 + 1) % of, of, &b);
        } while (st == ST_TIMESLICE);
        st = st == ST_OK ? of_two(a, &other) : st;
        check(st != ST_OK || of_two(a, &other) == ST_TOO_LARGE, "a share is taken once",
              a->lay->name);
        account_free(&other);
    }
    return st;
}

/* By several threads they are the same, and so they are if a share is missing. */
static void test_shares(struct account *a, const char *layout)
{
    enum { THREADS = 4 };
    for (unsigned n = THREADS - 1; n <= THREADS; n++) {
        check(add_shares(a, n, THREADS) == ST_OK, "shares of the parts", layout);
        const uint64_t *added = a->parts;
        test_parts(a, layout);
        check(n < THREADS || a->parts == added, "what is added up is not added again", layout);
        account_unrank(a);
    }
}

/* A share of an account that was emptied since, or of a share that is not complete, is not taken. */
static void test_shares_of_another(const struct layout *lay)
{
    struct account a;
    struct account other;
    struct budget b = BUDGET(2);
    new_account(&a, lay, ALL);
    account_init(&other, lay, &a.tab, 1, false, false);
    rng = 9;
    choose();
    check(fill_account(&a, true, 1, BUDGET_STEPS) == ST_OK &&
              account_parts(&other, &a, 0, 2, &b) == ST_TIMESLICE &&
              of_two(&a, &other) == ST_TOO_LARGE,
          "an incomplete share", lay->name);
    b.steps = UINT32_MAX;
    check(account_parts(&other, &a, 0, 2, &b) == ST_OK &&
              account_parts(&a, &a, 0, 2, &b) != ST_OK &&
              account_parts(&other, &a, 2, 2, &b) != ST_OK,
          "a complete one", lay->name);
    account_free(&a);
    check(of_two(&a, &other) == ST_TOO_LARGE, "of what is no more there", lay->name);
    account_free(&other);
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
        struct budget b = BUDGET(3);
        for (; (st = account_list(a, &b, &g)) == ST_OK; n++) {
            unsigned i = index_of(g.binary);
            unsigned k = 0;
            while (k < PIDS - 1 && pid_in(a->lay, k) != a->pids[g.holder])
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
        struct budget b = BUDGET(3);
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
    for (unsigned i = 0; i < 6; i++) {
        struct account a;
        new_account(&a, lay, ALL);
        rng = 11 + i;
        choose();
        check(fill_account(&a, i & 1, 1 + i % PARTS, 1 + i * 3) == ST_OK, "an account is filled",
              lay->name);
        test_sums(&a, lay->name);
        test_parts(&a, lay->name);
        test_shares(&a, lay->name);
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
        struct budget b = BUDGET(1 + i);
        if (st[i] == ST_OK || st[i] == ST_TIMESLICE)
            st[i] = account_merge(a, &m[i], pid_in(a->lay, pid + i), &c[i], &none, &b);
        st[i] = st[i] == ST_OK ? ST_GONE : st[i];
        goes_on = st[0] == ST_TIMESLICE || st[1] == ST_TIMESLICE || st[1] == ST_OK;
    }
    census_free(&c[0]);
    census_free(&c[1]);
    return st[0] == ST_GONE && st[1] == ST_GONE ? ST_OK : ST_TORN;
}

static void test_two_scans(const struct layout *lay)
{
    struct account a;
    bool right = true;
    new_account(&a, lay, ALL);
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
    struct account a;
    struct budget b = BUDGET(0);
    new_account(&a, lay, ALL);
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
    const struct resource_types none = {0};
    struct account a;
    struct census c;
    struct merge m = {0};
    struct budget b = BUDGET(2);
    new_account(&a, lay, ALL);
    rng = 4;
    choose();
    check(merge_one(&a, 1, BUDGET_STEPS) == ST_OK && census_of(&c, 2) == ST_OK &&
              account_merge(&a, &m, pid_in(a.lay, 2), &c, &none, &b) == ST_TIMESLICE,
          "a merge stops", lay->name);
    account_free(&a);
    b.steps = UINT32_MAX;
    check(account_merge(&a, &m, pid_in(a.lay, 2), &c, &none, &b) == ST_OK && a.n == 1 &&
              a.pids[0] == pid_in(a.lay, 2),
          "and begins anew where the account was emptied", lay->name);
    census_free(&c);
    account_free(&a);
}

static void test_no_memory(const struct layout *lay, size_t max, bool keeps)
{
    const struct proctab tab = {.max = 64};
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

int main(void)
{
    for (unsigned i = 0; i < layout_count(); i++) {
        const struct layout *lay = layout_table(i);
        test_account(lay);
        test_shares_of_another(lay);
        test_two_scans(lay);
        test_emptied_meanwhile(lay);
        test_freed_in_slices(lay);
        test_no_memory(lay, BINARIES / 3, false);
        test_no_memory(lay, ALL, true);
    }
    return outcome();
}
