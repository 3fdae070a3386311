/* vm.h: everything sonde needs to read this VM.
 * Knows: the reader, the layout, and the places that the proof found.
 * Does not know: any process, or how these were found. */
#ifndef SONDE_VM_H
#define SONDE_VM_H

#include "vm/blocks.h"
#include "vm/layout.h"
#include "vm/peek.h"
#include "vm/proctab.h"

struct vm {
    enum peek_reader reader;
    const struct layout *lay;
    struct proctab tab;
    uint16_t
        fun_module; /* where in a fun's entry its module is, as a known fun shows it; 0: unknown */
    uint64_t resource_free; /* the function that frees resources of native libraries */
    uint32_t binary_alloc;  /* the type of what counts as binary memory */
    struct block literals;  /* where all of them lie; empty: it is not known */
};

#endif
