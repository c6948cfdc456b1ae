/* grant.c - proofs that an identity may read objects. SPDX-License-Identifier: Apache-2.0
 *
 * The table has SHARDS parts, each with a lock and rows of WAYS slots: `bytes` in all (rule H8 in
 * src/README.md). A new grant replaces an expired grant of its row. If there is none, it replaces
 * the grant that would expire first, and a counter counts this. A change of a bucket's policy ends
 * many grants at once: it raises a counter that each of these grants has noted. A write raises the
 * counter of its key in the same way (epoch.h). So nothing has to search for the grants that
 * end. */
#include "cache/grant.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/metric.h"
#include "base/raise.h"
#include "cache/alias.h"

#define SHARDS 64u
#define WAYS 8u
#define BUCKETS 4096u
#define REFUSALS 65536u

struct slot {
    struct grant_name name;
    struct grant_note note;
    grant_version version;
    uint64_t until_ms;            /* 0: free */
    uint64_t refused_ms;          /* not 0: a question of then was refused, and this is no grant */
};

struct shard {
    pthread_mutex_t lock;
    struct slot *slots;           /* rows * WAYS */
};

struct grants {
    size_t rows;                  /* of a shard */
    struct shard shards[SHARDS];
};

/* If two buckets share a row, a change in one costs the other a call to the origin, never a wrong
 * answer. Process-wide. */
static struct change {
    struct epoch_pair pair;
    atomic_ullong changed_ms;
} changes[BUCKETS];

/* The numbers of refusals, by a hash of the name. Names that share a number cost each other a call,
 * too. The table of grants may forget a refusal; these numbers do not. */
static atomic_uint refusals[REFUSALS];
static _Atomic uint64_t refused_ms[REFUSALS];

/* The plain name of the bucket counts: a change under another name is one of the same bucket. */
static struct change *change_of(slice bucket)
{
    return &changes[metadata_etag_hash(alias_bucket(bucket)) % BUCKETS];
}

void grants_change_begins(slice bucket, uint64_t now_ms)
{
    struct change *change = change_of(bucket);
    atomic_store(&change->changed_ms, now_ms);
    epoch_pair_begins(&change->pair);
}

void grants_change_ends(slice bucket, uint64_t now_ms)
{
    struct change *change = change_of(bucket);
    atomic_store(&change->changed_ms, now_ms);
    epoch_pair_ends(&change->pair);
}

uint64_t grants_changed_ms(slice bucket)
{
    return atomic_load(&change_of(bucket)->changed_ms);
}

struct grant_note grant_note_now(const struct grant_name *name, slice bucket)
{
    return (struct grant_note){ epoch_now(&name->id),
                                epoch_pair_now(&change_of(bucket)->pair) };
}

bool grant_note_holds(const struct grant_name *name, slice bucket, struct grant_note since)
{
    return epoch_pair_holds(&change_of(bucket)->pair, since.bucket) &&
           epoch_holds(&name->id, since.key);
}

static uint64_t hash_of(const struct grant_name *name)
{
    uint64_t hash;
    static_assert(sizeof(name->id.bytes) >= sizeof(hash), "an id has the bytes of a hash");
    memcpy(&hash, name->id.bytes, sizeof(hash));    /* a keyed hash already */
    hash ^= name->identity * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

bool grant_is_refusal(int status, enum err err)
{
    return status == 401 || status == 403 || err == ERR_ORIGIN_KEYS;
}

uint32_t grant_refusals(const struct grant_name *name)
{
    return atomic_load(&refusals[hash_of(name) % REFUSALS]);
}

void grant_refusals_add(const struct grant_name *name, uint64_t now_ms)
{
    raise_64(&refused_ms[hash_of(name) % REFUSALS], now_ms);
    atomic_fetch_add(&refusals[hash_of(name) % REFUSALS], 1);
}
uint64_t grant_refused_ms(const struct grant_name *name)
{
    return atomic_load(&refused_ms[hash_of(name) % REFUSALS]);
}

struct grants *grants_new(size_t bytes)
{
    struct grants *grants = must_alloc(sizeof(*grants));
    grants->rows = MAX(bytes / (SHARDS * WAYS * sizeof(struct slot)), (size_t)1);
    for (size_t i = 0; i < SHARDS; i++) {
        pthread_mutex_init(&grants->shards[i].lock, NULL);
        grants->shards[i].slots = must_alloc(grants->rows * WAYS * sizeof(struct slot));
    }
    return grants;
}

void grants_free(struct grants **grants)
{
    if (!*grants)
        return;
    for (size_t i = 0; i < SHARDS; i++) {
        pthread_mutex_destroy(&(*grants)->shards[i].lock);
        free((*grants)->shards[i].slots);
    }
    free(*grants);
    *grants = NULL;
}

/* Returns the row of this name, and takes the lock of its shard. */
static struct slot *row_of(struct grants *grants, const struct grant_name *name,
                           struct shard **ret_shard)
{
    uint64_t hash = hash_of(name);
    *ret_shard = &grants->shards[hash % SHARDS];
    pthread_mutex_lock(&(*ret_shard)->lock);
    return &(*ret_shard)->slots[hash / SHARDS % grants->rows * WAYS];
}

static struct slot *find(struct slot *row, const struct grant_name *name)
{
    for (size_t i = 0; i < WAYS; i++)
        if (row[i].until_ms && row[i].name.identity == name->identity &&
            row[i].name.scope == name->scope &&
            memcmp(&row[i].name.id, &name->id, sizeof(name->id)) == 0)
            return &row[i];
    return NULL;
}

uint64_t grants_find(struct grants *grants, const struct grant_name *name, grant_version version,
                     slice bucket, uint64_t now_ms)
{
    struct shard *shard;
    const struct slot *slot = find(row_of(grants, name, &shard), name);
    bool live = slot && !slot->refused_ms && slot->version == version && now_ms < slot->until_ms &&
                grant_note_holds(name, bucket, slot->note);
    uint64_t until_ms = live ? slot->until_ms : 0;
    pthread_mutex_unlock(&shard->lock);
    return until_ms;
}

/* Refusals go first, so that a client without a right can't push out the grants of others. */
static uint64_t worth(const struct slot *slot)
{
    return slot->refused_ms ? 0 : slot->until_ms;
}

/* Returns the slot of this name, or the slot of the row that is worth least, emptied. */
static struct slot *slot_for(struct slot *row, const struct grant_name *name, uint64_t now_ms)
{
    struct slot *first = find(row, name);
    if (first)
        return first;
    first = &row[0];
    for (size_t i = 1; i < WAYS; i++)
        if (worth(&row[i]) < worth(first))
            first = &row[i];
    if (worth(first) > now_ms)
        metric_add(M_GRANTS_EVICTED, 1);
    *first = (struct slot){ .name = *name };
    return first;
}

void grants_give(struct grants *grants, const struct grant_name *name, grant_version version,
                 slice bucket, struct grant_note note, uint64_t asked_ms, uint64_t ttl_ms,
                 uint64_t now_ms)
{
    struct shard *shard;
    check(name->identity && (!version || name->scope == GRANT_OBJECT));
    if (asked_ms + ttl_ms <= now_ms || !grant_note_holds(name, bucket, note))
        return;
    struct slot *slot = slot_for(row_of(grants, name, &shard), name, now_ms);
    bool refused = slot->refused_ms && slot->refused_ms >= asked_ms;
    /* True if the answer to a later request came first. */
    bool older = !slot->refused_ms && slot->until_ms > asked_ms + ttl_ms &&
                 grant_note_holds(name, bucket, slot->note);
    if (!refused && !older)
        *slot = (struct slot){ *name, note, version, asked_ms + ttl_ms, 0 };
    pthread_mutex_unlock(&shard->lock);
    if (!refused)
        metric_add(M_GRANTS_GIVEN, 1);
}

void grants_refuse(struct grants *grants, const struct grant_name *name, uint64_t asked_ms,
                   uint64_t ttl_ms, uint64_t now_ms)
{
    struct shard *shard;
    check(name->identity && asked_ms > 0);    /* refused_ms 0: it is a grant */
    struct slot *slot = slot_for(row_of(grants, name, &shard), name, now_ms);
    bool revoked = slot->until_ms > now_ms && !slot->refused_ms;
    slot->refused_ms = MAX(slot->refused_ms, asked_ms);
    /* Until then, the answer to an earlier request could give a grant. */
    slot->until_ms = slot->refused_ms + ttl_ms;
    pthread_mutex_unlock(&shard->lock);
    if (revoked)
        metric_add(M_GRANTS_REVOKED, 1);
}
