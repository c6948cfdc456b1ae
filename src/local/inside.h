/* inside.h - declarations that only the files of this room share.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   client ──message──> session.c ──> request.c ──> fill.c ──> placing.c ──> share.c ──> queue.c
 *                                                                                  any worker │
 *   client <──reply──── session.c <── fill.c: end <── mail ── share.c <── run.c: gets, bytes ─┘
 *
 * A session, its buffers and its fills belong to one worker, its keeper. Shares of a fill run on
 * any worker. They write results and bytes, which nobody reads before the share's mail has come. */
#ifndef LOCAL_INSIDE_H
#define LOCAL_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/list.h"
#include "local/carriers.h"
#include "local/device.h"
#include "local/local.h"
#include "local/memory.h"
#include "local/message.h"

#define IDS_TEXT (2 * ID_BYTES)
#define NO_BUFFER "this session has no such buffer: register one, and use the id in that reply"
#define SHARE_ITEMS 64u               /* at most in one share */

struct worker {
    struct local *local;
    unsigned number;
    pthread_t thread;
    bool started;
    atomic_bool ending;
    int epoll;
    struct mailbox *box;
    struct cache_loop *cache;
    struct ticket *look;              /* wakes it: a share waits, a fill was cancelled, the end */
    struct list sessions;
    struct list starved;              /* shares that found no slab */
    struct list runs;                 /* items in progress here that wait for bytes */
    struct list ready;                /* items in progress that gave others a turn */
    unsigned run_count;
    struct arena scratch;             /* for one item's judgement */
    uint64_t accept_ms;               /* 0, or when to accept connections again */
    char *inbox;                      /* room for one message: MESSAGE_BYTES_MAX and one byte */
};

struct local {
    struct local_options options;
    int listen_fd;
    int holes_fd;                     /* -1: holes are not watched for (holes.h) */
    uint64_t socket_device, socket_inode;    /* of the socket that we made at the path */
    atomic_bool draining, access_log;
    atomic_bool ending;               /* workers end their sessions */
    atomic_uint sessions;
    atomic_size_t fills;              /* in progress */
    atomic_size_t list_bytes;         /* memory that their lists hold */
    struct users *users;
    struct devices *devices;
    pthread_mutex_t lock;             /* of the queue */
    struct list waiting;              /* sessions with shares in the queue; the first is next */
    atomic_uint shares_waiting;
    unsigned worker_count;
    atomic_uint next_worker;
    struct worker *workers;
};

/* ---- worker.c ---- */
void worker_init(struct local *local, unsigned number);
bool worker_start(struct worker *worker) MUST_USE;  /* false: no thread could be had */
void worker_stop(struct worker *worker);            /* when no session is left */

/* ---- session.c: a connection, its buffers and its fills ---- */

struct session {
    struct list link;                 /* worker->sessions */
    struct worker *worker;
    int fd;                           /* -1: the client has gone */
    bool wants_out;                   /* epoll watches for room to send */
    bool dead;                        /* the client has gone or was cut: nothing new begins */
    struct ucred peer;                /* the process that connected; its pid is for the log */
    struct user *user;                /* its quotas; the session is counted there */
    bool identified;                  /* hello was accepted */
    uint64_t hello_ms;                /* the time by which a hello must have come */
    struct arena keep;                /* holds what `reader` points at */
    struct reader reader;
    uint8_t id[ID_BYTES];
    struct list buffers, fills;
    unsigned buffer_count, fill_count;
    unsigned taking;                  /* buffers whose memory is being taken (memory.h) */
    struct list out;                  /* replies that are not sent yet */
    size_t out_bytes;
    struct carriers carriers;         /* of the long replies that were sent last */
    /* under local->lock */
    struct list turn;                 /* local->waiting */
    struct list shares;
    atomic_uint running;              /* items in progress, on all workers */
    struct slabs_held slabs;
};

void session_begin(struct worker *worker, int fd);    /* takes fd */
void session_ready(struct session *session, uint32_t events);    /* may free the session */
/* Ends the connection. The session is freed when its last fill has ended. */
void session_end(struct session *session);
void session_settle(struct session *session);    /* frees a dead session without a fill or buffer */
/* The next time when a hello is overdue, a fill is too late or a carrier expires. */
uint64_t session_next_deadline(const struct worker *worker);    /* UINT64_MAX: none */
void session_deadlines(struct worker *worker, uint64_t now_ms);
/* Sends a reply or event; `text` is copied. A client that receives none of them is cut. */
void session_send(struct session *session, slice text);
/* Sends the reply to a message (NULL: to none), with its "id". It is "ok" unless it says otherwise.
 */
void session_answer(struct session *session, const struct message *to, struct json_t *take_reply);
struct json_t *id_json(const uint8_t id[ID_BYTES]) MUST_USE;    /* as text, 32 hex digits */
void session_refuse(struct session *session, const struct message *to, const struct trouble *why);
/* Counts a refusal, and logs it. Session NULL: of the process at the other end of fd, which has no
 * session yet. */
void session_note_refusal(const struct local *local, const struct session *session, int fd,
                          const struct trouble *why);

/* ---- request.c: the operations ---- */
/* `fds` came with the message; an operation that keeps one sets it to -1. */
void request_do(struct session *session, const struct message *message, struct arena *take_keep,
                int *fds, size_t fd_count);

/* ---- buffer.c: registered memory ---- */

struct buffer {
    struct list link;                 /* session->buffers */
    struct session *session;
    uint8_t id[ID_BYTES];
    const struct memory_kind *kind;
    char *base;                       /* path direct: the memory; else NULL */
    struct device *device;            /* path ring; else NULL */
    struct gpu_buffer *gpu;
    uint64_t bytes;
    unsigned fills;                   /* in progress */
    struct list busy;                 /* those fills, linked by their `busy` */
    bool leaving;                     /* to be released; no fill of it begins */
    bool released;                    /* its kind was told to release it */
    struct message message;           /* register, later unregister: its op and "id" stay good */
    bool unregistered;                /* `message` is to be answered when it has been released */
};
/* Answers the message, now or when the kind has taken the memory; takes the descriptors that it
 * needs. */
void buffer_register(struct session *session, const struct message *message, int *fds,
                     size_t fd_count);
struct buffer *buffer_find(struct session *session, const uint8_t id[ID_BYTES]);    /* or NULL */
/* Lets it go at once, or when its last fill has ended. */
void buffer_release(struct buffer *buffer);
void buffer_unregister(struct buffer *buffer, const struct message *message);    /* and answers */
void buffer_settle(struct buffer *buffer);          /* after a fill of it has ended */

/* ---- fill.c: a list of items on their way into a buffer ---- */

struct result {
    enum err err;
    int status;                       /* HTTP status of err; 0: err alone says it */
    uint64_t bytes;
    bool hit;
};

struct fill {
    struct list link;                 /* session->fills */
    struct list busy;                 /* buffer->busy */
    struct session *session;
    struct buffer *buffer;            /* NULL: a prefetch */
    struct arena keep;                /* holds the message, and everything of the fill */
    const struct message *message;
    struct reader reader;
    struct result *results;
    struct place_of *places;          /* of its items in the buffer, in order */
    uint8_t id[ID_BYTES];
    atomic_bool canceled;             /* no item of it goes on */
    enum err why;                     /* it was cancelled: ERR_TIMEOUT, ERR_CANCELED */
    atomic_bool failed;               /* on_error is "fail" and an item did: no more are begun */
    atomic_uint refused;              /* items that its reader may not have */
    size_t shares_left;
    size_t held_bytes;                /* its part of local->list_bytes */
    uint64_t began_ns, until_ms;
};
/* Some items of a fill, in a row. */
struct share {
    struct list link;                 /* session->shares */
    struct mail mail;                 /* to the keeper, when all its items have ended */
    struct fill *fill;
    size_t first, count, left;        /* left: items that have not ended */
    /* Path ring: all items fit into one slab; or the share is one large item, in pieces. */
    bool large;
    bool waited;                      /* for a slab */
    bool passed_over;                 /* by queue_take; under local->lock */
    uint32_t *offsets;                /* of items in the slab */
    struct slab *slab;
    struct device_task task;          /* the copies out of it */
};
/* Begins the fill, or sends its refusal; the keep is taken either way. */
void fill_begin(struct session *session, const struct message *message, struct arena *take_keep);
void fill_settle(struct fill *fill);   /* a share has ended; may free the fill and its session */
void fill_cancel(struct fill *fill, enum err why);

/* ---- placing.c, share.c ---- */
/* Finds the place of each item: inside the buffer, and on no other item of this fill or another. */
bool fill_place(struct fill *fill, struct trouble *ret_why) MUST_USE;
void fill_cut(struct fill *fill);       /* into shares, which then wait for a worker */
/* All items of the share have been read; from here on it belongs to the keeper. */
void share_settle(struct share *share);
/* Takes the slab that the share needs. True also where it needs none; false: don't begin it yet. */
bool share_take_slab(struct share *share) MUST_USE;

/* ---- queue.c: which share runs next ---- */
void queue_put(struct local *local, struct session *session, struct share *share);
/* NULL: no share may begin. A worker that is full gets only shares of sessions that have no item in
 * progress. */
struct share *queue_take(struct local *local, bool full);
/* Wakes `count` workers other than `but` (NULL: any), or all there are. */
void queue_call(struct local *local, const struct worker *but, unsigned count);

/* ---- run.c: reads the items of a share ---- */
bool run_turn(struct worker *worker);               /* true: there is more to do at once */
bool run_is_full(const struct worker *worker);      /* it has as many items in progress as it may */
/* Ends items of cancelled fills, begins shares that found no slab before. */
void run_look(struct worker *worker);

/* ---- large.c: an item larger than a slab ---- */
struct large;
/* changed() is called when large_move may go on, or a copy has ended. */
struct large *large_new(struct share *share, const struct item *item, struct mailbox *box,
                        void (*changed)(void *arg), void *arg) MUST_USE;
/* Moves the `want` bytes of the get to the GPU. ERR_WAIT: more is to come; any other: the end, and
 * no copy is in flight. */
enum err large_move(struct large *large, struct get *get, uint64_t want) MUST_USE;
/* A copy is in flight: neither the item nor its get may end. NULL: none is. */
bool large_copies(const struct large *large);
void large_free(struct large **large);

/* ---- users.c: which users may connect, and what each of them holds ---- */
struct user {
    struct list link;
    uint32_t uid;
    unsigned sessions;
    uint64_t bytes;                   /* registered */
    atomic_size_t list_bytes;         /* its part of local->list_bytes */
};
/* ERR_BAD_ARGUMENT: the list names a user that does not exist; *ret_why. */
enum err users_new(slice list, struct arena *keep, struct users **ret, slice *ret_why) MUST_USE;
void users_free(struct users **users);
bool users_allow(const struct users *users, uint32_t uid);
/* Counts one more session of that user; NULL: the user has as many as allowed. Any thread, as the
 * rest. */
struct user *users_enter(struct users *users, uint32_t uid, unsigned sessions_max);
void users_leave(struct users *users, struct user **user);
bool users_take_bytes(struct users *users, struct user *user, uint64_t bytes, uint64_t bytes_max);
void users_give_bytes(struct users *users, struct user *user, uint64_t bytes);

#endif
