/* nif_schedulers.c: learns how the VM keeps its schedulers, and reads what each of them runs.
 * Knows: the arguments from Erlang, and the order in which the words of a process that runs are read.
 * Does not know: where these words are. */
#include "nif/nif.h"

#include <string.h>

#include "util/clock.h"
#include "vm/stamp.h"

/* How many schedulers one call reads at most, and how often one that changes. It also ends by the clock: of one that
 * runs a port, all words of its structure are read. */
enum { SLICE = 32, TRIES = 4, SLICE_NS = 400000 };

/* ---- learning ----------------------------------------------------------------------------------------- */

NIF(nif_do_own_scheduler)
{
    /* (Number): after calibrate, whether the caller's own scheduler was found, which has this number */
    struct sonde *s = sonde_of(env);
    struct vm vm = s->candidate;
    unsigned no;
    uint64_t pid;
    uint64_t proc;
    if (!nif_is_prover(env) || !vm.lay || !enif_get_uint(env, argv[0], &no) || no > SCHEDULERS_MAX)
        return nif_raise(env, ATOM(badarg));
    vm.reader = nif_peek_reader(s);
    bool ok = vm.reader != PEEK_NONE && nif_own_process(env, &vm, &pid, &proc) &&
              scheduler_find_own(vm.reader, vm.lay, (uintptr_t)proc, (uintptr_t)env, no,
                                 &s->seal.scheduler);
    if (!ok)
        s->seal.scheduler.at = 0;
    return ok ? ATOM(true) : ATOM(false);
}

NIF(nif_do_calibrate_schedulers)
{
    /* (Normal, DirtyCpu, DirtyIo): after own_scheduler, whether so many of each kind were found */
    struct learning l;
    unsigned counts[SCHEDULER_KINDS];
    if (!nif_learn(env, &l) || l.vm.tab.max == 0 || l.scheduler.at == 0)
        return nif_raise(env, ATOM(badarg));
    for (unsigned kind = 0; kind < SCHEDULER_KINDS; kind++) {
        if (!enif_get_uint(env, argv[kind], &counts[kind]))
            return nif_raise(env, ATOM(badarg));
    }
    bool ok = l.vm.reader != PEEK_NONE &&
              schedulers_learn(l.vm.reader, l.vm.lay, &l.scheduler, counts, &l.vm.schedulers);
    NIF_KEEP(env, &l, schedulers);
    return ok ? ATOM(true) : ATOM(false);
}

NIF(nif_do_calibrate_ports)
{
    /* (PortLimit): after calibrate, whether the port table was found. Dirty, as calibrate_table */
    struct learning l;
    ErlNifUInt64 limit;
    if (!nif_learn(env, &l) || !enif_get_uint64(env, argv[0], &limit))
        return nif_raise(env, ATOM(badarg));
    bool ok = l.vm.reader != PEEK_NONE && ports_learn(l.vm.reader, l.vm.lay, limit, &l.vm.ports);
    NIF_KEEP(env, &l, ports);
    return ok ? ATOM(true) : ATOM(false);
}

NIF(nif_do_calibrate_places)
{
    /* ([{Probe, [], Call, Current | []}]): whether the words were found that say where a process is */
    struct learning l;
    struct vm *vm = &l.vm;
    struct known_process known[SEAL_PROBES];
    ERL_NIF_TERM head;
    ERL_NIF_TERM list = argv[0];
    unsigned n = 0;
    if (!nif_learn(env, &l) || vm->tab.max == 0 || !enif_is_list(env, list))
        return nif_raise(env, ATOM(badarg));
    unsigned most = vm->reader == PEEK_NONE ? 0 : SEAL_PROBES;
    for (; n < most && enif_get_list_cell(env, list, &head, &list); n++) {
        const ERL_NIF_TERM *probe;
        int arity;
        if (!enif_get_tuple(env, head, &arity, &probe) || arity != 4 ||
            !nif_is_probe(sonde_of(env), probe[0]) || !nif_get_known(env, vm, head, &known[n]))
            return ATOM(false);
    }
    vm->first_call_key = enif_make_atom(env, "$initial_call");
    vm->begins_late =
        (struct mfa){enif_make_atom(env, "proc_lib"), enif_make_atom(env, "init_p"), 5};
    bool ok = identity_learn_place(vm->reader, vm->lay, known, n, &vm->identity);
    NIF_KEEP(env, &l, first_call_key);
    NIF_KEEP(env, &l, begins_late);
    NIF_KEEP(env, &l, identity);
    return ok ? ATOM(true) : ATOM(false);
}

bool nif_knows_first_call(const struct sonde *s)
{
    /* over there the atom is found by its text */
    return s->vm.identity.has_place && (s->vm.first_call_key != 0 || s->is_aimed);
}

NIF(nif_has_first_call)
{
    const struct sonde *s = sonde_of(env);
    return atomic_load_explicit(&s->proved, memory_order_acquire) && nif_knows_first_call(s)
               ? ATOM(true)
               : ATOM(false);
}

static bool has_schedulers(const struct sonde *s)
{
    return atomic_load_explicit(&s->proved, memory_order_acquire) && s->vm.schedulers.is_known &&
           s->vm.identity.has_place;
}

NIF(nif_has_schedulers)
{
    return has_schedulers(sonde_of(env)) ? ATOM(true) : ATOM(false);
}

/* Before the aim. */
static bool may_guess(const struct sonde *s)
{
    return atomic_load_explicit(&s->proved, memory_order_acquire) && !s->is_aimed;
}

NIF(nif_do_guess_queue)
{
    /* (Number, Length): the run queue of that normal scheduler may have this length now */
    struct sonde *s = sonde_of(env);
    struct scheduler found;
    unsigned no;
    unsigned length;
    if (!may_guess(s) || !enif_get_uint(env, argv[0], &no) || no == 0 ||
        !enif_get_uint(env, argv[1], &length))
        return nif_raise(env, ATOM(badarg));
    enum peek_reader r = nif_peek_reader(s);
    s->guess.is_new =
        r != PEEK_NONE &&
        scheduler_read(r, s->vm.lay, &s->vm.schedulers, SCHEDULER_NORMAL, no - 1, &found) &&
        queue_guess(r, &found, length, &s->guess);
    return ATOM(ok);
}

NIF(nif_do_queue_is_guessed)
{
    /* (): it had that length. true: it is known by now where the length is */
    struct sonde *s = sonde_of(env);
    if (!may_guess(s))
        return nif_raise(env, ATOM(badarg));
    s->vm.schedulers.length = queue_guess_narrow(&s->guess);
    return s->vm.schedulers.length != 0 ? ATOM(true) : ATOM(false);
}

/* ---- reading ------------------------------------------------------------------------------------------- */

struct running {
    uint64_t pid, state, reds, pc;
    struct identity who;
};

static enum status read_process(const struct vm *vm, enum scheduler_kind kind, unsigned i,
                                const struct scheduler *s, struct running *out)
{
    uintptr_t proc = (uintptr_t)s->process;
    unsigned at = LF(vm->lay, state);
    *out = (struct running){.pid = 0};
    bool ok = peek_word(vm->reader, proc + LF(vm->lay, id), &out->pid) &&
              peek_word(vm->reader, proc + (at & ~7U), &out->state) &&
              peek_word(vm->reader, proc + LF(vm->lay, reds), &out->reds) &&
              peek_word(vm->reader, proc + LF(vm->lay, pc), &out->pc);
    /* one that ends has no first call any more */
    if (!identity_read_place(vm->reader, &vm->identity, proc, &out->who))
        out->who = (struct identity){.name = 0};
    peek_barrier();
    out->state = layout_narrow(out->state, at, layout_width(vm->lay, LF_state));
    enum status st = scheduler_confirm(vm->reader, vm->lay, &vm->tab, &vm->schedulers, kind, i,
                                       proc, out->pid, out->state);
    return st == ST_OK && !ok ? ST_TORN : st;
}

/* A number that stays the same only if the process has not run anything else meanwhile. No address leaves the
 * library. */
static uint64_t mark(const struct running *p)
{
    uint64_t h = (p->pid ^ p->reds * 0x9E3779B97F4A7C15ULL) * 0xBF58476D1CE4E5B9ULL;
    h = (h ^ h >> 29 ^ p->pc) * 0x94D049BB133111EBULL;
    return (h ^ p->who.current.function * 0x9E3779B97F4A7C15ULL) >> 16;
}

static ERL_NIF_TERM make_function(ErlNifEnv *env, const struct vm *vm, const struct mfa *mfa,
                                  uint64_t atoms_n)
{
    ERL_NIF_TERM call;
    if (sonde_of(env)->is_aimed)
        return nif_make_function(env, vm, mfa);
    return nif_make_own_function(env, mfa, atoms_n, &call) ? call : ATOM(undefined);
}

static ERL_NIF_TERM make_process(ErlNifEnv *env, const struct vm *vm, const struct running *p,
                                 uint64_t atoms_n)
{
    struct mfa current = p->who.current;
    bool is_aimed = sonde_of(env)->is_aimed;
    if (!is_aimed && current.module == 0 && !code_find(vm->reader, &vm->code, p->pc, &current))
        current = (struct mfa){0};
    return enif_make_tuple5(env, nif_make_pid(env, p->pid), nif_make_state(env, p->state),
                            enif_make_uint64(env, mark(p)),
                            make_function(env, vm, &p->who.call, atoms_n),
                            is_aimed ? nif_make_current(env, vm, &p->who, p->pc)
                                     : make_function(env, vm, &current, atoms_n));
}

/* BUSY: the scheduler runs something else; TORN: the port cannot be read, or it is closed. */
static enum status read_port(const struct vm *vm, enum scheduler_kind kind, unsigned i,
                             uintptr_t at, struct port *port, uint64_t *turn)
{
    struct scheduler now;
    bool ok = port_read(vm->reader, vm->lay, &vm->ports, at, port);
    peek_barrier();
    ok = ok && port_is_there(vm->reader, vm->lay, &vm->ports, at, port->id);
    peek_barrier();
    if (!scheduler_read(vm->reader, vm->lay, &vm->schedulers, kind, i, &now) || now.port != at)
        return ST_BUSY;
    if (!ok || !scheduler_turn(vm->reader, &vm->schedulers, kind, i, turn))
        return ST_TORN;
    peek_barrier();
    return scheduler_read(vm->reader, vm->lay, &vm->schedulers, kind, i, &now) && now.port == at
               ? ST_OK
               : ST_BUSY;
}

/* A local port is an immediate, as a local pid is. */
static ERL_NIF_TERM make_port(ErlNifEnv *env, const struct vm *vm, const struct port *port,
                              uint64_t turn)
{
    ERL_NIF_TERM name;
    unsigned char *bytes = enif_make_new_binary(env, port->n, &name);
    if (!bytes)
        return ATOM(torn);
    memcpy(bytes, port->name, port->n);
    return enif_make_tuple4(env, ATOM(port),
                            (ERL_NIF_TERM)port_id_here(vm->lay, &vm->ports, port->id),
                            enif_make_uint64(env, turn), name);
}

/* A process, a port, none, or busy: something else at each look. */
static ERL_NIF_TERM make_running(ErlNifEnv *env, const struct vm *vm, enum scheduler_kind kind,
                                 unsigned i, struct scheduler *s, uint64_t atoms_n)
{
    struct running p;
    struct port port;
    uint64_t turn;
    for (unsigned t = 0; t < TRIES && (s->process != 0 || s->port != 0); t++) {
        bool is_port = s->process == 0;
        enum status st = is_port ? read_port(vm, kind, i, (uintptr_t)s->port, &port, &turn)
                                 : read_process(vm, kind, i, s, &p);
        if (st == ST_OK)
            return is_port ? make_port(env, vm, &port, turn) : make_process(env, vm, &p, atoms_n);
        if (st != ST_BUSY)
            return nif_status_atom(env, st);
        if (!scheduler_read(vm->reader, vm->lay, &vm->schedulers, kind, i, s))
            return ATOM(torn);
    }
    return s->process == 0 && s->port == 0 ? ATOM(none) : ATOM(busy);
}

static ERL_NIF_TERM make_length(ErlNifEnv *env, const struct vm *vm, const struct scheduler *s)
{
    unsigned at = vm->schedulers.length;
    uint64_t word;
    if (at == 0 || !peek_word(vm->reader, (uintptr_t)s->queue + (at & ~7U), &word))
        return ATOM(undefined);
    return enif_make_uint(env, (unsigned)layout_narrow(word, at, sizeof(uint32_t)));
}

static bool get_kind(ErlNifEnv *env, ERL_NIF_TERM term, enum scheduler_kind *kind)
{
    static const char *const names[SCHEDULER_KINDS] = {"normal", "dirty_cpu", "dirty_io"};
    *kind = (enum scheduler_kind)nif_one_of(env, term, names, SCHEDULER_KINDS);
    return *kind != SCHEDULER_KINDS;
}

NIF(nif_do_schedulers)
{
    /* (Kind, From, Atoms): {Next | done, [{Number, Length | undefined, Running}]} | no_reader, where Running is none |
     * busy | torn | {Pid, State, Mark, Call, Current} | {port, Port, Mark, Name}; From: how many came before;
     * Atoms: how many the VM has. Not
     * dirty: all dirty schedulers may be stuck */
    struct sonde *s = sonde_of(env);
    enum scheduler_kind kind;
    unsigned from;
    ErlNifUInt64 atoms_n;
    ERL_NIF_TERM rows[SLICE];
    unsigned n = 0;
    if (!has_schedulers(s) || !get_kind(env, argv[0], &kind) ||
        !enif_get_uint(env, argv[1], &from) || !enif_get_uint64(env, argv[2], &atoms_n))
        return nif_raise(env, ATOM(badarg));
    struct vm vm = s->vm;
    vm.reader = nif_peek_reader(s);
    unsigned count =
        vm.reader == PEEK_NONE ? 0 : schedulers_count(vm.reader, vm.lay, &vm.schedulers, kind);
    if (count == 0)
        return ATOM(no_reader);
    uint64_t end = clock_ns() + SLICE_NS;
    for (unsigned i = from; i < count && n < SLICE && (n == 0 || clock_ns() < end); i++, n++) {
        struct scheduler one;
        bool ok = scheduler_read(vm.reader, vm.lay, &vm.schedulers, kind, i, &one);
        if (!ok && kind == SCHEDULER_DIRTY_IO)
            return enif_make_tuple2(env, ATOM(done), enif_make_list_from_array(env, rows, n));
        rows[n] = enif_make_tuple3(
            env, enif_make_uint(env, i + 1), ok ? make_length(env, &vm, &one) : ATOM(undefined),
            ok ? make_running(env, &vm, kind, i, &one, atoms_n) : ATOM(torn));
    }
    return enif_make_tuple2(env, from + n < count ? enif_make_uint(env, from + n) : ATOM(done),
                            enif_make_list_from_array(env, rows, n));
}
