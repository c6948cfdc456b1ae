/* server_span.c - the trace of a request, and the request's span.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The trace comes from the client's headers, or begins here (base/trace.h). If the request is
 * recorded, its span goes from the judge to the end of the answer. A request that anybody may have
 * sent has no span, so that strangers can't fill the queue of spans: one with a wrong signature, a
 * preflight, a browser's form. The attributes are those of
 * OpenTelemetry's conventions for HTTP servers, and some of Penstock's own. Keys of objects, access
 * keys and addresses of clients are not exported: traces often leave the site. An operator finds
 * them in the access line, by the trace id or the request id. Threads: the loop of the request. */
#include <stdio.h>

#include "base/span.h"
#include "front/inside.h"

void trace_read(struct arena *keep, const struct request_head *head, struct trace *ret)
{
    slice name = S("traceparent"), parent = S("");
    unsigned count = 0;
    for (size_t i = 0; i < head->field_count; i++)
        if (head->fields[i].name.len == name.len && slice_eq_nocase(head->fields[i].name, name)) {
            parent = head->fields[i].value;
            count++;
        }
    if (count != 1 || !trace_parse(parent, ret))
        return;
    slice state = http_field_join(keep, head->fields, head->field_count, S("tracestate"));
    if (trace_state_is_valid(state))
        ret->state = state;
}

/* Returns the method as OpenTelemetry writes it: few values, whatever clients send. */
static const char *method_of(const struct call *call)
{
    static const char *const known[] = { "GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS",
                                         "PATCH" };
    for (size_t i = 0; i < countof(known); i++)
        if (slice_eq(call->head->method, slice_of(known[i])))
            return known[i];
    return "_OTHER";
}

void server_span_begin(struct call *call, bool proved)
{
    struct trace *trace = &call->trace;
    trace_read(call->keep, call->head, trace);
    if (proved)
        trace_decide(trace);
    if (!trace->recorded)
        return;
    const struct s3_request *s3 = &call->s3;
    const char *method = method_of(call);
    trace->span = arena_alloc(call->keep, sizeof(*trace->span));
    span_begin(trace->span, trace, SPAN_SERVER, method,
               s3->op < S3_OP_COUNT ? s3_op_name(s3->op) : "");
    span_text(trace->span, "http.request.method", slice_of(method));
    slice path = arena_printf(call->keep, "/%.*s%s", SLICE_ARG(s3->bucket),
                              s3->key.len ? "/REDACTED" : "");
    span_text(trace->span, "url.path", path);
    slice rest = call->head->host;
    (void)url_cut_port(&rest);
    if (rest.len)
        span_text(trace->span, "server.address", slice_sub(rest, 0, 64));
    if (s3->bucket.len)
        span_text(trace->span, "aws.s3.bucket", s3->bucket);
    span_text(trace->span, "penstock.request_id", call->id);
}

void server_span_end(struct call *call, const struct http_outcome *outcome)
{
    struct span *span = call->trace.span;
    const struct access_line *access = &call->access;
    if (!span)
        return;
    call->trace.span = NULL;
    if (outcome->status)
        span_number(span, "http.response.status_code", (uint64_t)outcome->status);
    span_number(span, "http.response.body.size", outcome->body_bytes_sent);
    if (access->cache_result[0] != '-')
        span_text(span, "penstock.cache", slice_of(access->cache_result));
    if (access->cost.cache_bytes)
        span_number(span, "penstock.cache_bytes", access->cost.cache_bytes);
    if (access->cost.peers_bytes)
        span_number(span, "penstock.peers_bytes", access->cost.peers_bytes);
    if (access->cost.origin_bytes)
        span_number(span, "penstock.origin_bytes", access->cost.origin_bytes);
    span->failed = outcome->status >= 500 || !outcome->complete;
    if (span->failed)
        span_text(span, "error.type", call->err ? slice_of(err_name(call->err))
                                                : S("incomplete"));
    span_end(span);
}
