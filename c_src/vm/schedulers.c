#include "vm/schedulers.h"

#include "vm/executable.h"
#include "vm/stamp.h"

/* What follows the pointer to the process, in words; the same from OTP 25 to 29. */
enum {
    AT_CURRENT,
    AT_KIND, /* 32 bits */
    AT_NO,
    AT_DIRTY_NO,
    AT_ENV = 5,
    AT_SHADOW,
    AT_PORT,
    AT_QUEUE,
    AT_WORDS
};

/* Words of a scheduler, and of a run queue, that are searched. */
enum { OWN_WORDS = 64, OWN_QUEUE_WORDS = 64, LINE = 64 };
enum { STRIDE_MAX = 1 << 20, LOWEST = 1 << 16 };

/* The state of the stand-in for a process in a dirty call; it never changes. */
enum { STATE_PROXY = 0x400000, STATE_SHADOW = STATE_ACTIVE | STATE_DIRTY_RUNNING | STATE_PROXY };

/* An address has 48 bits on aarch64, where the largest have their highest bit set; on x86-64 it has 47. */
static bool may_point(uint64_t word)
{
    return word % LINE == 0 && word >= LOWEST && word >> 48 == 0;
}

/* ---- one scheduler ------------------------------------------------------------------------------------ */

static bool is_shadow(enum peek_reader r, const struct layout *lay, uint64_t proc)
{
    uint64_t word;
    unsigned at = LF(lay, state);
    return may_point(proc) && peek_word(r, (uintptr_t)proc + (at & ~7U), &word) &&
           layout_narrow(word, at, layout_width(lay, LF_state)) == STATE_SHADOW;
}

/* Whether these are the words of that one, counted from 0; `first' is where the first of its kind is. */
static bool is_one(enum peek_reader r, const struct layout *lay, uint16_t back, const uint64_t *w,
                   enum scheduler_kind kind, unsigned i, uintptr_t at, uintptr_t first)
{
    bool dirty = kind != SCHEDULER_NORMAL;
    uint64_t owner;
    return (uint32_t)w[AT_KIND] == (uint32_t)kind && w[AT_NO] == (dirty ? 0 : i + 1) &&
           w[AT_DIRTY_NO] == (dirty ? i + 1 : 0) && may_point(w[AT_QUEUE]) &&
           (dirty ? w[AT_PORT] == 0 && is_shadow(r, lay, w[AT_SHADOW]) : w[AT_SHADOW] == 0) &&
           peek_word(r, (uintptr_t)w[AT_QUEUE] + back, &owner) && owner == (dirty ? first : at);
}

static bool read_one(enum peek_reader r, const struct layout *lay,
                     const struct scheduler_form *form, enum scheduler_kind kind, unsigned i,
                     uint64_t w[AT_WORDS])
{
    uintptr_t first = form->first[kind];
    uintptr_t at = first + (uintptr_t)i * form->stride;
    return peek_block(r, at + form->current, AT_WORDS, w) &&
           is_one(r, lay, form->back, w, kind, i, at, first);
}

bool scheduler_read(enum peek_reader r, const struct layout *lay, const struct scheduler_form *form,
                    enum scheduler_kind kind, unsigned i, struct scheduler *out)
{
    uint64_t w[AT_WORDS];
    if (!form->is_known || i >= SCHEDULERS_MAX || !read_one(r, lay, form, kind, i, w))
        return false;
    *out = (struct scheduler){.process = w[AT_CURRENT],
                              .port = w[AT_CURRENT] == 0 ? w[AT_PORT] : 0,
                              .queue = w[AT_QUEUE]};
    return true;
}

/* Between two turns it writes the time and its reductions into its own structure. Where is not known, so all words
 * count. */
bool scheduler_turn(enum peek_reader r, const struct scheduler_form *form, enum scheduler_kind kind,
                    unsigned i, uint64_t *turn)
{
    enum { BLOCK = 512 };
    uint64_t w[BLOCK];
    uintptr_t at = form->first[kind] + (uintptr_t)i * form->stride;
    uint64_t h = 0;
    for (size_t done = 0; done < form->stride / 8; done += BLOCK) {
        size_t n = form->stride / 8 - done < BLOCK ? form->stride / 8 - done : BLOCK;
        if (!peek_block(r, at + done * 8, n, w))
            return false;
        for (size_t k = 0; k < n; k++)
            h = (h ^ w[k] ^ h >> 29) * 0x9E3779B97F4A7C15ULL;
    }
    *turn = h >> 16;
    return true;
}

static bool is_in_table(enum peek_reader r, const struct layout *lay, const struct proctab *tab,
                        uintptr_t proc, uint64_t pid)
{
    uint64_t there;
    return peek_word(r, tab->tab + proctab_slot(lay, tab, pid) * 8, &there) && there == proc;
}

/* A new process may be where one was that ended meanwhile, so the pid is read again. */
enum status scheduler_confirm(enum peek_reader r, const struct layout *lay,
                              const struct proctab *tab, const struct scheduler_form *form,
                              enum scheduler_kind kind, unsigned i, uintptr_t proc, uint64_t pid,
                              uint64_t state)
{
    uint64_t again;
    struct scheduler s;
    bool same = peek_word(r, proc + LF(lay, id), &again) && again == pid;
    bool there = (state & STATE_EXITING) != 0 || is_in_table(r, lay, tab, proc, pid);
    peek_barrier();
    if (!scheduler_read(r, lay, form, kind, i, &s) || s.process != proc)
        return ST_BUSY;
    return same && there && proctab_may_hold(lay, tab, proctab_slot(lay, tab, pid), pid) ? ST_OK
                                                                                         : ST_TORN;
}

/* ---- how many ----------------------------------------------------------------------------------------- */

/* The run queues are in one array: one for each normal scheduler, then those of the two dirty kinds. */
static uint64_t count_normal(enum peek_reader r, const struct layout *lay,
                             const struct scheduler_form *form)
{
    struct scheduler s[SCHEDULER_KINDS];
    for (unsigned kind = 0; kind < SCHEDULER_KINDS; kind++) {
        if (!scheduler_read(r, lay, form, (enum scheduler_kind)kind, 0, &s[kind]))
            return 0;
    }
    uint64_t size = s[SCHEDULER_DIRTY_IO].queue - s[SCHEDULER_DIRTY_CPU].queue;
    return size == 0 ? 0 : (s[SCHEDULER_DIRTY_CPU].queue - s[SCHEDULER_NORMAL].queue) / size;
}

/* The dirty schedulers are in one array, too. */
static uint64_t count_dirty_cpu(const struct scheduler_form *form)
{
    return form->is_known
               ? (form->first[SCHEDULER_DIRTY_IO] - form->first[SCHEDULER_DIRTY_CPU]) / form->stride
               : 0;
}

unsigned schedulers_count(enum peek_reader r, const struct layout *lay,
                          const struct scheduler_form *form, enum scheduler_kind kind)
{
    uint64_t n = kind == SCHEDULER_NORMAL      ? count_normal(r, lay, form)
                 : kind == SCHEDULER_DIRTY_CPU ? count_dirty_cpu(form)
                                               : SCHEDULERS_MAX;
    return n > SCHEDULERS_MAX ? 0 : (unsigned)n;
}

/* ---- learning ----------------------------------------------------------------------------------------- */

/* The offset of the only pointer to `at' in that run queue; 0: none, or several. */
static uint16_t find_back(enum peek_reader r, uint64_t queue, uintptr_t at)
{
    uint64_t w[OWN_QUEUE_WORDS];
    unsigned hits = 0;
    unsigned found = 0;
    if (!may_point(queue) || !peek_block(r, (uintptr_t)queue, OWN_QUEUE_WORDS, w))
        return 0;
    for (unsigned i = 1; i < OWN_QUEUE_WORDS; i++) {
        if (w[i] == at) {
            found = i;
            hits++;
        }
    }
    return hits == 1 ? (uint16_t)(8 * found) : 0;
}

static bool is_own(const uint64_t *w, uintptr_t proc, uintptr_t env, unsigned no)
{
    return w[AT_CURRENT] == proc && (uint32_t)w[AT_KIND] == SCHEDULER_NORMAL && w[AT_NO] == no &&
           w[AT_DIRTY_NO] == 0 && w[AT_ENV] == env && w[AT_SHADOW] == 0 && w[AT_PORT] == 0;
}

/* How many places in what is at that address are right. */
static unsigned find_in(enum peek_reader r, uintptr_t at, uintptr_t proc, uintptr_t env,
                        unsigned no, struct own_scheduler *out)
{
    uint64_t w[OWN_WORDS];
    unsigned hits = 0;
    if (!may_point(at) || !peek_block(r, at, OWN_WORDS, w))
        return 0;
    for (unsigned i = 0; i + AT_WORDS <= OWN_WORDS; i++) {
        if (!is_own(w + i, proc, env, no))
            continue;
        uint16_t back = find_back(r, w[i + AT_QUEUE], at);
        *out = (struct own_scheduler){at, no, (uint16_t)(8 * i), back};
        hits += back != 0;
    }
    return hits;
}

bool scheduler_find_own(enum peek_reader r, const struct layout *lay, uintptr_t proc, uintptr_t env,
                        unsigned no, struct own_scheduler *out)
{
    unsigned hits = 0;
    struct own_scheduler found = {.at = 0};
    for (unsigned offset = 0; no > 0 && offset + 8U <= LF(lay, proc_size); offset += 8) {
        uint64_t at;
        if (peek_word(r, proc + offset, &at))
            hits += find_in(r, (uintptr_t)at, proc, env, no, &found);
    }
    *out = found;
    return hits == 1;
}

/* The kind of which what is at that address is the first one; SCHEDULER_KINDS: none. */
static enum scheduler_kind first_of(enum peek_reader r, const struct layout *lay,
                                    const struct scheduler_form *form, uint64_t at)
{
    uint64_t w[AT_WORDS];
    unsigned kind = SCHEDULER_NORMAL;
    if (!may_point(at) || !peek_block(r, (uintptr_t)at + form->current, AT_WORDS, w))
        return SCHEDULER_KINDS;
    while (kind < SCHEDULER_KINDS && !is_one(r, lay, form->back, w, (enum scheduler_kind)kind, 0,
                                             (uintptr_t)at, (uintptr_t)at))
        kind++;
    return (enum scheduler_kind)kind;
}

struct search {
    enum peek_reader r;
    const struct layout *lay;
    struct scheduler_form *form;
};

static void try_variable(void *arg, uintptr_t at, const uint64_t *word)
{
    struct search *s = arg;
    enum scheduler_kind kind = first_of(s->r, s->lay, s->form, *word);
    if (kind == SCHEDULER_KINDS)
        return;
    struct scheduler_variables *v = &s->form->variables[kind];
    if (v->n < SCHEDULER_VARIABLES)
        v->at[v->n] = at;
    v->n++;
    s->form->first[kind] = (uintptr_t)*word;
}

static bool learn_stride(const struct own_scheduler *own, const unsigned counts[SCHEDULER_KINDS],
                         struct scheduler_form *form)
{
    uintptr_t dirty = form->first[SCHEDULER_DIRTY_IO] - form->first[SCHEDULER_DIRTY_CPU];
    uintptr_t stride = dirty / counts[SCHEDULER_DIRTY_CPU];
    form->stride = (uint32_t)stride;
    return dirty % counts[SCHEDULER_DIRTY_CPU] == 0 && stride > 0 && stride % LINE == 0 &&
           stride <= STRIDE_MAX &&
           own->at == form->first[SCHEDULER_NORMAL] + (own->no - 1) * stride;
}

/* And no more than that. */
static bool all_are_there(enum peek_reader r, const struct layout *lay,
                          const struct scheduler_form *form, const unsigned counts[SCHEDULER_KINDS])
{
    struct scheduler s;
    for (unsigned i = 0; i < SCHEDULER_KINDS; i++) {
        enum scheduler_kind kind = (enum scheduler_kind)i;
        unsigned n = 0;
        while (n < counts[i] && scheduler_read(r, lay, form, kind, n, &s))
            n++;
        if (n < counts[i] ||
            (kind == SCHEDULER_DIRTY_IO ? scheduler_read(r, lay, form, kind, n, &s)
                                        : schedulers_count(r, lay, form, kind) != n))
            return false;
    }
    return true;
}

bool schedulers_learn(enum peek_reader r, const struct layout *lay, const struct own_scheduler *own,
                      const unsigned counts[SCHEDULER_KINDS], struct scheduler_form *out)
{
    struct scheduler_form form = {.current = own->current, .back = own->back};
    struct search s = {r, lay, &form};
    *out = (struct scheduler_form){.is_known = false};
    for (unsigned kind = 0; kind < SCHEDULER_KINDS; kind++) {
        if (counts[kind] == 0 || counts[kind] > SCHEDULERS_MAX)
            return false;
    }
    executable_search(r, 1, try_variable, &s);
    for (unsigned kind = 0; kind < SCHEDULER_KINDS; kind++) {
        if (form.variables[kind].n == 0 || form.variables[kind].n > SCHEDULER_VARIABLES)
            return false;
    }
    form.is_known = learn_stride(own, counts, &form);
    if (!form.is_known || !all_are_there(r, lay, &form, counts))
        return false;
    *out = form;
    return true;
}

bool schedulers_move(enum peek_reader r, const struct layout *lay, uintptr_t shift,
                     struct scheduler_form *form)
{
    uint64_t at;
    bool found[SCHEDULER_KINDS] = {false};
    for (unsigned kind = 0; kind < SCHEDULER_KINDS; kind++) {
        struct scheduler_variables *v = &form->variables[kind];
        for (unsigned i = 0; i < v->n; i++) {
            v->at[i] += shift;
            if (peek_word(r, v->at[i], &at) && first_of(r, lay, form, at) == kind) {
                form->first[kind] = (uintptr_t)at;
                found[kind] = true;
            }
        }
    }
    form->is_known = form->is_known && found[SCHEDULER_NORMAL] && found[SCHEDULER_DIRTY_CPU] &&
                     found[SCHEDULER_DIRTY_IO];
    return form->is_known;
}

/* ---- the length of a run queue --------------------------------------------------------------------------- */

bool queue_guess(enum peek_reader r, const struct scheduler *s, uint32_t length,
                 struct queue_guess *g)
{
    uint64_t w[QUEUE_WORDS / 2];
    if (!peek_block(r, (uintptr_t)s->queue, QUEUE_WORDS / 2, w))
        return false;
    for (unsigned i = 0; i < QUEUE_WORDS; i++)
        g->fits[i] = (uint32_t)(w[i / 2] >> (i % 2 * 32)) == length;
    return true;
}

uint16_t queue_guess_narrow(struct queue_guess *g)
{
    unsigned hits = 0;
    unsigned at = 0;
    for (unsigned i = 0; i < QUEUE_WORDS; i++) {
        g->out[i] = g->out[i] || (g->is_new && !g->fits[i]);
        if (!g->out[i]) {
            at = i;
            hits++;
        }
    }
    g->is_new = false;
    return hits == 1 ? (uint16_t)(4 * at) : 0;
}
