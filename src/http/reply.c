/* reply.c - answers, whole or in parts. SPDX-License-Identifier: Apache-2.0
 *
 * The head of an answer leaves with the first bytes of its body, in one write. (Bytes of a file
 * follow it by sendfile: send_file.c.) If an app sends a body in parts, it gives a source (struct
 * http_source), whose proceed() is called after each send. When all bytes are out, proceed() is
 * called for the last time, and the request is over (finish). Only one send is in progress at a
 * time (rule H5 in src/README.md). */
#include "http/inside.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/metric.h"
#include "s3/encode.h"

static const char *const reasons[] = {
    [200] = "OK",
    [201] = "Created",
    [202] = "Accepted",
    [203] = "Non-Authoritative Information",
    [204] = "No Content",
    [205] = "Reset Content",
    [206] = "Partial Content",
    [300] = "Multiple Choices",
    [301] = "Moved Permanently",
    [302] = "Found",
    [303] = "See Other",
    [304] = "Not Modified",
    [307] = "Temporary Redirect",
    [308] = "Permanent Redirect",
    [400] = "Bad Request",
    [401] = "Unauthorized",
    [402] = "Payment Required",
    [403] = "Forbidden",
    [404] = "Not Found",
    [405] = "Method Not Allowed",
    [406] = "Not Acceptable",
    [407] = "Proxy Authentication Required",
    [408] = "Request Timeout",
    [409] = "Conflict",
    [410] = "Gone",
    [411] = "Length Required",
    [412] = "Precondition Failed",
    [413] = "Content Too Large",
    [414] = "URI Too Long",
    [415] = "Unsupported Media Type",
    [416] = "Range Not Satisfiable",
    [417] = "Expectation Failed",
    [421] = "Misdirected Request",
    [422] = "Unprocessable Content",
    [426] = "Upgrade Required",
    [428] = "Precondition Required",
    [429] = "Too Many Requests",
    [431] = "Request Header Fields Too Large",
    [451] = "Unavailable For Legal Reasons",
    [500] = "Internal Server Error",
    [501] = "Not Implemented",
    [502] = "Bad Gateway",
    [503] = "Service Unavailable",
    [504] = "Gateway Timeout",
    [505] = "HTTP Version Not Supported",
    [507] = "Insufficient Storage",
};

static const char *reason(int status)
{
    const char *known = (size_t)status < countof(reasons) ? reasons[status] : NULL;
    return known ? known : "Unknown";
}

/* Ends the request, after all bytes are out. */
static void finish(struct conn *conn)
{
    bool close = conn->request->close;
    conn_hold(conn);
    request_end(&conn->request, true);
    if (conn->sock && close)
        conn_end(conn);
    else if (conn->sock)
        conn_next_head(conn);
    conn_release(conn);
}

static void on_sent(h2o_socket_t *sock, const char *err)
{
    struct conn *conn = conn_of(sock);
    if (err) {
        conn_close(conn, true);
        return;
    }
    struct reply *reply = &conn->request->reply;
    list_del(&conn->timer.link);
    reply->sending = false;
    bool full = reply->open ? reply->ended_open : reply->sent_bytes == reply->length;
    conn_hold(conn);
    if (reply->source)
        reply->source->proceed(reply->source_arg);
    if (full && conn->sock)
        finish(conn);
    else
        conn_watch(conn);    /* nothing, if proceed() has ended the request or the connection */
    conn_release(conn);
}

/* ---- the head of an answer ---- */

static slice date_of_now(struct http_loop *loop)
{
    struct date *date = &loop->date;
    int64_t now_s = wall_s();
    if (now_s != date->s) {
        http_date_write(now_s, date->text);
        date->s = now_s;
    }
    return slice_of(date->text);
}

struct text response_head(struct http_loop *loop, struct arena *keep, int status, bool close,
                          uint64_t length)
{
    struct text head = text_in(keep);
    text_add(&head, S("HTTP/1.1 "));
    text_number(&head, (uint64_t)status, 3);
    text_char(&head, ' ');
    text_add(&head, slice_of(reason(status)));
    text_add(&head, S("\r\nDate: "));
    text_add(&head, date_of_now(loop));
    text_add(&head, close ? S("\r\nConnection: close\r\n") : S("\r\nConnection: keep-alive\r\n"));
    if (length != HTTP_OPEN) {
        text_add(&head, S("Content-Length: "));
        text_number(&head, length, 1);
        text_add(&head, S("\r\n"));
    }
    text_add(&head, S("Server: penstock\r\n"));
    return head;
}

static bool is_clean(slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] == '\r' || text.ptr[i] == '\n' || text.ptr[i] == '\0')
            return false;
    return true;
}

/* A field with a line break could begin a second answer. So a field with CR, LF or NUL is left
 * out. */
void reply_fields(struct text *head, const struct http_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!is_clean(fields[i].name) || !is_clean(fields[i].value))
            continue;
        text_add(head, fields[i].name);
        text_add(head, S(": "));
        text_add(head, fields[i].value);
        text_add(head, S("\r\n"));
    }
    text_add(head, S("\r\n"));
}

static bool has_body(int status)
{
    return status >= 200 && status != 204 && status != 304;
}

static void begin(struct http_request *request, int status, const struct http_field *fields,
                  size_t field_count, uint64_t length)
{
    struct reply *reply = &request->reply;
    struct http_loop *loop = request->conn->loop;
    check(request->magic == REQUEST_MAGIC && request->handled && !reply->begun);
    reply->begun = true;
    reply->status = status;
    if (atomic_load(&loop->http->draining))
        request->close = true;
    bool bare = slice_eq(request->head.method, S("HEAD")) || !has_body(status);
    reply->open = length == HTTP_OPEN && !bare;
    reply->chunked = reply->open && request->head.minor > 0;
    if (reply->open && !reply->chunked)
        request->close = true;
    uint64_t announced = has_body(status) || length ? length : HTTP_OPEN;
    struct text head = response_head(loop, &request->arena, status, request->close, announced);
    if (reply->chunked)
        text_add(&head, S("Transfer-Encoding: chunked\r\n"));
    reply_fields(&head, fields, field_count);
    reply->head = text_slice(&head);
    reply->length = bare ? 0 : length;
}

static h2o_iovec_t iovec_of(slice bytes)
{
    return (h2o_iovec_t){ (char *)bytes.ptr, bytes.len };
}

/* An empty chunk ends the body by itself. After any other chunk, the end of the body needs an empty
 * chunk. */
static slice end_of_chunk(const struct reply *reply, size_t bytes)
{
    return reply->ended_open && bytes ? S("\r\n0\r\n\r\n") : S("\r\n");
}

static void begin_send(struct http_request *request, size_t bytes)
{
    struct reply *reply = &request->reply;
    struct conn *conn = request->conn;
    check(reply->begun && !reply->sending && bytes <= reply->length - reply->sent_bytes);
    reply->sending = true;
    reply->sent_bytes += bytes;
    conn->stalls = 0;
    timer_start(&conn->loop->timers, ROW_SEND, &conn->timer);
}

static void push_runs(struct http_request *request, const slice *runs, size_t run_count)
{
    struct reply *reply = &request->reply;
    struct conn *conn = request->conn;
    size_t bytes = 0, count = 0;
    h2o_iovec_t bufs[CONN_WRITE_MAX];
    for (size_t i = 0; i < run_count; i++)
        bytes += runs[i].len;
    check(run_count <= HTTP_RUNS_MAX);
    begin_send(request, bytes);
    if (reply->head.len)
        bufs[count++] = iovec_of(reply->head);
    if (reply->chunked) {
        snprintf(reply->chunk, sizeof(reply->chunk), "%zx\r\n", bytes);
        bufs[count++] = iovec_of(slice_of(reply->chunk));
    }
    for (size_t i = 0; i < run_count; i++)
        bufs[count++] = iovec_of(runs[i]);
    if (reply->chunked)
        bufs[count++] = iovec_of(end_of_chunk(reply, bytes));
    reply->head = S("");
    conn_write(conn, bufs, count, on_sent);
}

static void push(struct http_request *request, slice bytes)
{
    push_runs(request, &bytes, bytes.len > 0);
}

void http_reply(struct http_request *request, const struct http_answer *answer)
{
    request->close = request->close || answer->close;
    begin(request, answer->status, answer->fields, answer->field_count, answer->body.len);
    push(request, request->reply.length ? arena_copy(&request->arena, answer->body) : (slice){ 0 });
}

void http_reply_start(struct http_request *request, int status, const struct http_field *fields,
                      size_t field_count, uint64_t length, const struct http_source *source,
                      void *arg)
{
    struct reply *reply = &request->reply;
    begin(request, status, fields, field_count, length);
    if (reply->length == 0) {
        push(request, (slice){ 0 });
        return;
    }
    check(source && source->proceed && source->stop);
    reply->source = source;
    reply->source_arg = arg;
}

void http_reply_send_runs(struct http_request *request, const slice *runs, size_t count, bool last)
{
    struct reply *reply = &request->reply;
    check(request->magic == REQUEST_MAGIC && reply->source && count > 0);
    check(reply->open || !last);
    reply->ended_open = last;
    push_runs(request, runs, count);
}

void http_reply_send(struct http_request *request, slice bytes)
{
    check(bytes.len > 0);
    http_reply_send_runs(request, &bytes, 1, false);
}

void http_reply_send_file(struct http_request *request, slice bytes, int fd, uint64_t offset)
{
    struct reply *reply = &request->reply;
    check(request->magic == REQUEST_MAGIC && reply->source && !reply->open && bytes.len > 0);
    begin_send(request, bytes.len);
    reply->file = (struct reply_file){ .head = reply->head, .left = bytes, .fd = fd,
                                       .at = (off_t)offset, .done = on_sent };
    reply->head = S("");
    conn_write_file(request->conn);
}

void http_reply_end(struct http_request *request)
{
    struct reply *reply = &request->reply;
    check(request->magic == REQUEST_MAGIC && reply->open && !reply->sending);
    reply->ended_open = true;
    if (reply->chunked || reply->head.len) {
        push(request, (slice){ 0 });    /* an empty chunk is the last one */
        return;
    }
    struct conn *conn = request->conn;
    reply->source->proceed(reply->source_arg);
    finish(conn);
}

void http_reply_abort(struct http_request *request)
{
    check(request->magic == REQUEST_MAGIC && request->reply.begun);
    request->reply.source = NULL;
    metric_add(M_HTTP_ABORTED, 1);
    conn_close(request->conn, true);
}
