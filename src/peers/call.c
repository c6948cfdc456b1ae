/* call.c - one question to the peers. SPDX-License-Identifier: Apache-2.0
 *
 * A question is an errand, which goes through the nodes of its segment in their order, and then to
 * the origin:
 *
 *     WAITING ──turn──> ASKING ──200──> FRAMES ──END──> done
 *       │                  │              └── cut or wrong after the HEAD ──> done(ERR_ORIGIN_CUT)
 *       └──────────────────┴── passed, no, late, or cut, wrong, NO before the HEAD ──> the next
 *                              node, or the origin
 *
 * A node that can't be asked now is waited for, or passed by (turn.c). If an answer is cut, its
 * caller keeps the bytes that came, and asks the origin for the rest, as after a cut by the origin.
 * The nodes after the owner stop at this one: the owner of the segment itself asks only the origin.
 *
 * An acknowledgement must come within PEER_HEAD_MS. An answer that is silent for PEER_SILENT_MS
 * counts as cut, and so do two more: a frame must be whole within FRAME_MS, however its bytes come,
 * and a node may say for PATIENCE_MS at most that it waits for its origin. The time of a pause does
 * not count.
 *
 * Other threads set a flag and wake the errand. Threads: the errand's. */
#include "peers/inside.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/metric.h"
#include "peers/frame.h"
#include "s3/conditions.h"
#include "s3/encode.h"

#define NODES_ASKED 2u                /* the owner, and the second in rank */
#define FRAME_MS 1000u                /* 64 KiB/s */
#define DECLINE_BYTES_MAX 4096u       /* of the body of a decline: it is read, so that the connection
                                       * can be reused */
#define PATIENCE_MS 30000u            /* more than an origin may be silent (origin_progress_time) */

struct question {
    struct origin_hook hook;
    struct errand errand;
    struct peers *peers;
    struct origin *origin;            /* that answers if no peer does */
    atomic_bool resumed, canceled;
    struct arena keep;
    const char *target;
    struct http_field fields[PEER_FIELDS_MAX + 1 + TRACE_FIELDS];
    size_t field_count;               /* without those of the trace */
    struct peer_question asked;       /* in keep */
    struct node *nodes[NODES_ASKED];
    size_t node_count, at;            /* at: the one that is asked now */
    struct turn turn;                 /* at it */
    struct exchange *exchange;        /* with it */
    struct question_span span;        /* of this exchange */
    struct answer {
        struct frame_reader reader;
        const char *why, *slow;       /* the answer is wrong, or too slow; static texts */
        uint64_t frame_ms, moved_ms;  /* the latest whole frame; the latest that was no WAIT */
        size_t taken;                 /* bytes of it that were taken before a pause */
        slice held;                   /* ... and the payload that the call did not take */
        bool acknowledged, declined;
        bool given;                   /* the call has got the head */
    } answer;
};

static struct node *asked_now(const struct question *question)
{
    check(question->at < question->node_count);
    return question->nodes[question->at];
}

/* ---- the end ---- */

static void leave(struct question *question)
{
    exchange_drop(&question->exchange);
    question_span_end(&question->span, err_name(ERR_CANCELED));
    turn_end(&question->turn);
    for (size_t i = 0; i < question->node_count; i++)
        node_unref(&question->nodes[i]);
    frame_reader_end(&question->answer.reader);
    errand_leave(&question->errand);
    arena_free(&question->keep);
    free(question);
}

static void finish(struct question *question, enum err err)
{
    struct origin_call *call = question->hook.call;
    exchange_drop(&question->exchange);
    hook_detach(&question->hook);
    leave(question);
    call->events->done(call, err);
}

static void go_to_origin(struct question *question)
{
    metric_add(M_PEERS_TO_ORIGIN, 1);
    if (hook_pass_on(&question->hook, question->origin, &question->canceled))
        leave(question);
    else
        finish(question, ERR_CANCELED);
}

static enum err must_stop(const struct question *question)
{
    struct origin_call *call = question->hook.call;
    if (atomic_load(&question->canceled))
        return ERR_CANCELED;
    if (errand_stopping(&question->errand))
        return ERR_STOPPING;
    return !question->answer.acknowledged && call->may_send ? call->may_send(call, question->at > 0)
                                                            : OK;
}

/* ---- the answer ---- */

static enum exchange_take wrong(struct question *question, const char *why)
{
    question->answer.why = why;
    return EXCHANGE_END;
}

/* Gives the call the head that the origin would give: 200 for all bytes of an object, otherwise
 * 206. Returns false if the answer is not what was asked for. */
static bool give_head(struct question *question)
{
    struct origin_call *call = question->hook.call;
    const struct frame_head *head = &question->answer.reader.head;
    struct arena *keep = &question->answer.reader.keep;
    const struct peer_question *asked = &question->asked;
    if ((asked->etag.len && (!slice_eq(head->etag, asked->etag) || head->size != asked->size)) ||
        head->first != asked->first || head->end != MIN(asked->end, head->size) ||
        head->first >= head->end)
        return false;
    struct http_field *fields = arena_alloc(keep, (head->field_count + 1) * sizeof(*fields));
    if (head->field_count)
        memcpy(fields, head->fields, head->field_count * sizeof(*fields));
    fields[head->field_count] = (struct http_field){
        S("content-range"), arena_printf(keep, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64,
                                         head->first, head->end - 1, head->size) };
    struct origin_reply reply = {
        .status = head->full && head->end - head->first == head->size ? 200 : 206,
        .has_length = true, .length = head->end - head->first,
        .fields = fields, .field_count = head->field_count + 1, .tries = 1,
        .from_peer = true, .age_ms = head->age_ms, .all_fields = head->full,
    };
    question->answer.given = true;
    call->events->head(call, &reply);
    return true;
}

/* Returns EXCHANGE_PAUSE if the call pauses, and then the bytes come again. */
static enum exchange_take give_bytes(struct question *question, slice bytes)
{
    struct origin_call *call = question->hook.call;
    struct node *node = asked_now(question);
    if (call->events->body(call, bytes) != ORIGIN_TAKEN)
        return EXCHANGE_PAUSE;
    atomic_fetch_add_explicit(&node->counts.bytes, bytes.len, memory_order_relaxed);
    question->span.bytes += bytes.len;
    metric_add(M_PEERS_BYTES, bytes.len);
    return EXCHANGE_TAKEN;
}

/* True if the head says that the origin gave its answer too long ago for this question, or that it
 * does not name a version. */
static bool is_too_old(const struct question *question)
{
    const struct frame_head *head = &question->answer.reader.head;
    return !question->asked.etag.len && (head->age_ms > question->asked.max_age_ms ||
                                         !s3_etag_is_strong(head->etag));
}

static enum exchange_take take_frame(struct question *question, enum frame_found found, slice bytes)
{
    switch (found) {
    case FRAME_FOUND_HEAD:
        question->answer.declined = is_too_old(question);
        if (question->answer.declined)
            return EXCHANGE_END;
        return give_head(question) ? EXCHANGE_TAKEN
                                   : wrong(question, "it answered with other bytes than asked for");
    case FRAME_FOUND_DATA:
        return give_bytes(question, bytes);
    case FRAME_FOUND_NO:
        question->answer.declined = true;
        return EXCHANGE_TAKEN;
    case FRAME_FOUND_BAD:
        return wrong(question, bytes.ptr);
    default:
        return EXCHANGE_TAKEN;
    }
}

static void frame_came(struct answer *answer, bool moves, uint64_t now_ms)
{
    answer->frame_ms = now_ms;
    if (moves)
        answer->moved_ms = now_ms;
}

/* Returns NULL, or why the node is too slow. */
static const char *too_slow(const struct answer *answer, uint64_t now_ms)
{
    return now_ms > answer->frame_ms + FRAME_MS    ? "its bytes come too slowly"
         : now_ms > answer->moved_ms + PATIENCE_MS ? "it waits too long for its origin" : NULL;
}

static enum exchange_take read_frames(struct question *question, slice bytes, slice rest)
{
    struct answer *answer = &question->answer;
    slice payload;
    for (;;) {
        uint64_t now_ms = mono_ms();
        if (atomic_load(&question->canceled))
            return EXCHANGE_END;
        if (answer->reader.ended)
            return EXCHANGE_TAKEN;
        enum frame_found found = rest.len ? frame_read(&answer->reader, &rest, &payload)
                                          : FRAME_FOUND_NOTHING;
        if (found != FRAME_FOUND_NOTHING)
            frame_came(answer, found != FRAME_FOUND_WAIT, now_ms);
        answer->slow = too_slow(answer, now_ms);
        if (answer->slow)
            return EXCHANGE_END;
        if (found == FRAME_FOUND_NOTHING)
            return EXCHANGE_TAKEN;
        enum exchange_take take = take_frame(question, found, payload);
        if (take == EXCHANGE_PAUSE) {
            answer->held = payload;
            answer->taken = bytes.len - rest.len;
        }
        if (take != EXCHANGE_TAKEN)
            return take;
    }
}

static enum exchange_take skip_decline(struct answer *answer, slice bytes)
{
    answer->taken += bytes.len;
    return answer->taken > DECLINE_BYTES_MAX || too_slow(answer, mono_ms()) ? EXCHANGE_END
                                                                            : EXCHANGE_TAKEN;
}

/* After a pause, libcurl delivers the same bytes again, perhaps in other pieces. The frame reader
 * has them already, up to the end of the frame whose payload the call did not take. */
static enum exchange_take on_body(void *arg, slice bytes)
{
    struct question *question = arg;
    struct answer *answer = &question->answer;
    if (!answer->acknowledged)
        return skip_decline(answer, bytes);
    slice rest = slice_from(bytes, answer->taken);
    if (answer->held.len) {
        if (give_bytes(question, answer->held) != EXCHANGE_TAKEN)
            return EXCHANGE_PAUSE;
        frame_came(answer, true, mono_ms());
    }
    answer->held.len = 0;
    answer->taken -= bytes.len - rest.len;
    return read_frames(question, bytes, rest);
}

static enum exchange_take on_head(void *arg, const struct origin_reply *reply)
{
    struct question *question = arg;
    struct answer *answer = &question->answer;
    question->span.status = reply->status;
    answer->acknowledged = reply->status == 200;
    answer->declined = reply->status != 200;
    frame_came(answer, true, mono_ms());
    if (answer->acknowledged)
        node_note(asked_now(question), CIRCUIT_ACK, question->turn.number, "");
    return EXCHANGE_TAKEN;
}

static bool on_ready(void *arg)
{
    return must_stop(arg) == OK;
}

static void ask_next(struct question *question);

/* Returns what the span says of a question that brought no bytes, or NULL. */
static const char *failure_of(const struct answer *answer, const struct exchange_end *end)
{
    if (answer->why)
        return "wrong_answer";
    if (answer->declined)
        return "declined";
    return answer->reader.ended ? NULL : err_name(end->err ? end->err : ERR_ORIGIN_CUT);
}

static bool is_whole(const struct answer *answer)
{
    return answer->declined || answer->reader.ended;
}

/* Tells the circuit of the node how the answer has ended. Nothing, if this node has ended it. */
static void judge_end(const struct question *question, const struct exchange_end *end, enum err stop)
{
    const struct answer *answer = &question->answer;
    enum circuit_event event = answer->why ? CIRCUIT_BAD
                             : is_whole(answer) ? CIRCUIT_WHOLE
                             : answer->acknowledged ? CIRCUIT_CUT : CIRCUIT_LATE;
    const char *why = answer->why ? answer->why : answer->slow ? answer->slow
                    : *end->why ? end->why : err_text(end->err);
    if (event == CIRCUIT_BAD || event == CIRCUIT_WHOLE || !stop)
        node_note(asked_now(question), event, question->turn.number, why);
}

static void on_end(void *arg, const struct exchange_end *end)
{
    struct question *question = arg;
    struct answer *answer = &question->answer;
    question->exchange = NULL;
    question_span_end(&question->span, failure_of(answer, end));
    bool complete = answer->reader.ended && !answer->declined;
    enum err stop = complete ? OK : must_stop(question);
    judge_end(question, end, stop);
    turn_end(&question->turn);
    if (stop) {
        finish(question, stop);
    } else if (complete || answer->given) {
        finish(question, complete ? OK : ERR_ORIGIN_CUT);
    } else {
        question->at++;
        ask_next(question);
    }
}

static const struct exchange_events events = { on_ready, on_head, on_body, on_end };

/* ---- asking ---- */

static void ask(struct question *question)
{
    struct exchange_mutual mutual;
    struct node *node = asked_now(question);
    if (question->at > 0)
        hook_ask_next(&question->hook);
    size_t count = question->field_count;
    count += question_span_begin(&question->span, &question->hook.call->trace, node,
                                 &question->asked, &question->fields[count]);
    struct exchange_ask ask = node_ask(node, &mutual, question->target, question->fields, count);
    atomic_fetch_add_explicit(&node->counts.asked, 1, memory_order_relaxed);
    metric_add(M_PEERS_ASKED, 1);
    question->exchange = exchange_start(&question->errand, &ask, &events, question);
}

/* To be called in the errand, or when an exchange has ended. */
static void ask_next(struct question *question)
{
    struct turn *turn = &question->turn;
    frame_reader_end(&question->answer.reader);
    question->answer = (struct answer){ 0 };
    frame_reader_init(&question->answer.reader, &question->asked.place);
    enum err stop = must_stop(question);
    if (stop) {
        finish(question, stop);
        return;
    }
    for (; question->at < question->node_count; question->at++) {
        enum turn_where where = turn_take(asked_now(question), turn,
                                          atomic_load(&question->hook.call->rank));
        if (where == TURN_WAITS)
            errand_due(&question->errand, turn->until_ms);
        else if (where == TURN_HAS)
            ask(question);
        if (where != TURN_PASSED)
            return;
        turn_end(&question->turn);
    }
    go_to_origin(question);
}

static void woken(struct errand *errand)
{
    struct question *question = container_of(errand, struct question, errand);
    bool resumed = atomic_exchange(&question->resumed, false);
    enum err stop = must_stop(question);
    if (stop)
        finish(question, stop);
    else if (!question->exchange)
        ask_next(question);
    else if (resumed)
        exchange_resume(question->exchange);
}

/* Finds the nodes that come before this one in the rank of the segment. */
static void find_nodes(struct question *question)
{
    size_t best[NODES_ASKED];
    struct view *view = peers_view(question->peers);
    size_t count = rank_best(view->ranks, view->count, &question->asked.place, best, NODES_ASKED);
    for (size_t i = 0; i < count && view->nodes[best[i]]; i++)
        question->nodes[question->node_count++] = node_ref(view->nodes[best[i]]);
    view_unref(&view);
}

static slice keep_text(struct question *question, slice text)
{
    return arena_copy(&question->keep, text);
}

static void write_question(struct question *question, const struct peer_question *from,
                           const struct origin_call *call)
{
    struct peer_question *asked = &question->asked;
    *asked = *from;
    memcpy(asked->node, question->peers->options.id, NODE_ID_BYTES);
    asked->place.endpoint = origin_endpoint(question->origin);
    asked->place.bucket = call->bucket;
    asked->place.key = call->key;
    asked->place.version = keep_text(question, from->place.version);
    asked->identity = keep_text(question, from->identity);
    asked->etag = keep_text(question, from->etag);
    asked->place.segment = from->first / PEERS_SEGMENT_BYTES;
    slice target = question_write(&question->keep, asked, question->fields,
                                  &question->field_count);
    question->target = keep_text(question, target).ptr;    /* ends with a NUL */
    question->fields[question->field_count++] =
        (struct http_field){ S("Host"), slice_of(question->peers->options.name) };
}

static void enter(struct origin_hook *hook)
{
    struct question *question = container_of(hook, struct question, hook);
    errand_enter(carriers_next(question->peers->carriers), &question->errand);
}

bool peers_start(struct peers *peers, struct origin *origin, struct origin_call *call,
                 const struct peer_question *from)
{
    struct question *question = must_alloc(sizeof(*question));
    check(call->op == S3_GET_OBJECT && !call->body);
    question->peers = peers;
    question->origin = origin;
    write_question(question, from, call);
    find_nodes(question);
    if (!question->node_count) {    /* this node is the owner */
        arena_free(&question->keep);
        free(question);
        return false;
    }
    question->errand.woken = woken;
    question->turn.errand = &question->errand;
    hook_attach(&question->hook, &peers->source, call, enter);
    return true;
}

/* ---- the kind ---- */

static void resume(struct origin_hook *hook)
{
    struct question *question = container_of(hook, struct question, hook);
    atomic_store(&question->resumed, true);
    errand_wake(&question->errand);
}

static void cancel(struct origin_hook *hook)
{
    struct question *question = container_of(hook, struct question, hook);
    atomic_store(&question->canceled, true);
    errand_wake(&question->errand);
}

static void ask_again(struct origin_hook *hook)
{
    errand_wake(&container_of(hook, struct question, hook)->errand);
}

const struct origin_kind peers_kind = { .resume = resume, .cancel = cancel, .ask_again = ask_again };
