/* limiter.h - so many at once, the others in turns.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef ORIGIN_LIMITER_H
#define ORIGIN_LIMITER_H

#include <pthread.h>

#include "origin/errand.h"

#define LIMITER_ROWS 64u

struct limiter {                    /* any thread */
    pthread_mutex_t lock;
    unsigned most, inside, waiters;
    unsigned pressed;               /* who is inside, and was asked to leave */
    bool by_turn;                   /* who came in last; the next comes by the other */
    struct list turns;              /* who waits; of a party, the first */
    struct list order;              /* all who wait, as they came */
    struct list firsts[LIMITER_ROWS];    /* those of parties again, by a hash of the party */
    struct list spare;              /* inside, and may be asked to leave; longest first */
};

struct limiter_pass {                  /* one errand's; all zeroes at start */
    struct errand *errand;
    uint64_t party;                 /* set before it enters; 0: it is alone */
    struct list link;               /* in turns, behind the first of its party, or spare */
    struct list came;               /* in order */
    struct list first, behind;      /* of a first: in firsts, and those who came after it */
    bool pressed;
    enum { LIMITER_AWAY, LIMITER_WAITING, LIMITER_INSIDE } where;    /* limiter->lock */
};

void limiter_init(struct limiter *limiter, unsigned most);
void limiter_end(struct limiter *limiter);
/* False: it waits, and its errand is woken when it is inside. */
bool limiter_enter(struct limiter *limiter, struct limiter_pass *pass) MUST_USE;
bool limiter_is_inside(struct limiter *limiter, const struct limiter_pass *pass) MUST_USE;
/* It takes turns by itself from now on, if it waits. */
void limiter_part(struct limiter *limiter, struct limiter_pass *pass);
/* It does not need its place for now: it is woken when another does. */
void limiter_spare(struct limiter *limiter, struct limiter_pass *pass);
/* False: another needs its place, and it must leave. needs: it is not to be asked any more. */
bool limiter_stay(struct limiter *limiter, struct limiter_pass *pass, bool needs) MUST_USE;
void limiter_leave(struct limiter *limiter, struct limiter_pass *pass);    /* from wherever it is */

#endif
