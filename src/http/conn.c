/* conn.c - one connection: its socket, its phase, its end. SPDX-License-Identifier: Apache-2.0
 *
 * Holds together what inside.h promises: reads are ours and bounded, the library gets one whole
 * judged request at a time, and a connection ends through the library's own read callback, which
 * frees what it has. A socket's on_close is the one place where a connection is taken apart,
 * whoever closed it; the library closes too (a broken chunk, a write that fails). Whoever calls
 * something that may close the connection holds it meanwhile (conn_hold). */
#include "http/inside.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/metric.h"

#define BODY_TURN_BYTES (256 * KIB)    /* read at most so much before others get their turn */
#define BODY_READ_BYTES 65536

static_assert(H2O_VERSION_MAJOR == 2 && H2O_VERSION_MINOR == 2, "conn.c leans on details of 2.2");

/* The library's own read callback, the same for all its connections: learnt from the first one. */
static _Atomic(h2o_socket_cb) library_read;

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

static void on_close(void *data)
{
    struct conn *conn = data;
    struct http *http = conn->loop->http;
    conn->sock = NULL;
    timed_stop(&conn->timed);
    list_del(&conn->link);
    if (conn->rest)
        h2o_buffer_dispose(&conn->rest);
    if (conn->request)
        request_end(&conn->request, false);
    atomic_fetch_sub(&http->open_all, 1);
    metric_gauge_add(M_HTTP_CONNECTIONS, -1);
    bound_left(conn->listener->bound);
    conn_release(conn);
}

void conn_close(struct conn *conn, bool reset)
{
    check(conn->magic == CONN_MAGIC);
    if (!conn->sock)
        return;
    if (reset) {
        struct linger at_once = { .l_onoff = 1, .l_linger = 0 };
        setsockopt(h2o_socket_get_fd(conn->sock), SOL_SOCKET, SO_LINGER, &at_once,
                   sizeof(at_once));
    }
    if (conn->known)
        atomic_load(&library_read)(conn->sock, h2o_socket_error_closed);
    else
        h2o_socket_close(conn->sock);
}

static void print_peer(struct conn *conn, const struct sockaddr_storage *peer)
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (peer->ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const void *)peer;
        inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host));
        snprintf(conn->peer, sizeof(conn->peer), "[%s]:%u", host, ntohs(six->sin6_port));
    } else {
        const struct sockaddr_in *four = (const void *)peer;
        inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host));
        snprintf(conn->peer, sizeof(conn->peer), "%s:%u", host, ntohs(four->sin_port));
    }
}

/* ---- reading ---- */

/* Bytes read; 0 when there are none now; -1 when there will be none any more. */
static ssize_t read_some(struct conn *conn, size_t room_bytes, size_t bytes_max)
{
    h2o_iovec_t room = h2o_buffer_reserve(&conn->sock->input, MIN(room_bytes, bytes_max));
    check(room.base != NULL);
    ssize_t got;
    do
        got = read(h2o_socket_get_fd(conn->sock), room.base, MIN(room.len, bytes_max));
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == EAGAIN ? 0 : -1;
    if (got == 0)
        return -1;
    conn->sock->input->size += (size_t)got;
    return got;
}

static void read_head(struct conn *conn)
{
    size_t have = conn->sock->input->size;
    if (have == 0)    /* the first byte: from now on it is a head that may be slow */
        timed_start(&conn->loop->timers, ROW_HEAD, &conn->timed);
    ssize_t got = read_some(conn, 4096, HTTP_HEAD_BYTES_MAX + 1 - have);
    if (got < 0)
        conn_close(conn, false);
    else if (got > 0)
        gate_look(conn);
}

/* Of a chunked body: in the app's words instead of the library's. */
static bool body_is_too_large(struct conn *conn)
{
    const struct http_head *head = &conn->request->head;
    uint64_t max = conn->loop->http->options.body_bytes_max;
    if (!head->chunked || conn->sock->input->size - head->bytes < max)
        return false;
    metric_add(M_HTTP_REFUSED_BODY, 1);
    gate_refuse(conn, ERR_TOO_LARGE, "the body is larger than this server takes");
    return true;
}

/* The library is told when there is something new. It never gets bytes behind a body whose length
 * is known; a chunked one is the last of its connection. */
static void read_body(struct conn *conn)
{
    size_t turn = BODY_TURN_BYTES;
    conn_hold(conn);
    while (conn->sock && conn->phase == PHASE_BODY && turn > 0) {
        const struct http_head *head = &conn->request->head;
        size_t left = turn, have = conn->sock->input->size;
        if (!head->chunked)
            left = MIN(left, head->bytes + head->length - have);
        else if (!body_make_room(conn, have + BODY_READ_BYTES))
            break;
        ssize_t got = read_some(conn, BODY_READ_BYTES, left);
        if (got == 0 || body_is_too_large(conn))
            break;
        if (got < 0) {
            conn_close(conn, false);
            break;
        }
        turn -= (size_t)got;
        atomic_load(&library_read)(conn->sock, NULL);
        if ((size_t)got < BODY_READ_BYTES / 2)
            break;    /* likely all there is: the next turn will tell */
    }
    if (conn->sock && conn->phase == PHASE_REQUEST)
        conn_watch(conn);
    conn_release(conn);
}

/* A client that closes its side while it waits is taken as gone; one that does so while something
 * is being sent may have got all it wanted: the write will tell. A next request has to wait. */
static void look_for_leaving(struct conn *conn)
{
    char byte;
    if (conn->request->sending) {
        h2o_socket_read_stop(conn->sock);
        return;
    }
    ssize_t got = recv(h2o_socket_get_fd(conn->sock), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got > 0)
        h2o_socket_read_stop(conn->sock);
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
        conn_close(conn, true);
}

static void on_readable(h2o_socket_t *sock, const char *err)
{
    struct conn *conn = conn_of(sock);
    switch (conn->phase) {
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

void conn_watch(struct conn *conn)
{
    if (!conn->request->sending)
        h2o_socket_read_start(conn->sock, on_readable);
}

/* ---- to and from the library ---- */

void conn_open(struct listener *listener, int fd, const struct sockaddr_storage *peer)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
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
    list_init(&conn->timed.link);
    list_init(&conn->link);
    list_add(&loop->conns, &conn->link);
    print_peer(conn, peer);
    atomic_fetch_add(&loop->http->open_all, 1);
    metric_gauge_add(M_HTTP_CONNECTIONS, 1);
    metric_add(M_HTTP_ACCEPTED, 1);
    timed_start(&loop->timers, ROW_HEAD, &conn->timed);
    h2o_socket_read_start(conn->sock, on_readable);
}

/* The library begins by looking at what has been read: it is shown nothing, so that it only waits,
 * and then we take its place as the one who is told of bytes. */
static void introduce(struct conn *conn)
{
    h2o_socket_t *sock = conn->sock;
    h2o_buffer_t *input = sock->input;
    struct timeval now;
    gettimeofday(&now, NULL);
    h2o_buffer_init(&sock->input, &h2o_socket_buffer_prototype);
    h2o_http1_accept(&conn->loop->accept, sock, now);
    sock->input = input;
    conn->known = true;
    atomic_store(&library_read, sock->_cb.read);
    h2o_socket_read_start(sock, on_readable);
}

static void set_rest_aside(struct conn *conn)
{
    h2o_buffer_t *input = conn->sock->input;
    const struct http_head *head = &conn->request->head;
    uint64_t whole = head->bytes + head->length;    /* length is 0 without a body */
    if (head->chunked || input->size <= whole)
        return;
    size_t extra = input->size - whole;
    h2o_buffer_init(&conn->rest, &h2o_socket_buffer_prototype);
    memcpy(h2o_buffer_reserve(&conn->rest, extra).base, input->bytes + whole, extra);
    conn->rest->size = extra;
    input->size = whole;
}

void conn_feed(struct conn *conn)
{
    check(conn->request && !conn->rest && conn->phase == PHASE_HEAD);
    set_rest_aside(conn);
    timed_stop(&conn->timed);
    conn->phase = PHASE_BODY;
    conn_hold(conn);
    if (!conn->known)
        introduce(conn);
    atomic_load(&library_read)(conn->sock, NULL);
    if (conn->sock && conn->phase == PHASE_BODY)
        timed_start(&conn->loop->timers, ROW_BODY, &conn->timed);
    else if (conn->sock && conn->phase == PHASE_REQUEST)
        conn_watch(conn);
    conn_release(conn);
}

void conn_next_head(struct conn *conn)
{
    check(!conn->request && conn->known);
    h2o_socket_t *sock = conn->sock;
    h2o_socket_read_start(sock, on_readable);
    conn->phase = PHASE_HEAD;
    conn->scanned_bytes = 0;
    if (!conn->rest) {
        timed_start(&conn->loop->timers, ROW_IDLE, &conn->timed);
        listener_idle(conn->listener);
        return;
    }
    check(sock->input->size == 0);
    sock->input = conn->rest;
    conn->rest = NULL;
    timed_start(&conn->loop->timers, ROW_HEAD, &conn->timed);
    gate_look(conn);
}

/* ---- waiting ---- */

bool conn_progressed(struct conn *conn)
{
    struct tcp_info info = { 0 };
    socklen_t len = sizeof(info);
    if (getsockopt(h2o_socket_get_fd(conn->sock), IPPROTO_TCP, TCP_INFO, &info, &len))
        return false;
    bool more = info.tcpi_bytes_acked != conn->acked_bytes;
    conn->acked_bytes = info.tcpi_bytes_acked;
    return more;
}

/* The row is half of send_ms: two rounds in a row without a byte are it. */
static void look_for_stall(struct conn *conn)
{
    conn->stalls = conn_progressed(conn) ? 0 : conn->stalls + 1;
    if (conn->stalls < 2) {
        timed_start(&conn->loop->timers, ROW_SEND, &conn->timed);
        return;
    }
    metric_add(M_HTTP_CUT_SLOW, 1);
    conn_close(conn, true);
}

void conn_timed_out(struct timed *timed, enum row row)
{
    struct conn *conn = container_of(timed, struct conn, timed);
    switch (row) {
    case ROW_HEAD:
        gate_slow(conn);
        break;
    case ROW_BODY:
        metric_add(M_HTTP_REFUSED_SLOW_BODY, 1);
        gate_refuse(conn, ERR_TIMEOUT, "the request body took too long");
        break;
    case ROW_SEND:
        look_for_stall(conn);
        break;
    case ROW_IDLE:
    case ROW_LINGER:
    case ROW_COUNT:
        conn_close(conn, false);
        break;
    }
}
