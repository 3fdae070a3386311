/* fuzz_mark.c: the objects that the roots of an unchanging process reach, computed as simply as
 * possible.
 * Knows: the parts of a boxed object in each release, and the roots of a collection.
 * Does not know: marks, spans, slices: it shares no code with the walk, only the limits. */
#include "fuzz/fuzz.h"

#include <string.h>

/* ---- tags ------------------------------------------------------------------------------------ */

int fuzz_tag(const struct layout *lay, enum kind kind)
{
    bool old = lay->otp <= 26;
    switch (kind) {
    case KIND_TUPLE:
        return 0;
    case KIND_MATCH:
        return old ? 1 : -1;
    case KIND_FUN_REF:
        return lay->otp == 27 ? 1 : -1;
    case KIND_BIGNUM:
        return 2;
    case KIND_REF:
        return 4;
    case KIND_FUN:
        return 5;
    case KIND_FLOAT:
        return 6;
    case KIND_RECORD:
        return lay->otp >= 29 ? 7 : -1;
    case KIND_REFC:
        return old ? 8 : 10;
    case KIND_HEAP_BINARY:
        return old ? 9 : 8;
    case KIND_SUB_BINARY:
        return old ? 10 : 9;
    case KIND_EXTERNAL:
        return 12;
    case KIND_MAP:
        return old ? 15 : 11;
    default:
        return -1;
    }
}

static enum kind kind_of(const struct layout *lay, uint64_t header)
{
    int tag = (int)(header >> 2 & 15);
    if (tag == 3)
        return KIND_BIGNUM;
    if (tag == 13 || tag == 14)
        return KIND_EXTERNAL;
    for (enum kind k = KIND_TUPLE; k <= KIND_MAP; k++) {
        if (fuzz_tag(lay, k) == tag)
            return k;
    }
    return KIND_NONE;
}

/* ---- reading --------------------------------------------------------------------------------- */

enum { LIES_MAX = 8 };

struct model {
    const struct vm *vm;
    const struct layout *lay;
    uint64_t proc;
    struct reach *r;
    enum root root;
    unsigned slices;
    uint64_t messages;
    unsigned lies;
    uint64_t lie[LIES_MAX]; /* no boxed objects, though a tag says so */
    uint64_t without;       /* an object that counts as unreachable; 0: none */
    unsigned maps;          /* how many parts of maps the current object is in */
};

static void refuse_if(struct model *m, bool odd)
{
    if (odd)
        m->r->kind = REFUSED;
}

static void doubt_if(struct model *m, bool odd)
{
    m->r->doubted = m->r->doubted || odd;
    if (odd && m->r->kind == MUST)
        m->r->kind = MAY;
}

static bool refused(const struct model *m)
{
    return m->r->kind == REFUSED;
}

static uint64_t word(struct model *m, uint64_t address)
{
    const uint64_t *w = memory_at(address);
    refuse_if(m, !w);
    return w ? *w : 0;
}

static uint64_t field(struct model *m, uint64_t object, enum layout_field f)
{
    uint64_t address = object + m->lay->f[f];
    uint64_t value = word(m, address & ~7ULL) >> (address & 7) * 8;
    unsigned width = layout_width(m->lay, f);
    refuse_if(m, object & 7);
    return width == 8 ? value : value & ((1ULL << width * 8) - 1);
}

static uint64_t own(struct model *m, enum layout_field f)
{
    return field(m, m->proc, f);
}

/* ---- blocks ----------------------------------------------------------------------------------- */

static void add_block(struct model *m, uint64_t from, uint64_t to)
{
    struct reach *r = m->r;
    refuse_if(m, to < from || to - from > 8ULL << 44 || r->blocks_n == REACH_BLOCKS);
    doubt_if(m, (from & 7) || (to & 7));
    if (refused(m))
        return;
    for (unsigned i = 0; i < r->blocks_n; i++)
        doubt_if(m, (from < r->to[i] && r->from[i] < to) || from == r->from[i]);
    r->from[r->blocks_n] = from;
    r->to[r->blocks_n++] = to;
    r->size += (to - from) / 8;
}

static bool inside(const struct model *m, uint64_t p, uint64_t words)
{
    const struct reach *r = m->r;
    for (unsigned i = 0; i < r->blocks_n; i++) {
        if (p >= r->from[i] && p < r->to[i] && r->to[i] - p >= words * 8)
            return true;
    }
    return false;
}

static void add_fragments(struct model *m, uint64_t frag)
{
    while (frag != 0 && !refused(m)) {
        uint64_t mem = frag + LF(m->lay, frag_mem);
        uint64_t used = word(m, frag + LF(m->lay, frag_used));
        refuse_if(m, used > 1ULL << 44 || ++m->r->steps > MESSAGES_MAX);
        add_block(m, mem, mem + used * 8);
        frag = word(m, frag + LF(m->lay, frag_next));
    }
}

static bool is_signal(uint64_t tag)
{
    return (tag & 0x3F) == 0x30;
}

static void add_messages(struct model *m, uint64_t at, bool queue)
{
    while (at != 0 && !refused(m)) {
        uint64_t attached = word(m, at + LF(m->lay, msg_attached));
        uint64_t tag = queue ? word(m, at + LF(m->lay, msg_tag)) : 0x1F;
        refuse_if(m, ++m->r->steps > MESSAGES_MAX);
        refuse_if(m, is_signal(tag) && (tag >> 6 & 0xFF) != 16);
        if (!is_signal(tag) && tag != 0)
            add_fragments(m, attached == 1 ? at + LF(m->lay, msg_hfrag) : attached);
        at = word(m, at + LF(m->lay, msg_next));
    }
}

/* ---- objects ----------------------------------------------------------------------------------- */

static size_t index_of(uint64_t p)
{
    return p >= MEMORY_TOP ? MEMORY_WORDS + (p - MEMORY_TOP) / 8 : (p - MEMORY_BASE) / 8;
}

bool reach_has(const struct reach *r, uint64_t p)
{
    return memory_at(p) && r->seen[index_of(p)] != 0;
}

/* true: the object was not seen before. One word as two kinds of object cannot be in a heap. */
static bool see_first(struct model *m, uint64_t p, uint8_t as)
{
    (void)word(m, p);
    if (refused(m) || (m->without != 0 && p == m->without))
        return false;
    uint8_t *seen = &m->r->seen[index_of(p)];
    doubt_if(m, *seen != 0 && *seen != as);
    if (*seen != 0)
        return false;
    *seen = as;
    m->r->steps++;
    return true;
}

static void count(struct model *m, enum bar_kind kind, uint64_t n, uint64_t words)
{
    m->r->bars[kind].count += n;
    m->r->bars[kind].words += words;
}

static void view(struct model *m, uint64_t refc, uint64_t size)
{
    m->r->visible += size;
    if (!(m->r->want & MARKING_SLICES))
        return;
    refuse_if(m, ++m->slices > m->r->slices_max);
    (void)word(m, refc + LF(m->lay, bin_ptr));
    if (m->lay->otp <= 26)
        (void)word(m, refc + LF(m->lay, bin_ptr) + 8);
}

/* The number of words of an object; *first: which of them is its first term. */
static uint64_t words_of(struct model *m, enum kind kind, uint64_t p, uint64_t header,
                         uint64_t *first)
{
    uint64_t arity = header >> 6;
    uint64_t children = (uint64_t)__builtin_popcount((unsigned)(header >> 16 & 0xFFFF));
    uint64_t free = 0;
    *first = arity + 1;
    switch (kind) {
    case KIND_TUPLE:
    case KIND_RECORD:
        *first = 1;
        return arity + 1;
    case KIND_SUB_BINARY:
        return 5;
    case KIND_MATCH:
        refuse_if(m, arity < 1);
        return arity + 1;
    case KIND_FUN:
        if (m->lay->otp <= 26)
            free = 3 + (word(m, p + 24) >> 8 & 0xFF);
        else
            free = header >> 16 & (m->lay->otp == 27 ? 0x1FF : 0xFF);
        *first = m->lay->otp <= 26 ? 4 : 2;
        return 2 + free;
    case KIND_MAP:
        if ((header >> 6 & 3) == 0) {
            uint64_t size = word(m, p + 8);
            refuse_if(m, size > 64);
            *first = 2;
            return 3 + (size > 64 ? 0 : size);
        }
        *first = (header >> 6 & 3) == 1 ? 1 : 2;
        return *first + children;
    default:
        return arity + 1;
    }
}

static void into_bars(struct model *m, enum kind kind, uint64_t header, uint64_t words)
{
    switch (kind) {
    case KIND_TUPLE:
        if (words - 1 < BARS_TUPLES) {
            m->r->tuples[words - 1].count++;
            m->r->tuples[words - 1].words += words;
        } else {
            count(m, BAR_OTHER, 1, words);
        }
        break;
    case KIND_MAP:
        if ((header >> 6 & 3) == 0)
            count(m, BAR_FLATMAP, 1, words);
        else
            count(m, BAR_HASHMAP, (header >> 6 & 3) != 1, words);
        break;
    case KIND_BIGNUM:
        count(m, BAR_BIGNUM, 1, words);
        break;
    case KIND_FLOAT:
        count(m, BAR_FLOAT, 1, words);
        break;
    case KIND_HEAP_BINARY:
        count(m, BAR_HEAP_BINARY, 1, words);
        break;
    case KIND_SUB_BINARY:
        count(m, BAR_SUB_BINARY, 1, words);
        break;
    case KIND_REFC:
        count(m, BAR_REFC_BINARY, 1, words);
        break;
    case KIND_REF:
        count(m, BAR_REF, 1, words);
        break;
    case KIND_EXTERNAL:
        count(m, BAR_EXTERNAL, 1, words);
        break;
    case KIND_RECORD:
        count(m, BAR_RECORD, 1, words);
        break;
    default: /* large tuples and funs have bars of their own while there are any */
        count(m, BAR_OTHER, 1, words);
        break;
    }
}

static void take(struct model *m, uint64_t p, uint64_t words)
{
    for (uint64_t i = 0; i < words && memory_at(p + i * 8); i++) {
        uint8_t *taken = &m->r->taken[index_of(p + i * 8)];
        m->r->cyclic = m->r->cyclic || *taken;
        *taken = 1;
    }
}

/* A node of a large map, or a small map whose keys are no tuple, as in no VM: another map may be in
 * their place, and so on. */
static bool holds_parts(const struct model *m, enum kind kind, uint64_t p, uint64_t header)
{
    const uint64_t *at = memory_at(p + 16);
    const uint64_t *keys = at ? memory_at(*at & ~7ULL) : NULL;
    if (kind != KIND_MAP)
        return false;
    return (header >> 6 & 3) != 0 || !keys || (*keys & 3) != 0 ||
           kind_of(m->lay, *keys) != KIND_TUPLE;
}

/* Sets `odd' if something that a description needs beyond the object cannot be read. */
static void describe(struct model *m, enum kind kind, uint64_t p, uint64_t header)
{
    const uint64_t *w = memory_at(p + 8);
    const uint64_t *keys = memory_at(p + 16);
    bool flat = kind == KIND_MAP && (header >> 6 & 3) == 0;
    m->r->odd = m->r->odd || (kind == KIND_REFC && header != LF(m->lay, bin_thing));
    unsigned words = kind == KIND_FUN ? m->vm->fun_module / 8u + m->lay->fun_names : 0;
    for (unsigned i = 0; i < words; i++)
        m->r->odd = m->r->odd || !w || !memory_at(*w + i * 8ULL);
    m->r->odd = m->r->odd || (flat && (!w || !keys || !inside(m, *keys & ~7ULL, 1 + *w)));
}

static uint64_t measure(struct model *m, enum kind kind, uint64_t p, uint64_t header,
                        uint64_t *first)
{
    uint64_t words = words_of(m, kind, p, header, first);
    refuse_if(m, kind == KIND_NONE || words > 1 << 27 || !inside(m, p, words));
    if (refused(m))
        return 0;
    if (kind == KIND_FUN && (m->r->want & MARKING_HISTOGRAM))
        (void)word(m, p + 8);
    m->r->words[m->root] += words;
    take(m, p, words);
    describe(m, kind, p, header);
    into_bars(m, kind, header, words);
    return words;
}

static void part_of(struct model *m, uint64_t orig, bool visible, uint64_t size)
{
    uint64_t p = orig & ~7ULL;
    uint64_t first;
    m->r->odd = m->r->odd || (orig & 3) != 2;
    if (!inside(m, p, 1)) {
        m->r->literals++;
        return;
    }
    uint64_t header = word(m, p);
    enum kind kind = kind_of(m->lay, header);
    refuse_if(m, (header & 3) != 0 || (kind != KIND_REFC && kind != KIND_HEAP_BINARY));
    if (see_first(m, p, 2))
        (void)measure(m, kind, p, header, &first);
    if (!refused(m) && kind == KIND_REFC && visible)
        view(m, p, size);
}

static void sub_binary(struct model *m, uint64_t p)
{
    uint64_t w1 = word(m, p + 8);
    uint64_t w2 = word(m, p + 16);
    uint64_t w3 = word(m, p + 24);
    uint64_t orig = word(m, p + 32);
    if (refused(m))
        return;
    if (m->lay->otp <= 26) {
        /* a collection makes a heap binary of whole bytes, of a part that cannot be written */
        if ((w3 & 0xFFFFFF) != 0 || w1 > 24)
            part_of(m, orig, true, w1 + ((w3 & 0xFFFF) != 0));
    } else {
        part_of(m, orig, true, w3 > w2 ? (w3 + 7) / 8 - w2 / 8 : 0);
    }
}

/* Up to OTP 26 a ProcBin is a binary itself, and counts once as seen whole. */
static void whole(struct model *m, uint64_t p)
{
    uint8_t *seen = &m->r->whole[index_of(p)];
    if (m->lay->otp > 26 || *seen || !inside(m, p, 2))
        return;
    *seen = 1;
    view(m, p, word(m, p + 8));
}

static void reach(struct model *m, uint64_t w);

/* A tag that does not fit. A walk that has met the object as a list before does not look again. */
static void lie(struct model *m, uint64_t p)
{
    m->r->lied = true;
    refuse_if(m, refused(m) || m->lies == LIES_MAX);
    if (!refused(m))
        m->lie[m->lies++] = p;
}

static void boxed(struct model *m, uint64_t p) // NOLINT(misc-no-recursion)
{
    uint64_t header = word(m, p);
    enum kind kind = kind_of(m->lay, header);
    uint64_t first = 0;
    if ((header & 3) != 0) {
        lie(m, p);
        return;
    }
    bool parts = holds_parts(m, kind, p, header);
    bool fresh = see_first(m, p, 2);
    if (refused(m))
        return;
    m->r->cyclic = m->r->cyclic || m->r->open[index_of(p)];
    if (!fresh) {
        if (header == LF(m->lay, bin_thing))
            whole(m, p);
        return;
    }
    uint64_t words = measure(m, kind, p, header, &first);
    if (refused(m))
        return;
    if (kind == KIND_SUB_BINARY)
        sub_binary(m, p);
    else if (kind == KIND_MATCH)
        part_of(m, word(m, p + 8), false, 0);
    else if (kind == KIND_REFC)
        whole(m, p);
    m->r->open[index_of(p)] = 1;
    m->maps += parts;
    m->r->maps = m->maps > m->r->maps ? m->maps : m->r->maps;
    for (; first < words && !refused(m) && kind != KIND_SUB_BINARY && kind != KIND_MATCH; first++)
        reach(m, word(m, p + first * 8));
    m->maps -= parts;
    m->r->open[index_of(p)] = 0;
}

static void reach(struct model *m, uint64_t w) // NOLINT(misc-no-recursion)
{
    uint64_t p = w & ~7ULL;
    refuse_if(m, (w & 3) == 0);
    if ((w & 3) == 3 || refused(m))
        return;
    if (!inside(m, p, (w & 3) == 1 ? 2 : 1)) {
        m->r->literals++;
        m->r->odd = m->r->odd || inside(m, p, 1); /* half a cell */
        return;
    }
    if ((w & 3) == 2) {
        boxed(m, p);
        return;
    }
    if ((word(m, p) & 3) == 0)
        m->r->lied = true;
    bool fresh = see_first(m, p, 1);
    if (refused(m))
        return;
    m->r->cyclic = m->r->cyclic || m->r->open[index_of(p)];
    if (!fresh)
        return;
    m->r->words[m->root] += 2;
    take(m, p, 2);
    count(m, BAR_CONS, 1, 2);
    m->r->open[index_of(p)] = 1;
    reach(m, word(m, p));
    reach(m, word(m, p + 8));
    m->r->open[index_of(p)] = 0;
}

/* ---- roots ------------------------------------------------------------------------------------ */

static void range(struct model *m, uint64_t at, uint64_t words)
{
    for (uint64_t i = 0; i < words && !refused(m); i++)
        reach(m, word(m, at + i * 8));
}

static void stack(struct model *m)
{
    uint64_t at = own(m, LF_stop);
    uint64_t end = own(m, LF_hend);
    refuse_if(m, at > end || (at & 7) != (end & 7));
    for (; at != end && !refused(m); at += 8) {
        uint64_t w = word(m, at);
        if ((w & 3) != 0)
            reach(m, w);
    }
}

static void messages(struct model *m, uint64_t at)
{
    for (; at != 0 && !refused(m); at = word(m, at + LF(m->lay, msg_next))) {
        uint64_t tag = word(m, at + LF(m->lay, msg_tag));
        if (!is_signal(tag) && tag != 0)
            range(m, at + LF(m->lay, msg_tag), 3);
    }
}

/* Objects without gaps; an object without a header is a list cell. */
static void as_they_are(struct model *m, uint64_t at, uint64_t words)
{
    while (words != 0 && !refused(m)) {
        uint64_t first;
        uint64_t w = word(m, at);
        bool header = (w & 3) == 0;
        enum kind kind = kind_of(m->lay, w);
        uint64_t size = header ? words_of(m, kind, at, w, &first) : 2;
        refuse_if(m, (header && (kind == KIND_NONE || size > 1 << 27)) || size > words);
        reach(m, at | (header ? 2 : 1));
        at += size * 8;
        words -= size;
    }
}

/* A slot of the dictionary is a pair, or a proper list of pairs that nothing else refers to. */
static void slots(struct model *m, uint64_t at, uint64_t n)
{
    uint64_t cells = 0;
    for (uint64_t i = 0; i < n && !refused(m); i++) {
        uint64_t w = word(m, at + i * 8);
        bool chain = (w & 3) == 1;
        for (; (w & 3) == 1 && inside(m, w & ~7ULL, 2) && cells <= m->r->size; cells++)
            w = word(m, (w & ~7ULL) + 8);
        m->r->odd = m->r->odd || cells > m->r->size || (chain && (w & 3) == 2);
    }
}

/* An object that several roots reach counts for the first. */
static void roots(struct model *m)
{
    uint64_t dict = own(m, LF_dictionary);
    uint64_t marks = own(m, LF_recv_marks);
    m->root = ROOT_STACK;
    stack(m);
    m->root = ROOT_REGISTERS;
    refuse_if(m, own(m, LF_arity) > 1024);
    range(m, own(m, LF_arg_reg), own(m, LF_arity));
    m->root = ROOT_DICTIONARY;
    if (dict != 0) {
        uint64_t at = dict + LF(m->lay, dict_used);
        uint64_t used = word(m, at & ~7ULL) >> (at & 7) * 8 & 0xFFFFFFFF;
        range(m, dict + LF(m->lay, dict_head), used);
        slots(m, dict + LF(m->lay, dict_head), used);
    }
    m->root = ROOT_MAILBOX;
    messages(m, own(m, LF_sig_first));
    messages(m, own(m, LF_inq_first));
    m->root = ROOT_OTHER;
    reach(m, own(m, LF_group_leader));
    reach(m, own(m, LF_parent));
    reach(m, own(m, LF_seq_token));
    if (marks != 0)
        range(m, marks, 8);
    uint64_t end = own(m, LF_live_frag_end);
    uint64_t frag = end == ~7ULL ? 0 : own(m, LF_mbuf);
    for (; frag != 0 && frag != end && !refused(m); frag = word(m, frag + LF(m->lay, frag_next)))
        as_they_are(m, frag + LF(m->lay, frag_mem), word(m, frag + LF(m->lay, frag_used)));
}

/* Refuses a process in a special collection, or with terms that cannot be found. */
static void readable(struct model *m)
{
    uint64_t state = own(m, LF_state);
    uint64_t psd = own(m, LF_psd);
    refuse_if(m, own(m, LF_abandoned) != 0 && own(m, LF_live_frag_end) != ~7ULL);
    refuse_if(m, (state & MIDDLE_Q) || in_buffers(m->lay, state));
    if (psd != 0 && (state & ACTIVE))
        refuse_if(m, word(m, psd + LF(m->lay, psd_nfunc)) != 0);
}

/* The second word of a ProcBin that was seen whole is no object. */
static void no_overlap(struct model *m)
{
    for (unsigned i = 0; i + 1 < REACH_WORDS; i++)
        doubt_if(m, m->r->whole[i] && m->r->seen[i + 1]);
}

static void reach_all(struct model m, unsigned want, uint64_t max_words, uint64_t max_slices)
{
    struct reach *r = m.r;
    memset(r, 0, sizeof *r);
    r->kind = MUST;
    r->want = want;
    r->slices_max = max_slices;
    readable(&m);
    add_block(&m, own(&m, LF_heap), own(&m, LF_htop));
    add_block(&m, own(&m, LF_old_heap), own(&m, LF_old_htop));
    if (own(&m, LF_abandoned) != 0) {
        struct block used;
        refuse_if(&m, !fuzz_abandoned(m.lay, m.proc, &used) || ++r->steps > MESSAGES_MAX);
        add_block(&m, used.from, used.to);
    }
    add_fragments(&m, own(&m, LF_mbuf));
    add_messages(&m, own(&m, LF_msg_frag), false);
    add_messages(&m, own(&m, LF_sig_first), true);
    add_messages(&m, own(&m, LF_inq_first), true);
    refuse_if(&m, r->size > max_words);
    if (refused(&m))
        return;
    roots(&m);
    for (unsigned i = 0; i < m.lies; i++) {
        refuse_if(&m, m.r->seen[index_of(m.lie[i])] != 1);
        doubt_if(&m, true);
    }
    no_overlap(&m);
}

void model_reach(const struct vm *vm, uint64_t proc, unsigned want, uint64_t max_words,
                 uint64_t max_slices, struct reach *r)
{
    reach_all((struct model){.vm = vm, .lay = vm->lay, .proc = proc, .r = r}, want, max_words,
              max_slices);
}

uint64_t model_reach_without(const struct vm *vm, uint64_t proc, uint64_t object)
{
    static struct reach r;
    uint64_t sum = 0;
    reach_all((struct model){.vm = vm, .lay = vm->lay, .proc = proc, .r = &r, .without = object}, 0,
              UINT64_MAX, 0);
    for (unsigned i = 0; i < ROOT_COUNT; i++)
        sum += r.words[i];
    return sum;
}

uint64_t fuzz_thing(const struct vm *vm, uint64_t p, enum kind *kind, uint64_t *first)
{
    static struct reach r;
    struct model m = {.vm = vm, .lay = vm->lay, .r = &r};
    r.kind = MUST;
    uint64_t header = word(&m, p);
    *kind = kind_of(vm->lay, header);
    uint64_t words = words_of(&m, *kind, p, header, first);
    bool odd = r.kind == REFUSED || (header & 3) != 0 || *kind == KIND_NONE || words > 1 << 27;
    return odd ? 0 : words;
}

/* ---- what must be still ------------------------------------------------------------------------ */

bool model_reach_stamp(const struct vm *vm, uint64_t proc, uint64_t *sum)
{
    static const enum layout_field still[] = {LF_id,        LF_reds,         LF_pc,
                                              LF_heap,      LF_hend,         LF_heap_sz,
                                              LF_htop,      LF_stop,         LF_high_water,
                                              LF_old_heap,  LF_old_htop,     LF_old_hend,
                                              LF_gen_gcs,   LF_mbuf,         LF_mbuf_sz,
                                              LF_msg_frag,  LF_off_heap,     LF_wrt_bins,
                                              LF_arity,     LF_arg_reg,      LF_dictionary,
                                              LF_sig_first, LF_sig_len,      LF_sig_flags,
                                              LF_inq_first, LF_inq_len,      LF_trace_flags,
                                              LF_psd,       LF_group_leader, LF_parent,
                                              LF_seq_token, LF_recv_marks,   LF_live_frag_end,
                                              LF_abandoned};
    struct reach r = {.kind = MUST};
    struct model m = {.vm = vm, .lay = vm->lay, .proc = proc, .r = &r};
    uint64_t state = own(&m, LF_state);
    uint64_t lock = own(&m, LF_lock);
    *sum = 0;
    for (unsigned i = 0; i < sizeof still / sizeof *still; i++)
        *sum = (*sum ^ own(&m, still[i])) * 0x9E3779B97F4A7C15;
    return !refused(&m) && (state & (0x7C228000 | 0xC00)) == 0 && (lock & 1) == 0;
}
