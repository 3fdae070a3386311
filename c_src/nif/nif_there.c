/* nif_there.c: names, one process, and the number of processes of the OS process at which the library is aimed.
 * Knows: how these become terms, without an atom of this VM.
 * Does not know: how a name, a function or the text of an atom is found. */
#include "nif/nif_heap.h"

#include "process/first_call.h"
#include "scan/overview.h"
#include "util/clock.h"
#include "vm/term.h"

#include <string.h>

/* A name costs a few system calls for each process that has one. */
enum { SLICE_NS = 5000000, SLOTS = 512, TRIES = 3, ONES_MAX = 64 };

/* The vm over there. false: the library is not aimed. */
static bool get_there(ErlNifEnv *env, struct vm *vm)
{
    struct sonde *s = sonde_of(env);
    *vm = s->vm;
    vm->reader = nif_peek_reader(s);
    return s->is_aimed;
}

/* ---- names ------------------------------------------------------------------------------------------- */

/* A binary; `not_known' if there is no such atom, or its text is not readable. */
static ERL_NIF_TERM make_text(ErlNifEnv *env, const struct vm *vm, uint64_t word)
{
    struct atom_text text;
    ERL_NIF_TERM term;
    if (!atom_table_text(vm->reader, &vm->atoms, word, &text))
        return ATOM(not_known);
    unsigned char *bytes = enif_make_new_binary(env, text.n, &term);
    if (!bytes)
        return ATOM(not_known);
    memcpy(bytes, text.bytes, text.n);
    return term;
}

ERL_NIF_TERM nif_atom_there(ErlNifEnv *env, const struct vm *vm, uint64_t word)
{
    ERL_NIF_TERM text = make_text(env, vm, word);
    return text == ATOM(not_known) ? ATOM(other)
                                   : enif_make_tuple2(env, enif_make_atom(env, "atom"), text);
}

ERL_NIF_TERM nif_make_function(ErlNifEnv *env, const struct vm *vm, const struct mfa *mfa)
{
    if (mfa->module == 0)
        return ATOM(undefined);
    ERL_NIF_TERM module = make_text(env, vm, mfa->module);
    ERL_NIF_TERM function = make_text(env, vm, mfa->function);
    if (module == ATOM(not_known) || function == ATOM(not_known))
        return ATOM(not_known);
    return enif_make_tuple3(env, module, function, enif_make_uint64(env, mfa->arity));
}

/* `undefined': the address is in no function. The VM keeps the function of a process that hibernates or is in a native
 * function. */
ERL_NIF_TERM nif_make_current(ErlNifEnv *env, const struct vm *vm, const struct identity *who,
                              uint64_t pc)
{
    struct mfa mfa = who->current;
    if (who->current_unread)
        return ATOM(not_known);
    enum code_found found =
        mfa.module != 0 ? CODE_FOUND : code_look(vm->reader, &vm->code, pc, &mfa, NULL);
    return found == CODE_FOUND  ? nif_make_function(env, vm, &mfa)
           : found == CODE_NONE ? ATOM(undefined)
                                : ATOM(not_known);
}

static ERL_NIF_TERM make_name(ErlNifEnv *env, const struct vm *vm, const struct identity *who)
{
    return who->name_unread ? ATOM(not_known)
           : who->name == 0 ? ATOM(undefined)
                            : make_text(env, vm, who->name);
}

ERL_NIF_TERM nif_make_state(ErlNifEnv *env, uint64_t state)
{
    const struct {
        uint32_t bits;
        const char *name;
    } states[] = {
        {STATE_FREE, "free"},
        {STATE_EXITING, "exiting"},
        {STATE_GC, "garbage_collecting"},
        {STATE_SUSPENDED, "suspended"},
        {STATE_RUNNING | STATE_RUNNING_SYS | STATE_DIRTY_RUNNING | STATE_DIRTY_RUNNING_SYS,
         "running"},
        {STATE_ACTIVE | STATE_ACTIVE_SYS | STATE_DIRTY_ACTIVE_SYS, "runnable"}};
    for (unsigned i = 0; i < sizeof states / sizeof *states; i++) {
        if (state & states[i].bits)
            return enif_make_atom(env, states[i].name);
    }
    return ATOM(waiting);
}

/* proc_lib starts each process of a behaviour with a function of its own. */
static bool is_proc_lib(struct sonde *s, const struct vm *vm, uint64_t word)
{
    static const char name[] = "proc_lib";
    struct atom_text text;
    uint64_t known = atomic_load(&s->proc_lib);
    if (known != 0)
        return word == known;
    if (!atom_table_text(vm->reader, &vm->atoms, word, &text) || text.n != sizeof name - 1 ||
        memcmp(text.bytes, name, text.n) != 0)
        return false;
    atomic_store(&s->proc_lib, word);
    return true;
}

static bool has_dictionary(const struct vm *vm, uintptr_t proc)
{
    uint64_t dict;
    return !peek_word(vm->reader, proc + LF(vm->lay, dictionary), &dict) || dict != 0;
}

/* Whose calls are replaced by what is in the dictionary: those of proc_lib, as in the rows of a node, or of every
 * process that has one there, as in its groups. */
enum calls { CALLS_PROC_LIB, CALLS_ALL };

/* The function that it began with, for a reader: what proc_lib was to call, if that can be read now. false: in a core
 * file, what cannot be read now never can, so it is not known. */
static bool began_with(struct sonde *s, const struct vm *vm, ERL_NIF_TERM pid, uintptr_t proc,
                       enum calls calls, struct mfa *call)
{
    struct plan plan;
    struct mfa known;
    uint64_t key = atomic_load(&s->first_call);
    enum status st = ST_TORN;
    if (calls == CALLS_ALL ? !has_dictionary(vm, proc) : !is_proc_lib(s, vm, call->module))
        return true;
    first_call_plan(&plan, vm->lay);
    for (unsigned i = 0; (st == ST_TORN || st == ST_BUSY) && i < TRIES; i++)
        st = first_call_read(vm, &plan, proctab_slot(vm->lay, &vm->tab, pid), proc, &key, &known);
    if (st == ST_OK) {
        atomic_store(&s->first_call, key);
        *call = known;
    }
    return st != ST_TORN || !s->core;
}

static ERL_NIF_TERM make_call(ErlNifEnv *env, const struct vm *vm, ERL_NIF_TERM pid, uintptr_t proc,
                              const struct identity *who)
{
    struct mfa call = who->call;
    return began_with(sonde_of(env), vm, pid, proc, CALLS_PROC_LIB, &call)
               ? nif_make_function(env, vm, &call)
               : ATOM(not_known);
}

NIF(nif_do_identity)
{
    /* (Pid): {Name | undefined | not_known, Call, Current, State}; or gone. A function is undefined if there is none,
     * and not_known if it could not be read */
    struct vm vm;
    uintptr_t proc;
    uintptr_t again;
    uint64_t pc = 0;
    uint64_t state = 0;
    struct identity who;
    if (!get_there(env, &vm) || !nif_find_process(env, &vm, argv[0], &proc))
        return nif_raise(env, ATOM(badarg));
    bool ok = proc != 0 && identity_read(vm.reader, &vm.identity, proc, &who) &&
              peek_word(vm.reader, proc + LF(vm.lay, pc), &pc) &&
              peek_word(vm.reader, proc + LF(vm.lay, state), &state);
    ERL_NIF_TERM call = ok ? make_call(env, &vm, argv[0], proc, &who) : ATOM(undefined);
    peek_barrier();
    if (!ok || !nif_find_process(env, &vm, argv[0], &again) || again != proc)
        return ATOM(gone);
    return enif_make_tuple4(env, make_name(env, &vm, &who), call,
                            nif_make_current(env, &vm, &who, pc), nif_make_state(env, state));
}

/* ---- one thing of many processes ------------------------------------------------------------------ */

struct one {
    uintptr_t proc;
    bool is_read, call_unread;
    struct identity who;
    uint64_t pc, state;
};

/* false: it is no pid of this VM. */
static bool read_one(ErlNifEnv *env, const struct vm *vm, ERL_NIF_TERM pid, ERL_NIF_TERM what,
                     struct one *out)
{
    bool call = what == ATOM(initial_call);
    out->is_read = false;
    if (!nif_find_process(env, vm, pid, &out->proc))
        return false;
    if (what == ATOM(status)) {
        out->is_read =
            out->proc != 0 && peek_word(vm->reader, out->proc + LF(vm->lay, state), &out->state);
        return true;
    }
    out->is_read = out->proc != 0 &&
                   identity_read(vm->reader, &vm->identity, out->proc, &out->who) &&
                   peek_word(vm->reader, out->proc + LF(vm->lay, pc), &out->pc);
    out->call_unread = out->is_read && call &&
                       !began_with(sonde_of(env), vm, pid, out->proc, CALLS_ALL, &out->who.call);
    return true;
}

static ERL_NIF_TERM make_one(ErlNifEnv *env, const struct vm *vm, ERL_NIF_TERM what,
                             const struct one *o)
{
    if (!o->is_read)
        return ATOM(gone);
    if (what == ATOM(status))
        return nif_make_state(env, o->state);
    if (what == ATOM(initial_call))
        return o->call_unread ? ATOM(not_known) : nif_make_function(env, vm, &o->who.call);
    return what == ATOM(current_function) ? nif_make_current(env, vm, &o->who, o->pc)
                                          : make_name(env, vm, &o->who);
}

NIF(nif_do_each_of)
{
    /* (initial_call | current_function | registered_name | status, [Pid]): [Function | Name | undefined | not_known |
     * State | gone], for some of the first of them, at least one. The texts, which are the same for many, are read last,
     * all at once. */
    struct vm vm;
    struct one ones[ONES_MAX];
    ERL_NIF_TERM terms[ONES_MAX];
    ERL_NIF_TERM pids[ONES_MAX];
    ERL_NIF_TERM list = argv[1];
    ERL_NIF_TERM what = argv[0];
    unsigned n = 0;
    if (!get_there(env, &vm) || !enif_is_list(env, list) ||
        (what != ATOM(initial_call) && what != ATOM(current_function) &&
         what != ATOM(registered_name) && what != ATOM(status)))
        return nif_raise(env, ATOM(badarg));
    uint64_t end = clock_ns() + SLICE_NS;
    while (n < ONES_MAX && (n == 0 || clock_ns() < end) &&
           enif_get_list_cell(env, list, &pids[n], &list)) {
        if (!read_one(env, &vm, pids[n], what, &ones[n]))
            return nif_raise(env, ATOM(badarg));
        n++;
    }
    peek_barrier();
    for (unsigned i = 0; i < n; i++) {
        uintptr_t again;
        ones[i].is_read =
            ones[i].is_read && nif_find_process(env, &vm, pids[i], &again) && again == ones[i].proc;
    }
    for (unsigned i = 0; i < n; i++)
        terms[i] = make_one(env, &vm, what, &ones[i]);
    return enif_make_list_from_array(env, terms, n);
}

/* ---- one process under one stamp --------------------------------------------------------------- */

static ERL_NIF_TERM make_values(ErlNifEnv *env, const struct overview *o)
{
    ERL_NIF_TERM values[OVERVIEW_ATTRS];
    for (unsigned i = 0; i < OVERVIEW_ATTRS; i++)
        values[i] = o->outcome[i] == ST_OK ? enif_make_int64(env, o->values[i])
                                           : nif_status_atom(env, o->outcome[i]);
    return enif_make_list_from_array(env, values, OVERVIEW_ATTRS);
}

/* A return address is behind the call. not_known: the function of one of them cannot be read. */
static ERL_NIF_TERM make_stack(ErlNifEnv *env, const struct vm *vm, const struct stack_frames *f)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);
    for (unsigned i = f->n; i-- > 0;) {
        struct mfa mfa;
        unsigned line;
        enum code_found found =
            code_look(vm->reader, &vm->code, f->frame[i] - (i > 0), &mfa, &line);
        if (found == CODE_NONE)
            continue;
        ERL_NIF_TERM call =
            found == CODE_FOUND ? nif_make_function(env, vm, &mfa) : ATOM(not_known);
        if (call == ATOM(not_known))
            return call;
        list =
            enif_make_list_cell(env, enif_make_tuple2(env, call, enif_make_uint(env, line)), list);
    }
    return list;
}

LOOK_NIF(do_look_process)
{
    /* (Look): {{Name | undefined | not_known, Call, Current, State}, Leader | undefined, [Value | busy | ask | too_large],
     * [{Function, Line | 0}] | not_known} | torn | gone */
    struct look *l = &h->look;
    const struct vm *vm = &l->vm;
    const struct overview *o = l->state;
    if (!o || l->st != ST_OK || l->walker != &overview_walker)
        return nif_raise(env, ATOM(badarg));
    enum status st = nif_may_tell(sonde_of(env), l);
    if (st != ST_OK || !o->is_known)
        return nif_status_atom(env, st == ST_OK ? ST_TORN : st);
    ERL_NIF_TERM pid = (ERL_NIF_TERM)l->view.pid;
    uintptr_t again;
    ERL_NIF_TERM call = make_call(env, vm, pid, l->view.proc, &o->who);
    peek_barrier();
    if (!nif_find_process(env, vm, pid, &again) || again != l->view.proc)
        return ATOM(gone);
    ERL_NIF_TERM who =
        enif_make_tuple4(env, make_name(env, vm, &o->who), call,
                         nif_make_current(env, vm, &o->who, stamp_word(&l->rd, LF_pc)),
                         nif_make_state(env, o->state));
    ERL_NIF_TERM leader =
        term_is_local_pid(o->leader) ? nif_make_pid(env, o->leader) : ATOM(undefined);
    return enif_make_tuple4(env, who, leader, make_values(env, o), make_stack(env, vm, &o->stack));
}

/* ---- the process of a name --------------------------------------------------------------------- */

/* UNREAD: it has a name that is not readable. */
enum named { NAMED_SO, NAMED_OTHERWISE, NAMED_UNREAD };

static enum named is_named(const struct vm *vm, uintptr_t proc, const ErlNifBinary *name)
{
    struct atom_text text;
    uint64_t atom;
    if (!identity_name(vm->reader, &vm->identity, proc, &atom))
        return NAMED_UNREAD;
    if (atom == 0)
        return NAMED_OTHERWISE;
    if (!atom_table_text(vm->reader, &vm->atoms, atom, &text))
        return NAMED_UNREAD;
    return text.n == name->size && memcmp(text.bytes, name->data, text.n) == 0 ? NAMED_SO
                                                                               : NAMED_OTHERWISE;
}

/* Its pid; 0: the process in this slot has another name, or none. *unread: its name is not readable, or in a core file
 * the process itself. */
static uint64_t named_in(const struct vm *vm, bool is_core, size_t slot, const ErlNifBinary *name,
                         bool *unread)
{
    uintptr_t at = vm->tab.tab + slot * 8;
    uint64_t proc;
    uint64_t again;
    uint64_t id;
    if (!peek_word(vm->reader, at, &proc) || proc == 0)
        return 0;
    enum named first = is_named(vm, (uintptr_t)proc, name);
    if (first == NAMED_OTHERWISE)
        return 0;
    peek_barrier();
    bool ok = peek_word(vm->reader, (uintptr_t)proc + LF(vm->lay, id), &id);
    enum named second = is_named(vm, (uintptr_t)proc, name);
    /* one that has ended meanwhile has no name */
    bool same = peek_word(vm->reader, at, &again) && again == proc &&
                (ok ? proctab_may_hold(vm->lay, &vm->tab, slot, id) : is_core);
    *unread = *unread || (same && second == NAMED_UNREAD);
    return ok && same && first == NAMED_SO && second == NAMED_SO ? id : 0;
}

/* false: the table cannot be read. *pid: 0 if no slot from *slot up to `to' has it. */
static bool find_name(const struct vm *vm, bool is_core, size_t *slot, size_t to,
                      const ErlNifBinary *name, uint64_t *pid, bool *unread)
{
    for (*pid = 0; *pid == 0; ++*slot) {
        if (!peek_scan(vm->reader, vm->tab.tab, *slot, to, slot))
            return false;
        if (*slot == to)
            return true;
        *pid = named_in(vm, is_core, *slot, name, unread);
    }
    return true;
}

/* In the number from which the next call goes on: some name was not readable. */
static const uint64_t some_unread = 1ULL << 40;

NIF(nif_do_find_name)
{
    /* (Text, From): the pid of the process that has this name | none | not_known (none of those that can be read has
     * it, and some cannot) | the From of the next call | no_reader; From: 0 for the first */
    struct vm vm;
    ErlNifBinary name;
    ErlNifUInt64 from;
    if (!get_there(env, &vm) || !enif_inspect_binary(env, argv[0], &name) ||
        !enif_get_uint64(env, argv[1], &from) || (from & ~some_unread) > vm.tab.max)
        return nif_raise(env, ATOM(badarg));
    uint64_t end = clock_ns() + SLICE_NS;
    bool unread = (from & some_unread) != 0;
    size_t slot = from & ~some_unread;
    while (slot < vm.tab.max && clock_ns() < end) {
        uint64_t pid;
        size_t to = vm.tab.max - slot < SLOTS ? vm.tab.max : slot + SLOTS;
        if (vm.reader == PEEK_NONE ||
            !find_name(&vm, sonde_of(env)->core != NULL, &slot, to, &name, &pid, &unread))
            return ATOM(no_reader);
        if (pid != 0)
            return nif_make_pid(env, pid);
    }
    if (slot < vm.tab.max)
        return enif_make_uint64(env, slot | (unread ? some_unread : 0));
    return unread ? ATOM(not_known) : ATOM(none);
}

/* ---- the table ----------------------------------------------------------------------------------- */

NIF(nif_count_there)
{
    /* (): how many processes there are; undefined: its table does not say it */
    struct vm vm;
    struct turnover turnover;
    if (!get_there(env, &vm) || !sonde_of(env)->has_count || vm.reader == PEEK_NONE ||
        !proctab_turnover(vm.reader, &vm.tab, &turnover))
        return ATOM(undefined);
    return enif_make_uint64(env, turnover.count);
}
