/* metadata_cache.c - recently used metadata, in RAM. SPDX-License-Identifier: Apache-2.0
 *
 * A hash table with shards; each shard has a lock, buckets and a queue of its entries. A get marks
 * the entry as used. When the bytes of all shards together exceed the budget, the shards take turns
 * to evict an entry: the oldest one of the queue, unless it was used since it was queued; then it
 * is queued again (CLOCK). So all shards share one budget.
 *
 * A get that finds the entry takes no lock: it follows the chain of a bucket in a read epoch
 * (read_epoch.h), and takes a reference to the metadata there. While a shard grows, its entries
 * move to other chains, and a get may miss an entry that is there. So a get that finds nothing
 * looks again under the lock. A chain never has a cycle meanwhile: an entry that has moved is
 * followed only by entries that have moved before it.
 *
 * A thread holds only the lock of one shard, and only to change a few pointers. An entry that it
 * took out of the table is freed after the lock was released and the read epochs of that time have
 * ended. */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/metric.h"
#include "base/read_epoch.h"
#include "store/metadata.h"

#define SHARDS 64u
#define BUCKETS_FIRST 16u

/* A get first reads what stands first, so that it mostly waits for one cache line. */
struct entry {
    _Atomic(struct entry *) next;     /* in its bucket */
    struct object_id id;              /* of the metadata: a get follows no pointer to compare it */
    struct metadata *metadata;
    atomic_bool used;         /* a get found it since it was queued */
    struct list queued;
};

struct buckets {
    size_t count;             /* a power of 2 */
    _Atomic(struct entry *) first[];
};

/* All changes are made under the lock. */
struct shard {
    _Alignas(64) pthread_mutex_t lock;
    _Atomic(struct buckets *) buckets;
    size_t count;
    struct list queue;        /* oldest first */
};

struct metadata_cache {
    size_t budget;
    struct read_epochs *epochs;
    atomic_size_t bytes;
    atomic_uint hand;         /* the shard that evicts next */
    struct shard shards[SHARDS];
};

static_assert((UINT8_MAX + 1) % SHARDS == 0, "a byte of an id names each shard equally often");

static size_t entry_bytes(const struct metadata *metadata)
{
    return metadata_bytes(metadata) + sizeof(struct entry) + 2 * sizeof(struct entry *);
}

/* An id is a keyed hash, so its bytes need no further hash. The first one selects the shard. */
static struct shard *shard_of(struct metadata_cache *cache, const struct object_id *id)
{
    return &cache->shards[id->bytes[0] % SHARDS];
}

static _Atomic(struct entry *) *bucket_of(struct shard *shard, const struct object_id *id)
{
    struct buckets *buckets = atomic_load(&shard->buckets);
    uint32_t hash;
    memcpy(&hash, id->bytes + 4, sizeof(hash));
    return &buckets->first[hash & (buckets->count - 1)];
}

static bool is_of(const struct entry *entry, const struct object_id *id)
{
    return memcmp(entry->id.bytes, id->bytes, sizeof(id->bytes)) == 0;
}

/* Finds the pointer to the entry, or the NULL at the end of its bucket. Under the lock. */
static _Atomic(struct entry *) *place_of(struct shard *shard, const struct object_id *id)
{
    _Atomic(struct entry *) *at = bucket_of(shard, id);
    for (struct entry *entry; (entry = atomic_load(at)) && !is_of(entry, id);)
        at = &entry->next;
    return at;
}

static void put_first(struct shard *shard, struct entry *entry)
{
    _Atomic(struct entry *) *bucket = bucket_of(shard, &entry->id);
    atomic_store(&entry->next, atomic_load(bucket));
    atomic_store(bucket, entry);
}

/* Under the lock. Returns the old buckets, which readers may still follow; or NULL. */
static struct buckets *grow(struct shard *shard)
{
    struct buckets *old = atomic_load(&shard->buckets);
    size_t count = old ? old->count * 2 : BUCKETS_FIRST;
    struct buckets *buckets = must_alloc(sizeof(*buckets) + count * sizeof(buckets->first[0]));
    buckets->count = count;
    atomic_store(&shard->buckets, buckets);
    list_each(struct entry, entry, &shard->queue, queued)
        put_first(shard, entry);
    return old;
}

/* Takes an entry out of the table. Under the lock. After its release, the caller must pass the
 * entry to entry_end. */
static struct entry *take_out(struct metadata_cache *cache, struct shard *shard,
                              const struct object_id *id)
{
    _Atomic(struct entry *) *at = place_of(shard, id);
    struct entry *entry = atomic_load(at);
    if (!entry)
        return NULL;
    atomic_store(at, atomic_load(&entry->next));
    list_del(&entry->queued);
    shard->count--;
    size_t bytes = entry_bytes(entry->metadata);
    check(atomic_fetch_sub_explicit(&cache->bytes, bytes, memory_order_relaxed) >= bytes);
    return entry;
}

static void entry_end(struct metadata_cache *cache, struct entry *entry)
{
    if (!entry)
        return;
    read_epochs_wait(cache->epochs);    /* a reader may have found it before */
    metadata_unref(&entry->metadata);
    free(entry);
}

/* Takes the next entry to evict out of the shard. Returns NULL if the shard is empty. Two rounds
 * suffice, unless gets mark all entries again meanwhile. */
static struct entry *evict(struct metadata_cache *cache, struct shard *shard)
{
    while (!list_empty(&shard->queue)) {
        struct entry *oldest = list_of(shard->queue.next, struct entry, queued);
        if (!atomic_load_explicit(&oldest->used, memory_order_relaxed))
            return take_out(cache, shard, &oldest->id);
        atomic_store_explicit(&oldest->used, false, memory_order_relaxed);
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
    entry_end(cache, gone);
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
    cache->epochs = read_epochs_new();
    for (size_t i = 0; i < SHARDS; i++) {
        pthread_mutex_init(&cache->shards[i].lock, NULL);
        list_init(&cache->shards[i].queue);
        check(grow(&cache->shards[i]) == NULL);
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
            entry_end(*cache, entry);
        free(atomic_load(&shard->buckets));
        pthread_mutex_destroy(&shard->lock);
    }
    read_epochs_free(&(*cache)->epochs);
    free(*cache);
    *cache = NULL;
}

/* Marks the entry, and takes a reference to its metadata. Accepts NULL. */
static struct metadata *use(struct entry *entry)
{
    if (!entry)
        return NULL;
    if (!atomic_load_explicit(&entry->used, memory_order_relaxed))
        atomic_store_explicit(&entry->used, true, memory_order_relaxed);
    return metadata_ref(entry->metadata);
}

static struct metadata *get_in_epoch(struct metadata_cache *cache, const struct object_id *id)
{
    struct read_epoch *epoch = read_epoch_enter(cache->epochs);
    struct entry *entry = atomic_load(bucket_of(shard_of(cache, id), id));
    while (entry && !is_of(entry, id))
        entry = atomic_load(&entry->next);
    struct metadata *metadata = use(entry);
    read_epoch_leave(epoch);
    return metadata;
}

struct metadata *metadata_cache_get(struct metadata_cache *cache,
                                    const struct object_id *id)
{
    struct metadata *metadata = get_in_epoch(cache, id);
    if (metadata)
        return metadata;
    struct shard *shard = shard_of(cache, id);
    pthread_mutex_lock(&shard->lock);
    metadata = use(atomic_load(place_of(shard, id)));
    pthread_mutex_unlock(&shard->lock);
    return metadata;
}

void metadata_cache_put(struct metadata_cache *cache, struct metadata *metadata)
{
    struct entry *entry = must_alloc(sizeof(*entry));
    entry->id = metadata->id;
    entry->metadata = metadata_ref(metadata);
    struct shard *shard = shard_of(cache, &metadata->id);
    pthread_mutex_lock(&shard->lock);
    struct entry *old = take_out(cache, shard, &metadata->id);
    struct buckets *outgrown = NULL;
    if (shard->count >= atomic_load(&shard->buckets)->count / 2)
        outgrown = grow(shard);
    put_first(shard, entry);
    list_add(&shard->queue, &entry->queued);
    shard->count++;
    atomic_fetch_add_explicit(&cache->bytes, entry_bytes(metadata), memory_order_relaxed);
    pthread_mutex_unlock(&shard->lock);
    entry_end(cache, old);
    if (outgrown)
        read_epochs_wait(cache->epochs);
    free(outgrown);
    shrink(cache);
}

void metadata_cache_drop(struct metadata_cache *cache, const struct object_id *id)
{
    struct shard *shard = shard_of(cache, id);
    pthread_mutex_lock(&shard->lock);
    struct entry *gone = take_out(cache, shard, id);
    pthread_mutex_unlock(&shard->lock);
    entry_end(cache, gone);
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
