/* nif_resource.c: proves the fields of resources with resources of sonde itself.
 * Knows: the addresses of sonde's own resources. Does not know: the holders of others.
 *
 * A resource is a magic Binary: the VM's header, then the function that frees it and the
 * allocator's type, then the resource type and its monitors, then the library's data. */
#include "nif/nif.h"
#include "vm/term.h"

enum { SIZE_MAX_BYTES = 4096, RESOURCE_WORDS = 2 }; /* ErtsResource: type, monitors, data */

void nif_release_probe(UNUSED ErlNifEnv *env, UNUSED void *obj)
{
}

NIF(nif_do_probe_resource)
{
    /* (Bytes): a resource without content */
    ErlNifUInt64 bytes;
    if (!nif_is_prover(env) || !enif_get_uint64(env, argv[0], &bytes) || bytes == 0 ||
        bytes > SIZE_MAX_BYTES)
        return nif_raise(env, ATOM(badarg));
    void *obj = nif_out_of_memory() ? NULL : enif_alloc_resource(sonde_of(env)->probe_type, bytes);
    if (!obj)
        return nif_raise(env, ATOM(no_memory));
    ERL_NIF_TERM term = enif_make_resource(env, obj);
    enif_release_resource(obj);
    return term;
}

struct shown {
    uint64_t binary, data, type, module, name, free, alloc;
};

/* The fields that a reference leads to; 0 for those that cannot be read. */
static struct shown look(const struct vm *vm, ERL_NIF_TERM ref)
{
    struct shown s = {0};
    const struct layout *lay = vm->lay;
    if (!peek_word(vm->reader, term_pointer(ref) + LF(lay, ref_bin), &s.binary) || s.binary == 0 ||
        (s.binary & 7) != 0)
        return (struct shown){0};
    s.data = s.binary + LF(lay, magic_data);
    if (!peek_word(vm->reader, s.binary + LF(lay, magic_free), &s.free) ||
        !peek_word(vm->reader, s.data - 8, &s.alloc) || !peek_word(vm->reader, s.data, &s.type) ||
        (s.type & 7) != 0 || !peek_word(vm->reader, s.type + LF(lay, type_module), &s.module) ||
        !peek_word(vm->reader, s.type + LF(lay, type_name), &s.name))
        s.type = 0;
    return s;
}

/* The VM's functions lie close to each other. */
static bool is_code(uint64_t address)
{
    const uint64_t far = 1ULL << 31;
    uint64_t known = (uint64_t)(uintptr_t)&enif_self;
    return address - known < far || known - address < far;
}

NIF(nif_do_calibrate_resources)
{
    /* (Probe, LargerProbe, OtherReference, AddressOfProbe, Module): after calibrate. Returns which
     * fields have their known values: [{Field, true | false}]. The address is only compared. */
    struct sonde *s = sonde_of(env);
    struct vm *vm = &s->candidate;
    ErlNifUInt64 address;
    void *obj;
    if (!nif_is_prover(env) || !vm->lay || !enif_get_resource(env, argv[0], s->probe_type, &obj) ||
        !enif_is_ref(env, argv[1]) || !enif_is_ref(env, argv[2]) ||
        !enif_get_uint64(env, argv[3], &address) || !enif_is_atom(env, argv[4]))
        return nif_raise(env, ATOM(badarg));
    vm->reader = nif_peek_reader(s);
    struct shown own = look(vm, argv[0]);
    struct shown larger = look(vm, argv[1]);
    struct shown other = look(vm, argv[2]);
    bool at = own.binary == address;
    bool data = at && own.data + RESOURCE_WORDS * (uint64_t)8 == (uint64_t)(uintptr_t)obj;
    /* The header of a Binary ends where the library's data begins; behind these, another one's header
     * could hold the same function. */
    bool frees = at && own.free == larger.free && own.free != other.free && is_code(own.free) &&
                 LF(vm->lay, magic_free) < LF(vm->lay, magic_data);
    const struct {
        ERL_NIF_TERM field;
        bool ok;
    } fields[] = {{ATOM(ref_bin), at},
                  {ATOM(magic_data), data},
                  {ATOM(magic_free), frees},
                  {ATOM(type_module), data && own.module == argv[4]},
                  {ATOM(type_name), data && own.name == enif_make_atom(env, RESOURCE_TYPE(probe))}};
    vm->resource_free = own.free;
    vm->binary_alloc = (uint32_t)(own.alloc >> 32);
    ERL_NIF_TERM list = enif_make_list(env, 0);
    for (unsigned i = sizeof fields / sizeof *fields; i-- > 0;)
        list = enif_make_list_cell(
            env, enif_make_tuple2(env, fields[i].field, fields[i].ok ? ATOM(true) : ATOM(false)),
            list);
    return list;
}
