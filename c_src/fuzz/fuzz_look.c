/* fuzz_look.c: runs the walkers of look.h over model processes, and compares.
 * Knows: an object retains the words that are unreachable without it, a file has what its head
 * declares, sizes and shapes equal the model's.
 * Does not know: how a walker finds its answer. */
#include "heap/root_size.h"
#include "fuzz/fuzz.h"
#include "graph/top_retained.h"
#include "graph/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_READS = 2000000, LOOK_WORDS = 1 << 12 };

/* The least steps of a slice: a walker may need a few before it makes progress. */
enum { STEPS_LEAST = 4 };

/* Above this many levels of map parts, a walker may give up. */
enum { MAPS_MAX = 3 };

static const char *asked; /* for the message of a failure */

static void must_look(bool ok, const char *what)
{
    if (!ok)
        fuzz_fail(what, asked);
}

/* ---- one walk ----------------------------------------------------------------------------------- */

enum { TEXT_MAX = 1 << 20 };

/* The text of a snapshot, taken piece by piece. */
struct written {
    size_t n;
    uint64_t titles; /* a hash of the titles and the previews */
    char text[TEXT_MAX + 1];
};

static void take(struct snapshot *s, struct written *out)
{
    must_look(s->text_n <= TEXT_MAX - out->n, "a text without an end");
    memcpy(out->text + out->n, s->text, s->text_n);
    out->n += s->text_n;
    for (unsigned i = 0; i < s->titled_n; i++)
        out->titles = (out->titles ^ s->titled[i].name ^ (uint64_t)s->titled[i].tokens << 32) *
                      0x9E3779B97F4A7C15;
    for (size_t i = 0; i < s->tokens.n; i++)
        out->titles = (out->titles ^ s->tokens.list[i].kind ^ s->tokens.list[i].n << 8 ^
                       s->tokens.list[i].word) *
                      0x9E3779B97F4A7C15;
    snapshot_taken(s);
}

/* out: NULL unless the walker is the snapshot's. */
static enum status go(const struct walker *walker, void *w, struct reading rd,
                      const struct look_args *args, uint32_t steps, struct written *out)
{
    enum status st = ST_TIMESLICE;
    uint64_t done;
    uint64_t total;
    walker->start(w, &rd, args);
    for (uint64_t i = 0; st == ST_TIMESLICE || (st == ST_ASK && out); i++) {
        must_look(i < LOOK_READS, "more turns than reads:");
        struct budget b = BUDGET(steps);
        rd.budget = &b;
        st = walker->walk(w, &rd);
        walker->progress(w, &done, &total);
        if (st == ST_ASK && out)
            take(w, out);
    }
    if (st == ST_OK && out)
        take(w, out);
    must_look(st != ST_OK || total == 0 || done <= total, "more done than there is:");
    return st;
}

/* ---- what retains most --------------------------------------------------------------------------- */

/* Whether a walker must answer: the heap is intact, and all of it can be described. */
static bool is_plain(const struct reach *r)
{
    return r->kind == MUST && !r->cyclic && !r->odd && r->maps <= MAPS_MAX;
}

static void must_answer(enum status st, bool must)
{
    if (must && st != ST_OK && !fuzz_failed())
        (void)fprintf(stderr, "%s\n", status_name(st));
    must_look(st != ST_NOMEM || fuzz_failed(), "no memory, and none was refused:");
    must_look(!must || st == ST_OK || fuzz_failed(), "no answer for a whole process:");
}

static uint64_t words_of(const struct reach *r)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < ROOT_COUNT; i++)
        sum += r->words[i];
    return sum;
}

static void same_way(const struct top_retained *l, const struct large *row)
{
    uint32_t from = 0;
    must_look(row->n > 0 && row->n <= WAY_MAX, "no way to a row:");
    for (unsigned i = 0; i < row->n; i++) {
        must_look(row->way[i] < l->edges_n, "a step that is none:");
        const struct edge *e = &l->edges[row->way[i]];
        bool gap = row->cut && i == WAY_BEGIN;
        must_look(e->known, "a step that nobody knows:");
        must_look(i == 0 ? e->parent < NODE_FIRST : e->parent == from || gap, "a way with a gap:");
        from = e->child;
    }
    must_look(from == row->node, "a way to somewhere else:");
}

/* As many objects as may have rows have one, and no object retains more than the first row's. */
static void same_number(const struct top_retained *l, uint64_t max)
{
    const struct graph *g = &l->graph;
    size_t n = 0;
    for (uint64_t place = 0; place < graph_places(g); place++) {
        struct mark k = place_mark(place);
        if (!bit_test(g->head, k) || bit_test(g->inner, k))
            continue;
        n++;
        must_look(l->n == 0 || l->n < max ||
                      l->dominators.retained[graph_node(g, k)] <= l->rows[0].retained,
                  "one that retains more than the first:");
    }
    must_look(l->n == (n < max ? n : max), "too many or few rows:");
    must_look(g->leaf_max == 0 || (l->n == max && l->rows[max - 1].retained > g->leaf_max),
              "a leaf is left out that may deserve a row:");
}

/* The words of one node without small leaves, counted by a walk through it. */
static uint64_t own_words(const struct image *img, const struct top_retained *l, uint32_t place)
{
    struct inside in;
    struct link link;
    struct budget b = BUDGET(UINT32_MAX);
    enum status st = inside_start(&l->graph, &img->vm, place, &in);
    in.tells_leaves = true;
    while (st == ST_OK)
        st = inside_next(&l->graph, &img->vm, &in, &b, &link);
    must_look(st == ST_GONE, "a node that cannot be walked:");
    must_look(in.leaf_words == 0 || l->graph.leaf_max > 0, "a leaf that is left out:");
    return in.words - in.leaf_words;
}

static void compare_largest(const struct image *img, uint64_t proc, const struct top_retained *l,
                            const struct reach *r)
{
    uint64_t all = words_of(r);
    must_look(l->dominators.retained[NODE_ROOT] == all, "the root retains something else:");
    same_number(l, img->rows);
    for (size_t i = 0; i < l->n; i++) {
        const struct large *row = &l->rows[i];
        uint64_t at = graph_address(&l->graph, row->place);
        uint64_t without = model_reach_without(&img->vm, proc, at);
        if (row->retained != all - without)
            (void)fprintf(stderr, "retained %llu, the model has %llu\n",
                          (unsigned long long)row->retained, (unsigned long long)(all - without));
        must_look(row->retained == all - without, "another retained size:");
        must_look(row->self == own_words(img, l, row->place), "another size of its own:");
        must_look(i == 0 || row->retained <= l->rows[i - 1].retained, "rows out of order:");
        same_way(l, row);
    }
}

/* ---- a snapshot ---------------------------------------------------------------------------------- */

enum { FIELDS = 7, NODES_MAX = REACH_WORDS * 2, EDGES_MAX = REACH_WORDS * 4 };

/* What a reader finds in the file. */
struct file {
    uint64_t nodes, edges;
    struct {
        uint64_t id, size, edges, first;
        bool seen;
    } node[NODES_MAX];
    uint32_t to[EDGES_MAX];
    uint32_t stack[NODES_MAX];
};

static uint64_t number(const char **p)
{
    char *end;
    uint64_t n = strtoull(*p, &end, 10);
    must_look(end != *p, "a number is missing:");
    *p = end;
    return n;
}

static void expect(const char **p, const char *text)
{
    size_t n = strlen(text);
    must_look(strncmp(*p, text, n) == 0, "another text than it should be:");
    *p += n;
}

/* One of many records: each on its own line, with a comma between two. */
static void record(const char **p, uint64_t i, uint64_t *fields, unsigned n)
{
    expect(p, i == 0 ? "\n" : ",");
    for (unsigned k = 0; k < n; k++) {
        if (k > 0)
            expect(p, ",");
        fields[k] = number(p);
    }
    expect(p, "\n");
}

static uint64_t counted(const char *text, const char *what)
{
    const char *p = strstr(text, what);
    must_look(p != NULL, "no number in the head:");
    p += strlen(what);
    return number(&p);
}

static void read_file(const char *text, struct file *f)
{
    uint64_t of[FIELDS];
    const char *p = strstr(text, "\"nodes\":[");
    f->nodes = counted(text, "\"node_count\":");
    f->edges = counted(text, "\"edge_count\":");
    must_look(p && f->nodes <= NODES_MAX && f->edges <= EDGES_MAX, "too much for a head:");
    p += strlen("\"nodes\":[");
    uint64_t edges = 0;
    for (uint64_t i = 0; i < f->nodes; i++) {
        record(&p, i, of, FIELDS);
        f->node[i].id = of[2];
        f->node[i].size = of[3];
        f->node[i].edges = of[4];
        f->node[i].first = edges;
        edges += of[4];
    }
    must_look(edges == f->edges, "nodes with other edges than there are:");
    expect(&p, "],\n\"edges\":[");
    for (uint64_t i = 0; i < f->edges; i++) {
        record(&p, i, of, 3);
        must_look(of[2] % FIELDS == 0 && of[2] / FIELDS < f->nodes, "an edge to nowhere:");
        f->to[i] = (uint32_t)(of[2] / FIELDS);
    }
    expect(&p, "],\n\"strings\":[");
    must_look(*p == 0, "more text than a file has:");
}

/* The bytes that node 0 leads to if nothing leads to `without'. */
static uint64_t reached_without(struct file *f, uint64_t without)
{
    uint32_t n = 0;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < f->nodes; i++)
        f->node[i].seen = i == without;
    f->node[0].seen = true;
    f->stack[n++] = 0;
    while (n > 0) {
        uint32_t i = f->stack[--n];
        sum += f->node[i].size;
        for (uint64_t e = f->node[i].first; e < f->node[i].first + f->node[i].edges; e++) {
            if (f->node[f->to[e]].seen)
                continue;
            f->node[f->to[e]].seen = true;
            f->stack[n++] = f->to[e];
        }
    }
    return sum;
}

/* The address of an id's object; 0: none. Folded nodes have an odd place and no object. */
static uint64_t address_of(const struct reach *r, uint64_t id)
{
    static const uint64_t bases[] = {MEMORY_BASE, MEMORY_TOP};
    for (unsigned i = 0; i < 2; i++) {
        uint64_t at = bases[i] + ((id - (bases[i] >> 3)) & UINT32_MAX) * 8;
        if (memory_at(at) && reach_has(r, at))
            return at;
    }
    return 0;
}

enum { SOME_NODES = 8 };

/* The file has everything, and an object retains as much there as on the heap, folded or not. */
static void compare_snapshot(const struct image *img, uint64_t proc, const struct snapshot *s,
                             const struct reach *r, const struct written *w)
{
    static struct file f;
    uint64_t all = words_of(r);
    read_file(w->text, &f);
    must_look(reached_without(&f, UINT64_MAX) == all * 8, "a file with other words than reached:");
    for (uint64_t i = 0; i < f.nodes; i++)
        must_look(f.node[i].seen, "a node that nobody leads to:");
    uint64_t first = NODE_FIRST + s->folds;
    uint64_t step = 1 + s->n / SOME_NODES;
    for (uint64_t i = first + img->steps % step; i < first + s->n; i += step) {
        uint64_t at = address_of(r, f.node[i].id);
        must_look(at != 0, "a node that is no object:");
        uint64_t here = all - reached_without(&f, i) / 8;
        uint64_t there = all - model_reach_without(&img->vm, proc, at);
        if (here != there)
            (void)fprintf(stderr, "retained %llu in the file, %llu in the model, folds %d\n",
                          (unsigned long long)here, (unsigned long long)there, s->folds);
        must_look(here == there, "another retained size in the file:");
    }
}

/* ---- sizes and shapes ----------------------------------------------------------------------------- */

static bool same_sizes(const struct sizes *s, enum status st)
{
    bool crowded = s->crowded && (st == ST_TOO_LARGE || st == ST_NOMEM);
    must_look(st != ST_NOMEM || fuzz_failed() || crowded, "no memory, and none was refused:");
    if (s->kind == MUST && st != ST_OK && !fuzz_failed())
        (void)fprintf(stderr, "%s\n", status_name(st));
    must_look(s->kind != REFUSED || st != ST_OK, "an answer for a broken process:");
    must_look(s->kind != MUST || st == ST_OK || fuzz_failed() || crowded,
              "no answer for a whole process:");
    return s->kind == MUST && st == ST_OK;
}

static void compare_flat(const struct root_size *f, enum status st, const struct sizes *s)
{
    if (!same_sizes(s, st))
        return;
    const struct sums *sum = &f->measure.sum;
    must_look(sum->words == s->words, "other words:");
    must_look(!(f->want & ROOT_SIZE_BYTES) || sum->bytes == s->bytes, "other bytes:");
    must_look(!(f->want & ROOT_SIZE_SHARED) || f->shared.words == s->shared, "other shared words:");
    if (!(f->want & ROOT_SIZE_BINARIES))
        return;
    uint64_t pinned = f->measure.binaries ? address_set_bytes(f->measure.binaries) : 0;
    must_look(sum->visible == s->visible, "other bytes visible:");
    must_look(pinned == s->pinned, "other bytes pinned:");
}

static void compare_mailbox(const struct mailbox *m, enum status st, const struct mail *mail)
{
    unsigned n = 0;
    if (!same_sizes(&mail->sizes, st))
        return;
    must_look(m->messages == mail->messages, "another number of messages:");
    must_look(m->examined == mail->examined, "another number of messages examined:");
    must_look(m->measure.sum.words == mail->sizes.words, "other words of messages:");
    for (unsigned i = 0; i < SHAPES_TABLE; i++)
        n += m->shapes[i].kind != SHAPE_FREE;
    must_look(n == mail->n && n == m->shapes_n, "too many or few shapes:");
    for (unsigned i = 0; i <= SHAPES_MAX; i++) {
        const struct shape *want = &mail->shapes[i];
        const struct shape *got = i == SHAPES_MAX ? &m->other : NULL;
        for (unsigned k = 0; k < SHAPES_TABLE && i < mail->n; k++) {
            const struct shape *s = &m->shapes[k];
            if (s->kind == want->kind && s->tag == want->tag && s->arity == want->arity)
                got = s;
        }
        if (i >= mail->n && i < SHAPES_MAX)
            continue;
        must_look(got != NULL, "a shape is missing:");
        must_look(got->messages == want->messages && got->words == want->words &&
                      got->visible == want->visible,
                  "another count of a shape:");
    }
}

/* ---- what to ask ---------------------------------------------------------------------------------- */

enum looks { LOOK_LARGEST, LOOK_SNAPSHOT, LOOK_FLAT, LOOK_SLOT, LOOK_MAILBOX, LOOKS };

struct asking {
    enum looks what;
    const struct walker *walker;
    struct look_args args;
    struct plan plan;
};

static void ask(struct asking *a, const struct image *img, enum looks what)
{
    static const struct {
        const char *name;
        const struct walker *walker;
    } walkers[LOOKS] = {{"largest", &top_retained_walker},
                        {"snapshot", &snapshot_walker},
                        {"flat", &root_size_walker},
                        {"slot", &root_size_walker},
                        {"mailbox", &mailbox_walker}};
    static const unsigned roots[] = {
        ROOT_SIZE_STACK | ROOT_SIZE_REGISTERS | ROOT_SIZE_DICTIONARY | ROOT_SIZE_MESSAGES,
        ROOT_SIZE_DICTIONARY | ROOT_SIZE_BYTES, ROOT_SIZE_MESSAGES | ROOT_SIZE_BINARIES,
        ROOT_SIZE_STACK | ROOT_SIZE_BYTES | ROOT_SIZE_BINARIES};
    enum layout_field fields[LOOK_FIELDS_MAX];
    bool more = img->mode & 8;
    asked = walkers[what].name;
    a->what = what;
    a->walker = walkers[what].walker;
    a->args = (struct look_args){.max_words = LOOK_WORDS, .max_entries = img->rows};
    if (what == LOOK_LARGEST)
        a->args.want = more ? TOP_RETAINED_CONTENT : 0;
    if (what == LOOK_SNAPSHOT) {
        a->args.want = more ? SNAPSHOT_VALUES | SNAPSHOT_CONTENT : 0;
        /* in one of two cases it is folded */
        a->args.max_entries = img->mode & 1 ? REACH_WORDS : 2ULL * img->rows;
    }
    if (what == LOOK_FLAT)
        a->args.want = roots[img->mode >> 5 & 3];
    if (what == LOOK_SLOT) {
        a->args.want = ROOT_SIZE_SLOT | ROOT_SIZE_BYTES | ROOT_SIZE_BINARIES | ROOT_SIZE_SHARED;
        a->args.n = 1;
    }
    if (what == LOOK_MAILBOX)
        a->args.max_entries = more ? MEMORY_WORDS : img->rows;
    a->walker->fields(fields);
    plan_make(&a->plan, img->vm.lay, STATE_UNSETTLED,
              a->walker->locks != 0 ? a->walker->locks : LOCK_MAIN, fields);
}

/* ---- a process that lies still -------------------------------------------------------------------- */

static struct reach reach;
static struct sizes sizes;
static struct mail mail;
static struct written written[2]; /* at once, and in slices */

static void model(const struct image *img, const struct asking *a, uint64_t proc)
{
    if (a->what == LOOK_MAILBOX)
        model_mailbox(&img->vm, proc, a->args.max_entries, a->args.max_words, &mail);
    else if (a->what == LOOK_FLAT || a->what == LOOK_SLOT)
        sizes = model_flat(&img->vm, proc, a->args.want, a->args.n, a->args.max_words);
    else
        model_reach(&img->vm, proc, 0, a->args.max_words, 0, &reach);
}

static void compare_things(const struct image *img, const struct asking *a, uint64_t proc,
                           const void *w, enum status st, const struct written *out, bool first)
{
    bool content = a->args.want & TOP_RETAINED_CONTENT; /* what a row shows may lie anywhere */
    must_answer(st, is_plain(&reach) && !content);
    must_look(reach.kind != REFUSED || reach.lied || reach.doubted || st != ST_OK,
              "an answer for a broken heap:");
    if (st != ST_OK || reach.kind != MUST || reach.cyclic)
        return;
    if (a->what == LOOK_LARGEST) {
        compare_largest(img, proc, w, &reach);
        return;
    }
    bool same = out->n == written[0].n && out->titles == written[0].titles &&
                memcmp(out->text, written[0].text, out->n) == 0;
    must_look(first || written[0].n == 0 || same, "another text in other slices:");
    if (first)
        compare_snapshot(img, proc, w, &reach, out);
}

static void compare(const struct image *img, const struct asking *a, uint64_t proc, const void *w,
                    enum status st, const struct written *out, bool first)
{
    if (a->what == LOOK_MAILBOX)
        compare_mailbox(w, st, &mail);
    else if (a->what == LOOK_FLAT || a->what == LOOK_SLOT)
        compare_flat(w, st, &sizes);
    else
        compare_things(img, a, proc, w, st, out, first);
}

static struct written *page(const struct asking *a, bool first)
{
    struct written *out = &written[!first];
    out->n = out->titles = 0;
    return a->what == LOOK_SNAPSHOT ? out : NULL;
}

static void look_still(const struct image *img, const struct asking *a, size_t slot, uint64_t proc)
{
    const uint32_t steps[] = {UINT32_MAX, STEPS_LEAST, STEPS_LEAST + img->steps};
    struct view view;
    const struct reading rd = {&img->vm, &a->plan, &view, NULL};
    fuzz_begin(img, false, 0);
    model(img, a, proc);
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct written *out = page(a, i == 0);
        fuzz_begin(img, false, LOOK_READS);
        if (stamp_open(&img->vm, &a->plan, slot, proc, &view) != ST_OK)
            return;
        void *w = malloc(a->walker->size);
        must_look(w != NULL, "no memory for a walker:");
        memset(w, 0xAA, a->walker->size);
        enum status st = go(a->walker, w, rd, &a->args, steps[i], out);
        if (out)
            out->text[out->n] = 0;
        if (out && st != ST_OK)
            out->n = 0;
        compare(img, a, proc, w, st, out, i == 0);
        while (!a->walker->end(w)) {
        }
        free(w);
        must_look(stamp_close(&rd) == ST_OK, "torn, and nothing changed:");
    }
}

/* ---- one that runs -------------------------------------------------------------------------------- */

/* Any answer is right, but there must be none if a word under the stamp changed. A mailbox has
 * other words under its stamp. */
static void look_running(const struct image *img, const struct asking *a, size_t slot,
                         uint64_t proc)
{
    uint64_t before;
    uint64_t after;
    struct view view;
    const struct reading rd = {&img->vm, &a->plan, &view, NULL};
    fuzz_begin(img, true, LOOK_READS);
    if (stamp_open(&img->vm, &a->plan, slot, proc, &view) != ST_OK)
        return;
    unsigned opened = memory_changed();
    bool settled = model_reach_stamp(&img->vm, proc, &before);
    void *w = malloc(a->walker->size);
    must_look(w != NULL, "no memory for a walker:");
    (void)go(a->walker, w, rd, &a->args, STEPS_LEAST + img->steps, page(a, true));
    while (!a->walker->end(w)) {
    }
    free(w);
    unsigned walked = memory_changed();
    bool same = model_reach_stamp(&img->vm, proc, &after) && settled && before == after;
    enum status st = stamp_close(&rd);
    if (opened > 0 || memory_changed() != walked || a->what == LOOK_MAILBOX)
        return;
    must_look(st != ST_OK || same, "it moved, and is not torn:");
}

/* To count each part once, a walker must know where literals lie, though the model has none. */
static struct image as_asked(const struct image *img, enum looks what)
{
    static const struct block nothing = {64, 128};
    struct image as = *img;
    if (what == LOOK_SLOT && !(img->mode & 8))
        as.vm.literals = nothing;
    return as;
}

static void check_look(const struct image *img, enum looks what)
{
    struct asking a;
    ask(&a, img, what);
    for (size_t slot = 0; slot < SLOTS; slot++) {
        fuzz_begin(img, false, 0);
        const uint64_t *proc = memory_at(img->vm.tab.tab + slot * 8);
        if (!proc || *proc == 0)
            continue;
        uint64_t at = *proc;
        look_still(img, &a, slot, at);
        if (memory_changes() > 0)
            look_running(img, &a, slot, at);
    }
}

void check_looks(const struct image *img)
{
    for (enum looks what = 0; what < LOOKS; what++) {
        struct image as = as_asked(img, what);
        check_look(&as, what);
    }
}
