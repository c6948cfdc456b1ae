/* relay.h - an answer on its way from an origin's thread to a client.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It holds what has come, at most some 100 KiB, and makes the origin wait for more. */
#ifndef FRONT_RELAY_H
#define FRONT_RELAY_H

#include <pthread.h>

#include "front/inside.h"

#define RELAY_BYTES_MAX (256 * KIB)
#define RELAY_LOW_BYTES (RELAY_BYTES_MAX / 4)
#define RELAY_PIECE_BYTES (RELAY_BYTES_MAX - RELAY_LOW_BYTES)    /* has room when it is low */

/* A part of whoever relays, and as long there as the origin's call. */
struct relay {
    pthread_mutex_t lock;         /* for what follows */
    struct list pieces;
    size_t bytes;
    bool paused;                  /* the origin waits */
    bool in_pieces;               /* what comes is asked for piece by piece */
    bool spare;                   /* ... and may give its connection to another meanwhile */
    uint64_t put;                 /* bytes that have come, of all calls */
    bool discards;                /* nobody reads it any more */
    bool ended;                   /* all has come */
    bool holds;                   /* what it is to become is not known before that */
    /* the loop's */
    struct origin_call *origin;
    struct http_request *http;    /* while it is being answered in pieces */
    uint64_t length, sent, looked;    /* looked: what was sent at the last look */
    size_t out;                   /* bytes on their way to the client */
    bool is_open, closing;
    void (*over)(void *arg);
    void (*wants)(void *arg);
    void *arg;
};

void relay_init(struct relay *relay, struct origin_call *origin);
void relay_free(struct relay *relay);
enum origin_take relay_put(struct relay *relay, slice bytes);    /* on the origin's thread */

bool relay_is_full(struct relay *relay);    /* so much has come that it should be streamed */
slice relay_whole(struct relay *relay, struct arena *keep) MUST_USE;
void relay_discard(struct relay *relay);    /* what there is, and what comes */
uint64_t relay_put_bytes(struct relay *relay);    /* that have come */
/* From now on it comes in pieces. Is there no room for one of RELAY_PIECE_BYTES? Then wants() comes
 * when there is. */
bool relay_waits(struct relay *relay);
void relay_spare(struct relay *relay, bool spare);    /* from the next pause on */
/* The origin waits, and since the last look the client has hardly taken anything. */
bool relay_is_slow(struct relay *relay);

/* Answers in pieces from now on; length may be HTTP_OPEN. over() comes when the client has all or
 * has gone, not after relay_fail; wants() when there is room again after a pause. The request is
 * not to be touched any more. */
void relay_start(struct relay *relay, struct http_request *http, int status,
                 const struct fields *fields, uint64_t length, void (*over)(void *arg),
                 void (*wants)(void *arg), void *arg);
/* Before relay_start: of a document only what stands in front of its root goes out as it comes, the
 * blanks of an origin that works on; the rest is for relay_take_held, unless it grows long. */
void relay_hold(struct relay *relay);
/* What was held, all of which has come: another may be put in its place. Empty: nothing was. */
slice relay_take_held(struct relay *relay, struct arena *keep) MUST_USE;
void relay_step(struct relay *relay);       /* more may have come */
void relay_end(struct relay *relay);        /* all has come: the last byte may go */
void relay_fail(struct relay *relay);       /* H10: it will never be whole */

#endif
