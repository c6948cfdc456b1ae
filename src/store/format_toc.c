/* format_toc.c - the layout of an extent: its head page and its table of contents.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Like all of format.h: pure, and safe with any bytes. Any thread. */
#include <assert.h>
#include <string.h>

#include "store/format.h"

#define HEAD_MAGIC 0x45545350u        /* "PSTE" */
#define HEAD_VERSION 2u               /* extents of format version 1 have no head page */
#define TOC_MAGIC 0x54545350u         /* "PSTT" */
#define ROW_BYTES_1 32u               /* of a row in version 1 */

static_assert(offsetof(struct extent_head, crc) + 4 == EXTENT_HEAD_BYTES, "on disk");
static_assert(sizeof(struct toc_entry) == 48, "on disk");
static_assert(offsetof(struct toc_entry, bucket) == ROW_BYTES_1, "on disk");
static_assert(offsetof(struct toc_footer, names_len) == 24, "on disk");
static_assert(offsetof(struct toc_footer, crc) + 4 == TOC_FOOTER_BYTES, "on disk");

/* ---- the head page ---- */

static bool is_kind(uint8_t kind)
{
    return kind >= EXTENT_LOG && kind <= EXTENT_STAGING;
}

void extent_head_encode(const struct extent_head *head, uint8_t ret[EXTENT_HEAD_BYTES])
{
    struct extent_head disk = *head;
    check(is_kind(head->kind));
    disk.magic = HEAD_MAGIC;
    disk.version = HEAD_VERSION;
    disk.crc = crc32c(0, &disk, offsetof(struct extent_head, crc));
    memcpy(ret, &disk, sizeof(disk));
}

enum err extent_head_decode(const uint8_t bytes[EXTENT_HEAD_BYTES], struct extent_head *ret)
{
    struct extent_head disk;
    memcpy(&disk, bytes, sizeof(disk));
    if (disk.magic != HEAD_MAGIC || disk.version != HEAD_VERSION || !is_kind(disk.kind) ||
        disk.crc != crc32c(0, &disk, offsetof(struct extent_head, crc)))
        return ERR_GONE;
    *ret = disk;
    return OK;
}

/* ---- a table of contents ---- */

struct toc_entry toc_entry_of(const struct record *record, uint64_t offset)
{
    return (struct toc_entry){ .id = record->id, .first_unit = record->first_unit,
                               .offset = (uint32_t)offset, .data_len = record->data_len,
                               .metadata_len = record->metadata_len, .kind = record->kind,
                               .bucket = record->kind == KIND_UNITS ? record->mark : 0,
                               .etag_hash = record->etag_hash };
}

bool toc_entry_has_name(const struct toc_entry *entry)
{
    return entry->kind != KIND_UNITS;
}

uint64_t toc_entry_record_bytes(const struct toc_entry *entry)
{
    return toc_entry_data_at(entry) + entry->data_len - entry->offset;
}

uint64_t toc_entry_data_at(const struct toc_entry *entry)
{
    return record_data_at(entry->offset, entry->data_len, entry->metadata_len);
}

static bool is_of(const struct record *record, const struct toc_entry *entry)
{
    return record->kind == entry->kind &&
           memcmp(&record->id, &entry->id, sizeof(entry->id)) == 0 &&
           record->first_unit == entry->first_unit && record->data_len == entry->data_len &&
           record->metadata_len == entry->metadata_len &&
           (!entry->etag_hash || record->etag_hash == entry->etag_hash) &&
           (!entry->bucket || record->kind != KIND_UNITS || record->mark == entry->bucket);
}

enum err toc_entry_record(const struct toc_entry *entry, uint32_t extent, uint32_t ordinal,
                          slice header, struct record *ret)
{
    bool right = record_decode(header, ret) == OK && ret->extent == extent &&
                 ret->ordinal == ordinal && is_of(ret, entry);
    return right ? OK : ERR_GONE;
}

bool toc_entry_is_valid(const struct toc_entry *entry)
{
    uint32_t first_unit = entry->first_unit;
    if (entry->offset % RECORD_ALIGN || entry->data_len > RECORD_BYTES_MAX ||
        entry->metadata_len > METADATA_BLOCK_MAX)
        return false;
    switch (entry->kind) {
    case KIND_UNITS:
        return entry->data_len && !entry->metadata_len && first_unit < UNITS_MAX &&
               entry->data_len <= (uint64_t)(UNITS_MAX - first_unit) * UNIT_BYTES;
    case KIND_WHOLE:
        return entry->metadata_len && first_unit == 0;
    case KIND_HEAD:
        return entry->metadata_len && !entry->data_len && first_unit == METADATA_UNIT;
    default:
        return false;
    }
}

size_t toc_row_bytes(uint32_t version)
{
    return version == 1 ? ROW_BYTES_1 : sizeof(struct toc_entry);
}

void toc_rows_encode(uint32_t version, const struct toc_entry *entries, uint32_t count,
                     uint8_t *ret)
{
    size_t bytes = toc_row_bytes(version);
    for (uint32_t i = 0; i < count; i++)
        memcpy(ret + i * bytes, &entries[i], bytes);
}

void toc_rows_decode(uint32_t version, const uint8_t *bytes, uint32_t count,
                     struct toc_entry *ret)
{
    size_t row_bytes = toc_row_bytes(version);
    for (uint32_t i = 0; i < count; i++) {
        ret[i] = (struct toc_entry){ .bucket = 0 };
        memcpy(&ret[i], bytes + i * row_bytes, row_bytes);
    }
}

uint64_t toc_bytes(uint32_t version, uint64_t count, uint64_t names_len)
{
    return round_up(count * toc_row_bytes(version) + names_len + TOC_FOOTER_BYTES, PAGE_BYTES);
}

void toc_footer_encode(const struct toc_footer *footer, uint8_t ret[TOC_FOOTER_BYTES])
{
    struct toc_footer disk = *footer;
    check(footer->version == 1 || (footer->version == 2 && is_kind(footer->kind)));
    if (footer->version == 1)
        memset((uint8_t *)&disk + offsetof(struct toc_footer, names_len), 0,
               offsetof(struct toc_footer, crc) - offsetof(struct toc_footer, names_len));
    disk.magic = TOC_MAGIC;
    disk.crc = crc32c(0, &disk, offsetof(struct toc_footer, crc));
    memcpy(ret, &disk, sizeof(disk));
}

enum err toc_footer_decode(const uint8_t bytes[TOC_FOOTER_BYTES], struct toc_footer *ret)
{
    struct toc_footer disk;
    memcpy(&disk, bytes, sizeof(disk));
    if (disk.magic != TOC_MAGIC || disk.crc != crc32c(0, &disk, offsetof(struct toc_footer, crc)))
        return ERR_GONE;
    if (disk.version == 1 && !disk.names_len)
        disk.kind = EXTENT_LOG;
    else if (disk.version != 2 || !is_kind(disk.kind))
        return ERR_GONE;
    *ret = disk;
    return OK;
}

/* ---- the names ---- */

struct __attribute__((packed)) name_head {
    uint64_t size;
    uint32_t len;
};
static_assert(sizeof(struct name_head) == 12, "on disk");

size_t toc_name_bytes(const struct toc_name *name)
{
    return sizeof(struct name_head) + name->name.len;
}

void toc_name_encode(const struct toc_name *name, uint8_t *ret)
{
    struct name_head head = { .size = name->size, .len = (uint32_t)name->name.len };
    check(name->name.len <= METADATA_BLOCK_MAX);
    memcpy(ret, &head, sizeof(head));
    slice_put((char *)ret + sizeof(head), name->name);
}

bool toc_name_take(slice *names, struct toc_name *ret)
{
    struct name_head head;
    if (names->len < sizeof(head))
        return false;
    memcpy(&head, names->ptr, sizeof(head));
    slice rest = slice_from(*names, sizeof(head));
    if (head.len > METADATA_BLOCK_MAX || head.len > rest.len)
        return false;
    *ret = (struct toc_name){ head.size, slice_sub(rest, 0, head.len) };
    *names = slice_from(rest, head.len);
    return true;
}
