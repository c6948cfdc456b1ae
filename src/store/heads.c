/* heads.c - recently used heads, in RAM. SPDX-License-Identifier: Apache-2.0
 *
 * A hash table cut into shards, each with a lock, buckets and a queue of what lies in it. A get
 * marks the entry as used. When the bytes of all shards together exceed the budget, shards take
 * turns in giving one up: the oldest of the queue goes, but one that was used since it was queued
 * is queued again instead (CLOCK). So the budget is one for all, and no lock is held but a shard's
 * own, for a few pointers' worth of work; heads end after it was let go. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/metric.h"
#include "store/head.h"

#define SHARDS 64u
#define BUCKETS_FIRST 16u

struct entry {
    struct head *head;
    struct entry *next;       /* in its bucket */
    struct list queued;
    bool used;                /* since it was queued */
};

struct shard {
    _Alignas(64) pthread_mutex_t lock;
    struct entry **buckets;
    size_t bucket_count, count;
    struct list queue;        /* oldest first */
};

struct heads {
    size_t budget;
    atomic_size_t bytes;
    atomic_uint hand;         /* whose turn it is to give one up */
    struct shard shards[SHARDS];
};

static size_t entry_bytes(const struct head *head)
{
    return head_bytes(head) + sizeof(struct entry) + sizeof(struct entry *);
}

/* An id is a keyed hash already: its bytes serve as they are, the first for the shard. */
static struct shard *shard_of(struct heads *heads, const struct object_id *id)
{
    return &heads->shards[id->bytes[0] % SHARDS];
}

static struct entry **bucket_of(const struct shard *shard, const struct object_id *id)
{
    uint32_t hash;
    memcpy(&hash, id->bytes + 4, sizeof(hash));
    return &shard->buckets[hash & (shard->bucket_count - 1)];
}

/* Where the pointer to the entry is, or the NULL it would stand in for. */
static struct entry **place_of(const struct shard *shard, const struct object_id *id)
{
    struct entry **at = bucket_of(shard, id);
    while (*at && memcmp((*at)->head->id.bytes, id->bytes, sizeof(id->bytes)) != 0)
        at = &(*at)->next;
    return at;
}

static void grow(struct shard *shard)
{
    struct entry **old = shard->buckets;
    shard->bucket_count = MAX(BUCKETS_FIRST, shard->bucket_count * 2);
    shard->buckets = must_alloc(shard->bucket_count * sizeof(struct entry *));
    list_each(struct entry, entry, &shard->queue, queued) {
        struct entry **bucket = bucket_of(shard, &entry->head->id);
        entry->next = *bucket;
        *bucket = entry;
    }
    free(old);
}

/* Under the lock. What it returns is out of the table and goes to entry_end without the lock. */
static struct entry *take_out(struct heads *heads, struct shard *shard, const struct object_id *id)
{
    struct entry **at = place_of(shard, id), *entry = *at;
    if (!entry)
        return NULL;
    *at = entry->next;
    list_del(&entry->queued);
    shard->count--;
    atomic_fetch_sub_explicit(&heads->bytes, entry_bytes(entry->head), memory_order_relaxed);
    return entry;
}

static void entry_end(struct entry *entry)
{
    if (!entry)
        return;
    head_unref(&entry->head);
    free(entry);
}

/* The next one to go from this shard, or NULL if it is empty. Two rounds at most. */
static struct entry *evict(struct heads *heads, struct shard *shard)
{
    while (!list_empty(&shard->queue)) {
        struct entry *oldest = list_of(shard->queue.next, struct entry, queued);
        if (!oldest->used)
            return take_out(heads, shard, &oldest->head->id);
        oldest->used = false;
        list_del(&oldest->queued);
        list_add(&shard->queue, &oldest->queued);
    }
    return NULL;
}

static void shrink(struct heads *heads)
{
    unsigned empty_in_a_row = 0;
    while (heads_bytes(heads) > heads->budget && empty_in_a_row < SHARDS) {
        unsigned turn = atomic_fetch_add_explicit(&heads->hand, 1, memory_order_relaxed);
        struct shard *shard = &heads->shards[turn % SHARDS];
        pthread_mutex_lock(&shard->lock);
        struct entry *gone = evict(heads, shard);
        pthread_mutex_unlock(&shard->lock);
        empty_in_a_row = gone ? 0 : empty_in_a_row + 1;
        metric_add(M_STORE_HEADS_EVICTED, gone != NULL);
        entry_end(gone);
    }
}

struct heads *heads_new(size_t budget_bytes)
{
    struct heads *heads = aligned_alloc(_Alignof(struct heads), sizeof(*heads));
    check(heads != NULL);
    memset(heads, 0, sizeof(*heads));
    heads->budget = budget_bytes;
    for (size_t i = 0; i < SHARDS; i++) {
        pthread_mutex_init(&heads->shards[i].lock, NULL);
        list_init(&heads->shards[i].queue);
        grow(&heads->shards[i]);
    }
    return heads;
}

void heads_free(struct heads **heads)
{
    if (!*heads)
        return;
    for (size_t i = 0; i < SHARDS; i++) {
        struct shard *shard = &(*heads)->shards[i];
        list_each_safe(struct entry, entry, &shard->queue, queued)
            entry_end(entry);
        free(shard->buckets);
        pthread_mutex_destroy(&shard->lock);
    }
    free(*heads);
    *heads = NULL;
}

struct head *heads_get(struct heads *heads, const struct object_id *id)
{
    struct shard *shard = shard_of(heads, id);
    struct head *head = NULL;
    pthread_mutex_lock(&shard->lock);
    struct entry *entry = *place_of(shard, id);
    if (entry) {
        entry->used = true;
        head = head_ref(entry->head);
    }
    pthread_mutex_unlock(&shard->lock);
    return head;
}

void heads_put(struct heads *heads, struct head *head)
{
    struct entry *entry = must_alloc(sizeof(*entry));
    entry->head = head_ref(head);
    struct shard *shard = shard_of(heads, &head->id);
    pthread_mutex_lock(&shard->lock);
    struct entry *old = take_out(heads, shard, &head->id);
    if (shard->count >= shard->bucket_count)
        grow(shard);
    struct entry **bucket = bucket_of(shard, &head->id);
    entry->next = *bucket;
    *bucket = entry;
    list_add(&shard->queue, &entry->queued);
    shard->count++;
    atomic_fetch_add_explicit(&heads->bytes, entry_bytes(head), memory_order_relaxed);
    pthread_mutex_unlock(&shard->lock);
    entry_end(old);
    shrink(heads);
}

void heads_drop(struct heads *heads, const struct object_id *id)
{
    struct shard *shard = shard_of(heads, id);
    pthread_mutex_lock(&shard->lock);
    struct entry *gone = take_out(heads, shard, id);
    pthread_mutex_unlock(&shard->lock);
    entry_end(gone);
}

void heads_clear(struct heads *heads)
{
    for (size_t i = 0; i < SHARDS; i++) {
        struct shard *shard = &heads->shards[i];
        struct entry *gone;
        do {
            pthread_mutex_lock(&shard->lock);
            bool empty = list_empty(&shard->queue);
            gone = empty ? NULL : take_out(heads, shard, &list_of(shard->queue.next, struct entry,
                                                                  queued)->head->id);
            pthread_mutex_unlock(&shard->lock);
            entry_end(gone);
        } while (gone);
    }
}

size_t heads_bytes(const struct heads *heads)
{
    return atomic_load_explicit(&heads->bytes, memory_order_relaxed);
}
