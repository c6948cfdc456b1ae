/* gate.c - judges every head before its body is read. SPDX-License-Identifier: Apache-2.0
 *
 * The gate scans a head (s3/request_head.h), compares its Content-Length with the body limit, and
 * gives the head to the judge of the app (struct http_app). The body is read only afterwards. The
 * gate also sends refusals: it writes the answer and shuts our side of the connection. Then, within
 * limits, it throws away the bytes that the client still sends. A close with unread bytes would
 * reset the connection, and the client would lose the answer. */
#include "http/inside.h"

#include <string.h>

#include "base/metric.h"

#define LINGER_BYTES_MAX (4 * MIB)

static void on_answered(h2o_socket_t *sock, const char *err)
{
    struct conn *conn = conn_of(sock);
    if (err)
        conn_close(conn, false);
    else
        conn_shut(conn);
}

/* Sends the answer and closes the connection. The answer's slices may lie in the request's arena,
 * so the request ends only after they were copied. */
static void answer_and_close(struct conn *conn, const struct http_answer *answer)
{
    slice begin = { conn->sock->input->bytes, conn->sock->input->size };
    bool is_head = conn->request ? slice_eq(conn->request->head.method, S("HEAD"))
                                 : slice_starts(begin, S("HEAD "));
    struct text out =
        response_head(conn->loop, &conn->refusal, answer->status, true, answer->body.len);
    reply_fields(&out, answer->fields, answer->field_count);
    if (!is_head)
        text_add(&out, answer->body);
    check(conn->sock && conn->phase != PHASE_LINGER && !(conn->request && conn->request->handled));
    conn->phase = PHASE_LINGER;
    timer_start(&conn->loop->timers, ROW_LINGER, &conn->timer);
    segment_leave(conn);
    if (conn->request)
        request_end(&conn->request, false);
    conn_read_start(conn);
    h2o_buffer_consume(&conn->sock->input, conn->sock->input->size);
    h2o_iovec_t buf = { out.ptr, out.len };
    conn_write(conn, &buf, 1, on_answered);
}

void gate_refuse(struct conn *conn, enum err err, const char *why)
{
    const struct http_app *app = &conn->listener->bound->app;
    struct http_answer answer = { .status = 400, .close = true };
    struct http_refused what = {
        err, why, slice_of(conn->peer), conn->request ? &conn->request->head : NULL
    };
    app->refuse(app->arg, &conn->refusal, &what, &answer);
    answer_and_close(conn, &answer);
}

void gate_refuse_too_large(struct conn *conn, bool announced)
{
    metric_add(M_HTTP_REFUSED_BODY, 1);
    gate_refuse(conn, announced ? ERR_INCOMPLETE : ERR_TOO_LARGE,
                announced ? "the body is longer than x-amz-decoded-content-length and normal "
                            "chunk framing allow: correct that header. If the header is right, the "
                            "chunks are too small: send chunks of at least 8 KiB"
                          : "the body is larger than Penstock allows: upload the object in smaller "
                            "parts");
}

void gate_drain(struct conn *conn)
{
    size_t got = conn->sock->input->size;
    h2o_buffer_consume(&conn->sock->input, got);
    conn->lingered_bytes += got;
    if (conn->lingered_bytes > LINGER_BYTES_MAX)
        conn_close(conn, false);
}

void gate_slow(struct conn *conn)
{
    if (conn->phase == PHASE_HANDSHAKE)
        metric_add(M_TLS_SLOW, 1);
    if (conn->sock->input->size == 0) {    /* no byte of a head has come */
        conn_close(conn, false);
        return;
    }
    metric_add(M_HTTP_REFUSED_SLOW, 1);
    gate_refuse(conn, ERR_TIMEOUT, "the request head took too long to arrive: check the network, "
                "and whether the client still sends");
}

/* Gives the body room before it is read: for all its bytes, or for its next bytes if its length is
 * unknown. If bytes of the body arrived together with the head, moves them out of the input, into
 * request->body.content. */
static bool make_room(struct conn *conn, const struct request_head *head, uint64_t announced)
{
    struct request_body *body = &conn->request->body;
    h2o_buffer_t *input = conn->sock->input;
    char *first = input->bytes + head->bytes;
    size_t came = input->size - head->bytes, have = MIN(came, head->length), rest;
    uint64_t most = conn->loop->http->options.bodies.body_bytes_max, bytes = head->length;
    body->bytes_max = most;
    if (head->chunked) {
        body->bytes_max = announced ? MIN(announced, most) : most;
        have = conn_unchunk(conn, first, came, &rest);
        input->size = head->bytes + have + rest;
        bytes = body->framing == ERR_MORE ? MAX(announced, have) + BODY_READ_BYTES : have;
    }
    if (bytes && !body_begin(conn, (slice){ first, have }, bytes))
        return false;
    h2o_buffer_consume(&conn->sock->input, head->bytes + have);
    return true;
}

static void judge(struct conn *conn, const struct request_head *scanned)
{
    const struct http_app *app = &conn->listener->bound->app;
    struct http_request *request = conn->request = request_new(conn, scanned);
    if (scanned->has_length && scanned->length > conn->loop->http->options.bodies.body_bytes_max) {
        gate_refuse_too_large(conn, false);
        return;
    }
    struct http_answer answer = { .status = 500, .close = true };
    if (!app->judge(app->arg, conn->loop, &request->arena, slice_of(conn->peer), &request->head,
                    &answer)) {
        if (!answer.is_page)
            metric_add(answer.too_large ? M_HTTP_REFUSED_BODY : M_HTTP_REFUSED_JUDGED, 1);
        answer_and_close(conn, &answer);
        return;
    }
    request->judged = answer.judged;
    request->body.client = answer.client;
    bool begun = conn->sock->input->size > scanned->bytes;
    if (!make_room(conn, &request->head, answer.body_bytes))
        return;
    /* An empty body gets a 100 Continue, too. Without this 100, botocore would take the final
     * answer also as the answer to its next request. */
    if (!request->head.expect_continue || begun ||
        conn_say(conn, S("HTTP/1.1 100 Continue\r\n\r\n")))
        conn_take_body(conn);
    else
        conn_close(conn, true);
}

/* If a head comes in many reads, only a read that ends a line causes a scan. */
static bool worth_a_scan(const struct conn *conn, slice bytes)
{
    return bytes.len > REQUEST_HEAD_BYTES_MAX ||
           memchr(bytes.ptr + conn->scanned_bytes, '\n', bytes.len - conn->scanned_bytes);
}

/* A TLS handshake begins with the byte 0x16, and a head with a letter. So the first byte is enough
 * to know that no head will come. */
static bool is_tls(slice bytes)
{
    return bytes.len && bytes.ptr[0] == 0x16;
}

void gate_look(struct conn *conn)
{
    slice bytes = { conn->sock->input->bytes, conn->sock->input->size };
    if (conn->session && session_is_outdated(conn->session, conn->listener->bound->app.tls)) {
        conn_close(conn, false);
        return;
    }
    if (is_tls(bytes)) {
        metric_add(M_HTTP_REFUSED_HEAD, 1);
        gate_refuse(conn, ERR_BAD_HEAD, "this port speaks http://, and the client began with TLS: "
                    "use an http URL or, for S3, the port of tls_listen");
        return;
    }
    if (!worth_a_scan(conn, bytes))
        return;
    conn->scanned_bytes = bytes.len;
    const char *why = NULL;
    struct request_head *head = &conn->loop->scratch;
    enum err err = request_head_scan(bytes, head, &why);
    if (err == OK) {
        judge(conn, head);
    } else if (err != ERR_MORE) {
        metric_add(M_HTTP_REFUSED_HEAD, 1);
        gate_refuse(conn, err, why ? why : err_text(err));
    }
}
