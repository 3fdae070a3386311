/* scan.c: the same questions to every process, in slices.
 * Knows: the order of the phases, retries, and which processes must be asked.
 * Does not know: Erlang terms, schedulers, how one process is read, or what becomes of its answer.
 *
 * A batch of processes at a time (batch.h). A process that was busy or torn is tried again after the sweep, a few
 * times; the caller asks the remaining ones by process_info. */
#include "scan/scan.h"

#include "scan/answers.h"
#include "scan/batch.h"
#include "util/clock.h"

#include <assert.h>
#include <time.h>

enum { ROUND_PAUSE_NS = 20000 };
/* Entries of the process table that scan_waiting looks at, in far less than 1 ms. */
enum { WAITING_SLOTS = BOUND(4096, 8) };

/* ---- which processes ----------------------------------------------------------------------- */

bool scan_only(struct scan *s, uint64_t pid)
{
    /* as if the sweep had met them, and found them busy */
    s->phase = RETRY;
    if (s->retry_n == SCAN_RETRIES)
        return false;
    s->retry[s->retry_n++] = pid;
    return true;
}

/* Different for pids that were given one after the other, on each release. */
static uint64_t bit_of(uint64_t pid)
{
    return 1ULL << ((pid >> 4 ^ pid >> 32) & 63);
}

bool scan_exclude(struct scan *s, uint64_t pid)
{
    if (s->exclude_n == SCAN_EXCLUDE)
        return false;
    s->exclude_bits |= bit_of(pid);
    s->exclude[s->exclude_n++] = pid;
    return true;
}

void scan_part(struct scan *s, unsigned i, unsigned n)
{
    assert(s->phase == SWEEP);
    stripes_part(&s->table, i, n);
}

bool scan_excludes(const struct scan *s, uint64_t pid)
{
    if (!(s->exclude_bits & bit_of(pid)))
        return false;
    for (unsigned i = 0; i < s->exclude_n; i++) {
        if (s->exclude[i] == pid)
            return true;
    }
    return false;
}

/* ---- phases -------------------------------------------------------------------------------- */

static void start_round(struct scan *s)
{
    struct timespec pause = {0, ROUND_PAUSE_NS};
    if (s->round > 0 && s->patience_ns == 0)
        (void)nanosleep(&pause, NULL);
    s->round++;
    s->next = 0;
    s->kept_n = 0;
}

static void next_phase(struct scan *s)
{
    if (s->phase == RETRY)
        s->retry_n = s->kept_n;
    if (s->phase <= RETRY && s->retry_n > 0) {
        s->phase = RETRY;
        start_round(s);
    } else {
        s->phase = s->phase < ASK ? ASK : s->phase + 1;
        s->next = 0;
    }
}

static enum scan_result result(enum status st)
{
    switch (st) {
    case ST_OK:
    case ST_TIMESLICE:
        return SCAN_MORE;
    case ST_ASK:
    case ST_TOO_LARGE:
        return SCAN_FULL;
    default:
        return SCAN_NOMEM;
    }
}

static enum scan_result step_batch(struct scan *s)
{
    if (s->settled == s->n) {
        enum status st = batch_fetch(s);
        if (st == ST_TORN)
            return SCAN_LOST;
        if (s->n == 0 && st == ST_GONE)
            next_phase(s);
        if (s->n == 0)
            return SCAN_MORE;
        batch_open(s);
    }
    batch_walk(s);
    return s->walking != 0 ? SCAN_MORE : result(batch_pause(s));
}

static bool sort(struct scan *s, struct budget *b)
{
    while (s->sorted < s->qn && top_n_sort(&s->top[s->sorted], b))
        s->sorted++;
    return s->sorted == s->qn;
}

static bool must_be_taken(const struct scan *s)
{
    unsigned room = s->most * (1 + s->qn);
    return s->out_n > 0 && (s->phase >= ASK || s->out_n + room > SCAN_OUT);
}

static enum scan_result step_phase(struct scan *s)
{
    struct budget b = BUDGET(BUDGET_STEPS);
    enum status st;
    if (s->ask_n > 0 && (s->phase == ASK || s->ask_n + SCAN_BATCH > SCAN_ASKS))
        return SCAN_ASK;
    if (must_be_taken(s))
        return SCAN_ROWS;
    switch (s->phase) {
    case SWEEP:
    case RETRY:
        return step_batch(s);
    case ASK:
        next_phase(s);
        return SCAN_MORE;
    case LEFTOVERS:
        st = answers_of_the_dead(s);
        if (st != ST_OK)
            return st == ST_TIMESLICE ? SCAN_MORE : result(st);
        next_phase(s);
        return SCAN_MORE;
    case SORT:
        /* after a first pass of bin_leak the rows go on being a heap */
        if (s->mode != SCAN_HOLDERS && s->mode != SCAN_ALL && !sort(s, &b))
            return SCAN_MORE;
        next_phase(s);
        return SCAN_DONE;
    default:
        return SCAN_DONE;
    }
}

static bool reader_works(const struct scan *s)
{
    uint64_t word;
    peek_barrier(); /* a page that was kept says nothing of now */
    return peek_word(s->vm.reader, s->vm.tab.tab, &word);
}

static enum scan_result slice(struct scan *s, enum peek_reader reader, uint64_t ns, bool may_pause)
{
    uint64_t end = clock_ns() + ns;
    enum scan_result r;
    s->vm.reader = reader;
    s->may_pause = may_pause;
    batch_resume(s);
    do {
        r = step_phase(s);
    } while (r == SCAN_MORE && (may_pause || s->phase != RETRY) && clock_ns() < end);
    if (r == SCAN_MORE || r == SCAN_ASK || r == SCAN_ROWS) {
        enum status st = batch_pause(s);
        r = st == ST_OK || st == ST_TIMESLICE ? r : result(st);
    }
    /* To a reader that was refused meanwhile, each process looked as if it had exited. */
    return reader_works(s) ? r : SCAN_LOST;
}

enum scan_result scan_step(struct scan *s, enum peek_reader reader, uint64_t ns)
{
    return slice(s, reader, ns, true);
}

enum scan_result scan_begin(struct scan *s, enum peek_reader reader, uint64_t ns)
{
    size_t next = s->mode == SCAN_AFTER ? s->next : s->table.next;
    bool begun = s->phase != SWEEP || next > 0 || s->ahead_n > 0;
    bool light = reader == PEEK_GUARDED && !begun && s->table.skip == 0;
    for (unsigned k = 0; k < s->qn; k++)
        light = light && s->q[k].attr < ATTR_garbage_bytes;
    return light ? slice(s, reader, ns, false) : SCAN_MORE;
}

enum status scan_answer(struct scan *s, uint64_t pid, bool dead, const int64_t *values)
{
    s->counters.asked++;
    if (dead || s->mode == SCAN_EACH || s->mode >= SCAN_ACCOUNT || scan_excludes(s, pid))
        return ST_OK;
    return answers_add(s, pid, values, false, true);
}

void scan_asked(struct scan *s)
{
    s->ask_n = 0;
}

void scan_taken(struct scan *s)
{
    s->out_n = 0;
}

static bool is_in_batch(const struct scan *s, uint64_t pid)
{
    for (unsigned i = s->settled; i < s->n; i++) {
        if (first_walk(s, i)->view.pid == pid)
            return true;
    }
    return false;
}

static unsigned waiting_in_table(const struct scan *s, uint64_t *pids, unsigned n, unsigned max)
{
    struct stripes rest = s->table;
    size_t most = WAITING_SLOTS;
    while (n < max && most > 0) {
        size_t slot;
        uint64_t proc;
        uint64_t pid;
        enum status st = stripes_next(&rest, &s->vm, &most, &slot);
        if (st != ST_OK && st != ST_TIMESLICE)
            return n;
        if (st == ST_OK && peek_word(s->vm.reader, s->vm.tab.tab + slot * 8, &proc) && proc != 0 &&
            peek_word(s->vm.reader, (uintptr_t)proc + LF(s->vm.lay, id), &pid) &&
            proctab_may_hold(s->vm.lay, &s->vm.tab, slot, pid) && !scan_excludes(s, pid))
            pids[n++] = pid;
    }
    return n;
}

unsigned scan_waiting(struct scan *s, enum peek_reader reader, uint64_t *pids, unsigned max)
{
    unsigned n = 0;
    if (s->phase > RETRY)
        return 0;
    s->vm.reader = reader;
    for (unsigned i = s->settled; i < s->n && n < max; i++) {
        if (s->outcome[i] != ST_GONE)
            pids[n++] = first_walk(s, i)->view.pid;
    }
    for (unsigned i = 0; i < s->retry_n && n < max; i++) {
        /* of those that were looked at in this round the first ones of the list are left */
        bool looked_at = s->phase == RETRY && i >= s->kept_n && i < s->next;
        if (!looked_at && !is_in_batch(s, s->retry[i]))
            pids[n++] = s->retry[i];
    }
    return s->phase == SWEEP && s->mode != SCAN_AFTER ? waiting_in_table(s, pids, n, max) : n;
}

bool scan_is_finished(const struct scan *s)
{
    return s->phase == FINISHED;
}

bool scan_is_new(const struct scan *s)
{
    return s->phase == SWEEP && s->mode != SCAN_AFTER && s->table.next == 0 && s->ahead_n == 0;
}

bool scan_after(struct scan *s)
{
    if (!scan_is_finished(s) || (s->mode != SCAN_HOLDERS && s->mode != SCAN_ALL))
        return false;
    s->mode = SCAN_AFTER;
    s->phase = SWEEP;
    s->next = 0;
    s->round = 0;
    s->retry_n = s->kept_n = s->ask_n = 0;
    s->sample->hint = 0;
    return true;
}
