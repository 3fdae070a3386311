#include "heap/mailbox.h"

#include "process/message_fragments.h"
#include "process/queue.h"
#include "vm/object.h"

#include <string.h>

enum stages { COLLECT, SORT, INNER, OUTER, DONE };

enum { MAILBOX_BLOCKS_MAX = BOUND(1 << 20, 24) };

enum { NIL_WORD = 0x3B, FROM_WORD = 16 };

/* The fields that change if terms move, and the starts of the queues. */
static void fields(enum layout_field *f)
{
    static const enum layout_field all[] = {
        LF_heap,      LF_hend,      LF_heap_sz,        LF_stop, LF_old_heap,
        LF_old_htop,  LF_old_hend,  LF_abandoned,      LF_mbuf, LF_msg_frag,
        LF_sig_first, LF_inq_first, LAYOUT_FIELD_COUNT};
    memcpy(f, all, sizeof all);
}

/* A queue of signals has the first one, and then the address of the last one's link. */
static void find_last(struct mailbox *m, const struct reading *rd)
{
    if (rd->vm->reader != PEEK_OTHER || stamp_word(rd, LF_inq_first) == 0)
        return;
    uintptr_t at = rd->view->proc + LF(rd->vm->lay, inq_first) + 8;
    if (!peek_word(PEEK_OTHER, at, &m->last) || m->last == 0)
        m->last = ~0ULL; /* not met, so nothing is told */
    peek_barrier();      /* all that is linked by now is in the pages that are read from here on */
}

static void start(void *w, const struct reading *rd, const struct look_args *args)
{
    struct mailbox *m = w;
    memset(m, 0, sizeof *m);
    m->stage = COLLECT;
    m->steps = MESSAGES_MAX;
    m->shapeless = args->content != CONTENT_SHOWN;
    m->sample = args->max_entries;
    m->other.kind = SHAPE_OTHER;
    /* up to stop, not htop: senders put messages into the free part of the heap */
    blocks_init(&m->blocks, stamp_word(rd, LF_heap), stamp_word(rd, LF_stop),
                stamp_word(rd, LF_old_heap), stamp_word(rd, LF_old_htop));
    m->blocks.max = MAILBOX_BLOCKS_MAX;
    fragments_of(&m->collect, rd);
    m->collect.steps = MESSAGES_MAX;
    term_size_start(&m->measure, &m->blocks, TERM_SIZE_VISIBLE, args->max_words);
    find_last(m, rd);
}

static bool end(void *w)
{
    struct mailbox *m = w;
    term_size_end(&m->measure);
    blocks_end(&m->blocks);
    return true;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* block: NULL for a literal of another OS process, of which only this is read; literals never change. */
static enum status read_tuple(const struct vm *vm, uintptr_t at, const struct block *block,
                              const struct object *t, struct shape *s)
{
    s->kind = SHAPE_TUPLE;
    s->arity = t->words - 1;
    if (s->arity == 0)
        return ST_OK;
    if ((block && !block_holds(block, at, 2)) || !peek_word(vm->reader, at + 8, &s->tag))
        return ST_TORN;
    if (!term_is_atom(s->tag))
        s->tag = 0;
    return ST_OK;
}

static enum status read_boxed(const struct term_size *m, const struct vm *vm, uint64_t term,
                              struct shape *s)
{
    struct object t;
    uint64_t header;
    uintptr_t at = term_pointer(term);
    const struct block *block = term_size_find(m, vm, at, 1);
    if (!block && vm->reader != PEEK_OTHER)
        return vm->literals.to == 0 ? ST_ASK : ST_TORN;
    if (!peek_word(vm->reader, at, &header) || !term_is_header(header) ||
        !object_read(vm->reader, vm->lay, at, header, &t))
        return ST_TORN;
    switch (t.kind) {
    case KIND_TUPLE:
        return read_tuple(vm, at, block, &t, s);
    case KIND_MAP:
        s->kind = SHAPE_MAP;
        return ST_OK;
    case KIND_REFC:
    case KIND_HEAP_BINARY:
    case KIND_SUB_BINARY:
        s->kind = SHAPE_BINARY;
        return ST_OK;
    default:
        return ST_OK;
    }
}

static enum status read_shape(const struct term_size *m, const struct vm *vm, uint64_t term,
                              struct shape *s)
{
    *s = (struct shape){.kind = SHAPE_OTHER};
    if (term_is_list(term) || term == NIL_WORD)
        s->kind = SHAPE_LIST;
    else if (term_is_atom(term))
        *s = (struct shape){.kind = SHAPE_ATOM, .tag = term};
    else if (!term_is_immediate(term) && term != SIGNAL_EXTERNAL_MSG)
        return read_boxed(m, vm, term, s);
    return ST_OK;
}

static struct shape *shape_of(struct mailbox *m, const struct shape *key)
{
    uint64_t hash = (key->tag ^ key->arity << 40 ^ (uint64_t)key->kind << 60) * 0x9E3779B97F4A7C15U;
    if (key->kind == SHAPE_OTHER)
        return &m->other;
    for (uint64_t i = hash >> 40;; i++) {
        struct shape *s = &m->shapes[i % SHAPES_TABLE];
        if (s->kind == key->kind && s->tag == key->tag && s->arity == key->arity)
            return s;
        if (s->kind != SHAPE_FREE)
            continue;
        if (m->shapes_n == SHAPES_MAX)
            return &m->other;
        m->shapes_n++;
        *s = *key;
        return s;
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

static void count(struct mailbox *m, uint64_t from)
{
    struct shape *s = m->current;
    bool known = term_is_local_pid(from);
    if (s->messages++ == 0)
        s->from = known ? from : FROM_SEVERAL;
    else if (!known || s->from != from)
        s->from = FROM_SEVERAL;
    m->examined++;
}

static enum status examine(struct mailbox *m, const struct vm *vm, uintptr_t at, uint64_t term,
                           struct budget *b)
{
    struct shape shape = {.kind = SHAPE_OTHER};
    uint64_t from = FROM_NOBODY;
    enum status st = ST_OK;
    m->measure.own.n = BLOCK_FRAGMENTS;
    if (term != SIGNAL_EXTERNAL_MSG)
        st = message_fragments_collect(&m->measure.own, vm, at, b);
    if (st == ST_OK && !m->shapeless)
        st = read_shape(&m->measure, vm, term, &shape);
    if (st != ST_OK)
        return st;
    if (!m->shapeless && !peek_word(vm->reader, at + LF(vm->lay, msg_tag) + FROM_WORD, &from))
        return ST_TORN;
    m->current = shape_of(m, &shape);
    m->before = m->measure.sum;
    count(m, term == SIGNAL_EXTERNAL_MSG ? 0 : from);
    return term == SIGNAL_EXTERNAL_MSG ? ST_OK : term_size_of(&m->measure, vm, term);
}

/* The inner queue has receive markers, too; any other signal may change the queue. */
static enum status next_message(struct mailbox *m, const struct vm *vm, struct budget *b)
{
    uint64_t tag;
    uintptr_t at = m->cursor;
    if (m->steps-- == 0 || (at & 7) || !peek_word(vm->reader, at + LF(vm->lay, msg_tag), &tag) ||
        !peek_word(vm->reader, at + LF(vm->lay, msg_next), &m->cursor))
        return ST_TORN;
    if (m->stage == OUTER && at + LF(vm->lay, msg_next) == m->last)
        m->cursor = m->last = 0;
    if (m->cursor != 0)
        peek_prefetch(vm->reader, m->cursor);
    if (!signal_is_message(tag))
        return m->stage == INNER && signal_op(tag) == SIGNAL_RECV_MARK ? ST_OK : ST_BUSY;
    m->messages++;
    return m->examined < m->sample ? examine(m, vm, at, tag, b) : ST_OK;
}

static void add_sums(struct mailbox *m)
{
    if (!m->current)
        return;
    m->current->words += m->measure.sum.words - m->before.words;
    m->current->visible += m->measure.sum.visible - m->before.visible;
    m->current = NULL;
}

static enum status one_queue(struct mailbox *m, const struct vm *vm, struct budget *b)
{
    for (;;) {
        enum status st = term_size_go(&m->measure, vm, b);
        if (st != ST_OK)
            return st;
        add_sums(m);
        if (m->cursor == 0)
            return m->stage == OUTER && m->last != 0 ? ST_TORN : ST_OK;
        if (!budget_step(b))
            return ST_TIMESLICE;
        st = next_message(m, vm, b);
        if (st != ST_OK)
            return st;
    }
}

/* ---- stages ---------------------------------------------------------------------------------- */

static enum status collect(struct mailbox *m, const struct reading *rd)
{
    if (!queue_is_walkable(rd))
        return ST_BUSY;
    enum status st = fragments_collect(&m->collect, rd->vm, &m->blocks, rd->budget);
    return st == ST_ASK ? ST_TOO_LARGE : st;
}

static enum status walk_stage(struct mailbox *m, const struct reading *rd)
{
    switch (m->stage) {
    case COLLECT:
        return collect(m, rd);
    case SORT:
        return blocks_sort(&m->blocks, rd->budget) ? ST_OK : ST_TIMESLICE;
    default:
        return one_queue(m, rd->vm, rd->budget);
    }
}

static enum status walk(void *w, const struct reading *rd)
{
    struct mailbox *m = w;
    enum status st = ST_OK;
    while (st == ST_OK && m->stage != DONE) {
        st = walk_stage(m, rd);
        if (st != ST_OK)
            break;
        if (++m->stage == INNER)
            m->cursor = stamp_word(rd, LF_sig_first);
        else if (m->stage == OUTER)
            m->cursor = stamp_word(rd, LF_inq_first);
    }
    return st;
}

static void progress(const void *w, uint64_t *done, uint64_t *total)
{
    const struct term_size *m = &((const struct mailbox *)w)->measure;
    *done = m->sum.words;
    *total = m->sum.words > m->max_words ? m->sum.words : 0;
}

/* Requires only the lock of the queues: senders may hold the main lock nearly all the time, and
 * moving messages between queues takes the queues' lock too. */
const struct walker mailbox_walker = {
    sizeof(struct mailbox), fields, start, walk, progress, end, LOCK_MSGQ};
