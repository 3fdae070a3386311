/* executable.h: where the main executable has its own data, and which build it is.
 * Knows: the VM's static variables are in the writable segments of the main executable.
 * Does not know: what is searched there. */
#ifndef SONDE_EXECUTABLE_H
#define SONDE_EXECUTABLE_H

#include "vm/peek.h"

typedef void executable_segment(void *arg, uintptr_t from, uintptr_t to);

/* Calls it with each writable segment; with none on a platform that does not list them. */
void executable_data(executable_segment *each, void *arg);

/* The same with each segment that can be read and not written. */
void executable_constants(executable_segment *each, void *arg);

/* Where its program headers are; 0: not known. */
uintptr_t executable_headers(void);

/* Where the bytes of its build id are, which is at most EXECUTABLE_ID_MAX long; false: it has none. */
enum { EXECUTABLE_ID_MAX = 64 };
bool executable_build_id(uintptr_t *at, size_t *bytes);

typedef void executable_words(void *arg, uintptr_t at, const uint64_t *words);

/* Calls it with each aligned address of these segments, and the n words there. n is at most EXECUTABLE_WORDS. */
enum { EXECUTABLE_WORDS = 8 };
void executable_search(enum peek_reader r, unsigned n, executable_words *each, void *arg);

#endif
