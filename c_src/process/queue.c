#include "process/queue.h"

#include "vm/term.h"

const enum layout_field queue_fields[] = {LF_sig_first,      LF_sig_len, LF_sig_flags,
                                          LF_inq_first,      LF_inq_len, LF_trace_flags,
                                          LAYOUT_FIELD_COUNT};

/* Process.state. SIG_Q: the middle queue is not empty. Old releases set SIG_IN_Q for every signal in
 * the outer queue or its buffers; MSG_IN_Q then means that the process may have sent to itself. Newer
 * ones set MSG_IN_Q for messages and SIG_IN_Q for other signals. */
enum { STATE_SIG_IN_Q = 0x80000, STATE_OFF_HEAP_MSGQ = 0x1000000, STATE_SIG_Q = 0x2000000 };
enum { STATE_MSG_IN_Q = 0x1000 };

enum { FLAG_DELAYED_LEN = 0x40 }; /* sig_qs.flags */

/* The 64 buffers exist only for off-heap queues, and a signal in one makes the process active. */
static enum status visible(const struct reading *rd)
{
    uint64_t state = stamp_field(rd, LF_state);
    uint64_t arrivals =
        STATE_ACTIVE | STATE_SIG_IN_Q | (rd->vm->lay->self_bit ? 0 : STATE_MSG_IN_Q);
    return (state & STATE_OFF_HEAP_MSGQ) && (state & arrivals) ? ST_ASK : ST_OK;
}

/* ---- length -------------------------------------------------------------------------------- */

/* The counter of the inner queue (with the middle one, up to OTP 26) and that of the outer queue
 * add up to the length, except while other signals wait between messages, while an OTP 26 or older
 * process is asked for its length, and while senders use the 64 buffers that an off-heap queue gets
 * under contention. All this passes quickly or shows in the state word. */

/* Up to OTP 26: a request for the length is on its way, and the counters are biased. */
static enum status biased(const struct reading *rd)
{
    uint64_t first = stamp_word(rd, LF_inq_first);
    uint64_t tag = 0;
    if (stamp_field(rd, LF_sig_flags) & FLAG_DELAYED_LEN)
        return ST_BUSY;
    if (first != 0 && !peek_word(rd->vm->reader, first + LF(rd->vm->lay, msg_tag), &tag))
        return ST_TORN;
    return first != 0 && !signal_is_message(tag) && signal_op(tag) == SIGNAL_LEN_MARK ? ST_BUSY
                                                                                      : ST_OK;
}

/* From OTP 27 any other signal counts the messages before it: wait until it is handled. */
static enum status segmented(const struct reading *rd)
{
    bool waits = (stamp_field(rd, LF_state) & (STATE_SIG_Q | STATE_SIG_IN_Q)) != 0;
    return waits ? ST_BUSY : ST_OK;
}

enum status queue_length(const struct reading *rd, uint64_t *length)
{
    enum status st = visible(rd);
    if (st == ST_OK)
        st = rd->vm->lay->len_is_biased ? biased(rd) : segmented(rd);
    *length = stamp_word(rd, LF_sig_len) + stamp_word(rd, LF_inq_len);
    return st == ST_OK && *length > MESSAGES_MAX ? ST_TORN : st;
}

bool queue_is_empty(const struct reading *rd)
{
    uint64_t state = stamp_field(rd, LF_state);
    return stamp_word(rd, LF_sig_first) == 0 && stamp_word(rd, LF_inq_first) == 0 &&
           !(state & STATE_SIG_Q) && visible(rd) == ST_OK;
}

bool queue_is_walkable(const struct reading *rd)
{
    return !(stamp_field(rd, LF_state) & STATE_SIG_Q) && visible(rd) == ST_OK;
}

/* ---- the messages themselves --------------------------------------------------------------- */

enum stages { INNER, OUTER, DONE };

void queue_start(struct queue *q, const struct reading *rd)
{
    *q = (struct queue){
        .stage = INNER, .cursor = stamp_word(rd, LF_sig_first), .steps = MESSAGES_MAX};
}

static enum status fragment(struct queue *q, const struct vm *vm)
{
    uint64_t used;
    if (!peek_word(vm->reader, q->frag + LF(vm->lay, frag_used), &used) ||
        !peek_word(vm->reader, q->frag + LF(vm->lay, frag_next), &q->frag))
        return ST_TORN;
    q->attached_words += used;
    return ST_OK;
}

static enum status message(struct queue *q, const struct vm *vm)
{
    uint64_t tag;
    uint64_t attached;
    uint64_t at = q->cursor;
    if (!peek_word(vm->reader, at + LF(vm->lay, msg_tag), &tag) ||
        !peek_word(vm->reader, at + LF(vm->lay, msg_attached), &attached) ||
        !peek_word(vm->reader, at + LF(vm->lay, msg_next), &q->cursor))
        return ST_TORN;
    if (!signal_is_message(tag)) {
        /* the inner queue has only messages and receive markers; elsewhere a signal waits */
        if (q->stage != INNER || signal_op(tag) != SIGNAL_RECV_MARK)
            return ST_BUSY;
        q->struct_bytes += LF(vm->lay, marker_size);
        return ST_OK;
    }
    if (tag == SIGNAL_EXTERNAL_MSG)
        return ST_ASK; /* its size is unknown until it is decoded */
    q->struct_bytes += LF(vm->lay, msg_size);
    /* 0: on the heap; 1: a fragment behind the message itself; else a separate fragment */
    q->frag = attached == 1 ? at + LF(vm->lay, msg_hfrag) : attached;
    return ST_OK;
}

static enum status one_queue(struct queue *q, const struct vm *vm, struct budget *b)
{
    while (q->cursor != 0 || q->frag != 0) {
        if (!budget_step(b)) {
            peek_prefetch(vm->reader, q->frag != 0 ? q->frag : q->cursor);
            return ST_TIMESLICE;
        }
        if (q->steps-- == 0)
            return ST_TORN;
        enum status st = q->frag != 0 ? fragment(q, vm) : message(q, vm);
        if (st != ST_OK)
            return st;
    }
    return ST_OK;
}

/* Only process_info knows what a signal in the middle queue, or tracing of receive (which keeps
 * messages there), would change. */
static enum status walkable(const struct reading *rd)
{
    if (stamp_field(rd, LF_trace_flags) != 0)
        return ST_ASK;
    if (stamp_field(rd, LF_state) & STATE_SIG_Q)
        return ST_BUSY;
    return visible(rd);
}

enum status queue_walk(struct queue *q, const struct reading *rd)
{
    enum status st = walkable(rd);
    while (st == ST_OK && q->stage != DONE) {
        st = one_queue(q, rd->vm, rd->budget);
        if (st == ST_OK && ++q->stage == OUTER)
            q->cursor = stamp_word(rd, LF_inq_first);
    }
    return st;
}
