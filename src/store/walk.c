/* walk.c - the objects that the cache has, by their names. SPDX-License-Identifier: Apache-2.0
 *
 * A row of a WHOLE or HEAD record has the object's name. The row counts if the index names this
 * record for the object's metadata; otherwise the object was removed, replaced or moved. The ages
 * of the extent tell that, unless they are still being counted (account.h). They save a look-up in
 * the index, which takes longer than all other work. Extents of format version 1 have no names.
 * They count as unnamed as long as the index names one of their objects. The units of an object lie
 * in the volumes of its stripes, and the index finds them by the object's id. Threads: any. */
#include "store/walk.h"

#include <string.h>

#include "store/explain.h"
#include "store/inside.h"
#include "store/pinned.h"
#include "store/volume_rows.h"

#define RUN_UNITS 64u                 /* entries of one look-up */

struct walk {
    struct store *store;
    const struct walk_ask *ask;
    struct volume_rows rows;                 /* of the volume that is being read */
    uint64_t bucket;                  /* its hash */
    struct walk_gaps *gaps;
    uint32_t unnamed;                 /* the last extent that was counted as unnamed */
};

/* Adds the units of one version of an object that lie in one volume, without purged ones. */
static void add_units(struct volume *volume, const struct object_id *id, slice name,
                      uint64_t etag_hash, struct walk_object *to)
{
    struct entry run[RUN_UNITS];
    uint32_t unit = 0;
    while (index_get_next(volume->index, id, unit, &unit, &run[0]) == OK && unit != METADATA_UNIT &&
           !run[0].whole) {
        struct ban_set *bans = ban_set_ref(&volume->bans->place);
        uint32_t count = index_get_run(volume->index, id, unit, RUN_UNITS, run);
        for (uint32_t i = 0; i < count; i++) {
            if (run[i].etag_hash != etag_hash ||
                ban_set_covers(bans, name, run[i].extent, run[i].ordinal))
                continue;
            to->cached_bytes += run[i].len;
            to->pinned_bytes += pinned_bytes_of(volume, &run[i]);
        }
        ban_set_unref(&bans);
        unit += MAX(count, 1u);
    }
}

static void add_bytes(const struct walk *walk, const struct object_id *id, slice name,
                      const struct entry *metadata, struct walk_object *to)
{
    if (metadata->whole) {
        to->cached_bytes = metadata->len;
        to->pinned_bytes = pinned_bytes_of(walk->rows.volume, metadata);
        return;
    }
    for (size_t i = 0; i < walk->store->volume_count; i++)
        if (volume_is_serving(walk->store->volumes[i]))
            add_units(walk->store->volumes[i], id, name, metadata->etag_hash, to);
}

/* Splits a stored name. Returns false if the object is not one that the caller wants. */
static bool is_wanted(const struct walk_ask *ask, slice name, struct walk_object *ret)
{
    slice endpoint = slice_cut(&name, '\0'), bucket = slice_cut(&name, '\0');
    ret->key = slice_cut(&name, '\0');
    ret->version = name;
    return slice_eq(endpoint, ask->endpoint) && slice_eq(bucket, ask->bucket) &&
           slice_starts(ret->key, ask->prefix);
}

/* Finds the entry of the object's metadata. Returns false if it does not name this record. */
static bool find_entry(const struct walk *walk, const struct toc_row *row, struct entry *ret)
{
    const struct toc_entry *entry = row->entry;
    uint32_t unit;
    if (ages_is_dead(walk->rows.ages, row->ordinal))
        return false;
    if (entry->kind == KIND_WHOLE && ages_is_live(walk->rows.ages, row->ordinal)) {
        *ret = (struct entry){ .extent = walk->rows.extent, .ordinal = row->ordinal, .whole = true,
                               .len = entry->data_len, .etag_hash = entry->etag_hash };
        return true;
    }
    return index_get_metadata(walk->rows.volume->index, &entry->id, &unit, ret) == OK &&
           ret->extent == walk->rows.extent && ret->ordinal == row->ordinal;
}

/* The same, but false if the record was purged, too. */
static bool is_in_index(const struct walk *walk, const struct toc_row *row, struct entry *ret)
{
    struct ban_set *bans = ban_set_ref(&walk->rows.volume->bans->place);
    bool is = find_entry(walk, row, ret) &&
              !ban_set_covers(bans, row->name.name, walk->rows.extent, row->ordinal);
    ban_set_unref(&bans);
    return is;
}

/* Counts the extent of a row without a name, once, if the row is that of an object. */
static void note_unnamed(struct walk *walk, const struct toc_row *row)
{
    struct entry entry;
    if (row->entry->kind == KIND_UNITS || walk->unnamed == walk->rows.extent ||
        !find_entry(walk, row, &entry))
        return;
    walk->unnamed = walk->rows.extent;
    walk->gaps->unnamed++;
}

static enum err visit_row(void *arg, const struct toc_row *row)
{
    struct walk *walk = arg;
    struct volume *volume = walk->rows.volume;
    struct walk_object object = { .size = row->name.size, .age = -1 };
    struct entry entry;
    if (walk->ask->is_over && walk->ask->is_over(walk->ask->arg))
        return ERR_STOPPING;
    if (!row->name.name.len)
        note_unnamed(walk, row);
    if (!row->name.name.len || row->entry->bucket != walk->bucket ||
        !is_wanted(walk->ask, row->name.name, &object) ||
        store_home(walk->store, &row->entry->id) != volume || !is_in_index(walk, row, &entry))
        return OK;
    object.etag_hash = entry.etag_hash;
    add_bytes(walk, &row->entry->id, row->name.name, &entry, &object);
    if (walk->ask->wants_age)
        object.age = explain_age(walk->store, &row->entry->id, &entry);
    return walk->ask->visit(walk->ask->arg, &object);
}

enum err store_walk(struct store *store, const struct walk_ask *ask, struct walk_gaps *ret)
{
    enum err err = OK;
    *ret = (struct walk_gaps){ .any = false };
    for (size_t i = 0; i < store->volume_count && !err; i++) {
        struct walk walk = { .store = store, .ask = ask, .gaps = ret };
        walk.rows = (struct volume_rows){ .volume = store->volumes[i], .visit = visit_row, .arg = &walk };
        walk.bucket = bucket_hash(walk.rows.volume->secret, ask->endpoint, ask->bucket);
        bool serves = volume_is_serving(walk.rows.volume);
        if (serves)
            err = volume_rows_read(&walk.rows);
        ret->extents += walk.rows.unread;
        ret->folders[i] = !serves || !volume_is_serving(walk.rows.volume);
        ret->any |= ret->folders[i] || ret->extents > 0 || ret->unnamed > 0;
    }
    return err;
}
