/* limiter.c - so many at once, the others in the order they came.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An origin's limit of connections holds over all threads. Who leaves hands its place straight to
 * the first in the queue, so nobody who comes later can slip in between. While somebody waits, who
 * is inside without need is asked to leave: one for each that waits, who spared its place first. */
#include "origin/limiter.h"

void limiter_init(struct limiter *limiter, unsigned most)
{
    pthread_mutex_init(&limiter->lock, NULL);
    limiter->most = MAX(most, 1u);
    limiter->inside = 0;
    limiter->waiters = limiter->pressed = 0;
    list_init(&limiter->waiting);
    list_init(&limiter->spare);
}

void limiter_end(struct limiter *limiter)
{
    check(limiter->inside == 0 && limiter->waiters == 0 && limiter->pressed == 0);
    check(list_empty(&limiter->waiting) && list_empty(&limiter->spare));
    pthread_mutex_destroy(&limiter->lock);
}

static void press(struct limiter *limiter)
{
    if (limiter->pressed >= limiter->waiters || list_empty(&limiter->spare))
        return;
    struct limiter_pass *first = list_of(limiter->spare.next, struct limiter_pass, link);
    list_del(&first->link);
    first->pressed = true;
    limiter->pressed++;
    errand_wake(first->errand);
}

static void relieve(struct limiter *limiter, struct limiter_pass *pass)
{
    limiter->pressed -= pass->pressed;
    pass->pressed = false;
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
        limiter->waiters++;
        press(limiter);
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
    limiter->waiters--;
    next->where = LIMITER_INSIDE;
    errand_wake(next->errand);
}

void limiter_spare(struct limiter *limiter, struct limiter_pass *pass)
{
    pthread_mutex_lock(&limiter->lock);
    check(pass->where == LIMITER_INSIDE && list_empty(&pass->link) && !pass->pressed);
    list_add(&limiter->spare, &pass->link);
    press(limiter);
    pthread_mutex_unlock(&limiter->lock);
}

bool limiter_stay(struct limiter *limiter, struct limiter_pass *pass, bool needs)
{
    pthread_mutex_lock(&limiter->lock);
    check(pass->where == LIMITER_INSIDE);
    bool stays = !pass->pressed || limiter->waiters == 0;    /* another may have left meanwhile */
    if (stays && pass->pressed) {
        relieve(limiter, pass);
        list_add(&limiter->spare, &pass->link);
    }
    if (needs)
        list_del(&pass->link);
    pthread_mutex_unlock(&limiter->lock);
    return stays;
}

void limiter_leave(struct limiter *limiter, struct limiter_pass *pass)
{
    pthread_mutex_lock(&limiter->lock);
    if (pass->where != LIMITER_AWAY)
        list_del(&pass->link);
    if (pass->where == LIMITER_WAITING)
        limiter->waiters--;
    relieve(limiter, pass);
    if (pass->where == LIMITER_INSIDE)
        hand_over(limiter);
    pass->where = LIMITER_AWAY;
    pthread_mutex_unlock(&limiter->lock);
}
