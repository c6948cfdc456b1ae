/* local.h - objects into the memory of processes on this host. SPDX-License-Identifier: Apache-2.0
 *
 * A process connects to a Unix socket, registers memory, and names objects, or byte ranges of them,
 * to be read into that memory. One message names thousands of items, and no byte of them passes a
 * socket or the process's own CPU. The connection is a session: when it ends, its fills and buffers
 * end, too. Rights are judged as for a GET. The protocol: penstock-fill(7). */
#ifndef LOCAL_LOCAL_H
#define LOCAL_LOCAL_H

#include "cache/reader.h"

struct local_options {
    const char *path;                 /* of the socket */
    slice users;                      /* that may connect: names or numbers; "*"; empty: our own */
    struct cache *cache;
    struct reader_judge judge;        /* of what a session may read */
    unsigned threads;
    bool access_log;
    /* limits (H8): of all sessions, of one, of a message */
    unsigned sessions_max, user_sessions_max, buffers_max, fills_max, items_max;
    uint64_t user_bytes_max;          /* registered, of one user */
    uint64_t lists_bytes_max;         /* memory of the lists of all fills in progress */
    /* Items of one session in progress, for each worker; a worker has at most eight times as many
     * of all sessions together. */
    unsigned gets_max;
    uint64_t list_bytes_max;          /* of a message in a memfd */
    uint64_t replies_bytes_max;       /* of replies that a session has not received yet */
    uint64_t hello_ms;                /* then a session without hello is cut: it keeps others out */
    uint64_t time_ms;                 /* the longest that a fill may take */
    uint64_t ring_bytes;              /* pinned memory for each GPU in use */
};

struct local;
/* Judges path and users, and makes nothing; the folder need not exist, as the service may make it.
 * *ret_why, in keep. */
enum err local_check(const struct local_options *options, struct arena *keep,
                     slice *ret_why) MUST_USE;
/* Could the socket be made there now? ERR_BUSY: another process listens there; ERR_NOT_FOUND: its
 * folder is missing; ERR_IO. *ret_why, in keep. */
enum err local_look(const struct local_options *options, struct arena *keep,
                    slice *ret_why) MUST_USE;
/* Start and stop belong to one thread. On failure nothing is left of it; *ret_why, in keep. */
enum err local_start(const struct local_options *options, struct arena *keep, struct local **ret,
                     slice *ret_why) MUST_USE;
/* No session and no message is accepted any more; fills in progress go on. */
void local_drain(struct local *local);
size_t local_fills(struct local *local);  /* in progress; any thread */
void local_access_log(struct local *local, bool on);    /* any time, any thread */
void local_stop(struct local **local);    /* accepts NULL */
/* The page /_/fill, as JSON in keep; any thread. */
slice local_page(struct local *local, struct arena *keep) MUST_USE;

#endif
