/* walk.c - the objects that the cache has, by their names. SPDX-License-Identifier: Apache-2.0
 *
 * A row of a WHOLE or HEAD record has the object's name. The row counts if the index names this
 * record for the object's metadata; else the object was removed, replaced or moved. The ages of the
 * extent know that, unless they are still being counted (account.h): a look-up in the index takes
 * longer than all else. The units of an object lie in the volumes of its stripes, and the index
 * finds them by the object's id.
 *
 * The recycler moves records to the open copy, whose number may be lower than that of the extent
 * they leave. So extents that were open or did not exist when the walk began are read after all
 * others. Threads: any. */
#include "store/walk.h"

#include <string.h>

#include "store/explain.h"
#include "store/inside.h"

#define RUN_UNITS 64u                 /* entries of one look-up */

struct walk {
    struct store *store;
    const struct walk_ask *ask;
    struct volume *volume;            /* the one that is being read */
    uint64_t bucket;                  /* its hash */
    uint32_t extent;
    const struct ages *ages;          /* of the extent */
    enum err ended;                   /* why the walk must end; OK: it goes on */
    struct walk_gaps *gaps;
};

const char *store_folder_path(const struct store *store, size_t folder)
{
    check(folder < store->volume_count);
    return store->volumes[folder]->options.folder;
}

/* Sums the units of one version of an object that lie in one volume, without purged ones. */
static uint64_t unit_bytes_in(struct volume *volume, const struct object_id *id, slice name,
                              uint64_t etag_hash)
{
    bool compares = bans_begin(volume->bans);
    struct entry run[RUN_UNITS];
    uint64_t bytes = 0;
    uint32_t unit = 0;
    while (index_get_next(volume->index, id, unit, &unit, &run[0]) == OK && unit != METADATA_UNIT &&
           !run[0].whole) {
        uint32_t count = index_get_run(volume->index, id, unit, RUN_UNITS, run);
        for (uint32_t i = 0; i < count; i++)
            if (run[i].etag_hash == etag_hash &&
                !(compares && bans_cover(volume->bans, name, run[i].extent, run[i].ordinal)))
                bytes += run[i].len;
        unit += MAX(count, 1u);
    }
    bans_end(volume->bans, compares);
    return bytes;
}

static uint64_t cached_bytes(const struct walk *walk, const struct object_id *id, slice name,
                             const struct entry *metadata)
{
    uint64_t bytes = 0;
    if (metadata->whole)
        return metadata->len;
    for (size_t i = 0; i < walk->store->volume_count; i++)
        if (volume_is_serving(walk->store->volumes[i]))
            bytes += unit_bytes_in(walk->store->volumes[i], id, name, metadata->etag_hash);
    return bytes;
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
    if (ages_is_dead(walk->ages, row->ordinal))
        return false;
    if (entry->kind == KIND_WHOLE && ages_is_live(walk->ages, row->ordinal)) {
        *ret = (struct entry){ .extent = walk->extent, .ordinal = row->ordinal, .whole = true,
                               .len = entry->data_len };
        return true;
    }
    return index_get_metadata(walk->volume->index, &entry->id, &unit, ret) == OK &&
           ret->extent == walk->extent && ret->ordinal == row->ordinal;
}

/* The same, but false if the record was purged, too. */
static bool is_in_index(const struct walk *walk, const struct toc_row *row, struct entry *ret)
{
    struct bans *bans = walk->volume->bans;
    bool compares = bans_begin(bans);
    bool is = find_entry(walk, row, ret) &&
              !(compares && bans_cover(bans, row->name.name, walk->extent, row->ordinal));
    bans_end(bans, compares);
    return is;
}

static enum err visit_row(void *arg, const struct toc_row *row)
{
    struct walk *walk = arg;
    struct walk_object object = { .size = row->name.size, .age = -1 };
    struct entry entry;
    if (walk->ask->is_over && walk->ask->is_over(walk->ask->arg))
        return walk->ended = ERR_STOPPING;
    if (!row->name.name.len || row->entry->bucket != walk->bucket ||
        !is_wanted(walk->ask, row->name.name, &object) ||
        store_home(walk->store, &row->entry->id) != walk->volume ||
        !is_in_index(walk, row, &entry))
        return OK;
    object.cached_bytes = cached_bytes(walk, &row->entry->id, row->name.name, &entry);
    if (walk->ask->wants_age)
        object.age = explain_age(walk->store, &row->entry->id, &entry);
    return walk->ended = walk->ask->visit(walk->ask->arg, &object);
}

static enum err read_extent(struct walk *walk, uint32_t number)
{
    struct extent *extent = extent_ref(walk->volume->extents, number);
    if (!extent)
        return OK;    /* it was recycled */
    walk->extent = number;
    walk->ages = extent_ages_of(extent);
    enum err err = extent_each_row(walk->volume->extents, number, visit_row, walk);
    if (err && !walk->ended)    /* an extent that is gone was recycled */
        walk->gaps->extents += extent_is_there(walk->volume->extents, number);
    extent_release(&extent);
    return walk->ended;
}

/* The extents of a volume when the walk begins. */
struct beginning {
    uint32_t open[OPEN_COUNT];
    size_t open_count;
    uint32_t highest;
};

static bool was_open(const struct beginning *beginning, uint32_t number)
{
    for (size_t i = 0; i < beginning->open_count; i++)
        if (beginning->open[i] == number)
            return true;
    return false;
}

static enum err read_volume(struct walk *walk)
{
    struct extents *extents = walk->volume->extents;
    struct beginning begin = { .open_count = 0 };
    struct arena keep = { 0 };
    uint32_t *numbers;
    enum err err = OK;
    size_t count = extents_numbers(extents, &keep, &numbers);
    for (size_t i = 0; i < count && begin.open_count < OPEN_COUNT; i++)
        if (extent_is_open(extents, numbers[i]))
            begin.open[begin.open_count++] = numbers[i];
    begin.highest = count ? numbers[count - 1] : 0;
    for (size_t i = 0; i < count && !err; i++)
        if (!was_open(&begin, numbers[i]))
            err = read_extent(walk, numbers[i]);
    count = extents_numbers(extents, &keep, &numbers);
    for (size_t i = 0; i < count && !err; i++)
        if (was_open(&begin, numbers[i]) || numbers[i] > begin.highest)
            err = read_extent(walk, numbers[i]);
    arena_free(&keep);
    return err;
}

enum err store_walk(struct store *store, const struct walk_ask *ask, struct walk_gaps *ret)
{
    enum err err = OK;
    *ret = (struct walk_gaps){ .any = false };
    for (size_t i = 0; i < store->volume_count && !err; i++) {
        struct walk walk = { .store = store, .ask = ask, .volume = store->volumes[i], .gaps = ret };
        walk.bucket = bucket_hash(walk.volume->secret, ask->endpoint, ask->bucket);
        bool serves = volume_is_serving(walk.volume);
        if (serves)
            err = read_volume(&walk);
        ret->folders[i] = !serves || !volume_is_serving(walk.volume);
        ret->any |= ret->folders[i] || ret->extents > 0;
    }
    return err;
}
