/* pace.c - shares a bandwidth fairly between the nodes that ask.
 * SPDX-License-Identifier: Apache-2.0
 *
 * free_ns is the time at which all bytes that were taken will have been sent, at this rate. Bytes
 * may be taken when this time has come. It lags at most BURST_NS behind the clock, so that an
 * answer that looks a little late does not lose its bandwidth. */
#include "peers/pace.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS 1000000000u
#define BURST_NS (2u * PACE_LOOK_MS * 1000000u)

struct pace_node {
    struct list link;                 /* in pace->nodes */
    struct list wait;                 /* while answers wait: in pace->waiting */
    struct list queue;                /* of its waiting answers */
    uint8_t id[NODE_ID_BYTES];
    unsigned answers;                 /* that have entered */
    uint64_t owed;
    uint64_t served;                  /* bytes that it was sent, as if it had always waited */
};

struct pace {
    pthread_mutex_t lock;
    _Atomic uint64_t rate;            /* written under the lock */
    uint64_t free_ns;
    uint64_t owed;
    uint64_t served;                  /* that of the latest node that took bytes, before it took them */
    unsigned node_count;
    struct list nodes, waiting;
};

struct pace *pace_new(uint64_t rate)
{
    struct pace *pace = must_alloc(sizeof(*pace));
    pthread_mutex_init(&pace->lock, NULL);
    atomic_store(&pace->rate, rate);
    list_init(&pace->nodes);
    list_init(&pace->waiting);
    pace->served = PACE_CREDIT_BYTES;
    return pace;
}

void pace_free(struct pace **pace)
{
    struct pace *mine = *pace;
    *pace = NULL;
    if (!mine)
        return;
    check(list_empty(&mine->nodes) && list_empty(&mine->waiting) && !mine->owed);
    pthread_mutex_destroy(&mine->lock);
    free(mine);
}

/* ---- who comes next: under the lock ---- */

static struct paced *next_of(const struct pace *pace)
{
    const struct pace_node *next = NULL;
    list_each(struct pace_node, node, &pace->waiting, wait)
        if (!next || node->served < next->served)
            next = node;
    return next ? list_of(next->queue.next, struct paced, link) : NULL;
}

/* To be called after a change, with the answer that came next before it, and the caller's own. */
static void pass_on(const struct pace *pace, const struct paced *before, const struct paced *own)
{
    const struct paced *next = next_of(pace);
    if (next && next != before && next != own)
        next->wake(next->arg);
}

static void queue_up(struct pace *pace, struct paced *paced)
{
    struct pace_node *node = paced->of;
    if (list_empty(&node->queue)) {
        list_add(&pace->waiting, &node->wait);
        node->served = MAX(node->served, pace->served - PACE_CREDIT_BYTES);
    }
    list_add(&node->queue, &paced->link);
    paced->waits = true;
}

static void stop_waiting(struct paced *paced)
{
    list_del(&paced->link);
    paced->waits = false;
    if (list_empty(&paced->of->queue))
        list_del(&paced->of->wait);
}

static void charge(struct pace *pace, struct paced *paced, uint64_t bytes, uint64_t rate,
                   uint64_t now_ns)
{
    struct pace_node *node = paced->of;
    uint64_t owed = MIN(bytes, paced->owed);
    uint64_t from_ns = MAX(pace->free_ns, now_ns > BURST_NS ? now_ns - BURST_NS : 0);
    pace->free_ns = from_ns + (rate ? bytes * SECOND_NS / rate : 0);
    pace->served = MAX(pace->served, node->served);
    node->served += bytes;
    paced->owed -= owed;
    node->owed -= owed;
    pace->owed -= owed;
}

/* ---- answers ---- */

static struct pace_node *node_of(struct pace *pace, const uint8_t id[NODE_ID_BYTES])
{
    list_each(struct pace_node, node, &pace->nodes, link)
        if (memcmp(node->id, id, NODE_ID_BYTES) == 0)
            return node;
    struct pace_node *node = must_alloc(sizeof(*node));
    memcpy(node->id, id, NODE_ID_BYTES);
    list_init(&node->queue);
    list_init(&node->wait);
    list_add(&pace->nodes, &node->link);
    pace->node_count++;
    return node;
}

static void drop_if_idle(struct pace *pace, struct pace_node *node)
{
    if (node->answers)
        return;
    check(list_empty(&node->queue) && list_empty(&node->wait) && !node->owed);
    list_del(&node->link);
    pace->node_count--;
    free(node);
}

bool pace_enter(struct pace *pace, struct paced *paced, const uint8_t id[NODE_ID_BYTES],
                uint64_t bytes)
{
    check(paced->wake && !paced->of);
    if (!atomic_load_explicit(&pace->rate, memory_order_relaxed))
        return true;
    pthread_mutex_lock(&pace->lock);
    struct pace_node *node = node_of(pace, id);
    uint64_t most = atomic_load(&pace->rate) * PACE_OWED_MS / 1000;
    bool enters = !pace->owed || pace->owed + bytes <= most ||
                  node->owed + bytes <= most / pace->node_count;
    if (enters) {
        list_init(&paced->link);
        paced->of = node;
        paced->owed = bytes;
        node->answers++;
        node->owed += bytes;
        pace->owed += bytes;
    }
    drop_if_idle(pace, node);
    pthread_mutex_unlock(&pace->lock);
    return enters;
}

void pace_resize(struct pace *pace, struct paced *paced, uint64_t bytes)
{
    struct pace_node *node = paced->of;
    if (!node)
        return;
    pthread_mutex_lock(&pace->lock);
    pace->owed += bytes - paced->owed;    /* unsigned numbers wrap around as they should */
    node->owed += bytes - paced->owed;
    paced->owed = bytes;
    pthread_mutex_unlock(&pace->lock);
}

static size_t take_most(uint64_t rate)
{
    uint64_t bytes = rate * PACE_TAKE_MS / 1000;
    return MIN(MAX(bytes, (uint64_t)PACE_TAKE_BYTES_MIN), (uint64_t)PACE_TAKE_BYTES_MAX);
}

size_t pace_take(struct pace *pace, struct paced *paced, size_t bytes, uint64_t now_ns)
{
    if (!paced->of)
        return bytes;
    pthread_mutex_lock(&pace->lock);
    uint64_t rate = atomic_load(&pace->rate);
    const struct paced *before = next_of(pace);
    size_t taken = 0;
    if (!paced->waits)
        queue_up(pace, paced);
    if (!rate || (next_of(pace) == paced && pace->free_ns <= now_ns)) {
        taken = rate ? MIN(bytes, take_most(rate)) : bytes;
        stop_waiting(paced);
        charge(pace, paced, taken, rate, now_ns);
    }
    pass_on(pace, before, paced);
    pthread_mutex_unlock(&pace->lock);
    return taken;
}

bool pace_is_next(struct pace *pace, const struct paced *paced)
{
    if (!paced->of)
        return false;
    pthread_mutex_lock(&pace->lock);
    bool is_next = next_of(pace) == paced;
    pthread_mutex_unlock(&pace->lock);
    return is_next;
}

void pace_step_back(struct pace *pace, struct paced *paced)
{
    if (!paced->of)
        return;
    pthread_mutex_lock(&pace->lock);
    const struct paced *before = next_of(pace);
    if (before == paced) {
        stop_waiting(paced);
        pass_on(pace, before, paced);
    }
    pthread_mutex_unlock(&pace->lock);
}

void pace_leave(struct pace *pace, struct paced *paced)
{
    struct pace_node *node = paced->of;
    if (!node)
        return;
    pthread_mutex_lock(&pace->lock);
    const struct paced *before = next_of(pace);
    if (paced->waits)
        stop_waiting(paced);
    pace->owed -= paced->owed;
    node->owed -= paced->owed;
    paced->of = NULL;
    node->answers--;
    pass_on(pace, before, paced);
    drop_if_idle(pace, node);
    pthread_mutex_unlock(&pace->lock);
}

void pace_set(struct pace *pace, uint64_t rate)
{
    pthread_mutex_lock(&pace->lock);
    atomic_store(&pace->rate, rate);
    pace->free_ns = 0;
    const struct paced *next = next_of(pace);
    if (next)
        next->wake(next->arg);
    pthread_mutex_unlock(&pace->lock);
}
