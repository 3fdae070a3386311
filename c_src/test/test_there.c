/* test_there.c: what is read of one process of another OS process: everything under one stamp, and the function
 * for which proc_lib started it; and what a process belongs to.
 * Knows: how a process and its dictionary look. Does not know: how another OS process is read. */
#include "process/origin.h"
#include "scan/overview.h"
#include "test/test_world.h"

enum { SLOT = 7, DEPTH = 8, ENTRIES = 5000 };

/* ---- everything under one stamp ------------------------------------------------------------------- */

static char *make_full(struct world *w)
{
    uint64_t count = 0;
    uint64_t bytes = 0;
    char *p = make_process(w, SLOT);
    char *dict = make(w, 64);
    put(w, dict, LF_dict_count, 3);
    put(w, dict, LF_dict_array, 10);
    put(w, p, LF_dictionary, address(dict));
    put(w, p, LF_off_heap, make_chain(w, p, ENTRIES, &count, &bytes));
    put(w, p, LF_stop, get(w, p, LF_hend));
    push_word(w, p, 0x2000);
    push_word(w, p, TERM_NIL);
    push_word(w, p, 0x3000);
    put(w, p, LF_pc, 0x1000);
    put(w, p, LF_catches, 4);
    return p;
}

static enum status look(const struct world *w, struct look *l, uint64_t ns)
{
    const struct look_args args = {.max_words = DEPTH, .content = CONTENT_FORBIDDEN};
    enum status st = look_start(l, &w->vm, SLOT, w->table[SLOT], &overview_walker, &args);
    while (st == ST_TIMESLICE || (st == ST_OK && l->st == ST_TIMESLICE))
        st = look_step(l, w->vm.reader, ns);
    return st;
}

/* As a scan that asks for this attribute alone. */
static bool is_alone(const struct world *w, enum attr attr, int64_t value)
{
    static struct answer a;
    ask(w, attr, LONG, &a);
    return a.result == SCAN_DONE && a.rows == 1 && a.row[0].value == value;
}

static void test_values(const struct layout *lay)
{
    struct world *w = new_world(lay);
    struct look l;
    char *p = make_full(w);
    check(look(w, &l, NOTHING) == ST_OK, "all of a process", lay->name);
    const struct overview *o = l.state;
    bool ok = o->stack.n == 3 && o->stack.frame[0] == 0x1000 && o->stack.frame[2] == 0x2000 &&
              o->leader == pid_of(w, SLOT) && o->state == 0x2A;
    check(ok, "its stack, leader and state", lay->name);
    for (unsigned attr = 0; attr < OVERVIEW_ATTRS; attr++)
        ok = ok && o->outcome[attr] == ST_OK && is_alone(w, attr, o->values[attr]);
    check(ok && o->values[ATTR_binary_count] > ENTRIES / 2 && o->values[ATTR_dictionary_size] == 3,
          "each value is that of the attribute alone", lay->name);
    (void)look_end(&l, LONG);
    put(w, p, LF_trace_flags, TRACE_SENSITIVE);
    check(look(w, &l, LONG) == ST_OK, "a sensitive process", lay->name);
    o = l.state;
    check(o->outcome[ATTR_dictionary_size] == ST_ASK && o->outcome[ATTR_binary_memory] == ST_OK,
          "what cannot be read spoils nothing else", lay->name);
    (void)look_end(&l, LONG);
    free_world(w);
}

static void test_changes(const struct layout *lay)
{
    struct world *w = new_world(lay);
    struct look l;
    const struct look_args args = {.max_words = DEPTH, .content = CONTENT_FORBIDDEN};
    char *p = make_full(w);
    (void)look_start(&l, &w->vm, SLOT, w->table[SLOT], &overview_walker, &args);
    check(look_step(&l, w->vm.reader, NOTHING) == ST_TIMESLICE, "it takes several slices",
          lay->name);
    put(w, p, LF_reds, 5);
    check(look_step(&l, w->vm.reader, LONG) == ST_TORN, "all are of one moment, or there is none",
          lay->name);
    (void)look_end(&l, LONG);
    put(w, p, LF_lock, LOCK_MSGQ);
    check(look(w, &l, LONG) == ST_BUSY, "while it gets a message", lay->name);
    put(w, p, LF_lock, 0);
    put(w, p, LF_state, STATE_RUNNING);
    check(look(w, &l, LONG) == ST_BUSY, "while it runs", lay->name);
    put(w, p, LF_state, 0x2A);
    fail_at = 1;
    check(look(w, &l, LONG) == ST_NOMEM, "a failed allocation is an answer", lay->name);
    fail_at = 0;
    (void)look_end(&l, LONG);
    free_world(w);
}

/* ---- the function for which proc_lib started it ----------------------------------------------------- */

enum { KEY = 77, MODULE = 78, FUNCTION = 79, SMALL = 0xF, PAIRS = 700 };

static uint64_t atom(uint64_t i)
{
    return i << 6 | 0x0B;
}

/* A tuple at the top of the heap. */
static uint64_t tuple(struct world *w, char *p, unsigned n, const uint64_t *words)
{
    uint64_t at = get(w, p, LF_htop);
    put_word(at, (uint64_t)n << 6);
    for (unsigned i = 0; i < n; i++)
        put_word(at + 8 + 8ULL * i, words[i]);
    put(w, p, LF_htop, at + 8 + 8ULL * n);
    return at | TAG_BOXED;
}

static uint64_t pair(struct world *w, char *p, uint64_t key, uint64_t value)
{
    return tuple(w, p, 2, (uint64_t[]){key, value});
}

static uint64_t call(struct world *w, char *p, uint64_t arity)
{
    return tuple(w, p, 3, (uint64_t[]){atom(MODULE), atom(FUNCTION), arity << 4 | SMALL});
}

static char *make_dictionary(struct world *w, char *p, unsigned slots)
{
    char *dict = make(w, LF(w->vm.lay, dict_head) + 8UL * slots);
    put(w, dict, LF_dict_used, slots);
    for (unsigned i = 0; i < slots; i++)
        put_word(address(dict) + LF(w->vm.lay, dict_head) + 8UL * i, TERM_NIL);
    put(w, p, LF_dictionary, address(dict));
    return dict;
}

static void put_slot(struct world *w, const char *dict, unsigned i, uint64_t term)
{
    put_word(address(dict) + LF(w->vm.lay, dict_head) + 8UL * i, term);
}

static void is_call(struct world *w, enum status wanted, const char *what)
{
    struct plan plan;
    struct mfa found = {0};
    uint64_t key = atom(KEY);
    first_call_plan(&plan, w->vm.lay);
    enum status st = first_call_read(&w->vm, &plan, SLOT, w->table[SLOT], &key, &found);
    bool same =
        found.module == atom(MODULE) && found.function == atom(FUNCTION) && found.arity == 3;
    check(st == wanted && same == (wanted == ST_OK), what, w->vm.lay->name);
}

static void test_first_call(const struct layout *lay)
{
    struct world *w = new_world(lay);
    char *p = make_process(w, SLOT);
    is_call(w, ST_ASK, "a process without a dictionary");
    char *dict = make_dictionary(w, p, 10);
    is_call(w, ST_ASK, "an empty one");
    put_slot(w, dict, 2, pair(w, p, atom(KEY + 1), call(w, p, 3)));
    is_call(w, ST_ASK, "another key");
    put_slot(w, dict, 9, pair(w, p, atom(KEY), call(w, p, 3)));
    is_call(w, ST_OK, "a pair");
    put(w, p, LF_trace_flags, TRACE_SENSITIVE);
    struct plan plan;
    struct mfa found;
    uint64_t key = atom(KEY);
    first_call_plan(&plan, lay);
    check(first_call_read(&w->vm, &plan, SLOT, w->table[SLOT], &key, &found) == ST_ASK,
          "not of a sensitive process", lay->name);
    put(w, p, LF_trace_flags, 0);
    put(w, p, LF_state, STATE_RUNNING);
    check(first_call_read(&w->vm, &plan, SLOT, w->table[SLOT], &key, &found) == ST_BUSY,
          "not of one that runs", lay->name);
    put(w, p, LF_state, 0x2A);
    put_slot(w, dict, 9, pair(w, p, atom(KEY), call(w, p, 256)));
    is_call(w, ST_ASK, "no function has so many arguments");
    put_slot(w, dict, 9, TERM_NIL);
    uint64_t heap = get(w, p, LF_heap);
    put(w, p, LF_heap, 24);
    put_slot(w, dict, 5, 24 | TAG_BOXED);
    is_call(w, ST_TORN, "a pair that is not readable");
    put(w, p, LF_heap, heap);
    put_slot(w, dict, 5, TERM_NIL);
    put(w, p, LF_dictionary, 24);
    is_call(w, ST_TORN, "a dictionary that is not readable");
    free_world(w);
}

static void test_slots(const struct layout *lay)
{
    struct world *w = new_world(lay);
    char *p = make_process(w, SLOT);
    char *dict = make_dictionary(w, p, PAIRS);
    uint64_t last = pair(w, p, atom(KEY), call(w, p, 3));
    uint64_t other = pair(w, p, atom(KEY + 1), TERM_NIL);
    uint64_t top = get(w, p, LF_htop);
    uint64_t list = put_cons(&top, other, put_cons(&top, last, TERM_NIL));
    put(w, p, LF_htop, top);
    put_slot(w, dict, 3, list);
    is_call(w, ST_OK, "a pair in a list");
    put(w, p, LF_old_heap, get(w, p, LF_heap));
    put(w, p, LF_old_htop, top);
    put(w, p, LF_heap, top);
    is_call(w, ST_OK, "in the old heap");
    put(w, p, LF_old_htop, get(w, p, LF_old_heap) + 8);
    is_call(w, ST_ASK, "elsewhere");
    put(w, p, LF_old_htop, top);
    put_slot(w, dict, 3, TERM_NIL);
    put_slot(w, dict, PAIRS - 1, last);
    is_call(w, ST_ASK, "not at the end of a large dictionary");
    top = get(w, p, LF_htop);
    put(w, p, LF_htop, top + 16);
    put_word(top, other);
    put_word(top + 8, top | TAG_LIST);
    put_slot(w, dict, 0, top | TAG_LIST);
    is_call(w, ST_ASK, "a list without end");
    free_world(w);
}

/* ---- what a process belongs to ------------------------------------------------------------------- */

enum { OTHER = 90 };

/* The group of the only process. */
static void is_origin(struct world *w, const uint64_t wanted[ORIGIN_WORDS], const char *what)
{
    static const enum attr attrs[] = {ATTR_reductions, ATTR_origin};
    unsigned asked = 0;
    enum scan_result r;
    struct scan *s = malloc(sizeof *s);
    if (!s)
        abort();
    scan_init(s, &w->vm, attrs, 2, SCAN_GROUPS, 0, NULL, 0);
    while ((r = scan_step(s, w->vm.reader, LONG)) == SCAN_MORE || r == SCAN_ASK) {
        asked += s->ask_n;
        scan_asked(s);
    }
    bool ok = r == SCAN_DONE && asked == (wanted ? 0 : 1);
    if (ok && wanted) {
        uint64_t found[ORIGIN_WORDS] = {0};
        size_t last = s->stacks.n - 1;
        (void)stack_tree_frames(&s->stacks, last, found, ORIGIN_WORDS);
        ok = s->stacks.nodes[last].count == 1 && s->stacks.sums[last] == 1234 &&
             memcmp(found, wanted, sizeof found) == 0;
    }
    check(ok, what, w->vm.lay->name);
    scan_free(s);
    free(s);
}

/* A long dictionary is read in one go, and counted afterwards. */
static void is_charged(struct world *w, char *p, unsigned pairs)
{
    struct plan plan;
    struct view view;
    struct mfa out;
    uint64_t key = atom(KEY);
    struct budget b = BUDGET(1);
    const struct reading rd = {&w->vm, &plan, &view, &b};
    first_call_plan(&plan, w->vm.lay);
    bool ok = stamp_open(&w->vm, &plan, SLOT, address(p), &view) == ST_OK &&
              first_call_find(&rd, &key, &out) == ST_OK;
    check(ok && b.steps == 0 && b.beyond == pairs - 1, "each pair takes a step", w->vm.lay->name);
}

/* How often the clock is looked at in a scan of 8 processes that have so many empty slots each. */
static unsigned looks_at_clock(const struct layout *lay, unsigned slots)
{
    enum { PROCESSES = 8 };
    static const enum attr origin = ATTR_origin;
    struct world *w = new_world(lay);
    unsigned slices = 0;
    struct scan *s = malloc(sizeof *s);
    if (!s)
        abort();
    w->vm.identity.call = (uint16_t)((LF(lay, proc_size) & ~7U) - 24);
    for (unsigned i = 0; i < PROCESSES; i++) {
        char *p = make_process(w, i);
        put_word(address(p) + w->vm.identity.call, atom(MODULE));
        put_word(address(p) + w->vm.identity.call + 8, atom(OTHER));
        (void)make_dictionary(w, p, slots);
    }
    w->vm.first_call_key = atom(KEY);
    scan_init(s, &w->vm, &origin, 1, SCAN_GROUPS, 0, NULL, 0);
    while (scan_step(s, w->vm.reader, NOTHING) == SCAN_MORE)
        slices++;
    check(s->answered == PROCESSES, "all are read", lay->name);
    scan_free(s);
    free(s);
    free_world(w);
    return slices;
}

static void test_origin(const struct layout *lay)
{
    struct world *w = new_world(lay);
    char *p = make_process(w, SLOT);
    w->vm.identity.call = (uint16_t)((LF(lay, proc_size) & ~7U) - 24);
    uint64_t at = address(p) + w->vm.identity.call;
    w->vm.first_call_key = atom(KEY);
    put(w, p, LF_reds, 1234);
    put_word(at, atom(MODULE));
    put_word(at + 8, atom(OTHER));
    put_word(at + 16, 255);
    uint64_t is[ORIGIN_WORDS] = {pid_of(w, SLOT), atom(MODULE), atom(OTHER) << 8 | 255};
    is_origin(w, is, "leader and first call");
    char *dict = make_dictionary(w, p, 10);
    is_origin(w, is, "an empty dictionary");
    put_slot(w, dict, 1, pair(w, p, atom(KEY + 1), call(w, p, 3)));
    is_origin(w, is, "another key");
    w->vm.begins_late = (struct mfa){atom(MODULE), atom(OTHER), 255};
    is_origin(w, NULL, "one of proc_lib that has not begun is asked");
    put_slot(w, dict, 2, pair(w, p, atom(KEY), call(w, p, 3)));
    is[ORIGIN_FIRST] = atom(MODULE);
    is[ORIGIN_FIRST + 1] = atom(FUNCTION) << 8 | 3;
    is_origin(w, is, "what proc_lib was to call");
    w->vm.begins_late.module = 0;
    is_charged(w, p, 3);
    const struct mfa f = origin_function(&is[ORIGIN_FIRST]);
    check(f.module == atom(MODULE) && f.function == atom(FUNCTION) && f.arity == 3,
          "the words of a function", lay->name);
    put_slot(w, dict, 2, pair(w, p, atom(KEY), atom(MODULE)));
    is_origin(w, NULL, "a value that is no function is asked for");
    put_slot(w, dict, 2, TERM_NIL);
    put_slot(w, dict, 3, (get(w, p, LF_htop) + 64) | TAG_BOXED);
    is_origin(w, NULL, "a pair that lies elsewhere is asked for");
    put_slot(w, dict, 3, TERM_NIL);
    put(w, p, LF_trace_flags, TRACE_SENSITIVE);
    is_origin(w, NULL, "a sensitive process is asked");
    put(w, p, LF_trace_flags, 0);
    put_word(at + 16, 256);
    is_origin(w, NULL, "no function has so many arguments");
    put_word(at + 16, 255);
    put(w, p, LF_group_leader, get(w, p, LF_heap) | TAG_BOXED);
    is[ORIGIN_LEADER] = is[ORIGIN_FIRST] = is[ORIGIN_FIRST + 1] = 0;
    is_origin(w, is, "a leader of another node");
    free_world(w);
}

int main(void)
{
    for (unsigned i = 0; i < layout_count(); i++) {
        test_values(layout_table(i));
        test_changes(layout_table(i));
        test_first_call(layout_table(i));
        test_slots(layout_table(i));
        test_origin(layout_table(i));
        check(looks_at_clock(layout_table(i), 500) >= looks_at_clock(layout_table(i), 1) + 3,
              "the clock is looked at after long dictionaries", layout_table(i)->name);
    }
    return outcome();
}
