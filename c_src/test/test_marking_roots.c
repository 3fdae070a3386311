/* test_marking_roots.c: the roots of a process, heaps that cannot be read, and hostile ones.
 * Knows: what each root reaches, and what each error is.
 * Does not know: a real VM. */
#include "test/test_marking.h"

/* Each root has its own object; most also hold a shared one, which counts for the first root. */
static void test_roots(const struct layout *lay)
{
    struct subject s = begin(lay, 0);
    struct marked m;
    uint64_t shared = tuple(&s, 6, NIL);
    char *dict = make(s.w, LF(lay, dict_head) + 32);
    char *marks = make(s.w, 64);
    put(s.w, dict, LF_dict_used, 2);
    put_word(address(dict) + LF(lay, dict_head), NIL);
    put_word(address(dict) + LF(lay, dict_head) + 8, tuple(&s, 2, shared));
    put_word(address(dict) + LF(lay, dict_head) + 16, cons(&s, NIL, NIL)); /* not in use */
    put(s.w, s.p, LF_dictionary, address(dict));
    for (unsigned i = 0; i < 8; i++)
        put_word(address(marks) + 8ULL * i, i == 7 ? boxed(&s, KIND_REF, 2, i, 3) : NIL);
    put(s.w, s.p, LF_recv_marks, address(marks));
    put_word(address(s.p) + LF(lay, def_arg_reg), tuple(&s, 1, shared));
    put_word(address(s.p) + LF(lay, def_arg_reg) + 8, cons(&s, NIL, NIL)); /* no argument */
    put(s.w, s.p, LF_arity, 1);
    uint64_t terms[3] = {tuple(&s, 3, shared), NIL, tuple(&s, 4, NIL)};
    uint64_t signal[3] = {16 << 6 | 0x30, 1, 1};
    uint64_t remote[3] = {0, 1, 1};
    put(s.w, s.p, LF_sig_first, message(&s, message(&s, message(&s, 0, remote), signal), terms));
    uint64_t outer[3] = {tuple(&s, 5, shared), NIL, NIL};
    put(s.w, s.p, LF_inq_first, message(&s, 0, outer));
    put(s.w, s.p, LF_seq_token, tuple(&s, 7, shared));
    put(s.w, s.p, LF_group_leader, boxed(&s, KIND_EXTERNAL, 3, 1, 4));
    put(s.w, s.p, LF_parent, boxed(&s, KIND_EXTERNAL, 3, 1, 4));
    push(&s, tuple(&s, 8, shared));
    mark_all(&s, &m);
    check(m.st == ST_OK && m.roots[ROOT_STACK] == 9 + 7 && m.roots[ROOT_REGISTERS] == 2 &&
              m.roots[ROOT_DICTIONARY] == 3 && m.roots[ROOT_MAILBOX] == 4 + 5 + 6 &&
              m.roots[ROOT_OTHER] == 4 + 4 + 8 + 3,
          "each root has what no root before it has", lay->name);
    end(&s);
}

/* Fragments that a BIF left are live up to the one that live_frag_end names, with all that they
 * refer to. */
static void test_live_fragments(const struct layout *lay)
{
    struct subject s = begin(lay, 0);
    struct marked m;
    char *frag[2];
    uint64_t young = cons(&s, NIL, NIL);
    for (unsigned i = 0; i < 2; i++) {
        frag[i] = make(s.w, LF(lay, frag_mem) + 5 * 8);
        put(s.w, frag[i], LF_frag_used, 5);
        uint64_t *mem = (uint64_t *)(frag[i] + LF(lay, frag_mem));
        mem[0] = 2 << 6; /* a pair, then a cell; nothing refers to them */
        mem[1] = mem[4] = NIL;
        mem[2] = mem[3] = young;
    }
    put(s.w, frag[0], LF_frag_next, address(frag[1]));
    put(s.w, s.p, LF_mbuf, address(frag[0]));
    mark_all(&s, &m);
    check(m.st == ST_OK && m.roots[ROOT_OTHER] == 0, "fragments are no roots", lay->name);
    put(s.w, s.p, LF_live_frag_end, address(frag[1]));
    mark_all(&s, &m);
    check(m.st == ST_OK && m.roots[ROOT_OTHER] == 5 + 2, "those before the end are", lay->name);
    put(s.w, s.p, LF_live_frag_end, 0);
    mark_all(&s, &m);
    check(m.st == ST_OK && m.roots[ROOT_OTHER] == 5 + 5 + 2, "or all", lay->name);
    put(s.w, frag[1], LF_frag_used, 4);
    mark_all(&s, &m);
    check(m.st == ST_TORN, "what has no end in its fragment is torn", lay->name);
    end(&s);
}

/* The heap of before: its last word is the number of words in use. */
static void test_abandoned(const struct layout *lay)
{
    enum { SIZE = 16, USED = 5 };
    struct subject s = begin(lay, 0);
    struct marked m;
    uint64_t *before = make(s.w, 8UL * SIZE);
    uint64_t size = *(uint64_t *)(s.p + LF(lay, heap_sz));
    before[0] = 2 << 6;
    before[1] = before[2] = NIL;
    before[3] = address(before) | TAG_BOXED;
    before[4] = NIL;
    push(&s, (address(before) + 3 * 8UL) | TAG_LIST);
    mark_all(&s, &m);
    check(m.st == ST_OK && m.roots[ROOT_STACK] == 0, "in no block: a literal", lay->name);
    put(s.w, s.p, LF_heap_sz, SIZE);
    put(s.w, s.p, LF_abandoned, address(before));
    before[SIZE - 1] = USED;
    mark_all(&s, &m);
    check(m.st == ST_OK && m.roots[ROOT_STACK] == 5, "in the heap of before", lay->name);
    before[SIZE - 1] = 4;
    mark_all(&s, &m);
    check(m.roots[ROOT_STACK] == 0, "behind the words in use is no term", lay->name);
    before[SIZE - 1] = SIZE;
    mark_all(&s, &m);
    check(m.st == ST_TORN, "more words in use than there are", lay->name);
    put(s.w, s.p, LF_heap_sz, 0);
    mark_all(&s, &m);
    check(m.st == ST_TORN, "a heap without a word", lay->name);
    put(s.w, s.p, LF_heap_sz, size);
    put(s.w, s.p, LF_abandoned, 0);
    end(&s);
}

static void test_not_readable(const struct layout *lay)
{
    struct subject s = begin(lay, 0);
    struct marked m;
    char *psd = make(s.w, LF(lay, psd_size));
    uint64_t signal[3] = {3 << 6 | 0x30, 1, 1};
    put(s.w, s.p, LF_psd, address(psd));
    put(s.w, psd, LF_psd_nfunc, 1);
    mark_all(&s, &m);
    check(m.st == ST_OK, "a process that waits is in no NIF", lay->name);
    put(s.w, s.p, LF_state, 0x202A);
    mark_all(&s, &m);
    check(m.st == ST_BUSY, "a NIF that gave way keeps terms", lay->name);
    put(s.w, s.p, LF_state, 0x2A);
    put(s.w, s.p, LF_abandoned, address(make(s.w, 8UL * HEAP_WORDS)));
    put(s.w, s.p, LF_live_frag_end, 0);
    mark_all(&s, &m);
    check(m.st == ST_BUSY, "a heap in two places, of which a BIF knows more", lay->name);
    put(s.w, s.p, LF_abandoned, 0);
    put(s.w, s.p, LF_live_frag_end, ~(uint64_t)7);
    put(s.w, s.p, LF_inq_first, message(&s, 0, signal));
    mark_all(&s, &m);
    check(m.st == ST_BUSY, "a signal that may change anything", lay->name);
    end(&s);
}

/* ---- hostile ---------------------------------------------------------------------------------- */

static enum status status_of(const struct layout *lay, uint64_t word, uint64_t second, bool list)
{
    struct subject s = begin(lay, 0);
    struct marked m;
    uint64_t at = s.top;
    put_word(at, word);
    put_word(at + 8, second);
    s.top += 16;
    push(&s, at | (list ? TAG_LIST : TAG_BOXED));
    mark_all(&s, &m);
    end(&s);
    return m.st;
}

static void test_lies(const struct layout *lay)
{
    struct subject s = begin(lay, 0);
    const uint64_t boxed_words[] = {header_of(&s, KIND_TUPLE, 2),
                                    header_of(&s, KIND_TUPLE, 1ULL << 57),
                                    header_of(&s, KIND_FLOAT, 2),
                                    header_of(&s, KIND_BIGNUM, 1ULL << 40),
                                    header_of(&s, KIND_SUB_BINARY, 4),
                                    header_of(&s, KIND_FUN, 0xFFFF),
                                    header_of(&s, KIND_REFC, 6),
                                    header_of(&s, KIND_MAP, 0x3FF << 10 | 1),
                                    header_of(&s, KIND_EXTERNAL, 200),
                                    header_of(&s, KIND_REF, 0x7FFFFFF),
                                    s.top | TAG_BOXED,
                                    /* moved */ s.top | TAG_LIST,
                                    NIL};
    for (unsigned i = 0; i < sizeof boxed_words / sizeof *boxed_words; i++)
        check(status_of(lay, boxed_words[i], 0xFF00, false) == ST_TORN,
              "a header that promises too much, or is none", lay->name);
    check(status_of(lay, header_of(&s, KIND_MAP, 0), 65, false) == ST_TORN,
          "a flatmap that is too large", lay->name);
    check(status_of(lay, header_of(&s, KIND_MAP, 0), 1ULL << 61, false) == ST_TORN,
          "a flatmap whose size overflows", lay->name);
    check(status_of(lay, header_of(&s, KIND_FLOAT, 1), NIL, true) == ST_TORN,
          "a list with a header", lay->name);
    check(status_of(lay, 0, NIL, true) == ST_TORN, "a list without a head", lay->name);
    for (unsigned tag = 0; tag < 16; tag++) {
        if (lay->kinds[tag] == KIND_NONE)
            check(status_of(lay, tag << 2, NIL, false) == ST_TORN, "no object of this release",
                  lay->name);
    }
    end(&s);
}

/* A sub-binary must be a part of a binary. */
static void test_part_of_lies(const struct layout *lay)
{
    for (unsigned i = 0; i < 3; i++) {
        struct subject s = begin(lay, 0);
        struct marked m;
        uint64_t orig = i == 0   ? tuple(&s, 2, NIL)
                        : i == 1 ? cons(&s, NIL, NIL)
                                 : s.top | TAG_BOXED;
        uint64_t part = boxed(&s, KIND_SUB_BINARY, 4, 0, 5);
        put_word(term_pointer(part) + 8, 100);
        put_word(term_pointer(part) + 32, orig);
        push(&s, part);
        mark_all(&s, &m);
        check(m.st == ST_TORN, "a part of what is no binary", lay->name);
        end(&s);
    }
}

/* Memory outside the process's blocks belongs to others and is not read. */
static void test_outside(const struct layout *lay)
{
    static const uint64_t wild[] = {8, 0xFFFFFFFFFFFFFFF8, 0x8DEFFAC8, 0x100000000000};
    struct subject s = begin(lay, 0);
    struct marked m;
    for (unsigned i = 0; i < 4; i++) {
        push(&s, wild[i] | TAG_BOXED);
        push(&s, wild[i] | TAG_LIST);
    }
    push(&s, s.top | TAG_BOXED);
    push(&s, (s.top + 8) | TAG_LIST);
    mark_all(&s, &m);
    check(m.st == ST_OK && m.reached == 0 && m.literals == 10,
          "what lies elsewhere is not followed", lay->name);
    end(&s);
}

static void test_torn_blocks(const struct layout *lay)
{
    struct subject s = begin(lay, 0);
    struct marked m;
    push(&s, cons(&s, NIL, NIL));
    uint64_t top = s.top;
    s.top = get(s.w, s.p, LF_heap) - 8;
    mark_all(&s, &m);
    check(m.st == ST_TORN, "a heap upside down", lay->name);
    s.top = get(s.w, s.p, LF_heap) + (1ULL << 46);
    mark_in(&s, ALL, 1000000000, UINT32_MAX, &m);
    check(m.st == ST_TOO_LARGE && m.bytes < 1 << 20, "a heap that is too large costs nothing",
          lay->name);
    s.top = top;
    char *frag = make(s.w, 64);
    put(s.w, s.p, LF_mbuf, address(frag));
    put(s.w, frag, LF_frag_next, address(frag));
    mark_all(&s, &m);
    check(m.st == ST_TOO_LARGE, "fragments in a circle", lay->name);
    put(s.w, frag, LF_frag_next, 0);
    put(s.w, frag, LF_frag_used, 1ULL << 60);
    mark_all(&s, &m);
    check(m.st == ST_TORN, "a fragment of more than there is", lay->name);
    end(&s);
}

int main(void)
{
    for (unsigned i = 0; i < layout_count(); i++) {
        const struct layout *lay = layout_table(i);
        test_roots(lay);
        test_live_fragments(lay);
        test_abandoned(lay);
        test_not_readable(lay);
        test_lies(lay);
        test_part_of_lies(lay);
        test_outside(lay);
        test_torn_blocks(lay);
    }
    return outcome();
}
