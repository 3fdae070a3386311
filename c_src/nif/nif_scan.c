/* nif_scan.c: the NIFs of a scan: the same attributes of every process, in slices.
 * Knows: how Erlang holds a scan, and its arguments and answers as terms.
 * Does not know: how processes are read. */
#include "util/clock.h"
#include "nif/nif_scan.h"

/* A slice of 5 ms, plus the current batch, stays far below the promised 10 ms. LOOK_NS is the
 * interval of checks that the reader still works, so the time for which another library's handler
 * may go unnoticed. BEGIN_NS is for a normal scheduler, which no call may hold for 1 ms. */
enum { SLICE_NS = 5000000, LOOK_NS = 1000000, BEGIN_NS = 200000, FEED_MAX = SCAN_ASKS };
enum { NS_PER_TIMESLICE = 1000000 }; /* as erl_nif has it */
enum { WAITING_MAX = 10, PATIENCE_US_MAX = 1000000, PARTS_MAX = 64 };

void nif_release_scan(UNUSED ErlNifEnv *env, void *obj)
{
    struct held *h = obj;
    scan_free(&h->scan);
    nif_free_all(&h->left);
    if (h->first)
        enif_release_resource(h->first);
    if (h->account)
        enif_release_resource(h->account);
}

static struct held *get_held(ErlNifEnv *env, ERL_NIF_TERM term)
{
    return nif_resource(env, term, sonde_of(env)->scan_type);
}

/* Of the sample or account that the scan needs. */
static struct in_use *also_used(struct held *h)
{
    return h->first ? &h->first->in_use : h->account ? &h->account->in_use : NULL;
}

struct held *nif_take_scan(ErlNifEnv *env, ERL_NIF_TERM term)
{
    struct held *h = get_held(env, term);
    if (!h || !in_use_take(&h->in_use))
        return NULL;
    if (!also_used(h) || in_use_take(also_used(h)))
        return h;
    in_use_give_back(&h->in_use);
    return NULL;
}

void nif_give_back_scan(struct held *h)
{
    if (also_used(h))
        in_use_give_back(also_used(h));
    in_use_give_back(&h->in_use);
}

/* ---- new ----------------------------------------------------------------------------------- */

static bool get_mode(ERL_NIF_TERM term, enum scan_mode *mode)
{
    *mode = term == ATOM(top)       ? SCAN_TOP
            : term == ATOM(sample)  ? SCAN_SAMPLE
            : term == ATOM(diff)    ? SCAN_DIFF
            : term == ATOM(each)    ? SCAN_EACH
            : term == ATOM(account) ? SCAN_ACCOUNT
            : term == ATOM(holders) ? SCAN_HOLDERS
            : term == ATOM(stacks)  ? SCAN_STACKS
            : term == ATOM(groups)  ? SCAN_GROUPS
                                    : SCAN_ALL;
    return *mode != SCAN_ALL || term == ATOM(all);
}

struct questions {
    enum attr attr[SCAN_QUESTIONS];
    unsigned n;
};

/* Attr or [Attr], at least one and at most SCAN_QUESTIONS. */
static bool get_questions(ErlNifEnv *env, ERL_NIF_TERM term, enum scan_mode mode,
                          struct questions *q)
{
    ERL_NIF_TERM head;
    q->n = enif_is_list(env, term) ? 0 : 1;
    if (q->n == 1 && !nif_attr(env, term, &q->attr[0]))
        return false;
    for (; enif_get_list_cell(env, term, &head, &term); q->n++) {
        if (q->n == SCAN_QUESTIONS || !nif_attr(env, head, &q->attr[q->n]))
            return false;
    }
    if (mode == SCAN_STACKS)
        return q->n == 1 && q->attr[0] == ATTR_stack;
    if (mode == SCAN_GROUPS)
        return q->n > 0 && q->attr[q->n - 1] == ATTR_origin && nif_knows_first_call(sonde_of(env));
    if (mode == SCAN_HOLDERS || mode == SCAN_ALL)
        return q->n == 1 && attr_has_stamp(q->attr[0]);
    return q->n == 1 || (q->n > 1 && (mode == SCAN_TOP || mode == SCAN_EACH));
}

/* A diff reads the sample of a finished first scan; other modes read none. */
static bool get_first(ErlNifEnv *env, ERL_NIF_TERM term, enum scan_mode mode, struct held **first)
{
    *first = mode == SCAN_DIFF ? get_held(env, term) : NULL;
    if (mode != SCAN_DIFF) /* each, account: the term may list the wanted processes */
        return term == ATOM(undefined) || mode == SCAN_EACH || mode == SCAN_ACCOUNT;
    if (!*first || !in_use_take(&(*first)->in_use))
        return false;
    bool ok = (*first)->scan.mode == SCAN_SAMPLE && scan_is_finished(&(*first)->scan);
    in_use_give_back(&(*first)->in_use);
    return ok;
}

/* Takes {Account, Pids | undefined} apart if the mode needs an account. */
static bool get_account(ErlNifEnv *env, ERL_NIF_TERM *term, enum scan_mode mode,
                        const struct questions *q, struct held_account **account)
{
    const ERL_NIF_TERM *pair;
    int arity;
    *account = NULL;
    if (mode != SCAN_ACCOUNT)
        return true;
    if (!enif_get_tuple(env, *term, &arity, &pair) || arity != 2 ||
        q->attr[0] != ATTR_binary_unique)
        return false;
    *account = nif_get_account(env, pair[0]);
    *term = pair[1];
    return *account != NULL;
}

static bool get_pids(ErlNifEnv *env, ERL_NIF_TERM list, struct scan *scan,
                     bool (*take_pid)(struct scan *, uint64_t))
{
    ERL_NIF_TERM head;
    ErlNifPid pid;
    while (enif_get_list_cell(env, list, &head, &list)) {
        if (!enif_get_local_pid(env, head, &pid) || !take_pid(scan, head))
            return false;
    }
    return enif_is_empty_list(env, list);
}

/* No process of ours is in another OS process, and its pids may be the same. */
static bool take_none(struct scan *scan, uint64_t pid)
{
    (void)scan, (void)pid;
    return true;
}

static bool get_excluded(ErlNifEnv *env, ERL_NIF_TERM list, struct scan *scan)
{
    return get_pids(env, list, scan, sonde_of(env)->is_aimed ? take_none : scan_exclude);
}

static bool get_only(ErlNifEnv *env, ERL_NIF_TERM list, struct scan *scan)
{
    if ((scan->mode != SCAN_EACH && scan->mode != SCAN_ACCOUNT) || list == ATOM(undefined))
        return true;
    return get_pids(env, list, scan, scan_only) && scan->retry_n > 0;
}

/* NULL: no memory. The caller releases it. */
static struct held *new_scan(const struct sonde *s, const struct questions *q, enum scan_mode mode,
                             size_t n, struct held *first, struct held_account *account, size_t max)
{
    struct held *h = nif_out_of_memory() ? NULL : enif_alloc_resource(s->scan_type, sizeof *h);
    if (!h)
        return NULL;
    struct vm vm = s->vm;
    if (s->is_aimed)
        vm.first_call_key = atomic_load(&s->first_call);
    h->lay = *s->vm.lay;
    vm.lay = &h->lay;
    in_use_init(&h->in_use);
    h->left = (struct leftovers){NULL};
    h->first = first;
    if (first)
        enif_keep_resource(first);
    h->account = account;
    if (account)
        enif_keep_resource(account);
    scan_init(&h->scan, &vm, q->attr, q->n, mode, n, first ? &first->scan.own : NULL, max);
    if (account)
        scan_account(&h->scan, &account->account);
    return h;
}

NIF(nif_do_scan_new)
{
    /* (Attr | [Attr], Mode, N, First | Pids | undefined, Exclude, MaxEntries); to fill an account, the
     * fourth argument is {Account, Pids | undefined} */
    struct sonde *s = sonde_of(env);
    struct questions q;
    enum scan_mode mode;
    ErlNifUInt64 n;
    ErlNifUInt64 max;
    struct held *first;
    struct held_account *account;
    ERL_NIF_TERM from = argv[3];
    if (!atomic_load_explicit(&s->proved, memory_order_acquire) || !get_mode(argv[1], &mode) ||
        !get_questions(env, argv[0], mode, &q) || !enif_get_uint64(env, argv[2], &n) ||
        !get_account(env, &from, mode, &q, &account) || !get_first(env, from, mode, &first) ||
        !enif_get_uint64(env, argv[5], &max))
        return nif_raise(env, ATOM(badarg));
    struct held *h = new_scan(s, &q, mode, n, first, account, max);
    if (!h)
        return nif_raise(env, ATOM(no_memory));
    bool ok = get_excluded(env, argv[4], &h->scan) && get_only(env, from, &h->scan);
    ERL_NIF_TERM term = ok ? enif_make_resource(env, h) : 0;
    enif_release_resource(h);
    return ok ? term : nif_raise(env, ATOM(badarg));
}

/* ---- step ---------------------------------------------------------------------------------- */

static void add_counters(struct sonde *s, struct scan *scan)
{
    atomic_fetch_add(&s->native, scan->counters.native);
    atomic_fetch_add(&s->busy, scan->counters.busy);
    atomic_fetch_add(&s->torn, scan->counters.torn);
    atomic_fetch_add(&s->asked, scan->counters.asked);
    memset(&scan->counters, 0, sizeof scan->counters);
}

static ERL_NIF_TERM asks(ErlNifEnv *env, const struct scan *scan)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);
    for (unsigned i = scan->ask_n; i-- > 0;)
        list = enif_make_list_cell(env, nif_make_pid(env, scan->ask[i]), list);
    return enif_make_tuple2(env, ATOM(ask), list);
}

static ERL_NIF_TERM rows_out(ErlNifEnv *env, struct scan *scan)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);
    unsigned n = 1 + scan->qn;
    for (unsigned i = scan->out_n; i >= n; i -= n) {
        const int64_t *row = &scan->out[i - n];
        ERL_NIF_TERM values = enif_make_list(env, 0);
        for (unsigned k = scan->qn; k > 0; k--) {
            bool pid = scan->q[k - 1].is_pid && term_is_local_pid((uint64_t)row[k]);
            values = enif_make_list_cell(
                env, pid ? nif_make_pid(env, (uint64_t)row[k]) : enif_make_int64(env, row[k]),
                values);
        }
        list = enif_make_list_cell(
            env, enif_make_tuple2(env, nif_make_pid(env, (uint64_t)row[0]), values), list);
    }
    scan_taken(scan);
    return enif_make_tuple2(env, ATOM(rows), list);
}

/* What the walks drop is freed before they go on, and before the scan is done, because its caller may keep it for
 * long. */
static enum scan_result slice(struct sonde *s, struct held *h)
{
    uint64_t end = clock_ns() + SLICE_NS;
    enum scan_result r = SCAN_MORE;
    do {
        if (h->left.first) {
            (void)nif_free_step(&h->left);
            continue;
        }
        enum peek_reader reader = nif_peek_reader(s);
        if (reader == PEEK_NONE)
            return SCAN_LOST;
        leftovers_collect(&h->left);
        r = scan_step(&h->scan, reader, LOOK_NS);
        leftovers_collect(NULL);
        if (r == SCAN_DONE && h->left.first)
            r = SCAN_MORE; /* a step after the last one is done again */
    } while (r == SCAN_MORE && clock_ns() < end);
    return r;
}

static ERL_NIF_TERM result(ErlNifEnv *env, struct sonde *s, struct scan *scan, enum scan_result r)
{
    add_counters(s, scan);
    switch (r) {
    case SCAN_MORE:
        return ATOM(more);
    case SCAN_ASK:
        return asks(env, scan);
    case SCAN_ROWS:
        return rows_out(env, scan);
    case SCAN_DONE:
        return ATOM(done);
    case SCAN_FULL:
        return enif_make_tuple2(env, ATOM(error), ATOM(system_limit));
    case SCAN_LOST:
        return enif_make_tuple2(env, ATOM(error), ATOM(no_reader));
    default:
        return enif_make_tuple2(env, ATOM(error), ATOM(no_memory));
    }
}

SCAN_NIF(do_scan_step)
{
    /* (Scan): dirty, because a slice is too long for a normal scheduler */
    struct sonde *s = sonde_of(env);
    return result(env, s, &h->scan, slice(s, h));
}

SCAN_NIF(do_scan_begin)
{
    /* (Scan): the first step on a normal scheduler, where that is short; otherwise more */
    struct sonde *s = sonde_of(env);
    uint64_t begin = clock_ns();
    enum scan_result r = scan_begin(&h->scan, nif_peek_reader(s), BEGIN_NS);
    uint64_t percent = (clock_ns() - begin) / (NS_PER_TIMESLICE / 100);
    (void)enif_consume_timeslice(env, percent < 1 ? 1 : percent > 100 ? 100 : (int)percent);
    return result(env, s, &h->scan, r);
}

/* Value, or a list with one value for each attribute. */
static bool get_values(ErlNifEnv *env, const struct scan *scan, ERL_NIF_TERM term, int64_t *values)
{
    ErlNifSInt64 value;
    ERL_NIF_TERM head = term;
    bool list = enif_is_list(env, term);
    for (unsigned k = 0; k < scan->qn; k++) {
        if ((list && !enif_get_list_cell(env, term, &head, &term)) ||
            !enif_get_int64(env, head, &value))
            return false;
        values[k] = value;
    }
    return list ? enif_is_empty_list(env, term) : scan->qn == 1;
}

static bool feed(ErlNifEnv *env, struct scan *scan, ERL_NIF_TERM head)
{
    const ERL_NIF_TERM *pair;
    int arity;
    ErlNifPid pid;
    int64_t values[SCAN_QUESTIONS] = {0};
    if (!enif_get_tuple(env, head, &arity, &pair) || arity != 2 ||
        !enif_get_local_pid(env, pair[0], &pid))
        return false;
    bool dead = pair[1] == ATOM(undefined);
    if (!dead && !get_values(env, scan, pair[1], values))
        return false;
    return scan_answer(scan, pair[0], dead, values) == ST_OK;
}

SCAN_NIF(do_scan_feed)
{
    /* (Scan, [{Pid, Value | [Value] | undefined}]) */
    ERL_NIF_TERM head;
    ERL_NIF_TERM list = argv[1];
    bool ok = true;
    for (unsigned i = 0; ok && i < FEED_MAX && enif_get_list_cell(env, list, &head, &list); i++)
        ok = feed(env, &h->scan, head);
    ok = ok && enif_is_empty_list(env, list);
    if (ok)
        scan_asked(&h->scan);
    add_counters(sonde_of(env), &h->scan);
    return ok ? ATOM(ok) : nif_raise(env, ATOM(badarg));
}

/* ---- answers ------------------------------------------------------------------------------- */

static ERL_NIF_TERM row_item(ErlNifEnv *env, const void *top, size_t i)
{
    const struct row *row = &((const struct top_n *)top)->rows[i];
    return enif_make_tuple2(env, nif_make_pid(env, row->pid), enif_make_int64(env, row->value));
}

SCAN_NIF(do_scan_rows)
{
    /* (Scan, Index, From, Count): largest first; Index: of the attribute, from 0 */
    unsigned k;
    if (!enif_get_uint(env, argv[1], &k) || k >= h->scan.qn)
        return nif_raise(env, ATOM(badarg));
    return nif_page(env, argv[2], argv[3], &h->scan.top[k], h->scan.top[k].n, row_item);
}

/* ---- samples ------------------------------------------------------------------------------- */

static ERL_NIF_TERM pid_item(ErlNifEnv *env, const void *sample, size_t i)
{
    return nif_make_pid(env, entry_pid(&((const struct sample *)sample)->entries[i]));
}

SCAN_NIF(do_scan_pids)
{
    /* (Scan, From, Count) */
    return nif_page(env, argv[1], argv[2], h->scan.sample, h->scan.sample->n, pid_item);
}

static ERL_NIF_TERM value_item(ErlNifEnv *env, const void *sample, size_t i)
{
    const struct entry *e = &((const struct sample *)sample)->entries[i];
    ERL_NIF_TERM value = e->key & SAMPLE_SKIP      ? ATOM(skip)
                         : e->key & SAMPLE_UNKNOWN ? ATOM(undefined)
                                                   : enif_make_int64(env, e->value);
    return enif_make_tuple2(env, nif_make_pid(env, entry_pid(e)), value);
}

SCAN_NIF(do_scan_values)
{
    /* (Scan, From, Count): the sample of a first scan, {Pid, Value | undefined | skip} */
    return nif_page(env, argv[1], argv[2], h->scan.sample, h->scan.sample->n, value_item);
}

static ERL_NIF_TERM large_ones(ErlNifEnv *env, const struct scan *scan)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);
    for (unsigned i = scan->ask_n; i-- > 0;) {
        if (scan->ask_large[i])
            list = enif_make_list_cell(env, nif_make_pid(env, scan->ask[i]), list);
    }
    return list;
}

static ERL_NIF_TERM waiting_ones(ErlNifEnv *env, struct scan *scan)
{
    uint64_t pids[WAITING_MAX];
    ERL_NIF_TERM list = enif_make_list(env, 0);
    enum peek_reader reader = nif_peek_reader(sonde_of(env));
    unsigned n = reader == PEEK_NONE ? 0 : scan_waiting(scan, reader, pids, WAITING_MAX);
    while (n-- > 0)
        list = enif_make_list_cell(env, nif_make_pid(env, pids[n]), list);
    return list;
}

SCAN_NIF(do_scan_info)
{
    /* (Scan) */
    ERL_NIF_TERM keys[] = {ATOM(entries),   ATOM(left),  ATOM(top),    ATOM(answered),
                           ATOM(too_large), ATOM(large), ATOM(waiting)};
    ERL_NIF_TERM values[] = {enif_make_uint64(env, h->scan.sample->n),
                             enif_make_uint64(env, h->scan.left),
                             enif_make_uint64(env, h->scan.top->n),
                             enif_make_uint64(env, h->scan.answered),
                             enif_make_uint64(env, h->scan.too_large),
                             large_ones(env, &h->scan),
                             waiting_ones(env, &h->scan)};
    return nif_map(env, keys, values, sizeof keys / sizeof *keys);
}

SCAN_NIF(do_scan_limit)
{
    /* (Scan, MaxWords, PatienceUs) */
    ErlNifUInt64 words;
    ErlNifUInt64 us;
    if (!enif_get_uint64(env, argv[1], &words) || !enif_get_uint64(env, argv[2], &us) ||
        us > PATIENCE_US_MAX)
        return nif_raise(env, ATOM(badarg));
    scan_limit(&h->scan, words);
    scan_patience(&h->scan, us * 1000);
    return ATOM(ok);
}

SCAN_NIF(do_scan_part)
{
    /* (Scan, Part, Parts), before the first step; Part: from 0 */
    unsigned i;
    unsigned n;
    if (!enif_get_uint(env, argv[1], &i) || !enif_get_uint(env, argv[2], &n) || i >= n ||
        n > PARTS_MAX || !scan_is_new(&h->scan))
        return nif_raise(env, ATOM(badarg));
    scan_part(&h->scan, i, n);
    return ATOM(ok);
}

SCAN_NIF(do_scan_exclude)
{
    /* (Scan, Pids) */
    return get_excluded(env, argv[1], &h->scan) ? ATOM(ok) : nif_raise(env, ATOM(badarg));
}

SCAN_NIF(do_scan_skip)
{
    /* (Scan, Pid) */
    ErlNifPid pid;
    if (!enif_get_local_pid(env, argv[1], &pid))
        return nif_raise(env, ATOM(badarg));
    struct entry *e = sample_find(h->scan.sample, argv[1]);
    if (e)
        e->key |= SAMPLE_SKIP;
    return ATOM(ok);
}

SCAN_NIF(do_scan_after)
{
    /* (Scan) */
    return scan_after(&h->scan) ? ATOM(ok) : nif_raise(env, ATOM(badarg));
}
