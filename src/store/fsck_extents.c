/* fsck_extents.c - fsck: the extents and their records. SPDX-License-Identifier: Apache-2.0
 *
 * The rows of an extent come from its table of contents, or from the record headers if there is no
 * good table, by the same code that a start uses (contents.c). Each row is compared with its
 * record, and each record with the entries of the index under its keys. One or two bytes a record
 * are kept for the check of the index that follows. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "store/extent_inside.h"
#include "store/fsck_inside.h"

/* An extent that is being checked. */
struct visit {
    struct fsck *fsck;
    struct fsck_extent *extent;
    struct extent *held;
    uint64_t end;                     /* of its last record */
    struct toc_entry first;           /* the row of its first record */
    uint64_t reported;                /* bytes that count as done */
};

struct fsck_extent *fsck_find_extent(const struct fsck *fsck, uint32_t number)
{
    size_t from = 0, end = fsck->list_count;
    while (from < end) {
        size_t middle = from + (end - from) / 2;
        if (fsck->list[middle].number == number)
            return &fsck->list[middle];
        if (fsck->list[middle].number < number)
            from = middle + 1;
        else
            end = middle;
    }
    return NULL;
}

/* ---- one record ---- */

static uint8_t *add_record(struct fsck_extent *extent)
{
    if (extent->count == extent->room) {
        extent->room = MAX(64, 2 * extent->room);
        extent->records = realloc(extent->records, extent->room);
        extent->named = realloc(extent->named, extent->room);
        check(extent->records && extent->named);
    }
    extent->records[extent->count] = extent->named[extent->count] = 0;
    return &extent->records[extent->count++];
}

static const char *verdict_text(enum verdict verdict)
{
    static const char *const texts[] = {
        [VERDICT_RIGHT] = "right",
        [VERDICT_UNREADABLE] = "its bytes can't be read from the disk",
        [VERDICT_HEADER] = "its header is damaged, or differs from its row in the table of contents",
        [VERDICT_METADATA] = "its metadata fails the checksum",
        [VERDICT_DATA] = "its data fails the checksum",
    };
    return texts[verdict];
}

/* The file ends within the record, so the disk has not failed. */
static bool is_short(const struct visit *visit, const struct toc_row *row)
{
    return row->entry->offset + toc_entry_record_bytes(row->entry) > extent_size(visit->held);
}

static void note_bad(struct visit *visit, const struct toc_row *row, enum verdict verdict)
{
    struct fsck *fsck = visit->fsck;
    uint32_t number = visit->extent->number;
    bool used = !fsck->index_usable ||
                fsck_count_named(fsck, visit->extent, row->entry, row->ordinal);
    visit->extent->records[row->ordinal] |= RECORD_BAD;
    fsck->report->totals.dead_records += !used;
    fsck_note(fsck, verdict == VERDICT_UNREADABLE && !is_short(visit, row) ? FSCK_UNREAD
                    : used ? FSCK_RECORD : FSCK_DEAD_RECORD,
              "extents/%08x, record %u at offset %u: %s", number, row->ordinal, row->entry->offset,
              verdict_text(verdict));
}

/* Compares the name in the table with that in the metadata block. Version 1 has no names. */
static void check_name(struct visit *visit, const struct toc_row *row, const struct record *record)
{
    struct fsck *fsck = visit->fsck;
    const struct cold *cold = &fsck->cold;
    uint32_t header = record_header_bytes(record->data_len);
    const uint8_t *block = cold->bytes + (row->entry->offset - cold->at) + header;
    struct toc_name name;
    if (!toc_entry_has_name(row->entry) || atomic_load(&visit->held->version) == 1)
        return;
    if (!toc_name_of((slice){ (const char *)block, record->metadata_len }, &name) ||
        name.size != row->name.size || !slice_eq(name.name, row->name.name) ||
        row->entry->bucket != bucket_hash_of(fsck->format.secret, name.name))
        fsck_note(fsck, FSCK_TABLE, "extents/%08x: in the table of contents, the row of record %u "
                  "does not match the record",
                  visit->extent->number, row->ordinal);
}

static void report_progress(struct visit *visit, uint64_t at)
{
    struct fsck *fsck = visit->fsck;
    if (at <= visit->reported)
        return;
    fsck->done_bytes += at - visit->reported;
    visit->reported = at;
    if (fsck->ask->progress)
        fsck->ask->progress(fsck->ask->arg, fsck->report->path, fsck->done_bytes, fsck->all_bytes);
}

static void visit_row(struct visit *visit, const struct toc_row *row)
{
    struct fsck *fsck = visit->fsck;
    struct fsck_totals *totals = &fsck->report->totals;
    struct suspect suspect = { visit->held, visit->extent->number, row->entry, row->ordinal,
                               fsck->quick };
    struct record record;
    enum verdict verdict = suspect_read(&suspect, &fsck->cold, &record);
    (void)add_record(visit->extent);
    totals->records++;
    totals->record_bytes += toc_entry_record_bytes(row->entry);
    visit->end = MAX(visit->end, row->entry->offset + toc_entry_record_bytes(row->entry));
    if (!row->ordinal)
        visit->first = *row->entry;
    report_progress(visit, row->entry->offset);
    if (verdict) {
        note_bad(visit, row, verdict);
        return;
    }
    check_name(visit, row, &record);
    if (fsck->index_usable)
        fsck_match(fsck, visit->extent, &record, row->entry->offset);
    if (fsck->index_usable && !(visit->extent->records[row->ordinal] & RECORD_MATCHED))
        totals->dead_records++;
}

/* ---- one extent ---- */

/* Returns ERR_IO if the disk failed: records may be missing, or a table that was good before could
 * not be read. */
static enum err check_rows(struct visit *visit, bool good_table)
{
    struct toc toc;
    struct toc_row row;
    enum err e = extent_table(visit->fsck->extents, visit->extent->number, &toc);
    if (e)
        return ERR_IO;
    for (struct toc_cursor at = toc_begin(&toc); toc_next(&at, &row);)
        visit_row(visit, &row);
    e = toc.partial || (good_table && toc.scanned) ? ERR_IO : OK;
    toc_free(&toc);
    return e;
}

static void check_end(struct visit *visit)
{
    struct fsck *fsck = visit->fsck;
    uint64_t end = round_up(MAX(visit->end, PAGE_BYTES), PAGE_BYTES), size = extent_size(visit->held);
    if (visit->extent->count && extent_lost_footer(visit->held, &visit->first, visit->end)) {
        fsck_note(fsck, FSCK_TABLE, "extents/%08x: its footer", visit->extent->number);
        return;
    }
    fsck_note(fsck, FSCK_UNSEALED, "extents/%08x: %u records", visit->extent->number,
              visit->extent->count);
    if (size > end)
        fsck_note(fsck, FSCK_TAIL, "extents/%08x: %ju bytes from offset %ju on",
                  visit->extent->number, (uintmax_t)(size - end), (uintmax_t)end);
}

static void check_extent(struct fsck *fsck, struct fsck_extent *extent)
{
    struct visit visit = { .fsck = fsck, .extent = extent };
    enum err e = extent_hold(fsck->extents, extent->number, &visit.held);
    bool sealed = extent_is_sealed(fsck->extents, extent->number);
    enum err table = !e && sealed ? extent_judge_toc(visit.held) : OK;
    enum err state = extent_state(fsck->extents, extent->number);
    bool unread = state == ERR_IO || table == ERR_IO || (e && state == OK);
    extent->unusable = state == ERR_GONE;
    extent->damaged_table = table == ERR_GONE;
    if (unread)
        fsck_note(fsck, FSCK_UNREAD, "extents/%08x", extent->number);
    else if (e)
        fsck_note(fsck, FSCK_FOREIGN, "extents/%08x", extent->number);
    else if (table)
        fsck_note(fsck, FSCK_TABLE, "extents/%08x", extent->number);
    if (e)
        return;
    fsck->cold.len = 0;
    if (check_rows(&visit, sealed && !table) && !unread)
        fsck_note(fsck, FSCK_UNREAD, "extents/%08x: its table of contents", extent->number);
    if (!sealed)
        check_end(&visit);
    report_progress(&visit, extent_size(visit.held));
    extent_release(&visit.held);
}

/* A file that can't be opened is not in the table of extents. One that is no ordinary file was
 * noted before. */
static void check_unopened(struct fsck *fsck)
{
    DIR *dir = fsck_list(fsck, "extents");
    struct dirent *item;
    uint32_t number;
    while (dir && (item = fsck_next(fsck, dir, "extents")))
        if (extent_number_of(item->d_name, &number) && !extent_is_there(fsck->extents, number) &&
            !file_odd(dirfd(dir), item->d_name))
            fsck_note(fsck, FSCK_UNREAD, "extents/%08x can't be opened", number);
    if (dir)
        closedir(dir);
}

void fsck_extents(struct fsck *fsck)
{
    struct arena keep = { 0 };
    uint32_t *numbers;
    size_t count = extents_numbers(fsck->extents, &keep, &numbers);
    fsck->list = must_alloc((count + 1) * sizeof(*fsck->list));
    fsck->report->totals.extents = count;
    fsck->report->totals.extent_bytes = fsck->all_bytes = extents_bytes(fsck->extents);
    for (size_t i = 0; i < count; i++) {
        fsck->list[i].number = numbers[i];
        fsck->list_count++;
        check_extent(fsck, &fsck->list[i]);
    }
    check_unopened(fsck);
    arena_free(&keep);
}
