/* test_outside.c: another OS process: its memory, its program, and what is only read there.
 * Knows: how the VM keeps atoms and the names of processes. Does not know: what an answer looks like in Erlang. */
#include "test/test_peek.h"
#include "vm/atom_table.h"
#include "vm/identity.h"
#include "vm/target.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

/* ---- a child with the same memory ------------------------------------------------------------------- */

enum { PAGE = 4096, WORDS = 3 * PAGE / 8 };

/* Shared with the child: it writes what the parent asks for. */
struct shared {
    _Atomic unsigned asked, done;
};

struct child {
    pid_t pid;
    struct shared *shared;
    uint64_t *own; /* of the child, at this address */
};

static uint64_t *map_pages(size_t bytes, int flags)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    must(at != MAP_FAILED, "mmap");
    return at;
}

/* For each number that is asked for it writes that number into all words, last to first. */
static void obey(const struct child *c)
{
    for (unsigned done = 0;;) {
        unsigned asked = c->shared->asked;
        if (asked != done) {
            for (unsigned i = WORDS; i-- > 0;)
                c->own[i] = (uint64_t)asked << 32 | i;
            c->shared->done = asked;
            done = asked;
        }
        (void)usleep(100);
    }
}

static struct child start_child(void)
{
    struct child c = {.shared = (struct shared *)map_pages(PAGE, MAP_SHARED),
                      .own = map_pages(WORDS * 8UL, MAP_PRIVATE)};
    for (unsigned i = 0; i < WORDS; i++)
        c.own[i] = i;
    c.pid = fork();
    must(c.pid >= 0, "fork");
    if (c.pid == 0)
        obey(&c);
    for (unsigned i = 0; i < WORDS; i++)
        c.own[i] = ~0ULL; /* only the child has the numbers now */
    return c;
}

static void change(const struct child *c)
{
    unsigned next = c->shared->asked + 1;
    c->shared->asked = next;
    while (c->shared->done != next)
        (void)usleep(100);
}

static void end_child(const struct child *c)
{
    must(kill(c->pid, SIGKILL) == 0 && waitpid(c->pid, NULL, 0) == c->pid, "end of the child");
}

static void test_reader(void)
{
    uint64_t w = 0;
    uint64_t block[8];
    uint64_t bits;
    size_t found;
    const uint16_t off[] = {16, 8, 800, 24, 0, 1600, 32, 40, 8, 16};
    uint64_t got[10];
    struct child c = start_child();
    uintptr_t at = (uintptr_t)c.own;
    EXPECT(peek_ready(PEEK_OTHER) == PEEK_NONE);
    EXPECT(peek_aim(c.pid, at + 1) != 0);
    EXPECT(peek_aim(c.pid, at) == 0);
    EXPECT(peek_ready(PEEK_OTHER) == PEEK_OTHER);
    EXPECT(peek_word(PEEK_OTHER, at + 24, &w) && w == 3);
    EXPECT(!peek_word(PEEK_OTHER, at + 25, &w));
    EXPECT(!peek_word(PEEK_OTHER, 8, &w));
    EXPECT(peek_block(PEEK_OTHER, at + PAGE - 16, 8, block) && block[0] == PAGE / 8 - 2 &&
           block[7] == PAGE / 8 + 5);
    EXPECT(peek_gather(PEEK_OTHER, at, off, 10, got));
    for (unsigned i = 0; i < 10; i++)
        EXPECT(got[i] == off[i] / 8U);
    EXPECT(peek_differ(PEEK_OTHER, at, off, 10, got, &bits) && bits == 0);
    got[4] ^= 1;
    EXPECT(peek_differ(PEEK_OTHER, at, off, 10, got, &bits) && bits != 0);
    EXPECT(peek_scan(PEEK_OTHER, at, 0, WORDS, &found) && found == 1);
    EXPECT(!peek_scan(PEEK_OTHER, 0, 1, WORDS, &found));
    end_child(&c);
    EXPECT(peek_ready(PEEK_OTHER) == PEEK_NONE);
}

/* The promise of a stamp: what is read after the opening is not older than it, and what is read after a
 * barrier is not older than that. */
static void test_pages(void)
{
    uint64_t w = 0;
    uint64_t pair[2];
    size_t found;
    const uint16_t off[] = {0, 8};
    struct child c = start_child();
    uintptr_t at = (uintptr_t)c.own;
    EXPECT(peek_aim(c.pid, at + 8) == 0);
    EXPECT(peek_word(PEEK_OTHER, at + PAGE, &w) && w == PAGE / 8);
    change(&c);
    EXPECT(peek_gather(PEEK_OTHER, at, off, 2, pair) && pair[1] >> 32 == 1);
    EXPECT(peek_word(PEEK_OTHER, at + PAGE, &w) && w >> 32 == 1);
    EXPECT(peek_scan(PEEK_OTHER, at, 0, WORDS, &found) && found == 0);
    change(&c);
    peek_barrier();
    EXPECT(peek_word(PEEK_OTHER, at + PAGE, &w) && w >> 32 == 2);
    EXPECT(peek_word(PEEK_OTHER, at, &w) && w >> 32 == 2);
    /* nothing is kept of what was aimed at before */
    change(&c);
    EXPECT(peek_aim(c.pid, at + 8) == 0);
    EXPECT(peek_word(PEEK_OTHER, at + PAGE, &w) && w >> 32 == 3);
    change(&c);
    /* its word is another one now, so it may be another process */
    EXPECT(peek_ready(PEEK_OTHER) == PEEK_NONE);
    end_child(&c);
}

/* What is expected is read at once, with the first one; nothing that was read before a barrier is taken after it. */
static void test_expected(void)
{
    const uint16_t pair[] = {0, 8};
    const uint16_t many[] = {16, 8, 800, 24, 0, 640, 32, 40, 16, 8};
    uint64_t got[10];
    uint64_t w;
    struct child c = start_child();
    uintptr_t at = (uintptr_t)c.own;
    EXPECT(peek_aim(c.pid, at + 8) == 0);
    peek_expect(PEEK_OTHER, at, pair, 2);
    peek_expect(PEEK_OTHER, at + PAGE, many, 10);
    peek_expect(PEEK_OTHER, at + 64, pair, 2);
    EXPECT(peek_word(PEEK_OTHER, at + 2UL * PAGE, &w) && w == 2 * PAGE / 8);
    change(&c);
    EXPECT(peek_gather(PEEK_OTHER, at, pair, 2, got) && got[1] == (1ULL << 32 | 1));
    EXPECT(peek_word(PEEK_OTHER, at + 2UL * PAGE, &w) && w >> 32 == 1);
    change(&c);
    EXPECT(peek_gather(PEEK_OTHER, at + PAGE, many, 10, got));
    for (unsigned i = 0; i < 10; i++)
        EXPECT(got[i] == (1ULL << 32 | (PAGE + many[i]) / 8));
    /* not the one that is expected, so it is read now, and so is the same one again */
    EXPECT(peek_gather(PEEK_OTHER, at, pair, 2, got) && got[0] >> 32 == 2);
    EXPECT(peek_gather(PEEK_OTHER, at + PAGE, many, 10, got) && got[0] >> 32 == 2);
    EXPECT(peek_gather(PEEK_OTHER, at + 64, pair, 2, got) && got[0] == (1ULL << 32 | 8));
    peek_expect(PEEK_OTHER, at, pair, 2);
    peek_expect(PEEK_OTHER, at + 64, pair, 2);
    EXPECT(peek_gather(PEEK_OTHER, at, pair, 2, got) && got[0] >> 32 == 2);
    change(&c);
    peek_barrier();
    EXPECT(peek_gather(PEEK_OTHER, at + 64, pair, 2, got) && got[0] >> 32 == 3);
    /* one that is not readable takes nothing from the others */
    peek_expect(PEEK_OTHER, at, pair, 2);
    peek_expect(PEEK_OTHER, 4096, many, 10);
    peek_expect(PEEK_OTHER, at + 64, pair, 2);
    EXPECT(peek_gather(PEEK_OTHER, at, pair, 2, got) && got[1] == (3ULL << 32 | 1));
    EXPECT(!peek_gather(PEEK_OTHER, 4096, many, 10, got));
    EXPECT(peek_gather(PEEK_OTHER, at + 64, pair, 2, got) && got[0] == (3ULL << 32 | 8));
    /* more than there is room for */
    for (unsigned i = 0; i < 100; i++)
        peek_expect(PEEK_OTHER, at + 8UL * i, pair, 2);
    for (unsigned i = 0; i < 100; i++)
        EXPECT(peek_gather(PEEK_OTHER, at + 8UL * i, pair, 2, got) && got[0] == (3ULL << 32 | i));
    end_child(&c);
}

/* What is wanted is read with the next page that is needed, and kept no longer than that one; what is not readable
 * takes nothing from the others. */
static void test_wanted(void)
{
    const uint16_t pair[] = {0, 8};
    uint64_t got[2];
    uint64_t w;
    struct child c = start_child();
    uintptr_t at = (uintptr_t)c.own;
    EXPECT(peek_aim(c.pid, at + 8) == 0);
    peek_prefetch(PEEK_OTHER, at + PAGE + 24);
    peek_prefetch(PEEK_OTHER, at + 2UL * PAGE);
    EXPECT(peek_word(PEEK_OTHER, at, &w) && w == 0);
    change(&c);
    EXPECT(peek_word(PEEK_OTHER, at + PAGE, &w) && w == PAGE / 8);
    EXPECT(peek_word(PEEK_OTHER, at + 2UL * PAGE, &w) && w == 2 * PAGE / 8);
    EXPECT(peek_gather(PEEK_OTHER, at, pair, 2, got) && got[0] >> 32 == 1);
    EXPECT(peek_word(PEEK_OTHER, at + PAGE, &w) && w >> 32 == 1);
    peek_prefetch(PEEK_OTHER, at + 2UL * PAGE);
    EXPECT(peek_word(PEEK_OTHER, at, &w) && w >> 32 == 1);
    change(&c);
    peek_barrier();
    EXPECT(peek_word(PEEK_OTHER, at + 2UL * PAGE, &w) && w >> 32 == 2);
    /* not readable, before others and after them */
    peek_barrier();
    peek_prefetch(PEEK_OTHER, at + PAGE);
    peek_prefetch(PEEK_OTHER, 4096);
    peek_prefetch(PEEK_OTHER, at + 2UL * PAGE);
    peek_prefetch(PEEK_OTHER, 0);
    EXPECT(peek_word(PEEK_OTHER, at, &w) && w >> 32 == 2);
    EXPECT(!peek_word(PEEK_OTHER, 4096, &w));
    EXPECT(peek_word(PEEK_OTHER, at + PAGE, &w) && w == (2ULL << 32 | PAGE / 8));
    EXPECT(peek_word(PEEK_OTHER, at + 2UL * PAGE, &w) && w == (2ULL << 32 | 2 * PAGE / 8));
    peek_prefetch(PEEK_OTHER, at + PAGE);
    EXPECT(!peek_word(PEEK_OTHER, 2UL * 4096, &w));
    /* more than there is room for */
    peek_barrier();
    for (unsigned i = 0; i < 1000; i++)
        peek_prefetch(PEEK_OTHER, at + 8UL * (i * 37 % WORDS));
    for (unsigned i = 0; i < 1000; i++)
        EXPECT(peek_word(PEEK_OTHER, at + 8UL * (i * 37 % WORDS), &w) &&
               w == (2ULL << 32 | i * 37 % WORDS));
    end_child(&c);
}

/* ---- which program it runs --------------------------------------------------------------------------- */

static void test_target(void)
{
    uintptr_t shift = 1;
    struct child c = start_child();
    EXPECT(target_find(getpid(), &shift) == TARGET_OK && shift == 0);
    shift = 1;
    EXPECT(target_find(c.pid, &shift) == TARGET_OK && shift == 0);
    end_child(&c);
    EXPECT(target_find(c.pid, &shift) == TARGET_GONE);
    pid_t other = fork();
    must(other >= 0, "fork");
    if (other == 0) {
        (void)execl("/bin/sleep", "sleep", "100", (char *)NULL);
        _exit(98);
    }
    enum target_status st = TARGET_OK;
    for (unsigned i = 0; st == TARGET_OK && i < 1000; i++) { /* until it has begun */
        st = target_find(other, &shift);
        (void)usleep(1000);
    }
    EXPECT(st == TARGET_OTHER_PROGRAM);
    must(kill(other, SIGKILL) == 0 && waitpid(other, NULL, 0) == other, "end of the other");
}

/* ---- atoms ------------------------------------------------------------------------------------------- */

enum { PAGE_ATOMS = 1024, ATOMS = PAGE_ATOMS + 3, ATOM_WORDS = 5 };

/* In the program's own data, as the VM has it. Not static: only the kernel reads the second one. */
extern uint64_t record[3], second[3];
uint64_t record[3], second[3];
static uint64_t pages[2];
static uint64_t page[2][PAGE_ATOMS];
static uint64_t atom[ATOMS][ATOM_WORDS];
static uint64_t boxed[ATOMS][4];
static char text[ATOMS][ATOM_TEXT_MAX];

static uint64_t word_of(unsigned i)
{
    return (uint64_t)i << 6 | 0x0B;
}

static void put_atom(unsigned i, const char *s, bool is_term)
{
    size_t n = strlen(s);
    memcpy(text[i] + i % 8, s, n); /* at any address */
    page[i / PAGE_ATOMS][i % PAGE_ATOMS] = (uintptr_t)atom[i];
    atom[i][2] = 0xAAAAAAAA00000000 | i;
    atom[i][3] = 0xBBBBBBBBBBBB0000 | n;
    atom[i][4] = (uintptr_t)(text[i] + i % 8);
    if (!is_term)
        return;
    boxed[i][0] = n <= 64 ? 0x20 | (n * 8) << 6 : 0x124;
    boxed[i][1] = n <= 64 ? n * 8 : ((uintptr_t)text[i] | 1);
    boxed[i][2] = i % 8 * 8ULL;
    if (n <= 64) { /* the bytes follow */
        memcpy(&boxed[i][2], s, n < 16 ? n : 16);
    }
    atom[i][4] = (uintptr_t)boxed[i] | 2;
}

static void put_record(uint64_t *r, unsigned n, unsigned room)
{
    r[0] = (uint64_t)room << 32 | 0x4795;
    r[1] = (uint64_t)n << 32 | 1 << 20;
    r[2] = (uintptr_t)pages;
}

static const char *const texts[] = {"false", "true", "", "a-b c", "\xC3\xA4\xC3\xB6"};

static void put_atoms(bool is_term)
{
    static char letters[256];
    memset(letters, 'x', 255);
    pages[0] = (uintptr_t)page[0];
    pages[1] = (uintptr_t)page[1];
    for (unsigned i = 0; i < ATOMS; i++)
        put_atom(i, i < 5 ? texts[i] : i == 5 ? letters : "other", is_term);
    put_record(record, ATOMS, 2 * PAGE_ATOMS);
    second[2] = 0;
}

static struct known_atom known_atom(unsigned i, const char *s)
{
    return (struct known_atom){word_of(i), (unsigned)strlen(s), (const unsigned char *)s};
}

static bool learn_atoms(struct atom_table *t)
{
    struct known_atom five[5];
    for (unsigned i = 0; i < 5; i++)
        five[i] = known_atom(i, texts[i]);
    return atom_table_learn(peek_ready(PEEK_SYSCALL), five, 5, t);
}

static bool is_text(const struct atom_table *t, uint64_t word, const char *s)
{
    static struct atom_text found;
    return atom_table_text(peek_ready(PEEK_SYSCALL), t, word, &found) && found.n == strlen(s) &&
           memcmp(found.bytes, s, found.n) == 0;
}

static void test_atoms(bool is_term)
{
    struct atom_table t;
    struct atom_text found;
    char letters[256] = {0};
    memset(letters, 'x', 255);
    put_atoms(is_term);
    EXPECT(learn_atoms(&t) && t.record == (uintptr_t)record && t.is_term == is_term);
    EXPECT(is_text(&t, word_of(5), letters));
    EXPECT(is_text(&t, word_of(ATOMS - 1), "other"));
    EXPECT(!is_text(&t, word_of(ATOMS), "other"));
    EXPECT(!is_text(&t, word_of(1) ^ 1, "true"));
    atom[7][2]++;
    EXPECT(!is_text(&t, word_of(7), "other"));
    atom[8][3] = ATOM_TEXT_MAX + 1;
    EXPECT(!atom_table_text(peek_ready(PEEK_SYSCALL), &t, word_of(8), &found));
    page[0][9] = 8;
    EXPECT(!is_text(&t, word_of(9), "other"));
    atom[10][4] = is_term ? 10 : 9;
    EXPECT(!is_text(&t, word_of(10), "other"));
    put_record(second, ATOMS, 2 * PAGE_ATOMS);
    EXPECT(!learn_atoms(&t) && t.record == 0);
    second[2] = 0;
    text[3][3] = 'z';
    if (!is_term)
        EXPECT(!learn_atoms(&t));
    put_atoms(is_term);
    put_record(record, ATOMS, 3 * PAGE_ATOMS); /* more room than one page that is not full */
    EXPECT(!learn_atoms(&t));
    memset(record, 0, sizeof record);
}

/* ---- names ------------------------------------------------------------------------------------------- */

enum { CALL = 80, CURRENT = 16, ENTRY = 48, SIZE = 768 };

struct fake {
    uint64_t process[SIZE / 8];
    uint64_t entry[5];
    uint64_t mfa[3];
};

static struct known_process make_known(struct fake *f, unsigned i, bool named, bool native)
{
    *f = (struct fake){.mfa = {word_of(30), word_of(31 + i), 3}};
    f->process[CALL / 8] = word_of(10 + i);
    f->process[CALL / 8 + 1] = word_of(20);
    f->process[CALL / 8 + 2] = i;
    struct known_process k = {.proc = (uintptr_t)f->process,
                              .who = {.call = {word_of(10 + i), word_of(20), i}}};
    if (named) {
        f->process[ENTRY / 8] = (uintptr_t)f->entry;
        f->entry[2] = (uintptr_t)f->process;
        f->entry[4] = k.who.name = word_of(40 + i);
    }
    if (native) {
        f->process[CURRENT / 8] = (uintptr_t)f->mfa;
        k.who.current = (struct mfa){f->mfa[0], f->mfa[1], f->mfa[2]};
    }
    return k;
}

static void test_identity(const struct layout *lay)
{
    static struct fake f[4];
    struct known_process k[4];
    struct identity_form form;
    struct identity who;
    enum peek_reader r = peek_ready(PEEK_SYSCALL);
    for (unsigned i = 0; i < 4; i++)
        k[i] = make_known(&f[i], i, i < 2, i == 3);
    EXPECT(identity_learn(r, lay, k, 4, &form) && form.call == CALL && form.current == CURRENT &&
           form.entry == ENTRY && form.name == 32 && form.owner == 16);
    EXPECT(identity_read(r, &form, k[0].proc, &who) && who.name == word_of(40) &&
           who.call.arity == 0 && who.current.module == 0);
    EXPECT(identity_read(r, &form, k[3].proc, &who) && who.name == 0 &&
           who.current.function == word_of(34));
    f[0].entry[2]++; /* the entry of another process */
    EXPECT(identity_read(r, &form, k[0].proc, &who) && who.name == 0 && !who.name_unread);
    f[0].process[ENTRY / 8] = 24; /* not readable: it has a name, or had one */
    EXPECT(identity_read(r, &form, k[0].proc, &who) && who.name == 0 && who.name_unread);
    f[0].process[ENTRY / 8] = 0;
    EXPECT(identity_read(r, &form, k[0].proc, &who) && who.name == 0 && !who.name_unread);
    f[3].mfa[2] = 256;
    EXPECT(identity_read(r, &form, k[3].proc, &who) && who.current.module == 0 &&
           !who.current_unread);
    f[3].process[CURRENT / 8] = 24;
    EXPECT(identity_read(r, &form, k[3].proc, &who) && who.current.module == 0 &&
           who.current_unread);
    f[1].process[CALL / 8] = 0;
    EXPECT(!identity_read(r, &form, k[1].proc, &who));
    EXPECT(!identity_learn(r, lay, k, 4, &form) && !form.is_known);
    for (unsigned i = 0; i < 4; i++) {
        k[i] = make_known(&f[i], i, i < 2, i == 3);
        memcpy(&f[i].process[40], &f[i].process[CALL / 8], 24);
    }
    EXPECT(!identity_learn(r, lay, k, 4, &form)); /* two places */
    EXPECT(!identity_learn(r, lay, k, 0, &form));
}

int main(void)
{
#if defined(__linux__) && defined(__x86_64__)
    running = "reader", test_reader();
    running = "pages", test_pages();
    running = "expected", test_expected();
    running = "wanted", test_wanted();
    if (access("/proc/self/maps", R_OK) == 0)
        running = "target", test_target();
#endif
    running = "atoms", test_atoms(false);
    running = "atoms as terms", test_atoms(true);
    running = "identity", test_identity(layout_table(0));
    (void)printf("%d complaints\n", complaints);
    return complaints > 0;
}
