/* client_span.c - the span of a call to an origin. SPDX-License-Identifier: Apache-2.0
 *
 * A call has one span, from origin_start to its end. So the span includes the wait for a
 * connection, and all tries, which send the same traceparent. The attributes are those of
 * OpenTelemetry's conventions for HTTP clients. Keys of objects are not exported, so the URL ends after the bucket.
 * Threads: the caller of origin_start, and then the thread of the call. */
#include <stdio.h>
#include <stdlib.h>

#include "base/span.h"
#include "origin/kind.h"

/* The endpoint is scheme://host[:port]; that of a directory is no address. */
static void add_address(struct span *span, const struct origin_hook *hook)
{
    slice endpoint = slice_of(hook->origin->endpoint), host = endpoint;
    bool https = slice_starts(endpoint, S("https://"));
    char url[SPAN_TEXT_BYTES];
    host = slice_from(host, https ? 8 : 7);
    slice port = url_cut_port(&host);
    uint64_t number = https ? 443 : 80;
    if (port.ptr && !slice_u64(port, &number))
        return;
    span_text(span, "server.address", host);
    span_number(span, "server.port", number);
    slice bucket = hook->call->bucket;
    int len = snprintf(url, sizeof(url), "%.*s/%.*s%s", SLICE_ARG(endpoint), SLICE_ARG(bucket),
                       hook->call->key.len ? "/REDACTED" : "");
    if (len > 0 && (size_t)len < sizeof(url))
        span_text(span, "url.full", (slice){ url, (size_t)len });
}

void client_span_begin(struct origin_hook *hook)
{
    const struct origin_call *call = hook->call;
    if (!call->trace.recorded)
        return;
    const struct s3_operation *row = s3_operation(call->op);
    bool http = slice_starts(slice_of(hook->origin->endpoint), S("http"));
    struct span *span = hook->span = must_alloc(sizeof(*span));
    span_begin(span, &call->trace, http ? SPAN_CLIENT : SPAN_INTERNAL, row->method_name, row->name);
    span_text(span, "http.request.method", slice_of(row->method_name));
    if (http)
        add_address(span, hook);
    if (call->bucket.len)
        span_text(span, "aws.s3.bucket", call->bucket);
    if (hook->origin->name)
        span_text(span, "penstock.origin", slice_of(hook->origin->name));
}

void client_span_head(struct origin_hook *hook, const struct origin_reply *reply)
{
    if (!hook->span)
        return;
    span_number(hook->span, "http.response.status_code", (uint64_t)reply->status);
    if (reply->tries > 1)
        span_number(hook->span, "http.request.resend_count", reply->tries - 1);
    span_number(hook->span, "penstock.first_byte_us", reply->first_byte_ns / 1000);
}

void client_span_end(struct origin_hook *hook, enum err err)
{
    struct span *span = hook->span;
    hook->span = NULL;
    if (!span)
        return;
    /* A fetch that nobody needs any more is canceled: that is no failure. */
    bool ended = err == ERR_CANCELED || err == ERR_YIELDED;
    span->failed = (err && !ended) || hook->status >= 400;
    char status[12];
    snprintf(status, sizeof(status), "%d", hook->status);
    if (span->failed || ended)
        span_text(span, "error.type", slice_of(err ? err_name(err) : status));
    span_number(span, "http.response.body.size", hook->body_bytes);
    span_end(span);
    free(span);
}
