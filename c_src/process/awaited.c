#include "process/awaited.h"

#include "vm/term.h"

const enum layout_field awaited_fields[] = {LF_heap,     LF_htop,     LF_hend,           LF_stop,
                                            LF_old_heap, LF_old_htop, LAYOUT_FIELD_COUNT};

/* The reference of an alias has a third word after its numbers: a pid. */
enum { REF_ARITY_MIN = 2, REF_ARITY_MAX = 3, REF_WORDS = 3, HEADER_TAG = 0x3F };

static bool read_numbers(const struct vm *vm, uintptr_t ref, struct numbers *out)
{
    uint64_t header;
    uint64_t b;
    if (!peek_word(vm->reader, ref, &header) || !peek_word(vm->reader, ref + 8, &out->a) ||
        !peek_word(vm->reader, ref + 16, &b))
        return false;
    out->b = (uint32_t)b;
    return (header & HEADER_TAG) == (MAGIC_THING & HEADER_TAG) &&
           term_header_arity(header) >= REF_ARITY_MIN && term_header_arity(header) <= REF_ARITY_MAX;
}

/* ---- the frame ----------------------------------------------------------------------------- */

/* Ignores references that lie elsewhere: in a fragment or among literals. */
static void keep_ref(struct awaited *a, const struct reading *rd, uint64_t word)
{
    struct block young = {stamp_word(rd, LF_heap), stamp_word(rd, LF_htop)};
    struct block old = {stamp_word(rd, LF_old_heap), stamp_word(rd, LF_old_htop)};
    uintptr_t at = term_pointer(word);
    if (a->refs_n < AWAITED_HELD &&
        (block_holds(&young, at, REF_WORDS) || block_holds(&old, at, REF_WORDS)) &&
        read_numbers(rd->vm, at, &a->refs[a->refs_n]))
        a->refs_n++;
}

static bool read_frame(struct awaited *a, const struct reading *rd)
{
    struct block stack = {stamp_word(rd, LF_stop), stamp_word(rd, LF_hend)};
    for (unsigned i = 0; i < AWAITED_FRAME; i++) {
        uintptr_t at = stack.from + (uintptr_t)8 * i;
        uint64_t word;
        if (!block_holds(&stack, at, 1))
            return stack.from <= stack.to;
        if (!peek_word(rd->vm->reader, at, &word))
            return false;
        if (term_is_header(word)) /* no header: addresses have the same two bits */
            return true;
        if (term_is_local_pid(word) && a->pids_n < AWAITED_HELD)
            a->pids[a->pids_n++] = word;
        else if ((word & 3) == TAG_BOXED)
            keep_ref(a, rd, word);
    }
    return true;
}

/* ---- links and monitors -------------------------------------------------------------------- */

static bool holds_ref(const struct awaited *a, const struct numbers *ref)
{
    for (unsigned i = 0; i < a->refs_n; i++) {
        if (a->refs[i].a == ref->a && a->refs[i].b == ref->b)
            return true;
    }
    return false;
}

static bool holds_pid(const struct awaited *a, uint64_t pid)
{
    for (unsigned i = 0; i < a->pids_n; i++) {
        if (a->pids[i] == pid)
            return true;
    }
    return false;
}

static void count(uint64_t pid, uint64_t *last, unsigned *n)
{
    *n += *n == 0 || *last != pid;
    *last = pid;
}

static enum status take_end(void *to, const struct vm *vm, const struct tie *tie)
{
    struct awaited *a = to;
    struct numbers ref;
    uint64_t pid = tie->remote ? AWAITED_REMOTE : tie->other;
    if (tie->monitor) {
        count(pid, &a->monitor, &a->monitors_n);
        if ((tie->ref & 3) != TAG_BOXED || !read_numbers(vm, term_pointer(tie->ref), &ref))
            return ST_TORN;
        if (holds_ref(a, &ref)) {
            count(pid, &a->by_ref, &a->by_ref_n);
            a->call = ref.a;
        }
    }
    if (!tie->remote && holds_pid(a, pid))
        count(pid, &a->by_pid, &a->by_pid_n);
    return ST_OK;
}

/* ---- the walk ------------------------------------------------------------------------------ */

void awaited_start(struct awaited *a)
{
    a->begun = false;
    a->pids_n = a->refs_n = a->by_ref_n = a->by_pid_n = a->monitors_n = 0;
    a->by_ref = a->by_pid = a->monitor = AWAITED_NOBODY;
    a->call = 0;
    links_monitors_each(&a->ties, take_end, a);
}

enum status awaited_walk(struct awaited *a, const struct reading *rd)
{
    if (!a->begun && !read_frame(a, rd))
        return ST_TORN;
    a->begun = true;
    return links_monitors_walk(&a->ties, rd);
}

/* If the frame holds references or pids, but none of a process that is monitored or linked, the process that
 * it waits for has ended, or the reference lies where this file does not look. */
uint64_t awaited_answer(const struct awaited *a)
{
    if (a->by_ref_n > 0)
        return a->by_ref_n == 1 ? a->by_ref : AWAITED_UNCLEAR;
    if (a->by_pid_n == 1)
        return a->by_pid;
    if (a->monitors_n == 0)
        return AWAITED_NOBODY;
    return a->monitors_n == 1 && a->refs_n + a->pids_n == 0 ? a->monitor : AWAITED_UNCLEAR;
}

uint64_t awaited_call(const struct awaited *a)
{
    return a->by_ref_n == 1 ? a->call : 0;
}
