/* reply.c - answers, whole or in pieces. SPDX-License-Identifier: Apache-2.0
 *
 * The head of an answer leaves with its first piece, in one writev. Every piece but none is "the
 * last" for the library: when all bytes are out, the source is told, and only then an empty end is
 * handed in, so that the request is over at one place (finish). One send at a time (H5). */
#include "http/inside.h"

#include <string.h>

#include "base/metric.h"

static const struct {
    int status;
    const char *reason;
} REASONS[] = {
    { 200, "OK" },
    { 204, "No Content" },
    { 206, "Partial Content" },
    { 301, "Moved Permanently" },
    { 304, "Not Modified" },
    { 307, "Temporary Redirect" },
    { 400, "Bad Request" },
    { 401, "Unauthorized" },
    { 403, "Forbidden" },
    { 404, "Not Found" },
    { 405, "Method Not Allowed" },
    { 408, "Request Timeout" },
    { 409, "Conflict" },
    { 411, "Length Required" },
    { 412, "Precondition Failed" },
    { 413, "Content Too Large" },
    { 416, "Range Not Satisfiable" },
    { 421, "Misdirected Request" },
    { 431, "Request Header Fields Too Large" },
    { 500, "Internal Server Error" },
    { 501, "Not Implemented" },
    { 502, "Bad Gateway" },
    { 503, "Service Unavailable" },
    { 504, "Gateway Timeout" },
};

const char *reply_reason(int status)
{
    for (size_t i = 0; i < countof(REASONS); i++)
        if (REASONS[i].status == status)
            return REASONS[i].reason;
    return "Unknown";
}

/* All bytes are out. The library closes or waits for the next request. */
static void finish(struct conn *conn)
{
    struct http_request *request = conn->request;
    h2o_iovec_t nothing = { NULL, 0 };
    conn_hold(conn);
    conn->request = NULL;
    h2o_send(request->library, &nothing, 0, H2O_SEND_STATE_FINAL);
    request_end(&request, true);
    if (conn->sock)
        conn_next_head(conn);
    conn_release(conn);
}

static void on_proceed(h2o_generator_t *self, h2o_req_t *library)
{
    struct http_request *request = container_of(self, struct http_request, generator);
    struct conn *conn = request->conn;
    timed_stop(&conn->timed);
    request->sending = false;
    bool full = request->sent_bytes == request->length;
    conn_hold(conn);
    if (request->source)
        request->source->proceed(request->source_arg);
    if (full && conn->sock)
        finish(conn);
    else if (conn->sock)
        conn_watch(conn);
    conn_release(conn);
}

static bool is_clean(slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] == '\r' || text.ptr[i] == '\n' || text.ptr[i] == '\0')
            return false;
    return true;
}

static h2o_iovec_t keep(struct http_request *request, slice text)
{
    slice copy = arena_copy(&request->arena, text);
    return (h2o_iovec_t){ (char *)copy.ptr, copy.len };
}

static bool has_body(int status)
{
    return status >= 200 && status != 204 && status != 304;
}

/* A field with a line break in it would be a second answer: it is left out. */
static void begin(struct http_request *request, int status, const struct http_field *fields,
                  size_t field_count, uint64_t length)
{
    h2o_req_t *library = request->library;
    check(request->magic == REQUEST_MAGIC && library && !request->answered);
    request->answered = true;
    request->status = library->res.status = status;
    library->res.reason = reply_reason(status);
    library->res.content_length = has_body(status) || length ? length : SIZE_MAX;
    h2o_headers_t *headers = &library->res.headers;
    h2o_vector_reserve(&library->pool, headers, field_count);
    for (size_t i = 0; i < field_count; i++) {
        if (!is_clean(fields[i].name) || !is_clean(fields[i].value))
            continue;
        h2o_iovec_t *name = arena_alloc(&request->arena, sizeof(*name));
        *name = keep(request, fields[i].name);
        headers->entries[headers->size++] =
            (h2o_header_t){ name, NULL, keep(request, fields[i].value) };
    }
    bool bare = slice_eq(request->head.method, S("HEAD")) || !has_body(status);
    request->length = bare ? 0 : length;
    if (atomic_load(&request->conn->loop->http->draining))
        library->http1_is_persistent = 0;
}

static void push(struct http_request *request, slice bytes)
{
    struct conn *conn = request->conn;
    check(request->answered && !request->sending);
    check(bytes.len <= request->length - request->sent_bytes);
    request->sending = true;
    request->sent_bytes += bytes.len;
    conn->stalls = 0;
    timed_start(&conn->loop->timers, ROW_SEND, &conn->timed);
    if (!request->started) {
        request->started = true;
        request->generator.proceed = on_proceed;
        h2o_start_response(request->library, &request->generator);
    }
    h2o_iovec_t buf = { (char *)bytes.ptr, bytes.len };
    h2o_send(request->library, &buf, bytes.len ? 1 : 0, H2O_SEND_STATE_IN_PROGRESS);
}

void http_reply(struct http_request *request, const struct http_answer *answer)
{
    begin(request, answer->status, answer->fields, answer->field_count, answer->body.len);
    if (answer->close)
        request->library->http1_is_persistent = 0;
    push(request, request->length ? arena_copy(&request->arena, answer->body) : (slice){ 0 });
}

void http_reply_start(struct http_request *request, int status, const struct http_field *fields,
                      size_t field_count, uint64_t length, const struct http_source *source,
                      void *arg)
{
    begin(request, status, fields, field_count, length);
    if (request->length == 0) {
        push(request, (slice){ 0 });
        return;
    }
    check(source && source->proceed && source->stop);
    request->source = source;
    request->source_arg = arg;
}

void http_reply_send(struct http_request *request, slice bytes)
{
    check(request->magic == REQUEST_MAGIC && request->source && bytes.len > 0);
    push(request, bytes);
}

void http_reply_abort(struct http_request *request)
{
    check(request->magic == REQUEST_MAGIC && request->answered);
    request->source = NULL;
    metric_add(M_HTTP_ABORTED, 1);
    conn_close(request->conn, true);
}
