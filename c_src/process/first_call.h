/* first_call.h: the function for which proc_lib started a process.
 * Knows: proc_lib keeps it in the dictionary of the process. Does not know: any other key.
 *
 * In another OS process the key is recognized by its text. */
#ifndef SONDE_FIRST_CALL_H
#define SONDE_FIRST_CALL_H

#include "vm/stamp.h"

/* What first_call_find needs in the plan. */
extern const enum layout_field first_call_fields[];

/* Under a stamp. OK: the module is 0 if the dictionary has no such key; ASK: it is not among the first pairs of a
 * large dictionary, or not on the heap itself, or no function, or the process is sensitive. *key: the word of the
 * key, 0: it is not known yet. */
enum status first_call_find(const struct reading *rd, uint64_t *key, struct mfa *out);

void first_call_plan(struct plan *plan, const struct layout *lay);

/* The same with a stamp of its own: OK, BUSY, GONE; TORN: also, if the dictionary or the text of an atom in it is not
 * readable; ASK: as above, or there is no such key. */
enum status first_call_read(const struct vm *vm, const struct plan *plan, size_t slot,
                            uintptr_t proc, uint64_t *key, struct mfa *out);

#endif
