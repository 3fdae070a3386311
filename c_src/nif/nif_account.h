/* nif_account.h: an account of the holders of all Binaries, as a NIF resource.
 * Knows: erl_nif.h. Does not know: VM internals. */
#ifndef SONDE_NIF_ACCOUNT_H
#define SONDE_NIF_ACCOUNT_H

#include "binary/account.h"
#include "nif/nif.h"

struct held_account {
    struct in_use in_use;
    struct account account;
    struct leftovers left;
    struct layout lay; /* a copy, because it outlives an upgrade with a new proof */
};

/* NULL: the term is not an account. */
struct held_account *nif_get_account(ErlNifEnv *env, ERL_NIF_TERM term);

#endif
