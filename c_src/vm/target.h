/* target.h: another OS process that runs the same program as this one.
 * Knows: how the kernel lists the memory of an OS process. Does not know: what is in that memory.
 *
 * The VM's static variables are at the same places of its program in both. So an address that was found here
 * is found there, if one knows how far apart the kernel loaded the two. */
#ifndef SONDE_TARGET_H
#define SONDE_TARGET_H

#include <stdint.h>

enum target_status { TARGET_OK, TARGET_GONE, TARGET_FORBIDDEN, TARGET_OTHER_PROGRAM };

/* *shift: to be added to an address of this program. The two must have mapped the same parts of the very
 * same file. */
enum target_status target_find(int process, uintptr_t *shift);

#endif
