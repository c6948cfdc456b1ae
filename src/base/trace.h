/* trace.h - the trace context of a request, as W3C Trace Context has it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A trace is the tree of the work that several programs do for one request of a user. A part of
 * this work is a span. The header traceparent carries the trace from a client to a server: it names
 * the trace and the client's span, and says whether the client records the trace (the flag
 * "sampled"). The header tracestate has the data of the tracing systems in use.
 *
 *     client ──traceparent──> server span ──┬── client span ──traceparent──> origin
 *                                           └── client span ──traceparent──> origin
 *
 * If Penstock records a request (span.h), its spans are the parents of what comes after them. If
 * not, Penstock sends the client's headers on as they came. Each request that Penstock sends for
 * another one is a child of it: trace_child makes the child's context. Any thread may call these
 * functions. */
#ifndef BASE_TRACE_H
#define BASE_TRACE_H

#include "base/arena.h"

#define TRACEPARENT_BYTES 55u
#define TRACESTATE_BYTES_MAX 512u

struct span;

struct trace {
    bool given;                 /* false: there is no trace; all other members are 0 */
    bool recorded;              /* Penstock records the span `span_id` */
    bool remote;                /* the parent is a span of another program */
    uint8_t flags;              /* as traceparent has them */
    uint8_t id[16];
    uint8_t span_id[8];         /* the parent of what comes next */
    uint8_t parent_id[8];       /* of a recorded span; all 0: it is the first span of the trace */
    slice state;                /* the value of tracestate; may be empty */
    struct span *span;          /* the span that gets links (span_link); NULL: none does */
};

/* Reads the value of traceparent. Returns false if it is not valid: then it counts as absent. */
bool trace_parse(slice parent, struct trace *ret) MUST_USE;
/* Returns true if the value of tracestate may be sent on. */
bool trace_state_is_valid(slice state) MUST_USE;
/* Writes the value of traceparent for a request that is sent on behalf of the trace. */
void trace_write(const struct trace *trace, char ret[TRACEPARENT_BYTES]);

/* Sets the context of a request that is sent for the parent: of a new span if the parent is
 * recorded, otherwise the same as the parent's. `ret` may be `parent`. */
void trace_child(const struct trace *parent, struct trace *ret);
/* Makes a context that trace_child has set that of another request, for the same parent. */
void trace_sibling(struct trace *trace);
/* Copies a context whose request may end before the copy is used. `from` may be NULL. */
void trace_copy(const struct trace *from, struct arena *keep, struct trace *ret);

/* ---- which requests are recorded ---- */

struct trace_sampling {
    bool on;                    /* false: no request is recorded */
    double ratio;               /* of requests without a valid traceparent, 0 to 1 */
    unsigned a_second;          /* most requests that are recorded because clients ask for it */
};
void trace_sample(const struct trace_sampling *sampling);    /* any time */
/* Decides whether the request is recorded. `trace` has what the client sent, or nothing. If the
 * request is recorded, `trace` gets an id of its own for the span, and if necessary a new trace. */
void trace_decide(struct trace *trace);

#endif
