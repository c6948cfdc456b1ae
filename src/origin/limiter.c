/* limiter.c - so many at once, the others in the order they came.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An origin's limit of connections holds over all threads. Who leaves hands its place straight to
 * the first in the queue, so nobody who comes later can slip in between. */
#include "origin/limiter.h"

void limiter_init(struct limiter *limiter, unsigned most)
{
    pthread_mutex_init(&limiter->lock, NULL);
    limiter->most = MAX(most, 1u);
    limiter->inside = 0;
    list_init(&limiter->waiting);
}

void limiter_end(struct limiter *limiter)
{
    check(limiter->inside == 0 && list_empty(&limiter->waiting));
    pthread_mutex_destroy(&limiter->lock);
}

bool limiter_enter(struct limiter *limiter, struct limiter_pass *pass)
{
    pthread_mutex_lock(&limiter->lock);
    check(pass->where == LIMITER_AWAY);
    list_init(&pass->link);
    if (limiter->inside < limiter->most) {
        limiter->inside++;
        pass->where = LIMITER_INSIDE;
    } else {
        list_add(&limiter->waiting, &pass->link);
        pass->where = LIMITER_WAITING;
    }
    bool inside = pass->where == LIMITER_INSIDE;
    pthread_mutex_unlock(&limiter->lock);
    return inside;
}

bool limiter_is_inside(struct limiter *limiter, const struct limiter_pass *pass)
{
    pthread_mutex_lock(&limiter->lock);
    bool inside = pass->where == LIMITER_INSIDE;
    pthread_mutex_unlock(&limiter->lock);
    return inside;
}

static void hand_over(struct limiter *limiter)
{
    if (list_empty(&limiter->waiting)) {
        limiter->inside--;
        return;
    }
    struct limiter_pass *next = list_of(limiter->waiting.next, struct limiter_pass, link);
    list_del(&next->link);
    next->where = LIMITER_INSIDE;
    errand_wake(next->errand);
}

void limiter_leave(struct limiter *limiter, struct limiter_pass *pass)
{
    pthread_mutex_lock(&limiter->lock);
    if (pass->where == LIMITER_INSIDE)
        hand_over(limiter);
    else if (pass->where == LIMITER_WAITING)
        list_del(&pass->link);
    pass->where = LIMITER_AWAY;
    pthread_mutex_unlock(&limiter->lock);
}
