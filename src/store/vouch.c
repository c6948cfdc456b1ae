/* vouch.c - asks the index about an object, and notes the origin's answers about it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/raise.h"
#include "store/inside.h"

#define RUN 64u

/* ---- asking the index ---- */

enum err volume_find_metadata(struct volume *volume, const struct object_id *id,
                              const struct object_name *name, uint32_t *ret_unit,
                              struct entry *ret)
{
    struct ban_set *bans = name ? ban_set_ref(&volume->bans->place) : NULL;
    enum err e = index_get_metadata(volume->index, id, ret_unit, ret);
    if (!e && bans) {
        char *text = must_alloc(object_name_bytes(name));
        if (ban_set_covers(bans, object_name_write(name, text), ret->extent, ret->ordinal))
            e = ERR_NOT_FOUND;
        free(text);
    }
    ban_set_unref(&bans);
    if (e == ERR_IO && index_is_bad(volume->index))    /* the committer builds it anew */
        volume_wants_turn(volume);
    return e;
}

/* Returns the metadata in RAM, unless it was purged. */
static struct metadata *get_in_ram(struct volume *volume, const struct object_id *id)
{
    struct metadata *metadata = metadata_cache_get(volume->known.cache, id);
    if (metadata && ban_list_has_metadata(&volume->options.installation->bans, metadata))
        metadata_unref(&metadata);
    return metadata;
}

bool volume_knows(struct volume *volume, const struct object_id *id,
                  const struct object_name *name)
{
    struct metadata *metadata = get_in_ram(volume, id);
    bool known = metadata || atomic_load(coming_counter(volume, id)) > 0 || !volume_is_serving(volume);
    metadata_unref(&metadata);
    struct entry entry;
    uint32_t unit;
    return known || volume_find_metadata(volume, id, name, &unit, &entry) != ERR_NOT_FOUND;
}

/* While the folder hangs, a look at the index may wait for the disk. A folder that is closed, or that
 * will be closed, serves only what the origin confirms. */
bool volume_may_have(struct volume *volume, const struct object_id *id,
                     const struct store_versions *versions)
{
    struct entry entry;
    uint32_t unit;
    if (!volume_is_good(volume))
        return false;
    if (volume_is_late(volume) || atomic_load(coming_counter(volume, id)) > 0)
        return true;
    return volume_find_metadata(volume, id, NULL, &unit, &entry) == OK &&
           versions_have(versions, entry.etag_hash, entry.mark);
}

/* A look at the units of an object. */
struct look {
    struct volume *volume;
    const struct ban_set *bans;
    const struct metadata *metadata;
    enum store_records among;
};

static bool counts(const struct look *look, const struct entry *entry, uint32_t unit)
{
    const struct metadata *metadata = look->metadata;
    struct extents *extents = look->volume->extents;
    bool all = look->among == RECORDS_ALL || !extents_staging(extents);
    return entry->etag_hash == metadata->etag_hash &&
           entry->len == (entry->whole ? metadata->size : unit_len(metadata, unit)) &&
           !ban_set_covers(look->bans, metadata->name, entry->extent, entry->ordinal) &&
           (all || !extents_is_staging(extents, entry->extent));
}

static uint32_t count_units(const struct look *look, uint32_t first, uint32_t count)
{
    struct volume *volume = look->volume;
    const struct metadata *metadata = look->metadata;
    struct entry entries[RUN];
    uint32_t units = (uint32_t)((metadata->size + UNIT_BYTES - 1) / UNIT_BYTES), found = 0;
    if (!volume_is_serving(volume) || first >= units)
        return 0;
    count = MIN(count, units - first);
    while (found < count) {
        uint32_t got = index_get_run(volume->index, &metadata->id, first + found,
                                     MIN(RUN, count - found), entries);
        if (got && entries[0].whole)
            return counts(look, &entries[0], 0) ? count : found;
        for (uint32_t i = 0; i < got; i++, found++)
            if (!counts(look, &entries[i], first + found))
                return found;
        if (got < RUN)
            break;
    }
    return found;
}

static uint32_t next_unit(const struct look *look, uint32_t first, uint32_t count, uint32_t *looks)
{
    struct volume *volume = look->volume;
    struct entry entry;
    uint32_t unit, end = first + count;
    while (first < end && volume_is_serving(volume)) {
        if (!*looks)
            return first;
        --*looks;
        const struct object_id *id = &look->metadata->id;
        if (index_get_next(volume->index, id, first, &unit, &entry) != OK || unit >= end)
            break;
        if (!entry.whole && counts(look, &entry, unit))
            return unit;
        /* a staged unit; or one of another version: rare, and soon deleted (leftovers.h) */
        first = unit + 1;
    }
    return end;
}

uint32_t volume_has_units(struct volume *volume, const struct metadata *metadata, uint32_t first,
                          uint32_t count, enum store_records among)
{
    struct ban_set *bans = ban_set_ref(&volume->bans->place);
    const struct look look = { volume, bans, metadata, among };
    uint32_t found = count_units(&look, first, count);
    ban_set_unref(&bans);
    return found;
}

uint32_t volume_next_unit(struct volume *volume, const struct metadata *metadata, uint32_t first,
                          uint32_t count, enum store_records among, uint32_t *looks)
{
    struct ban_set *bans = ban_set_ref(&volume->bans->place);
    const struct look look = { volume, bans, metadata, among };
    uint32_t found = next_unit(&look, first, count, looks);
    ban_set_unref(&bans);
    return found;
}

static bool has_units(struct volume *volume, const struct object_id *id)
{
    struct entry entry;
    uint32_t unit;
    return index_get_next(volume->index, id, 0, &unit, &entry) == OK && unit < METADATA_UNIT;
}

bool volume_keeps_metadata(struct volume *volume, const struct object_id *id)
{
    const struct store *store = store_of(volume);
    if (has_units(volume, id))
        return true;
    for (size_t i = 0; i < store->volume_count; i++)
        if (store->volumes[i] != volume && volume_is_serving(store->volumes[i]) &&
            has_units(store->volumes[i], id))
            return true;
    return false;
}

/* Returns true if the header fields are unchanged, as far as the caller knows them. They can change
 * without the ETag, and within the same second also without Last-Modified. */
static bool same_fields(const struct metadata *metadata, const struct store_vouch *vouch)
{
    return !vouch->fields.ptr ||
           (metadata && metadata->etag_hash == vouch->etag_hash &&
            slice_eq(metadata->fields, vouch->fields));
}

/* Returns when the origin last confirmed the metadata that this entry names; 0: not known. */
static int64_t vouched_s(struct volume *volume, const struct entry *entry)
{
    struct extent *extent;
    if (extent_hold(volume->extents, entry->extent, &extent))
        return 0;
    int64_t when_s = extent_time(extent, entry->ordinal);
    extent_release(&extent);
    return when_s;
}

/* Returns true if the metadata is restated: then only a HEAD or a GET can confirm it. */
static bool is_restated(struct volume *volume, const struct entry *entry,
                        const struct store_vouch *vouch)
{
    int64_t when_s = vouched_s(volume, entry);
    return when_s ? vouch->after_s && when_s <= vouch->after_s
                  : restated_has(volume->known.restated, vouch->bucket, entry->extent);
}

static enum store_renewal renew(struct volume *volume, const struct object_id *id,
                                struct metadata *metadata, const struct store_vouch *vouch)
{
    struct entry entry;
    uint32_t unit;
    if (!volume_is_serving(volume) ||
        volume_find_metadata(volume, id, vouch->name, &unit, &entry) != OK)
        return STORE_ABSENT;
    if (entry.etag_hash != vouch->etag_hash ||
        entry.mark != metadata_mark(vouch->size, vouch->modified_s) ||
        !same_fields(metadata, vouch) || (vouch->bucket && is_restated(volume, &entry, vouch)))
        return STORE_CHANGED;
    if (!extent_time_set(volume->extents, entry.extent, entry.ordinal, vouch->when_s))
        return STORE_ABSENT;
    if (metadata && metadata->etag_hash == vouch->etag_hash)
        atomic_store(&metadata->validated_s, vouch->when_s);
    if (entry.generation != atomic_load(&volume->generation))
        volume_update(volume, UPDATE_PROVE, id, unit, &entry);
    return STORE_RENEWED;
}

enum store_renewal volume_renew(struct volume *volume, const struct object_id *id,
                                const struct store_vouch *vouch)
{
    struct metadata *metadata = get_in_ram(volume, id);
    enum store_renewal renewal = renew(volume, id, metadata, vouch);
    metadata_unref(&metadata);
    return renewal;
}

uint32_t volume_grant(struct volume *volume, const struct object_id *id, const struct metadata *only,
                     uint32_t granted, bool forgive)
{
    struct entry entry;
    uint32_t unit;
    if (volume_is_serving(volume) && index_get_metadata(volume->index, id, &unit, &entry) == OK &&
        (!only || metadata_is_of(only, entry.etag_hash, entry.mark))) {
        granted = extent_granted_raise(volume->extents, entry.extent, entry.ordinal, granted);
        bool counts = entry.refused || entry.generation != atomic_load(&volume->generation);
        if (forgive && counts && !(granted & GRANTED_REFUSED))
            volume_update(volume, UPDATE_GRANTED, id, unit, &entry);
    }
    volume_changed(volume, id);
    struct metadata *metadata = metadata_cache_get(volume->known.cache, id);
    if (metadata && (!only || metadata_is_same(only, metadata)))
        granted = raise_32(&metadata->granted, granted);
    metadata_unref(&metadata);
    return granted;
}

/* While the volume is out of service, it can't tell whether it has the metadata. The refusal is
 * then queued all the same, and the next opening takes it into account, as it does a removal. */
bool volume_refuse(struct volume *volume, struct store_removal *removal)
{
    struct entry entry;
    uint32_t unit;
    const struct object_id *id = removal->ids;
    if (volume_is_serving(volume) && atomic_load(coming_counter(volume, id)) == 0) {
        enum err e = index_get_metadata(volume->index, id, &unit, &entry);
        if (e == ERR_NOT_FOUND || (!e && entry.refused))
            return false;
    }
    removal->refused = true;
    volume_remove(volume, removal);
    return true;
}

void volume_restate(struct volume *volume, struct store_removal *removal)
{
    removal->bucket = true;
    volume_remove(volume, removal);
}
