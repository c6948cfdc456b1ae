/* pass.c - requests that the origin answers: writes, bucket calls, reads and lists past the cache.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   read:   origin call ─ answer relayed
 *   write:  body verified ─ removal committed ─ origin call ─ epoch raised ─ answer relayed
 *
 * A pass is one request that the origin answers. This file takes a pass from its beginning to its
 * end. pass_write.c adds the steps of a write, pass_upload.c gives the origin the request body, and
 * pass_answer.c takes the answer to the client.
 * The loop and the origin's thread share a pass: the callbacks of the origin run on that thread,
 * everything else runs on the loop.
 *
 * The intake (intake.h) verifies the body of a write. The removal takes the key's metadata out of
 * the cache; when it is committed, the index on disk has the change. The epoch is a counter of the
 * key (cache/epoch.h): when it rises, a fetch of the key that began earlier can no longer put its
 * bytes into the cache (rule H7 in src/README.md).
 *
 * A pass holds the request body, so that a write in progress ends normally even if the client has
 * gone: the cache must know the outcome of the write (H7, too). If the client goes before the
 * request is sent, the request is not sent. If the client goes later, a request that failed is not
 * repeated. A write is also not repeated after a later write of the same key has begun: the repeat
 * would undo the later write, which may already have been answered. */
#include "front/passing.h"

#include <stdlib.h>

#include "base/metric.h"

struct pass *pass_ref(struct pass *pass)
{
    check(pass->magic == PASS_MAGIC);
    atomic_fetch_add(&pass->refs, 1);
    return pass;
}

void pass_unref(struct pass *pass)
{
    check(pass->magic == PASS_MAGIC);
    unsigned refs = atomic_fetch_sub(&pass->refs, 1);
    check(refs > 0);
    if (refs > 1)
        return;
    pass->magic = 0;
    http_body_release(&pass->upload.hold);
    ticket_unref(&pass->origin_ticket);
    relay_free(&pass->relay);
    rest_free(&pass->rest);
    arena_free(&pass->arena);
    free(pass);
}

/* ---- the origin's side ---- */

static struct pass *pass_of(struct origin_call *origin)
{
    struct pass *pass = container_of(origin, struct pass, request.origin);
    check(pass->magic == PASS_MAGIC && !atomic_load(&pass->answer.over));
    return pass;
}

static void on_head(struct origin_call *origin, const struct origin_reply *reply)
{
    struct pass *pass = pass_of(origin);
    struct pass_answer *answer = &pass->answer;
    if (pass->rest.got) {
        if (!rest_is(&pass->rest, reply))
            answer->err = ERR_ORIGIN_CUT;
        return;
    }
    metric_time(M_WAIT_ORIGIN, reply->first_byte_ns);
    answer->status = reply->status;
    answer->length = reply->has_length ? reply->length : HTTP_OPEN;
    forward_answer(&pass->arena, reply, &answer->fields);
    rest_begin(&pass->rest, &pass->arena, reply);
    relay_spare(&pass->relay, pass->rest.etag.len > 0);
    atomic_store(&answer->headed, true);
    ticket_wake(pass->origin_ticket);
}

static enum origin_take on_body(struct origin_call *origin, slice bytes)
{
    struct pass *pass = pass_of(origin);
    if (pass->answer.err) {
        origin_cancel(origin);
        return ORIGIN_TAKEN;
    }
    enum origin_take take = relay_put(&pass->relay, bytes);
    ticket_wake(pass->origin_ticket);
    return take;
}

static void on_done(struct origin_call *origin, enum err err)
{
    struct pass *pass = pass_of(origin);
    struct pass_answer *answer = &pass->answer;
    if (!answer->err)
        answer->err = err && atomic_load(&pass->upload.lost) ? ERR_LIMIT : err;
    atomic_store(&answer->over, true);
    ticket_wake(pass->origin_ticket);
    pass_unref(pass);
}

static enum err may_send(struct origin_call *origin, bool again)
{
    const struct pass *pass = pass_of(origin);
    if (atomic_load(&pass->abandoned))
        return ERR_CANCELED;
    if (atomic_load(&pass->upload.lost))
        return ERR_LIMIT;
    return again && !write_is_latest(&pass->mutation.order) ? ERR_BUSY : OK;
}

static const struct origin_events events = { on_head, on_body, on_done };

/* ---- the loop's side ---- */

void pass_settle(struct pass *pass)
{
    check(!pass->running && !pass->mutation.write && !pass->relaying && !pass->upload.in_intake);
    pass_answer_forget(pass);
    list_del(&pass->link);
    http_timer_stop(&pass->timer);
    ticket_end(&pass->ticket);
    pass_unref(pass);
}

void pass_refuse(struct pass *pass, enum err err, const struct s3_fault *fault)
{
    struct call *call = pass->call;
    check(err != OK || !call);
    pass->call = NULL;
    if (call) {
        call->gone = NULL;
        reply_fault(call, err, fault);
    }
    http_body_release(&pass->upload.hold);
    pass_settle(pass);
}

void pass_call_origin(struct pass *pass)
{
    check(pass->rules && !pass->running && !pass->upload.in_intake);
    check(!atomic_load(&pass->answer.over));
    pass->running = true;
    if (!pass->origin_ticket)
        pass->origin_ticket = ticket_ref(pass->ticket);
    atomic_fetch_add(&pass->refs, 1);
    pass->request.origin.trace = pass->request.trace;
    origin_start(pass->rules->origin, &pass->request.origin);
}

static void end(struct pass *pass)
{
    pass->running = false;
    mutation_end(&pass->mutation);    /* H7: before the client has all of the answer */
    if (pass_answer_yields(pass) || pass_answer_asks_next(pass) || preflight_asks_again(pass))
        return;
    if (pass->call && !pass->answer.err)
        pass_write_populate(pass);
    http_body_release(&pass->upload.hold);    /* makes room for the next request of the client */
    if (pass->relaying && !pass->answer.err) {
        pass_answer_end(pass);    /* settles when the client has the answer */
    } else if (pass->relaying) {
        pass->relaying->err = pass->answer.err;
        pass->relaying = NULL;
        http_timer_stop(&pass->timer);
        relay_fail(&pass->relay);
        pass_settle(pass);
    } else if (pass->call && !pass->answer.err) {
        pass_answer_whole(pass);
    } else {
        slice why = atomic_load(&pass->upload.lost) ? S(INTAKE_DISK_FAILED) : S("");
        pass_refuse(pass, pass->answer.err, &(struct s3_fault){ .message = why });
    }
}

void pass_changed(void *arg)
{
    struct pass *pass = arg;
    if (!pass->running && mutation_may_go(&pass->mutation)) {
        if (pass->call) {
            pass_call_origin(pass);
        } else {    /* the client left before anything was sent */
            mutation_end(&pass->mutation);
            pass_settle(pass);
        }
    } else if (pass->running && atomic_load(&pass->answer.over)) {
        end(pass);
    } else if (pass->running && atomic_load(&pass->answer.headed)) {
        pass_answer_partly(pass);
    }
}

/* Called when the client has gone. */
static void gone(void *arg)
{
    struct pass *pass = arg;
    pass->call = NULL;
    atomic_store(&pass->abandoned, true);
    http_timer_stop(&pass->timer);
    relay_discard(&pass->relay);
    struct origin_call *origin = &pass->request.origin;
    if (pass->running && s3_only_reads(origin->op))    /* only the client needed the outcome */
        origin_cancel(origin);
    else if (pass->running)
        origin_ask_again(origin);
}

struct fields pass_fields(struct pass *pass)
{
    struct fields fields = { .keep = &pass->arena };
    fields_add(&fields, S("x-amz-request-id"), arena_copy(&pass->arena, pass->call->id));
    return fields;
}

static void make_request(struct pass_request *request, struct arena *keep, const struct call *call)
{
    request->origin = (struct origin_call){
        .events = &events,
        .may_send = may_send,
        .op = call->s3.op,
        .bucket = arena_copy(keep, call->s3.bucket),
        .key = arena_copy(keep, call->s3.key),
        .query = forward_query(keep, &call->s3),
        .as = identity_as(&call->client->who),
    };
    trace_copy(call_trace(call), keep, &request->trace);
    request->fields = forward_fields(keep, call, &request->field_count);
    request->origin.fields = request->fields;
    request->origin.field_count = request->field_count;
}

struct pass *pass_new(struct call *call)
{
    struct pass *pass = must_alloc(sizeof(*pass));
    pass->magic = PASS_MAGIC;
    atomic_init(&pass->refs, 1);
    pass->call = call;
    pass->rules = call->rules;
    pass->ticket = ticket_new(http_loop_mailbox(http_request_loop(call->http)), pass_changed, pass);
    pass->upload.hold = http_body_take(call->http);
    make_request(&pass->request, &pass->arena, call);
    pass->rest.possible = rest_possible(&call->s3);
    pass->answer.fields = pass_fields(pass);
    relay_init(&pass->relay, &pass->request.origin);
    call->gone = gone;
    call->gone_arg = pass;
    list_add(&call->loop->passes, &pass->link);
    return pass;
}

void pass_read(struct call *call)
{
    struct pass *pass = pass_new(call);
    preflight_name_key(pass);
    pass_call_origin(pass);
}

/* All clients have gone, and the loop will get no more events from origins. If the origin call of a
 * pass still runs, the pass ends on the origin's thread. If the intake still works on its body, the
 * pass ends when the intake calls done() or lost(). */
void passes_leave(struct front_loop *loop)
{
    list_each_safe(struct pass, pass, &loop->passes, link) {
        list_del(&pass->link);
        if (pass->upload.in_intake)
            continue;
        pass->running = false;
        pass->relaying = NULL;
        mutation_end(&pass->mutation);    /* H7: a fetch from before the write must not be stored */
        pass_settle(pass);
    }
}
