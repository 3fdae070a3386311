/* layout_tables.c: one table for each OTP family and flavour.
 * Knows: the numbers, as scripts/otp-offsets prints them from the VM's sources.
 * Does not know: whether a table fits this VM: sonde_vm proves that at load.
 *
 * The diff of two tables is the diff of two releases. FP is the size of Process.frame_pointer: the
 * field exists where the JIT for x86-64 Linux is configured (also in the emulator flavour of the
 * same build), not on aarch64 and not without a JIT; everything after offset 88 moves with it. */
#include "vm/layout.h"

#include <assert.h>

/* The same in every release from 25 to 29. */
#define COMMON                                                                                     \
    [LF_id] = 0, [LF_htop] = 80, [LF_stop] = 88, [LF_msg_size] = 88, [LF_msg_next] = 0,            \
    [LF_msg_attached] = 8, [LF_msg_tag] = 16, [LF_msg_hfrag] = 40, [LF_marker_size] = 56,          \
    [LF_frag_next] = 0, [LF_frag_off_heap] = 8, [LF_frag_used] = 32, [LF_frag_mem] = 40,           \
    [LF_oh_next] = 16, [LF_dict_head] = 24, [LF_dict_array] = 8, [LF_dict_count] = 16,             \
    [LF_dict_used] = 4, [LF_psd_saved_calls] = 8, [LF_psd_nfunc] = 40, [LF_tree_right] = 8,        \
    [LF_tree_left] = 16, [LF_list_next] = 0, [LF_ref_bin] = 8, [LF_type_module] = 112,             \
    [LF_type_name] = 120

/* ErtsPTab: pix_mask became a word, and pids grew, in 26. */
#define PTAB_25 [LF_ptab_tab] = 0, [LF_ptab_max] = 16, [LF_ptab_element_size] = 80
#define PTAB_27 [LF_ptab_tab] = 0, [LF_ptab_max] = 16, [LF_ptab_element_size] = 104

/* ProcBin and the Binary of OTP 26 and before; BinRef and apparent_size from 27. */
#define BINARY_25                                                                                  \
    [LF_bin_thing] = 0x160, [LF_bin_ptr] = 24, [LF_bin_size] = 16, [LF_bin_refc] = 8,              \
    [LF_bin_bytes] = 24, [LF_magic_free] = 24, [LF_magic_data] = 48
#define BINARY_27                                                                                  \
    [LF_bin_thing] = 0xA8, [LF_bin_ptr] = 8, [LF_bin_size] = 24, [LF_bin_refc] = 16,               \
    [LF_bin_bytes] = 32, [LF_magic_free] = 32, [LF_magic_data] = 56

/* Link and monitor nodes grew by a word in 27: they can be signals, and signals count messages. From
 * 28 flags and type share a word: from the lowest bit the type, two bits for aliases, flags. */
#define TIES_25                                                                                    \
    [LF_node_other] = 24, [LF_node_offset] = 32, [LF_node_flags] = 36, [LF_node_type] = 38,        \
    [LF_link_size] = 40, [LF_link_unlinking] = 40, [LF_mon_ref] = 80, [LF_mon_refc] = 88,          \
    [LF_mon_alias_size] = 96, [LF_mon_size] = 128, [LF_mon_suspend_size] = 112,                    \
    [LF_mon_ext_size] = 128
#define TIES_27(Type)                                                                              \
    [LF_node_other] = 32, [LF_node_offset] = 40, [LF_node_flags] = 44, [LF_node_type] = (Type),    \
    [LF_link_size] = 48, [LF_link_unlinking] = 48, [LF_mon_ref] = 96, [LF_mon_refc] = 104,         \
    [LF_mon_alias_size] = 112, [LF_mon_size] = 144, [LF_mon_suspend_size] = 128,                   \
    [LF_mon_ext_size] = 144

#define PROCESS_25(FP)                                                                             \
    [LF_proc_size] = 768 + (FP), [LF_trace_flags] = 24, [LF_links] = 56, [LF_lt_monitors] = 64,    \
    [LF_monitors] = 72, [LF_heap] = 120 + (FP), [LF_hend] = 128 + (FP), [LF_heap_sz] = 144 + (FP), \
    [LF_abandoned] = 136 + (FP), [LF_arity] = 176 + (FP), [LF_arg_reg] = 184 + (FP),               \
    [LF_def_arg_reg] = 200 + (FP), [LF_pc] = 248 + (FP), [LF_reds] = 272 + (FP),                   \
    [LF_sig_first] = 320 + (FP), [LF_sig_len] = 384 + (FP), [LF_sig_flags] = 392 + (FP),           \
    [LF_dictionary] = 408 + (FP), [LF_high_water] = 488 + (FP), [LF_old_hend] = 496 + (FP),        \
    [LF_old_htop] = 504 + (FP), [LF_old_heap] = 512 + (FP), [LF_gen_gcs] = 520 + (FP),             \
    [LF_off_heap] = 528 + (FP), [LF_wrt_bins] = 544 + (FP), [LF_mbuf] = 552 + (FP),                \
    [LF_msg_frag] = 568 + (FP), [LF_mbuf_sz] = 576 + (FP), [LF_psd] = 584 + (FP),                  \
    [LF_state] = 632 + (FP), [LF_group_leader] = 288 + (FP), [LF_parent] = 472 + (FP),             \
    [LF_seq_token] = 432 + (FP), [LF_recv_marks] = 376 + (FP), [LF_live_frag_end] = 560 + (FP),    \
    [LF_inq_first] = 648 + (FP), [LF_inq_len] = 664 + (FP), [LF_lock] = 704 + (FP),                \
    [LF_catches] = 256 + (FP)

#define PROCESS_27(FP)                                                                             \
    [LF_trace_flags] = 64, [LF_links] = 40, [LF_lt_monitors] = 48, [LF_monitors] = 56,             \
    [LF_arity] = 125 + (FP), [LF_arg_reg] = 128 + (FP), [LF_def_arg_reg] = 136 + (FP),             \
    [LF_heap] = 184 + (FP), [LF_hend] = 192 + (FP), [LF_heap_sz] = 208 + (FP),                     \
    [LF_abandoned] = 200 + (FP), [LF_pc] = 240 + (FP), [LF_reds] = 264 + (FP),                     \
    [LF_sig_first] = 304 + (FP), [LF_sig_len] = 328 + (FP), [LF_sig_flags] = 384 + (FP),           \
    [LF_dictionary] = 400 + (FP), [LF_gen_gcs] = 476 + (FP), [LF_high_water] = 480 + (FP),         \
    [LF_old_hend] = 488 + (FP), [LF_old_htop] = 496 + (FP), [LF_old_heap] = 504 + (FP),            \
    [LF_off_heap] = 512 + (FP), [LF_wrt_bins] = 528 + (FP), [LF_mbuf] = 536 + (FP),                \
    [LF_msg_frag] = 552 + (FP), [LF_mbuf_sz] = 560 + (FP), [LF_psd] = 568 + (FP),                  \
    [LF_state] = 616 + (FP), [LF_group_leader] = 272 + (FP), [LF_parent] = 464 + (FP),             \
    [LF_seq_token] = 424 + (FP), [LF_recv_marks] = 376 + (FP), [LF_live_frag_end] = 544 + (FP),    \
    [LF_inq_first] = 632 + (FP), [LF_inq_len] = 648 + (FP), [LF_lock] = 688 + (FP),                \
    [LF_catches] = 248 + (FP)

/* Objects on a heap. 26 has the terms of 25; 27 changed binaries, maps and funs; 28 has funs
 * without a FunRef, and 29 native records. */
#define KINDS(K1, K7, K8, K9, K10, K11, K15)                                                       \
    .kinds = {KIND_TUPLE,                                                                          \
              K1,                                                                                  \
              KIND_BIGNUM,                                                                         \
              KIND_BIGNUM,                                                                         \
              KIND_REF,                                                                            \
              KIND_FUN,                                                                            \
              KIND_FLOAT,                                                                          \
              K7,                                                                                  \
              K8,                                                                                  \
              K9,                                                                                  \
              K10,                                                                                 \
              K11,                                                                                 \
              KIND_EXTERNAL,                                                                       \
              KIND_EXTERNAL,                                                                       \
              KIND_EXTERNAL,                                                                       \
              K15}
#define THINGS_25                                                                                  \
    KINDS(KIND_MATCH, KIND_NONE, KIND_REFC, KIND_HEAP_BINARY, KIND_SUB_BINARY, KIND_NONE,          \
          KIND_MAP),                                                                               \
        .fun = {4, 3, 8, 1, 0xFF}, .fun_names = 6, .refc_is_term = true, .copied_bytes = 24,       \
        .tag_bytes = 8
#define THINGS_27                                                                                  \
    KINDS(KIND_FUN_REF, KIND_NONE, KIND_HEAP_BINARY, KIND_SUB_BINARY, KIND_REFC, KIND_MAP,         \
          KIND_NONE),                                                                              \
        .fun = {2, 0, 16, 0, 0x1FF}, .fun_names = 7, .tag_bytes = 16
#define THINGS_28(Record)                                                                          \
    KINDS(KIND_NONE, Record, KIND_HEAP_BINARY, KIND_SUB_BINARY, KIND_REFC, KIND_MAP, KIND_NONE),   \
        .fun = {2, 0, 16, 0, 0xFF}, .fun_uniq_first = true, .fun_names = 6, .tag_bytes = 16

#define FORM_25                                                                                    \
    .pid_slot_high = true, .len_is_biased = true, .arity_width = 8, .type_mask = 0xFFFF, THINGS_25
#define FORM_26                                                                                    \
    .wrt_bins_listed = true, .len_is_biased = true, .arity_width = 8, .type_mask = 0xFFFF, THINGS_25
#define FORM_27 .wrt_bins_listed = true, .arity_width = 1, .type_mask = 0xFFFF, THINGS_27
#define FORM_28(Record)                                                                            \
    .wrt_bins_listed = true, .arity_width = 1, .type_mask = 0x1F, .flags_shift = 7,                \
    THINGS_28(Record)

/* clang-format off */
#define OTP_25(Name, FP, Listed, PsdSize)                                                    \
    {.name = (Name), .otp = 25, FORM_25, .wrt_bins_listed = (Listed),                        \
     .f = {COMMON, PTAB_25, PROCESS_25(FP), BINARY_25, TIES_25, [LF_psd_size] = (PsdSize)}}
/* The Process of 25, with the pids and the process table of 27. */
#define OTP_26(Name, FP, PsdSize)                                                            \
    {.name = (Name), .otp = 26, FORM_26,                                                     \
     .f = {COMMON, PTAB_27, PROCESS_25(FP), BINARY_25, TIES_25, [LF_psd_size] = (PsdSize)}}
#define OTP_27(Name, FP)                                                                     \
    {.name = (Name), .otp = 27, FORM_27,                                                     \
     .f = {COMMON, PTAB_27, PROCESS_27(FP), [LF_proc_size] = 752 + (FP), BINARY_27,          \
           TIES_27(46), [LF_psd_size] = 96}}
#define OTP_28(Name, FP) FROM_28(Name, 28, FP, 752, KIND_NONE)
#define OTP_29(Name, FP) FROM_28(Name, 29, FP, 760, KIND_RECORD)
#define FROM_28(Name, Release, FP, ProcSize, Record)                                         \
    {.name = (Name), .otp = (Release), FORM_28(Record),                                      \
     .f = {COMMON, PTAB_27, PROCESS_27(FP), [LF_proc_size] = (ProcSize) + (FP), BINARY_27,   \
           TIES_27(44), [LF_psd_size] = 112}}

/* Patch releases differ, too: from 25.3 on process_info(_, binary) lists writable binaries, and
 * 25.3.2.9 and 26.2.2 have one more process-specific datum. 25.0 to 25.0.3 have other types of
 * monitors and links: no table fits. */
static const struct layout tables[] = {
    OTP_25("otp25", 8, false, 80),
    OTP_25("otp25_nofp", 0, false, 80),
    OTP_25("otp25_3", 8, true, 80),
    OTP_25("otp25_3_nofp", 0, true, 80),
    OTP_25("otp25_3_2_9", 8, true, 88),
    OTP_25("otp25_3_2_9_nofp", 0, true, 88),
    OTP_26("otp26", 8, 88),
    OTP_26("otp26_nofp", 0, 88),
    OTP_26("otp26_2_2", 8, 96),
    OTP_26("otp26_2_2_nofp", 0, 96),
    OTP_27("otp27", 8),
    OTP_27("otp27_nofp", 0),
    OTP_28("otp28", 8),
    OTP_28("otp28_nofp", 0),
    OTP_29("otp29", 8),
    OTP_29("otp29_nofp", 0),
};
/* clang-format on */

const struct layout *layout_table(unsigned index)
{
    assert(index < layout_count());
    return &tables[index];
}

unsigned layout_count(void)
{
    return sizeof tables / sizeof *tables;
}

const char *const layout_field_names[LAYOUT_FIELD_COUNT] = {
#define X(Name, Expr) #Name,
    LAYOUT_FIELDS(X)
#undef X
};
