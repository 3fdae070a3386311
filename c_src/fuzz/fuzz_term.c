/* fuzz_term.c: the verbs that build terms, and the roots that hold them.
 * Knows: objects and their headers in each release, and where a process keeps terms.
 * Does not know: the other structures of a process. */
#include "fuzz/fuzz_build.h"

static void remember(struct builder *b, uint64_t term)
{
    b->terms[b->terms_n++ % TERMS] = term;
}

static uint64_t last_term(struct builder *b, unsigned back)
{
    unsigned n = b->terms_n < TERMS ? b->terms_n : TERMS;
    return n == 0 ? NIL : b->terms[(b->terms_n - 1 - back % n) % TERMS];
}

/* Usually an earlier term, a small integer or []; rarely an arbitrary word. */
static uint64_t any_term(struct builder *b)
{
    unsigned how = byte(b);
    switch (how & 7) {
    case 0:
        return NIL;
    case 1:
        return (uint64_t)how << 4 | 15;
    case 2: /* an address where nothing is */
        return 0x7000 + (uint64_t)how * 64 + 2;
    case 3:
        return how > 240 ? build_value(b) : last_term(b, how >> 3);
    default:
        return last_term(b, how >> 3);
    }
}

/* Makes an object of this many words, the header first; 0: no room, or no such object in this
 * release. */
static uint64_t boxed_thing(struct builder *b, unsigned block, enum kind kind, uint64_t words,
                            uint64_t arity)
{
    int tag = fuzz_tag(b->lay, kind);
    uint64_t at = tag < 0 ? 0 : build_room(b, block, words);
    if (at == 0)
        return 0;
    mark(b, at, words * 8);
    put_word(at, arity << 6 | (uint64_t)tag << 2);
    remember(b, at + 2);
    return at;
}

static void terms_into(struct builder *b, uint64_t at, uint64_t from, uint64_t words)
{
    for (uint64_t i = from; at != 0 && i < words; i++)
        put_word(at + i * 8, any_term(b));
}

static void a_cons(struct builder *b, unsigned block)
{
    uint64_t head = any_term(b);
    uint64_t tail = any_term(b);
    uint64_t at = build_room(b, block, 2);
    if (at == 0)
        return;
    mark(b, at, 16);
    put_word(at, head);
    put_word(at + 8, tail);
    remember(b, at + 1);
}

static void a_map(struct builder *b, unsigned block, unsigned how)
{
    uint64_t type = how >> 3 & 3;
    uint64_t n = (how & 7) + (type == MAP_FLAT && how > 220 ? 60 : 0);
    uint64_t bits = ((1ULL << (how & 7)) - 1) << 10;
    uint64_t words = type == MAP_FLAT ? 3 + n : (type == MAP_NODE ? 1 : 2) + n;
    uint64_t at = boxed_thing(b, block, KIND_MAP, words, type == MAP_FLAT ? 0 : bits | type);
    if (at != 0 && type != MAP_NODE)
        put_word(at + 8, n);
    terms_into(b, at, type == MAP_NODE ? 1 : 2, words);
}

static void a_fun(struct builder *b, unsigned block, unsigned how)
{
    uint64_t n = how & 7;
    bool old = b->lay->otp <= 26;
    uint64_t words = old ? 5 + n : 2 + n;
    uint64_t at = boxed_thing(b, block, KIND_FUN, words, old ? 3 : n << 10);
    if (at == 0)
        return;
    put_word(at + 8, MEMORY_BASE + 64ULL * (how >> 3 & 7));
    if (old)
        put_word(at + 24, n << 8);
    terms_into(b, at, old ? 4 : 2, words);
}

static void a_refc(struct builder *b, unsigned block, unsigned how)
{
    bool old = b->lay->otp <= 26;
    uint64_t at = boxed_thing(b, block, KIND_REFC, old ? 6 : 3, old ? 5 : 2);
    if (at == 0)
        return;
    if (b->binary == 0)
        b->binary = make(b, LF(b->lay, bin_bytes) + 8);
    b->refc = at;
    put_word(at + LF(b->lay, bin_ptr), b->binary);
    if (old) {
        put_word(at + 8, 65 + how);
        put_word(at + 32, b->binary + LF(b->lay, bin_bytes));
    }
}

static void a_part(struct builder *b, unsigned block, unsigned how)
{
    uint64_t at = boxed_thing(b, block, KIND_SUB_BINARY, 5, 4);
    uint64_t size = how >> 2;
    if (at == 0)
        return;
    if (b->lay->otp <= 26) {
        put_word(at + 8, size);
        put_word(at + 16, how & 15);
        put_word(at + 24, how & 64 ? 0x10003ULL << (how & 16) : 0);
    } else {
        put_word(at + 16, 8ULL * (how & 15));
        put_word(at + 24, 8ULL * (how & 15) + size * 8 + (how & 64 ? 3 : 0));
    }
    put_word(at + 32, how & 1 ? b->refc + 2 : how & 2 ? b->heap_binary + 2 : any_term(b));
}

static void a_match(struct builder *b, unsigned block, unsigned how)
{
    uint64_t at = boxed_thing(b, block, KIND_MATCH, 6, 5);
    if (at != 0)
        put_word(at + 8, how & 1 ? b->refc + 2 : b->heap_binary + 2);
}

/* param: the block; operands: which kind, how large, and its terms */
void build_thing(struct builder *b, unsigned param)
{
    static const enum kind raw[] = {KIND_BIGNUM,  KIND_FLOAT,    KIND_REF,
                                    KIND_FUN_REF, KIND_EXTERNAL, KIND_HEAP_BINARY};
    unsigned kind = byte(b) % 16;
    unsigned block = param & 3;
    if (kind < 3) {
        a_cons(b, block);
        return;
    }
    unsigned how = byte(b);
    switch (kind) {
    case 3:
    case 4:
        terms_into(b, boxed_thing(b, block, KIND_TUPLE, 1 + how % 10, how % 10), 1, 1 + how % 10);
        break;
    case 5:
    case 6:
        a_map(b, block, how);
        break;
    case 7:
        a_fun(b, block, how);
        break;
    case 8:
        a_refc(b, block, how);
        break;
    case 9:
    case 10:
        a_part(b, block, how);
        break;
    case 11:
        a_match(b, block, how);
        break;
    case 12:
        terms_into(b, boxed_thing(b, block, KIND_RECORD, 1 + how % 5, how % 5), 1, 1 + how % 5);
        break;
    default: {
        uint64_t at = boxed_thing(b, block, raw[how % 6], 1 + how / 64, how / 64);
        if (at != 0 && raw[how % 6] == KIND_HEAP_BINARY)
            b->heap_binary = at;
    }
    }
}

/* Wraps the last term in a long or a deep one. param: the block, and which element holds the next
 * level */
void build_deep(struct builder *b, unsigned param)
{
    unsigned n = byte(b);
    for (unsigned i = 0; i < n; i++) {
        uint64_t at = build_room(b, param & 3, 2 + (param & 4 ? 1 : 0));
        uint64_t term = last_term(b, 0);
        uint64_t other = param & 8 ? last_term(b, 1) : NIL;
        if (at == 0)
            return;
        mark(b, at, 16);
        if (param & 4)
            put_word(at, 2 << 6);
        put_word(at + (param & 4 ? 8 : 0), i & 1 ? term : other);
        put_word(at + (param & 4 ? 16 : 8), i & 1 ? other : term);
        remember(b, at + (param & 4 ? 2 : 1));
    }
}

/* ---- roots ------------------------------------------------------------------------------------- */

/* Puts a term in word `at` of an area of roots; the words below it that were not in use become
 * []. */
static void hold_in(uint64_t from, uint64_t used, uint64_t at, uint64_t term)
{
    for (uint64_t i = used; i < at; i++)
        put_word(from + i * 8, NIL);
    put_word(from + at * 8, term);
}

static void hold_in_dictionary(struct builder *b, unsigned at, uint64_t term)
{
    uint64_t dict = own(b, LF_dictionary);
    if (dict == 0) {
        dict = make(b, LF(b->lay, dict_head) + 64);
        put(b, dict, LF_dict_array, 8);
        set(b, LF_dictionary, dict);
    }
    uint64_t used = get(b, dict, LF_dict_used);
    hold_in(dict + LF(b->lay, dict_head), used, at & 7, term);
    if (used <= (at & 7))
        put(b, dict, LF_dict_used, (at & 7) + 1);
}

static void hold_in_message(struct builder *b, unsigned at, uint64_t term)
{
    uint64_t m = own(b, at & 1 ? LF_inq_first : LF_sig_first);
    if (m != 0)
        put_word(m + LF(b->lay, msg_tag) + 8ULL * (at / 2 % 3), term);
}

/* The pair that a look at one term searches for. */
static uint64_t in_slot(struct builder *b, uint64_t term)
{
    uint64_t at = boxed_thing(b, 0, KIND_TUPLE, 3, 2);
    if (at == 0)
        return term;
    put_word(at + 8, 1 << 4 | 15);
    put_word(at + 16, term);
    return at + 2;
}

static void push(struct builder *b, uint64_t word)
{
    uint64_t stop = own(b, LF_stop) - 8;
    if (stop < own(b, LF_htop) || stop >= own(b, LF_hend))
        return;
    put_word(stop, word);
    set(b, LF_stop, stop);
}

/* param: which root holds a term from now on; operands: where in it, and which term */
void build_hold(struct builder *b, unsigned param)
{
    static const enum layout_field fields[] = {LF_seq_token, LF_group_leader, LF_parent};
    unsigned at = byte(b);
    uint64_t term = any_term(b);
    uint64_t block = own(b, LF_recv_marks);
    switch (param & 7) {
    case 1: {
        uint64_t used = own(b, LF_arity);
        hold_in(own(b, LF_arg_reg), used, at & 3, term);
        if (used <= (at & 3))
            set(b, LF_arity, (at & 3) + 1);
        break;
    }
    case 2:
        hold_in_dictionary(b, at, term);
        break;
    case 3:
        hold_in_message(b, at, term);
        break;
    case 4:
        set(b, fields[at % 3], term);
        break;
    case 5:
        if (block == 0) {
            block = make(b, 64);
            hold_in(block, 0, 7, NIL);
            set(b, LF_recv_marks, block);
        }
        put_word(block + 8ULL * (at & 7), term);
        break;
    case 6: { /* a NIF that yielded */
        uint64_t psd = make(b, LF(b->lay, psd_size));
        put_word(psd + LF(b->lay, psd_nfunc), at & 1);
        set(b, LF_state, own(b, LF_state) | (at & 2 ? 0x2000 : 0));
        set(b, LF_psd, psd);
        if (at & 4) /* what a BIF left: all fragments, or up to the last one made */
            set(b, LF_live_frag_end, at & 8 ? b->p->frag : 0);
        break;
    }
    default: /* rarely a return address */
        if (param & 8)
            term = in_slot(b, term);
        push(b, at > 240 ? (uint64_t)at << 4 : term);
    }
}

/* A call that waits for its answer. param: bits: 1: its reference lies outside of the heap, 2: it lies in the
 * old heap, 4: the frame holds the pid instead, 8: the frame ends before it; operands: the number of the
 * reference, and the monitor: 8: there is none, otherwise as make_monitor */
void build_call(struct builder *b, unsigned param)
{
    unsigned number = byte(b);
    unsigned how = byte(b);
    uint64_t end = own(b, LF_id) + 16ULL * (how >> 4 & 3);
    uint64_t at = param & 1 ? make(b, 24) : build_room(b, param >> 1 & 1, 3);
    if (at == 0)
        return;
    mark(b, at, 24);
    build_put_reference(at, number);
    if (!(how & 8))
        build_monitor(b, number, how, end);
    push(b, param & 4 ? end : at + 2);
    if (param & 8) /* a return address: the frames of those that called it follow */
        push(b, MEMORY_BASE);
}

/* So many words of a stack. operand: return addresses, of which the same ones come again; frame pointers, which
 * point into the stack; or terms. */
void build_frames(struct builder *b, unsigned param)
{
    for (unsigned i = 0; i <= param % 8; i++) {
        unsigned how = byte(b);
        switch (how & 3) {
        case 0:
        case 1:
            push(b, 0x4000 + 16ULL * (how >> 2 & 3));
            break;
        case 2:
            push(b, own(b, LF_hend) - 8ULL * (how >> 2 & 7));
            break;
        default:
            push(b, NIL);
        }
    }
}

/* The pair that proc_lib puts into a dictionary. param: bits: 1, 2: the block of the pair, and whether it is
 * another one for the function; 4: another key, 8: in a list; operands: the slot; the function */
void build_first_call(struct builder *b, unsigned param)
{
    unsigned at = byte(b);
    unsigned how = byte(b);
    uint64_t f = build_room(b, param & 2 ? how >> 6 & 3 : param & 1, 4);
    uint64_t pair = build_room(b, param & 1, 3);
    uint64_t cell = param & 8 ? build_room(b, 0, 2) : 0;
    if (f == 0 || pair == 0)
        return;
    put_word(f, 3 << 6);
    put_word(f + 8, FUZZ_ATOM(how & 3));
    put_word(f + 16, FUZZ_ATOM(how >> 2 & 3));
    put_word(f + 24, (how & 0x30 ? 0ULL + how : 300ULL) << 4 | 15);
    put_word(pair, 2 << 6);
    put_word(pair + 8, FUZZ_KEY + (param & 4 ? 64 : 0));
    put_word(pair + 16, f + 2);
    if (cell != 0) {
        put_word(cell, pair + 2);
        put_word(cell + 8, NIL);
    }
    hold_in_dictionary(b, at, cell != 0 ? cell + 1 : pair + 2);
}
