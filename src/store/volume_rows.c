/* volume_rows.c - reads all rows of a volume's tables of contents.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The recycler moves records to a copy, which may be open, or not exist yet, when the reading
 * begins. So extents that were open or did not exist then are read after all others. */
#include "store/volume_rows.h"

/* The extents of a volume when the reading begins. */
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

static enum err visit(void *arg, const struct toc_row *row)
{
    struct volume_rows *rows = arg;
    return rows->ended = rows->visit(rows->arg, row);
}

static enum err read_extent(struct volume_rows *rows, uint32_t number)
{
    struct extent *extent = extent_ref(rows->volume->extents, number);
    if (!extent)
        return OK;    /* it was recycled */
    rows->extent = number;
    rows->ages = extent_ages_of(extent);
    enum err err = extent_each_row(rows->volume->extents, number, visit, rows);
    /* an extent that left the table was recycled */
    if (err && !rows->ended && !extent_is_empty(extent))
        rows->unread += extent_is_there(rows->volume->extents, number);
    extent_release(&extent);
    return rows->ended;
}

enum err volume_rows_read(struct volume_rows *rows)
{
    struct extents *extents = rows->volume->extents;
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
            err = read_extent(rows, numbers[i]);
    count = extents_numbers(extents, &keep, &numbers);
    for (size_t i = 0; i < count && !err; i++)
        if (was_open(&begin, numbers[i]) || numbers[i] > begin.highest)
            err = read_extent(rows, numbers[i]);
    arena_free(&keep);
    return err;
}

static bool is_of(const struct entry *entry, uint32_t extent, uint32_t ordinal)
{
    return entry->extent == extent && entry->ordinal == ordinal;
}

uint32_t volume_row_entries(struct volume *volume, uint32_t extent, uint32_t ordinal,
                            const struct toc_entry *row, struct entry ret[RECORD_UNITS],
                            bool *ret_failed)
{
    const struct record record = { .kind = row->kind, .data_len = row->data_len };
    uint32_t unit = row->first_unit, count = 0;
    enum err e;
    if (row->kind != KIND_UNITS) {
        e = index_get_metadata(volume->index, &row->id, &unit, &ret[0]);
        count = !e && is_of(&ret[0], extent, ordinal);
    } else {
        uint32_t end = unit + record_units(&record);
        /* the next entry after all units of an object is that of its metadata */
        while ((e = index_get_next(volume->index, &row->id, unit, &unit, &ret[count])) == OK &&
               unit < end) {
            count += is_of(&ret[count], extent, ordinal);
            if (++unit == end)
                break;
        }
    }
    *ret_failed = e && e != ERR_NOT_FOUND;
    return count;
}
