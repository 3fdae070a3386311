#include "vm/code_lines.h"

/* Words of a table: the width of a line in bytes, the lines, and the first of the pointers. */
enum { AT_WIDTH = 1, AT_LINES, AT_FIRST, LINE_MASK = (1 << 24) - 1 };

/* Whether that many bytes at the address are in the range, and it is a multiple of their number. */
static bool is_inside(const struct block *range, uint64_t at, unsigned bytes)
{
    return at % bytes == 0 && at > range->from && at <= range->to && range->to - at >= bytes;
}

static bool read_inside(enum peek_reader r, const struct block *range, uint64_t at, uint64_t *out)
{
    return is_inside(range, at, 8) && peek_word(r, (uintptr_t)at, out);
}

/* The entry of the address between these two, which is of the function; 0: none. Ends, because what is left becomes
 * smaller. */
static uint64_t find_entry(enum peek_reader r, const struct block *range, uint64_t low,
                           uint64_t high, uint64_t pc)
{
    while (low < high) {
        uint64_t mid = low + (high - low) / 16 * 8;
        uint64_t from;
        uint64_t to;
        if (!read_inside(r, range, mid, &from) || !read_inside(r, range, mid + 8, &to))
            return 0;
        if (pc < from)
            high = mid;
        else if (pc >= to)
            low = mid + 8;
        else
            return mid;
    }
    return 0;
}

unsigned code_line(enum peek_reader r, const struct block *range, uint64_t table, uint64_t i,
                   uint64_t pc)
{
    uint64_t width;
    uint64_t lines;
    uint64_t first;
    uint64_t low;
    uint64_t high;
    uint64_t word;
    if (!read_inside(r, range, table + 8UL * AT_WIDTH, &width) ||
        !read_inside(r, range, table + 8UL * AT_LINES, &lines) ||
        !read_inside(r, range, table + 8UL * AT_FIRST, &first) ||
        !read_inside(r, range, table + 8 * (AT_FIRST + i), &low) ||
        !read_inside(r, range, table + 8 * (AT_FIRST + i + 1), &high))
        return 0;
    width = (uint32_t)width;
    if ((width != 2 && width != 4) || first % 8 != 0 || low < first || low % 8 != 0 ||
        high % 8 != 0 || high > range->to)
        return 0;
    uint64_t entry = find_entry(r, range, low, high, pc);
    uint64_t at = lines + (entry - first) / 8 * width;
    if (entry == 0 || !is_inside(range, at, (unsigned)width) ||
        !peek_word(r, (uintptr_t)at & ~(uintptr_t)7, &word))
        return 0;
    word = word >> (at % 8 * 8) & (width == 2 ? 0xFFFF : 0xFFFFFFFF);
    return (unsigned)word & LINE_MASK;
}
