/* inside.h - what the files of this room share. SPDX-License-Identifier: Apache-2.0
 *
 *     accept.c --> conn.c (socket, phase) --> gate.c (one head) --> conn.c (its body) --> request.c
 *                     ^                                                                    |
 *                     +---------------------- next head <----- reply.c <-------------------+
 *
 * libh2o 2.2.5 gives the event loop, the sockets and their buffers, and no more. Its HTTP parses
 * heads and chunks leniently, has one timer for everything and no slow-reader timeout, and closes a
 * TLS connection in its own time. Its sockets are do-not-read ones: the library reports that bytes
 * have come and never reads them. So every read is ours, and bounded. A head is read into
 * sock->input, its body into memory of ours (body.c) or into a segment on its way to a file
 * (spill.c). Bytes of the next request that came along wait in sock->input until this request has
 * been answered.
 * Threads: a connection, its request and its timers belong to one loop (H4). Other threads touch
 * only the atomics. */
#ifndef HTTP_INSIDE_H
#define HTTP_INSIDE_H

#define H2O_USE_EPOLL 1    /* the variant of the library that we link: libh2o-evloop */
#include <h2o/socket.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/workers.h"
#include "http/chunks.h"
#include "http/http.h"
#include "http/session.h"

/* ---- timers: a row for each length, in order of age ---- */

enum row { ROW_HEAD, ROW_BODY, ROW_IDLE, ROW_SEND, ROW_LINGER, ROW_COUNT };    /* of connections */

struct http_timer {
    struct list link;                   /* in its row, while it waits */
    uint64_t due_ms;
    void (*fn)(void *arg);
    void *arg;
};

struct timer_row {
    struct list waiting;                /* of struct http_timer, the oldest first */
    unsigned ms;
};

struct timers {
    struct timer_row **rows;            /* those of connections first, by enum row */
    size_t count;
};

void timers_init(struct timers *timers, const unsigned row_ms[ROW_COUNT]);
void timers_free(struct timers *timers);
/* A timer of the caller's, with its fn; one that waits already begins again. list_del stops it. */
void timer_start(struct timers *timers, enum row row, struct http_timer *timer);
int timers_wait_ms(const struct timers *timers);    /* until the next is due; bounded */
bool timers_run(struct timers *timers);             /* true if any was due */

/* ---- an address, on all loops ---- */

struct bound {
    struct http *http;
    struct http_app app;
    unsigned connections_max;
    atomic_size_t *open;                /* connections under that cap: of all apps, or its own */
    atomic_size_t own_open;
};

struct listener {                       /* one address on one loop */
    struct bound *bound;
    struct http_loop *loop;
    h2o_socket_t *sock;
    atomic_bool paused;                 /* at the cap; a connection that ends wakes it by: */
    struct mail resume;
    atomic_bool shedding;               /* another loop is at the cap, and this is on its way: */
    struct mail shed;
    struct http_timer *retry;           /* out of descriptors: until the next try */
};

struct http_loop {
    struct http *http;
    unsigned number;
    pthread_t thread;
    bool started, ending;
    h2o_evloop_t *events;
    struct mailbox *box;
    h2o_socket_t *box_sock;
    struct timers timers;
    struct list conns;                  /* of struct conn: all of this loop */
    struct list unread;                 /* conns with bytes that no poll reports: conn->unread */
    struct list line;                   /* conns that wait for a segment: conn->line */
    struct list segments;                 /* of struct body_segment: free, kept */
    unsigned segments_out, segments_kept;
    struct listener *listeners;         /* one for each app */
    struct request_head scratch;        /* for the head being scanned */
    int64_t date_s;
    char date[32];                      /* as answers have it, of that second */
    struct mail drain, end;
    void *local;
};

struct http {
    struct http_options options;
    struct bound *bounds;               /* one for each app */
    struct http_loop *loops;
    struct workers *spill;              /* freed before the mailboxes that it posts to */
    int *listen_fds;                    /* [app * loops + loop] until the loops take them */
    atomic_size_t open, requests, large_heads;
    atomic_bool draining;
};

/* loop.c */
void loop_init(struct http_loop *loop, struct http *http, unsigned number);
bool loop_start(struct http_loop *loop) MUST_USE;
void loop_free(struct http_loop *loop);    /* all are joined: they touch each other's listeners */

/* ---- a connection ---- */

enum phase {
    PHASE_HANDSHAKE,  /* of TLS */
    PHASE_HEAD,       /* waits for a head, or reads it */
    PHASE_BODY,       /* the head was judged; reads the body */
    PHASE_REQUEST,    /* the app has the request, or its answer is on its way */
    PHASE_LINGER      /* the last answer is out; throws away what the client still sends */
};

#define HEAD_SMALL_BYTES 8192           /* a socket's first buffer: every connection may have it */
/* Counted for a larger head: its buffer, its copy, and all that the request makes of it. */
#define HEAD_LARGE_BYTES (128 * KIB)
#define CONN_MAGIC 0x636f6e6eu
struct conn {
    unsigned magic;
    h2o_socket_t *sock;                 /* NULL once closed */
    struct http_loop *loop;
    struct listener *listener;
    struct session *session;            /* NULL: without TLS */
    struct list link, unread, line;
    struct body_segment *segment;       /* of its body, on its way to the disk; no read meanwhile */
    struct http_timer timer;            /* for the one thing that the connection waits for */
    enum phase phase;
    unsigned holds;                     /* freed at 0; the open socket is one */
    size_t scanned_bytes;               /* of the head being read */
    bool large_head;                    /* its head is counted as large, until the answer is out */
    size_t lingered_bytes;
    size_t stalls;                      /* send timers in a row without a byte taken */
    uint64_t acked_bytes;
    struct http_request *request;       /* from the judged head to the end of the answer */
    struct arena refusal;               /* the answer of a refused head */
    char peer[64];
};

struct conn *conn_of(h2o_socket_t *sock);
void conn_open(struct listener *listener, int fd, const struct sockaddr_storage *peer);
void conn_hold(struct conn *conn);
void conn_release(struct conn *conn);
/* Closes it; a request under way ends incomplete. With reset the peer sees no clean end. */
void conn_close(struct conn *conn, bool reset);
void conn_next_head(struct conn *conn);    /* an answer is complete */
void conn_end(struct conn *conn);          /* an answer is complete, and it was the last */
void conn_take_body(struct conn *conn);    /* the head in sock->input has been judged */
void conn_read_start(struct conn *conn);   /* the library reports again that bytes have come */
void conn_written(struct conn *conn, bool ok);    /* its segment is written, or it may take one */
/* Takes the framing off the next bytes of a chunked body, and returns how many bytes of the body
 * are left. Behind them lie *ret_rest bytes that came behind the end of the body. */
size_t conn_unchunk(struct conn *conn, char *bytes, size_t len, size_t *ret_rest);
/* Runs of bytes in one write: head, a chunk's line, its runs, its end. */
#define CONN_WRITE_MAX (HTTP_RUNS_MAX + 3)
/* One write at a time. done(sock, err) comes in a later turn: all is out, or err is not NULL. */
void conn_write(struct conn *conn, h2o_iovec_t *bufs, size_t count, h2o_socket_cb done);
bool conn_say(struct conn *conn, slice bytes);    /* a few bytes, now; false: it is broken */
void conn_shut(struct conn *conn);             /* no more bytes will be sent */
void conns_read_on(struct http_loop *loop);    /* those with bytes that are decrypted already */
/* While a request is there and nothing is sent: lets the loop notice that the client leaves. */
void conn_watch(struct conn *conn);

/* tls.c */
SSL *tls_new_ssl(struct http_tls *tls);

/* accept.c */
void listener_open(struct listener *listener, int fd);
void listener_drain(struct listener *listener);    /* accepts what waits already, then closes */
void listener_close(struct listener *listener);
void listener_idle(struct listener *listener);    /* wakes it: it may find room now; any thread */
void bound_left(struct bound *bound);      /* a connection has ended; on any loop */

/* gate.c */
void gate_look(struct conn *conn);         /* new bytes of a head are in sock->input */
void gate_slow(struct conn *conn);         /* the head took too long */
/* Answers and closes. Only before the app has the request. */
void gate_refuse(struct conn *conn, enum err err, const char *why);
/* A body above what its head announced, or above what any request may bring. */
void gate_refuse_too_large(struct conn *conn, bool announced);
void gate_drain(struct conn *conn);        /* bytes after a refusal */

/* ---- a request ---- */

#define REQUEST_MAGIC 0x72657175u
struct http_request {
    unsigned magic;
    struct arena arena;                 /* it lives in here itself */
    struct conn *conn;
    bool handled;                       /* its body is complete, the app has it */
    bool close;                         /* it is the last of its connection */
    struct chunks chunks;
    uint64_t body_read, body_mark;      /* bytes from the socket; at the last look at progress */
    uint64_t body_max;                  /* the body may have so many bytes, as it was judged */
    enum err framing;                   /* of its chunks so far: ERR_MORE until they end */
    unsigned client;                    /* whose bodies count together; 0: of no client */
    struct http_body *body;             /* NULL: there is none, or an app has taken it */
    void *judged;
    uint64_t began_ns;
    /* the answer */
    int status;
    bool answered, sending;
    bool open;                          /* its length is not known yet */
    bool chunked, ended_open;           /* open: it goes out in chunks; its end has come */
    char chunk[24];                     /* the line before a chunk */
    slice reply;                        /* the head, until it leaves with the first bytes */
    uint64_t length, sent_bytes;        /* of the body on the wire; length is 0 for HEAD */
    const struct http_source *source;
    void *source_arg;
    void (*ended)(void *arg, const struct http_outcome *outcome);
    void *ended_arg;
    struct request_head head;           /* last: allocated for as many fields as came; slices
                                         * point into the arena */
};

struct http_request *request_new(struct conn *conn, const struct request_head *head);
void request_handle(struct http_request *request);    /* its body is complete */
/* Ends it: stop() if its source still waits, ended(), memory. Not to be touched after. */
void request_end(struct http_request **request, bool complete);

/* body.c */
#define BODY_READ_BYTES 65536    /* at most, in one read of a body into memory */
/* Makes request->body, which begins with `first` and has room for so many bytes. False: there is no
 * room, and the request has been refused. */
bool body_begin(struct conn *conn, slice first, size_t bytes) MUST_USE;
/* Gives a growing body room for so many bytes. False: as body_begin. */
bool body_make_room(struct conn *conn, size_t bytes) MUST_USE;
/* Where the next bytes of a body in memory go. *ret_room: how many there may be, also in a file. */
char *body_end(struct http_body *body, size_t *ret_room);
/* Counts the next bytes: they are there, or on their way to the file. Returns where they begin. */
size_t body_grow(struct http_body *body, size_t bytes);
struct http_body *body_ref(struct http_body *body) MUST_USE;
void body_unref(struct http_body **body);    /* the last one frees it; the owner releases instead */
/* On a spill thread: writes bytes that belong at `at` to the file, which it creates if needed. */
bool body_spill(struct http_body *body, const char *folder, size_t at, char *bytes,
                size_t len) MUST_USE;
void body_spilled(struct http_body *body);    /* on its loop: counts what body_spill allocated */

/* spill.c */
#define BODY_SEGMENT_BYTES (256 * KIB)
struct body_segment {                   /* bytes of a body, on their way into its file */
    struct mail mail;
    struct list link;
    struct http_loop *loop;
    struct conn *conn;                  /* NULL: its request has ended */
    atomic_bool abandoned;              /* so has its request, for the workers: not to be written */
    struct http_body *body;
    size_t at, len;                     /* where it belongs in the body */
    bool failed;
    char bytes[BODY_SEGMENT_BYTES];
};

struct workers *spill_new(void) MUST_USE;    /* NULL: no thread could be had */
/* NULL: there is none, and the connection waits in line until conn_written. */
struct body_segment *segment_take(struct conn *conn) MUST_USE;
/* Writes its first bytes as the body's next. If there are any, conn->segment is set until
 * conn_written. */
void segment_write(struct conn *conn, struct body_segment *segment, size_t bytes);
void segment_give(struct body_segment *segment);     /* back, unused or written */
void segment_leave(struct conn *conn);      /* the request ends: it needs no segment any more */
void segments_free(struct http_loop *loop);

/* reply.c */
struct text response_head(struct http_loop *loop, struct arena *keep, int status, bool close,
                          uint64_t length);    /* HTTP_OPEN: without; a blank line ends it */
void reply_fields(struct text *head, const struct http_field *fields, size_t count);

#endif
