/* pass.c - operations the origin answers: lists, bucket calls and writes.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   read:   origin call ─ answer relayed
 *   write:  body's intake ─ removal committed (H7) ─ origin call ─ epoch up ─ answer relayed
 *
 * A pass is shared by the loop and the origin's thread. It holds the body, so that a write which is
 * on its way ends as it would have, also when the client has gone: H7 must know its outcome. But
 * nothing is sent (again) that nobody waits for, nor a write again that a later one has overtaken:
 * what a client was told last would be undone. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cache/populate.h"
#include "front/forward.h"
#include "front/relay.h"
#include "front/rest.h"
#include "s3/xml.h"
#include "store/trap.h"

#define SLOW_ANSWER_MS 5000    /* after so long what has come of an answer is passed on */
#define SLOW_READER_MS 5000    /* so often it is looked at how much a client has taken */
#define YIELDED_MAX 256        /* answers that stopped, and hold what they have: 64 MiB */

#define PASS_MAGIC 0x70617373u
struct pass {
    unsigned magic;
    struct list link;             /* front_loop->passes */
    struct call *call;            /* NULL once the HTTP request is over, or being answered */
    const struct place *place;
    struct ticket *ticket;        /* the loop's */
    struct ticket *origin_ticket; /* the origin's thread's */
    struct arena arena;           /* what must outlive the request */
    atomic_uint refs;

    struct write *write;
    bool regrants;                /* it changes who may read what in its bucket */
    struct write_order order;     /* its place among others of these keys */
    atomic_bool abandoned;        /* the client has gone */
    atomic_bool lost;             /* the disk failed that the body lay on */
    struct write_key *keys;
    size_t key_count;

    struct http_body *hold;       /* keeps the body where it is */
    slice body;
    struct origin_body source;
    struct origin_call origin;
    struct http_field *origin_fields;    /* with room for the intake's */
    size_t origin_field_count;    /* of a read, as it was asked first */
    bool running, in_intake;

    /* the answer: the origin's thread until headed, and over, then the loop */
    atomic_bool headed, over;
    enum err err;
    int status;
    uint64_t length;              /* HTTP_OPEN: the origin did not tell */
    struct fields fields;
    bool may_rest;
    struct rest rest;
    uint64_t got;                 /* bytes of the answer before this call */
    struct relay relay;
    struct call *relaying;        /* it is being answered in pieces */
    bool yielded;                 /* its connection went to another; the rest is asked for later */
    struct http_timer *timer;
};

static void pass_unref(struct pass *pass)
{
    check(pass->magic == PASS_MAGIC);
    if (atomic_fetch_sub(&pass->refs, 1) > 1)
        return;
    pass->magic = 0;
    http_body_release(&pass->hold);
    ticket_unref(&pass->origin_ticket);
    relay_free(&pass->relay);
    arena_free(&pass->arena);
    free(pass);
}

/* ---- the origin's side ---- */

static struct pass *pass_of(struct origin_call *origin)
{
    struct pass *pass = container_of(origin, struct pass, origin);
    check(pass->magic == PASS_MAGIC && !atomic_load(&pass->over));
    return pass;
}

static void on_head(struct origin_call *origin, const struct origin_reply *reply)
{
    struct pass *pass = pass_of(origin);
    if (pass->got) {
        if (!rest_is(&pass->rest, pass->got, reply))
            pass->err = ERR_ORIGIN_CUT;
        return;
    }
    pass->status = reply->status;
    pass->length = reply->has_length ? reply->length : HTTP_OPEN;
    forward_answer(&pass->arena, reply, &pass->fields);
    if (pass->may_rest)
        pass->rest = rest_of(&pass->arena, reply);
    relay_spare(&pass->relay, pass->rest.etag.len > 0);
    atomic_store(&pass->headed, true);
    ticket_wake(pass->origin_ticket);
}

static enum origin_take on_body(struct origin_call *origin, slice bytes)
{
    struct pass *pass = pass_of(origin);
    if (pass->err) {
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
    if (!pass->err)
        pass->err = err && atomic_load(&pass->lost) ? ERR_LIMIT : err;
    atomic_store(&pass->over, true);
    ticket_wake(pass->origin_ticket);
    pass_unref(pass);
}

static enum err may_send(struct origin_call *origin, bool again)
{
    const struct pass *pass = pass_of(origin);
    if (atomic_load(&pass->abandoned))
        return ERR_CANCELED;
    if (atomic_load(&pass->lost))
        return ERR_LIMIT;
    return again && !write_is_latest(&pass->order) ? ERR_BUSY : OK;
}

static const struct origin_events events = { on_head, on_body, on_done };

static size_t read_body(void *arg, uint64_t offset, char *ret, size_t bytes)
{
    struct pass *pass = arg;
    slice part = slice_sub(pass->body, offset, bytes);
    if (!part.len || trap_copy(ret, part.ptr, part.len))
        return part.len;
    atomic_store(&pass->lost, true);
    return 0;
}

/* ---- the loop's side ---- */

static atomic_uint yielded_count;

static void forget_yielded(struct pass *pass)
{
    if (pass->yielded)
        atomic_fetch_sub(&yielded_count, 1);
    pass->yielded = false;
}

static void settle(struct pass *pass)
{
    check(!pass->running && !pass->write && !pass->relaying);
    forget_yielded(pass);
    list_del(&pass->link);
    http_timer_stop(&pass->timer);
    ticket_end(&pass->ticket);
    pass_unref(pass);
}

static void refuse(struct pass *pass, enum err err, const struct s3_fault *fault)
{
    struct call *call = pass->call;
    pass->call = NULL;
    if (call) {
        call->gone = NULL;
        reply_fault(call, err, fault);
    }
    settle(pass);
}

static void fail(struct pass *pass, enum err err)
{
    bool lost = atomic_load(&pass->lost);
    refuse(pass, err, &(struct s3_fault){ .message = lost ? S(INTAKE_DISK_FAILED) : S("") });
}

static void call_origin(struct pass *pass)
{
    pass->running = true;
    if (!pass->origin_ticket)
        pass->origin_ticket = ticket_ref(pass->ticket);
    atomic_fetch_add(&pass->refs, 1);
    origin_start(pass->place->origin, &pass->origin);
}

/* ---- the answer ---- */

/* Nobody misses its outcome if its client does not. */
static bool reads_only(const struct pass *pass)
{
    return s3_only_reads(pass->origin.op);
}

/* The call ends with its request: it is not to be touched after. */
static struct call *take_call(struct pass *pass)
{
    struct call *call = pass->call;
    pass->call = NULL;
    call->gone = NULL;
    fields_add(&pass->fields, S("x-amz-request-id"), call->id);
    return call;
}

static void answer_whole(struct pass *pass)
{
    struct call *call = take_call(pass);
    struct fields *fields = &pass->fields;
    forward_location(call, pass->status, fields);
    slice body = forward_document(call, pass->status, relay_whole(&pass->relay, &pass->arena));
    call->cost.origin_bytes = body.len;
    if (s3_operation(call->s3.op)->method == S3_HEAD)    /* told as the origin tells it */
        http_reply_start(call->http, pass->status, fields->list, fields->count, pass->length, NULL,
                         NULL);
    else
        http_reply(call->http, &(struct http_answer){
            .status = pass->status,
            .fields = fields->list,
            .field_count = fields->count,
            .body = body,
        });
    settle(pass);
}

/* What it changed is known to be changed, whatever the outcome. */
static void end_write(struct pass *pass)
{
    write_end(&pass->write);
    if (pass->regrants)
        grants_change_ends(pass->origin.bucket, mono_ms());
    pass->regrants = false;
}

static void let_go(void *arg)
{
    struct http_body *hold = arg;
    http_body_release(&hold);
}

/* What was put fills the cache, if it is to: its body goes over to that. */
static void populate(struct pass *pass)
{
    slice etag = { 0 };
    for (size_t i = 0; i < pass->fields.count; i++)
        if (slice_eq(pass->fields.list[i].name, S("etag")))
            etag = pass->fields.list[i].value;
    if (!pass->place->cache_writes || pass->origin.op != S3_PUT_OBJECT || pass->status != 200 ||
        pass->err || !etag.len)
        return;
    struct http_body *hold = pass->hold;
    pass->hold = NULL;
    populate_start(pass->call->loop->cache, &(struct populate_ask){
        .place = pass->place, .who = &pass->call->client->who, .bucket = pass->origin.bucket,
        .key = pass->origin.key, .etag = etag, .body = pass->body,
        .release = let_go, .arg = hold });
}

/* The client has all of a streamed answer, or has gone. */
static void relayed(void *arg)
{
    struct pass *pass = arg;
    pass->relaying = NULL;
    http_timer_stop(&pass->timer);
    if (!pass->running)
        settle(pass);
    else if (reads_only(pass))
        origin_cancel(&pass->origin);
}

/* From where it stopped, now that the client has taken most of what there was. */
static void ask_rest(struct pass *pass)
{
    forget_yielded(pass);
    pass->got = relay_put_bytes(&pass->relay);
    pass->origin.fields = rest_ask(&pass->arena, &pass->rest, pass->got, pass->origin_fields,
                                   pass->origin_field_count, &pass->origin.field_count);
    pass->err = OK;
    atomic_store(&pass->over, false);
    call_origin(pass);
}

static void wants(void *arg)
{
    struct pass *pass = arg;
    if (pass->yielded)
        ask_rest(pass);
    else
        origin_resume(&pass->origin);
}

/* What can't be asked for again keeps its connection while its client takes what comes; it may lose
 * it, and be cut, if the client does not. */
static void look(void *arg)
{
    struct pass *pass = arg;
    bool slow = relay_is_slow(&pass->relay);
    http_timer_stop(&pass->timer);
    pass->timer = http_timer_start(http_request_loop(pass->relaying->http), SLOW_READER_MS, look,
                                   pass);
    relay_spare(&pass->relay, slow);
    if (slow)
        origin_resume(&pass->origin);    /* the same bytes come again, and are to spare now */
}

static void stream(struct pass *pass)
{
    struct call *call = take_call(pass);
    http_timer_stop(&pass->timer);
    call->cost.origin_bytes = pass->length == HTTP_OPEN ? 0 : pass->length;
    pass->relaying = call;
    forward_location(call, pass->status, &pass->fields);
    if (forward_changes(call, pass->status)) {
        relay_hold(&pass->relay);
        pass->length = HTTP_OPEN;
    }
    if (!pass->rest.etag.len)
        pass->timer = http_timer_start(http_request_loop(call->http), SLOW_READER_MS, look, pass);
    relay_start(&pass->relay, call->http, pass->status, &pass->fields, pass->length, relayed, wants,
                pass);
}

static void slow(void *arg)
{
    struct pass *pass = arg;
    if (pass->call && pass->running && pass->length)
        stream(pass);
}

/* Something has come, but not all: what is long, or slow, is not waited for. */
static void go_on(struct pass *pass)
{
    bool bare = s3_operation(pass->origin.op)->method == S3_HEAD || pass->status == 204 ||
                pass->status == 304;
    if (pass->relaying)
        relay_step(&pass->relay);
    else if (pass->call && !bare && relay_is_full(&pass->relay))
        stream(pass);
    else if (pass->call && !bare && !pass->timer)
        pass->timer = http_timer_start(http_request_loop(pass->call->http), SLOW_ANSWER_MS, slow,
                                       pass);
}

/* Its connection was another's: the rest is asked for later, or never. */
static bool yields(struct pass *pass)
{
    if (pass->err != ERR_YIELDED)
        return false;
    if (pass->call)
        stream(pass);
    if (!pass->relaying)
        return false;
    if (!pass->rest.etag.len || atomic_fetch_add(&yielded_count, 1) >= YIELDED_MAX) {
        if (pass->rest.etag.len)
            atomic_fetch_sub(&yielded_count, 1);
        metric_add(M_FRONT_PASS_CUT, 1);
        return false;
    }
    pass->yielded = true;
    if (relay_is_paused(&pass->relay))
        relay_step(&pass->relay);    /* the client may have waited for what came last */
    else
        ask_rest(pass);
    return true;
}

/* A document of ours in place of the origin's, as in an answer that was not streamed. */
static void put_held(struct pass *pass)
{
    slice held = relay_take_held(&pass->relay, &pass->arena);
    if (held.len)
        relay_put(&pass->relay, forward_document(pass->relaying, pass->status, held));
}

static void end(struct pass *pass)
{
    pass->running = false;
    end_write(pass);    /* H7: the epoch rises before the client has all of the answer */
    if (yields(pass))
        return;
    if (pass->relaying && !pass->err) {
        put_held(pass);
        relay_end(&pass->relay);    /* settled when the client has it */
    } else if (pass->relaying) {
        pass->relaying->err = pass->err;
        pass->relaying = NULL;
        http_timer_stop(&pass->timer);
        relay_fail(&pass->relay);
        settle(pass);
    } else if (pass->call && !pass->err) {
        populate(pass);
        answer_whole(pass);
    } else {
        fail(pass, pass->err);
    }
}

/* The removal is committed, or the origin has answered. */
static void changed(void *arg)
{
    struct pass *pass = arg;
    if (!pass->running && pass->write && write_may_go(pass->write)) {
        if (pass->call) {
            call_origin(pass);
        } else {    /* the client went before anything was sent */
            end_write(pass);
            settle(pass);
        }
    } else if (pass->running && atomic_load(&pass->over)) {
        end(pass);
    } else if (pass->running && atomic_load(&pass->headed)) {
        go_on(pass);
    }
}

/* The client has gone. */
static void gone(void *arg)
{
    struct pass *pass = arg;
    pass->call = NULL;
    atomic_store(&pass->abandoned, true);
    http_timer_stop(&pass->timer);
    relay_discard(&pass->relay);
    if (pass->running && reads_only(pass))
        origin_cancel(&pass->origin);
    else if (pass->running)
        origin_ask_again(&pass->origin);
}

static struct pass *pass_new(struct call *call)
{
    struct pass *pass = must_alloc(sizeof(*pass));
    pass->magic = PASS_MAGIC;
    atomic_init(&pass->refs, 1);
    pass->call = call;
    pass->place = call->place;
    pass->ticket = ticket_new(http_loop_mailbox(http_request_loop(call->http)), changed, pass);
    pass->hold = http_body_hold(call->http);
    pass->body = http_request_body(call->http);
    pass->origin = (struct origin_call){
        .events = &events,
        .may_send = may_send,
        .op = call->s3.op,
        .bucket = arena_copy(&pass->arena, call->s3.bucket),
        .key = arena_copy(&pass->arena, call->s3.key),
        .query = forward_query(&pass->arena, call->s3.raw_query),
        .as = identity_as(&call->client->who),
    };
    pass->origin_fields = forward_fields(&pass->arena, call, &pass->origin.field_count);
    pass->origin.fields = pass->origin_fields;
    pass->origin_field_count = pass->origin.field_count;
    pass->may_rest = rest_possible(&call->s3);
    relay_init(&pass->relay, &pass->origin);
    call->gone = gone;
    call->gone_arg = pass;
    list_init(&pass->link);
    list_add(&call->loop->passes, &pass->link);
    return pass;
}

void pass_read(struct call *call)
{
    slice detail;
    enum err err = place_judge(call, &detail);
    if (err)
        reply_error(call, err, detail);
    else
        call_origin(pass_new(call));
}

/* ---- writes ---- */

static struct write_key version_of(struct pass *pass)
{
    const struct s3_param *version = s3_param_get(&pass->call->s3, S("versionId"));
    return (struct write_key){ pass->origin.key,
                               version ? arena_copy(&pass->arena, version->value) : S("") };
}

static void add_renamed(struct pass *pass, const struct s3_source *source)
{
    const slice names[] = { source->key, source->inner };
    for (size_t i = 0; i < countof(names); i++)
        if (names[i].len)
            pass->keys[pass->key_count++] = (struct write_key){
                arena_copy(&pass->arena, names[i]), S("") };
}

static int read_keys(void *ask)
{
    struct pass *pass = ask;
    struct call *call = pass->call;
    struct deletion *deletions;
    enum s3_mutates mutates = s3_operation(call->s3.op)->mutates;
    if (mutates == S3_MUTATES_FORM) {
        pass->keys = arena_alloc(&pass->arena, sizeof(*pass->keys));
        pass->keys[pass->key_count++] = (struct write_key){
            form_get(pass->origin.form, S("key")), S("") };
    }
    if (call->s3.key.len && mutates != S3_MUTATES_NOTHING) {
        pass->keys = arena_alloc(&pass->arena, 3 * sizeof(*pass->keys));
        pass->keys[pass->key_count++] = version_of(pass);
        if (call->s3.op == S3_RENAME_OBJECT)
            add_renamed(pass, &call->s3.source);
    } else if (mutates == S3_MUTATES_KEYS) {
        enum err err = xml_read_delete(&pass->arena, pass->body, &deletions, &pass->key_count);
        if (err)
            return err;
        pass->keys = arena_alloc(&pass->arena, (pass->key_count + 1) * sizeof(*pass->keys));
        for (size_t i = 0; i < pass->key_count; i++)
            pass->keys[i] = (struct write_key){ deletions[i].key, deletions[i].version };
    }
    return OK;
}

/* Those in a body, which may lie in a file. */
static enum err keys_of(struct pass *pass)
{
    int err;
    return trap_read(read_keys, pass, pass->body, &err) ? (enum err)err : ERR_LIMIT;
}

/* Something of an object, without a version's name? */
static bool says(const struct pass *pass)
{
    enum s3_mutates mutates = s3_operation(pass->origin.op)->mutates;
    return (mutates == S3_MUTATES_PROPERTY || mutates == S3_MUTATES_GRANTS) &&
           pass->call->s3.key.len && !s3_param_get(&pass->call->s3, S("versionId"));
}

static void begin(struct pass *pass)
{
    struct call *call = pass->call;
    slice detail = S("");
    enum err err = keys_of(pass);
    if (!err && s3_operation(call->s3.op)->mutates == S3_MUTATES_KEYS)
        err = place_judge_keys(call, pass->keys, pass->key_count, &detail);
    if (!err && !call->s3.key.len)
        err = right_judge_keys(call, pass->keys, pass->key_count);
    if (err) {
        refuse(pass, err, &(struct s3_fault){ .message = detail });
        return;
    }
    pass->place = call->place;
    pass->regrants = s3_operation(call->s3.op)->mutates == S3_MUTATES_GRANTS && !call->s3.key.len;
    if (pass->regrants)
        grants_change_begins(pass->origin.bucket, mono_ms());
    pass->write = write_begin(call->loop->cache, pass->place, pass->origin.bucket, pass->keys,
                              pass->key_count, changed, pass);
    pass->order = write_order(pass->write, &pass->arena);
    if (says(pass))
        write_says(pass->write);
    if (write_may_go(pass->write))
        call_origin(pass);
}

static void taken_in(void *arg, const struct intake_outcome *outcome)
{
    struct pass *pass = arg;
    pass->in_intake = false;
    pass->body = outcome->body;
    pass->source.length = outcome->body.len;
    for (size_t i = 0; i < outcome->field_count; i++)
        pass->origin_fields[pass->origin.field_count++] = (struct http_field){
            arena_copy(&pass->arena, outcome->fields[i].name),
            arena_copy(&pass->arena, outcome->fields[i].value) };
    if (!pass->call)
        settle(pass);
    else if (outcome->err)
        refuse(pass, outcome->err, &outcome->fault);
    else
        begin(pass);
}

static void lost(void *arg)
{
    settle(arg);
}

/* Clients have gone, and nobody will hear from an origin any more: what it still does with a pass
 * is its own. One whose body is being taken in ends with that. */
void passes_leave(struct front_loop *loop)
{
    list_each_safe(struct pass, pass, &loop->passes, link) {
        list_del(&pass->link);
        if (pass->in_intake)
            continue;
        pass->running = false;
        pass->relaying = NULL;
        end_write(pass);    /* H7: no fill that knew of it may publish */
        settle(pass);
    }
}

void pass_write(struct call *call)
{
    const struct judged *judged = http_request_judged(call->http);
    const struct sigv4_claim *claim = &judged->claim;
    slice detail;
    enum err err = place_judge(call, &detail);
    if (err) {
        reply_error(call, err, detail);
        return;
    }
    struct pass *pass = pass_new(call);
    pass->source = (struct origin_body){ .read = read_body, .arg = pass };
    if (claim->payload == PAYLOAD_HEX)
        pass->source.sha256_hex = arena_copy(&pass->arena, claim->payload_hash);
    pass->origin.body = &pass->source;
    pass->in_intake = true;
    intake_start(call->front->intakes, http_loop_mailbox(http_request_loop(call->http)),
                 &(struct intake_ask){ pass->body, call->head, &call->s3, claim,
                                       call->loop->sigv4,
                                       judged->secret },
                 taken_in, lost, pass);
}

static void form_taken_in(void *arg, const struct intake_outcome *outcome)
{
    struct pass *pass = arg;
    struct call *call = pass->call;
    pass->in_intake = false;
    if (!call) {
        settle(pass);
        return;
    }
    struct s3_fault fault = outcome->fault;
    enum err err = form_judge(call, outcome->err, &fault);
    struct write_key key = { form_get(call->form, S("key")), S("") };
    if (!err)
        err = place_judge_keys(call, &key, 1, &fault.message);
    if (err) {
        refuse(pass, err, &fault);
        return;
    }
    pass->body = call->form->file;
    pass->source.length = pass->body.len;
    pass->origin.as = identity_as(&call->client->who);
    begin(pass);
}

static bool is_of_form(slice name)
{
    return slice_eq_nocase(name, S("content-type")) || slice_eq_nocase(name, S("content-md5"));
}

/* Whose it is, is in it: it goes on in the name of whoever signed it. */
void pass_form(struct call *call)
{
    struct pass *pass = pass_new(call);
    struct form *form = arena_alloc(&pass->arena, sizeof(*form));
    size_t count = 0;
    for (size_t i = 0; i < pass->origin.field_count; i++)
        if (!is_of_form(pass->origin_fields[i].name))
            pass->origin_fields[count++] = pass->origin_fields[i];
    pass->origin.field_count = count;
    pass->source = (struct origin_body){ .read = read_body, .arg = pass };
    pass->origin.body = &pass->source;
    pass->origin.form = call->form = form;
    pass->in_intake = true;
    intake_form(call->front->intakes, http_loop_mailbox(http_request_loop(call->http)),
                http_head_get(call->head, S("content-type")), pass->body, &pass->arena, form,
                form_taken_in, lost, pass);
}
