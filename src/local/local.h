/* local.h - objects into the memory of processes on this host. SPDX-License-Identifier: Apache-2.0
 *
 * A process connects to a Unix socket (the fill socket), registers memory (a buffer), and names
 * objects, or byte ranges of objects. Penstock reads them into that memory: this is a fill. One
 * message may name thousands of items, and their bytes pass neither a socket nor the client's CPU.
 * The connection is a session: when it ends, its fills and buffers end, too. The rights to an item
 * are those of a GET. The protocol is in penstock-fill(7). */
#ifndef LOCAL_LOCAL_H
#define LOCAL_LOCAL_H

#include "cache/reader.h"

struct local_options {
    const char *path;                 /* of the socket */
    /* A socket that another process has opened at the path, and that local_start takes. After a
     * drain, connections wait there for the next process. 0: local_start opens one. */
    int inherited_fd;
    slice users;                      /* who may connect, beside Penstock's own user; "*": all */
    struct cache *cache;
    struct reader_judge judge;        /* decides what a session may read */
    unsigned threads;
    bool access_log;
    /* limits (rule H8 in src/README.md): sessions in all and of one user, buffers and fills of one
     * session, items of one message */
    unsigned sessions_max, user_sessions_max, buffers_max, fills_max, items_max;
    uint64_t user_bytes_max;          /* the most bytes that one user may register */
    uint64_t lists_bytes_max;         /* memory of the lists of all fills in progress */
    /* Limits the items in progress, by two rules. A session may have at most gets_max items for
     * each worker. A worker that has about 8 * gets_max items, of all sessions together, is full. A
     * full worker begins an item only for a session that has no item in progress. */
    unsigned gets_max;
    uint64_t list_bytes_max;          /* the longest message in a memfd */
    uint64_t replies_bytes_max;       /* replies that a session has not received yet */
    uint64_t hello_ms;                /* a session without hello is cut off after this time */
    uint64_t time_ms;                 /* the longest time of a fill */
    uint64_t ring_bytes;              /* pinned memory for each GPU in use */
};

struct local;
/* Checks path and users, and creates nothing. The folder need not exist, as systemd may make it at
 * the start. On an error *ret_why is set, in keep. */
enum err local_check(const struct local_options *options, struct arena *keep,
                     slice *ret_why) MUST_USE;
/* Checks whether the socket could be made at its path now. Returns ERR_BUSY if another process
 * listens there, ERR_NOT_FOUND if the folder is missing, or ERR_IO if this user may not write to
 * the folder. On an error *ret_why is set, in keep. */
enum err local_look(const struct local_options *options, struct arena *keep,
                    slice *ret_why) MUST_USE;
/* One thread calls start and stop. After a failure nothing is left to stop, and *ret_why is set, in
 * keep. */
enum err local_start(const struct local_options *options, struct arena *keep, struct local **ret,
                     slice *ret_why) MUST_USE;
/* From now on no session is accepted, and no message but unregister; fills in progress go on. */
void local_drain(struct local *local);
size_t local_fills(struct local *local);  /* number of fills in progress; any thread */
void local_access_log(struct local *local, bool on);    /* at any time, from any thread */
void local_stop(struct local **local);    /* accepts NULL */
/* Returns the page /_/fill, as JSON in keep. Any thread. */
slice local_page(struct local *local, struct arena *keep) MUST_USE;

/* ---- figures for operators; any thread ---- */

struct local_user {
    uint32_t uid;                     /* a look-up of its name might wait */
    unsigned sessions;
    uint64_t bytes;                   /* of registered memory */
};
struct local_gpu {
    slice uuid, name;
    bool open, lost;
    unsigned buffers;
    uint64_t pinned_bytes, pinned_used_bytes;    /* of the host's memory */
};
#define LOCAL_USERS_SHOWN 64u
/* Both return the number of rows, which lie in keep. If there are no GPUs, *ret_why says why. */
size_t local_users(struct local *local, struct arena *keep, struct local_user **ret);
size_t local_gpus(struct local *local, struct arena *keep, struct local_gpu **ret, slice *ret_why);

#endif
