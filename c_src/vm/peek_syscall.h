/* peek_syscall.h: reads an OS process by process_vm_readv.
 * Knows: the system call, and this OS process. Does not know: handlers, or which reader is wanted. For peek*.c alone. */
#ifndef SONDE_PEEK_SYSCALL_H
#define SONDE_PEEK_SYSCALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct iovec;

/* The kernel reads the pieces one after the other. */
bool syscall_pieces(int process, const struct iovec *remote, unsigned n, uint64_t *out,
                    size_t words);

/* A piece for each word. */
void syscall_word_pieces(uintptr_t base, const uint16_t *off, unsigned n, struct iovec *out);
bool syscall_words(int process, uintptr_t base, const uint16_t *off, unsigned n, uint64_t *out);

/* An address that only the kernel follows. */
static inline void *syscall_address(uintptr_t addr)
{
    return (void *)addr; // NOLINT(performance-no-int-to-ptr)
}

/* Of this OS process; addresses are aligned. */
bool syscall_block(uintptr_t addr, size_t words, uint64_t *out);
bool syscall_gather(uintptr_t base, const uint16_t *off, unsigned n, uint64_t *out);
bool syscall_scan(uintptr_t table, size_t from, size_t to, size_t *found);
bool syscall_works(void);

#endif
