/* nif_account.h: an account of who holds which Binaries, as Erlang holds it.
 * Knows: erl_nif.h. Does not know: VM internals. */
#ifndef SONDE_NIF_ACCOUNT_H
#define SONDE_NIF_ACCOUNT_H

#include "binary/account.h"
#include "nif/nif.h"

/* It can be shared, but only one call at a time may use it: who has set in_use. */
struct held_account {
    struct account account;
    struct layout lay; /* it outlives an upgrade that proves anew */
    atomic_flag in_use;
};

/* NULL: it is none. */
struct held_account *nif_get_account(ErlNifEnv *env, ERL_NIF_TERM term);

#endif
