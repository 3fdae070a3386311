#include "vm/proof.h"

#include "vm/term.h"

static bool read_field(const struct vm *vm, uint64_t at, enum layout_field field, uint64_t *value)
{
    uint64_t word;
    uint64_t place = at + vm->lay->f[field];
    if (!peek_word(vm->reader, (uintptr_t)(place & ~(uint64_t)7), &word))
        return false;
    *value = layout_narrow(word, (unsigned)(place & 7), layout_width(vm->lay, field));
    return true;
}

static bool read_own(const struct vm *vm, uint64_t proc, enum layout_field field, uint64_t *value)
{
    return layout_in_process(vm->lay, field) && read_field(vm, proc, field, value);
}

static bool follow(const struct vm *vm, uint64_t at, const struct proof *p, uint64_t *value)
{
    *value = at;
    for (unsigned i = 0; i < p->n; i++) {
        uint64_t offset;
        switch (p->path[i].kind) {
        case STEP_READ:
            if (!(i == 0 ? read_own : read_field)(vm, *value, p->path[i].field, value))
                return false;
            break;
        case STEP_AT:
            *value += vm->lay->f[p->path[i].field];
            break;
        default:
            if (!read_field(vm, *value, LF_node_offset, &offset))
                return false;
            *value -= offset;
            break;
        }
    }
    return true;
}

static bool head_is(const struct vm *vm, uint64_t at, uint64_t mask, uint64_t wanted)
{
    uint64_t word;
    return peek_word(vm->reader, (uintptr_t)at, &word) && (word & mask) == wanted;
}

/* Up to OTP 26 the object points at the bytes, from 27 at the Binary, with its bytes at 32. */
static bool is_data(const struct vm *vm, uint64_t word, uint64_t wanted)
{
    return head_is(vm, word, ~0ULL, wanted) || head_is(vm, word + 32, ~0ULL, wanted);
}

static bool is_ref(const struct vm *vm, uint64_t term)
{
    return (term & 3) == 2 && head_is(vm, term_pointer(term), 0x3F, 0x10);
}

static bool matches(const struct vm *vm, const struct proof *p, uint64_t word)
{
    switch (p->op) {
    case OP_has_pair:
        return (word & 3) == 2 && head_is(vm, term_pointer(word) + 8, ~0ULL, p->word);
    case OP_has_data:
        return is_data(vm, word, p->word);
    case OP_has_ref:
        return is_ref(vm, word);
    case OP_has_count:
        return head_is(vm, word, 0xFFFFFFFF, p->word);
    default:
        return word == p->word;
    }
}

static bool has(const struct vm *vm, uint64_t at, const struct proof *p)
{
    for (unsigned i = 0; i < p->words; i++) {
        uint64_t word;
        if (!peek_word(vm->reader, term_pointer(at) + 8 * ((uintptr_t)p->from + i), &word))
            return false;
        if (matches(vm, p, word))
            return true;
    }
    return false;
}

static bool compare(const struct vm *vm, uintptr_t proc, const struct proof *p, uint64_t value,
                    int64_t *result)
{
    uint64_t other = 0;
    switch (p->op) {
    case OP_value:
        *result = value < (1ULL << 40) ? (int64_t)value : -1;
        return true;
    case OP_is:
        *result = value == p->word;
        return true;
    case OP_minus:
        if (!read_own(vm, proc, p->other, &other))
            return false;
        *result = (int64_t)(value - other) / 8;
        if (*result > (1LL << 40) || *result < -(1LL << 40))
            *result = -1;
        return true;
    case OP_own:
        *result = value == proc + vm->lay->f[p->other];
        return true;
    case OP_same:
        if (!follow(vm, p->other_proc, p, &other))
            return false;
        *result = value == other && value != 0;
        return true;
    case OP_less:
        if (!follow(vm, p->other_proc, p, &other))
            return false;
        *result = value < other;
        return true;
    case OP_head_field:
        *result = head_is(vm, value, ~0ULL, vm->lay->f[p->other]);
        return true;
    case OP_head_ref:
        *result = is_ref(vm, value);
        return true;
    case OP_head_count:
        *result = head_is(vm, value, 0xFFFFFFFF, p->word);
        return true;
    default:
        *result = has(vm, value, p);
        return true;
    }
}

bool proof_read(const struct vm *vm, uintptr_t proc, const struct proof *p, int64_t *result)
{
    uint64_t value;
    if (p->op == OP_constant) {
        *result = vm->lay->f[p->other];
        return true;
    }
    return follow(vm, proc, p, &value) && compare(vm, proc, p, value, result);
}
