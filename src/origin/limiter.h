/* limiter.h - a limit of calls at once; the other calls wait for a place.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef ORIGIN_LIMITER_H
#define ORIGIN_LIMITER_H

#include <pthread.h>

#include "origin/errand.h"

#define LIMITER_ROWS 64u

struct limiter {                    /* any thread */
    pthread_mutex_t lock;
    unsigned most, inside, waiters;
    unsigned pressed;               /* number of calls inside that were asked to leave */
    bool by_turn;                   /* the last place went by `turns`; the next goes by `order` */
    struct list turns;              /* waiting passes; of a list only the first */
    struct list order;              /* all waiting passes, in the order of coming */
    struct list firsts[LIMITER_ROWS];    /* the first pass of each list, by a hash of its id */
    struct list spare;              /* passes inside that may be asked to leave; longest first */
};

struct limiter_pass {                  /* of one errand; all zeroes at start */
    struct errand *errand;
    uint64_t list_id;               /* set before the pass enters; 0: no list */
    struct list link;               /* in turns, behind the first of its list, or in spare */
    struct list came;               /* in order */
    struct list first, behind;      /* of a list's first: link in firsts, and the passes behind */
    bool pressed;
    enum { LIMITER_AWAY, LIMITER_WAITING, LIMITER_INSIDE } where;    /* limiter->lock */
};

void limiter_init(struct limiter *limiter, unsigned most);
void limiter_end(struct limiter *limiter);
/* False: the pass waits, and its errand is woken once it is inside. */
bool limiter_enter(struct limiter *limiter, struct limiter_pass *pass) MUST_USE;
bool limiter_is_inside(struct limiter *limiter, const struct limiter_pass *pass) MUST_USE;
/* A waiting pass leaves its list, and takes turns alone from now on. */
void limiter_part(struct limiter *limiter, struct limiter_pass *pass);
/* The pass does not need its place for now. Its errand is woken when another needs the place. */
void limiter_spare(struct limiter *limiter, struct limiter_pass *pass);
/* False: another pass needs the place, and this one must leave. `needs`: the pass needs its place
 * again, so it is not asked to leave any more. */
bool limiter_stay(struct limiter *limiter, struct limiter_pass *pass, bool needs) MUST_USE;
void limiter_leave(struct limiter *limiter, struct limiter_pass *pass);    /* inside or waiting */

#endif
