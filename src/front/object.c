/* object.c - GetObject and HeadObject: the cache's decision as an HTTP answer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A get (cache/get.h: one read of an object from the cache or the origin) decides what the answer
 * is, and delivers the body in pieces. One piece at a time is sent: when the client has taken it,
 * proceed() is called (rule H5 in src/README.md). The get may need time for its decision or a
 * piece. step() goes on, after proceed() and whenever the get no longer has to wait. Threads: the
 * loop. */
#include <inttypes.h>

#include "base/clock.h"
#include "base/metric_bucket.h"
#include "cache/alias.h"
#include "front/inside.h"
#include "s3/encode.h"

#define SENDFILE_LEAST (64 * KIB)

struct object {
    struct call *call;
    struct get *get;
    uint64_t left;                /* bytes that are still to be sent */
    bool started;                 /* the headers are sent, or go with the first piece */
    bool sending;                 /* a piece is being sent: wait for proceed */
};

static void over(void *arg)
{
    struct object *object = arg;
    if (!object->get)
        return;
    object->call->access.cost = *get_cost(object->get);
    get_end(&object->get);
}

/* The headers that a client may replace, by a parameter named "response-" and the header's name. */
static const char *const overridable[] = {
    "content-type", "content-language", "expires", "cache-control", "content-disposition",
    "content-encoding",
};

/* Returns the value that replaces a header, or a slice whose ptr is NULL. */
static slice override_of(const struct call *call, slice field)
{
    slice prefix = S("response-");
    for (size_t i = 0; i < call->s3.param_count; i++) {
        slice name = call->s3.params[i].name;
        if (slice_starts(name, prefix) && slice_eq(slice_from(name, prefix.len), field) &&
            slice_is_one_of(field, overridable, countof(overridable)))
            return call->s3.params[i].value;
    }
    return (slice){ 0 };
}

static bool is_whole(const struct get_answer *answer)
{
    return answer->first == 0 && answer->end == answer->metadata->size;
}

/* Adds the checksums of a part that is not the whole object. */
static void add_part_sums(struct fields *fields, const struct call *call,
                          const struct get_answer *answer)
{
    bool wanted = call->s3.checksum_mode && !answer->err && !is_whole(answer);
    for (slice rest = wanted ? answer->part_sums : S(""); rest.len;) {
        struct http_field field = fields_cut(&rest);
        fields_add(fields, field.name, field.value);
    }
}

/* Adds the object's own headers, as the origin sent them. The checksums of the whole object are
 * never sent with a part of it. */
static void add_own_fields(struct fields *fields, const struct call *call,
                           const struct get_answer *answer)
{
    bool sums = call->s3.checksum_mode && !answer->err && is_whole(answer) &&
                (!answer->partial || call->s3.part);
    for (slice rest = answer->metadata->fields; rest.len;) {
        struct http_field field = fields_cut(&rest);
        if ((slice_starts(field.name, S("x-amz-checksum-")) && !sums) ||
            (call->s3.part && slice_eq(field.name, S("x-amz-mp-parts-count"))))
            continue;    /* add_fields adds the number of parts */
        if (!override_of(call, field.name).ptr)
            fields_add(fields, field.name, field.value);
    }
    for (size_t i = 0; i < countof(overridable); i++) {
        slice name = slice_of(overridable[i]), value = override_of(call, name);
        if (value.ptr)
            fields_add(fields, name, value);
    }
    if (!metadata_field(answer->metadata, S("content-type")).ptr &&
        !override_of(call, S("content-type")).ptr)
        fields_add(fields, S("content-type"), S("binary/octet-stream"));
}

static const enum metric counters[] = {
    [GET_HIT] = M_CACHE_HIT, [GET_STALE] = M_CACHE_STALE,
    [GET_STALE_IF_ERROR] = M_CACHE_STALE_IF_ERROR, [GET_REVALIDATED] = M_CACHE_REVALIDATED,
    [GET_PARTIAL] = M_CACHE_PARTIAL, [GET_MISS] = M_CACHE_MISS, [GET_NEGATIVE] = M_CACHE_NEGATIVE,
};

void object_count(slice bucket, enum get_source source)
{
    metric_add(counters[source], 1);
    if (source == GET_NEGATIVE)
        return;
    uint32_t number = metric_bucket(bucket);
    metric_bucket_add(number, BUCKET_READS, 1);
    if (source == GET_HIT || source == GET_STALE || source == GET_STALE_IF_ERROR ||
        source == GET_REVALIDATED)
        metric_bucket_add(number, BUCKET_HITS, 1);
}

/* In milliseconds, as server-timing has it. */
static void add_duration(struct text *text, slice name, uint64_t ns)
{
    text_add(text, name);
    text_number(text, ns / 1000000, 1);
    text_char(text, '.');
    text_number(text, ns / 1000 % 1000, 3);
}

static void add_cache_fields(struct fields *fields, struct call *call,
                             const struct get_answer *answer, const struct get_cost *cost)
{
    int64_t age_s = MAX(ageing_s() - answer->validated_s, (int64_t)0);
    call->access.cache_result = get_source_name(answer->source);
    object_count(call->s3.bucket, answer->source);
    fields_add(fields, S("x-amz-request-id"), call->id);
    fields_add(fields, S("x-cache"), slice_of(call->access.cache_result));
    if (answer->source != GET_MISS && answer->validated_s) {
        struct text age = text_in(call->keep);
        text_number(&age, (uint64_t)age_s, 1);
        fields_add(fields, S("age"), text_slice(&age));
    }
    struct text timing = text_in(call->keep);
    add_duration(&timing, S("decide;dur="), cost->decided_ns);
    add_duration(&timing, S(", first;dur="), cost->first_ns);
    fields_add(fields, S("server-timing"), text_slice(&timing));
}

static void add_fields(struct call *call, const struct get_answer *answer,
                       const struct get_cost *cost, struct fields *fields)
{
    char *date = arena_alloc(call->keep, HTTP_DATE_BYTES);
    http_date_write(answer->metadata->modified_s, date);
    if (answer->metadata->etag.len)
        fields_add(fields, S("etag"), answer->metadata->etag);
    fields_add(fields, S("last-modified"), slice_of(date));
    fields_add(fields, S("accept-ranges"), S("bytes"));
    if (answer->partial) {
        struct text range = text_in(call->keep);
        text_add(&range, S("bytes "));
        text_number(&range, answer->first, 1);
        text_char(&range, '-');
        text_number(&range, answer->end - 1, 1);
        text_char(&range, '/');
        text_number(&range, answer->metadata->size, 1);
        fields_add(fields, S("content-range"), text_slice(&range));
    }
    if (answer->parts)
        fields_add(fields, S("x-amz-mp-parts-count"),
                   arena_printf(call->keep, "%u", answer->parts));
    add_cache_fields(fields, call, answer, cost);
    add_part_sums(fields, call, answer);
    if (answer->err != ERR_NOT_MODIFIED)    /* last: a full list drops the fields that come last */
        add_own_fields(fields, call, answer);
}

/* Returns true if the origin must be asked again, to get the document of its refusal. The answer to
 * a HEAD has no document, and a HEAD comes first in three cases: for a part, for a GET whose
 * conditions may make the GET unnecessary, and to prove a client's permission. A missing key needs
 * no document, unless the client has its own identity, names a version, or asks for a part. */
static bool is_for_origin(const struct call *call, const struct get_answer *answer)
{
    const struct refusal *refusal = answer->refusal;
    if (!refusal || refusal->err == ERR_DENIED || call->s3.part)
        return refusal && refusal->err != ERR_DENIED;
    const struct s3_conditions *conditions = &call->s3.conditions;
    bool own = call->client->key.own;
    bool headed = conditions->if_none_match.ptr || conditions->if_modified_since >= 0 || own;
    bool enough = refusal->err == ERR_NO_SUCH_KEY && !own &&
                  !s3_param_get(&call->s3, S("versionId"));
    return headed && call->s3.op == S3_GET_OBJECT && answer->source != GET_NEGATIVE &&
           refusal->status >= 400 && refusal->status < 500 && !refusal->body.len && !enough;
}

static void refuse(struct object *object, const struct get_answer *answer)
{
    struct call *call = object->call;
    struct fields fields = { .keep = call->keep };
    if (is_for_origin(call, answer)) {
        over(object);
        pass_read(call);
        return;
    }
    if (answer->refusal) {
        if (answer->source == GET_NEGATIVE) {
            call->access.cache_result = get_source_name(answer->source);
            object_count(call->s3.bucket, GET_NEGATIVE);
        }
        reply_refusal(call, answer->refusal);
    } else if (answer->err == ERR_NOT_MODIFIED) {
        add_fields(call, answer, get_cost(object->get), &fields);
        call->err = answer->err;
        reply_whole(call, 304, &fields, S(""));
    } else if (answer->err == ERR_BAD_RANGE && call->s3.range.kind != RANGE_NONE) {
        reply_bad_range(call, arena_printf(call->keep, "%" PRIu64, answer->metadata->size));
    } else {
        reply_error(call, answer->err, S(""));
    }
    over(object);
}

static void step(void *arg);

static void proceed(void *arg)
{
    struct object *object = arg;
    object->sending = false;
    if (object->left == 0)
        over(object);
    else
        step(object);
}

static const struct http_source source = { proceed, over };

static void start(struct object *object, const struct get_answer *answer)
{
    struct call *call = object->call;
    struct fields fields = { .keep = call->keep };
    uint64_t length = answer->end - answer->first;
    check(answer->first <= answer->end && answer->end <= answer->metadata->size);
    add_fields(call, answer, get_cost(object->get), &fields);
    object->started = true;
    object->left = call->s3.op == S3_HEAD_OBJECT ? 0 : length;
    /* For an answer without a body, proceed() is not called, so the get ends here. It ends after
     * http_reply_start, because the fields lie in the get's memory. */
    struct get *ending = NULL;
    if (object->left == 0) {
        ending = object->get;
        object->get = NULL;
        call->access.cost = *get_cost(ending);
    }
    http_reply_start(call->http, answer->partial ? 206 : 200, fields.list, fields.count, length,
                     &source, object);
    get_end(&ending);
}

/* Continues the answer until it has to wait: for the decision, for a piece, or for the client. */
static void step(void *arg)
{
    struct object *object = arg;
    const struct get_answer *answer;
    if (!object->get || object->sending)
        return;
    if (!object->started) {
        if (get_decide(object->get, &answer) == ERR_WAIT)
            return;
        if (answer->err) {
            refuse(object, answer);
            return;
        }
        start(object, answer);
    }
    if (!object->left || !object->get)
        return;
    slice bytes;
    enum err err = get_next(object->get, &bytes);
    if (err == ERR_WAIT)
        return;
    if (err) {    /* H10: a short body must never look whole */
        object->call->err = err;
        over(object);
        http_reply_abort(object->call->http);
        return;
    }
    check(bytes.len <= object->left);
    object->sending = true;
    object->left -= bytes.len;
    int fd;
    uint64_t offset;
    if (bytes.len > SENDFILE_LEAST && get_run_file(object->get, &fd, &offset))
        http_reply_send_file(object->call->http, bytes, fd, offset);
    else
        http_reply_send(object->call->http, bytes);
}

/* Of a client that can start jobs. All lent keys are one client. */
static slice reader_of(const struct client *client)
{
    slice key = client->key.access_key;
    return key.len ? key : client->number == CLIENT_LENT ? S("") : (slice){ NULL, 0 };
}

struct get_ask object_ask(const struct call *call, slice version)
{
    return (struct get_ask){
        .rules = call->rules,
        .who = &call->client->who,
        .bucket = call->s3.bucket,
        .key = call->s3.key,
        .version = version,
        .range = call->s3.range,
        .part = (unsigned)call->s3.part,
        .conditions = call->s3.conditions,
        .head_only = call->s3.op == S3_HEAD_OBJECT,
        .revalidate = call->s3.no_cache ||
                      (call->rules->freshness == FRESH_TTL && !alias_is_plain(call->s3.key)),
        .want_checksums = call->s3.checksum_mode,
        .reader = reader_of(call->client),
        .trace = call_trace(call),
    };
}

void object_read(struct call *call)
{
    struct object *object = arena_alloc(call->keep, sizeof(*object));
    const struct s3_param *version = s3_param_get(&call->s3, S("versionId"));
    struct get_ask ask = object_ask(call, version ? version->value : S(""));
    ask.to.lends = !http_request_is_tls(call->http);
    object->call = call;
    call->gone = over;
    call->gone_arg = object;
    object->get = get_start(call->loop->cache, &ask, step, object);
    step(object);
}
