/* span.h - spans, and the queue in which they wait for their export.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A span is a part of the work of a trace (trace.h), with a begin, an end and attributes. It has a
 * fixed size: what has no room is left out. The thread that does the work fills the span. span_end
 * copies the span into the queue, from which the exporter (src/traces) takes all spans at once.
 * span_end does not wait: if the queue is full, the span is dropped and counted. Any thread may
 * call these functions; one thread at a time may use a span. */
#ifndef BASE_SPAN_H
#define BASE_SPAN_H

#include "base/trace.h"

#define SPAN_ATTRIBUTES 14u
#define SPAN_LINKS 8u
#define SPAN_TEXT_BYTES 448u

enum span_kind { SPAN_INTERNAL = 1, SPAN_SERVER = 2, SPAN_CLIENT = 3 };    /* OTLP's numbers */

struct span_attribute {
    const char *name;               /* a string literal */
    int64_t number;
    uint16_t at, len;               /* of its value in `text`, if is_text */
    bool is_text;
};

struct span_link {
    uint8_t id[16], span_id[8];
};

struct span {
    uint8_t id[16], span_id[8], parent_id[8];
    uint8_t flags;
    bool remote;                    /* the parent is a span of another program */
    bool failed;
    enum span_kind kind;
    const char *method, *operation;    /* string literals: the name of the span is both */
    uint64_t began_ns;              /* wall clock, since 1970 */
    uint64_t began_mono_ns, took_ns;
    struct span_attribute attributes[SPAN_ATTRIBUTES];
    struct span_link links[SPAN_LINKS];
    unsigned attribute_count, link_count, links_dropped, text_len;
    char text[SPAN_TEXT_BYTES];
};

/* Begins the span of a recorded trace. */
void span_begin(struct span *ret, const struct trace *trace, enum span_kind kind,
                const char *method, const char *operation);
/* Add an attribute. `name` must be a string literal. Bytes of a text that are not printable ASCII
 * become '?'. Without room, the attribute is left out. `span` may be NULL. */
void span_text(struct span *span, const char *name, slice value);
void span_number(struct span *span, const char *name, uint64_t value);
/* Links the span to a span that did work for it, but belongs to another trace, or to another part
 * of the same trace. Nothing happens if `span` is NULL, if the other span is a child of this one, or
 * if there is such a link. */
void span_link(struct span *span, const struct trace *to);
void span_end(struct span *span);

/* ---- the queue: for the exporter ---- */

/* Spans that end from now on go into a queue of `most` spans. */
void spans_begin(size_t most);
/* Waits until there are spans, and then for a second, or until the queue is half full. Takes all
 * spans: *spans is an array for `most` spans, and the queue uses it from now on in exchange.
 * Returns their number; 0: spans_finish was called, and the queue is empty. */
size_t spans_take(struct span **spans) MUST_USE;
void spans_pause(uint64_t ms);      /* waits for this time, or until spans_finish is called */
void spans_finish(void);            /* ends the waits */
bool spans_are_finished(void);
void spans_free(void);              /* spans that end from now on are dropped */

#endif
