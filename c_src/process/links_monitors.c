#include "process/links_monitors.h"

#include "vm/term.h"

#include <assert.h>

const enum layout_field links_monitors_fields[] = {LF_links, LF_monitors, LF_lt_monitors,
                                                   LAYOUT_FIELD_COUNT};

/* ERTS_MON_TYPE_*, ERTS_LNK_TYPE_*: the same on OTP 25.0.4 to 27; on other releases the checks prove them. */
enum monitor_types {
    MON_PROC,
    MON_PORT,
    MON_TIME_OFFSET,
    MON_DIST_PROC,
    MON_DIST_PORT,
    MON_RESOURCE,
    MON_NODE,
    MON_NODES,
    MON_SUSPEND,
    MON_ALIAS,
    LINK_PROC,
    LINK_PORT,
    LINK_DIST_PROC
};

enum flags { FLAG_TARGET = 1, FLAG_EXTENDED = 16, FLAG_SPAWN_PENDING = 32 };

struct node {
    uint64_t at;
    unsigned offset, flags, type;
};

enum stages { S_LINKS, S_MONITORS, S_LT_MONITORS, S_DONE };

static bool read_half(const struct vm *vm, uint64_t at, enum layout_field field, unsigned *value)
{
    uint64_t word;
    uint64_t place = at + vm->lay->f[field];
    if (!peek_word(vm->reader, (uintptr_t)(place & ~(uint64_t)7), &word))
        return false;
    *value = (unsigned)layout_narrow(word, (unsigned)(place & 7), 2);
    return true;
}

static bool read_node(const struct vm *vm, uint64_t at, struct node *n)
{
    n->at = at;
    if (!read_half(vm, at, LF_node_offset, &n->offset) ||
        !read_half(vm, at, LF_node_flags, &n->flags) || !read_half(vm, at, LF_node_type, &n->type))
        return false;
    n->flags >>= vm->lay->flags_shift;
    n->type &= vm->lay->type_mask;
    return true;
}

/* ---- number -------------------------------------------------------------------------------- */

static enum status count_link(const struct vm *vm, const struct node *n, uint64_t *sum)
{
    uint64_t unlinking;
    if (n->type == LINK_DIST_PROC)
        return ST_ASK;
    if ((n->type != LINK_PROC && n->type != LINK_PORT) ||
        !peek_word(vm->reader, n->at + LF(vm->lay, link_unlinking), &unlinking))
        return ST_TORN;
    *sum += unlinking == 0;
    return ST_OK;
}

static enum status count_monitor(const struct node *n, uint64_t *sum)
{
    if (n->type > MON_ALIAS)
        return ST_TORN;
    *sum += !(n->flags & (FLAG_TARGET | FLAG_SPAWN_PENDING)) && n->type <= MON_DIST_PORT;
    return ST_OK;
}

static enum status count_monitored_by(const struct node *n, uint64_t *sum)
{
    if (n->type > MON_ALIAS)
        return ST_TORN;
    *sum += (n->flags & FLAG_TARGET) && n->type <= MON_RESOURCE && n->type != MON_TIME_OFFSET;
    return ST_OK;
}

/* ---- size, as erts_link_size and erts_monitor_size compute it -------------------------------- */

static enum status link_bytes(const struct vm *vm, const struct node *n, uint64_t *sum)
{
    if (n->type == LINK_DIST_PROC)
        return ST_ASK;
    *sum += LF(vm->lay, link_size);
    return n->type == LINK_PROC || n->type == LINK_PORT ? ST_OK : ST_TORN;
}

/* The reference of an extended monitor lies at its end; the size of the struct includes its first
 * word. */
static enum status extended_bytes(const struct vm *vm, uint64_t data, uint64_t *size)
{
    uint64_t ref;
    uint64_t header = 0;
    if (!peek_word(vm->reader, data + LF(vm->lay, mon_ref), &ref))
        return ST_TORN;
    *size = LF(vm->lay, mon_ext_size) - 8;
    if (term_is_immediate(ref))
        return ST_OK;
    if (!peek_word(vm->reader, term_pointer(ref), &header) || !term_is_header(header) ||
        term_header_arity(header) > 16)
        return ST_TORN;
    *size += (1 + term_header_arity(header)) * 8;
    return ST_OK;
}

static enum status monitor_bytes(const struct vm *vm, const struct node *n, uint64_t *sum)
{
    struct node origin;
    uint64_t data = n->at - n->offset;
    uint64_t size = LF(vm->lay, mon_size);
    uint64_t refc;
    enum status st = ST_OK;
    if (n->type == MON_DIST_PROC || n->type == MON_DIST_PORT)
        return ST_ASK;
    if (n->type > MON_ALIAS || !read_node(vm, data, &origin) ||
        !peek_word(vm->reader, data + LF(vm->lay, mon_refc), &refc))
        return ST_TORN;
    if (origin.type == MON_ALIAS)
        size = LF(vm->lay, mon_alias_size);
    else if (origin.type == MON_SUSPEND)
        size = LF(vm->lay, mon_suspend_size);
    else if (n->flags & FLAG_EXTENDED)
        st = extended_bytes(vm, data, &size);
    refc &= 0xFFFFFFFF;
    if (st == ST_OK && (refc == 0 || refc > 2))
        st = ST_TORN;
    if (st == ST_OK)
        *sum += size / refc; /* both ends share the data */
    return st;
}

/* ---- the process at the other end ---------------------------------------------------------- */

static enum status tell_link(struct links_monitors *t, const struct vm *vm, const struct node *n)
{
    struct tie tie = {false, false, 0, 0};
    if (n->type == LINK_PORT || n->type == LINK_DIST_PROC)
        return ST_OK;
    if (n->type != LINK_PROC || !peek_word(vm->reader, n->at + LF(vm->lay, node_other), &tie.other))
        return ST_TORN;
    return term_is_local_pid(tie.other) ? t->each(t->to, vm, &tie) : ST_TORN;
}

/* Both ends of a monitor share its reference, which lies with the origin: at the start of the data. */
static enum status tell_monitor(struct links_monitors *t, const struct vm *vm, const struct node *n)
{
    struct tie tie = {true, n->type == MON_DIST_PROC, 0, 0};
    if (n->type > MON_ALIAS)
        return ST_TORN;
    if ((n->flags & (FLAG_TARGET | FLAG_SPAWN_PENDING)) || (n->type != MON_PROC && !tie.remote))
        return ST_OK;
    if (n->offset != 0 || !peek_word(vm->reader, n->at + LF(vm->lay, mon_ref), &tie.ref) ||
        !peek_word(vm->reader, n->at + LF(vm->lay, node_other), &tie.other))
        return ST_TORN;
    return tie.remote || term_is_local_pid(tie.other) ? t->each(t->to, vm, &tie) : ST_TORN;
}

/* ---- the walk ------------------------------------------------------------------------------ */

static enum status take(struct links_monitors *t, const struct vm *vm, uint64_t at)
{
    struct node n;
    if ((at & 7) || !read_node(vm, at, &n))
        return ST_TORN;
    switch (t->what) {
    case LINKS_MONITORS_LINKS:
        return count_link(vm, &n, &t->sum);
    case LINKS_MONITORS_MONITORS:
        return count_monitor(&n, &t->sum);
    case LINKS_MONITORS_MONITORED_BY:
        return count_monitored_by(&n, &t->sum);
    case LINKS_MONITORS_EACH:
        return t->stage == S_LINKS ? tell_link(t, vm, &n) : tell_monitor(t, vm, &n);
    default:
        return t->stage == S_LINKS ? link_bytes(vm, &n, &t->sum) : monitor_bytes(vm, &n, &t->sum);
    }
}

static bool push(struct links_monitors *t, uint64_t at)
{
    if (at == 0)
        return true;
    if (t->depth == LINKS_MONITORS_DEPTH)
        return false;
    t->todo[t->depth++] = at;
    return true;
}

static bool push_neighbours(struct links_monitors *t, const struct vm *vm, uint64_t at)
{
    uint64_t a;
    uint64_t b;
    if (t->stage == S_LT_MONITORS)
        return peek_word(vm->reader, at + LF(vm->lay, list_next), &a) &&
               (a == t->first || push(t, a));
    return peek_word(vm->reader, at + LF(vm->lay, tree_right), &a) &&
           peek_word(vm->reader, at + LF(vm->lay, tree_left), &b) && push(t, a) && push(t, b);
}

static enum status walk(struct links_monitors *t, const struct vm *vm, struct budget *b)
{
    while (t->depth > 0) {
        if (!budget_step(b)) {
            peek_prefetch(vm->reader, t->todo[t->depth - 1]);
            return ST_TIMESLICE;
        }
        uint64_t at = t->todo[--t->depth];
        if (t->steps-- == 0 || !push_neighbours(t, vm, at))
            return ST_TORN;
        enum status st = take(t, vm, at);
        if (st != ST_OK)
            return st;
    }
    return ST_OK;
}

/* The stages that each question walks, as bits. */
static const uint8_t wanted[] = {
    [LINKS_MONITORS_LINKS] = 1 << S_LINKS,
    [LINKS_MONITORS_MONITORS] = 1 << S_MONITORS,
    [LINKS_MONITORS_MONITORED_BY] = 1 << S_MONITORS | 1 << S_LT_MONITORS,
    [LINKS_MONITORS_BYTES] = 1 << S_LINKS | 1 << S_MONITORS | 1 << S_LT_MONITORS,
    [LINKS_MONITORS_EACH] = 1 << S_LINKS | 1 << S_MONITORS,
};

void links_monitors_start(struct links_monitors *t, enum links_monitors_what what)
{
    t->what = what;
    t->stage = S_LINKS - 1;
    t->sum = 0;
    t->steps = LINKS_MONITORS_MAX;
    t->depth = 0;
}

void links_monitors_each(struct links_monitors *t, take_tie *each, void *to)
{
    links_monitors_start(t, LINKS_MONITORS_EACH);
    t->each = each;
    t->to = to;
}

enum status links_monitors_walk(struct links_monitors *t, const struct reading *rd)
{
    static const enum layout_field roots[] = {LF_links, LF_monitors, LF_lt_monitors};
    /* most processes have neither */
    if (!(stamp_word(rd, LF_links) | stamp_word(rd, LF_monitors) | stamp_word(rd, LF_lt_monitors)))
        return ST_OK;
    for (;;) {
        enum status st = walk(t, rd->vm, rd->budget);
        if (st != ST_OK)
            return st;
        do {
            if (++t->stage == S_DONE)
                return ST_OK;
        } while (!(wanted[t->what] >> t->stage & 1));
        t->first = stamp_word(rd, roots[t->stage]);
        if (!push(t, t->first))
            return ST_TORN;
    }
}
