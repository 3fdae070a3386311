/* core_file.h: the memory of an OS process that has ended, in a core file.
 * Knows: which bytes of the file are which addresses. Does not know: how a core file says so, or what is in that
 * memory.
 *
 * The file is never mapped: were it cut short meanwhile, that would end this process. What is not in it cannot be
 * read, but for what never changes in the program itself: this process has mapped the same program. */
#ifndef SONDE_CORE_FILE_H
#define SONDE_CORE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct core_segment {
    uint64_t start, size, offset; /* size: of what the file has of it */
};

/* The file as it was when its segments were found. */
struct core_seen {
    uint64_t size, mtime, inode;
};

enum { CORE_SEGMENTS_MAX = 1 << 18 };

/* A program has two or three read-only parts. */
enum { CORE_PARTS_MAX = 16 };

/* Only core_file.c and core_file_open.c look inside. The second one allocates, so a program that only reads
 * memory needs no allocator. */
struct core_part {
    uintptr_t from, to;
};

struct core_file {
    int fd;
    struct stat seen;
    size_t n;
    const unsigned char *segments;
    uintptr_t shift;
    unsigned parts_n;
    struct core_part parts[CORE_PARTS_MAX];
};

enum core_status { CORE_OK, CORE_BAD, CORE_CHANGED, CORE_NOMEM };

/* segments: n of them, in ascending order and apart from each other, else bad; of those that go beyond the end of
 * the file only the part before it counts. They are not copied, and must stay until core_file_close(). Changed: this is not
 * the file that was seen, or it cannot be opened. */
enum core_status core_file_open(const char *path, const struct core_seen *seen,
                                const unsigned char *segments, size_t n, struct core_file **out);
void core_file_close(struct core_file *c);

/* Whether the file has neither grown nor been written since it was opened. */
bool core_file_is_same(const struct core_file *c);

/* From now on the read-only parts of this program are found in its own memory, for addresses that the file does
 * not have. shift: to be added to an address of this program. Call it only if both run the same program. */
void core_file_lend(struct core_file *c, uintptr_t shift);

bool core_file_has(const struct core_file *c, uint64_t at, uint64_t bytes);
bool core_file_read(const struct core_file *c, uint64_t at, void *out, size_t bytes);

#endif
