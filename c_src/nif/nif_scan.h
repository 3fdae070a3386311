/* nif_scan.h: a scan as a NIF resource, for the files that answer from it.
 * Knows: erl_nif.h. Does not know: VM internals. */
#ifndef SONDE_NIF_SCAN_H
#define SONDE_NIF_SCAN_H

#include "nif/nif_account.h"
#include "scan/scan.h"

struct held {
    struct in_use in_use;
    struct scan scan;
    struct held *first;           /* this scan reads the sample of that one; NULL: none */
    struct held_account *account; /* this scan reads or fills it; NULL: none */
    struct leftovers left;
    struct layout lay; /* a copy, because the scan outlives an upgrade with a new proof */
};

/* NULL: not a scan, or another call uses it, or the sample or account that it needs. */
struct held *nif_take_scan(ErlNifEnv *env, ERL_NIF_TERM term);
void nif_give_back_scan(struct held *h);

/* A NIF whose first argument is a scan, which it has for itself. */
#define SCAN_NIF(Name) NIF_WITH(Name, held, nif_take_scan, nif_give_back_scan)

#endif
