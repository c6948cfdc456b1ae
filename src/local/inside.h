/* inside.h - declarations that only the files of this folder share.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   client ──message──> session.c ──> request.c ──> fill.c ──> placing.c ──> share.c ──> queue.c
 *                                                                                  any worker │
 *   client <──reply──── session.c <── fill.c: end <── mail ── share.c <── run.c: gets, bytes ─┘
 *
 * A session is a connection of a client. A fill is a list of items that the client wants in a
 * buffer, which is memory of the client. A session, its buffers and its fills belong to one worker
 * thread, the *keeper* of the session. Any worker may run a share, which is a part of a fill. That
 * worker writes the bytes and the results of the share's items. The keeper reads the results only
 * after the share's mail (a message in the keeper's mailbox) has arrived. GPU memory is filled
 * through slabs: pinned memory of the host, from which the GPU copies (device.h). */
#ifndef LOCAL_INSIDE_H
#define LOCAL_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/copy.h"
#include "base/list.h"
#include "local/carriers.h"
#include "local/device.h"
#include "local/local.h"
#include "local/memory.h"
#include "local/message.h"

#define IDS_TEXT (2 * ID_BYTES)
#define NO_BUFFER \
    "this session has no buffer with that id: register one, and use the id in the reply"
#define SHARE_ITEMS 64u               /* the most items of one share */

struct worker {
    struct local *local;
    unsigned number;
    pthread_t thread;
    bool started;
    atomic_bool ending;
    int epoll;
    struct mailbox *box;
    struct cache_loop *cache;
    /* Wakes the worker: a share waits, a slab is free, a fill was cancelled, or the worker ends. */
    struct ticket *look;
    struct list sessions;
    struct list starved;              /* shares that need a slab and got none */
    struct list runs;                 /* items in progress here that wait for bytes */
    struct list ready;                /* items in progress that let other items go first */
    unsigned run_count;
    struct arena scratch;             /* for the checks of one item */
    uint64_t accept_ms;               /* when to accept connections again; 0: accepting now */
    char *inbox;                      /* buffer for one message: MESSAGE_BYTES_MAX + 1 bytes */
};

struct local {
    struct local_options options;
    int listen_fd;
    int holes_fd;                     /* -1: no watch for holes (holes.h) */
    uint64_t socket_device, socket_inode;    /* of the socket that this process made */
    atomic_bool draining, access_log;
    atomic_bool ending;               /* workers end their sessions */
    atomic_uint sessions;
    atomic_size_t fills;              /* fills in progress */
    atomic_size_t list_bytes;         /* memory that the lists of fills hold */
    struct users *users;
    struct devices *devices;
    pthread_mutex_t lock;             /* guards the queue */
    struct list waiting;              /* sessions with shares in the queue; the first is next */
    atomic_uint shares_waiting;
    unsigned worker_count;
    atomic_uint next_worker;
    struct worker *workers;
};

/* ---- worker.c ---- */
void worker_init(struct local *local, unsigned number);
bool worker_start(struct worker *worker) MUST_USE;  /* false: no thread could be started */
void worker_stop(struct worker *worker);            /* only when no session is left */

/* ---- session.c: a connection, its buffers and its fills ---- */

/* The process at the other end of a session, and its identity. The keeper writes it when the client
 * connects, and at its hello. */
struct session_client {
    struct ucred peer;                /* the process that connected; its pid is for the log */
    struct user *user;                /* the peer's user, which counts this session */
    bool identified;                  /* hello was accepted */
    uint64_t hello_ms;                /* hello must come before this time */
    struct arena keep;                /* holds the memory that `reader` points at */
    struct reader reader;
};

/* The replies of a session on their way to the client. The keeper writes it when it sends a
 * reply. */
struct outbox {
    struct list replies;              /* that are not sent yet */
    size_t bytes;                     /* of these replies */
    bool wants_room;                  /* epoll reports when the socket has room */
    struct carriers carriers;         /* memfds of the last long replies */
};

struct session {
    struct list link;                 /* entry of worker->sessions */
    struct worker *worker;
    int fd;                           /* -1: the client has gone */
    bool dead;                        /* the client has gone or was cut off: nothing new begins */
    struct session_client client;
    uint8_t id[ID_BYTES];
    struct list buffers, fills;
    unsigned buffer_count, fill_count;
    unsigned taking;                  /* buffers whose `take` has not ended (memory.h) */
    struct outbox outbox;
    /* `turn` and `shares` are under local->lock */
    struct list turn;                 /* entry of local->waiting */
    struct list shares;
    atomic_uint running;              /* items in progress, on all workers */
    struct slabs_held slabs;
};

void session_begin(struct worker *worker, int fd);    /* owns fd from now on */
/* Handles events of epoll; may free the session. */
void session_ready(struct session *session, uint32_t events);
/* Ends the connection. The session is freed when its last fill and last buffer are gone. */
void session_end(struct session *session);
/* Frees the session if it is dead, and no fill or buffer of it is left. */
void session_settle(struct session *session);
/* The next time at which session_deadlines has work: a hello is overdue, a fill is too late, or a
 * carrier expires. */
uint64_t session_next_deadline(const struct worker *worker);    /* UINT64_MAX: no such time */
void session_deadlines(struct worker *worker, uint64_t now_ms);
/* Sends a reply or event; `text` is copied. A client that does not receive its replies is cut
 * off. */
void session_send(struct session *session, slice text);
/* Sends the reply to a message, with the "id" of that message; `to` is NULL if the reply belongs to
 * no message. The member "ok" is true, unless `take_reply` already has one. */
void session_answer(struct session *session, const struct message *to, struct json_t *take_reply);
struct json_t *id_json(const uint8_t id[ID_BYTES]) MUST_USE;    /* text of 32 hex digits */
void session_refuse(struct session *session, const struct message *to, const struct trouble *why);
/* Counts a refusal and logs it. If `session` is NULL, the refusal concerns the process at the other
 * end of fd, which has no session yet. */
void session_note_refusal(const struct local *local, const struct session *session, int fd,
                          const struct trouble *why);

/* ---- request.c: the operations ---- */
/* `fds` came with the message. An operation that keeps a descriptor sets its entry to -1. */
void request_do(struct session *session, const struct message *message, struct arena *take_keep,
                int *fds, size_t fd_count);

/* ---- buffer.c: registered memory ---- */

struct buffer {
    struct list link;                 /* entry of session->buffers */
    struct session *session;
    uint8_t id[ID_BYTES];
    const struct memory_kind *kind;
    char *base;                       /* path direct (memory.h): the mapped memory; else NULL */
    struct device *device;            /* path ring: the GPU; else NULL */
    struct gpu_buffer *gpu;
    uint64_t bytes;
    unsigned fills;                   /* number of fills in progress */
    struct list busy;                 /* those fills, linked by fill->busy */
    bool leaving;                     /* it waits for its release; no new fill of it begins */
    bool released;                    /* its kind's release was called */
    struct message message;           /* register, later unregister; only op and "id" are valid */
    bool unregistered;                /* the reply to `message` is due after the release */
};
/* Replies to the message, at once or when the kind has taken the memory. Takes the descriptors that
 * the kind needs. */
void buffer_register(struct session *session, const struct message *message, int *fds,
                     size_t fd_count);
struct buffer *buffer_find(struct session *session, const uint8_t id[ID_BYTES]);    /* or NULL */
/* Releases the buffer, at once or when its last fill has ended. */
void buffer_release(struct buffer *buffer);
/* Releases the buffer, then replies to the message. */
void buffer_unregister(struct buffer *buffer, const struct message *message);
void buffer_settle(struct buffer *buffer);          /* call when a fill of it has ended */

/* ---- fill.c: a list of items on their way into a buffer ---- */

struct result {
    enum err err;
    int status;                       /* HTTP status of err; 0: the usual status of err */
    uint64_t bytes;
    bool hit;
};

struct fill {
    struct list link;                 /* entry of session->fills */
    struct list busy;                 /* entry of buffer->busy */
    struct session *session;
    struct buffer *buffer;            /* NULL: this is a prefetch */
    struct arena keep;                /* holds the message, and all memory of the fill */
    const struct message *message;
    struct reader reader;
    struct result *results;
    struct place_of *places;          /* places of its items in the buffer, sorted */
    enum copy_use use;                /* of the bytes in its buffer (share.c) */
    uint8_t id[ID_BYTES];
    atomic_bool canceled;             /* its items must end */
    enum err why;                     /* why it was cancelled: ERR_TIMEOUT, ERR_CANCELED */
    atomic_bool failed;               /* with "on_error" "fail": an item failed, no other begins */
    atomic_uint refused;              /* number of items that its reader may not read */
    size_t shares_left;
    size_t held_bytes;                /* its bytes in local->list_bytes */
    uint64_t began_ns, until_ms;
};
/* Some consecutive items of a fill. */
struct share {
    struct list link;                 /* entry of session->shares */
    struct mail mail;                 /* goes to the keeper when all items have ended */
    struct fill *fill;
    size_t first, count, left;        /* left: items that have not ended */
    /* Path ring: either all items fit into one slab, or the share is one large item, copied in
     * pieces. */
    bool large;
    bool waited;                      /* it had to wait for a slab */
    bool passed_over;                 /* queue_take passed it over; under local->lock */
    uint32_t *offsets;                /* places of the items in the slab */
    struct slab *slab;
    struct device_task task;          /* the copies out of the slab */
};
/* Begins the fill, or sends its refusal. It owns `take_keep` in either case. */
void fill_begin(struct session *session, const struct message *message, struct arena *take_keep);
void fill_settle(struct fill *fill);   /* a share has ended; may free the fill and its session */
void fill_cancel(struct fill *fill, enum err why);

/* ---- placing.c, share.c ---- */
/* Finds the place of each item. Returns false if an item has no place, or if its place does not lie
 * inside the buffer, or overlaps another item of this fill or an item of another fill. */
bool fill_place(struct fill *fill, struct trouble *ret_why) MUST_USE;
void fill_cut(struct fill *fill);       /* makes shares, which then wait for a worker */
/* Called when all items of the share have been read. From this call on, the share belongs to the
 * keeper. */
void share_settle(struct share *share);
/* Takes a slab if the share needs one. Returns false if the share must not begin yet, because it
 * got no slab. */
bool share_take_slab(struct share *share) MUST_USE;

/* ---- queue.c: which share runs next ---- */
void queue_put(struct local *local, struct session *session, struct share *share);
/* Returns NULL if no share may begin. A worker that is `full` gets only shares of cancelled fills,
 * and of sessions that have no item in progress. */
struct share *queue_take(struct local *local, bool full);
/* Wakes `count` workers, or all if there are fewer. It does not wake `but`, which may be NULL. */
void queue_call(struct local *local, const struct worker *but, unsigned count);

/* ---- run.c: reads the items of a share ---- */
bool run_turn(struct worker *worker);               /* returns true if there is more to do now */
/* Returns true if the worker has as many items in progress as it may have. */
bool run_is_full(const struct worker *worker);
/* Ends items of cancelled fills, and begins shares that got no slab before. */
void run_look(struct worker *worker);

/* ---- large.c: an item larger than a slab ---- */
struct large;
/* The callback changed() is called when large_move may go on, or a copy has ended. */
struct large *large_new(struct share *share, const struct item *item, struct mailbox *box,
                        void (*changed)(void *arg), void *arg) MUST_USE;
/* Copies the `want` bytes of the get to the GPU. Returns ERR_WAIT if bytes are still to come. Any
 * other result is final, and then no copy is in progress. */
enum err large_move(struct large *large, struct get *get, uint64_t want) MUST_USE;
/* Returns true while a copy is in progress: until then neither the item nor its get may end.
 * `large` may be NULL. */
bool large_copies(const struct large *large);
void large_free(struct large **large);

/* ---- users.c: which users may connect, and what each of them holds ---- */
struct user {
    struct list link;
    uint32_t uid;
    unsigned sessions;
    uint64_t bytes;                   /* that it has registered */
    atomic_size_t list_bytes;         /* its bytes in local->list_bytes */
};
/* Returns ERR_BAD_ARGUMENT and *ret_why if the list names a user that does not exist. */
enum err users_new(slice list, struct arena *keep, struct users **ret, slice *ret_why) MUST_USE;
void users_free(struct users **users);
slice users_name(struct arena *keep, uint32_t uid);    /* "uid 1000" for a user without a name */
bool users_allow(const struct users *users, uint32_t uid);
/* Counts one more session of that user. Returns NULL if the user has as many sessions as allowed.
 * Any thread may call this and the functions below. */
struct user *users_enter(struct users *users, uint32_t uid, unsigned sessions_max);
void users_leave(struct users *users, struct user **user);
/* Fills `ret` with the users that have a session, `max` of them at most. Returns their number. */
size_t users_read(struct users *users, struct local_user *ret, size_t max);
bool users_take_bytes(struct users *users, struct user *user, uint64_t bytes, uint64_t bytes_max);
void users_give_bytes(struct users *users, struct user *user, uint64_t bytes);

#endif
