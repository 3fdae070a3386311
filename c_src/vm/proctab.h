/* proctab.h: the address of the process table, and the slot of a pid.
 * Knows: how to find the table without symbols, and how pids map to slots.
 * Does not know: anything of a process but its id. */
#ifndef SONDE_PROCTAB_H
#define SONDE_PROCTAB_H

#include "vm/layout.h"
#include "vm/peek.h"
#include "util/status.h"
#include "vm/term.h"

struct proctab {
    uintptr_t tab;     /* array of Process pointers; 0 is a free slot */
    uint64_t max;      /* slots, a power of two */
    uintptr_t record;  /* the read-only part of the table's record */
    bool has_turnover; /* proctab_turnover is proved */
};

/* Records of tables are in cache lines of their own. */
enum { PROCTAB_RECORD_ALIGN = 64 };

/* The table of whatever this record is of: the VM keeps ports in the same way. */
bool proctab_record(enum peek_reader r, const struct layout *lay, uintptr_t record,
                    struct proctab *out);

/* Whether a record at this address is of a table with processes of this layout, and what it says. */
bool proctab_read(enum peek_reader r, const struct layout *lay, uintptr_t record,
                  struct proctab *out);

/* How many slots the table has, if the VM says that this is its limit. */
uint64_t proctab_slots(uint64_t limit);

/* `count': slots in use, and those that will be at once; a slot is emptied before it is subtracted. `given': how
 * many slots were ever given to a process, modulo 2^32; added before the slot is filled. */
struct turnover {
    uint32_t count, given;
};

/* Both at the same moment. false: cannot be read. Whether these are the right words is proved separately, because with
 * `+P legacy' the table does not count what it gave. */
bool proctab_turnover(enum peek_reader r, const struct proctab *tab, struct turnover *out);

/* Searches the writable segments of the main executable for the one table record that agrees with
 * the official process limit and holds the caller's own Process in the caller's own slot. */
bool proctab_find(enum peek_reader r, const struct layout *lay, uint64_t process_limit,
                  uint64_t self_pid, uintptr_t self_proc, struct proctab *out);

/* The slot of the pid, if it is alive. */
static inline size_t proctab_slot(const struct layout *lay, const struct proctab *tab, uint64_t pid)
{
    return (lay->pid_slot_high ? pid >> 32 : pid >> 4) & (tab->max - 1);
}

/* The VM reserves one pid for "no process": all bits of its data are ones. In a table of the
 * largest size a dummy in the executable's own data occupies that pid's slot for ever, and
 * process_info of that pid crashes the node. */
static inline bool proctab_is_nobody(const struct layout *lay, uint64_t pid)
{
    return (lay->pid_slot_high ? pid | 0xFFFFFFFF00000000 : pid) == ~(uint64_t)0xC;
}

/* Whether a process with this pid may be in that slot. */
static inline bool proctab_may_hold(const struct layout *lay, const struct proctab *tab,
                                    size_t slot, uint64_t pid)
{
    return term_is_local_pid(pid) && proctab_slot(lay, tab, pid) == slot &&
           !proctab_is_nobody(lay, pid);
}

/* What an id has above its tag for that number, in a table with so many slots; from OTP 26 on. */
uint64_t proctab_data(uint64_t slots, uint64_t number);

/* A number that orders local pids as the term order does. */
uint64_t proctab_order(const struct layout *lay, const struct proctab *tab, uint64_t pid);

#endif
