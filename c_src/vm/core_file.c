#include "vm/core_file.h"

#include "vm/executable.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#if defined(__APPLE__)
#define st_mtim st_mtimespec
#endif

enum { PAGE = 4096 };

/* ---- segments ---------------------------------------------------------------------------------- */

/* As much of it as the file has. Its bytes may lie at any address. */
static struct core_segment segment(const struct core_file *c, size_t i)
{
    struct core_segment s;
    uint64_t size = (uint64_t)c->seen.st_size;
    memcpy(&s, c->segments + i * sizeof s, sizeof s);
    uint64_t left = s.offset < size ? size - s.offset : 0;
    s.size = s.size < left ? s.size : left;
    return s;
}

/* The last segment that begins at this address or before; false: it does not contain it. */
static bool find_segment(const struct core_file *c, uint64_t at, struct core_segment *out)
{
    size_t from = 0;
    size_t to = c->n;
    while (from < to) {
        size_t mid = from + (to - from) / 2;
        if (segment(c, mid).start <= at)
            from = mid + 1;
        else
            to = mid;
    }
    if (from == 0)
        return false;
    *out = segment(c, from - 1);
    return at - out->start < out->size;
}

/* ---- the file ---------------------------------------------------------------------------------- */

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

bool core_file_is_same(const struct core_file *c)
{
    struct stat now;
    return fstat(c->fd, &now) == 0 && is_same(&now, &c->seen);
}

/* ---- this program ------------------------------------------------------------------------------ */

/* The kernel maps whole pages. */
static void add_part(void *arg, uintptr_t from, uintptr_t to)
{
    struct core_file *c = arg;
    if (c->parts_n < CORE_PARTS_MAX)
        c->parts[c->parts_n++] = (struct core_part){from & ~(uintptr_t)(PAGE - 1),
                                                    (to + PAGE - 1) & ~(uintptr_t)(PAGE - 1)};
}

void core_file_lend(struct core_file *c, uintptr_t shift)
{
    c->shift = shift;
    c->parts_n = 0;
    executable_constants(add_part, c);
}

static const struct core_part *find_part(const struct core_file *c, uint64_t at)
{
    uintptr_t own = (uintptr_t)at - c->shift;
    for (const struct core_part *p = c->parts; p < c->parts + c->parts_n; p++) {
        if (own >= p->from && own < p->to)
            return p;
    }
    return NULL;
}

/* ---- reading ----------------------------------------------------------------------------------- */

static bool read_file(const struct core_file *c, uint64_t offset, unsigned char *out, size_t bytes)
{
    while (bytes > 0) {
        ssize_t got = pread(c->fd, out, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        out += got;
        offset += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return true;
}

/* How many bytes, at most so many, lie together at this address; 0: none. They are copied to out, unless it is
 * NULL. */
static uint64_t take(const struct core_file *c, uint64_t at, uint64_t bytes, unsigned char *out)
{
    struct core_segment s;
    if (find_segment(c, at, &s)) {
        uint64_t left = s.size - (at - s.start);
        bytes = bytes < left ? bytes : left;
        return !out || read_file(c, s.offset + (at - s.start), out, bytes) ? bytes : 0;
    }
    const struct core_part *p = find_part(c, at);
    if (!p)
        return 0;
    uintptr_t own = (uintptr_t)at - c->shift;
    bytes = bytes < p->to - own ? bytes : p->to - own;
    if (out)
        memcpy(out, (const void *)own, bytes); // NOLINT(performance-no-int-to-ptr)
    return bytes;
}

static bool walk(const struct core_file *c, uint64_t at, uint64_t bytes, unsigned char *out)
{
    if (bytes > UINT64_MAX - at)
        return false;
    while (bytes > 0) {
        uint64_t got = take(c, at, bytes, out);
        if (got == 0)
            return false;
        out = out ? out + got : NULL;
        at += got;
        bytes -= got;
    }
    return true;
}

bool core_file_has(const struct core_file *c, uint64_t at, uint64_t bytes)
{
    return walk(c, at, bytes, NULL);
}

bool core_file_read(const struct core_file *c, uint64_t at, void *out, size_t bytes)
{
    return walk(c, at, bytes, out);
}
