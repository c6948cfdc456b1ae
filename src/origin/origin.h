/* origin.h - the servers and folders that objects come from. SPDX-License-Identifier: Apache-2.0
 *
 * An origin answers calls. The caller owns a call, and must keep it until done() was called. done()
 * is called exactly once, also after a cancel. The callbacks of a call come one at a time, on an
 * origin thread and never on an HTTP loop. They must not block.
 * There are two kinds of origins, S3 servers and directories; kind.def is the table of kinds. The
 * code in src/origin also retries calls, but only as long as no part of an answer was given to the
 * caller. */
#ifndef ORIGIN_ORIGIN_H
#define ORIGIN_ORIGIN_H

#include "base/list.h"
#include "base/trace.h"
#include "base/url_kind.h"
#include "s3/form.h"
#include "s3/request.h"

struct origin;
struct origins;             /* the origin threads, and all origins */
struct origin_call;

/* The head of an origin's answer. Its slices live until the callback returns. */
struct origin_reply {
    int status;
    bool has_length;
    uint64_t length;                    /* of the body; for a HEAD, the length of a GET's body */
    const struct http_field *fields;    /* all fields, with names in lower case */
    size_t field_count;
    uint64_t first_byte_ns;    /* from the start of the last try to the head of its answer */
    unsigned tries;
    bool from_peer;            /* another node answers (peers.h) */
    uint64_t age_ms;           /* then: how long ago the origin gave it this answer; peers_start */
    bool all_fields;           /* then: a 206 has the fields of an answer with the whole object */
};
slice origin_reply_get(const struct origin_reply *reply, slice name);

/* The result of body(). PAUSE: the same bytes come again after origin_resume. PAUSE is not allowed
 * for the body of a 400, 401 or 403, because these bodies come only once. SPARE is like PAUSE, but
 * if another call waits for the connection before the resume, the origin ends this call with
 * ERR_YIELDED. */
enum origin_take { ORIGIN_TAKEN, ORIGIN_PAUSE, ORIGIN_SPARE };

struct origin_events {
    /* Takes status and headers of the answer, also for an error status. It is called once, before
     * any body. */
    void (*head)(struct origin_call *call, const struct origin_reply *reply);
    enum origin_take (*body)(struct origin_call *call, slice bytes);
    /* Takes the end of the call. `err` is OK only if the whole body was delivered. Errors:
     * ERR_ORIGIN_CONNECT, ERR_ORIGIN_CERT, ERR_ORIGIN_TIMEOUT, ERR_ORIGIN_CUT (in the middle of the
     * body), ERR_ORIGIN_REPLY, ERR_ORIGIN_KEYS (the origin refuses Penstock's own credentials; then
     * no head came), ERR_NO_KEYS (Penstock has no valid credentials), ERR_SLOW_DOWN (no connection
     * was free in time), ERR_ORIGIN_DOWN (the breaker is open: breaker.h), ERR_CANCELED,
     * ERR_YIELDED (after SPARE), ERR_STOPPING, ERR_BAD_REQUEST (a field can't be sent), ERR_IO (the
     * request body can't be read), or the error of may_send. A directory also gives
     * ERR_READ_ONLY and ERR_NOT_IMPLEMENTED, without a head. */
    void (*done)(struct origin_call *call, enum err err);
};

/* A request body. read() is called on origin threads, and must not wait for a disk. */
#define ORIGIN_LATER SIZE_MAX
struct origin_body {
    uint64_t length;
    slice sha256_hex;       /* empty: the payload is not signed (UNSIGNED-PAYLOAD) */
    /* Copies the part of the body that begins at `offset` to ret, and returns the number of bytes;
     * fewer than `bytes` is a failure. If the request is sent again, `offset` goes back. Returns
     * ORIGIN_LATER if the bytes are not there yet. Then the request pauses, and read() is called
     * again after origin_resume. */
    size_t (*read)(void *arg, uint64_t offset, char *ret, size_t bytes);
    void *arg;
};

/* The rank of a call says what it is for: a client that waits for it; read-ahead, which is for a
 * client that has not come to these bytes yet; or a job. When calls wait for a connection, the call
 * of the lowest rank comes first. */
enum origin_rank { ORIGIN_READER, ORIGIN_AHEAD, ORIGIN_JOB, ORIGIN_RANKS };

/* The caller fills in a call. The memory of every slice must outlive the call. */
struct origin_call {
    const struct origin_events *events;
    enum s3_op op;
    slice bucket, key;                  /* decoded from the client's request */
    slice query;                        /* as it is sent, escaped, without '?'; may be empty */
    const struct http_field *fields;    /* the caller's fields to send and sign (range, if-match,
                                         * ...) */
    size_t field_count;
    const struct origin_body *body;     /* NULL: no body */
    const struct form *form;  /* a browser's form, with a signature of its own (s3/form.h); `body`
                               * is its file; NULL: no form */
    bool no_retry;                      /* the request must not happen twice */
    /* The credentials of a client to sign with; they must outlive the call. NULL: Penstock's own
     * credentials for this origin. If the access key is empty, the request is unsigned. If the
     * origin refuses a client's key, the client gets that answer. The call ends with
     * ERR_ORIGIN_KEYS only if the origin refuses Penstock's signature or clock. */
    const struct sigv4_credentials *as;
    /* Called on an origin thread, perhaps often: before a request waits for a connection, while it
     * waits, and right before its first byte is sent. Returns OK, or the error that ends the call.
     * `again` is true if a request of this call was sent before, or a try has failed. Once this
     * function has refused, it must always refuse. It is not called for a request that is sent a
     * second time because its answer is late (is_awaited). NULL: always OK. */
    enum err (*may_send)(struct origin_call *call, bool again);
    /* Called on an origin thread, while a request is in progress. Returns false if nobody waits for
     * its answer, so it is not sent a second time when the answer is late. NULL: always true. */
    bool (*is_awaited)(struct origin_call *call);
    /* A list is a client's request for many objects: a batch, or all fills of one session. All
     * calls of a list carry the same list_id. When calls wait for a connection, the calls of a list
     * together get one turn, like a single call (limiter.c). 0: no list. A caller that changes it
     * during the call must then call origin_ask_again. */
    _Atomic uint64_t list_id;
    _Atomic enum origin_rank rank;      /* the same goes for this */
    /* The trace of the request that the call is for; see trace_copy. origin_start replaces it by
     * the context of the call itself, to which other spans may link (origin_trace). */
    struct trace trace;
    void *priv;                         /* used by src/origin; must be NULL at first */
};

/* Starts a call. It never fails: done() reports every failure. Any thread may call this
 * function. */
void origin_start(struct origin *origin, struct origin_call *call);
void origin_resume(struct origin_call *call);    /* after PAUSE, SPARE or LATER; any thread */
void origin_cancel(struct origin_call *call);    /* any thread; done() follows, if not yet called */
/* Copies the context of the call. It changes if a peer passes the call on. Any thread. */
void origin_trace(const struct origin_call *call, struct trace *ret);
/* Tells the origin that may_send would refuse now, or that the caller has changed list_id or rank. If
 * may_send refuses, a waiting call ends; otherwise, it goes on waiting as one of that list and rank.
 * A call that is being sent goes on. Any thread may call this function. */
void origin_ask_again(struct origin_call *call);

/* The canonical endpoint URL, which is part of every object's name. Lives as long as origin. */
slice origin_endpoint(const struct origin *origin);
bool origin_is_read_only(const struct origin *origin);
/* Returns true if the answers depend on the signer. A directory answers all clients alike. */
bool origin_knows_identities(const struct origin *origin);

/* Returns true if half as many calls are in progress or waiting as the origin may have connections.
 * Then no call begins that nobody waits for yet. Any thread. */
bool origin_is_busy(const struct origin *origin);

/* Returns the time (of the ageing clock) when the owner of Penstock's own credentials changed; 0:
 * never. Answers from before that time were given to the previous owner. */
uint64_t origin_owner_changed_ms(const struct origin *origin);
/* Returns the name of that owner. It stays the same when keys are renewed: for temporary keys with
 * a session token it is their source, otherwise the access key. Empty if there are no credentials
 * yet, or if the origin needs none. Lives as long as origin. Any thread. */
slice origin_owner(const struct origin *origin);

/* Penstock's own credentials at an origin. Times are in seconds of the wall clock; 0: never. */
struct origin_keys {
    slice access_key, from;             /* the key and its source; empty while there is no key */
    int64_t expires_s, renewed_s, failed_s;  /* failed_s: last time that the source gave no keys */
    slice why;                          /* the last failure, in words */
};
/* The results of the calls of an origin. Times are in seconds of the wall clock; 0: never. */
struct origin_health {
    uint64_t calls;                     /* calls in progress or waiting */
    slice name;                         /* lives as long as origin */
    int64_t answered_s, failed_s;
    bool failing;                       /* the last call failed */
    int64_t failing_s;                  /* the first failure since the last answer; 0: none */
    slice why;                          /* the last failure, in words */
    struct origin_keys keys;            /* all empty if the origin needs no credentials */
};
void origin_health(struct origin *origin, struct arena *keep, struct origin_health *ret);

/* ---- making origins ---- */

struct origin_options {
    const char *name;
    const char *url;            /* a URL of a kind in kind.def */
    const char *region;         /* empty: that of environment or profile, else us-east-1 */
    const char *style;          /* "path", "host", or "auto": path for IPs and single labels */
    const char *ca_file;        /* certificates trusted for https; empty: the system's store */
    const char *access_key, *secret_key, *session_token;    /* empty: searched as the AWS SDKs do */
    const char *secret_key_file, *session_token_file;    /* files with these values, or NULL */
    bool keys_optional;         /* own credentials may be missing: no client needs them */
    const char *profile;        /* AWS profile name; empty: AWS_PROFILE, then "default" */
    unsigned connections_max;   /* to this origin, from all threads; at least 1 */
    unsigned connect_ms;        /* longest time to connect, in one try */
    unsigned progress_ms;       /* a try fails after this time without a byte; 0: no limit */
    unsigned answer_ms;         /* like progress_ms, after the last byte of a write */
    unsigned wait_ms;           /* longest wait for a free connection; 0: no limit */
    unsigned total_ms;          /* limit of all tries together; 0: no limit */
    unsigned tries_max;         /* 0 or 1: no retry */
    bool hedges;                /* a read whose answer is late is sent a second time */
};

/* The kinds of kind.def, for the settings (config_sources). */
const struct url_kind *origin_url_kind(size_t i);

struct origins *origins_new(unsigned threads) MUST_USE;
/* Opens an origin and adds it to the list. On failure *ret_why is a sentence for people, in
 * keep. */
enum err origins_add(struct origins *all, const struct origin_options *options, struct arena *keep,
                     struct origin **ret, slice *ret_why) MUST_USE;
/* Cancels all calls, waits for the done() of each, ends the threads and frees the origins. */
void origins_free(struct origins **all);

#endif
