/* curl.h - HTTP exchanges with origins, and the threads that carry them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A carrier is a thread with an event loop. It runs errands: an errand is work that belongs to one
 * thread, such as a call to an origin (errand.h). An exchange is one HTTP request and its answer.
 * It belongs to an errand, and runs on the errand's thread. This file knows nothing of S3. */
#ifndef ORIGIN_CURL_H
#define ORIGIN_CURL_H

#include "origin/errand.h"
#include "origin/origin.h"

struct carriers;
/* s3_kind (s3.c) has carriers_new and carriers_free as its members shared_new and shared_free. */
void *carriers_new(unsigned threads) MUST_USE;
/* Makes carriers for another use than origins. The threads are named NAME-0, NAME-1, ... */
struct carriers *carriers_new_for(const char *name, unsigned threads) MUST_USE;
/* Returns the errands of the next carrier, for errand_enter; the carriers take turns. */
struct errands *carriers_next(struct carriers *all) MUST_USE;
/* Tells every errand to stop, and waits until all have left. */
void carriers_free(void *take_all);

/* For a server that demands a certificate, and that is known by a name that all such servers have,
 * while `connect_to` says which of them is meant. libcurl reads the files for each new connection. */
struct exchange_mutual {
    const char *cert_file, *key_file;
    const char *connect_to;         /* HOST:PORT; an IPv6 address in brackets */
};

struct exchange_ask {
    const char *method;             /* GET, HEAD, PUT, POST, DELETE, OPTIONS */
    const char *url;                /* the server to connect to, as scheme://host:port/ */
    const char *ca_file;            /* empty: the system's store */
    const struct exchange_mutual *mutual;    /* NULL: none */
    const char *target;             /* the target of the request line, byte for byte */
    const struct http_field *fields;    /* all fields but Content-Length, which follows from body */
    size_t field_count;
    const struct origin_body *body;
    bool sends_length;              /* the method has a body, which may be empty */
    bool once;    /* needs a new connection, so that the request can't arrive twice */
    bool writes;                    /* the origin should not act on the request twice */
    unsigned connect_ms, progress_ms;
    unsigned answer_ms;             /* longest silence after the whole request was sent */
    unsigned head_ms;               /* the head must come within this time after the connection is
                                     * ready; 0: no limit of its own */
};

struct exchange_end {
    enum err err;           /* ERR_CANCELED: a callback ended the exchange */
    bool reused;            /* a reused connection failed at once */
    bool sent;              /* the whole request was sent: the origin may act on it */
    const char *why;        /* libcurl's message for logs; may be empty */
};

enum exchange_take { EXCHANGE_TAKEN, EXCHANGE_PAUSE, EXCHANGE_END };

/* The callbacks are called on the carrier. They must not start, resume or drop exchanges; only
 * `end` may start one, and drop others. */
struct exchange_events {
    /* The connection is ready and nothing was sent yet. If ready() returns false, the exchange
     * ends. ready() is called again if a reused connection was dead and libcurl repeats the
     * request by itself. */
    bool (*ready)(void *arg);
    /* Gets the head of the answer; reply->tries is not set. Must not return EXCHANGE_PAUSE. */
    enum exchange_take (*head)(void *arg, const struct origin_reply *reply);
    enum exchange_take (*body)(void *arg, slice bytes);
    /* The exchange has ended and is already freed. */
    void (*end)(void *arg, const struct exchange_end *end);
};

struct exchange;
struct exchange *exchange_start(struct errand *errand, const struct exchange_ask *ask,
                                const struct exchange_events *events, void *arg) MUST_USE;
void exchange_resume(struct exchange *exchange);    /* after PAUSE or ORIGIN_LATER */
/* Returns true while the exchange waits for bytes of its request body. */
bool exchange_sends_later(const struct exchange *exchange);
void exchange_drop(struct exchange **exchange);     /* afterwards, no callback is called */

#endif
