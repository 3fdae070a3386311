/* fuzz_hold.c: the Binaries that the processes of an image hold, and the shares of their bytes, in
 * plain lists.
 * Knows: off-heap lists, messages, and the expected account of all Binaries.
 * Does not know: hash tables, rings, slices, samples: it shares no code with the walk, only the
 * limits. */
#include "fuzz/fuzz.h"

#include <string.h>

enum { PROCESS_BLOCKS = 2 }; /* young and old heap */

/* A Binary, and the references to it: on lists and in messages. */
struct held {
    uint64_t binary, size, refc, listed, queued;
    bool resource; /* not a binary but a resource */
    uint64_t type; /* of a resource; 0: unknown */
};

/* What one process holds. */
struct holds {
    int kind;   /* of verdict */
    bool odd;   /* a Binary is larger than any machine's memory: any answer will do */
    bool magic; /* it holds a resource, or a reference to no binary */
    uint64_t steps;
    unsigned n;
    struct held of[HELD_MAX];
};

struct model {
    const struct vm *vm;
    const struct layout *lay;
    bool resources; /* resources count, too, as a kind of their own */
    uint64_t proc;
    struct holds *h;
    bool late;     /* REFUSED, but a walk may meet all that follows before it sees that */
    uint64_t left; /* how many more entries have room */
    unsigned n;    /* blocks */
    uint64_t from[HELD_BLOCKS_MAX], to[HELD_BLOCKS_MAX];
};

static void refuse_if(struct model *m, bool odd)
{
    if (odd)
        m->h->kind = REFUSED;
}

static bool stopped(const struct model *m)
{
    return m->h->kind == REFUSED;
}

static uint64_t word(struct model *m, uint64_t address)
{
    const uint64_t *w = memory_at(address);
    refuse_if(m, !w);
    return w ? *w : 0;
}

/* A word of a Binary, which a walk reads some time after it met the Binary. */
static uint64_t word_later(struct model *m, uint64_t address)
{
    const uint64_t *w = memory_at(address);
    m->late = m->late || !w;
    return w ? *w : 0;
}

static uint64_t own(struct model *m, enum layout_field f)
{
    uint64_t at = m->proc + m->lay->f[f];
    return layout_narrow(word(m, at & ~7ULL), at & 7, layout_width(m->lay, f));
}

/* ---- blocks ----------------------------------------------------------------------------------- */

static void add_block(struct model *m, uint64_t from, uint64_t to)
{
    refuse_if(m, m->n == HELD_BLOCKS_MAX);
    if (stopped(m))
        return;
    for (unsigned i = 0; i < m->n; i++) {
        bool overlap = (from < m->to[i] && m->from[i] < to) || from == m->from[i];
        if (overlap && m->h->kind == MUST)
            m->h->kind = MAY;
    }
    m->from[m->n] = from;
    m->to[m->n++] = to;
}

static void add_fragments(struct model *m, uint64_t frag, uint64_t *steps, uint64_t max)
{
    while (frag != 0 && !stopped(m)) {
        uint64_t mem = frag + LF(m->lay, frag_mem);
        uint64_t used = word(m, frag + LF(m->lay, frag_used));
        refuse_if(m, used > 1ULL << 44 || mem + used * 8 < mem || ++*steps > max);
        add_block(m, mem, mem + used * 8);
        frag = word(m, frag + LF(m->lay, frag_next));
        m->h->steps++;
    }
}

static uint64_t attached_to(struct model *m, uint64_t message)
{
    uint64_t attached = word(m, message + LF(m->lay, msg_attached));
    return attached == 1 ? message + LF(m->lay, msg_hfrag) : attached;
}

/* All fragments of a process, with those of each message that it received. */
static void add_all_fragments(struct model *m)
{
    uint64_t steps = 0;
    if (own(m, LF_abandoned) != 0) {
        struct block used;
        refuse_if(m, !fuzz_abandoned(m->lay, m->proc, &used) || ++steps > MESSAGES_MAX);
        add_block(m, used.from, used.to);
        m->h->steps++;
    }
    add_fragments(m, own(m, LF_mbuf), &steps, MESSAGES_MAX);
    for (uint64_t at = own(m, LF_msg_frag); at != 0 && !stopped(m);
         at = word(m, at + LF(m->lay, msg_next))) {
        refuse_if(m, ++steps > MESSAGES_MAX);
        m->h->steps++;
        add_fragments(m, attached_to(m, at), &steps, MESSAGES_MAX);
    }
}

static bool inside(const struct model *m, uint64_t p, uint64_t words)
{
    for (unsigned i = 0; i < m->n; i++) {
        if (p >= m->from[i] && p < m->to[i] && m->to[i] - p >= words * 8)
            return true;
    }
    return false;
}

/* Counts how many entries have room in the blocks. */
static void count_room(struct model *m)
{
    uint64_t words = 0;
    for (unsigned i = 0; i < m->n; i++) {
        refuse_if(m, m->to[i] < m->from[i] || (m->to[i] - m->from[i]) / 8 > 1ULL << 44);
        words += (m->to[i] - m->from[i]) / 8;
    }
    m->left = words / 3 + m->n + 1 < ENTRIES_MAX ? words / 3 + m->n + 1 : ENTRIES_MAX;
}

/* ---- chains ------------------------------------------------------------------------------------ */

static void an_atom(struct model *m, uint64_t address)
{
    m->late = m->late || (word_later(m, address) & 0x3F) != 0x0B;
}

/* false: the allocator has another type for it. */
static bool is_binary_memory(struct model *m, struct held *has)
{
    uint64_t data = has->binary + LF(m->lay, magic_data);
    uint64_t frees = word_later(m, has->binary + LF(m->lay, magic_free));
    has->resource = m->h->magic = true;
    if (word_later(m, data - 8) >> 32 != m->vm->binary_alloc)
        return false;
    if (frees == m->vm->resource_free)
        has->type = word_later(m, data);
    if (has->type != 0) {
        an_atom(m, has->type + LF(m->lay, type_module));
        an_atom(m, has->type + LF(m->lay, type_name));
    }
    return true;
}

static void refer(struct model *m, uint64_t entry, uint64_t at, bool queued)
{
    struct holds *h = m->h;
    uint64_t binary = word(m, entry + at);
    unsigned i = 0;
    refuse_if(m, !inside(m, entry, at / 8 + 1) || binary == 0 || (binary & 7));
    uint64_t flags = word_later(m, binary);
    struct held has = {.binary = binary,
                       .size = word_later(m, binary + LF(m->lay, bin_size)),
                       .refc = word_later(m, binary + LF(m->lay, bin_refc)),
                       .listed = !queued,
                       .queued = queued};
    if (m->resources && (flags & 1) && !is_binary_memory(m, &has))
        return;
    while (i < h->n && h->of[i].binary != binary)
        i++;
    m->late = m->late || i == HELD_MAX;
    if (stopped(m) || m->late)
        return;
    if (i == h->n) {
        h->of[h->n++] = has;
        h->odd = h->odd || has.size >> 56 != 0;
    } else {
        h->of[i].listed += has.listed;
        h->of[i].queued += has.queued;
    }
}

static void chain(struct model *m, uint64_t entry, bool queued)
{
    enum { MAGIC_REF = 0x90 }; /* ERTS_MAGIC_REF_THING_HEADER */
    while (entry != 0 && !stopped(m)) {
        uint64_t object = word(m, entry);
        uint64_t next = word(m, entry + LF(m->lay, oh_next));
        refuse_if(m, !inside(m, entry, 3) || (object & 3) != 0 || m->left-- == 0);
        if (object == LF(m->lay, bin_thing) && !stopped(m))
            refer(m, entry, LF(m->lay, bin_ptr), queued);
        if (m->resources && object == MAGIC_REF && !stopped(m)) {
            refer(m, entry, LF(m->lay, ref_bin), queued);
            m->h->magic = true;
        }
        entry = next;
        m->h->steps++;
    }
}

static void chains_of_fragments(struct model *m, uint64_t frag, bool queued)
{
    while (frag != 0 && !stopped(m)) {
        uint64_t first = word(m, frag + LF(m->lay, frag_off_heap));
        frag = word(m, frag + LF(m->lay, frag_next));
        refuse_if(m, m->left-- == 0);
        m->h->steps++;
        chain(m, first, queued);
    }
}

static void lists(struct model *m)
{
    if ((own(m, LF_off_heap) | own(m, LF_wrt_bins) | own(m, LF_mbuf)) == 0)
        return;
    add_all_fragments(m);
    count_room(m);
    chain(m, own(m, LF_off_heap), false);
    chain(m, own(m, LF_wrt_bins), false);
    chains_of_fragments(m, own(m, LF_mbuf), false);
}

/* ---- messages ---------------------------------------------------------------------------------- */

/* The references of a message lie in its own fragments. */
static void message(struct model *m, uint64_t at)
{
    uint64_t steps = 0;
    uint64_t frag = attached_to(m, at);
    m->n = PROCESS_BLOCKS;
    add_fragments(m, frag, &steps, BLOCKS_MAX + 1);
    count_room(m);
    chains_of_fragments(m, frag, true);
}

static void queue(struct model *m, bool inner, unsigned *messages)
{
    enum { MARKER = 16 };
    uint64_t at = own(m, inner ? LF_sig_first : LF_inq_first);
    while (at != 0 && !stopped(m)) {
        uint64_t tag = word(m, at + LF(m->lay, msg_tag));
        bool signal = (tag & 0x3F) == 0x30;
        uint64_t next = word(m, at + LF(m->lay, msg_next));
        refuse_if(m, ++*messages > MESSAGES_MAX ||
                         (signal && !(inner && (tag >> 6 & 0xFF) == MARKER)));
        if (!signal && tag != 0 && !stopped(m))
            message(m, at);
        at = next;
        m->h->steps++;
    }
}

/* true: a signal or a sender's buffer may hide messages. */
static bool hidden(struct model *m)
{
    uint64_t state = own(m, LF_state);
    return (state & MIDDLE_Q) || in_buffers(m->lay, state);
}

static void hold(const struct vm *vm, uint64_t proc, bool resources, struct holds *h)
{
    struct model m = {.vm = vm, .lay = vm->lay, .resources = resources, .proc = proc, .h = h};
    unsigned messages = 0;
    h->kind = MUST;
    h->odd = h->magic = false;
    h->steps = 0;
    h->n = 0;
    bool none = (own(&m, LF_off_heap) | own(&m, LF_wrt_bins) | own(&m, LF_mbuf) |
                 own(&m, LF_sig_first) | own(&m, LF_inq_first)) == 0;
    refuse_if(&m, hidden(&m));
    if (none || stopped(&m))
        return;
    add_block(&m, own(&m, LF_heap), own(&m, LF_htop));
    add_block(&m, own(&m, LF_old_heap), own(&m, LF_old_htop));
    lists(&m);
    queue(&m, true, &messages);
    queue(&m, false, &messages);
    refuse_if(&m, m.late);
    if (h->odd && h->kind != REFUSED)
        h->kind = ANY;
}

/* ---- all processes ------------------------------------------------------------------------------- */

/* A Binary and its holders; a process that has it on a list and in a message counts twice. */
struct owned {
    struct held sum;
    uint64_t processes, on_lists, in_queues; /* holders */
    uint64_t first_on_list, first_in_queue;  /* pids */
};

enum { ALL_MAX = SLOTS * HELD_MAX };

static struct {
    bool exact, plain; /* plain: the same with resources counted */
    uint64_t type;     /* of the last resource */
    bool one_type;     /* all resources have this type */
    unsigned n;
    struct owned of[ALL_MAX];
} all;

static uint64_t earlier(const struct vm *vm, uint64_t pid, uint64_t other)
{
    return proctab_order(vm->lay, &vm->tab, pid) < proctab_order(vm->lay, &vm->tab, other) ? pid
                                                                                           : other;
}

static struct owned *owned_of(uint64_t binary)
{
    for (unsigned i = 0; i < all.n; i++) {
        if (all.of[i].sum.binary == binary)
            return &all.of[i];
    }
    return NULL;
}

static void add_owner(const struct vm *vm, uint64_t pid, const struct held *has)
{
    struct owned *o = owned_of(has->binary);
    if (!o) {
        o = &all.of[all.n++];
        *o = (struct owned){.sum = *has};
        o->sum.listed = o->sum.queued = 0;
    }
    if (has->type != 0) {
        all.one_type = all.one_type && (all.type == 0 || all.type == has->type);
        all.type = has->type;
    }
    if (has->listed > 0)
        o->first_on_list = o->on_lists++ == 0 ? pid : earlier(vm, pid, o->first_on_list);
    if (has->queued > 0)
        o->first_in_queue = o->in_queues++ == 0 ? pid : earlier(vm, pid, o->first_in_queue);
    o->processes++;
    o->sum.listed += has->listed;
    o->sum.queued += has->queued;
}

static void add_all(const struct vm *vm)
{
    static struct holds h, binaries;
    all.exact = all.plain = all.one_type = true;
    all.type = 0;
    all.n = 0;
    for (size_t slot = 0; slot < SLOTS; slot++) {
        const uint64_t *proc = memory_at(vm->tab.tab + slot * 8);
        if (!proc || *proc == 0 ||
            model_open(vm, ATTR_binary_unique, false, slot, *proc) != OPEN_OK)
            continue;
        hold(vm, *proc, true, &h);
        hold(vm, *proc, false, &binaries);
        all.plain = all.plain && h.kind == binaries.kind && !h.magic;
        all.exact = all.exact && (h.kind == MUST || h.kind == REFUSED);
        for (unsigned i = 0; i < h.n && h.kind == MUST; i++)
            add_owner(vm, *memory_at(*proc + vm->lay->f[LF_id]), &h.of[i]);
    }
}

/* ---- shares of bytes ------------------------------------------------------------------------------ */

static bool is_elsewhere(const struct owned *o)
{
    return o->sum.listed + o->sum.queued < o->sum.refc;
}

/* The holders that a walk finds; what it does not walk is one more. A resource counts once for each
 * process, on a list or in a message. */
static uint64_t found(const struct owned *o)
{
    return o->sum.resource ? o->processes : o->on_lists + o->in_queues;
}

static uint64_t holders(const struct owned *o)
{
    return found(o) + is_elsewhere(o);
}

/* The remainder of the division goes to the unknown holder, else to the first holder that has it on
 * a list. */
static uint64_t share(uint64_t pid, const struct held *has)
{
    const struct owned *o = owned_of(has->binary);
    uint64_t parts = (has->listed > 0) + (has->queued > 0);
    if (!o || found(o) < parts)
        return has->size;
    uint64_t first = o->on_lists > 0 ? o->first_on_list : o->first_in_queue;
    bool rest = !is_elsewhere(o) && !o->sum.resource && first == pid;
    return o->sum.size / holders(o) * parts + (rest ? o->sum.size % holders(o) : 0);
}

/* Its part of all Binaries that it holds. */
static uint64_t part_of(uint64_t pid, const struct holds *h)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < h->n; i++)
        sum += share(pid, &h->of[i]);
    return sum;
}

struct verdict model_hold(const struct vm *vm, enum attr attr, uint64_t proc)
{
    static struct holds h;
    hold(vm, proc, false, &h);
    struct verdict v = {h.kind, 0, false, h.steps};
    for (unsigned i = 0; i < h.n && h.kind != REFUSED; i++) {
        const struct held *has = &h.of[i];
        bool counts = attr != ATTR_binary_exclusive || has->listed + has->queued == has->refc;
        v.value = (int64_t)((uint64_t)v.value + (counts ? has->size : 0));
    }
    return v;
}

/* ---- the account ------------------------------------------------------------------------------------ */

enum { ACCOUNT_READS = 1 << 26 };

static void must_account(bool ok, const char *what)
{
    if (!ok)
        fuzz_fail("account:", what);
}

static enum scan_result run(const struct image *img, struct scan *s)
{
    enum scan_result r = SCAN_MORE;
    for (unsigned i = 0; r == SCAN_MORE || r == SCAN_ASK; i++) {
        must_account(i < 100000, "a scan that does not end");
        r = scan_step(s, img->vm.reader, img->mode & 16 ? UINT64_MAX / 4 : 0);
        for (unsigned k = 0; r == SCAN_ASK && k < s->ask_n; k++)
            must_account(scan_answer(s, s->ask[k], true, NULL) == ST_OK, "an answer is not taken");
        if (r == SCAN_ASK)
            scan_asked(s);
    }
    return r;
}

/* true: the scan completed. */
static bool fill_part(const struct image *img, struct account *a, size_t max, bool keeps,
                      unsigned i, unsigned n)
{
    static struct scan s;
    const enum attr attr = ATTR_binary_unique;
    account_init(a, img->vm.lay, &img->vm.tab, max, true, keeps);
    scan_init(&s, &img->vm, &attr, 1, SCAN_ACCOUNT, 0, NULL, 0);
    scan_account(&s, a);
    scan_part(&s, i, n);
    enum scan_result r = run(img, &s);
    scan_free(&s);
    /* of two errors the first one is reported */
    must_account(r == SCAN_FULL || (r == SCAN_NOMEM) == fuzz_failed(),
                 "an allocation failed, or did not");
    must_account(r != SCAN_FULL || keeps, "too many for a sample");
    return r == SCAN_DONE;
}

/* true: all that was merged is in the census. */
static bool settle(const struct image *img, struct account *a, bool keeps)
{
    enum status st = ST_TIMESLICE;
    for (unsigned turns = 0; st == ST_TIMESLICE; turns++) {
        struct budget b = BUDGET(img->steps);
        must_account(turns < 100000, "an account that never settles");
        st = account_settle(a, &b);
    }
    must_account(st == ST_TOO_LARGE || (st == ST_NOMEM) == fuzz_failed(),
                 "an allocation failed, or did not");
    must_account(st != ST_TOO_LARGE || keeps, "too many for a sample");
    return st == ST_OK;
}

static bool fill(const struct image *img, struct account *a, size_t max, bool keeps)
{
    fuzz_begin(img, false, ACCOUNT_READS);
    return fill_part(img, a, max, keeps, 0, 1) && settle(img, a, keeps);
}

enum { PARTS_MAX = 4 };

static enum status go_on(const struct image *img, struct account *a, struct account *from,
                         enum status (*step)(struct account *, struct account *, struct budget *))
{
    enum status st = ST_TIMESLICE;
    for (unsigned turns = 0; st == ST_TIMESLICE; turns++) {
        struct budget b = BUDGET(img->steps);
        must_account(turns < 100000, "two accounts that go on for ever");
        st = step(a, from, &b);
    }
    must_account((st == ST_NOMEM) == fuzz_failed(), "an allocation failed, or did not");
    return st;
}

/* Lends all but the first share to the others, which settle it. */
static bool settle_parts(const struct image *img, struct account *a, struct account *part,
                         unsigned parts, bool keeps)
{
    enum status st = ST_OK;
    for (unsigned i = 1; i < parts && st == ST_OK; i++) {
        st = account_lend(a, &part[i], i, parts);
        must_account((st == ST_NOMEM) == fuzz_failed() && st != ST_TOO_LARGE, "nothing is lent");
    }
    bool done = st == ST_OK && settle(img, a, keeps);
    for (unsigned i = 1; i < parts; i++) {
        done = done && settle(img, &part[i], keeps) &&
               go_on(img, a, &part[i], account_return) == ST_OK;
        account_free(&part[i]);
    }
    return done;
}

/* The same from several accounts of parts of the table. true: the scans completed, and are joined. */
static bool fill_in_parts(const struct image *img, struct account *a, size_t max)
{
    static struct account part[PARTS_MAX];
    unsigned parts = 2 + (img->mode >> 4) % (PARTS_MAX - 1);
    bool keeps = max == ALL_MAX;
    fuzz_begin(img, false, ACCOUNT_READS);
    bool done = fill_part(img, a, max, keeps, 0, parts);
    for (unsigned i = 1; i < parts; i++) {
        done = done && fill_part(img, &part[i], max, keeps, i, parts) &&
               go_on(img, a, &part[i], account_join) == ST_OK;
        account_free(&part[i]);
    }
    return done && settle_parts(img, a, part, parts, keeps);
}

static void same_resource(const struct account *a, const struct known *k, const struct owned *o)
{
    must_account(k->kinds == CENSUS_RESOURCE, "a resource that is none");
    must_account(k->holders == o->processes, "another number of holders");
    must_account(k->first < a->types.n, "a type that is none");
    uint64_t type = a->types.list[k->first].at;
    must_account(type == o->sum.type || (type == 0 && !all.one_type), "another type");
}

static void same_entry(const struct account *a, const struct known *k, const struct owned *o)
{
    uint64_t first = o->on_lists > 0 ? o->first_on_list : o->first_in_queue;
    unsigned kinds = (o->on_lists > 0 ? CENSUS_HEAP : 0) | (o->on_lists > 1 ? CENSUS_SEVERAL : 0) |
                     (o->in_queues > 0 ? CENSUS_QUEUE : 0);
    must_account(k->size == o->sum.size, "another size");
    must_account(k->refc == census_count32(o->sum.refc), "another count of the Binary");
    must_account(k->refs == o->sum.listed + o->sum.queued, "another number of references");
    if (o->sum.resource) {
        same_resource(a, k, o);
        return;
    }
    must_account(k->holders == o->on_lists + o->in_queues, "another number of holders");
    must_account(k->kinds == kinds, "other kinds of holders");
    must_account(a->pids[k->first] == first, "another first one");
}

/* The account has every Binary once and nothing else; an account of a sample has some of them. */
static void compare(const struct account *a, size_t max)
{
    static bool seen[ALL_MAX];
    struct budget b = BUDGET(UINT32_MAX);
    const struct known *k;
    size_t at = 0;
    size_t n = 0;
    memset(seen, 0, sizeof seen);
    for (; census_next(&a->all, &at, &b, &k) == ST_OK; n++) {
        const struct owned *o = owned_of(k->binary);
        must_account(o && !seen[o - all.of], "a Binary that nobody has, or twice");
        must_account(census_find(&a->all, k->binary) == k, "one that is not found again");
        seen[o - all.of] = true;
        same_entry(a, k, o);
    }
    must_account(n <= max && (a->all.level == 0 ? n == all.n : all.n > max),
                 "Binaries too many or few");
}

/* The process's part by the model; *known: it is the only process with this pid. */
static uint64_t expected_part(const struct vm *vm, uint64_t pid, bool *known)
{
    static struct holds h;
    uint64_t sum = 0;
    unsigned n = 0;
    for (size_t slot = 0; slot < SLOTS; slot++) {
        const uint64_t *proc = memory_at(vm->tab.tab + slot * 8);
        const uint64_t *id = proc && *proc != 0 ? memory_at(*proc + vm->lay->f[LF_id]) : NULL;
        if (!id || *id != pid)
            continue;
        n++;
        hold(vm, *proc, false, &h);
        sum = part_of(pid, &h);
    }
    *known = n == 1;
    return sum;
}

/* As several threads add parts up, or not at all. */
static void add_shares(const struct image *img, struct account *a)
{
    static struct account part;
    unsigned n = (img->mode >> 4) % (PARTS_MAX + 1);
    for (unsigned i = 0; i < n; i++) {
        account_init(&part, img->vm.lay, &img->vm.tab, 1, true, false);
        for (enum status st = ST_TIMESLICE; st != ST_OK;) {
            struct budget b = BUDGET(img->steps);
            st = account_parts(&part, a, i, n, &b);
            must_account(st == ST_OK || st == ST_TIMESLICE, "a share that is not added up");
        }
        must_account(go_on(img, a, &part, account_take_parts) == ST_OK,
                     "a share that is not taken");
        account_free(&part);
    }
}

/* Each process has its part, and with what is held elsewhere they add up to all bytes. */
static void compare_parts(const struct image *img, struct account *a)
{
    enum status st = ST_TIMESLICE;
    uint64_t sum = 0;
    add_shares(img, a);
    account_rank_start(a, SLOTS, BY_PARTS);
    for (unsigned i = 0; st == ST_TIMESLICE; i++) {
        struct budget b = BUDGET(img->steps);
        must_account(i < 1000000, "parts that are never done");
        st = account_rank(a, &b);
    }
    must_account(st == ST_OK && a->top.n == a->n, "no parts");
    for (size_t i = 0; i < a->top.n; i++) {
        bool known;
        uint64_t expected = expected_part(&img->vm, a->top.rows[i].pid, &known);
        must_account(!known || (uint64_t)a->top.rows[i].value == expected, "another part");
        must_account(i == 0 || a->top.rows[i - 1].value >= a->top.rows[i].value, "out of order");
        sum += (uint64_t)a->top.rows[i].value;
    }
    for (unsigned i = 0; i < all.n; i++) {
        const struct owned *o = &all.of[i];
        sum -= o->sum.size;
        if (is_elsewhere(o))
            sum += o->sum.size / holders(o) + o->sum.size % holders(o);
    }
    must_account(sum == 0, "parts that do not add up");
}

/* What each process holds, one after the other: as many references as there are. */
static void compare_holdings(const struct image *img, struct account *a)
{
    enum status st = ST_OK;
    struct holding g;
    uint64_t refs = 0;
    uint64_t queued = 0;
    account_list_start(a);
    for (unsigned i = 0; st != ST_GONE; i++) {
        struct budget b = BUDGET(img->steps);
        must_account(i < 1000000, "holdings that do not end");
        while ((st = account_list(a, &b, &g)) == ST_OK) {
            must_account(owned_of(g.binary) && g.holder < a->n, "a holding that is none");
            refs += g.refs;
            queued += g.queued;
        }
    }
    for (unsigned i = 0; i < all.n; i++) {
        refs -= all.of[i].sum.listed + all.of[i].sum.queued;
        queued -= all.of[i].sum.queued;
    }
    must_account(refs == 0 && queued == 0, "other references");
}

static void compare_whole(const struct image *img, struct account *a)
{
    compare(a, ALL_MAX);
    if (all.plain) {
        compare_parts(img, a);
        compare_holdings(img, a);
    }
}

void check_account(const struct image *img)
{
    static struct account a;
    struct image still = *img;
    size_t max = 1 + img->rows / 2;
    still.fail_at = 0;
    add_all(&img->vm);
    if (fill(&still, &a, ALL_MAX, true) && all.exact)
        compare_whole(&still, &a);
    account_free(&a);
    if (fill(img, &a, max, false) && all.exact)
        compare(&a, max);
    account_free(&a);
    /* where all has room, all is there */
    if (fill(img, &a, max, true) && all.exact) {
        fuzz_begin(&still, false, ACCOUNT_READS);
        compare_whole(&still, &a);
    }
    account_free(&a);
    if (fill_in_parts(&still, &a, ALL_MAX) && all.exact)
        compare_whole(&still, &a);
    account_free(&a);
    if (fill_in_parts(img, &a, max) && all.exact)
        compare(&a, max);
    account_free(&a);
}
