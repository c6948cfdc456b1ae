/* http.h - HTTP/1.1 for those who know nothing of sockets.
 * SPDX-License-Identifier: Apache-2.0
 *
 * N loops, each a thread with its own event loop, listeners (SO_REUSEPORT), mailbox and whatever
 * the apps keep for it. Every head is judged by a gate before its body is read. A request belongs
 * to the loop that accepted it (H4). */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include "base/arena.h"
#include "base/mailbox.h"
#include "http/tls.h"
#include "s3/head.h"

struct http;
struct http_loop;
struct http_request;

/* A whole answer, small. Slices must live until http_reply returns / the judge's arena ends. */
struct http_answer {
    int status;
    const struct http_field *fields;    /* content-length, connection, date: the room adds them */
    size_t field_count;
    slice body;
    bool close;
    bool is_page;                       /* of a judge that says no: its own page, no refusal */
    bool too_large;                     /* likewise: it is the body's size, which counts as that */
    void *judged;                       /* by a judge that says yes: for http_request_judged() */
    uint64_t body_bytes;                /* likewise: what a chunked body may come to; 0: unknown */
    unsigned client;                    /* likewise: whose bodies count together; 0: nobody's */
};

/* A request that does not come as far as the app. */
struct http_refused {
    enum err err;
    const char *why;                    /* a sentence for people */
    slice peer;                         /* "127.0.0.1:4711" */
    const struct http_head *head;       /* NULL: it was not complete, or could not be read */
};

/* What answers on one address. Callbacks run on a loop. */
struct http_app {
    const char *setting;                /* that says where it listens: for messages */
    const char *listen;                 /* "127.0.0.1:9000", "[::1]:9000", "*:9000": as 0.0.0.0 */
    struct http_tls *tls;               /* the caller's, until http_stop; NULL: without */
    unsigned connections_max;           /* a cap of its own beside the options'; 0: shares theirs */
    void *arg;
    /* Judges a head before its body is taken in. true: go on. false: *ret is sent and the
     * connection closed. Once for every request, by the gate, with the request's own arena. */
    bool (*judge)(void *arg, struct http_loop *loop, struct arena *keep,
                  slice peer, const struct http_head *head, struct http_answer *ret);
    /* A request that does not come as far as the judge or, with its body, as far as handle(): what
     * to say. err is ERR_BAD_HEAD, ERR_HEAD_TOO_LARGE, ERR_TIMEOUT (head or body), ERR_TOO_LARGE
     * (body over the limit), ERR_INCOMPLETE (over what was announced), ERR_LIMIT (no room for the
     * body, or for a large head). At the connection cap nobody is refused: newcomers wait. */
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
    unsigned head_ms;                   /* a head must be complete after so long */
    unsigned request_ms;                /* a body too, as seen at the next look at its progress: */
    unsigned body_progress_ms;          /* in each so long it brings so many bytes; 0: no look */
    uint64_t body_progress_bytes;
    unsigned idle_ms;                   /* keep-alive without a request */
    unsigned send_ms;                   /* a client that takes no byte for so long is cut, or */
    uint64_t send_progress_bytes;       /* fewer in each half of it; 0: any byte is enough */
    uint64_t body_bytes_max;
    uint64_t body_memory_bytes;         /* larger ones lie in an unlinked file, in: */
    const char *spill_folder;
    /* May that folder take so many bytes, those that bodies were promised and do not take yet
     * among them? On a loop; NULL: always. If not, memory may. */
    bool (*may_spill)(void *spill_arg, uint64_t bytes);
    void *spill_arg;
    /* Of all bodies together; 0: any number. One client may hold half of each, or a single body. */
    uint64_t bodies_disk_bytes;         /* in there */
    unsigned spill_files_max;           /* descriptors */
    uint64_t bodies_memory_bytes;       /* in memory */
    uint64_t heads_bytes;               /* of heads that are large, all together */
    unsigned connections_max;           /* over all loops; admin apps have a reserve of their own */
    /* On each loop's thread: when it begins, and as the last thing before it ends. */
    void *(*loop_begin)(void *arg, struct http_loop *loop);    /* what http_loop_local() returns */
    void (*loop_end)(void *arg, void *local);
    void (*loop_turn)(void *arg, void *local);    /* after the loop's mailbox was delivered */
    void *arg;
};

/* Could an app listen there now? Nobody can connect meanwhile. As http_start fails. */
enum err http_could_listen(const char *setting, const char *listen_on, struct arena *keep,
                           slice *ret_why) MUST_USE;
/* start, drain and stop: one thread, which is no loop.
 * Binds every address first (a taken port is found although SO_REUSEPORT is used), then starts the
 * loops. On failure *ret_why, in keep, says what, why and what to do. */
enum err http_start(const struct http_options *options, struct arena *keep, struct http **ret,
                    slice *ret_why) MUST_USE;
/* Stops accepting, closes idle connections, answers with Connection: close. */
void http_drain(struct http *http);
size_t http_open_requests(struct http *http);    /* handled and not over; any thread */
size_t http_connections(struct http *http);      /* of all apps; any thread */
/* Cuts what is left, joins the loops, frees everything. A loop's mailbox is closed then: whoever
 * may still post holds a reference to it. */
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
const struct http_head *http_request_head(const struct http_request *request);
void *http_request_judged(const struct http_request *request);     /* the judge's ret->judged */
bool http_request_is_tls(const struct http_request *request);
slice http_request_peer(const struct http_request *request);       /* "127.0.0.1:4711" */

/* A body outlives its request for whoever takes it, which none but the first can: a write that is
 * on its way to the origin still reads it when the client has gone. NULL: the request has none, or
 * one of no bytes; the functions below accept that. Any thread may let go; its room can be had again
 * at once. One thread writes, and then no other reads. */
struct http_body;
struct http_body *http_body_take(struct http_request *request) MUST_USE;
void http_body_release(struct http_body **body);
size_t http_body_bytes(const struct http_body *body);
bool http_body_in_file(const struct http_body *body);    /* what follows may wait for the disk */
/* Bytes from, or to, where it lies. False: the disk failed. */
bool http_body_read(const struct http_body *body, size_t at, char *to, size_t bytes) MUST_USE;
bool http_body_write(struct http_body *body, size_t at, char *from, size_t bytes) MUST_USE;
/* The next of it from `at` on, *bytes at most: where they lie in memory, or read into `buffer`.
 * NULL: the disk failed. */
char *http_body_piece(const struct http_body *body, size_t at, char *buffer,
                      size_t *bytes) MUST_USE;

/* A whole answer at once. */
void http_reply(struct http_request *request, const struct http_answer *answer);

/* An answer whose body comes in pieces. One send, then wait for proceed (H5). A HEAD sends no body:
 * give length as GET would have it, send nothing: the reply is complete with http_reply_start. */
struct http_source {
    void (*proceed)(void *arg);         /* the last piece is out: send the next, or nothing yet */
    void (*stop)(void *arg);            /* the client is gone: unhook and return, send no more */
};
void http_reply_start(struct http_request *request, int status, const struct http_field *fields,
                      size_t field_count, uint64_t length, const struct http_source *source,
                      void *arg);
/* As a length: it is not known yet. The body goes out in chunks (to HTTP/1.0: until the end of the
 * connection), and must be ended; a HEAD then tells no length. */
#define HTTP_OPEN UINT64_MAX
/* When nothing is being sent. One last proceed comes, perhaps before it returns. */
void http_reply_end(struct http_request *request);
/* Bytes must stay until proceed or stop. After the piece that makes the length full comes one last
 * proceed; the request is over when that returns. */
void http_reply_send(struct http_request *request, slice bytes);
/* The same of several runs of bytes, none empty, in one write; `runs` themselves are needed only
 * until it returns. last: they end a body whose length is not known. */
#define HTTP_RUNS_MAX 64
void http_reply_send_runs(struct http_request *request, const slice *runs, size_t count, bool last);
/* Something failed mid-body: the connection is reset, not closed (H10). No callback follows. */
void http_reply_abort(struct http_request *request);

/* Called once when the request is over and out of the way, whatever happened: for the access line.
 * Before http_reply_start it is also the only sign that the client has gone: the request must not
 * be touched after. */
struct http_outcome {
    int status;
    uint64_t body_bytes_sent;
    bool complete;                      /* false: the client left or we cut it */
    uint64_t took_ns;
};
void http_request_on_end(struct http_request *request,
                         void (*ended)(void *arg, const struct http_outcome *outcome), void *arg);

#endif
