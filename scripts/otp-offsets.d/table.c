/* table NAME: the checked-in table of that name, as scripts/otp-offsets prints the sources' numbers. */
#include "layout.h"

#include <stdio.h>
#include <string.h>

static void print(const struct layout *lay)
{
    for (unsigned f = 0; f < LAYOUT_FIELD_COUNT; f++)
        printf("%s = %u\n", layout_field_name(f), lay->f[f]);
    printf("arrivals = %u\n", lay->arrivals);
    printf("arity_width = %u\n", lay->arity_width);
    printf("flags_shift = %u\n", lay->flags_shift);
    printf("len_is_biased = %d\n", lay->len_is_biased);
    printf("pid_slot_high = %d\n", lay->pid_slot_high);
    printf("type_mask = %u\n", lay->type_mask);
    printf("wrt_bins_listed = %d\n", lay->wrt_bins_listed);
}

int main(int argc, char **argv)
{
    for (unsigned i = 0; argc == 2 && i < layout_count(); i++) {
        if (strcmp(layout_table(i)->name, argv[1]) == 0) {
            print(layout_table(i));
            return 0;
        }
    }
    return 1;
}
