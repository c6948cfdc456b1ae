/* peer_span.c - the trace of a question of a peer. SPDX-License-Identifier: Apache-2.0
 *
 * The other node sends the context of its own span (peers/question_span.c), so the span here is a
 * child of it, and a call to the origin is a child of the span here. A question without a trace
 * begins none. Only nodes of the fleet can connect, so strangers record nothing. Keys of objects are
 * not exported. Threads: the loop. */
#include "base/span.h"
#include "front/peering.h"
#include "s3/encode.h"

void peer_span_begin(struct peer_answer *answer)
{
    struct trace *trace = &answer->trace;
    const struct peer_question *question = &answer->question;
    char node[2 * NODE_ID_BYTES];
    trace_read(answer->keep, http_request_head(answer->http), trace);
    if (trace->given)
        trace_decide(trace);
    if (!trace->recorded)
        return;
    trace->span = arena_alloc(answer->keep, sizeof(*trace->span));
    span_begin(trace->span, trace, SPAN_SERVER, "GET", "Segment");
    hex_write(question->node, NODE_ID_BYTES, node);
    span_text(trace->span, "http.request.method", S("GET"));
    span_text(trace->span, "url.scheme", S("https"));
    span_text(trace->span, "url.path", arena_printf(answer->keep, "/peer/%u/%.*s/REDACTED",
                                                    PEER_PROTOCOL,
                                                    SLICE_ARG(question->place.bucket)));
    span_text(trace->span, "aws.s3.bucket", question->place.bucket);
    span_text(trace->span, "penstock.peer", (slice){ node, sizeof(node) });
}

static const char *result_of(const struct peer_answer *answer)
{
    return answer->result == M_PEER_HAVE ? "have" : answer->result == M_PEER_FETCHING ? "fetching"
         : answer->result == M_PEER_CHANGED ? "changed" : answer->result == M_PEER_BUSY ? "busy"
         : answer->result == M_PEER_NO ? "no" : "failed";
}

void peer_span_end(struct peer_answer *answer, const struct http_outcome *outcome)
{
    struct span *span = answer->trace.span;
    if (!span)
        return;
    answer->trace.span = NULL;
    if (outcome->status)
        span_number(span, "http.response.status_code", (uint64_t)outcome->status);
    span_number(span, "http.response.body.size", outcome->body_bytes_sent);
    span_text(span, "penstock.answer", slice_of(result_of(answer)));
    span->failed = answer->result == M_PEER_FAILED || outcome->status >= 500 || !outcome->complete;
    if (span->failed)
        span_text(span, "error.type", slice_of(outcome->complete ? result_of(answer) : "incomplete"));
    span_end(span);
}
