/* test_schedulers.c: the schedulers of a VM: found from one that is known, counted, and read; and nothing is found
 * where a single word is wrong.
 * Knows: how the VM keeps schedulers and run queues. Does not know: what an answer looks like in Erlang. */
#include "test/test_peek.h"
#include "vm/schedulers.h"
#include "vm/stamp.h"

enum {
    NORMAL = 3,
    CPU = 2,
    IO = 4,
    ALL = NORMAL + CPU + IO,
    STRIDE = 640,
    WORDS = STRIDE / 8,
    QUEUE_BYTES = 448,
    PROC_WORDS = 128,
    CURRENT = 168,
    BACK = 144,
    LENGTH = 208,
    OWN = 1, /* the second normal one runs the caller */
    SHADOW = 0x20402000
};

/* Where each kind begins; the last two are in one array, and so are all run queues. */
struct world {
    uint64_t env; /* so that no scheduler is where all this begins */
    _Alignas(64) uint64_t normal[NORMAL + 1][WORDS];
    _Alignas(64) uint64_t dirty[CPU + IO + 1][WORDS];
    _Alignas(64) uint64_t queue[NORMAL + 2][QUEUE_BYTES / 8];
    _Alignas(64) uint64_t shadow[CPU + IO][PROC_WORDS];
    _Alignas(64) uint64_t own[PROC_WORDS];
};

static struct world *made; /* not in the data of this program */
/* The VM's variables, in the data of this program. */
static uint64_t *volatile first_normal, *volatile first_cpu, *volatile first_io, *volatile another;

static const unsigned counts[SCHEDULER_KINDS] = {NORMAL, CPU, IO};

static void put_one(uint64_t *s, unsigned kind, unsigned i, uint64_t *queue, uint64_t *shadow)
{
    uint64_t *at = s + CURRENT / 8;
    at[0] = 0;
    at[1] = kind;
    at[2] = kind == SCHEDULER_NORMAL ? i + 1 : 0;
    at[3] = kind == SCHEDULER_NORMAL ? 0 : i + 1;
    at[6] = (uintptr_t)shadow;
    at[8] = (uintptr_t)queue;
}

static void build(const struct layout *lay)
{
    memset(made, 0, sizeof *made);
    for (unsigned i = 0; i < NORMAL; i++) {
        put_one(made->normal[i], SCHEDULER_NORMAL, i, made->queue[i], NULL);
        made->queue[i][BACK / 8] = (uintptr_t)made->normal[i];
    }
    for (unsigned i = 0; i < CPU + IO; i++) {
        bool cpu = i < CPU;
        unsigned state = LF(lay, state);
        made->shadow[i][state / 8] = (uint64_t)SHADOW << (state % 8 * 8);
        put_one(made->dirty[i], cpu ? SCHEDULER_DIRTY_CPU : SCHEDULER_DIRTY_IO, cpu ? i : i - CPU,
                made->queue[NORMAL + !cpu], made->shadow[i]);
    }
    made->queue[NORMAL][BACK / 8] = (uintptr_t)made->dirty[0];
    made->queue[NORMAL + 1][BACK / 8] = (uintptr_t)made->dirty[CPU];
    made->own[90] = (uintptr_t)made->normal[OWN];
    made->normal[OWN][CURRENT / 8] = (uintptr_t)made->own;
    made->normal[OWN][CURRENT / 8 + 5] = (uintptr_t)&made->env;
    first_normal = made->normal[0];
    first_cpu = made->dirty[0];
    first_io = made->dirty[CPU];
    another = NULL;
}

static bool find_own(const struct layout *lay, struct own_scheduler *own)
{
    return scheduler_find_own(peek_ready(PEEK_SYSCALL), lay, (uintptr_t)made->own,
                              (uintptr_t)&made->env, OWN + 1, own);
}

static bool learned(const struct layout *lay, struct scheduler_form *form)
{
    struct own_scheduler own;
    *form = (struct scheduler_form){.is_known = false};
    return find_own(lay, &own) &&
           schedulers_learn(peek_ready(PEEK_SYSCALL), lay, &own, counts, form);
}

static void test_found(const struct layout *lay)
{
    enum peek_reader r = peek_ready(PEEK_SYSCALL);
    struct own_scheduler own;
    struct scheduler_form form;
    struct scheduler s;
    build(lay);
    EXPECT(find_own(lay, &own) && own.at == (uintptr_t)made->normal[OWN] &&
           own.current == CURRENT && own.back == BACK);
    EXPECT(learned(lay, &form) && form.is_known && form.stride == STRIDE);
    EXPECT(schedulers_count(r, lay, &form, SCHEDULER_NORMAL) == NORMAL);
    EXPECT(schedulers_count(r, lay, &form, SCHEDULER_DIRTY_CPU) == CPU);
    EXPECT(scheduler_read(r, lay, &form, SCHEDULER_NORMAL, OWN, &s) &&
           s.process == (uintptr_t)made->own && s.queue == (uintptr_t)made->queue[OWN]);
    EXPECT(scheduler_read(r, lay, &form, SCHEDULER_DIRTY_IO, IO - 1, &s) && s.process == 0 &&
           s.queue == (uintptr_t)made->queue[NORMAL + 1]);
    EXPECT(!scheduler_read(r, lay, &form, SCHEDULER_NORMAL, NORMAL, &s));
    EXPECT(!scheduler_read(r, lay, &form, SCHEDULER_DIRTY_CPU, CPU, &s));
    EXPECT(!scheduler_read(r, lay, &form, SCHEDULER_DIRTY_IO, IO, &s));
}

/* One that runs no process may run a port. */
static void test_port(const struct layout *lay)
{
    enum peek_reader r = peek_ready(PEEK_SYSCALL);
    struct scheduler_form form;
    struct scheduler s;
    uint64_t turn[3];
    build(lay);
    EXPECT(learned(lay, &form));
    made->normal[0][CURRENT / 8 + 7] = 0x4711000;
    EXPECT(scheduler_read(r, lay, &form, SCHEDULER_NORMAL, 0, &s) && s.process == 0 &&
           s.port == 0x4711000);
    EXPECT(scheduler_turn(r, &form, SCHEDULER_NORMAL, 0, &turn[0]) &&
           scheduler_turn(r, &form, SCHEDULER_NORMAL, 0, &turn[1]) && turn[0] == turn[1]);
    for (unsigned i = 0; i < WORDS; i++) {
        made->normal[0][i] += 1;
        EXPECT(scheduler_turn(r, &form, SCHEDULER_NORMAL, 0, &turn[2]) && turn[2] != turn[0]);
        made->normal[0][i] -= 1;
    }
    made->normal[0][CURRENT / 8] = (uintptr_t)made->own;
    EXPECT(scheduler_read(r, lay, &form, SCHEDULER_NORMAL, 0, &s) && s.port == 0);
}

/* Another variable may point to a scheduler now, and to none later. */
static void test_moved(const struct layout *lay)
{
    enum peek_reader r = peek_ready(PEEK_SYSCALL);
    struct scheduler_form form;
    build(lay);
    another = made->normal[0];
    EXPECT(learned(lay, &form) && form.variables[SCHEDULER_NORMAL].n == 2);
    another = NULL;
    form.first[SCHEDULER_NORMAL] = 0;
    EXPECT(schedulers_move(r, lay, 0, &form) &&
           form.first[SCHEDULER_NORMAL] == (uintptr_t)made->normal[0]);
    first_cpu = made->dirty[1];
    EXPECT(!schedulers_move(r, lay, 0, &form) && !form.is_known);
}

/* Each of these words is needed. */
static void test_wrong_words(const struct layout *lay)
{
    struct scheduler_form form;
    struct own_scheduler own;
    uint64_t *const wrong[] = {
        &made->normal[0][CURRENT / 8 + 1], &made->normal[2][CURRENT / 8 + 2],
        &made->normal[2][CURRENT / 8 + 3], &made->normal[2][CURRENT / 8 + 6],
        &made->dirty[1][CURRENT / 8 + 1],  &made->dirty[1][CURRENT / 8 + 2],
        &made->dirty[3][CURRENT / 8 + 3],  &made->dirty[3][CURRENT / 8 + 6],
        &made->dirty[0][CURRENT / 8 + 7],  &made->queue[0][BACK / 8],
        &made->queue[NORMAL][BACK / 8],    &made->queue[NORMAL + 1][BACK / 8]};
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        build(lay);
        *wrong[i] += 64;
        EXPECT(!learned(lay, &form) && !form.is_known);
    }
    uint64_t *const own_words[] = {&made->own[90],
                                   &made->normal[OWN][CURRENT / 8],
                                   &made->normal[OWN][CURRENT / 8 + 1],
                                   &made->normal[OWN][CURRENT / 8 + 2],
                                   &made->normal[OWN][CURRENT / 8 + 3],
                                   &made->normal[OWN][CURRENT / 8 + 5],
                                   &made->normal[OWN][CURRENT / 8 + 6],
                                   &made->normal[OWN][CURRENT / 8 + 7]};
    for (unsigned i = 0; i < sizeof own_words / sizeof *own_words; i++) {
        build(lay);
        *own_words[i] += 64;
        EXPECT(!find_own(lay, &own));
    }
    build(lay);
    made->own[1] = made->own[90]; /* two places */
    EXPECT(!find_own(lay, &own));
    build(lay);
    made->queue[OWN][1] = made->queue[OWN][BACK / 8];
    EXPECT(!find_own(lay, &own));
}

static void test_wrong_counts(const struct layout *lay)
{
    enum peek_reader r = peek_ready(PEEK_SYSCALL);
    struct scheduler_form form;
    struct own_scheduler own;
    build(lay);
    EXPECT(find_own(lay, &own));
    for (unsigned kind = 0; kind < SCHEDULER_KINDS; kind++) {
        for (int d = -1; d <= 1; d++) {
            unsigned other[] = {NORMAL, CPU, IO};
            other[kind] += (unsigned)d;
            EXPECT(schedulers_learn(r, lay, &own, other, &form) == (d == 0));
        }
    }
}

/* What was read is of one process, which still runs. */
static void test_confirmed(const struct layout *lay)
{
    enum { PID = 0x123, SLOTS = 64 };
    enum peek_reader r = peek_ready(PEEK_SYSCALL);
    struct scheduler_form form;
    static uint64_t slots[SLOTS];
    const struct proctab tab = {.tab = (uintptr_t)slots, .max = SLOTS};
    uintptr_t proc = (uintptr_t)made->own;
    size_t slot = proctab_slot(lay, &tab, PID);
    build(lay);
    memset(slots, 0, sizeof slots);
    slots[slot] = proc;
    made->own[LF(lay, id) / 8] = PID;
    EXPECT(learned(lay, &form));
#define CONFIRM(I, Pid, State)                                                                     \
    scheduler_confirm(r, lay, &tab, &form, SCHEDULER_NORMAL, (I), proc, (Pid), (State))
    EXPECT(CONFIRM(OWN, PID, STATE_RUNNING) == ST_OK);
    EXPECT(CONFIRM(OWN - 1, PID, STATE_RUNNING) == ST_BUSY);
    EXPECT(CONFIRM(OWN, PID + 16, STATE_RUNNING) == ST_TORN); /* another one was there */
    slots[slot] = proc + 64;
    EXPECT(CONFIRM(OWN, PID, STATE_RUNNING) == ST_TORN);
    EXPECT(CONFIRM(OWN, PID, STATE_RUNNING | STATE_EXITING) == ST_OK);
    made->own[LF(lay, id) / 8] = PID + 2; /* no pid */
    EXPECT(CONFIRM(OWN, PID + 2, STATE_RUNNING | STATE_EXITING) == ST_TORN);
#undef CONFIRM
}

static uint16_t guess(const struct scheduler *s, struct queue_guess *g, uint32_t length)
{
    EXPECT(queue_guess(peek_ready(PEEK_SYSCALL), s, length, g));
    g->is_new = true;
    return queue_guess_narrow(g);
}

static void test_queue(const struct layout *lay)
{
    struct scheduler_form form;
    struct scheduler s;
    struct queue_guess g = {.is_new = false};
    build(lay);
    uint32_t *words = (uint32_t *)made->queue[0];
    EXPECT(learned(lay, &form) &&
           scheduler_read(peek_ready(PEEK_SYSCALL), lay, &form, SCHEDULER_NORMAL, 0, &s));
    words[LENGTH / 4] = words[LENGTH / 4 - 1] = 7; /* and the largest length ever */
    EXPECT(guess(&s, &g, 7) == 0);
    EXPECT(queue_guess_narrow(&g) == 0);
    words[LENGTH / 4] = 3;
    EXPECT(queue_guess(peek_ready(PEEK_SYSCALL), &s, 4, &g) &&
           queue_guess_narrow(&g) == 0); /* not heard */
    EXPECT(guess(&s, &g, 3) == LENGTH);
    words[LENGTH / 4] = 5;
    EXPECT(guess(&s, &g, 6) == 0);
}

int main(void)
{
#if defined(__linux__)
    made = aligned_alloc(64, sizeof *made);
    must(made != NULL, "aligned_alloc");
    for (unsigned i = 0; i < layout_count(); i++) {
        running = layout_table(i)->name;
        test_found(layout_table(i));
        test_port(layout_table(i));
        test_moved(layout_table(i));
        test_wrong_words(layout_table(i));
        test_wrong_counts(layout_table(i));
        test_confirmed(layout_table(i));
        test_queue(layout_table(i));
    }
    free(made);
#endif
    return complaints > 0;
}
