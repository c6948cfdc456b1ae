/* traces.h - exports the spans of recorded requests. SPDX-License-Identifier: Apache-2.0
 *
 * The exporter sends all spans that end (base/span.h) to a collector, in OTLP over HTTP. It has one
 * thread, `traces`, and never makes a request wait: without a collector, spans are dropped and
 * counted. There is one exporter for the process. */
#ifndef TRACES_TRACES_H
#define TRACES_TRACES_H

#include "base/config.h"
#include "base/trace.h"
#include "s3/request_head.h"

/* All texts must live until traces_stop returns. */
struct traces_options {
    const char *url;                /* of the collector */
    const struct http_field *headers;    /* for the collector */
    size_t header_count;
    const char *ca_file;            /* as in origin_options */
    const char *version;            /* of Penstock */
    size_t queue_spans;
    struct trace_sampling sampling;
};

/* From now on, requests are recorded. Returns false if the thread could not be started. */
bool traces_start(const struct traces_options *options) MUST_USE;
/* Sends the spans that are left, for at most 3 s. Does nothing if traces_start was not called. */
void traces_stop(void);

#endif
