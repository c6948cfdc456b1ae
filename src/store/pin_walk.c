/* pin_walk.c - one search for the records to pin. SPDX-License-Identifier: Apache-2.0
 *
 * The row of an object's metadata has its name. The units of the object are found by its id, in the
 * volumes of its stripes. So one walk covers all volumes. No extent is recycled while it runs, so
 * the records that it finds stay.
 *
 * The budget of a volume goes to the oldest pin first, then to the next; within a pin, to the records
 * that were pinned before. The tables of contents have the records in another order. So if some
 * records find no room, the walk reads the tables a second time, and knows then how much of the
 * budget each pin gets. After the folder was opened, the first reading only counts: no record is
 * pinned yet whose place another one could take. If some names are not known then, all records that
 * were pinned before are pinned again, and other records get only the rest of the budget.
 *
 * While some names are not known, because a folder is out of service or an extent can't be read, no
 * record is unpinned only because the walk does not find it. But if a row of metadata has a name
 * that is not pinned, this is the name of all records of the object. So they are unpinned at once.
 * If the record with the metadata was unpinned by an earlier pass, so were the units in the folders
 * that took part in that pass. So the walk looks for them only in folders that a pass left out. A
 * record of units in a bucket without a pin is unpinned at once, too.
 *
 * Each step that may wait for the disk of a volume begins with enter(). So another thread knows
 * which volume holds up the walk, and can let the other volumes go on. Threads: one thread makes the
 * walk. It never holds more than one volume's lock of pins, for at most one record. */
#include "store/pin_walk.h"

#include <stdlib.h>

#include "base/metric.h"
#include "store/hash.h"

/* Returns false if the walk must end. */
static bool enter(struct pin_walk *walk, size_t volume)
{
    pthread_mutex_lock(&walk->lock);
    bool goes_on = !walk->stops;
    if (goes_on)
        walk->at = volume;
    pthread_mutex_unlock(&walk->lock);
    atomic_store(&walk->moved_ms, mono_ms());
    return goes_on;
}

/* Returns false if the folder was closed, or the walk was given up. Under the volume's lock of pins
 * this does not change. */
static bool is_current(const struct pin_walk *walk, const struct volume *volume)
{
    return atomic_load(&volume->pinned.rounds) == walk->rounds[volume->number];
}

/* ---- the table of pins ---- */

static void learn_pins(struct pin_walk *walk)
{
    walk->pin_count = pins_list(walk->store->pins, S(""), &walk->keep, &walk->pins);
    walk->serials = arena_alloc(&walk->keep, (walk->pin_count + 1) * sizeof(*walk->serials));
    walk->buckets = arena_alloc(&walk->keep, (walk->pin_count + 1) * sizeof(*walk->buckets));
    for (size_t i = 0; i < walk->pin_count; i++) {
        walk->serials[i] = walk->pins[i].serial;
        walk->buckets[i] = bucket_hash_of(walk->store->volumes[0]->secret, walk->pins[i].prefix);
    }
    qsort(walk->serials, walk->pin_count, sizeof(*walk->serials), serial_order);
    qsort(walk->buckets, walk->pin_count, sizeof(*walk->buckets), serial_order);
    for (size_t i = 0; i < walk->store->volume_count; i++) {
        size_t bytes = (walk->pin_count + 1) * sizeof(struct pin_share);
        walk->parts[i].shares = arena_alloc(&walk->keep, bytes);
    }
}

/* Returns the rank of the oldest pin of this name, or PINS_NONE. */
static size_t rank_of(const struct pin_walk *walk, slice name)
{
    size_t at = pins_find(walk->pins, walk->pin_count, name);
    if (at == PINS_NONE)
        return PINS_NONE;
    const uint64_t *found = bsearch(&walk->pins[at].serial, walk->serials, walk->pin_count,
                                    sizeof(*walk->serials), serial_order);
    while (found > walk->serials && found[-1] == *found)
        found--;
    return (size_t)(found - walk->serials);
}

/* True if some pin may cover names in this bucket. 0: the bucket is not known. */
static bool has_pins(const struct pin_walk *walk, uint64_t bucket)
{
    return !bucket ||
           bsearch(&bucket, walk->buckets, walk->pin_count, sizeof(bucket), serial_order);
}

/* ---- one object ---- */

/* The records that hold the units of one aligned run. */
struct found {
    struct pin_found records[RECORD_UNITS];
    size_t count;
};

static void add_found(struct found *found, const struct entry *entry)
{
    size_t i = 0;
    while (i < found->count && (found->records[i].extent != entry->extent ||
                                found->records[i].ordinal != entry->ordinal))
        i++;
    if (i == found->count)
        found->records[found->count++] = (struct pin_found){ entry->extent, entry->ordinal, 0 };
    found->records[i].weight += pin_weight(entry->len);
}

/* Finds the records of the units from *unit to the end of the run, and sets *unit to this end. With
 * `metadata`, finds only records of its version, otherwise records of all versions. Under the lock
 * of the pins. */
static void find_run(const struct pin_walk *walk, struct volume *volume, const struct object_id *id,
                     const struct entry *metadata, uint32_t *unit, struct found *ret)
{
    struct entry entry;
    uint32_t end = rule_first_unit(*unit) + RECORD_UNITS;    /* at most UNITS_MAX */
    for (; *unit < end; ++*unit)
        if (is_current(walk, volume) && index_get_run(volume->index, id, *unit, 1, &entry) == 1 &&
            (!metadata || entry.etag_hash == metadata->etag_hash) && !entry.whole)
            add_found(ret, &entry);
}

/* Sees the units of an object, or unpins them if its name is not pinned (rank PINS_NONE). A record
 * lies in one run of RECORD_UNITS units. */
static void see_units(struct pin_walk *walk, struct volume *volume, const struct object_id *id,
                      const struct entry *metadata, size_t rank)
{
    struct pin_part *part = &walk->parts[volume->number];
    struct entry first;
    uint32_t unit = 0;
    while (unit < UNITS_MAX && enter(walk, volume->number) &&
           index_get_next(volume->index, id, unit, &unit, &first) == OK &&
           unit < UNITS_MAX && !first.whole) {
        struct found found = { .count = 0 };
        pthread_mutex_lock(&volume->pinned.lock);
        find_run(walk, volume, id, rank == PINS_NONE ? NULL : metadata, &unit, &found);
        for (size_t i = 0; i < found.count; i++)
            if (rank == PINS_NONE)
                pinned_disown(volume, part, &found.records[i]);
            else
                pinned_see(volume, part, rank, &found.records[i]);
        pthread_mutex_unlock(&volume->pinned.lock);
    }
}

/* Returns false if the index does not name this row for the object's metadata. */
static bool see_metadata(struct pin_walk *walk, const struct toc_row *row, size_t rank,
                         struct entry *ret)
{
    struct volume *volume = walk->rows.volume;
    struct pin_part *part = &walk->parts[volume->number];
    uint32_t unit;
    pthread_mutex_lock(&volume->pinned.lock);
    bool is = is_current(walk, volume) &&
              index_get_metadata(volume->index, &row->entry->id, &unit, ret) == OK &&
              ret->extent == walk->rows.extent && ret->ordinal == row->ordinal;
    struct pin_found found = { ret->extent, ret->ordinal, is ? pin_weight(ret->len) : 0 };
    if (is && rank == PINS_NONE)
        pinned_disown(volume, part, &found);
    else if (is)
        pinned_see(volume, part, rank, &found);
    pthread_mutex_unlock(&volume->pinned.lock);
    return is;
}

/* Returns the weight of the entries that name the row's record. */
static uint64_t weight_of(const struct volume_rows *rows, const struct toc_row *row)
{
    struct entry entries[RECORD_UNITS];
    uint64_t weight = 0;
    bool failed;
    uint32_t count = volume_row_entries(rows->volume, rows->extent, row->ordinal, row->entry,
                                        entries, &failed);
    for (uint32_t i = 0; i < count; i++)
        weight += pin_weight(entries[i].len);
    return weight;
}

/* Most rows are of records that were not pinned before. */
static void see_before(struct pin_walk *walk, const struct toc_row *row)
{
    struct volume *volume = walk->rows.volume;
    struct pin_part *part = &walk->parts[volume->number];
    if (!ages_was_pinned(walk->rows.ages, row->ordinal) ||
        (part->look != LOOK_COUNT && !part->holds))
        return;
    pthread_mutex_lock(&volume->pinned.lock);
    struct pin_found found = { walk->rows.extent, row->ordinal, weight_of(&walk->rows, row) };
    if (is_current(walk, volume) && found.weight)
        pinned_see_before(volume, part, &found);
    pthread_mutex_unlock(&volume->pinned.lock);
}

/* True if the volume may have missed the pass that unpinned an object, and would keep its records of
 * this object pinned at the end of this pass. A walk looks for such records in only one of its two
 * readings. */
static bool catches_up(const struct pin_walk *walk, size_t i)
{
    return walk->was_left_out[i] &&
           (walk->lacks_folder ? !walk->again : walk->parts[i].holds);
}

/* For a row with a name that is not pinned. True if this volume may have units of the object that
 * were pinned before. */
static bool may_have_pinned(const struct pin_walk *walk, const struct toc_row *row, size_t i)
{
    const struct pinned *pinned = &walk->store->volumes[i]->pinned;
    bool some = atomic_load(&pinned->held) || atomic_load(&pinned->bytes);
    return walk->takes_part[i] &&
           (ages_must_stay(walk->rows.ages, row->ordinal) ||
            (some && (catches_up(walk, i) || catches_up(walk, walk->rows.volume->number))));
}

/* Unpins the records of the object whose metadata the row has. */
static void disown(struct pin_walk *walk, const struct toc_row *row)
{
    struct store *store = walk->store;
    struct entry metadata;
    bool has[VOLUMES_MAX], any = false;
    for (size_t i = 0; i < store->volume_count; i++)
        any |= has[i] = may_have_pinned(walk, row, i);
    if (!any || !see_metadata(walk, row, PINS_NONE, &metadata) || metadata.whole)
        return;
    for (size_t i = 0; i < store->volume_count; i++)
        if (has[i])
            see_units(walk, store->volumes[i], &row->entry->id, &metadata, PINS_NONE);
}

static void see_object(struct pin_walk *walk, const struct toc_row *row, size_t rank)
{
    struct store *store = walk->store;
    struct entry metadata;
    if (!see_metadata(walk, row, rank, &metadata) || metadata.whole)
        return;
    for (size_t i = 0; i < store->volume_count; i++)
        if (walk->takes_part[i] && walk->parts[i].look != LOOK_NONE)
            see_units(walk, store->volumes[i], &row->entry->id, &metadata, rank);
}

/* A record of units has no name, but the hash of its bucket. If nothing in this bucket is pinned,
 * the name does not matter. */
static void disown_units(struct pin_walk *walk, const struct toc_row *row)
{
    struct volume *volume = walk->rows.volume;
    if (row->entry->kind != KIND_UNITS || has_pins(walk, row->entry->bucket) ||
        !ages_must_stay(walk->rows.ages, row->ordinal))
        return;
    pthread_mutex_lock(&volume->pinned.lock);
    struct pin_found found = { walk->rows.extent, row->ordinal, weight_of(&walk->rows, row) };
    if (is_current(walk, volume))
        pinned_disown(volume, &walk->parts[volume->number], &found);
    pthread_mutex_unlock(&volume->pinned.lock);
}

static enum err visit_row(void *arg, const struct toc_row *row)
{
    struct pin_walk *walk = arg;
    size_t here = walk->rows.volume->number;
    if (!enter(walk, here))
        return ERR_STOPPING;
    see_before(walk, row);
    disown_units(walk, row);
    if (!row->name.name.len || store_home(walk->store, &row->entry->id) != walk->rows.volume)
        return OK;
    size_t rank = rank_of(walk, row->name.name);
    if (rank == PINS_NONE)
        disown(walk, row);
    else
        see_object(walk, row, rank);
    return enter(walk, here) ? OK : ERR_STOPPING;
}

/* ---- all of them ---- */

static void begin_volumes(struct pin_walk *walk, const bool skip[VOLUMES_MAX])
{
    for (size_t i = 0; i < walk->store->volume_count && enter(walk, i); i++) {
        struct pinned *pinned = &walk->store->volumes[i]->pinned;
        uint64_t round = 0;
        bool takes_part = !skip[i] &&
                          pinned_begin(walk->store->volumes[i], &walk->moved_ms, &round);
        pthread_mutex_lock(&walk->lock);
        walk->takes_part[i] = takes_part;
        walk->rounds[i] = round;
        pthread_mutex_unlock(&walk->lock);
        walk->lacks_folder |= !takes_part;
        walk->was_left_out[i] = pinned_is_left_out(walk->store->volumes[i]);
        if (takes_part)
            walk->parts[i].look = atomic_load(&pinned->marked) ? LOOK_TRY : LOOK_COUNT;
        else
            atomic_store(&pinned->left_out, true);
    }
}

static enum err read_volumes(struct pin_walk *walk)
{
    enum err e = OK;
    walk->unread = 0;
    for (size_t i = 0; i < walk->store->volume_count && !e; i++) {
        walk->rows = (struct volume_rows){ .volume = walk->store->volumes[i], .visit = visit_row,
                                           .arg = walk };
        if (!enter(walk, i))
            e = ERR_STOPPING;
        else if (walk->takes_part[i])
            e = volume_rows_read(&walk->rows);
        walk->unread += walk->rows.unread;
    }
    return e;
}

/* Reads the volumes again, if some records found no room, or none are pinned yet. If some names are
 * not known, no pinned record makes room for another. But if the walk has unpinned some records, the
 * records that found no room before are tried again. */
static enum err read_again(struct pin_walk *walk, bool all)
{
    bool again = false;
    walk->again = true;
    for (size_t i = 0; i < walk->store->volume_count && enter(walk, i); i++) {
        struct pin_part *part = &walk->parts[i];
        bool chooses = part->look == LOOK_COUNT || (part->look == LOOK_TRY && part->over && all);
        bool tries = part->look == LOOK_TRY && part->over && part->frees;
        again |= chooses || tries;
        if (chooses)
            pinned_choose(walk->store->volumes[i], walk->rounds[i], part, walk->pin_count, !all);
        else if (!tries)
            part->look = LOOK_NONE;
    }
    return again ? read_volumes(walk) : OK;
}

/* If some names are not known, nothing is unpinned. Without pins, no name matters. The names of a
 * folder that failed while the walk ran are not known, even if the folder is back. */
static enum pass_end how_it_ended(const struct pin_walk *walk, enum err err)
{
    bool all = true;
    for (size_t i = 0; i < walk->store->volume_count; i++) {
        struct volume *volume = walk->store->volumes[i];
        all = all && walk->takes_part[i] && is_current(walk, volume) && volume_is_serving(volume);
    }
    bool full = (all && !walk->unread) || !walk->pin_count;
    return err ? PASS_FAILED : full ? PASS_FULL : PASS_PARTIAL;
}

/* Counts the records that lost their pin for want of room. */
static void end_volume(struct pin_walk *walk, size_t i, enum pass_end end)
{
    struct volume *volume = walk->store->volumes[i];
    uint64_t lost = end == PASS_FULL ? walk->parts[i].lost : 0;
    metric_add(M_PINS_UNPINNED, lost);
    atomic_fetch_add(&volume->pinned.unpinned, lost);
    pinned_end(volume, walk->rounds[i], end);
}

/* Without pins, no table is read. The pass is full only if all names were known at both readings:
 * records that found no room at the first one lose their pin only if the second one chose. A walk
 * that was stopped ends in the volume that it is in. Another thread ends it in the others
 * (pin_walk_give_up). */
void pin_walk(struct pin_walk *walk, const bool skip[VOLUMES_MAX])
{
    begin_volumes(walk, skip);
    learn_pins(walk);
    bool reads = walk->pin_count > 0;
    enum pass_end end = how_it_ended(walk, reads ? read_volumes(walk) : OK);
    if (end != PASS_FAILED && reads)
        end = MIN(end, how_it_ended(walk, read_again(walk, end == PASS_FULL)));
    bool stopped = false;
    for (size_t i = 0; i < walk->store->volume_count && !stopped; i++) {
        stopped = !enter(walk, i);
        if (walk->takes_part[i] && !stopped)
            end_volume(walk, i, end);
    }
    if (stopped && walk->takes_part[walk->at])
        end_volume(walk, walk->at, PASS_FAILED);
    arena_free(&walk->keep);
}

size_t pin_walk_stop(struct pin_walk *walk)
{
    pthread_mutex_lock(&walk->lock);
    walk->stops = true;
    size_t at = walk->at;
    pthread_mutex_unlock(&walk->lock);
    return at;
}

bool pin_walk_give_up(struct pin_walk *walk)
{
    bool all = true;
    pthread_mutex_lock(&walk->lock);
    for (size_t i = 0; i < walk->store->volume_count; i++)
        if (walk->takes_part[i] && i != walk->at)
            all &= pinned_give_up(walk->store->volumes[i], walk->rounds[i]);
    pthread_mutex_unlock(&walk->lock);
    return all;
}
