/* test_memory_order.c: an exhaustive model of the read protocol where memory is weakly ordered, as on aarch64.
 *
 * A thread is a list of operations, and each may take effect as soon as those that it is ordered after have. Memory
 * is one for all (aarch64 is multi-copy atomic), so an execution is an order of these effects. The model tries all
 * of them, and in each it compares what the reader accepts with what was true. It must find no wrong answer with
 * all barriers, and at least one where a step of the protocol is left out, or where the order of x86 is not given.
 *
 * What it knows of the VM, in the order of erl_process.c, erl_process_lock.h and erl_message.c:
 *   - a release operation is a full barrier and a plain one (ethread has no better one for compare and exchange);
 *   - taking a lock orders what follows after the READ of the lock; that the lock is taken may be seen later;
 *   - words of the process and of its heap are plain stores.
 * doc/how-it-works.md, "Order, barrier by barrier", names the same steps. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- operations ------------------------------------------------------------------------------- */

/* TAKE is the read that takes the lock; the store that shows it comes later. */
enum kind { LOAD, STORE, COPY, TAKE, GIVE, FENCE, MEMBARRIER };

/* ENTRY + k: an object: END, or the number of the object that it leads to. */
enum place { STATE, LOCK, REDS, PC, FIRST, LENGTH, ENTRY, PLACES = ENTRY + 5 };

enum {
    END = 15,
    REGS = 11,
    OPS = 24,
    WRITERS = 2,
    THREADS = WRITERS + 1,
    READER = WRITERS,
    NONE = 31,
    ANY = 31
};

struct op {
    uint8_t kind;
    uint8_t place;
    uint8_t value; /* that a STORE writes; that a LOAD must find (ANY), or the reader gives up */
    uint8_t reg;   /* a LOAD writes it, a COPY stores it; NONE */
    uint8_t via;   /* a LOAD from ENTRY + this register; NONE: from place */
    bool acquire;
};

struct thread {
    struct op op[OPS];
    uint32_t after[OPS]; /* the operations that each one is ordered after */
    unsigned n;
};

/* What is left out of the protocol, or given by the processor. */
enum change {
    SOUND = 0,
    NO_OPENING_BARRIER = 1,
    NO_CLOSING_BARRIER = 2,
    NO_SECOND_LOOK = 4,
    FIELDS_FIRST = 8, /* the closing reads state and lock after the fields */
    PLAIN_LOADS = 16,
    NO_LOCK = 32,
    NO_STATE = 64,
    NO_COUNTS =
        128, /* only the heap's own words are compared, not reductions and program counter */
    NO_FIRST_LOOK = 256,
    STRONG = 512, /* total store order, as on x86-64: no barriers */
};

static unsigned changes;

static bool with(unsigned change)
{
    return (changes & change) != 0;
}

static struct op *add(struct thread *t, enum kind kind, unsigned place, unsigned value)
{
    struct op *op = &t->op[t->n++];
    if (t->n > OPS)
        abort();
    *op = (struct op){(uint8_t)kind, (uint8_t)place, (uint8_t)value, NONE, NONE, false};
    return op;
}

static bool is_fence(const struct op *op)
{
    return op->kind == FENCE || op->kind == MEMBARRIER;
}

/* Whether b, later in its thread, is ordered after a. */
static bool ordered(const struct op *a, const struct op *b)
{
    bool loads = a->kind == LOAD && b->kind == LOAD;
    bool stores = a->kind != LOAD && b->kind != LOAD;
    if (is_fence(a) || is_fence(b) || a->kind == TAKE || (a->kind == LOAD && a->acquire))
        return true;
    if (with(STRONG) && (loads || stores || a->kind == LOAD || b->kind == TAKE))
        return true;
    if (a->kind == LOAD && a->reg != NONE &&
        (b->via == a->reg || (b->kind == COPY && b->reg == a->reg)))
        return true;
    return a->via == NONE && b->via == NONE && a->place == b->place;
}

static void order(struct thread *t)
{
    for (unsigned i = 0; i < t->n; i++) {
        t->after[i] = 0;
        for (unsigned j = 0; j < i; j++)
            t->after[i] |= ordered(&t->op[j], &t->op[i]) ? 1U << j : 0;
    }
}

/* ---- the VM ----------------------------------------------------------------------------------- */

static void store(struct thread *t, unsigned place, unsigned value)
{
    add(t, STORE, place, value);
}

static void fence(struct thread *t)
{
    add(t, FENCE, 0, 0);
}

static void lock(struct thread *t)
{
    add(t, TAKE, LOCK, 0);
    store(t, LOCK, 1);
}

static void unlock(struct thread *t)
{
    fence(t);
    add(t, GIVE, LOCK, 0);
}

static void schedule_in(struct thread *t)
{
    fence(t);
    store(t, STATE, 1);
    lock(t);
}

static void schedule_out(struct thread *t)
{
    fence(t);
    store(t, STATE, 0);
    fence(t);
    unlock(t);
}

static void ran(struct thread *t)
{
    store(t, PC, 1);
    store(t, REDS, 1);
}

/* A run that moves the one object that is left, to entry 3; the memory of entry 1 gets other content. */
static void collects(struct thread *t)
{
    schedule_in(t);
    store(t, ENTRY + 3, END);
    store(t, ENTRY + 1, 3);
    store(t, FIRST, 3);
    ran(t);
    schedule_out(t);
}

/* A run that changes an object, and none of the heap's own pointers. */
static void runs(struct thread *t)
{
    schedule_in(t);
    store(t, ENTRY + 1, 3);
    store(t, ENTRY + 3, END);
    ran(t);
    schedule_out(t);
}

/* A native call on a dirty scheduler works without the main lock. */
static void runs_dirty(struct thread *t)
{
    schedule_in(t);
    unlock(t);
    store(t, FIRST, 3);
    ran(t);
    store(t, ENTRY + 1, 3);
    store(t, ENTRY + 3, END);
    lock(t);
    schedule_out(t);
}

/* A sender copies a binary to the heap of a process that does not run: its object, then the head of the list. */
static void sends_binary(struct thread *t)
{
    lock(t);
    add(t, LOAD, FIRST, ANY)->reg = 0;
    add(t, COPY, ENTRY + 2, 0)->reg = 0;
    store(t, FIRST, 2);
    unlock(t);
}

/* The same of what is found by the end of the heap: that moves first. */
static void sends_words(struct thread *t)
{
    lock(t);
    add(t, LOAD, FIRST, ANY)->reg = 0;
    store(t, FIRST, 2);
    add(t, COPY, ENTRY + 2, 0)->reg = 0;
    unlock(t);
}

/* A sender links a message to the last one. Its content exists before the lock is taken. */
static void sends_message(struct thread *t)
{
    store(t, ENTRY + 2, END);
    lock(t);
    store(t, ENTRY + 1, 2);
    store(t, LENGTH, 2);
    unlock(t);
}

/* ---- the reader: stamp.c ---------------------------------------------------------------------- */

enum { R_FIELDS = 0, FIELDS = 4, R_WALK = 4, WALK = 3, R_AGAIN = 7 };
static const uint8_t field[FIELDS] = {REDS, PC, FIRST, LENGTH};

static struct op *load(struct thread *t, unsigned place, unsigned value, unsigned reg)
{
    struct op *op = add(t, LOAD, place, value);
    op->reg = (uint8_t)reg;
    op->acquire = !with(PLAIN_LOADS);
    return op;
}

static void settled(struct thread *t)
{
    if (!with(NO_STATE))
        load(t, STATE, 0, NONE);
    if (!with(NO_LOCK))
        load(t, LOCK, 0, NONE);
}

static void fields(struct thread *t, unsigned reg)
{
    for (unsigned i = 0; i < FIELDS; i++)
        load(t, field[i], ANY, reg + i);
}

static void barrier(struct thread *t, unsigned without)
{
    if (!with(without) && !with(STRONG))
        add(t, MEMBARRIER, 0, 0);
}

static void the_reader(struct thread *t)
{
    if (!with(NO_FIRST_LOOK))
        settled(t);
    fields(t, R_FIELDS);
    barrier(t, NO_OPENING_BARRIER);
    if (!with(NO_SECOND_LOOK))
        settled(t);
    for (unsigned i = 0; i < WALK; i++)
        load(t, 0, ANY, R_WALK + i)->via = (uint8_t)(i == 0 ? R_FIELDS + 2 : R_WALK + i - 1);
    barrier(t, NO_CLOSING_BARRIER);
    if (!with(FIELDS_FIRST))
        settled(t);
    fields(t, R_AGAIN);
    if (with(FIELDS_FIRST))
        settled(t);
}

/* ---- all executions --------------------------------------------------------------------------- */

struct now {
    uint32_t done[THREADS];
    uint8_t mem[PLACES];
    uint8_t reg[THREADS][REGS];
    uint8_t held;   /* the lock has an owner, whether that can be seen or not */
    uint8_t passed; /* writers that passed the reader's barrier */
    uint8_t pad[2];
};

static struct thread thread[THREADS];
static unsigned writers;
static struct now *table;
static size_t slots;
static size_t known;
static unsigned accepted;
static unsigned wrong;
enum { LITMUS = 3 }; /* the first register of a writer */
static bool litmus;  /* all threads end, and only registers are looked at */
static uint8_t sought[2];
static unsigned failures;

#define FAILED(...) (printf("FAILED: " __VA_ARGS__), printf("\n"), failures++)

static bool equal(const struct now *a, const struct now *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static size_t hash(const struct now *s)
{
    uint64_t h = 0x9E3779B97F4A7C15U;
    const uint8_t *byte = (const uint8_t *)s;
    for (size_t i = 0; i < sizeof *s; i++)
        h = (h ^ byte[i]) * 0x100000001B3U;
    return (size_t)(h ^ h >> 29);
}

/* An empty slot has a pad of 0, a known state one of 1. */
static bool insert(struct now *into, size_t n, const struct now *s)
{
    size_t i = hash(s) & (n - 1);
    for (; into[i].pad[0] != 0; i = (i + 1) & (n - 1)) {
        if (equal(&into[i], s))
            return false;
    }
    into[i] = *s;
    return true;
}

static bool is_new(const struct now *s)
{
    if (2 * known >= slots) {
        size_t twice = slots ? 2 * slots : 1024;
        struct now *more = calloc(twice, sizeof *more);
        if (!more)
            abort();
        for (size_t i = 0; i < slots; i++) {
            if (table[i].pad[0] != 0)
                insert(more, twice, &table[i]);
        }
        free(table);
        table = more;
        slots = twice;
    }
    bool added = insert(table, slots, s);
    known += added ? 1 : 0;
    return added;
}

/* What a walk finds in each state that the process has between two changes. What belongs to a state is seen from
 * its stamp, because no two changes leave the same one. */
static bool is_true(const uint8_t *reg)
{
    static const struct {
        uint8_t pc, first, length, walk[WALK];
    } truth[] = {
        {0, 1, 1, {END, END, END}}, {0, 2, 1, {1, END, END}}, {0, 1, 2, {2, END, END}},
        {1, 3, 1, {END, END, END}}, {1, 2, 1, {3, END, END}}, {1, 1, 1, {3, END, END}},
    };
    for (unsigned i = 0; i < sizeof truth / sizeof *truth; i++) {
        if (truth[i].pc == reg[R_FIELDS + 1] && truth[i].first == reg[R_FIELDS + 2] &&
            truth[i].length == reg[R_FIELDS + 3])
            return memcmp(truth[i].walk, reg + R_WALK, WALK) == 0;
    }
    return false;
}

static void judge(const struct now *s)
{
    const uint8_t *reg = s->reg[READER];
    if (litmus) {
        /* of a thread that only stores nothing is sought */
        unsigned other = thread[0].op[thread[0].n - 1].kind == LOAD ? s->reg[0][LITMUS] : reg[1];
        accepted += reg[0] == sought[0] && other == sought[1] ? 1 : 0;
        return;
    }
    unsigned from = with(NO_COUNTS) ? 2 : 0;
    if (memcmp(reg + R_FIELDS + from, reg + R_AGAIN + from, FIELDS - from) != 0)
        return;
    accepted++;
    wrong += is_true(reg) ? 0 : 1;
}

/* An interrupt is precise: what is earlier in the thread has taken effect, and nothing that is later. */
static bool at_a_boundary(const struct now *s, unsigned t)
{
    return (s->done[t] & (s->done[t] + 1)) == 0;
}

/* false: not possible now, or the reader gives up */
static bool effect(struct now *s, unsigned t, const struct op *op)
{
    unsigned place = op->place;
    switch (op->kind) {
    case LOAD:
        if (op->via != NONE) {
            uint8_t to = s->reg[t][op->via];
            s->reg[t][op->reg] = to == END ? END : s->mem[ENTRY + to];
            return true;
        }
        if (op->reg != NONE)
            s->reg[t][op->reg] = s->mem[place];
        return op->value == ANY || s->mem[place] == op->value;
    case COPY:
        s->mem[place] = s->reg[t][op->reg];
        return true;
    case TAKE:
        if (s->held)
            return false;
        s->held = 1;
        return true;
    case GIVE:
        s->held = 0;
        s->mem[place] = 0;
        return true;
    case STORE:
        s->mem[place] = op->value;
        return true;
    case MEMBARRIER:
        return s->passed == (1U << writers) - 1;
    default:
        return true;
    }
}

static bool may(const struct now *s, unsigned t, unsigned i)
{
    return !(s->done[t] & 1U << i) && (thread[t].after[i] & ~s->done[t]) == 0;
}

static bool waits_in_barrier(const struct now *s)
{
    const struct thread *t = &thread[READER];
    for (unsigned i = 0; i < t->n; i++) {
        if (t->op[i].kind == MEMBARRIER && may(s, READER, i))
            return true;
    }
    return false;
}

static bool is_over(const struct now *s, unsigned t)
{
    return s->done[t] == (1U << thread[t].n) - 1;
}

/* The depth is the number of operations and barriers. */
static void explore(const struct now *s) // NOLINT(misc-no-recursion)
{
    if (!is_new(s))
        return;
    if (is_over(s, READER) && (!litmus || is_over(s, 0))) {
        judge(s);
        return;
    }
    for (unsigned t = 0; t < THREADS; t++) {
        for (unsigned i = 0; i < thread[t].n; i++) {
            struct now next = *s;
            if (!may(s, t, i) || !effect(&next, t, &thread[t].op[i]))
                continue;
            next.done[t] |= 1U << i;
            if (thread[t].op[i].kind == MEMBARRIER)
                next.passed = 0;
            explore(&next);
        }
    }
    for (unsigned t = 0; t < writers && waits_in_barrier(s); t++) {
        struct now next = *s;
        next.passed |= (uint8_t)(1U << t);
        if (next.passed != s->passed && at_a_boundary(s, t))
            explore(&next);
    }
}

/* ---- the protocol ------------------------------------------------------------------------------ */

typedef void writer(struct thread *t);

static void start(struct now *s, writer *first, writer *second)
{
    memset(s, 0, sizeof *s);
    memset(thread, 0, sizeof thread);
    writers = second ? 2 : 1;
    first(&thread[0]);
    if (second)
        second(&thread[1]);
    s->pad[0] = 1;
    s->mem[FIRST] = s->mem[LENGTH] = 1;
    s->mem[ENTRY + 1] = END;
    /* fresh memory of a heap may hold what looks like objects */
    s->mem[ENTRY + 2] = 3;
    s->mem[ENTRY + 3] = 1;
}

static void all_from(const struct now *s)
{
    for (unsigned t = 0; t < THREADS; t++)
        order(&thread[t]);
    accepted = wrong = 0;
    known = slots = 0;
    explore(s);
    free(table);
    table = NULL;
}

static const struct scenario {
    const char *name;
    writer *first, *second;
} scenarios[] = {
    {"a run", runs, NULL},
    {"a dirty run", runs_dirty, NULL},
    {"a binary", sends_binary, NULL},
    {"words", sends_words, NULL},
    {"a message", sends_message, NULL},
    {"a collection and a binary", collects, sends_binary},
    {"a collection and words", collects, sends_words},
};

enum { SCENARIOS = sizeof scenarios / sizeof *scenarios };

/* The number of scenarios in which an accepted answer is wrong. */
static unsigned scenarios_wrong(unsigned left_out, const char *what)
{
    unsigned n = 0;
    changes = left_out;
    for (unsigned i = 0; i < SCENARIOS; i++) {
        struct now s;
        start(&s, scenarios[i].first, scenarios[i].second);
        the_reader(&thread[READER]);
        all_from(&s);
        if (accepted == 0)
            FAILED("%s, %s: nothing is accepted", what, scenarios[i].name);
        if (wrong > 0)
            printf("%s, %s: %u of %u wrong, in %zu states\n", what, scenarios[i].name, wrong,
                   accepted, known);
        n += wrong > 0 ? 1 : 0;
    }
    return n;
}

static void test_the_protocol(void)
{
    if (scenarios_wrong(SOUND, "aarch64") > 0)
        FAILED("the protocol is wrong where memory is weakly ordered");
    if (scenarios_wrong(STRONG, "x86-64") > 0)
        FAILED("the protocol is wrong where memory is strongly ordered");
    /* It only saves work. */
    if (scenarios_wrong(NO_FIRST_LOOK, "without the first look") > 0)
        FAILED("the first look matters");
}

static void test_each_step_is_needed(void)
{
    static const struct {
        unsigned change;
        bool strong; /* on x86-64 as well */
        const char *what;
    } steps[] = {
        {NO_OPENING_BARRIER, false, "without the barrier of the opening"},
        {NO_CLOSING_BARRIER, false, "without the barrier of the closing"},
        {PLAIN_LOADS, false, "with plain loads"},
        {NO_SECOND_LOOK, true, "without the second look"},
        {FIELDS_FIRST, true, "with state and lock last in the closing"},
        {NO_LOCK, true, "without the lock"},
        {NO_STATE, true, "without the state"},
        {NO_COUNTS, true, "without reductions and program counter"},
    };
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (scenarios_wrong(steps[i].change, steps[i].what) == 0)
            FAILED("%s, no answer is wrong", steps[i].what);
        if (steps[i].strong && scenarios_wrong(STRONG | steps[i].change, steps[i].what) == 0)
            FAILED("%s, no answer is wrong on x86-64", steps[i].what);
    }
}

/* ---- the model itself: what is known of such processors ------------------------------------------ */

/* Writer and reader, an operation a letter: A, B store 1 to two places; a, b load them; L takes the lock and shows it,
 * l loads what is shown; f, m are a fence and a membarrier. The last loads of both give registers 0 and 1. */
static void threads_of(struct thread *t, const char *ops, unsigned reg)
{
    for (; *ops; ops++) {
        unsigned place = strchr("Aa", *ops) ? REDS : strchr("Bb", *ops) ? PC : LOCK;
        if (*ops == 'L')
            lock(t);
        else if (*ops == 'f' || *ops == 'm')
            add(t, *ops == 'f' ? FENCE : MEMBARRIER, 0, 0);
        else if (*ops == 'A' || *ops == 'B')
            store(t, place, 1);
        else
            load(t, place, ANY, reg++);
    }
}

static void test_litmus(const char *writes, const char *reads, unsigned how, unsigned first,
                        unsigned second, bool possible)
{
    struct now s;
    memset(&s, 0, sizeof s);
    memset(thread, 0, sizeof thread);
    s.pad[0] = 1;
    changes = how;
    writers = 1;
    threads_of(&thread[0], writes, LITMUS);
    threads_of(&thread[READER], reads, 0);
    sought[0] = (uint8_t)first;
    sought[1] = (uint8_t)second;
    litmus = true;
    all_from(&s);
    litmus = false;
    if ((accepted > 0) != possible)
        FAILED("%s beside %s, %x: %u, %u is %spossible", writes, reads, how, first, second,
               possible ? "not " : "");
}

static void test_the_model(void)
{
    /* a message and its flag */
    test_litmus("AB", "ba", SOUND, 1, 0, true);
    test_litmus("AfB", "ba", PLAIN_LOADS, 1, 0, true);
    test_litmus("AfB", "ba", SOUND, 1, 0, false);
    test_litmus("AB", "bma", PLAIN_LOADS, 1, 0, false);
    test_litmus("AB", "ba", STRONG, 1, 0, false);
    test_litmus("AB", "ba", SOUND, 1, 1, true);
    /* what is done under a lock may be seen before the lock */
    test_litmus("LB", "bl", SOUND, 1, 0, true);
    test_litmus("LfB", "bl", SOUND, 1, 0, false);
    test_litmus("LB", "bml", SOUND, 1, 0, false);
    test_litmus("LB", "bl", STRONG, 1, 0, false);
    /* a store, and a load behind it: in neither thread the load waits for the store */
    test_litmus("Ab", "Ba", SOUND, 0, 0, true);
    test_litmus("Ab", "Ba", STRONG, 0, 0, true);
    test_litmus("Afb", "Bfa", SOUND, 0, 0, false);
    test_litmus("Afb", "Ba", SOUND, 0, 0, true);
    test_litmus("Ab", "Bma", SOUND, 0, 0, false);
}

int main(void)
{
    test_the_model();
    test_the_protocol();
    test_each_step_is_needed();
    if (failures == 0)
        printf("ok\n");
    return failures != 0;
}
