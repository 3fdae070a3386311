/* test_stacks.c: stacks of processes, how many have which one, and in which functions their addresses lie.
 * Knows: how a stack looks, and how the VM lists its code.
 * Does not know: what an answer looks like in Erlang. */
#include "scan/stack_tree.h"
#include "test/test_world.h"
#include "vm/code.h"

/* ---- one stack -------------------------------------------------------------------------------- */

enum { PC = 0x1000, MANY = 300 };

/* As a scan that is given `depth' counts it. */
static struct scan *scanned(const struct world *w, uint64_t depth)
{
    static const enum attr attr = ATTR_stack;
    struct scan *s = malloc(sizeof *s);
    if (!s)
        abort();
    scan_init(s, &w->vm, &attr, 1, SCAN_STACKS, 0, NULL, 0);
    scan_limit(s, depth);
    return s;
}

static enum scan_result finish(struct scan *s, const struct world *w, unsigned *asked)
{
    enum scan_result r;
    *asked = 0;
    while ((r = scan_step(s, w->vm.reader, NOTHING)) == SCAN_MORE || r == SCAN_ASK) {
        *asked += s->ask_n;
        scan_asked(s);
    }
    return r;
}

static void end(struct scan *s)
{
    scan_free(s);
    free(s);
}

/* The only stack of this world. */
static void has_frames(const struct world *w, uint64_t depth, const uint64_t *frames, unsigned n,
                       const char *what)
{
    uint64_t found[STACK_FRAMES_MAX];
    unsigned asked;
    struct scan *s = scanned(w, depth);
    bool ok = finish(s, w, &asked) == SCAN_DONE && asked == 0 && s->stacks.n == n + 1U &&
              s->stacks.nodes[n].count == 1 &&
              stack_tree_frames(&s->stacks, n, found, STACK_FRAMES_MAX) == n &&
              memcmp(found, frames, n * sizeof *frames) == 0;
    check(ok, what, w->vm.lay->name);
    end(s);
}

static void test_frames(const struct layout *lay)
{
    struct world *w = new_world(lay);
    char *p = make_process(w, 7);
    const uint64_t frames[] = {PC, 0x2000, 0x3000, 0x2000};
    put(w, p, LF_stop, get(w, p, LF_hend));
    put(w, p, LF_pc, PC);
    has_frames(w, 64, frames, 1, "a process without a stack is where its program counter is");
    push_word(w, p, 0x2000);
    push_word(w, p, pid_of(w, 1));
    push_word(w, p, TERM_NIL);
    push_word(w, p, 0x3000);
    push_word(w, p, 0x3000);
    push_word(w, p, get(w, p, LF_heap) | TAG_BOXED);
    push_word(w, p, 0x3000);
    push_word(w, p, get(w, p, LF_hend) - 8); /* a frame pointer */
    push_word(w, p, 0x2000);
    push_word(w, p, PC);
    has_frames(w, 64, frames, 4, "only return addresses count, and one of a recursion");
    has_frames(w, 3, frames, 3, "the last calls, as many as are wanted");
    has_frames(w, 1, frames, 1, "the program counter alone");
    has_frames(w, 0, frames, 1, "at least the program counter");
    put(w, p, LF_stop, get(w, p, LF_hend) + 8);
    struct scan *s = scanned(w, 64);
    unsigned asked;
    check(finish(s, w, &asked) == SCAN_DONE && asked == 1 && s->stacks.n == 0,
          "a stack upside down is asked for", lay->name);
    end(s);
    free_world(w);
}

/* A stack of more words than a slice has steps. */
static void test_long(const struct layout *lay)
{
    struct world *w = new_world(lay);
    char *p = make_process(w, 7);
    uint64_t frames[STACK_FRAMES_MAX] = {PC};
    put(w, p, LF_pc, PC);
    for (unsigned i = MANY; i-- > 0;) {
        push_word(w, p, 0x10000 + 16ULL * i);
        for (unsigned k = 0; k < 50; k++)
            push_word(w, p, TERM_NIL);
    }
    for (unsigned i = 1; i < STACK_FRAMES_MAX; i++)
        frames[i] = 0x10000 + 16ULL * (i - 1);
    has_frames(w, 1000, frames, STACK_FRAMES_MAX, "no more frames than the VM's own traces have");
    free_world(w);
}

/* ---- many processes --------------------------------------------------------------------------- */

static void test_counts(const struct layout *lay)
{
    struct world *w = new_world(lay);
    unsigned asked;
    unsigned groups = 0;
    uint64_t all = 0;
    for (unsigned i = 0; i < 900; i++) {
        char *p = make(w, LF(lay, proc_size) + 256);
        char *stack = p + LF(lay, proc_size);
        put(w, p, LF_id, pid_of(w, i));
        put(w, p, LF_stop, address(stack));
        put(w, p, LF_hend, address(stack) + 24);
        put(w, p, LF_pc, PC + 16ULL * (i % 3));
        put(w, p, LF_state, i % 100 == 99 ? STATE_RUNNING : 0x2A);
        put_word(address(stack), 0x4000 + 16ULL * (i % 9 / 3)); /* nine different ones */
        put_word(address(stack) + 8, TERM_NIL);
        put_word(address(stack) + 16, 0x8000);
        w->table[i] = address(p);
    }
    struct scan *s = scanned(w, 64);
    check(finish(s, w, &asked) == SCAN_DONE && asked == 9, "running processes are asked",
          lay->name);
    for (size_t i = 1; i < s->stacks.n; i++) {
        const struct stack_node *node = &s->stacks.nodes[i];
        groups += node->count > 0;
        all += node->count;
        if (node->count > 0)
            check(w->table[proctab_slot(lay, &w->vm.tab, node->pid)] != 0, "one of them is named",
                  lay->name);
    }
    check(groups == 9 && all == 891 && s->answered == 891, "each process counts once", lay->name);
    check(s->stacks.n == 1 + 3 + 9 + 9, "stacks share their last calls", lay->name);
    end(s);
    free_world(w);
}

static void test_tree(void)
{
    struct stack_tree t = {0};
    uint64_t frames[STACK_FRAMES_MAX];
    uint64_t found[STACK_FRAMES_MAX];
    bool ok = true;
    for (unsigned i = 0; i < 20000; i++) {
        frames[0] = i % 7;
        frames[1] = i;
        ok = ok && stack_tree_add(&t, frames, 2, i, NULL) == ST_OK;
    }
    check(ok && t.n == 1 + 7 + 20000, "a tree grows", "");
    for (size_t i = 1; i < t.n; i++) {
        if (t.nodes[i].count > 0)
            ok = ok && stack_tree_frames(&t, i, found, 2) == 2 && found[0] == found[1] % 7 &&
                 t.nodes[i].pid == found[1] && t.nodes[i].count == 1;
    }
    check(ok, "and keeps what it has", "");
    stack_tree_free(&t);
    for (unsigned i = 0; ok && i < STACK_NODES_MAX; i++) {
        frames[0] = i;
        enum status st = stack_tree_add(&t, frames, 1, i, NULL);
        ok = st == (i + 1 < STACK_NODES_MAX ? ST_OK : ST_TOO_LARGE);
    }
    check(ok && t.n == STACK_NODES_MAX, "no more nodes than it may have", "");
    check(stack_tree_add(&t, (uint64_t[]){5}, 1, 1, NULL) == ST_OK, "those that it has still count",
          "");
    stack_tree_free(&t);
}

static void test_no_memory(void)
{
    uint64_t frames[] = {1, 2, 3};
    for (long at = 1; at <= 4; at++) {
        struct stack_tree t = {0};
        enum status st = ST_OK;
        fail_at = at;
        for (unsigned i = 0; i < 600 && st == ST_OK; i++) {
            frames[2] = i;
            st = stack_tree_add(&t, frames, 3, i, NULL);
        }
        check(st == ST_NOMEM, "a failed allocation is an answer", "");
        fail_at = 0;
        check(stack_tree_add(&t, frames, 3, 1, NULL) == ST_OK, "and the next one is tried", "");
        stack_tree_free(&t);
    }
}

static void test_sums(void)
{
    struct stack_tree t = {.width = 2};
    bool ok = true;
    for (uint64_t i = 0; i < 20000; i++)
        ok = ok && stack_tree_add(&t, (uint64_t[]){i % 700, 1}, 2, i,
                                  (int64_t[]){(int64_t)i, -1}) == ST_OK;
    for (size_t i = 1; i < t.n; i++) {
        uint64_t f[2];
        int64_t n = t.nodes[i].count;
        (void)stack_tree_frames(&t, i, f, 2);
        /* f[0], f[0] + 700, ... */
        ok =
            ok && t.sums[2 * i + 1] == -n && t.sums[2 * i] == n * (int64_t)f[0] + 350 * n * (n - 1);
    }
    check(ok, "sums over the processes of each node", "");
    check(stack_tree_add(&t, (uint64_t[]){1, 1}, 2, 1, (int64_t[]){INT64_MAX, 0}) == ST_OK &&
              stack_tree_add(&t, (uint64_t[]){1, 1}, 2, 1, (int64_t[]){INT64_MAX, 0}) == ST_OK,
          "sums wrap", "");
    stack_tree_free(&t);
    for (long at = 1; at <= 6; at++) {
        enum status st = ST_OK;
        t = (struct stack_tree){.width = 2};
        fail_at = at;
        for (uint64_t i = 0; i < 600 && st == ST_OK; i++)
            st = stack_tree_add(&t, &i, 1, i, (int64_t[]){1, 2});
        check(st == ST_NOMEM, "a failed allocation is an answer, with sums", "");
        fail_at = 0;
        check(stack_tree_add(&t, (uint64_t[]){7}, 1, 1, (int64_t[]){1, 2}) == ST_OK,
              "and the next one is tried, with sums", "");
        stack_tree_free(&t);
    }
}

/* ---- code --------------------------------------------------------------------------------------- */

/* Code of two modules. A function has 8 words: its names are in the third to the fifth. From the sixth on, each has a
 * line; the last function has none. */
enum {
    FUNCTIONS = 5,
    FIRST = 13,
    WORDS = 8,
    MODULES = 2,
    TABLE = 9,
    ENTRIES = 3 * (FUNCTIONS - 1)
};
struct module {
    uint64_t header[FIRST + FUNCTIONS + 1];
    uint64_t code[FUNCTIONS][WORDS];
    uint64_t table[3 + FUNCTIONS + 1], entries[ENTRIES + 1], lines[ENTRIES];
    uint64_t after[2];
};

static struct module modules[MODULES];
static uint64_t ranges[MODULES][2];
/* Searched for in this program's own data. */
static volatile uint64_t records[CODE_INDEXES][4];

static uint64_t atom(uint64_t i)
{
    return i << 6 | 0x0B;
}

static uint64_t pc_in(unsigned m, unsigned f, unsigned word)
{
    return address(modules[m].code) + 8UL * (WORDS * f + word);
}

static unsigned line_of(unsigned m, unsigned f, unsigned word)
{
    return word < 5 || f == FUNCTIONS - 1 ? 0 : 1000 * (m + 1) + 10 * f + word;
}

static void put_line(struct module *mod, unsigned i, unsigned line)
{
    uint16_t *narrow = (uint16_t *)mod->lines;
    uint32_t *wide = (uint32_t *)mod->lines;
    if ((uint32_t)mod->table[1] == 2)
        narrow[i] = (uint16_t)line;
    else
        wide[i] = line | 3U << 24; /* of another file */
}

/* The pointers of the table are to what the module itself has. */
static void make_lines(unsigned m)
{
    struct module *mod = &modules[m];
    mod->header[TABLE] = address(mod->table);
    mod->table[1] = (m == 0 ? 2 : 4) | 0xABCDULL << 32; /* half a word */
    mod->table[2] = address(mod->lines);
    for (unsigned f = 0; f <= FUNCTIONS; f++)
        mod->table[3 + f] = address(&mod->entries[f < FUNCTIONS ? 3 * f : ENTRIES]);
    for (unsigned i = 0; i < ENTRIES; i++) {
        mod->entries[i] = pc_in(m, i / 3, 5 + i % 3);
        put_line(mod, i, line_of(m, i / 3, 5 + i % 3));
    }
    mod->entries[ENTRIES] = pc_in(m, FUNCTIONS, 0);
}

static void make_code(void)
{
    for (unsigned m = 0; m < MODULES; m++) {
        struct module *mod = &modules[m];
        memset(mod, 0, sizeof *mod);
        mod->header[0] = FUNCTIONS;
        for (unsigned f = 0; f <= FUNCTIONS; f++)
            mod->header[FIRST + f] = address(mod->code) + sizeof mod->code[0] * f;
        for (unsigned f = 0; f < FUNCTIONS; f++) {
            mod->code[f][2] = atom(100 + m);
            mod->code[f][3] = atom(200 + f);
            mod->code[f][4] = f;
        }
        make_lines(m);
        ranges[m][0] = address(mod);
        ranges[m][1] = address(mod->after) + 8;
    }
    for (unsigned i = 0; i < CODE_INDEXES; i++) {
        records[i][0] = address(ranges);
        records[i][1] = MODULES;
        records[i][2] = 4;
        records[i][3] = address(ranges[1]);
    }
}

static const struct mfa known = {100 << 6 | 0x0B, 203 << 6 | 0x0B, 3};

static bool learn(enum peek_reader r, struct code *code)
{
    return code_learn(r, pc_in(0, 3, 6), &known, code);
}

static void test_code(enum peek_reader r)
{
    struct code code;
    struct mfa mfa;
    make_code();
    check(learn(r, &code) && code.n == CODE_INDEXES && code.functions == FIRST,
          "learned from one function", "");
    bool ok = true;
    for (unsigned m = 0; m < MODULES; m++) {
        for (unsigned f = 0; f < FUNCTIONS; f++) {
            for (unsigned word = 0; word < WORDS; word++)
                ok = ok && code_find(r, &code, pc_in(m, f, word), &mfa) &&
                     mfa.module == atom(100 + m) && mfa.function == atom(200 + f) && mfa.arity == f;
        }
    }
    check(ok, "each address of each function", "");
    check(!code_find(r, &code, address(modules[1].after), &mfa) &&
              !code_find(r, &code, address(&modules[0]) + 8, &mfa) &&
              !code_find(r, &code, 8, &mfa) && !code_find(r, &code, ~7ULL, &mfa),
          "no address outside of functions", "");
    records[0][0] = records[1][0] = 24; /* nothing is there */
    check(code_find(r, &code, pc_in(1, 2, 3), &mfa), "one record is enough", "");
    records[2][1] = 1;
    records[2][3] = address(ranges);
    check(!code_find(r, &code, pc_in(1, 2, 3), &mfa), "a module that is not listed", "");
    check(code_find(r, &code, pc_in(0, 2, 3), &mfa), "the one that is", "");
}

static bool is_unread(enum peek_reader r, const struct code *code, uint64_t pc)
{
    struct mfa mfa;
    return code_look(r, code, pc, &mfa, NULL) == CODE_UNREAD;
}

/* What is not readable is told apart from what is in no function. */
static void test_unread(enum peek_reader r)
{
    struct code code;
    struct mfa mfa;
    make_code();
    (void)learn(r, &code);
    check(code_look(r, &code, 8, &mfa, NULL) == CODE_NONE &&
              code_look(r, &code, ~7ULL, &mfa, NULL) == CODE_NONE,
          "outside of all modules there is no function", "");
    modules[1].header[FIRST + 3] = 40;
    check(is_unread(r, &code, pc_in(1, 3, 6)), "a function that is not readable", "");
    modules[0].header[0] = 0;
    check(is_unread(r, &code, pc_in(0, 3, 6)), "a module that is not readable", "");
    records[1][0] = 24;
    records[1][3] = 24;
    check(is_unread(r, &code, 8), "a list of modules that is not readable", "");
    make_code();
    records[1][0] = 24;
    records[1][3] = 24;
    check(code_find(r, &code, pc_in(1, 2, 3), &mfa), "another list has it", "");
    code.ranges[2] = 24;
    records[0][1] = 0;
    check(is_unread(r, &code, 8), "a record that is not readable", "");
}

static unsigned line_at(enum peek_reader r, const struct code *code, uint64_t pc)
{
    struct mfa mfa;
    unsigned line = 7;
    check(code_find_line(r, code, pc, &mfa, &line), "in a function", "");
    return line;
}

static bool learn_lines(enum peek_reader r, struct code *code)
{
    const struct known_line at[] = {{pc_in(0, 3, 6), line_of(0, 3, 6)},
                                    {pc_in(1, 2, 7), line_of(1, 2, 7)}};
    return learn(r, code) && code_learn_lines(r, at, 2, code);
}

/* An address has the line of the entry before it, in its own function. */
static void test_lines(enum peek_reader r)
{
    struct code code;
    bool ok = true;
    make_code();
    check(learn_lines(r, &code) && code.lines == TABLE, "learned from two lines", "");
    for (unsigned m = 0; m < MODULES; m++) {
        for (unsigned f = 0; f < FUNCTIONS; f++) {
            for (unsigned word = 0; word < WORDS; word++) {
                unsigned line = line_at(r, &code, pc_in(m, f, word));
                ok = ok && line == line_of(m, f, word);
            }
        }
    }
    check(ok, "the line of each address", "");
    modules[0].header[TABLE + 1] = modules[0].header[TABLE];
    modules[1].header[TABLE + 1] = modules[1].header[TABLE];
    check(!learn_lines(r, &code) && code.lines == 0, "not learned from two tables", "");
    check(line_at(r, &code, pc_in(0, 3, 6)) == 0, "no line that is not known", "");
    make_code();
    put_line(&modules[1], 8, 4711);
    check(!learn_lines(r, &code), "not learned where one line is wrong", "");
}

/* Each of these words leads to no line where it is wrong, and to nothing outside of the module. */
static void test_wrong_lines(enum peek_reader r)
{
    struct code code;
    make_code();
    (void)learn_lines(r, &code);
    struct module *mod = &modules[0];
    uint64_t *const words[] = {&mod->header[TABLE], &mod->table[1], &mod->table[2],
                               &mod->table[3],      &mod->table[6], &mod->table[7]};
    const uint64_t wrong[] = {0, 8, 3, address(mod) - 64, address(mod->after) + 16, ~7ULL, ~0ULL};
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        for (unsigned k = 0; k < sizeof wrong / sizeof *wrong; k++) {
            make_code();
            *words[i] = wrong[k];
            check(line_at(r, &code, pc_in(0, 3, 6)) == 0, "no line by a wrong word", "");
        }
    }
    make_code();
    modules[0].table[6] =
        address(&modules[0].entries[11]); /* the function begins behind its line */
    check(line_at(r, &code, pc_in(0, 3, 6)) == 0, "no line of before a function", "");
}

/* Each module comes once for each record. */
static void test_all_code(enum peek_reader r)
{
    struct code code;
    struct code_cursor at = {0, 0, false};
    struct code_module m;
    struct mfa mfa;
    struct block block;
    unsigned n = 0;
    bool ok = true;
    make_code();
    (void)learn(r, &code);
    for (; code_next(r, &code, &at, &m); n++) {
        ok = ok && m.n == FUNCTIONS && m.name == atom(100 + n % MODULES);
        for (unsigned f = 0; f < FUNCTIONS; f++)
            ok = ok && code_function(r, &m, f, &mfa, &block) && mfa.function == atom(200 + f) &&
                 block.from == pc_in(n % MODULES, f, 0) &&
                 block.to == pc_in(n % MODULES, f, 0) + 8UL * WORDS;
        ok = ok && !code_function(r, &m, FUNCTIONS, &mfa, &block);
    }
    check(ok && n == CODE_INDEXES * MODULES && !at.unread,
          "each module of each record, with its functions", "");
    modules[1].header[0] = 1ULL << 40;
    records[1][0] = records[1][3] = 24;
    unsigned unreadable = 0;
    for (at = (struct code_cursor){0, 0, false}, n = 0; code_next(r, &code, &at, &m); n++)
        unreadable += m.n == 0;
    check(n == 4 && unreadable == 2, "others than those that cannot be read", "");
    check(!code_next(r, &code, &at, &m) && at.unread, "and no more, which is not silent", "");
}

static void test_other_code(enum peek_reader r)
{
    struct code code;
    struct mfa mfa;
    make_code();
    (void)learn(r, &code);
    modules[0].code[1][2] = 0x1234;
    check(!code_find(r, &code, pc_in(0, 1, 6), &mfa), "a function whose module is no atom", "");
    modules[0].code[1][2] = atom(1);
    modules[0].code[1][4] = 256;
    check(!code_find(r, &code, pc_in(0, 1, 6), &mfa), "no function has so many arguments", "");
    modules[0].header[0] = 1ULL << 40;
    check(!code_find(r, &code, pc_in(0, 3, 6), &mfa), "no module has so many functions", "");
    modules[0].header[0] = FUNCTIONS;
    modules[0].header[FIRST + 3] = 40;
    check(!code_find(r, &code, pc_in(0, 3, 6), &mfa), "a function outside of its module", "");
    make_code();
    modules[0].code[3][4] = 4;
    check(!learn(r, &code) && code.n == 0, "not learned from another function", "");
    make_code();
    for (unsigned i = 0; i < CODE_INDEXES; i++)
        records[i][3] += 8;
    check(!learn(r, &code), "no record where a search cannot begin", "");
}

int main(void)
{
    for (unsigned i = 0; i < layout_count(); i++) {
        test_frames(layout_table(i));
        test_long(layout_table(i));
        test_counts(layout_table(i));
    }
    test_tree();
    test_no_memory();
    test_sums();
    test_code(peek_ready(PEEK_GUARDED));
    test_unread(peek_ready(PEEK_GUARDED));
    test_other_code(peek_ready(PEEK_GUARDED));
    test_code(PEEK_SYSCALL);
    test_lines(peek_ready(PEEK_GUARDED));
    test_lines(PEEK_SYSCALL);
    test_wrong_lines(PEEK_SYSCALL);
    test_all_code(peek_ready(PEEK_GUARDED));
    return outcome();
}
