/* fuzz_there.c: runs what only a look at another OS process reads over every process of the image.
 * Knows: all values of an overview are those that the model has for each attribute alone, and a mailbox is the
 * model's without literals.
 * Does not know: how an overview is put together. */
#include "fuzz/fuzz.h"

#include "heap/mailbox.h"
#include "process/first_call.h"
#include "scan/overview.h"

enum { MAILBOX_WORDS = 1 << 12, MAILBOX_READS = 2000000 };

static bool may_open(const struct image *img, size_t slot, uint64_t proc)
{
    return model_open(&img->vm, ATTR_memory, false, slot, proc) == OPEN_OK &&
           model_open(&img->vm, ATTR_message_queue_len, false, slot, proc) == OPEN_OK;
}

static enum status look_all(const struct image *img, struct look *l, size_t slot, uint64_t proc)
{
    const struct look_args args = {.max_words = STACK_FRAMES_MAX, .content = CONTENT_FORBIDDEN};
    enum status st = look_start(l, &img->vm, slot, proc, &overview_walker, &args);
    for (uint64_t i = 0; st == ST_OK || st == ST_TIMESLICE; i++) {
        fuzz_must(i < 20 * MOST_THINGS, "an overview without end:", ATTR_memory);
        st = look_step(l, img->vm.reader, 0);
        if (st == ST_OK)
            break;
    }
    return st;
}

static void compare(const struct image *img, const struct overview *o, uint64_t proc)
{
    for (unsigned attr = 0; attr < OVERVIEW_ATTRS; attr++) {
        struct verdict v = model_answer(&img->vm, attr, false, proc);
        bool ok = o->outcome[attr] == ST_OK;
        fuzz_must(!ok || v.kind != REFUSED, "in an overview, of a broken process:", attr);
        fuzz_must(ok || v.kind != MUST, "not in an overview:", attr);
        fuzz_must(!ok || v.kind == ANY || o->values[attr] == v.value,
                  "wrong in an overview:", attr);
    }
}

static bool is_whole(const struct image *img, uint64_t proc)
{
    for (unsigned attr = 0; attr < OVERVIEW_ATTRS; attr++) {
        if (model_answer(&img->vm, attr, false, proc).kind != MUST)
            return false;
    }
    return model_answer(&img->vm, ATTR_stack, false, proc).kind == MUST;
}

static void check_still(const struct image *img, size_t slot, uint64_t proc)
{
    struct look l = {.state = NULL};
    bool open = may_open(img, slot, proc);
    fuzz_begin(img, false, 20 * MOST_READS);
    enum status st = look_all(img, &l, slot, proc);
    fuzz_must(open || st != ST_OK, "an overview of a process that runs:", ATTR_memory);
    fuzz_must(!open || st == ST_OK || fuzz_failed() || !is_whole(img, proc),
              "no overview of a whole process:", ATTR_memory);
    if (st == ST_OK)
        compare(img, l.state, proc);
    (void)look_end(&l, 0);
}

static void check_first_call(const struct image *img, size_t slot, uint64_t proc, bool changing)
{
    struct plan plan;
    struct mfa call;
    uint64_t key = FUZZ_KEY;
    first_call_plan(&plan, img->vm.lay);
    fuzz_begin(img, changing, MOST_READS);
    if (first_call_read(&img->vm, &plan, slot, proc, &key, &call) == ST_OK)
        fuzz_must(term_is_atom(call.module) && term_is_atom(call.function) && call.arity <= 255,
                  "no function:", ATTR_dictionary_size);
}

/* As if all of it were in another OS process, where the area of the literals is unknown. */
static enum status look_mailbox(const struct image *img, struct look *l, size_t slot, uint64_t proc)
{
    const struct look_args args = {
        .max_words = MAILBOX_WORDS, .max_entries = MEMORY_WORDS, .content = CONTENT_FORBIDDEN};
    struct vm there = img->vm;
    there.reader = PEEK_OTHER;
    there.literals = (struct block){0, 0};
    enum status st = look_start(l, &there, slot, proc, &mailbox_walker, &args);
    for (uint64_t i = 0; st == ST_OK || st == ST_TIMESLICE; i++) {
        fuzz_must(i < MAILBOX_READS, "a mailbox without end:", ATTR_message_queue_len);
        st = look_step(l, PEEK_OTHER, 0);
        if (st == ST_OK)
            break;
    }
    return st;
}

static bool mailbox_opens(const struct image *img, size_t slot, uint64_t proc)
{
    enum layout_field fields[LAYOUT_FIELD_COUNT + 1];
    struct plan plan;
    struct view view;
    mailbox_walker.fields(fields);
    plan_make(&plan, img->vm.lay, STATE_UNSETTLED, mailbox_walker.locks, fields);
    return stamp_open(&img->vm, &plan, slot, proc, &view) == ST_OK;
}

/* Only up to where the queue itself ends. */
static bool ends_there(const struct image *img, uint64_t proc, uint64_t last)
{
    uint64_t queue = proc + LF(img->vm.lay, inq_first);
    return last == 0 || last == fuzz_word(queue + 8);
}

static void check_mailbox(const struct image *img, size_t slot, uint64_t proc)
{
    static struct mail mail;
    struct look l = {.state = NULL};
    fuzz_begin(img, false, 0);
    model_mailbox(&img->vm, proc, MEMORY_WORDS, MAILBOX_WORDS, &mail);
    fuzz_begin(img, false, MAILBOX_READS);
    bool open = mailbox_opens(img, slot, proc);
    bool whole = mail.sizes.kind == MUST && ends_there(img, proc, mail.last);
    enum status st = look_mailbox(img, &l, slot, proc);
    fuzz_must(st != ST_ASK, "asks because of literals:", ATTR_message_queue_len);
    fuzz_must(!open || !whole || st == ST_OK || fuzz_failed() || mail.sizes.crowded,
              "no mailbox of a whole process:", ATTR_message_queue_len);
    if (whole && st == ST_OK) {
        const struct mailbox *m = l.state;
        fuzz_must(m->messages == mail.messages,
                  "another number of messages:", ATTR_message_queue_len);
        fuzz_must(m->measure.constants == 0 ? m->measure.sum.words == mail.sizes.words
                                            : m->measure.sum.words <= mail.sizes.words,
                  "other words of messages:", ATTR_message_queue_len);
    }
    (void)look_end(&l, 0);
    fuzz_begin(img, true, MAILBOX_READS);
    l = (struct look){.state = NULL};
    (void)look_mailbox(img, &l, slot, proc);
    (void)look_end(&l, 0);
}

/* As if schedulers were there: what is found has every word that one needs. */
static void check_schedulers(const struct image *img, uint64_t proc)
{
    struct scheduler_form form = {.is_known = true, .stride = 64, .current = 0, .back = 8};
    for (unsigned kind = 0; kind < SCHEDULER_KINDS; kind++)
        form.first[kind] = (uintptr_t)proc;
    fuzz_begin(img, false, MOST_READS);
    for (unsigned n = 0; n < 2 * SCHEDULER_KINDS; n++) {
        enum scheduler_kind kind = (enum scheduler_kind)(n % SCHEDULER_KINDS);
        unsigned i = n / SCHEDULER_KINDS;
        uint64_t at = proc + (uint64_t)i * form.stride;
        struct scheduler s;
        if (scheduler_read(img->vm.reader, img->vm.lay, &form, kind, i, &s))
            fuzz_must(s.process == fuzz_word(at) && (uint32_t)fuzz_word(at + 8) == kind &&
                          fuzz_word(at + 16) + fuzz_word(at + 24) == i + 1,
                      "no scheduler:", ATTR_stack);
        fuzz_must(schedulers_count(img->vm.reader, img->vm.lay, &form, kind) <= SCHEDULERS_MAX,
                  "more schedulers than there may be:", ATTR_stack);
    }
}

/* As if the process were a table of ports: what is found is in it. */
static void check_ports(const struct image *img, uint64_t proc)
{
    enum { ENTRIES = 8, NAME = 16 };
    const struct port_form form = {.tab = {.tab = (uintptr_t)proc, .max = ENTRIES}, .name = NAME};
    fuzz_begin(img, false, MOST_READS);
    for (unsigned i = 0; i < ENTRIES; i++) {
        struct port port;
        uint64_t at = fuzz_word(proc + 8UL * i);
        if (port_read(img->vm.reader, img->vm.lay, &form, (uintptr_t)at, &port))
            fuzz_must(port.n <= PORT_NAME_MAX && term_is_local_port(port.id) &&
                          fuzz_word(at + LF(img->vm.lay, id)) == port.id,
                      "no port:", ATTR_stack);
    }
}

void check_there(const struct image *img)
{
    for (size_t slot = 0; slot < SLOTS; slot++) {
        struct look l = {.state = NULL};
        fuzz_begin(img, false, 0);
        uint64_t proc = fuzz_word(img->vm.tab.tab + slot * 8);
        if (proc == 0)
            continue;
        check_still(img, slot, proc);
        check_first_call(img, slot, proc, false);
        check_first_call(img, slot, proc, true);
        fuzz_begin(img, true, 20 * MOST_READS);
        (void)look_all(img, &l, slot, proc);
        (void)look_end(&l, 0);
        check_mailbox(img, slot, proc);
        check_schedulers(img, proc);
        check_ports(img, proc);
    }
}
