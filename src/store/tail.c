/* tail.c - appending to the newest extent. SPDX-License-Identifier: Apache-2.0
 *
 * Records are gathered, then written by one pwritev that starts and ends on a page; inside, each
 * starts on 64 bytes. Nothing is committed before tail_write said OK (H2). A write that failed may
 * have left anything behind the last good byte: the extent is closed to appends (no block on disk
 * is written twice) and gets its table of contents, if it can be written, behind the debris. Not
 * synced: after a power cut a record may be missing that the index names; its checksum says so.
 * Threads: the committer's alone; readers see an extent's new bytes by way of the index. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    for (uint32_t i = 0; i < count; i++)
        toc_entry_encode(&entries[i], bytes + (size_t)i * TOC_ENTRY_BYTES);
    struct toc_footer footer = { .extent = extent->number, .count = count, .offset = (uint32_t)at,
                                 .crc = crc32c(0, bytes, (size_t)count * TOC_ENTRY_BYTES) };
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

static void add_part(struct log *log, const void *bytes, uint64_t len)
{
    if (!len)
        return;
    check(log->part_count < (int)countof(log->parts));
    log->parts[log->part_count++] = (struct iovec){ (void *)(uintptr_t)bytes, (size_t)len };
    log->gathered_end += len;
}

static void remember(struct log *log, const struct record *record, uint64_t offset)
{
    uint32_t at = log->count + log->gathered;
    if (at == log->capacity) {
        log->capacity = MAX(256, 2 * log->capacity);
        log->entries = realloc(log->entries, log->capacity * sizeof(*log->entries));
        check(log->entries != NULL);
    }
    log->entries[at] = (struct toc_entry){
        .id = record->id, .first_unit = record->first_unit, .offset = (uint32_t)offset,
        .data_len = record->data_len, .head_len = record->head_len, .kind = record->kind,
    };
}

enum err tail_add(struct extents *all, struct tail_item *item)
{
    struct log *log = &all->log;
    struct record *record = &item->record;
    check(item->head_block.len == record->head_len && item->bytes.len == record->data_len);
    if (!log->extent || log->broken || log->gathered == GATHER_MAX)
        return ERR_FULL;
    uint64_t offset = round_up(log->gathered_end, RECORD_ALIGN);
    uint64_t end = round_up(record_end(offset, record), PAGE_BYTES);
    if (end + toc_bytes(log->count + log->gathered + 1) > all->extent_bytes)
        return ERR_FULL;
    record->extent = log->extent->number;
    record->ordinal = log->count + log->gathered;
    item->offset = (uint32_t)offset;
    remember(log, record, offset);
    uint8_t *header = log->headers[log->gathered++];
    record_encode(record, header);
    add_part(log, zeroes, offset - log->gathered_end);
    add_part(log, header, record_header_bytes(record->data_len));
    add_part(log, item->head_block.ptr, item->head_block.len);
    add_part(log, zeroes,
             record_data_at(offset, record->data_len, record->head_len) - log->gathered_end);
    add_part(log, item->bytes.ptr, item->bytes.len);
    return OK;
}

enum err tail_write(struct extents *all)
{
    struct log *log = &all->log;
    if (!log->gathered)
        return OK;
    add_part(log, zeroes, round_up(log->gathered_end, PAGE_BYTES) - log->gathered_end);
    uint64_t len = log->gathered_end - log->end;
    bool good = write_parts(log->extent->fd, log->parts, log->part_count, log->end);
    enum err e = good ? OK : errno_err();
    log->part_count = 0;
    if (!e) {
        extent_grew(log->extent, len);
        log->end = log->gathered_end;
        log->count += log->gathered;
        metric_add(M_STORE_APPENDED, len);
    }
    log->broken = e != OK;
    log->gathered = 0;
    log->gathered_end = log->end;
    return e;
}

/* ---- from one extent to the next ---- */

enum err tail_seal(struct extents *all)
{
    struct log *log = &all->log;
    if (!log->extent)
        return OK;
    check(log->gathered == 0);
    struct extent *extent = log->extent;
    log->extent = NULL;
    uint64_t at = log->end;
    struct stat st;
    if (log->broken && fstat(extent->fd, &st) == 0)
        at = MAX(at, round_up((uint64_t)st.st_size, PAGE_BYTES));
    enum err e = extent_write_toc(extent, at, log->entries, log->count);
    extent_release(&extent);
    log->count = 0;
    return e;
}

enum err tail_roll(struct extents *all)
{
    struct log *log = &all->log;
    enum err ignored = tail_seal(all);    /* without a table its headers are scanned instead */
    (void)ignored;
    uint32_t highest = extents_highest(all);
    if (highest >= EXTENT_NUMBER_MAX)
        return ERR_FULL;    /* a stranger's file, most likely: nothing more is stored */
    int fd;
    enum err e = extent_open_file(all, highest + 1, O_RDWR | O_CREAT | O_EXCL, &fd);
    if (e)
        return e;
    log->extent = extent_add(all, highest + 1, fd, 0);
    log->broken = false;
    log->end = log->gathered_end = 0;
    return OK;
}

