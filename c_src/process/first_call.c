#include "process/first_call.h"

#include "vm/term.h"

#include <string.h>

enum { PAIRS_MAX = BOUND(512, 8), ARITY_MAX = 255 };
enum { PAIR_WORDS = 3, CALL_WORDS = 4, SMALL_SHIFT = 4 };

static const char name[] = "$initial_call";

struct search {
    const struct reading *rd;
    unsigned left; /* slots, and pairs in a list, that it may still look at */
    bool unclear;  /* something was there that it could not read */
    bool unread;   /* because its memory, or the text of an atom, is not readable */
    uint64_t *key;
    struct mfa *out;
};

const enum layout_field first_call_fields[] = {
    LF_dictionary, LF_trace_flags, LF_heap, LF_htop, LF_old_heap, LF_old_htop, LAYOUT_FIELD_COUNT};

void first_call_plan(struct plan *plan, const struct layout *lay)
{
    plan_make(plan, lay, STATE_UNSETTLED, LOCK_MAIN, first_call_fields);
}

/* An object of the process itself; one among the literals or in a fragment is not looked at. */
static bool read_words(struct search *s, uint64_t term, unsigned n, uint64_t *out)
{
    const struct reading *rd = s->rd;
    const struct block young = {stamp_word(rd, LF_heap), stamp_word(rd, LF_htop)};
    const struct block old = {stamp_word(rd, LF_old_heap), stamp_word(rd, LF_old_htop)};
    uintptr_t at = term_pointer(term);
    if (!block_holds(&young, at, n) && !block_holds(&old, at, n))
        return false;
    bool ok = peek_block(rd->vm->reader, at, n, out);
    s->unread = s->unread || !ok;
    return ok;
}

static bool read_tuple(struct search *s, uint64_t term, unsigned words, uint64_t *out)
{
    return (term & 3) == TAG_BOXED && read_words(s, term, words, out) &&
           out[0] == (uint64_t)(words - 1) << 6;
}

/* Of gen_event and others, proc_lib has the call as a constant. Where those of another OS process are is not known,
 * but while a process stands still all its terms are there. */
static bool read_constant(struct search *s, uint64_t term, uint64_t *out)
{
    const struct vm *vm = s->rd->vm;
    uintptr_t at = term_pointer(term);
    if ((term & 3) != TAG_BOXED ||
        (vm->reader != PEEK_OTHER && !block_holds(&vm->literals, at, CALL_WORDS)))
        return false;
    bool ok = peek_block(vm->reader, at, CALL_WORDS, out);
    s->unread = s->unread || !ok;
    return ok && out[0] == (CALL_WORDS - 1) << 6;
}

static bool is_key(struct search *s, uint64_t word)
{
    struct atom_text text;
    if (*s->key != 0)
        return word == *s->key;
    if (!term_is_atom(word))
        return false;
    if (!atom_table_text(s->rd->vm->reader, &s->rd->vm->atoms, word, &text)) {
        s->unclear = s->unread = true;
        return false;
    }
    if (text.n != sizeof name - 1 || memcmp(text.bytes, name, text.n) != 0)
        return false;
    *s->key = word;
    return true;
}

/* true: it is the key. Then its value is in s->out, unless that is unclear. */
static bool read_pair(struct search *s, uint64_t term)
{
    uint64_t pair[PAIR_WORDS];
    uint64_t w[CALL_WORDS];
    if (!read_tuple(s, term, PAIR_WORDS, pair)) {
        s->unclear = true;
        return false;
    }
    if (!is_key(s, pair[1]))
        return false;
    if ((read_tuple(s, pair[2], CALL_WORDS, w) || read_constant(s, pair[2], w)) &&
        term_is_atom(w[1]) && term_is_atom(w[2]) && term_is_small(w[3]) &&
        w[3] >> SMALL_SHIFT <= ARITY_MAX) {
        *s->out = (struct mfa){w[1], w[2], w[3] >> SMALL_SHIFT};
        s->unclear = false;
    } else
        s->unclear = true;
    return true;
}

/* A slot has a pair, or a list of pairs; nil: it is empty. */
static bool read_slot(struct search *s, uint64_t term)
{
    for (; s->left > 0 && term_is_list(term); s->left--) {
        uint64_t cell[2];
        if (!read_words(s, term, 2, cell)) {
            s->unclear = true;
            return false;
        }
        if (read_pair(s, cell[0]))
            return true;
        term = cell[1];
    }
    return term != TERM_NIL && read_pair(s, term);
}

static void read_dictionary(struct search *s)
{
    const struct vm *vm = s->rd->vm;
    uintptr_t dict = (uintptr_t)stamp_word(s->rd, LF_dictionary);
    uintptr_t used = dict + LF(vm->lay, dict_used);
    uint64_t word;
    if (dict == 0)
        return;
    s->unclear = s->unread = !peek_word(vm->reader, used & ~(uintptr_t)7, &word);
    uint64_t n = s->unclear ? 0 : layout_narrow(word, (unsigned)(used & 7), 4);
    for (uint64_t i = 0; i < n && s->left > 0; i++) {
        s->left--;
        if (!peek_word(vm->reader, dict + LF(vm->lay, dict_head) + 8 * i, &word))
            s->unclear = s->unread = true;
        else if (read_slot(s, word))
            return;
    }
    s->unclear = s->unclear || s->left == 0;
}

static enum status find(const struct reading *rd, uint64_t *key, struct mfa *out, bool *unread)
{
    struct search s = {rd, PAIRS_MAX, false, false, key, out};
    *out = (struct mfa){0};
    *unread = false;
    if (stamp_is_sensitive(rd))
        return ST_ASK;
    read_dictionary(&s);
    if (rd->budget)
        budget_charge(rd->budget, PAIRS_MAX - s.left);
    *unread = s.unclear && s.unread;
    return s.unclear ? ST_ASK : ST_OK;
}

enum status first_call_find(const struct reading *rd, uint64_t *key, struct mfa *out)
{
    bool unread;
    return find(rd, key, out, &unread);
}

enum status first_call_read(const struct vm *vm, const struct plan *plan, size_t slot,
                            uintptr_t proc, uint64_t *key, struct mfa *out)
{
    struct view view;
    const struct reading rd = {vm, plan, &view, NULL};
    enum status st = stamp_open(vm, plan, slot, proc, &view);
    if (st != ST_OK)
        return st;
    bool unread;
    bool found = find(&rd, key, out, &unread) == ST_OK && out->module != 0;
    peek_barrier();
    st = stamp_close(&rd);
    return st == ST_OK && !found ? (unread ? ST_TORN : ST_ASK) : st;
}
