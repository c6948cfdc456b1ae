/* store.c - the interface of the room: opening, appends, removals, look-ups in the index.
 * SPDX-License-Identifier: Apache-2.0
 *
 * read.c reads bytes, and commit.c writes. The secret of a store never changes. It is that of the
 * folder if the format file can be read at the start, even while another process holds the folder.
 * Otherwise it is a new secret, which a folder that is made later gets. So the id of an object
 * stays the same. */
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#include "base/metric.h"
#include "base/thread.h"
#include "store/policy.h"
#include "store/service.h"

#define RUN 64u
#define LATELY_MIN 1024u              /* marks, each of a read of about a unit */
#define LATELY_MAX (1u << 20)

/* ---- life ---- */

static struct store *store_new(const struct store_options *options)
{
    struct store *store = must_alloc(sizeof(*store));
    store->options = *options;
    check(options->metadata_bytes && options->queue_bytes_max && options->commit_ms_max);
    store->folder.path = must_strndup(options->folder, strlen(options->folder));
    store->options.folder = store->folder.path;
    store->folder.lock_fd = -1;
    store->folder.index = store->index = index_new();
    store->folder.extents = store->extents = extents_new(options->memory_bytes);
    store->metadata_cache = metadata_cache_new(options->metadata_bytes);
    store->lately_count = LATELY_MIN;
    while (store->lately_count < LATELY_MAX &&
           store->lately_count * UNIT_BYTES < options->memory_bytes / 2)
        store->lately_count *= 2;
    store->lately = must_alloc(store->lately_count * sizeof(*store->lately));
    store->names = names_new();
    store->restated = restated_new();
    atomic_store(&store->why, "Penstock is still opening the folder");
    atomic_store(&store->anew, "");
    list_init(&store->appends);
    list_init(&store->removals);
    list_init(&store->committing);
    list_init(&store->updates);
    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->more, NULL);
    pthread_cond_init(&store->stop, NULL);
    return store;
}

static void store_end(struct store *store)
{
    index_free(&store->index);
    extents_free(&store->extents);
    metadata_cache_free(&store->metadata_cache);
    names_free(&store->names);
    restated_free(&store->restated);
    pthread_cond_destroy(&store->more);
    pthread_cond_destroy(&store->stop);
    pthread_mutex_destroy(&store->lock);
    free(store->removed);
    free(store->lately);
    free(store->folder.path);
    free(store);
}

/* With names and advice, where a look finds the same trouble. */
static slice why_at_length(const struct store *store, enum err err, const char *why,
                           struct arena *keep)
{
    slice found;
    bool same = err == ERR_IO && store_probe(store->folder.path, keep, &found) == ERR_IO;
    return same && found.len ? found : slice_of(why);
}

enum err store_open(const struct store_options *options, struct arena *keep, struct store **ret,
                    slice *ret_why)
{
    struct store *store = store_new(options);
    struct format format;
    const char *why = "";
    enum err e = folder_peek(store->folder.path, &format, &why);
    if (!e)
        memcpy(store->secret, format.secret, sizeof(store->secret));
    else
        secret_make(store->secret);
    if (e != ERR_FORMAT)
        e = service_begin(store, &why);
    *ret_why = (slice){ "", 0 };
    if (e == ERR_FORMAT && *store->folder.stranger)
        *ret_why = arena_printf(keep, "the cache folder %s can't be used: it holds %s, which is "
                                "not Penstock's; set cache_dir to an empty folder",
                                store->folder.path,
                                store->folder.stranger);
    else if (*why)
        *ret_why = arena_printf(keep, "the cache folder %s can't be used: %.*s",
                                store->folder.path, SLICE_ARG(why_at_length(store, e, why, keep)));
    if (e == ERR_FORMAT) {
        store_end(store);
        return e;
    }
    check(thread_start(&store->committer, commit_run, store, "commit"));
    check(thread_start(&store->watch, service_watch, store, "watch"));
    *ret = store;
    return OK;
}

void store_close(struct store **store)
{
    struct store *mine = *store;
    *store = NULL;
    if (!mine)
        return;
    pthread_mutex_lock(&mine->lock);
    mine->stopping = true;
    pthread_cond_signal(&mine->more);
    pthread_cond_signal(&mine->stop);
    pthread_mutex_unlock(&mine->lock);
    pthread_join(mine->committer, NULL);
    pthread_join(mine->watch, NULL);
    if (atomic_exchange(&mine->open, false))
        folder_close(&mine->folder, !atomic_load(&mine->unproved));
    store_end(mine);
}

void store_status(struct store *store, struct store_status *ret)
{
    bool serving = store_is_serving(store);
    bool stuck = !serving && atomic_load(&store->open);
    struct index_size index = index_size(store->index);
    *ret = (struct store_status){
        .serving = serving,
        .why = stuck ? "a write to the folder's disk takes too long; check whether that disk hangs "
                       "or is overloaded" : atomic_load(&store->why),
        .anew = atomic_load(&store->anew),
        .size_bytes = atomic_load(&store->size_bytes),
        .derived = !store->options.size_bytes,
        .used_bytes = extents_bytes(store->extents),
        .reserve_bytes = atomic_load(&store->reserve_bytes),
        .free_bytes = atomic_load(&store->free_bytes),
        .capacity_bytes = store_capacity(store),
        .entries = index.entries,
        .index_bytes = index.bytes,
        .metadata_bytes = metadata_cache_bytes(store->metadata_cache),
        .extents = extents_count(store->extents),
    };
}

void store_names(struct store *store, const struct store_name *list, size_t count)
{
    names_set(store->names, store->secret, list, count);
    if (atomic_load(&store->open))
        names_apply(store->names, &store->folder);    /* nothing has been appended yet */
}

void store_object_id(const struct store *store, const struct object_name *name,
                     struct object_id *ret)
{
    object_id_of(store->secret, name, ret);
}

/* ---- handing in ---- */

/* A disk that can't keep up makes us a slower cache, not a slower proxy: with the queue nearly full
 * and a commit that takes longer than a second, the last quarter is for what was admitted before. A
 * full queue alone is no reason: fills then wait for their slots, for milliseconds, and what was
 * read once need not be fetched again. */
static bool has_room(struct store *store)
{
    uint64_t since = atomic_load_explicit(&store->busy_since_ms, memory_order_relaxed);
    if (!since || mono_ms() < since + SLOW_COMMIT_MS)
        return true;
    pthread_mutex_lock(&store->lock);
    bool room = store->queued_bytes < store->options.queue_bytes_max / 4 * 3;
    pthread_mutex_unlock(&store->lock);
    return room;
}

bool store_admits(struct store *store, const struct object_id *id, uint64_t bytes)
{
    if (!store_is_serving(store) || !policy_admit(id, bytes))
        return false;
    bool room = has_room(store);
    if (!room)
        metric_add(M_STORE_QUEUE_FULL, 1);
    return room;
}

static void check_append(const struct store_append *append)
{
    const struct metadata *metadata = append->metadata;
    uint64_t start = (uint64_t)append->first_unit * UNIT_BYTES, end = start + append->bytes.len;
    check(append->done && (append->bytes.len || append->with_metadata));
    check(append->bytes.len <= RECORD_BYTES_MAX && end <= MAX(metadata->size, start));
    check(append->bytes.len % UNIT_BYTES == 0 || end == metadata->size);
}

/* Under the lock, before something is queued: the first of a commit opens it (commit.c). */
static void begin_commit(struct store *store)
{
    if (!list_empty(&store->appends) || !list_empty(&store->updates))
        return;
    store->oldest_ms = mono_ms();
    pthread_cond_signal(&store->more);
}

enum err store_append(struct store *store, struct store_append *append)
{
    check_append(append);
    size_t bytes = append->bytes.len;
    if (append->with_metadata && metadata_block_bytes(append->metadata) > METADATA_BLOCK_MAX)
        return ERR_LIMIT;
    if (!store_is_serving(store))
        return ERR_IO;
    enum err e = OK;
    pthread_mutex_lock(&store->lock);
    if (store->stopping)
        e = ERR_STOPPING;
    else if (store->queued_bytes + bytes > store->options.queue_bytes_max)
        e = ERR_LIMIT;
    if (!e) {
        begin_commit(store);
        list_add(&store->appends, &append->link);
        store->queued_bytes += bytes;
        store->queued_entries += 1 + bytes / UNIT_BYTES;
        if (store->queued_entries >= COMMIT_ENTRIES || store->queued_bytes >= COMMIT_BYTES)
            pthread_cond_signal(&store->more);
        if (append->with_metadata)
            atomic_fetch_add(coming_counter(store, &append->metadata->id), 1);
    }
    pthread_mutex_unlock(&store->lock);
    if (e == ERR_LIMIT)
        metric_add(M_STORE_QUEUE_FULL, 1);
    return e;
}

void store_remove(struct store *store, struct store_removal *removal)
{
    check(removal->count > 0 && removal->done);
    for (size_t i = 0; i < removal->count && !removal->refused; i++)
        metadata_cache_drop(store->metadata_cache, &removal->ids[i]);
    pthread_mutex_lock(&store->lock);
    list_add(&store->removals, &removal->link);
    pthread_cond_signal(&store->more);
    pthread_mutex_unlock(&store->lock);
}

void store_update(struct store *store, enum update_kind kind, const struct object_id *id,
                 uint32_t unit, const struct entry *entry)
{
    struct update *update = must_alloc(sizeof(*update));
    *update = (struct update){ .kind = kind, .generation = atomic_load(&store->generation),
                               .of = { *id, unit, entry->extent, entry->ordinal } };
    pthread_mutex_lock(&store->lock);
    bool room = store->update_count < UPDATES_MAX && !store->stopping;
    if (room) {
        begin_commit(store);
        store->update_count++;
        list_add(&store->updates, &update->link);
    }
    pthread_mutex_unlock(&store->lock);
    if (!room)
        free(update);
}

/* ---- asking the index ---- */

bool store_knows(struct store *store, const struct object_id *id)
{
    struct metadata *metadata = metadata_cache_get(store->metadata_cache, id);
    bool known = metadata || atomic_load(coming_counter(store, id)) > 0 || !store_is_serving(store);
    metadata_unref(&metadata);
    struct entry entry;
    uint32_t unit;
    return known || index_get_metadata(store->index, id, &unit, &entry) != ERR_NOT_FOUND;
}

uint32_t store_has_units(struct store *store, const struct metadata *metadata, uint32_t first,
                         uint32_t count)
{
    struct entry entries[RUN];
    uint32_t units = (uint32_t)((metadata->size + UNIT_BYTES - 1) / UNIT_BYTES), found = 0;
    if (!store_is_serving(store) || first >= units)
        return 0;
    count = MIN(count, units - first);
    while (found < count) {
        uint32_t got = index_get_run(store->index, &metadata->id, first + found,
                                     MIN(RUN, count - found), entries);
        if (got && entries[0].whole)
            return entries[0].etag_hash == metadata->etag_hash && entries[0].len == metadata->size
                       ? count : found;
        for (uint32_t i = 0; i < got; i++, found++)
            if (entries[i].etag_hash != metadata->etag_hash ||
                entries[i].len != unit_len(metadata, first + found))
                return found;
        if (got < RUN)
            break;
    }
    return found;
}

uint32_t store_next_unit(struct store *store, const struct metadata *metadata, uint32_t first,
                         uint32_t count)
{
    struct entry entry;
    uint32_t unit, end = first + count;
    while (first < end && store_is_serving(store) &&
           index_get_next(store->index, &metadata->id, first, &unit, &entry) == OK && unit < end) {
        if (entry.etag_hash == metadata->etag_hash && !entry.whole &&
            entry.len == unit_len(metadata, unit))
            return unit;
        first = unit + 1;    /* of another version: rare, and gone with the next commit there */
    }
    return end;
}

/* Fields change without the ETag, and within a second without Last-Modified. */
static bool same_fields(const struct metadata *metadata, const struct store_vouch *vouch)
{
    return !vouch->fields.ptr ||
           (metadata && metadata->etag_hash == vouch->etag_hash &&
            slice_eq(metadata->fields, vouch->fields));
}

/* When the origin last vouched for what this entry names; 0: not known. */
static int64_t vouched_s(struct store *store, const struct entry *entry)
{
    struct extent *extent;
    if (extent_hold(store->extents, entry->extent, &extent))
        return 0;
    int64_t when_s = extent_time(extent, entry->ordinal);
    extent_release(&extent);
    return when_s;
}

/* Then only a HEAD or a GET tells what is said of it now. */
static bool is_restated(struct store *store, const struct entry *entry,
                        const struct store_vouch *vouch)
{
    int64_t when_s = vouched_s(store, entry);
    return when_s ? vouch->after_s && when_s <= vouch->after_s
                  : restated_has(store->restated, vouch->bucket, entry->extent);
}

static enum store_renewal renew(struct store *store, const struct object_id *id,
                                struct metadata *metadata, const struct store_vouch *vouch)
{
    struct entry entry;
    uint32_t unit;
    if (!store_is_serving(store) || index_get_metadata(store->index, id, &unit, &entry) != OK)
        return STORE_ABSENT;
    if (entry.etag_hash != vouch->etag_hash ||
        entry.mark != metadata_mark(vouch->size, vouch->modified_s) ||
        !same_fields(metadata, vouch) || (vouch->bucket && is_restated(store, &entry, vouch)))
        return STORE_CHANGED;
    if (!extent_time_set(store->extents, entry.extent, entry.ordinal, vouch->when_s))
        return STORE_ABSENT;
    if (metadata && metadata->etag_hash == vouch->etag_hash)
        atomic_store(&metadata->validated_s, vouch->when_s);
    if (entry.generation != atomic_load(&store->generation))
        store_update(store, UPDATE_PROVE, id, unit, &entry);
    return STORE_RENEWED;
}

enum store_renewal store_renew(struct store *store, const struct object_id *id,
                               const struct store_vouch *vouch)
{
    struct metadata *metadata = metadata_cache_get(store->metadata_cache, id);
    enum store_renewal renewal = renew(store, id, metadata, vouch);
    metadata_unref(&metadata);
    return renewal;
}

uint32_t store_grant(struct store *store, const struct object_id *id, const struct metadata *only,
                     uint32_t granted, bool forgive)
{
    struct entry entry;
    uint32_t unit;
    if (store_is_serving(store) && index_get_metadata(store->index, id, &unit, &entry) == OK &&
        (!only || metadata_is_of(only, entry.etag_hash, entry.mark))) {
        granted = extent_granted_raise(store->extents, entry.extent, entry.ordinal, granted);
        bool counts = entry.refused || entry.generation != atomic_load(&store->generation);
        if (forgive && counts && !(granted & GRANTED_REFUSED))
            store_update(store, UPDATE_GRANTED, id, unit, &entry);
    }
    store_changed(store, id);
    struct metadata *metadata = metadata_cache_get(store->metadata_cache, id);
    if (metadata && (!only || metadata_is_same(only, metadata)))
        granted = granted_raise(&metadata->granted, granted);
    metadata_unref(&metadata);
    return granted;
}

/* Out of service, nobody can tell: it goes the way of a removal then, which is remembered. */
bool store_refuse(struct store *store, struct store_removal *removal)
{
    struct entry entry;
    uint32_t unit;
    const struct object_id *id = removal->ids;
    if (store_is_serving(store) && atomic_load(coming_counter(store, id)) == 0) {
        enum err e = index_get_metadata(store->index, id, &unit, &entry);
        if (e == ERR_NOT_FOUND || (!e && entry.refused))
            return false;
    }
    removal->refused = true;
    store_remove(store, removal);
    return true;
}

void store_restate(struct store *store, struct store_removal *removal)
{
    removal->bucket = true;
    store_remove(store, removal);
}
