/* peek_load.S: with peek.h's inline load, all instructions that touch memory sonde does not own.
 * Knows: how to load words; each load that may fault has a label that handler.c knows.
 * Does not know: anything else. Leaf code, no stack: the landing place can simply return.
 *
 * Each returns a pair of words: the value, and 1 after a fault (rax:rdx, x0:x1).
 *   sonde_load(addr)                       one word, where peek.h has no inline form
 *   sonde_gather(base, offsets16, n, out)  n words at base + offsets[i], in that order
 *   sonde_differ(base, offsets16, n, seen) 0 if these words equal `seen`
 *   sonde_copy(addr, n, out)               n consecutive words
 *   sonde_scan(table, from, to)            index of the first word that is not 0, or `to` */
#if defined(__APPLE__)
#define SYM(name) _##name
#define LOCAL .private_extern
#else
#define SYM(name) name
#define LOCAL .hidden
#endif

/* Marks a target of indirect branches, if the compiler asks for it (CET, BTI). Without the note the
 * linker would drop the mark of the whole library. */
#if defined(__x86_64__) && defined(__CET__) && defined(__ELF__)
#include <cet.h>
#define LANDING _CET_ENDBR
#elif defined(__aarch64__) && defined(__ARM_FEATURE_BTI_DEFAULT)
#define LANDING hint #34
#if defined(__ELF__)
        .section .note.gnu.property, "a", %note
        .p2align 3
        .word 4, 16, 5
        .asciz "GNU"
        .word 0xc0000000, 4, 3, 0
#endif
#else
#define LANDING
#endif

/* One statement a line, because no statement separator works in every assembler. */
.macro label name
        .globl \name
        LOCAL \name
\name:
.endm

.macro function name
        .p2align 5
#if defined(__ELF__)
        .type \name, %function
#endif
        label \name
        .cfi_startproc
        LANDING
.endm

.macro end name
        .cfi_endproc
#if defined(__ELF__)
        .size \name, . - \name
#endif
.endm

        .text

/* What the kernel is given as our handler: other builds of sonde know it by its name, which is why that is
 * not hidden, and find our place in the chain of handlers by the word before it (struct family in handler.c).
 * What either means must never change under this name. */
#if defined(__ELF__)
        .p2align 5
        .skip 24
        .quad sonde_family - .
        .globl sonde_handler_1
        .type sonde_handler_1, %function
sonde_handler_1:
        .cfi_startproc
        LANDING
#if defined(__x86_64__)
        jmp sonde_on_fault
#else
        b sonde_on_fault
#endif
        end sonde_handler_1
#endif

#if defined(__x86_64__)
#if !defined(__ELF__)
        function SYM(sonde_load)
        xorl %edx, %edx
        label SYM(sonde_pc_load)
        movq (%rdi), %rax
        ret
        end SYM(sonde_load)
#endif

/* Two words at a time: one load reads two offsets. */
        function SYM(sonde_gather)
        movl %edx, %r9d
        xorl %r8d, %r8d
        xorl %edx, %edx
        subq $1, %r9
        jl 3f
1:      cmpq %r9, %r8
        jae 2f
        movl (%rsi,%r8,2), %eax
        movzwl %ax, %r10d
        shrl $16, %eax
        label SYM(sonde_pc_gather)
        movq (%rdi,%r10), %r10
        movq (%rdi,%rax), %rax
        label SYM(sonde_pc_gather_end)
        movq %r10, (%rcx,%r8,8)
        movq %rax, 8(%rcx,%r8,8)
        addq $2, %r8
        jmp 1b
2:      jne 3f
        movzwl (%rsi,%r8,2), %eax
        label SYM(sonde_pc_gather1)
        movq (%rdi,%rax), %rax
        movq %rax, (%rcx,%r8,8)
3:      ret
        end SYM(sonde_gather)

        function SYM(sonde_differ)
        movl %edx, %r9d
        xorl %r8d, %r8d
        xorl %r11d, %r11d
        xorl %edx, %edx
        subq $1, %r9
        jl 3f
1:      cmpq %r9, %r8
        jae 2f
        movl (%rsi,%r8,2), %eax
        movzwl %ax, %r10d
        shrl $16, %eax
        label SYM(sonde_pc_differ)
        movq (%rdi,%r10), %r10
        movq (%rdi,%rax), %rax
        label SYM(sonde_pc_differ_end)
        xorq (%rcx,%r8,8), %r10
        xorq 8(%rcx,%r8,8), %rax
        orq %r10, %r11
        orq %rax, %r11
        addq $2, %r8
        jmp 1b
2:      jne 3f
        movzwl (%rsi,%r8,2), %eax
        label SYM(sonde_pc_differ1)
        movq (%rdi,%rax), %rax
        xorq (%rcx,%r8,8), %rax
        orq %rax, %r11
3:      movq %r11, %rax
        ret
        end SYM(sonde_differ)

        function SYM(sonde_copy)
        movq %rdx, %rcx
        xorl %r8d, %r8d
        xorl %edx, %edx
        testq %rsi, %rsi
        jz 2f
1:
        label SYM(sonde_pc_copy)
        movq (%rdi,%r8,8), %rax
        movq %rax, (%rcx,%r8,8)
        incq %r8
        cmpq %rsi, %r8
        jb 1b
2:      ret
        end SYM(sonde_copy)

/* Eight slots are one cache line. Most of a process table is empty, so zeros must be fast. */
        function SYM(sonde_scan)
        movq %rdx, %r8
        xorl %edx, %edx
        movq %rsi, %rax
1:      leaq 8(%rax), %rcx
        cmpq %r8, %rcx
        ja 3f
        label SYM(sonde_pc_scan)
        movq (%rdi,%rax,8), %rcx
        orq 8(%rdi,%rax,8), %rcx
        orq 16(%rdi,%rax,8), %rcx
        orq 24(%rdi,%rax,8), %rcx
        orq 32(%rdi,%rax,8), %rcx
        orq 40(%rdi,%rax,8), %rcx
        orq 48(%rdi,%rax,8), %rcx
        orq 56(%rdi,%rax,8), %rcx
        label SYM(sonde_pc_scan_end)
        jnz 3f
        addq $8, %rax
        jmp 1b
3:      cmpq %r8, %rax
        jae 4f
        label SYM(sonde_pc_scan1)
        cmpq $0, (%rdi,%rax,8)
        jne 4f
        incq %rax
        testb $7, %al
        jz 1b
        jmp 3b
4:      ret
        end SYM(sonde_scan)

        function SYM(sonde_fault)
        xorl %eax, %eax
        movl $1, %edx
        ret
        end SYM(sonde_fault)

#elif defined(__aarch64__)
/* ldar: a later load may not move before it, as peek.h promises. */
#if !defined(__ELF__)
        function SYM(sonde_load)
        mov x1, #0
        label SYM(sonde_pc_load)
        ldar x0, [x0]
        ret
        end SYM(sonde_load)
#endif

        function SYM(sonde_gather)
        mov x9, x1
        mov x1, #0
        cbz w2, 2f
1:      ldrh w10, [x9], #2
        add x10, x0, x10
        label SYM(sonde_pc_gather)
        label SYM(sonde_pc_gather1)
        ldar x10, [x10]
        label SYM(sonde_pc_gather_end)
        str x10, [x3], #8
        subs w2, w2, #1
        b.ne 1b
2:      ret
        end SYM(sonde_gather)

        function SYM(sonde_differ)
        mov x9, x1
        mov x1, #0
        mov x11, #0
        cbz w2, 2f
1:      ldrh w10, [x9], #2
        add x10, x0, x10
        label SYM(sonde_pc_differ)
        label SYM(sonde_pc_differ1)
        ldar x10, [x10]
        label SYM(sonde_pc_differ_end)
        ldr x12, [x3], #8
        eor x10, x10, x12
        orr x11, x11, x10
        subs w2, w2, #1
        b.ne 1b
2:      mov x0, x11
        ret
        end SYM(sonde_differ)

        function SYM(sonde_copy)
        mov x9, x1
        mov x1, #0
        cbz x9, 2f
1:
        label SYM(sonde_pc_copy)
        ldar x10, [x0]
        add x0, x0, #8
        str x10, [x2], #8
        subs x9, x9, #1
        b.ne 1b
2:      ret
        end SYM(sonde_copy)

        function SYM(sonde_scan)
        mov x9, x1
        mov x1, #0
1:      cmp x9, x2
        b.hs 2f
        add x10, x0, x9, lsl #3
        label SYM(sonde_pc_scan)
        label SYM(sonde_pc_scan1)
        ldr x10, [x10]
        label SYM(sonde_pc_scan_end)
        cbnz x10, 2f
        add x9, x9, #1
        b 1b
2:      mov x0, x9
        ret
        end SYM(sonde_scan)

        function SYM(sonde_fault)
        mov x0, #0
        mov x1, #1
        ret
        end SYM(sonde_fault)
#endif

#if defined(__ELF__)
        .section .note.GNU-stack, "", %progbits
#endif
