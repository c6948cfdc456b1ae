/* verify.c - reads records from the disk, and verifies all of their bytes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The bytes come through a descriptor that bypasses the page cache (O_DIRECT). So they are those of
 * the disk even if the page cache has better ones, and readers keep what they have in the page
 * cache. If the file system refuses such reads, pages that were not in the page cache before are
 * dropped from it afterwards. */
#include "store/verify.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "store/disk.h"

static_assert(DISK_ALIGN == PAGE_BYTES, "a direct read begins at the start of a page");

bool record_is_right(const struct record *record, const void *metadata, const void *data)
{
    if (record->metadata_len &&
        record->metadata_crc != block_crc(&record->id, record->etag_hash, METADATA_UNIT, metadata,
                                          record->metadata_len))
        return false;
    for (uint32_t i = 0; i < record_blocks(record); i++) {
        uint32_t at = i * BLOCK_BYTES, len = MIN(BLOCK_BYTES, record->data_len - at);
        if (block_crc(&record->id, record->etag_hash, record->first_unit + i / 2,
                      (const uint8_t *)data + at, len) != record->crc[i])
            return false;
    }
    return true;
}

/* ---- cold bytes ---- */

void cold_init(struct cold *cold, size_t room)
{
    check(room >= COLD_ROOM_LEAST);
    *cold = (struct cold){ .room = round_up(room, DISK_ALIGN) };
    cold->bytes = aligned_alloc(DISK_ALIGN, cold->room);
    check(cold->bytes != NULL);
}

void cold_free(struct cold *cold)
{
    free(cold->bytes);
    *cold = (struct cold){ .bytes = NULL };
}

/* Reads up to `len` bytes. Returns the number of bytes, or -errno. */
static ssize_t read_part(int fd, uint8_t *to, size_t len, uint64_t at)
{
    size_t got = 0;
    while (got < len) {
        ssize_t n = pread(fd, to + got, len - got, (off_t)(at + got));
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0 || (n > 0 && n % DISK_ALIGN))    /* the end of the file */
            return (ssize_t)(got + (size_t)n);
        got += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)got;
}

static ssize_t read_buffered(int fd, uint8_t *to, size_t len, uint64_t at)
{
    bool cached = disk_is_cached(fd, at, len);
    ssize_t got = read_part(fd, to, len, at);
    if (!cached)
        (void)!posix_fadvise(fd, (off_t)at, (off_t)len, POSIX_FADV_DONTNEED);
    return got;
}

enum err cold_read(struct cold *cold, struct extent *held, uint64_t at, size_t want)
{
    uint64_t size = extent_size(held);
    cold->at = at / DISK_ALIGN * DISK_ALIGN;
    cold->len = 0;
    if (failpoint(FAIL_COLD_READ))
        return ERR_IO;
    if (at >= size)
        return OK;
    size_t len = MIN(round_up(at + want - cold->at, DISK_ALIGN), cold->room);
    int direct = extent_direct_fd(held);
    ssize_t got = direct < 0 ? -EINVAL : read_part(direct, cold->bytes, len, cold->at);
    if (got == -EINVAL)    /* the file system, or its disk, takes no such reads */
        got = read_buffered(extent_fd(held), cold->bytes, len, cold->at);
    cold->len = got > 0 ? (size_t)got : 0;
    return got < 0 ? ERR_IO : OK;
}

bool cold_has(const struct cold *cold, uint64_t at, uint64_t len)
{
    return at >= cold->at && at - cold->at <= cold->len && len <= cold->len - (at - cold->at);
}

/* ---- one record ---- */

uint32_t suspect_bytes(const struct suspect *suspect)
{
    const struct toc_entry *row = suspect->row;
    return suspect->skip_data ? record_header_bytes(row->data_len) + row->metadata_len
                              : (uint32_t)toc_entry_record_bytes(row);
}

enum verdict suspect_judge(const struct suspect *suspect, const struct cold *cold,
                           struct record *ret)
{
    const struct toc_entry *row = suspect->row;
    uint32_t header = record_header_bytes(row->data_len);
    if (!toc_entry_is_valid(row))
        return VERDICT_HEADER;
    if (!cold_has(cold, row->offset, suspect_bytes(suspect)))
        return VERDICT_UNREADABLE;    /* the file is too short */
    const uint8_t *at = cold->bytes + (row->offset - cold->at);
    if (toc_entry_record(row, suspect->number, suspect->ordinal,
                         (slice){ (const char *)at, header }, ret) != OK)
        return VERDICT_HEADER;
    struct record alone = *ret;    /* without its data */
    alone.data_len = 0;
    if (!record_is_right(&alone, at + header, NULL))
        return VERDICT_METADATA;
    if (suspect->skip_data)
        return VERDICT_RIGHT;
    const uint8_t *data = at + (toc_entry_data_at(row) - row->offset);
    return record_is_right(ret, at + header, data) ? VERDICT_RIGHT : VERDICT_DATA;
}

enum verdict suspect_read(const struct suspect *suspect, struct cold *cold, struct record *ret)
{
    const struct toc_entry *row = suspect->row;
    if (!toc_entry_is_valid(row))
        return VERDICT_HEADER;
    uint32_t need = suspect_bytes(suspect);
    size_t want = suspect->skip_data ? MAX(need, 4u * PAGE_BYTES) : cold->room;
    if (!cold_has(cold, row->offset, need) &&
        cold_read(cold, suspect->held, row->offset, want) != OK &&
        cold_read(cold, suspect->held, row->offset, need) != OK)
        return VERDICT_UNREADABLE;
    return suspect_judge(suspect, cold, ret);
}
