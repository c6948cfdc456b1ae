/* removal.c - removals, from the queue to their answer. SPDX-License-Identifier: Apache-2.0
 *
 * A removal goes into the next transaction: that of a commit, one beside the commits (beside.h), or
 * one that evicts an extent (room.c). It is answered when that transaction is committed, or when
 * the folder goes out of service, which is as safe.
 *
 * So a removal may overtake fills of the commit in progress. For a write, that is safe: it marks
 * its epoch before it queues its removal, so may_publish of such a fill returns false in the
 * transaction of the commit (rule H7 in src/README.md). A removal without an epoch (the origin has
 * no such object) is made again by that commit, after the fills. While fills wait for room, each
 * commit makes it again. A fill that began after the answer can't be among these fills. So only a
 * caller that does not wait for done() may lose such a fill.
 *
 * Ids are copied, because the watch may have answered their owners. A refusal of the shared
 * identity goes the same way, so that the object is not served after a crash; its metadata only
 * gets a mark. Threads: the committer; the watch calls removals_give_up. */
#include "store/removal.h"

#include <stdlib.h>

#include "store/leftovers.h"
#include "store/publish.h"

static void copy_ids(struct volume *volume, const struct store_removal *removal)
{
    size_t count = volume->removed.count + removal->count;
    if (count > volume->removed.max) {
        volume->removed.max = MAX(2 * volume->removed.max, count);
        volume->removed.ids = realloc(volume->removed.ids, volume->removed.max * sizeof(*volume->removed.ids));
        check(volume->removed.ids != NULL);
    }
    for (size_t i = 0; i < removal->count; i++)
        volume->removed.ids[volume->removed.count + i] =
            (struct removed_id){ removal->ids[i], removal->refused, removal->bucket };
    volume->removed.count = count;
}

void removals_take(struct volume *volume)
{
    pthread_mutex_lock(&volume->queue.lock);
    list_each(struct store_removal, removal, &volume->queue.removals, link)
        copy_ids(volume, removal);
    list_move(&volume->queue.committing, &volume->queue.removals);
    pthread_mutex_unlock(&volume->queue.lock);
}

/* If no file descriptor is left for the file, a note of doubt takes its place: then the next opening
 * has restated metadata only. This process knows the bucket from RAM. */
static enum err restate(struct volume *volume, const struct object_id *bucket)
{
    enum err e = restated_add(volume->known.restated, &volume->folder, bucket);
    return e == ERR_LIMIT && folder_doubt(&volume->folder, volume->secret) ? OK : e;
}

static enum err publish(struct volume *volume, const struct removed_id *removed)
{
    if (removed->bucket)
        return restate(volume, &removed->id);
    return removed->refused ? publish_refusal(volume->index, &removed->id)
                            : publish_removal(volume->index, &removed->id);
}

/* To be called when the removal is committed; `is_new` if it was not committed before. leftovers.c
 * finds out later whether the object has units. */
static void forget(struct volume *volume, const struct removed_id *removed, bool is_new)
{
    volume_changed(volume, &removed->id);
    if (removed->refused)
        return;
    metadata_cache_drop(volume->known.cache, &removed->id);
    if (removed->bucket)
        return;
    events_note(volume->events, &removed->id, METADATA_UNIT, EVENT_REMOVED);
    if (is_new)
        leftovers_add(volume, &removed->id);
}

enum err removals_publish(struct volume *volume, bool again)
{
    enum err e = OK;
    for (size_t i = again ? 0 : volume->removed.done; !e && i < volume->removed.count; i++)
        e = publish(volume, &volume->removed.ids[i]);
    return e;
}

void removals_settle(struct volume *volume)
{
    for (size_t i = 0; i < volume->removed.count; i++)
        forget(volume, &volume->removed.ids[i], i >= volume->removed.done);
    volume->removed.done = volume->removed.count;
}

bool removals_are_due(const struct volume *volume)
{
    return volume->removed.done < volume->removed.count;
}

void removals_end(struct volume *volume)
{
    check(volume->removed.done <= volume->removed.count);
    volume->removed.count = volume->removed.done = 0;
}

void removals_end_beside(struct volume *volume)
{
    pthread_mutex_lock(&volume->queue.lock);
    bool waits = !list_empty(&volume->queue.appends);
    pthread_mutex_unlock(&volume->queue.lock);
    if (!waits)
        removals_end(volume);
}

/* Answers the removals of the running commit. With `give_up`, also answers those that wait. If
 * there are any then, the folder is out of service from now on, and comes back unproved and
 * unshared. */
static void answer(struct volume *volume, bool give_up, enum err err)
{
    struct list mine;
    list_init(&mine);
    pthread_mutex_lock(&volume->queue.lock);
    if (give_up && volume_is_serving(volume)) {    /* since the watch looked: the committer answers */
        pthread_mutex_unlock(&volume->queue.lock);
        return;
    }
    list_move(&mine, &volume->queue.committing);
    if (give_up)
        list_move(&mine, &volume->queue.removals);
    if (give_up && !list_empty(&mine))
        atomic_store(&volume->service.unproved, true);
    pthread_mutex_unlock(&volume->queue.lock);
    list_each_safe(struct store_removal, removal, &mine, link) {
        list_del(&removal->link);
        removal->done(removal, err);
    }
}

void removals_answer(struct volume *volume, enum err err)
{
    answer(volume, false, err);
}

void removals_give_up(struct volume *volume)
{
    answer(volume, true, ERR_IO);
}
