/* scan_setup.c: what a scan asks, and within which limits; and its end.
 * Knows: what the caller wants. Does not know: the order in which a scan goes on. */
#include "scan/scan.h"

#include <assert.h>
#include <string.h>

/* Of another OS process, all stamps of a batch are read at once (batch_open), and no line is prefetched. */
static void find_lines(struct scan *s, const struct plan *p)
{
    if (s->vm.reader == PEEK_OTHER)
        return;
    for (unsigned i = 0; i < p->n; i++) {
        uint16_t line = p->off[i] & (uint16_t)~63U;
        unsigned k = 0;
        while (k < s->lines && s->line[k] != line)
            k++;
        if (k == s->lines && k < sizeof s->line / sizeof *s->line)
            s->line[s->lines++] = line;
    }
}

void scan_init(struct scan *s, const struct vm *vm, const enum attr *attrs, unsigned qn,
               enum scan_mode mode, size_t n, struct sample *first, size_t max_entries)
{
    assert(qn >= 1 && qn <= SCAN_QUESTIONS);
    assert(qn == 1 || mode == SCAN_TOP || mode == SCAN_EACH || mode == SCAN_GROUPS);
    memset(s, 0, sizeof *s);
    s->vm = *vm;
    stripes_init(&s->table, vm->tab.max);
    s->mode = mode;
    s->qn = qn;
    s->per = s->most = SCAN_WALKS / qn < SCAN_BATCH ? SCAN_WALKS / qn : SCAN_BATCH;
    for (unsigned k = 0; k < qn; k++) {
        question_make(&s->q[k], vm->lay, attrs[k], mode == SCAN_HOLDERS || mode == SCAN_ALL);
        s->q[k].places = &s->places;
        top_n_init(&s->top[k], n);
    }
    if (qn > 1)
        questions_join(s->q, qn, vm->lay);
    find_lines(s, &s->q->plan);
    for (unsigned i = 0; i < SCAN_WALKS; i++)
        s->process[i] = (uint8_t)(i / qn);
    s->stacks.width = mode == SCAN_GROUPS ? qn - 1 : 0;
    sample_init(&s->own, vm->lay, &vm->tab, max_entries);
    s->sample = first ? first : &s->own;
}

void scan_free(struct scan *s)
{
    for (uint32_t left = s->walking | s->kept; left != 0; left &= left - 1)
        walk_end(&s->walks[__builtin_ctz(left)]);
    s->walking = s->kept = 0;
    for (unsigned i = 0; i < SCAN_WALKS; i++)
        walk_free(&s->walks[i]);
    for (unsigned k = 0; k < s->qn; k++)
        top_n_free(&s->top[k]);
    sample_free(&s->own);
    stack_tree_free(&s->stacks);
}

bool scan_function(struct scan *s, const struct block *code)
{
    struct places *p = &s->places;
    for (unsigned i = 0; i < p->n; i++) {
        if (p->at[i].from == code->from && p->at[i].to == code->to)
            return true;
    }
    if (p->n == ATTR_PLACES)
        return false;
    p->at[p->n++] = *code;
    return true;
}

enum status scan_place(struct scan *s, size_t slot, uintptr_t proc)
{
    struct question q;
    struct view view;
    const struct reading rd = {&s->vm, &q.plan, &view, NULL};
    question_make(&q, s->vm.lay, ATTR_waits_for, false);
    enum status st = stamp_open(&s->vm, &q.plan, slot, proc, &view);
    if (st != ST_OK)
        return st;
    uintptr_t pc = (uintptr_t)stamp_word(&rd, LF_pc);
    return scan_function(s, &(struct block){pc, pc + 1}) ? ST_OK : ST_NOMEM;
}

void scan_limit(struct scan *s, uint64_t max_words)
{
    for (unsigned k = 0; k < s->qn; k++)
        s->q[k].max_words = max_words;
}

void scan_patience(struct scan *s, uint64_t ns)
{
    s->patience_ns = ns;
    if (ns > 0)
        s->per = 1;
}

void scan_account(struct scan *s, struct account *account)
{
    s->account = account;
    s->q->each = true;
}
