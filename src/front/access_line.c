/* access_line.c - the lines of the access log. SPDX-License-Identifier: Apache-2.0
 *
 * Each S3 request has one line: when it is over, or when it is refused. The manual page
 * penstock-operating(7) lists the members of a line. Threads: the loop of the request. */
#include <inttypes.h>

#include "base/log.h"
#include "front/inside.h"
#include "s3/encode.h"

#define FACT_BYTES_MAX 200     /* a longer name is cut in a log line */

/* Returns a value as it stands in a log line: one word, not too long, or "-" if it is empty. */
static slice fact(struct arena *keep, slice value)
{
    slice word = log_word(keep, slice_sub(value, 0, FACT_BYTES_MAX));
    if (value.len > FACT_BYTES_MAX)
        return arena_printf(keep, "%.*s...", SLICE_ARG(word));
    return word.len ? word : S("-");
}

void access_line_refused(struct front *front, struct arena *keep, const struct http_refused *what,
                         slice access_key, slice id, int status)
{
    if (!front_logs(front))
        return;
    slice method = fact(keep, what->head ? what->head->method : S(""));
    slice path = fact(keep, what->head ? what->head->path : S(""));
    slice query = fact(keep, what->head ? query_unproved(keep, what->head->query) : S(""));
    access_key = fact(keep, access_key);
    log_access("refused", "id=%.*s peer=%.*s access_key=%.*s method=%.*s path=%.*s query=%.*s "
               "status=%d err=%s why=\"%s\"", SLICE_ARG(id), SLICE_ARG(what->peer),
               SLICE_ARG(access_key), SLICE_ARG(method), SLICE_ARG(path), SLICE_ARG(query), status,
               err_name(what->err), what->why);
}

void access_line_write(const struct call *call, const struct http_outcome *outcome)
{
    const struct access_line *access = &call->access;
    slice more = call->s3.op == S3_BATCH
        ? arena_printf(call->keep, " items=%zu failed=%zu", access->items, access->failed) : S("");
    slice access_key = fact(call->keep, call->access_key);
    slice bucket = fact(call->keep, call->s3.bucket);
    slice key = fact(call->keep, call->s3.key.len ? call->s3.key : access->listed_key);
    log_access("request",
               "id=%.*s peer=%.*s access_key=%.*s op=%s bucket=%.*s key=%.*s status=%d err=%s"
               " cache=%s sent=%" PRIu64 " from_cache=%" PRIu64 " from_origin=%" PRIu64
               " decided_us=%" PRIu64 " first_us=%" PRIu64 " took_us=%" PRIu64 " complete=%d%.*s",
               SLICE_ARG(call->id), SLICE_ARG(access->peer), SLICE_ARG(access_key),
               call->s3.op < S3_OP_COUNT ? s3_op_name(call->s3.op) : "-", SLICE_ARG(bucket),
               SLICE_ARG(key), outcome->status, call->err ? err_name(call->err) : "-",
               access->cache_result, outcome->body_bytes_sent, access->cost.cache_bytes,
               access->cost.origin_bytes, access->cost.decided_ns / 1000,
               access->cost.first_ns / 1000, outcome->took_ns / 1000, outcome->complete,
               SLICE_ARG(more));
}
