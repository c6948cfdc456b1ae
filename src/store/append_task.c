/* append_task.c - the records that are made of an append. SPDX-License-Identifier: Apache-2.0
 *
 * A small object whose bytes are all there becomes one WHOLE record. For any other append, the
 * metadata and the units become separate records. Checksums are made here, before a byte is
 * written. Committer only. */
#include "store/append_task.h"

#include "store/rewrite.h"

static void fill_crcs(struct record *record, slice bytes)
{
    for (uint32_t i = 0; i < record_blocks(record); i++) {
        slice block = slice_sub(bytes, (size_t)i * BLOCK_BYTES, BLOCK_BYTES);
        record->crc[i] = block_crc(&record->id, record->etag_hash, record->first_unit + i / 2,
                                   block.ptr, block.len);
    }
}

static void fill_metadata(struct append_item *item, const struct metadata *metadata,
                          struct arena *keep)
{
    struct record *record = &item->record;
    size_t len = metadata_block_bytes(metadata);
    uint8_t *bytes = arena_alloc(keep, len);
    metadata_block_encode(metadata, bytes);
    item->metadata_block = (slice){ (char *)bytes, len };
    record->metadata_len = (uint32_t)len;
    record->metadata_crc = block_crc(&record->id, record->etag_hash, METADATA_UNIT, bytes, len);
    record->mark = metadata_mark(metadata->size, metadata->modified_s);
}

static struct append_item *add_item(struct append_task *task, enum record_kind kind,
                                    uint32_t first_unit)
{
    const struct metadata *metadata = task->append->metadata;
    struct append_item *item = &task->items[task->count++];
    item->bucket = task->bucket;
    item->tally = task->tally;
    item->name = metadata->name;
    item->record = (struct record){ .kind = (uint8_t)kind, .id = metadata->id,
                                    .first_unit = first_unit, .etag_hash = metadata->etag_hash };
    if (kind == KIND_UNITS)
        item->record.mark = task->bucket;
    return item;
}

static void add_bytes(struct append_item *item, slice bytes)
{
    item->bytes = bytes;
    item->record.data_len = (uint32_t)bytes.len;
    fill_crcs(&item->record, bytes);
}

bool append_is_whole(const struct store_append *append)
{
    return append->with_metadata && append->first_unit == 0 &&
           append->bytes.len == append->metadata->size &&
           append->metadata->size <= WHOLE_BYTES_MAX;
}

bool append_stages_bytes(const struct store_append *append)
{
    return append->staged && append->bytes.len;
}

enum open_which append_task_extent(const struct append_task *task, const struct append_item *item)
{
    return append_stages_bytes(task->append) && item->record.kind != KIND_HEAD ? OPEN_STAGING
                                                                               : OPEN_LOG;
}

/* Finds all bytes of a small object: in the append, or, if that has only metadata, in the volume.
 * Returns OK, ERR_NOT_FOUND if there is no WHOLE record to make, or ERR_LIMIT if the volume can't
 * read now. */
static enum err find_whole(struct volume *volume, const struct store_append *append,
                           struct arena *keep, slice *ret)
{
    *ret = append->bytes;
    if (!append->with_metadata || append->first_unit != 0)
        return ERR_NOT_FOUND;
    if (!append->bytes.len && append->metadata->size)
        return rewrite_bytes(volume, append->metadata, keep, ret);
    return append_is_whole(append) ? OK : ERR_NOT_FOUND;
}

void append_task_make(struct volume *volume, struct append_task *task, struct store_append *append,
                      struct arena *keep)
{
    slice bytes;
    task->append = append;
    task->bucket = bucket_hash_of(volume->secret, append->metadata->name);
    task->tally = append->tally;
    enum err found = find_whole(volume, append, keep, &bytes);
    /* a metadata record would replace the WHOLE record, and its bytes would be lost */
    task->err = found == ERR_LIMIT ? ERR_FULL : OK;
    if (task->err)
        return;
    if (!found) {
        struct append_item *item = add_item(task, KIND_WHOLE, 0);
        fill_metadata(item, append->metadata, keep);
        add_bytes(item, bytes);
        return;
    }
    if (append->with_metadata)
        fill_metadata(add_item(task, KIND_HEAD, METADATA_UNIT), append->metadata, keep);
    if (append->bytes.len)
        add_bytes(add_item(task, KIND_UNITS, append->first_unit), append->bytes);
}
