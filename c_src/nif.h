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
    X(id) X(each) X(rows) X(skip) X(not_normal_scheduler) X(in_use) X(fields) X(name) X(otp) X(proc_size)
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
#define SONDE_ABI "sonde-2"

#ifndef SONDE_BUILD_ID
#define SONDE_BUILD_ID "unknown"
#endif

struct sonde {
    char build[32]; /* first: another build's state is recognised by it */
    atomic_uint users;
    ErlNifResourceType *scan_type;
    ErlNifMutex *lock;     /* ours alone: guards status */
    ErlNifEnv *status_env; /* NULL before the proof */
    ERL_NIF_TERM status;
    atomic_int reader; /* enum peek_reader that is wanted */
    atomic_bool off;   /* switched off by hand */
    atomic_bool proved;
    struct vm vm;         /* written before proved is set, then never, as */
    struct layout proven; /* what vm.lay points at */
    struct vm candidate;  /* the prover's */
    struct layout tried;  /* what candidate.lay points at */
    atomic_uint_fast64_t native, busy, torn, asked;
#ifdef SONDE_TEST
    unsigned mutated_field, mutated_offset; /* LAYOUT_FIELD_COUNT: none */
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

/* The state of the library, from any NIF. */
struct sonde *sonde_of(ErlNifEnv *env);

bool nif_attr(ErlNifEnv *env, ERL_NIF_TERM term, enum attr *attr);
bool nif_field(ErlNifEnv *env, ERL_NIF_TERM term, enum layout_field *field);

#define NIF(Name) ERL_NIF_TERM Name(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])

NIF(nif_calibrate);
NIF(nif_probe);
NIF(nif_probe_swollen);
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
bool nif_scan_types(ErlNifEnv *env, struct sonde *sonde);

#endif
