/* hints.c - the hints that a node has for the others, until they have them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Entries have numbers, which only grow; entry n lies in ring[n % entries]. Receivers lie in
 * chains, by the first byte of their ids, which are random. A chain that is full forgets the
 * receiver that was not heard of for the longest time; if it comes back, it counts as not known. */
#include "peers/hints.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/metric.h"

#define CHAINS 256u
#define CHAIN_MAX 64u
#define SAME_MAX 16u                  /* so many entries are compared with a new one */

struct entry {
    uint64_t at_ms;
    size_t bytes;
    uint8_t hint[];
};

struct receiver {
    struct list link;
    uint8_t id[NODE_ID_BYTES];
    uint64_t next;                    /* number of the next entry for it; below `first`: behind */
    uint64_t lost_ms;                 /* time of the latest hint that it may have missed; 0: none */
};

struct hints {
    struct hints_limits limits;
    pthread_mutex_t lock;
    struct entry **ring;
    uint64_t first, next, taken;      /* entries below `taken` were given to a receiver */
    size_t bytes;
    uint64_t dropped_ms;              /* the time of the latest entry that was dropped; 0: none */
    /* Receivers whose next entry is the first one. Only when the last of them goes on, entries can
     * be dropped. 0: not known. */
    size_t at_first;
    bool used;                        /* an entry was added, or dropped by an earlier process */
    struct list chains[CHAINS];
};

/* Returns the memory that an entry of this length takes. */
static size_t memory_of(size_t bytes)
{
    return sizeof(struct entry) + bytes;
}

struct hints *hints_new(const struct hints_limits *limits)
{
    struct hints *hints = must_alloc(sizeof(*hints));
    check(limits->entries && limits->bytes >= memory_of(HINT_BYTES_MAX));
    hints->limits = *limits;
    hints->ring = must_alloc(limits->entries * sizeof(struct entry *));
    pthread_mutex_init(&hints->lock, NULL);
    for (size_t i = 0; i < CHAINS; i++)
        list_init(&hints->chains[i]);
    return hints;
}

/* ---- under the lock ---- */

static struct entry **entry_at(struct hints *hints, uint64_t number)
{
    return &hints->ring[number % hints->limits.entries];
}

static void count_bytes(struct hints *hints, int64_t more)
{
    hints->bytes += (size_t)more;
    metric_gauge_add(M_HINTS_BYTES, more);
}

static void drop_first(struct hints *hints)
{
    struct entry **entry = entry_at(hints, hints->first++);
    count_bytes(hints, -(int64_t)memory_of((*entry)->bytes));
    hints->dropped_ms = MAX(hints->dropped_ms, (*entry)->at_ms);
    metric_gauge_add(M_HINTS_KEPT, -1);
    hints->at_first = 0;
    free(*entry);
    *entry = NULL;
}

static void drop_old(struct hints *hints, uint64_t now_ms)
{
    while (hints->first < hints->next &&
           (*entry_at(hints, hints->first))->at_ms + hints->limits.keep_ms <= now_ms)
        drop_first(hints);
}

static void make_room(struct hints *hints, size_t bytes)
{
    while (hints->first < hints->next &&
           (hints->next - hints->first == hints->limits.entries ||
            hints->bytes + memory_of(bytes) > hints->limits.bytes))
        drop_first(hints);
}

static struct receiver *find(struct hints *hints, const uint8_t id[NODE_ID_BYTES])
{
    list_each(struct receiver, receiver, &hints->chains[id[0]], link)
        if (memcmp(receiver->id, id, NODE_ID_BYTES) == 0)
            return receiver;
    return NULL;
}

static struct receiver *add_receiver(struct hints *hints, const uint8_t id[NODE_ID_BYTES])
{
    struct list *chain = &hints->chains[id[0]];
    size_t count = 0;
    list_each(struct receiver, receiver, chain, link)
        count++;
    if (count == CHAIN_MAX) {
        free(list_of(list_take(chain), struct receiver, link));
        hints->at_first = 0;
    }
    struct receiver *receiver = must_alloc(sizeof(*receiver));
    memcpy(receiver->id, id, NODE_ID_BYTES);
    receiver->next = hints->first;
    receiver->lost_ms = hints->dropped_ms;
    hints->at_first += hints->at_first > 0;
    list_add(chain, &receiver->link);
    return receiver;
}

/* Finds the receiver, which was heard of now. If it is behind, notes what it has lost. */
static struct receiver *hear_of(struct hints *hints, const uint8_t id[NODE_ID_BYTES])
{
    struct receiver *receiver = find(hints, id);
    if (!receiver)
        return add_receiver(hints, id);
    list_del(&receiver->link);
    list_add(&hints->chains[id[0]], &receiver->link);
    if (receiver->next < hints->first) {
        metric_add(M_HINTS_LOST, hints->first - receiver->next);
        receiver->next = hints->first;
        receiver->lost_ms = hints->dropped_ms;
        hints->at_first += hints->at_first > 0;
    }
    return receiver;
}

static bool is_behind(const struct hints *hints, const struct receiver *receiver)
{
    return receiver->next < hints->first;
}

/* Drops the entries that all receivers have that are not behind. */
static void settle(struct hints *hints)
{
    uint64_t least = UINT64_MAX;
    size_t count = 0;
    for (size_t i = 0; i < CHAINS; i++)
        list_each(struct receiver, receiver, &hints->chains[i], link) {
            if (is_behind(hints, receiver) || receiver->next > least)
                continue;
            count = receiver->next < least ? 1 : count + 1;
            least = receiver->next;
        }
    while (least != UINT64_MAX && hints->first < least)
        drop_first(hints);
    hints->at_first = count;
}

/* The receiver has all entries below `next`. */
static void go_on(struct hints *hints, struct receiver *receiver, uint64_t next)
{
    bool was_at_first = receiver->next == hints->first;
    if (next <= receiver->next)
        return;
    receiver->next = next;
    if (hints->at_first > 1)
        hints->at_first -= was_at_first;
    else if (was_at_first || !hints->at_first)
        settle(hints);
}

static bool is_there(struct hints *hints, const uint8_t *hint, size_t bytes)
{
    uint64_t oldest = MAX(hints->first, hints->taken);
    for (uint64_t i = hints->next, n = 0; i > oldest && n < SAME_MAX; i--, n++) {
        const struct entry *entry = *entry_at(hints, i - 1);
        if (entry->bytes == bytes && memcmp(entry->hint, hint, bytes) == 0)
            return true;
    }
    return false;
}

static void push(struct hints *hints, const uint8_t *hint, size_t bytes, uint64_t now_ms)
{
    struct entry *entry = must_alloc(memory_of(bytes));
    entry->at_ms = now_ms;
    entry->bytes = bytes;
    memcpy(entry->hint, hint, bytes);
    *entry_at(hints, hints->next++) = entry;
    count_bytes(hints, (int64_t)memory_of(bytes));
    metric_gauge_add(M_HINTS_KEPT, 1);
    metric_add(M_HINTS_QUEUED, 1);
}

/* ---- the interface ---- */

void hints_free(struct hints **hints)
{
    struct hints *mine = *hints;
    *hints = NULL;
    if (!mine)
        return;
    while (mine->first < mine->next)
        drop_first(mine);
    for (size_t i = 0; i < CHAINS; i++)
        while (!list_empty(&mine->chains[i]))
            free(list_of(list_take(&mine->chains[i]), struct receiver, link));
    pthread_mutex_destroy(&mine->lock);
    free(mine->ring);
    free(mine);
}

void hints_inherit(struct hints *hints, const uint8_t (*ids)[NODE_ID_BYTES], size_t count,
                   uint64_t now_ms)
{
    check(!hints->used && now_ms);
    for (size_t i = 0; i < count; i++)
        if (!find(hints, ids[i]))
            (void)add_receiver(hints, ids[i]);    /* which has lost nothing */
    hints->used = true;
    hints->dropped_ms = now_ms;
}

void hints_meet(struct hints *hints, const uint8_t id[NODE_ID_BYTES])
{
    pthread_mutex_lock(&hints->lock);
    (void)hear_of(hints, id);
    pthread_mutex_unlock(&hints->lock);
}

void hints_add(struct hints *hints, const struct hint *hint, uint64_t now_ms)
{
    uint8_t written[HINT_BYTES_MAX];
    size_t bytes = hint_write(hint, written);
    pthread_mutex_lock(&hints->lock);
    hints->used = true;
    if (!is_there(hints, written, bytes)) {
        drop_old(hints, now_ms);
        make_room(hints, bytes);
        push(hints, written, bytes, now_ms);
    }
    pthread_mutex_unlock(&hints->lock);
}

bool hints_wait(struct hints *hints, const uint8_t id[NODE_ID_BYTES])
{
    pthread_mutex_lock(&hints->lock);
    const struct receiver *receiver = find(hints, id);
    bool wait = receiver ? receiver->next < hints->next || receiver->lost_ms
                         : hints->first < hints->next || hints->dropped_ms;
    pthread_mutex_unlock(&hints->lock);
    return wait;
}

/* Adds the entries from `number` on that have room. */
static void add_entries(struct hints *hints, uint64_t number, struct text *to,
                        struct hints_taken *ret)
{
    size_t end = to->len + HINT_BATCH_BYTES_MAX - sizeof(uint64_t);
    for (; number < hints->next && ret->count < HINT_BATCH_MAX; number++, ret->count++) {
        const struct entry *entry = *entry_at(hints, number);
        if (to->len + entry->bytes > end)
            break;
        text_add(to, (slice){ (const char *)entry->hint, entry->bytes });
    }
    ret->next = number;
    ret->full = number < hints->next;
    hints->taken = MAX(hints->taken, number);
}

bool hints_take(struct hints *hints, const uint8_t id[NODE_ID_BYTES], uint64_t now_ms,
                struct text *to, struct hints_taken *ret)
{
    pthread_mutex_lock(&hints->lock);
    drop_old(hints, now_ms);
    const struct receiver *receiver = hear_of(hints, id);
    bool some = receiver->next < hints->next || receiver->lost_ms;
    *ret = (struct hints_taken){ .lost_ms = receiver->lost_ms };
    if (some) {
        uint64_t age_ms = receiver->lost_ms ? now_ms - MIN(receiver->lost_ms, now_ms)
                                            : HINT_AGE_NONE;
        text_add(to, (slice){ (const char *)&age_ms, sizeof(age_ms) });
        add_entries(hints, receiver->next, to, ret);
    }
    pthread_mutex_unlock(&hints->lock);
    return some;
}

void hints_followed(struct hints *hints, const uint8_t id[NODE_ID_BYTES],
                    const struct hints_taken *taken)
{
    pthread_mutex_lock(&hints->lock);
    struct receiver *receiver = find(hints, id);
    if (receiver) {
        metric_add(M_HINTS_DELIVERED, taken->count);
        if (receiver->lost_ms == taken->lost_ms)    /* no more meanwhile */
            receiver->lost_ms = 0;
        go_on(hints, receiver, taken->next);
    }
    pthread_mutex_unlock(&hints->lock);
}

bool hints_settled(struct hints *hints, struct arena *keep, uint8_t (**ret)[NODE_ID_BYTES],
                   size_t *ret_count)
{
    *ret = NULL;
    *ret_count = 0;
    pthread_mutex_lock(&hints->lock);
    for (size_t i = 0; i < CHAINS; i++)
        list_each(struct receiver, receiver, &hints->chains[i], link) {
            if (receiver->next < hints->next || receiver->lost_ms)
                continue;
            *ret = arena_grow(keep, *ret, *ret_count, NODE_ID_BYTES);
            memcpy((*ret)[(*ret_count)++], receiver->id, NODE_ID_BYTES);
        }
    bool used = hints->used;
    pthread_mutex_unlock(&hints->lock);
    return used;
}
