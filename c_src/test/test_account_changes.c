/* test_account_changes.c: an account of Binaries and resources that change while it is filled, and its
 * limits.
 * Knows: what each holder had when it was read. Does not know: how a process is read. */
#include "test/test_account.h"

enum { TYPES = 1 };

static enum status merge_with(struct account *a, unsigned pid, const struct known *has,
                              uint32_t queued)
{
    struct census c;
    struct resource_types types = {0};
    const struct resource_type type = {.at = 64, .module = 0x0B, .name = 0x4B};
    struct budget b = BUDGET(UINT32_MAX);
    struct merge m = {0};
    struct known *k;
    census_init(&c, 1, true);
    enum status st = census_add(&c, has->binary, &k);
    if (st == ST_OK) {
        *k = *has;
        k->first = has->kinds & CENSUS_RESOURCE ? resource_types_index(&types, &type, 2) : queued;
        st = account_merge(a, &m, pid_in(a->lay, pid), &c, &types, &b);
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

/* If the address of a counted Binary now belongs to another one, the first one's holders hold nothing. */
static void test_address_of_another(const struct layout *lay, bool resource, unsigned parts_n)
{
    struct account a[2];
    struct known has = {.binary = binary_of(0), .size = 100, .refc = 1, .refs = 1};
    struct known other = has;
    struct known third = has;
    other.size = 200;
    other.kinds = resource ? CENSUS_RESOURCE : 0;
    other.holders = 1;
    third.binary = binary_of(1);
    for (unsigned i = 0; i < 2; i++)
        new_account(&a[i], lay, ALL);
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
    struct account a;
    struct budget b = BUDGET(UINT32_MAX);
    struct holding g;
    struct known has = {
        .binary = binary_of(3), .size = 64, .refc = UINT32_MAX, .refs = UINT32_MAX, .first = 5};
    new_account(&a, lay, ALL);
    check(merge_queued(&a, &has) == ST_OK && account_list(&a, &b, &g) == ST_OK &&
              g.binary == has.binary && g.refs == UINT32_MAX && g.queued == 5 &&
              account_list(&a, &b, &g) == ST_GONE,
          "numbers of references", lay->name);
    account_free(&a);
}

/* No more is kept than the limit of entries takes. */
static void test_too_many_holdings(const struct layout *lay)
{
    struct account a;
    struct known has = {.binary = binary_of(0), .size = 64, .refc = PIDS, .refs = 1};
    unsigned n = 0;
    new_account(&a, lay, 2);
    while (n < PIDS && merge_entry(&a, n, &has) == ST_OK)
        n++;
    check(n == 4, "holdings have a limit", lay->name);
    account_free(&a);
}

/* Before all processes are read, a Binary of the same size may take the address of a freed
 * resource. */
static void test_resource_freed(const struct layout *lay)
{
    struct budget b = BUDGET(UINT32_MAX);
    struct account a;
    bool right = true;
    new_account(&a, lay, ALL);
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
    struct budget b = BUDGET(UINT32_MAX);
    struct account a;
    struct known has = {.binary = binary_of(0), .size = 101, .refc = 2, .refs = 1};
    has.kinds = CENSUS_RESOURCE;
    has.holders = 1;
    new_account(&a, lay, ALL);
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
    for (unsigned i = 0; i < layout_count(); i++) {
        const struct layout *lay = layout_table(i);
        for (unsigned k = 0; k < 4; k++)
            test_address_of_another(lay, k & 1, 1 + k / 2);
        test_many_references(lay);
        test_too_many_holdings(lay);
        test_resource_freed(lay);
        test_resource_seen(lay);
    }
    return outcome();
}
