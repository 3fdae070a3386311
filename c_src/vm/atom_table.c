#include "vm/atom_table.h"

#include "util/budget.h"
#include "vm/executable.h"
#include "vm/term.h"

#include <string.h>

enum { PAGE_BITS = 10, PAGE_ATOMS = 1 << PAGE_BITS, ATOMS_MAX = 1 << 26 };

/* The last three words of a record: 32 bits each of the type of its memory, atoms that there is room for,
 * the limit, atoms that there are; and the pages. */
enum { RECORD_WORDS = 3 };

/* An atom: words from its start. */
enum { ATOM_INDEX = 2, ATOM_LENGTH, ATOM_TEXT, ATOM_WORDS };

/* A text that is a term, in words: bytes in the binary itself, or bits of another one. */
enum { HEAP_BITS = 0x20, SUB_BITS = 0x124, HEAP_TEXT = 2, SUB_BASE = 1, SUB_START = 2 };

struct record {
    uint32_t room, limit, n;
    uint64_t pages;
};

static bool is_record(const uint64_t *w, struct record *out)
{
    *out = (struct record){(uint32_t)(w[0] >> 32), (uint32_t)w[1], (uint32_t)(w[1] >> 32), w[2]};
    return out->n > 0 && out->n <= out->room && out->room <= out->limit &&
           out->limit <= ATOMS_MAX && out->room % PAGE_ATOMS == 0 &&
           out->room - out->n < PAGE_ATOMS && out->pages != 0 && (out->pages & 7) == 0;
}

/* Any address: reads the words that contain the bytes. */
static bool read_bytes(enum peek_reader r, uint64_t at, struct atom_text *out)
{
    uint64_t words[ATOM_TEXT_MAX / 8 + 2];
    uint64_t before = at & 7;
    if (!peek_block(r, at - before, (before + out->n + 7) / 8, words))
        return false;
    memcpy(out->bytes, (const unsigned char *)words + before, out->n);
    return true;
}

/* Where the bytes of a text are that is a term; 0: it is none. */
static uint64_t find_bytes(enum peek_reader r, uint64_t term)
{
    uint64_t at = term_pointer(term);
    uint64_t w[3];
    if ((term & 3) != TAG_BOXED || !peek_block(r, at, 3, w))
        return 0;
    if ((w[0] & 0x3F) == HEAP_BITS)
        return at + 8UL * HEAP_TEXT;
    if (w[0] == SUB_BITS)
        return (w[SUB_BASE] & ~(uint64_t)3) + w[SUB_START] / 8;
    return 0;
}

static bool read_text(enum peek_reader r, bool is_term, const uint64_t *atom, struct atom_text *out)
{
    out->n = (unsigned)(atom[ATOM_LENGTH] & 0xFFFF);
    if (out->n > ATOM_TEXT_MAX)
        return false;
    uint64_t at = is_term ? find_bytes(r, atom[ATOM_TEXT]) : atom[ATOM_TEXT];
    return at != 0 && (out->n == 0 || read_bytes(r, at, out));
}

bool atom_table_text(enum peek_reader r, const struct atom_table *t, uint64_t word,
                     struct atom_text *out)
{
    uint64_t w[RECORD_WORDS];
    uint64_t atom[ATOM_WORDS];
    uint64_t page;
    uint64_t at;
    struct record record;
    uint64_t i = word >> 6;
    return term_is_atom(word) && t->record != 0 && peek_block(r, t->record, RECORD_WORDS, w) &&
           is_record(w, &record) && i < record.n &&
           peek_word(r, record.pages + 8 * (i >> PAGE_BITS), &page) &&
           peek_word(r, page + 8 * (i & (PAGE_ATOMS - 1)), &at) &&
           peek_block(r, at, ATOM_WORDS, atom) && (uint32_t)atom[ATOM_INDEX] == i &&
           read_text(r, t->is_term, atom, out);
}

/* ---- learning -------------------------------------------------------------------------------------- */

struct search {
    enum peek_reader reader;
    const struct known_atom *known;
    unsigned n, hits;
    struct atom_table found;
};

static bool has_all(const struct search *s, const struct atom_table *t)
{
    struct atom_text text;
    for (unsigned i = 0; i < s->n; i++) {
        const struct known_atom *k = &s->known[i];
        if (!atom_table_text(s->reader, t, k->word, &text) || text.n != k->n ||
            memcmp(text.bytes, k->bytes, k->n) != 0)
            return false;
    }
    return s->n > 0;
}

static void try_record(struct search *s, uintptr_t at)
{
    for (unsigned is_term = 0; is_term < 2; is_term++) {
        struct atom_table t = {at, is_term != 0};
        if (has_all(s, &t)) {
            s->found = t;
            s->hits++;
        }
    }
}

static void try_words(void *arg, uintptr_t at, const uint64_t *words)
{
    struct record record;
    if (is_record(words, &record))
        try_record(arg, at);
}

bool atom_table_learn(enum peek_reader r, const struct known_atom *known, unsigned n,
                      struct atom_table *out)
{
    struct search s = {.reader = r, .known = known, .n = n};
    executable_search(r, RECORD_WORDS, try_words, &s);
    *out = s.hits == 1 ? s.found : (struct atom_table){0};
    return s.hits == 1;
}
