/* fuzz_core.c: hostile lists of segments and files of any length for core_file.c, a program of its own.
 * Knows: byte by byte, what must be read at each address. Does not know: how it is found.
 *
 * An input: the number of segments; for each of them three bytes, which select its start, size and offset; one byte
 * that selects an allocation to fail; all that is left is the file. */
#include "fuzz/failing_alloc.h"
#include "vm/core_file.h"
#include "vm/executable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* For test_corpus.c. */
extern const char fuzz_corpus[];
const char fuzz_corpus[] = "fuzz/corpus_core";

enum { SEGMENTS_MAX = 16, SPECIAL = 240, READ_MAX = 80 };

static _Noreturn void wrong(const char *what)
{
    (void)fprintf(stderr, "WRONG: %s\n", what);
    abort();
}

static void must(bool ok, const char *what)
{
    if (!ok)
        wrong(what);
}

/* ---- memory --------------------------------------------------------------------------------------------- */

/* core_file_lend is for the parts of a real program. */
void executable_constants(executable_segment *each, void *arg)
{
    (void)each, (void)arg;
}

/* ---- the input ------------------------------------------------------------------------------------------ */

struct input {
    const uint8_t *data;
    size_t size;
};

static uint8_t next(struct input *in)
{
    if (in->size == 0)
        return 0;
    in->size--;
    return *in->data++;
}

/* Small numbers, and those where sums overflow. */
static uint64_t number(struct input *in, uint64_t base)
{
    static const uint64_t special[] = {INT64_MAX,  UINT64_MAX, 1ULL << 63,
                                       1ULL << 47, 4096,       INT64_MAX - 1};
    uint8_t b = next(in);
    if (b < SPECIAL)
        return base + b;
    return special[(b - SPECIAL) % (sizeof special / sizeof *special)] - (b >= SPECIAL + 8);
}

struct image {
    unsigned n;
    struct core_segment segments[SEGMENTS_MAX];
    struct input file;
    bool is_good;
};

static void build(struct image *img, struct input *in)
{
    uint64_t last = 0;
    img->n = next(in) % (SEGMENTS_MAX + 1);
    img->is_good = true;
    for (unsigned i = 0; i < img->n; i++) {
        struct core_segment *s = &img->segments[i];
        s->start = number(in, last);
        s->size = number(in, 0);
        s->offset = number(in, 0);
        __uint128_t end = (__uint128_t)s->start + s->size;
        img->is_good = img->is_good && s->size > 0 && s->start >= last && end <= UINT64_MAX &&
                       (__uint128_t)s->offset + s->size <= INT64_MAX && s->size < INT64_MAX;
        last = (uint64_t)end;
    }
    fail_at = next(in) % 8;
    img->file = *in;
}

/* -1: it is not there. */
static int byte_at(const struct image *img, uint64_t at)
{
    for (unsigned i = 0; i < img->n; i++) {
        const struct core_segment *s = &img->segments[i];
        if (at >= s->start && at - s->start < s->size) {
            uint64_t offset = s->offset + (at - s->start);
            return offset < img->file.size ? img->file.data[offset] : -1;
        }
    }
    return -1;
}

/* ---- the file ------------------------------------------------------------------------------------------- */

static const char *path(void)
{
    static char name[] = "/tmp/fuzz_core.XXXXXX";
    static int file = -1;
    if (file < 0) {
        file = mkstemp(name);
        must(file >= 0, "no file");
        (void)close(file);
    }
    return name;
}

static struct core_seen write_file(const struct input *bytes)
{
    struct stat st;
    FILE *f = fopen(path(), "wbe");
    must(f && fwrite(bytes->data, 1, bytes->size, f) == bytes->size && fclose(f) == 0 &&
             stat(path(), &st) == 0,
         "the file cannot be written");
    return (struct core_seen){(uint64_t)st.st_size, (uint64_t)st.st_mtime, st.st_ino};
}

static void compare(const struct image *img, const struct core_file *c, uint64_t at, unsigned bytes)
{
    unsigned char out[READ_MAX];
    bool is_there = at <= UINT64_MAX - bytes;
    for (unsigned i = 0; is_there && i < bytes; i++)
        is_there = byte_at(img, at + i) >= 0;
    must(core_file_has(c, at, bytes) == is_there, "there, or not");
    must(core_file_read(c, at, out, bytes) == is_there, "read, or not");
    for (unsigned i = 0; is_there && i < bytes; i++)
        must(out[i] == byte_at(img, at + i), "another byte");
}

static void compare_all(const struct image *img, const struct core_file *c)
{
    static const unsigned sizes[] = {1, 8, READ_MAX};
    for (unsigned i = 0; i < img->n; i++) {
        const struct core_segment *s = &img->segments[i];
        const uint64_t places[] = {s->start,
                                   s->start - 1,
                                   s->start + s->size,
                                   s->start + s->size - 1,
                                   s->start + s->size / 2,
                                   s->start - READ_MAX / 2};
        for (unsigned k = 0; k < sizeof places / sizeof *places; k++) {
            for (unsigned j = 0; j < sizeof sizes / sizeof *sizes; j++)
                compare(img, c, places[k], sizes[j]);
        }
    }
    compare(img, c, 0, 1);
    compare(img, c, UINT64_MAX, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct image img;
    struct core_file *c;
    build(&img, &in);
    bool fails = fail_at == 1;
    struct core_seen seen = write_file(&img.file);
    enum core_status st =
        core_file_open(path(), &seen, (const unsigned char *)img.segments, img.n, &c);
    must(st == (fails ? CORE_NOMEM : !img.is_good ? CORE_BAD : CORE_OK), "opened, or not");
    if (st == CORE_OK) {
        compare_all(&img, c);
        must(core_file_is_same(c), "it is the same");
    }
    core_file_close(c);
    must(allocated == 0, "memory that was never freed");
    return 0;
}
