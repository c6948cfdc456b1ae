/* peer_answer.c - a question of a peer: a get becomes frames. SPDX-License-Identifier: Apache-2.0
 *
 *     begin ── decided within ACK_MS? ─┬─ yes: "have" or "fetching", HEAD, DATA ..., END
 *                                      ├─ yes, a refusal: 404, 412 or 503
 *                                      └─ no:  "fetching", WAIT ..., then HEAD, DATA ..., END, or NO
 *
 * A disk needs a moment even for cached bytes. So the answer begins after ACK_MS at the latest,
 * well within the time that peers wait for it (100 ms). From then on the peer hears something each
 * FRAME_WAIT_MS: silence means that this node is gone. If the bytes fail to come after the HEAD, the
 * connection is reset (rule H10 in src/README.md).
 *
 * The get reads as the shared identity. One piece of it is in memory, and is sent; the next one is
 * requested when the peer has taken it (rule H5). So a slow peer holds up nobody: a record that is
 * stored is fetched at the speed of the origin, and a stream that is not stored has the pace of its
 * fastest reader (cache/fetch.h).
 *
 * With peer_bandwidth, an answer takes the bytes of each send from the pace of all answers
 * (peers/pace.h). While it waits for them, the peer gets WAIT frames. Threads: the loop. */
#include <assert.h>

#include "base/clock.h"
#include "front/peering.h"
#include "s3/conditions.h"
#include "s3/encode.h"

#define ACK_MS 10u
#define UNSIZED_BYTES ((uint64_t)128 * 1024)

static void let_go(struct peer_answer *answer)
{
    http_timer_stop(&answer->timer);
    http_timer_stop(&answer->pace.look);
    pace_leave(answer->server->pace, &answer->pace.paced);
    if (answer->pace.ticket)
        ticket_end(&answer->pace.ticket);
    get_end(&answer->get);
}

/* ---- frames ---- */

/* The runs of one send. The frames lie in the answer. */
struct load {
    struct peer_body *body;
    slice runs[2 * (PEER_SEND_FRAMES + 2)];
    size_t run_count, frame_count;
};
static_assert(2 * (PEER_SEND_FRAMES + 2) <= HTTP_RUNS_MAX, "one write has room for all runs");

static void add_frame(struct load *load, enum frame_kind kind, slice payload)
{
    struct peer_body *body = load->body;
    check(load->frame_count < countof(body->frames));
    uint8_t *frame = body->frames[load->frame_count++];
    frame_write(kind, payload, body->seed, body->next, frame);
    load->runs[load->run_count++] = (slice){ (const char *)frame, FRAME_BYTES };
    if (payload.len)
        load->runs[load->run_count++] = payload;
}

/* Nothing of the answer may be touched after this: the connection may be gone. */
static void send_load(struct peer_answer *answer, const struct load *load, bool last)
{
    answer->sending = true;
    answer->ended = last;
    http_reply_send_runs(answer->http, load->runs, load->run_count, last);
}

static void send_frame(struct peer_answer *answer, enum frame_kind kind, slice payload)
{
    struct load load = { .body = &answer->body };
    add_frame(&load, kind, payload);
    send_load(answer, &load, kind == FRAME_NO);
}

/* ---- the beginning of the answer ---- */

static void step(void *arg);

static void proceed(void *arg)
{
    struct peer_answer *answer = arg;
    answer->sending = false;
    if (!answer->ended)
        step(answer);
}

static void stop(void *arg)
{
    let_go(arg);
}

static const struct http_source source = { proceed, stop };

static void acknowledge(struct peer_answer *answer, slice what)
{
    const struct http_field fields[] = {
        { S("content-type"), S("application/octet-stream") },
        { S("x-penstock-peer"), what },
    };
    answer->acknowledged = true;
    http_reply_start(answer->http, 200, fields, countof(fields), HTTP_OPEN, &source, answer);
}

/* The time for the acknowledgement, or for a WAIT, is over. */
static void tick(void *arg)
{
    struct peer_answer *answer = arg;
    http_timer_stop(&answer->timer);
    answer->timer = http_timer_start(http_request_loop(answer->http), FRAME_WAIT_MS, tick, answer);
    if (!answer->acknowledged)
        acknowledge(answer, S("fetching"));
    if (!answer->sending)
        send_frame(answer, FRAME_WAIT, S(""));
}

/* ---- the decision ---- */

static const struct why_not {
    enum err err;
    int status;
    enum metric result;
    slice why;
} refusals[] = {
    { ERR_PRECONDITION, 412, M_PEER_CHANGED, { "changed", 7 } },
    { ERR_CHANGED, 412, M_PEER_CHANGED, { "changed", 7 } },
    { ERR_SLOW_DOWN, 503, M_PEER_BUSY, { "busy", 4 } },
    { ERR_LIMIT, 503, M_PEER_BUSY, { "busy", 4 } },
    { ERR_STOPPING, 503, M_PEER_BUSY, { "stopping", 8 } },
    { ERR_NO_SUCH_KEY, 404, M_PEER_NO, { "not_found", 9 } },
    { ERR_NO_SUCH_BUCKET, 404, M_PEER_NO, { "not_found", 9 } },
    { ERR_DENIED, 404, M_PEER_NO, { "refused", 7 } },
    { ERR_BAD_RANGE, 404, M_PEER_NO, { "range", 5 } },
    { ERR_TOO_LARGE, 404, M_PEER_NO, { "headers", 7 } },    /* of metadata that no frame can have */
    { OK, 404, M_PEER_NO, { "origin", 6 } },    /* last: any other error */
};

static void refuse(struct peer_answer *answer, enum err err)
{
    const struct why_not *why = refusals;
    while (why->err && why->err != err)
        why++;
    let_go(answer);
    answer->result = why->result;
    if (answer->acknowledged)
        send_frame(answer, FRAME_NO, why->why);
    else
        peer_reply(answer->http, why->status, why->why);
}

/* Makes the payload of the HEAD. */
static enum err make_head(struct peer_answer *answer, const struct get_answer *found, slice *ret)
{
    const struct metadata *metadata = found->metadata;
    struct fields fields = { .keep = answer->keep };
    char *date = arena_alloc(answer->keep, HTTP_DATE_BYTES);
    http_date_write(metadata->modified_s, date);
    fields_add(&fields, S("etag"), metadata->etag);
    fields_add(&fields, S("last-modified"), slice_of(date));
    for (slice rest = metadata->fields; rest.len;) {
        struct http_field field = fields_cut(&rest);
        if (fields.count > HTTP_FIELDS_MAX)
            return ERR_TOO_LARGE;
        fields_add(&fields, field.name, field.value);
    }
    return frame_head_write(answer->keep, &(struct frame_head){
        .first = found->first, .end = found->end, .size = metadata->size,
        .age_ms = get_age_ms(answer->get), .full = metadata->full,
        .fields = fields.list, .field_count = fields.count }, ret);
}

/* Returns false if the answer is a refusal. */
static bool decide(struct peer_answer *answer, const struct get_answer *found)
{
    struct peer_body *body = &answer->body;
    enum err err = found->err;
    if (!err && !s3_etag_is_strong(found->metadata->etag))
        err = ERR_PRECONDITION;
    if (!err)
        err = make_head(answer, found, &body->head);
    if (err) {
        refuse(answer, err);
        return false;
    }
    bool fetched = found->source == GET_MISS || found->source == GET_PARTIAL;
    answer->decided = true;
    answer->result = fetched ? M_PEER_FETCHING : M_PEER_HAVE;
    body->next = found->first;
    body->end = found->end;
    pace_resize(answer->server->pace, &answer->pace.paced, body->end - body->next);
    body->seed = frame_seed(&answer->question.place, found->metadata->etag);
    if (answer->acknowledged)
        return true;
    acknowledge(answer, fetched ? S("fetching") : S("have"));
    http_timer_stop(&answer->timer);
    answer->timer = http_timer_start(http_request_loop(answer->http), FRAME_WAIT_MS, tick, answer);
    return true;
}

/* ---- the bytes ---- */

/* The pace wakes the answer that comes next, on any thread. */
static void wake(void *arg)
{
    ticket_wake(((struct peer_answer *)arg)->pace.ticket);
}

/* Returns how many bytes may be sent now; 0: step() is called when it is time to look again. */
static size_t take_bytes(struct peer_answer *answer)
{
    struct answer_pace *mine = &answer->pace;
    struct pace *pace = answer->server->pace;
    size_t most = MIN(answer->body.piece.len, (size_t)PEER_SEND_FRAMES * FRAME_DATA_MAX);
    bool waited = mine->paced.waits;
    size_t taken = pace_take(pace, &mine->paced, most, mono_ns());
    metric_add(M_PEER_PACED, !taken && !waited);
    http_timer_stop(&mine->look);
    if (!taken && pace_is_next(pace, &mine->paced))
        mine->look = http_timer_start(http_request_loop(answer->http), PACE_LOOK_MS, step, answer);
    return taken;
}

/* Sends the HEAD, if it was not sent, and this many bytes of the piece. */
static void send_piece(struct peer_answer *answer, size_t bytes)
{
    struct peer_body *body = &answer->body;
    struct load load = { .body = body };
    if (body->head.len)
        add_frame(&load, FRAME_HEAD, body->head);
    body->head = S("");
    while (bytes) {
        slice data = slice_sub(body->piece, 0, MIN(bytes, (size_t)FRAME_DATA_MAX));
        add_frame(&load, FRAME_DATA, data);
        bytes -= data.len;
        body->next += data.len;
        body->sent += data.len;
        body->piece = slice_from(body->piece, data.len);
        metric_add(M_PEER_SENT, data.len);
    }
    bool last = body->next == body->end;
    if (last)
        add_frame(&load, FRAME_END, S(""));
    send_load(answer, &load, last);
}

static void send_next(struct peer_answer *answer)
{
    struct peer_body *body = &answer->body;
    enum err err = body->piece.len ? OK : get_next(answer->get, &body->piece);
    if (err == ERR_WAIT)
        return;
    if (err) {
        answer->result = M_PEER_FAILED;
        let_go(answer);
        http_reply_abort(answer->http);
        return;
    }
    check(body->piece.len <= body->end - body->next);
    size_t bytes = take_bytes(answer);
    if (bytes)
        send_piece(answer, bytes);
}

/* Continues the answer until it has to wait: for the get, or for the peer. */
static void step(void *arg)
{
    struct peer_answer *answer = arg;
    const struct get_answer *found;
    if (answer->get && answer->sending)    /* a WAIT; the peer takes nothing now, but others may */
        pace_step_back(answer->server->pace, &answer->pace.paced);
    if (!answer->get || answer->sending)
        return;
    if (!answer->decided) {
        if (get_decide(answer->get, &found) == ERR_WAIT)
            return;
        if (!decide(answer, found))
            return;
    }
    send_next(answer);
}

/* ---- the whole ---- */

static void ended(void *arg, const struct http_outcome *outcome)
{
    struct peer_answer *answer = arg;
    let_go(answer);
    peer_span_end(answer, outcome);
    peers_count_answer(answer->server->options.peers, answer->question.node, answer->body.sent);
    metric_add(outcome->complete ? answer->result : M_PEER_FAILED, 1);
    atomic_fetch_sub(&answer->server->requests, 1);
}

/* Without a version, the peer does not know the size either: objects are small, as a rule. */
static uint64_t promised(const struct peer_question *question)
{
    uint64_t bytes = question->end - question->first;
    return question->etag.len ? bytes : MIN(bytes, UNSIZED_BYTES);
}

bool peer_answer_begin(struct peer_server *server, struct http_request *http,
                       const struct peer_question *question, const struct rules *rules)
{
    struct front_loop *loop = http_loop_local(http_request_loop(http));
    struct peer_answer *answer = arena_alloc(http_request_arena(http), sizeof(*answer));
    *answer = (struct peer_answer){ .server = server, .http = http, .question = *question,
                                    .keep = http_request_arena(http), .result = M_PEER_FAILED,
                                    .pace.paced = { .wake = wake, .arg = answer } };
    uint64_t now_ms = ageing_ms();
    slice etag = question->etag;
    if (!pace_enter(server->pace, &answer->pace.paced, question->node, promised(question)))
        return false;
    peer_span_begin(answer);
    const struct get_ask ask = {
        .rules = rules, .bucket = question->place.bucket, .key = question->place.key,
        .version = question->place.version,
        .range = { .kind = RANGE_SPAN, .first = question->first, .last = question->end - 1 },
        .conditions = { .if_match = etag.len ? etag : (slice){ 0 }, .if_modified_since = -1,
                        .if_unmodified_since = -1 },
        .reader = { NULL, 0 },
        .for_peer = { true, etag.len ? 0 : MAX(now_ms - MIN(now_ms, question->max_age_ms), 1u),
                      question->all_fields },
        .trace = answer->trace.given ? &answer->trace : NULL,
    };
    answer->pace.ticket = ticket_new(http_loop_mailbox(http_request_loop(http)), step, answer);
    http_request_on_end(http, ended, answer);
    answer->timer = http_timer_start(http_request_loop(http), ACK_MS, tick, answer);
    answer->get = get_start(loop->cache, &ask, step, answer);
    step(answer);
    return true;
}
