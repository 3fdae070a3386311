#include "scan/batch.h"

#include "scan/answers.h"
#include "util/clock.h"

#include <assert.h>
#include <string.h>

/* Rounds in which those that were busy or torn are tried again. */
enum { ROUNDS = 4 };

static_assert(SCAN_WALKS < 32, "a set of walks has 32 bits, and one more than there are walks");
static_assert((int)SCAN_WALKS >= (int)SCAN_QUESTIONS && (int)SCAN_WALKS >= (int)SCAN_BATCH,
              "all questions to one process, or one question to a batch");
static_assert(SCAN_BATCH <= 32, "a set of processes has 32 bits");

static unsigned ctz(uint32_t set)
{
    return (unsigned)__builtin_ctz(set);
}

static uint32_t walks_of(const struct scan *s, unsigned p)
{
    return ((1U << s->qn) - 1) << p * s->qn;
}

/* ---- processes that could not be read ------------------------------------------------------------------ */

static bool is_patient(struct scan *s)
{
    uint64_t now = clock_ns();
    if (s->patient_until == 0)
        s->patient_until = now + s->patience_ns;
    return now < s->patient_until;
}

static bool may_look_again(struct scan *s)
{
    if (s->phase == SWEEP)
        return s->retry_n < SCAN_RETRIES;
    return s->patience_ns > 0 ? is_patient(s) : s->round < ROUNDS;
}

/* Tried again after the sweep and then in every round but the last; then process_info is asked.
 * There is room: scan_step lets the asks be answered before a batch could overflow them, and a
 * round keeps at most what it took from the list. */
static enum status put_off(struct scan *s, uint64_t pid, enum status why)
{
    bool again = why != ST_ASK && why != ST_TOO_LARGE && may_look_again(s);
    if (!again) {
        s->ask_large[s->ask_n] = why == ST_TOO_LARGE;
        s->ask[s->ask_n++] = pid;
    } else if (s->phase == SWEEP)
        s->retry[s->retry_n++] = pid;
    else
        s->retry[s->kept_n++] = pid;
    assert(s->ask_n <= SCAN_ASKS && s->kept_n <= s->retry_n);
    if (s->phase == SWEEP && answers_are_remembered(s)) /* keeps the order of the sample */
        return sample_add(s->sample, pid, 0, SAMPLE_UNKNOWN);
    return ST_OK;
}

static enum status emit_all(struct scan *s, const struct walk *w)
{
    int64_t values[SCAN_QUESTIONS];
    unsigned k = 0;
    do
        values[k] = walk_value(&w[s->q[k].from], &s->q[k]);
    while (++k < s->qn);
    return answers_add(s, w->view.pid, values, w->clean, s->phase == RETRY);
}

static enum status add_stack(struct scan *s, const struct walk *w)
{
    s->answered++;
    return stack_tree_add(&s->stacks, w->u.stack->frame, w->u.stack->n, w->view.pid, NULL);
}

static enum status add_to_group(struct scan *s, const struct walk *w)
{
    int64_t values[SCAN_QUESTIONS];
    unsigned last = s->qn - 1;
    for (unsigned k = 0; k < last; k++)
        values[k] = walk_value(&w[s->q[k].from], &s->q[k]);
    s->answered++;
    return stack_tree_add(&s->stacks, w[last].u.origin.word, ORIGIN_WORDS, w->view.pid, values);
}

static enum status merge(struct scan *s, const struct walk *w, struct budget *b)
{
    const struct held_binaries *h = w->u.hold;
    if (h)
        return account_merge(s->account, &s->merge, w->view.pid, &h->binaries, &h->types, b);
    return s->account->keeps ? account_note(s->account, w->view.pid) : ST_OK;
}

enum { MERGE_STEPS = BOUND(BUDGET_STEPS, 5) };

/* TIMESLICE: call again. It has time, because its stamp was compared. */
static enum status settle_account(struct scan *s, unsigned i)
{
    struct budget b = BUDGET(MERGE_STEPS);
    const struct walk *w = &s->walks[i];
    if (!(s->kept & 1U << i))
        return ST_OK;
    enum status st = ST_OK;
    if (s->outcome[i] == ST_OK && !(s->merged & 1U << i))
        st = merge(s, w, &b);
    if (st == ST_TIMESLICE)
        return st;
    if (st != ST_OK)
        s->failed = st; /* and this remains, however long the rest is being freed */
    s->merged |= 1U << i;
    if (w->u.hold && !census_free_some(&w->u.hold->binaries, &b))
        return ST_TIMESLICE;
    walk_end(&s->walks[i]);
    s->kept &= ~(1U << i);
    return s->failed;
}

static enum status settle_one(struct scan *s, unsigned i)
{
    const struct walk *w = first_walk(s, i);
    enum status st = s->outcome[i];
    switch (st) {
    case ST_OK:
        s->counters.native++;
        return s->mode == SCAN_STACKS   ? add_stack(s, w)
               : s->mode == SCAN_GROUPS ? add_to_group(s, w)
                                        : emit_all(s, w);
    case ST_GONE:
        return ST_OK;
    case ST_BUSY:
        s->counters.busy++;
        break;
    case ST_TORN:
        s->counters.torn++;
        break;
    case ST_TOO_LARGE:
        s->too_large++;
        break;
    case ST_ASK:
        break;
    default:
        return st;
    }
    return put_off(s, w->view.pid, st);
}

/* ---- the next process ----------------------------------------------------------------------------- */

/* Empty slots looked at in one go, about 1 ms; and processes that died, by the slower reader. */
enum { STRETCH = 1 << 17, SHORT_STRETCH = 1 << 12, TRIES = 512 };

static enum status target(const struct scan *s, struct target *t, size_t slot, uint64_t pid)
{
    uint64_t proc;
    if (!peek_word(s->vm.reader, s->vm.tab.tab + slot * 8, &proc))
        return ST_TORN;
    *t = (struct target){slot, (uintptr_t)proc, pid};
    return ST_OK;
}

/* Whether all processes that were there when the sweep began were met, so that the rest of the table need not be
 * read: the slots that were met are as many as the table had then, and it gave no slot since, so none of these is
 * of a later process. A young node has filled only the first slots of a large table. */
static bool all_were_met(struct scan *s)
{
    struct turnover now;
    const struct proctab *tab = &s->vm.tab;
    if (!tab->has_turnover || s->table.skip > 0)
        return false;
    if (s->table.next == 0 && !proctab_turnover(s->vm.reader, tab, &s->turnover))
        s->turnover.count = UINT32_MAX;
    return s->seen >= s->turnover.count && proctab_turnover(s->vm.reader, tab, &now) &&
           now.given == s->turnover.given;
}

static enum status next_in_table(struct scan *s, struct target *t)
{
    size_t slot;
    size_t most = s->may_pause ? STRETCH : SHORT_STRETCH;
    if (all_were_met(s))
        return ST_GONE;
    enum status st = stripes_next(&s->table, &s->vm, &most, &slot);
    if (st != ST_OK)
        return st;
    s->seen++;
    return target(s, t, slot, 0);
}

static enum status next_in_list(struct scan *s, struct target *t)
{
    bool retry = s->phase == RETRY;
    if (s->next == (retry ? s->retry_n : s->sample->n))
        return ST_GONE;
    /* in a retry the sample may be empty, or shorter than the list */
    uint64_t pid = retry ? s->retry[s->next] : entry_pid(&s->sample->entries[s->next]);
    bool skip = !retry && (s->sample->entries[s->next].key & SAMPLE_SKIP);
    s->next++;
    *t = (struct target){0, 0, pid};
    return skip ? ST_OK : target(s, t, proctab_slot(s->vm.lay, &s->vm.tab, pid), pid);
}

/* Finds the next process, and prefetches its lines. OK; TIMESLICE: none yet; GONE: there are no more;
 * TORN: the table cannot be read. */
static enum status look_ahead(struct scan *s)
{
    bool list = s->phase == RETRY || s->mode == SCAN_AFTER;
    struct target *t = &s->ahead[s->ahead_n];
    for (unsigned tries = 0; tries < TRIES; tries++) {
        enum status st = list ? next_in_list(s, t) : next_in_table(s, t);
        if (st != ST_OK)
            return st;
        if (t->proc == 0)
            continue;
        for (unsigned i = 0; i < s->lines; i++)
            peek_prefetch(s->vm.reader, t->proc + s->line[i]);
        s->ahead_n++;
        return ST_OK;
    }
    return ST_TIMESLICE;
}

enum status batch_fetch(struct scan *s)
{
    enum status st = ST_OK;
    while (st == ST_OK && s->ahead_n < s->per)
        st = look_ahead(s);
    s->n = s->ahead_n;
    s->settled = s->turns = 0;
    s->walking = s->closed = s->merged = 0;
    memcpy(s->targets, s->ahead, s->n * sizeof *s->ahead);
    s->ahead_n = 0;
    return st;
}

static enum status open_one(struct scan *s, const struct target *t, struct walk *w)
{
    w->view.pid = t->pid;
    enum status st = stamp_begin(&s->vm, &s->q->plan, t->slot, t->proc, &w->view);
    /* torn at the opening: the slot was just emptied or filled, so it holds no process that was
     * alive all the time */
    if (st == ST_TORN || (t->pid != 0 && w->view.pid != t->pid))
        return ST_GONE;
    if (st == ST_OK || st == ST_BUSY)
        return scan_excludes(s, w->view.pid) ? ST_GONE : st;
    return st;
}

/* ---- a batch: all are open, those in `walking` take turns --------------------------------------- */

static void open_process(struct scan *s, unsigned p)
{
    unsigned at = p * s->qn;
    s->outcome[p] = open_one(s, &s->targets[p], &s->walks[at]);
    if (s->outcome[p] != ST_OK)
        return;
    for (unsigned k = 0; k < s->qn; k++) {
        struct walk *w = &s->walks[at + k];
        if (s->q[k].from != k)
            continue;
        walk_start(w, &s->vm, &s->q[k], &s->walks[at]);
        if (w->q->at_once) {
            (void)walk_go(w, &s->vm, NULL);
        } else {
            walk_prefetch(w, s->vm.reader);
            s->walking |= 1U << (at + k);
        }
    }
}

/* All questions to a process have an answer, or it has none. */
static enum status worse(enum status a, enum status b)
{
    return a == ST_OK || b == ST_NOMEM ? b : a;
}

static void stop_walking(struct scan *s, unsigned i, enum status st)
{
    unsigned p = s->process[i];
    if (s->mode == SCAN_ACCOUNT) /* only when the stamp is compared it is known whether it counts */
        s->kept |= 1U << p;
    else
        walk_end(&s->walks[i]);
    s->outcome[p] = worse(s->outcome[p], st);
    s->walking &= ~(1U << i);
}

/* Without an answer to one question the others need not be answered. */
static void stop_all(struct scan *s, unsigned p, enum status st)
{
    s->outcome[p] = worse(s->outcome[p], st);
    for (uint32_t left = st == ST_OK ? 0 : s->walking & walks_of(s, p); left != 0; left &= left - 1)
        stop_walking(s, ctz(left), st);
}

/* One barrier for all that are open. */
static void confirm_batch(struct scan *s)
{
    peek_barrier();
    for (unsigned p = 0; p < s->n; p++) {
        const struct reading rd = {&s->vm, &s->q->plan, &first_walk(s, p)->view, NULL};
        if (s->outcome[p] == ST_OK && !s->q->one_word)
            stop_all(s, p, stamp_confirm(&rd));
    }
}

void batch_open(struct scan *s)
{
    for (unsigned p = 0; p < s->n; p++)
        stamp_expect_open(&s->vm, &s->q->plan, s->targets[p].proc);
    for (unsigned p = 0; p < s->n; p++) {
        (void)look_ahead(s);
        open_process(s, p);
    }
    if (PEEK_REORDERED && s->walking != 0)
        confirm_batch(s);
}

static unsigned walk_one(struct scan *s, unsigned i, unsigned steps)
{
    struct budget b = {steps, (s->walking & (s->walking - 1)) != 0, 0};
    enum status st = walk_go(&s->walks[i], &s->vm, &b);
    if (st == ST_OK)
        stop_walking(s, i, st);
    else if (st != ST_TIMESLICE)
        stop_all(s, s->process[i], st);
    return steps - b.steps + b.beyond;
}

/* A turn ends where memory must be waited for. The first ones are short, because the first steps
 * always wait. A walk of many steps has a long chain, of which the processor fetches the rest itself, as long
 * as it sees few chains in turn: with turns of 64 steps, twenty of them took twice as long. */
static unsigned turn_length(const struct scan *s)
{
    enum { SHORT_TURNS = 4, DOUBLED = 8 };
    static_assert(2U << DOUBLED == BUDGET_STEPS, "the longest turn is that of a walk on its own");
    if ((s->walking & (s->walking - 1)) == 0)
        return BUDGET_STEPS;
    if (s->turns < SHORT_TURNS)
        return 1;
    return 2U << (s->turns - SHORT_TURNS < DOUBLED ? s->turns - SHORT_TURNS : DOUBLED);
}

void batch_walk(struct scan *s)
{
    unsigned used = 0;
    while (s->walking != 0 && used < BUDGET_STEPS) {
        unsigned steps = turn_length(s);
        for (uint32_t left = s->walking; left != 0 && used < BUDGET_STEPS;
             left &= (left - 1) & s->walking)
            used += 1 + walk_one(s, ctz(left), steps);
        s->turns++;
    }
}

static enum status finish_walks(struct scan *s, unsigned p)
{
    enum status st = s->outcome[p];
    for (unsigned k = 0; k < s->qn && st == ST_OK; k++) {
        if (s->q[k].from == k)
            st = walk_finish(&s->walks[(size_t)p * s->qn + k], &s->vm);
    }
    return st;
}

/* One barrier for all that are done. */
static void close_batch(struct scan *s)
{
    uint32_t open = 0;
    for (unsigned p = s->settled; p < s->n; p++) {
        if ((s->walking & walks_of(s, p)) != 0 || (s->closed & 1U << p))
            continue;
        stamp_hold(&first_walk(s, p)->view, STAMP_WALKED);
        s->outcome[p] = finish_walks(s, p);
        s->closed |= 1U << p;
        open |= (uint32_t)(s->outcome[p] == ST_OK) << p;
    }
    peek_barrier();
    for (uint32_t left = s->q->one_word ? 0 : open; left != 0; left &= left - 1)
        stamp_expect_close(&s->vm, &s->q->plan, first_walk(s, ctz(left))->view.proc);
    for (uint32_t left = open; left != 0; left &= left - 1)
        s->outcome[ctz(left)] = walk_close(first_walk(s, ctz(left)), &s->vm);
}

/* In the order of the table, because a sample is in that order. */
static enum status settle_batch(struct scan *s)
{
    enum status st = ST_OK;
    while (s->settled < s->n && (s->closed & 1U << s->settled)) {
        if (s->mode == SCAN_ACCOUNT)
            st = settle_account(s, s->settled);
        if (st == ST_OK)
            st = settle_one(s, s->settled++);
        if (st != ST_OK)
            return st;
    }
    return ST_OK;
}

enum status batch_pause(struct scan *s)
{
    close_batch(s);
    return settle_batch(s);
}

void batch_resume(struct scan *s)
{
    for (unsigned p = s->settled; p < s->n; p++) {
        if ((s->walking & walks_of(s, p)) == 0)
            continue;
        stop_all(s, p, walk_close(first_walk(s, p), &s->vm));
    }
}
