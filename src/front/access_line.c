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

static void add_trace(struct text *line, const struct trace *trace)
{
    char id[2 * sizeof(trace->id)];
    if (!trace->given)
        return;
    hex_write(trace->id, sizeof(trace->id), id);
    text_add(line, S(" trace_id="));
    text_add(line, (slice){ id, sizeof(id) });
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
    struct trace trace = { 0 };
    struct text traced = text_in(keep);
    if (what->head)
        trace_read(keep, what->head, &trace);
    add_trace(&traced, &trace);
    log_access("refused", "id=%.*s peer=%.*s access_key=%.*s method=%.*s path=%.*s query=%.*s "
               "status=%d err=%s why=\"%s\"%.*s", SLICE_ARG(id), SLICE_ARG(what->peer),
               SLICE_ARG(access_key), SLICE_ARG(method), SLICE_ARG(path), SLICE_ARG(query), status,
               err_name(what->err), what->why, SLICE_ARG(text_slice(&traced)));
}

static void add_word(struct text *line, slice name, slice word)
{
    text_add(line, name);
    text_add(line, word);
}

static void add_number(struct text *line, slice name, uint64_t number)
{
    text_add(line, name);
    text_number(line, number, 1);
}

/* Not by printf: each request has such a line. */
void access_line_write(const struct call *call, const struct http_outcome *outcome)
{
    const struct access_line *access = &call->access;
    struct text line = text_in(call->keep);
    add_word(&line, S("id="), call->id);
    add_word(&line, S(" peer="), access->peer);
    add_word(&line, S(" access_key="), fact(call->keep, call->access_key));
    add_word(&line, S(" op="),
             slice_of(call->s3.op < S3_OP_COUNT ? s3_op_name(call->s3.op) : "-"));
    add_word(&line, S(" bucket="), fact(call->keep, call->s3.bucket));
    add_word(&line, S(" key="),
             fact(call->keep, call->s3.key.len ? call->s3.key : access->listed_key));
    add_number(&line, S(" status="), (uint64_t)outcome->status);
    add_word(&line, S(" err="), slice_of(call->err ? err_name(call->err) : "-"));
    add_word(&line, S(" cache="), slice_of(access->cache_result));
    add_number(&line, S(" sent="), outcome->body_bytes_sent);
    add_number(&line, S(" from_cache="), access->cost.cache_bytes);
    add_number(&line, S(" from_peers="), access->cost.peers_bytes);
    add_number(&line, S(" from_origin="), access->cost.origin_bytes);
    add_number(&line, S(" decided_us="), access->cost.decided_ns / 1000);
    add_number(&line, S(" first_us="), access->cost.first_ns / 1000);
    add_number(&line, S(" took_us="), outcome->took_ns / 1000);
    add_number(&line, S(" complete="), outcome->complete);
    if (call->s3.op == S3_BATCH) {
        add_number(&line, S(" items="), access->items);
        add_number(&line, S(" failed="), access->failed);
    }
    add_trace(&line, &call->trace);
    log_access_line("request", text_slice(&line));
}
