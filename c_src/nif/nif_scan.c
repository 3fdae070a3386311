/* nif_scan.c: the NIFs of a scan: the same attributes of every process, in slices.
 * Knows: how Erlang holds a scan, and its arguments and answers as terms.
 * Does not know: how processes are read. */
#include "util/clock.h"
#include "nif/nif_account.h"
#include "scan/scan.h"
#include "vm/term.h"

#include <string.h>

/* A slice of 5 ms, plus the current batch, stays far below the promised 10 ms. LOOK_NS is the
 * interval of checks that the reader still works, so the time for which another library's handler
 * may go unnoticed. BEGIN_NS is for a normal scheduler, which no call may hold for 1 ms. */
enum { SLICE_NS = 5000000, LOOK_NS = 1000000, BEGIN_NS = 200000, FEED_MAX = SCAN_ASKS };
enum { NS_PER_TIMESLICE = 1000000 }; /* as erl_nif has it */
enum { WAITING_MAX = 10, PATIENCE_US_MAX = 1000000, PARTS_MAX = 64 };
enum { CALLS_MAX = 16, FUNCTIONS_MAX = 4096 };

struct held {
    struct in_use in_use;
    struct scan scan;
    struct held *first;           /* this scan reads the sample of that one; NULL: none */
    struct held_account *account; /* this scan reads or fills it; NULL: none */
    struct leftovers left;
    struct layout lay; /* a copy, because the scan outlives an upgrade with a new proof */
};

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

/* NULL: not a scan, or another call uses it, or the sample or account that it needs. */
static struct held *take(ErlNifEnv *env, ERL_NIF_TERM term)
{
    struct held *h = get_held(env, term);
    if (!h || !in_use_take(&h->in_use))
        return NULL;
    if (!also_used(h) || in_use_take(also_used(h)))
        return h;
    in_use_give_back(&h->in_use);
    return NULL;
}

static void give_back(struct held *h)
{
    if (also_used(h))
        in_use_give_back(also_used(h));
    in_use_give_back(&h->in_use);
}

#define SCAN_NIF(Name) NIF_WITH(Name, held, take, give_back)

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

/* ---- stacks -------------------------------------------------------------------------------- */

SCAN_NIF(do_scan_stacks)
{
    /* (Scan, From): {Next | done, [{Node, Processes, OneOfThem}]}; From: 1 for the first */
    const struct stack_tree *t = &h->scan.stacks;
    ErlNifUInt64 from;
    if (!enif_get_uint64(env, argv[1], &from) || from == 0)
        return nif_raise(env, ATOM(badarg));
    ERL_NIF_TERM list = enif_make_list(env, 0);
    uint64_t i = from;
    for (; i < t->n && i - from < PAGE_MAX; i++) {
        const struct stack_node *node = &t->nodes[i];
        if (node->count > 0)
            list = enif_make_list_cell(env,
                                       enif_make_tuple3(env, enif_make_uint64(env, i),
                                                        enif_make_uint64(env, node->count),
                                                        nif_make_pid(env, node->pid)),
                                       list);
    }
    return enif_make_tuple2(env, i < t->n ? enif_make_uint64(env, i) : ATOM(done), list);
}

static bool is_atom_of(uint64_t word, uint64_t count)
{
    return term_is_atom(word) && word >> 6 < count;
}

bool nif_make_own_function(ErlNifEnv *env, const struct mfa *mfa, uint64_t count, ERL_NIF_TERM *out)
{
    *out = ATOM(undefined);
    if (!is_atom_of(mfa->module, count) || !is_atom_of(mfa->function, count))
        return false;
    *out = enif_make_tuple3(env, mfa->module, mfa->function, enif_make_uint64(env, mfa->arity));
    return true;
}

/* false: it is in no function. not_known: over there it may be in one, which cannot be read. A return address is behind
 * the call, which may be the last instruction of its function. */
static bool make_call(ErlNifEnv *env, const struct vm *vm, const uint64_t *frames, unsigned i,
                      uint64_t count, ERL_NIF_TERM *call)
{
    struct mfa mfa;
    enum code_found found = code_look(vm->reader, &vm->code, frames[i] - (i > 0), &mfa, NULL);
    if (sonde_of(env)->is_aimed) {
        *call = found == CODE_FOUND ? nif_make_function(env, vm, &mfa) : ATOM(not_known);
        return found != CODE_NONE;
    }
    return found == CODE_FOUND && nif_make_own_function(env, &mfa, count, call);
}

SCAN_NIF(do_scan_stack)
{
    /* (Scan, Node, Atoms): the functions of its stack, the last call first, or not_known: one of them cannot be read;
     * Atoms: how many the VM has */
    struct vm *vm = &h->scan.vm;
    uint64_t frames[STACK_FRAMES_MAX];
    ErlNifUInt64 node;
    ErlNifUInt64 count;
    ERL_NIF_TERM call;
    if (!enif_get_uint64(env, argv[1], &node) || node == 0 || node >= h->scan.stacks.n ||
        !enif_get_uint64(env, argv[2], &count))
        return nif_raise(env, ATOM(badarg));
    vm->reader = nif_peek_reader(sonde_of(env));
    if (vm->reader == PEEK_NONE)
        return ATOM(no_reader);
    ERL_NIF_TERM list = enif_make_list(env, 0);
    for (unsigned i = stack_tree_frames(&h->scan.stacks, node, frames, STACK_FRAMES_MAX);
         i-- > 0;) {
        if (!make_call(env, vm, frames, i, count, &call))
            continue;
        if (call == ATOM(not_known))
            return call;
        list = enif_make_list_cell(env, call, list);
    }
    return list;
}

/* ---- groups -------------------------------------------------------------------------------- */

/* undefined: there is none, or it was no function. */
static ERL_NIF_TERM make_origin(ErlNifEnv *env, const uint64_t words[2], uint64_t count)
{
    struct mfa mfa = origin_function(words);
    if (!is_atom_of(mfa.module, count) || !is_atom_of(mfa.function, count))
        return ATOM(undefined);
    return enif_make_tuple3(env, mfa.module, mfa.function, enif_make_uint64(env, mfa.arity));
}

static ERL_NIF_TERM make_group(ErlNifEnv *env, const struct stack_tree *t, size_t i, uint64_t count)
{
    uint64_t key[ORIGIN_WORDS];
    ERL_NIF_TERM sums = enif_make_list(env, 0);
    (void)stack_tree_frames(t, i, key, ORIGIN_WORDS);
    for (unsigned k = t->width; k-- > 0;)
        sums = enif_make_list_cell(env, enif_make_int64(env, t->sums[i * t->width + k]), sums);
    return enif_make_tuple6(
        env, key[ORIGIN_LEADER] != 0 ? nif_make_pid(env, key[ORIGIN_LEADER]) : ATOM(undefined),
        make_origin(env, &key[ORIGIN_CALL], count), make_origin(env, &key[ORIGIN_FIRST], count),
        enif_make_uint64(env, t->nodes[i].count), nif_make_pid(env, t->nodes[i].pid), sums);
}

SCAN_NIF(do_scan_groups)
{
    /* (Scan, From, Atoms): {Next | done, [{Leader | undefined, Call, First | undefined, Processes, OneOfThem, [Sum]}]};
     * From: 1 for the first */
    const struct stack_tree *t = &h->scan.stacks;
    ErlNifUInt64 from;
    ErlNifUInt64 count;
    if (!enif_get_uint64(env, argv[1], &from) || from == 0 ||
        !enif_get_uint64(env, argv[2], &count) || h->scan.mode != SCAN_GROUPS)
        return nif_raise(env, ATOM(badarg));
    ERL_NIF_TERM list = enif_make_list(env, 0);
    uint64_t i = from;
    for (; i < t->n && i - from < PAGE_MAX; i++) {
        if (t->nodes[i].count > 0)
            list = enif_make_list_cell(env, make_group(env, t, i, count), list);
    }
    return enif_make_tuple2(env, i < t->n ? enif_make_uint64(env, i) : ATOM(done), list);
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

SCAN_NIF(do_scan_place)
{
    /* (Scan, Pid), before the first step: ok, or why the place where it waits cannot be read */
    struct scan *scan = &h->scan;
    uintptr_t proc;
    scan->vm.reader = nif_peek_reader(sonde_of(env));
    if (scan->vm.reader == PEEK_NONE)
        return ATOM(no_reader);
    if (!nif_find_process(env, &scan->vm, argv[1], &proc))
        return nif_raise(env, ATOM(badarg));
    if (proc == 0)
        return ATOM(gone);
    enum status st = scan_place(scan, proctab_slot(scan->vm.lay, &scan->vm.tab, argv[1]), proc);
    return st == ST_OK ? ATOM(ok) : nif_status_atom(env, st);
}

/* ---- calls of another OS process: there is no process of ours whose place could be taken ---------- */

static bool has_bytes(const struct atom_text *text, const ErlNifBinary *bytes)
{
    return text->n == bytes->size && memcmp(text->bytes, bytes->data, text->n) == 0;
}

static bool is_one_of(ErlNifEnv *env, ERL_NIF_TERM texts, const struct atom_text *text)
{
    ERL_NIF_TERM head;
    ErlNifBinary bytes;
    for (unsigned i = 0; i < CALLS_MAX && enif_get_list_cell(env, texts, &head, &texts); i++) {
        if (enif_inspect_binary(env, head, &bytes) && has_bytes(text, &bytes))
            return true;
    }
    return false;
}

/* In a core file. In a living OS process, code that is listed may be gone meanwhile. */
static void some_unread(ErlNifEnv *env, struct scan *scan)
{
    if (sonde_of(env)->core)
        scan->places.some_unread = true;
}

/* The functions of that module with one of these names. false: no more places. */
static bool add_functions(ErlNifEnv *env, struct scan *scan, const struct code_module *m,
                          ERL_NIF_TERM texts, uint64_t *found)
{
    const struct vm *vm = &scan->vm;
    for (uint64_t i = 0; m->n <= FUNCTIONS_MAX && i < m->n; i++) {
        struct mfa names;
        struct block block;
        struct atom_text text;
        if (!code_function(vm->reader, m, i, &names, &block) ||
            !atom_table_text(vm->reader, &vm->atoms, names.function, &text)) {
            some_unread(env, scan);
            continue;
        }
        if (!is_one_of(env, texts, &text))
            continue;
        if (!scan_function(scan, &block))
            return false;
        ++*found;
    }
    return true;
}

static bool get_cursor(ErlNifEnv *env, ERL_NIF_TERM term, struct code_cursor *out)
{
    const ERL_NIF_TERM *pair;
    int arity;
    ErlNifUInt64 i;
    if (!enif_get_tuple(env, term, &arity, &pair) || arity != 2 ||
        !enif_get_uint(env, pair[0], &out->record) || !enif_get_uint64(env, pair[1], &i))
        return false;
    out->i = i;
    out->unread = false;
    return true;
}

SCAN_NIF(do_scan_calls)
{
    /* (Scan, Module, [Function], From), texts, before the first step: processes in such a function of that module
     * wait at a place that counts. {done | NextFrom, Functions}; From: {0, 0} for the first */
    struct scan *scan = &h->scan;
    struct code_cursor at;
    struct code_module m;
    struct atom_text text;
    ErlNifBinary module;
    uint64_t found = 0;
    if (!sonde_of(env)->is_aimed || !enif_inspect_binary(env, argv[1], &module) ||
        !enif_is_list(env, argv[2]) || !get_cursor(env, argv[3], &at))
        return nif_raise(env, ATOM(badarg));
    scan->vm.reader = nif_peek_reader(sonde_of(env));
    if (scan->vm.reader == PEEK_NONE)
        return ATOM(no_reader);
    bool more = true;
    for (uint64_t end = clock_ns() + SLICE_NS; more && clock_ns() < end;) {
        more = code_next(scan->vm.reader, &scan->vm.code, &at, &m);
        if (at.unread)
            some_unread(env, scan);
        if (!more)
            break;
        if (m.n == 0 || !atom_table_text(scan->vm.reader, &scan->vm.atoms, m.name, &text))
            some_unread(env, scan);
        else if (has_bytes(&text, &module) && !add_functions(env, scan, &m, argv[2], &found))
            return ATOM(no_memory);
    }
    ERL_NIF_TERM next =
        enif_make_tuple2(env, enif_make_uint(env, at.record), enif_make_uint64(env, at.i));
    return enif_make_tuple2(env, more ? next : ATOM(done), enif_make_uint64(env, found));
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
