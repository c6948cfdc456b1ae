/* room.c - room for appends. SPDX-License-Identifier: Apache-2.0
 *
 * When the log is full, it takes the place of the copy that the recycler has filled (recycle.c), or
 * begins a new file if the size allows it. One extent of the size stays free for the recycler to
 * copy into.
 *
 * If the disk is full, or the extents have more bytes than the size, extents are evicted here, the
 * oldest first, with all their records. Files in extents/ that can't be used go before; their
 * records are misses anyway. Extents with pinned records come last (give.h). If the size is
 * exceeded, such extents are evicted only after a pass has unpinned the records for which the
 * smaller budget has no room. If the disk has room for copies, and copying regains space, the
 * recycler first copies the pinned records. Otherwise these records are lost, and counted. So each
 * turn regains space, and comes to an end.
 *
 * To evict an extent, its index entries are deleted first, a few thousand in a transaction, and
 * then its file. So the index has no entries of an evicted extent, unless the disk had no room even
 * for these deletions. An extent may have hundreds of thousands of entries, so waiting removals go
 * into each of these transactions. Committer only. */
#include "store/room.h"

#include "base/failpoint.h"
#include "base/guard.h"
#include "base/metric.h"
#include "store/account.h"
#include "store/append_task.h"
#include "store/beside.h"
#include "store/give.h"
#include "store/pinned.h"
#include "store/publish.h"
#include "store/recycle.h"
#include "store/removal.h"
#include "store/service.h"
#include "store/victim.h"

#define RECYCLE_BATCH 2000u           /* records of an evicted extent in one transaction */
#define SHRINK_MS 200u
#define REMOVAL_TRIES 4u              /* extents to evict for a removal, at most */

/* After the commit. Bytes that come later bring no metadata if it is in RAM: a restart would lose
 * metadata that is there alone. */
static void forget_in_ram(struct volume *volume, const struct toc_entry *entries, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct object_id *id = &entries[i].id;
        struct entry entry;
        uint32_t unit;
        if (entries[i].kind == KIND_UNITS ||
            volume_find_metadata(volume, id, NULL, &unit, &entry) == OK)
            continue;
        volume_changed(volume, id);    /* no reader puts it back into RAM */
        metadata_cache_drop(volume->known.cache, id);
    }
}

static enum err forget_extent(struct volume *volume, uint32_t number, const struct toc_entry *entries,
                              uint32_t count, enum event_why why)
{
    const struct ages *ages = extent_ages(volume->extents, number);
    enum err e = OK;
    for (uint32_t i = 0, first; i < count;) {
        first = i;
        removals_take(volume);
        e = index_begin(volume->index);
        if (!e)
            e = removals_publish(volume, volume->removed.done);
        index_set_evicting(volume->index, true);
        for (uint32_t end = MIN(count, i + RECYCLE_BATCH); !e && i < end; i++) {
            e = publish_recycled(volume->index, &entries[i], number, i);
            if (!ages || !ages_is_dead(ages, i))
                events_note(volume->events, &entries[i].id, entries[i].first_unit, why);
        }
        if (!e)
            e = account_commit(volume);
        index_abort(volume->index);
        volume_still_alive(volume);
        if (e)
            break;
        metric_add(M_STORE_COMMITS, 1);
        forget_in_ram(volume, entries + first, i - first);
        removals_settle(volume);
        removals_answer(volume, OK);
    }
    return e;
}

static uint64_t pinned_in(struct volume *volume, uint32_t number)
{
    const struct ages *ages = extent_ages(volume->extents, number);
    return ages ? ages_pinned_bytes(ages) : 0;
}

static enum err evict(struct volume *volume, uint32_t number, enum event_why why,
                      struct arena *keep)
{
    struct toc_entry *entries = NULL;
    uint32_t count = 0;
    uint64_t pinned = pinned_in(volume, number), held = 0;
    enum err e = extent_contents(volume->extents, number, keep, &entries, &count);
    if (e == ERR_LIMIT)    /* no descriptor to read it: a later try may find one */
        return ERR_FULL;
    if (!pins_are_none(volume->options.pins))
        held = give_held(volume->extents, number, entries, e ? 0 : count);
    if (!e)
        e = forget_extent(volume, number, entries, count, why);
    /* pinned_dropped counts the rest */
    pinned_lost(volume, pinned - MIN(pinned, pinned_in(volume, number)));
    bool full = e == ERR_FULL || e == ERR_LIMIT;
    if (e && !full && e != ERR_NOT_FOUND)
        return e;
    /* A copy that could not be made gave its number back since the extent was chosen. The extent with
     * the highest number stays, so that no number is used again (format(5)); its records are gone. */
    if (number == extents_highest(volume->extents))
        return ERR_FULL;
    /* A full disk has no room for the deletions, so the file is removed first. An entry with a
     * missing extent is a miss (rule H1), and the number is not used again. */
    pinned_lost(volume, held);
    account_dropped(volume, number, true);
    pinned_dropped(volume, number);
    extent_drop(volume->extents, number);
    metric_add(M_STORE_RECYCLED, 1);
    atomic_fetch_add(&volume->recycler.recycled, 1);
    return full ? forget_extent(volume, number, entries, count, why) : OK;
}

enum err room_evict(struct volume *volume, uint32_t number, enum event_why why)
{
    struct arena keep = { 0 };
    enum err e = evict(volume, number, why, &keep);
    arena_free(&keep);
    return e;
}

/* Finds the extent to evict (give.h), and the weight of the records in it that must stay. */
static uint32_t oldest(struct volume *volume, uint64_t *ret_stays)
{
    return give_choose(volume->extents, !pins_are_none(volume->options.pins), ret_stays);
}

void room_begin_log(struct volume *volume)
{
    if (!open_extent_is_open(volume->extents, OPEN_LOG) &&
        open_extent_begin(volume->extents, OPEN_LOG) == OK)
        atomic_store(&volume->rule.log_class, ROOM_FOR_ANY);
}

/* An unusable file may have the highest number, and it can go only when there is a higher one. If the
 * disk has no room for another file, an extent goes instead. */
static void begin_beyond_unusable(struct volume *volume)
{
    if (extents_is_unusable(volume->extents, extents_highest(volume->extents)))
        room_begin_log(volume);
}

enum err room_recycle(struct volume *volume)
{
    (void)failpoint(FAIL_EVICT);
    uint64_t pinned;
    begin_beyond_unusable(volume);
    uint32_t victim = oldest(volume, &pinned);
    return victim ? room_evict(volume, victim, EVENT_DISK_FULL) : ERR_FULL;
}

/* ---- removals without room ---- */

static enum err nothing(struct volume *volume, void *arg)
{
    (void)volume;
    (void)arg;
    return OK;
}

enum err room_commit_removals(struct volume *volume)
{
    enum err e = OK;
    for (unsigned tries = 0; removals_are_due(volume); tries++) {
        e = beside_commit(volume, nothing, NULL, NULL);
        if (!e || (e != ERR_FULL && e != ERR_LIMIT) || tries == REMOVAL_TRIES)
            break;
        e = room_recycle(volume);    /* takes the removals into its transactions */
        if (e && e != ERR_FULL)
            break;
    }
    return removals_are_due(volume) ? e : OK;
}

/* ---- the next extent of the log ---- */

static bool is_ready(const struct volume *volume)
{
    return atomic_load(&volume->recycler.ready);
}

uint64_t room_free_extents(const struct volume *volume)
{
    uint64_t want = atomic_load(&volume->space.extent_bytes);
    uint64_t size = atomic_load(&volume->space.size_bytes);
    uint64_t used = extents_bytes(volume->extents) + open_extent_left(volume->extents, OPEN_LOG) +
                    open_extent_left(volume->extents, OPEN_STAGING);
    bool copies = open_extent_is_open(volume->extents, OPEN_COPY);
    uint64_t spare = size < 2 * want ? 0 : want;
    if (is_ready(volume))
        used += open_extent_left(volume->extents, OPEN_COPY);
    else if (copies)
        spare = open_extent_left(volume->extents, OPEN_COPY);
    uint64_t disk = atomic_load(&volume->space.free_bytes);
    uint64_t reserve = atomic_load(&volume->space.reserve_bytes);
    uint64_t by_size = size > used + spare ? (size - used - spare) / want : 0;
    uint64_t by_disk = disk > reserve ? (disk - reserve) / want : 0;
    return MIN(by_size, by_disk);
}

/* Returns for which records the next extent of the log has room. If the size allows more than one
 * extent, it is any record. */
static enum mean_age_room next_class(struct volume *volume)
{
    pthread_mutex_lock(&volume->rule.lock);
    enum mean_age_room class = volume->rule.next_class;
    pthread_mutex_unlock(&volume->rule.lock);
    return !is_ready(volume) && room_free_extents(volume) > 1 ? ROOM_FOR_ANY : class;
}

/* The copy takes the place of the log, and the recycler may go on. Returns false if no copy is
 * ready. */
static bool adopt_copy(struct volume *volume)
{
    if (!atomic_load(&volume->recycler.ready))
        return false;
    open_extent_adopt(volume->extents);
    account_sealed(volume);
    pthread_mutex_lock(&volume->rule.lock);
    atomic_store(&volume->recycler.ready, false);
    pthread_cond_signal(&volume->rule.more);
    pthread_mutex_unlock(&volume->rule.lock);
    return true;
}

static void seal(struct volume *volume)
{
    (void)!open_extent_seal(volume->extents, OPEN_LOG);
    account_sealed(volume);
}

void room_seal_log(struct volume *volume)
{
    enum mean_age_room class = next_class(volume);
    if (adopt_copy(volume))
        atomic_store(&volume->rule.log_class, (uint32_t)class);
    else
        seal(volume);
}

enum err room_next_extent(struct volume *volume)
{
    enum mean_age_room class = next_class(volume);
    enum err e = OK;
    if (!adopt_copy(volume)) {
        seal(volume);    /* so that it may be recycled */
        e = room_free_extents(volume) ? open_extent_begin(volume->extents, OPEN_LOG) : ERR_FULL;
    }
    if (!e)
        atomic_store(&volume->rule.log_class, (uint32_t)class);
    return e == ERR_LIMIT ? ERR_FULL : e;    /* no descriptor counts as no room */
}

/* Returns the bytes that an extent without records can take. */
static uint64_t extent_room(const struct volume *volume)
{
    return atomic_load(&volume->space.extent_bytes) - 3 * PAGE_BYTES;
}

size_t room_places(const struct volume *volume, uint64_t ret[ROOM_PLACES])
{
    size_t count = 0;
    uint64_t more = room_free_extents(volume);
    ret[count++] = open_extent_left(volume->extents, OPEN_LOG);
    if (is_ready(volume))
        ret[count++] = open_extent_left(volume->extents, OPEN_COPY);
    while (count < ROOM_PLACES && more--)
        ret[count++] = extent_room(volume);
    return count;
}

/* Returns the room in all places, even beyond ROOM_PLACES: the queue may have more bytes. */
static uint64_t room_bytes(const struct volume *volume)
{
    uint64_t bytes = open_extent_left(volume->extents, OPEN_LOG) +
                     room_free_extents(volume) * extent_room(volume);
    return bytes + (is_ready(volume) ? open_extent_left(volume->extents, OPEN_COPY) : 0);
}

/* Counts padding, two headers, and the name twice: in the metadata block and in the row. */
uint64_t room_of_append(const struct store_append *append)
{
    const struct metadata *metadata = append->metadata;
    bool stages = append_stages_bytes(append);
    uint64_t bytes = (stages ? 0 : append->bytes.len) + 3 * PAGE_BYTES;
    if (stages && (!append->with_metadata || append_is_whole(append)))
        return 0;
    if (append->with_metadata)
        bytes += 2 * metadata_block_bytes(metadata);
    if (!append->bytes.len && metadata->size <= WHOLE_BYTES_MAX)
        bytes += metadata->size;    /* its bytes may be written again (rewrite.h) */
    return bytes;
}

void room_note(struct volume *volume)
{
    uint64_t left = room_bytes(volume);
    atomic_store(&volume->rule.waste.no_copies, !volume_has_space_for_copy(volume));
    pthread_mutex_lock(&volume->queue.lock);    /* no append is queued meanwhile */
    size_t queued = volume->queue.bytes - volume->space.staging.queued;
    atomic_store(&volume->rule.room_left, (int64_t)left - (int64_t)queued);
    pthread_mutex_unlock(&volume->queue.lock);
}

/* ---- more bytes than there may be ---- */

/* Returns true if files of other programs take space from the reserve. Evicted extents that readers
 * still hold do not count, because their space will soon be free. */
static bool reserve_is_used(struct volume *volume)
{
    uint64_t reserve = atomic_load(&volume->space.reserve_bytes);
    if (atomic_load(&volume->space.free_bytes) >= reserve || extents_count(volume->extents) < 2)
        return false;
    uint64_t free = service_free_bytes(volume);
    return free < reserve && extents_held_bytes(volume->extents) < reserve - free;
}

bool room_is_exceeded(struct volume *volume)
{
    uint64_t size = atomic_load(&volume->space.size_bytes);
    bool exceeded = (extents_bytes(volume->extents) > size &&
                     extents_linked_bytes(volume->extents) > size) || reserve_is_used(volume);
    if (!exceeded)
        atomic_store(&volume->recycler.in_vain, false);
    return exceeded;
}

/* True if the copy of some extent's pinned records regains space, as far as it can be told. After a
 * copy that regained none, an extent is evicted first. */
static bool copies_gain(struct volume *volume)
{
    struct arena keep = { 0 };
    uint32_t *numbers;
    uint64_t gain, want = atomic_load(&volume->space.extent_bytes);
    size_t all = extents_numbers(volume->extents, &keep, &numbers), count = 0;
    for (size_t i = 0; i < all; i++)
        if (!extent_is_open(volume->extents, numbers[i]))
            numbers[count++] = numbers[i];
    (void)victim_to_shrink(volume, numbers, count, &gain);
    arena_free(&keep);
    return gain >= want / RECYCLE_GAIN && !atomic_exchange(&volume->recycler.in_vain, false);
}

/* Leaves an extent with pinned records to the recycler. Returns false if there is no such extent,
 * no room for copies, or nothing to gain by them. */
static bool leaves_to_recycler(struct volume *volume)
{
    uint64_t pinned, want = atomic_load(&volume->space.extent_bytes);
    bool fits = atomic_load(&volume->space.free_bytes) >= want;
    bool leaves = oldest(volume, &pinned) && pinned && fits && guard_on(GUARD_PINS) &&
                  copies_gain(volume);
    if (leaves) {
        (void)!adopt_copy(volume);    /* the recycler waits for that */
        rule_shrinks(&volume->rule);
    }
    return leaves;
}

enum err room_shrink(struct volume *volume)
{
    uint64_t until_ms = mono_ms() + SHRINK_MS;
    enum err e = OK;
    while (!e && room_is_exceeded(volume) && mono_ms() < until_ms) {
        if (!pinned_is_known(volume) || pinned_awaits_fall(volume) || leaves_to_recycler(volume))
            return OK;
        e = room_recycle(volume);
    }
    return e;
}
