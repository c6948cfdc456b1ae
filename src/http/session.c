/* session.c - TLS on one connection. SPDX-License-Identifier: Apache-2.0
 *
 * Answers leave in records of at most 16 KiB. The first record has the head of the answer and the
 * first bytes of its body. When the socket is full, the session waits for room and offers the same
 * bytes again, as OpenSSL requires. OpenSSL's queue of errors belongs to the thread, so it is
 * emptied before each call. */
#include "http/inside.h"

#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/metric.h"

#define RECORD_BYTES 16384
#define TLS_HANDSHAKE 0x16    /* the first byte of a client that speaks TLS */

struct session {
    SSL *ssl;
    int fd;
    bool up;                            /* the handshake is done */
    bool broken;                        /* no byte can be sent or read any more */
    h2o_iovec_t *out;                   /* runs that are not written yet */
    size_t out_count, out_room;
    h2o_socket_cb done;
};

struct session *session_new(struct http_tls *tls, int fd)
{
    struct session *session = must_alloc(sizeof(*session));
    session->fd = fd;
    session->ssl = tls_new_ssl(tls);
    if (!session->ssl || SSL_set_fd(session->ssl, fd) != 1) {
        session_free(&session);
        return NULL;
    }
    SSL_set_accept_state(session->ssl);
    return session;
}

bool session_is_outdated(const struct session *session, struct http_tls *tls)
{
    return tls_is_outdated(tls, session->ssl);
}

void session_free(struct session **session)
{
    struct session *mine = *session;
    *session = NULL;
    if (!mine)
        return;
    SSL_free(mine->ssl);
    free(mine->out);
    free(mine);
}

/* ---- the handshake ---- */

/* Looks at the client's first byte, which stays in the socket. */
static bool begins_in_plain(const struct session *session)
{
    char first;
    return recv(session->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1 && first >= 'A' &&
           first <= 'Z' && first != TLS_HANDSHAKE;
}

enum shaken session_shake(struct session *session)
{
    if (SSL_in_before(session->ssl) && begins_in_plain(session)) {
        metric_add(M_TLS_PLAIN, 1);
        return SHAKEN_PLAIN;
    }
    ERR_clear_error();
    int done = SSL_do_handshake(session->ssl);
    int error = SSL_get_error(session->ssl, done);
    if (done != 1 && (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE))
        return SHAKEN_MORE;
    session->up = done == 1;
    session->broken = done != 1;
    metric_add(done != 1                           ? M_TLS_FAILED
               : SSL_session_reused(session->ssl) ? M_TLS_RESUMED
                                                   : M_TLS_FULL, 1);
    return done == 1 ? SHAKEN_DONE : SHAKEN_FAILED;
}

/* ---- reading ---- */

static ssize_t outcome_of(struct session *session, int got)
{
    if (got > 0)
        return got;
    int error = SSL_get_error(session->ssl, got);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return 0;
    if (error != SSL_ERROR_ZERO_RETURN)    /* ZERO_RETURN: a close_notify came, ours may follow */
        session->broken = true;
    bool left = ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    if (error == SSL_ERROR_SSL && !left)    /* a missing close_notify is no bad record */
        metric_add(M_TLS_BAD_RECORD, 1);
    return -1;
}

ssize_t session_read(struct session *session, void *to, size_t bytes)
{
    size_t sum = 0;
    ssize_t got = 1;
    while (sum < bytes && !session->broken && got > 0) {
        ERR_clear_error();
        int room = (int)MIN(bytes - sum, (size_t)INT32_MAX);
        got = outcome_of(session, SSL_read(session->ssl, (char *)to + sum, room));
        sum += got > 0 ? (size_t)got : 0;
    }
    return sum ? (ssize_t)sum : session->broken ? -1 : got;
}

ssize_t session_peek(struct session *session)
{
    char byte;
    if (session->broken)
        return -1;
    ERR_clear_error();
    return outcome_of(session, SSL_peek(session->ssl, &byte, 1));
}

bool session_holds(struct session *session)
{
    return session->up && !session->broken && SSL_pending(session->ssl) > 0;
}

/* ---- writing ---- */

static void take_off(struct session *session, size_t bytes)
{
    h2o_iovec_t *out = session->out;
    size_t gone = 0;
    while (gone < session->out_count && bytes >= out[gone].len)
        bytes -= out[gone++].len;
    session->out_count -= gone;
    memmove(out, out + gone, session->out_count * sizeof(*out));
    if (bytes) {
        out[0].base += bytes;
        out[0].len -= bytes;
    }
}

/* Returns the bytes of the next record: a part of the first run, or several runs, which are copied
 * into `block`. */
static slice next_record(const struct session *session, char block[RECORD_BYTES])
{
    const h2o_iovec_t *out = session->out;
    if (session->out_count == 1 || out[0].len >= RECORD_BYTES)
        return (slice){ out[0].base, MIN(out[0].len, (size_t)RECORD_BYTES) };
    size_t sum = 0;
    for (size_t i = 0; i < session->out_count && sum < RECORD_BYTES; i++) {
        size_t part = MIN(out[i].len, RECORD_BYTES - sum);
        memcpy(block + sum, out[i].base, part);
        sum += part;
    }
    return (slice){ block, sum };
}

static void on_done(h2o_socket_t *sock, const char *err)
{
    struct session *session = conn_of(sock)->session;
    session->done(sock, session->broken ? "TLS failed" : err);
}

static void on_room(h2o_socket_t *sock, const char *err);

static void push(struct session *session, h2o_socket_t *sock)
{
    char block[RECORD_BYTES];
    while (session->out_count && !session->broken) {
        slice record = next_record(session, block);
        ERR_clear_error();
        int sent = SSL_write(session->ssl, record.ptr, (int)record.len);
        if (sent > 0) {
            take_off(session, (size_t)sent);
        } else if (SSL_get_error(session->ssl, sent) == SSL_ERROR_WANT_WRITE) {
            h2o_socket_notify_write(sock, on_room);
            return;
        } else {
            session->broken = true;
        }
    }
    session->out_count = 0;
    h2o_socket_write(sock, NULL, 0, on_done);    /* writes nothing; on_done comes next turn */
}

static void on_room(h2o_socket_t *sock, const char *err)
{
    struct session *session = conn_of(sock)->session;
    session->broken = session->broken || err;
    push(session, sock);
}

void session_write(struct session *session, h2o_socket_t *sock, const h2o_iovec_t *bufs,
                   size_t count, h2o_socket_cb done)
{
    check(session->out_count == 0 && count >= 1);
    if (count > session->out_room) {
        free(session->out);
        session->out = must_alloc(count * sizeof(*bufs));
        session->out_room = count;
    }
    memcpy(session->out, bufs, count * sizeof(*bufs));
    session->out_count = count;
    session->done = done;
    push(session, sock);
}

bool session_say(struct session *session, slice bytes)
{
    check(session->up && session->out_count == 0);
    ERR_clear_error();
    if (!session->broken && SSL_write(session->ssl, bytes.ptr, (int)bytes.len) == (int)bytes.len)
        return true;
    session->broken = true;    /* after half a record the connection can only be cut */
    return false;
}

void session_shut(struct session *session)
{
    if (!session->up || session->broken || session->out_count)
        return;
    ERR_clear_error();
    SSL_shutdown(session->ssl);
    ERR_clear_error();
}
