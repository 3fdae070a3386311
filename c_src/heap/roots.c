#include "heap/roots.h"

#include "process/queue.h"
#include "vm/term.h"
#include "vm/object.h"

const enum layout_field roots_fields[] = {LF_dictionary,  LF_psd,           LF_group_leader,
                                          LF_parent,      LF_seq_token,     LF_recv_marks,
                                          LF_def_arg_reg, LF_live_frag_end, LAYOUT_FIELD_COUNT};

/* In the order of enum root. */
enum places {
    STACK,
    REGISTERS,
    DICTIONARY,
    INNER,
    OUTER,
    GROUP_LEADER,
    PARENT,
    SEQ_TOKEN,
    RECV_MARKS,
    LIVE_FRAGMENTS,
    END
};

enum { MESSAGE_WORDS = 3, RECV_MARKS_MAX = 8, ARITY_MAX = 1024 }; /* as in erl_message.h */

#define NO_FRAGMENT (~(uint64_t)7) /* ERTS_INVALID_HFRAG_PTR */

void roots_start(struct roots *r, uint64_t messages)
{
    *r = (struct roots){.messages = messages, .steps = MESSAGES_MAX};
}

/* A NIF that yielded keeps its arguments in its own memory. A process that waits for messages is in
 * no NIF. */
static enum status no_nif(const struct reading *rd)
{
    uint64_t psd = stamp_word(rd, LF_psd);
    uint64_t nfunc = 0;
    if (psd == 0 || !(stamp_field(rd, LF_state) & STATE_ACTIVE))
        return ST_OK;
    if (!peek_word(rd->vm->reader, psd + LF(rd->vm->lay, psd_nfunc), &nfunc))
        return ST_TORN;
    return nfunc == 0 ? ST_OK : ST_BUSY;
}

enum status roots_readable(const struct reading *rd)
{
    /* a BIF that yielded may know of terms in a fragment that serves as the heap */
    bool is_bif = fragments_have_heap(rd) && stamp_word(rd, LF_live_frag_end) != NO_FRAGMENT;
    if (is_bif || !queue_is_walkable(rd))
        return ST_BUSY;
    return no_nif(rd);
}

static void range(struct roots *r, uintptr_t at, uint64_t words)
{
    r->at = at;
    r->to = at + words * 8;
}

/* ---- places -------------------------------------------------------------------------------- */

static enum status enter_dictionary(struct roots *r, const struct vm *vm, uint64_t dict)
{
    uint64_t word;
    uintptr_t at = dict + LF(vm->lay, dict_used);
    if (dict == 0)
        return ST_OK;
    if (!peek_word(vm->reader, at & ~(uintptr_t)7, &word))
        return ST_TORN;
    range(r, dict + LF(vm->lay, dict_head), layout_narrow(word, (unsigned)(at & 7), 4));
    return ST_OK;
}

static void enter_field(struct roots *r, const struct reading *rd, enum layout_field field)
{
    range(r, rd->view->proc + rd->vm->lay->f[field], 1);
}

static enum status enter(struct roots *r, const struct reading *rd)
{
    uint64_t marks;
    switch (r->place) {
    case STACK:
        r->root = ROOT_STACK;
        r->at = stamp_word(rd, LF_stop);
        r->to = stamp_word(rd, LF_hend);
        return r->at <= r->to ? ST_OK : ST_TORN;
    case REGISTERS:
        r->root = ROOT_REGISTERS;
        range(r, stamp_word(rd, LF_arg_reg), stamp_field(rd, LF_arity));
        return stamp_field(rd, LF_arity) <= ARITY_MAX ? ST_OK : ST_TORN;
    case DICTIONARY:
        r->root = ROOT_DICTIONARY;
        return enter_dictionary(r, rd->vm, stamp_word(rd, LF_dictionary));
    case INNER:
        r->root = ROOT_MAILBOX;
        r->message = stamp_word(rd, LF_sig_first);
        return ST_OK;
    case OUTER:
        r->message = stamp_word(rd, LF_inq_first);
        return ST_OK;
    case GROUP_LEADER:
        r->root = ROOT_OTHER;
        enter_field(r, rd, LF_group_leader);
        return ST_OK;
    case PARENT:
        enter_field(r, rd, LF_parent);
        return ST_OK;
    case SEQ_TOKEN:
        enter_field(r, rd, LF_seq_token);
        return ST_OK;
    case RECV_MARKS:
        marks = stamp_word(rd, LF_recv_marks);
        range(r, marks, marks != 0 ? RECV_MARKS_MAX : 0);
        return ST_OK;
    default:
        r->live = stamp_word(rd, LF_live_frag_end) != NO_FRAGMENT ? stamp_word(rd, LF_mbuf) : 0;
        return ST_OK;
    }
}

/* The words of the next message. Other signals, and messages not yet decoded, have no terms. */
static enum status next_message(struct roots *r, const struct vm *vm)
{
    uint64_t tag;
    uintptr_t at = r->message;
    uint64_t next;
    if (r->steps-- == 0 || !peek_word(vm->reader, at + LF(vm->lay, msg_tag), &tag) ||
        !peek_word(vm->reader, at + LF(vm->lay, msg_next), &next))
        return ST_TORN;
    r->message = next;
    if (!signal_is_message(tag))
        return ST_OK;
    if (r->messages == 0) {
        r->message = 0;
        return ST_OK;
    }
    r->messages--;
    r->index++;
    if (tag != SIGNAL_EXTERNAL_MSG)
        range(r, at + LF(vm->lay, msg_tag), MESSAGE_WORDS);
    return ST_OK;
}

/* ---- fragments that the next collection keeps whole ------------------------------------------- */

static enum status next_fragment(struct roots *r, const struct reading *rd)
{
    uint64_t used;
    uintptr_t at = r->live;
    if (at == stamp_word(rd, LF_live_frag_end)) {
        r->live = 0;
        return ST_OK;
    }
    if (r->steps-- == 0 || !peek_word(rd->vm->reader, at + LF(rd->vm->lay, frag_used), &used) ||
        !peek_word(rd->vm->reader, at + LF(rd->vm->lay, frag_next), &r->live))
        return ST_TORN;
    range(r, at + LF(rd->vm->lay, frag_mem), used);
    r->in_live = true;
    return ST_OK;
}

/* The objects of such a fragment lie side by side; one without a header is a list cell. */
static enum status next_thing(struct roots *r, const struct vm *vm, uint64_t *word)
{
    struct object t = {.words = 2};
    uint64_t first;
    uintptr_t at = r->at;
    if (!peek_word(vm->reader, at, &first) ||
        (term_is_header(first) && !object_read(vm->reader, vm->lay, at, first, &t)) ||
        t.words > (r->to - at) / 8)
        return ST_TORN;
    *word = at | (term_is_header(first) ? TAG_BOXED : TAG_LIST);
    r->at += t.words * 8;
    return ST_OK;
}

/* ---- words --------------------------------------------------------------------------------- */

/* Goes to the next message or fragment of the current place, or to the next place. */
static enum status advance(struct roots *r, const struct reading *rd)
{
    if (r->message != 0)
        return next_message(r, rd->vm);
    if (r->live != 0)
        return next_fragment(r, rd);
    if (r->place == END)
        return ST_GONE;
    enum root before = r->root;
    enum status st = enter(r, rd);
    if (r->root != before)
        r->index = 0;
    r->place++;
    return st;
}

/* Return addresses and frame pointers on the stack have the tag of a header. */
static bool is_root(const struct roots *r, uint64_t word)
{
    return !term_is_immediate(word) && !(r->root == ROOT_STACK && term_is_header(word));
}

enum status roots_next(struct roots *r, const struct reading *rd, uint64_t *word)
{
    for (;;) {
        if (!budget_step(rd->budget))
            return ST_TIMESLICE;
        if (r->at == r->to) {
            enum status st = advance(r, rd);
            if (st != ST_OK)
                return st;
            continue;
        }
        if (r->in_live)
            return next_thing(r, rd->vm, word);
        if (!peek_word(rd->vm->reader, r->at, word))
            return ST_TORN;
        r->at += 8;
        r->index += r->root != ROOT_MAILBOX;
        if (is_root(r, *word))
            return ST_OK;
    }
}
