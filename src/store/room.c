/* room.c - eviction: makes room by recycling extents. SPDX-License-Identifier: Apache-2.0
 *
 * To recycle an extent, its index entries are deleted first, a few thousand in a transaction, and
 * then its file. So the index has no entries of a recycled extent, unless the disk had no room even
 * for these deletions. An extent may have hundreds of thousands of entries, so waiting removals go
 * into each of these transactions. Committer only. */
#include "store/room.h"

#include "base/metric.h"
#include "store/account.h"
#include "store/policy.h"
#include "store/publish.h"
#include "store/removal.h"
#include "store/service.h"

#define RECYCLE_BATCH 2000u           /* records of an extent that goes, in one transaction */
#define SHRINK_MS 200u

static enum err forget_extent(struct volume *volume, uint32_t number, const struct toc_entry *entries,
                              uint32_t count)
{
    enum err e = OK;
    for (uint32_t i = 0; i < count;) {
        removals_take(volume);
        e = index_begin(volume->index);
        if (!e)
            e = removals_publish(volume, false);
        for (uint32_t end = MIN(count, i + RECYCLE_BATCH); !e && i < end; i++)
            e = publish_recycled(volume->index, &entries[i], number, i);
        if (!e)
            e = account_commit(volume);
        index_abort(volume->index);
        volume_still_alive(volume);
        if (e)
            break;
        metric_add(M_STORE_COMMITS, 1);
        removals_settle(volume);
        removals_answer(volume, OK);
    }
    return e;
}

static enum err recycle(struct volume *volume, uint32_t number, struct arena *keep)
{
    struct toc_entry *entries = NULL;
    uint32_t count = 0;
    enum err e = extent_contents(volume->extents, number, keep, &entries, &count);
    if (e == ERR_LIMIT)    /* no descriptor to read it with: it may go later */
        return ERR_FULL;
    if (!e)
        e = forget_extent(volume, number, entries, count);
    bool full = e == ERR_FULL || e == ERR_LIMIT;
    if (e && !full && e != ERR_NOT_FOUND)
        return e;
    /* A full disk has no room for the deletions: the file goes first. A number that is not there is
     * a miss (H1), and the number is not used again. */
    extent_drop(volume->extents, number);
    metric_add(M_STORE_RECYCLED, 1);
    return full ? forget_extent(volume, number, entries, count) : OK;
}

enum err room_recycle(struct volume *volume)
{
    struct arena keep = { 0 };
    uint32_t *numbers;
    size_t count = extents_numbers(volume->extents, &keep, &numbers);
    size_t old = count ? count - 1 : 0, victim = policy_victim(numbers, old);    /* not the newest */
    enum err e = victim < old ? recycle(volume, numbers[victim], &keep) : ERR_FULL;
    arena_free(&keep);
    return e;
}

/* Recycles until one more extent fits into the size and leaves the reserve alone. */
static enum err make_room(struct volume *volume)
{
    uint64_t want = volume->folder.format.extent_bytes;
    enum err e = OK;
    while (!e && (extents_bytes(volume->extents) + want > atomic_load(&volume->space.size_bytes) ||
                  service_free_bytes(volume) < atomic_load(&volume->space.reserve_bytes) + want))
        e = room_recycle(volume);
    return e;
}

/* The newest goes only when a newer one stands: after the size was lowered, over it for a
 * moment. */
static bool is_last_too_big(struct volume *volume)
{
    uint64_t want = atomic_load(&volume->space.reserve_bytes) + volume->folder.format.extent_bytes;
    return extents_count(volume->extents) == 1 && service_free_bytes(volume) >= want;
}

enum err room_next_extent(struct volume *volume)
{
    enum err e = make_room(volume);
    if (e == ERR_FULL && is_last_too_big(volume))
        e = OK;
    if (!e)
        e = open_extent_roll(volume->extents);
    if (e == ERR_FULL && room_recycle(volume) == OK)
        e = open_extent_roll(volume->extents);
    return e == ERR_LIMIT ? ERR_FULL : e;    /* no descriptor: as good as no room */
}

enum err room_shrink(struct volume *volume)
{
    uint64_t until_ms = mono_ms() + SHRINK_MS;
    enum err e = OK;
    while (!e && extents_bytes(volume->extents) > atomic_load(&volume->space.size_bytes) &&
           mono_ms() < until_ms)
        e = room_recycle(volume);
    return e;
}
