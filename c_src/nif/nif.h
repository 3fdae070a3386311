/* nif.h: shared by all files of nif/: atoms, the library's state, argument helpers.
 * Knows: erl_nif.h. Does not know: VM internals. */
#ifndef SONDE_NIF_H
#define SONDE_NIF_H

#include "scan/attr.h"
#include "util/leftovers.h"

#include <erl_nif.h>
#include <stdatomic.h>

/* clang-format off */
#define ATOM_LIST(X)                                                                      \
    X(ok) X(error) X(raise) X(badarg) X(undefined) X(true) X(false) X(on) X(off) X(none)  \
    X(guarded) X(syscall) X(failed) X(torn) X(gone) X(more) X(ask) X(done)                \
    X(system_limit) X(no_reader) X(filtered) X(no_memory) X(top) X(sample) X(diff) X(port) \
    X(holders) X(all) X(entries) X(left) X(native) X(busy) X(asked) X(faults) X(at)       \
    X(base) X(term) X(process_table) X(id) X(each) X(rows) X(skip)                        \
    X(not_normal_scheduler) X(mark) X(histogram) X(visible) X(slices) X(young) X(old)     \
    X(stack) X(fragments) X(free) X(literals) X(words) X(bytes) X(roots) X(tuple) X(fun)  \
    X(too_large) X(large) X(waiting) X(content) X(account) X(live) X(garbage)  \
    X(pinned) X(literal_references) X(flat) X(registers) X(dictionary) X(messages)        \
    X(slot) X(binaries) X(shared) X(table) X(literal) X(size) X(count) X(next) X(refs)    \
    X(ref_bin) X(magic_data) X(magic_free) X(type_module) X(type_name) X(mailbox)         \
    X(list) X(map) X(binary) X(other) X(any) X(answered) X(values) X(snapshot)            \
    X(sensitive) X(forbidden) X(proved) X(first) X(parts) X(sonde_nif)           \
    X(stacks) X(do_direct) X(code) X(atoms) X(identity) X(process_limit) X(processes)    \
    X(other_program) X(changed) X(no_build_id) X(core) X(process) X(initial_call)        \
    X(current_function) X(registered_name) X(groups) X(status) X(not_known)
/* clang-format on */

struct atoms {
#define X(Name) ERL_NIF_TERM a_##Name;
    ATOM_LIST(X)
#undef X
};

/* Set by load and upgrade; an atom never changes its word. */
extern struct atoms atoms;
#define ATOM(Name) (atoms.a_##Name)

/* Must equal the ABI in sonde_nif.erl. */
#define SONDE_ABI "sonde-12"

#ifndef SONDE_BUILD_ID
#define SONDE_BUILD_ID "unknown"
#endif

/* Which process may use the tools of the proof: the prover, on itself and on the processes that it
 * names as its probes, until a layout is proved. Guarded by the lock. */
enum { SEAL_PROBES = 256 };
struct seal {
    ErlNifPid prover;
    bool has_prover;
    unsigned probes_n;
    ERL_NIF_TERM probes[SEAL_PROBES];
    uint64_t own; /* the prover's Process, found by calibrate */
    struct own_scheduler scheduler;
#ifdef SONDE_TEST
    bool open; /* to every process */
#endif
};

enum { ENV_PROC = 8 }; /* ErlNifEnv.proc, in every release from 23 to 29 */

/* The types of resources, and what releases each. */
#define RESOURCE_LIST(X)    X(scan) X(look) X(account) X(probe)
#define RESOURCE_TYPE(Name) ("sonde_" #Name "_" SONDE_BUILD_ID)
#define X(Name)             void nif_release_##Name(ErlNifEnv *env, void *obj);
RESOURCE_LIST(X)
#undef X

struct sonde {
    char build[32];      /* must be first: it identifies another build's state */
    ErlNifTime instance; /* its creation time: tells apart resources of another instance */
    atomic_uint users;
    ErlNifResourceType *scan_type, *look_type, *account_type, *probe_type;
    ErlNifMutex *lock;     /* guards status and seal */
    ErlNifEnv *status_env; /* NULL before the proof */
    ERL_NIF_TERM status;
    atomic_int reader;      /* the wanted enum peek_reader */
    atomic_bool off;        /* switched off by hand */
    atomic_bool no_content; /* no call returns content; it never becomes false again */
    atomic_bool proved;
    struct vm vm;         /* written before proved is set, and after that only in a twin; as is */
    struct layout proven; /* vm.lay points here */
    bool is_aimed;        /* at another OS process, for good */
    const struct core_file *core;              /* of that one, or NULL */
    atomic_uint_fast64_t proc_lib, first_call; /* words of atoms over there; 0: not met yet */
    bool has_count;                            /* the count in its process table is right */
    struct queue_guess guess;                  /* before the aim */
    struct vm candidate;                       /* the prover's */
    struct layout tried;                       /* candidate.lay points here */
    struct seal seal;
    atomic_uint_fast64_t stub;    /* of do_direct, in the latest load; 0: not seen yet */
    atomic_uint_fast64_t before;  /* the same of the load before, if it was of this build */
    atomic_bool guessed;          /* it was not seen by the load itself */
    atomic_uint stub_word;        /* of a Process, that refers to it */
    atomic_uint_fast64_t stub_ns; /* the time of the latest load */
    atomic_uint_fast64_t native, busy, torn, asked;
#ifdef SONDE_TEST
    unsigned mutated_field, mutated_offset; /* LAYOUT_FIELD_COUNT: none; + 1: a form of objects */
#endif
};

/* Whether a test wants this allocation to fail, and what a call frees without waiting; never in the shipped library. */
#ifdef SONDE_TEST
bool nif_out_of_memory(void);
void nif_fail_load(ErlNifEnv *env, ERL_NIF_TERM info);
void nif_frees_at_once(size_t bytes);
void nif_hold_learner(ErlNifEnv *env);
#else
static inline bool nif_out_of_memory(void)
{
    return false;
}
static inline void nif_fail_load(ErlNifEnv *env, ERL_NIF_TERM info)
{
    (void)env, (void)info;
}
static inline void nif_frees_at_once(size_t bytes)
{
    (void)bytes;
}
static inline void nif_hold_learner(ErlNifEnv *env)
{
    (void)env;
}
#endif

/* The state of the library, from any NIF. */
struct sonde *sonde_of(ErlNifEnv *env);

/* The wanted reader if it works in this thread now; another thread's reader may crash here. */
enum peek_reader nif_peek_reader(const struct sonde *s);

/* The index of an atom among n names; n: it is none of them. */
unsigned nif_one_of(ErlNifEnv *env, ERL_NIF_TERM term, const char *const names[], unsigned n);
bool nif_attr(ErlNifEnv *env, ERL_NIF_TERM term, enum attr *attr);
bool nif_field(ErlNifEnv *env, ERL_NIF_TERM term, enum layout_field *field);

/* The address of the Process; 0: no such process. false: it is not a local pid, or nothing is
 * proved and it is not one of the prover's processes. */
bool nif_find_process(ErlNifEnv *env, const struct vm *vm, ERL_NIF_TERM term, uintptr_t *out);

/* The proved vm; before the proof the candidate, for the prover and its probes only. The reader may
 * be PEEK_NONE. false: this caller gets none. */
bool nif_best_vm(ErlNifEnv *env, struct vm *vm);

/* Makes the candidate the proved vm. Call it under the lock. */
void nif_adopt_candidate(struct sonde *s);

/* Whether nothing is proved and the caller is the prover; or the prover or one of its probes. */
bool nif_is_prover(ErlNifEnv *env);
bool nif_is_proving(ErlNifEnv *env);
/* Takes the lock, unless the caller is not the prover. */
bool nif_lock_as_prover(ErlNifEnv *env);

/* What a dirty call learns from, and where it puts what it found: a prover that is killed in such a call counts as
 * dead at once, while the call goes on, and the next prover may begin. */
struct learning {
    struct vm vm; /* the candidate, with a reader that works in this thread, */
    struct layout lay;
    uint64_t own; /* and these, from the seal */
    struct own_scheduler scheduler;
};

/* false: the caller is not the prover, or nothing is calibrated. */
bool nif_learn(ErlNifEnv *env, struct learning *l);

/* Copies this field of the vm into the candidate, unless the caller is not the prover any more. */
#define NIF_KEEP(Env, Learning, Field)                                                             \
    nif_keep((Env), (Learning), offsetof(struct vm, Field), sizeof(Learning)->vm.Field)
void nif_keep(ErlNifEnv *env, const struct learning *l, size_t at, size_t size);

/* Whether pid is the prover or one of its probes. */
bool nif_is_probe(struct sonde *s, ERL_NIF_TERM pid);

/* A local pid, from its word in the process table. */
ERL_NIF_TERM nif_make_pid(ErlNifEnv *env, uint64_t pid);

/* {Module, Function, Arity} with texts for the atoms, which are those of another OS process; `undefined': the word of
 * the module is 0; `not_known': the texts cannot be read. */
ERL_NIF_TERM nif_make_function(ErlNifEnv *env, const struct vm *vm, const struct mfa *mfa);

/* The function in which a process of another OS process is, in the same way. */
ERL_NIF_TERM nif_make_current(ErlNifEnv *env, const struct vm *vm, const struct identity *who,
                              uint64_t pc);

/* A local process as process_info's status has it, from the bits of its state. */
ERL_NIF_TERM nif_make_state(ErlNifEnv *env, uint64_t state);

/* {Module, Function, Arity} of this VM, which has `count' atoms: memory that was read may be anything, and the VM
 * crashes at an atom that it does not have. false: it is no function. */
bool nif_make_own_function(ErlNifEnv *env, const struct mfa *mfa, uint64_t count,
                           ERL_NIF_TERM *out);

/* Whether it is known where a process of this VM has the functions that it began with. */
bool nif_knows_first_call(const struct sonde *s);

/* {Pid, Name | [], Call, Current | []} */
bool nif_get_known(ErlNifEnv *env, const struct vm *vm, ERL_NIF_TERM term,
                   struct known_process *out);

/* A status as an atom: its name, but for OK done, TIMESLICE more, NOMEM no_memory. */
ERL_NIF_TERM nif_status_atom(ErlNifEnv *env, enum status st);

/* The caller's pid and Process. false: not on a normal scheduler. */
bool nif_own_process(ErlNifEnv *env, const struct vm *vm, uint64_t *pid, uint64_t *proc);

/* Returns {raise, Why}, because no NIF may raise an exception: sonde_nif raises it. */
ERL_NIF_TERM nif_raise(ErlNifEnv *env, ERL_NIF_TERM why);

/* A list of the items of something that has n: from the index in the term `from', 0 for the first, as
 * many as the term `count' says, at most PAGE_MAX. */
enum { PAGE_MAX = 1000 };
typedef ERL_NIF_TERM nif_item(ErlNifEnv *env, const void *of, size_t i);
ERL_NIF_TERM nif_page(ErlNifEnv *env, ERL_NIF_TERM from, ERL_NIF_TERM count, const void *of,
                      size_t n, nif_item *item);

/* A map of n pairs. */
ERL_NIF_TERM nif_map(ErlNifEnv *env, ERL_NIF_TERM keys[], ERL_NIF_TERM values[], size_t n);

#define UNUSED __attribute__((unused))
#define NIF(Name)                                                                                  \
    ERL_NIF_TERM Name(UNUSED ErlNifEnv *env, UNUSED int argc, UNUSED const ERL_NIF_TERM argv[])

/* NULL: the term is no resource of this type. */
void *nif_resource(ErlNifEnv *env, ERL_NIF_TERM term, ErlNifResourceType *type);

/* Large blocks that a resource no longer needs. A step is short enough for a dirty scheduler, true: nothing is left; a
 * destructor frees all. */
bool nif_free_step(struct leftovers *l);
void nif_free_all(struct leftovers *l);

/* The calls that use a resource: -1: one has it for itself; otherwise how many share it. */
struct in_use {
    atomic_int n;
};

static inline void in_use_init(struct in_use *u)
{
    atomic_init(&u->n, 0);
}

static inline bool in_use_take(struct in_use *u)
{
    int none = 0;
    return atomic_compare_exchange_strong(&u->n, &none, -1);
}

static inline void in_use_give_back(struct in_use *u)
{
    atomic_store(&u->n, 0);
}

static inline bool in_use_share(struct in_use *u)
{
    int n = atomic_load(&u->n);
    while (n >= 0 && !atomic_compare_exchange_weak(&u->n, &n, n + 1)) {
    }
    return n >= 0;
}

static inline void in_use_unshare(struct in_use *u)
{
    atomic_fetch_sub(&u->n, 1);
}

/* Defines nif_Name: takes the resource in argv[0], answers with the body that follows, and gives it
 * back. Processes can share a resource, but only one call at a time may change it: the one that took its
 * in_use. */
#define NIF_WITH(Name, Tag, Take, GiveBack)                                                        \
    static ERL_NIF_TERM Name(ErlNifEnv *env, const ERL_NIF_TERM argv[], struct Tag *h);            \
    NIF(nif_##Name)                                                                                \
    {                                                                                              \
        struct Tag *h = Take(env, argv[0]);                                                        \
        if (!h)                                                                                    \
            return nif_raise(env, ATOM(badarg));                                                   \
        ERL_NIF_TERM answer = Name(env, argv, h);                                                  \
        GiveBack(h);                                                                               \
        return answer;                                                                             \
    }                                                                                              \
    static ERL_NIF_TERM Name(UNUSED ErlNifEnv *env, UNUSED const ERL_NIF_TERM argv[], struct Tag *h)

/* The functions of the library: name, arity, scheduler. A function that takes a slice is dirty,
 * because a slice is too long for a normal scheduler. */
#define DIRTY ERL_NIF_DIRTY_JOB_IO_BOUND
/* clang-format off */
#define NIF_LIST(X)                                                                          \
    X(build_id, 0, 0) X(instance, 0, 0) X(status, 0, 0) X(do_put_status, 1, 0)               \
    X(reader, 0, 0) X(do_want_reader, 1, 0) X(state, 0, 0) X(do_switch, 1, 0)                \
    X(do_leave, 0, 0) X(do_counters, 0, 0) X(tables, 0, 0) X(do_calibrate, 1, 0)             \
    X(do_calibrate_table, 1, DIRTY) X(do_probe, 4, 0) X(do_probe_swollen, 4, 0)              \
    X(do_probe_trap, 0, 0) X(do_read, 2, 0) X(do_adopt, 1, 0) X(do_scan_new, 6, 0)           \
    X(do_scan_begin, 1, 0) X(do_scan_step, 1, DIRTY) X(do_scan_feed, 2, 0)                   \
    X(do_scan_rows, 4, 0)                                                                    \
    X(do_scan_info, 1, 0) X(do_scan_pids, 3, 0) X(do_scan_values, 3, 0)                      \
    X(do_scan_skip, 2, 0) X(do_scan_after, 1, 0) X(do_scan_limit, 3, 0) X(do_scan_part, 3, 0) \
    X(do_scan_place, 2, 0) X(do_scan_stacks, 2, 0) X(do_scan_stack, 3, DIRTY)                \
    X(do_turnover, 0, 0) X(do_trust_turnover, 0, 0) X(has_turnover, 0, 0)                    \
    X(do_trust_self_bit, 0, 0)                                                               \
    X(do_calibrate_code, 1, DIRTY) X(has_code, 0, 0)                                         \
    X(has_first_call, 0, 0) X(do_scan_groups, 3, DIRTY) \
    X(do_scan_exclude, 2, 0) X(do_account_join, 2, DIRTY)                                    \
    X(do_account_lend, 4, DIRTY) X(do_account_settle, 1, DIRTY) X(do_account_return, 2, DIRTY)     \
    X(do_account_parts, 4, DIRTY) X(do_account_take_parts, 2, DIRTY)                         \
    X(do_calibrate_fun, 2, 0) X(do_calibrate_literals, 2, 0) X(do_probe_resource, 1, 0)      \
    X(do_calibrate_resources, 5, 0) X(do_account_new, 3, 0) X(do_account_add, 3, DIRTY)      \
    X(do_account_want, 2, DIRTY) X(do_account_sum, 1, DIRTY) X(do_account_rank, 3, DIRTY)    \
    X(do_account_ranked, 2, 0) X(do_account_holdings, 2, DIRTY) X(do_account_known, 2, 0)    \
    X(do_account_resources, 2, 0) X(do_account_end, 1, DIRTY) X(do_look_new, 6, 0)           \
    X(do_look_step, 1, DIRTY) X(do_look_progress, 1, 0) X(do_look_end, 1, DIRTY)             \
    X(do_look_heap, 1, 0) X(do_look_top, 2, DIRTY) X(do_look_top_info, 1, 0)                     \
    X(do_look_flat, 1, 0) X(do_look_refs, 2, 0) X(flat_quick, 1, 0) X(do_look_mailbox, 1, 0) \
    X(do_look_shapes, 2, 0) X(do_prover_begin, 0, 0) X(do_prover_end, 0, 0) X(prover, 0, 0)  \
    X(do_allow_probe, 1, 0) X(do_disallow_probe, 1, 0) X(do_look_pinned, 3, 0)               \
    X(do_look_slices, 3, 0) X(do_look_text, 1, DIRTY) X(do_look_names, 2, 0)                     \
    X(do_look_content, 1, 0) X(do_content, 1, 0)                                             \
    X(do_learn, 2, DIRTY) X(do_aim, 1, DIRTY) X(do_aim_core, 4, DIRTY)                       \
    X(do_absent, 1, DIRTY) X(do_identity, 1, DIRTY)                                          \
    X(do_find_name, 2, DIRTY) X(count_there, 0, 0) X(do_look_process, 1, DIRTY)              \
    X(do_scan_calls, 4, DIRTY) X(do_each_of, 2, DIRTY)                                       \
    X(do_own_scheduler, 1, 0) X(do_calibrate_schedulers, 3, DIRTY)                           \
    X(do_calibrate_ports, 1, DIRTY)                                                          \
    X(do_calibrate_places, 1, DIRTY) X(has_schedulers, 0, 0) X(do_schedulers, 3, 0)          \
    X(do_guess_queue, 2, 0) X(do_queue_is_guessed, 0, 0)                                     \
    /* the last: the VM replaces the stubs in this order */                                  \
    X(do_direct, 1, 0)
/* Functions that another NIF schedules. */
#define SCHEDULED_LIST(X) X(trapped, 0, 0)
/* Functions that only the tests' library has. */
#define TEST_LIST(X)                                                                         \
    X(do_weaken, 1) X(do_set_offset, 2) X(do_fail_alloc, 1) X(do_hold_reader, 2)             \
    X(is_reader_held, 0) X(release_reader, 0) X(longest_calls, 0) X(reset_calls, 0)          \
    X(freed_at_once, 0) X(prover_knows, 0) X(unseal, 1) X(forget_proof, 0)
/* clang-format on */

/* Three functions for each NIF: itself; the wrapper that the VM calls, which counts the call, so that
 * the handler is not removed during it; and what that wrapper calls. In the tests' library this is
 * another wrapper, which measures how long the NIF holds its scheduler. So it is for destructors. */
#define X(Name, Arity, Where)                                                                      \
    NIF(nif_##Name);                                                                               \
    NIF(nif_counted_##Name);                                                                       \
    NIF(nif_measured_##Name);
NIF_LIST(X)
SCHEDULED_LIST(X)
#undef X
#define CALLED(Name) nif_counted_##Name

#ifdef SONDE_TEST
#define X(Name) void nif_measured_release_##Name(ErlNifEnv *env, void *obj);
RESOURCE_LIST(X)
#undef X
#define MEASURED(Name) nif_measured_##Name

#define X(Name, Arity) NIF(nif_##Name);
TEST_LIST(X)
#undef X
#else
#define MEASURED(Name) nif_##Name
#endif

#endif
