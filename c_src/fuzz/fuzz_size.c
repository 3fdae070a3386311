/* fuzz_size.c: the sizes of an unchanging process's terms, and its mailbox, computed as simply as
 * possible.
 * Knows: the words of an object in a message, and which words are terms.
 * Does not know: stacks, slices, crowding: it shares no code with the walks, only their limits. */
#include "heap/root_size.h"
#include "fuzz/fuzz.h"
#include "process/queue.h"

#include <string.h>

enum { PILE = 64 }; /* remaining parts that a walker may have to remember */
enum { FRAGMENTS = 2 };
enum { PINNED = ADDRESS_SET_MAX };

struct spans {
    unsigned n;
    uint64_t from[REACH_BLOCKS], to[REACH_BLOCKS];
};

struct model {
    const struct vm *vm;
    const struct layout *lay;
    uint64_t proc, max_words;
    struct sizes *s;
    struct spans blocks, message; /* of the process; of the current message */
    uint64_t steps;
    bool too_large, pins;
    unsigned pinned_n;
    uint64_t pinned[PINNED];
    uint8_t seen[REACH_WORDS];
};

static void refuse_if(struct model *m, bool odd)
{
    if (odd)
        m->s->kind = REFUSED;
}

static void doubt_if(struct model *m, bool odd)
{
    if (odd && m->s->kind == MUST)
        m->s->kind = MAY;
}

static bool stopped(const struct model *m)
{
    return m->s->kind == REFUSED;
}

static uint64_t word(struct model *m, uint64_t address)
{
    const uint64_t *w = memory_at(address);
    refuse_if(m, !w);
    return w ? *w : 0;
}

static uint64_t own(struct model *m, enum layout_field f)
{
    uint64_t at = m->proc + m->lay->f[f];
    return layout_narrow(word(m, at & ~7ULL), at & 7, layout_width(m->lay, f));
}

/* ---- blocks ----------------------------------------------------------------------------------- */

static void apart(struct model *m, const struct spans *s, uint64_t from, uint64_t to)
{
    for (unsigned i = 0; i < s->n; i++)
        doubt_if(m, (from < s->to[i] && s->from[i] < to) || from == s->from[i]);
}

static void add_block(struct model *m, struct spans *s, uint64_t from, uint64_t to)
{
    unsigned max = s == &m->message ? BLOCKS_MAX - FRAGMENTS : REACH_BLOCKS;
    refuse_if(m, s->n == max);
    doubt_if(m, to < from || (from & 7) || (to & 7) || to - from > 8ULL << 44);
    if (stopped(m))
        return;
    apart(m, &m->blocks, from, to);
    apart(m, &m->message, from, to);
    s->from[s->n] = from;
    s->to[s->n++] = to;
}

static void add_fragments(struct model *m, struct spans *s, uint64_t frag, uint64_t max)
{
    while (frag != 0 && !stopped(m)) {
        uint64_t mem = frag + LF(m->lay, frag_mem);
        uint64_t used = word(m, frag + LF(m->lay, frag_used));
        refuse_if(m, used > 1ULL << 44 || ++m->steps > max);
        add_block(m, s, mem, mem + used * 8);
        frag = word(m, frag + LF(m->lay, frag_next));
    }
}

static uint64_t attached_to(struct model *m, uint64_t message)
{
    uint64_t attached = word(m, message + LF(m->lay, msg_attached));
    return attached == 1 ? message + LF(m->lay, msg_hfrag) : attached;
}

static void add_blocks(struct model *m, enum layout_field young_end)
{
    add_block(m, &m->blocks, own(m, LF_heap), own(m, young_end));
    add_block(m, &m->blocks, own(m, LF_old_heap), own(m, LF_old_htop));
    m->steps = 0;
    if (own(m, LF_abandoned) != 0) {
        struct block used;
        refuse_if(m, !fuzz_abandoned(m->lay, m->proc, &used) || ++m->steps > MESSAGES_MAX);
        add_block(m, &m->blocks, used.from, used.to);
    }
    add_fragments(m, &m->blocks, own(m, LF_mbuf), MESSAGES_MAX);
    for (uint64_t at = own(m, LF_msg_frag); at != 0 && !stopped(m);
         at = word(m, at + LF(m->lay, msg_next))) {
        refuse_if(m, ++m->steps > MESSAGES_MAX);
        add_fragments(m, &m->blocks, attached_to(m, at), MESSAGES_MAX);
    }
}

static void fragments_of_message(struct model *m, uint64_t message)
{
    uint64_t before = m->steps;
    m->steps = 0;
    m->message.n = 0;
    add_fragments(m, &m->message, attached_to(m, message), BLOCKS_MAX + 1);
    m->steps = before;
}

static bool in(const struct spans *s, uint64_t p, uint64_t words)
{
    for (unsigned i = 0; i < s->n; i++) {
        if (p >= s->from[i] && p < s->to[i] && s->to[i] - p >= words * 8)
            return true;
    }
    return false;
}

/* false: outside of the blocks. The model has no literals, or does not know where they lie, so the
 * size of other objects is unknown. */
static bool inside(struct model *m, uint64_t p, uint64_t words)
{
    bool ok = in(&m->blocks, p, words) || in(&m->message, p, words);
    refuse_if(m, !ok);
    return ok;
}

/* ---- terms ------------------------------------------------------------------------------------- */

static void add_words(struct model *m, uint64_t words)
{
    m->s->words += words;
    m->too_large = m->too_large || m->s->words > m->max_words;
    refuse_if(m, m->too_large);
}

static void pin(struct model *m, uint64_t binary)
{
    uint64_t bytes = word(m, binary + LF(m->lay, bin_size));
    for (unsigned i = 0; i < m->pinned_n; i++) {
        if (m->pinned[i] == binary)
            return;
    }
    m->s->crowded = m->s->crowded || m->pinned_n == PINNED;
    if (m->pinned_n < PINNED)
        m->pinned[m->pinned_n++] = binary;
    m->s->pinned += bytes;
}

struct shown {
    uint64_t bits, words, binary; /* 0: on the heap */
    uint64_t object;              /* the object that it is a part of */
};

/* A part of a binary. Up to OTP 26 it has a size in bytes, and bits before and after them, which
 * may take up to two bytes more; from 27 on it has a first and a last bit. */
static struct shown a_part(struct model *m, uint64_t p)
{
    bool old = m->lay->otp <= 26;
    uint64_t w1 = word(m, p + 8);
    uint64_t w2 = word(m, p + 16);
    uint64_t w3 = word(m, p + 24);
    uint64_t orig = word(m, p + 32);
    uint64_t odd = (w3 & 0xFF) + (w3 >> 8 & 0xFF);
    struct shown b = {.bits = w3 > w2 ? w3 - w2 : 0, .object = orig & ~7ULL};
    if (old) {
        odd = odd > 8 ? 2 : odd > 0;
        b.bits = w1 * 8 + (w3 & 0xFF);
    }
    refuse_if(m, (orig & 3) != 2);
    (void)inside(m, b.object, 2);
    uint64_t header = stopped(m) ? 0 : word(m, b.object);
    refuse_if(m, (header & 3) != 0);
    if ((int)(header >> 2 & 15) == fuzz_tag(m->lay, KIND_REFC)) {
        b.words = (old && odd == 0 ? 0 : 5) + 1 + (header >> 6);
        b.binary = word(m, b.object + LF(m->lay, bin_ptr));
    } else {
        uint64_t bytes = old ? b.bits / 8 + odd : (b.bits + 7) / 8;
        b.words = (old && odd != 0 ? 5 : 0) + 2 + (bytes + 7) / 8;
    }
    return b;
}

static struct shown a_binary(struct model *m, enum kind kind, uint64_t p, uint64_t words)
{
    struct shown b = {.words = words};
    if (kind == KIND_SUB_BINARY)
        return a_part(m, p);
    b.bits = word(m, p + 8);
    if (m->lay->otp <= 26)
        b.bits *= 8;
    if (kind == KIND_REFC)
        b.binary = word(m, p + LF(m->lay, bin_ptr));
    return b;
}

static bool is_binary(const struct model *m, enum kind kind)
{
    return kind == KIND_SUB_BINARY || kind == KIND_HEAP_BINARY ||
           (kind == KIND_REFC && m->lay->otp <= 26);
}

/* held: in a fun or a record. */
static void binary(struct model *m, enum kind kind, uint64_t p, uint64_t words, bool held)
{
    struct shown b = a_binary(m, kind, p, words);
    if (stopped(m))
        return;
    if (!held && b.bits % 8 == 0 && b.bits / 8 > 64)
        m->s->bytes += b.bits / 8;
    if (b.binary != 0) {
        m->s->visible += (b.bits + 7) / 8;
        if (m->pins)
            pin(m, b.binary);
    }
    add_words(m, b.words);
}

static void size_of(struct model *m, uint64_t w, bool held, unsigned pile);

static void sizes_of(struct model *m, uint64_t p, uint64_t words, bool held, // NOLINT
                     unsigned pile)
{
    for (uint64_t i = 0; i < words && !stopped(m); i++)
        size_of(m, word(m, p + i * 8), held, pile + (i + 1 < words));
}

static void size_of_boxed(struct model *m, uint64_t p, bool held, unsigned pile) // NOLINT
{
    enum kind kind = KIND_NONE;
    uint64_t first = 0;
    uint64_t words = inside(m, p, 1) ? fuzz_thing(m->vm, p, &kind, &first) : 0;
    refuse_if(m, words == 0);
    if (stopped(m) || !inside(m, p, words))
        return;
    doubt_if(m, kind == KIND_MATCH);
    if (kind == KIND_MATCH || (kind == KIND_TUPLE && words == 1))
        return;
    if (is_binary(m, kind)) {
        binary(m, kind, p, words, held);
        return;
    }
    add_words(m, words);
    held = held || kind == KIND_FUN || kind == KIND_RECORD;
    if (first < words)
        sizes_of(m, p + first * 8, words - first, held, pile);
}

/* The recursion ends, because each object on the way has words. */
static void size_of(struct model *m, uint64_t w, bool held, unsigned pile) // NOLINT
{
    uint64_t p = w & ~7ULL;
    refuse_if(m, (w & 3) == 0);
    m->s->crowded = m->s->crowded || pile > PILE;
    if (stopped(m) || (w & 3) == 3)
        return;
    if ((w & 3) == 2) {
        size_of_boxed(m, p, held, pile);
    } else if (inside(m, p, 2)) {
        add_words(m, 2);
        sizes_of(m, p, 2, held, pile);
    }
}

/* ---- each part once ------------------------------------------------------------------------------ */

static bool first_time(struct model *m, uint64_t p)
{
    size_t i = p >= MEMORY_TOP ? MEMORY_WORDS + (p - MEMORY_TOP) / 8 : (p - MEMORY_BASE) / 8;
    (void)word(m, p);
    if (stopped(m) || m->seen[i])
        return false;
    m->seen[i] = 1;
    return true;
}

static void share(struct model *m, uint64_t w) // NOLINT(misc-no-recursion)
{
    uint64_t p = w & ~7ULL;
    uint64_t first = 0;
    uint64_t words = 2;
    enum kind kind = KIND_NONE;
    if ((w & 3) == 3 || !first_time(m, p))
        return;
    if ((w & 3) == 2)
        words = fuzz_thing(m->vm, p, &kind, &first);
    if (kind == KIND_TUPLE && words == 1)
        return;
    if (kind != KIND_SUB_BINARY) {
        m->s->shared += words;
        for (; first < words; first++)
            share(m, word(m, p + first * 8));
        return;
    }
    struct shown b = a_part(m, p);
    if (b.binary == 0 || m->lay->otp <= 26) {
        m->s->shared += b.words;
        return;
    }
    m->s->shared += 5;
    if (first_time(m, b.object))
        m->s->shared += 1 + (word(m, b.object) >> 6);
}

/* ---- which terms --------------------------------------------------------------------------------- */

static bool is_signal(uint64_t tag)
{
    return (tag & 0x3F) == 0x30;
}

static void walkable(struct model *m)
{
    uint64_t state = own(m, LF_state);
    refuse_if(m, (state & MIDDLE_Q) || in_buffers(m->lay, state));
}

/* As for a mark: a NIF may have yielded. */
static void readable(struct model *m)
{
    uint64_t psd = own(m, LF_psd);
    walkable(m);
    refuse_if(m, own(m, LF_abandoned) != 0 && own(m, LF_live_frag_end) != ~7ULL);
    if (psd != 0 && (own(m, LF_state) & 0x2000))
        refuse_if(m, word(m, psd + LF(m->lay, psd_nfunc)) != 0);
}

/* Each part can be counted once only if it is known where literals lie, and if there are not too
 * many words. */
static void sharable(struct model *m)
{
    uint64_t words = 0;
    for (unsigned i = 0; i < m->blocks.n; i++)
        words += (m->blocks.to[i] - m->blocks.from[i]) / 8;
    refuse_if(m, m->vm->literals.to == 0 || words > SHARED_SIZE_WORDS_MAX);
}

/* true: the pair with this number was on the stack. */
static bool stack(struct model *m, unsigned want, uint64_t n)
{
    uint64_t at = own(m, LF_stop);
    uint64_t end = own(m, LF_hend);
    bool odd = (at & 7) != (end & 7); /* the stack has no end, but the pair may come first */
    refuse_if(m, at > end || (odd && !(want & ROOT_SIZE_SLOT)));
    doubt_if(m, odd);
    if (odd)
        return true;
    for (; at != end && !stopped(m); at += 8) {
        uint64_t w = word(m, at);
        uint64_t p = w & ~7ULL;
        if ((want & ROOT_SIZE_SLOT) && (w & 3) == 2 && in(&m->blocks, p, 3) &&
            word(m, p) == 2ULL << 6 && word(m, p + 8) == (n << 4 | 15)) {
            size_of(m, word(m, p + 16), false, 0);
            if (want & ROOT_SIZE_SHARED)
                sharable(m);
            if (!stopped(m) && (want & ROOT_SIZE_SHARED))
                share(m, word(m, p + 16));
            return true;
        }
        if ((want & ROOT_SIZE_STACK) && (w & 3) != 0)
            size_of(m, w, false, 0);
    }
    return false;
}

static void registers(struct model *m, bool wanted)
{
    uint64_t n = own(m, LF_arity);
    uint64_t at = own(m, LF_arg_reg);
    refuse_if(m, n > 1024);
    for (uint64_t i = 0; i < n && !stopped(m); i++) {
        uint64_t w = word(m, at + i * 8);
        if (wanted)
            size_of(m, w, false, 0);
    }
}

/* Counts the pairs, not the lists that hold them. */
static void dictionary(struct model *m, bool wanted)
{
    uint64_t dict = own(m, LF_dictionary);
    uint64_t at = dict + LF(m->lay, dict_used);
    if (dict == 0)
        return;
    uint64_t used = word(m, at & ~7ULL) >> (at & 7) * 8 & 0xFFFFFFFF;
    for (uint64_t i = 0; i < used && !stopped(m); i++) {
        uint64_t w = word(m, dict + LF(m->lay, dict_head) + i * 8);
        unsigned pairs = 0;
        for (; wanted && (w & 3) == 1 && !stopped(m); w = word(m, (w & ~7ULL) + 8)) {
            refuse_if(m, ++pairs > REACH_WORDS); /* a cycle */
            if (inside(m, w & ~7ULL, 2))
                size_of(m, word(m, w & ~7ULL), false, 0);
        }
        if (wanted && pairs == 0 && !stopped(m))
            size_of(m, w, false, 0);
    }
}

static void queue(struct model *m, uint64_t at, bool wanted)
{
    for (; at != 0 && !stopped(m); at = word(m, at + LF(m->lay, msg_next))) {
        uint64_t tag = word(m, at + LF(m->lay, msg_tag));
        refuse_if(m, ++m->steps > MESSAGES_MAX);
        (void)word(m, at + LF(m->lay, msg_next));
        if (is_signal(tag))
            continue;
        if (!wanted)
            return;
        for (unsigned i = 0; i < 3 && tag != 0; i++)
            (void)word(m, at + LF(m->lay, msg_tag) + i * 8ULL);
        if (tag == 0 || (tag & 3) == 3)
            continue;
        fragments_of_message(m, at);
        size_of(m, tag, false, 0);
    }
    m->message.n = 0;
}

/* Words that the question does not need, but a walk reads. */
static void others(struct model *m)
{
    uint64_t marks = own(m, LF_recv_marks);
    (void)own(m, LF_group_leader);
    (void)own(m, LF_parent);
    (void)own(m, LF_seq_token);
    for (unsigned i = 0; i < 8 && marks != 0; i++)
        (void)word(m, marks + i * 8ULL);
    doubt_if(m, own(m, LF_live_frag_end) != ~7ULL && own(m, LF_mbuf) != 0);
}

struct sizes model_flat(const struct vm *vm, uint64_t proc, unsigned want, uint64_t n,
                        uint64_t max_words)
{
    static struct model m;
    static struct sizes s;
    s = (struct sizes){.kind = MUST};
    memset(&m, 0, sizeof m);
    m.vm = vm;
    m.lay = vm->lay;
    m.proc = proc;
    m.max_words = max_words;
    m.s = &s;
    m.pins = want & ROOT_SIZE_BINARIES;
    readable(&m);
    add_blocks(&m, LF_htop);
    if (stopped(&m) || stack(&m, want, n))
        return s;
    refuse_if(&m, want & ROOT_SIZE_SLOT);
    registers(&m, want & ROOT_SIZE_REGISTERS);
    dictionary(&m, want & ROOT_SIZE_DICTIONARY);
    m.steps = 0;
    queue(&m, own(&m, LF_sig_first), want & ROOT_SIZE_MESSAGES);
    queue(&m, own(&m, LF_inq_first), want & ROOT_SIZE_MESSAGES);
    others(&m);
    return s;
}

/* ---- the mailbox --------------------------------------------------------------------------------- */

static void shape_of_boxed(struct model *m, uint64_t p, struct shape *s)
{
    enum kind kind = KIND_NONE;
    uint64_t first = 0;
    uint64_t words = inside(m, p, 1) ? fuzz_thing(m->vm, p, &kind, &first) : 0;
    refuse_if(m, words == 0);
    if (stopped(m))
        return;
    if (kind == KIND_MAP)
        s->kind = SHAPE_MAP;
    if (kind == KIND_REFC || kind == KIND_HEAP_BINARY || kind == KIND_SUB_BINARY)
        s->kind = SHAPE_BINARY;
    if (kind != KIND_TUPLE)
        return;
    s->kind = SHAPE_TUPLE;
    s->arity = words - 1;
    if (words > 1 && inside(m, p, 2))
        s->tag = (word(m, p + 8) & 0x3F) == 0x0B ? word(m, p + 8) : 0;
}

static struct shape shape_of(struct model *m, uint64_t w)
{
    struct shape s = {.kind = SHAPE_OTHER};
    if ((w & 3) == 1 || w == 0x3B)
        s.kind = SHAPE_LIST;
    else if ((w & 0x3F) == 0x0B)
        s = (struct shape){.kind = SHAPE_ATOM, .tag = w};
    else if ((w & 3) != 3 && w != 0)
        shape_of_boxed(m, w & ~7ULL, &s);
    return s;
}

static struct shape *find(struct mail *mail, const struct shape *s)
{
    unsigned i = 0;
    for (; i < mail->n; i++) {
        const struct shape *o = &mail->shapes[i];
        if (o->kind == s->kind && o->tag == s->tag && o->arity == s->arity)
            return &mail->shapes[i];
    }
    if (s->kind == SHAPE_OTHER || i == SHAPES_MAX)
        return &mail->shapes[SHAPES_MAX];
    mail->shapes[mail->n++] = *s;
    return &mail->shapes[i];
}

static void message(struct model *m, uint64_t at, uint64_t tag, struct mail *mail)
{
    if (tag != 0)
        fragments_of_message(m, at);
    (void)word(m, at + LF(m->lay, msg_tag) + 16);
    struct shape key = shape_of(m, tag);
    if (stopped(m))
        return;
    struct shape *s = find(mail, &key);
    uint64_t words = m->s->words;
    uint64_t visible = m->s->visible;
    mail->examined++;
    s->messages++;
    if (tag != 0)
        size_of(m, tag, false, 0);
    s->words += m->s->words - words;
    s->visible += m->s->visible - visible;
}

static void waiting(struct model *m, uint64_t at, bool inner, uint64_t sample, struct mail *mail)
{
    while (at != 0 && !stopped(m)) {
        uint64_t tag = word(m, at + LF(m->lay, msg_tag));
        uint64_t next = word(m, at + LF(m->lay, msg_next));
        refuse_if(m, ++m->steps > MESSAGES_MAX);
        refuse_if(m, is_signal(tag) && !(inner && (tag >> 6 & 0xFF) == 16));
        if (!is_signal(tag) && !stopped(m)) {
            mail->messages++;
            if (mail->examined < sample)
                message(m, at, tag, mail);
        }
        if (!inner && next == 0)
            mail->last = at + LF(m->lay, msg_next);
        at = next;
    }
}

void model_mailbox(const struct vm *vm, uint64_t proc, uint64_t sample, uint64_t max_words,
                   struct mail *mail)
{
    static struct model m;
    memset(&m, 0, sizeof m);
    memset(mail, 0, sizeof *mail);
    mail->sizes.kind = MUST;
    m.vm = vm;
    m.lay = vm->lay;
    m.proc = proc;
    m.max_words = max_words;
    m.s = &mail->sizes;
    walkable(&m);
    add_blocks(&m, LF_stop);
    m.steps = 0;
    waiting(&m, own(&m, LF_sig_first), true, sample, mail);
    waiting(&m, own(&m, LF_inq_first), false, sample, mail);
}
