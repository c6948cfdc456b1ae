/* curl.h - HTTP exchanges with origins, and the threads that carry them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A carrier is a thread with an event loop, which does errands (errand.h). An exchange is one HTTP
 * request and its answer, carried for an errand on its thread. This knows nothing of S3. */
#ifndef ORIGIN_CURL_H
#define ORIGIN_CURL_H

#include "origin/errand.h"
#include "origin/origin.h"

struct carriers;
struct carriers *carriers_new(unsigned threads) MUST_USE;
/* The carriers take turns: who enters here does its errand on the next one's thread. */
struct errands *carriers_next(struct carriers *all) MUST_USE;
/* Tells every errand to stop; waits until all have left. */
void carriers_free(struct carriers **all);

struct exchange_ask {
    const char *method;             /* GET, HEAD, PUT, POST, DELETE */
    const char *url;                /* scheme://host:port/ : where to connect */
    const char *ca_file;            /* empty: the system's store */
    const char *target;             /* what the request line says, byte for byte */
    const struct http_field *fields;    /* all that is sent; Content-Length comes from the body */
    size_t field_count;
    const struct origin_body *body;
    bool sends_length;              /* a method that carries a body, if only an empty one */
    bool once;                      /* it must not reach the origin twice: no reused connection */
    bool writes;                    /* it must not twice be acted upon, as far as one can tell */
    unsigned connect_ms, progress_ms;
    unsigned answer_ms;             /* it may be silent for so long once the request is out */
};

struct exchange_head {
    int status;
    bool has_length;
    uint64_t length;
    const struct http_field *fields;    /* names in lower case */
    size_t field_count;
    uint64_t first_byte_ns;
};

struct exchange_end {
    enum err err;           /* ERR_CANCELED: a callback wished it */
    bool reused;            /* it failed at once on a connection that had served before */
    bool sent;              /* all of the request: the origin may have acted upon it */
    const char *why;        /* libcurl's words, may be empty; for logs */
};

enum exchange_take { EXCHANGE_TAKEN, EXCHANGE_PAUSE, EXCHANGE_END };

/* All on the carrier. Whatever a callback does, it does not start, resume or drop exchanges. */
struct exchange_events {
    /* A connection is there and nothing was sent on it; false ends the exchange. Comes again when
     * libcurl repeats by itself, after a connection that had served before turned out dead. */
    bool (*ready)(void *arg);
    /* PAUSE is no answer to a head. */
    enum exchange_take (*head)(void *arg, const struct exchange_head *head);
    enum exchange_take (*body)(void *arg, slice bytes);
    /* The exchange is no more; here another may be started. */
    void (*end)(void *arg, const struct exchange_end *end);
};

struct exchange;
struct exchange *exchange_start(struct errand *errand, const struct exchange_ask *ask,
                                const struct exchange_events *events, void *arg) MUST_USE;
void exchange_resume(struct exchange *exchange);
void exchange_drop(struct exchange **exchange);     /* no callback comes any more */

#endif
