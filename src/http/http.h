/* http.h - HTTP/1.1 for code that knows nothing of sockets.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An app (struct http_app) answers the requests of one address. front/ has the app for S3, and
 * admin/ the app for operators.
 * There are N loops. Each loop is a thread with its own event loop, listeners (SO_REUSEPORT) and
 * mailbox, and holds one pointer for the apps (http_loop_local). The gate (gate.c) lets the app
 * judge every request head before the body is read. A request belongs to the loop that accepted it
 * (rule H4 in src/README.md). */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include "base/arena.h"
#include "base/mailbox.h"
#include "http/tls.h"
#include "s3/request_head.h"

struct http;
struct http_loop;
struct http_request;

/* A whole, small answer. Its slices must live until http_reply returns. The slices of an answer
 * that a judge makes must live as long as the arena that the judge was given. */
struct http_answer {
    int status;
    const struct http_field *fields;    /* without content-length, connection and date */
    size_t field_count;
    slice body;
    bool close;
    /* Set by a judge that returns false: */
    bool is_page;                       /* the answer is no refusal: not counted as one */
    bool too_large;                     /* the answer refuses the size of the body */
    /* Set by a judge that returns true: */
    void *judged;                       /* http_request_judged() returns it */
    uint64_t body_bytes;                /* largest size of a chunked body; 0: unknown */
    unsigned client;                    /* the bodies of one client count together; 0: no client */
};

/* A request that is refused before the app gets it. */
struct http_refused {
    enum err err;
    const char *why;                    /* a sentence for people */
    slice peer;                         /* "127.0.0.1:4711" */
    const struct request_head *head;    /* NULL: the head is incomplete or malformed */
};

/* An application, which answers on one address. Callbacks run on a loop. */
struct http_app {
    const char *setting;                /* name of the setting with the address, for messages */
    const char *listen;                 /* "127.0.0.1:9000", "[::1]:9000"; "*:9000" is 0.0.0.0 */
    /* A socket that another process has opened on this address, and that http_start takes. Its
     * connections wait there for the next process when this one drains. 0: http_start opens one. */
    int inherited_fd;
    struct http_tls *tls;               /* lent by the caller until http_stop; NULL: no TLS */
    unsigned connections_max;           /* the app's own cap; 0: the cap of the options */
    void *arg;
    /* Judges a head before its body is read. If judge returns false, *ret is sent and the
     * connection is closed. The gate calls it once for each request, with the request's arena. */
    bool (*judge)(void *arg, struct http_loop *loop, struct arena *keep,
                  slice peer, const struct request_head *head, struct http_answer *ret);
    /* Makes the answer when http/ itself refuses a request, which then never reaches handle(). err
     * is one of these:
     * - ERR_BAD_HEAD, ERR_HEAD_TOO_LARGE;
     * - ERR_TIMEOUT: the head or the body took too long;
     * - ERR_TOO_LARGE: the body is over the limit;
     * - ERR_INCOMPLETE: the body is longer than the head announced;
     * - ERR_LIMIT: there is no room for the body, or for a large head.
     * At the cap of connections, new connections wait; they are not refused. */
    void (*refuse)(void *arg, struct arena *keep, const struct http_refused *what,
                   struct http_answer *ret);
    /* Takes a request whose body is complete. The app must call http_reply or http_reply_start
     * once for it, now or later, on this loop. */
    void (*handle)(void *arg, struct http_request *request);
};

/* How long a client may take for each step. */
struct http_timeouts {
    unsigned head_ms;                   /* a head must be complete within this time */
    unsigned request_ms;                /* the same for a body; only a progress check enforces it */
    unsigned body_progress_ms;          /* time between progress checks; 0: request_ms */
    uint64_t body_progress_bytes;       /* bytes of a body that must come between two checks */
    unsigned idle_ms;                   /* a connection without a request may stay this long */
    /* At the end of each half of send_ms, Penstock checks how much of an answer the client has
     * taken. If the client took less than send_progress_bytes in two successive halves, the
     * connection is cut. A send_progress_bytes of 0 counts as 1. */
    unsigned send_ms;
    uint64_t send_progress_bytes;
};

/* Limits for request bodies, and the folders for their files. */
struct http_body_limits {
    uint64_t body_bytes_max;            /* of one body */
    /* A body larger than body_memory_bytes goes to an unlinked file in a folder that spill_folder
     * returns, if there is room. */
    uint64_t body_memory_bytes;
    /* Returns a folder with room for `bytes`. `bytes` is what all bodies together have reserved on
     * disk, less what the disks have allocated already. If the body has a folder already, `in` is
     * that folder, and no other may be returned; otherwise `in` is NULL. Returns NULL if there is
     * no room; a body without a folder then goes to memory, if memory has room. Called on a loop.
     * The path stays valid until http_stop. */
    const char *(*spill_folder)(void *spill_arg, const char *in, uint64_t bytes);
    void *spill_arg;
    /* Three limits for all bodies together; 0: no limit. One client may hold half of each, or
     * more if it has only one body. */
    uint64_t disk_bytes;                /* in all folders */
    unsigned files_max;                 /* file descriptors */
    uint64_t memory_bytes;              /* in memory */
};

/* The caller writes the options before http_start, which copies them. After that, loops only read
 * the copy. */
struct http_options {
    struct http_app *apps;
    size_t app_count;
    unsigned loops;
    struct http_timeouts timeouts;
    struct http_body_limits bodies;
    uint64_t heads_bytes;               /* limit for all large heads together */
    unsigned connections_max;           /* over all loops, for apps without a cap of their own */
    /* Called on each loop's thread: loop_begin when the thread begins, loop_end as the last thing
     * before it ends. http_loop_local() returns the result of loop_begin. */
    void *(*loop_begin)(void *arg, struct http_loop *loop);
    void (*loop_end)(void *arg, void *local);
    void (*loop_turn)(void *arg, void *local);    /* after the mail of the loop was delivered */
    void *arg;
};

/* Returns OK if an app could listen on this address now. No client can connect during the test. On
 * failure sets *ret_why as http_start does. */
enum err http_could_listen(const char *setting, const char *listen_on, struct arena *keep,
                           slice *ret_why) MUST_USE;
/* Returns OK if the address of the socket `fd` is `listen_on`, ERR_NOT_FOUND if it is another one,
 * or ERR_BAD_ARGUMENT if this machine can't resolve `listen_on`. */
enum err http_is_at(int fd, const char *listen_on) MUST_USE;
/* One thread must call http_start, http_drain and http_stop. It must not be the thread of a loop.
 * http_start binds every address and then starts the loops. It fails if another process listens on
 * a port, although SO_REUSEPORT would allow that. On failure *ret_why, in keep, says what failed,
 * why, and what to do. */
enum err http_start(const struct http_options *options, struct arena *keep, struct http **ret,
                    slice *ret_why) MUST_USE;
/* Accepts no more connections. Those that wait already are accepted; on an inherited socket they are
 * left to the next process. From now on, answers have the header Connection: close. A connection
 * without a request is closed a moment later: if its client sends a request meanwhile, the client
 * gets its answer. */
void http_drain(struct http *http);
/* True after http_drain while a loop still accepts connections, or one is open. Any thread. */
bool http_is_draining(struct http *http);
size_t http_connections(struct http *http);      /* connections that are open now; any thread */
size_t http_open_requests(struct http *http);    /* requests that apps have now; any thread */
/* Cuts the requests that are left, joins the loops, frees everything. Also closes the loops'
 * mailboxes: a thread that may still post to a mailbox must hold a reference to that mailbox. */
void http_stop(struct http **http);

struct mailbox *http_loop_mailbox(struct http_loop *loop);
void *http_loop_local(struct http_loop *loop);

/* Runs fn(arg) once, on this loop, after `ms`. Call it only on the loop's thread. The caller owns
 * the timer, also after it has fired, and must call http_timer_stop. */
struct http_timer;
struct http_timer *http_timer_start(struct http_loop *loop, unsigned ms, void (*fn)(void *arg),
                                    void *arg) MUST_USE;
void http_timer_stop(struct http_timer **timer);    /* *timer may be NULL; fn may call this, too */

/* ---- one request ---- */

struct http_loop *http_request_loop(struct http_request *request);
struct arena *http_request_arena(struct http_request *request);    /* freed when the request ends */
const struct request_head *http_request_head(const struct http_request *request);
void *http_request_judged(const struct http_request *request);     /* ret->judged of the judge */
bool http_request_is_tls(const struct http_request *request);

/* The first caller of http_body_take owns the body, which may outlive its request: a write on its
 * way to the origin still reads the body when the client has gone. http_body_take returns NULL if
 * there is no body, and may return NULL for a body of no bytes; http_body_release, http_body_bytes
 * and http_body_in_file accept NULL. Any thread may release a body; its share of bodies.disk_bytes
 * counts as free at once. While one thread writes to a body, no other may read it. */
struct http_body;
struct http_body *http_body_take(struct http_request *request) MUST_USE;
void http_body_release(struct http_body **body);
/* Takes a reference, for a reader in addition to the owner. The end of the last reference frees the
 * body. The owner ends its own reference by http_body_release. */
struct http_body *http_body_ref(struct http_body *body) MUST_USE;
void http_body_unref(struct http_body **body);
size_t http_body_bytes(const struct http_body *body);
bool http_body_in_file(const struct http_body *body);    /* true: reads and writes may block */
/* Read or write bytes of the body at offset `at`. They return false if the disk failed. */
bool http_body_read(const struct http_body *body, size_t at, char *to, size_t bytes) MUST_USE;
/* Like http_body_read, but for a thread that must not wait: returns false also if the read would
 * wait for the disk. */
bool http_body_read_now(const struct http_body *body, size_t at, char *to, size_t bytes) MUST_USE;
bool http_body_write(struct http_body *body, size_t at, char *from, size_t bytes) MUST_USE;
/* Finds at most *bytes bytes of the body from offset `at` on, and sets *bytes to their number.
 * Returns the address of the bytes in memory, which is `buffer` if they were read from the file.
 * Returns NULL if the disk failed. */
char *http_body_part(const struct http_body *body, size_t at, char *buffer,
                      size_t *bytes) MUST_USE;

/* Sends a whole answer at once. */
void http_reply(struct http_request *request, const struct http_answer *answer);

/* The source of an answer whose body comes in parts. After each send, the source waits for proceed
 * (rule H5). For a HEAD, the caller gives the length that a GET would have, and sends nothing:
 * http_reply_start completes the answer. */
struct http_source {
    void (*proceed)(void *arg);         /* the bytes are out: the source may send more */
    void (*stop)(void *arg);            /* the client is gone: unhook and return, send no more */
};
void http_reply_start(struct http_request *request, int status, const struct http_field *fields,
                      size_t field_count, uint64_t length, const struct http_source *source,
                      void *arg);
/* The `length` of a body whose length is not known yet. The body goes out in chunks (to an HTTP/1.0
 * client, until the connection ends), and the caller must end it. The answer to a HEAD then has no
 * Content-Length. */
#define HTTP_OPEN UINT64_MAX
/* Ends a body of unknown length. No send may be in progress. A last call of proceed follows,
 * perhaps before http_reply_end returns. */
void http_reply_end(struct http_request *request);
/* Sends the next bytes, which must stay valid until proceed or stop is called. The send that
 * completes the length is followed by a last call of proceed. The request is over when that call
 * returns. */
void http_reply_send(struct http_request *request, slice bytes);
/* Sends several runs of bytes in one write. No run may be empty. The array `runs` must stay valid
 * until this function returns, and the bytes until proceed or stop is called. `last` is true if the
 * runs end a body of unknown length. */
#define HTTP_RUNS_MAX 64
void http_reply_send_runs(struct http_request *request, const slice *runs, size_t count, bool last);
/* As http_reply_send, for bytes that lie in a file, too: at this offset. They are sent from the file,
 * or from memory if the file can't be read any more. Only without TLS. */
void http_reply_send_file(struct http_request *request, slice bytes, int fd, uint64_t offset);
/* For a failure in the middle of a body: resets the connection (rule H10). No callback follows. */
void http_reply_abort(struct http_request *request);

/* ended() is called once, however the request ends, for the access log. Before http_reply_start it
 * is also the only sign that the client has gone. The request must not be touched after ended(). */
struct http_outcome {
    int status;
    uint64_t body_bytes_sent;
    bool complete;                      /* false: the client left, or Penstock cut it */
    uint64_t took_ns;
};
void http_request_on_end(struct http_request *request,
                         void (*ended)(void *arg, const struct http_outcome *outcome), void *arg);

#endif
