/* limiter.h - limits the calls in progress; other calls wait for a place.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A place is the right to use one of the connections to an origin. A call is away (it needs no
 * place), waiting, or inside (it has a place). A hedged call counts as two calls here, one for each
 * of its requests. A list is a set of calls that take turns as one: the calls of a batch, of all
 * fills of one session, or of all jobs. They share a list id. A rank says who waits for a call
 * (origin.h). */
#ifndef ORIGIN_LIMITER_H
#define ORIGIN_LIMITER_H

#include <pthread.h>

#include "origin/aimd.h"
#include "origin/errand.h"
#include "origin/origin.h"

#define LIMITER_ROWS 64u

struct limiter_queue {              /* of one rank */
    struct list turns;              /* waiting calls; of each list only the first call */
    struct list order;              /* all waiting calls, the longest wait first */
    bool by_turn;                   /* the last free place went by `turns`, the next goes by `order` */
};

struct limiter {                    /* any thread */
    pthread_mutex_t lock;
    struct aimd aimd;               /* how many may be inside now */
    unsigned inside, waiters;       /* `inside` may be above a limit that has just become lower */
    unsigned pressed;               /* number of calls inside that were asked to leave */
    struct limiter_queue queues[ORIGIN_RANKS];
    uint64_t came, given;           /* calls that have queued up, and places that waiting ones got */
    struct list firsts[LIMITER_ROWS];    /* the first call of each list, by a hash of its id */
    struct list spare;              /* calls inside that may be asked to leave, the oldest first */
};

struct limiter_call {               /* belongs to one errand; all zeroes at first */
    struct errand *errand;
    uint64_t list_id;               /* set before the call enters; 0: no list */
    enum origin_rank rank;          /* likewise; calls of a list may differ in rank */
    uint64_t number;                /* set when it queues up: limiter->came */
    struct list link;    /* entry of `turns`, of `spare`, or of another call's `behind` */
    struct list came;               /* entry of `order` */
    struct list first, behind;  /* for the first call of a list: its entry of `firsts`; the other
                                 * calls of the list */
    bool pressed;
    enum { LIMITER_AWAY, LIMITER_WAITING, LIMITER_INSIDE } where;    /* under limiter->lock */
};

void limiter_init(struct limiter *limiter, unsigned most);
void limiter_end(struct limiter *limiter);
/* Returns false if the call must wait; its errand is woken once it is inside. */
bool limiter_enter(struct limiter *limiter, struct limiter_call *call) MUST_USE;
/* For a call that has a place and could use a second one. Returns false, and does not wait, if no
 * place is free or the limit is low. */
bool limiter_enter_free(struct limiter *limiter, struct limiter_call *call) MUST_USE;
bool limiter_is_inside(struct limiter *limiter, const struct limiter_call *call) MUST_USE;
/* If the call is waiting, it goes to the end of the queue of this rank, as one of this list. */
void limiter_move(struct limiter *limiter, struct limiter_call *call, enum origin_rank rank,
                  uint64_t list_id);
/* Notes that the call does not need its place for now. Its errand is woken when another call needs
 * the place. */
void limiter_spare(struct limiter *limiter, struct limiter_call *call);
/* Returns false if another call needs the place, and this one must leave. Set `needs` if the call
 * needs its place again; then it is not asked to leave any more. */
bool limiter_stay(struct limiter *limiter, struct limiter_call *call, bool needs) MUST_USE;
void limiter_leave(struct limiter *limiter, struct limiter_call *call);    /* inside or waiting */
/* Wakes the errands of all calls that wait. */
void limiter_wake_waiting(struct limiter *limiter);

/* The origin said SlowDown: halves the limit, at most once a second, and wakes the errands of all
 * calls that wait: while the limit is low, they must call limiter_grow each second. */
void limiter_slow_down(struct limiter *limiter, uint64_t now_ms);
/* Raises a low limit by as much as has become due. Returns true if the limit is still low. */
bool limiter_grow(struct limiter *limiter, uint64_t now_ms);
void limiter_restore(struct limiter *limiter);    /* sets the limit to that of limiter_init */

#endif
