/* limiter.h - so many at once, the others in the order they came.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef ORIGIN_LIMITER_H
#define ORIGIN_LIMITER_H

#include <pthread.h>

#include "origin/errand.h"

struct limiter {                    /* any thread */
    pthread_mutex_t lock;
    unsigned most, inside;
    struct list waiting;
};

struct limiter_pass {                  /* one errand's; all zeroes at start */
    struct errand *errand;
    struct list link;
    enum { LIMITER_AWAY, LIMITER_WAITING, LIMITER_INSIDE } where;    /* limiter->lock */
};

void limiter_init(struct limiter *limiter, unsigned most);
void limiter_end(struct limiter *limiter);
/* False: it waits, and its errand is woken when it is inside. */
bool limiter_enter(struct limiter *limiter, struct limiter_pass *pass) MUST_USE;
bool limiter_is_inside(struct limiter *limiter, const struct limiter_pass *pass) MUST_USE;
void limiter_leave(struct limiter *limiter, struct limiter_pass *pass);    /* from wherever it is */

#endif
