/* service.c - takes a cache folder into service and out of it; answers if its disk hangs.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A failure takes the folder out of service: it is closed as after a crash. The next opening, which
 * is tried every 5 s, raises the generation. So metadata that a lost removal should have removed is
 * unproved, and all metadata in the folder is unshared (names.h). Until then, appends and removals
 * are answered with ERR_IO at once. A second thread, the watch, answers removals when a commit or
 * an opening hangs (rule H3 in src/README.md), and wakes the readers if reads wait for long: they
 * give up the reads of a disk that hangs. Threads: the watch has a thread of its own; all else runs
 * on the committer. */
#include "store/service.h"

#include <assert.h>

#include "base/metric.h"
#include "store/account.h"
#include "store/age_files.h"
#include "store/installation.h"
#include "store/io.h"
#include "store/leftovers.h"
#include "store/moved.h"
#include "store/pinned.h"
#include "store/recycle.h"
#include "store/removal.h"
#include "store/room.h"
#include "store/sizing.h"

#define WATCH_MS 500u
#define LATE_MS 500u                  /* the watch may wake this much too late */
#define OPENING_MS 1000u              /* a removal waits so long for an opening; most take less */
#define RESERVE_MAX (8 * GIB)
#define GIVEN_MAX 2u                  /* extents that go for files of at most a few MiB */
#define FILES_KEPT 16u                /* free inodes for the folder's files other than extents */

/* The metric is the sum of all volumes. Any thread. */
static void gauge(struct volume *volume, enum volume_gauge which, int64_t value)
{
    static const enum metric metrics[] = {
        [GAUGE_BYTES] = M_STORE_BYTES, [GAUGE_HELD] = M_STORE_HELD, [GAUGE_LIVE] = M_STORE_LIVE,
        [GAUGE_CAPACITY] = M_STORE_CAPACITY, [GAUGE_FREE] = M_STORE_FREE,
        [GAUGE_ENTRIES] = M_STORE_ENTRIES, [GAUGE_SERVING] = M_STORE_SERVING,
        [GAUGE_PINNED] = M_PINS_BYTES, [GAUGE_PIN_BUDGET] = M_PINS_BUDGET,
        [GAUGE_STAGED] = M_STORE_STAGED,
    };
    static_assert(countof(metrics) == VOLUME_GAUGES, "a metric for each gauge");
    metric_gauge_add(metrics[which],
                     value - atomic_exchange(&volume->service.gauges[which], value));
}

void service_gauges_end(struct volume *volume)
{
    for (unsigned which = 0; which < VOLUME_GAUGES; which++)
        gauge(volume, (enum volume_gauge)which, 0);
}

uint64_t service_free_bytes(const struct volume *volume)
{
    struct store_space space;
    if (store_space(volume->folder.path, &space) != OK)
        return UINT64_MAX;
    return space.free_files < FILES_KEPT ? 0 : space.free_bytes;
}

/* Returns the free bytes that new extents can take. An extent takes two inodes: the second one is
 * for its file of ages, which may be written later. */
static uint64_t bytes_for_extents(const struct volume *volume)
{
    struct store_space space;
    uint64_t each = atomic_load(&volume->space.extent_bytes);
    uint64_t kept = FILES_KEPT + extents_count(volume->extents);
    if (store_space(volume->folder.path, &space) != OK)
        return UINT64_MAX;
    uint64_t more = (space.free_files - MIN(space.free_files, kept)) / 2;
    return !each || space.free_bytes / each < more ? space.free_bytes
                                                   : MIN(space.free_bytes, more * each);
}

/* Grows the size if no setting gives it, up to SIZE_EXTENTS_MAX extents. The index has room for the
 * records of this number of extents (folder.c). The next opening has larger extents, up to 64 MiB,
 * and derives the size without this limit. */
static void grow(struct volume *volume, uint64_t free)
{
    uint64_t size = atomic_load(&volume->space.size_bytes), own = extents_bytes(volume->extents);
    uint64_t most = (uint64_t)SIZE_EXTENTS_MAX * atomic_load(&volume->space.extent_bytes);
    uint64_t derived = sizing_derive(size, free, own + index_size(volume->index).bytes);
    if (!volume->options.size_bytes && atomic_load(&volume->service.open))
        atomic_store(&volume->space.size_bytes, MAX(size, MIN(derived, most)));
}

/* Notes the free bytes in RAM, for threads that must not wait for the file system. */
void service_measure(struct volume *volume)
{
    uint64_t free = bytes_for_extents(volume), kept = atomic_load(&volume->space.reserve_bytes);
    if (free == UINT64_MAX)
        return;
    uint64_t all = free + extents_bytes(volume->extents);
    atomic_store(&volume->space.free_bytes, free);
    if (volume->folder.fd >= 0)    /* else the bytes of its extents are not known, and room stays */
        atomic_store(&volume->space.room_bytes, all - MIN(all, kept));
    grow(volume, free);
    gauge(volume, GAUGE_FREE, (int64_t)free);
    gauge(volume, GAUGE_CAPACITY, (int64_t)volume_capacity(volume));
}

uint64_t volume_capacity(struct volume *volume)
{
    return MIN(atomic_load(&volume->space.size_bytes), atomic_load(&volume->space.room_bytes));
}

void service_metrics(struct volume *volume)
{
    gauge(volume, GAUGE_BYTES, (int64_t)extents_bytes(volume->extents));
    gauge(volume, GAUGE_ENTRIES, (int64_t)index_size(volume->index).entries);
    gauge(volume, GAUGE_SERVING, volume_is_serving(volume));
    gauge(volume, GAUGE_PINNED, (int64_t)atomic_load(&volume->pinned.bytes));
    gauge(volume, GAUGE_PIN_BUDGET, (int64_t)pinned_budget(volume));
}

/* The folder serves from now on. After an opening with doubt, all its metadata is unproved, unshared
 * and restated, and nothing was stored since. So the removals that the watch gave up during the
 * opening need no other opening. Under steady removals there would be no end of them. Under the lock,
 * the watch gives up no removal in between. */
static void begin_service(struct volume *volume)
{
    pthread_mutex_lock(&volume->queue.lock);
    if (volume->folder.doubted)
        atomic_store(&volume->service.unproved, false);
    runs_join(volume->options.installation, volume->number, volume->folder.format.serial);
    atomic_store(&volume->service.open, true);
    pthread_mutex_unlock(&volume->queue.lock);
}

/* A purge either sees that the folder is open and waits for it, or the folder takes its ban before
 * it opens. */
static enum err open_with_bans(struct volume *volume)
{
    struct ban_list *list = &volume->options.installation->bans;
    for (;;) {
        pthread_mutex_lock(&list->lock);
        bool current = atomic_load(&volume->bans->written) == ban_list_version(list);
        if (current)
            begin_service(volume);
        pthread_mutex_unlock(&list->lock);
        enum err e = current ? OK : bans_follow(volume->bans, list, &volume->folder);
        if (current || e)
            return e;
    }
}

/* Opens the files beside the index that a look-up needs. */
static enum err open_beside(struct volume *volume, const char **ret_why)
{
    enum err e = restated_open(volume->known.restated, &volume->folder);
    *ret_why = e == ERR_FULL
        ? "the file 'restated' in the folder can't be written, because the file system is full or "
          "a disk quota is used up; make room there"
        : "writing the file 'restated' in the folder failed; check the rights of Penstock's "
          "user there, and the health of the disk";
    if (e)
        return e;
    bool missed[VOLUMES_MAX];
    runs_missed_of(volume->options.installation, volume->number, &volume->folder.format,
                   volume->folder.last_run, missed);
    e = bans_open(volume->bans, &volume->options.installation->bans, &volume->folder, missed);
    *ret_why = e == ERR_FULL
        ? "the file 'bans' in the folder can't be written, because the file system is full or a "
          "disk quota is used up. Without this file, Penstock might serve purged objects; make "
          "room there"
        : "the file 'bans' in the folder can't be read or written; check the rights of Penstock's "
          "user there, and the health of the disk";
    return e;
}

/* Makes room for the files if the disk is full. If that does not help, something else fills the
 * disk, and the cache is not thrown away for that. */
static bool gave_extent(struct volume *volume, enum err e)
{
    if (e != ERR_FULL || volume->service.given == GIVEN_MAX ||
        !folder_give_oldest(&volume->folder))
        return false;
    volume->service.given++;
    return true;
}

/* Opens the folder, and the files beside the index. After a failure the folder is closed, and
 * wish->unproved says whether the next opening must doubt it. */
static enum err open_folder(struct volume *volume, struct folder_wish *wish, const char **ret_why)
{
    enum err e = folder_open(&volume->folder, wish, volume->secret, ret_why);
    if (e)
        return e;
    do
        e = open_beside(volume, ret_why);
    while (gave_extent(volume, e));
    if (!e && (e = pinned_open(volume)) != OK)
        *ret_why = "the file 'pins' in the folder can't be read; check the rights of Penstock's user "
                   "there, and the health of the disk";
    if (e == ERR_LIMIT)
        *ret_why = FOLDER_NO_FILES;
    if (e) {
        folder_close(&volume->folder, false);
        wish->unproved = true;
    } else {
        *ret_why = "";
    }
    return e;
}

enum err service_begin(struct volume *volume, const char **ret_why)
{
    const struct installation *all = volume->options.installation;
    service_note_doubt(volume);    /* after a crash in the middle, the next process doubts, too */
    struct folder_wish wish = { .size_bytes = volume->options.size_bytes,
                                .extent_bytes = volume->options.extent_bytes,
                                .unproved = atomic_exchange(&volume->service.unproved, false),
                                .last_generation = atomic_load(&volume->generation),
                                .self = volume->options.self,
                                .list = all->list, .list_count = all->list_count,
                                .serial = atomic_load(&all->runs.serial),
                                .serial_least = MAX(volume->service.serial,
                                                    all->runs.serial_least[volume->number]) };
    enum err e = open_folder(volume, &wish, ret_why);
    if (e) {
        if (wish.unproved)
            atomic_store(&volume->service.unproved, true);
        atomic_store(&volume->service.why, *ret_why);
        return e;
    }
    volume->service.given = 0;
    struct store_space space;
    uint64_t reserve = volume->options.reserve_bytes;
    if (!reserve && store_space(volume->folder.path, &space) == OK)
        reserve = MIN(space.bytes / 20, RESERVE_MAX);
    atomic_store(&volume->space.reserve_bytes, reserve);
    atomic_store(&volume->space.size_bytes, volume->folder.format.size_bytes);
    atomic_store(&volume->space.extent_bytes, volume->folder.format.extent_bytes);
    atomic_store(&volume->generation, volume->folder.format.generation);
    age_files_read(volume);
    account_begin(volume);
    metadata_cache_clear(volume->known.cache);
    names_apply(volume->known.names, &volume->folder);
    folder_doubt_ends(&volume->folder);
    volume->service.doubted = false;
    volume->service.serial = volume->folder.format.serial;
    moved_begin(volume);
    atomic_store(&volume->service.why, "");
    atomic_store(&volume->service.anew, volume->folder.anew);
    service_measure(volume);
    room_note(volume);
    recycle_resume(volume);
    if ((e = open_with_bans(volume)) != OK) {
        *ret_why = e == ERR_LIMIT
            ? FOLDER_NO_FILES
            : "the file 'bans' in the folder can't be written; check the free space and the health "
              "of the disk";
        service_end(volume, *ret_why);
        return ERR_IO;
    }
    pinned_opened(volume);
    service_metrics(volume);
    return OK;
}

/* In this folder, even if its path leads elsewhere by now. */
static void doubt_open_folder(struct volume *volume)
{
    if (atomic_load(&volume->service.unproved))
        (void)folder_doubt(&volume->folder, volume->secret);
}

void service_end(struct volume *volume, const char *why)
{
    if (removals_are_due(volume))
        atomic_store(&volume->service.unproved, true);
    atomic_store(&volume->service.why, why);
    atomic_store(&volume->service.open, false);
    /* The other folders write this. If the note of doubt can't be written here, the next process
     * still sees that this folder missed a run of theirs. */
    runs_leave(volume->options.installation, volume->number);
    doubt_open_folder(volume);
    /* As after a crash: the next opening trusts nothing in the folder. The recycler may hang with the
     * disk, so what is known so far is noted before. */
    recycle_pause(volume);
    account_end(volume);
    leftovers_end(volume);
    doubt_open_folder(volume);    /* the watch may have given up removals meanwhile */
    folder_close(&volume->folder, false);
    metadata_cache_clear(volume->known.cache);
    service_note_doubt(volume);
    service_metrics(volume);
    atomic_fetch_add(&volume->service.faults, 1);
    metric_add(M_STORE_FAULTS, 1);    /* last, so that its readers find the folder out of service */
}

void service_note_doubt(struct volume *volume)
{
    if (atomic_load(&volume->service.unproved) && !volume->service.doubted)
        (void)folder_doubt(&volume->folder, volume->secret);
    volume->service.doubted = atomic_load(&volume->service.unproved);
}

/* ---- the watch ---- */

/* Returns true if removals are answered now without the folder, which then comes back unproved. A
 * removal that comes while the folder is opened waits for the opening, because a folder that missed
 * one must be opened anew, unless this opening doubts the folder. */
static bool gives_up(struct volume *volume)
{
    uint64_t opening = atomic_load(&volume->service.opening_since_ms);
    return !volume_takes_removals(volume) &&
           (!opening || mono_ms() >= opening + MIN(OPENING_MS, volume->options.commit_ms_max));
}

/* True if the folder is open, but its disk hangs. */
static bool is_stuck(struct volume *volume)
{
    return atomic_load(&volume->service.open) && !volume_is_serving(volume);
}

static void begin_later(_Atomic uint64_t *since_ms, uint64_t late_ms)
{
    uint64_t since = atomic_load(since_ms);
    if (since)    /* else, or if it has changed, there was progress */
        (void)!atomic_compare_exchange_strong(since_ms, &since, MIN(since + late_ms, mono_ms()));
}

/* If a turn of the watch took too long, the whole process was stopped, for example by SIGSTOP or with
 * its machine. The other threads could not work then, so this time does not count. */
static void allow_for_stop(struct volume *volume, uint64_t turn_ms)
{
    if (turn_ms < WATCH_MS + LATE_MS)
        return;
    begin_later(&volume->service.busy_since_ms, turn_ms - WATCH_MS);
    begin_later(&volume->service.opening_since_ms, turn_ms - WATCH_MS);
    begin_later(&volume->service.read_ms, turn_ms - WATCH_MS);
}

void *service_watch(void *arg)
{
    struct volume *volume = arg;
    uint64_t turned_ms = mono_ms();
    pthread_mutex_lock(&volume->queue.lock);
    while (!volume->queue.stopping) {
        if (!removals_press(volume) || !gives_up(volume))
            cond_wait_until(&volume->queue.watch, &volume->queue.lock, mono_ns() + WATCH_MS * 1000000u);
        pthread_mutex_unlock(&volume->queue.lock);
        uint64_t now_ms = mono_ms();
        allow_for_stop(volume, now_ms - turned_ms);
        turned_ms = now_ms;
        gauge(volume, GAUGE_SERVING, volume_is_serving(volume));
        gauge(volume, GAUGE_HELD, (int64_t)extents_held_bytes(volume->extents));
        gauge(volume, GAUGE_STAGED, (int64_t)extents_staging_bytes(volume->extents));
        gauge(volume, GAUGE_LIVE, (int64_t)extents_live_bytes(volume->extents));
        tallies_set_hanging(volume_tallies(volume), volume->number, is_stuck(volume));
        /* If the process was stopped just now, nothing shows that the disk hangs. */
        bool in_time = mono_ms() - now_ms < LATE_MS;
        if (in_time && gives_up(volume))
            removals_give_up(volume);
        if (in_time && (volume_reads_wait_long(volume) || volume_reads_hang(volume)))
            io_wake_all(store_of(volume));
        pthread_mutex_lock(&volume->queue.lock);
    }
    pthread_mutex_unlock(&volume->queue.lock);
    return NULL;
}
