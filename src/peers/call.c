/* call.c - one question to the peers. SPDX-License-Identifier: Apache-2.0
 *
 * A question is an errand, which goes through the nodes of its segment in their order, and then to
 * the origin:
 *
 *     ASKING ──200──> FRAMES ──END──> done
 *       │                └── cut or wrong after the HEAD ──> done(ERR_ORIGIN_CUT)
 *       └── no, late, cut, wrong, NO before the HEAD ──> the next node, or the origin
 *
 * The caller of a call whose answer was cut asks for the rest, as after a cut by the origin. The
 * nodes after the owner stop at this one: the owner of the segment itself asks only the origin.
 * Other threads set a flag and wake the errand. Threads: the errand's. */
#include "peers/inside.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/metric.h"
#include "peers/frame.h"
#include "s3/encode.h"

#define NODES_ASKED 2u                /* the owner, and the second in rank */

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
    struct exchange *exchange;        /* with it */
    struct question_span span;        /* of this exchange */
    struct answer {
        struct frame_reader reader;
        const char *why;              /* the answer is wrong; static text */
        size_t taken;                 /* bytes of it that were taken before a pause */
        slice held;                   /* ... and the payload that the call did not take */
        bool acknowledged, declined;
        bool given;                   /* the call has got the head */
    } answer;
};

/* ---- the end ---- */

static void leave(struct question *question)
{
    exchange_drop(&question->exchange);
    question_span_end(&question->span, err_name(ERR_CANCELED));
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
    if ((asked->etag.len && !slice_eq(head->etag, asked->etag)) || head->first != asked->first ||
        head->end != MIN(asked->end, head->size) || head->first >= head->end)
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
    struct node *node = question->nodes[question->at];
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
                                         !head->etag.len || slice_starts(head->etag, S("W/")));
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
        return EXCHANGE_END;
    case FRAME_FOUND_BAD:
        return wrong(question, bytes.ptr);
    default:
        return EXCHANGE_TAKEN;
    }
}

/* After a pause, libcurl delivers the same bytes again, perhaps in other pieces. The frame reader
 * has them already, up to the end of the frame whose payload the call did not take. */
static enum exchange_take on_body(void *arg, slice bytes)
{
    struct question *question = arg;
    struct answer *answer = &question->answer;
    slice rest = slice_from(bytes, answer->taken), payload;
    if (answer->held.len && give_bytes(question, answer->held) != EXCHANGE_TAKEN)
        return EXCHANGE_PAUSE;
    answer->held.len = 0;
    answer->taken -= bytes.len - rest.len;
    for (;;) {
        if (atomic_load(&question->canceled))
            return EXCHANGE_END;
        if (answer->reader.ended || !rest.len)
            return EXCHANGE_TAKEN;
        enum frame_found found = frame_read(&answer->reader, &rest, &payload);
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

static enum exchange_take on_head(void *arg, const struct origin_reply *reply)
{
    struct question *question = arg;
    question->span.status = reply->status;
    question->answer.acknowledged = reply->status == 200;
    question->answer.declined = reply->status != 200;
    return question->answer.acknowledged ? EXCHANGE_TAKEN : EXCHANGE_END;
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

static void on_end(void *arg, const struct exchange_end *end)
{
    struct question *question = arg;
    struct answer *answer = &question->answer;
    struct node *node = question->nodes[question->at];
    question->exchange = NULL;
    question_span_end(&question->span, failure_of(answer, end));
    bool complete = answer->reader.ended && !answer->declined;
    enum err stop = complete ? OK : must_stop(question);
    if (answer->why)
        node_failed(node, answer->why, true);
    else if (!complete && !answer->declined && !stop)
        node_failed(node, *end->why ? end->why : err_text(end->err), false);
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

/* To be called in the errand, or when an exchange has ended. */
static void ask_next(struct question *question)
{
    struct exchange_mutual mutual;
    enum err stop = must_stop(question);
    if (stop) {
        finish(question, stop);
        return;
    }
    if (question->at == question->node_count) {
        go_to_origin(question);
        return;
    }
    struct node *node = question->nodes[question->at];
    frame_reader_end(&question->answer.reader);
    question->answer = (struct answer){ 0 };
    frame_reader_init(&question->answer.reader, &question->asked.place);
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
