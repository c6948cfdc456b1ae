/* service.c - takes a cache folder into service and out of it; answers if the committer hangs.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A failure takes the folder out of service: it is closed as after a crash. The next opening, which
 * is tried every 5 s, raises the generation. So metadata that a lost removal should have removed is
 * unproved, and all metadata in the folder is unshared (names.h). Until then, appends and removals
 * are answered with ERR_IO at once. A second thread, the watch, answers removals when a commit or
 * an opening hangs (H3). Threads: the watch has a thread of its own; all else runs on the
 * committer. */
#include "store/service.h"

#include "base/metric.h"
#include "store/removal.h"
#include "store/sizing.h"

#define WATCH_MS 500u
#define RESERVE_MAX (8 * GIB)

uint64_t service_free_bytes(const struct store *store)
{
    struct store_space space;
    return store_space(store->folder.path, &space) == OK ? space.free_bytes : UINT64_MAX;
}

/* A size that nobody set. The next opening has larger extents, and with them no bound. */
static void grow(struct store *store, uint64_t free)
{
    uint64_t size = atomic_load(&store->size_bytes), own = extents_bytes(store->extents);
    uint64_t most = (uint64_t)SIZE_EXTENTS_MAX * store->folder.format.extent_bytes;
    uint64_t derived = sizing_derive(size, free, own + index_size(store->index).bytes);
    if (!store->options.size_bytes && atomic_load(&store->open))
        atomic_store(&store->size_bytes, MAX(size, MIN(derived, most)));
}

/* Who must not wait reads what is noted here. */
void service_measure(struct store *store)
{
    uint64_t free = service_free_bytes(store);
    if (free == UINT64_MAX)
        return;
    atomic_store(&store->free_bytes, free);
    grow(store, free);
    metric_set(M_STORE_FREE, (int64_t)free);
    metric_set(M_STORE_CAPACITY, (int64_t)store_capacity(store));
}

uint64_t store_capacity(struct store *store)
{
    uint64_t free = atomic_load(&store->free_bytes), kept = atomic_load(&store->reserve_bytes);
    uint64_t used = extents_bytes(store->extents), size = atomic_load(&store->size_bytes);
    return MIN(size, used + (free > kept ? free - kept : 0));
}

void service_metrics(struct store *store)
{
    metric_set(M_STORE_BYTES, (int64_t)extents_bytes(store->extents));
    metric_set(M_STORE_ENTRIES, (int64_t)index_size(store->index).entries);
    metric_set(M_STORE_SERVING, store_is_serving(store));
}

enum err service_begin(struct store *store, const char **ret_why)
{
    struct folder_wish wish = { .size_bytes = store->options.size_bytes,
                                .extent_bytes = store->options.extent_bytes,
                                .unproved = atomic_exchange(&store->unproved, false),
                                .last_generation = atomic_load(&store->generation) };
    enum err e = folder_open(&store->folder, &wish, store->secret, ret_why);
    if (!e && (e = restated_open(store->restated, &store->folder)) != OK) {
        *ret_why = "the file 'restated' in the folder can't be written; check the free space and "
                   "the health of the disk";
        folder_close(&store->folder, false);
        wish.unproved = true;
    }
    if (e) {
        if (wish.unproved)
            atomic_store(&store->unproved, true);
        atomic_store(&store->why, *ret_why);
        return e;
    }
    struct store_space space;
    uint64_t reserve = store->options.reserve_bytes;
    if (!reserve && store_space(store->folder.path, &space) == OK)
        reserve = MIN(space.bytes / 20, RESERVE_MAX);
    atomic_store(&store->reserve_bytes, reserve);
    atomic_store(&store->size_bytes, store->folder.format.size_bytes);
    atomic_store(&store->generation, store->folder.format.generation);
    metadata_cache_clear(store->metadata_cache);
    names_apply(store->names, &store->folder);
    folder_doubt_ends(store->folder.path);
    store->doubted = false;
    atomic_store(&store->why, "");
    atomic_store(&store->anew, store->folder.anew);
    service_measure(store);
    atomic_store(&store->open, true);
    service_metrics(store);
    return OK;
}

void service_end(struct store *store, const char *why)
{
    if (removals_are_due(store))
        atomic_store(&store->unproved, true);
    atomic_store(&store->why, why);
    atomic_store(&store->open, false);
    /* as after a crash: nothing is believed when it comes back */
    folder_close(&store->folder, false);
    metadata_cache_clear(store->metadata_cache);
    service_note_doubt(store);
    service_metrics(store);
    metric_add(M_STORE_FAULTS, 1);    /* last: who sees it sees that the folder is out */
}

void service_note_doubt(struct store *store)
{
    if (atomic_load(&store->unproved) && !store->doubted)
        folder_doubt(store->folder.path);
    store->doubted = atomic_load(&store->unproved);
}

/* ---- the watch ---- */

void *service_watch(void *arg)
{
    struct store *store = arg;
    pthread_mutex_lock(&store->lock);
    while (!store->stopping) {
        cond_wait_until(&store->stop, &store->lock, mono_ns() + WATCH_MS * 1000000u);
        pthread_mutex_unlock(&store->lock);
        metric_set(M_STORE_SERVING, store_is_serving(store));
        if (!store_is_serving(store))    /* stuck in a commit, or in opening the folder */
            removals_give_up(store);
        pthread_mutex_lock(&store->lock);
    }
    pthread_mutex_unlock(&store->lock);
    return NULL;
}
