/* forward.c - the fields and documents that Penstock forwards, both ways.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The origin gets all headers about the object or the operation. It gets no header about the
 * client's connection or signature, because Penstock has its own connection and signature to the
 * origin. The client gets all headers of the answer, except those about the origin's server or
 * connection. In documents, Penstock puts its own request id and address in place of the
 * origin's. */
#include "front/forward.h"

#include "base/metric.h"
#include "s3/encode.h"
#include "s3/integrity.h"
#include "s3/xml.h"

/* True for a header that the Connection header lists. */
static bool is_of_connection(const struct request_head *head, slice name)
{
    for (size_t i = 0; i < head->field_count; i++)
        if (slice_eq_nocase(head->fields[i].name, S("connection")) &&
            slice_list_has(head->fields[i].value, ',', name))
            return true;
    return false;
}

static bool is_sent(const struct call *call, slice name)
{
    enum header_fate fate = s3_header_fate(&call->s3, name);
    if (integrity_is_framing(name) || fate == HEADER_OURS || fate == HEADER_UNSENT)
        return false;    /* where the origin needs such a header, Penstock writes its own */
    bool is_known = fate != HEADER_UNKNOWN && fate != HEADER_FOREIGN;
    bool goes = is_known || (fate == HEADER_FOREIGN && !is_of_connection(call->head, name));
    metric_add(M_FRONT_HEADERS_UNSENT, goes ? 0 : 1);
    return goes;
}

static bool is_answered(slice name)
{
    static const char *const ours[] = {
        "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "te", "trailer",
        "transfer-encoding", "upgrade", "content-length", "date", "server", "alt-svc",
        "strict-transport-security", "set-cookie", "x-amz-request-id",
    };
    return !slice_is_one_of_nocase(name, ours, countof(ours));
}

struct http_field *forward_fields(struct arena *keep, const struct call *call, size_t *ret_count)
{
    const struct request_head *head = call->head;
    const struct s3_request *s3 = &call->s3;
    size_t count = 0, room = s3_header_count(head, s3) + INTAKE_FIELDS_MAX;
    struct http_field *list = arena_alloc(keep, room * sizeof(*list));
    for (size_t i = 0; i < s3_header_count(head, s3); i++) {
        struct http_field field = s3_header_at(head, s3, i);
        if (is_sent(call, field.name))
            list[count++] = (struct http_field){ arena_copy(keep, field.name),
                                                 arena_copy(keep, field.value) };
    }
    *ret_count = count;
    return list;
}

static bool is_signature(slice name)
{
    static const char *const sigv2[] = { "AWSAccessKeyId", "Signature", "Expires" };
    return slice_starts_nocase(name, S("X-Amz-")) ||
           slice_is_one_of_nocase(name, sigv2, countof(sigv2));
}

slice forward_query(struct arena *keep, const struct s3_request *s3)
{
    struct text query = text_in(keep);
    for (size_t i = 0; i < s3->param_count; i++) {
        const struct s3_param *param = &s3->params[i];
        if (is_signature(param->name))
            continue;
        if (query.len)
            text_char(&query, '&');
        uri_encode(&query, param->name, true);
        if (param->value.ptr)
            text_char(&query, '=');
        uri_encode(&query, param->value, true);
    }
    return text_slice(&query);
}

/* Returns the document with `value` in its first element `name`. A document without that element
 * stays as it is. A search for the tags is enough, because tags inside a value are escaped. */
static slice with_element(struct arena *keep, slice document, const char *name, slice value)
{
    slice open = arena_printf(keep, "<%s>", name), end = arena_printf(keep, "</%s>", name);
    size_t from = slice_find(document, open) + open.len, to = slice_find(document, end);
    struct text text = text_in(keep);
    if (to == document.len || from > to)
        return document;
    text_add(&text, slice_sub(document, 0, from));
    xml_escape(&text, value);
    text_add(&text, slice_from(document, to));
    return text_slice(&text);
}

/* Returns the URL of the object, with the host name that the client used. */
static slice here(const struct call *call)
{
    slice path = call->head->path;
    struct text text = text_in(call->keep);
    text_printf(&text, "%s://%.*s", http_request_is_tls(call->http) ? "https" : "http",
                SLICE_ARG(call->head->host));
    path.len -= call->form && slice_ends(path, S("/"));
    text_add(&text, path);
    if (call->form) {
        text_char(&text, '/');
        uri_encode(&text, form_get(call->form, S("key")), false);
    }
    return text_slice(&text);
}

void forward_location(const struct call *call, int status, struct fields *fields)
{
    for (size_t i = 0; i < fields->count; i++)
        if (call->form && status < 300 && slice_eq_nocase(fields->list[i].name, S("location")))
            fields->list[i].value = here(call);
}

bool forward_changes(const struct call *call, int status)
{
    return status >= 400 || call->s3.op == S3_COMPLETE_UPLOAD || call->form;
}

slice forward_document(const struct call *call, int status, slice document)
{
    if (!forward_changes(call, status))
        return document;
    document = with_element(call->keep, document, "RequestId", call->id);
    if (status >= 400 || !call->head->host.len)
        return document;
    return with_element(call->keep, document, "Location", here(call));
}

void forward_answer(struct arena *keep, const struct origin_reply *reply, struct fields *fields)
{
    for (size_t i = 0; i < reply->field_count; i++)
        if (is_answered(reply->fields[i].name))
            fields_add(fields, arena_copy(keep, reply->fields[i].name),
                       arena_copy(keep, reply->fields[i].value));
    /* x-amz-request-id has Penstock's id, which is in Penstock's log. If the origin sent no
     * x-amz-id-2, the client gets the origin's own request id in x-amz-id-2, so that the operator
     * of the origin can find the request. */
    slice id = origin_reply_get(reply, S("x-amz-request-id"));
    if (id.len && !origin_reply_get(reply, S("x-amz-id-2")).len)
        fields_add(fields, S("x-amz-id-2"), arena_copy(keep, id));
}
