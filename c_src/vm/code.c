#include "vm/code.h"

#include "util/budget.h"
#include "vm/code_lines.h"
#include "vm/executable.h"
#include "vm/term.h"

#include <string.h>

enum { RANGES_MAX = 1 << 22, FUNCTIONS_MAX = 1 << 20, ARITY_MAX = 255 };
/* Words: of a record, and of a range. Bytes: from the start of a function to its names. */
enum { RECORD_WORDS = 4, RANGE_WORDS = 2, NAMES_AT = 16 };
/* Words of a header, before the pointers to functions. */
enum { HEADER_MIN = 8, HEADER_MAX = 40 };

struct range {
    uint64_t start, end;
};

/* ---- the record of one code index -------------------------------------------------------------- */

struct record {
    uint64_t modules, n, allocated, mid;
};

/* The array, how many ranges it has and has room for, and the range that a search begins with. */
static bool is_record(const uint64_t *w, struct record *out)
{
    *out = (struct record){w[0], w[1], w[2], w[3]};
    return out->modules != 0 && (out->modules & 7) == 0 && out->n > 0 && out->n <= out->allocated &&
           out->allocated <= RANGES_MAX && out->mid >= out->modules &&
           out->mid - out->modules < out->n * sizeof(struct range) &&
           (out->mid - out->modules) % sizeof(struct range) == 0;
}

static bool read_record(enum peek_reader r, uintptr_t at, struct record *out)
{
    uint64_t w[RECORD_WORDS];
    return peek_block(r, at, RECORD_WORDS, w) && is_record(w, out);
}

static bool read_range(enum peek_reader r, const struct record *record, uint64_t i,
                       struct range *out)
{
    uint64_t w[RANGE_WORDS];
    if (!peek_block(r, record->modules + i * sizeof *out, RANGE_WORDS, w))
        return false;
    *out = (struct range){w[0], w[1]};
    return true;
}

/* Ends, because the part of the array that is left becomes smaller. */
static enum code_found find_range(enum peek_reader r, const struct record *record, uint64_t pc,
                                  struct range *out)
{
    uint64_t from = 0;
    uint64_t to = record->n;
    while (from < to) {
        uint64_t mid = from + (to - from) / 2;
        if (!read_range(r, record, mid, out))
            return CODE_UNREAD;
        if (pc < out->start)
            to = mid;
        else if (pc >= out->end)
            from = mid + 1;
        else
            return CODE_FOUND;
    }
    return CODE_NONE;
}

/* ---- the functions of one module ----------------------------------------------------------------- */

static bool read_pointer(enum peek_reader r, const struct range *range, unsigned functions,
                         uint64_t i, uint64_t *out)
{
    uint64_t at = range->start + 8 * (functions + i);
    return at + 8 <= range->end && peek_word(r, at, out) && *out > range->start &&
           *out <= range->end;
}

static bool read_names(enum peek_reader r, uint64_t function, struct mfa *out)
{
    uint64_t w[3];
    if (!peek_block(r, function + NAMES_AT, 3, w))
        return false;
    *out = (struct mfa){w[0], w[1], w[2]};
    return term_is_atom(w[0]) && term_is_atom(w[1]) && w[2] <= ARITY_MAX;
}

static bool count_functions(enum peek_reader r, const struct range *range, uint64_t *n)
{
    return peek_word(r, range->start, n) && *n > 0 && *n <= FUNCTIONS_MAX;
}

/* `*i': which function of the module it is. Ends as find_range does. */
static enum code_found find_function(enum peek_reader r, const struct range *range,
                                     unsigned functions, uint64_t pc, struct mfa *out, uint64_t *i)
{
    uint64_t from = 0;
    uint64_t to;
    if (!count_functions(r, range, &to))
        return CODE_UNREAD;
    while (from < to) {
        uint64_t mid = from + (to - from) / 2;
        uint64_t start;
        uint64_t end;
        if (!read_pointer(r, range, functions, mid, &start) ||
            !read_pointer(r, range, functions, mid + 1, &end))
            return CODE_UNREAD;
        if (pc < start)
            to = mid;
        else if (pc >= end)
            from = mid + 1;
        else {
            *i = mid;
            return read_names(r, start, out) ? CODE_FOUND : CODE_UNREAD;
        }
    }
    return CODE_NONE;
}

/* Of the i-th function of the module. */
static unsigned find_line(enum peek_reader r, const struct range *range, const struct code *code,
                          uint64_t i, uint64_t pc)
{
    const struct block block = {(uintptr_t)range->start, (uintptr_t)range->end};
    uint64_t table;
    return code->lines != 0 && peek_word(r, block.from + 8UL * code->lines, &table)
               ? code_line(r, &block, table, i, pc)
               : 0;
}

/* A module may be loaded or purged meanwhile: the answer counts if its record and its range are the same
 * before and after. Records of other indexes may list code that is gone. But its header is read, too, and what
 * is there now is either the header of other code or nothing that looks like one. */
static enum code_found find_in(enum peek_reader r, uintptr_t at, const struct code *code,
                               uint64_t pc, struct mfa *out, unsigned *line)
{
    uint64_t w[RECORD_WORDS];
    struct record before;
    struct record after;
    struct range range;
    struct range again;
    uint64_t i;
    if (!peek_block(r, at, RECORD_WORDS, w))
        return CODE_UNREAD;
    if (!is_record(w, &before))
        return CODE_NONE;
    enum code_found found = find_range(r, &before, pc, &range);
    if (found == CODE_FOUND)
        found = find_function(r, &range, code->functions, pc, out, &i);
    if (found != CODE_FOUND)
        return found;
    if (line)
        *line = find_line(r, &range, code, i, pc);
    peek_barrier();
    return read_record(r, at, &after) && after.modules == before.modules && after.n == before.n &&
                   find_range(r, &after, pc, &again) == CODE_FOUND && again.start == range.start &&
                   again.end == range.end
               ? CODE_FOUND
               : CODE_UNREAD;
}

enum code_found code_look(enum peek_reader r, const struct code *code, uint64_t pc, struct mfa *out,
                          unsigned *line)
{
    enum code_found found = CODE_NONE;
    for (unsigned i = 0; i < code->n && found != CODE_FOUND; i++) {
        enum code_found here = find_in(r, code->ranges[i], code, pc, out, line);
        found = here == CODE_NONE ? found : here;
    }
    return found;
}

bool code_find_line(enum peek_reader r, const struct code *code, uint64_t pc, struct mfa *out,
                    unsigned *line)
{
    return code_look(r, code, pc, out, line) == CODE_FOUND;
}

bool code_find(enum peek_reader r, const struct code *code, uint64_t pc, struct mfa *out)
{
    return code_find_line(r, code, pc, out, NULL);
}

/* ---- all modules ----------------------------------------------------------------------------------- */

static void read_module(enum peek_reader r, const struct range *range, unsigned functions,
                        struct code_module *out)
{
    struct mfa first;
    struct block block;
    *out = (struct code_module){{(uintptr_t)range->start, (uintptr_t)range->end}, functions, 0, 0};
    if (!count_functions(r, range, &out->n) || !code_function(r, out, 0, &first, &block))
        out->n = 0;
    else
        out->name = first.module;
}

bool code_next(enum peek_reader r, const struct code *code, struct code_cursor *at,
               struct code_module *out)
{
    for (; at->record < code->n; at->record++, at->i = 0) {
        uint64_t w[RECORD_WORDS];
        struct record record = {0};
        struct range range;
        bool has_more = false;
        if (!peek_block(r, code->ranges[at->record], RECORD_WORDS, w))
            at->unread = true;
        else
            has_more = is_record(w, &record) && at->i < record.n;
        if (has_more && !read_range(r, &record, at->i, &range)) {
            at->unread = true;
            has_more = false;
        }
        if (has_more) {
            at->i++;
            read_module(r, &range, code->functions, out);
            return true;
        }
    }
    return false;
}

bool code_function(enum peek_reader r, const struct code_module *m, uint64_t i, struct mfa *names,
                   struct block *out)
{
    const struct range range = {m->range.from, m->range.to};
    uint64_t start;
    uint64_t end;
    if (i >= m->n || !read_pointer(r, &range, m->functions, i, &start) ||
        !read_pointer(r, &range, m->functions, i + 1, &end) || end <= start)
        return false;
    *out = (struct block){(uintptr_t)start, (uintptr_t)end};
    return read_names(r, start, names);
}

/* ---- learning -------------------------------------------------------------------------------------- */

/* Whether as many pointers as there are functions, and one more, ascend from that word on. */
static bool ascends(enum peek_reader r, const struct range *range, unsigned functions)
{
    uint64_t n;
    uint64_t last = range->start;
    if (!count_functions(r, range, &n))
        return false;
    for (uint64_t i = 0; i <= n; i++) {
        uint64_t next;
        if (!read_pointer(r, range, functions, i, &next) || next <= last)
            return false;
        last = next;
    }
    return true;
}

struct search {
    enum peek_reader reader;
    uint64_t pc;
    const struct mfa *known;
    struct code *out;
    bool several; /* records that disagree, or too many */
};

static unsigned learn_functions(const struct search *s, const struct range *range)
{
    struct mfa found;
    uint64_t which;
    for (unsigned i = HEADER_MIN; i < HEADER_MAX; i++) {
        if (ascends(s->reader, range, i) &&
            find_function(s->reader, range, i, s->pc, &found, &which) == CODE_FOUND &&
            memcmp(&found, s->known, sizeof found) == 0)
            return i;
    }
    return 0;
}

static void try_record(struct search *s, uintptr_t at, const struct record *record)
{
    struct range range;
    struct code *out = s->out;
    if (find_range(s->reader, record, s->pc, &range) != CODE_FOUND)
        return;
    unsigned functions = learn_functions(s, &range);
    if (functions == 0)
        return;
    if (out->n == CODE_INDEXES || (out->n > 0 && out->functions != functions)) {
        s->several = true;
        return;
    }
    out->functions = functions;
    out->ranges[out->n++] = at;
}

static void try_words(void *arg, uintptr_t at, const uint64_t *words)
{
    struct record record;
    if (is_record(words, &record))
        try_record(arg, at, &record);
}

bool code_learn(enum peek_reader r, uint64_t pc, const struct mfa *known, struct code *out)
{
    struct search s = {.reader = r, .pc = pc, .known = known, .out = out};
    *out = (struct code){0};
    executable_search(r, RECORD_WORDS, try_words, &s);
    if (s.several)
        out->n = 0;
    return out->n > 0;
}

static bool lines_are_right(enum peek_reader r, const struct code *code,
                            const struct known_line *known, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct mfa mfa;
        unsigned line;
        if (!code_find_line(r, code, known[i].pc, &mfa, &line) || line != known[i].line)
            return false;
    }
    return n > 0;
}

bool code_learn_lines(enum peek_reader r, const struct known_line *known, unsigned n,
                      struct code *code)
{
    struct code tried = *code;
    unsigned hits = 0;
    for (tried.lines = 1; tried.lines < code->functions; tried.lines++) {
        if (lines_are_right(r, &tried, known, n)) {
            code->lines = tried.lines;
            hits++;
        }
    }
    if (hits != 1)
        code->lines = 0;
    return hits == 1;
}
