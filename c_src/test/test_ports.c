/* test_ports.c: the port table, found by the port that every VM has, and ports with their names; and nothing is found
 * where a single word is wrong.
 * Knows: how the VM keeps ports. Does not know: which port runs. */
#include "test/test_peek.h"
#include "vm/ports.h"

enum { LIMIT = 1024, PORT_WORDS = 40, NAME = 24, FIRST = 7 };

/* Its name is behind its words, and not aligned. */
struct one {
    uint64_t words[PORT_WORDS];
    char text[512];
};

struct world {
    uint64_t slots[LIMIT];
    struct one forker, other;
};

static struct world *made; /* not in the data of this program */
/* The VM's records, in the data of this program. */
static _Alignas(64) volatile uint64_t records[2][16];

static void put_port(const struct layout *lay, struct one *p, uint64_t id, const char *name)
{
    const struct proctab tab = {.max = LIMIT};
    memset(p, 0, sizeof *p);
    p->words[LF(lay, id) / 8] = id;
    p->words[NAME] = (uintptr_t)(p->text + 3);
    memcpy(p->text + 3, name, strlen(name) + 1);
    made->slots[proctab_slot(lay, &tab, id)] = (uintptr_t)p;
}

static uint64_t other_id(const struct layout *lay)
{
    return (lay->pid_slot_high ? (uint64_t)5 << 32 : 5 << 4) | FIRST;
}

static void put_record(const struct layout *lay, unsigned i, uint64_t limit)
{
    records[i][LF(lay, ptab_tab) / 8] = (uintptr_t)made->slots;
    records[i][LF(lay, ptab_max) / 8] = limit;
}

static void build(const struct layout *lay)
{
    memset(made, 0, sizeof *made);
    for (unsigned i = 0; i < 2 * sizeof records[0] / 8; i++)
        records[i / 16][i % 16] = 0;
    put_port(lay, &made->forker, FIRST, "forker");
    put_port(lay, &made->other, other_id(lay), "tcp_inet");
    put_record(lay, 0, LIMIT);
}

static bool learned(const struct layout *lay, struct port_form *form)
{
    return ports_learn(peek_ready(PEEK_SYSCALL), lay, LIMIT, form);
}

static bool reads(const struct layout *lay, const struct port_form *form, const struct one *p,
                  struct port *out)
{
    return port_read(peek_ready(PEEK_SYSCALL), lay, form, (uintptr_t)p, out);
}

static bool is_named(const struct port *port, const char *name)
{
    return port->n == strlen(name) && memcmp(port->name, name, port->n) == 0;
}

static void test_found(const struct layout *lay)
{
    struct port_form form;
    struct port port;
    build(lay);
    EXPECT(learned(lay, &form) && form.tab.tab == (uintptr_t)made->slots && form.tab.max == LIMIT &&
           form.name == 8 * NAME);
    EXPECT(reads(lay, &form, &made->other, &port) && port.id == other_id(lay) &&
           is_named(&port, "tcp_inet"));
    memset(made->other.text, 'x', sizeof made->other.text);
    EXPECT(reads(lay, &form, &made->other, &port) && port.n == PORT_NAME_MAX);
}

/* A table of another size, that of something else, or one of two. */
static void test_wrong_table(const struct layout *lay)
{
    struct port_form form;
    build(lay);
    EXPECT(!ports_learn(peek_ready(PEEK_SYSCALL), lay, 2UL * LIMIT, &form) && form.tab.max == 0);
    put_record(lay, 1, LIMIT);
    EXPECT(!learned(lay, &form));
    build(lay);
    put_record(lay, 0, LIMIT - 1);
    EXPECT(!ports_learn(peek_ready(PEEK_SYSCALL), lay, LIMIT - 1, &form));
    build(lay);
    made->forker.words[LF(lay, id) / 8] = FIRST + 16;
    EXPECT(!learned(lay, &form));
    build(lay);
    made->forker.text[3] = 'F';
    EXPECT(!learned(lay, &form));
    build(lay);
    made->forker.words[NAME + 1] = made->forker.words[NAME]; /* two places */
    EXPECT(!learned(lay, &form));
}

/* No port, a port that is closed, one whose name is not its own. */
static void test_wrong_port(const struct layout *lay)
{
    struct port_form form;
    struct port port;
    enum peek_reader r = peek_ready(PEEK_SYSCALL);
    uintptr_t at = (uintptr_t)&made->other;
    uint64_t id = other_id(lay);
    build(lay);
    EXPECT(learned(lay, &form) && port_is_there(r, lay, &form, at, id));
    EXPECT(!port_is_there(r, lay, &form, at, FIRST));
    made->other.words[NAME] = at;
    EXPECT(!reads(lay, &form, &made->other, &port));
    made->other.words[NAME] = at + 4096;
    EXPECT(!reads(lay, &form, &made->other, &port));
    build(lay);
    made->slots[proctab_slot(lay, &form.tab, id)] = at + 8;
    EXPECT(!reads(lay, &form, &made->other, &port) && !port_is_there(r, lay, &form, at, id));
    build(lay);
    made->other.words[LF(lay, id) / 8] = id - 4; /* a pid */
    EXPECT(!reads(lay, &form, &made->other, &port));
    EXPECT(!port_is_there(r, lay, &form, at, id));
    EXPECT(!port_is_there(r, lay, &(struct port_form){.name = 8 * NAME}, at, id));
}

static void test_moved(const struct layout *lay)
{
    enum peek_reader r = peek_ready(PEEK_SYSCALL);
    struct port_form form;
    build(lay);
    EXPECT(learned(lay, &form) && ports_move(r, lay, 0, &form) && form.name == 8 * NAME);
    put_record(lay, 1, 2UL * LIMIT); /* it may have another limit there */
    EXPECT(ports_move(r, lay, sizeof records[0], &form) && form.tab.max == 2UL * LIMIT);
    made->forker.text[3] = 'F';
    EXPECT(!ports_move(r, lay, 0, &form) && form.tab.max == 0 && !ports_move(r, lay, 0, &form));
}

/* The same number, in a table of another size. */
static void test_here(const struct layout *lay)
{
    static const uint64_t sizes[] = {1024, 4096, 65536, 1 << 20};
    struct port_form form = {.name = 8 * NAME};
    for (unsigned i = 0; i < 16; i++) {
        form.tab.max = sizes[i / 4];
        form.slots = sizes[i % 4];
        const struct proctab own = {.max = form.slots};
        for (uint64_t n = 0; n < 300000; n = 3 * n + 1) {
            uint64_t slot = n & (form.tab.max - 1);
            uint64_t id =
                (lay->pid_slot_high ? slot << 32 | n << 4 : proctab_data(form.tab.max, n) << 4) |
                FIRST;
            uint64_t here = port_id_here(lay, &form, id);
            EXPECT(proctab_order(lay, &form.tab, id) == n);
            EXPECT(term_is_local_port(here) && proctab_order(lay, &own, here) == n);
            EXPECT(form.slots != form.tab.max || here == id);
            EXPECT(!lay->pid_slot_high || here >> 32 < form.slots);
        }
    }
}

int main(void)
{
#if defined(__linux__)
    made = aligned_alloc(64, (sizeof *made + 63) / 64 * 64);
    must(made != NULL, "aligned_alloc");
    for (unsigned i = 0; i < layout_count(); i++) {
        running = layout_table(i)->name;
        test_found(layout_table(i));
        test_wrong_table(layout_table(i));
        test_wrong_port(layout_table(i));
        test_moved(layout_table(i));
        test_here(layout_table(i));
    }
    free(made);
#endif
    return complaints > 0;
}
