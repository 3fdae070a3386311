/* vm.h: everything sonde needs to read this VM.
 * Knows: the reader, the layout, and the addresses that the proof found.
 * Does not know: any process, or how these were found. */
#ifndef SONDE_VM_H
#define SONDE_VM_H

#include "vm/atom_table.h"
#include "vm/blocks.h"
#include "vm/code.h"
#include "vm/identity.h"
#include "vm/layout.h"
#include "vm/peek.h"
#include "vm/proctab.h"
#include "vm/ports.h"
#include "vm/schedulers.h"

struct vm {
    enum peek_reader reader;
    const struct layout *lay;
    struct proctab tab;
    uint16_t
        fun_module; /* offset of the module in a fun's entry, learned from a known fun; 0: unknown */
    uint64_t resource_free;        /* the function that frees resources of native libraries */
    uint32_t binary_alloc;         /* the allocator type that counts as binary memory */
    struct block literals;         /* the area of all literals; empty: unknown */
    struct code code;              /* which function an address is in */
    struct identity_form identity; /* where a process is; names only for another OS process */
    uint64_t
        first_call_key; /* the atom under which proc_lib keeps what it was to call; 0: unknown */
    struct mfa begins_late; /* proc_lib:init_p/5, which puts it there; module 0: unknown */
    struct scheduler_form schedulers;
    struct port_form ports;  /* max 0: unknown */
    struct atom_table atoms; /* only to read another OS process */
};

#endif
