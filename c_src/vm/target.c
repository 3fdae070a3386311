#include "vm/target.h"

#include "vm/executable.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The VM's own program has five or six parts. */
enum { PARTS_MAX = 32, PATH_SIZE = 40 };

struct part {
    uint64_t start, end, offset;
};

struct program {
    unsigned major, minor;
    uint64_t inode;
    unsigned n;
    struct part parts[PARTS_MAX];
};

struct line {
    struct part part;
    unsigned major, minor;
    uint64_t inode;
};

/* A number and the character behind it; false: it is not there. */
static bool number(const char **text, int base, char behind, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(*text, &end, base);
    bool ok = errno == 0 && end != *text && *end == behind;
    *text = end + ok;
    return ok;
}

/* start-end access offset major:minor inode */
static bool parse(const char *text, struct line *out)
{
    uint64_t major;
    uint64_t minor;
    if (!number(&text, 16, '-', &out->part.start) || !number(&text, 16, ' ', &out->part.end))
        return false;
    text = strchr(text, ' ');
    if (!text++ || !number(&text, 16, ' ', &out->part.offset) || !number(&text, 16, ':', &major) ||
        !number(&text, 16, ' ', &minor) || !number(&text, 10, ' ', &out->inode))
        return false;
    out->major = (unsigned)major;
    out->minor = (unsigned)minor;
    return true;
}

typedef void each_line(void *arg, const struct line *line);

/* An errno, or 0. */
static int read_lines(const char *path, each_line *each, void *arg)
{
    char *text = NULL;
    size_t size = 0;
    struct line line;
    FILE *f = fopen(path, "re");
    if (!f)
        return errno;
    while (getline(&text, &size, f) >= 0) {
        if (parse(text, &line))
            each(arg, &line);
    }
    int failed = ferror(f) ? EIO : 0;
    free(text);
    (void)fclose(f);
    return failed;
}

/* ---- this program ------------------------------------------------------------------------------------ */

struct own {
    uint64_t known; /* an address in its data */
    struct program program;
};

static void first_segment(void *arg, uintptr_t from, uintptr_t to)
{
    uint64_t *known = arg;
    (void)to;
    if (*known == 0)
        *known = from;
}

static void find_file(void *arg, const struct line *line)
{
    struct own *own = arg;
    if (own->known >= line->part.start && own->known < line->part.end && line->inode != 0) {
        own->program.major = line->major;
        own->program.minor = line->minor;
        own->program.inode = line->inode;
    }
}

static void add_part(void *arg, const struct line *line)
{
    struct program *p = arg;
    if (line->inode == p->inode && line->major == p->major && line->minor == p->minor &&
        p->n < PARTS_MAX)
        p->parts[p->n++] = line->part;
}

static bool find_own(struct program *out)
{
    struct own own = {.known = 0};
    executable_data(first_segment, &own.known);
    if (own.known == 0 || read_lines("/proc/self/maps", find_file, &own) != 0 ||
        own.program.inode == 0)
        return false;
    *out = own.program;
    return read_lines("/proc/self/maps", add_part, out) == 0 && out->n > 0;
}

/* ---- the other one ----------------------------------------------------------------------------------- */

/* A part may be cut in two where its protection differs; the file's first and last byte decide. */
static bool is_same_program(const struct program *a, const struct program *b)
{
    const struct part *a1 = &a->parts[0];
    const struct part *b1 = &b->parts[0];
    const struct part *an = &a->parts[a->n - 1];
    const struct part *bn = &b->parts[b->n - 1];
    return a1->offset == 0 && b1->offset == 0 && an->offset == bn->offset &&
           an->start - a1->start == bn->start - b1->start &&
           an->end - a1->start == bn->end - b1->start;
}

enum target_status target_find(int process, uintptr_t *shift)
{
    char path[PATH_SIZE];
    struct program own;
    if (!find_own(&own))
        return TARGET_OTHER_PROGRAM;
    struct program other = own;
    other.n = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/maps", process);
    int failed = read_lines(path, add_part, &other);
    if (failed != 0)
        return failed == ENOENT || failed == ESRCH ? TARGET_GONE : TARGET_FORBIDDEN;
    if (other.n == 0 || !is_same_program(&own, &other))
        return TARGET_OTHER_PROGRAM;
    *shift = (uintptr_t)(other.parts[0].start - own.parts[0].start);
    return TARGET_OK;
}
