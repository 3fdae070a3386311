/* nif_account.c: the NIFs of an account of the holders of all Binaries. */
#include "nif/nif_account.h"
#include "nif/nif_heap.h"

#include "util/clock.h"

enum { SLICE_NS = 5000000, PARTS_MAX = 64 };

void nif_release_account(UNUSED ErlNifEnv *env, void *obj)
{
    struct held_account *h = obj;
    account_free(&h->account);
    nif_free_all(&h->left);
}

struct held_account *nif_get_account(ErlNifEnv *env, ERL_NIF_TERM term)
{
    return nif_resource(env, term, sonde_of(env)->account_type);
}

static struct held_account *take(ErlNifEnv *env, ERL_NIF_TERM term)
{
    struct held_account *h = nif_get_account(env, term);
    return h && in_use_take(&h->in_use) ? h : NULL;
}

static void give_back(struct held_account *h)
{
    in_use_give_back(&h->in_use);
}

/* Repeats a step for the duration of one slice. */
static enum status slice(struct account *a, enum status (*step)(struct account *, struct budget *))
{
    uint64_t end = clock_ns() + SLICE_NS;
    enum status st;
    do {
        struct budget b = BUDGET(BUDGET_STEPS);
        st = step(a, &b);
    } while (st == ST_TIMESLICE && clock_ns() < end);
    return st;
}

#define ACCOUNT_NIF(Name) NIF_WITH(Name, held_account, take, give_back)

static ERL_NIF_TERM error_of(ErlNifEnv *env, enum status st)
{
    return enif_make_tuple2(env, ATOM(error),
                            st == ST_TOO_LARGE ? ATOM(system_limit) : ATOM(no_memory));
}

static ERL_NIF_TERM answer(ErlNifEnv *env, enum status st)
{
    return st == ST_OK ? ATOM(ok) : st == ST_TIMESLICE ? ATOM(more) : error_of(env, st);
}

NIF(nif_do_account_new)
{
    /* (MaxEntries, Tagged, Keeps): Keeps: also remember what each process holds, which parts and
     * holdings need */
    struct sonde *s = sonde_of(env);
    ErlNifUInt64 max;
    if (!atomic_load_explicit(&s->proved, memory_order_acquire) ||
        !enif_get_uint64(env, argv[0], &max) || (argv[1] != ATOM(true) && argv[1] != ATOM(false)) ||
        (argv[2] != ATOM(true) && argv[2] != ATOM(false)))
        return nif_raise(env, ATOM(badarg));
    struct held_account *h =
        nif_out_of_memory() ? NULL : enif_alloc_resource(s->account_type, sizeof *h);
    if (!h)
        return nif_raise(env, ATOM(no_memory));
    h->lay = *s->vm.lay;
    in_use_init(&h->in_use);
    h->left = (struct leftovers){NULL};
    account_init(&h->account, &h->lay, &s->vm.tab, max, argv[1] == ATOM(true),
                 argv[2] == ATOM(true));
    ERL_NIF_TERM term = enif_make_resource(env, h);
    enif_release_resource(h);
    return term;
}

/* ---- in ------------------------------------------------------------------------------------- */

static bool get_known(ErlNifEnv *env, ERL_NIF_TERM term, struct known *k)
{
    const ERL_NIF_TERM *t;
    int arity;
    ErlNifUInt64 n[4];
    if (!enif_get_tuple(env, term, &arity, &t) || arity != 4)
        return false;
    for (unsigned i = 0; i < 4; i++) {
        if (!enif_get_uint64(env, t[i], &n[i]))
            return false;
    }
    *k = (struct known){.binary = n[0],
                        .size = n[1] & KNOWN_SIZE_MAX,
                        .refc = census_count32(n[2]),
                        .refs = census_count32(n[3])};
    return n[0] != 0;
}

static ERL_NIF_TERM add(ErlNifEnv *env, struct account *a, enum census_kind kind, ERL_NIF_TERM list)
{
    ERL_NIF_TERM head;
    struct known k;
    for (unsigned i = 0; i < PAGE_MAX && enif_get_list_cell(env, list, &head, &list); i++) {
        if (!get_known(env, head, &k))
            return nif_raise(env, ATOM(badarg));
        enum status st = account_add(a, kind, &k);
        if (st != ST_OK)
            return error_of(env, st);
    }
    return enif_is_empty_list(env, list) ? ATOM(ok) : nif_raise(env, ATOM(badarg));
}

ACCOUNT_NIF(do_account_add)
{
    /* (Account, table | literal, [{Id, Size, Refc, References}]): at most PAGE_MAX, each Id once
     * for each table: more (then again with the same list; nothing was added) | ok | {error, _}. Dirty:
     * growing one part of a large census takes a millisecond. */
    if (argv[1] != ATOM(table) && argv[1] != ATOM(literal))
        return nif_raise(env, ATOM(badarg));
    enum census_kind kind = argv[1] == ATOM(table) ? CENSUS_TABLE : CENSUS_LITERAL;
    enum status st = slice(&h->account, account_settle);
    if (st != ST_OK)
        return answer(env, st);
    return add(env, &h->account, kind, argv[2]);
}

/* The same for a step of two accounts. */
static enum status slice_of_two(struct account *a, struct account *from,
                                enum status (*step)(struct account *, struct account *,
                                                    struct budget *))
{
    uint64_t end = clock_ns() + SLICE_NS;
    enum status st;
    do {
        struct budget b = BUDGET(BUDGET_STEPS);
        st = step(a, from, &b);
    } while (st == ST_TIMESLICE && clock_ns() < end);
    return st;
}

ACCOUNT_NIF(do_account_join)
{
    /* (Account, From): adds what From has of other processes: more (then again) | ok | {error, _};
     * dirty */
    struct held_account *from = take(env, argv[1]);
    if (!from)
        return nif_raise(env, ATOM(badarg));
    enum status st = slice_of_two(&h->account, &from->account, account_join);
    give_back(from);
    return answer(env, st);
}

ACCOUNT_NIF(do_account_lend)
{
    /* (Account, To, I, N): To, which is empty, gets every N-th part of Account, from the I-th on: ok |
     * {error, _}; dirty. Then both settle, and To returns all. */
    ErlNifUInt64 i;
    ErlNifUInt64 n;
    struct held_account *to = take(env, argv[1]);
    if (!to)
        return nif_raise(env, ATOM(badarg));
    bool right = enif_get_uint64(env, argv[2], &i) && enif_get_uint64(env, argv[3], &n) && i > 0 &&
                 i < n && n <= PARTS_MAX;
    enum status st =
        right ? account_lend(&h->account, &to->account, (unsigned)i, (unsigned)n) : ST_OK;
    give_back(to);
    if (!right)
        return nif_raise(env, ATOM(badarg));
    return st == ST_OK ? ATOM(ok) : error_of(env, st);
}

ACCOUNT_NIF(do_account_settle)
{
    /* (Account): brings its census up to date: more (then again) | ok | {error, _}; dirty */
    return answer(env, slice(&h->account, account_settle));
}

ACCOUNT_NIF(do_account_return)
{
    /* (Account, From): takes back what it lent: more (then again) | ok | {error, _}; dirty */
    struct held_account *from = take(env, argv[1]);
    if (!from)
        return nif_raise(env, ATOM(badarg));
    struct budget b = BUDGET(64 * BUDGET_STEPS);
    enum status st = account_return(&h->account, &from->account, &b);
    give_back(from);
    return answer(env, st);
}

ACCOUNT_NIF(do_account_want)
{
    /* (Account, [Id]): before any other call, an account of only these Binaries and their holders;
     * later, only these are listed */
    ERL_NIF_TERM head;
    ERL_NIF_TERM list = argv[1];
    enum status st = ST_OK;
    ErlNifUInt64 id;
    for (unsigned i = 0; st == ST_OK && i < PAGE_MAX && enif_get_list_cell(env, list, &head, &list);
         i++) {
        if (!enif_get_uint64(env, head, &id) || id == 0)
            return nif_raise(env, ATOM(badarg));
        st = account_want(&h->account, id);
    }
    if (st != ST_OK)
        return error_of(env, st);
    return enif_is_empty_list(env, list) ? ATOM(ok) : nif_raise(env, ATOM(badarg));
}

/* ---- out ------------------------------------------------------------------------------------ */

/* The probability of each Binary to be in the sample was 1 / 2^level. */
static double variance(const struct account *a)
{
    double one_of = (double)(1ULL << a->all.level);
    return a->sums.square * one_of * (one_of - 1);
}

static ERL_NIF_TERM sums(ErlNifEnv *env, const struct account *a)
{
    const struct sums_of_all *s = &a->sums;
    unsigned level = a->all.level;
    ERL_NIF_TERM bytes[SHARE_COUNT];
    for (unsigned i = 0; i < SHARE_COUNT; i++)
        bytes[i] = enif_make_uint64(env, s->bytes[i] << level);
    return enif_make_tuple6(env, enif_make_tuple_from_array(env, bytes, SHARE_COUNT),
                            enif_make_uint64(env, s->overhead << level),
                            enif_make_uint64(env, s->count), enif_make_uint(env, level),
                            enif_make_double(env, variance(a)),
                            enif_make_uint64(env, census_bytes(&a->all)));
}

ACCOUNT_NIF(do_account_sum)
{
    /* (Account): more | {Shares, Overhead, Count, Level, Variance, Memory} | {error, _}; dirty. Only once */
    enum status st = slice(&h->account, account_sum);
    return st == ST_OK ? sums(env, &h->account) : answer(env, st);
}

ACCOUNT_NIF(do_account_rank)
{
    /* (Account, size | count | parts, N | next): more (then again, with `next') | ok | {error, _};
     * dirty */
    ErlNifUInt64 n;
    if (argv[1] != ATOM(size) && argv[1] != ATOM(count) && argv[1] != ATOM(parts))
        return nif_raise(env, ATOM(badarg));
    if (enif_get_uint64(env, argv[2], &n))
        account_rank_start(&h->account, n,
                           argv[1] == ATOM(size)    ? BY_SIZE
                           : argv[1] == ATOM(count) ? BY_REFERENCES
                                                    : BY_PARTS);
    else if (argv[2] != ATOM(next))
        return nif_raise(env, ATOM(badarg));
    return answer(env, slice(&h->account, account_rank));
}

ERL_NIF_TERM nif_known(ErlNifEnv *env, const struct known *k)
{
    return enif_make_tuple4(env, enif_make_uint64(env, k->binary), enif_make_uint64(env, k->size),
                            enif_make_uint(env, k->refc), enif_make_uint(env, k->refs));
}

static ERL_NIF_TERM ranked_item(ErlNifEnv *env, const void *of, size_t i)
{
    const struct account *a = of;
    const struct row *row = &a->top.rows[i];
    if (a->by != BY_PARTS) {
        const struct known *k = census_find(&a->all, row->pid);
        return k ? nif_known(env, k) : ATOM(undefined);
    }
    ErlNifPid p = {.pid = (ERL_NIF_TERM)row->pid};
    return enif_make_tuple2(env, enif_make_int64(env, row->value), enif_make_pid(env, &p));
}

static enum status parts(struct account *to, const struct account *of, unsigned i, unsigned n)
{
    uint64_t end = clock_ns() + SLICE_NS;
    enum status st;
    do {
        struct budget b = BUDGET(BUDGET_STEPS);
        st = account_parts(to, of, i, n, &b);
    } while (st == ST_TIMESLICE && clock_ns() < end);
    return st;
}

ACCOUNT_NIF(do_account_parts)
{
    /* (Account, Of, I, N): adds up the I-th of N shares of the parts of the processes of Of, which other
     * calls may read at the same time: more (then again, also while another call changes Of) | ok |
     * {error, _}; dirty */
    ErlNifUInt64 i;
    ErlNifUInt64 n;
    struct held_account *of = nif_get_account(env, argv[1]);
    if (!of || of == h || !enif_get_uint64(env, argv[2], &i) ||
        !enif_get_uint64(env, argv[3], &n) || i >= n || n > ACCOUNT_SHARES)
        return nif_raise(env, ATOM(badarg));
    if (!in_use_share(&of->in_use))
        return ATOM(more);
    enum status st = parts(&h->account, &of->account, (unsigned)i, (unsigned)n);
    in_use_unshare(&of->in_use);
    return answer(env, st);
}

ACCOUNT_NIF(do_account_take_parts)
{
    /* (Account, From): takes the share that From has added up: more (then again) | ok | {error, _};
     * dirty. A ranking by parts adds up nothing once it has all shares. */
    struct held_account *from = take(env, argv[1]);
    if (!from)
        return nif_raise(env, ATOM(badarg));
    enum status st = slice_of_two(&h->account, &from->account, account_take_parts);
    give_back(from);
    return answer(env, st);
}

ACCOUNT_NIF(do_account_ranked)
{
    /* (Account, From): [{Id, Size, Refc, References}], or [{Part, Pid}], largest first */
    size_t n = h->account.ranked ? h->account.top.n : 0;
    return nif_page(env, argv[1], enif_make_uint(env, PAGE_MAX), &h->account, n, ranked_item);
}

static ERL_NIF_TERM holding(ErlNifEnv *env, const struct account *a, const struct holding *g)
{
    ErlNifPid p = {.pid = (ERL_NIF_TERM)a->pids[g->holder]};
    return enif_make_tuple4(env, enif_make_uint64(env, g->binary), enif_make_pid(env, &p),
                            enif_make_uint(env, g->refs), enif_make_uint(env, g->queued));
}

ACCOUNT_NIF(do_account_holdings)
{
    /* (Account, first | next): {more | done, [{Id, Pid, References, Queued}]}: of the wanted Ids, or of
     * all. Dirty: there may be few of them in many */
    struct account *a = &h->account;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    uint64_t end = clock_ns() + SLICE_NS;
    enum status st = ST_TIMESLICE;
    unsigned n = 0;
    if (argv[1] == ATOM(first))
        account_list_start(a);
    else if (argv[1] != ATOM(next))
        return nif_raise(env, ATOM(badarg));
    while (n < PAGE_MAX && st != ST_GONE && clock_ns() < end) {
        struct budget b = BUDGET(BUDGET_STEPS);
        struct holding g;
        while (n < PAGE_MAX && (st = account_list(a, &b, &g)) == ST_OK) {
            list = enif_make_list_cell(env, holding(env, a, &g), list);
            n++;
        }
    }
    return enif_make_tuple2(env, st == ST_GONE ? ATOM(done) : ATOM(more), list);
}

ACCOUNT_NIF(do_account_known)
{
    /* (Account, Id): {Id, Size, Refc, References} | undefined, if it has no holder */
    ErlNifUInt64 id;
    if (!enif_get_uint64(env, argv[1], &id))
        return nif_raise(env, ATOM(badarg));
    const struct known *k = census_find(&h->account.all, id);
    return k && k->refs > 0 ? nif_known(env, k) : ATOM(undefined);
}

static ERL_NIF_TERM type_out(ErlNifEnv *env, const struct resource_type *t, uint64_t atoms_n)
{
    ERL_NIF_TERM what = ATOM(undefined);
    if (t->at != 0)
        what = enif_make_tuple2(env, nif_atom(t->module, atoms_n), nif_atom(t->name, atoms_n));
    return enif_make_tuple4(env, what, enif_make_uint64(env, t->count),
                            enif_make_uint64(env, t->bytes), enif_make_uint64(env, t->holders));
}

ACCOUNT_NIF(do_account_resources)
{
    /* (Account, AtomCount), after its sums: [{{Module, Name} | undefined, Count, Bytes,
     * Holders}] */
    ErlNifUInt64 atoms_n;
    if (!enif_get_uint64(env, argv[1], &atoms_n))
        return nif_raise(env, ATOM(badarg));
    /* the words of atoms of another OS process mean others here */
    if (sonde_of(env)->is_aimed)
        atoms_n = 0;
    const struct resource_types *ts = &h->account.types;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    for (uint32_t i = ts->n; i-- > 0;) {
        if (ts->list[i].count > 0)
            list = enif_make_list_cell(env, type_out(env, &ts->list[i], atoms_n), list);
    }
    return list;
}

NIF(nif_do_account_end)
{
    /* (Account): more | ok. Frees its memory now, not at the next collection of its holder, one step
     * a call; afterwards the account is empty. Also `more' while a slice of a helper that was killed
     * still fills or reads it. Dirty: there may be much to free. */
    struct held_account *h = nif_get_account(env, argv[0]);
    if (!h)
        return nif_raise(env, ATOM(badarg));
    if (!in_use_take(&h->in_use))
        return ATOM(more);
    struct budget b = BUDGET(BUDGET_STEPS);
    leftovers_collect(&h->left);
    enum status st = account_free_some(&h->account, &b);
    leftovers_collect(NULL);
    bool done = nif_free_step(&h->left) && st == ST_OK;
    give_back(h);
    return done ? ATOM(ok) : ATOM(more);
}
