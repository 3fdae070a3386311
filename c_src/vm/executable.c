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

struct search {
    enum peek_reader reader;
    unsigned n;
    executable_words *each;
    void *arg;
};

/* A block at a time, because a system call is slow. Blocks overlap by n - 1 words. */
static void search_segment(void *arg, uintptr_t from, uintptr_t to)
{
    enum { BLOCK = 512 };
    const struct search *s = arg;
    uint64_t w[BLOCK];
    from = (from + 7) & ~(uintptr_t)7;
    for (uintptr_t at = from; at + 8UL * s->n <= to; at += 8UL * (BLOCK - s->n + 1)) {
        uintptr_t words = (to - at) / 8 < BLOCK ? (to - at) / 8 : BLOCK;
        if (!peek_block(s->reader, at, words, w))
            continue;
        for (uintptr_t i = 0; i + s->n <= words; i++)
            s->each(s->arg, at + 8 * i, w + i);
    }
}

void executable_search(enum peek_reader r, unsigned n, executable_words *each, void *arg)
{
    struct search s = {r, n, each, arg};
    if (n > 0 && n <= EXECUTABLE_WORDS)
        executable_data(search_segment, &s);
}
