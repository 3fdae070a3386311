/* nif_proof.c: the NIFs that sonde_vm uses to prove a layout.
 * Knows: how to find the caller's own Process, and a path of fields as an Erlang term.
 * Does not know: the expected answers. */
#include "util/clock.h"
#include "nif/nif.h"
#include "util/alloc.h"
#include "scan/attr.h"
#include "vm/proof.h"
#include "vm/term.h"

#include <string.h>

/* PROOF_WORDS: more than the heap of a probe, even if +hms makes all heaps large. PROOF_SLICE words
 * can be compared in half a millisecond, even with a system call for each. PROOF_SWELL words are
 * built in less. */
enum { PROOF_WORDS = 1 << 23, PROOF_SLICE = 400, PROOF_SWELL = 1 << 13 };

NIF(nif_tables)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);
    for (unsigned i = layout_count(); i-- > 0;) {
        const struct layout *lay = layout_table(i);
        ERL_NIF_TERM fields = enif_make_list(env, 0);
        for (unsigned f = LAYOUT_FIELD_COUNT; f-- > 0;)
            fields = enif_make_list_cell(
                env,
                enif_make_tuple2(env, enif_make_atom(env, layout_field_names[f]),
                                 enif_make_uint(env, lay->f[f])),
                fields);
        list = enif_make_list_cell(
            env,
            enif_make_tuple6(env, enif_make_uint(env, i), enif_make_atom(env, lay->name),
                             enif_make_uint(env, lay->otp), enif_make_uint(env, lay->flags_shift),
                             enif_make_uint(env, lay->type_mask), fields),
            list);
    }
    return list;
}

#ifdef SONDE_TEST
/* n: below 256 a tag and its wrong kind; above, the wrong field of funs and binaries. */
static void mutate_things(struct layout *lay, unsigned n)
{
    uint8_t *const wrong[] = {&lay->fun.raw, &lay->fun.word, &lay->fun.shift, &lay->fun.more};
    if (n < 256)
        lay->kinds[n >> 4] = n & 15;
    else if (n < 260)
        *wrong[n - 256] ^= 1;
    else if (n == 260)
        lay->refc_is_term = !lay->refc_is_term;
    else
        lay->copied_bytes = 0;
}
#endif

static void choose_table(struct sonde *s, unsigned index)
{
    s->tried = *layout_table(index);
#ifdef SONDE_TEST
    if (s->mutated_field < LAYOUT_FIELD_COUNT)
        s->tried.f[s->mutated_field] = (uint16_t)s->mutated_offset;
    else if (s->mutated_field > LAYOUT_FIELD_COUNT)
        mutate_things(&s->tried, s->mutated_offset);
#endif
    s->candidate.lay = &s->tried;
}

/* On a normal scheduler the environment points at the caller's Process, and that struct has the
 * caller's pid. (On a dirty one it would point at a shadow.) */
bool nif_own_process(ErlNifEnv *env, const struct vm *vm, uint64_t *pid, uint64_t *proc)
{
    ErlNifPid self;
    uint64_t id;
    if (!enif_self(env, &self))
        return false;
    *pid = enif_make_pid(env, &self);
    return peek_word(vm->reader, (uintptr_t)env + ENV_PROC, proc) &&
           peek_word(vm->reader, (uintptr_t)*proc + LF(vm->lay, id), &id) && id == *pid;
}

NIF(nif_do_calibrate)
{
    /* (TableIndex): not dirty, because only a normal scheduler leads to the caller's own Process */
    struct sonde *s = sonde_of(env);
    unsigned index;
    uint64_t pid;
    if (!nif_is_prover(env) || !enif_get_uint(env, argv[0], &index) || index >= layout_count())
        return nif_raise(env, ATOM(badarg));
    if (enif_thread_type() != ERL_NIF_THR_NORMAL_SCHEDULER)
        return ATOM(not_normal_scheduler);
    s->seal.own = 0;
    s->candidate.tab = (struct proctab){.max = 0};
    s->candidate.reader = nif_peek_reader(s);
    if (s->candidate.reader == PEEK_NONE)
        return ATOM(no_reader);
    choose_table(s, index);
    if (!nif_own_process(env, &s->candidate, &pid, &s->seal.own))
        return enif_make_tuple2(env, ATOM(failed), ATOM(id));
    return ATOM(ok);
}

/* Only the prover changes these, and another process becomes the prover under the lock, so nothing changes during
 * the copy. */
bool nif_learn(ErlNifEnv *env, struct learning *l)
{
    struct sonde *s = sonde_of(env);
    if (!nif_lock_as_prover(env))
        return false;
    l->vm = s->candidate;
    l->lay = s->tried;
    l->own = s->seal.own;
    l->scheduler = s->seal.scheduler;
    enif_mutex_unlock(s->lock);
    l->vm.reader = nif_peek_reader(s);
    if (!l->vm.lay)
        return false;
    l->vm.lay = &l->lay;
    return true;
}

void nif_keep(ErlNifEnv *env, const struct learning *l, size_t at, size_t size)
{
    struct sonde *s = sonde_of(env);
    nif_hold_learner(env);
    if (!nif_lock_as_prover(env))
        return;
    memcpy((char *)&s->candidate + at, (const char *)&l->vm + at, size);
    enif_mutex_unlock(s->lock);
}

NIF(nif_do_calibrate_table)
{
    /* (ProcessLimit): after calibrate. Dirty: with system calls it takes some milliseconds. The
     * caller's Process does not move as long as the caller lives. */
    struct learning l;
    struct proctab *tab = &l.vm.tab;
    ErlNifUInt64 limit;
    ErlNifPid self;
    if (!nif_learn(env, &l) || !enif_self(env, &self) || l.own == 0 ||
        !enif_get_uint64(env, argv[0], &limit))
        return nif_raise(env, ATOM(badarg));
    if (l.vm.reader == PEEK_NONE)
        return ATOM(no_reader);
    if (!proctab_find(l.vm.reader, l.vm.lay, limit, enif_make_pid(env, &self), (uintptr_t)l.own,
                      tab))
        return enif_make_tuple2(env, ATOM(failed), ATOM(process_table));
    /* finding the table has proved proc_size, so this check is possible only now */
    bool ok = layout_in_process(l.vm.lay, LF_id);
    if (!ok)
        *tab = (struct proctab){.max = 0};
    NIF_KEEP(env, &l, tab);
    return ok ? ATOM(ok) : enif_make_tuple2(env, ATOM(failed), ATOM(id));
}

NIF(nif_do_turnover)
{
    /* (): {Count, Given}, after calibrate_table */
    struct sonde *s = sonde_of(env);
    struct turnover t;
    if (!nif_is_prover(env) || s->candidate.tab.max == 0)
        return nif_raise(env, ATOM(badarg));
    if (!proctab_turnover(nif_peek_reader(s), &s->candidate.tab, &t))
        return ATOM(no_reader);
    return enif_make_tuple2(env, enif_make_uint(env, t.count), enif_make_uint(env, t.given));
}

NIF(nif_do_trust_turnover)
{
    /* (): what turnover answers is right */
    struct sonde *s = sonde_of(env);
    if (!nif_is_prover(env) || s->candidate.tab.max == 0)
        return nif_raise(env, ATOM(badarg));
    s->candidate.tab.has_turnover = true;
    return ATOM(ok);
}

NIF(nif_do_trust_self_bit)
{
    /* (): the bit is set in a probe that sent to itself and has an empty mailbox */
    struct sonde *s = sonde_of(env);
    if (!nif_is_prover(env) || s->candidate.tab.max == 0)
        return nif_raise(env, ATOM(badarg));
    s->tried.self_bit = true;
    return ATOM(ok);
}

NIF(nif_has_turnover)
{
    const struct sonde *s = sonde_of(env);
    return atomic_load_explicit(&s->proved, memory_order_acquire) && s->vm.tab.has_turnover
               ? ATOM(true)
               : ATOM(false);
}

/* ---- one reading --------------------------------------------------------------------------- */

bool nif_find_process(ErlNifEnv *env, const struct vm *vm, ERL_NIF_TERM term, uintptr_t *out)
{
    struct sonde *s = sonde_of(env);
    ErlNifPid pid;
    uint64_t proc;
    uint64_t id;
    if (!enif_get_local_pid(env, term, &pid) ||
        (!atomic_load_explicit(&s->proved, memory_order_acquire) && !nif_is_probe(s, term)))
        return false;
    *out = 0;
    if (peek_word(vm->reader, vm->tab.tab + proctab_slot(vm->lay, &vm->tab, term) * 8, &proc) &&
        proc != 0 && peek_word(vm->reader, (uintptr_t)proc + LF(vm->lay, id), &id) && id == term)
        *out = (uintptr_t)proc;
    return true;
}

static bool get_step(ErlNifEnv *env, ERL_NIF_TERM term, struct proof_step *step)
{
    const ERL_NIF_TERM *pair;
    int arity;
    step->field = LF_id;
    if (term == ATOM(base)) {
        step->kind = STEP_BASE;
        return true;
    }
    if (enif_get_tuple(env, term, &arity, &pair)) {
        step->kind = STEP_AT;
        return arity == 2 && pair[0] == ATOM(at) && nif_field(env, pair[1], &step->field);
    }
    step->kind = STEP_READ;
    return nif_field(env, term, &step->field);
}

static bool get_path(ErlNifEnv *env, ERL_NIF_TERM list, struct proof *p)
{
    ERL_NIF_TERM head;
    for (p->n = 0; enif_get_list_cell(env, list, &head, &list); p->n++) {
        if (p->n == PROOF_STEPS || !get_step(env, head, &p->path[p->n]))
            return false;
    }
    return enif_is_empty_list(env, list);
}

static bool get_op(ErlNifEnv *env, ERL_NIF_TERM term, enum proof_op *op)
{
    static const char *const names[] = {
#define X(Name) #Name,
        PROOF_OPS(X)
#undef X
    };
    *op = nif_one_of(env, term, names, OP_COUNT);
    return *op != OP_COUNT;
}

/* {term, Immediate}: the term's own word; a binary of 8 bytes: a word as in memory; or a number. */
static bool get_word(ErlNifEnv *env, ERL_NIF_TERM term, uint64_t *word)
{
    const ERL_NIF_TERM *pair;
    int arity;
    ErlNifBinary bin;
    ErlNifUInt64 number;
    if (enif_get_tuple(env, term, &arity, &pair)) {
        *word = arity == 2 ? pair[1] : 0;
        return arity == 2 && pair[0] == ATOM(term) && term_is_immediate(pair[1]);
    }
    if (enif_inspect_binary(env, term, &bin) && bin.size == sizeof *word) {
        __builtin_memcpy(word, bin.data, sizeof *word);
        return true;
    }
    if (!enif_get_uint64(env, term, &number))
        return false;
    *word = number;
    return true;
}

/* {From, Words, Word}: a slice of perhaps many words. */
static bool get_has(ErlNifEnv *env, ERL_NIF_TERM term, struct proof *p)
{
    const ERL_NIF_TERM *triple;
    int arity;
    return enif_get_tuple(env, term, &arity, &triple) && arity == 3 &&
           enif_get_uint(env, triple[0], &p->from) && p->from <= PROOF_WORDS &&
           enif_get_uint(env, triple[1], &p->words) && p->words <= PROOF_SLICE &&
           get_word(env, triple[2], &p->word);
}

static bool get_argument(ErlNifEnv *env, const struct vm *vm, ERL_NIF_TERM term, struct proof *p)
{
    switch (p->op) {
    case OP_value:
    case OP_head_ref:
        return term == ATOM(none);
    case OP_constant:
    case OP_minus:
    case OP_own:
    case OP_head_field:
        return nif_field(env, term, &p->other);
    case OP_same:
    case OP_less:
        return nif_find_process(env, vm, term, &p->other_proc);
    case OP_is:
    case OP_head_count:
        return get_word(env, term, &p->word);
    default:
        return get_has(env, term, p);
    }
}

/* The candidate, with a reader that works in this thread: another thread's reader may crash here.
 * false: no candidate is calibrated. */
static bool get_candidate(const struct sonde *s, struct vm *vm)
{
    *vm = s->candidate;
    vm->reader = nif_peek_reader(s);
    return vm->lay && vm->tab.max != 0;
}

bool nif_best_vm(ErlNifEnv *env, struct vm *vm)
{
    struct sonde *s = sonde_of(env);
    if (!atomic_load_explicit(&s->proved, memory_order_acquire))
        return nif_is_proving(env) && get_candidate(s, vm);
    *vm = s->vm;
    vm->reader = nif_peek_reader(s);
    return true;
}

/* (Path, Op, Argument) */
static bool get_proof(ErlNifEnv *env, const struct vm *vm, const ERL_NIF_TERM argv[],
                      struct proof *p)
{
    *p = (struct proof){0};
    return get_path(env, argv[0], p) && get_op(env, argv[1], &p->op) &&
           get_argument(env, vm, argv[2], p);
}

static ERL_NIF_TERM answer(ErlNifEnv *env, const struct vm *vm, uintptr_t proc,
                           const struct proof *p)
{
    int64_t result;
    if (vm->reader == PEEK_NONE)
        return ATOM(no_reader);
    if (proc == 0 || ((p->op == OP_same || p->op == OP_less) && p->other_proc == 0))
        return ATOM(gone);
    return proof_read(vm, proc, p, &result) ? enif_make_int64(env, result) : ATOM(torn);
}

NIF(nif_do_probe)
{
    /* (Pid, Path, Op, Argument) */
    struct vm vm;
    struct proof p;
    uintptr_t proc;
    if (!nif_is_proving(env) || !get_candidate(sonde_of(env), &vm) ||
        !get_proof(env, &vm, argv + 1, &p) || !nif_find_process(env, &vm, argv[0], &proc))
        return nif_raise(env, ATOM(badarg));
    return answer(env, &vm, proc, &p);
}

static bool make_tuple_of(ErlNifEnv *env, unsigned n, ERL_NIF_TERM element)
{
    ERL_NIF_TERM *elements = sonde_alloc(n * sizeof *elements);
    if (!elements)
        return false;
    for (unsigned i = 0; i < n; i++)
        elements[i] = element;
    (void)enif_make_tuple_from_array(env, elements, n);
    sonde_free(elements);
    return true;
}

NIF(nif_do_probe_swollen)
{
    /* ({Words1, Words2, Element}, Path, Op, Argument): reads the caller itself, after it got two
     * tuples that its heap has no room for. The VM collects such a heap fragment as soon as the
     * call returns, so no later call could read it. */
    struct vm vm;
    struct proof p;
    const ERL_NIF_TERM *swell;
    int arity;
    unsigned n1;
    unsigned n2;
    uint64_t pid;
    uint64_t proc;
    if (!nif_is_proving(env) || !get_candidate(sonde_of(env), &vm) ||
        !get_proof(env, &vm, argv + 1, &p) || !enif_get_tuple(env, argv[0], &arity, &swell) ||
        arity != 3 || !enif_get_uint(env, swell[0], &n1) || !enif_get_uint(env, swell[1], &n2) ||
        n1 > PROOF_SWELL || n2 > PROOF_SWELL || n1 == 0 || n2 == 0)
        return nif_raise(env, ATOM(badarg));
    if (!make_tuple_of(env, n1, swell[2]) || !make_tuple_of(env, n2, swell[2]))
        return nif_raise(env, ATOM(no_memory));
    return answer(env, &vm, nif_own_process(env, &vm, &pid, &proc) ? (uintptr_t)proc : 0, &p);
}

NIF(nif_trapped)
{
    return ATOM(ok);
}

NIF(nif_do_probe_trap)
{
    /* (): schedules another NIF, for which the VM keeps data in the caller meanwhile */
    if (!nif_is_proving(env))
        return nif_raise(env, ATOM(badarg));
    return enif_schedule_nif(env, "probe_trap", 0, CALLED(trapped), argc, argv);
}

/* ---- one attribute of one process ---------------------------------------------------------- */

/* With the syscall reader a step takes one or two system calls. */
enum { READ_NS = 500000, READ_STEPS_DEAR = 64 };

static enum status read_attr(const struct vm *vm, enum attr attr, uint64_t pid, uintptr_t proc,
                             int64_t *value)
{
    struct question q;
    struct walk w = {.room = NULL};
    question_make(&q, vm->lay, attr, false);
    enum status st = stamp_open(vm, &q.plan, proctab_slot(vm->lay, &vm->tab, pid), proc, &w.view);
    if (st != ST_OK)
        return st;
    walk_start(&w, vm, &q, &w);
    uint64_t end = clock_ns() + READ_NS;
    do {
        struct budget b = BUDGET(vm->reader == PEEK_GUARDED ? BUDGET_STEPS : READ_STEPS_DEAR);
        st = walk_go(&w, vm, &b);
    } while (st == ST_TIMESLICE && clock_ns() < end);
    walk_end(&w);
    walk_free(&w);
    if (st == ST_OK)
        st = walk_finish(&w, vm);
    peek_barrier();
    *value = w.value;
    return st == ST_OK ? walk_close(&w, vm) : st;
}

NIF(nif_do_read)
{
    /* (Pid, Attr): the value that a scan would find, or the status as an atom */
    struct vm vm;
    uintptr_t proc;
    enum attr attr;
    int64_t value;
    if (!nif_best_vm(env, &vm) || !nif_attr(env, argv[1], &attr) ||
        !nif_find_process(env, &vm, argv[0], &proc))
        return nif_raise(env, ATOM(badarg));
    if (vm.reader == PEEK_NONE)
        return ATOM(no_reader);
    enum status st = read_attr(&vm, attr, argv[0], proc, &value);
    return st == ST_OK ? enif_make_int64(env, value) : enif_make_atom(env, status_name(st));
}

void nif_adopt_candidate(struct sonde *s)
{
    s->proven = s->tried;
    s->vm = s->candidate;
    s->vm.lay = &s->proven;
    atomic_store_explicit(&s->proved, true, memory_order_release);
}
