/* leftovers.c - units that the index still has of removed and replaced versions of objects.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The volume of an object's metadata knows which units are left over: those of another ETag, or all
 * units, if there is no metadata. Another volume has only units. There, all units in extents that
 * existed when the removal was committed are left over. If the object was stored again at that moment,
 * new units are deleted, too, which is a miss. If the folder of the metadata goes out of service before
 * the commit, the units in other folders stay until their extents go.
 *
 * The queue is in RAM. When the process ends, the units that wait stay until their extent is
 * recycled. A batch deletes 250 entries at most, begins only when no removal waits, and comes at
 * most every 20 ms. */
#include "store/leftovers.h"

#include <stdlib.h>

#include "base/metric.h"
#include "store/beside.h"

#define OBJECTS_MAX 65536u            /* H8 */
#define BATCH_ENTRIES 250u
#define BATCH_LOOKS 1000u             /* entries that a batch looks at */
#define BATCH_MS 20u

struct leftover {
    struct object_id id;
    uint32_t extent;                  /* delete units in extents up to this one; 0: by ETag */
};

static void add(struct volume *volume, const struct object_id *id, uint32_t extent)
{
    struct leftovers *left = &volume->upkeep.leftovers;
    pthread_mutex_lock(&left->lock);
    if (!left->objects)
        left->objects = must_alloc(OBJECTS_MAX * sizeof(*left->objects));
    bool room = left->count < OBJECTS_MAX;
    if (room)
        left->objects[(left->first + left->count++) % OBJECTS_MAX] = (struct leftover){ *id, extent };
    pthread_mutex_unlock(&left->lock);
    if (!room)
        metric_add(M_STORE_LEFTOVERS_LIMITED, 1);
}

void leftovers_add(struct volume *volume, const struct object_id *id)
{
    add(volume, id, 0);
}

void leftovers_add_stripes(struct volume *volume, const struct object_id *id)
{
    uint32_t highest = extents_highest(volume->extents);
    if (highest)
        add(volume, id, highest);
}

void leftovers_end(struct volume *volume)
{
    struct leftovers *left = &volume->upkeep.leftovers;
    pthread_mutex_lock(&left->lock);
    free(left->objects);
    left->objects = NULL;
    left->first = left->count = left->unit = 0;
    pthread_mutex_unlock(&left->lock);
}

bool leftovers_wait(struct volume *volume)
{
    struct leftovers *left = &volume->upkeep.leftovers;
    pthread_mutex_lock(&left->lock);
    bool waits = left->count > 0;
    pthread_mutex_unlock(&left->lock);
    return waits;
}

bool leftovers_are_due(struct volume *volume)
{
    if (!leftovers_wait(volume) || mono_ms() < volume->upkeep.leftovers.worked_ms + BATCH_MS)
        return false;
    pthread_mutex_lock(&volume->queue.lock);
    bool busy = !list_empty(&volume->queue.removals);
    pthread_mutex_unlock(&volume->queue.lock);
    return !busy;
}

/* ---- a batch ---- */

struct batch {
    uint32_t objects, unit;           /* finished objects; the next unit of the object after them */
    uint32_t deleted, looks;
};

/* Returns the ETag hash of the object's metadata; 0: there is none. */
static enum err find_etag(struct volume *volume, const struct object_id *id, uint64_t *ret)
{
    struct entry entry;
    *ret = 0;
    enum err e = index_find(volume->index, id, 0, &entry);
    if (e == ERR_NOT_FOUND || (!e && !entry.whole))
        e = index_find(volume->index, id, METADATA_UNIT, &entry);
    if (!e)
        *ret = entry.etag_hash;
    return e == ERR_NOT_FOUND ? OK : e;
}

static bool is_left(const struct leftover *object, const struct entry *entry, uint64_t etag)
{
    return object->extent ? entry->extent <= object->extent : entry->etag_hash != etag;
}

/* Deletes units of one object, from batch->unit on. The object is done if *ret_done. */
static enum err delete_of(struct volume *volume, const struct leftover *object,
                          struct batch *batch, bool *ret_done)
{
    uint64_t etag = 0;
    enum err e = object->extent ? OK : find_etag(volume, &object->id, &etag);
    *ret_done = false;
    while (!e && batch->deleted < BATCH_ENTRIES && batch->looks < BATCH_LOOKS) {
        struct entry entry;
        uint32_t unit;
        batch->looks++;
        e = index_find_next(volume->index, &object->id, batch->unit, &unit, &entry);
        *ret_done = e == ERR_NOT_FOUND || (!e && unit == METADATA_UNIT);
        if (e || *ret_done)
            return *ret_done ? OK : e;
        if (is_left(object, &entry, etag)) {
            e = index_delete(volume->index, &object->id, unit);
            batch->deleted++;
        }
        batch->unit = unit + 1;
    }
    return e;
}

/* Returns the n-th object of the queue. Only the committer removes objects, so the first ones stay
 * in their places. */
static bool nth(struct volume *volume, uint32_t n, struct leftover *ret)
{
    struct leftovers *left = &volume->upkeep.leftovers;
    pthread_mutex_lock(&left->lock);
    bool there = n < left->count;
    if (there)
        *ret = left->objects[(left->first + n) % OBJECTS_MAX];
    pthread_mutex_unlock(&left->lock);
    return there;
}

static enum err publish(struct volume *volume, void *arg)
{
    struct batch *batch = arg;
    struct leftover object;
    enum err e = OK;
    bool done = true;
    while (!e && done && nth(volume, batch->objects, &object)) {
        e = delete_of(volume, &object, batch, &done);
        if (!e && done) {
            batch->objects++;
            batch->unit = 0;
        }
    }
    return e;
}

static void take_out(struct volume *volume, uint32_t objects, uint32_t unit)
{
    struct leftovers *left = &volume->upkeep.leftovers;
    pthread_mutex_lock(&left->lock);
    check(objects <= left->count);
    left->first = (left->first + objects) % OBJECTS_MAX;
    left->count -= objects;
    left->unit = unit;
    pthread_mutex_unlock(&left->lock);
}

enum err leftovers_step(struct volume *volume)
{
    struct batch batch = { .unit = volume->upkeep.leftovers.unit };
    enum err e = beside_commit(volume, publish, NULL, &batch);
    volume->upkeep.leftovers.worked_ms = mono_ms();
    if (e == ERR_FULL || e == ERR_LIMIT) {    /* no space: its units stay until their extent goes */
        take_out(volume, 1, 0);
        return OK;
    }
    if (e)
        return e;
    metric_add(M_STORE_LEFTOVERS, batch.deleted);
    take_out(volume, batch.objects, batch.unit);
    return OK;
}
