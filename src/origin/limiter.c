/* limiter.c - limits the calls in progress; other calls wait for a place.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The limit of connections to an origin holds for all threads together. A call that leaves gives
 * its place directly to a waiting call, so no call that comes later can take it first.
 *
 * A list is a set of calls that take turns as one: the calls of a batch, of all fills of one
 * session, or of all jobs. They have the same list id. A list has one entry in the queue of turns; after its turn, its
 * next call goes to the end of that queue. So a list delays the calls behind it by one item, not by
 * all its items. But every second free place goes to the call that has waited longest. Without this
 * rule, if a hundred single calls are always waiting, a list would get only one place in a hundred.
 * No call waits more than twice as long as it would if every place went by turns, or if every place
 * went to the longest wait.
 *
 * Each rank has queues of its own, and a free place goes to the lowest rank that waits: readers first,
 * then read-ahead, then jobs. But every eighth place goes to the rank whose call has waited longest.
 * Without this rule, an endless crowd of readers would stop all jobs.
 *
 * The cost of a place does not grow with the number of waiting calls: a hash finds the first call of a
 * list, and the other calls of the list are linked to it.
 *
 * If the origin says SlowDown, the limit becomes lower (aimd.h). Calls that are inside go on, and
 * places that become free are not given away until fewer calls are inside than the limit allows.
 *
 * While calls wait, the limiter asks other calls to leave: calls that have a place but do not need
 * it now. It asks at most as many as are waiting, and first the call whose place has been spare
 * longest. */
#include "origin/limiter.h"

#include <assert.h>

#include "base/metric.h"

#define BY_WAIT_EVERY 8u

void limiter_init(struct limiter *limiter, unsigned most)
{
    *limiter = (struct limiter){ 0 };
    aimd_init(&limiter->aimd, most);
    metric_gauge_add(M_ORIGIN_LIMIT, most);
    pthread_mutex_init(&limiter->lock, NULL);
    for (size_t i = 0; i < ORIGIN_RANKS; i++) {
        list_init(&limiter->queues[i].turns);
        list_init(&limiter->queues[i].order);
    }
    list_init(&limiter->spare);
    for (size_t i = 0; i < LIMITER_ROWS; i++)
        list_init(&limiter->firsts[i]);
}

void limiter_end(struct limiter *limiter)
{
    check(limiter->inside == 0 && limiter->waiters == 0 && limiter->pressed == 0);
    for (size_t i = 0; i < ORIGIN_RANKS; i++)
        check(list_empty(&limiter->queues[i].turns) && list_empty(&limiter->queues[i].order));
    check(list_empty(&limiter->spare));
    metric_gauge_add(M_ORIGIN_LIMIT, -(int64_t)limiter->aimd.limit);
    pthread_mutex_destroy(&limiter->lock);
}

/* ---- the queue ---- */

static struct list *row_of(struct limiter *limiter, uint64_t list_id)
{
    return &limiter->firsts[(list_id * 0x9e3779b97f4a7c15u) >> 58];
}
static_assert(LIMITER_ROWS == 1u << (64 - 58), "one row for each value of the six highest bits");

/* A list whose calls have several ranks has an entry in the queue of each. */
static struct limiter_call *first_of(struct limiter *limiter, const struct limiter_call *like)
{
    list_each(struct limiter_call, call, row_of(limiter, like->list_id), first)
        if (call->list_id == like->list_id && call->rank == like->rank)
            return call;
    return NULL;
}

static void queue_up(struct limiter *limiter, struct limiter_call *call)
{
    struct limiter_queue *queue = &limiter->queues[call->rank];
    struct limiter_call *first = call->list_id ? first_of(limiter, call) : NULL;
    list_add(first ? &first->behind : &queue->turns, &call->link);
    if (!first && call->list_id)
        list_add(row_of(limiter, call->list_id), &call->first);
    list_add(&queue->order, &call->came);
    call->number = limiter->came++;
    call->where = LIMITER_WAITING;
    limiter->waiters++;
}

/* Takes a call out of the queue. The next call of its list goes to the end of `turns` if this call
 * `had_turn`, otherwise to the place of this call in `turns`. */
static void step_out(struct limiter *limiter, struct limiter_call *call, bool had_turn)
{
    struct list *before = had_turn ? &limiter->queues[call->rank].turns : call->link.next;
    list_del(&call->link);
    list_del(&call->first);
    list_del(&call->came);
    check(limiter->waiters > 0);
    limiter->waiters--;
    if (list_empty(&call->behind))
        return;
    struct limiter_call *next = list_of(list_take(&call->behind), struct limiter_call, link);
    list_move(&next->behind, &call->behind);
    list_add(before, &next->link);
    list_add(row_of(limiter, next->list_id), &next->first);
}

/* ---- places ---- */

static void press(struct limiter *limiter)
{
    if (limiter->pressed >= limiter->waiters || list_empty(&limiter->spare))
        return;
    struct limiter_call *first = list_of(list_take(&limiter->spare), struct limiter_call, link);
    first->pressed = true;
    limiter->pressed++;
    errand_wake(first->errand);
}

static void relieve(struct limiter *limiter, struct limiter_call *call)
{
    check(!call->pressed || limiter->pressed > 0);
    limiter->pressed -= call->pressed;
    call->pressed = false;
}

/* Gives the call a place, if one is free. */
static bool come_in(struct limiter *limiter, struct limiter_call *call)
{
    check(call->where == LIMITER_AWAY && call->errand);
    list_init(&call->link);
    list_init(&call->first);
    list_init(&call->behind);
    list_init(&call->came);
    if (limiter->inside >= limiter->aimd.limit)
        return false;
    limiter->inside++;
    call->where = LIMITER_INSIDE;
    return true;
}

bool limiter_enter(struct limiter *limiter, struct limiter_call *call)
{
    pthread_mutex_lock(&limiter->lock);
    bool inside = come_in(limiter, call);
    if (!inside) {
        queue_up(limiter, call);
        press(limiter);
    }
    pthread_mutex_unlock(&limiter->lock);
    return inside;
}

bool limiter_enter_free(struct limiter *limiter, struct limiter_call *call)
{
    pthread_mutex_lock(&limiter->lock);
    bool inside = limiter->aimd.limit == limiter->aimd.most && come_in(limiter, call);
    pthread_mutex_unlock(&limiter->lock);
    return inside;
}

bool limiter_is_inside(struct limiter *limiter, const struct limiter_call *call)
{
    pthread_mutex_lock(&limiter->lock);
    bool inside = call->where == LIMITER_INSIDE;
    pthread_mutex_unlock(&limiter->lock);
    return inside;
}

static uint64_t longest_wait(const struct limiter_queue *queue)
{
    return list_of(queue->order.next, struct limiter_call, came)->number;
}

/* The queue that gets the next free place: somebody waits. */
static struct limiter_queue *next_queue(struct limiter *limiter)
{
    struct limiter_queue *next = NULL;
    bool by_wait = ++limiter->given % BY_WAIT_EVERY == 0;
    for (size_t i = 0; i < ORIGIN_RANKS; i++) {
        struct limiter_queue *queue = &limiter->queues[i];
        if (!list_empty(&queue->order) &&
            (!next || (by_wait && longest_wait(queue) < longest_wait(next))))
            next = queue;
    }
    return next;
}

static void admit_next(struct limiter *limiter)
{
    struct limiter_queue *queue = next_queue(limiter);
    queue->by_turn = !queue->by_turn;
    struct limiter_call *next = queue->by_turn
                                ? list_of(queue->turns.next, struct limiter_call, link)
                                : list_of(queue->order.next, struct limiter_call, came);
    step_out(limiter, next, queue->by_turn);
    next->where = LIMITER_INSIDE;
    limiter->inside++;
    errand_wake(next->errand);
}

static void admit_waiting(struct limiter *limiter)
{
    while (limiter->inside < limiter->aimd.limit && limiter->waiters)
        admit_next(limiter);
}

static void hand_over(struct limiter *limiter)
{
    check(limiter->inside > 0 && limiter->inside <= limiter->aimd.most);
    limiter->inside--;
    admit_waiting(limiter);
}

void limiter_move(struct limiter *limiter, struct limiter_call *call, enum origin_rank rank,
                  uint64_t list_id)
{
    pthread_mutex_lock(&limiter->lock);
    if (call->where == LIMITER_WAITING && (call->rank != rank || call->list_id != list_id)) {
        step_out(limiter, call, false);
        call->rank = rank;
        call->list_id = list_id;
        queue_up(limiter, call);
    }
    pthread_mutex_unlock(&limiter->lock);
}

void limiter_spare(struct limiter *limiter, struct limiter_call *call)
{
    pthread_mutex_lock(&limiter->lock);
    check(call->where == LIMITER_INSIDE && list_empty(&call->link) && !call->pressed);
    list_add(&limiter->spare, &call->link);
    press(limiter);
    pthread_mutex_unlock(&limiter->lock);
}

bool limiter_stay(struct limiter *limiter, struct limiter_call *call, bool needs)
{
    pthread_mutex_lock(&limiter->lock);
    check(call->where == LIMITER_INSIDE);
    bool stays = !call->pressed || limiter->waiters == 0;    /* the waiting calls may have left */
    if (stays && call->pressed) {
        relieve(limiter, call);
        list_add(&limiter->spare, &call->link);
    }
    if (needs)
        list_del(&call->link);
    pthread_mutex_unlock(&limiter->lock);
    return stays;
}

void limiter_leave(struct limiter *limiter, struct limiter_call *call)
{
    pthread_mutex_lock(&limiter->lock);
    if (call->where == LIMITER_WAITING)
        step_out(limiter, call, false);
    if (call->where == LIMITER_INSIDE)
        list_del(&call->link);
    relieve(limiter, call);
    if (call->where == LIMITER_INSIDE)
        hand_over(limiter);
    call->where = LIMITER_AWAY;
    pthread_mutex_unlock(&limiter->lock);
}

static void wake_waiting(struct limiter *limiter)
{
    for (size_t i = 0; i < ORIGIN_RANKS; i++)
        list_each(struct limiter_call, call, &limiter->queues[i].order, came)
            errand_wake(call->errand);
}

void limiter_wake_waiting(struct limiter *limiter)
{
    pthread_mutex_lock(&limiter->lock);
    wake_waiting(limiter);
    pthread_mutex_unlock(&limiter->lock);
}

/* ---- the limit ---- */

static void count_change(const struct limiter *limiter, unsigned before)
{
    metric_gauge_add(M_ORIGIN_LIMIT, (int64_t)limiter->aimd.limit - (int64_t)before);
}

void limiter_slow_down(struct limiter *limiter, uint64_t now_ms)
{
    pthread_mutex_lock(&limiter->lock);
    unsigned before = limiter->aimd.limit;
    bool shrunk = aimd_shrink(&limiter->aimd, now_ms);
    count_change(limiter, before);
    if (shrunk)
        wake_waiting(limiter);
    pthread_mutex_unlock(&limiter->lock);
}

bool limiter_grow(struct limiter *limiter, uint64_t now_ms)
{
    pthread_mutex_lock(&limiter->lock);
    unsigned before = limiter->aimd.limit;
    aimd_grow(&limiter->aimd, now_ms);
    count_change(limiter, before);
    admit_waiting(limiter);
    bool low = limiter->aimd.limit < limiter->aimd.most;
    pthread_mutex_unlock(&limiter->lock);
    return low;
}

void limiter_restore(struct limiter *limiter)
{
    pthread_mutex_lock(&limiter->lock);
    unsigned before = limiter->aimd.limit;
    aimd_restore(&limiter->aimd);
    count_change(limiter, before);
    admit_waiting(limiter);
    pthread_mutex_unlock(&limiter->lock);
}
