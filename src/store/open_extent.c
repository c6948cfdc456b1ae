/* open_extent.c - appending to the newest extent. SPDX-License-Identifier: Apache-2.0
 *
 * Records are gathered, then written by one pwritev that starts and ends at a multiple of a page.
 * Inside it, each record starts at a multiple of 64 bytes. Nothing is committed before
 * open_extent_write returned OK (rule H2 in src/README.md). A write that failed may have left any
 * bytes after the last good one. The extent then takes no more appends, because no block on disk is
 * written twice; its table of contents, if it can be written, comes after these bytes. If another
 * program has truncated the file, nothing more is written to it: a write behind the new end would
 * leave zeroes before it, and readers of a locked extent (lend.c) would take them for verified
 * bytes. A file that stays short gives them an error. Writes are not synced: after a power cut, a
 * record that the index names may be missing, and its checksum fails. The table of contents of the
 * open extent is in RAM, with the names, about 60 bytes a record and its name. Readers find the new
 * bytes of an extent by the index. Threads: the log and the staging extent are for the committer,
 * the copy for the recycler; extent.h and extent_inside.h mark functions for any thread. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/file.h"
#include "base/metric.h"
#include "store/extent_inside.h"

static const uint8_t zeroes[PAGE_BYTES];

static bool write_parts(int fd, struct iovec *parts, int count, uint64_t offset)
{
    while (count) {
        ssize_t n = pwritev(fd, parts, MIN(count, IOV_MAX), (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        offset += (uint64_t)n;
        while (count && (size_t)n >= parts->iov_len) {
            n -= (ssize_t)parts->iov_len;
            parts++;
            count--;
        }
        if (count) {
            parts->iov_base = (char *)parts->iov_base + n;
            parts->iov_len -= (size_t)n;
        }
    }
    return true;
}

/* Makes a footer with the number of entries and their totals. The caller sets the other members. */
static struct toc_footer footer_of(const struct extent *extent, const struct toc *toc)
{
    struct toc_footer footer = { .version = atomic_load(&extent->version),
                                 .kind = atomic_load(&extent->kind),
                                 .extent = extent->number, .count = toc->count };
    memcpy(footer.volume, extent->all->volume, sizeof(footer.volume));
    for (uint32_t i = 0; i < toc->count; i++) {
        footer.record_bytes += (uint32_t)toc_entry_record_bytes(&toc->entries[i]);
        footer.data_bytes += toc->entries[i].data_len;
    }
    return footer;
}

enum err extent_write_toc(struct extent *extent, uint64_t at, const struct toc *toc)
{
    struct toc_footer footer = footer_of(extent, toc);
    size_t rows_len = toc->count * toc_row_bytes(footer.version);
    size_t names_len = footer.version == 1 ? 0 : toc->names_len;
    uint64_t len = toc_bytes(footer.version, toc->count, names_len);
    uint8_t *bytes = must_alloc(len);
    toc_rows_encode(footer.version, toc->entries, toc->count, bytes);
    if (names_len)
        memcpy(bytes + rows_len, toc->names, names_len);
    footer.offset = (uint32_t)at;
    footer.rows_crc = crc32c(0, bytes, rows_len);
    footer.names_len = (uint32_t)names_len;
    footer.names_crc = crc32c(0, bytes + rows_len, names_len);
    toc_footer_encode(&footer, bytes + len - TOC_FOOTER_BYTES);
    struct iovec part = { bytes, len };
    bool good = !failpoint(FAIL_SEAL) && write_parts(extent->fd, &part, 1, at);
    enum err e = good ? OK : file_err(errno);
    free(bytes);
    if (e)
        return e;
    (void)failpoint(FAIL_SEALED);
    extent_grew(extent, at + len - extent_size(extent));
    atomic_store(&extent->rows, toc->count);
    atomic_store(&extent->sealed, true);
    return OK;
}

/* ---- gathering ---- */

static void add_part(struct open_extent *open, const void *bytes, uint64_t len)
{
    if (!len)
        return;
    check(open->part_count < (int)countof(open->parts));
    open->parts[open->part_count++] = (struct iovec){ (void *)(uintptr_t)bytes, (size_t)len };
    open->gathered_end += len;
}

/* The name in the metadata block of an item; empty for units. */
static struct toc_name name_of(const struct append_item *item)
{
    struct toc_name name = { 0, { "", 0 } };
    if (item->metadata_block.len && !toc_name_of(item->metadata_block, &name))
        name = (struct toc_name){ 0, { "", 0 } };
    return name;
}

static bool was_truncated(const struct open_extent *open)
{
    struct stat st;
    return fstat(open->extent->fd, &st) == 0 && (uint64_t)st.st_size < open->end;
}

/* Returns false if the extent has no room for the record that ends at `end`, its row and its
 * name. */
static bool has_room(struct extents *all, enum open_which which, uint64_t end, const struct toc_entry *entry,
                     const struct toc_name *name)
{
    const struct toc *toc = &all->opens[which]->toc;
    size_t names_len = toc->names_len + (toc_entry_has_name(entry) ? toc_name_bytes(name) : 0);
    return round_up(end, PAGE_BYTES) + toc_bytes(FORMAT_VERSION, toc->count + 1u, names_len) <=
           all->extent_bytes;
}

static void remember(struct extents *all, enum open_which which,
                     const struct toc_entry *entry,
                     const struct toc_name *name)
{
    pthread_mutex_lock(&all->toc_lock);
    toc_add(&all->opens[which]->toc, entry, name);
    pthread_mutex_unlock(&all->toc_lock);
}

enum err open_extent_add(struct extents *all, enum open_which which, struct append_item *item)
{
    struct open_extent *open = all->opens[which];
    struct record *record = &item->record;
    check(item->metadata_block.len == record->metadata_len && item->bytes.len == record->data_len);
    if (open->extent && !open->gathered && was_truncated(open))
        open->broken = true;
    if (!open->extent || open->broken || open->gathered == GATHER_MAX)
        return ERR_FULL;
    uint64_t offset = round_up(open->gathered_end, RECORD_ALIGN);
    struct toc_entry entry = toc_entry_of(record, offset);
    struct toc_name name = name_of(item);
    entry.bucket = item->bucket;
    if (!has_room(all, which, record_end(offset, record), &entry, &name))
        return ERR_FULL;
    record->extent = open->extent->number;
    record->ordinal = open->toc.count;
    item->offset = (uint32_t)offset;
    remember(all, which, &entry, &name);
    uint8_t *header = open->headers[open->gathered++];
    record_encode(record, header);
    add_part(open, zeroes, offset - open->gathered_end);
    add_part(open, header, record_header_bytes(record->data_len));
    add_part(open, item->metadata_block.ptr, item->metadata_block.len);
    add_part(open, zeroes,
             record_data_at(offset, record->data_len, record->metadata_len) - open->gathered_end);
    add_part(open, item->bytes.ptr, item->bytes.len);
    return OK;
}

/* Counts the gathered records as written, or forgets them. */
static void note_written(struct extents *all, enum open_which which, bool good)
{
    struct open_extent *open = all->opens[which];
    pthread_mutex_lock(&all->toc_lock);
    if (good) {
        open->written = open->toc.count;
        open->written_names = open->toc.names_len;
    } else {
        open->toc.count = open->written;
        open->toc.names_len = open->written_names;
    }
    pthread_mutex_unlock(&all->toc_lock);
}

enum err open_extent_write(struct extents *all, enum open_which which)
{
    struct open_extent *open = all->opens[which];
    if (!open->gathered)
        return OK;
    add_part(open, zeroes, round_up(open->gathered_end, PAGE_BYTES) - open->gathered_end);
    check(open->end % PAGE_BYTES == 0 && open->gathered_end <= all->extent_bytes);
    uint64_t len = open->gathered_end - open->end;
    bool good = !failpoint(which == OPEN_COPY ? FAIL_COPY : FAIL_APPEND) &&
                write_parts(open->extent->fd, open->parts, open->part_count, open->end);
    enum err e = good ? OK : file_err(errno);
    (void)failpoint(which == OPEN_COPY ? FAIL_COPIED : FAIL_APPENDED);
    open->part_count = 0;
    if (!e) {
        extent_grew(open->extent, len);
        if (which != OPEN_COPY)
            extent_note_append(open->extent);
        open->end = open->gathered_end;
        metric_add(M_STORE_APPENDED, len);
        atomic_fetch_add(&all->appended, len);
    }
    open->broken = e != OK;    /* before a purge can see that the records are not written */
    note_written(all, which, e == OK);
    open->gathered = 0;
    open->gathered_end = open->end;
    return e;
}

/* ---- from one extent to the next ---- */

/* Makes this extent the open one; NULL: none is open. The table is taken out into *ret. */
static void change_open(struct extents *all, enum open_which which, struct extent *extent,
                        struct toc *ret)
{
    struct open_extent *open = all->opens[which];
    pthread_mutex_lock(&all->toc_lock);
    open->extent = extent;
    *ret = open->toc;
    open->toc = (struct toc){ .count = 0 };
    open->written = 0;
    open->written_names = 0;
    pthread_mutex_unlock(&all->toc_lock);
}

bool open_extent_toc(const struct extent *extent, struct toc *ret)
{
    struct extents *all = extent->all;
    bool is_open = false;
    pthread_mutex_lock(&all->toc_lock);
    for (size_t i = 0; i < OPEN_COUNT && !is_open; i++) {
        const struct open_extent *open = all->opens[i];
        is_open = open->extent == extent;
        if (is_open)
            toc_copy(&open->toc, open->written, open->written_names, ret);
    }
    pthread_mutex_unlock(&all->toc_lock);
    return is_open;
}

enum err open_extent_seal(struct extents *all, enum open_which which)
{
    struct open_extent *open = all->opens[which];
    if (!open->extent)
        return OK;
    check(open->gathered == 0);
    struct extent *extent = open->extent;
    bool truncated = was_truncated(open);
    struct toc toc;
    change_open(all, which, NULL, &toc);
    uint64_t at = open->end;
    struct stat st;
    if (open->broken && fstat(extent->fd, &st) == 0)
        at = MAX(at, round_up((uint64_t)st.st_size, PAGE_BYTES));
    enum err e = truncated ? OK : extent_write_toc(extent, at, &toc);
    toc_free(&toc);
    extent_release(&extent);
    return e;
}

/* Makes the file of a new extent, with its head page. The name of the file must be on the disk before
 * the index names a record in it. Otherwise a power cut may take the name alone, and another extent
 * would get the same number. */
static enum err make_file(struct extents *all, uint32_t number, enum extent_kind kind, int *ret)
{
    uint8_t page[PAGE_BYTES] = { 0 };
    struct extent_head head = { .extent = number, .kind = (uint8_t)kind };
    memcpy(head.volume, all->volume, sizeof(head.volume));
    extent_head_encode(&head, page);
    int fd;
    enum err e = failpoint_err(FAIL_EXTENT_MAKE);
    if (!e)
        e = extent_open_file(all, number, O_RDWR | O_CREAT | O_EXCL, &fd);
    if (e)
        return e;
    struct iovec part = { page, sizeof(page) };
    if (failpoint(FAIL_EXTENT_HEAD) || !write_parts(fd, &part, 1, 0) ||
        fsync(all->folder_fd) != 0) {
        e = file_err(errno);
        close(fd);
        (void)extent_remove_file(all, number);    /* no record was ever in it */
        return e;
    }
    *ret = fd;
    return OK;
}

enum err open_extent_begin(struct extents *all, enum open_which which)
{
    struct open_extent *open = all->opens[which];
    static const enum extent_kind kinds[OPEN_COUNT] = {
        [OPEN_LOG] = EXTENT_LOG, [OPEN_COPY] = EXTENT_COPY, [OPEN_STAGING] = EXTENT_STAGING };
    struct toc none;
    uint32_t number;
    int fd;
    check(!open->extent);
    if (!extents_take_number(all, &number))
        return ERR_FULL;    /* all numbers are used up */
    enum err e = make_file(all, number, kinds[which], &fd);
    if (e) {
        extents_give_number(all, number);
        return e;
    }
    struct extent *extent = extent_add(all, number, fd, PAGE_BYTES, false);
    atomic_store(&extent->kind, (unsigned char)kinds[which]);
    if (which == OPEN_STAGING)
        extent_keep_reads(extent);
    atomic_store(&extent->version, FORMAT_VERSION);
    extents_note_staging(extent);
    change_open(all, which, extent, &none);
    open->broken = false;
    open->gathered_end = PAGE_BYTES;
    open->end = PAGE_BYTES;
    return OK;
}

enum err open_extent_roll(struct extents *all)
{
    /* if this fails, the headers of the extent are scanned instead */
    (void)!open_extent_seal(all, OPEN_LOG);
    return open_extent_begin(all, OPEN_LOG);
}

void open_extent_adopt(struct extents *all)
{
    (void)!open_extent_seal(all, OPEN_LOG);
    pthread_mutex_lock(&all->toc_lock);
    struct open_extent *copy = all->opens[OPEN_COPY];
    all->opens[OPEN_COPY] = all->opens[OPEN_LOG];
    all->opens[OPEN_LOG] = copy;
    pthread_mutex_unlock(&all->toc_lock);
}

uint64_t open_extent_left(struct extents *all, enum open_which which)
{
    pthread_mutex_lock(&all->toc_lock);
    const struct open_extent *open = all->opens[which];
    uint64_t used = open->gathered_end +
                    toc_bytes(FORMAT_VERSION, open->toc.count, open->toc.names_len);
    bool takes = open->extent && !open->broken && used < all->extent_bytes;
    pthread_mutex_unlock(&all->toc_lock);
    return takes ? all->extent_bytes - used : 0;
}

bool extent_is_open(struct extents *all, uint32_t number)
{
    bool is_open = false;
    pthread_mutex_lock(&all->toc_lock);
    for (size_t i = 0; i < OPEN_COUNT && !is_open; i++)
        is_open = all->opens[i]->extent && all->opens[i]->extent->number == number;
    pthread_mutex_unlock(&all->toc_lock);
    return is_open;
}

bool open_extent_is_open(struct extents *all, enum open_which which)
{
    pthread_mutex_lock(&all->toc_lock);
    bool is_open = all->opens[which]->extent != NULL;
    pthread_mutex_unlock(&all->toc_lock);
    return is_open;
}

void open_extents_ends(struct extents *all, struct ban_end *ret)
{
    static_assert(OPEN_COUNT <= BAN_OPEN_MAX, "a ban has room for the open extents");
    pthread_mutex_lock(&all->toc_lock);
    for (size_t i = 0; i < OPEN_COUNT; i++) {
        const struct open_extent *open = all->opens[i];
        ret[i] = (struct ban_end){ 0 };
        /* the file of a broken one may have whole records that were not noted */
        if (open->extent && !open->broken)
            ret[i] = (struct ban_end){ open->extent->number, open->toc.count };
    }
    pthread_mutex_unlock(&all->toc_lock);
}

void open_extent_close(struct extents *all, enum open_which which)
{
    struct open_extent *open = all->opens[which];
    struct extent *extent = open->extent;
    struct toc toc;
    change_open(all, which, NULL, &toc);
    toc_free(&toc);
    extent_release(&extent);
    open->gathered = 0;
    open->part_count = 0;
}
