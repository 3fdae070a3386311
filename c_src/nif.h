/* nif.h: what the NIF's own files share: atoms, the library's state, argument helpers.
 * Knows: erl_nif.h. Does not know: VM internals. */
#ifndef SONDE_NIF_H
#define SONDE_NIF_H

#include "attr.h"

#include <erl_nif.h>
#include <stdatomic.h>

/* clang-format off */
#define ATOM_LIST(X)                                                                      \
    X(ok) X(error) X(undefined) X(true) X(false) X(on) X(off) X(none) X(guarded)          \
    X(syscall) X(failed) X(torn) X(gone) X(more) X(ask) X(done) X(system_limit)           \
    X(no_reader) X(no_memory) X(top) X(sample) X(diff) X(holders) X(all) X(entries)       \
    X(left) X(native) X(busy) X(asked) X(faults) X(at) X(base) X(term) X(process_table)   \
    X(id) X(each) X(rows) X(skip) X(not_normal_scheduler) X(in_use) X(fields) X(name) X(otp) X(proc_size)                 \
    X(mark) X(histogram) X(visible) X(slices) X(young) X(old) X(stack) X(fragments) X(free)  \
    X(literals) X(words) X(bytes) X(roots) X(tuple) X(ref) X(fun) X(timeslice) X(too_large) \
    X(content) X(account) X(live) X(garbage) X(pinned) X(literal_references) X(flat) X(registers) X(dictionary) X(messages) X(slot) X(binaries) X(shared) X(table) X(literal) X(size) X(count) X(next) X(refs) X(ref_bin) X(magic_data) X(magic_free) X(type_module) \
    X(type_name) X(mailbox) X(list) X(map) X(binary) X(other) X(any) X(answered) X(values) X(snapshot)
/* clang-format on */

struct atoms {
#define X(Name) ERL_NIF_TERM a_##Name;
    ATOM_LIST(X)
#undef X
};

/* Set once by load; an atom never changes its word. */
extern struct atoms atoms;
#define ATOM(Name) (atoms.a_##Name)

/* What sonde_nif.erl must speak too. */
#define SONDE_ABI "sonde-5"

#ifndef SONDE_BUILD_ID
#define SONDE_BUILD_ID "unknown"
#endif

struct sonde {
    char build[32]; /* first: another build's state is recognised by it */
    atomic_uint users;
    ErlNifResourceType *scan_type, *look_type, *account_type, *probe_type;
    ErlNifMutex *lock;     /* ours alone: guards status */
    ErlNifEnv *status_env; /* NULL before the proof */
    ERL_NIF_TERM status;
    atomic_int reader; /* enum peek_reader that is wanted */
    atomic_bool off;   /* switched off by hand */
    atomic_bool leave; /* with the last instance, the handler goes, too */
    atomic_bool proved;
    struct vm vm;         /* written before proved is set, then never, as */
    struct layout proven; /* what vm.lay points at */
    struct vm candidate;  /* the prover's */
    struct layout tried;  /* what candidate.lay points at */
    atomic_uint_fast64_t native, busy, torn, asked;
#ifdef SONDE_TEST
    unsigned mutated_field, mutated_offset; /* LAYOUT_FIELD_COUNT: none; + 1: a form of things */
#endif
};

/* Is the next allocation to fail, whatever makes it? Never in what is shipped. */
#ifdef SONDE_TEST
bool nif_out_of_memory(void);
#else
static inline bool nif_out_of_memory(void)
{
    return false;
}
#endif

/* A resource type of this build: what another build holds is not ours to release. false: none, and an
 * older instance of the module goes on with the one that it has. */
bool nif_open_type(ErlNifEnv *env, const char *name, ErlNifResourceDtor *release,
                   ErlNifResourceType **type);

/* The state of the library, from any NIF. */
struct sonde *sonde_of(ErlNifEnv *env);

bool nif_attr(ErlNifEnv *env, ERL_NIF_TERM term, enum attr *attr);
/* The process's struct; 0: there is none such. false: no local pid. */
bool nif_find_process(ErlNifEnv *env, const struct vm *vm, ERL_NIF_TERM term, uintptr_t *out);

/* What is proved, else the candidate. The reader may be none. false: nothing is calibrated. */
bool nif_best_vm(struct sonde *s, struct vm *vm);

/* What a status is called in Erlang; a walk that was stopped is `more'. */
ERL_NIF_TERM nif_status_atom(enum status st);

bool nif_field(ErlNifEnv *env, ERL_NIF_TERM term, enum layout_field *field);

/* On a normal scheduler the environment points at the caller's Process. false: not here. */
bool nif_own_process(ErlNifEnv *env, const struct vm *vm, uint64_t *pid, uint64_t *proc);

#define NIF(Name) ERL_NIF_TERM Name(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])

NIF(nif_calibrate);
NIF(nif_probe);
NIF(nif_probe_swollen);
NIF(nif_probe_trap);
NIF(nif_read);
NIF(nif_adopt);
NIF(nif_tables);

NIF(nif_scan_new);
NIF(nif_scan_step);
NIF(nif_scan_feed);
NIF(nif_scan_rows);
NIF(nif_scan_info);
NIF(nif_scan_pids);
NIF(nif_scan_values);
NIF(nif_scan_skip);
NIF(nif_scan_after);
NIF(nif_scan_limit);
NIF(nif_calibrate_fun);
NIF(nif_calibrate_literals);
NIF(nif_look_new);
NIF(nif_look_step);
NIF(nif_look_progress);
NIF(nif_look_end);
NIF(nif_look_heap);
NIF(nif_look_top);
NIF(nif_look_top_info);
NIF(nif_look_flat);
NIF(nif_look_refs);
NIF(nif_flat_quick);
NIF(nif_look_mailbox);
NIF(nif_look_shapes);
NIF(nif_look_pinned);
NIF(nif_look_slices);
NIF(nif_look_text);
NIF(nif_look_names);
bool nif_heap_types(ErlNifEnv *env, struct sonde *sonde);

NIF(nif_probe_resource);
NIF(nif_calibrate_resources);
bool nif_resource_types(ErlNifEnv *env, struct sonde *sonde);

NIF(nif_account_new);
NIF(nif_account_add);
NIF(nif_account_want);
NIF(nif_account_sum);
NIF(nif_account_rank);
NIF(nif_account_ranked);
NIF(nif_account_holdings);
NIF(nif_account_known);
NIF(nif_account_resources);
NIF(nif_account_end);
bool nif_account_types(ErlNifEnv *env, struct sonde *sonde);

bool nif_scan_types(ErlNifEnv *env, struct sonde *sonde);

#endif
