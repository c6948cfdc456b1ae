/* contents.c - what an extent has: its version and kind, and its table of contents.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The last 64 bytes of a sealed extent are the footer of its table of contents. For an unsealed
 * extent, and for one with a damaged table, a scan of the record headers gives the same entries,
 * and the metadata blocks give the names. The scan ends at the first damaged header, so it may find
 * fewer records than the index names (unlisted.h). The open extent has its table in RAM. An extent
 * of format version 1 has no names.
 *
 * Threads: any thread may read tables, rows, footers and bytes. Records (extent_each_record),
 * extent_recognize and extent_seal_old are for the committer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/metric.h"
#include "store/extent_inside.h"

#define WINDOW_BYTES 16384u

/* Reads as many of these bytes as there are. Returns OK, ERR_GONE if the file is shorter, or ERR_IO
 * if the disk does not give all bytes: they may be right. */
static enum err read_some(const struct extent *extent, void *to, size_t len, uint64_t offset,
                          size_t *ret_got)
{
    for (*ret_got = 0; *ret_got < len;) {
        ssize_t n = pread(extent->fd, (char *)to + *ret_got, len - *ret_got,
                          (off_t)(offset + *ret_got));
        if (n == 0)
            return ERR_GONE;
        if (n < 0 && errno != EINTR)
            return ERR_IO;
        *ret_got += n > 0 ? (size_t)n : 0;
    }
    return OK;
}

static enum err read_at(const struct extent *extent, void *to, size_t len, uint64_t offset)
{
    size_t got;
    return read_some(extent, to, len, offset, &got);
}

bool extent_read(const struct extent *extent, void *to, size_t len, uint64_t offset)
{
    return read_at(extent, to, len, offset) == OK;
}

/* ---- version and kind ---- */

/* Another program may have made the file, or made it longer. */
static bool has_length_of_extent(const struct extent *extent)
{
    uint64_t size = extent_size(extent);
    return size >= PAGE_BYTES && size <= EXTENT_FILE_MAX;
}

/* Reads the footer. Returns ERR_GONE if the file does not end in one that fits the file. */
static enum err read_footer(const struct extent *extent, struct toc_footer *ret)
{
    uint8_t bytes[TOC_FOOTER_BYTES];
    uint64_t size = extent_size(extent);
    if (!has_length_of_extent(extent))
        return ERR_GONE;
    enum err e = failpoint_err(FAIL_FOOTER_READ);
    if (!e)
        e = read_at(extent, bytes, sizeof(bytes), size - sizeof(bytes));
    if (e)
        return e;
    bool good = toc_footer_decode(bytes, ret) == OK &&
                ret->offset + toc_bytes(ret->version, ret->count, ret->names_len) == size;
    return good ? OK : ERR_GONE;
}

static enum err read_head(const struct extent *extent, struct extent_head *ret)
{
    uint8_t bytes[EXTENT_HEAD_BYTES];
    if (!has_length_of_extent(extent))
        return ERR_GONE;
    enum err e = read_at(extent, bytes, sizeof(bytes), 0);
    return e ? e : extent_head_decode(bytes, ret) == OK ? OK : ERR_GONE;
}

static bool is_own(const struct extent *extent, uint32_t number, const uint8_t *volume)
{
    return number == extent->number &&
           memcmp(volume, extent->all->volume, VOLUME_ID_BYTES) == 0;
}

/* An extent of version 1 has no head page, and so begins with a record. */
static bool begins_with_record(const struct extent *extent)
{
    uint8_t bytes[RECORD_HEADER_MAX];
    struct record record;
    return has_length_of_extent(extent) && extent_read(extent, bytes, sizeof(bytes), 0) &&
           record_decode((slice){ (char *)bytes, sizeof(bytes) }, &record) == OK &&
           record.extent == extent->number && record.ordinal == 0;
}

/* If the footer can't be read, the extent counts as sealed: its records may be read by the index, and
 * no other table is written behind the one that it may have. */
void extent_recognize(struct extent *extent)
{
    struct toc_footer footer;
    struct extent_head head;
    uint8_t kind = EXTENT_LOG;
    unsigned char version = 0;
    enum err at_end = read_footer(extent, &footer), at_start = OK;
    bool sealed = !at_end;
    if (sealed && (footer.version == 1 ? footer.extent == extent->number
                                       : is_own(extent, footer.extent, footer.volume))) {
        version = (unsigned char)footer.version;
        kind = footer.kind;
    } else if (!sealed && (at_start = read_head(extent, &head)) == OK) {
        version = is_own(extent, head.extent, head.volume) ? FORMAT_VERSION : 0;
        kind = head.kind;
    } else if (!sealed && begins_with_record(extent)) {
        version = 1;
    }
    atomic_store(&extent->kind, kind);
    atomic_store(&extent->rows, sealed ? footer.count : ROWS_UNKNOWN);
    atomic_store(&extent->faults.unread, at_end == ERR_IO || at_start == ERR_IO);
    atomic_store(&extent->sealed, (sealed || at_end == ERR_IO) && version);
    atomic_store(&extent->version, version);
    atomic_store(&extent->faults.unusable, !version && !atomic_load(&extent->faults.unread));
}

bool extent_is_unusable(const struct extent *extent)
{
    return atomic_load(&extent->faults.unusable);
}

bool extent_is_empty(const struct extent *extent)
{
    return extent_is_unusable(extent) ? extent_size(extent) == 0
                                      : atomic_load(&extent->sealed) && extent_rows(extent) == 0;
}

enum err extent_state(struct extents *all, uint32_t number)
{
    struct extent *extent = extent_ref(all, number);
    enum err e = !extent ? ERR_NOT_FOUND
                 : atomic_load(&extent->faults.unread) ? ERR_IO
                 : atomic_load(&extent->version) ? OK : ERR_GONE;
    extent_release(&extent);
    return e;
}

/* ---- records ---- */

/* An extent read forward through a small buffer. */
struct window {
    const struct extent *extent;
    uint64_t start;
    size_t len;
    bool failed;                      /* the disk did not give some bytes */
    char bytes[WINDOW_BYTES];
};

/* Returns up to `len` bytes at `offset`; fewer at the end of the file, or if the others can't be
 * read. */
static slice window_at(struct window *window, uint64_t offset, size_t len)
{
    uint64_t size = extent_size(window->extent);
    if (offset >= size || len > WINDOW_BYTES)
        return (slice){ NULL, 0 };
    len = (size_t)MIN(len, size - offset);
    if (offset < window->start || offset + len > window->start + window->len) {
        size_t want = (size_t)MIN(WINDOW_BYTES, size - offset);
        enum err e = read_some(window->extent, window->bytes, want, offset, &window->len);
        window->start = offset;
        window->failed |= e == ERR_IO && window->len < len;
        len = MIN(len, window->len);    /* the file may have become shorter */
    }
    return (slice){ window->bytes + (offset - window->start), len };
}

static bool record_at(struct window *window, uint64_t offset, uint32_t ordinal, struct record *ret)
{
    return record_decode(window_at(window, offset, RECORD_HEADER_MAX), ret) == OK &&
           ret->extent == window->extent->number && ret->ordinal == ordinal &&
           record_end(offset, ret) <= extent_size(window->extent);
}

/* Visits the records by their headers, up to the first place that has no right header. *ret_failed:
 * that place could not be read. */
static enum err scan(const struct extent *extent, extent_visit *each, void *arg, bool *ret_failed)
{
    struct window window = { .extent = extent };
    enum err e = OK;
    uint64_t at = atomic_load(&extent->version) == 1 ? 0 : PAGE_BYTES;
    for (uint32_t ordinal = 0; !e; ordinal++) {
        struct record record;
        at = round_up(at, RECORD_ALIGN);
        if (!record_at(&window, at, ordinal, &record)) {
            at = round_up(at, PAGE_BYTES);    /* the next append may begin there */
            if (!record_at(&window, at, ordinal, &record))
                break;
        }
        e = each(arg, &record, (uint32_t)at);
        at = record_end(at, &record);
    }
    *ret_failed = window.failed;
    return e;
}

/* ---- tables ---- */

/* Reads the name in the metadata block of a record. Returns false if a checksum fails. `block` has
 * room for the largest block. */
static bool read_name(struct window *window, const struct toc_entry *entry, uint32_t ordinal,
                      char *block, struct toc_name *ret)
{
    struct record record;
    if (!record_at(window, entry->offset, ordinal, &record) ||
        record.metadata_len > METADATA_BLOCK_MAX)
        return false;
    uint64_t at = entry->offset + record_header_bytes(record.data_len);
    slice bytes = window_at(window, at, record.metadata_len);
    if (bytes.len != record.metadata_len) {
        enum err e = read_at(window->extent, block, record.metadata_len, at);
        window->failed |= e == ERR_IO;
        if (e)
            return false;
        bytes = (slice){ block, record.metadata_len };
    }
    return record.metadata_crc == block_crc(&record.id, record.etag_hash, METADATA_UNIT, bytes.ptr,
                                            bytes.len) &&
           toc_name_of(bytes, ret);
}

/* Adds the names to a table without names, from the records. If the disk does not give a name, the
 * table counts as read in part. */
static void find_names(const struct extent *extent, struct toc *toc)
{
    struct window window = { .extent = extent };
    char *block = must_alloc(METADATA_BLOCK_MAX);
    toc->names_len = 0;
    for (uint32_t i = 0; i < toc->count; i++) {
        struct toc_entry *entry = &toc->entries[i];
        struct toc_name name = { 0, { "", 0 } };
        if (!toc_entry_has_name(entry))
            continue;
        if (read_name(&window, entry, i, block, &name))
            entry->bucket = bucket_hash_of(extent->all->secret, name.name);
        else
            name = (struct toc_name){ 0, { "", 0 } };
        toc_add_name(toc, &name);
    }
    toc->partial |= window.failed;
    free(block);
}

/* Reads the rows, and the names if their checksum is right. Returns ERR_GONE if the rows are damaged,
 * or ERR_IO. */
static enum err read_toc(const struct extent *extent, struct toc *ret)
{
    struct toc_footer footer;
    enum err e = read_footer(extent, &footer);
    if (e)
        return e;
    size_t rows_len = footer.count * toc_row_bytes(footer.version);
    uint8_t *bytes = must_alloc(rows_len + footer.names_len + 1);
    e = read_at(extent, bytes, rows_len + footer.names_len, footer.offset);
    bool good = !e && crc32c(0, bytes, rows_len) == footer.rows_crc;
    *ret = (struct toc){ .count = good ? footer.count : 0 };
    ret->entries = must_alloc(footer.count * sizeof(*ret->entries) + 1);
    toc_rows_decode(footer.version, bytes, ret->count, ret->entries);
    for (uint32_t i = 0; good && i < footer.count; i++)
        good = toc_entry_is_valid(&ret->entries[i]) && ret->entries[i].offset < footer.offset;
    if (!e && crc32c(0, bytes + rows_len, footer.names_len) == footer.names_crc) {
        memmove(bytes, bytes + rows_len, footer.names_len);
        ret->names = bytes;
        ret->names_len = ret->names_capacity = footer.names_len;
    } else {
        free(bytes);
    }
    if (!good)
        toc_free(ret);
    return good ? OK : e ? e : ERR_GONE;
}

static enum err gather(void *arg, const struct record *record, uint32_t offset)
{
    struct toc_entry entry = toc_entry_of(record, offset);
    toc_add(arg, &entry, &(struct toc_name){ 0, { "", 0 } });
    return OK;
}

/* To be called when the table is damaged, or can't be read. */
static void note_damage(struct extent *extent)
{
    struct extent_files *files = &extent->all->files;
    if (atomic_exchange(&extent->faults.damaged, true))
        return;
    metric_add(M_STORE_CRC_BAD, 1);
    atomic_store(&files->damaged_last, extent->number);
    atomic_fetch_add(&files->damaged, 1);
}

/* Finds the table of an extent that is not open. If the footer could be read earlier, its number of
 * rows is known: if the scan finds as many, nothing is missing. */
static void find_toc(struct extent *extent, struct toc *ret)
{
    bool failed = false, sealed = atomic_load(&extent->sealed);
    uint32_t rows = extent_rows(extent);
    *ret = (struct toc){ .count = 0 };
    enum err e = sealed ? read_toc(extent, ret) : ERR_GONE;
    if (e) {
        (void)!scan(extent, gather, ret, &failed);
        ret->names_len = 0;
        ret->scanned = true;
        ret->partial = (failed || e == ERR_IO) && ret->count < rows;
    }
    if (e && sealed)
        note_damage(extent);
    if (atomic_load(&extent->version) != 1 && !toc_names_fit(ret))
        find_names(extent, ret);
}

bool extent_lost_footer(const struct extent *extent, const struct toc_entry *first, uint64_t end)
{
    uint8_t row[sizeof(*first)], there[sizeof(*first)];
    uint32_t version = atomic_load(&extent->version);
    toc_rows_encode(version, first, 1, row);
    return extent_read(extent, there, toc_row_bytes(version), round_up(end, PAGE_BYTES)) &&
           memcmp(row, there, toc_row_bytes(version)) == 0;
}

enum err extent_judge_toc(const struct extent *extent)
{
    struct toc toc = { .count = 0 };
    enum err e = read_toc(extent, &toc);
    if (!e && atomic_load(&extent->version) != 1 && !toc_names_fit(&toc))
        e = ERR_GONE;
    toc_free(&toc);
    return e;
}

enum err extent_contents(struct extents *all, uint32_t number, struct arena *keep,
                         struct toc_entry **ret, uint32_t *ret_count)
{
    struct extent *extent;
    struct toc toc;
    enum err e = extent_hold(all, number, &extent);
    if (e)
        return e;
    find_toc(extent, &toc);
    *ret = arena_alloc(keep, toc.count * sizeof(**ret) + 1);
    *ret_count = toc.count;
    if (toc.count)
        memcpy(*ret, toc.entries, toc.count * sizeof(**ret));
    toc_free(&toc);
    extent_release(&extent);
    return OK;
}

enum err extent_table(struct extents *all, uint32_t number, struct toc *ret)
{
    struct extent *extent;
    enum err e = extent_hold(all, number, &extent);
    if (e)
        return e;
    *ret = (struct toc){ .count = 0 };
    if (!open_extent_toc(extent, ret))
        find_toc(extent, ret);
    extent_release(&extent);
    return OK;
}

enum err extent_each_row(struct extents *all, uint32_t number, extent_row_visit *visit, void *arg)
{
    struct toc toc;
    struct toc_row row;
    enum err e = extent_table(all, number, &toc);
    if (e)
        return e;
    for (struct toc_cursor at = toc_begin(&toc); !e && toc_next(&at, &row);)
        e = visit(arg, &row);
    if (!e && toc.partial)
        e = ERR_IO;
    toc_free(&toc);
    return e;
}

enum err extent_footer(struct extents *all, uint32_t number, struct toc_footer *ret)
{
    struct extent *extent;
    enum err e = extent_hold(all, number, &extent);
    if (!e && !(atomic_load(&extent->sealed) && read_footer(extent, ret) == OK))
        e = ERR_GONE;
    extent_release(&extent);
    return e;
}

/* ---- for the committer ---- */

/* Visits the records by the table, so that a damaged header hides only its own record. */
static enum err each_listed(const struct extent *extent, const struct toc *toc,
                            extent_visit *each, void *arg)
{
    struct window window = { .extent = extent };
    enum err e = OK;
    for (uint32_t i = 0; !e && i < toc->count; i++) {
        struct record record;
        if (record_at(&window, toc->entries[i].offset, i, &record))
            e = each(arg, &record, toc->entries[i].offset);
    }
    return e;
}

enum err extent_each_record(struct extents *all, uint32_t number, extent_visit *each, void *arg)
{
    struct extent *extent;
    struct toc toc = { .count = 0 };
    enum err e = extent_hold(all, number, &extent);
    if (e)
        return e;
    bool failed;
    e = atomic_load(&extent->sealed) && read_toc(extent, &toc) == OK
            ? each_listed(extent, &toc, each, arg)
            : scan(extent, each, arg, &failed);
    toc_free(&toc);
    extent_release(&extent);
    return e;
}

static uint64_t end_of_records(const struct toc *toc)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < toc->count; i++)
        end = MAX(end, toc->entries[i].offset + toc_entry_record_bytes(&toc->entries[i]));
    return end;
}

/* The table comes after all bytes of the file, because no block is written twice. But if the file
 * would then be longer than an extent can be, another program has made it longer, and the bytes
 * behind the last record are cut off. */
static bool make_room_for_toc(const struct extent *extent, const struct toc *toc, uint64_t *ret_at)
{
    uint64_t len = toc_bytes(atomic_load(&extent->version), toc->count, toc->names_len);
    *ret_at = round_up(extent_size(extent), PAGE_BYTES);
    if (*ret_at + len <= EXTENT_FILE_MAX)
        return true;
    *ret_at = round_up(MAX(end_of_records(toc), PAGE_BYTES), PAGE_BYTES);
    return *ret_at + len <= EXTENT_FILE_MAX && ftruncate(extent->fd, (off_t)*ret_at) == 0;
}

enum err extent_seal_old(struct extents *all, uint32_t number)
{
    struct extent *extent;
    struct toc toc;
    uint64_t at;
    enum err e = extent_hold(all, number, &extent);
    if (e)
        return e;
    find_toc(extent, &toc);
    if (toc.scanned && toc.count && extent_lost_footer(extent, toc.entries, end_of_records(&toc)))
        note_damage(extent);
    if (!toc.partial)    /* also if the table can't be written: no sweep finds other records */
        atomic_store(&extent->rows, toc.count);
    if (toc.partial)    /* a table without the other records would hide them for ever */
        e = ERR_IO;
    else if (make_room_for_toc(extent, &toc, &at))
        e = extent_write_toc(extent, at, &toc);
    else
        e = ERR_IO;
    toc_free(&toc);
    extent_release(&extent);
    return e;
}
