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
 * A node that can't be asked now is waited for, or passed by (turn.c). If a node declines because of
 * an answer of the origin, the question goes to the origin: the next node would get the same answer.
 * If an answer is cut, the caller keeps the bytes that came, and asks the origin for the rest, as
 * after a cut by the origin. Only nodes that rank before this node are asked: the owner of a segment asks no peer,
 * and the second in rank asks only the owner.
 *
 * An acknowledgement must come within PEER_HEAD_MS. An answer that is silent for PEER_SILENT_MS
 * counts as cut, and so does one that is too slow (answer.c).
 *
 * Other threads set a flag and wake the errand. Threads: the errand's. */
#include "peers/inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/metric.h"
#include "peers/answer.h"
#include "s3/encode.h"

#define NODES_ASKED 2u                /* the owner, and the second in rank */
#define LOOK_MS 500u                  /* an answer that comes too slowly is noticed so late */

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
    struct answer answer;             /* of it */
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
    answer_end(&question->answer);
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

static enum exchange_take on_head(void *arg, const struct origin_reply *reply)
{
    struct question *question = arg;
    question->span.status = reply->status;
    answer_take_status(&question->answer, reply->status);
    errand_due(&question->errand, mono_ms() + LOOK_MS);
    if (question->answer.acknowledged)
        node_note(asked_now(question), CIRCUIT_ACK, question->turn.number, "");
    return EXCHANGE_TAKEN;
}

static enum exchange_take on_body(void *arg, slice bytes)
{
    struct question *question = arg;
    struct node *node = asked_now(question);
    uint64_t before = question->answer.bytes;
    enum exchange_take take = answer_take(&question->answer, bytes);
    uint64_t more = question->answer.bytes - before;
    atomic_fetch_add_explicit(&node->counts.bytes, more, memory_order_relaxed);
    question->span.bytes += more;
    metric_add(M_PEERS_BYTES, more);
    return take;
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

/* Tells the circuit of the node how the answer has ended. If this node has ended it, only a whole or
 * a wrong answer says something about the other node. */
static void judge_end(const struct question *question, const struct exchange_end *end, enum err stop)
{
    const struct answer *answer = &question->answer;
    enum circuit_event event = answer->why ? CIRCUIT_BAD
                             : answer_is_whole(answer) ? CIRCUIT_WHOLE
                             : answer->acknowledged ? CIRCUIT_CUT : CIRCUIT_LATE;
    const char *why = answer->why ? answer->why : answer->slow ? answer->slow : node_failure(end);
    if (event == CIRCUIT_BAD || event == CIRCUIT_WHOLE || !stop)
        node_note(asked_now(question), event, question->turn.number, why);
}

static void on_end(void *arg, const struct exchange_end *end)
{
    struct question *question = arg;
    struct answer *answer = &question->answer;
    question->exchange = NULL;
    question_span_end(&question->span, failure_of(answer, end));
    bool complete = answer_is_complete(answer);
    enum err stop = complete ? OK : must_stop(question);
    judge_end(question, end, stop);
    turn_end(&question->turn);
    if (stop) {
        finish(question, stop);
    } else if (complete || answer->given) {
        finish(question, complete ? OK : ERR_ORIGIN_CUT);
    } else {
        question->at = answer_is_of_origin(answer) ? question->node_count : question->at + 1;
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
    answer_end(&question->answer);
    answer_begin(&question->answer, &question->asked, question->hook.call, &question->canceled);
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

/* The answer has begun, and may be too slow by now. */
static void look(struct question *question)
{
    static const struct exchange_end late = { .err = ERR_ORIGIN_TIMEOUT, .why = "" };
    if (!answer_is_late(&question->answer, mono_ms())) {
        errand_due(&question->errand, mono_ms() + LOOK_MS);
        return;
    }
    exchange_drop(&question->exchange);
    on_end(question, &late);
}

static void woken(struct errand *errand)
{
    struct question *question = container_of(errand, struct question, errand);
    bool resumed = atomic_exchange(&question->resumed, false);
    enum err stop = must_stop(question);
    if (stop) {
        finish(question, stop);
        return;
    }
    if (!question->exchange) {
        ask_next(question);
        return;
    }
    if (resumed)
        exchange_resume(question->exchange);
    if (question->answer.frame_ms)
        look(question);
}

/* Finds the nodes that rank before this one for the segment, at most NODES_ASKED. */
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
