/* metadata_cache.c - recently used metadata, in RAM. SPDX-License-Identifier: Apache-2.0
 *
 * A hash table with shards; each shard has a lock, buckets and a queue of its entries. A get marks
 * the entry as used. When the bytes of all shards together exceed the budget, the shards take turns
 * to evict an entry: the oldest one of the queue, unless it was used since it was queued; then it
 * is queued again (CLOCK). So all shards share one budget. A thread holds only the lock of one
 * shard, and only to change a few pointers; metadata is freed after the lock was released. */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/metric.h"
#include "store/metadata.h"

#define SHARDS 64u
#define BUCKETS_FIRST 16u

struct entry {
    struct metadata *metadata;
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

struct metadata_cache {
    size_t budget;
    atomic_size_t bytes;
    atomic_uint hand;         /* whose turn it is to give one up */
    struct shard shards[SHARDS];
};

static_assert((UINT8_MAX + 1) % SHARDS == 0, "a byte of an id names each shard equally often");

static size_t entry_bytes(const struct metadata *metadata)
{
    return metadata_bytes(metadata) + sizeof(struct entry) + sizeof(struct entry *);
}

/* An id is a keyed hash already: its bytes serve as they are, the first for the shard. */
static struct shard *shard_of(struct metadata_cache *cache, const struct object_id *id)
{
    return &cache->shards[id->bytes[0] % SHARDS];
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
    while (*at && memcmp((*at)->metadata->id.bytes, id->bytes, sizeof(id->bytes)) != 0)
        at = &(*at)->next;
    return at;
}

static void grow(struct shard *shard)
{
    struct entry **old = shard->buckets;
    shard->bucket_count = MAX(BUCKETS_FIRST, shard->bucket_count * 2);
    shard->buckets = must_alloc(shard->bucket_count * sizeof(struct entry *));
    list_each(struct entry, entry, &shard->queue, queued) {
        struct entry **bucket = bucket_of(shard, &entry->metadata->id);
        entry->next = *bucket;
        *bucket = entry;
    }
    free(old);
}

/* Under the lock. What it returns is out of the table and goes to entry_end without the lock. */
static struct entry *take_out(struct metadata_cache *cache, struct shard *shard,
                              const struct object_id *id)
{
    struct entry **at = place_of(shard, id), *entry = *at;
    if (!entry)
        return NULL;
    *at = entry->next;
    list_del(&entry->queued);
    shard->count--;
    size_t bytes = entry_bytes(entry->metadata);
    check(atomic_fetch_sub_explicit(&cache->bytes, bytes, memory_order_relaxed) >= bytes);
    return entry;
}

static void entry_end(struct entry *entry)
{
    if (!entry)
        return;
    metadata_unref(&entry->metadata);
    free(entry);
}

/* The next one to go from this shard, or NULL if it is empty. Two rounds at most. */
static struct entry *evict(struct metadata_cache *cache, struct shard *shard)
{
    while (!list_empty(&shard->queue)) {
        struct entry *oldest = list_of(shard->queue.next, struct entry, queued);
        if (!oldest->used)
            return take_out(cache, shard, &oldest->metadata->id);
        oldest->used = false;
        list_del(&oldest->queued);
        list_add(&shard->queue, &oldest->queued);
    }
    return NULL;
}

/* Returns false if the shard is empty. */
static bool evict_from(struct metadata_cache *cache, struct shard *shard)
{
    pthread_mutex_lock(&shard->lock);
    struct entry *gone = evict(cache, shard);
    pthread_mutex_unlock(&shard->lock);
    entry_end(gone);
    return gone != NULL;
}

static void shrink(struct metadata_cache *cache)
{
    unsigned empty_in_a_row = 0;
    while (metadata_cache_bytes(cache) > cache->budget && empty_in_a_row < SHARDS) {
        unsigned turn = atomic_fetch_add_explicit(&cache->hand, 1, memory_order_relaxed);
        bool evicted = evict_from(cache, &cache->shards[turn % SHARDS]);
        empty_in_a_row = evicted ? 0 : empty_in_a_row + 1;
        metric_add(M_STORE_HEADS_EVICTED, evicted);
    }
}

struct metadata_cache *metadata_cache_new(size_t budget_bytes)
{
    check(budget_bytes > 0);
    struct metadata_cache *cache = aligned_alloc(_Alignof(struct metadata_cache), sizeof(*cache));
    check(cache != NULL);
    memset(cache, 0, sizeof(*cache));
    cache->budget = budget_bytes;
    for (size_t i = 0; i < SHARDS; i++) {
        pthread_mutex_init(&cache->shards[i].lock, NULL);
        list_init(&cache->shards[i].queue);
        grow(&cache->shards[i]);
    }
    return cache;
}

void metadata_cache_free(struct metadata_cache **cache)
{
    if (!*cache)
        return;
    for (size_t i = 0; i < SHARDS; i++) {
        struct shard *shard = &(*cache)->shards[i];
        list_each_safe(struct entry, entry, &shard->queue, queued)
            entry_end(entry);
        free(shard->buckets);
        pthread_mutex_destroy(&shard->lock);
    }
    free(*cache);
    *cache = NULL;
}

struct metadata *metadata_cache_get(struct metadata_cache *cache,
                                    const struct object_id *id)
{
    struct shard *shard = shard_of(cache, id);
    struct metadata *metadata = NULL;
    pthread_mutex_lock(&shard->lock);
    struct entry *entry = *place_of(shard, id);
    if (entry) {
        entry->used = true;
        metadata = metadata_ref(entry->metadata);
    }
    pthread_mutex_unlock(&shard->lock);
    return metadata;
}

void metadata_cache_put(struct metadata_cache *cache, struct metadata *metadata)
{
    struct entry *entry = must_alloc(sizeof(*entry));
    entry->metadata = metadata_ref(metadata);
    struct shard *shard = shard_of(cache, &metadata->id);
    pthread_mutex_lock(&shard->lock);
    struct entry *old = take_out(cache, shard, &metadata->id);
    if (shard->count >= shard->bucket_count)
        grow(shard);
    struct entry **bucket = bucket_of(shard, &metadata->id);
    entry->next = *bucket;
    *bucket = entry;
    list_add(&shard->queue, &entry->queued);
    shard->count++;
    atomic_fetch_add_explicit(&cache->bytes, entry_bytes(metadata), memory_order_relaxed);
    pthread_mutex_unlock(&shard->lock);
    entry_end(old);
    shrink(cache);
}

void metadata_cache_drop(struct metadata_cache *cache, const struct object_id *id)
{
    struct shard *shard = shard_of(cache, id);
    pthread_mutex_lock(&shard->lock);
    struct entry *gone = take_out(cache, shard, id);
    pthread_mutex_unlock(&shard->lock);
    entry_end(gone);
}

void metadata_cache_clear(struct metadata_cache *cache)
{
    for (size_t i = 0; i < SHARDS; i++)
        while (evict_from(cache, &cache->shards[i]))
            ;
}

size_t metadata_cache_bytes(const struct metadata_cache *cache)
{
    return atomic_load_explicit(&cache->bytes, memory_order_relaxed);
}
