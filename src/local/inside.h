/* inside.h - what the files of this room tell each other, and nobody else.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   client ──message──> lease.c ──> request.c ──> fill.c ──> placing.c ──> share.c ──> queue.c
 *                                                                                any worker │
 *   client <──reply──── lease.c <── fill.c: end <── mail ── share.c <── run.c: gets, bytes ─┘
 *
 * A lease, its buffers and its fills belong to one worker, its keeper. Shares of a fill run on any
 * worker; they write results and bytes, and nobody looks at those before the share's mail came. */
#ifndef LOCAL_INSIDE_H
#define LOCAL_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "local/carriers.h"
#include "local/device.h"
#include "local/local.h"
#include "local/memory.h"
#include "local/message.h"

#define IDS_TEXT (2 * ID_BYTES)
#define SHARE_ITEMS 64u               /* in one share at most */

struct worker {
    struct local *local;
    unsigned number;
    pthread_t thread;
    bool started, ending;
    int epoll;
    struct mailbox *box;
    struct cache_loop *cache;
    struct ticket *look;              /* wakes it: the queue, or what is cancelled */
    struct list leases;
    struct list starved;              /* shares that found no slab */
    struct list runs;                 /* items under way here: these wait, */
    struct list ready;                /* and these gave way to others for a moment */
    unsigned run_count;
    struct arena scratch;             /* for one item's judgement */
    struct mail end;
    uint64_t accept_ms;               /* 0, or when to look for newcomers again */
    char *inbox;                      /* for one message: MESSAGE_BYTES_MAX and one more */
};

struct local {
    struct local_options options;
    int listen_fd;
    int holes_fd;                     /* -1: nobody watches for holes (holes.h) */
    uint64_t socket_device, socket_inode;    /* of what we made at the path */
    atomic_bool draining, access_log;
    atomic_uint sessions;
    atomic_size_t fills;              /* under way */
    atomic_size_t list_bytes;         /* of memory that they hold */
    struct users *users;
    struct devices *devices;
    pthread_mutex_t lock;             /* of the queue */
    struct list waiting;              /* leases that have shares there, first come first */
    atomic_uint shares_waiting;
    unsigned worker_count;
    atomic_uint next_worker;
    struct worker *workers;
};

/* ---- worker.c ---- */
void worker_init(struct local *local, unsigned number);
bool worker_start(struct worker *worker) MUST_USE;  /* false: no thread could be had */
void worker_end_leases(struct worker *worker);      /* soon, on its thread */
void worker_stop(struct worker *worker);            /* no lease is left */

/* ---- lease.c: a connection, and what hangs on it ---- */

struct lease {
    struct list link;                 /* worker->leases */
    struct worker *worker;
    int fd;                           /* -1: the client has gone */
    bool wants_out;                   /* epoll watches for room to send */
    bool dead;                        /* gone, or cut: nothing new begins */
    uint32_t uid;
    int32_t pid;                      /* when it connected; for the log */
    struct user *user;                /* its quotas; counted as one session there */
    bool known;                       /* hello has been said, */
    uint64_t hello_ms;                /* ... or has to be by then */
    struct arena keep;                /* the reader's */
    struct reader reader;
    uint8_t id[ID_BYTES];
    struct list buffers, fills;
    unsigned buffer_count, fill_count;
    unsigned taking;                  /* buffers whose memory is being taken (memory.h) */
    struct list out;                  /* replies that did not go out yet */
    size_t out_bytes;
    struct carriers carriers;         /* of those that went out last */
    /* under local->lock */
    struct list turn;                 /* local->waiting */
    struct list shares;
    atomic_uint running;              /* items under way, on all workers */
    struct slabs_held slabs;
};

void lease_begin(struct worker *worker, int fd);    /* takes it */
void lease_ready(struct lease *lease, uint32_t events);    /* may free it */
/* Cuts it, or takes note that the client left; freed when its last fill has ended. */
void lease_end(struct lease *lease);
void lease_settle(struct lease *lease);             /* frees a dead one with nothing left */
/* Of leases that say no hello, and of fills. */
uint64_t lease_next_deadline(const struct worker *worker);    /* UINT64_MAX: none */
void lease_deadlines(struct worker *worker, uint64_t now_ms);
/* A reply or event; `text` is copied. A client that takes none of them is cut. */
void lease_send(struct lease *lease, slice text);
void lease_refuse(struct lease *lease, const struct message *to, const struct trouble *why);
/* Counts a refusal, and logs it; lease NULL: of who is at the other end of fd, without one yet. */
void lease_note_refusal(const struct local *local, const struct lease *lease, int fd,
                        const struct trouble *why);

/* ---- request.c: what each message does ---- */
/* `fds` are those that came with it; who takes one sets it to -1. */
void request_do(struct lease *lease, const struct message *message, struct arena *take_keep,
                int *fds, size_t fd_count);

/* ---- buffer.c: registered memory ---- */

struct buffer {
    struct list link;                 /* lease->buffers */
    struct lease *lease;
    uint8_t id[ID_BYTES];
    const struct memory_kind *kind;
    char *base;                       /* path direct: the memory; else NULL */
    struct device *device;            /* path ring; else NULL */
    struct gpu_buffer *gpu;
    uint64_t bytes;
    unsigned fills;                   /* under way */
    struct list busy;                 /* struct fill, by its own link */
    bool leaving;                     /* to be released; nothing new begins */
    bool released;                    /* ... which its kind was told */
    struct message asked;             /* to register or unregister it; of op and id alone */
    bool tell;                        /* that it has been released */
};
/* Answers the message, now or when the kind has taken the memory; takes the descriptors that it
 * needs. */
void buffer_register(struct lease *lease, const struct message *message, int *fds,
                     size_t fd_count);
struct buffer *buffer_find(struct lease *lease, const uint8_t id[ID_BYTES]);    /* or NULL */
/* Lets it go at once, or when its last fill has ended. */
void buffer_release(struct buffer *buffer);
void buffer_unregister(struct buffer *buffer, const struct message *message);    /* and answers */
void buffer_settle(struct buffer *buffer);          /* a fill of it has ended */

/* ---- fill.c: a list of items on their way into a buffer ---- */

struct result {
    enum err err;
    int status;                       /* of an err */
    uint64_t bytes;
    bool hit;
};

struct fill {
    struct list link;                 /* lease->fills */
    struct list busy;                 /* buffer->busy */
    struct lease *lease;
    struct buffer *buffer;            /* NULL: a prefetch */
    struct arena keep;                /* the message's, and all of ours */
    const struct message *message;
    struct reader reader;
    struct result *results;
    struct place_of *places;          /* where items lie in the buffer, in order */
    uint8_t id[ID_BYTES];
    atomic_bool canceled;             /* nothing of it goes on */
    atomic_bool failed;               /* on_error is "fail", and an item has: no more are begun */
    atomic_uint refused;              /* items that its reader may not have */
    enum err why;                     /* of that: ERR_TIMEOUT, ERR_CANCELED */
    size_t shares_left;
    size_t held_bytes;                /* of local->list_bytes */
    uint64_t began_ns, until_ms;
};
/* Some items of a fill, in a row. */
struct share {
    struct list link;                 /* lease->shares */
    struct mail mail;                 /* to the keeper, when all have ended */
    struct fill *fill;
    size_t first, count, left;        /* left: not ended */
    /* into GPU memory: through a slab, which all of it fits into; or (large) one item, by pieces */
    bool large;
    bool waited;                      /* for a slab */
    bool passed_over;                 /* in the line: under local->lock */
    uint32_t *offsets;                /* of items in the slab */
    struct slab *slab;
    struct job job;                   /* the copies out of it */
};
/* The keep is the fill's from then on, also when it is refused: the refusal has been sent. */
void fill_begin(struct lease *lease, const struct message *message, struct arena *take_keep);
void fill_settle(struct fill *fill);   /* one of its shares has ended; may free it, and its lease */
void fill_cancel(struct fill *fill, enum err why);

/* ---- placing.c, share.c ---- */
/* Where its items lie: inside its buffer, and on nothing else. */
bool fill_place(struct fill *fill, struct trouble *ret_why) MUST_USE;
void fill_cut(struct fill *fill);       /* into shares, which wait for a worker then */
/* All items of a share have been read; from here on it is the keeper's. */
void share_settle(struct share *share);
/* The slab it needs: true, also where it needs none. Else it is not begun. */
bool share_take_slab(struct share *share) MUST_USE;

/* ---- queue.c: whose turn it is ---- */
void queue_put(struct local *local, struct lease *lease, struct share *share);
/* NULL: none that may begin; for who is full, none but of leases that have nothing under way. */
struct share *queue_take(struct local *local, bool full);
void queue_call(struct local *local, const struct worker *but, unsigned count);

/* ---- run.c: items of a share, read ---- */
bool run_turn(struct worker *worker);               /* true: there is more to do at once */
bool run_is_full(const struct worker *worker);      /* it has as many items under way as it may */
void run_look(struct worker *worker);    /* ends what was cancelled, begins what found no slab */

/* ---- large.c: an item larger than a slab ---- */
struct large;
/* changed() is called when large_move, or who waits for its copies, may go on. */
struct large *large_new(struct share *share, const struct item *item, struct mailbox *box,
                        void (*changed)(void *arg), void *arg) MUST_USE;
/* What the get brings, `want` bytes, to the GPU; ERR_WAIT, or its end: no copy is under way. */
enum err large_move(struct large *large, struct get *get, uint64_t want) MUST_USE;
bool large_copies(const struct large *large);    /* then neither it nor its get may end; NULL: no */
void large_free(struct large **large);

/* ---- users.c: who may connect, and what each of them holds ---- */
struct user {
    struct list link;
    uint32_t uid;
    unsigned sessions;
    uint64_t bytes;                   /* registered */
    atomic_size_t list_bytes;         /* of local->list_bytes */
};
/* ERR_BAD_ARGUMENT: a name that nobody has; *ret_why. */
enum err users_new(slice list, struct arena *keep, struct users **ret, slice *ret_why) MUST_USE;
void users_free(struct users **users);
bool users_allow(const struct users *users, uint32_t uid);
/* One more session; NULL: it has as many as it may. Any thread, as the rest. */
struct user *users_enter(struct users *users, uint32_t uid, unsigned sessions_max);
void users_leave(struct users *users, struct user **user);
bool users_take_bytes(struct users *users, struct user *user, uint64_t bytes, uint64_t bytes_max);
void users_give_bytes(struct users *users, struct user *user, uint64_t bytes);

#endif
