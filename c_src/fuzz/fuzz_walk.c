/* fuzz_walk.c: runs the walkers over model processes, and compares with the model.
 * Knows: the model's answer holds wherever the walk is cut, reads are bounded, no process is lost,
 * and there is no answer if the stamp changed.
 * Does not know: what the processes look like. */
#include "fuzz/fuzz.h"

#include "fuzz/failing_alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* For test_corpus.c. */
extern const char fuzz_corpus[];
const char fuzz_corpus[] = "fuzz/corpus";

_Noreturn void fuzz_fail(const char *what, const char *where)
{
    (void)fprintf(stderr, "WRONG: %s %s\n", what, where);
    abort();
}

void fuzz_must(bool ok, const char *what, enum attr attr)
{
    static const char *const names[] = {
#define X(Name) #Name,
        ATTR_LIST(X)
#undef X
    };
    if (!ok)
        fuzz_fail(what, names[attr]);
}

uint64_t fuzz_word(uint64_t address)
{
    const uint64_t *w = memory_at(address);
    return w ? *w : 0;
}

const struct places fuzz_place = {1, false, {{MODEL_PLACE, MODEL_PLACE + 1}}};

/* ---- what the walkers need from outside -------------------------------------------------------- */

/* A scan pauses for processes that run; the fuzzer does not wait. */
int nanosleep(const struct timespec *wanted, struct timespec *left)
{
    (void)wanted, (void)left;
    return 0;
}

bool fuzz_failed(void)
{
    return allocation_failed;
}

void fuzz_begin(const struct image *img, bool changing, uint64_t reads)
{
    fail_at = img->fail_at;
    allocation_failed = false;
    memory_begin(changing, reads);
}

/* ---- one walk ---------------------------------------------------------------------------------- */

struct attempt {
    enum status status;
    int64_t value;
    bool clean;
};

static struct attempt walk_all(struct walk *w, const struct vm *vm, const struct question *q,
                               struct budget turn)
{
    enum status st = ST_TIMESLICE;
    struct budget b;
    walk_start(w, vm, q, w);
    walk_prefetch(w, vm->reader);
    for (unsigned i = 0; st == ST_TIMESLICE; i++) {
        fuzz_must(i < 2 * MOST_THINGS, "a walk that takes more turns than steps:", q->attr);
        b = turn;
        st = walk_go(w, vm, &b);
    }
    walk_end(w);
    if (st == ST_OK)
        st = walk_finish(w, vm);
    return (struct attempt){st, w->value, w->clean};
}

static const char *wrong(const struct attempt *a, const struct verdict *v, enum attr attr)
{
    if (allocation_failed != (a->status == ST_NOMEM) && !(allocation_failed && fuzz_is_waste(attr)))
        return "an allocation failed, or did not:";
    if (a->status == ST_NOMEM)
        return NULL;
    if (v->kind == ANY) /* but no number of bytes, processes or messages is below zero */
        return a->status == ST_OK && a->value < 0 ? "less than nothing:" : NULL;
    if (v->kind == MUST && a->status != ST_OK)
        return "no answer for a whole process:";
    if (v->kind == REFUSED && a->status == ST_OK)
        return "an answer for a broken process:";
    if (a->status == ST_OK && (a->value != v->value || a->clean != v->clean))
        return "a wrong answer:";
    return NULL;
}

static void compare(const struct attempt *a, const struct verdict *v, enum attr attr)
{
    const char *what = wrong(a, v, attr);
    if (what)
        (void)fprintf(stderr, "%s %" PRId64 ", %d; the model has %" PRId64 ", %d\n",
                      status_name(a->status), a->value, a->clean, v->value, v->clean);
    fuzz_must(!what, what, attr);
}

/* An unchanging process: the model's answer, in one slice, step by step, and in slices that share
 * the core with other walks. */
static void check_still(const struct image *img, const struct question *q, size_t slot,
                        uint64_t proc)
{
    const struct budget turns[] = {BUDGET(UINT32_MAX), BUDGET(1), {img->steps, true, 0}};
    struct verdict v = model_answer(&img->vm, q->attr, q->waiting, proc);
    enum opened opened = model_open(&img->vm, q->attr, q->waiting, slot, proc);
    enum status first = ST_OK;
    struct walk w = {.room = NULL};
    for (unsigned i = 0; i < sizeof turns / sizeof *turns; i++) {
        uint64_t frame = q->attr == ATTR_waits_for || q->attr == ATTR_waits_call ? FRAME_READS : 0;
        fuzz_begin(img, false, FIXED_READS + frame + THING_READS * v.steps);
        enum status st = stamp_open(&img->vm, &q->plan, slot, proc, &w.view);
        fuzz_must((st == ST_OK) == (opened == OPEN_OK), "opened, or not:", q->attr);
        fuzz_must((st == ST_BUSY) == (opened == OPEN_BUSY), "busy, or not:", q->attr);
        if (st != ST_OK)
            break;
        struct attempt a = walk_all(&w, &img->vm, q, turns[i]);
        compare(&a, &v, q->attr);
        fuzz_must(walk_close(&w, &img->vm) == ST_OK, "torn, and nothing changed:", q->attr);
        if (i == 0)
            first = a.status;
        /* other slices may meet an error and a limit in another order, and allocate differently */
        bool any = v.kind == MAY || v.kind == ANY || a.status == ST_NOMEM || first == ST_NOMEM ||
                   (v.kind == REFUSED && q->attr == ATTR_flat_size);
        fuzz_must(a.status == first || any, "another answer in other slices:", q->attr);
    }
    walk_free(&w);
}

/* A process that runs meanwhile: any answer is right, but there must be none if a word under the
 * stamp changed. A change while opening or closing reads the fields may go unseen. */
static void check_running(const struct image *img, const struct question *q, size_t slot,
                          uint64_t proc)
{
    uint64_t before;
    uint64_t after;
    struct walk w = {.room = NULL};
    fuzz_begin(img, true, MOST_READS);
    if (stamp_open(&img->vm, &q->plan, slot, proc, &w.view) != ST_OK)
        return;
    unsigned opened = memory_changed();
    /* opening reads state and lock twice, the second time last of all */
    bool settled = model_stamp(&img->vm, q->attr, q->waiting, proc, &before);
    fuzz_must(settled || memory_still() < 2, "opened, and not settled:", q->attr);
    (void)walk_all(&w, &img->vm, q, BUDGET(img->steps));
    walk_free(&w);
    unsigned walked = memory_changed();
    settled = model_stamp(&img->vm, q->attr, q->waiting, proc, &after);
    bool there = fuzz_word(img->vm.tab.tab + slot * 8) == proc;
    enum status st = walk_close(&w, &img->vm);
    if (opened > 0 || memory_changed() != walked)
        return;
    fuzz_must(st != ST_OK || there, "another process, and not torn:", q->attr);
    fuzz_must(st != ST_OK || (settled && before == after) || q->one_word,
              "it moved, and is not torn:", q->attr);
    fuzz_must(st == ST_OK || walked > 0, "it did not move, and is torn:", q->attr);
}

static void check_walks(const struct image *img, enum attr attr)
{
    struct question q;
    bool waiting = attr == ATTR_binary_count && (img->mode & 1);
    question_make(&q, img->vm.lay, attr, waiting);
    q.places = &fuzz_place;
    for (size_t slot = 0; slot < SLOTS; slot++) {
        fuzz_begin(img, false, 0);
        uint64_t proc = fuzz_word(img->vm.tab.tab + slot * 8);
        if (proc == 0)
            continue;
        check_still(img, &q, slot, proc);
        if (memory_changes() > 0)
            check_running(img, &q, slot, proc);
    }
}

/* ---- what the prover reads ---------------------------------------------------------------------- */

/* A proof returns small numbers, yes or no, and never a word of the memory. */
static void check_proof(const struct image *img)
{
    int64_t result = 0;
    uint64_t proc = fuzz_word(img->vm.tab.tab + 24);
    fuzz_begin(img, false, 100);
    if (!proof_read(&img->vm, proc, &img->proof, &result))
        return;
    switch (img->proof.op) {
    case OP_value:
    case OP_minus:
        fuzz_must(result <= 1LL << 40 && result >= -(1LL << 40), "a large number", 0);
        break;
    case OP_constant:
        fuzz_must(result >= 0 && result <= UINT16_MAX, "a number that is in no table", 0);
        break;
    default:
        fuzz_must(result == 0 || result == 1, "neither yes nor no", 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image img;
    memory_clear();
    image_build(&img, data, size);
    check_account(&img);
    check_walks(&img, img.attr);
    check_scans(&img);
    check_proof(&img);
    check_marks(&img);
    check_looks(&img);
    check_there(&img);
    fuzz_must(allocated == 0, "memory that was never freed:", img.attr);
    return 0;
}
