/* http.h - HTTP/1.1 for rooms that know nothing of sockets.
 * SPDX-License-Identifier: Apache-2.0
 *
 * There are N loops. Each is a thread with its own event loop, listeners (SO_REUSEPORT), mailbox
 * and a pointer of the apps. A gate judges every head before its body is read. A request belongs to
 * the loop that accepted it (H4). */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include "base/arena.h"
#include "base/mailbox.h"
#include "http/tls.h"
#include "s3/request_head.h"

struct http;
struct http_loop;
struct http_request;

/* A whole, small answer. Its slices must live until http_reply returns; those of a judge, as long
 * as the arena that it was given. */
struct http_answer {
    int status;
    const struct http_field *fields;    /* without content-length, connection and date */
    size_t field_count;
    slice body;
    bool close;
    /* From a judge that answers itself: */
    bool is_page;                       /* it is no refusal, so none is counted */
    bool too_large;                     /* it refuses the size of the body */
    /* From a judge that lets the request in: */
    void *judged;                       /* for http_request_judged() */
    uint64_t body_bytes;                /* a chunked body may come to so many; 0: unknown */
    unsigned client;                    /* the bodies of a client count together; 0: of none */
};

/* A request that is refused before the app gets it. */
struct http_refused {
    enum err err;
    const char *why;                    /* a sentence for people */
    slice peer;                         /* "127.0.0.1:4711" */
    const struct request_head *head;    /* NULL: not complete, or malformed */
};

/* An application, which answers on one address. Callbacks run on a loop. */
struct http_app {
    const char *setting;                /* the setting with its address: for messages */
    const char *listen;                 /* "127.0.0.1:9000", "[::1]:9000", "*:9000": as 0.0.0.0 */
    struct http_tls *tls;               /* the caller's, until http_stop; NULL: without */
    unsigned connections_max;           /* its own cap; 0: it shares the one of the options */
    void *arg;
    /* Judges a head before its body is read. true: go on. false: *ret is sent and the connection
     * closed. The gate calls it once for each request, with the request's own arena. */
    bool (*judge)(void *arg, struct http_loop *loop, struct arena *keep,
                  slice peer, const struct request_head *head, struct http_answer *ret);
    /* Makes the answer to a request that reaches neither the judge nor handle(). err is
     * ERR_BAD_HEAD, ERR_HEAD_TOO_LARGE, ERR_TIMEOUT (head or body), ERR_TOO_LARGE (body over the
     * limit), ERR_INCOMPLETE (over what was announced), ERR_LIMIT (no room for the body, or for a
     * large head). At the connection cap newcomers wait and are not refused. */
    void (*refuse)(void *arg, struct arena *keep, const struct http_refused *what,
                   struct http_answer *ret);
    /* A request, its body complete. Must lead to one http_reply or http_reply_start, now or later
     * on this loop. */
    void (*handle)(void *arg, struct http_request *request);
};

struct http_options {
    struct http_app *apps;
    size_t app_count;
    unsigned loops;
    unsigned head_ms;                   /* a head must be complete by then */
    unsigned request_ms;                /* so must a body; seen at the next of these looks: */
    unsigned body_progress_ms;          /* looks at a body this often; 0: never */
    uint64_t body_progress_bytes;       /* a body must have brought so many since the last look */
    unsigned idle_ms;                   /* keep-alive without a request */
    unsigned send_ms;                   /* a client that takes no byte for so long is cut; so is */
    uint64_t send_progress_bytes;       /* one that takes fewer in each half of it; 0: any byte */
    uint64_t body_bytes_max;
    uint64_t body_memory_bytes;         /* a larger body lies in an unlinked file in this folder: */
    const char *spill_folder;
    /* True if the folder may take so many bytes: all that bodies hold and the disk has not
     * allocated yet. Called on a loop. If not, memory takes the body, if it has room. */
    bool (*may_spill)(void *spill_arg, uint64_t bytes);
    void *spill_arg;
    /* For all bodies together; 0: any number. A client may hold half of each, or a single body. */
    uint64_t bodies_disk_bytes;         /* in that folder */
    unsigned spill_files_max;           /* descriptors */
    uint64_t bodies_memory_bytes;       /* in memory */
    uint64_t heads_bytes;               /* of all large heads together */
    unsigned connections_max;           /* over all loops, of apps without a cap of their own */
    /* On each loop's thread: when it begins, and as the last thing before it ends. loop_begin
     * returns what http_loop_local() will. */
    void *(*loop_begin)(void *arg, struct http_loop *loop);
    void (*loop_end)(void *arg, void *local);
    void (*loop_turn)(void *arg, void *local);    /* after the loop's mailbox was delivered */
    void *arg;
};

/* OK if an app could listen there now; no client can connect meanwhile. Otherwise as http_start. */
enum err http_could_listen(const char *setting, const char *listen_on, struct arena *keep,
                           slice *ret_why) MUST_USE;
/* Start, drain and stop are for one thread, which is no loop.
 * Binds every address first (a taken port is found although SO_REUSEPORT is used), then starts the
 * loops. On failure *ret_why, in keep, says what, why and what to do. */
enum err http_start(const struct http_options *options, struct arena *keep, struct http **ret,
                    slice *ret_why) MUST_USE;
/* Stops accepting, closes idle connections, answers with Connection: close. */
void http_drain(struct http *http);
size_t http_open_requests(struct http *http);    /* those that apps have now; any thread */
/* Cuts the requests that are left, joins the loops, frees everything. The loops' mailboxes are
 * closed then: a thread that may still post needs a reference. */
void http_stop(struct http **http);

struct mailbox *http_loop_mailbox(struct http_loop *loop);
void *http_loop_local(struct http_loop *loop);

/* Runs fn(arg) on this loop after so many ms, once. Loop's thread only. The timer is the caller's
 * until http_timer_stop, also after it has fired. */
struct http_timer;
struct http_timer *http_timer_start(struct http_loop *loop, unsigned ms, void (*fn)(void *arg),
                                    void *arg) MUST_USE;
void http_timer_stop(struct http_timer **timer);    /* safe on NULL, and from within fn */

/* ---- one request ---- */

struct http_loop *http_request_loop(struct http_request *request);
struct arena *http_request_arena(struct http_request *request);    /* freed when the request ends */
const struct request_head *http_request_head(const struct http_request *request);
void *http_request_judged(const struct http_request *request);     /* the judge's ret->judged */
bool http_request_is_tls(const struct http_request *request);

/* The first taker of a body owns it. So the body outlives its request: a write on its way to the
 * origin still reads it when the client has gone. NULL: there is no body, or one of no bytes; the
 * functions below accept NULL. Any thread may release it; its room is free at once. While a thread
 * writes to it, no other may read. */
struct http_body;
struct http_body *http_body_take(struct http_request *request) MUST_USE;
void http_body_release(struct http_body **body);
size_t http_body_bytes(const struct http_body *body);
bool http_body_in_file(const struct http_body *body);    /* to read or write may wait */
/* Copies bytes of it from, or to, `at`. False: the disk failed. */
bool http_body_read(const struct http_body *body, size_t at, char *to, size_t bytes) MUST_USE;
/* For a loop: false also if the disk would have to be waited for. */
bool http_body_read_now(const struct http_body *body, size_t at, char *to, size_t bytes) MUST_USE;
bool http_body_write(struct http_body *body, size_t at, char *from, size_t bytes) MUST_USE;
/* The bytes from `at` on, *bytes at most: where they lie in memory, or read into `buffer`. NULL:
 * the disk failed. */
char *http_body_part(const struct http_body *body, size_t at, char *buffer,
                      size_t *bytes) MUST_USE;

/* A whole answer at once. */
void http_reply(struct http_request *request, const struct http_answer *answer);

/* An answer whose body comes in parts: one send, then wait for proceed (H5). For a HEAD, give the
 * length that GET would have, and send nothing: http_reply_start completes the answer. */
struct http_source {
    void (*proceed)(void *arg);         /* the last send is out: send more, now or later */
    void (*stop)(void *arg);            /* the client is gone: unhook and return, send no more */
};
void http_reply_start(struct http_request *request, int status, const struct http_field *fields,
                      size_t field_count, uint64_t length, const struct http_source *source,
                      void *arg);
/* A length that is not known yet. The body goes out in chunks (to HTTP/1.0: until the end of the
 * connection), and must be ended. The answer to a HEAD then has no length. */
#define HTTP_OPEN UINT64_MAX
/* Ends a body of unknown length, while nothing is sent. A last proceed comes, perhaps before it
 * returns. */
void http_reply_end(struct http_request *request);
/* Bytes must stay until proceed or stop. A last proceed follows the send that completes the length;
 * the request is over when that returns. */
void http_reply_send(struct http_request *request, slice bytes);
/* The same for several runs of bytes, none empty, in one write. `runs` itself is needed only until
 * it returns. last: they end a body of unknown length. */
#define HTTP_RUNS_MAX 64
void http_reply_send_runs(struct http_request *request, const slice *runs, size_t count, bool last);
/* Something failed mid-body: the connection is reset, not closed (H10). No callback follows. */
void http_reply_abort(struct http_request *request);

/* ended() is called once, when the request is over in whatever way: for the access log. Before
 * http_reply_start it is also the only sign that the client has gone. The request must not be
 * touched after it. */
struct http_outcome {
    int status;
    uint64_t body_bytes_sent;
    bool complete;                      /* false: the client left or we cut it */
    uint64_t took_ns;
};
void http_request_on_end(struct http_request *request,
                         void (*ended)(void *arg, const struct http_outcome *outcome), void *arg);

#endif
