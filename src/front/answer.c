/* answer.c - error answers: Penstock's own, in the form of S3, and an origin's.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An error of Penstock becomes the XML document that S3 would send. An origin's error answer goes
 * on to the client, with Penstock's request id. All other files of this folder build their response
 * heads with fields_add, and send an answer that is in memory as a whole with reply_whole. */
#include <inttypes.h>

#include "base/log.h"
#include "base/metric.h"
#include "front/forward.h"
#include "s3/encode.h"

void fields_add(struct fields *fields, slice name, slice value)
{
    check(fields->keep && fields->count <= ANSWER_FIELDS_MAX);
    if (fields->count == ANSWER_FIELDS_MAX) {
        metric_add(M_FRONT_FIELDS_DROPPED, 1);
        return;
    }
    fields->list = arena_grow(fields->keep, fields->list, fields->count, sizeof(*fields->list));
    fields->list[fields->count++] = (struct http_field){ name, value };
}

struct http_field fields_cut(slice *rest)
{
    slice value = slice_cut(rest, '\n');
    value.len -= slice_ends(value, S("\r"));
    slice name = slice_cut(&value, ':');
    return (struct http_field){ name, slice_trim(value) };
}

slice request_id_new(struct front *front, struct arena *keep)
{
    uint64_t number = atomic_fetch_add(&front->request_number, 1);
    unsigned digits = number >> 32 ? 16 : 8;
    char *id = arena_alloc(keep, 8 + 16);
    hex_number_write(front->boot, 8, id);
    hex_number_write(number, digits, id + 8);
    return (slice){ id, 8 + digits };
}

/* Returns a text that says which origin fails, why, and since when. The text is empty if the error
 * is no failure of an origin. It is also empty for an unsigned request and for a preflight, because
 * their sender must not learn about the origin. */
static slice trouble_of(struct call *call, enum err err)
{
    struct origin_health health;
    bool down = err == ERR_ORIGIN_CONNECT || err == ERR_ORIGIN_CERT || err == ERR_ORIGIN_TIMEOUT ||
                err == ERR_ORIGIN_CUT || err == ERR_ORIGIN_REPLY || err == ERR_ORIGIN_DOWN;
    if (!down || !call->rules || !call->access_key.len || call->client == &preflight_client)
        return S("");
    origin_health(call->rules->origin, call->keep, &health);
    slice why = log_sentence(call->keep, health.why.len ? health.why : slice_of(err_text(err)));
    slice since = health.failing_s ? iso_date_text(call->keep, health.failing_s) : S("now");
    return arena_printf(call->keep, "origin %.*s: %.*s, since %.*s", SLICE_ARG(health.name),
                        SLICE_ARG(why), SLICE_ARG(since));
}

void answer_fault(struct fields *fields, enum err err, const struct s3_fault *fault,
                  slice resource, slice id, struct http_answer *ret)
{
    const struct s3_error *error = s3_error_of(err);
    check(err != OK && id.len > 0);
    fields_add(fields, S("content-type"), S("application/xml"));
    fields_add(fields, S("x-amz-request-id"), id);
    if (err == ERR_SLOW_DOWN || err == ERR_LIMIT || err == ERR_ORIGIN_DOWN)
        fields_add(fields, S("retry-after"), S("1"));
    *ret = (struct http_answer){
        .status = error->status,
        .fields = fields->list,
        .field_count = fields->count,
        .body = s3_error_xml(fields->keep, err, fault, resource, id),
        .close = error->close,
    };
}

void reply_fault(struct call *call, enum err err, const struct s3_fault *fault)
{
    struct http_answer answer;
    struct fields fields = { .keep = call->keep };
    struct s3_fault explained = *fault;
    slice trouble = trouble_of(call, err);
    call->err = err;
    if (trouble.len && !fault->message.len)
        explained.message = arena_printf(call->keep, "%s Details: %.*s.",
                                         s3_error_of(err)->message, SLICE_ARG(trouble));
    if (trouble.len)    /* a header, because the answer to a HEAD has no body */
        fields_add(&fields, S("x-penstock-error"), trouble);
    if (call->content_range.len)
        fields_add(&fields, S("content-range"), call->content_range);
    answer_fault(&fields, err, &explained, call->s3.raw_path, call->id, &answer);
    if (slice_eq(call->head->method, S("HEAD")))
        answer.body = S("");
    http_reply(call->http, &answer);
}

void reply_error(struct call *call, enum err err, slice detail)
{
    reply_fault(call, err, &(struct s3_fault){ .message = detail });
}

void reply_whole(struct call *call, int status, const struct fields *fields, slice body)
{
    http_reply(call->http, &(struct http_answer){
        .status = status, .fields = fields->list, .field_count = fields->count, .body = body });
}

/* Returns the message for an origin's error answer without a document. Returns an empty text if the
 * usual message says enough. */
static slice message_of_bare(struct arena *keep, const struct refusal *refusal)
{
    return refusal->err != ERR_ORIGIN_STATUS || !refusal->status ? S("")
         : arena_printf(keep, "%s Details: the origin answered %d.",
                        s3_error_of(refusal->err)->message, refusal->status);
}

void reply_bad_range(struct call *call, slice size)
{
    struct s3_fault fault = { .more_count = 0 };
    slice range = slice_sub(request_head_get(call->head, S("range")), 0, S3_FAULT_QUOTED_MAX);
    s3_fault_add(&fault, S("RangeRequested"), range);
    if (size.len) {
        s3_fault_add(&fault, S("ActualObjectSize"), size);
        call->content_range = arena_printf(call->keep, "bytes */%.*s", SLICE_ARG(size));
    }
    reply_fault(call, ERR_BAD_RANGE, &fault);
}

/* Returns the size of the object by the origin's 416: S3 servers have it in the document,
 * directories in the header. Returns an empty slice if neither has it. */
static slice size_of_refusal(const struct refusal *refusal)
{
    static const slice element = { "<ActualObjectSize>", 18 };
    slice size = slice_from(refusal->body, slice_find(refusal->body, element));
    size = slice_from(size, MIN(element.len, size.len));
    size = slice_cut(&size, '<');
    for (slice rest = refusal->fields; rest.len && !size.len;) {
        struct http_field field = fields_cut(&rest);
        if (slice_eq(field.name, S("content-range")) && slice_starts(field.value, S("bytes */")))
            size = slice_from(field.value, 8);
    }
    uint64_t number;
    return slice_u64(size, &number) ? size : S("");
}

/* Sends the origin's error answer, with Penstock's request id. In four cases Penstock writes an
 * answer of its own: the origin sent no answer; the origin's answer has no document, and the
 * request is not a HEAD; the client may not see the document; the document is about the range that
 * Penstock asked for, which begins before that of the client. */
void reply_refusal(struct call *call, const struct refusal *refusal)
{
    check(refusal->err != OK);
    if (refusal->err == ERR_BAD_RANGE && call->s3.range.kind != RANGE_NONE) {
        reply_bad_range(call, arena_copy(call->keep, size_of_refusal(refusal)));
        return;
    }
    if (!refusal->status || refusal->err == ERR_DENIED ||
        (!refusal->body.len && call->s3.op != S3_HEAD_OBJECT)) {
        reply_error(call, refusal->err, message_of_bare(call->keep, refusal));
        return;
    }
    struct fields fields = { .keep = call->keep };
    call->err = refusal->err;
    if (refusal->content_type.len)
        fields_add(&fields, S("content-type"), arena_copy(call->keep, refusal->content_type));
    for (slice rest = arena_copy(call->keep, refusal->fields); rest.len;) {
        struct http_field field = fields_cut(&rest);
        fields_add(&fields, field.name, field.value);
    }
    fields_add(&fields, S("x-amz-request-id"), call->id);
    if (slice_of(call->access.cache_result).len > 1)
        fields_add(&fields, S("x-cache"), slice_of(call->access.cache_result));
    reply_whole(call, refusal->status, &fields,
                arena_copy(call->keep, forward_document(call, refusal->status, refusal->body)));
}
