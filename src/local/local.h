/* local.h - objects into the memory of processes on this host. SPDX-License-Identifier: Apache-2.0
 *
 * A process connects to a Unix socket, registers memory, and names objects, or parts of them, that
 * shall lie there: one message, thousands of items, and no byte of them passes a socket or the
 * process's own CPU. The connection is the lease: when it ends, whatever hangs on it ends, too.
 * What may be read is judged as for a GET. The protocol: penstock-fill(7). */
#ifndef LOCAL_LOCAL_H
#define LOCAL_LOCAL_H

#include "cache/reader.h"

struct local_options {
    const char *path;                 /* of the socket */
    slice users;                      /* who may connect: names or numbers; "*"; empty: our own */
    struct cache *cache;
    struct reader_judge judge;        /* of what a session may read */
    unsigned threads;
    bool access_log;
    /* limits (H8): of all, of a session, of a message */
    unsigned sessions_max, user_sessions_max, buffers_max, fills_max, items_max;
    uint64_t user_bytes_max;          /* registered, of one user */
    uint64_t lists_bytes_max;         /* memory of all that are under way */
    /* items of a session under way, for each worker; a worker has eight times as many of all */
    unsigned gets_max;
    uint64_t list_bytes_max;          /* of a message in a memfd */
    uint64_t replies_bytes_max;       /* that wait for a session to take them */
    uint64_t hello_ms;                /* who has not said it by then keeps others out */
    uint64_t time_ms;                 /* a fill may take so long */
    uint64_t ring_bytes;              /* of pinned memory, for each GPU that is used */
};

/* Stops what is not there yet: start and stop are one thread's. On failure *ret_why, in keep. */
struct local;
/* Path and users alone: could they be right? *ret_why, in keep. Makes nothing; the folder may come
 * with the service. */
enum err local_check(const struct local_options *options, struct arena *keep,
                     slice *ret_why) MUST_USE;
/* Would it be made there now? ERR_BUSY: somebody listens; ERR_NOT_FOUND: its folder is missing;
 * ERR_IO. *ret_why, in keep. */
enum err local_look(const struct local_options *options, struct arena *keep,
                    slice *ret_why) MUST_USE;
enum err local_start(const struct local_options *options, struct arena *keep, struct local **ret,
                     slice *ret_why) MUST_USE;
/* Are writes into holes of registered memory refused (holes.h)? */
bool local_watches(const struct local *local);
void local_drain(struct local *local);    /* nobody new, nothing new; what is under way goes on */
size_t local_fills(struct local *local);  /* under way; any thread */
void local_access_log(struct local *local, bool on);    /* any time, any thread */
void local_stop(struct local **local);
/* What `GET /_/fill` says, as JSON; any thread. */
slice local_page(struct local *local, struct arena *keep) MUST_USE;

#endif
