/* account.c - which records of a volume are live, in step with its index.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The index tells which entries a commit added and removed, by the records that they name. Records
 * from an earlier process that no file of ages tells (age_files.h) are counted by looking their
 * entries up, extent by extent, between commits: what a commit changes is then either in the count
 * or in the commit's changes, never in both. */
#include "store/account.h"

#include "store/index.h"

#define COUNT_BATCH 2000u

/* ---- changes ---- */

/* True if an entry was put again, with other marks: its record lives on. */
static bool is_put_again(const struct index_change *old, const struct index_change *new)
{
    return !old->added && new->added && old->extent == new->extent &&
           old->ordinal == new->ordinal && old->len == new->len;
}

enum err account_commit(struct volume *volume)
{
    enum err e = index_commit(volume->index);
    const struct index_change *changes;
    size_t count = index_changes(volume->index, &changes);
    for (size_t i = 0; !e && i < count; i++) {
        if (i + 1 < count && is_put_again(&changes[i], &changes[i + 1])) {
            i++;
            continue;
        }
        struct ages *ages = extent_ages(volume->extents, changes[i].extent);
        if (ages && changes[i].added)
            ages_entry_added(ages, changes[i].ordinal, changes[i].len);
        else if (ages)
            ages_entry_removed(ages, changes[i].ordinal, changes[i].len, rule_dead_stamp(&volume->rule));
    }
    return e;
}

void account_appended(struct volume *volume, struct append_item *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct record *record = &items[i]->record;
        struct ages *ages = extent_ages(volume->extents, record->extent);
        if (ages)
            ages_add(ages, record->ordinal, rule_stamp(&volume->rule), record->kind == KIND_HEAD);
    }
}

/* ---- counting ---- */

void account_begin(struct volume *volume)
{
    account_end(volume);
    atomic_store(&volume->service.counted, false);
    volume->counting.last = extents_highest(volume->extents);
}

void account_end(struct volume *volume)
{
    arena_free(&volume->counting.keep);
    volume->counting = (struct counting){ 0 };
}

/* An extent that can't be read has no rows: nothing of it is known. */
static void begin_extent(struct volume *volume, uint32_t number)
{
    struct counting *counting = &volume->counting;
    arena_free(&counting->keep);
    counting->extent = number;
    counting->row_count = counting->row = 0;
    if (extent_contents(volume->extents, number, &counting->keep, &counting->rows,
                        &counting->row_count) != OK)
        counting->row_count = 0;
}

static bool find_next_extent(struct volume *volume)
{
    struct counting *counting = &volume->counting;
    struct arena keep = { 0 };
    uint32_t *numbers, next = 0;
    size_t count = extents_numbers(volume->extents, &keep, &numbers);
    for (size_t i = 0; i < count && !next; i++)
        if (numbers[i] > counting->extent && numbers[i] <= counting->last &&
            ages_are_counting(extent_ages(volume->extents, numbers[i])))
            next = numbers[i];
    arena_free(&keep);
    if (next)
        begin_extent(volume, next);
    return next != 0;
}

static void count_row(struct volume *volume, struct ages *ages, const struct toc_entry *row)
{
    struct counting *counting = &volume->counting;
    struct record record = { .kind = row->kind, .data_len = row->data_len };
    uint32_t units = record_units(&record), entries = 0;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < units; i++) {
        struct entry entry;
        uint32_t unit;
        bool found = row->kind == KIND_UNITS
            ? index_get_run(volume->index, &row->id, row->first_unit + i, 1, &entry) == 1
            : index_get_metadata(volume->index, &row->id, &unit, &entry) == OK;
        if (!found || entry.extent != counting->extent || entry.ordinal != counting->row)
            continue;
        entries++;
        bytes += entry.len;
    }
    ages_count(ages, rule_stamp(&volume->rule), row->kind == KIND_HEAD, entries, bytes,
               rule_dead_stamp(&volume->rule));
}

bool account_count(struct volume *volume)
{
    struct counting *counting = &volume->counting;
    if (counting->row == counting->row_count && !find_next_extent(volume))
        return false;
    struct ages *ages = extent_ages(volume->extents, counting->extent);
    uint32_t end = MIN(counting->row_count, counting->row + COUNT_BATCH);
    for (; ages && counting->row < end; counting->row++)
        count_row(volume, ages, &counting->rows[counting->row]);
    if (!ages)
        counting->row = counting->row_count;    /* it was recycled meanwhile */
    else if (counting->row == counting->row_count)
        ages_set_counting(ages, false);
    return true;
}
