/* inside.h - what the files of this room share. SPDX-License-Identifier: Apache-2.0
 *
 *     accept.c --> conn.c (socket, phase) --> gate.c (one head) --> conn.c (its body) --> request.c
 *                     ^                                                                    |
 *                     +---------------------- next head <----- reply.c <-------------------+
 *
 * libh2o 2.2.5 is the event loop, the sockets and their buffers, and no more: its HTTP parses heads
 * and chunks leniently, has one timer for everything and no slow-reader timeout, and closes a TLS
 * connection in its own time. Its sockets are do-not-read ones: it tells of bytes and never fetches
 * any, so every read is ours, and bounded. What has been read lies in sock->input: a head, its
 * body, and perhaps bytes of the next request, which nobody looks at before this one is answered.
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
/* Takes the framing off bytes that come behind what there is of a chunked body; how many are left:
 * its own and, behind its end, others. */
size_t conn_unchunk(struct conn *conn, char *bytes, size_t len);
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

/* What a body holds of the limits that all share, and one client may not have all of. */
struct body_claim {
    unsigned client;                    /* as the judge said; 0: nobody's */
    bool beyond_share;                  /* others could have what was not given */
    unsigned files;
    size_t memory_bytes, file_bytes;
    size_t allocated_bytes;             /* of the file, on the disk so far */
    size_t mapped_bytes;                /* what the buffer has of the address space: it may grow */
    size_t front_bytes;                 /* of those, in memory: what came before there was a file */
};

#define BODY_MAGIC 0x626f6479u
struct http_body {
    unsigned magic;
    h2o_buffer_t *buffer;
    slice bytes;
    struct body_claim claim;
};

#define REQUEST_MAGIC 0x72657175u
struct http_request {
    unsigned magic;
    struct arena arena;                 /* it lives in here itself */
    struct conn *conn;
    bool handled;                       /* its body is complete, the app has it */
    bool close;                         /* the last of its connection */
    struct chunks chunks;
    uint64_t body_read, body_mark;      /* from the socket; when its progress was last looked at */
    size_t body_bytes;                  /* in sock->input so far, the chunks' framing taken off */
    uint64_t body_max;                  /* what it may come to: all that it was judged by */
    enum err framing;                   /* of its chunks so far: ERR_MORE until they end */
    struct body_claim claim;            /* of its body, until that is complete */
    struct http_body *body;
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
void request_handle(struct http_request *request);    /* its body is complete, in sock->input */
/* Over: stop() if its source still waits, ended(), memory. Not to be touched after. */
void request_end(struct http_request **request, bool complete);

/* body.c */
#define BODY_READ_BYTES 65536    /* of a body at a time */
/* The input holds so many bytes, head and all; or it has been refused: false. */
bool body_make_room(struct conn *conn, size_t bytes) MUST_USE;
/* Complete: its buffer is the body's now, sock->input begins with what came behind it. */
bool body_take(struct http_request *request) MUST_USE;    /* false: it has been refused */
bool body_claimed(const struct http_request *request);    /* sock->input is a buffer of ours */
bool body_in_file(const struct conn *conn);
/* It ends before it is complete: its room is given back, and sock->input is empty. */
void body_drop(struct http_request *request);
size_t body_room(const struct conn *conn);    /* how much more its buffer takes */
/* The first bytes of the piece go behind what there is, which is to lie in a file: conn->piece is
 * set until body_written and conn_written. Or the request has been refused: false. */
bool body_write(struct conn *conn, struct piece *piece, size_t bytes) MUST_USE;
bool body_written(struct conn *conn, struct piece *piece) MUST_USE;    /* false: it could not be */
void body_claim_end(struct body_claim *claim);                /* accepts an empty one */

/* spill.c */
#define PIECE_BYTES (256 * KIB)
struct piece {                          /* of a body, on its way into its file */
    struct mail mail;
    struct list link;
    struct http_loop *loop;
    struct mailbox *box;                /* the loop's, which may have gone */
    struct conn *conn;                  /* NULL: its request has ended */
    int fd;                             /* its own, of the file; -1: there is none yet, */
    int made;                           /* and this is it, to be taken; -1: none */
    slice data;                         /* in bytes */
    size_t at, whole, allocated;        /* in the file: where it goes; its end; what has blocks */
    bool failed;
    char bytes[PIECE_BYTES];
};

struct workers *spill_new(void) MUST_USE;    /* NULL: no thread could be had */
struct piece *piece_take(struct conn *conn) MUST_USE;    /* NULL: it waits in line: conn_written */
void piece_write(struct piece *piece);    /* to be taken back by body_written */
void piece_give(struct piece *piece);     /* it is not needed any more */
void piece_leave(struct conn *conn);      /* it waits for none any more */
void pieces_free(struct http_loop *loop);

/* reply.c */
struct text reply_head(struct http_loop *loop, struct arena *keep, int status, bool close,
                       uint64_t length);    /* HTTP_OPEN: without; a blank line ends it */
void reply_fields(struct text *head, const struct http_field *fields, size_t count);

#endif
