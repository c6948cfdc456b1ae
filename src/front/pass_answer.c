/* pass_answer.c - the origin's answer to a pass, on its way to the client.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pass is a request that the origin answers (pass.c). A short answer is sent when all of it has
 * come. An answer that is long, or comes slowly, is streamed (relay.h). If its client reads slowly,
 * another request may get the answer's connection to the origin. If the answer is an object of a
 * known version, the rest is then requested by ranges; any other answer is cut. Threads: the
 * loop. */
#include "front/passing.h"

#define SLOW_ANSWER_MS 5000    /* an answer that takes longer is streamed */
#define SLOW_READER_MS 5000    /* the time between two looks at the progress of a client */

static atomic_uint yielded_count;

void pass_answer_forget(struct pass *pass)
{
    if (pass->rest.yielded)
        atomic_fetch_sub(&yielded_count, 1);
    pass->rest.yielded = false;
}

/* Takes the call from the pass, because the call ends with the answer. */
static struct call *take_call(struct pass *pass)
{
    struct call *call = pass->call;
    check(call && !pass->relaying);
    pass->call = NULL;
    call->gone = NULL;
    return call;
}

void pass_answer_whole(struct pass *pass)
{
    struct call *call = take_call(pass);
    struct pass_answer *answer = &pass->answer;
    struct fields *fields = &answer->fields;
    forward_location(call, answer->status, fields);
    slice body = forward_document(call, answer->status, relay_whole(&pass->relay, &pass->arena));
    call->access.cost.origin_bytes = body.len;
    if (s3_operation(call->s3.op)->method == S3_HEAD)    /* answer->length is that of a GET */
        http_reply_start(call->http, answer->status, fields->list, fields->count, answer->length,
                         NULL, NULL);
    else
        reply_whole(call, answer->status, fields, body);
    pass_settle(pass);
}

/* Called when the client has the whole streamed answer, or has gone. */
static void relayed(void *arg)
{
    struct pass *pass = arg;
    pass->relaying = NULL;
    http_timer_stop(&pass->timer);
    if (!pass->running)
        pass_settle(pass);
    else if (s3_only_reads(pass->request.origin.op))
        origin_cancel(&pass->request.origin);
}

/* Requests the next range, since the client has taken most of the bytes that came. */
static void ask_rest(struct pass *pass)
{
    struct pass_request *request = &pass->request;
    pass->rest.waits = false;
    pass->rest.got = relay_received(&pass->relay);
    request->origin.fields = rest_ask(&pass->rest, request->fields, request->field_count,
                                      &request->origin.field_count);
    pass->answer.err = OK;
    atomic_store(&pass->answer.over, false);
    pass_call_origin(pass);
}

static void wants(void *arg)
{
    struct pass *pass = arg;
    if (pass->rest.waits)
        ask_rest(pass);
    else
        origin_resume(&pass->request.origin);
}

/* For an answer that cannot continue by ranges. While the client takes its bytes, the answer keeps
 * its origin connection. Otherwise another call may get the connection, and the answer is cut. */
static void look(void *arg)
{
    struct pass *pass = arg;
    bool slow = relay_is_slow(&pass->relay);
    http_timer_stop(&pass->timer);
    pass->timer = http_timer_start(http_request_loop(pass->relaying->http), SLOW_READER_MS, look,
                                   pass);
    relay_spare(&pass->relay, slow);
    if (slow)    /* the origin then calls relay_put again, which now returns ORIGIN_SPARE */
        origin_resume(&pass->request.origin);
}

static void stream(struct pass *pass)
{
    struct call *call = take_call(pass);
    struct pass_answer *answer = &pass->answer;
    http_timer_stop(&pass->timer);
    call->access.cost.origin_bytes = answer->length == HTTP_OPEN ? 0 : answer->length;
    pass->relaying = call;
    forward_location(call, answer->status, &answer->fields);
    if (forward_changes(call, answer->status)) {
        relay_hold(&pass->relay);
        answer->length = HTTP_OPEN;
    }
    if (!pass->rest.etag.len)
        pass->timer = http_timer_start(http_request_loop(call->http), SLOW_READER_MS, look, pass);
    relay_start(&pass->relay, call->http, answer->status, &answer->fields, answer->length, relayed,
                wants, pass);
}

static void slow(void *arg)
{
    struct pass *pass = arg;
    if (pass->call && pass->running && pass->answer.length)
        stream(pass);
}

/* Streams an answer that is long, or comes slowly. */
void pass_answer_partly(struct pass *pass)
{
    int status = pass->answer.status;
    bool bare = s3_operation(pass->request.origin.op)->method == S3_HEAD || status == 204 ||
                status == 304;
    if (pass->relaying)
        relay_step(&pass->relay);
    else if (pass->call && !bare && relay_is_full(&pass->relay))
        stream(pass);
    else if (pass->call && !bare && !pass->timer)
        pass->timer = http_timer_start(http_request_loop(pass->call->http), SLOW_ANSWER_MS, slow,
                                       pass);
}

static void ask_when_there_is_room(struct pass *pass)
{
    pass->rest.waits = relay_waits(&pass->relay);
    if (pass->rest.waits)
        relay_step(&pass->relay);    /* the client may be waiting for the latest bytes */
    else
        ask_rest(pass);
}

/* Limits the number of answers that have given up their connection and still hold bytes (rule H8 in
 * src/README.md). */
static bool may_yield(struct pass *pass)
{
    uint64_t most = pass->relaying->front->options.relays_bytes / RELAY_BYTES_MAX;
    struct rest *rest = &pass->rest;
    if (rest->yielded)
        return true;
    rest->yielded = atomic_fetch_add(&yielded_count, 1) < most;
    if (!rest->yielded)
        atomic_fetch_sub(&yielded_count, 1);
    return rest->yielded;
}

bool pass_answer_yields(struct pass *pass)
{
    if (pass->answer.err != ERR_YIELDED)
        return false;
    if (pass->call)
        stream(pass);
    if (!pass->relaying)
        return false;
    if (!pass->rest.etag.len || !may_yield(pass)) {
        metric_add(M_FRONT_PASS_CUT, 1);
        return false;
    }
    pass->rest.range_bytes = RELAY_RANGE_BYTES;
    ask_when_there_is_room(pass);
    return true;
}

/* Doubles the next range for a client that takes the bytes as fast as they come. */
bool pass_answer_asks_next(struct pass *pass)
{
    struct rest *rest = &pass->rest;
    if (pass->answer.err || !pass->relaying || !rest->yielded || rest->until == rest->end)
        return false;
    rest->range_bytes *= relay_waits(&pass->relay) ? 1 : 2;
    ask_when_there_is_room(pass);
    return true;
}

/* If the relay held a document, the document is rewritten first, as in an answer that is not
 * streamed. */
void pass_answer_end(struct pass *pass)
{
    slice held = relay_take_held(&pass->relay, &pass->arena);
    if (held.len)
        relay_put(&pass->relay, forward_document(pass->relaying, pass->answer.status, held));
    relay_end(&pass->relay);
}
