/* store.c - the interface of the room: gives each object to the volumes that have it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The route (route.c) says which volume has a stripe of an object, whether that volume serves or
 * not. So no object ever has entries in a second place, which a removal would miss. Metadata lies
 * in the volume of the first stripe. Work for several volumes is split and joined here and in
 * split.c.
 *
 * The secret of the installation never changes. It is that of the first folder whose format file
 * can be read at the start, even while another process holds the folder. Otherwise it is a new
 * secret, which a folder that is made later gets. So the id of an object stays the same. */
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "store/events.h"
#include "store/locker.h"
#include "store/pin_pass.h"
#include "store/pins.h"
#include "store/split.h"
#include "store/stage.h"
#include "store/sweep.h"

#define LATELY_MIN 1024u              /* marks, each of a read of about a unit */
#define LATELY_MAX (1u << 20)

/* ---- life ---- */

static struct store *store_new(const struct store_options *options)
{
    struct store *store = must_alloc(sizeof(*store));
    check(options->folder_count > 0 && options->folder_count <= VOLUMES_MAX);
    store->options = *options;
    store->options.folders = NULL;
    store->options.limits = NULL;
    ban_list_init(&store->installation.bans);
    pthread_mutex_init(&store->readers_lock, NULL);
    list_init(&store->readers);
    store->lately_count = LATELY_MIN;
    while (store->lately_count < LATELY_MAX &&
           store->lately_count * UNIT_BYTES < options->memory_bytes / 2)
        store->lately_count *= 2;
    store->lately = must_alloc(store->lately_count * sizeof(*store->lately));
    store->pins = pins_new();
    store->pin_pass = pin_pass_new(store);
    return store;
}

/* Volumes share the budgets of the store evenly, so that a disk that hangs takes no more than its
 * part. A queue has room for two records at least. Queued bytes also count in the budget of
 * flights. */
static void add_volume(struct store *store, const struct store_folder *folder)
{
    const struct store_options *options = &store->options;
    size_t count = options->folder_count;
    struct volume *volume = volume_new(&(struct volume_options){
        .installation = &store->installation,
        .self = &store->installation.route[store->volume_count],
        .folder = folder->path, .size_bytes = folder->size_bytes,
        .reserve_bytes = options->reserve_bytes, .extent_bytes = options->extent_bytes,
        .metadata_bytes = MAX(options->metadata_bytes / count, 1),
        .queue_bytes_max = count == 1 ? options->queue_bytes_max
                                      : MAX(options->queue_bytes_max / count, 2 * RECORD_BYTES_MAX),
        .commit_ms_max = options->commit_ms_max, .scrub_ms = options->scrub_ms,
        .memory_bytes = options->memory_bytes / count,
        .pins = store->pins, .pin_pass = store->pin_pass, .pin_percent = options->pin_percent,
    });
    volume->number = (uint32_t)store->volume_count;
    atomic_store(&volume->service.unproved,
                 store->installation.runs.missed[volume->number] ||
                 store->installation.runs.unsure[volume->number]);
    if (store->installation.runs.missed[volume->number])
        ban_list_missed(&store->installation.bans, volume->number);
    store->volumes[store->volume_count++] = volume;
}

/* If the format file could not be read, nobody knows which folders missed a run of this one. */
static void peek(const struct volume *volume)
{
    struct installation *all = volume->options.installation;
    bool missed[VOLUMES_MAX];
    memset(missed, !atomic_load(&all->runs.began[volume->number]), sizeof(missed));
    bans_peek(volume->bans, volume->folder.path, &all->bans, missed);
}

enum err store_open(const struct store_options *options, struct arena *keep, struct store **ret,
                    slice *ret_whys)
{
    struct store *store = store_new(options);
    enum err e = OK;
    installation_find(&store->installation, options->folders, options->folder_count);
    store->installation.tallies = tallies_new(store->installation.secret);
    store_set_limits(store, options->limits, options->limit_count);
    for (size_t i = 0; i < options->folder_count; i++) {
        add_volume(store, &options->folders[i]);
        ret_whys[i] = S("");
        if (store->installation.route[i].weight)    /* before any folder opens */
            peek(store->volumes[i]);
    }
    store->locker = locker_new(store->volumes, store->volume_count, options->locked_bytes);
    for (size_t i = 0; i < options->folder_count && !e; i++)
        e = volume_start(store->volumes[i], keep, &ret_whys[i]);
    if (e) {
        store_close(&store);
        return e;
    }
    check(thread_start(&store->sweep, sweep_run, store, "sweep"));
    pin_pass_start(store->pin_pass);
    locker_start(store->locker);
    *ret = store;
    return OK;
}

const char *store_locked_why(const struct store *store)
{
    return locker_why(store->locker);
}

/* While the committers answer it. */
static void stop_sweep(struct store *store)
{
    struct ban_list *list = &store->installation.bans;
    if (!store->sweep)
        return;
    pthread_mutex_lock(&list->lock);
    list->stopping = true;
    pthread_cond_broadcast(&list->changed);
    pthread_mutex_unlock(&list->lock);
    pthread_join(store->sweep, NULL);
}

void store_close(struct store **store)
{
    struct store *mine = *store;
    *store = NULL;
    if (!mine)
        return;
    locker_stop(mine->locker);
    stop_sweep(mine);
    pin_pass_stop(mine->pin_pass);
    for (size_t i = 0; i < mine->volume_count; i++)
        volume_stop(mine->volumes[i]);
    for (size_t i = 0; i < mine->volume_count; i++)
        volume_free(&mine->volumes[i]);
    locker_free(&mine->locker);
    tallies_free(&mine->installation.tallies);
    ban_list_end(&mine->installation.bans);
    pin_pass_free(&mine->pin_pass);
    pins_free(&mine->pins);
    pthread_mutex_destroy(&mine->readers_lock);
    free(mine->lately);
    free(mine);
}

/* ---- of all objects ---- */

size_t store_folder_count(const struct store *store)
{
    return store->volume_count;
}

void store_folder_status(struct store *store, size_t folder, struct store_status *ret)
{
    check(folder < store->volume_count);
    volume_status(store->volumes[folder], ret);
}

const char *store_folder_emptied(struct store *store, size_t folder)
{
    check(folder < store->volume_count);
    return atomic_load(&store->volumes[folder]->bans->emptied);
}

bool store_folder_is_unread(const struct store *store, size_t folder)
{
    check(folder < store->volume_count);
    return store->installation.runs.unread[folder];
}

bool store_folder_left(const struct store *store)
{
    return store->installation.runs.left;
}

uint64_t store_folder_unpinned(struct store *store, size_t folder)
{
    check(folder < store->volume_count);
    return atomic_load(&store->volumes[folder]->pinned.unpinned);
}

uint64_t store_folder_pins_lost(struct store *store, size_t folder)
{
    check(folder < store->volume_count);
    return atomic_load(&store->volumes[folder]->pinned.lost);
}

uint32_t store_folder_unusable(struct store *store, size_t folder)
{
    check(folder < store->volume_count);
    return extents_unusable(store->volumes[folder]->extents);
}

uint32_t store_folder_damaged(struct store *store, size_t folder, uint32_t *ret_last)
{
    check(folder < store->volume_count);
    return extents_damaged(store->volumes[folder]->extents, ret_last);
}

static void add_status(struct store_status *sum, const struct store_status *status)
{
    if (*sum->why == '\0' && *status->why) {
        sum->folder = status->folder;
        sum->why = status->why;
    }
    if (*sum->anew == '\0')
        sum->anew = status->anew;
    sum->serving |= status->serving;
    sum->derived |= status->derived;
    sum->faults += status->faults;
    sum->size_bytes += status->size_bytes;
    sum->used_bytes += status->used_bytes;
    sum->live_bytes += status->live_bytes;
    sum->entries += status->entries;
    sum->index_bytes += status->index_bytes;
    sum->metadata_bytes += status->metadata_bytes;
    sum->free_bytes += status->free_bytes;
    sum->reserve_bytes += status->reserve_bytes;
    sum->capacity_bytes += status->capacity_bytes;
    sum->pinned_bytes += status->pinned_bytes;
    sum->pin_budget_bytes += status->pin_budget_bytes;
    sum->extents += status->extents;
    sum->work.appended_bytes += status->work.appended_bytes;
    sum->work.copied_bytes += status->work.copied_bytes;
    sum->work.evicted += status->work.evicted;
    sum->work.bad_blocks += status->work.bad_blocks;
}

void store_status(struct store *store, struct store_status *ret)
{
    volume_status(store->volumes[0], ret);
    for (size_t i = 1; i < store->volume_count; i++) {
        struct store_status status;
        volume_status(store->volumes[i], &status);
        add_status(ret, &status);
    }
}

void store_what_if(struct store *store, struct store_what_if *ret)
{
    *ret = (struct store_what_if){ 0 };
    for (size_t i = 0; i < store->volume_count; i++) {
        struct what_if_hits hits;
        what_if_hits(store->volumes[i]->rule.what_if, &hits);
        ret->reads += hits.reads;
        ret->hits += hits.hits[WHAT_IF_SAME];
        ret->half_hits += hits.hits[WHAT_IF_HALF];
        ret->double_hits += hits.hits[WHAT_IF_DOUBLE];
        ret->fourfold_hits += hits.hits[WHAT_IF_FOURFOLD];
    }
}

void store_bucket_holds(struct store *store, struct bucket_holds *ret)
{
    tallies_holds(store->installation.tallies, ret);
}

void store_names(struct store *store, const struct store_name *list, size_t count)
{
    for (size_t i = 0; i < store->volume_count; i++)
        volume_names(store->volumes[i], list, count);
}

void store_object_id(const struct store *store, const struct object_name *name,
                     struct object_id *ret)
{
    object_id_of(store->installation.secret, name, ret);
}

void store_installation_id(const struct store *store, uint8_t ret[16])
{
    installation_id_of(store->installation.secret, ret);
}

uint64_t store_capacity(struct store *store)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < store->volume_count; i++)
        bytes += volume_capacity(store->volumes[i]);
    return bytes;
}

void store_restate(struct store *store, struct store_removal *removal)
{
    split_restate(store, removal);
}

/* ---- of one object ---- */

/* Returns the number of units from `first` to the end of its stripe, at most `count`. */
static uint32_t units_in_stripe(uint32_t first, uint32_t count)
{
    return MIN(count, STRIPE_UNITS - first % STRIPE_UNITS);
}

/* Returns true if all unit numbers of the object, and their sums, fit into 32 bits. */
static bool is_storable(const struct metadata *metadata)
{
    return metadata->size <= STORE_OBJECT_BYTES_MAX;
}

uint64_t store_has_units(struct store *store, const struct metadata *metadata, uint64_t first,
                         uint64_t count, enum store_records among)
{
    uint64_t units = (metadata->size + UNIT_BYTES - 1) / UNIT_BYTES;
    if (!is_storable(metadata) || first >= units)
        return 0;
    uint32_t unit = (uint32_t)first, end = unit + (uint32_t)MIN(count, units - first);
    uint32_t here = 0, want = 0;
    for (; unit < end && here == want; unit += here) {
        want = units_in_stripe(unit, end - unit);
        here = volume_has_units(store_home_of_unit(store, &metadata->id, unit), metadata, unit,
                                want, among);
    }
    return unit - first;
}

#define LOOKS_MAX 2048u               /* a caller may hold the lock of an object: about 5 ms */

uint64_t store_next_unit(struct store *store, const struct metadata *metadata, uint64_t first,
                         uint64_t count, enum store_records among)
{
    uint64_t units = (metadata->size + UNIT_BYTES - 1) / UNIT_BYTES;
    if (!is_storable(metadata) || first >= units)
        return first + count;
    uint32_t unit = (uint32_t)first, end = unit + (uint32_t)MIN(count, units - first);
    uint32_t looks = LOOKS_MAX;
    while (unit < end) {
        uint32_t here = units_in_stripe(unit, end - unit);
        uint32_t next = volume_next_unit(store_home_of_unit(store, &metadata->id, unit), metadata,
                                         unit, here, among, &looks);
        if (next < unit + here)
            return next;
        unit += here;
    }
    return first + count;
}

bool store_takes(struct store *store, const struct object_id *id)
{
    return volume_takes(store_home(store, id));
}

bool store_keeps_up(struct store *store, const struct object_id *id)
{
    return volume_keeps_up(store_home(store, id));
}

void store_set_limits(struct store *store, const struct store_limits *rows, size_t count)
{
    tallies_set_limits(store->installation.tallies, rows, count);
}

bool store_allows(struct store *store, const struct metadata *metadata)
{
    struct store_limits limits = tallies_limits(store->installation.tallies, metadata->name);
    enum event_why why;
    if (limits.admission == ADMISSION_NEVER)
        why = EVENT_ADMIT_NEVER;
    else if (limits.object_bytes_max && metadata->size > limits.object_bytes_max)
        why = EVENT_OVER_MAX_OBJECT;
    else if (!is_storable(metadata))
        why = EVENT_TOO_LARGE;
    else
        return true;
    events_note(store_home(store, &metadata->id)->events, &metadata->id, METADATA_UNIT, why);
    return false;
}

/* Returns the bytes of the record that has this unit, if all of the record is fetched. */
static uint64_t record_bytes(const struct metadata *metadata, uint32_t unit)
{
    uint64_t start = (uint64_t)rule_first_unit(unit) * UNIT_BYTES;
    return MIN(metadata->size - MIN(start, metadata->size), RECORD_BYTES_MAX);
}

/* Returns true if the quota of the object's bucket or prefix has room for the record. `limits` are
 * those of the object. */
static bool quota_allows(struct store *store, struct volume *home, const struct metadata *metadata,
                         uint32_t unit, const struct store_limits *limits)
{
    struct tallies *tallies = store->installation.tallies;
    check(is_storable(metadata) && (uint64_t)unit * UNIT_BYTES <= metadata->size);
    if (!limits->quota_bytes || tallies_has_room(tallies, tallies_of_name(tallies, metadata->name),
                                                 record_bytes(metadata, unit)))
        return true;
    volume_over_quota(home, &metadata->id, unit);
    return false;
}

bool store_admits(struct store *store, const struct metadata *metadata, uint64_t first)
{
    uint32_t unit = (uint32_t)first;
    struct tallies *tallies = store->installation.tallies;
    struct volume *home = store_home_of_unit(store, &metadata->id, unit);
    struct store_limits limits = tallies_limits(tallies, metadata->name);
    return quota_allows(store, home, metadata, unit, &limits) &&
           volume_admits(home, metadata, unit, limits.admission == ADMISSION_ALWAYS);
}

bool store_admits_ahead(struct store *store, const struct metadata *metadata, uint64_t first,
                        bool *ret_staged)
{
    uint32_t unit = (uint32_t)first;
    struct volume *home = store_home_of_unit(store, &metadata->id, unit);
    struct store_limits limits = tallies_limits(store->installation.tallies, metadata->name);
    *ret_staged = false;
    if (!quota_allows(store, home, metadata, unit, &limits)) {
        stage_over_quota(home);
        return false;
    }
    if (volume_admits_ahead(home, metadata, unit, limits.admission == ADMISSION_ALWAYS))
        return true;
    *ret_staged = stage_takes(home);
    return *ret_staged;
}

uint64_t store_staged_max(const struct store *store)
{
    return atomic_load(&store->ahead_bytes) / 2;
}

void store_keep_ahead(struct store *store, uint64_t bytes)
{
    uint64_t all = MAX(store_capacity(store), 1u);
    atomic_store(&store->ahead_bytes, bytes);
    for (size_t i = 0; i < store->volume_count; i++) {
        double share = (double)volume_capacity(store->volumes[i]) / (double)all;
        stage_want(store->volumes[i], bytes ? (uint64_t)((double)bytes * share) + 1 : 0);
    }
}

bool store_admits_metadata(struct store *store, const struct metadata *metadata)
{
    struct tallies *tallies = store->installation.tallies;
    struct volume *home = store_home(store, &metadata->id);
    bool room = tallies_has_room(tallies, tallies_of_name(tallies, metadata->name),
                                 RECORD_BYTES_MAX);
    return (room || volume_knows(home, &metadata->id, NULL)) &&
           volume_admits_metadata(home, metadata);
}

enum err store_append(struct store *store, struct store_append *append)
{
    const struct object_id *id = &append->metadata->id;
    struct volume *home = store_home(store, id);
    struct volume *of_bytes = store_home_of_unit(store, id, append->first_unit);
    check(is_storable(append->metadata) &&
          append->bytes.len <=
              (uint64_t)units_in_stripe(append->first_unit, STRIPE_UNITS) * UNIT_BYTES);
    if (append->with_metadata && append->bytes.len && home != of_bytes)
        return split_append(home, of_bytes, append);
    return volume_append(append->bytes.len ? of_bytes : home, append);
}

void store_remove(struct store *store, struct store_removal *removal)
{
    split_removal(store, removal);
}

bool store_knows(struct store *store, const struct object_id *id, const struct object_name *name)
{
    return volume_knows(store_home(store, id), id, name);
}

bool store_may_have(struct store *store, const struct object_id *id,
                    const struct store_versions *versions)
{
    return volume_may_have(store_home(store, id), id, versions);
}

struct store_versions store_version_of(const struct metadata *metadata)
{
    return (struct store_versions){ VERSIONS_ONE, metadata->etag_hash,
                                    metadata_mark(metadata->size, metadata->modified_s) };
}

struct store_versions store_versions_but(const struct metadata *metadata)
{
    struct store_versions versions = store_version_of(metadata);
    versions.which = VERSIONS_OTHERS;
    return versions;
}

enum store_renewal store_renew(struct store *store, const struct object_id *id,
                               const struct store_vouch *vouch)
{
    return volume_renew(store_home(store, id), id, vouch);
}

uint32_t store_grant(struct store *store, const struct object_id *id, const struct metadata *only,
                     uint32_t granted, bool forgive)
{
    return volume_grant(store_home(store, id), id, only, granted, forgive);
}

bool store_refuse(struct store *store, struct store_removal *removal)
{
    return volume_refuse(store_home(store, removal->ids), removal);
}
