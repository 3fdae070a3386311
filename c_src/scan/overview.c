#include "scan/overview.h"

#include <assert.h>

static void fields(enum layout_field *all)
{
    unsigned n = 0;
    for (unsigned attr = 0; attr < OVERVIEW_ATTRS; attr++)
        n = attr_fields(attr, all, n);
    n = attr_fields(ATTR_stack, all, n);
    assert(n + 2 <= LOOK_FIELDS_MAX);
    all[n++] = LF_group_leader;
    all[n] = LAYOUT_FIELD_COUNT;
}

static void start(void *to, const struct reading *rd, const struct look_args *args)
{
    struct overview *o = to;
    o->at = 0;
    o->is_open = false;
    o->walk.room = NULL;
    o->state = stamp_field(rd, LF_state);
    o->leader = stamp_word(rd, LF_group_leader);
    o->is_known = identity_read(rd->vm->reader, &rd->vm->identity, rd->view->proc, &o->who);
    stack_frames_start(&o->stack, rd, args->max_words);
}

static enum status read_attribute(struct overview *o, const struct reading *rd)
{
    struct walk *w = &o->walk;
    if (!o->is_open) {
        question_make(&o->question, rd->vm->lay, o->at, false);
        walk_start_under(w, rd, &o->question);
        o->is_open = true;
    }
    enum status st = walk_go_under(w, rd);
    if (st == ST_OK)
        st = walk_finish(w, rd->vm);
    if (st == ST_TIMESLICE)
        return st;
    o->values[o->at] = w->value;
    walk_end(w);
    o->is_open = false;
    return st;
}

static bool spoils_all(enum status st)
{
    return st == ST_TIMESLICE || st == ST_TORN || st == ST_NOMEM || st == ST_GONE;
}

static enum status walk(void *to, const struct reading *rd)
{
    struct overview *o = to;
    for (; o->at < OVERVIEW_ATTRS; o->at++) {
        enum status st = read_attribute(o, rd);
        if (spoils_all(st))
            return st;
        o->outcome[o->at] = st;
    }
    return stack_frames_walk(&o->stack, rd);
}

static void progress(const void *of, uint64_t *done, uint64_t *total)
{
    (void)of;
    *done = *total = 0;
}

static bool end(void *of)
{
    struct overview *o = of;
    if (o->is_open)
        walk_end(&o->walk);
    walk_free(&o->walk);
    return true;
}

const struct walker overview_walker = {
    sizeof(struct overview), fields, start, walk, progress, end, 0};
