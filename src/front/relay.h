/* relay.h - an answer on its way from an origin's thread to a client.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A relay is a queue of at most RELAY_BYTES_MAX. When it is full, the origin waits. */
#ifndef FRONT_RELAY_H
#define FRONT_RELAY_H

#include <pthread.h>

#include "front/inside.h"

#define RELAY_BYTES_MAX (256 * KIB)
#define RELAY_LOW_BYTES (RELAY_BYTES_MAX / 4)
#define RELAY_RANGE_BYTES (RELAY_BYTES_MAX - RELAY_LOW_BYTES)    /* room beside RELAY_LOW_BYTES */

/* Lives as long as its pass (passing.h). */
struct relay {
    pthread_mutex_t lock;         /* for the members up to `holds` */
    struct list segments;
    size_t bytes;                 /* in all segments, less the bytes that the client has taken */
    bool paused;                  /* the origin waits */
    bool spare;                   /* while the origin waits, another call may get the connection */
    bool discards;                /* drops every byte, because nobody reads them */
    bool holds;                   /* keeps the document until it is complete (relay_hold) */
    /* the members from here on are only for the loop */
    struct origin_call *origin;
    struct http_request *http;    /* NULL: the answer is not streamed, or no longer */
    uint64_t length, sent, looked;    /* looked: `sent` at the last relay_is_slow */
    size_t out;                   /* bytes on their way to the client */
    bool in_ranges;               /* the origin is asked for one range after another */
    bool ended;                   /* every byte has come */
    bool closing;                 /* the end of the body is on its way */
    void (*over)(void *arg);
    void (*wants)(void *arg);
    void *arg;
};

void relay_init(struct relay *relay, struct origin_call *origin);
void relay_free(struct relay *relay);
enum origin_take relay_put(struct relay *relay, slice bytes);    /* mostly on the origin's thread */

bool relay_is_full(struct relay *relay);    /* enough has come to stream the answer */
slice relay_whole(struct relay *relay, struct arena *keep) MUST_USE;
void relay_discard(struct relay *relay);    /* drops all bytes, now and later */
uint64_t relay_received(struct relay *relay);    /* bytes that have come, in all origin calls */
/* From now on the origin is asked for ranges. Returns true if there is no room for
 * RELAY_RANGE_BYTES yet; wants() is then called when there is. */
bool relay_waits(struct relay *relay);
void relay_spare(struct relay *relay, bool spare);    /* takes effect at the next pause */
/* True if the origin waits, and the client has taken very few bytes since the last
 * relay_is_slow. */
bool relay_is_slow(struct relay *relay);

/* Streams the answer from now on; length may be HTTP_OPEN. over() is called when the client has the
 * whole answer or has gone, but not after relay_fail. wants() is called when there is room again
 * after a pause. The caller must not touch the request any more. */
void relay_start(struct relay *relay, struct http_request *http, int status,
                 const struct fields *fields, uint64_t length, void (*over)(void *arg),
                 void (*wants)(void *arg), void *arg);
/* For a document that is to be rewritten; call it before relay_start. Only the bytes before the
 * root element are sent as they come: an origin sends blanks while it is still working.
 * relay_take_held returns the rest of the document. A document that fills the relay is no
 * longer held, and goes to the client unchanged. */
void relay_hold(struct relay *relay);
/* Takes the held document, which must be complete, so that the caller can put another one in its
 * place. Returns an empty slice if nothing was held. */
slice relay_take_held(struct relay *relay, struct arena *keep) MUST_USE;
void relay_step(struct relay *relay);       /* call it when more bytes may have come */
void relay_end(struct relay *relay);        /* every byte has come: the last one may be sent */
/* The answer will never be complete: resets the connection (rule H10 in src/README.md). */
void relay_fail(struct relay *relay);

#endif
