/* origin.h - where objects come from. SPDX-License-Identifier: Apache-2.0
 *
 * An origin answers calls. A call is owned by its caller and must stay until its done() has come,
 * which happens exactly once, also after a cancel. Callbacks of one call come one at a time, from
 * an origin thread, which is never one of the HTTP loops: they must not block.
 * The kinds of origins stand in the table of origin.c. Retries happen in here, only while nothing
 * of an answer was handed out. */
#ifndef ORIGIN_ORIGIN_H
#define ORIGIN_ORIGIN_H

#include "base/arena.h"
#include "base/list.h"
#include "base/url_kind.h"
#include "s3/form.h"
#include "s3/request.h"
#include "s3/sigv4.h"

struct origin;
struct origins;             /* the pool of origin threads, and every origin there is */
struct origin_call;

/* What an origin answered, before its body. Slices live until the callback returns. */
struct origin_reply {
    int status;
    bool has_length;
    uint64_t length;                    /* of this body; HEAD: of the body a GET would have */
    const struct http_field *fields;    /* all of them, names in lower case */
    size_t field_count;
    uint64_t first_byte_ns;             /* from the last try's start to its head */
    unsigned tries;
};
slice origin_reply_get(const struct origin_reply *reply, slice name);

/* PAUSE: the same bytes come again after origin_resume. Not for a 400, 401 or 403. SPARE: so too,
 * but until then the origin may end the call with ERR_YIELDED, and does if another waits for its
 * connection. */
enum origin_take { ORIGIN_TAKEN, ORIGIN_PAUSE, ORIGIN_SPARE };

struct origin_events {
    /* The status line and headers. Comes once, before any body. Error statuses come here too. */
    void (*head)(struct origin_call *call, const struct origin_reply *reply);
    enum origin_take (*body)(struct origin_call *call, slice bytes);
    /* The end. OK only if the whole body was delivered; ERR_ORIGIN_CONNECT, ERR_ORIGIN_CERT,
     * ERR_ORIGIN_TIMEOUT, ERR_ORIGIN_CUT (mid-body), ERR_ORIGIN_REPLY, ERR_ORIGIN_KEYS (it refuses
     * our own credentials; then no head came), ERR_NO_KEYS (we have none that are good),
     * ERR_SLOW_DOWN (no connection was free in time), ERR_CANCELED, ERR_YIELDED (after SPARE),
     * ERR_STOPPING, or for kinds that can tell without a status: ERR_READ_ONLY,
     * ERR_NOT_IMPLEMENTED. */
    void (*done)(struct origin_call *call, enum err err);
};

/* A body to send. read() is called from origin threads and must not block for long. */
struct origin_body {
    uint64_t length;
    slice sha256_hex;       /* empty: UNSIGNED-PAYLOAD */
    /* Bytes at `offset` (so that a try can be repeated): how many; fewer than asked on failure. */
    size_t (*read)(void *arg, uint64_t offset, char *ret, size_t bytes);
    void *arg;
};

/* Filled in by the caller; everything a slice points at must outlive the call. */
struct origin_call {
    const struct origin_events *events;
    enum s3_op op;
    slice bucket, key;                  /* as the client named them, decoded */
    slice query;                        /* raw, as it should be sent, without '?'; may be empty */
    const struct http_field *fields;    /* more to send and sign (range, if-match, x-amz-...) */
    size_t field_count;
    const struct origin_body *body;     /* NULL: none */
    const struct form *form;            /* body is its file; signed in itself; NULL: none */
    bool no_retry;                      /* for what must not happen twice */
    /* Whom it is signed as; must outlive the call. NULL: as the origin's own credentials say. An
     * empty access key: as nobody, unsigned. What the origin says of such a key is its client's to
     * hear, and never ERR_ORIGIN_KEYS, unless our signature or clock is what it finds wrong. */
    const struct sigv4_credentials *as;
    /* Asked on an origin thread whenever a request is about to be sent or to be waited for, in the
     * end right before its first byte: OK, or why not, which becomes the end. `again`: one has been
     * sent, or tried to. NULL: always. Once it has refused, it refuses for ever. */
    enum err (*may_send)(struct origin_call *call, bool again);
    /* Whose calls wait for a connection in turns with others', however many they are: of one list,
     * say. 0: it is one of nobody's. Who makes it 0 on the way says so by origin_ask_again. */
    _Atomic uint64_t party;
    void *priv;                         /* the origin's own, NULL at start */
};

/* Starts a call; any thread. Never fails: what goes wrong comes through done(). */
void origin_start(struct origin *origin, struct origin_call *call);
void origin_resume(struct origin_call *call);    /* after PAUSE or SPARE; any thread */
void origin_cancel(struct origin_call *call);    /* any thread; done() follows unless it has come */
/* may_send would refuse now, or it has no party any more: a call that waits ends, or waits by
 * itself; one that is being sent goes on. Any thread. */
void origin_ask_again(struct origin_call *call);

/* The canonical endpoint URL, which is part of every object's name. Lives as long as origin. */
slice origin_endpoint(const struct origin *origin);
bool origin_is_read_only(const struct origin *origin);
/* Does it answer by who signed? A directory does not: whom it would refuse nobody knows. */
bool origin_knows_identities(const struct origin *origin);

/* Since when (ageing time) its own credentials are those of another name than at the start; 0: they
 * are not. What was asked before was answered to somebody else. */
uint64_t origin_renamed_ms(const struct origin *origin);

/* What its calls have come to. Times are wall seconds, 0: never. */
struct origin_keys {
    slice access_key, from;             /* empty while there are none; where they come from */
    /* Whose they are, however often they are renewed: `from` where they are lent, with a session
     * token, else the access key. Empty while there are none. */
    slice name;
    int64_t expires_s, renewed_s, failed_s;    /* failed: the last time the source gave none */
    slice why;                          /* the last failure, in words */
};
struct origin_health {
    uint64_t calls;                     /* under way or waiting */
    slice name;                         /* lives as long as origin */
    int64_t answered_s, failed_s;
    bool failing;                       /* the last call failed */
    int64_t failing_s;                  /* the first failure since it last answered; 0: none */
    slice why;                          /* the last failure, in words */
    struct origin_keys keys;            /* all empty where none are needed */
};
void origin_health(struct origin *origin, struct arena *keep, struct origin_health *ret);

/* ---- making them ---- */

struct origin_options {
    const char *name;
    const char *url;            /* of a kind in the table */
    const char *region;         /* empty: us-east-1 until a redirect tells */
    const char *style;          /* "path", "host", "auto": path for IPs and single labels */
    const char *ca_file;        /* who may vouch for https; empty: the system's store */
    const char *access_key, *secret_key, *session_token;    /* empty: as the AWS SDKs look */
    const char *secret_key_file, *session_token_file;    /* they were read from there; NULL: not */
    bool keys_optional;         /* no source of credentials is no mistake: nobody needs them */
    const char *profile;        /* AWS profile name; empty: AWS_PROFILE, then "default" */
    unsigned connections_max;   /* to this origin, over all threads; at least 1 */
    unsigned connect_ms;        /* of one try */
    unsigned progress_ms;       /* no byte for so long: the try has failed; 0: no limit */
    unsigned answer_ms;         /* the same for what changes something, once it is sent */
    unsigned wait_ms;           /* for a connection, where all are in use; 0: no limit */
    unsigned total_ms;          /* all tries; 0: no limit */
    unsigned tries_max;         /* 0 or 1: no retry */
};

/* The table of kinds, as the settings want it (url_kinds). */
const struct url_kind *origin_url_kind(size_t i);

struct origins *origins_new(unsigned threads) MUST_USE;
/* Adds one. On failure *ret_why is a sentence for people, in keep. */
enum err origins_add(struct origins *all, const struct origin_options *options, struct arena *keep,
                     struct origin **ret, slice *ret_why) MUST_USE;
/* Cancels what runs, waits for every done(), ends the threads, frees the origins. */
void origins_free(struct origins **all);

#endif
