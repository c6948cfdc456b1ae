/* conn.c - one connection: its socket, its phase, its end. SPDX-License-Identifier: Apache-2.0
 *
 * This file keeps the promises of inside.h: libh2o never reads, and every read here is bounded.
 * Bytes of the next request wait in the socket's buffer, or with the client, until this request has
 * been answered. However a connection ends, only the socket's on_close frees its parts. A function
 * holds the connection (conn_hold) during a call that may close it. */
#include "http/inside.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/metric.h"

#define BODY_TURN_BYTES (256 * KIB)    /* read at most, before other connections get their turn */

struct conn *conn_of(h2o_socket_t *sock)
{
    struct conn *conn = sock->on_close.data;
    check(conn->magic == CONN_MAGIC && conn->sock == sock);
    return conn;
}

void conn_hold(struct conn *conn)
{
    check(conn->magic == CONN_MAGIC && conn->holds > 0);
    conn->holds++;
}

void conn_release(struct conn *conn)
{
    check(conn->magic == CONN_MAGIC && conn->holds > 0);
    if (--conn->holds)
        return;
    check(!conn->sock && !conn->request);
    conn->magic = 0;
    arena_free(&conn->refusal);
    free(conn);
}

/* ---- room for large heads ---- */

/* Counts a head above HEAD_SMALL_BYTES as large. Returns false if there is no room for another
 * large head; the request has then been refused. */
static bool conn_grow_head(struct conn *conn)
{
    struct http *http = conn->loop->http;
    if (conn->large_head)
        return true;
    size_t most = http->options.heads_bytes / HEAD_LARGE_BYTES;
    if (atomic_fetch_add(&http->large_heads, 1) >= most) {
        atomic_fetch_sub(&http->large_heads, 1);
        metric_add(M_HTTP_REFUSED_HEADS, 1);
        gate_refuse(conn, ERR_LIMIT, "other request heads above 8 KiB take all the room for such "
                    "heads (request_heads, a part of the setting 'memory'): send fewer or "
                    "shorter headers, or try again later");
        return false;
    }
    conn->large_head = true;
    metric_gauge_add(M_HTTP_HEADS, HEAD_LARGE_BYTES);
    return true;
}

static void shrink_head(struct conn *conn)
{
    if (!conn->large_head)
        return;
    conn->large_head = false;
    atomic_fetch_sub(&conn->loop->http->large_heads, 1);
    metric_gauge_add(M_HTTP_HEADS, -(int64_t)HEAD_LARGE_BYTES);
}

static void on_close(void *data)
{
    struct conn *conn = data;
    conn->sock = NULL;
    shrink_head(conn);
    session_free(&conn->session);
    list_del(&conn->timer.link);
    list_del(&conn->link);
    list_del(&conn->unread);
    segment_leave(conn);
    if (conn->request)
        request_end(&conn->request, false);
    metric_gauge_add(M_HTTP_CONNECTIONS, -1);
    listener_left(conn->listener);
    conn_release(conn);
}

void conn_close(struct conn *conn, bool reset)
{
    check(conn->magic == CONN_MAGIC);
    if (!conn->sock)
        return;
    if (!reset && !conn->request && conn->session)
        session_shut(conn->session);
    if (reset) {
        struct linger at_once = { .l_onoff = 1, .l_linger = 0 };
        setsockopt(h2o_socket_get_fd(conn->sock), SOL_SOCKET, SO_LINGER, &at_once,
                   sizeof(at_once));
    }
    h2o_socket_close(conn->sock);
}

static void print_peer(struct conn *conn, const struct sockaddr_storage *peer)
{
    char host[INET6_ADDRSTRLEN] = "?";
    bool is_six = peer->ss_family == AF_INET6;
    const struct sockaddr_in *four = (const void *)peer;
    const struct sockaddr_in6 *six = (const void *)peer;
    inet_ntop(is_six ? AF_INET6 : AF_INET, is_six ? (const void *)&six->sin6_addr : &four->sin_addr,
              host, sizeof(host));
    snprintf(conn->peer, sizeof(conn->peer), is_six ? "[%s]:%u" : "%s:%u", host,
             ntohs(is_six ? six->sin6_port : four->sin_port));
}

/* ---- reading ---- */

/* Returns the number of bytes read, 0 if there are none now, or -1 if none will come any more. */
static ssize_t read_plain(int fd, void *to, size_t bytes)
{
    ssize_t got;
    do
        got = read(fd, to, bytes);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == EAGAIN ? 0 : -1;
    return got ? got : -1;
}

static ssize_t peek_plain(int fd)
{
    char byte;
    ssize_t got = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    return got ? got : -1;
}

size_t conn_unchunk(struct conn *conn, char *bytes, size_t len, size_t *ret_rest)
{
    struct request_body *body = &conn->request->body;
    size_t decoded = 0;
    body->framing = chunks_decode(&body->chunks, bytes, len, &decoded, ret_rest);
    if (body->framing != OK)
        *ret_rest = 0;
    return decoded;
}

static ssize_t read_bytes(struct conn *conn, char *to, size_t bytes)
{
    return conn->session ? session_read(conn->session, to, bytes)
                         : read_plain(h2o_socket_get_fd(conn->sock), to, bytes);
}

static ssize_t read_some(struct conn *conn, size_t room_bytes, size_t bytes_max)
{
    h2o_iovec_t room = h2o_buffer_reserve(&conn->sock->input, MIN(room_bytes, bytes_max));
    check(room.base != NULL);
    ssize_t got = read_bytes(conn, room.base, MIN(room.len, bytes_max));
    if (got > 0)
        conn->sock->input->size += (size_t)got;
    return got;
}

/* Removes the framing from *len bytes just read: leaves the bytes of the body, and their number in
 * *len. Bytes after the end of the body go to the input. Returns false if the input has no room for
 * them; the request has then been refused. */
static bool unframe(struct conn *conn, char *bytes, size_t *len)
{
    size_t rest = 0;
    if (conn->request->head.chunked)
        *len = conn_unchunk(conn, bytes, *len, &rest);
    if (!rest)
        return true;
    if (rest > HEAD_SMALL_BYTES && !conn_grow_head(conn))
        return false;
    h2o_iovec_t room = h2o_buffer_reserve(&conn->sock->input, rest);
    check(room.base != NULL);
    memcpy(room.base, bytes + *len, rest);
    conn->sock->input->size += rest;
    return true;
}

static ssize_t read_memory(struct conn *conn, size_t bytes_max)
{
    size_t room;
    char *to = body_end(conn->request->body.content, &room);
    ssize_t got = read_bytes(conn, to, MIN(MIN(room, bytes_max), BODY_READ_BYTES));
    size_t len = got > 0 ? (size_t)got : 0;
    if (!unframe(conn, to, &len))
        return 0;
    body_grow(conn->request->body.content, len);
    return got;
}

/* Reads bytes for a file (spill.c). The segment is written with the bytes that have come, even if
 * it is not full. */
static ssize_t read_segment(struct conn *conn, size_t bytes_max)
{
    size_t room, have = 0;
    body_end(conn->request->body.content, &room);
    struct body_segment *segment = segment_take(conn);
    if (!segment) {
        h2o_socket_read_stop(conn->sock);
        return 0;
    }
    size_t most = MIN(MIN(room, bytes_max), BODY_SEGMENT_BYTES);
    ssize_t got = 0;
    while (have < most && (got = read_bytes(conn, segment->bytes + have, most - have)) > 0)
        have += (size_t)got;
    size_t len = have;
    if (!unframe(conn, segment->bytes, &len)) {
        segment_give(segment);
        return 0;
    }
    segment_write(conn, segment, len);
    if (conn->segment)
        h2o_socket_read_stop(conn->sock);
    return have ? (ssize_t)have : got;
}

static void read_head(struct conn *conn)
{
    size_t have = conn->sock->input->size;
    size_t most = have < HEAD_SMALL_BYTES ? HEAD_SMALL_BYTES : REQUEST_HEAD_BYTES_MAX + 1;
    if (have >= HEAD_SMALL_BYTES && !conn_grow_head(conn))
        return;
    ssize_t got = read_some(conn, 4096, most - have);
    if (have == 0 && got > 0)    /* the time for a head begins with its first byte */
        timer_start(&conn->loop->timers, ROW_HEAD, &conn->timer);
    if (got < 0)
        conn_close(conn, false);
    else if (got > 0)
        gate_look(conn);
}

/* Gives the request to the app if its body is complete. Refuses a body that is too large or badly
 * framed. */
static void look_at_body(struct conn *conn)
{
    struct http_request *request = conn->request;
    const struct request_head *head = &request->head;
    const struct request_body *body = &request->body;
    size_t have = http_body_bytes(body->content);
    enum err err = head->chunked ? body->framing : have < head->length ? ERR_MORE : OK;
    if (have > body->bytes_max) {
        uint64_t most = conn->loop->http->options.bodies.body_bytes_max;
        gate_refuse_too_large(conn, body->bytes_max < most);
    } else if (err == OK) {
        conn->phase = PHASE_REQUEST;
        list_del(&conn->timer.link);
        request_handle(request);
    } else if (err != ERR_MORE) {
        metric_add(M_HTTP_REFUSED_CHUNKS, 1);
        gate_refuse(conn, err, "the chunked framing (Transfer-Encoding) of the body is not valid: "
                    "check the client, and any proxy between it and Penstock");
    }
}

/* If the length of a body is known, no byte beyond its end is read. */
static void read_body(struct conn *conn)
{
    size_t turn = BODY_TURN_BYTES;
    conn_hold(conn);
    while (conn->sock && conn->phase == PHASE_BODY && turn > 0) {
        const struct request_head *head = &conn->request->head;
        struct http_body *body = conn->request->body.content;
        size_t left = turn, have = http_body_bytes(body);
        if (!head->chunked)
            left = MIN(left, head->length - have);
        else if (!body_make_room(conn, have + BODY_READ_BYTES))
            break;
        ssize_t got = http_body_in_file(body) ? read_segment(conn, left) : read_memory(conn, left);
        if (got == 0)
            break;
        if (got < 0) {
            conn_close(conn, false);
            break;
        }
        turn -= (size_t)got;
        conn->request->body.read_bytes += (uint64_t)got;
        if (conn->segment)
            break;    /* conn_written will continue */
        look_at_body(conn);
        if ((size_t)got < BODY_READ_BYTES / 2)
            break;    /* probably no bytes are left; otherwise the next turn reads them */
    }
    conn_watch(conn);
    conn_release(conn);
}

/* A client that closes its side while it waits for bytes of the answer has left. A client that
 * closes its side while bytes are being sent may still read them; if it does not, a write fails.
 * Bytes of the next request are not read. */
static void look_for_leaving(struct conn *conn)
{
    if (conn->request->reply.sending) {
        h2o_socket_read_stop(conn->sock);
        return;
    }
    ssize_t got = conn->session ? session_peek(conn->session)
                                : peek_plain(h2o_socket_get_fd(conn->sock));
    if (got > 0)
        h2o_socket_read_stop(conn->sock);
    else if (got < 0)
        conn_close(conn, true);
}

static void shake_hands(struct conn *conn)
{
    switch (session_shake(conn->session)) {
    case SHAKEN_MORE:
        break;
    case SHAKEN_DONE:
        conn->phase = PHASE_HEAD;
        timer_start(&conn->loop->timers, ROW_NEW, &conn->timer);
        break;
    case SHAKEN_FAILED:
        conn_close(conn, false);
        break;
    case SHAKEN_PLAIN:
        session_free(&conn->session);
        gate_refuse(conn, ERR_BAD_HEAD, "this port speaks https://, and the client spoke http: "
                    "use an https URL");
        break;
    }
}

/* True if no more of the body is read until conn_written is called. */
static bool waits_for_disk(const struct conn *conn)
{
    return conn->segment || !list_empty(&conn->line);
}

/* Adds a connection with decrypted bytes to loop->unread, because no poll reports these bytes. */
static void note_unread(struct conn *conn)
{
    bool reads = conn->phase == PHASE_HEAD ||
                 (conn->phase == PHASE_BODY && !waits_for_disk(conn));
    list_del(&conn->unread);
    if (conn->sock && conn->session && reads && session_holds(conn->session))
        list_add(&conn->loop->unread, &conn->unread);
}

static void read_on(struct conn *conn)
{
    switch (conn->phase) {
    case PHASE_HANDSHAKE:
        shake_hands(conn);
        break;
    case PHASE_HEAD:
        read_head(conn);
        break;
    case PHASE_BODY:
        read_body(conn);
        break;
    case PHASE_REQUEST:
        look_for_leaving(conn);
        break;
    case PHASE_LINGER:
        if (read_some(conn, 4096, BODY_READ_BYTES) < 0)
            conn_close(conn, false);
        else
            gate_drain(conn);
        break;
    }
}

static void on_readable(h2o_socket_t *sock, const char *err)
{
    struct conn *conn = conn_of(sock);
    conn_hold(conn);
    read_on(conn);
    note_unread(conn);
    conn_release(conn);
}

void conns_read_on(struct http_loop *loop)
{
    struct list now;
    list_init(&now);
    list_move(&now, &loop->unread);
    while (!list_empty(&now)) {
        struct conn *conn = list_of(list_take(&now), struct conn, unread);
        on_readable(conn->sock, NULL);
    }
}

void conn_read_start(struct conn *conn)
{
    h2o_socket_read_start(conn->sock, on_readable);
}

static void refuse_for_disk(struct conn *conn, const char *why)
{
    metric_add(M_HTTP_REFUSED_DISK, 1);
    gate_refuse(conn, ERR_LIMIT, why);
}

/* Lets the connection read again in the next turn, because no poll reports the bytes that came
 * during the write. */
void conn_written(struct conn *conn, bool ok)
{
    check(conn->sock && conn->phase == PHASE_BODY && !conn->segment);
    list_del(&conn->line);
    conn_hold(conn);
    conn_read_start(conn);
    if (ok)
        look_at_body(conn);
    else
        refuse_for_disk(conn, "the request body could not be written to Penstock's cache folder: "
                              "try again later. The operator of Penstock must check the folder's "
                              "disk");
    if (conn->sock && conn->phase == PHASE_BODY)
        list_add(&conn->loop->unread, &conn->unread);
    conn_watch(conn);
    conn_release(conn);
}

void conn_watch(struct conn *conn)
{
    if (conn->sock && conn->phase == PHASE_REQUEST && !conn->request->reply.sending)
        h2o_socket_read_start(conn->sock, on_readable);
}

/* ---- waiting ---- */

static uint64_t newly_acked(struct conn *conn)
{
    struct tcp_info info = { 0 };
    socklen_t len = sizeof(info);
    if (getsockopt(h2o_socket_get_fd(conn->sock), IPPROTO_TCP, TCP_INFO, &info, &len))
        return 0;
    uint64_t more = info.tcpi_bytes_acked - conn->acked_bytes;
    conn->acked_bytes = info.tcpi_bytes_acked;
    return more;
}

/* The timer's length is half of send_ms. So the connection is cut when the timer ends twice in a
 * row without enough bytes. */
static void look_for_stall(struct conn *conn)
{
    uint64_t enough = MAX(conn->loop->http->options.timeouts.send_progress_bytes, 1u);
    conn->stalls = newly_acked(conn) >= enough ? 0 : conn->stalls + 1;
    if (conn->stalls < 2) {
        timer_start(&conn->loop->timers, ROW_SEND, &conn->timer);
        return;
    }
    metric_add(M_HTTP_CUT_SLOW, 1);
    conn_close(conn, true);
}

/* A body that makes progress may take a long time, but no longer than request_ms. */
static void look_at_progress(struct conn *conn)
{
    struct http_request *request = conn->request;
    struct request_body *body = &request->body;
    const struct http_timeouts *timeouts = &conn->loop->http->options.timeouts;
    bool ours = waits_for_disk(conn);    /* the disk is slow, not the client */
    bool slow = !ours && body->read_bytes - body->mark_bytes < timeouts->body_progress_bytes;
    bool late = mono_ns() - request->began_ns >= timeouts->request_ms * 1000000ull;
    body->mark_bytes = body->read_bytes;
    if (!slow && !late) {
        timer_start(&conn->loop->timers, ROW_BODY, &conn->timer);
        return;
    }
    if (ours) {
        refuse_for_disk(conn, "Penstock's disk took too long to store the request body: try again "
                              "later. The operator of Penstock must check the disk of the cache "
                              "folder");
        return;
    }
    metric_add(M_HTTP_REFUSED_SLOW_BODY, 1);
    gate_refuse(conn, ERR_TIMEOUT, slow ? "the request body arrives too slowly: check the "
                                          "network, and whether the client still sends"
                                        : "the request body took too long to arrive: send the "
                                          "object in smaller parts");
}

/* A request may have come in this turn. It is read in the next one. */
static void look_for_head(struct conn *conn)
{
    if (!conn->sock->input->size && peek_plain(h2o_socket_get_fd(conn->sock)) > 0)
        timer_start(&conn->loop->timers, ROW_HEAD, &conn->timer);
    else
        gate_slow(conn);
}

static void on_timeout(void *arg)
{
    struct conn *conn = arg;
    check(conn->magic == CONN_MAGIC && conn->sock);
    switch (conn->phase) {
    case PHASE_HANDSHAKE:
        gate_slow(conn);
        break;
    case PHASE_HEAD:
        look_for_head(conn);
        break;
    case PHASE_BODY:
        look_at_progress(conn);
        break;
    case PHASE_REQUEST:
        look_for_stall(conn);
        break;
    case PHASE_LINGER:
        conn_close(conn, false);
        break;
    }
}

/* ---- its steps ---- */

/* Returns true for a client on this host, over loopback. */
static bool is_on_this_host(const struct sockaddr_storage *peer)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)peer;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)peer;
    if (peer->ss_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return peer->ss_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
            (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == IN_LOOPBACKNET));
}

void conn_open(struct listener *listener, int fd, const struct sockaddr_storage *peer)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    /* The connection has the congestion control of the listening socket (server.c). */
    const char *congestion = listener->bound->congestion;
    if (!is_on_this_host(peer) && congestion[0])
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion, (socklen_t)strlen(congestion));
    struct http_loop *loop = listener->loop;
    struct conn *conn = must_alloc(sizeof(*conn));
    conn->magic = CONN_MAGIC;
    conn->loop = loop;
    conn->listener = listener;
    conn->holds = 1;
    conn->sock = h2o_evloop_socket_create(loop->events, fd, H2O_SOCKET_FLAG_IS_ACCEPTED_CONNECTION |
                                                                H2O_SOCKET_FLAG_DONT_READ);
    conn->sock->on_close.cb = on_close;
    conn->sock->on_close.data = conn;
    conn->timer = (struct http_timer){ .fn = on_timeout, .arg = conn };
    list_init(&conn->timer.link);
    list_init(&conn->unread);
    list_init(&conn->line);
    list_add(&loop->conns, &conn->link);
    print_peer(conn, peer);
    metric_gauge_add(M_HTTP_CONNECTIONS, 1);
    metric_add(M_HTTP_ACCEPTED, 1);
    h2o_socket_read_start(conn->sock, on_readable);
    struct http_tls *tls = listener->bound->app.tls;
    conn->phase = tls ? PHASE_HANDSHAKE : PHASE_HEAD;
    timer_start(&loop->timers, tls ? ROW_HEAD : ROW_NEW, &conn->timer);
    if (tls && !(conn->session = session_new(tls, fd)))
        conn_close(conn, true);
}

void conn_take_body(struct conn *conn)
{
    check(conn->request && conn->phase == PHASE_HEAD && !conn->segment);
    conn->phase = PHASE_BODY;
    timer_start(&conn->loop->timers, ROW_BODY, &conn->timer);
    conn_hold(conn);
    look_at_body(conn);
    conn_watch(conn);
    conn_release(conn);
}

/* Gives the input buffer back, which is large after a large head. The bytes after the last request
 * move to a new, small buffer. If there are none, the connection is idle, and holds no buffer. If
 * there are more than HEAD_SMALL_BYTES, they stay in the old buffer. */
static void renew_input(struct conn *conn)
{
    h2o_buffer_t **input = &conn->sock->input, *old = *input;
    if (old->size > HEAD_SMALL_BYTES)
        return;
    h2o_buffer_init(input, &h2o_socket_buffer_prototype);
    if (old->size) {
        memcpy(h2o_buffer_reserve(input, old->size).base, old->bytes, old->size);
        (*input)->size = old->size;
    }
    h2o_buffer_dispose(&old);
    shrink_head(conn);
}

void conn_next_head(struct conn *conn)
{
    check(!conn->request && conn->sock);
    h2o_socket_t *sock = conn->sock;
    h2o_socket_read_start(sock, on_readable);
    conn->phase = PHASE_HEAD;
    conn->scanned_bytes = 0;
    renew_input(conn);
    if (sock->input->size) {
        timer_start(&conn->loop->timers, ROW_HEAD, &conn->timer);
        gate_look(conn);
        note_unread(conn);
        return;
    }
    timer_start(&conn->loop->timers, ROW_IDLE, &conn->timer);
    note_unread(conn);
    listener_idle(conn->listener);
}

/* A close with unread bytes would reset the connection, and the client would lose the answer. So a
 * connection with unread bytes first lingers: for a time, its bytes are read and thrown away. */
void conn_end(struct conn *conn)
{
    check(!conn->request && conn->sock);
    h2o_socket_t *sock = conn->sock;
    bool sends = sock->input->size || peek_plain(h2o_socket_get_fd(sock)) > 0;
    if (!sends) {
        conn_close(conn, false);
        return;
    }
    conn->phase = PHASE_LINGER;
    timer_start(&conn->loop->timers, ROW_LINGER, &conn->timer);
    h2o_buffer_consume(&sock->input, sock->input->size);
    h2o_socket_read_start(sock, on_readable);
    conn_shut(conn);
}

void conn_write(struct conn *conn, h2o_iovec_t *bufs, size_t count, h2o_socket_cb done)
{
    check(conn->sock && count > 0 && count <= CONN_WRITE_MAX);
    if (conn->session)
        session_write(conn->session, conn->sock, bufs, count, done);
    else
        h2o_socket_write(conn->sock, bufs, count, done);
}

bool conn_say(struct conn *conn, slice bytes)
{
    if (conn->session)
        return session_say(conn->session, bytes);
    ssize_t sent = send(h2o_socket_get_fd(conn->sock), bytes.ptr, bytes.len,
                        MSG_DONTWAIT | MSG_NOSIGNAL);
    /* If nothing was sent, the connection is still good: a client that gets no 100 Continue soon
     * sends its body anyway. */
    return sent <= 0 || (size_t)sent == bytes.len;
}

void conn_shut(struct conn *conn)
{
    if (conn->session)
        session_shut(conn->session);
    shutdown(h2o_socket_get_fd(conn->sock), SHUT_WR);
}
