#include "vm/filter.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

static atomic_bool filtered_too;

void filter_allows(void)
{
    atomic_store(&filtered_too, true);
}

#if defined(__linux__)
enum { NO_FILTER = 0, FILTER = 2, STATUS_BYTES = 8192, LOOK_AGAIN_S = 1 };

/* What a line of the file says of this thread; -1: there is no such file. The VM opens and reads files
 * itself, so no filter that it lives under forbids that. */
static int filter_of_status(const char *path)
{
    char text[STATUS_BYTES];
    size_t n = 0;
    ssize_t got = 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    while (got > 0 && n < sizeof text - 1) {
        got = read(fd, text + n, sizeof text - 1 - n);
        n += got > 0 ? (size_t)got : 0;
    }
    (void)close(fd);
    text[n] = 0;
    const char *line = strstr(text, "\nSeccomp:");
    if (!line) /* a kernel without filters */
        return n > 0 ? NO_FILTER : -1;
    return strtol(line + sizeof "\nSeccomp:" - 1, NULL, 10) == 0 ? NO_FILTER : FILTER;
}

/* Without a /proc we ask the kernel. The VM names its threads by the same system call. */
static int filter_of_kernel(void)
{
    return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == FILTER ? FILTER : NO_FILTER;
}

/* A filter never goes; it may come, so where there is none we look again, not each time. */
static bool is_filtered(void)
{
    static atomic_bool known;
    static atomic_llong next;
    struct timespec now = {0, 0};
    if (atomic_load(&known))
        return true;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if ((long long)now.tv_sec < atomic_load(&next))
        return false;
    int filter = filter_of_status("/proc/thread-self/status");
    if (filter < 0)
        filter = filter_of_status("/proc/self/status");
    if (filter < 0)
        filter = filter_of_kernel();
    atomic_store(&known, filter == FILTER);
    atomic_store(&next, (long long)now.tv_sec + LOOK_AGAIN_S);
    return filter == FILTER;
}

bool filter_may_try_syscalls(void)
{
    return atomic_load(&filtered_too) || !is_filtered();
}
#else
bool filter_may_try_syscalls(void)
{
    return true;
}
#endif
