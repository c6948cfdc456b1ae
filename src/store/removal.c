/* removal.c - removals, from the queue to their answer. SPDX-License-Identifier: Apache-2.0
 *
 * A removal goes into the next transaction: that of a commit, or, while a commit makes room, one
 * that recycles an extent. It is answered when that transaction is committed, or when the folder
 * goes out of service, which is as safe. So a removal may overtake fills of the commit in progress.
 * That is safe for a write: it marks its epoch before it hands in its removal, so may_publish of
 * such a fill, called in the commit's transaction, returns false (H7). A removal without an epoch
 * (the origin says that there is no such object) is made again by that transaction, after the
 * fills. No fill that began after the answer can be among these fills; only a caller that does not
 * wait for done() may lose such a fill. Ids are copied, because the watch may have answered their
 * owners. A refusal of the shared identity goes the same way, so that the object is not served
 * after a crash; its metadata only gets a mark. Threads: the committer; the watch calls
 * removals_give_up. */
#include "store/removal.h"

#include <stdlib.h>

#include "store/publish.h"

static void copy_ids(struct store *store, const struct store_removal *removal)
{
    size_t count = store->removed_count + removal->count;
    if (count > store->removed_max) {
        store->removed_max = MAX(2 * store->removed_max, count);
        store->removed = realloc(store->removed, store->removed_max * sizeof(*store->removed));
        check(store->removed != NULL);
    }
    for (size_t i = 0; i < removal->count; i++)
        store->removed[store->removed_count + i] =
            (struct removed){ removal->ids[i], removal->refused, removal->bucket };
    store->removed_count = count;
}

void removals_take(struct store *store)
{
    pthread_mutex_lock(&store->lock);
    list_each(struct store_removal, removal, &store->removals, link)
        copy_ids(store, removal);
    list_move(&store->committing, &store->removals);
    pthread_mutex_unlock(&store->lock);
}

static enum err publish(struct store *store, const struct removed *removed)
{
    if (removed->bucket)
        return restated_add(store->restated, &store->folder, &removed->id);
    return removed->refused ? publish_refusal(store->index, &removed->id)
                            : publish_removal(store->index, &removed->id);
}

enum err removals_publish(struct store *store, bool again)
{
    enum err e = OK;
    for (size_t i = again ? 0 : store->removed_done; !e && i < store->removed_count; i++)
        e = publish(store, &store->removed[i]);
    return e;
}

void removals_settle(struct store *store)
{
    for (size_t i = 0; i < store->removed_count; i++) {
        store_changed(store, &store->removed[i].id);
        if (!store->removed[i].refused)
            metadata_cache_drop(store->metadata_cache, &store->removed[i].id);
    }
    store->removed_done = store->removed_count;
}

bool removals_are_due(const struct store *store)
{
    return store->removed_done < store->removed_count;
}

void removals_end(struct store *store)
{
    check(store->removed_done <= store->removed_count);
    store->removed_count = store->removed_done = 0;
}

/* Answers those of the running commit; to give up also answers those that wait. All of these are
 * told that the folder is out, which is true from now on, and it comes back only unproved, and
 * unshared. */
static void answer(struct store *store, bool give_up, enum err err)
{
    struct list mine;
    list_init(&mine);
    pthread_mutex_lock(&store->lock);
    list_move(&mine, &store->committing);
    if (give_up)
        list_move(&mine, &store->removals);
    if (give_up && !list_empty(&mine))
        atomic_store(&store->unproved, true);
    pthread_mutex_unlock(&store->lock);
    list_each_safe(struct store_removal, removal, &mine, link) {
        list_del(&removal->link);
        removal->done(removal, err);
    }
}

void removals_answer(struct store *store, enum err err)
{
    answer(store, false, err);
}

void removals_give_up(struct store *store)
{
    answer(store, true, ERR_IO);
}
