/* For the prebuilt libraries only (scripts/prebuilt): asks for the oldest version of the functions that
 * glibc 2.32 and 2.34 moved into libc.so, so that the library loads with every glibc from 2.17 on. Before
 * they moved they were in libpthread.so and libdl.so, which the VM has loaded. */
#ifndef SONDE_OLD_GLIBC_H
#define SONDE_OLD_GLIBC_H

#ifndef __ASSEMBLER__
#ifdef __x86_64__
__asm__(".symver dladdr, dladdr@GLIBC_2.2.5");
__asm__(".symver pthread_sigmask, pthread_sigmask@GLIBC_2.2.5");
#else
__asm__(".symver dladdr, dladdr@GLIBC_2.17");
__asm__(".symver pthread_sigmask, pthread_sigmask@GLIBC_2.17");
#endif
#endif

#endif
