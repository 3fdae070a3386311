/* term.h: tag bits of term words and of signals.
 * Knows: how one word distinguishes pids, headers and signals; only values that are the same from
 * OTP 25 to 29. Does not know: processes, or where a word came from. */
#ifndef SONDE_TERM_H
#define SONDE_TERM_H

#include <stdbool.h>
#include <stdint.h>

/* The low two bits: 0 header, 1 list, 2 boxed, 3 immediate; a local pid is 0011 in four bits. */
static inline bool term_is_header(uint64_t w)
{
    return (w & 3) == 0;
}

/* The header of a local reference. On an off-heap list: a reference to memory outside the heap. */
enum { MAGIC_THING = 0x90 };

enum { TAG_LIST = 1, TAG_BOXED = 2, TERM_NIL = 0x3B };

static inline bool term_is_list(uint64_t w)
{
    return (w & 3) == TAG_LIST;
}

static inline bool term_is_immediate(uint64_t w)
{
    return (w & 3) == 3;
}

static inline bool term_is_atom(uint64_t w)
{
    return (w & 0x3F) == 0x0B;
}

static inline bool term_is_small(uint64_t w)
{
    return (w & 15) == 15;
}

static inline bool term_is_local_pid(uint64_t w)
{
    return (w & 15) == 3;
}

static inline bool term_is_local_port(uint64_t w)
{
    return (w & 15) == 7;
}

static inline uintptr_t term_pointer(uint64_t w)
{
    return (uintptr_t)(w & ~(uint64_t)7);
}

/* Words after the header, where the header contains the size (references, external ids). */
static inline uint64_t term_header_arity(uint64_t header)
{
    return header >> 6;
}

/* The word at a message's term position identifies the signal: an external-pid header marks any
 * signal but a message, 0 a message from another node that is not decoded yet. */
static inline bool signal_is_message(uint64_t tag)
{
    return (tag & 0x3F) != 0x30;
}

static inline unsigned signal_op(uint64_t tag)
{
    return (unsigned)(tag >> 6) & 0xFF;
}

enum signal_ops {
    SIGNAL_RECV_MARK = 16,   /* ERTS_SIG_Q_OP_RECV_MARK: in the inner queue */
    SIGNAL_LEN_MARK = 0xFF,  /* ERTS_SIG_Q_OP_MSGQ_LEN_OFFS_MARK: lengths are biased (up to 26) */
    SIGNAL_EXTERNAL_MSG = 0, /* the whole tag of an undecoded distribution message */
};

#endif
