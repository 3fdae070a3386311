/* What comes before the rows of scripts/otp-offsets: the VM's headers, in the VM's order. */
#include "config.h"
#ifdef NOFP
#undef ERLANG_FRAME_POINTERS
#endif
#include "sys.h"
#include "erl_vm.h"
#include "global.h"
#include "erl_process.h"
#include "erl_proc_sig_queue.h"
#include "erl_monitor_link.h"
#include "erl_process_dict.h"
#include "erl_binary.h"
#include "erl_bits.h"

/* A row becomes a line of assembly; nothing is run. */
#define ROW(Name, Expr) __asm__ volatile(".ascii \"-> " Name " = %0\"" : : "i"((long)(Expr)));
