/* code_lines.h: the line of an address of loaded code.
 * Knows: the table of lines that a module has. Does not know: where modules are, or in which function an address is.
 *
 * The table is in the module's own range: how wide a line is, where the lines are, and for each function a pointer
 * to the first of its addresses. From each of these addresses to the next, a line holds. */
#ifndef SONDE_CODE_LINES_H
#define SONDE_CODE_LINES_H

#include "vm/blocks.h"
#include "vm/peek.h"

/* `table': what the header of the module in that range points to; `i': the function, counted from 0, that has
 * the address. 0: no line, or not readable. */
unsigned code_line(enum peek_reader r, const struct block *range, uint64_t table, uint64_t i,
                   uint64_t pc);

#endif
