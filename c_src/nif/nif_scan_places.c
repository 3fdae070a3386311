/* nif_scan_places.c: the places in code at which a process waits for another one.
 * Knows: how a place is named: by a process of ours that waits there, or by functions of another OS process, where there
 * is no such process.
 * Does not know: how processes are read. */
#include "nif/nif_scan.h"
#include "util/clock.h"

#include <string.h>

/* CALLS_NS: as long as a slice of a scan. */
enum { CALLS_MAX = 16, FUNCTIONS_MAX = 4096, CALLS_NS = 5000000 };

SCAN_NIF(do_scan_place)
{
    /* (Scan, Pid), before the first step: ok, or why the place where it waits cannot be read */
    struct scan *scan = &h->scan;
    uintptr_t proc;
    scan->vm.reader = nif_peek_reader(sonde_of(env));
    if (scan->vm.reader == PEEK_NONE)
        return ATOM(no_reader);
    if (!nif_find_process(env, &scan->vm, argv[1], &proc))
        return nif_raise(env, ATOM(badarg));
    if (proc == 0)
        return ATOM(gone);
    enum status st = scan_place(scan, proctab_slot(scan->vm.lay, &scan->vm.tab, argv[1]), proc);
    return st == ST_OK ? ATOM(ok) : nif_status_atom(env, st);
}

/* ---- in another OS process ---------------------------------------------------------------- */

static bool has_bytes(const struct atom_text *text, const ErlNifBinary *bytes)
{
    return text->n == bytes->size && memcmp(text->bytes, bytes->data, text->n) == 0;
}

static bool is_one_of(ErlNifEnv *env, ERL_NIF_TERM texts, const struct atom_text *text)
{
    ERL_NIF_TERM head;
    ErlNifBinary bytes;
    for (unsigned i = 0; i < CALLS_MAX && enif_get_list_cell(env, texts, &head, &texts); i++) {
        if (enif_inspect_binary(env, head, &bytes) && has_bytes(text, &bytes))
            return true;
    }
    return false;
}

/* In a core file. In a living OS process, code that is listed may be gone meanwhile. */
static void some_unread(ErlNifEnv *env, struct scan *scan)
{
    if (sonde_of(env)->core)
        scan->places.some_unread = true;
}

/* The functions of that module with one of these names. false: no more places. */
static bool add_functions(ErlNifEnv *env, struct scan *scan, const struct code_module *m,
                          ERL_NIF_TERM texts, uint64_t *found)
{
    const struct vm *vm = &scan->vm;
    for (uint64_t i = 0; m->n <= FUNCTIONS_MAX && i < m->n; i++) {
        struct mfa names;
        struct block block;
        struct atom_text text;
        if (!code_function(vm->reader, m, i, &names, &block) ||
            !atom_table_text(vm->reader, &vm->atoms, names.function, &text)) {
            some_unread(env, scan);
            continue;
        }
        if (!is_one_of(env, texts, &text))
            continue;
        if (!scan_function(scan, &block))
            return false;
        ++*found;
    }
    return true;
}

static bool get_cursor(ErlNifEnv *env, ERL_NIF_TERM term, struct code_cursor *out)
{
    const ERL_NIF_TERM *pair;
    int arity;
    ErlNifUInt64 i;
    if (!enif_get_tuple(env, term, &arity, &pair) || arity != 2 ||
        !enif_get_uint(env, pair[0], &out->record) || !enif_get_uint64(env, pair[1], &i))
        return false;
    out->i = i;
    out->unread = false;
    return true;
}

SCAN_NIF(do_scan_calls)
{
    /* (Scan, Module, [Function], From), texts, before the first step: processes in such a function of that module
     * wait at a place that counts. {done | NextFrom, Functions}; From: {0, 0} for the first */
    struct scan *scan = &h->scan;
    struct code_cursor at;
    struct code_module m;
    struct atom_text text;
    ErlNifBinary module;
    uint64_t found = 0;
    if (!sonde_of(env)->is_aimed || !enif_inspect_binary(env, argv[1], &module) ||
        !enif_is_list(env, argv[2]) || !get_cursor(env, argv[3], &at))
        return nif_raise(env, ATOM(badarg));
    scan->vm.reader = nif_peek_reader(sonde_of(env));
    if (scan->vm.reader == PEEK_NONE)
        return ATOM(no_reader);
    bool more = true;
    for (uint64_t end = clock_ns() + CALLS_NS; more && clock_ns() < end;) {
        more = code_next(scan->vm.reader, &scan->vm.code, &at, &m);
        if (at.unread)
            some_unread(env, scan);
        if (!more)
            break;
        if (m.n == 0 || !atom_table_text(scan->vm.reader, &scan->vm.atoms, m.name, &text))
            some_unread(env, scan);
        else if (has_bytes(&text, &module) && !add_functions(env, scan, &m, argv[2], &found))
            return ATOM(no_memory);
    }
    ERL_NIF_TERM next =
        enif_make_tuple2(env, enif_make_uint(env, at.record), enif_make_uint64(env, at.i));
    return enif_make_tuple2(env, more ? next : ATOM(done), enif_make_uint64(env, found));
}
