/* session.h - TLS on one connection. SPDX-License-Identifier: Apache-2.0
 *
 * A session itself reads and writes the socket's descriptor, one TLS record at a time. So it never
 * holds more received bytes than its caller asked for and the rest of one record. A client that
 * takes no bytes costs one record of memory in addition to the bytes being sent. Only session_shut
 * sends a close_notify: a connection that is cut ends without one (rule H10 in src/README.md).
 * Threads: everything runs on the connection's loop. */
#ifndef HTTP_SESSION_H
#define HTTP_SESSION_H



struct session;

/* The state of the handshake. SHAKEN_PLAIN: the client speaks no TLS. */
enum shaken { SHAKEN_MORE, SHAKEN_DONE, SHAKEN_FAILED, SHAKEN_PLAIN };

struct session *session_new(struct http_tls *tls, int fd) MUST_USE;    /* NULL: no memory */
enum shaken session_shake(struct session *session) MUST_USE;
/* Returns the number of bytes read, 0 if there are none now, or -1 if none will come any more. */
ssize_t session_read(struct session *session, void *to, size_t bytes) MUST_USE;
/* Like session_read for one byte, but does not take the byte. */
ssize_t session_peek(struct session *session) MUST_USE;
/* Returns true if the session holds decrypted bytes, which poll does not report. */
bool session_holds(struct session *session);
/* The bytes must stay valid until done(sock, err) is called, in a later turn of the loop. Only one
 * write may be in progress at a time. */
void session_write(struct session *session, h2o_socket_t *sock, const h2o_iovec_t *bufs,
                   size_t count, h2o_socket_cb done);
/* Sends a few bytes now. Returns false if they could not be sent; the session is then broken. */
bool session_say(struct session *session, slice bytes);
void session_shut(struct session *session);    /* sends a close_notify, if possible */
/* True if the client must connect again, because it might not get in now (tls_is_outdated). */
bool session_is_outdated(const struct session *session, struct http_tls *tls);
void session_free(struct session **session);

#endif
