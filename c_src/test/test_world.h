/* test_world.h: a model VM in plain memory, for the tests of code that reads a VM.
 * Knows: how to build processes and off-heap lists by each layout table, and how to run a scan to
 * its end.
 * Does not know: what is tested. */
#ifndef SONDE_TEST_WORLD_H
#define SONDE_TEST_WORLD_H

#include "fuzz/failing_alloc.h"
#include "scan/scan.h"
#include "vm/term.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

/* ---- a tiny test runner -------------------------------------------------------------------- */

static unsigned passed;
static unsigned failed;

static inline void check(bool ok, const char *what, const char *layout)
{
    if (ok) {
        passed++;
    } else {
        failed++;
        printf("FAILED %s: %s\n", layout, what);
    }
}

/* Random numbers below n; the same ones in each run. */
static uint64_t rng = 1;

static inline unsigned draw(unsigned n)
{
    rng = rng * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(rng >> 33) % (n > 0 ? n : 1);
}

/* ---- the model VM -------------------------------------------------------------------------- */

enum { SLOTS = 1024, ARENA = 1 << 24, HEAP_WORDS = 40000, HEAP_BYTES = HEAP_WORDS * 8 };

struct world {
    struct vm vm;
    uint64_t table[SLOTS];
    char *arena;
    size_t used;
};

static inline void *make(struct world *w, size_t bytes)
{
    char *p = w->arena + w->used;
    w->used += (bytes + 15) & ~(size_t)15;
    if (w->used > ARENA)
        abort();
    memset(p, 0, bytes);
    return p;
}

static inline uintptr_t address(const void *p)
{
    return (uintptr_t)p;
}

static inline void put(const struct world *w, char *object, enum layout_field field, uint64_t value)
{
    memcpy(object + w->vm.lay->f[field], &value, layout_width(w->vm.lay, field));
}

static inline uint64_t pid_in(const struct layout *lay, unsigned slot)
{
    return lay->pid_slot_high ? (uint64_t)slot << 32 | slot << 4 | 3 : (uint64_t)slot << 4 | 3;
}

static inline uint64_t pid_of(const struct world *w, unsigned slot)
{
    return pid_in(w->vm.lay, slot);
}

static inline char *make_process(struct world *w, unsigned slot)
{
    char *p = make(w, LF(w->vm.lay, proc_size));
    char *heap = make(w, HEAP_BYTES);
    put(w, p, LF_id, pid_of(w, slot));
    put(w, p, LF_state, 0x2A);
    put(w, p, LF_heap, address(heap));
    put(w, p, LF_htop, address(heap));
    put(w, p, LF_hend, address(heap) + HEAP_BYTES);
    put(w, p, LF_stop, address(heap) + HEAP_BYTES - 16);
    put(w, p, LF_heap_sz, HEAP_WORDS);
    put(w, p, LF_reds, 1000 + slot);
    put(w, p, LF_group_leader, pid_of(w, slot));
    put(w, p, LF_parent, pid_of(w, slot));
    put(w, p, LF_seq_token, 0x3B); /* [] */
    put(w, p, LF_arg_reg, address(p) + LF(w->vm.lay, def_arg_reg));
    put(w, p, LF_sig_flags, 2);
    put(w, p, LF_live_frag_end, ~(uint64_t)7);
    w->table[slot] = address(p);
    return p;
}

static inline uint64_t get(const struct world *w, const char *object, enum layout_field field)
{
    uint64_t value = 0;
    memcpy(&value, object + w->vm.lay->f[field], layout_width(w->vm.lay, field));
    return value;
}

/* A process whose roots are all []. */
static inline char *make_rootless(struct world *w, unsigned slot)
{
    char *p = make_process(w, slot);
    put(w, p, LF_group_leader, TERM_NIL);
    put(w, p, LF_parent, TERM_NIL);
    put(w, p, LF_seq_token, TERM_NIL);
    return p;
}

/* An off-heap list of n entries on the heap; every third is not a binary. Returns its head. */
static inline uint64_t make_chain(struct world *w, char *p, unsigned n, uint64_t *count,
                                  uint64_t *bytes)
{
    uint64_t next = 0;
    uint64_t top = get(w, p, LF_htop);
    for (unsigned i = 0; i < n; i++, top += 48) {
        uint64_t entry[6] = {0};
        bool binary = i % 3 != 0;
        char *bin = make(w, 64);
        put(w, bin, LF_bin_size, 100 + i);
        entry[0] = binary ? LF(w->vm.lay, bin_thing) : 0xF0;
        entry[2] = next;
        entry[LF(w->vm.lay, bin_ptr) / 8] = address(bin);
        memcpy((void *)(uintptr_t)top, entry, sizeof entry); // NOLINT
        next = top;
        *count += binary;
        *bytes += binary ? 100 + i : 0;
    }
    put(w, p, LF_htop, top);
    return next;
}

/* The arena of the world that was freed last, for the next one: new memory for each was most of the time of
 * these tests under AddressSanitizer. */
static char *spare;

static inline struct world *new_world(const struct layout *lay)
{
    struct world *w = calloc(1, sizeof *w);
    if (!w || !(w->arena = spare ? spare : malloc(ARENA)))
        abort();
    spare = NULL;
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(w->arena, ARENA);
#endif
    w->vm = (struct vm){.reader = peek_ready(PEEK_GUARDED),
                        .lay = lay,
                        .tab = {.tab = address(w->table), .max = SLOTS}};
    return w;
}

static inline void free_world(struct world *w)
{
    free(spare);
    spare = w->arena;
#ifdef __SANITIZE_ADDRESS__
    __asan_poison_memory_region(w->arena, ARENA);
#endif
    free(w);
}

/* ---- one scan to its end ------------------------------------------------------------------- */

struct answer {
    enum scan_result result;
    unsigned slices, asked;
    size_t rows;
    struct row row[SLOTS];
};

/* Starts a scan for one attribute. */
static inline void start(struct scan *s, const struct vm *vm, enum attr attr, enum scan_mode mode,
                         size_t n, struct sample *first, size_t max)
{
    scan_init(s, vm, &attr, 1, mode, n, first, max);
}

static inline void run(struct scan *s, const struct vm *vm, uint64_t ns, struct answer *a)
{
    memset(a, 0, sizeof *a);
    for (a->slices = 1; a->slices < 100000; a->slices++) {
        a->result = scan_step(s, vm->reader, ns);
        if (a->result == SCAN_ASK) {
            a->asked += s->ask_n;
            scan_asked(s);
        } else if (a->result != SCAN_MORE) {
            break;
        }
    }
    a->rows = s->top->n;
    if (a->rows > 0)
        memcpy(a->row, s->top->rows, a->rows * sizeof *a->row);
}

static inline void ask(const struct world *w, enum attr attr, uint64_t ns, struct answer *a)
{
    struct scan *s = malloc(sizeof *s);
    if (!s)
        abort();
    start(s, &w->vm, attr, SCAN_TOP, SLOTS, NULL, SLOTS);
    run(s, &w->vm, ns, a);
    scan_free(s);
    free(s);
}

/* ---- terms ---------------------------------------------------------------------------------- */

static inline void put_word(uint64_t at, uint64_t value)
{
    memcpy((void *)(uintptr_t)at, &value, 8); // NOLINT(performance-no-int-to-ptr)
}

/* 0: this release has no such object. */
static inline uint64_t kind_header(const struct layout *lay, enum kind kind, uint64_t arity)
{
    uint64_t tag = 0;
    while (tag < 16 && lay->kinds[tag] != kind)
        tag++;
    return tag == 16 ? 0 : arity << 6 | tag << 2;
}

static inline uint64_t put_cons(uint64_t *top, uint64_t head, uint64_t tail)
{
    uint64_t at = *top;
    put_word(at, head);
    put_word(at + 8, tail);
    *top += 16;
    return at | TAG_LIST;
}

static inline void push_word(const struct world *w, char *p, uint64_t word)
{
    uint64_t stop = get(w, p, LF_stop) - 8;
    put_word(stop, word);
    put(w, p, LF_stop, stop);
}

enum { LONG = 1000000000, NOTHING = 1 }; /* slices, in nanoseconds */

static inline int outcome(void)
{
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0;
}

#endif
