/* For the prebuilt libraries only (scripts/prebuilt): asks for the oldest version of the functions that
 * glibc 2.32 to 2.34 moved, so that the library loads with every glibc from 2.17 on. Before that, dladdr and
 * those of pthread were in libdl.so and libpthread.so, which the VM has loaded, and fstat was an inline
 * function that called __fxstat. */
#ifndef SONDE_OLD_GLIBC_H
#define SONDE_OLD_GLIBC_H

#ifndef __ASSEMBLER__
#include <sys/stat.h>

#ifdef __x86_64__
#define OLDEST       "GLIBC_2.2.5"
#define STAT_VERSION 1
#else
#define OLDEST       "GLIBC_2.17"
#define STAT_VERSION 0
#endif

__asm__(".symver dladdr, dladdr@" OLDEST);
__asm__(".symver pthread_sigmask, pthread_sigmask@" OLDEST);
__asm__(".symver pthread_key_create, pthread_key_create@" OLDEST);
__asm__(".symver pthread_once, pthread_once@" OLDEST);
__asm__(".symver pthread_setspecific, pthread_setspecific@" OLDEST);
__asm__(".symver __fxstat, __fxstat@" OLDEST);

int __fxstat(int version, int fd, struct stat *out);

static inline int old_fstat(int fd, struct stat *out)
{
    return __fxstat(STAT_VERSION, fd, out);
}
#define fstat(Fd, Out) old_fstat(Fd, Out)
#endif

#endif
