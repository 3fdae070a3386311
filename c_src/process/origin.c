#include "process/origin.h"

#include "vm/term.h"

#include <string.h>

/* An arity takes eight bits, and the word of an atom leaves more than that free. */
enum { ARITY_BITS = 8 };

const enum layout_field origin_fields[] = {LF_group_leader, LAYOUT_FIELD_COUNT};

static bool pack(const struct mfa *mfa, uint64_t words[2])
{
    words[0] = mfa->module;
    words[1] = mfa->function << ARITY_BITS | mfa->arity;
    return words[1] >> ARITY_BITS == mfa->function && mfa->arity >> ARITY_BITS == 0;
}

struct mfa origin_function(const uint64_t words[2])
{
    return (struct mfa){words[0], words[1] >> ARITY_BITS, words[1] & ((1U << ARITY_BITS) - 1)};
}

/* proc_lib has started it, but it has not run yet: what it is to call is not in its dictionary. */
static bool is_not_begun(const struct vm *vm, const struct mfa *call, const struct mfa *first)
{
    const struct mfa *late = &vm->begins_late;
    return late->module != 0 && first->module == 0 && memcmp(call, late, sizeof *call) == 0;
}

enum status origin_read(const struct reading *rd, struct origin *out)
{
    struct mfa call;
    struct mfa first;
    uint64_t key = rd->vm->first_call_key;
    uint64_t leader = stamp_word(rd, LF_group_leader);
    if (!identity_mfa(rd->vm->reader, rd->view->proc + rd->vm->identity.call, &call))
        return ST_TORN;
    enum status st = first_call_find(rd, &key, &first);
    out->word[ORIGIN_LEADER] = term_is_local_pid(leader) ? leader : 0;
    if (!pack(&call, &out->word[ORIGIN_CALL]) || !pack(&first, &out->word[ORIGIN_FIRST]))
        return ST_TORN;
    if (st == ST_OK && is_not_begun(rd->vm, &call, &first))
        return ST_ASK;
    return st;
}
