#include "util/alloc.h"
#include "vm/core_file.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* ---- segments ---------------------------------------------------------------------------------- */

/* false: they are not in order, or an address or offset is beyond all there are. */
static bool are_sound(const unsigned char *bytes, size_t n)
{
    uint64_t last = 0;
    for (size_t i = 0; i < n; i++) {
        struct core_segment s;
        memcpy(&s, bytes + i * sizeof s, sizeof s);
        if (s.size == 0 || s.start < last || s.size > UINT64_MAX - s.start ||
            s.size > INT64_MAX - 1 || s.offset > INT64_MAX - s.size)
            return false;
        last = s.start + s.size;
    }
    return true;
}

/* ---- the file ---------------------------------------------------------------------------------- */

/* It does not wait for a file that is none, such as a pipe. */
static bool open_seen(struct core_file *c, const char *path, const struct core_seen *seen)
{
    c->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return c->fd >= 0 && fstat(c->fd, &c->seen) == 0 && S_ISREG(c->seen.st_mode) &&
           (uint64_t)c->seen.st_size == seen->size && (uint64_t)c->seen.st_mtime == seen->mtime &&
           c->seen.st_ino == seen->inode;
}

void core_file_close(struct core_file *c)
{
    if (!c)
        return;
    if (c->fd >= 0)
        (void)close(c->fd);
    sonde_free(c);
}

enum core_status core_file_open(const char *path, const struct core_seen *seen,
                                const unsigned char *segments, size_t n, struct core_file **out)
{
    *out = NULL;
    if (n > CORE_SEGMENTS_MAX)
        return CORE_BAD;
    struct core_file *c = sonde_alloc(sizeof *c);
    if (!c)
        return CORE_NOMEM;
    *c = (struct core_file){.fd = -1, .segments = segments, .n = n};
    enum core_status st = !open_seen(c, path, seen) ? CORE_CHANGED
                          : are_sound(segments, n)  ? CORE_OK
                                                    : CORE_BAD;
    if (st == CORE_OK)
        *out = c;
    else
        core_file_close(c);
    return st;
}
