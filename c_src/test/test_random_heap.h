/* test_random_heap.h: heaps of random objects.
 * Knows: which object leads to which, because it built them.
 * Does not know: what is tested. */
#ifndef SONDE_TEST_RANDOM_HEAP_H
#define SONDE_TEST_RANDOM_HEAP_H

#include "test/test_graph.h"

enum { OBJECTS = 400, CHILDREN = 8, ROOTS = 6 };

/* The objects of a heap and their links. Objects lead only to earlier ones. */
struct made {
    unsigned n;
    unsigned words[OBJECTS];
    uintptr_t at[OBJECTS];
    uint64_t term[OBJECTS];
    unsigned children_n[OBJECTS];
    unsigned children[OBJECTS][CHILDREN];
    unsigned roots[ROOTS];
};

struct builder {
    struct world *w;
    char *process;
    struct made *m;
};

static inline uintptr_t take_words(const struct builder *b, unsigned words)
{
    uint64_t top = get(b->w, b->process, LF_htop);
    put(b->w, b->process, LF_htop, top + (uint64_t)words * 8);
    return top;
}

static inline uint64_t child(const struct builder *b, unsigned of, unsigned which)
{
    struct made *m = b->m;
    m->children[of][m->children_n[of]++] = which;
    return m->term[which];
}

/* An earlier object, usually a recent one, or a small integer. */
static inline uint64_t any(const struct builder *b, unsigned i)
{
    if (i == 0 || draw(4) == 0)
        return small(i);
    return child(b, i, draw(3) == 0 ? draw(i) : i - 1 - draw(i < 6 ? i : 6));
}

static inline void add_object(const struct builder *b, unsigned words, uint64_t header,
                              unsigned first)
{
    struct made *m = b->m;
    unsigned i = m->n;
    uintptr_t at = take_words(b, words);
    m->children_n[i] = 0;
    m->words[i] = words;
    m->at[i] = at;
    m->term[i] = at | (header ? TAG_BOXED : TAG_LIST);
    if (header)
        put_word(at, header);
    for (unsigned k = first; k < words; k++)
        put_word(at + (uintptr_t)k * 8, any(b, i));
    m->n++;
}

static inline void add_tuple(const struct builder *b)
{
    unsigned arity = 1 + draw(5);
    add_object(b, 1 + arity, (uint64_t)arity << 6, 1);
}

static inline void add_cell(const struct builder *b)
{
    add_object(b, 2, 0, 0);
}

/* A map and its keys, to which other objects may lead too. */
static inline void add_flatmap(const struct builder *b)
{
    add_object(b, 3, 2 << 6, 1);
    unsigned i = b->m->n;
    add_object(b, 5, 0x100 | kind_header(b->w->vm.lay, KIND_MAP, 0), 3);
    put_word(b->m->at[i] + 8, 2);
    put_word(b->m->at[i] + 16, child(b, i, i - 1));
}

/* A large map: its head leads to a pair and to an inner node with two pairs. */
static inline void add_hashmap(const struct builder *b)
{
    uint64_t bits = kind_header(b->w->vm.lay, KIND_MAP, 0);
    unsigned first = b->m->n;
    add_cell(b);
    add_cell(b);
    add_object(b, 3, (uint64_t)3 << 16 | MAP_NODE << 6 | bits, 3);
    put_word(b->m->at[first + 2] + 8, child(b, first + 2, first));
    put_word(b->m->at[first + 2] + 16, child(b, first + 2, first + 1));
    add_cell(b);
    add_object(b, 4, (uint64_t)3 << 16 | MAP_HEAD_BITMAP << 6 | bits, 4);
    put_word(b->m->at[first + 4] + 8, 3);
    put_word(b->m->at[first + 4] + 16, child(b, first + 4, first + 2));
    put_word(b->m->at[first + 4] + 24, child(b, first + 4, first + 3));
}

/* {Number, Second}, or a cell [First | Second]; without an object Second, it is []. */
static inline unsigned add_pair(const struct builder *b, bool is_cell, unsigned first,
                                unsigned second)
{
    unsigned i = b->m->n;
    add_object(b, is_cell ? 2 : 3, is_cell ? 0 : 2 << 6, 3);
    uintptr_t at = b->m->at[i] + (is_cell ? 0 : 8);
    put_word(at, is_cell ? child(b, i, first) : small(i));
    put_word(at + 8, second < i ? child(b, i, second) : TERM_NIL);
    return i;
}

/* A dictionary: one bucket is a pair {Key, Value}, one a list of such pairs. */
static inline void make_dictionary(const struct builder *b, unsigned *pair, unsigned *list)
{
    const struct layout *lay = b->w->vm.lay;
    unsigned n = b->m->n;
    char *dict = make(b->w, LF(lay, dict_head) + 24);
    *pair = add_pair(b, false, 0, draw(n));
    *list = add_pair(b, true, add_pair(b, false, 0, draw(n)), UINT32_MAX);
    for (unsigned i = draw(3); i > 0; i--)
        *list = add_pair(b, true, add_pair(b, false, 0, draw(n)), *list);
    put(b->w, dict, LF_dict_used, 3);
    put_word(address(dict) + LF(lay, dict_head), TERM_NIL);
    put_word(address(dict) + LF(lay, dict_head) + 8, b->m->term[*pair]);
    put_word(address(dict) + LF(lay, dict_head) + 16, b->m->term[*list]);
    put(b->w, b->process, LF_dictionary, address(dict));
}

static inline void send(const struct builder *b, enum layout_field queue, uint64_t term)
{
    char *message = make(b->w, LF(b->w->vm.lay, msg_size));
    const uint64_t terms[] = {term, TERM_NIL, small(1)};
    memcpy(message + LF(b->w->vm.lay, msg_tag), terms, sizeof terms);
    put(b->w, message, LF_msg_next, get(b->w, b->process, queue));
    put(b->w, b->process, queue, address(message));
}

static inline void push_roots(const struct builder *b)
{
    struct made *m = b->m;
    uint64_t stop = get(b->w, b->process, LF_hend);
    unsigned n = m->n;
    for (unsigned i = 0; i < ROOTS; i++)
        m->roots[i] = i == 0 ? n - 1 : draw(n);
    make_dictionary(b, &m->roots[2], &m->roots[3]);
    send(b, LF_sig_first, m->term[m->roots[4]]);
    send(b, LF_inq_first, m->term[m->roots[5]]);
    for (unsigned i = 0; i < 2; i++) {
        stop -= 8;
        put_word(stop, m->term[m->roots[i]]);
    }
    put(b->w, b->process, LF_stop, stop);
}

static inline struct world *make_heap(const struct layout *lay, struct made *m)
{
    struct builder b = {new_world(lay), NULL, m};
    unsigned n = 2 + draw(OBJECTS - 20);
    b.process = make_rootless(b.w, 7);
    for (m->n = 0; m->n < n;) {
        switch (draw(10)) {
        case 0:
            add_flatmap(&b);
            break;
        case 1:
            add_hashmap(&b);
            break;
        case 2:
        case 3:
        case 4:
            add_tuple(&b);
            break;
        default:
            add_cell(&b);
        }
    }
    push_roots(&b);
    return b.w;
}

#endif
