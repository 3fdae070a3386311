/* fuzz_build.c: a small language of bytes that builds processes in the model memory.
 * Knows: the structures of the VM by each layout table, and how to break them.
 * Does not know: which walker will read them.
 *
 * The first bytes choose the query; verbs follow, each a byte (the verb in its low half, a
 * parameter in its high half) with its operands. Most verbs build a whole structure and link it
 * where it belongs, so most inputs are processes as a VM has them; the others move a pointer by a
 * word, write a word somewhere, or let it change at a later read. Operands are relative to
 * structures that exist, for example the end of the last fragment and eight bytes, so that a
 * mutated byte still names an interesting place. */
#include "fuzz/fuzz_build.h"

#include <string.h>

/* ---- operands ------------------------------------------------------------------------------- */

static int64_t delta(unsigned i)
{
    static const int8_t deltas[] = {0,   8,  -8,  16, -16, 24, -24, 32,
                                    -32, 40, -40, 1,  -1,  4,  64,  -64};
    return deltas[i % sizeof deltas];
}

static const struct place *any_mark(struct builder *b)
{
    unsigned i = byte(b);
    return &b->marks[b->marks_n - 1 - i % b->marks_n];
}

static const enum layout_field pointers[] = {
    LF_htop,       LF_heap,     LF_hend,      LF_heap_sz,     LF_stop,       LF_old_htop,
    LF_old_heap,   LF_mbuf,     LF_old_hend,  LF_off_heap,    LF_wrt_bins,   LF_msg_frag,
    LF_links,      LF_monitors, LF_arg_reg,   LF_lt_monitors, LF_arity,      LF_sig_first,
    LF_inq_first,  LF_sig_len,  LF_inq_len,   LF_psd,         LF_dictionary, LF_mbuf_sz,
    LF_high_water, LF_gen_gcs,  LF_sig_flags, LF_trace_flags, LF_reds,       LF_pc,
    LF_id,         LF_state,    LF_lock};

/* The highest byte values select fields that were added later, so all others keep their meaning. */
static const enum layout_field more_pointers[] = {LF_abandoned, LF_group_leader, LF_parent,
                                                  LF_seq_token, LF_recv_marks};

static enum layout_field any_field(struct builder *b)
{
    unsigned i = byte(b);
    return i >= 251 ? more_pointers[i - 251] : pointers[i % (sizeof pointers / sizeof *pointers)];
}

static uint64_t place(struct builder *b)
{
    const struct place *m = any_mark(b);
    return m->from + 8ULL * (byte(b) % ((m->to - m->from) / 8 + 2));
}

static uint64_t special(unsigned i)
{
    static const uint64_t words[] = {
        MEMORY_TOP,         MEMORY_TOP + 8,  MEMORY_TOP + 40, 0 - 8ULL,   0 - 24ULL,  0 - 1ULL,
        0 - 0x48ULL,        MEMORY_BASE,     MEMORY_BASE - 8, 1ULL << 44, 1ULL << 47, 1ULL << 61,
        (1ULL << 44) + 1,   1ULL << 63,      0x8DEFFACD,      0x160,      0xA8,       0xF0,
        (1ULL << 63) - 1,   MEMORY_TOP + 48, 0x30 | 16 << 6,  0x3FF0,     0x1F,       0x90,
        0xFFFFFFFFFFFFFFF3, 0xFFFFFFF3,      1 << 27,         0x100000000};
    return words[i % (sizeof words / sizeof *words)];
}

static uint64_t bytes(struct builder *b, unsigned n)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < n; i++)
        sum |= (uint64_t)byte(b) << 8 * i;
    return sum;
}

uint64_t build_value(struct builder *b)
{
    unsigned kind = byte(b);
    unsigned rest = kind >> 3;
    switch (kind & 7) {
    case 0:
        return rest;
    case 1:
        return any_mark(b)->from + (uint64_t)delta(rest);
    case 2:
        return any_mark(b)->to + (uint64_t)delta(rest);
    case 3:
        return place(b) + (uint64_t)delta(rest);
    case 4:
        return special(rest);
    case 5:
        return get_word(place(b)) + (uint64_t)delta(rest);
    case 6:
        return own(b, any_field(b)) + (uint64_t)delta(rest);
    default:
        return bytes(b, 1 + rest % 8);
    }
}

/* ---- verbs that break them --------------------------------------------------------------------- */

static void write_word(struct builder *b, unsigned param)
{
    uint64_t at = place(b);
    (void)param;
    put_word(at, build_value(b));
}

static void write_field(struct builder *b, unsigned param)
{
    enum layout_field f = any_field(b);
    (void)param;
    set(b, f, build_value(b));
}

static void nudge_field(struct builder *b, unsigned param)
{
    enum layout_field f = any_field(b);
    set(b, f, own(b, f) + (uint64_t)delta(param));
}

static void unsettle(struct builder *b, unsigned param)
{
    unsigned bit = byte(b) % 32;
    enum layout_field f = param & 1 ? LF_lock : LF_state;
    set(b, f, own(b, f) ^ 1ULL << bit);
}

/* A word somewhere changes at a later read. */
static void change_word(struct builder *b, unsigned param)
{
    uint64_t after = (uint64_t)param * 16 + byte(b) % 16;
    uint64_t at = place(b);
    memory_change(after, at, build_value(b));
}

/* A field of the process changes at a later read: the process runs. */
static void change_field(struct builder *b, unsigned param)
{
    uint64_t after = (uint64_t)param * 4 + byte(b) % 4;
    uint64_t at = (b->p->at + b->lay->f[any_field(b)]) & ~7ULL;
    unsigned how = byte(b);
    uint64_t by = how < 128 ? (uint64_t)delta(how) : 1ULL << how % 64;
    memory_change(after, at, get_word(at) + by);
}

static void write_slot(struct builder *b, unsigned param)
{
    put_word(b->img->vm.tab.tab + 8 * (uint64_t)(param % SLOTS), build_value(b));
}

static void select_process(struct builder *b, unsigned param)
{
    b->p = &b->procs[param % b->procs_n];
}

static verb *const verbs[16] = {build_entry,      build_mbuf,    build_message, build_tie,
                                build_dictionary, write_word,    write_field,   nudge_field,
                                change_word,      change_field,  unsettle,      write_slot,
                                build_process,    select_process};

/* More verbs, and room for new ones that the kept inputs do not use yet: byte 14 with the number of
 * the verb as parameter; the verb's own parameter is the next byte. */
static verb *const more_verbs[16] = {build_thing,  build_deep,       build_hold,     build_call,
                                     build_frames, build_first_call, build_abandoned};

static bool run_verb(struct builder *b, unsigned op)
{
    bool more = (op & 15) == 14;
    verb *v = more ? more_verbs[op >> 4] : verbs[op & 15];
    if (v)
        v(b, more ? byte(b) & 15 : op >> 4);
    return v != NULL;
}

/* Runs the verbs in order. A byte that is no verb repeats the last verb, so short inputs build long
 * chains. */
static void run_verbs(struct builder *b)
{
    const uint8_t *last = NULL;
    while (b->in < b->end) {
        const uint8_t *start = b->in;
        unsigned op = byte(b);
        if (run_verb(b, op)) {
            last = start;
            continue;
        }
        const uint8_t *after = b->in;
        unsigned param = op >> 4;
        for (unsigned i = 0; i <= param && last; i++) {
            b->in = last;
            op = byte(b);
            (void)run_verb(b, op);
        }
        b->in = after;
    }
}

/* ---- what to ask --------------------------------------------------------------------------------- */

static void choose_proof(struct builder *b, struct proof *p)
{
    unsigned how = byte(b);
    p->n = how % (PROOF_STEPS + 1);
    p->op = (enum proof_op)(how / 8 % OP_COUNT);
    p->words = 8;
    p->other = any_field(b);
    p->word = special(how);
    p->other_proc = b->procs[b->procs_n - 1].at;
    for (unsigned i = 0; i < p->n; i++) {
        unsigned step = byte(b);
        p->path[i].kind = (enum proof_step_kind)(step % 3);
        p->path[i].field = (enum layout_field)(step / 3 % LAYOUT_FIELD_COUNT);
    }
}

/* Most byte values select one of the first twelve, and others one of eight, so kept inputs keep their
 * attribute. */
static enum attr any_attr(unsigned i)
{
    enum { FIRST = 12, LIMIT = 192, LATER = 8, LAST = 251 };
    static const enum attr last[] = {ATTR_origin, ATTR_stack, ATTR_oldest_message, ATTR_waits_call,
                                     ATTR_waits_for};
    if (i >= LAST)
        return last[i - LAST];
    unsigned attr = i < LIMIT ? i % FIRST : FIRST + i % LATER;
    return attr < ATTR_COUNT ? (enum attr)attr : ATTR_binary_unique;
}

void image_build(struct image *img, const uint8_t *data, size_t size)
{
    static struct layout lay;
    struct builder b = {.in = data, .end = data + size, .img = img, .lay = &lay};
    unsigned table = byte(&b);
    memset(img, 0, sizeof *img);
    lay = *layout_table(table % layout_count());
    lay.self_bit = table / layout_count() % 2 == 1;
    img->vm = (struct vm){.reader = PEEK_SYSCALL,
                          .lay = b.lay,
                          .tab = {.tab = make(&b, SLOTS * 8ULL), .max = SLOTS},
                          .fun_module = 32,
                          .identity = {.call = FUZZ_FIRST_CALL(b.lay)},
                          .first_call_key = FUZZ_KEY,
                          .begins_late = {FUZZ_ATOM(0), FUZZ_ATOM(3), 2}};
    img->attr = any_attr(byte(&b));
    img->mode = byte(&b);
    img->steps = 1 + byte(&b) % 16;
    img->rows = byte(&b) % (SLOTS + 2);
    img->remembered = byte(&b) % (2 * SLOTS);
    img->fail_at = byte(&b) % 16 == 15 ? 1 + byte(&b) % 8 : 0;
    build_process(&b, 3);
    if (b.procs_n == 0)
        fuzz_fail("no room for a process", "");
    choose_proof(&b, &img->proof);
    run_verbs(&b);
    if (table >= 250) /* the table's end cannot be read */
        img->vm.tab.tab = MEMORY_BASE + MEMORY_WORDS * 8ULL - (table - 249) * 8ULL;
    memory_built();
}
