/* session.h - TLS on one connection. SPDX-License-Identifier: Apache-2.0
 *
 * It reads from and writes to the socket's descriptor itself, a record at a time, so reads are as
 * bounded as without it, and a client that takes nothing costs one record of memory beside what is
 * being sent. A close_notify is sent by session_shut alone: a connection that is cut ends without
 * one (H10). Threads: the connection's loop. */
#ifndef HTTP_SESSION_H
#define HTTP_SESSION_H

#include <h2o/socket.h>

#include "http/tls.h"

struct session;

enum shaken { SHAKEN_MORE, SHAKEN_DONE, SHAKEN_FAILED, SHAKEN_PLAIN };    /* a client without TLS */

struct session *session_new(struct http_tls *tls, int fd) MUST_USE;    /* NULL: no memory */
enum shaken session_shake(struct session *session) MUST_USE;
/* As read(): bytes; 0 when there are none now; -1 when there will be none any more. */
ssize_t session_read(struct session *session, void *to, size_t bytes) MUST_USE;
ssize_t session_peek(struct session *session) MUST_USE;    /* the same for one byte, which stays */
bool session_holds(struct session *session);    /* bytes to read that no poll will tell of? */
/* Bytes must stay until done(sock, err), in a later turn. One at a time. */
void session_write(struct session *session, h2o_socket_t *sock, const h2o_iovec_t *bufs,
                   size_t count, h2o_socket_cb done);
/* At once, or not at all: then it is broken. */
bool session_say(struct session *session, slice bytes);
void session_shut(struct session *session);    /* tells the peer that this is the end */
void session_free(struct session **session);

#endif
