/* rewrite.c - reads the bytes of a small object, to store them again with newer metadata.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A WHOLE object is one record, so a change of its metadata writes the whole record again
 * (penstock-format(5)). The bytes are read back, verified, and stored with the new metadata. If
 * they can't be proved right, only the metadata is stored. Committer only; reads may block. */
#include <string.h>

#include "store/rewrite.h"

static bool is_intact(const struct record *record, const uint8_t *bytes)
{
    for (uint32_t i = 0; i < record_blocks(record); i++) {
        uint32_t at = i * BLOCK_BYTES, len = MIN(BLOCK_BYTES, record->data_len - at);
        if (block_crc(&record->id, record->etag_hash, i / 2, bytes + at, len) != record->crc[i])
            return false;
    }
    return true;
}

/* Returns true if the record has this version of this object. Compares the whole name, as each read
 * does. */
static bool is_of(const struct record *record, const struct metadata *metadata,
                  const uint8_t *block)
{
    slice bytes = { (const char *)block, record->metadata_len };
    if (record->kind != KIND_WHOLE ||
        memcmp(&record->id, &metadata->id, sizeof(metadata->id)) != 0 ||
        record->etag_hash != metadata->etag_hash || record->data_len != metadata->size ||
        record->metadata_crc != block_crc(&record->id, record->etag_hash, METADATA_UNIT, block,
                                          record->metadata_len))
        return false;
    struct metadata *old = metadata_block_decode(&record->id, bytes);
    bool same = old && slice_eq(old->name, metadata->name) && slice_eq(old->etag, metadata->etag);
    metadata_unref(&old);
    return same;
}

static bool read_record(const struct extent *extent, const struct entry *entry,
                        const struct metadata *metadata, struct arena *keep, slice *ret)
{
    uint8_t header[RECORD_HEADER_MAX];
    struct record record;
    uint32_t header_len = record_header_bytes(entry->len);
    if (header_len > sizeof(header) || !extent_read(extent, header, header_len, entry->offset) ||
        record_decode((slice){ (char *)header, header_len }, &record) != OK ||
        record.metadata_len > METADATA_BLOCK_MAX || record.data_len != entry->len)
        return false;
    uint8_t *block = arena_alloc(keep, record.metadata_len + 1);
    uint8_t *bytes = arena_alloc(keep, record.data_len + 1);
    uint64_t data_at = record_data_at(entry->offset, record.data_len, record.metadata_len);
    if (!extent_read(extent, block, record.metadata_len, entry->offset + header_len) ||
        !is_of(&record, metadata, block) || !extent_read(extent, bytes, record.data_len, data_at) ||
        !is_intact(&record, bytes))
        return false;
    *ret = (slice){ (char *)bytes, record.data_len };
    return true;
}

enum err rewrite_bytes(struct volume *volume, const struct metadata *metadata, struct arena *keep,
                       slice *ret)
{
    struct entry entry;
    uint32_t unit;
    if (!metadata->size || metadata->size > WHOLE_BYTES_MAX ||
        index_get_metadata(volume->index, &metadata->id, &unit, &entry) != OK || !entry.whole ||
        entry.etag_hash != metadata->etag_hash || entry.len != metadata->size ||
        volume_is_purged(volume, metadata->name, &entry))
        return ERR_NOT_FOUND;
    struct extent *extent;
    enum err e = extent_hold_record(volume->extents, entry.extent, entry.ordinal,
                                    &extent);    /* H1 */
    if (!e && !read_record(extent, &entry, metadata, keep, ret))
        e = ERR_NOT_FOUND;
    extent_release(&extent);
    return e;
}
