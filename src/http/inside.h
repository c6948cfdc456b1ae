/* inside.h - declarations that the files of http/ share. SPDX-License-Identifier: Apache-2.0
 *
 *     accept.c --> conn.c (socket, phase) --> gate.c (one head) --> conn.c (its body) --> request.c
 *                     ^                                                                    |
 *                     +---------------------- next head <----- reply.c <-------------------+
 *
 * Of libh2o 2.2.5, this folder uses only the event loop, the sockets and their buffers. The HTTP
 * part of libh2o parses heads and chunks leniently. It has one timer for everything, and no timeout
 * for a slow reader. And a caller cannot choose when libh2o closes a TLS connection. The sockets
 * are do-not-read sockets: libh2o reports that bytes have come, and never reads them. So the code
 * here makes every read, with a limit. It reads a head into sock->input, and a body into memory
 * (body.c) or into a segment: a block of memory whose bytes are then written to a file (spill.c).
 * Bytes of the next request that came with the body wait in sock->input until this request has been
 * answered.
 * A turn of a loop is one round of its event loop.
 * Threads: a connection, its request and its timers belong to one loop (rule H4 in src/README.md).
 * Other threads touch only the atomics. */
#ifndef HTTP_INSIDE_H
#define HTTP_INSIDE_H

#define H2O_USE_EPOLL 1    /* Penstock links the variant libh2o-evloop */
#include <h2o/socket.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/workers.h"
#include "http/chunks.h"
#include "http/http.h"
#include "http/session.h"

/* ---- timers: a row for each length; each row is in order of age ---- */

/* The rows of timers that connections use. A connection without a byte of a request waits in
 * ROW_NEW for its first request, and in ROW_IDLE for a later one. */
enum row { ROW_NEW, ROW_HEAD, ROW_BODY, ROW_IDLE, ROW_SEND, ROW_LINGER, ROW_COUNT };

struct http_timer {
    struct list link;                   /* in a row, while the timer waits */
    uint64_t due_ms;
    void (*fn)(void *arg);
    void *arg;
};

struct timer_row {
    struct list waiting;                /* of struct http_timer, the oldest first */
    unsigned ms;
};

struct timers {
    struct timer_row **rows;            /* the rows of connections first, by enum row */
    size_t count;
    uint64_t now_ms;                    /* the time of this turn; 0: no timer was started in it */
};

void timers_init(struct timers *timers, const unsigned row_ms[ROW_COUNT]);
void timers_free(struct timers *timers);
/* Starts a timer that the caller owns, and in which fn and arg are set. A timer that waits already
 * starts again from now. list_del(&timer->link) stops a timer. */
void timer_start(struct timers *timers, enum row row, struct http_timer *timer);
/* Timers of this row, also those that wait already, last at most `ms` from now on. */
void timers_shorten(struct timers *timers, enum row row, unsigned ms);
/* Call this function before each wait for events. Returns in how many milliseconds the next timer
 * is due, at most 10 s. */
int timers_end_turn(struct timers *timers);
bool timers_run(struct timers *timers);    /* returns true if a timer was due */

/* ---- an address, on all loops ---- */

struct address {
    struct sockaddr_storage at;
    socklen_t len;
};

bool address_resolve(const char *listen_on, struct address *ret);    /* address.c */

#define CONGESTION_BYTES 16             /* TCP_CA_NAME_MAX of Linux, with the end */
struct bound {
    struct http *http;
    struct http_app app;
    unsigned connections_max;
    atomic_size_t *open;                /* counts connections: &http->open or &own_open */
    atomic_size_t own_open;
    char congestion[CONGESTION_BYTES];  /* the host's congestion control; "": not known */
};

struct listener {                       /* one address on one loop */
    struct bound *bound;
    struct http_loop *loop;
    h2o_socket_t *sock;                 /* NULL: another loop has the inherited socket */
    atomic_uint open;                   /* connections of this listener, and on their way to it */
    atomic_bool paused;                 /* at the cap; a connection that ends posts `resume` */
    struct mail resume;
    atomic_bool shedding;               /* another loop is at the cap and has posted `shed` */
    struct mail shed;
    struct http_timer *retry;           /* out of file descriptors: runs until the next try */
};

/* The segments of one loop, for bodies on their way to files. Only the loop writes it, when a
 * segment is taken or given back (spill.c). */
struct segment_pool {
    struct list line;                   /* conns that wait for a segment: conn->line */
    struct list kept;                   /* of struct body_segment: free ones that are kept */
    unsigned out_count, kept_count;
};

/* The Date of answers. The loop writes it at the first answer of each second (reply.c). */
struct date {
    int64_t s;
    char text[32];                      /* `s` as text */
};

struct http_loop {
    struct http *http;
    unsigned number;
    pthread_t thread;
    bool started, ending;
    h2o_evloop_t *events;
    struct mailbox *box;
    h2o_socket_t *box_sock;
    h2o_socket_t *turn_sock;            /* calls on_turn in the next h2o_evloop_run */
    struct timers timers;
    struct list conns;                  /* of struct conn: all of this loop */
    struct list unread;                 /* conns to read without a poll event: conn->unread */
    struct segment_pool segments;
    struct listener *listeners;         /* one for each app */
    struct request_head scratch;        /* for the head being scanned */
    struct date date;
    struct mail drain, end;
    void *local;
};

struct http {
    struct http_options options;
    struct bound *bounds;               /* one for each app */
    struct http_loop *loops;
    struct workers *spill;              /* freed before the mailboxes that it posts to */
    /* [app * loops + loop] until the loops take them; -1: the loop does not listen for this app */
    int *listen_fds;
    atomic_size_t open, requests, large_heads;
    atomic_bool draining;
    atomic_uint drained;                /* loops that accept no more connections */
};

/* loop.c */
void loop_init(struct http_loop *loop, struct http *http, unsigned number);
bool loop_start(struct http_loop *loop) MUST_USE;
/* Call it only after all loops were joined, because a loop touches the listeners of other loops. */
void loop_free(struct http_loop *loop);

/* ---- a connection ---- */

enum phase {
    PHASE_HANDSHAKE,  /* of TLS */
    PHASE_HEAD,       /* the connection waits for a head, or reads it */
    PHASE_BODY,       /* the head was judged; the body is being read */
    PHASE_REQUEST,    /* the app has the request, or its answer is on its way */
    PHASE_LINGER      /* the last answer is out; bytes of the client are thrown away */
};

#define HEAD_SMALL_BYTES 8192           /* a socket's first buffer; any connection may have one */
/* A larger head takes this much of heads_bytes (struct http_options), for its buffer, its copy, and
 * all memory that the request makes of the head. */
#define HEAD_LARGE_BYTES (128 * KIB)
#define CONN_MAGIC 0x636f6e6eu
struct conn {
    unsigned magic;
    h2o_socket_t *sock;                 /* NULL once closed */
    struct http_loop *loop;
    struct listener *listener;
    struct session *session;            /* NULL: no TLS */
    struct list link, unread, line;
    struct body_segment *segment;       /* of the body, being written; nothing is read meanwhile */
    struct http_timer timer;            /* for the one thing that the connection waits for */
    enum phase phase;
    unsigned holds;                     /* freed at 0; the open socket counts as one */
    size_t scanned_bytes;               /* of the head being read */
    bool large_head;                    /* the head counts as large, until the answer is out */
    size_t lingered_bytes;
    size_t stalls;                      /* successive send timers without enough bytes */
    uint64_t acked_bytes;
    struct http_request *request;       /* from the scanned head to the end of the answer */
    struct arena refusal;               /* the answer to a refused request */
    char peer[64];
};

struct conn *conn_of(h2o_socket_t *sock);
void conn_open(struct listener *listener, int fd, const struct sockaddr_storage *peer);
void conn_hold(struct conn *conn);
void conn_release(struct conn *conn);
/* Closes the connection. A request in progress ends incomplete. If `reset`, the client sees a reset
 * and no clean end. */
void conn_close(struct conn *conn, bool reset);
void conn_next_head(struct conn *conn);    /* the answer is complete */
void conn_end(struct conn *conn);          /* the last answer is complete */
void conn_take_body(struct conn *conn);    /* the head in sock->input has been judged */
void conn_read_start(struct conn *conn);   /* libh2o reports again that bytes have come */
/* Called when the connection's segment is written, or when a segment is free for the connection.
 * `ok` is false if the write failed. */
void conn_written(struct conn *conn, bool ok);
/* Removes the framing from the next bytes of a chunked body, in place. Returns the number of bytes
 * of the body among them. After these lie the *ret_rest bytes that came after the body's end. */
size_t conn_unchunk(struct conn *conn, char *bytes, size_t len, size_t *ret_rest);
/* As conn_write, for request->reply.file. Without TLS. */
void conn_write_file(struct conn *conn);
/* The most runs of bytes in one write: head, a chunk's line, its runs, its end. */
#define CONN_WRITE_MAX (HTTP_RUNS_MAX + 3)
/* Only one write may be in progress at a time. done(sock, err) is called in a later turn of the
 * loop, when all bytes are out or the write has failed (err is not NULL). */
void conn_write(struct conn *conn, h2o_iovec_t *bufs, size_t count, h2o_socket_cb done);
/* Sends a few bytes now. Returns false if the connection is broken. */
bool conn_say(struct conn *conn, slice bytes);
void conn_shut(struct conn *conn);             /* no more bytes will be sent */
void conns_read_on(struct http_loop *loop);    /* reads all connections of loop->unread */
/* Lets the loop notice that the client leaves, while the app has the request and sends nothing. */
void conn_watch(struct conn *conn);

/* tls.c */
SSL *tls_new_ssl(struct http_tls *tls);
/* True if clients need a certificate, and the files have changed since this session began: its
 * client might not get in now. */
bool tls_is_outdated(struct http_tls *tls, const SSL *ssl);

/* accept.c */
void listener_open(struct listener *listener, int fd);    /* -1: another loop listens for all */
/* Closes the listener. Accepts waiting connections first, unless the socket is inherited. */
void listener_drain(struct listener *listener);
void listener_close(struct listener *listener);
/* Wakes a paused listener, which may find room under the cap now. Any thread may call this
 * function. */
void listener_idle(struct listener *listener);
void listener_left(struct listener *listener);    /* its connection has ended; on its loop */

/* gate.c */
void gate_look(struct conn *conn);         /* new bytes of a head are in sock->input */
void gate_slow(struct conn *conn);         /* the handshake or the head took too long */
/* Sends a refusal and closes the connection. Call it only before the app has the request. */
void gate_refuse(struct conn *conn, enum err err, const char *why);
/* Refuses a body. `announced`: the body is larger than the head says; otherwise it is larger than
 * any body may be. */
void gate_refuse_too_large(struct conn *conn, bool announced);
void gate_drain(struct conn *conn);        /* throws away bytes in PHASE_LINGER */

/* ---- a request ---- */

/* The body of a request. The loop writes it after the head was judged (gate.c), until the body is
 * complete. After that, the app may take the content. */
struct request_body {
    struct http_body *content;          /* NULL: there is none, or an app has taken it */
    struct chunks chunks;
    enum err framing;                   /* result of chunks_decode; ERR_MORE until the end */
    uint64_t read_bytes, mark_bytes;    /* read: now, and at the last progress check */
    uint64_t bytes_max;                 /* the largest size that the judge allows */
    unsigned client;                    /* the bodies of one client count together; 0: no client */
};

/* A write of bytes of a file, in progress. Written by the loop (send_file.c). */
struct reply_file {
    slice head;                         /* comes before them, and is not written yet */
    slice left;                         /* of the bytes: in memory */
    int fd;
    off_t at;                           /* of `left` in the file */
    h2o_socket_cb done;
    const char *failed;
};

/* The answer to a request. The loop writes it from http_reply or http_reply_start until the request
 * ends (reply.c). */
struct reply {
    int status;
    bool begun, sending;
    bool open;                          /* the body's length is not known yet */
    bool chunked, ended_open;           /* if open: sent in chunks; the app has given the end */
    char chunk[24];                     /* the line before a chunk */
    slice head;                         /* until the first bytes leave */
    uint64_t length, sent_bytes;        /* of the body on the wire; length 0: no body */
    struct reply_file file;
    const struct http_source *source;
    void *source_arg;
};

#define REQUEST_MAGIC 0x72657175u
struct http_request {
    unsigned magic;
    struct arena arena;                 /* the request itself lies in it */
    struct conn *conn;
    bool handled;                       /* the body is complete, and the app has the request */
    bool close;                         /* the connection ends with this request */
    void *judged;
    uint64_t began_ns;
    struct request_body body;
    struct reply reply;
    void (*ended)(void *arg, const struct http_outcome *outcome);
    void *ended_arg;
    /* The last member, because only as many header fields are allocated as have come. The slices of
     * the head point into the arena. */
    struct request_head head;
};

struct http_request *request_new(struct conn *conn, const struct request_head *head);
void request_handle(struct http_request *request);    /* its body is complete */
/* Ends the request: calls stop() if the source still waits, calls ended(), frees the memory. */
void request_end(struct http_request **request, bool complete);

/* body.c */
#define BODY_READ_BYTES 65536    /* the most that one read takes of a body in memory */
/* Makes the content of the request's body, which begins with `first` and has room for `bytes`.
 * Returns false if there is no room; the request has then been refused. */
bool body_begin(struct conn *conn, slice first, size_t bytes) MUST_USE;
/* Gives a growing body room for `bytes`. Returns false as body_begin does. */
bool body_make_room(struct conn *conn, size_t bytes) MUST_USE;
/* Returns where the next bytes of a body in memory go. *ret_room is the number of bytes that the
 * body still has room for, in memory or in a file. */
char *body_end(struct http_body *body, size_t *ret_room);
/* Adds bytes that are in memory, or on their way to the file, to the size of the body. Returns the
 * offset of the first of them. */
size_t body_grow(struct http_body *body, size_t bytes);
/* On a spill thread: writes bytes to the file at offset `at` of the body. Creates the file if
 * needed. */
bool body_spill(struct http_body *body, size_t at, char *bytes, size_t len) MUST_USE;
void body_spilled(struct http_body *body);    /* on its loop: counts what body_spill allocated */

/* spill.c */
#define BODY_SEGMENT_BYTES (256 * KIB)
struct body_segment {                   /* bytes of a body, on their way to its file */
    struct mail mail;
    struct list link;
    struct http_loop *loop;
    struct conn *conn;                  /* NULL: the request has ended */
    atomic_bool abandoned;              /* the request has ended: spill threads write nothing */
    struct http_body *body;
    size_t at, len;                     /* offset of the bytes in the body; their number */
    bool failed;
    char bytes[BODY_SEGMENT_BYTES];
};

struct workers *spill_new(void) MUST_USE;    /* NULL: no thread could be started */
/* Returns NULL if no segment is free. The connection then waits in loop->segments.line until
 * conn_written. */
struct body_segment *segment_take(struct conn *conn) MUST_USE;
/* Lets a spill thread write the first `bytes` of the segment, as the next bytes of the body. If
 * `bytes` is not 0, conn->segment is set until conn_written. */
void segment_write(struct conn *conn, struct body_segment *segment, size_t bytes);
void segment_give(struct body_segment *segment);     /* gives it back, unused or written */
void segment_leave(struct conn *conn);      /* the request ends and needs no segment any more */
void segments_free(struct http_loop *loop);

/* reply.c */
/* If length is HTTP_OPEN, there is no Content-Length. The caller adds the blank line at the end. */
struct text response_head(struct http_loop *loop, struct arena *keep, int status, bool close,
                          uint64_t length);
void reply_fields(struct text *head, const struct http_field *fields, size_t count);

#endif
