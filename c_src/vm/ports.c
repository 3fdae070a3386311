#include "vm/ports.h"

#include <string.h>

#include "vm/executable.h"

/* A port, its locks and its name are one piece of memory, the name at the end. */
enum { PORT_BYTES = 4096, PORT_WORDS = 64 };

/* The VM starts other programs by a port that is the first it opens, and that it never closes. */
static const char first_name[] = "forker";
enum { FIRST_PORT = 7 };

/* ---- one port ----------------------------------------------------------------------------------------- */

bool port_is_there(enum peek_reader r, const struct layout *lay, const struct port_form *form,
                   uintptr_t at, uint64_t id)
{
    uint64_t word;
    uint64_t there;
    return form->tab.max != 0 && term_is_local_port(id) && at % 8 == 0 &&
           peek_word(r, form->tab.tab + proctab_slot(lay, &form->tab, id) * 8, &there) &&
           there == at && peek_word(r, at + LF(lay, id), &word) && word == id;
}

/* `from': what the port has as the pointer to it. */
static bool read_name(enum peek_reader r, uintptr_t at, uint64_t from, struct port *out)
{
    uint64_t word = 0;
    if (from <= at || from - at >= PORT_BYTES)
        return false;
    for (out->n = 0; out->n < PORT_NAME_MAX; out->n++) {
        uintptr_t byte = (uintptr_t)from + out->n;
        if ((out->n == 0 || byte % 8 == 0) && !peek_word(r, byte & ~(uintptr_t)7, &word))
            return false;
        out->name[out->n] = (unsigned char)(word >> (byte % 8 * 8));
        if (out->name[out->n] == 0)
            break;
    }
    return true;
}

bool port_read(enum peek_reader r, const struct layout *lay, const struct port_form *form,
               uintptr_t at, struct port *out)
{
    uint64_t name;
    return peek_word(r, at + LF(lay, id), &out->id) && port_is_there(r, lay, form, at, out->id) &&
           peek_word(r, at + form->name, &name) && read_name(r, at, name, out);
}

/* From OTP 26 on, the VM computes the number from the id, by the size of its table; before, both are in the id. */
uint64_t port_id_here(const struct layout *lay, const struct port_form *form, uint64_t id)
{
    uint64_t n = proctab_order(lay, &form->tab, id);
    if (lay->pid_slot_high)
        return (id >> 32 & (form->slots - 1)) << 32 | n << 4 | FIRST_PORT;
    return proctab_data(form->slots, n) << 4 | FIRST_PORT;
}

/* ---- learning ----------------------------------------------------------------------------------------- */

static bool has_first_name(const struct port *port)
{
    return port->n == sizeof first_name - 1 && memcmp(port->name, first_name, port->n) == 0;
}

/* Of the only word of that port that points to its name; 0: none, or several. */
static uint16_t find_name(enum peek_reader r, uintptr_t at)
{
    unsigned hits = 0;
    unsigned found = 0;
    for (unsigned i = 0; i < PORT_WORDS; i++) {
        uint64_t name;
        struct port port;
        if (peek_word(r, at + 8UL * i, &name) && read_name(r, at, name, &port) &&
            has_first_name(&port)) {
            found = 8 * i;
            hits++;
        }
    }
    return hits == 1 ? (uint16_t)found : 0;
}

/* Where the first port is by that table; 0: it does not have it. */
static uintptr_t first_port(enum peek_reader r, const struct layout *lay,
                            const struct port_form *form)
{
    uint64_t at;
    return peek_word(r, form->tab.tab + proctab_slot(lay, &form->tab, FIRST_PORT) * 8, &at) &&
                   port_is_there(r, lay, form, (uintptr_t)at, FIRST_PORT)
               ? (uintptr_t)at
               : 0;
}

static bool read_record(enum peek_reader r, const struct layout *lay, uintptr_t record,
                        struct port_form *out)
{
    return proctab_record(r, lay, record, &out->tab) && out->tab.max != 0 &&
           (out->tab.max & (out->tab.max - 1)) == 0;
}

struct search {
    enum peek_reader r;
    const struct layout *lay;
    uint64_t limit;
    unsigned hits;
    struct port_form found;
};

static void try_words(void *arg, uintptr_t record, const uint64_t *words)
{
    struct search *s = arg;
    struct port_form form;
    if (record % PROCTAB_RECORD_ALIGN != 0 ||
        (uint32_t)words[LF(s->lay, ptab_max) / 8] != s->limit ||
        !read_record(s->r, s->lay, record, &form) || form.tab.max != s->limit)
        return;
    uintptr_t at = first_port(s->r, s->lay, &form);
    form.name = at == 0 ? 0 : find_name(s->r, at);
    if (form.name != 0) {
        s->found = form;
        s->hits++;
    }
}

bool ports_learn(enum peek_reader r, const struct layout *lay, uint64_t limit,
                 struct port_form *out)
{
    struct search s = {.r = r, .lay = lay, .limit = proctab_slots(limit)};
    *out = (struct port_form){.name = 0};
    executable_search(r, LF(lay, ptab_max) / 8U + 1, try_words, &s);
    if (s.hits == 1) {
        *out = s.found;
        out->slots = out->tab.max;
    }
    return s.hits == 1;
}

bool ports_move(enum peek_reader r, const struct layout *lay, uintptr_t shift,
                struct port_form *form)
{
    struct port port;
    bool ok = form->tab.max != 0 && read_record(r, lay, form->tab.record + shift, form);
    uintptr_t at = ok ? first_port(r, lay, form) : 0;
    ok = at != 0 && port_read(r, lay, form, at, &port) && has_first_name(&port);
    if (!ok)
        *form = (struct port_form){.name = 0};
    return ok;
}
