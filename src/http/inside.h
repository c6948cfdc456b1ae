/* inside.h - what the files of this room share. SPDX-License-Identifier: Apache-2.0
 *
 *     accept.c --> conn.c (socket, phase) --> gate.c (one head) --> conn.c (its body) --> request.c
 *                     ^                                                                    |
 *                     +---------------------- next head <----- reply.c <-------------------+
 *
 * libh2o 2.2.5 is the event loop, the sockets and their buffers, and no more: its HTTP parses heads
 * and chunks leniently, has one timer for everything and no slow-reader timeout, and closes a TLS
 * connection in its own time. Its sockets are do-not-read ones: it tells of bytes and never fetches
 * any, so every read is ours, and bounded. A head is read into sock->input, its body into memory of
 * ours (body.c) or into a piece on its way to a file (spill.c). Bytes of the next request that came
 * along wait in sock->input; nobody looks at them before this one is answered.
 * Threads: a connection, its request and its timers belong to one loop (H4); atomics are marked. */
#ifndef HTTP_INSIDE_H
#define HTTP_INSIDE_H

#define H2O_USE_EPOLL 1    /* the flavour of the library we link: libh2o-evloop */
#include <h2o/socket.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/workers.h"
#include "http/chunks.h"
#include "http/http.h"
#include "http/session.h"

/* ---- timers: rows of one length each, in order of age; a heap for any length ---- */

enum row { ROW_HEAD, ROW_BODY, ROW_IDLE, ROW_SEND, ROW_LINGER, ROW_COUNT };

struct timed {
    struct list link;
    uint64_t due_ms;
};

struct timers {
    struct list rows[ROW_COUNT];
    unsigned row_ms[ROW_COUNT];
    struct http_timer **heap;
    size_t heap_count, heap_cap;
};

void timers_init(struct timers *timers, const unsigned row_ms[ROW_COUNT]);
void timers_free(struct timers *timers);
void timed_start(struct timers *timers, enum row row, struct timed *timed);    /* again: from now */
void timed_stop(struct timed *timed);
int timers_wait_ms(const struct timers *timers);    /* until the next is due; bounded */
bool timers_run(struct timers *timers);             /* did any run? */
void conn_timed_out(struct timed *timed, enum row row);    /* conn.c: what the rows call */

/* ---- an address, on all loops ---- */

struct bound {
    struct http *http;
    struct http_app app;
    unsigned connections_max;
    atomic_size_t *open;                /* connections under that cap: the house's or its own */
    atomic_size_t own_open;
};

struct listener {                       /* one address on one loop */
    struct bound *bound;
    struct http_loop *loop;
    h2o_socket_t *sock;
    atomic_bool paused;                 /* at the cap: whoever makes room wakes it */
    struct mail resume;
    atomic_bool shedding;               /* its mail is on its way: the cap is reached elsewhere */
    struct mail shed;
    struct http_timer *retry;           /* out of descriptors: tries again */
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
    struct list conns;                  /* of struct conn, all of this loop */
    struct list unread;                 /* those with bytes that no poll tells of: conn->unread */
    struct list line;                   /* those that wait for a piece: conn->line */
    struct list pieces;                 /* of struct piece, kept for the next */
    unsigned pieces_out, pieces_kept;
    struct listener *listeners;         /* one an app */
    struct http_head scratch;           /* of the head being scanned */
    int64_t date_s;
    char date[32];                      /* as answers have it, of that second */
    struct mail drain, end;
    void *local;
};

struct http {
    struct http_options options;
    struct bound *bounds;               /* one an app */
    struct http_loop *loops;
    struct workers *spill;              /* freed after the loops, which are told of pieces */
    int *listen_fds;                    /* [app * loops + loop] until the loops take them */
    atomic_size_t open, open_all, requests, large_heads;
    atomic_bool draining;
};

/* loop.c */
void loop_init(struct http_loop *loop, struct http *http, unsigned number);
bool loop_start(struct http_loop *loop) MUST_USE;
void loop_join(struct http_loop *loop);    /* after its end was posted */
void loop_free(struct http_loop *loop);    /* all are joined: they look at each other's listeners */

/* ---- a connection ---- */

enum phase {
    PHASE_HANDSHAKE,  /* TLS is being agreed on */
    PHASE_HEAD,       /* a head is awaited or being read */
    PHASE_BODY,       /* judged; its body is being read */
    PHASE_REQUEST,    /* the app has it, or its answer is on its way */
    PHASE_LINGER      /* the last answer is out, what the client still sends is thrown away */
};

#define HEAD_SMALL_BYTES 8192           /* a socket's first buffer: every connection may have it */
#define HEAD_LARGE_BYTES (128 * KIB)    /* a larger head: its buffer, its copy, what is made of it */
#define CONN_MAGIC 0x636f6e6eu
struct conn {
    unsigned magic;
    h2o_socket_t *sock;                 /* NULL once closed */
    struct http_loop *loop;
    struct listener *listener;
    struct session *session;            /* NULL: without TLS */
    struct list link, unread, line;
    struct piece *piece;                /* of its body, on its way to the disk: nothing is read */
    struct timed timed;                 /* the one thing that is waited for */
    enum phase phase;
    unsigned holds;                     /* freed at 0; the open socket is one */
    size_t scanned_bytes;               /* of the head being read */
    bool large_head;                    /* it counts as one, until it has been answered */
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
/* Room for bytes of heads above HEAD_SMALL_BYTES; or it has been refused: false. */
bool conn_grow_head(struct conn *conn) MUST_USE;
/* Ends it; the request under way ends incomplete. With reset the peer sees no clean end. */
void conn_close(struct conn *conn, bool reset);
void conn_next_head(struct conn *conn);    /* an answer is complete */
void conn_end(struct conn *conn);          /* likewise, and it was the last */
void conn_take_body(struct conn *conn);    /* the head in sock->input has been judged */
void conn_read_start(struct conn *conn);   /* again: what comes is told of */
void conn_written(struct conn *conn, bool ok);    /* its piece is, or it may have one */
/* Takes the framing off the next bytes of a chunked body: how many are its own. Behind them lie
 * *ret_rest that came behind its end. */
size_t conn_unchunk(struct conn *conn, char *bytes, size_t len, size_t *ret_rest);
/* Runs of bytes in one write: head, chunk's line, runs of it, its end. */
#define CONN_WRITE_MAX (HTTP_RUNS_MAX + 3)
/* One at a time. done(sock, err) comes in a later turn: all is out, or err is not NULL. */
void conn_write(struct conn *conn, h2o_iovec_t *bufs, size_t count, h2o_socket_cb done);
bool conn_say(struct conn *conn, slice bytes);    /* few, at once; false: it is over */
void conn_shut(struct conn *conn);    /* nothing more will be said */
void conns_read_on(struct http_loop *loop);    /* what has been decrypted already */
/* Notices that the client leaves while nothing is sent; nothing is done if no request is there. */
void conn_watch(struct conn *conn);

/* tls.c */
SSL *tls_new_ssl(struct http_tls *tls);

/* accept.c */
void listener_open(struct listener *listener, int fd);
void listener_drain(struct listener *listener);    /* lets in who already waits, then closes */
void listener_close(struct listener *listener);
void listener_idle(struct listener *listener);    /* one of its connections could make room */
void bound_left(struct bound *bound);      /* a connection has ended: any loop */

/* gate.c */
void gate_look(struct conn *conn);         /* new bytes of a head are in sock->input */
void gate_slow(struct conn *conn);         /* the head took too long */
/* Answers and closes; until the request has been handled. */
void gate_refuse(struct conn *conn, enum err err, const char *why);
void gate_drain(struct conn *conn);        /* bytes after a refusal */

/* ---- a request ---- */

#define REQUEST_MAGIC 0x72657175u
struct http_request {
    unsigned magic;
    struct arena arena;                 /* it lives in here itself */
    struct conn *conn;
    bool handled;                       /* its body is complete, the app has it */
    bool close;                         /* the last of its connection */
    struct chunks chunks;
    uint64_t body_read, body_mark;      /* from the socket; when its progress was last looked at */
    uint64_t body_max;                  /* what it may come to: all that it was judged by */
    enum err framing;                   /* of its chunks so far: ERR_MORE until they end */
    unsigned client;                    /* whose bodies count together; 0: nobody's */
    struct http_body *body;             /* NULL: it has none, or an app has taken it */
    void *judged;
    uint64_t began_ns;
    /* the answer */
    int status;
    bool answered, sending;
    bool open;                          /* the length is known to nobody yet ... */
    bool chunked, ended_open;           /* ... in chunks, or until the end; and that has come */
    char chunk[24];                     /* the line before one */
    slice reply;                        /* its head, until that leaves with the first piece */
    uint64_t length, sent_bytes;        /* of the body on the wire: length is 0 for HEAD */
    const struct http_source *source;
    void *source_arg;
    void (*ended)(void *arg, const struct http_outcome *outcome);
    void *ended_arg;
    struct http_head head;              /* last: no more of its fields than there are; slices
                                         * point into the arena */
};

struct http_request *request_new(struct conn *conn, const struct http_head *head);
void request_handle(struct http_request *request);    /* its body is complete */
/* Over: stop() if its source still waits, ended(), memory. Not to be touched after. */
void request_end(struct http_request **request, bool complete);

/* body.c */
#define BODY_READ_BYTES 65536    /* of a body at a time, into memory */
/* request->body begins with `first` and has room for so many bytes. False: there is none, and the
 * request has been refused. */
bool body_begin(struct conn *conn, slice first, size_t bytes) MUST_USE;
bool body_make_room(struct conn *conn, size_t bytes) MUST_USE;    /* likewise, of one that grows */
char *body_end(struct http_body *body, size_t *ret_room);    /* in memory: for the next bytes */
/* The next bytes are there, or on their way to the file: where in the body they begin. */
size_t body_grow(struct http_body *body, size_t bytes);
struct http_body *body_ref(struct http_body *body) MUST_USE;
void body_unref(struct http_body **body);    /* frees it with the last; not for whoever owns it */
/* On a spill thread: writes bytes that belong at `at` to the file, and makes that if it must. */
bool body_spill(struct http_body *body, const char *folder, size_t at, char *bytes,
                size_t len) MUST_USE;
void body_spilled(struct http_body *body);    /* on its loop: the disk has given what it was to */

/* spill.c */
#define PIECE_BYTES (256 * KIB)
struct piece {                          /* of a body, on its way into its file */
    struct mail mail;
    struct list link;
    struct http_loop *loop;
    struct mailbox *box;                /* the loop's, which may have gone */
    struct conn *conn;                  /* NULL: its request has ended */
    struct http_body *body;
    size_t at, len;                     /* in the body */
    bool failed;
    char bytes[PIECE_BYTES];
};

struct workers *spill_new(void) MUST_USE;    /* NULL: no thread could be had */
struct piece *piece_take(struct conn *conn) MUST_USE;    /* NULL: it waits in line: conn_written */
/* Its first bytes are the body's next: conn->piece is set until conn_written, if there are any. */
void piece_write(struct conn *conn, struct piece *piece, size_t bytes);
void piece_give(struct piece *piece);     /* it is not needed any more */
void piece_leave(struct conn *conn);      /* it waits for none any more */
void pieces_free(struct http_loop *loop);

/* reply.c */
struct text reply_head(struct http_loop *loop, struct arena *keep, int status, bool close,
                       uint64_t length);    /* HTTP_OPEN: without; a blank line ends it */
void reply_fields(struct text *head, const struct http_field *fields, size_t count);

#endif
