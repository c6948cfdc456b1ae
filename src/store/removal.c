/* removal.c - removals, from the queue to their answer. SPDX-License-Identifier: Apache-2.0
 *
 * A removal goes into the next transaction: that of a commit, one beside the commits (beside.h), or
 * one that evicts an extent (room.c). It is answered when that transaction is committed, or when
 * the folder goes out of service, which is as safe.
 *
 * So a removal may overtake fills of the commit in progress. For a write, that is safe: it marks
 * its epoch before it queues its removal, so may_publish of such a fill returns false in the
 * transaction of the commit (rule H7 in src/README.md). A removal without an epoch (the origin has
 * no such object) is made again by each commit that has fills from before the removal was
 * committed: after these fills, and before later ones. So a fill that began after the answer stays.
 *
 * A removal may name versions, because nobody can look into the index of a folder that hangs, and
 * because metadata may come after the look. So the committer looks inside the transaction, and keeps
 * metadata of a version that the removal does not name.
 *
 * Ids are copied, because the watch may have answered their owners. A refusal of the shared
 * identity goes the same way, so that the object is not served after a crash; its metadata only
 * gets a mark.
 *
 * If the folder hangs, the watch answers the removals that somebody waits for, and the folder comes
 * back unproved. A removal that nobody waits for stays in its list, because the folder serves nothing
 * until the committer goes on, and soon after that the removal is committed.
 * Threads: the committer; the watch calls removals_press and removals_give_up. */
#include "store/removal.h"

#include <stdlib.h>

#include "store/inside.h"
#include "store/leftovers.h"
#include "store/publish.h"

#define UNAWAITED_MAX 16384u           /* more of them would take too much memory */

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
            (struct removed_id){ .id = removal->ids[i], .refused = removal->refused,
                                 .bucket = removal->bucket, .versions = removal->versions };
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

/* Another version may have been stored since the removal was queued, or nobody could look then. */
static enum err remove_versions(struct volume *volume, struct removed_id *removed)
{
    struct entry entry;
    uint32_t unit;
    enum err e;
    removed->kept = false;
    if (removed->versions.which == VERSIONS_ALL)
        return publish_removal(volume->index, &removed->id);
    e = publish_find_metadata(volume->index, &removed->id, &unit, &entry);
    removed->kept = e == ERR_NOT_FOUND ||
                    (!e && !versions_have(&removed->versions, entry.etag_hash, entry.mark));
    if (removed->kept)
        return OK;
    return e ? e : publish_removal(volume->index, &removed->id);
}

static enum err publish(struct volume *volume, struct removed_id *removed)
{
    if (removed->bucket)
        return restate(volume, &removed->id);
    return removed->refused ? publish_refusal(volume->index, &removed->id)
                            : remove_versions(volume, removed);
}

/* Queues the units of a removed object that lie in the other volumes. */
static void forget_stripes(struct volume *volume, const struct object_id *id)
{
    const struct store *store = store_of(volume);
    for (size_t i = 0; i < store->volume_count; i++)
        if (store->volumes[i] != volume)
            leftovers_add_stripes(store->volumes[i], id);
}

/* To be called when the removal is committed, once more each time that it was made again. leftovers.c
 * finds out later whether the object has units. */
static void forget(struct volume *volume, struct removed_id *removed)
{
    volume_changed(volume, &removed->id);
    if (removed->refused)
        return;
    volume_drop_in_ram(volume, &removed->id, &removed->versions);
    if (removed->bucket || removed->kept)
        return;
    events_note(volume->events, &removed->id, METADATA_UNIT, EVENT_REMOVED);
    if (removed->queued)
        return;
    removed->queued = true;
    leftovers_add(volume, &removed->id);
    forget_stripes(volume, &removed->id);
}

enum err removals_publish(struct volume *volume, size_t first)
{
    enum err e = OK;
    for (size_t i = first; !e && i < volume->removed.count; i++)
        e = publish(volume, &volume->removed.ids[i]);
    return e;
}

enum err removals_publish_before(struct volume *volume, uint64_t append, size_t *at)
{
    enum err e = OK;
    for (; !e && *at < volume->removed.done && volume->removed.ids[*at].before <= append; ++*at)
        e = publish(volume, &volume->removed.ids[*at]);
    return e;
}

void removals_settle(struct volume *volume)
{
    pthread_mutex_lock(&volume->queue.lock);
    uint64_t before = volume->queue.appended;
    pthread_mutex_unlock(&volume->queue.lock);
    for (size_t i = 0; i < volume->removed.count; i++)
        forget(volume, &volume->removed.ids[i]);
    for (size_t i = volume->removed.done; i < volume->removed.count; i++)
        volume->removed.ids[i].before = before;
    volume->removed.done = volume->removed.count;
}

bool removals_are_due(const struct volume *volume)
{
    return volume->removed.done < volume->removed.count;
}

void removals_end(struct volume *volume)
{
    struct removed *removed = &volume->removed;
    size_t kept = 0;
    check(removed->done <= removed->count);
    for (size_t i = 0; i < removed->done; i++)
        if (removed->ids[i].before > removed->next)
            removed->ids[kept++] = removed->ids[i];
    removed->count = removed->done = kept;
}

static bool are_too_many(const struct list *removals)
{
    size_t count = 0;
    list_each(struct store_removal, removal, removals, link)
        if (++count > UNAWAITED_MAX)
            return true;
    return false;
}

/* Moves the removals that somebody waits for, or all of them. */
static void move(struct list *to, struct list *from, bool all)
{
    list_each_safe(struct store_removal, removal, from, link)
        if (all || !removal->unawaited) {
            list_del(&removal->link);
            list_add(to, &removal->link);
        }
}

bool removals_press(const struct volume *volume)
{
    list_each(struct store_removal, removal, &volume->queue.removals, link)
        if (!removal->unawaited)
            return true;
    return are_too_many(&volume->queue.removals);
}

/* Answers the removals of the running commit. With `give_up`, also answers those that wait, but not
 * the ones that nobody waits for. If it answers any then, the folder is out of service from now on,
 * and comes back unproved and unshared. */
static void answer(struct volume *volume, bool give_up, enum err err)
{
    struct list mine;
    list_init(&mine);
    pthread_mutex_lock(&volume->queue.lock);
    if (give_up && volume_takes_removals(volume)) {    /* since the watch looked */
        pthread_mutex_unlock(&volume->queue.lock);
        return;
    }
    bool all = !give_up || are_too_many(&volume->queue.removals);
    move(&mine, &volume->queue.committing, all);
    if (give_up)
        move(&mine, &volume->queue.removals, all);
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
