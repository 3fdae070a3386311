/* peek_other.h: reads another OS process, or the core file of one that has ended.
 * Knows: the aim, the pages that a thread keeps, and how many reads one system call can do.
 * Does not know: what is at an address, or why it is read. For peek.c alone. */
#ifndef SONDE_PEEK_OTHER_H
#define SONDE_PEEK_OTHER_H

#include "vm/peek.h"

/* Whether what was aimed at is still the same. */
bool other_works(void);

/* As peek_word and the like; addresses are aligned. */
bool other_word(uintptr_t addr, uint64_t *out);
bool other_gather(uintptr_t base, const uint16_t *off, unsigned n, uint64_t *out);
bool other_block(uintptr_t addr, size_t words, uint64_t *out);
bool other_scan(uintptr_t table, size_t from, size_t to, size_t *found);

/* What this thread keeps of another OS process is too old after a barrier. */
void other_barrier(void);

/* A new call also forgets what it keeps of a core file. */
void other_begin(void);

#endif
