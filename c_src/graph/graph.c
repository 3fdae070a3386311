#include "graph/graph.h"

#include "util/alloc.h"
#include "util/fill.h"

#include <string.h>

enum stages {
    ALLOCATE,
    CLEAR,
    MAPS,
    TUPLES,
    DICTIONARY,
    OBJECTS,
    DEGREES,
    LINKS,
    ROOTS,
    LEAVES,
    COUNT,
    DONE
};

enum { CLEAR_STEP = 16 }; /* words of bits, in three arrays: see wipe */
enum { DEGREES_ROW = 64 };

/* Places are stored in 32 bits. */
static const uint64_t places_max = UINT32_MAX - NODE_FIRST;

void graph_start(struct graph *g, struct marking *h, uint64_t rows)
{
    memset(g, 0, sizeof *g);
    g->heap = h;
    g->rows = rows;
}

/* The degrees are cleared by rows. */
static size_t rows_of_degrees(const struct graph *g)
{
    return g->objects / DEGREES_ROW + 1;
}

bool graph_end(struct graph *g)
{
    return !(SONDE_DROP(g->head) || SONDE_DROP(g->inner) || SONDE_DROP(g->seen) ||
             SONDE_DROP(g->before) || graph_drop_degrees(g));
}

size_t graph_bytes(const struct graph *g)
{
    size_t n = g->heap->marks.n;
    size_t bytes = g->before ? n * (2 * sizeof *g->head + sizeof *g->before) : 0;
    bytes += g->seen ? n * sizeof *g->seen : 0;
    bytes += g->degree ? rows_of_degrees(g) * DEGREES_ROW : 0;
    return bytes + (g->carried ? g->carried_cap * sizeof *g->carried : 0);
}

/* Finds the last word of bits that has at most n nodes before it. */
uint64_t graph_place(const struct graph *g, uint32_t node)
{
    uint32_t n = node - NODE_FIRST;
    size_t lo = 0;
    size_t hi = g->heap->marks.n;
    assert(node >= NODE_FIRST && node < g->nodes);
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (g->before[mid] <= n)
            lo = mid;
        else
            hi = mid;
    }
    uint64_t left = g->head[lo];
    for (n -= g->before[lo]; n > 0; n--)
        left &= left - 1;
    assert(left != 0);
    return (uint64_t)lo * 64 + (unsigned)__builtin_ctzll(left);
}

/* ---- making --------------------------------------------------------------------------------- */

/* First frees what only marking needed. */
static enum status allocate(struct graph *g)
{
    size_t n = g->heap->marks.n;
    if (graph_places(g) > places_max)
        return ST_TOO_LARGE;
    if (g->heap->stack.list != g->heap->stack.first) {
        parts_end(&g->heap->stack);
        return ST_TIMESLICE;
    }
    marks_drop_grey(&g->heap->marks);
    g->head = sonde_alloc(n * sizeof *g->head + 1);
    g->inner = sonde_alloc(n * sizeof *g->inner + 1);
    g->before = sonde_alloc(n * sizeof *g->before + 1);
    if (g->rows > 0)
        g->seen = sonde_alloc(n * sizeof *g->seen + 1);
    return g->head && g->inner && g->before && (g->rows == 0 || g->seen) ? ST_OK : ST_NOMEM;
}

static enum status clear(struct graph *g, struct budget *b)
{
    for (size_t end = g->heap->marks.n; g->done < end;) {
        size_t n = end - g->done < CLEAR_STEP ? end - g->done : CLEAR_STEP;
        if (!budget_step(b))
            return ST_TIMESLICE;
        memset(g->head + g->done, 0, n * sizeof *g->head);
        memset(g->inner + g->done, 0, n * sizeof *g->inner);
        if (g->seen)
            memset(g->seen + g->done, 0, n * sizeof *g->seen);
        g->done += n;
    }
    return ST_OK;
}

static void set(uint64_t *bits, struct mark k)
{
    bits[k.at] |= k.bit;
}

/* Clears the second bit that marking sets in a ProcBin up to 26, where no object begins. */
static enum status without_second(struct graph *g, const struct vm *vm)
{
    const struct block *block = blocks_find(&g->heap->blocks, g->piece.object, 2);
    if (g->piece.kind != KIND_REFC || !vm->lay->refc_is_term)
        return ST_OK;
    if (!block)
        return ST_TORN;
    struct mark k = marks_of(&g->heap->marks, block, g->piece.object + 8);
    g->heap->marks.black[k.at] &= ~k.bit;
    return ST_OK;
}

/* A node of a hashmap contains further nodes, pairs, which are list cells, or a tuple of pairs if
 * their keys have the same hash. All of them are inner parts of the map. */
static enum status inner_of_map(struct graph *g, const struct vm *vm, const struct link *link)
{
    uint64_t header = 0;
    set(g->inner, link->mark);
    if (!term_is_list(link->word) && !peek_word(vm->reader, link->to, &header))
        return ST_TORN;
    if (!term_is_list(link->word) && vm->lay->kinds[header >> 2 & 15] == KIND_TUPLE)
        g->collisions = true;
    return ST_OK;
}

static enum status inner_of_tuple(struct graph *g, const struct vm *vm, const struct link *link)
{
    (void)vm;
    if (term_is_list(link->word))
        set(g->inner, link->mark);
    return ST_OK;
}

/* Whether the link leads to a part of its object, which is no node if no other link leads to it. inner: the
 * object is an inner part. */
static bool leads_to_part(const struct graph *g, const struct vm *vm, const struct edges *p,
                          bool inner, const struct link *link)
{
    uint64_t header;
    if (bit_test(g->inner, link->mark))
        return true;
    switch (p->kind) {
    case KIND_NONE: /* the next cell of a list, but not the value of a pair */
        return edges_index(p, link->at) == 1 && term_is_list(link->word) && !inner;
    case KIND_MAP: /* the keys */
        return edges_is_flatmap(p) && edges_index(p, link->at) == 2;
    case KIND_FUN:
        return peek_word(vm->reader, link->to, &header) && term_is_header(header) &&
               vm->lay->kinds[header >> 2 & 15] == KIND_FUN_REF;
    default:
        return p->kind == KIND_SUB_BINARY || p->kind == KIND_MATCH;
    }
}

/* *again: other links lead to the object. OK, NOMEM. */
static enum status meet(struct graph *g, struct mark k, bool *again)
{
    uint32_t object = g->before[k.at] + count_bits(g->heap->marks.black[k.at] & (k.bit - 1));
    uint8_t *degree = &g->degree[object];
    *again = *degree != 0;
    if (++*degree < GRAPH_DEGREE_MAX)
        return ST_OK;
    if (g->carried_n == g->carried_cap && !SONDE_GROW(g->carried, g->carried_cap, 64))
        return ST_NOMEM;
    g->carried[g->carried_n++] = (uint32_t)mark_place(k);
    *degree -= GRAPH_CARRY;
    return ST_OK;
}

static enum status head_or_part(struct graph *g, const struct vm *vm, const struct link *link)
{
    bool again;
    bool inner = bit_test(g->inner, place_mark(g->place));
    enum status st = meet(g, link->mark, &again);
    g->linked = true;
    if (again || !leads_to_part(g, vm, &g->piece, inner, link))
        set(g->head, link->mark);
    else if (!term_is_list(link->word) && !bit_test(g->inner, link->mark))
        g->parts++;
    return st;
}

/* Of objects that are no cells and no inner parts. Each of them is a node, but those that are counted as parts. */
static void count_size(struct graph *g)
{
    uint64_t words = g->piece.words;
    if (g->piece.kind != KIND_NONE && !bit_test(g->inner, place_mark(g->place)))
        g->sizes[words <= GRAPH_LEAF_MAX ? words : GRAPH_LEAF_MAX + 1]++;
}

/* A list is no leaf, because a part that is a cell counts as one of a longer list. */
static void keep_leaf(struct graph *g)
{
    if (!g->linked && g->piece.kind != KIND_NONE && g->piece.words <= GRAPH_LEAF_MAX)
        set(g->seen, place_mark(g->place));
}

typedef enum status (*visitor)(struct graph *g, const struct vm *vm, const struct link *link);

/* Whether this stage visits the links of the current object. */
static bool concerns(const struct graph *g)
{
    switch (g->stage) {
    case MAPS:
        return edges_is_map_node(&g->piece);
    case TUPLES:
        return g->piece.kind == KIND_TUPLE && bit_test(g->inner, place_mark(g->place));
    default:
        return true;
    }
}

static enum status enter(struct graph *g, const struct vm *vm)
{
    enum status st = edges_read(g->heap, vm, graph_address(g, g->place), &g->piece);
    if (st != ST_OK || g->piece.words > g->steps)
        return ST_TORN; /* objects overlap */
    g->steps -= g->piece.words;
    if (g->stage == MAPS)
        st = without_second(g, vm);
    if (g->stage == LINKS)
        count_size(g);
    g->linked = false;
    if (!concerns(g))
        g->piece.at = g->piece.to;
    g->entered = st == ST_OK;
    return st;
}

/* Visits all objects in the order of addresses, and all links of each. */
static enum status sweep(struct graph *g, const struct vm *vm, struct budget *b, visitor visit)
{
    for (;;) {
        struct link link;
        enum status st = ST_OK;
        if (!g->entered) {
            st = budget_step(b) ? graph_scan(g, g->heap->marks.black, &g->place, b) : ST_TIMESLICE;
            if (st == ST_OK)
                st = enter(g, vm);
            if (st != ST_OK)
                return st == ST_GONE ? ST_OK : st;
        }
        while ((st = edges_next(g->heap, vm, &g->piece, b, &link)) == ST_OK &&
               (st = visit(g, vm, &link)) == ST_OK) {
        }
        if (st != ST_GONE)
            return st;
        if (g->stage == LINKS && g->rows > 0)
            keep_leaf(g);
        g->entered = false;
        g->place++;
    }
}

/* A slot of the dictionary is a pair, or a list of pairs. */
static enum status pairs(struct graph *g, const struct vm *vm, struct budget *b)
{
    while (g->chain != 0) {
        struct edges p;
        struct link link;
        uintptr_t at = g->chain;
        if (!budget_step(b))
            return ST_TIMESLICE;
        if (g->steps-- == 0 || edges_read(g->heap, vm, at, &p) != ST_OK || p.kind != KIND_NONE)
            return ST_TORN;
        g->chain = 0;
        for (struct budget two = BUDGET(2); edges_next(g->heap, vm, &p, &two, &link) == ST_OK;) {
            set(g->inner, link.mark);
            if (link.at != at)
                g->chain = link.to;
        }
    }
    return ST_OK;
}

static enum status dictionary(struct graph *g, const struct reading *rd)
{
    for (;;) {
        struct link link;
        enum status st = pairs(g, rd->vm, rd->budget);
        if (st != ST_OK)
            return st;
        st = graph_root(g, &g->roots, rd, &link);
        if (st != ST_OK)
            return st == ST_GONE ? ST_OK : st;
        if (g->roots.root != ROOT_DICTIONARY)
            continue;
        set(g->inner, link.mark);
        g->chain = term_is_list(link.word) ? link.to : 0;
    }
}

static enum status roots(struct graph *g, const struct reading *rd)
{
    struct link link;
    enum status st;
    bool again;
    while ((st = graph_root(g, &g->roots, rd, &link)) == ST_OK &&
           (st = meet(g, link.mark, &again)) == ST_OK) {
        set(g->head, link.mark);
        if (g->seen)
            g->seen[link.mark.at] &= ~link.mark.bit;
    }
    return st == ST_GONE ? ST_OK : st;
}

/* At least so many nodes as are wanted have more words than this, so all of them retain more than a leaf that has no
 * more. 0: there is no such number. */
static uint32_t choose_leaves(const struct graph *g)
{
    uint64_t more = 0;
    uint32_t words = GRAPH_LEAF_MAX + 1;
    while (words > 0 && (more < g->parts || more - g->parts < g->rows))
        more += g->sizes[words--];
    return words;
}

/* A leaf of one referrer is a part of it, if it is small. */
static enum status leave_out(struct graph *g, const struct vm *vm, struct mark k)
{
    struct edges p;
    uint32_t object = g->before[k.at] + count_bits(g->heap->marks.black[k.at] & (k.bit - 1));
    if (g->degree[object] != 1)
        return ST_OK;
    enum status st = edges_read(g->heap, vm, graph_address(g, mark_place(k)), &p);
    if (st == ST_OK && p.words <= g->leaf_max)
        g->head[k.at] &= ~k.bit;
    return st;
}

static enum status leaves(struct graph *g, const struct vm *vm, struct budget *b)
{
    g->leaf_max = g->rows > 0 ? choose_leaves(g) : 0;
    for (; g->leaf_max > 0 && g->done < g->heap->marks.n; g->done++) {
        for (uint64_t *left = &g->seen[g->done]; *left != 0; *left &= *left - 1) {
            struct mark k = {g->done, *left & -*left};
            if (!budget_step(b))
                return ST_TIMESLICE;
            enum status st =
                bit_test(g->head, k) && !bit_test(g->inner, k) ? leave_out(g, vm, k) : ST_OK;
            if (st != ST_OK)
                return st;
        }
        if (g->done % CLEAR_STEP == 0 && !budget_step(b))
            return ST_TIMESLICE;
    }
    (void)SONDE_DROP(g->seen);
    return ST_OK;
}

static enum status count(struct graph *g, const uint64_t *bits, uint32_t *sum, struct budget *b)
{
    for (size_t n = g->heap->marks.n; g->done < n; g->done++) {
        if (g->done % CLEAR_STEP == 0 && !budget_step(b))
            return ST_TIMESLICE;
        g->before[g->done] = *sum;
        *sum += count_bits(bits[g->done]);
    }
    return ST_OK;
}

static enum status clear_degrees(struct graph *g, struct budget *b)
{
    if (!g->degree)
        g->degree = sonde_alloc(rows_of_degrees(g) * DEGREES_ROW);
    return g->degree ? wipe(g->degree, DEGREES_ROW, rows_of_degrees(g), &g->done, b) : ST_NOMEM;
}

static enum status count_nodes(struct graph *g, struct budget *b)
{
    enum status st = count(g, g->head, &g->nodes, b);
    g->nodes += st == ST_OK ? NODE_FIRST : 0;
    return st;
}

/* In the order of addresses, in which both objects and nodes are numbered. */
enum status graph_degrees(struct graph *g, uint32_t *degrees, struct budget *b)
{
    const uint64_t *black = g->heap->marks.black;
    for (; g->place < g->heap->marks.n; g->place++) {
        if (!budget_step(b))
            return ST_TIMESLICE;
        uint32_t node = NODE_FIRST + g->before[g->place];
        for (uint64_t left = g->head[g->place]; left != 0; left &= left - 1) {
            uint64_t below = (left & -left) - 1;
            degrees[node++] = g->degree[g->passed + count_bits(black[g->place] & below)];
        }
        g->passed += count_bits(black[g->place]);
    }
    for (; g->done < g->carried_n; g->done++) {
        if (!budget_step(b))
            return ST_TIMESLICE;
        degrees[graph_node(g, place_mark(g->carried[g->done]))] += GRAPH_CARRY;
    }
    return graph_drop_degrees(g) ? ST_TIMESLICE : ST_OK;
}

static enum status make_stage(struct graph *g, const struct reading *rd)
{
    switch (g->stage) {
    case ALLOCATE:
        return allocate(g);
    case CLEAR:
        return clear(g, rd->budget);
    case MAPS:
        return g->heap->has_map_nodes || g->heap->has_seconds
                   ? sweep(g, rd->vm, rd->budget, inner_of_map)
                   : ST_OK;
    case TUPLES:
        return g->collisions ? sweep(g, rd->vm, rd->budget, inner_of_tuple) : ST_OK;
    case DICTIONARY:
        return dictionary(g, rd);
    case OBJECTS:
        return count(g, g->heap->marks.black, &g->objects, rd->budget);
    case DEGREES:
        return clear_degrees(g, rd->budget);
    case LINKS:
        return sweep(g, rd->vm, rd->budget, head_or_part);
    case ROOTS:
        return roots(g, rd);
    case LEAVES:
        return leaves(g, rd->vm, rd->budget);
    default:
        return count_nodes(g, rd->budget);
    }
}

enum status graph_make(struct graph *g, const struct reading *rd)
{
    while (g->stage != DONE) {
        enum status st = make_stage(g, rd);
        if (st != ST_OK)
            return st;
        g->stage++;
        g->place = 0;
        g->done = 0;
        g->steps = g->heap->words;
        roots_start(&g->roots, g->heap->collect.waiting);
    }
    return ST_OK;
}

/* ---- links ---------------------------------------------------------------------------------- */

enum status graph_root(const struct graph *g, struct roots *roots, const struct reading *rd,
                       struct link *link)
{
    uint64_t word;
    enum status st;
    while ((st = roots_next(roots, rd, &word)) == ST_OK) {
        st = edges_link(g->heap, word, link);
        link->at = roots->at - 8;
        /* an object that a root refers to is a node, unless the roots changed since */
        if (st == ST_OK && g->stage == DONE && !bit_test(g->head, link->mark))
            return ST_TORN;
        if (st != ST_GONE)
            return st;
    }
    return st;
}

static enum status enter_part(const struct graph *g, const struct vm *vm, struct inside *in,
                              uintptr_t at, struct mark k)
{
    enum status st = edges_read(g->heap, vm, at, &in->piece);
    in->inner = bit_test(g->inner, k);
    in->cells += in->piece.kind == KIND_NONE && !in->inner;
    in->words += in->piece.words;
    return st;
}

enum status inside_start(const struct graph *g, const struct vm *vm, uint64_t place,
                         struct inside *in)
{
    in->n = 0;
    in->cells = in->words = in->leaf_words = 0;
    in->tells_leaves = false;
    return enter_part(g, vm, in, graph_address(g, place), place_mark(place));
}

/* Returns to the object that contains the finished part. */
static enum status leave_part(const struct graph *g, struct inside *in)
{
    const struct block *block;
    if (in->n == 0)
        return ST_GONE;
    in->piece = in->outer[--in->n];
    block = blocks_find(&g->heap->blocks, in->piece.object, 1);
    in->inner = block && bit_test(g->inner, marks_of(&g->heap->marks, block, in->piece.object));
    return ST_OK;
}

enum status inside_next(const struct graph *g, const struct vm *vm, struct inside *in,
                        struct budget *b, struct link *link)
{
    for (;;) {
        enum status st = edges_next(g->heap, vm, &in->piece, b, link);
        if (st == ST_GONE)
            st = leave_part(g, in);
        else if (st == ST_OK && bit_test(g->head, link->mark))
            return ST_OK;
        else if (st == ST_OK && in->words > g->heap->words)
            return ST_TORN; /* a cycle */
        else if (st == ST_OK) {
            bool leaf = in->tells_leaves && !leads_to_part(g, vm, &in->piece, in->inner, link);
            if (in->piece.at != in->piece.to) {
                if (in->n == INSIDE_MAX)
                    return ST_TORN;
                in->outer[in->n++] = in->piece;
            }
            st = enter_part(g, vm, in, link->to, link->mark);
            in->leaf_words += leaf ? in->piece.words : 0;
        }
        if (st != ST_OK)
            return st;
    }
}
