/* table NAME: the checked-in table of that name, as scripts/otp-offsets prints the sources' numbers.
 * table: the names of all tables. */
#include "vm/layout.h"

#include <stdio.h>
#include <string.h>

/* Bignums and external ids have several tags: the first. */
static unsigned tag_of(const struct layout *lay, enum kind kind)
{
    unsigned tag = 0;
    while (tag < 16 && lay->kinds[tag] != kind)
        tag++;
    return tag;
}

static void print_things(const struct layout *lay)
{
    printf("tag_tuple = %u\n", tag_of(lay, KIND_TUPLE));
    printf("tag_bignum = %u\n", tag_of(lay, KIND_BIGNUM));
    printf("tag_ref = %u\n", tag_of(lay, KIND_REF));
    printf("tag_fun = %u\n", tag_of(lay, KIND_FUN));
    printf("tag_fun_ref = %u\n", tag_of(lay, KIND_FUN_REF));
    printf("tag_float = %u\n", tag_of(lay, KIND_FLOAT));
    printf("tag_match = %u\n", tag_of(lay, KIND_MATCH));
    printf("tag_refc = %u\n", tag_of(lay, KIND_REFC));
    printf("tag_heap_binary = %u\n", tag_of(lay, KIND_HEAP_BINARY));
    printf("tag_sub_binary = %u\n", tag_of(lay, KIND_SUB_BINARY));
    printf("tag_external = %u\n", tag_of(lay, KIND_EXTERNAL));
    printf("tag_map = %u\n", tag_of(lay, KIND_MAP));
    printf("tag_record = %u\n", tag_of(lay, KIND_RECORD));
    printf("refc_is_term = %d\n", lay->refc_is_term);
    printf("fun_raw = %u\n", lay->fun.raw);
    printf("fun_more = %u\n", lay->fun.more);
    printf("fun_word = %u\n", lay->fun.word);
    printf("fun_shift = %u\n", lay->fun.shift);
    printf("fun_mask = %u\n", lay->fun.mask);
    printf("fun_uniq_first = %d\n", lay->fun_uniq_first);
    printf("fun_names = %u\n", lay->fun_names);
}

static void print(const struct layout *lay)
{
    for (unsigned f = 0; f < LAYOUT_FIELD_COUNT; f++)
        printf("%s = %u\n", layout_field_names[f], lay->f[f]);
    printf("arity_width = %u\n", lay->arity_width);
    printf("flags_shift = %u\n", lay->flags_shift);
    printf("len_is_biased = %d\n", lay->len_is_biased);
    printf("pid_slot_high = %d\n", lay->pid_slot_high);
    printf("type_mask = %u\n", lay->type_mask);
    printf("wrt_bins_listed = %d\n", lay->wrt_bins_listed);
    print_things(lay);
}

int main(int argc, char **argv)
{
    for (unsigned i = 0; argc == 1 && i < layout_count(); i++)
        puts(layout_table(i)->name);
    for (unsigned i = 0; argc == 2 && i < layout_count(); i++) {
        if (strcmp(layout_table(i)->name, argv[1]) == 0) {
            print(layout_table(i));
            return 0;
        }
    }
    return argc != 1;
}
