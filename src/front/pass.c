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
#include "base/metric.h"
#include "cache/populate.h"
#include "front/inside.h"
#include "s3/encode.h"
#include "s3/integrity.h"
#include "s3/xml.h"

#define REPLY_BYTES_MAX (16 * MIB)

#define PASS_MAGIC 0x70617373u
struct pass {
    unsigned magic;
    struct list link;             /* front_loop->passes */
    struct call *call;            /* NULL once the HTTP request is over */
    const struct place *place;
    struct ticket *ticket;        /* the loop's */
    struct ticket *origin_ticket; /* the origin's thread's */
    struct arena arena;           /* what must outlive the request */
    atomic_uint refs;

    struct write *write;
    bool regrants;                /* it changes who may read what in its bucket */
    struct write_order order;     /* its place among others of these keys */
    atomic_bool abandoned;        /* the client has gone */
    struct write_key *keys;
    size_t key_count;

    struct http_body *hold;       /* keeps the body where it is */
    slice body;
    struct origin_body source;
    struct origin_call origin;
    struct http_field *origin_fields;    /* with room for the intake's */
    bool running, in_intake;

    /* the answer: the origin's thread until over, then the loop */
    atomic_bool over;
    enum err err;
    int status;
    struct fields fields;
    struct text reply;
};

static void pass_unref(struct pass *pass)
{
    check(pass->magic == PASS_MAGIC);
    if (atomic_fetch_sub(&pass->refs, 1) > 1)
        return;
    pass->magic = 0;
    http_body_release(&pass->hold);
    ticket_unref(&pass->origin_ticket);
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

static bool is_relayed(slice name)
{
    static const char *const names[] = { "content-type", "etag", "last-modified", "location",
                                         "cache-control", "expires", "allow" };
    for (size_t i = 0; i < countof(names); i++)
        if (slice_eq(name, slice_of(names[i])))
            return true;
    /* our own id: by the origin's nobody would find the request in the log */
    return slice_starts(name, S("x-amz-")) && !slice_eq(name, S("x-amz-request-id"));
}

static void on_head(struct origin_call *origin, const struct origin_reply *reply)
{
    struct pass *pass = pass_of(origin);
    pass->status = reply->status;
    for (size_t i = 0; i < reply->field_count; i++)
        if (is_relayed(reply->fields[i].name))
            fields_add(&pass->fields, arena_copy(&pass->arena, reply->fields[i].name),
                       arena_copy(&pass->arena, reply->fields[i].value));
}

static enum origin_take on_body(struct origin_call *origin, slice bytes)
{
    struct pass *pass = pass_of(origin);
    if (pass->reply.len + bytes.len > REPLY_BYTES_MAX) {
        pass->err = ERR_ORIGIN_REPLY;
        origin_cancel(origin);
    } else {
        text_add(&pass->reply, bytes);
    }
    return ORIGIN_TAKEN;
}

static void on_done(struct origin_call *origin, enum err err)
{
    struct pass *pass = pass_of(origin);
    if (!pass->err)
        pass->err = err;
    atomic_store(&pass->over, true);
    ticket_wake(pass->origin_ticket);
    pass_unref(pass);
}

static enum err may_send(struct origin_call *origin, bool again)
{
    const struct pass *pass = pass_of(origin);
    if (atomic_load(&pass->abandoned))
        return ERR_CANCELED;
    return again && !write_is_latest(&pass->order) ? ERR_BUSY : OK;
}

static const struct origin_events events = { on_head, on_body, on_done };

static size_t read_body(void *arg, uint64_t offset, char *ret, size_t bytes)
{
    struct pass *pass = arg;
    slice part = slice_sub(pass->body, offset, bytes);
    if (part.len)
        memcpy(ret, part.ptr, part.len);
    return part.len;
}

/* ---- what is sent to it ---- */

/* What is said about the object or the operation, not about this connection or signature. */
static bool is_forwarded(slice name)
{
    static const char *const names[] = {
        "content-type", "content-md5", "cache-control", "content-disposition", "content-language",
        "expires", "if-match", "if-none-match", "if-modified-since",
        "if-unmodified-since", "range", "if-range", "origin",
    };
    static const char *const ours[] = {
        "x-amz-date", "x-amz-content-sha256", "x-amz-security-token",
    };
    for (size_t i = 0; i < countof(ours); i++)
        if (slice_eq_nocase(name, slice_of(ours[i])))
            return false;
    if (integrity_is_framing(name))
        return false;    /* what is left of it, the intake says */
    for (size_t i = 0; i < countof(names); i++)
        if (slice_eq_nocase(name, slice_of(names[i])))
            return true;
    return name.len > 6 && slice_eq_nocase(slice_sub(name, 0, 6), S("x-amz-"));
}

static void forward_field(struct pass *pass, struct http_field *list, struct http_field field)
{
    if (is_forwarded(field.name))
        list[pass->origin.field_count++] = (struct http_field){
            arena_copy(&pass->arena, field.name), arena_copy(&pass->arena, field.value) };
}

static void forward_fields(struct pass *pass, const struct http_head *head,
                           const struct s3_request *s3)
{
    struct http_field *list = arena_alloc(
        &pass->arena, (head->field_count + s3->said_count + INTAKE_FIELDS_MAX) * sizeof(*list));
    for (size_t i = 0; i < head->field_count; i++)
        forward_field(pass, list, head->fields[i]);
    for (size_t i = 0; i < s3->said_count; i++)
        forward_field(pass, list, s3->said[i]);
    pass->origin.fields = pass->origin_fields = list;
}

/* The query without the client's own presigned signature, and what goes as headers. */
static slice forward_query(struct arena *keep, slice raw)
{
    struct text query = text_in(keep);
    for (slice rest = raw; rest.ptr && raw.len;) {
        slice pair = slice_cut(&rest, '&'), value = pair, name = slice_cut(&value, '=');
        if (!pair.len || uri_decode(keep, name, &name) != OK ||
            slice_eq_nocase(slice_sub(name, 0, 6), S("X-Amz-")))
            continue;
        if (query.len)
            text_char(&query, '&');
        text_add(&query, pair);
    }
    return text_slice(&query);
}

/* ---- the loop's side ---- */

static void settle(struct pass *pass)
{
    check(!pass->running && !pass->write);
    list_del(&pass->link);
    ticket_end(&pass->ticket);
    pass_unref(pass);
}

static void refuse(struct pass *pass, enum err err, slice detail)
{
    struct call *call = pass->call;
    pass->call = NULL;
    if (call) {
        call->gone = NULL;
        reply_error(call, err, detail);
    }
    settle(pass);
}

static void fail(struct pass *pass, enum err err)
{
    refuse(pass, err, S(""));
}

static void call_origin(struct pass *pass)
{
    pass->running = true;
    pass->origin_ticket = ticket_ref(pass->ticket);
    atomic_fetch_add(&pass->refs, 1);
    origin_start(pass->place->origin, &pass->origin);
}

static void answer(struct pass *pass)
{
    struct call *call = pass->call;
    struct fields *fields = &pass->fields;
    fields_add(fields, S("x-amz-request-id"), call->id);
    pass->call = NULL;
    call->gone = NULL;
    bool is_head = slice_eq(http_request_head(call->http)->method, S("HEAD"));
    http_reply(call->http, &(struct http_answer){
        .status = pass->status,
        .fields = fields->list,
        .field_count = fields->count,
        .body = is_head ? S("") : text_slice(&pass->reply),
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
        .key = pass->origin.key, .etag = etag, .body = pass->body, .release = let_go, .arg = hold });
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
        pass->running = false;
        end_write(pass);    /* H7: the epoch rises before the client is told */
        if (pass->call)
            populate(pass);
        if (pass->call && !pass->err)
            answer(pass);
        else
            fail(pass, pass->err);
    }
}

/* The client has gone. */
static void gone(void *arg)
{
    struct pass *pass = arg;
    pass->call = NULL;
    atomic_store(&pass->abandoned, true);
    if (pass->running)
        origin_ask_again(&pass->origin);
}

static struct pass *pass_new(struct call *call, const struct place *place)
{
    struct pass *pass = must_alloc(sizeof(*pass));
    pass->magic = PASS_MAGIC;
    const struct http_head *head = http_request_head(call->http);
    atomic_init(&pass->refs, 1);
    pass->call = call;
    pass->place = place;
    pass->ticket = ticket_new(http_loop_mailbox(http_request_loop(call->http)), changed, pass);
    pass->reply = text_in(&pass->arena);
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
    forward_fields(pass, head, &call->s3);
    call->gone = gone;
    call->gone_arg = pass;
    list_init(&pass->link);
    list_add(&call->loop->passes, &pass->link);
    return pass;
}

/* A list is asked where its prefix lies: whole inside one that has an origin of its own, or not. */
const struct place *pass_place(const struct call *call)
{
    const struct s3_param *prefix = s3_param_get(&call->s3, S("prefix"));
    if (call->s3.op == S3_LIST_BUCKETS)
        return call->front->options.service;
    return front_place_of(call->front, call->s3.bucket, prefix ? prefix->value : call->s3.key);
}

void pass_read(struct call *call)
{
    const struct place *place = pass_place(call);
    enum err err = place ? right_judge_place(call, place) : ERR_NO_SUCH_BUCKET;
    if (err)
        reply_error(call, err, S(""));
    else
        call_origin(pass_new(call, place));
}

/* ---- writes ---- */

static struct write_key version_of(struct pass *pass)
{
    const struct s3_param *version = s3_param_get(&pass->call->s3, S("versionId"));
    return (struct write_key){ pass->origin.key,
                               version ? arena_copy(&pass->arena, version->value) : S("") };
}

static enum err keys_of(struct pass *pass)
{
    struct call *call = pass->call;
    struct deletion *deletions;
    enum s3_mutates mutates = s3_operation(call->s3.op)->mutates;
    if (mutates == S3_MUTATES_FORM)
        return ERR_NOT_IMPLEMENTED;
    if (call->s3.key.len && (mutates == S3_MUTATES_KEY || mutates == S3_MUTATES_GRANTS)) {
        pass->keys = arena_alloc(&pass->arena, 2 * sizeof(*pass->keys));
        pass->keys[pass->key_count++] = version_of(pass);
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

static enum err may_write(const struct call *call, const struct place *place)
{
    if (!place)
        return ERR_NO_SUCH_BUCKET;
    enum err err = right_judge_place(call, place);
    return err ? err : origin_is_read_only(place->origin) ? ERR_READ_ONLY : OK;
}

/* The keys in a body may lie elsewhere than their bucket, but all at one origin: its answer is the
 * answer. */
static enum err place_keys(struct pass *pass, slice *ret_detail)
{
    const struct call *call = pass->call;
    pass->place = front_place_of(call->front, call->s3.bucket, pass->keys[0].key);
    for (size_t i = 1; i < pass->key_count; i++) {
        const struct place *place = front_place_of(call->front, call->s3.bucket, pass->keys[i].key);
        if ((place ? place->origin : NULL) == (pass->place ? pass->place->origin : NULL))
            continue;
        *ret_detail = arena_printf(
            call->keep, "Penstock does not implement DeleteObjects of keys at several origins, and "
            "\"%.*s\" lies at another one than \"%.*s\": delete it by a request of its own "
            "(DeleteObject), or the keys of one origin at a time.",
            SLICE_ARG(pass->keys[i].key), SLICE_ARG(pass->keys[0].key));
        return ERR_NOT_IMPLEMENTED;
    }
    return may_write(call, pass->place);
}

static void begin(struct pass *pass)
{
    struct call *call = pass->call;
    slice detail = S("");
    enum err err = keys_of(pass);
    if (!err && s3_operation(call->s3.op)->mutates == S3_MUTATES_KEYS)
        err = place_keys(pass, &detail);
    if (!err && !call->s3.key.len)
        err = right_judge_keys(call, pass->keys, pass->key_count);
    if (err) {
        refuse(pass, err, detail);
        return;
    }
    pass->regrants = s3_operation(call->s3.op)->mutates == S3_MUTATES_GRANTS && !call->s3.key.len;
    if (pass->regrants)
        grants_change_begins(pass->origin.bucket, mono_ms());
    pass->write = write_begin(call->loop->cache, pass->place, pass->origin.bucket, pass->keys,
                              pass->key_count, changed, pass);
    pass->order = write_order(pass->write, &pass->arena);
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
        refuse(pass, outcome->err, arena_copy(&pass->arena, outcome->detail));
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
        end_write(pass);    /* H7: no fill that knew of it may publish */
        settle(pass);
    }
}

void pass_write(struct call *call)
{
    const struct place *place = pass_place(call);
    const struct judged *judged = http_request_judged(call->http);
    const struct sigv4_claim *claim = &judged->claim;
    bool placed_by_body = s3_operation(call->s3.op)->mutates == S3_MUTATES_KEYS;
    enum err err = placed_by_body ? OK : may_write(call, place);
    if (err) {
        reply_error(call, err, S(""));
        return;
    }
    struct pass *pass = pass_new(call, place);
    pass->source = (struct origin_body){ .read = read_body, .arg = pass };
    if (claim->payload == PAYLOAD_HEX)
        pass->source.sha256_hex = arena_copy(&pass->arena, claim->payload_hash);
    pass->origin.body = &pass->source;
    pass->in_intake = true;
    intake_start(call->front->intakes, http_loop_mailbox(http_request_loop(call->http)),
                 &(struct intake_ask){ pass->body, http_request_head(call->http), &call->s3, claim,
                                       call->loop->sigv4,
                                       judged->secret },
                 taken_in, lost, pass);
}
