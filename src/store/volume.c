/* volume.c - one cache folder in use: its life, and what is handed in to it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * commit.c writes, service.c takes the folder into service and out of it, and vouch.c asks the
 * index. */
#include "store/volume_inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/metric.h"
#include "base/thread.h"
#include "store/account.h"
#include "store/age_files.h"
#include "store/find_name.h"
#include "store/installation.h"
#include "store/leftovers.h"
#include "store/moved.h"
#include "store/pinned.h"
#include "store/recycle.h"
#include "store/scrub.h"
#include "store/service.h"

/* ---- life ---- */

struct volume *volume_new(const struct volume_options *options)
{
    struct volume *volume = must_alloc(sizeof(*volume));
    check(options->metadata_bytes && options->queue_bytes_max && options->commit_ms_max);
    volume->options = *options;
    volume->secret = options->installation->secret;
    volume->folder.path = must_strndup(options->folder, strlen(options->folder));
    volume->options.folder = volume->folder.path;
    volume->folder.fd = volume->folder.lock_fd = -1;
    volume->folder.pins = options->pins;
    volume->folder.index = volume->index = index_new();
    volume->folder.extents = volume->extents = extents_new(options->memory_bytes);
    volume->known.cache = metadata_cache_new(options->metadata_bytes);
    volume->known.names = names_new();
    volume->known.restated = restated_new();
    volume->known.reader = names_reader_new(volume);
    volume->events = events_new();
    volume->bans = bans_new(volume->secret,
                            (size_t)(options->self - options->installation->route));
    atomic_store(&volume->service.why, "Penstock is still opening the folder");
    atomic_store(&volume->service.anew, "");
    list_init(&volume->queue.appends);
    list_init(&volume->queue.removals);
    list_init(&volume->queue.committing);
    list_init(&volume->queue.updates);
    list_init(&volume->queue.relocations);
    pthread_cond_init(&volume->queue.answered, NULL);
    pthread_mutex_init(&volume->pinned.lock, NULL);
    pthread_cond_init(&volume->pinned.turned, NULL);
    pthread_mutex_init(&volume->recycler.lock, NULL);
    pthread_mutex_init(&volume->upkeep.leftovers.lock, NULL);
    atomic_init(&volume->recycler.paused, true);
    scrub_init(&volume->scrub);
    rule_init(&volume->rule, options->size_bytes / RECORD_BYTES_MAX);
    pthread_mutex_init(&volume->queue.lock, NULL);
    pthread_cond_init(&volume->queue.more, NULL);
    pthread_cond_init(&volume->queue.watch, NULL);
    return volume;
}

static void volume_end(struct volume *volume)
{
    names_reader_free(&volume->known.reader);    /* it uses the index and the extents */
    service_gauges_end(volume);
    account_end(volume);
    leftovers_end(volume);
    pthread_mutex_destroy(&volume->upkeep.leftovers.lock);
    index_free(&volume->index);
    extents_free(&volume->extents);
    metadata_cache_free(&volume->known.cache);
    names_free(&volume->known.names);
    restated_free(&volume->known.restated);
    events_free(&volume->events);
    bans_free(&volume->bans);
    rule_end(&volume->rule);
    scrub_end(&volume->scrub);
    pthread_mutex_destroy(&volume->recycler.lock);
    pthread_mutex_destroy(&volume->pinned.lock);
    pthread_cond_destroy(&volume->pinned.turned);
    arena_free(&volume->recycler.round.keep);
    pthread_cond_destroy(&volume->queue.answered);
    pthread_cond_destroy(&volume->queue.more);
    pthread_cond_destroy(&volume->queue.watch);
    pthread_mutex_destroy(&volume->queue.lock);
    free(volume->removed.ids);
    free(volume->folder.path);
    free(volume->folder.point);
    free(volume);
}

/* Returns the reason with names and advice if a probe finds the same problem, otherwise `why`. */
static slice why_at_length(const struct volume *volume, enum err err, const char *why,
                           struct arena *keep)
{
    slice found = S("");
    enum err seen = err == ERR_IO ? store_probe(volume->folder.path, keep, &found) : OK;
    return (seen == ERR_IO || seen == ERR_DENIED) && found.len ? found : slice_of(why);
}

enum err volume_start(struct volume *volume, struct arena *keep, slice *ret_why)
{
    struct format format;
    const char *why = "";
    enum err e = folder_peek(volume->folder.path, &format, &why);
    if (e != ERR_FORMAT)
        e = service_begin(volume, &why);
    *ret_why = (slice){ "", 0 };
    if (e == ERR_FORMAT && *volume->folder.stranger)
        *ret_why = arena_printf(keep, "the cache folder %s can't be used: it holds %s, which is "
                                "not Penstock's; " SET_EMPTY,
                                volume->folder.path, volume->folder.stranger);
    else if (*why)
        *ret_why = arena_printf(keep, "the cache folder %s can't be used: %.*s",
                                volume->folder.path,
                                SLICE_ARG(why_at_length(volume, e, why, keep)));
    if (e == ERR_FORMAT)
        return e;
    check(thread_start(&volume->threads.committer, commit_run, volume, "commit"));
    check(thread_start(&volume->recycler.thread, recycle_run, volume, "recycle"));
    check(thread_start(&volume->threads.watch, service_watch, volume, "watch"));
    if (volume->options.scrub_ms)
        check(thread_start(&volume->scrub.thread, scrub_run, volume, "scrub"));
    return OK;
}

void volume_stop(struct volume *volume)
{
    if (!volume->threads.committer)
        return;
    scrub_stop(volume);
    recycle_stop(volume);    /* before the committer stops, which must answer the recycler */
    pthread_mutex_lock(&volume->queue.lock);
    volume->queue.stopping = true;
    pthread_cond_signal(&volume->queue.more);
    pthread_cond_signal(&volume->queue.watch);
    pthread_mutex_unlock(&volume->queue.lock);
    pthread_join(volume->threads.committer, NULL);
    pthread_join(volume->threads.watch, NULL);
    volume->threads.committer = 0;
}

void volume_free(struct volume **volume)
{
    struct volume *mine = *volume;
    *volume = NULL;
    if (!mine)
        return;
    bool clean = !atomic_load(&mine->service.unproved) && !mine->upkeep.moved.active;
    if (atomic_exchange(&mine->service.open, false)) {
        if (clean)
            age_files_write(mine);
        folder_close(&mine->folder, clean);
    }
    volume_end(mine);
}

static uint64_t bad_blocks(struct volume *volume)
{
    uint32_t last;
    return atomic_load(&volume->service.bad) + index_damaged(volume->index) +
           extents_damaged(volume->extents, &last);
}

void volume_status(struct volume *volume, struct store_status *ret)
{
    bool serving = volume_is_serving(volume);
    bool stuck = !serving && atomic_load(&volume->service.open);
    struct index_size index = index_size(volume->index);
    *ret = (struct store_status){
        .serving = serving,
        .folder = volume->folder.path,
        .faults = atomic_load(&volume->service.faults),
        .why = stuck ? DISK_SLOW : atomic_load(&volume->service.why),
        .anew = atomic_load(&volume->service.anew),
        .size_bytes = atomic_load(&volume->space.size_bytes),
        .derived = !volume->options.size_bytes,
        .used_bytes = extents_bytes(volume->extents),
        .live_bytes = (uint64_t)atomic_load(&volume->service.gauges[GAUGE_LIVE]),
        .reserve_bytes = atomic_load(&volume->space.reserve_bytes),
        .free_bytes = atomic_load(&volume->space.free_bytes),
        .capacity_bytes = volume_capacity(volume),
        .pinned_bytes = atomic_load(&volume->pinned.bytes),
        .pin_budget_bytes = pinned_budget(volume),
        .entries = index.entries,
        .index_bytes = index.bytes,
        .metadata_bytes = metadata_cache_bytes(volume->known.cache),
        .extents = extents_count(volume->extents),
        .work = {
            .appended_bytes = extents_appended(volume->extents),
            .copied_bytes = atomic_load(&volume->recycler.copied),
            .evicted = atomic_load(&volume->recycler.recycled),
            .bad_blocks = bad_blocks(volume),
            .scrubbed_s = atomic_load(&volume->scrub.passed_s),
        },
    };
}

void volume_names(struct volume *volume, const struct store_name *list, size_t count)
{
    names_set(volume->known.names, volume->secret, list, count);
    if (atomic_load(&volume->service.open))
        names_apply(volume->known.names, &volume->folder);    /* nothing has been appended yet */
}

/* ---- handing in ---- */

/* A disk that can't keep up must not slow the proxy down. So while a commit takes longer than a
 * second, the last quarter of the queue is for records that were admitted before. A full queue
 * alone is no reason to refuse: fills then wait milliseconds for their slots, and their bytes need
 * not be fetched again. */
static bool has_room(struct volume *volume)
{
    uint64_t since = atomic_load_explicit(&volume->service.busy_since_ms, memory_order_relaxed);
    if (!since || mono_ms() < since + SLOW_COMMIT_MS)
        return true;
    pthread_mutex_lock(&volume->queue.lock);
    bool room = volume->queue.bytes + volume->queue.taken <
                volume->options.queue_bytes_max / 4 * 3;
    pthread_mutex_unlock(&volume->queue.lock);
    return room;
}

bool volume_keeps_up(struct volume *volume)
{
    return volume_is_serving(volume) && has_room(volume);
}

bool volume_takes(struct volume *volume)
{
    if (!volume_is_serving(volume))
        return false;
    bool room = has_room(volume);
    if (!room)
        metric_add(M_STORE_QUEUE_FULL, 1);
    return room;
}

void volume_over_quota(struct volume *volume, const struct object_id *id, uint32_t unit)
{
    metric_add(M_STORE_OVER_QUOTA, 1);
    events_note(volume->events, id, unit,
                tallies_are_counted(volume_tallies(volume)) ? EVENT_OVER_QUOTA
                                                            : EVENT_QUOTA_NOT_COUNTED);
}

typedef bool admits_record(struct rule *rule, uint64_t hash, bool always);

/* A pinned object needs no proof that it is read. */
static bool admits(struct volume *volume, const struct metadata *metadata, uint32_t unit,
                   bool always, admits_record *rule_admits_it)
{
    uint64_t hash = mean_age_hash(&metadata->id, rule_first_unit(unit));
    bool serves = volume_is_serving(volume);
    bool pinned = serves && pinned_wants(volume, metadata->name);
    bool admitted = serves && rule_admits_it(&volume->rule, hash, always || pinned);
    if (!admitted)
        events_note(volume->events, &metadata->id, unit,
                    serves ? EVENT_NOT_ADMITTED : EVENT_OUT_OF_SERVICE);
    return admitted;
}

bool volume_admits(struct volume *volume, const struct metadata *metadata, uint32_t unit,
                   bool always)
{
    return admits(volume, metadata, unit, always, rule_admits);
}

bool volume_admits_ahead(struct volume *volume, const struct metadata *metadata, uint32_t unit,
                         bool always)
{
    return admits(volume, metadata, unit, always, rule_admits_ahead);
}

bool volume_admits_metadata(struct volume *volume, const struct metadata *metadata)
{
    return volume_is_serving(volume) &&
           (rule_has_room(&volume->rule) || volume_knows(volume, &metadata->id, NULL) ||
            pinned_wants(volume, metadata->name));
}

static void check_append(const struct store_append *append)
{
    const struct metadata *metadata = append->metadata;
    uint64_t start = (uint64_t)append->first_unit * UNIT_BYTES, end = start + append->bytes.len;
    check(append->done && (append->bytes.len || append->with_metadata));
    check(append->bytes.len <= RECORD_BYTES_MAX && end <= MAX(metadata->size, start));
    check(append->bytes.len % UNIT_BYTES == 0 || end == metadata->size);
}

/* Under the lock, before an append or update is queued: the first one opens a commit (commit.c). */
static void begin_commit(struct volume *volume)
{
    if (!list_empty(&volume->queue.appends) || !list_empty(&volume->queue.updates))
        return;
    volume->queue.oldest_ms = mono_ms();
    pthread_cond_signal(&volume->queue.more);
}

enum err volume_append(struct volume *volume, struct store_append *append)
{
    check_append(append);
    size_t bytes = append->bytes.len;
    if (append->with_metadata && metadata_block_bytes(append->metadata) > METADATA_BLOCK_MAX)
        return ERR_LIMIT;
    if (!volume_is_serving(volume))
        return ERR_IO;
    struct tallies *tallies = volume_tallies(volume);
    append->tally = tallies_of_name(tallies, append->metadata->name);
    if (!tallies_take(tallies, append->tally, bytes)) {
        volume_over_quota(volume, &append->metadata->id, append->first_unit);
        return ERR_FULL;
    }
    enum err e = OK;
    pthread_mutex_lock(&volume->queue.lock);
    if (volume->queue.stopping)
        e = ERR_STOPPING;
    else if (!moved_may_append(volume, append))
        e = ERR_IO;
    else if (volume->queue.bytes + volume->queue.taken + bytes > volume->options.queue_bytes_max)
        e = ERR_LIMIT;    /* H8: the bytes of a commit take memory until it has ended */
    if (!e) {
        begin_commit(volume);
        list_add(&volume->queue.appends, &append->link);
        volume->queue.appended++;
        volume->queue.bytes += bytes;
        if (append->staged)
            volume->space.staging.queued += bytes;
        else
            rule_take_room(&volume->rule, bytes);
        volume->queue.entries += 1 + bytes / UNIT_BYTES;
        if (volume->queue.entries >= COMMIT_ENTRIES || volume->queue.bytes >= COMMIT_BYTES)
            pthread_cond_signal(&volume->queue.more);
        if (append->with_metadata)
            atomic_fetch_add(coming_counter(volume, &append->metadata->id), 1);
    }
    pthread_mutex_unlock(&volume->queue.lock);
    if (e)
        tallies_give(tallies, append->tally, bytes);
    if (e == ERR_LIMIT) {
        metric_add(M_STORE_QUEUE_FULL, 1);
        events_note(volume->events, &append->metadata->id, append->first_unit, EVENT_QUEUE_FULL);
    }
    return e;
}

void volume_wants_turn(struct volume *volume)
{
    pthread_mutex_lock(&volume->queue.lock);
    volume->queue.turn_wanted = true;
    pthread_cond_signal(&volume->queue.more);
    pthread_mutex_unlock(&volume->queue.lock);
}

void volume_drop_in_ram(struct volume *volume, const struct object_id *id,
                        const struct store_versions *versions)
{
    struct metadata *metadata = metadata_cache_get(volume->known.cache, id);
    if (metadata && versions_have(versions, metadata->etag_hash,
                                  metadata_mark(metadata->size, metadata->modified_s)))
        metadata_cache_drop(volume->known.cache, id);
    metadata_unref(&metadata);
}

void volume_remove(struct volume *volume, struct store_removal *removal)
{
    check(removal->count > 0 && removal->done);
    for (size_t i = 0; i < removal->count && !removal->refused; i++)
        volume_drop_in_ram(volume, &removal->ids[i], &removal->versions);
    pthread_mutex_lock(&volume->queue.lock);
    list_add(&volume->queue.removals, &removal->link);
    pthread_cond_signal(&volume->queue.more);
    if (!volume_takes_removals(volume))    /* the watch answers */
        pthread_cond_signal(&volume->queue.watch);
    pthread_mutex_unlock(&volume->queue.lock);
}

void volume_update(struct volume *volume, enum update_kind kind, const struct object_id *id,
                 uint32_t unit, const struct entry *entry)
{
    struct update *update = must_alloc(sizeof(*update));
    *update = (struct update){ .kind = kind, .generation = atomic_load(&volume->generation),
                               .of = { *id, unit, entry->extent, entry->ordinal } };
    pthread_mutex_lock(&volume->queue.lock);
    bool room = volume->queue.update_count < UPDATES_MAX && !volume->queue.stopping;
    if (room) {
        begin_commit(volume);
        volume->queue.update_count++;
        list_add(&volume->queue.updates, &update->link);
    }
    pthread_mutex_unlock(&volume->queue.lock);
    if (!room)
        free(update);
}

