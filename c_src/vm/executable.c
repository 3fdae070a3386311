#include "vm/executable.h"

#if defined(__linux__) || defined(__FreeBSD__)
#include <elf.h>
#include <link.h>
#include <string.h>

struct visit {
    unsigned flags; /* of these, writable and readable, exactly: */
    unsigned wanted;
    executable_segment *each;
    void *arg;
};

/* The first object is the main executable; memsz covers .data and .bss. */
static int visit_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    const struct visit *v = arg;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD &&
            (info->dlpi_phdr[i].p_flags & v->flags) == v->wanted) {
            uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            v->each(v->arg, from, from + info->dlpi_phdr[i].p_memsz);
        }
    }
    return 1;
}

void executable_data(executable_segment *each, void *arg)
{
    struct visit v = {PF_W, PF_W, each, arg};
    (void)dl_iterate_phdr(visit_object, &v);
}

void executable_constants(executable_segment *each, void *arg)
{
    struct visit v = {PF_W | PF_R, PF_R, each, arg};
    (void)dl_iterate_phdr(visit_object, &v);
}

static int take_headers(struct dl_phdr_info *info, size_t size, void *arg)
{
    uintptr_t *at = arg;
    (void)size;
    *at = (uintptr_t)info->dlpi_phdr;
    return 1;
}

uintptr_t executable_headers(void)
{
    uintptr_t at = 0;
    (void)dl_iterate_phdr(take_headers, &at);
    return at;
}

/* A note: three numbers, its name and its bytes, each of which begins at a multiple of four. */
enum { NOTE_NUMBERS = 3 * sizeof(uint32_t), NOTE_NAME = 4 };

struct found {
    uintptr_t at;
    size_t bytes;
};

static bool is_build_id(const uint32_t *numbers, const char *name)
{
    return numbers[0] == NOTE_NAME && numbers[2] == NT_GNU_BUILD_ID &&
           memcmp(name, "GNU", NOTE_NAME) == 0 && numbers[1] > 0 && numbers[1] <= EXECUTABLE_ID_MAX;
}

static void find_build_id(const char *from, const char *to, struct found *out)
{
    while (out->bytes == 0 && (size_t)(to - from) >= NOTE_NUMBERS) {
        uint32_t numbers[3];
        memcpy(numbers, from, sizeof numbers);
        uint64_t name = ((uint64_t)numbers[0] + 3) & ~3ULL;
        uint64_t bytes = ((uint64_t)numbers[1] + 3) & ~3ULL;
        from += NOTE_NUMBERS;
        if (name + bytes > (uint64_t)(to - from))
            return;
        if (is_build_id(numbers, from))
            *out = (struct found){(uintptr_t)(from + name), numbers[1]};
        from += name + bytes;
    }
}

static int visit_notes(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type == PT_NOTE) {
            const char *from =
                (const char *)(info->dlpi_addr + h->p_vaddr); // NOLINT(performance-no-int-to-ptr)
            find_build_id(from, from + h->p_memsz, arg);
        }
    }
    return 1;
}

bool executable_build_id(uintptr_t *at, size_t *bytes)
{
    struct found found = {0, 0};
    (void)dl_iterate_phdr(visit_notes, &found);
    *at = found.at;
    *bytes = found.bytes;
    return found.bytes > 0;
}
#else
void executable_data(executable_segment *each, void *arg)
{
    (void)each, (void)arg;
}

void executable_constants(executable_segment *each, void *arg)
{
    (void)each, (void)arg;
}

uintptr_t executable_headers(void)
{
    return 0;
}

bool executable_build_id(uintptr_t *at, size_t *bytes)
{
    *at = 0;
    *bytes = 0;
    return false;
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
