#include "vm/core_file.h"

#include "util/alloc.h"
#include "vm/executable.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__APPLE__)
#define st_mtim st_mtimespec
#endif

/* A program has two or three read-only parts. */
enum { PARTS_MAX = 16, PAGE = 4096 };

struct part {
    uintptr_t from, to;
};

struct core_file {
    int fd;
    struct stat seen;
    size_t n;
    struct core_segment *segments;
    uintptr_t shift;
    unsigned parts_n;
    struct part parts[PARTS_MAX];
};

/* ---- segments ---------------------------------------------------------------------------------- */

/* false: they are not in order, or an address or offset is beyond all there are. */
static bool take_segments(struct core_file *c, const unsigned char *bytes, size_t n, uint64_t size)
{
    uint64_t last = 0;
    for (size_t i = 0; i < n; i++) {
        struct core_segment s;
        memcpy(&s, bytes + i * sizeof s, sizeof s);
        if (s.size == 0 || s.start < last || s.size > UINT64_MAX - s.start ||
            s.size > INT64_MAX - 1 || s.offset > INT64_MAX - s.size)
            return false;
        last = s.start + s.size;
        if (s.offset >= size)
            continue;
        s.size = s.size < size - s.offset ? s.size : size - s.offset;
        c->segments[c->n++] = s;
    }
    return true;
}

/* The last segment that begins at this address or before; NULL: it does not contain it. */
static const struct core_segment *find_segment(const struct core_file *c, uint64_t at)
{
    size_t from = 0;
    size_t to = c->n;
    while (from < to) {
        size_t mid = from + (to - from) / 2;
        if (c->segments[mid].start <= at)
            from = mid + 1;
        else
            to = mid;
    }
    if (from == 0)
        return NULL;
    const struct core_segment *s = &c->segments[from - 1];
    return at - s->start < s->size ? s : NULL;
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

/* It does not wait for a file that is none, such as a pipe. */
static bool open_seen(struct core_file *c, const char *path, const struct core_seen *seen)
{
    c->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return c->fd >= 0 && fstat(c->fd, &c->seen) == 0 && S_ISREG(c->seen.st_mode) &&
           (uint64_t)c->seen.st_size == seen->size &&
           (uint64_t)c->seen.st_mtim.tv_sec == seen->mtime && c->seen.st_ino == seen->inode;
}

void core_file_close(struct core_file *c)
{
    if (!c)
        return;
    if (c->fd >= 0)
        (void)close(c->fd);
    sonde_free(c->segments);
    sonde_free(c);
}

static enum core_status fill(struct core_file *c, const char *path, const struct core_seen *seen,
                             const unsigned char *bytes, size_t n)
{
    c->segments = sonde_alloc((n > 0 ? n : 1) * sizeof *c->segments);
    if (!c->segments)
        return CORE_NOMEM;
    if (!open_seen(c, path, seen))
        return CORE_CHANGED;
    return take_segments(c, bytes, n, seen->size) ? CORE_OK : CORE_BAD;
}

enum core_status core_file_open(const char *path, const struct core_seen *seen,
                                const unsigned char *bytes, size_t n, struct core_file **out)
{
    *out = NULL;
    if (n > CORE_SEGMENTS_MAX)
        return CORE_BAD;
    struct core_file *c = sonde_alloc(sizeof *c);
    if (!c)
        return CORE_NOMEM;
    *c = (struct core_file){.fd = -1};
    enum core_status st = fill(c, path, seen, bytes, n);
    if (st == CORE_OK)
        *out = c;
    else
        core_file_close(c);
    return st;
}

/* ---- this program ------------------------------------------------------------------------------ */

/* The kernel maps whole pages. */
static void add_part(void *arg, uintptr_t from, uintptr_t to)
{
    struct core_file *c = arg;
    if (c->parts_n < PARTS_MAX)
        c->parts[c->parts_n++] =
            (struct part){from & ~(uintptr_t)(PAGE - 1), (to + PAGE - 1) & ~(uintptr_t)(PAGE - 1)};
}

void core_file_lend(struct core_file *c, uintptr_t shift)
{
    c->shift = shift;
    c->parts_n = 0;
    executable_constants(add_part, c);
}

static const struct part *find_part(const struct core_file *c, uint64_t at)
{
    uintptr_t own = (uintptr_t)at - c->shift;
    for (const struct part *p = c->parts; p < c->parts + c->parts_n; p++) {
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
    const struct core_segment *s = find_segment(c, at);
    if (s) {
        uint64_t left = s->size - (at - s->start);
        bytes = bytes < left ? bytes : left;
        return !out || read_file(c, s->offset + (at - s->start), out, bytes) ? bytes : 0;
    }
    const struct part *p = find_part(c, at);
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
