#include "util/leftovers.h"

#include <sys/mman.h>
#include <unistd.h>

/* At the beginning of the block, in pages that go back last. */
struct leftover {
    struct leftover *next;
    size_t size, bytes; /* all, and those that did not go back yet */
};

static _Thread_local struct leftovers *collecting;

void leftovers_collect(struct leftovers *l)
{
    collecting = l;
}

bool leftovers_take(void *block, size_t bytes)
{
    struct leftover *b = block;
    if (!collecting || bytes < LEFTOVER_MIN)
        return false;
    *b = (struct leftover){collecting->first, bytes, bytes};
    collecting->first = b;
    return true;
}

/* Only whole pages. If the system refuses, the block goes back as a whole later. */
static void hand_back(char *from, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t before = (page - (uintptr_t)from % page) % page;
    if (bytes >= before + page)
        (void)madvise(from + before, (bytes - before) / page * page, MADV_DONTNEED);
}

bool leftovers_step(struct leftovers *l, void (*release)(void *block))
{
    size_t most = LEFTOVER_STEP;
    while (l->first) {
        struct leftover *b = l->first;
        if (b->bytes > most) {
            b->bytes -= most;
            hand_back((char *)b + b->bytes, most);
            return false;
        }
        most -= b->bytes;
        bool alone = b->size >= LEFTOVER_ALONE;
        l->first = b->next;
        release(b);
        if (alone)
            break;
    }
    return l->first == NULL;
}

void leftovers_free(struct leftovers *l, void (*release)(void *block))
{
    while (l->first) {
        struct leftover *b = l->first;
        l->first = b->next;
        release(b);
    }
}
