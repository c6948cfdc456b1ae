/* fsck_index.c - fsck: the index against the records. SPDX-License-Identifier: Apache-2.0
 *
 * A record may lack entries: another record has replaced it, or its object was removed. Such records
 * are normal, and only counted. But each entry must be one that its record has. The check takes two
 * steps, so that it needs no copy of all records in memory:
 *
 *   extents   for each record, the entries under its own keys that name it are compared with it,
 *             and counted (RECORD_MATCHED)
 *   index     for each entry, the record that it names is found, and the names are counted
 *
 * If both counts of a record are equal, all entries that name it are its own. Otherwise the record
 * is odd, and each entry that names an odd record is compared with the record's header. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/file.h"
#include "store/fsck_inside.h"

#define ROWS 1024u
#define READ_BYTES 65536u
#define ODD_MAX 100000u               /* H8: with more odd records, the index is a wrong one */

/* LMDB can't tell a damaged page from one that the disk does not give. So the whole file is read. */
static bool is_readable(const struct fsck *fsck)
{
    char *bytes = must_alloc(READ_BYTES);
    int fd = file_open(fsck->folder, "index/data.mdb", O_RDONLY);
    bool readable = fd >= 0 || errno == ENOENT;
    ssize_t got = 1;
    while (fd >= 0 && got > 0)
        got = failpoint(FAIL_INDEX_READ) ? -1 : read(fd, bytes, READ_BYTES);
    if (fd >= 0)
        close(fd);
    free(bytes);
    return readable && got >= 0;
}

void fsck_index_fails(struct fsck *fsck, const char *why)
{
    if (is_readable(fsck))
        fsck_note(fsck, FSCK_INDEX, "%s", why);
    else
        fsck_note(fsck, FSCK_UNREAD, "index/data.mdb");
    fsck->index_usable = false;
}

void fsck_open_index(struct fsck *fsck)
{
    char path[FOLDER_PATH_MAX];
    uint64_t opening = 0, mine = fsck->format.opening;
    enum err e = folder_path_of(fsck->folder, fsck->report->path, "index", path);
    if (!e)
        e = index_open_to_read(fsck->index, path);
    fsck->index_usable = true;
    if (e == ERR_NOT_FOUND) {
        fsck->index_usable = false;
        if (mine)    /* 0: the folder was never in use */
            fsck_index_fails(fsck, "there is no file index/data.mdb");
    } else if (e || index_get_opening(fsck->index, &opening)) {
        fsck_index_fails(fsck, index_is_bad(fsck->index) ? "index/data.mdb is damaged"
                                                         : "index/data.mdb can't be read");
    } else if (mine && opening != mine && opening != mine + 1) {
        fsck_index_fails(fsck, "index/data.mdb and the file 'format' were written at different "
                               "openings of the folder, so one of the two files is out of date");
    }
}

/* Any damage that LMDB or a checksum shows makes the whole index bad. */
static bool has_failed(struct fsck *fsck)
{
    if (fsck->index_usable && index_is_bad(fsck->index))
        fsck_index_fails(fsck, "index/data.mdb is damaged");
    return !fsck->index_usable;
}

/* ---- from a record to its entries ---- */

static bool names(const struct entry *entry, const struct fsck_extent *extent, uint32_t ordinal)
{
    return entry->extent == extent->number && entry->ordinal == ordinal;
}

/* The two members that a record does not decide may differ. */
static bool same_entry(const struct entry *a, const struct entry *b)
{
    return a->extent == b->extent && a->offset == b->offset && a->ordinal == b->ordinal &&
           a->len == b->len && a->whole == b->whole && a->etag_hash == b->etag_hash &&
           a->mark == b->mark;
}

/* Finds the entry under exactly this key. */
static bool find(struct fsck *fsck, const struct object_id *id, uint32_t unit, struct entry *ret)
{
    return index_get_run(fsck->index, id, unit, 1, ret) == 1 && (unit == 0 || !ret->whole);
}

void fsck_match(struct fsck *fsck, struct fsck_extent *extent, const struct record *record,
                uint32_t offset)
{
    uint8_t *state = &extent->records[record->ordinal];
    for (uint32_t i = 0; i < record_units(record); i++) {
        struct entry own, found;
        uint32_t unit;
        record_entry(record, offset, i, 0, &unit, &own);
        if (find(fsck, &record->id, unit, &found) && same_entry(&own, &found))
            ++*state;
    }
    (void)has_failed(fsck);
}

uint32_t fsck_count_named(struct fsck *fsck, const struct fsck_extent *extent,
                          const struct toc_entry *row, uint32_t ordinal)
{
    struct record record = { .kind = row->kind, .data_len = row->data_len };
    uint32_t count = 0;
    for (uint32_t i = 0; toc_entry_is_valid(row) && i < record_units(&record); i++) {
        struct entry found;
        count += find(fsck, &row->id, row->first_unit + i, &found) &&
                 names(&found, extent, ordinal);
    }
    return has_failed(fsck) ? 1 : count;
}

/* ---- from an entry to its record ---- */

/* Finds the header of a record that was good when it was checked. Returns OK, ERR_GONE, or ERR_IO. */
static enum err read_record(const struct fsck *fsck, uint32_t number, uint32_t ordinal,
                            struct fsck_rows *rows, struct record *ret, uint32_t *ret_offset)
{
    uint8_t header[RECORD_HEADER_MAX];
    struct extent *held;
    if (rows->extent != number) {
        arena_free(&rows->keep);
        rows->extent = number;
        rows->count = 0;
        if (extent_contents(fsck->extents, number, &rows->keep, &rows->rows, &rows->count) != OK)
            return ERR_IO;
    }
    /* the check found more rows, or the file can't be opened any more */
    if (ordinal >= rows->count || extent_hold(fsck->extents, number, &held) != OK)
        return ERR_IO;
    *ret_offset = rows->rows[ordinal].offset;
    uint32_t len = record_header_bytes(rows->rows[ordinal].data_len);
    bool read = len <= sizeof(header) && extent_read(held, header, len, *ret_offset);
    bool good = read && record_decode((slice){ (char *)header, len }, ret) == OK &&
                ret->extent == number && ret->ordinal == ordinal;
    extent_release(&held);
    return good ? OK : read ? ERR_GONE : ERR_IO;
}

/* An entry whose record can't be read now counts as its own: it may be. */
static bool is_own(const struct fsck *fsck, const struct index_row *row, struct fsck_rows *rows)
{
    struct record record;
    uint32_t offset;
    enum err e = read_record(fsck, row->entry.extent, row->entry.ordinal, rows, &record, &offset);
    if (e || memcmp(&record.id, &row->id, sizeof(row->id)) != 0)
        return e == ERR_IO;
    for (uint32_t i = 0; i < record_units(&record); i++) {
        struct entry own;
        uint32_t unit;
        record_entry(&record, offset, i, 0, &unit, &own);
        if (unit == row->unit)
            return same_entry(&own, &row->entry);
    }
    return false;
}

static bool is_at_home(const struct fsck *fsck, const struct index_row *row)
{
    const struct format *format = &fsck->format;
    uint32_t stripe = row->unit == METADATA_UNIT ? 0 : row->unit / STRIPE_UNITS;
    if (format->volume_count < 2)
        return true;
    size_t home = route_home(format->volumes, format->volume_count, &row->id, stripe);
    return memcmp(format->volumes[home].id, format->volume, VOLUME_ID_BYTES) == 0;
}

enum fsck_entry fsck_judge(const struct fsck *fsck, const struct index_row *row,
                           struct fsck_rows *rows)
{
    const struct fsck_extent *extent = fsck_find_extent(fsck, row->entry.extent);
    if (!extent || row->entry.ordinal >= extent->count)
        return ENTRY_NOWHERE;
    uint8_t state = extent->records[row->entry.ordinal];
    if (state & RECORD_BAD)
        return ENTRY_OF_BAD;
    if (!is_at_home(fsck, row))
        return ENTRY_ELSEWHERE;
    return state & RECORD_ODD && !is_own(fsck, row, rows) ? ENTRY_NOWHERE : ENTRY_GOOD;
}

/* ---- all entries ---- */

typedef void visit_entry(struct fsck *fsck, const struct index_row *row, struct fsck_rows *rows);

/* Also makes sure that the keys ascend, as they do not if LMDB follows a damaged pointer. */
static void each_entry(struct fsck *fsck, visit_entry *visit, struct fsck_rows *rows)
{
    struct index_row *found = must_alloc(ROWS * sizeof(*found));
    struct object_id id = { { 0 } };
    uint32_t unit = 0, count;
    bool more = true;
    while (more && !has_failed(fsck)) {
        enum err e = index_get_rows(fsck->index, &id, unit, ROWS, found, &count);
        if (e && e != ERR_NOT_FOUND && !has_failed(fsck))
            fsck_index_fails(fsck, "index/data.mdb can't be read");
        for (uint32_t i = 0; i < count && more && fsck->index_usable; i++) {
            int order = memcmp(&found[i].id, &id, sizeof(id));
            if (order < 0 || (order == 0 && found[i].unit < unit))
                fsck_index_fails(fsck, "the keys in index/data.mdb are not in order");
            else
                visit(fsck, &found[i], rows);
            id = found[i].id;
            unit = found[i].unit;
            more = entry_key_next(&id, &unit);
        }
        more = more && !e;
    }
    free(found);
}

static void note_entry(struct fsck *fsck, const struct index_row *row, enum fsck_kind kind)
{
    char id[2 * sizeof(row->id) + 1] = { 0 };
    hex_write(row->id.bytes, sizeof(row->id), id);
    fsck_note(fsck, kind, "object %s, unit %" PRIu32 ": extents/%08x, record %" PRIu32, id,
              row->unit, row->entry.extent, row->entry.ordinal);
}

/* Entries of odd records are judged later, because only all entries tell which records are odd. */
static void count_entry(struct fsck *fsck, const struct index_row *row, struct fsck_rows *rows)
{
    struct fsck_extent *extent = fsck_find_extent(fsck, row->entry.extent);
    enum fsck_entry found = fsck_judge(fsck, row, rows);
    fsck->report->totals.entries++;
    fsck->report->totals.proved_entries += row->entry.generation == fsck->format.generation;
    if (found == ENTRY_NOWHERE)
        note_entry(fsck, row, FSCK_NOWHERE);
    else if (found == ENTRY_ELSEWHERE)
        note_entry(fsck, row, FSCK_ELSEWHERE);
    if (extent && row->entry.ordinal < extent->count &&
        extent->named[row->entry.ordinal] < UINT8_MAX)
        extent->named[row->entry.ordinal]++;
}

static void judge_odd(struct fsck *fsck, const struct index_row *row, struct fsck_rows *rows)
{
    const struct fsck_extent *extent = fsck_find_extent(fsck, row->entry.extent);
    if (extent && row->entry.ordinal < extent->count &&
        extent->records[row->entry.ordinal] & RECORD_ODD &&
        fsck_judge(fsck, row, rows) == ENTRY_NOWHERE)
        note_entry(fsck, row, FSCK_NOWHERE);
}

static void find_odd(struct fsck *fsck)
{
    for (size_t i = 0; i < fsck->list_count; i++) {
        struct fsck_extent *extent = &fsck->list[i];
        for (uint32_t k = 0; k < extent->count; k++) {
            uint8_t state = extent->records[k];
            if (state & RECORD_BAD || (state & RECORD_MATCHED) == extent->named[k])
                continue;
            extent->records[k] |= RECORD_ODD;
            fsck->odd_records++;
        }
    }
}

void fsck_entries(struct fsck *fsck)
{
    struct fsck_rows rows = { .extent = 0 };
    if (!fsck->index_usable)
        return;
    each_entry(fsck, count_entry, &rows);
    if (fsck->index_usable && fsck->report->totals.entries != index_size(fsck->index).entries)
        fsck_index_fails(fsck, "index/data.mdb does not have as many entries as it states");
    if (fsck->index_usable)
        find_odd(fsck);
    if (fsck->odd_records > ODD_MAX)
        fsck_index_fails(fsck, "more than 100,000 records do not match the entries that name them");
    if (fsck->index_usable && fsck->odd_records)
        each_entry(fsck, judge_odd, &rows);
    arena_free(&rows.keep);
}
