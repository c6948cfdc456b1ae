/* object.c - GetObject and HeadObject: the cache's decision as an HTTP answer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One piece is sent, then proceed asks for the next (H5). Bytes come from the get, which may make
 * us wait; its wake and the client's proceed meet in step(). */
#include <inttypes.h>

#include "base/clock.h"
#include "base/metric.h"
#include "cache/alias.h"
#include "front/inside.h"
#include "s3/encode.h"

struct object {
    struct call *call;
    struct get *get;
    uint64_t left;                /* bytes still to be handed to the client */
    bool started;                 /* headers are out, or on their way with the first piece */
    bool sending;                 /* a piece is on its way: wait for proceed */
};

static void over(struct object *object)
{
    if (!object->get)
        return;
    object->call->cost = *get_cost(object->get);
    get_end(&object->get);
}

static slice override_of(const struct call *call, const char *name)
{
    const struct s3_param *param = s3_param_get(&call->s3, slice_of(name));
    return param && param->value.ptr ? param->value : (slice){ 0 };
}

static const struct {
    const char *param;
    slice field;
} overrides[] = {
    { "response-content-type", { "content-type", 12 } },
    { "response-content-language", { "content-language", 16 } },
    { "response-expires", { "expires", 7 } },
    { "response-cache-control", { "cache-control", 13 } },
    { "response-content-disposition", { "content-disposition", 19 } },
    { "response-content-encoding", { "content-encoding", 16 } },
};

static bool is_overridden(const struct call *call, slice field)
{
    for (size_t i = 0; i < countof(overrides); i++)
        if (slice_eq(overrides[i].field, field))
            return override_of(call, overrides[i].param).ptr != NULL;
    return false;
}

/* The checksums of a part that is not the whole object. */
static void add_part_sums(struct fields *fields, const struct call *call,
                          const struct get_answer *answer)
{
    bool whole = answer->first == 0 && answer->end == answer->head->size;
    slice rest = call->s3.checksum_mode && !answer->err && !whole ? answer->part_sums : S("");
    while (rest.len) {
        slice line = slice_cut(&rest, '\n'), value = slice_cut(&line, '\r');
        slice name = slice_cut(&value, ':');
        fields_add(fields, name, slice_trim(value));
    }
}

/* The object's own headers, as the origin sent them; checksums of the whole never with a part. */
static void add_own_fields(struct fields *fields, const struct call *call,
                           const struct get_answer *answer)
{
    slice rest = answer->head->fields;
    while (rest.len) {
        slice line = slice_cut(&rest, '\n');
        if (line.len && line.ptr[line.len - 1] == '\r')
            line.len--;
        slice name = slice_cut(&line, ':'), value = slice_trim(line);
        bool whole = answer->first == 0 && answer->end == answer->head->size;
        if (slice_starts(name, S("x-amz-checksum-")) &&
            (!whole || (answer->partial && !call->s3.part) || answer->err ||
             !call->s3.checksum_mode))
            continue;
        if (call->s3.part && slice_eq(name, S("x-amz-mp-parts-count")))
            continue;    /* said with the part */
        if (!is_overridden(call, name))
            fields_add(fields, name, value);
    }
    for (size_t i = 0; i < countof(overrides); i++) {
        slice value = override_of(call, overrides[i].param);
        if (value.ptr)
            fields_add(fields, overrides[i].field, value);
    }
    if (!head_field(answer->head, S("content-type")).ptr &&
        !override_of(call, "response-content-type").ptr)
        fields_add(fields, S("content-type"), S("binary/octet-stream"));
}

static const enum metric counters[] = {
    [GET_HIT] = M_CACHE_HIT, [GET_STALE] = M_CACHE_STALE, [GET_REVALIDATED] = M_CACHE_REVALIDATED,
    [GET_PARTIAL] = M_CACHE_PARTIAL, [GET_MISS] = M_CACHE_MISS, [GET_NEGATIVE] = M_CACHE_NEGATIVE,
};

void object_count(enum get_source source)
{
    metric_add(counters[source], 1);
}

static void add_cache_fields(struct fields *fields, struct call *call,
                             const struct get_answer *answer, const struct get_cost *cost)
{
    int64_t age_s = MAX(ageing_s() - answer->validated_s, (int64_t)0);
    call->cache_result = get_source_name(answer->source);
    object_count(answer->source);
    fields_add(fields, S("x-amz-request-id"), call->id);
    fields_add(fields, S("x-cache"), slice_of(call->cache_result));
    if (answer->source != GET_MISS)
        fields_add(fields, S("age"), arena_printf(call->keep, "%" PRId64, age_s));
    fields_add(fields, S("server-timing"),
               arena_printf(call->keep, "decide;dur=%.3f, first;dur=%.3f",
                            (double)(cost->decided_ns / 1000) / 1000,
                            (double)(cost->first_ns / 1000) / 1000));
}

static void add_fields(struct call *call, const struct get_answer *answer,
                       const struct get_cost *cost, struct fields *fields)
{
    char *date = arena_alloc(call->keep, HTTP_DATE_BYTES);
    http_date_write(answer->head->modified_s, date);
    if (answer->head->etag.len)
        fields_add(fields, S("etag"), answer->head->etag);
    fields_add(fields, S("last-modified"), slice_of(date));
    fields_add(fields, S("accept-ranges"), S("bytes"));
    if (answer->partial)
        fields_add(fields, S("content-range"),
                   arena_printf(call->keep, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, answer->first,
                                answer->end - 1, answer->head->size));
    if (answer->parts)
        fields_add(fields, S("x-amz-mp-parts-count"),
                   arena_printf(call->keep, "%u", answer->parts));
    add_cache_fields(fields, call, answer, cost);
    add_part_sums(fields, call, answer);
    if (answer->err != ERR_NOT_MODIFIED)    /* last: none of them may keep out what comes before */
        add_own_fields(fields, call, answer);
}

/* Must the origin be asked again, for the document of its refusal? Yes if a HEAD was refused: of a
 * part; before a GET whose conditions might have made it unnecessary; or to prove a client's
 * permission. A missing key needs no document, unless it may be missing for this client alone. */
static bool is_for_origin(const struct call *call, const struct get_answer *answer)
{
    const struct refusal *refusal = answer->refusal;
    if (!refusal || refusal->err == ERR_DENIED || call->s3.part)
        return refusal && refusal->err != ERR_DENIED;
    const struct s3_conditions *conditions = &call->s3.conditions;
    bool own = call->client->own;
    bool headed = conditions->if_none_match.ptr || conditions->if_modified_since >= 0 || own;
    bool enough = refusal->err == ERR_NO_SUCH_KEY && !own &&
                  !s3_param_get(&call->s3, S("versionId"));
    return headed && call->s3.op == S3_GET_OBJECT && answer->source != GET_NEGATIVE &&
           refusal->status >= 400 && refusal->status < 500 && !refusal->body.len && !enough;
}

static void refuse(struct object *object, const struct get_answer *answer)
{
    struct call *call = object->call;
    struct fields fields = fields_in(call->keep);
    struct http_answer reply;
    if (is_for_origin(call, answer)) {
        over(object);
        pass_read(call);
        return;
    }
    if (answer->refusal) {
        if (answer->source == GET_NEGATIVE) {
            call->cache_result = get_source_name(answer->source);
            object_count(GET_NEGATIVE);
        }
        reply_refusal(call, answer->refusal);
    } else if (answer->err == ERR_NOT_MODIFIED) {
        add_fields(call, answer, get_cost(object->get), &fields);
        call->err = answer->err;
        http_reply(call->http, &(struct http_answer){
            .status = 304, .fields = fields.list, .field_count = fields.count });
    } else {
        call->err = answer->err;
        answer_fault(call->keep, answer->err, &(struct s3_fault){ .more_count = 0 },
                     call->s3.raw_path, call->id, &reply);
        for (size_t i = 0; i < reply.field_count; i++)
            fields_add(&fields, reply.fields[i].name, reply.fields[i].value);
        if (answer->err == ERR_BAD_RANGE)
            fields_add(&fields, S("content-range"),
                       arena_printf(call->keep, "bytes */%" PRIu64, answer->head->size));
        reply.fields = fields.list;
        reply.field_count = fields.count;
        if (call->s3.op == S3_HEAD_OBJECT)
            reply.body = S("");
        http_reply(call->http, &reply);
    }
    over(object);
}

static void step(struct object *object);

static void proceed(void *arg)
{
    struct object *object = arg;
    object->sending = false;
    if (object->left == 0)
        over(object);
    else
        step(object);
}

static void stop(void *arg)
{
    over(arg);
}

static const struct http_source source = { proceed, stop };

static void start(struct object *object, const struct get_answer *answer)
{
    struct call *call = object->call;
    struct fields fields = fields_in(call->keep);
    uint64_t length = answer->end - answer->first;
    add_fields(call, answer, get_cost(object->get), &fields);
    object->started = true;
    object->left = call->s3.op == S3_HEAD_OBJECT ? 0 : length;
    struct get *ending = NULL;    /* without a body no proceed comes; the answer lies in the get */
    if (object->left == 0) {
        ending = object->get;
        object->get = NULL;
        call->cost = *get_cost(ending);
    }
    http_reply_start(call->http, answer->partial ? 206 : 200, fields.list, fields.count, length,
                     &source, object);
    get_end(&ending);
}

/* As far as it goes now: the decision, the headers, one piece. */
static void step(struct object *object)
{
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
    if (err) {    /* H10: never a short body that looks whole */
        object->call->err = err;
        over(object);
        http_reply_abort(object->call->http);
        return;
    }
    object->sending = true;
    object->left -= bytes.len;
    http_reply_send(object->call->http, bytes);
}

static void changed(void *arg)
{
    step(arg);
}

static struct get_ask ask_of(const struct call *call)
{
    const struct s3_param *version = s3_param_get(&call->s3, S("versionId"));
    return (struct get_ask){
        .place = call->place,
        .who = &call->client->who,
        .bucket = call->s3.bucket,
        .key = call->s3.key,
        .version = version ? version->value : S(""),
        .range = call->s3.range,
        .part = (unsigned)call->s3.part,
        .conditions = call->s3.conditions,
        .head_only = call->s3.op == S3_HEAD_OBJECT,
        .revalidate = call->s3.no_cache ||
                      (call->place->freshness == FRESH_TTL && !alias_is_plain(call->s3.key)),
        .want_checksums = call->s3.checksum_mode,
    };
}

void object_read(struct call *call)
{
    struct object *object = arena_alloc(call->keep, sizeof(*object));
    struct get_ask ask = ask_of(call);
    object->call = call;
    call->gone = stop;
    call->gone_arg = object;
    object->get = get_start(call->loop->cache, &ask, changed, object);
    step(object);
}
