/* executable.h: where the main executable has its own data.
 * Knows: the VM's static variables are in the writable segments of the main executable.
 * Does not know: what is searched there. */
#ifndef SONDE_EXECUTABLE_H
#define SONDE_EXECUTABLE_H

#include "vm/peek.h"

typedef void executable_segment(void *arg, uintptr_t from, uintptr_t to);

/* Calls it with each writable segment; with none on a platform that does not list them. */
void executable_data(executable_segment *each, void *arg);

typedef void executable_words(void *arg, uintptr_t at, const uint64_t *words);

/* Calls it with each aligned address of these segments, and the n words there. n is at most EXECUTABLE_WORDS. */
enum { EXECUTABLE_WORDS = 8 };
void executable_search(enum peek_reader r, unsigned n, executable_words *each, void *arg);

#endif
