/* flight.c - bytes on their way in: the table, flights and their slots.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The table has the objects for which something is in progress. A flight holds a part of an object
 * while it comes from an origin; a slot is the memory for these bytes. All slots together have a
 * limit, so fetches queue for slots. flight.h has the whole design, and the locks. Rules such as H7
 * are in src/README.md. */
#include "cache/flight.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/metric.h"
#include "cache/fetch.h"
#include "cache/forget.h"

#define SHARDS 64
#define BUCKETS 64
#define INFLIGHT_MAGIC 0x696e666c69676874u
#define FLIGHT_MAGIC 0x666c696768743031u

struct shard {
    pthread_mutex_t lock;
    atomic_uint hooked;           /* objects in the table: 0 lets a hit pass without the lock */
    struct list buckets[BUCKETS];
};

struct flights {
    struct cache *cache;
    struct shard shards[SHARDS];
    atomic_size_t objects;        /* number of inflights, unhooked ones included */
    pthread_mutex_t slots_lock;
    size_t slots_max, slots_used, slots_reserved;
    struct list slots_queue;      /* fetches that wait for a slot, first come first */
    struct list slots_spare;      /* fetches that only keep flights for slow readers */
};

struct flights *flights_new(struct cache *cache, size_t slots_bytes)
{
    struct flights *flights = must_alloc(sizeof(*flights));
    flights->cache = cache;
    flights->slots_max = MAX(slots_bytes, (size_t)(2 * GROUP_BYTES));
    pthread_mutex_init(&flights->slots_lock, NULL);
    list_init(&flights->slots_queue);
    list_init(&flights->slots_spare);
    for (size_t i = 0; i < SHARDS; i++) {
        pthread_mutex_init(&flights->shards[i].lock, NULL);
        for (size_t j = 0; j < BUCKETS; j++)
            list_init(&flights->shards[i].buckets[j]);
    }
    return flights;
}

void flights_free(struct flights **flights)
{
    if (!*flights)
        return;
    check(flights_objects(*flights) == 0 && (*flights)->slots_used == 0 &&
          (*flights)->slots_reserved == 0);
    for (size_t i = 0; i < SHARDS; i++) {
        pthread_mutex_lock(&(*flights)->shards[i].lock);    /* waits for its last holder */
        check(atomic_load(&(*flights)->shards[i].hooked) == 0);
        pthread_mutex_unlock(&(*flights)->shards[i].lock);
        pthread_mutex_destroy(&(*flights)->shards[i].lock);
    }
    pthread_mutex_destroy(&(*flights)->slots_lock);
    free(*flights);
    *flights = NULL;
}

static struct shard *shard_of(struct flights *flights, const struct object_id *id)
{
    return &flights->shards[id->bytes[2] % SHARDS];
}

size_t flights_objects(struct flights *flights)
{
    return atomic_load(&flights->objects);
}

bool flights_idle(struct flights *flights, const struct object_id *id)
{
    return atomic_load(&shard_of(flights, id)->hooked) == 0;
}

void flights_lock(struct flights *flights, const struct object_id *id)
{
    pthread_mutex_lock(&shard_of(flights, id)->lock);
}

void flights_unlock(struct flights *flights, const struct object_id *id)
{
    pthread_mutex_unlock(&shard_of(flights, id)->lock);
}

/* ---- objects with something in flight ---- */

static struct list *bucket_of(struct flights *flights, const struct object_id *id)
{
    return &shard_of(flights, id)->buckets[id->bytes[3] % BUCKETS];
}

static void unhook(struct inflight *inflight)
{
    if (inflight->unhooked)
        return;
    inflight->unhooked = true;
    list_del(&inflight->link);
    check(atomic_fetch_sub(&shard_of(inflight->flights, &inflight->id)->hooked, 1) > 0);
}

bool inflight_is_current(const struct inflight *inflight)
{
    return !inflight->unhooked && epoch_holds(&inflight->id, inflight->epoch) &&
           !store_is_purged(cache_store(inflight->cache), &inflight->name, inflight->compared);
}

struct inflight *inflight_find(struct flights *flights, const struct object_id *id)
{
    list_each(struct inflight, inflight, bucket_of(flights, id), link) {
        check(inflight->magic == INFLIGHT_MAGIC);
        if (memcmp(&inflight->id, id, sizeof(*id)) != 0)
            continue;
        return inflight_is_current(inflight) ? inflight_ref(inflight) : NULL;    /* H7 */
    }
    return NULL;
}

void inflight_unhook(struct flights *flights, const struct object_id *id)
{
    list_each_safe(struct inflight, inflight, bucket_of(flights, id), link)
        if (memcmp(&inflight->id, id, sizeof(*id)) == 0)
            unhook(inflight);
}

struct inflight *inflight_get(struct flights *flights, const struct object_id *id,
                              const struct object_name *name, const struct rules *rules)
{
    check(rules && name->bucket.len);
    struct inflight *inflight = inflight_find(flights, id);
    if (inflight)
        return inflight;
    inflight_unhook(flights, id);    /* one of an older epoch may be left */
    inflight = must_alloc(sizeof(*inflight));
    inflight->magic = INFLIGHT_MAGIC;
    inflight->flights = flights;
    inflight->cache = flights->cache;
    inflight->id = *id;
    inflight->rules = rules;
    inflight->name = (struct object_name){
        .endpoint = name->endpoint,
        .bucket = { must_strndup(name->bucket.ptr, name->bucket.len), name->bucket.len },
        .key = { must_strndup(name->key.ptr, name->key.len), name->key.len },
        .version = { must_strndup(name->version.ptr, name->version.len), name->version.len },
    };
    inflight->epoch = epoch_now(id);
    inflight->compared = store_compared(cache_store(flights->cache));
    inflight->refs = 1;
    list_init(&inflight->fetches);
    list_init(&inflight->flying);
    list_init(&inflight->probes);
    list_add(bucket_of(flights, id), &inflight->link);
    atomic_fetch_add(&flights->objects, 1);
    atomic_fetch_add(&shard_of(flights, id)->hooked, 1);
    return inflight;
}

struct inflight *inflight_ref(struct inflight *inflight)
{
    check(inflight->magic == INFLIGHT_MAGIC && inflight->refs > 0);
    inflight->refs++;
    return inflight;
}

void inflight_unref(struct inflight **inflight)
{
    struct inflight *mine = *inflight;
    *inflight = NULL;
    if (!mine || --mine->refs > 0)
        return;
    check(list_empty(&mine->fetches) && list_empty(&mine->flying) &&
          list_empty(&mine->probes));
    unhook(mine);
    metadata_unref(&mine->metadata);
    free((char *)mine->name.bucket.ptr);
    free((char *)mine->name.key.ptr);
    free((char *)mine->name.version.ptr);
    check(atomic_fetch_sub(&mine->flights->objects, 1) > 0);
    mine->magic = 0;
    free(mine);
}

void inflight_set_metadata(struct inflight *inflight, struct metadata *metadata)
{
    struct metadata *old = inflight->metadata;
    inflight->metadata = metadata_ref(metadata);
    metadata_unref(&old);
}

/* Later gets join the inflight of the newest version. If no version is known to be current, they
 * find no metadata, and ask the origin. */
enum learnt_how inflight_learn(struct inflight *inflight, const struct learnt *answer,
                               struct epoch_note *since)
{
    struct learnt before = inflight->learnt;
    bool other = before.etag_hash != answer->etag_hash;
    bool late = other && answer->answers < before.answers;
    struct epoch_note own = *since;
    /* Versions without a strong ETag have no fills. */
    if (other && before.answers && (before.strong || (late && answer->strong)))
        own = epoch_supersede(&inflight->id, *since);
    if (late || !answer->etag_hash)
        metadata_unref(&inflight->metadata);
    inflight->learnt = late ? before : *answer;
    inflight->learnt.answers = before.answers + 1;
    if (late)
        return LEARNT_LATE;
    if (answer->etag_hash && epoch_note_is(inflight->epoch, *since))
        inflight->epoch = own;
    *since = own;
    return other && before.strong ? LEARNT_OTHER : LEARNT_SAME;
}

void inflight_fill_ended(struct inflight *inflight, const struct epoch_fill *fill, enum err err)
{
    const struct metadata *metadata = fill->append.metadata;
    if (err && fill->append.with_metadata && inflight->learnt.etag_hash == metadata->etag_hash)
        forget_other_version(cache_store(inflight->cache), metadata);
}

/* ---- waiting ---- */

void waiter_add(struct list *waiters, struct waiter *waiter)
{
    list_del(&waiter->link);
    list_add(waiters, &waiter->link);
}

void waiters_wake(struct list *waiters)
{
    list_each_safe(struct waiter, waiter, waiters, link) {
        list_del(&waiter->link);
        ticket_wake(waiter->ticket);
    }
}

/* ---- slots ---- */

/* Invites the first fetch of the queue to try again. The invitation ends in one of three ways.
 * The fetch gets a slot, or leaves (slots_forget): both invite the next fetch. Or the fetch goes
 * back to the queue: then a flight has the slots, and its end invites again. */
static void invite(struct flights *flights)    /* under slots_lock */
{
    if (list_empty(&flights->slots_queue) || flights->slots_used >= flights->slots_max)
        return;
    struct fetch *next = list_of(list_take(&flights->slots_queue), struct fetch, slot.link);
    next->slot.invited = true;
    fetch_slot_free(next);    /* posts a message, so this lock and the object's may be held */
}

static bool slot_take(struct flights *flights, size_t bytes, struct fetch *asker)
{
    pthread_mutex_lock(&flights->slots_lock);
    list_del(&asker->slot.link);
    bool in_turn = asker->slot.invited || list_empty(&flights->slots_queue);
    bool fits = in_turn && flights->slots_used + bytes <= flights->slots_max;
    if (fits) {
        flights->slots_used += bytes;
        invite(flights);
    } else {    /* an invited fetch keeps the first place */
        list_add(asker->slot.invited ? flights->slots_queue.next : &flights->slots_queue,
                 &asker->slot.link);
        metric_add(M_CACHE_SLOT_WAITS, 1);
    }
    asker->slot.invited = false;
    pthread_mutex_unlock(&flights->slots_lock);
    return fits;
}

static void slot_give(struct flights *flights, size_t bytes)
{
    pthread_mutex_lock(&flights->slots_lock);
    check(flights->slots_used >= bytes);
    flights->slots_used -= bytes;
    invite(flights);
    pthread_mutex_unlock(&flights->slots_lock);
}

void slots_forget(struct flights *flights, struct fetch *fetch)
{
    pthread_mutex_lock(&flights->slots_lock);
    list_del(&fetch->slot.link);
    fetch->slot.invited = false;
    invite(flights);
    pthread_mutex_unlock(&flights->slots_lock);
}

bool slots_spare(struct flights *flights, struct fetch *fetch)
{
    pthread_mutex_lock(&flights->slots_lock);
    bool wanted = !list_empty(&flights->slots_queue);
    list_del(&fetch->slot.link);
    if (!wanted)
        list_add(&flights->slots_spare, &fetch->slot.link);
    pthread_mutex_unlock(&flights->slots_lock);
    return !wanted;
}

/* A fetch in the list is freed only under the list's lock and its shard's lock, so this function
 * may look at it under one of the two. */
void slots_press(struct flights *flights)
{
    pthread_mutex_lock(&flights->slots_lock);
    while (!list_empty(&flights->slots_spare)) {
        struct fetch *fetch = list_of(flights->slots_spare.next, struct fetch, slot.link);
        struct object_id id = fetch->inflight->id;
        bool mine = pthread_mutex_trylock(&shard_of(flights, &id)->lock) == 0;
        if (mine)
            list_del(&fetch->slot.link);
        pthread_mutex_unlock(&flights->slots_lock);
        if (mine) {
            fetch_drop_kept(fetch);
            flights_unlock(flights, &id);
        } else {
            sched_yield();    /* all other functions take the shard's lock first */
        }
        pthread_mutex_lock(&flights->slots_lock);
    }
    pthread_mutex_unlock(&flights->slots_lock);
}

bool slots_reserve(struct flights *flights, size_t bytes)
{
    pthread_mutex_lock(&flights->slots_lock);
    bool fits = flights->slots_reserved + bytes <= flights->slots_max / 2 &&
                flights->slots_used <= flights->slots_max / 2;
    flights->slots_reserved += fits ? bytes : 0;
    pthread_mutex_unlock(&flights->slots_lock);
    return fits;
}

void slots_unreserve(struct flights *flights, size_t bytes)
{
    pthread_mutex_lock(&flights->slots_lock);
    check(flights->slots_reserved >= bytes);
    flights->slots_reserved -= bytes;
    pthread_mutex_unlock(&flights->slots_lock);
}

bool slots_scarce(struct flights *flights)
{
    pthread_mutex_lock(&flights->slots_lock);
    bool scarce = !list_empty(&flights->slots_queue) ||
                  flights->slots_used > flights->slots_max / 4 * 3;
    pthread_mutex_unlock(&flights->slots_lock);
    return scarce;
}

/* ---- flights ---- */

struct flight *flight_new(struct inflight *inflight, struct fetch *feeder,
                          struct metadata *metadata, uint64_t start, uint64_t length)
{
    check(start % UNIT_BYTES == 0 && length > 0 && start + length <= metadata->size);
    check(start / GROUP_BYTES == (start + length - 1) / GROUP_BYTES);
    if (!slot_take(inflight->flights, length, feeder))
        return NULL;
    struct flight *flight = must_alloc(sizeof(*flight));
    flight->magic = FLIGHT_MAGIC;
    flight->inflight = inflight_ref(inflight);
    flight->fetch = feeder;
    flight->ahead = feeder->ahead.began;
    flight->metadata = metadata_ref(metadata);
    flight->start = start;
    flight->length = length;
    flight->bytes = malloc(length);
    check(flight->bytes != NULL);
    flight->slot_bytes = length;
    flight->refs = 1;
    flight->fill.epoch = feeder->sent.epoch;
    flight->fill.append.compared = feeder->sent.compared;
    list_init(&flight->waiters);
    list_init(&flight->link);
    list_add(&inflight->flying, &flight->link);
    return flight;
}

struct flight *flight_ref(struct flight *flight)
{
    check(flight->magic == FLIGHT_MAGIC && flight->refs > 0);
    flight->refs++;
    return flight;
}

void flight_unref(struct flight **flight)
{
    struct flight *mine = *flight;
    *flight = NULL;
    if (!mine || --mine->refs > 0)
        return;
    check(mine->magic == FLIGHT_MAGIC && list_empty(&mine->waiters));
    list_del(&mine->link);
    slot_give(mine->inflight->flights, mine->slot_bytes);
    free(mine->bytes);
    metadata_unref(&mine->metadata);
    inflight_unref(&mine->inflight);
    mine->magic = 0;
    free(mine);
}

struct flight *flight_find(struct inflight *inflight, uint64_t etag_hash, uint64_t offset)
{
    list_each(struct flight, flight, &inflight->flying, link) {
        if (flight->metadata->etag_hash == etag_hash && offset >= flight->start &&
            offset < flight->start + flight->length)
            return flight_ref(flight);
    }
    return NULL;
}

/* On the committer's thread. From now on, readers find the bytes in the store. */
static void appended(struct store_append *append, enum err err)
{
    struct flight *flight = container_of(append, struct flight, fill.append);
    struct flights *flights = flight->inflight->flights;
    struct object_id id = flight->inflight->id;
    if (err)
        metric_add(M_CACHE_UNPUBLISHED, 1);
    flights_lock(flights, &id);
    inflight_fill_ended(flight->inflight, &flight->fill, err);
    list_del(&flight->link);
    flight_unref(&flight);
    flights_unlock(flights, &id);
}

bool flight_land(struct flight *flight, const struct admission *admission, bool with_metadata)
{
    check(atomic_load(&flight->filled) == flight->length && flight->fetch);
    flight->fetch = NULL;
    waiters_wake(&flight->waiters);
    if (!admission->stores || !epoch_holds(&flight->inflight->id, flight->fill.epoch))
        return false;
    flight->fill.append = (struct store_append){
        .metadata = flight->metadata,
        .first_unit = (uint32_t)(flight->start / UNIT_BYTES),
        .bytes = { flight->bytes, flight->length },
        .with_metadata = with_metadata,
        .staged = admission->staged,
        .ahead = admission->ahead,
        .read = admission->read,
        .may_publish = epoch_may_publish,
        .compared = flight->fill.append.compared,
        .done = appended,
    };
    enum err e = store_append(cache_store(flight->inflight->cache), &flight->fill.append);
    if (e) {
        metric_add(M_CACHE_UNPUBLISHED, 1);
        inflight_fill_ended(flight->inflight, &flight->fill, e);
        return false;
    }
    flight->refs++;    /* the append's, until appended() */
    return true;
}

void flight_fail(struct flight **flight)
{
    struct flight *mine = *flight;
    *flight = NULL;
    mine->fetch = NULL;
    list_del(&mine->link);
    waiters_wake(&mine->waiters);
    flight_unref(&mine);
}
