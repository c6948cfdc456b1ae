/* encode.h - spans as a request of OTLP. SPDX-License-Identifier: Apache-2.0
 *
 * OTLP (OpenTelemetry protocol) over HTTP, as JSON: ids are hex, and 64-bit numbers are texts. The
 * functions do no I/O. */
#ifndef TRACES_ENCODE_H
#define TRACES_ENCODE_H

#include "base/span.h"

/* The process that the spans come from. The texts end with a NUL. */
struct encode_source {
    const char *version;            /* of Penstock */
    const char *instance;           /* names this process */
    const char *host;
};

/* Returns the body of an ExportTraceServiceRequest. The caller frees it. */
char *encode_spans(const struct encode_source *from, const struct span *spans,
                   size_t count) MUST_USE;

/* Reads the body of an ExportTraceServiceResponse. Returns the number of spans that the collector
 * rejected, and its reason, in keep. 0: none, or the body is not such a response. */
uint64_t encode_read_rejected(slice body, struct arena *keep, slice *ret_why);

#endif
