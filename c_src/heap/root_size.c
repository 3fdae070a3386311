#include "heap/root_size.h"

#include "heap/marking.h"
#include "process/message_fragments.h"
#include "process/queue.h"
#include "vm/term.h"

enum stages { COLLECT, SORT, MEASURE, CLEAR, MARK, DONE };

/* Fragments of the process and its received messages; more: TOO_LARGE. */
enum { FLAT_BLOCKS_MAX = BOUND(1 << 20, 24), FREE_STEPS = 1024 };

enum { PAIR_HEADER = 2 << 6, SMALL_TAG = 15, MESSAGE_BYTES = 3 * 8 };

static void start(void *w, const struct reading *rd, const struct look_args *args)
{
    struct root_size *f = w;
    f->want = args->want;
    f->stage = COLLECT;
    f->n = args->n;
    f->found = false;
    f->bucket = 0;
    f->shared.measure = NULL;
    census_init(&f->refs, ROOT_SIZE_REFS_MAX, true);
    blocks_init(&f->blocks, stamp_word(rd, LF_heap), stamp_word(rd, LF_htop),
                stamp_word(rd, LF_old_heap), stamp_word(rd, LF_old_htop));
    f->blocks.max = FLAT_BLOCKS_MAX;
    fragments_of(&f->collect, rd);
    f->collect.steps = MESSAGES_MAX;
    /* skip the messages if they are not wanted: there may be many */
    roots_start(&f->roots, (f->want & ROOT_SIZE_MESSAGES) ? MESSAGES_MAX : 0);
    term_size_start(
        &f->measure, &f->blocks,
        ((f->want & ROOT_SIZE_BYTES) ? TERM_SIZE_BYTES : 0) |
            ((f->want & ROOT_SIZE_BINARIES) ? TERM_SIZE_VISIBLE | TERM_SIZE_BINARIES : 0),
        args->max_words);
}

static bool end(void *w)
{
    struct root_size *f = w;
    struct budget b = BUDGET(FREE_STEPS);
    if (!census_free_some(&f->refs, &b))
        return false;
    shared_size_end(&f->shared);
    term_size_end(&f->measure);
    blocks_end(&f->blocks);
    return true;
}

/* ---- which terms ---------------------------------------------------------------------------- */

/* OK: the word refers to {N, Term}, and *word becomes Term. GONE: it does not. */
static enum status is_slot(const struct root_size *f, const struct vm *vm, uint64_t *word)
{
    uint64_t w[3];
    uintptr_t at = term_pointer(*word);
    if (term_is_list(*word) || !blocks_find(&f->blocks, at, 3))
        return ST_GONE;
    if (!peek_block(vm->reader, at, 3, w))
        return ST_TORN;
    if (w[0] != PAIR_HEADER || w[1] != (f->n << 4 | SMALL_TAG))
        return ST_GONE;
    *word = w[2];
    return ST_OK;
}

static enum status next_pair(struct root_size *f, const struct vm *vm, uint64_t *word)
{
    uintptr_t at = term_pointer(f->bucket);
    if (f->pairs-- == 0 || !blocks_find(&f->blocks, at, 2) || !peek_word(vm->reader, at, word) ||
        !peek_word(vm->reader, at + 8, &f->bucket))
        return ST_TORN;
    if (!term_is_list(f->bucket))
        f->bucket = 0;
    return ST_OK;
}

/* OK: the word is a term to measure. GONE: it is not. */
static enum status choose(struct root_size *f, const struct vm *vm, struct budget *b,
                          uint64_t *word)
{
    static const unsigned wants[ROOT_COUNT] = {[ROOT_STACK] = ROOT_SIZE_STACK,
                                               [ROOT_REGISTERS] = ROOT_SIZE_REGISTERS,
                                               [ROOT_DICTIONARY] = ROOT_SIZE_DICTIONARY,
                                               [ROOT_MAILBOX] = ROOT_SIZE_MESSAGES};
    enum root root = f->roots.root;
    if (root == ROOT_STACK && (f->want & ROOT_SIZE_SLOT)) {
        enum status st = is_slot(f, vm, word);
        f->found = st == ST_OK;
        f->slot = *word;
        return st;
    }
    if (!(f->want & wants[root]))
        return ST_GONE;
    if (root == ROOT_DICTIONARY && term_is_list(*word)) {
        f->bucket = *word;
        return next_pair(f, vm, word);
    }
    if (root != ROOT_MAILBOX)
        return ST_OK;
    /* only the first word: it is the term, and a token and the sender follow */
    if (f->roots.to - f->roots.at != MESSAGE_BYTES - 8)
        return ST_GONE;
    return message_fragments_collect(&f->measure.own, vm,
                                     f->roots.to - MESSAGE_BYTES - LF(vm->lay, msg_tag), b);
}

/* OK; GONE: no more. */
static enum status next_term(struct root_size *f, const struct reading *rd, uint64_t *word)
{
    if (f->bucket != 0)
        return budget_step(rd->budget) ? next_pair(f, rd->vm, word) : ST_TIMESLICE;
    for (;;) {
        enum status st = f->found ? ST_GONE : roots_next(&f->roots, rd, word);
        if (st != ST_OK)
            return st;
        st = choose(f, rd->vm, rd->budget, word);
        if (st != ST_GONE)
            return st;
    }
}

/* ---- stages --------------------------------------------------------------------------------- */

static enum status measure(struct root_size *f, const struct reading *rd)
{
    for (;;) {
        uint64_t word;
        enum status st = term_size_go(&f->measure, rd->vm, rd->budget);
        if (st == ST_OK)
            st = next_term(f, rd, &word);
        if (st == ST_GONE)
            return (f->want & ROOT_SIZE_SLOT) && !f->found ? ST_GONE : ST_OK;
        if (st == ST_OK && !(f->want & ROOT_SIZE_REFS))
            st = term_size_of(&f->measure, rd->vm, word);
        if (st != ST_OK)
            return st;
    }
}

static enum status collect(struct root_size *f, const struct vm *vm, struct budget *b)
{
    enum status st = fragments_collect(&f->collect, vm, &f->blocks, b);
    return st == ST_ASK ? ST_TOO_LARGE : st;
}

static enum status walk_stage(struct root_size *f, const struct reading *rd)
{
    enum status st;
    switch (f->stage) {
    case COLLECT:
        st = roots_readable(rd);
        return st == ST_OK ? collect(f, rd->vm, rd->budget) : st;
    case SORT:
        return blocks_sort(&f->blocks, rd->budget) ? ST_OK : ST_TIMESLICE;
    case MEASURE:
        return measure(f, rd);
    case CLEAR:
        return marks_clear(&f->shared.marks, rd->budget)
                   ? shared_size_of(&f->shared, rd->vm, f->slot)
                   : ST_TIMESLICE;
    default:
        return shared_size_go(&f->shared, rd->vm, rd->budget);
    }
}

static enum status next_stage(struct root_size *f, const struct vm *vm)
{
    if (++f->stage == MEASURE)
        return blocks_words(&f->blocks, &f->pairs) ? ST_OK : ST_TORN;
    if (f->stage != CLEAR)
        return ST_OK;
    if (!(f->want & (ROOT_SIZE_SHARED | ROOT_SIZE_REFS))) {
        f->stage = DONE;
        return ST_OK;
    }
    enum status st = shared_size_start(&f->shared, vm, &f->measure);
    f->shared.refs = f->want & ROOT_SIZE_REFS ? &f->refs : NULL;
    return st;
}

static enum status walk(void *w, const struct reading *rd)
{
    struct root_size *f = w;
    enum status st = ST_OK;
    while (st == ST_OK && f->stage != DONE) {
        st = walk_stage(f, rd);
        if (st == ST_OK)
            st = next_stage(f, rd->vm);
    }
    return st;
}

/* The total is unknown until all terms are counted or exceed max_words. */
static void progress(const void *w, uint64_t *done, uint64_t *total)
{
    const struct term_size *m = &((const struct root_size *)w)->measure;
    *done = m->sum.words;
    *total = m->sum.words > m->max_words ? m->sum.words : 0;
}

const struct walker root_size_walker = {
    sizeof(struct root_size), marking_fields, start, walk, progress, end, 0};
