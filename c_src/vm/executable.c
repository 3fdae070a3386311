#include "vm/executable.h"

#if defined(__linux__) || defined(__FreeBSD__)
#include <link.h>

struct visit {
    executable_segment *each;
    void *arg;
};

/* The first object is the main executable; memsz covers .data and .bss. */
static int visit_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    const struct visit *v = arg;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_W)) {
            uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            v->each(v->arg, from, from + info->dlpi_phdr[i].p_memsz);
        }
    }
    return 1;
}

void executable_data(executable_segment *each, void *arg)
{
    struct visit v = {each, arg};
    (void)dl_iterate_phdr(visit_object, &v);
}
#else
void executable_data(executable_segment *each, void *arg)
{
    (void)each, (void)arg;
}
#endif
