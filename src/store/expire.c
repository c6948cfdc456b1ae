/* expire.c - removes records that were not read for a time. SPDX-License-Identifier: Apache-2.0
 *
 * The time of expiry of a tally is cut into slices (tallies.h). A record has the slice of its last
 * read, a byte in RAM. A pass has two parts. The first part looks at the bytes of all records, and
 * reads nothing: it gives the present slice to records without one, and marks those whose slice is
 * too old. The second part reads the tables of the extents with such records, and removes these
 * records. So a record is removed at most two slices late. Its entries leave the index as those of
 * evicted records do. Its bytes stay in the extent until the extent is recycled.
 *
 * An extent that can't be read is left out. If the index has no room for deletions, the pass ends.
 * In both cases the marks stay, and the pass of the next slice tries again.
 *
 * Reads of units do not touch the metadata of their object. So a pass looks at metadata alone last.
 * Such metadata stays while its object has units in any folder. The pass looks at it again after a
 * part of the time.
 *
 * Pinned records stay. Threads: the recycler, under its lock. */
#include "store/expire.h"

#include <stdlib.h>

#include "store/pinned.h"
#include "store/relocation.h"

#define AGAIN_SLICES (EXPIRE_SLICES / 4)    /* until a pass looks at kept metadata again */

struct expire {
    struct volume *volume;
    struct ages *ages;
    uint32_t extent;
    bool heads;                       /* true: now metadata alone; false: all other records */
    struct relocation_row rows[RELOCATION_ENTRIES];
    size_t row_count, entries;
    enum err err;
};

bool expire_is_due(struct volume *volume)
{
    struct tallies *tallies = volume_tallies(volume);
    return tallies_any_expire(tallies) &&
           tallies_expire_turn(tallies) != atomic_load(&volume->recycler.expire_turn);
}

/* ---- removal ---- */

static void flush(struct expire *expire)
{
    struct volume *volume = expire->volume;
    struct relocation relocation = { .extent = expire->extent, .rows = expire->rows,
                                     .row_count = expire->row_count };
    if (!expire->row_count || expire->err)
        return;
    expire->err = relocation_send(volume, &relocation);
    for (size_t i = 0; i < expire->row_count && !expire->err; i++) {
        const struct toc_entry *row = &expire->rows[i].row;
        events_note(volume->events, &row->id, row->first_unit, EVENT_EXPIRED);
        if (row->kind == KIND_UNITS)
            continue;
        volume_changed(volume, &row->id);    /* no reader puts it back into RAM */
        metadata_cache_drop(volume->known.cache, &row->id);
    }
    expire->row_count = expire->entries = 0;
}

static uint8_t marked(uint8_t now)
{
    return expire_back(now, EXPIRE_SLICES + 1);
}

static bool has_expired(const struct expire *expire, uint32_t ordinal)
{
    struct tally_expiry expiry = tallies_expiry(volume_tallies(expire->volume),
                                                ages_tally(expire->ages, ordinal),
                                                expire->volume->number);
    uint8_t read = ages_read(expire->ages, ordinal);
    return expiry.now && !expiry.anew && read && ages_live(expire->ages, ordinal) &&
           !ages_must_stay(expire->ages, ordinal) &&
           expire_age(expiry.now, read) > EXPIRE_SLICES;
}

static enum err visit(void *arg, const struct toc_row *row)
{
    struct expire *expire = arg;
    const struct toc_entry *entry = row->entry;
    if ((entry->kind == KIND_HEAD) != expire->heads || !has_expired(expire, row->ordinal))
        return OK;
    if (entry->kind == KIND_HEAD && volume_keeps_metadata(expire->volume, &entry->id)) {
        uint8_t now = tallies_expire_now(volume_tallies(expire->volume),
                                         ages_tally(expire->ages, row->ordinal));
        ages_set_read(expire->ages, row->ordinal, expire_back(now, EXPIRE_SLICES - AGAIN_SLICES));
        return OK;
    }
    expire->entries += record_units(&(struct record){ .kind = entry->kind,
                                                      .data_len = entry->data_len });
    expire->rows[expire->row_count++] = (struct relocation_row){ *entry, row->ordinal, true };
    if (expire->entries + RECORD_UNITS > RELOCATION_ENTRIES)
        flush(expire);
    return expire->err;
}

/* ---- the pass ---- */

/* The first part, for one record. A read that comes at the same time may be lost. */
static void mark(struct ages *ages, uint32_t ordinal, const struct tally_expiry *expiry)
{
    uint8_t read = ages_read(ages, ordinal), now = expiry->now;
    if (expiry->anew || !read)
        ages_set_read(ages, ordinal, now);
    else if (expiry->jumped ? read != now : expire_age(now, read) > EXPIRE_SLICES)
        ages_set_read(ages, ordinal, marked(now));
}

static void mark_all(struct volume *volume, const uint32_t *numbers, size_t count)
{
    struct tallies *tallies = volume_tallies(volume);
    for (size_t i = 0; i < count; i++) {
        struct extent *extent = extent_ref(volume->extents, numbers[i]);
        struct ages *ages = extent ? extent_ages_of(extent) : NULL;
        uint32_t records = ages ? ages_counted(ages) : 0;
        for (uint32_t k = 0; k < records; k++) {
            struct tally_expiry expiry = tallies_expiry(tallies, ages_tally(ages, k),
                                                        volume->number);
            if (expiry.now)
                mark(ages, k, &expiry);
        }
        extent_release(&extent);
    }
}

static bool any_expired(const struct expire *expire)
{
    uint32_t count = ages_counted(expire->ages);
    for (uint32_t i = 0; i < count; i++)
        if (has_expired(expire, i))
            return true;
    return false;
}

/* The second part, for one extent. */
static enum err expire_extent(struct expire *expire, uint32_t number)
{
    struct extent *extent = extent_ref(expire->volume->extents, number);
    if (!extent)
        return OK;
    expire->extent = number;
    expire->ages = extent_ages_of(extent);
    expire->err = OK;
    if (any_expired(expire)) {
        (void)!extent_each_row(expire->volume->extents, number, visit, expire);
        flush(expire);
    }
    expire->row_count = expire->entries = 0;
    extent_release(&extent);
    return expire->err;
}

static bool is_room_wanted(struct volume *volume)
{
    pthread_mutex_lock(&volume->rule.lock);
    bool wanted = volume->rule.wanted != ADMIT_NO || volume->rule.stopping;
    pthread_mutex_unlock(&volume->rule.lock);
    return wanted || atomic_load(&volume->recycler.paused);
}

/* Returns false if the pass is due again at once. */
static bool remove_all(struct volume *volume, const uint32_t *numbers, size_t count)
{
    struct expire *expire = must_alloc(sizeof(*expire));
    bool whole = true;
    enum err e = OK;
    expire->volume = volume;
    for (size_t i = 0; i < 2 * count && whole && !e; i++) {
        whole = !is_room_wanted(volume) && pinned_is_known(volume);
        recycler_moves(volume);
        expire->heads = i >= count;
        if (whole)
            e = expire_extent(expire, numbers[i % count]);
    }
    free(expire);
    return whole;
}

void expire_pass(struct volume *volume)
{
    struct tallies *tallies = volume_tallies(volume);
    struct arena keep = { 0 };
    uint32_t *numbers, turn = tallies_expire_begin(tallies, volume->number);
    pthread_mutex_lock(&volume->recycler.lock);
    recycler_moves(volume);
    size_t count = extents_numbers(volume->extents, &keep, &numbers);
    mark_all(volume, numbers, count);
    tallies_expire_seen(tallies, volume->number);
    bool whole = remove_all(volume, numbers, count);
    pthread_mutex_unlock(&volume->recycler.lock);
    if (whole)
        atomic_store(&volume->recycler.expire_turn, turn);
    arena_free(&keep);
}
