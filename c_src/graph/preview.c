#include "graph/preview.h"

#include "util/alloc.h"

enum { TOKENS_FIRST = 64, MAP_LEVELS = 24 };

/* Every node of a map contains a pair, so this many words are enough for the first pairs. */
enum { MAP_WORDS = 2 * MAP_LEVELS * PREVIEW_ELEMENTS_MAX };

/* Words of one object, and the next of them to show. */
struct level {
    unsigned n, at;
    uint64_t words[2 * PREVIEW_ELEMENTS_MAX + 1];
};

struct taker {
    struct tokens *ts;
    const struct marking *h;
    const struct vm *vm;
    const struct preview_limits *limits;
    size_t first;
    unsigned n; /* levels */
    struct level levels[PREVIEW_DEPTH_MAX];
};

void preview_end(struct tokens *ts)
{
    sonde_free(ts->list);
    *ts = (struct tokens){NULL, 0, 0};
}

static enum status push(struct tokens *ts, struct token token)
{
    if (ts->n == ts->cap && !SONDE_GROW(ts->list, ts->cap, TOKENS_FIRST))
        return ST_NOMEM;
    ts->list[ts->n++] = token;
    return ST_OK;
}

static bool read(const struct taker *t, uintptr_t at, uint64_t *word)
{
    return peek_word(t->vm->reader, at, word);
}

static bool fits(const struct taker *t, uintptr_t at, uint64_t words)
{
    return marking_may_hold(t->h, t->vm, at, words);
}

static void show(struct level *l, uint64_t word)
{
    if (l->n < sizeof l->words / sizeof *l->words)
        l->words[l->n++] = word;
}

/* ---- containers ----------------------------------------------------------------------------- */

static bool cells(const struct taker *t, uint64_t word, struct token *token, struct level *l)
{
    token->kind = TOKEN_LIST;
    token->n = LIST_GOES_ON;
    while (term_is_list(word) && l->n < t->limits->elements) {
        uint64_t head;
        uintptr_t at = term_pointer(word);
        if (!fits(t, at, 2) || !read(t, at, &head) || !read(t, at + 8, &word))
            return false;
        show(l, head);
    }
    token->shown = (uint8_t)l->n;
    if (term_is_list(word))
        return true;
    token->n = word == TERM_NIL ? LIST_ENDS : LIST_IMPROPER;
    if (token->n == LIST_IMPROPER)
        show(l, word);
    return true;
}

static bool elements(const struct taker *t, uintptr_t at, uint64_t n, struct level *l)
{
    for (uint64_t i = 0; i < n && i < t->limits->elements; i++) {
        uint64_t word;
        if (!read(t, at + i * 8, &word))
            return false;
        show(l, word);
    }
    return true;
}

static bool flatmap(const struct taker *t, uintptr_t at, struct token *token, struct level *l)
{
    uint64_t keys;
    if (!read(t, at + 16, &keys))
        return false;
    for (uint64_t i = 0; i < token->n && i < t->limits->elements; i++) {
        uint64_t key;
        uint64_t value;
        if (!fits(t, term_pointer(keys), i + 2) || !read(t, term_pointer(keys) + 8 + i * 8, &key) ||
            !read(t, at + 24 + i * 8, &value))
            return false;
        show(l, key);
        show(l, value);
    }
    return true;
}

/* The first pairs, from left to right, with a stack of the rests of nodes. */
static bool hashmap(const struct taker *t, const struct object *root, uintptr_t at, struct level *l)
{
    struct part ways[MAP_LEVELS];
    unsigned n = 0;
    unsigned words = 0;
    ways[n++] = (struct part){at + root->first * 8, at + root->words * 8};
    while (n > 0 && l->n < 2 * t->limits->elements) {
        uint64_t word;
        uint64_t pair[2];
        struct object node;
        struct part *way = &ways[n - 1];
        if (way->at == way->to) {
            n--;
            continue;
        }
        if (words++ == MAP_WORDS || !read(t, way->at, &word))
            return false;
        way->at += 8;
        at = term_pointer(word);
        if (term_is_list(word)) {
            if (!fits(t, at, 2) || !read(t, at, &pair[0]) || !read(t, at + 8, &pair[1]))
                return false;
            show(l, pair[0]);
            show(l, pair[1]);
        } else {
            if (n == MAP_LEVELS || !fits(t, at, 1) || !read(t, at, &word) ||
                !term_is_header(word) || !object_read(t->vm->reader, t->vm->lay, at, word, &node) ||
                !fits(t, at, node.words))
                return false;
            ways[n++] = (struct part){at + node.first * 8, at + node.words * 8};
        }
    }
    return true;
}

static bool map(const struct taker *t, const struct object *object, uintptr_t at,
                struct token *token, struct level *l)
{
    token->kind = TOKEN_MAP;
    if (map_type(object->header) == MAP_NODE) { /* only an inner part of a map */
        token->kind = TOKEN_OTHER;
        return true;
    }
    bool ok = read(t, at + 8, &token->n) &&
              (map_type(object->header) == MAP_FLAT ? flatmap(t, at, token, l)
                                                    : hashmap(t, object, at, l));
    token->shown = (uint8_t)(l->n / 2);
    return ok;
}

/* ---- objects --------------------------------------------------------------------------------- */

/* Up to 26 a binary has its size in bytes, and a sub-binary the number of bits after them. */
static bool binary_of_bytes(const struct taker *t, const struct object *object, uintptr_t at,
                            struct token *token)
{
    uint64_t bits = 0;
    if (!read(t, at + 8, &token->n) ||
        (object->kind == KIND_SUB_BINARY && !read(t, at + 24, &bits)))
        return false;
    token->n += (bits & 0xFF) != 0;
    return true;
}

/* From 27 the sizes are bits, and a BinRef is only part of a binary. */
static bool binary_of_bits(const struct taker *t, const struct object *object, uintptr_t at,
                           struct token *token)
{
    uint64_t from = 0;
    uint64_t to;
    if (object->kind == KIND_REFC) {
        token->kind = TOKEN_OTHER;
        return true;
    }
    bool ok = object->kind == KIND_HEAP_BINARY ? read(t, at + 8, &to)
                                               : read(t, at + 16, &from) && read(t, at + 24, &to);
    token->n = ok && to > from ? (to - from + 7) / 8 : 0;
    return ok;
}

static bool binary(const struct taker *t, const struct object *object, uintptr_t at,
                   struct token *token)
{
    token->kind = TOKEN_BINARY;
    return t->vm->lay->refc_is_term ? binary_of_bytes(t, object, at, token)
                                    : binary_of_bits(t, object, at, token);
}

static bool boxed(const struct taker *t, uintptr_t at, struct token *token, struct level *l)
{
    struct object object;
    uint64_t header;
    static const uint8_t plain[] = {[KIND_FUN] = TOKEN_FUN,
                                    [KIND_REF] = TOKEN_REF,
                                    [KIND_EXTERNAL] = TOKEN_EXTERNAL,
                                    [KIND_MATCH] = TOKEN_OTHER,
                                    [KIND_FUN_REF] = TOKEN_OTHER};
    if (!fits(t, at, 1) || !read(t, at, &header) || !term_is_header(header) ||
        !object_read(t->vm->reader, t->vm->lay, at, header, &object) || !fits(t, at, object.words))
        return false;
    token->n = object.words - 1;
    switch (object.kind) {
    case KIND_TUPLE:
        token->kind = TOKEN_TUPLE;
        token->shown = (uint8_t)(token->n < t->limits->elements ? token->n : t->limits->elements);
        return elements(t, at + 8, token->n, l);
    case KIND_MAP:
        return map(t, &object, at, token, l);
    case KIND_FLOAT:
        token->kind = TOKEN_FLOAT;
        return read(t, at + 8, &token->word);
    case KIND_BIGNUM:
        token->kind = TOKEN_BIGNUM;
        token->n *= 8;
        return true;
    case KIND_RECORD:
        token->kind = TOKEN_RECORD;
        return true;
    case KIND_REFC:
    case KIND_HEAP_BINARY:
    case KIND_SUB_BINARY:
        return binary(t, &object, at, token);
    default:
        token->kind = plain[object.kind];
        return true;
    }
}

static enum status one(struct taker *t, uint64_t word)
{
    struct token token = {.kind = TOKEN_WORD, .word = word};
    struct level below = {.n = 0, .at = 0};
    bool ok = true;
    if (term_is_header(word))
        return ST_TORN;
    bool container = !term_is_immediate(word);
    if (container && t->ts->n - t->first >= t->limits->tokens)
        return push(t->ts, (struct token){.kind = TOKEN_CUT});
    if (container)
        ok = term_is_list(word) ? cells(t, word, &token, &below)
                                : boxed(t, term_pointer(word), &token, &below);
    if (!ok)
        return ST_TORN;
    if (below.n > 0 && t->n == t->limits->depth)
        return push(t->ts, (struct token){.kind = TOKEN_CUT});
    if (below.n > 0)
        t->levels[t->n++] = below;
    return push(t->ts, token);
}

/* Depth and elements limit the number of tokens; after limits->tokens of them each further object
 * becomes one token. */
enum status preview_take(struct tokens *ts, const struct marking *h, const struct vm *vm,
                         uint64_t word, const struct preview_limits *limits)
{
    struct taker t = {.ts = ts, .h = h, .vm = vm, .limits = limits, .first = ts->n};
    assert(limits->depth <= PREVIEW_DEPTH_MAX && limits->elements <= PREVIEW_ELEMENTS_MAX);
    enum status st = one(&t, word);
    while (st == ST_OK && t.n > 0) {
        struct level *l = &t.levels[t.n - 1];
        if (l->at == l->n)
            t.n--;
        else
            st = one(&t, l->words[l->at++]);
    }
    return st;
}
