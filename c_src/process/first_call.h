/* first_call.h: the function for which proc_lib started a process.
 * Knows: proc_lib keeps it in the dictionary of the process. Does not know: any other key.
 *
 * Of a process of this node, process_info reports it. This is for another OS process, where an atom is recognized
 * by its text. */
#ifndef SONDE_FIRST_CALL_H
#define SONDE_FIRST_CALL_H

#include "vm/stamp.h"

void first_call_plan(struct plan *plan, const struct layout *lay);

/* OK, BUSY, TORN, GONE; ASK: it is not among the first pairs of a large dictionary, or not on the heap itself, or
 * the process is sensitive. *key: the word of the key, 0: it is not known yet. */
enum status first_call_read(const struct vm *vm, const struct plan *plan, size_t slot,
                            uintptr_t proc, uint64_t *key, struct mfa *out);

#endif
