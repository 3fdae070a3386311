#include "graph/snapshot.h"

#include "util/alloc.h"
#include "util/fill.h"

#include <stdio.h>
#include <string.h>

enum stages {
    WALK,
    MAKE,
    DOMINATE,
    FOLD,
    ALLOCATE,
    FORGET,
    SEARCH,
    HEAD,
    NODES,
    FOLDED_AREAS,
    FOLDED_NODES,
    EDGES_HEAD,
    AREA_EDGES,
    SHARED_EDGES,
    EDGES,
    TAIL,
    VALUES,
    DONE
};

/* The types of V8's nodes and edges that the snapshot uses. */
enum node_type {
    OBJECT = 3,
    HEAP_NUMBER = 7,
    CLOSURE = 5,
    STRING = 2,
    NATIVE = 8,
    SYNTHETIC = 9,
    SLICED = 11,
    BIGINT = 13
};
enum edge_type { CONTEXT = 0, ELEMENT = 1, PROPERTY = 2, INTERNAL = 3 };

/* RECORD_MAX: longer than any record of a node or an edge. */
enum { RECORD_MAX = 96, HEAD_MAX = 1024 };

enum { NODE_FIELDS = 7, ID_ROOT = 1, ID_FOLDED = 7, ID_FOLDED_AREA = 8 };

static const struct preview_limits of_value = {2, 5, 20};

static const char head[] =
    "{\"snapshot\":{\"meta\":{"
    "\"node_fields\":[\"type\",\"name\",\"id\",\"self_size\",\"edge_count\",\"trace_node_id\","
    "\"detachedness\"],"
    "\"node_types\":[[\"hidden\",\"array\",\"string\",\"object\",\"code\",\"closure\",\"regexp\","
    "\"number\",\"native\",\"synthetic\",\"concatenated string\",\"sliced string\",\"symbol\","
    "\"bigint\",\"object "
    "shape\"],\"string\",\"number\",\"number\",\"number\",\"number\",\"number\"],"
    "\"edge_fields\":[\"type\",\"name_or_index\",\"to_node\"],"
    "\"edge_types\":[[\"context\",\"element\",\"property\",\"internal\",\"hidden\",\"shortcut\","
    "\"weak\"],\"string_or_number\",\"node\"]},"
    "\"node_count\":%llu,\"edge_count\":%llu,\"trace_function_count\":0},\n\"nodes\":[";

static void start(void *w, const struct reading *rd, const struct look_args *args)
{
    struct snapshot *s = w;
    memset(s, 0, sizeof *s);
    s->want = args->want;
    s->max_nodes = args->max_entries;
    marking_start(&s->heap, rd, 0, args->max_words);
    graph_start(&s->graph, &s->heap, 0);
    dominators_start(&s->dominators, &s->graph);
    s->dominators.ordered = true;
    prune_start(&s->fold, &s->graph, &s->dominators, args->max_entries);
}

static bool end(void *w)
{
    struct snapshot *s = w;
    if (!s->folds && (SONDE_DROP(s->number) || SONDE_DROP(s->queue)))
        return false;
    if (!dominators_end(&s->dominators) || !graph_end(&s->graph))
        return false;
    sonde_free(s->text);
    preview_end(&s->tokens);
    string_table_end(&s->names);
    prune_end(&s->fold);
    marking_end(&s->heap);
    return true;
}

static void progress(const void *w, uint64_t *done, uint64_t *total)
{
    const struct snapshot *s = w;
    *total = s->heap.words;
    *done = s->stage == WALK ? marking_reached(&s->heap) / 8
                             : *total / 8 + (uint64_t)(s->stage - WALK) * (*total / DONE) * 7 / 8;
}

void snapshot_taken(struct snapshot *s)
{
    s->text_n = 0;
    s->titled_n = 0;
    s->tokens.n = 0;
}

/* ---- text ----------------------------------------------------------------------------------- */

static bool full(const struct snapshot *s)
{
    return s->text_n > SNAPSHOT_PIECE;
}

static unsigned count_digits(uint64_t n)
{
    unsigned digits = 1;
    for (; n >= 10000; n /= 10000)
        digits += 4;
    return digits + (n >= 10) + (n >= 100) + (n >= 1000);
}

/* Two digits at a time, from the last one on. Returns what is behind them. */
static char *put_number(char *to, uint64_t n)
{
    static const char pairs[] = "0001020304050607080910111213141516171819"
                                "2021222324252627282930313233343536373839"
                                "4041424344454647484950515253545556575859"
                                "6061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";
    char *behind = to + (n < 10 ? 1 : count_digits(n));
    for (to = behind; n >= 100; n /= 100)
        memcpy(to -= 2, pairs + n % 100 * 2, 2);
    if (n >= 10)
        memcpy(to - 2, pairs + n * 2, 2);
    else
        to[-1] = (char)('0' + n);
    return behind;
}

static void put_record(struct snapshot *s, const uint64_t *numbers, unsigned n)
{
    char *to = s->text + s->text_n;
    char before = s->begun ? ',' : '\n';
    for (unsigned i = 0; i < n; i++) {
        *to++ = before;
        before = ',';
        to = put_number(to, numbers[i]);
    }
    *to++ = '\n';
    s->begun = true;
    s->text_n = (size_t)(to - s->text);
}

static void put_text(struct snapshot *s, const char *text)
{
    size_t n = strlen(text);
    memcpy(s->text + s->text_n, text, n);
    s->text_n += n;
    s->begun = false;
}

/* Programs that read the file store sizes in 32 bits. */
static void put_node(struct snapshot *s, unsigned type, uint64_t name, uint64_t id, uint64_t words,
                     uint64_t edges)
{
    uint64_t size = words * 8 < UINT32_MAX - 7U ? words * 8 : UINT32_MAX - 7U;
    const uint64_t numbers[NODE_FIELDS] = {type, name, id & UINT32_MAX, size, edges, 0, 0};
    put_record(s, numbers, NODE_FIELDS);
    s->nodes--;
}

static void put_edge(struct snapshot *s, unsigned type, uint64_t name, uint64_t to)
{
    const uint64_t numbers[] = {type, name, to * NODE_FIELDS};
    put_record(s, numbers, 3);
    s->edges--;
}

/* ---- positions of nodes and strings in the file ----------------------------------------------- */

/* If nodes are folded, one node after the root and the areas describes them. */
static uint32_t first_number(const struct snapshot *s)
{
    return NODE_FIRST + s->folds;
}

static uint64_t number_of(const struct snapshot *s, struct mark k)
{
    return (uint64_t)s->number[graph_node(&s->graph, k)] + s->folds;
}

static uint64_t number_of_folded(const struct snapshot *s, uint32_t which)
{
    return (uint64_t)first_number(s) + s->n + which;
}

/* Names of nodes with previews come between the fixed strings and the others. */
static uint64_t string_of(const struct snapshot *s, uint32_t name)
{
    bool fixed = name < STRING_TABLE_FIXED_N || !(s->want & SNAPSHOT_VALUES);
    return fixed ? name : (uint64_t)name + s->n;
}

/* The string for `name`, or `otherwise` once the table is full. */
static enum status name_or(struct snapshot *s, struct name name, uint32_t otherwise,
                           uint32_t *string)
{
    uint32_t index = 0;
    enum status st = string_table_put(&s->names, name, &index);
    *string = st == ST_OK ? STRING_TABLE_FIXED_N + index : otherwise;
    return st == ST_GONE ? ST_OK : st;
}

/* ---- preparing ------------------------------------------------------------------------------ */

static enum status allocate(struct snapshot *s)
{
    s->folds = s->fold.kept != NULL;
    s->n = s->folds ? s->fold.kept_n : s->graph.nodes - NODE_FIRST;
    s->number = s->folds ? s->dominators.waiting : sonde_alloc(s->graph.nodes * sizeof *s->number);
    s->queue = s->folds ? s->dominators.order : sonde_alloc(s->graph.nodes * sizeof *s->queue);
    s->text = sonde_alloc(SNAPSHOT_PIECE + HEAD_MAX + sizeof head);
    return s->number && s->queue && s->text ? ST_OK : ST_NOMEM;
}

static enum status forget(struct snapshot *s, struct budget *b)
{
    if (fill(s->number, s->graph.nodes, &s->done, NODE_NONE, b) != ST_OK)
        return ST_TIMESLICE;
    bfs_start(&s->breadth, &s->graph, s->number, s->queue);
    s->breadth.numbers = true;
    s->breadth.fold = s->folds ? &s->fold : NULL;
    return ST_OK;
}

/* The file starts with the counts of nodes and edges, so every node must have been found. */
static enum status search(struct snapshot *s, const struct reading *rd)
{
    enum status st = bfs_walk(&s->breadth, rd);
    if (st != ST_OK)
        return st;
    s->nodes = (uint64_t)first_number(s) + s->n + (s->folds ? s->fold.owners : 0);
    s->edges = s->breadth.links + ROOT_COUNT + s->folds + (s->folds ? s->fold.owners : 0);
    return s->breadth.n == s->n ? ST_OK : ST_TORN;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static void put_head(struct snapshot *s)
{
    int n = snprintf(s->text, sizeof head + HEAD_MAX, head, (unsigned long long)s->nodes,
                     (unsigned long long)s->edges);
    s->text_n = (size_t)n;
    s->nodes_n = s->nodes;
    s->edges_n = s->edges;
}

static enum status put_areas(struct snapshot *s)
{
    uint32_t name = NAME_FOLDED;
    uint64_t bytes = s->fold.words * 8;
    enum status st = ST_OK;
    size_t links = 0;
    put_node(s, SYNTHETIC, NAME_EMPTY, ID_ROOT, 0, ROOT_COUNT + s->folds);
    for (unsigned i = 0; i < ROOT_COUNT; i++) {
        bool owner = prune_below(&s->fold, NODE_AREA + i) != 0;
        put_node(s, SYNTHETIC, NAME_STACK + i, ID_ROOT + 1 + i, 0,
                 s->breadth.area_links[i] + owner);
    }
    if (s->folds) {
        struct name folded = {NAME_OF_FOLDED, (uint32_t)s->fold.objects, bytes};
        st = name_or(s, folded, NAME_FOLDED, &name);
        (void)prune_links(&s->fold, NODE_ROOT, &links);
        put_node(s, SYNTHETIC, string_of(s, name), ID_FOLDED, prune_below(&s->fold, NODE_ROOT),
                 links);
    }
    return st;
}

/* The name of an inner part that is a node because several objects lead to it. */
static uint32_t title_inner(const struct edges *p)
{
    if (p->kind == KIND_TUPLE)
        return NAME_PAIR;
    return p->kind == KIND_MAP ? NAME_MAP_NODE : NAME_MAP_PAIR;
}

static enum status title_tuple(struct snapshot *s, const struct vm *vm, const struct edges *p,
                               uint32_t *name)
{
    uint64_t first = 0;
    if (p->words > 1 && !s->heap.nameless && !peek_word(vm->reader, p->object + 8, &first))
        return ST_TORN;
    struct name tuple = {NAME_OF_TUPLE, (uint32_t)(p->words - 1), term_is_atom(first) ? first : 0};
    return name_or(s, tuple, NAME_TUPLE, name);
}

static enum status title_fun(struct snapshot *s, const struct vm *vm, const struct edges *p,
                             uint32_t *name)
{
    uint64_t entry;
    uint32_t index;
    *name = NAME_FUN;
    if (s->heap.nameless)
        return ST_OK;
    if (!peek_word(vm->reader, p->object + 8, &entry))
        return ST_TORN;
    enum status st =
        string_table_put_fun(&s->names, vm, entry, p->words - edges_index(p, p->at), &index);
    if (st == ST_OK)
        *name = STRING_TABLE_FIXED_N + index;
    return st == ST_GONE ? ST_OK : st;
}

/* Type and name of the current node. */
static enum status title(struct snapshot *s, const struct vm *vm)
{
    static const struct {
        uint8_t type, name;
    } plain[] = {
        [KIND_NONE] = {OBJECT, NAME_LIST},
        [KIND_BIGNUM] = {BIGINT, NAME_BIGNUM},
        [KIND_FLOAT] = {HEAP_NUMBER, NAME_FLOAT},
        [KIND_REF] = {OBJECT, NAME_REF},
        [KIND_FUN_REF] = {OBJECT, NAME_THING},
        [KIND_REFC] = {NATIVE, NAME_REFC},
        [KIND_HEAP_BINARY] = {STRING, NAME_HEAP_BINARY},
        [KIND_SUB_BINARY] = {SLICED, NAME_SUB_BINARY},
        [KIND_MATCH] = {OBJECT, NAME_THING},
        [KIND_EXTERNAL] = {OBJECT, NAME_EXTERNAL},
        [KIND_RECORD] = {OBJECT, NAME_RECORD},
        [KIND_MAP] = {OBJECT, NAME_MAP},
    };
    const struct edges *p = &s->inside.piece;
    s->type = OBJECT;
    if (s->inside.inner) {
        s->name = title_inner(p);
        return ST_OK;
    }
    if (p->kind == KIND_TUPLE)
        return title_tuple(s, vm, p, &s->name);
    if (p->kind == KIND_FUN) {
        s->type = CLOSURE;
        return title_fun(s, vm, p, &s->name);
    }
    s->type = plain[p->kind].type;
    s->name = plain[p->kind].name;
    return ST_OK;
}

static enum status enter(struct snapshot *s, const struct vm *vm)
{
    uint32_t place = s->queue[s->at];
    enum status st = inside_start(&s->graph, vm, place, &s->inside);
    s->links = 0;
    s->entered = true;
    s->others = s->other = 0;
    if (s->folds)
        s->other = prune_links(&s->fold, graph_node(&s->graph, place_mark(place)), &s->others);
    return st;
}

static uint32_t node_at(const struct snapshot *s)
{
    return graph_node(&s->graph, place_mark(s->queue[s->at]));
}

static enum status nodes(struct snapshot *s, const struct vm *vm, struct budget *b)
{
    for (; s->at < s->n; s->at++) {
        struct link link;
        enum status st = ST_OK;
        if (full(s))
            return ST_ASK;
        if (!budget_step(b))
            return ST_TIMESLICE;
        if (!s->entered && (st = enter(s, vm)) == ST_OK)
            st = title(s, vm);
        while (st == ST_OK && (st = inside_next(&s->graph, vm, &s->inside, b, &link)) == ST_OK)
            s->links += prune_keeps(&s->fold, link.mark);
        if (st != ST_GONE)
            return st;
        bool owner = prune_below(&s->fold, node_at(s)) != 0;
        bool titled = s->want & SNAPSHOT_VALUES;
        put_node(s, s->type,
                 titled ? (uint64_t)STRING_TABLE_FIXED_N + s->at : string_of(s, s->name),
                 graph_address(&s->graph, s->queue[s->at]) >> 3, s->inside.words,
                 s->links + s->others + owner);
        s->entered = false;
    }
    return ST_OK;
}

/* One folded node for each root with nodes folded below it. */
static void folded_areas(struct snapshot *s)
{
    for (uint32_t i = NODE_AREA; i < NODE_FIRST; i++) {
        uint32_t words = prune_below(&s->fold, i);
        if (words != 0)
            put_node(s, OBJECT, NAME_FOLDED, ID_FOLDED_AREA + i, words, 0);
    }
}

static enum status folded_nodes(struct snapshot *s, struct budget *b)
{
    for (; s->folds && s->at < s->n; s->at++) {
        if (full(s))
            return ST_ASK;
        if (!budget_step(b))
            return ST_TIMESLICE;
        uint32_t words = prune_below(&s->fold, node_at(s));
        if (words != 0) /* the id is free: no object begins at its owner's second word */
            put_node(s, OBJECT, NAME_FOLDED, (graph_address(&s->graph, s->queue[s->at]) >> 3) + 1,
                     words, 0);
    }
    return s->nodes == 0 ? ST_OK : ST_TORN;
}

/* ---- edges ---------------------------------------------------------------------------------- */

static void root_edges(struct snapshot *s)
{
    for (unsigned i = 0; i < ROOT_COUNT; i++)
        put_edge(s, PROPERTY, NAME_STACK + i, NODE_AREA + i);
    if (s->folds)
        put_edge(s, PROPERTY, NAME_FOLDED, NODE_FIRST);
}

static bool is_small_number(uint64_t word)
{
    return term_is_small(word) && word >> 4 < UINT32_MAX;
}

/* The edge of a dictionary key is its name. */
static enum status entry_edge(struct snapshot *s, uint64_t key, uint64_t to)
{
    uint32_t name = NAME_SOME_KEY;
    enum status st = ST_OK;
    if (term_is_atom(key) || (term_is_small(key) && (s->want & SNAPSHOT_CONTENT)))
        st = name_or(s, (struct name){NAME_OF_ENTRY, 0, key}, NAME_SOME_KEY, &name);
    put_edge(s, PROPERTY, string_of(s, name), to);
    return st;
}

/* In a map, the edge of an atom is a name, that of a number an index; other keys are numbered. */
static enum status key_edge(struct snapshot *s, uint64_t key, uint64_t to)
{
    uint32_t name = NAME_KEY;
    enum status st = ST_OK;
    if (term_is_atom(key)) {
        st = name_or(s, (struct name){NAME_OF_KEY, 0, key}, NAME_KEY, &name);
        put_edge(s, PROPERTY, string_of(s, name), to);
    } else if (is_small_number(key) && (s->want & SNAPSHOT_CONTENT)) {
        put_edge(s, ELEMENT, key >> 4, to);
    } else {
        put_edge(s, ELEMENT, s->links, to);
    }
    return st;
}

static enum status env_edge(struct snapshot *s, uint64_t index, uint64_t to)
{
    uint32_t name;
    enum status st =
        name_or(s, (struct name){NAME_OF_NUMBER, (uint32_t)index, 0}, NAME_EMPTY, &name);
    put_edge(s, CONTEXT, string_of(s, name), to);
    return st;
}

/* In the order of roots.c; 0: an object in a fragment that a collection keeps whole. */
static uint32_t other_name(uint64_t index)
{
    static const uint8_t names[] = {NAME_OTHER_ROOTS, NAME_GROUP_LEADER, NAME_PARENT,
                                    NAME_SEQ_TOKEN};
    return index < sizeof names ? names[index] : NAME_RECV_MARKER;
}

static enum status step_edge(struct snapshot *s, const struct path_step *step, uint64_t to)
{
    static const uint8_t fixed[] = {
        [PATH_STEP_NONE] = NAME_NODE,  [PATH_STEP_DICTIONARY] = NAME_PAIR,
        [PATH_STEP_TAIL] = NAME_TAIL,  [PATH_STEP_KEYS] = NAME_KEYS,
        [PATH_STEP_IN_KEY] = NAME_KEY, [PATH_STEP_BINARY] = NAME_BINARY_OF,
    };
    s->links++;
    switch (step->kind) {
    case PATH_STEP_STACK:
    case PATH_STEP_REGISTER:
    case PATH_STEP_MESSAGE:
    case PATH_STEP_ELEMENT:
    case PATH_STEP_INDEX:
        put_edge(s, ELEMENT, step->index & UINT32_MAX, to);
        return ST_OK;
    case PATH_STEP_OTHER:
        put_edge(s, PROPERTY, other_name(step->index), to);
        return ST_OK;
    case PATH_STEP_KEY:
        return s->inside.piece.kind == KIND_TUPLE ? entry_edge(s, step->key, to)
                                                  : key_edge(s, step->key, to);
    case PATH_STEP_IN_KEY:
        put_edge(s, PROPERTY, NAME_KEY, to);
        return ST_OK;
    case PATH_STEP_ENV:
        return env_edge(s, step->index, to);
    default:
        put_edge(s, INTERNAL, fixed[step->kind], to);
        return ST_OK;
    }
}

/* The node's links that replace folded nodes, and the link to its own folded node. */
static enum status other_edges(struct snapshot *s, uint32_t node, struct budget *b)
{
    for (; s->others > 0; s->others--, s->other++) {
        if (full(s))
            return ST_ASK;
        if (!budget_step(b))
            return ST_TIMESLICE;
        put_edge(s, INTERNAL, NAME_NODE,
                 number_of(s, place_mark(s->fold.links.rows[s->other].pid)));
    }
    if (node != NODE_ROOT && prune_below(&s->fold, node) != 0)
        put_edge(s, INTERNAL, NAME_FOLDED, number_of_folded(s, s->folded++));
    return ST_OK;
}

/* One area after another; each goes through all roots. */
static enum status area_edges(struct snapshot *s, const struct reading *rd)
{
    for (; s->at < ROOT_COUNT; s->at++) {
        struct link link;
        struct path_step step;
        enum status st = s->entered ? ST_GONE : ST_OK;
        while (st == ST_OK) {
            if (full(s))
                return ST_ASK;
            st = graph_root(&s->graph, &s->roots, rd, &link);
            if (st != ST_OK || s->roots.root != s->at || !prune_keeps(&s->fold, link.mark))
                continue;
            path_step_root(&s->roots, &step);
            st = step_edge(s, &step, number_of(s, link.mark));
        }
        if (st != ST_GONE)
            return st;
        if (!s->entered && s->folds)
            s->other = prune_links(&s->fold, NODE_AREA + s->at, &s->others);
        s->entered = true;
        st = other_edges(s, NODE_AREA + s->at, rd->budget);
        if (st != ST_OK)
            return st;
        s->entered = false;
        roots_start(&s->roots, s->heap.collect.waiting);
    }
    return ST_OK;
}

/* Nodes that only several areas together retain: links of the node that describes folded ones. */
static enum status shared_edges(struct snapshot *s, struct budget *b)
{
    if (!s->folds)
        return ST_OK;
    if (!s->entered)
        s->other = prune_links(&s->fold, NODE_ROOT, &s->others);
    s->entered = true;
    return other_edges(s, NODE_ROOT, b);
}

static enum status edges(struct snapshot *s, const struct vm *vm, struct budget *b)
{
    for (; s->at < s->n; s->at++) {
        struct link link;
        struct path_step step;
        enum status st = ST_OK;
        if (!s->entered)
            st = budget_step(b) ? enter(s, vm) : ST_TIMESLICE;
        while (st == ST_OK) {
            if (full(s))
                return ST_ASK;
            st = inside_next(&s->graph, vm, &s->inside, b, &link);
            if (st != ST_OK || !prune_keeps(&s->fold, link.mark))
                continue;
            st = path_step_inside(&s->graph, vm, &s->inside, &link, &step);
            if (st == ST_OK)
                st = step_edge(s, &step, number_of(s, link.mark));
        }
        if (st == ST_GONE)
            st = other_edges(s, node_at(s), b);
        if (st != ST_OK)
            return st;
        s->entered = false;
    }
    return s->edges == 0 ? ST_OK : ST_TORN;
}

/* ---- values --------------------------------------------------------------------------------- */

static enum status values(struct snapshot *s, const struct vm *vm, struct budget *b)
{
    for (; (s->want & SNAPSHOT_VALUES) && s->at < s->n; s->at++) {
        const struct edges *p = &s->inside.piece;
        size_t before = s->tokens.n;
        if (s->titled_n == SNAPSHOT_PREVIEWS)
            return ST_ASK;
        if (!budget_step(b))
            return ST_TIMESLICE;
        enum status st = enter(s, vm);
        if (st == ST_OK)
            st = title(s, vm);
        if (st == ST_OK && !s->inside.inner)
            st = preview_take(&s->tokens, &s->heap, vm,
                              p->object | (p->kind == KIND_NONE ? TAG_LIST : TAG_BOXED), &of_value);
        if (st != ST_OK)
            return st;
        s->titled[s->titled_n++] = (struct titled){s->name, (uint32_t)(s->tokens.n - before)};
    }
    return ST_OK;
}

/* ---- stages --------------------------------------------------------------------------------- */

static bool too_many(const struct snapshot *s)
{
    return s->graph.nodes > s->max_nodes;
}

static enum status fold(struct snapshot *s, const struct reading *rd)
{
    if (too_many(s))
        return prune_make(&s->fold, rd->vm, rd->budget);
    return graph_drop_degrees(&s->graph) ? ST_TIMESLICE : ST_OK;
}

static enum status prepare(struct snapshot *s, const struct reading *rd)
{
    switch (s->stage) {
    case WALK:
        return marking_walk(&s->heap, rd);
    case MAKE:
        return graph_make(&s->graph, rd);
    case DOMINATE:
        return too_many(s) ? dominators_make(&s->dominators, rd) : ST_OK;
    case FOLD:
        return fold(s, rd);
    case ALLOCATE:
        return allocate(s);
    case FORGET:
        return forget(s, rd->budget);
    default:
        return search(s, rd);
    }
}

static enum status write_stage(struct snapshot *s, const struct reading *rd)
{
    switch (s->stage) {
    case HEAD:
        put_head(s);
        return put_areas(s);
    case NODES:
        return nodes(s, rd->vm, rd->budget);
    case FOLDED_AREAS:
        folded_areas(s);
        return ST_OK;
    case FOLDED_NODES:
        return folded_nodes(s, rd->budget);
    case EDGES_HEAD:
        put_text(s, "],\n\"edges\":[");
        root_edges(s);
        return ST_OK;
    case AREA_EDGES:
        return area_edges(s, rd);
    case SHARED_EDGES:
        return shared_edges(s, rd->budget);
    case EDGES:
        return edges(s, rd->vm, rd->budget);
    case TAIL:
        put_text(s, "],\n\"strings\":[");
        return ST_OK;
    default:
        return values(s, rd->vm, rd->budget);
    }
}

static enum status walk(void *w, const struct reading *rd)
{
    struct snapshot *s = w;
    while (s->stage != DONE) {
        enum status st = s->stage < HEAD ? prepare(s, rd) : write_stage(s, rd);
        if (st != ST_OK)
            return st;
        s->stage++;
        s->at = s->done = 0;
        s->entered = false;
        roots_start(&s->roots, s->heap.collect.waiting);
    }
    return ST_OK;
}

const struct walker snapshot_walker = {
    sizeof(struct snapshot), marking_fields, start, walk, progress, end, 0};
