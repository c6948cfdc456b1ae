/* job.c - the records that an append becomes. SPDX-License-Identifier: Apache-2.0
 *
 * A small object whose bytes are all there is one record, WHOLE; else the head lies by itself and
 * the units in another. Checksums are made here, before a byte is written. Threads: the
 * committer's. */
#include "store/job.h"

#include "store/rewrite.h"

static void fill_crcs(struct record *record, slice bytes)
{
    for (uint32_t i = 0; i < record_blocks(record); i++) {
        slice block = slice_sub(bytes, (size_t)i * BLOCK_BYTES, BLOCK_BYTES);
        record->crc[i] = block_crc(&record->id, record->etag_hash, record->first_unit + i / 2,
                                   block.ptr, block.len);
    }
}

static void fill_head(struct tail_item *item, const struct head *head, struct arena *keep)
{
    struct record *record = &item->record;
    size_t len = head_block_bytes(head);
    uint8_t *bytes = arena_alloc(keep, len);
    head_block_encode(head, bytes);
    item->head_block = (slice){ (char *)bytes, len };
    record->head_len = (uint32_t)len;
    record->head_crc = block_crc(&record->id, record->etag_hash, HEAD_UNIT, bytes, len);
    record->mark = head_mark(head->size, head->modified_s);
}

static struct tail_item *add_item(struct job *job, enum record_kind kind, uint32_t first_unit)
{
    const struct head *head = job->append->head;
    struct tail_item *item = &job->items[job->count++];
    item->record = (struct record){ .kind = kind, .id = head->id, .first_unit = first_unit,
                                    .etag_hash = head->etag_hash };
    return item;
}

static void add_bytes(struct tail_item *item, slice bytes)
{
    item->bytes = bytes;
    item->record.data_len = (uint32_t)bytes.len;
    fill_crcs(&item->record, bytes);
}

/* All bytes of a small object, handed in with its head or lying here already. ERR_LIMIT: can't
 * tell. */
static enum err find_whole(struct store *store, const struct store_append *append,
                           struct arena *keep, slice *ret)
{
    *ret = append->bytes;
    if (!append->with_head || append->first_unit != 0)
        return ERR_NOT_FOUND;
    if (!append->bytes.len && append->head->size)
        return rewrite_bytes(store, append->head, keep, ret);
    bool whole = append->bytes.len == append->head->size && append->head->size <= WHOLE_BYTES_MAX;
    return whole ? OK : ERR_NOT_FOUND;
}

void job_make(struct store *store, struct job *job, struct store_append *append, struct arena *keep)
{
    slice bytes;
    job->append = append;
    enum err found = find_whole(store, append, keep, &bytes);
    job->err = found == ERR_LIMIT ? ERR_FULL : OK;    /* a head by itself would cost us the bytes */
    if (job->err)
        return;
    if (!found) {
        struct tail_item *item = add_item(job, KIND_WHOLE, 0);
        fill_head(item, append->head, keep);
        add_bytes(item, bytes);
        return;
    }
    if (append->with_head)
        fill_head(add_item(job, KIND_HEAD, HEAD_UNIT), append->head, keep);
    if (append->bytes.len)
        add_bytes(add_item(job, KIND_UNITS, append->first_unit), append->bytes);
}
