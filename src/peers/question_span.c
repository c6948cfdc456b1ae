/* question_span.c - the span of a question to another node. SPDX-License-Identifier: Apache-2.0
 *
 * A call has a span for each node that it asks, and one for the origin if none of them brings the
 * bytes. All of them are children of the same request:
 *
 *     request ──┬── question to the owner ──traceparent──> span of the owner ── its call to the origin
 *               ├── question to the second in rank
 *               └── call to the origin
 *
 * The attributes are those of OpenTelemetry's conventions for HTTP clients. Keys of objects are not
 * exported. Threads: that of the errand of the call. */
#include <stdlib.h>

#include "base/span.h"
#include "peers/inside.h"

static void add_facts(struct span *span, const struct node *node,
                      const struct peer_question *question)
{
    slice host = slice_of(node->text);
    slice port = url_cut_port(&host);
    uint64_t number;
    span_text(span, "http.request.method", S("GET"));
    span_text(span, "server.address", host);
    if (slice_u64(port, &number))
        span_number(span, "server.port", number);
    span_text(span, "aws.s3.bucket", question->place.bucket);
}

size_t question_span_begin(struct question_span *ret, const struct trace *trace,
                           const struct node *node, const struct peer_question *question,
                           struct http_field fields[TRACE_FIELDS])
{
    size_t count = 0;
    *ret = (struct question_span){ .span = NULL };
    if (trace->recorded) {
        ret->span = must_alloc(sizeof(*ret->span));
        span_begin(ret->span, trace, SPAN_CLIENT, "GET", "Segment");
        add_facts(ret->span, node, question);
    }
    if (!trace->given)
        return 0;
    trace_write(trace, ret->parent);
    fields[count++] = (struct http_field){ S("traceparent"), { ret->parent, TRACEPARENT_BYTES } };
    if (trace->state.len)
        fields[count++] = (struct http_field){ S("tracestate"), trace->state };
    return count;
}

void question_span_end(struct question_span *of, const char *error)
{
    struct span *span = of->span;
    of->span = NULL;
    if (!span)
        return;
    if (of->status)
        span_number(span, "http.response.status_code", (uint64_t)of->status);
    span_number(span, "http.response.body.size", of->bytes);
    span->failed = error != NULL;
    if (error)
        span_text(span, "error.type", slice_of(error));
    span_end(span);
    free(span);
}
