/* layout.h: the fields of the VM that sonde reads, one number for each.
 * Knows: the byte offset of every field used, for each OTP family; what the fields mean.
 * Does not know: how to read, or whether a table fits this VM: sonde_vm proves that at load.
 *
 * The BEAM heap in one page
 * -------------------------
 * A process is one C struct (Process). A table of pointers leads to it. It owns
 *
 *     heap ........ htop ......... stop ......... hend      the young heap, one block
 *     | terms       | free         | stack        |         (words; the stack grows down)
 *
 *     old_heap .... old_htop ..... old_hend                 survivors of two collections, or none
 *
 * plus heap fragments: `mbuf` (built where the heap had no room, or received in a fragment of its
 * own) and `msg_frag` (received messages whose data came combined with the message). The next
 * collection copies both onto the heap. While collections are delayed, a fragment serves as the heap
 * when the heap is full; `abandoned` is the heap of before then.
 *
 * A binary of more than 64 bytes lies outside the heap and is reference counted (a Binary: a
 * header, then the bytes). A small boxed object on the heap points at the Binary: ProcBin up to OTP
 * 26, BinRef from 27. The off-heap list, `off_heap`, links all such objects, funs, magic references
 * and external pids, ports and references, so that a collection finds the dead ones. A binary that
 * is being appended to is on a list of its own, `wrt_bins`. Each fragment has an off-heap list too.
 *
 * Messages wait in three queues: senders append to the outer one (sig_inq, under its lock; under
 * contention to one of 64 buffers before it). The owner moves them to the middle one if it must
 * handle other signals in between, and to the inner one, which receive searches.
 *
 * stamp.h explains when all this may be read without a lock. */
#ifndef SONDE_LAYOUT_H
#define SONDE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every number that differs, or could differ, between releases: offsets in bytes from the start of
 * the struct named, and sizes in bytes. The second column is the C expression in the VM's own
 * sources; scripts/otp-offsets compiles it. */
/* clang-format off */
#define LAYOUT_FIELDS(X)                                                                \
    /* ErtsPTab, relative to its read-only part, at 192 and 64-aligned in every release */ \
    X(ptab_tab,         "offsetof(ErtsPTab, r.o.tab) - offsetof(ErtsPTab, r.o)")        \
    X(ptab_max,         "offsetof(ErtsPTab, r.o.max) - offsetof(ErtsPTab, r.o)")        \
    X(ptab_element_size, "offsetof(ErtsPTab, r.o.element_size) - offsetof(ErtsPTab, r.o)") \
    /* Process */                                                                       \
    X(proc_size,        "sizeof(Process)")                                              \
    X(id,               "offsetof(Process, common.id)")                                 \
    X(trace_flags,      "offsetof(Process, common.tracee.all_trace_flags) /* common.trace_flags */") \
    X(state,            "offsetof(Process, state)")                                     \
    X(lock,             "offsetof(Process, lock.flags)")                                \
    X(reds,             "offsetof(Process, reds)")                                      \
    X(pc,               "offsetof(Process, i)")                                         \
    X(catches,          "offsetof(Process, catches)")                                   \
    X(heap,             "offsetof(Process, heap)")                                      \
    X(hend,             "offsetof(Process, hend)")                                      \
    X(abandoned,        "offsetof(Process, abandoned_heap)")                            \
    X(heap_sz,          "offsetof(Process, heap_sz)")                                   \
    X(htop,             "offsetof(Process, htop)")                                      \
    X(stop,             "offsetof(Process, stop)")                                      \
    X(high_water,       "offsetof(Process, high_water)")                                \
    X(old_heap,         "offsetof(Process, old_heap)")                                  \
    X(old_htop,         "offsetof(Process, old_htop)")                                  \
    X(old_hend,         "offsetof(Process, old_hend)")                                  \
    X(gen_gcs,          "offsetof(Process, gen_gcs)")                                   \
    X(mbuf,             "offsetof(Process, mbuf)")                                      \
    X(mbuf_sz,          "offsetof(Process, mbuf_sz)")                                   \
    X(msg_frag,         "offsetof(Process, msg_frag)")                                  \
    X(live_frag_end,    "offsetof(Process, live_hf_end)")                               \
    X(off_heap,         "offsetof(Process, off_heap.first)")                            \
    X(wrt_bins,         "offsetof(Process, wrt_bins)")                                  \
    X(arity,            "offsetof(Process, arity)")                                     \
    X(arg_reg,          "offsetof(Process, arg_reg)")                                   \
    X(def_arg_reg,      "offsetof(Process, def_arg_reg)")                               \
    X(dictionary,       "offsetof(Process, dictionary)")                                \
    X(psd,              "offsetof(Process, psd)")                                       \
    X(group_leader,     "offsetof(Process, group_leader)")                              \
    X(parent,           "offsetof(Process, parent)")                                    \
    X(seq_token,        "offsetof(Process, seq_trace_token)")                           \
    X(recv_marks,       "offsetof(Process, sig_qs.recv_mrk_blk)")                       \
    X(links,            "offsetof(Process, common.u.alive.links)")                      \
    X(monitors,         "offsetof(Process, common.u.alive.monitors)")                   \
    X(lt_monitors,      "offsetof(Process, common.u.alive.lt_monitors)")                \
    X(sig_first,        "offsetof(Process, sig_qs.first)")                              \
    X(sig_len,          "offsetof(Process, sig_qs.mq_len) /* sig_qs.len up to 26 */")   \
    X(sig_flags,        "offsetof(Process, sig_qs.flags)")                              \
    X(inq_first,        "offsetof(Process, sig_inq.first)")                             \
    X(inq_len,          "offsetof(Process, sig_inq.mlenoffs) /* .len up to 26 */")      \
    /* ErtsMessage */                                                                   \
    X(msg_size,         "sizeof(ErtsMessage)")                                          \
    X(msg_next,         "offsetof(ErtsMessage, next)")                                  \
    X(msg_attached,     "offsetof(ErtsMessage, data.attached)")                         \
    X(msg_tag,          "offsetof(ErtsMessage, m[0])")                                  \
    X(msg_hfrag,        "offsetof(ErtsMessage, hfrag)")                                 \
    X(marker_size,      "sizeof(ErtsRecvMarker)")                                       \
    /* ErlHeapFragment */                                                               \
    X(frag_next,        "offsetof(ErlHeapFragment, next)")                              \
    X(frag_off_heap,    "offsetof(ErlHeapFragment, off_heap.first)")                    \
    X(frag_used,        "offsetof(ErlHeapFragment, used_size)")                         \
    X(frag_mem,         "offsetof(ErlHeapFragment, mem)")                               \
    /* entries of an off-heap list, and the Binary they point at */                     \
    X(oh_next,          "offsetof(struct erl_off_heap_header, next)")                   \
    X(bin_thing,        "HEADER_PROC_BIN /* HEADER_BIN_REF from 27 */")                 \
    X(bin_ptr,          "offsetof(ProcBin, val) /* BinRef from 27 */")                  \
    X(bin_size,         "offsetof(Binary, orig_size)")                                  \
    X(bin_refc,         "offsetof(Binary, intern.refc)")                                \
    X(bin_bytes,        "offsetof(Binary, orig_bytes)")                                 \
    /* a magic reference to memory of the VM or of a native library, and its type */     \
    X(ref_bin,          "offsetof(ErtsMRefThing, mb)")                                   \
    X(magic_data,       "offsetof(ErtsMagicBinary, u.unaligned.data)")                   \
    X(magic_free,       "offsetof(ErtsMagicBinary, destructor)")                         \
    X(type_module,      "offsetof(struct enif_resource_type_t, module)")                 \
    X(type_name,        "offsetof(struct enif_resource_type_t, name)")                   \
    /* ProcDict, process specific data */                                               \
    X(dict_head,        "offsetof(ProcDict, data)")                                     \
    X(dict_array,       "offsetof(ProcDict, arraySize)")                                \
    X(dict_count,       "offsetof(ProcDict, numElements)")                              \
    X(dict_used,        "offsetof(ProcDict, usedSlots)")                                \
    X(psd_size,         "sizeof(ErtsPSD)")                                              \
    X(psd_saved_calls,  "offsetof(ErtsPSD, data[ERTS_PSD_SAVED_CALLS_BUF])")            \
    X(psd_nfunc,        "offsetof(ErtsPSD, data[ERTS_PSD_NFUNC_TRAP_WRAPPER])")         \
    /* links and monitors */                                                            \
    X(tree_right,       "offsetof(ErtsMonLnkNode, node.tree.right)")                    \
    X(tree_left,        "offsetof(ErtsMonLnkNode, node.tree.left)")                     \
    X(list_next,        "offsetof(ErtsMonLnkNode, node.list.next)")                     \
    X(node_other,       "offsetof(ErtsMonLnkNode, other)")                              \
    X(node_offset,      "offsetof(ErtsMonLnkNode, offset)")                             \
    X(node_flags,       "offsetof(ErtsMonLnkNode, flags)")                              \
    X(node_type,        "offsetof(ErtsMonLnkNode, type) /* .flags from 28 */")          \
    X(link_size,        "sizeof(ErtsLink)")                                             \
    X(link_unlinking,   "offsetof(ErtsILink, unlinking)")                               \
    X(mon_ref,          "offsetof(ErtsMonitorData, ref)")                               \
    X(mon_refc,         "offsetof(ErtsMonitorData, refc)")                              \
    X(mon_alias_size,   "sizeof(ErtsMonitorData)")                                      \
    X(mon_size,         "sizeof(ErtsMonitorDataHeap)")                                  \
    X(mon_suspend_size, "sizeof(ErtsMonitorSuspend)")                                   \
    X(mon_ext_size,     "sizeof(ErtsMonitorDataExtended)")
/* clang-format on */

enum layout_field {
#define X(Name, Expr) LF_##Name,
    LAYOUT_FIELDS(X)
#undef X
        LAYOUT_FIELD_COUNT
};

/* The kind of a boxed object, from the four tag bits of its header. */
enum kind {
    KIND_NONE, /* no such object in this release */
    KIND_TUPLE,
    KIND_RECORD, /* a native record, from 29 */
    KIND_BIGNUM,
    KIND_FLOAT,
    KIND_REF,
    KIND_FUN,
    KIND_FUN_REF, /* links a fun to its code, 26 and 27 */
    KIND_REFC,    /* the only object that points at a Binary: ProcBin, BinRef */
    KIND_HEAP_BINARY,
    KIND_SUB_BINARY,
    KIND_MATCH, /* match state */
    KIND_EXTERNAL,
    KIND_MAP
};

/* The layout of a fun: `raw` words first, then its environment, with its size in the bits `mask` <<
 * `shift` of word `word`. Up to 26 its creator is one term more. */
struct fun_form {
    uint8_t raw, word, shift, more;
    uint16_t mask;
};

struct layout {
    const char *name;   /* "otp27"; "otp26_2_2" fits from 26.2.2 on; "_nofp": no frame_pointer */
    uint16_t otp;       /* the release of this table */
    uint16_t type_mask; /* the bits of a link or monitor node's type in its word */
    struct fun_form fun;
    uint16_t f[LAYOUT_FIELD_COUNT];
    uint8_t kinds[16];  /* enum kind, by bits 2 to 5 of a header */
    bool pid_slot_high; /* slot in the upper half of the pid word (25), else in its data bits */
    /* In no table, but learned on the VM: MSG_IN_Q of the state tells that the process has sent to
     * itself (25.1 to 25.3.2.5, and 26.0), not that messages wait. */
    bool self_bit;
    bool wrt_bins_listed; /* process_info(_, binary) lists writable binaries (from 25.3) */
    bool len_is_biased;   /* sig_len is wrong while process_info asks for it (up to 26) */
    uint8_t arity_width;  /* bytes */
    uint8_t flags_shift;  /* where the flags of a link or monitor node start in their word */
    bool fun_uniq_first;  /* in a fun's entry, see nif_fun.c (from 28) */
    uint8_t fun_names; /* words of that entry, or of an export's entry, from the module to the last
                             name; only these words must be readable */
    bool refc_is_term; /* a ProcBin is a term (up to 26); a BinRef is reached only through a
                             sub-binary, which then counts in bits */
    uint8_t tag_bytes; /* the tag in a block, if blocks are tagged (+M<S>atags) */
    uint8_t copied_bytes; /* a collection copies slices of up to this size (up to 26), else 0 */
};

#define LF(Layout, Field) ((Layout)->f[LF_##Field])

/* All tables; the caller tries those of its own release first. */
const struct layout *layout_table(unsigned index);
unsigned layout_count(void);

/* The field's name in the checks. */
extern const char *const layout_field_names[LAYOUT_FIELD_COUNT];

#endif
