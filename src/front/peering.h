/* peering.h - one question of a peer, for the files that answer it.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   peer.c          the app: which questions are answered at all
 *   peer_answer.c   a get (cache/get.h) becomes frames (peers/frame.h)
 *   peer_hints.c    hints of writes, changes of rights and purges (peers/hint.h) are followed
 *   peer_span.c     the trace of the question
 *
 * Everything here runs on the loop that accepted the request. */
#ifndef FRONT_PEERING_H
#define FRONT_PEERING_H

#include "base/metric.h"
#include "front/inside.h"
#include "front/peer.h"
#include "peers/frame.h"
#include "peers/pace.h"
#include "peers/question.h"

/* A send has at most this many DATA frames: 1 MiB. */
#define PEER_SEND_FRAMES 16u

struct peer_server {
    struct peer_options options;
    struct pace *pace;            /* of peer_bandwidth, over all loops */
    atomic_uint requests;         /* in progress, over all loops */
    atomic_uint batches;          /* of hints, the same */
    struct workers *purgers;      /* threads that purge for peers */
    _Atomic uint64_t logged_ms;   /* when a refusal was last logged; 0: never */
};

/* The bytes of an answer, from its HEAD on. */
struct peer_body {
    slice head;                   /* payload of the HEAD; empty: it was sent */
    uint64_t next, end;           /* offsets in the object: [next, end) is still to be sent */
    uint32_t seed;
    uint64_t sent;                /* bytes of the object that were given to sends */
    slice piece;                  /* bytes of the get from `next` on, not sent yet */
    /* Of the send in progress: HEAD, DATA, END. */
    uint8_t frames[PEER_SEND_FRAMES + 2][FRAME_BYTES];
};

/* Lies in the arena of its HTTP request. */
struct peer_answer {
    struct peer_server *server;
    struct http_request *http;
    struct arena *keep;
    struct peer_question question;
    struct get *get;              /* NULL: it has ended */
    struct http_timer *timer;
    struct answer_pace {
        struct paced paced;
        struct ticket *ticket;    /* wakes the answer when it comes next */
        struct http_timer *look;
    } pace;
    bool acknowledged;            /* the answer has begun, with "have" or "fetching" */
    bool decided;                 /* `body` is set */
    bool sending;                 /* wait for proceed() */
    bool ended;                   /* the last frame was given to a send */
    enum metric result;           /* what it counts as, if it is complete */
    struct trace trace;           /* of the question; trace.span: of its answer */
    struct peer_body body;
};

/* ---- peer.c ---- */
/* Sends a whole answer without frames. `why` is a word, or a sentence, for the peer's log. */
void peer_reply(struct http_request *http, int status, slice why);

/* Logs a refusal or failure that an operator should see, at most once a second. */
bool peer_may_log(struct peer_server *server);

/* ---- peer_hints.c ---- */
/* True for the head of a batch of hints whose body may be read. */
bool peer_hints_fit(const struct request_head *head);
/* Takes a request for which peer_hints_fit was true. */
void peer_hints_follow(struct peer_server *server, struct http_request *http);
/* The function of server->purgers. */
bool peer_hints_purge(struct list *link);
/* ---- peer_span.c ---- */
/* Reads the trace of the question, and begins the span of its answer, if the trace is recorded. */
void peer_span_begin(struct peer_answer *answer);
void peer_span_end(struct peer_answer *answer, const struct http_outcome *outcome);

/* ---- peer_answer.c ---- */
/* Takes the request. The question is valid, and `rules` are those of its object. TLS has proved
 * that the sender is a peer, and a peer may read all that the shared identity may read. Returns
 * false, and takes nothing, if peer_bandwidth has no room. */
bool peer_answer_begin(struct peer_server *server, struct http_request *http,
                       const struct peer_question *question, const struct rules *rules) MUST_USE;

#endif
