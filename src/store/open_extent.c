/* open_extent.c - appending to the newest extent. SPDX-License-Identifier: Apache-2.0
 *
 * Records are gathered, then written by one pwritev that starts and ends at a multiple of a page.
 * Inside it, each record starts at a multiple of 64 bytes. Nothing is committed before
 * open_extent_write returned OK (H2). A write that failed may have left any bytes after the last
 * good one. The extent then takes no more appends, because no block on disk is written twice; its
 * table of contents, if it can be written, comes after these bytes. Writes are not synced: after a
 * power cut, a record that the index names may be missing, and its checksum fails. Committer only;
 * readers find an extent's new bytes by the index. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

static enum err errno_err(void)
{
    return errno == ENOSPC || errno == EDQUOT ? ERR_FULL : ERR_IO;
}

enum err extent_write_toc(struct extent *extent, uint64_t at, const struct toc_entry *entries,
                          uint32_t count)
{
    uint64_t len = toc_bytes(count);
    uint8_t *bytes = must_alloc(len);
    size_t entries_len = (size_t)count * TOC_ENTRY_BYTES;
    if (count)
        memcpy(bytes, entries, entries_len);
    struct toc_footer footer = { .extent = extent->number, .count = count, .offset = (uint32_t)at,
                                 .entries_crc = crc32c(0, bytes, entries_len) };
    toc_footer_encode(&footer, bytes + len - TOC_FOOTER_BYTES);
    struct iovec part = { bytes, len };
    enum err e = write_parts(extent->fd, &part, 1, at) ? OK : errno_err();
    free(bytes);
    if (e)
        return e;
    extent_grew(extent, at + len - extent_size(extent));
    extent->sealed = true;
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

static void remember(struct open_extent *open, const struct record *record, uint64_t offset)
{
    uint32_t at = open->count + open->gathered;
    if (at == open->capacity) {
        open->capacity = MAX(256, 2 * open->capacity);
        open->entries = realloc(open->entries, open->capacity * sizeof(*open->entries));
        check(open->entries != NULL);
    }
    open->entries[at] = toc_entry_of(record, offset);
}

enum err open_extent_add(struct extents *all, struct append_item *item)
{
    struct open_extent *open = &all->open_extent;
    struct record *record = &item->record;
    check(item->metadata_block.len == record->metadata_len && item->bytes.len == record->data_len);
    if (!open->extent || open->broken || open->gathered == GATHER_MAX)
        return ERR_FULL;
    uint64_t offset = round_up(open->gathered_end, RECORD_ALIGN);
    uint64_t end = round_up(record_end(offset, record), PAGE_BYTES);
    if (end + toc_bytes(open->count + open->gathered + 1) > all->extent_bytes)
        return ERR_FULL;
    record->extent = open->extent->number;
    record->ordinal = open->count + open->gathered;
    item->offset = (uint32_t)offset;
    remember(open, record, offset);
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

enum err open_extent_write(struct extents *all)
{
    struct open_extent *open = &all->open_extent;
    if (!open->gathered)
        return OK;
    add_part(open, zeroes, round_up(open->gathered_end, PAGE_BYTES) - open->gathered_end);
    check(open->end % PAGE_BYTES == 0 && open->gathered_end <= all->extent_bytes);
    uint64_t len = open->gathered_end - open->end;
    bool good = write_parts(open->extent->fd, open->parts, open->part_count, open->end);
    enum err e = good ? OK : errno_err();
    open->part_count = 0;
    if (!e) {
        extent_grew(open->extent, len);
        open->end = open->gathered_end;
        open->count += open->gathered;
        metric_add(M_STORE_APPENDED, len);
    }
    open->broken = e != OK;
    open->gathered = 0;
    open->gathered_end = open->end;
    return e;
}

/* ---- from one extent to the next ---- */

enum err open_extent_seal(struct extents *all)
{
    struct open_extent *open = &all->open_extent;
    if (!open->extent)
        return OK;
    check(open->gathered == 0);
    struct extent *extent = open->extent;
    open->extent = NULL;
    uint64_t at = open->end;
    struct stat st;
    if (open->broken && fstat(extent->fd, &st) == 0)
        at = MAX(at, round_up((uint64_t)st.st_size, PAGE_BYTES));
    enum err e = extent_write_toc(extent, at, open->entries, open->count);
    extent_release(&extent);
    open->count = 0;
    return e;
}

enum err open_extent_roll(struct extents *all)
{
    struct open_extent *open = &all->open_extent;
    /* without a table its headers are scanned instead */
    (void)!open_extent_seal(all);
    uint32_t highest = extents_highest(all);
    if (highest >= EXTENT_NUMBER_MAX)
        return ERR_FULL;    /* a stranger's file, most likely: nothing more is stored */
    int fd;
    enum err e = extent_open_file(all, highest + 1, O_RDWR | O_CREAT | O_EXCL, &fd);
    if (e)
        return e;
    open->extent = extent_add(all, highest + 1, fd, 0);
    open->broken = false;
    open->end = open->gathered_end = 0;
    return OK;
}

