#include "vm/identity.h"

#include "vm/term.h"

#include <string.h>

enum { ARITY_MAX = 255, MFA_WORDS = 3, ENTRY_WORDS = 5, ENTRY_BEFORE = 16 };

static bool is_mfa(const uint64_t *w)
{
    return term_is_atom(w[0]) && term_is_atom(w[1]) && w[2] <= ARITY_MAX;
}

bool identity_mfa(enum peek_reader r, uint64_t at, struct mfa *out)
{
    uint64_t w[MFA_WORDS];
    if (!peek_block(r, at, MFA_WORDS, w))
        return false;
    *out = (struct mfa){w[0], w[1], w[2]};
    return is_mfa(w);
}

static uint64_t name_of(uintptr_t proc, uint64_t owner, uint64_t name)
{
    return owner == proc && term_is_atom(name) ? name : 0;
}

/* An entry that was freed belongs to no process, or to another one. */
bool identity_name(enum peek_reader r, const struct identity_form *form, uintptr_t proc,
                   uint64_t *name)
{
    uint64_t entry;
    uint64_t owner;
    *name = 0;
    if (!peek_word(r, proc + form->entry, &entry))
        return false;
    if (entry == 0)
        return true;
    if (!peek_word(r, entry + form->name, name) || !peek_word(r, entry + form->owner, &owner)) {
        *name = 0;
        return false;
    }
    *name = name_of(proc, owner, *name);
    return true;
}

/* false: there is one, which is not readable. */
static bool read_current(enum peek_reader r, const struct identity_form *form, uintptr_t proc,
                         struct mfa *out)
{
    uint64_t at;
    uint64_t w[MFA_WORDS];
    *out = (struct mfa){0};
    if (!peek_word(r, proc + form->current, &at))
        return false;
    if (at == 0)
        return true;
    if (!peek_block(r, at, MFA_WORDS, w))
        return false;
    if (is_mfa(w))
        *out = (struct mfa){w[0], w[1], w[2]};
    return true;
}

bool identity_read_place(enum peek_reader r, const struct identity_form *form, uintptr_t proc,
                         struct identity *out)
{
    *out = (struct identity){.name = 0};
    if (!form->has_place || !identity_mfa(r, proc + form->call, &out->call))
        return false;
    out->current_unread = !read_current(r, form, proc, &out->current);
    return true;
}

bool identity_read(enum peek_reader r, const struct identity_form *form, uintptr_t proc,
                   struct identity *out)
{
    if (!form->is_known || !identity_read_place(r, form, proc, out))
        return false;
    out->name_unread = !identity_name(r, form, proc, &out->name);
    return true;
}

/* ---- learning -------------------------------------------------------------------------------------- */

typedef bool is_right(enum peek_reader r, const struct known_process *known,
                      struct identity_form *form);

static bool is_same(const struct mfa *a, const struct mfa *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static bool call_is_right(enum peek_reader r, const struct known_process *known,
                          struct identity_form *form)
{
    struct mfa mfa;
    return identity_mfa(r, known->proc + form->call, &mfa) && is_same(&mfa, &known->who.call);
}

static bool current_is_right(enum peek_reader r, const struct known_process *known,
                             struct identity_form *form)
{
    if (known->who.current.module == 0)
        return true;
    struct mfa mfa;
    return read_current(r, form, known->proc, &mfa) && is_same(&mfa, &known->who.current);
}

/* The first registered process shows where its entry has what. */
static bool find_in_entry(enum peek_reader r, uint64_t entry, const struct known_process *known,
                          struct identity_form *form)
{
    uint64_t w[ENTRY_WORDS];
    unsigned name = 0;
    unsigned owner = 0;
    if (!peek_block(r, entry, ENTRY_WORDS, w))
        return false;
    for (unsigned i = 1; i < ENTRY_WORDS; i++) {
        name = w[i] == known->who.name ? i : name;
        owner = w[i] == known->proc ? i : owner;
    }
    form->name = (uint16_t)(8 * name);
    form->owner = (uint16_t)(8 * owner);
    return name != 0 && owner != 0;
}

static bool name_is_right(enum peek_reader r, const struct known_process *known,
                          struct identity_form *form)
{
    uint64_t entry;
    if (!peek_word(r, known->proc + form->entry, &entry))
        return false;
    if (known->who.name == 0)
        return entry == 0;
    if (form->name == 0 && !find_in_entry(r, entry, known, form))
        return false;
    uint64_t name;
    return identity_name(r, form, known->proc, &name) && name == known->who.name;
}

/* Whether exactly one place of a Process, up to `end', is right for all of them. */
static bool learn(enum peek_reader r, const struct known_process *known, unsigned n, unsigned end,
                  is_right *right, uint16_t *at, struct identity_form *form)
{
    struct identity_form found = *form;
    unsigned hits = 0;
    for (unsigned offset = 0; offset + 8 <= end; offset += 8) {
        unsigned i = 0;
        struct identity_form before = *form;
        *at = (uint16_t)offset;
        while (i < n && right(r, &known[i], form))
            i++;
        if (i == n && n > 0) {
            found = *form;
            hits++;
        }
        *form = before;
    }
    *form = found;
    return hits == 1;
}

bool identity_learn_place(enum peek_reader r, const struct layout *lay,
                          const struct known_process *known, unsigned n, struct identity_form *out)
{
    unsigned size = LF(lay, proc_size);
    *out = (struct identity_form){.call = 0};
    out->has_place =
        learn(r, known, n, size - 8U * (MFA_WORDS - 1), call_is_right, &out->call, out) &&
        learn(r, known, n, size, current_is_right, &out->current, out);
    return out->has_place;
}

bool identity_learn(enum peek_reader r, const struct layout *lay, const struct known_process *known,
                    unsigned n, struct identity_form *out)
{
    out->is_known = identity_learn_place(r, lay, known, n, out) &&
                    learn(r, known, n, LF(lay, proc_size), name_is_right, &out->entry, out);
    return out->is_known;
}
