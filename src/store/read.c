/* read.c - bytes of an object, found and verified. SPDX-License-Identifier: Apache-2.0
 *
 *   index (copied out) ──> reference to the extent ──> page cache ──┬──> verified ──> OK
 *                                                └─ not there: disk ─┘ later, by done()
 *
 * One span of one file, and what its blocks must add up to. Whole 64 KiB blocks are read and
 * verified, however few of their bytes are wanted. The checksums of units come with their index
 * entries; a WHOLE object's lie in its record's header, which is read in the same span where the
 * buffer takes it, else by a read of its own. What fails is counted, forgotten by the index (if it
 * still names this record), and a miss (H2). Threads: a store_io and all that hangs on it is its
 * owner's. */
#include "base/guard.h"
#include "store/io.h"

/* ERR_CHANGED: the record is fine, but its head is not the one the plan was made with. */
static enum err verify_blocks(const struct plan *plan)
{
    struct record record;
    bool whole = plan->entries[0].whole;
    if (whole && !plan_header(plan, record_header_bytes(plan->entries[0].len), &record))
        return ERR_GONE;
    if (whole && record.head_len != head_block_bytes(plan->head))
        return ERR_CHANGED;
    const uint8_t *at = plan->buffer->bytes + plan->blocks_at;
    for (uint32_t i = 0; i < plan->block_count; i++) {
        uint32_t block = plan->first_block + i, unit = block / 2;
        uint32_t len = MIN(BLOCK_BYTES, plan->blocks_len - i * BLOCK_BYTES);
        uint64_t unit_crcs = plan->entries[whole ? 0 : unit - plan->unit].mark;
        uint32_t want = whole ? record.crc[block] : (uint32_t)(unit_crcs >> (block % 2 * 32));
        if (guard_on(GUARD_CRC) &&
            block_crc(&plan->id, plan->entries[0].etag_hash, unit, at, len) != want)
            return ERR_GONE;
        at += len;
    }
    return OK;
}

static uint32_t len_of_unit(const struct head *head, uint32_t unit)
{
    return (uint32_t)MIN(UNIT_BYTES, head->size - (uint64_t)unit * UNIT_BYTES);
}

/* How many of the entries found lie in a row in one record, and are this head's. */
static uint32_t fitting(const struct head *head, uint32_t unit, const struct entry *entries,
                        uint32_t count)
{
    if (count && entries[0].whole)
        return entries[0].etag_hash == head->etag_hash && entries[0].len == head->size;
    uint32_t fit = 0;
    while (fit < count && entries[fit].etag_hash == head->etag_hash &&
           entries[fit].len == len_of_unit(head, unit + fit) &&
           entries[fit].extent == entries[0].extent && entries[fit].ordinal == entries[0].ordinal &&
           entries[fit].offset == entries[0].offset + fit * UNIT_BYTES)
        fit++;
    return fit;
}

/* Where in the file the wanted blocks lie, and for WHOLE the header, in one span if the buffer
 * takes both. */
static void plan_spans(struct plan *plan, uint64_t blocks_start)
{
    const struct entry *entry = &plan->entries[0];
    if (!entry->whole) {
        uint64_t at = entry->offset + blocks_start - (uint64_t)plan->unit * UNIT_BYTES;
        plan->spans[0] = (struct span){ .at = at, .len = plan->blocks_len };
        plan->span_count = 1;
        return;
    }
    uint64_t at = record_data_at(entry->offset, entry->len,
                                 (uint32_t)head_block_bytes(plan->head)) +
                  blocks_start;
    uint64_t both = at + plan->blocks_len - entry->offset;
    if (both <= LARGE_BYTES) {
        plan->spans[0] = (struct span){ .at = entry->offset, .len = (uint32_t)both };
        plan->span_count = 1;
        plan->blocks_at = (uint32_t)(at - entry->offset);
        return;
    }
    plan->header_at = HEADER_AT;
    plan->spans[0] = (struct span){ .at = at, .len = plan->blocks_len };
    plan->spans[1] = (struct span){ .at = entry->offset, .len = record_header_bytes(entry->len),
                                    .to = HEADER_AT };
    plan->span_count = 2;
}

static enum err plan_bytes(struct store_io *io, const struct head *head, uint64_t offset,
                           uint64_t end, struct plan *plan)
{
    *plan = (struct plan){ .head = head, .id = head->id };
    end = MIN(end, head->size);
    if (offset >= end || !store_is_serving(io->store))
        return ERR_NOT_FOUND;
    uint64_t first = offset / BLOCK_BYTES;
    uint64_t last = MIN((end - 1) / BLOCK_BYTES, first + BLOCKS_MAX - 1);
    plan->unit = (uint32_t)(first / 2);
    uint32_t found = index_get_run(io->store->index, &head->id, plan->unit,
                                   (uint32_t)(last / 2) - plan->unit + 1, plan->entries);
    plan->unit_count = fitting(head, plan->unit, plan->entries, found);
    if (!plan->unit_count)
        return ERR_NOT_FOUND;
    if (plan->entries[0].whole)
        plan->unit = 0;
    else
        last = MIN(last, 2 * ((uint64_t)plan->unit + plan->unit_count) - 1);
    uint64_t blocks_end = MIN((last + 1) * BLOCK_BYTES, head->size);
    plan->first_block = (uint32_t)first;
    plan->block_count = (uint32_t)(last - first + 1);
    plan->blocks_len = (uint32_t)(blocks_end - first * BLOCK_BYTES);
    plan->skip = (uint32_t)(offset - first * BLOCK_BYTES);
    plan->give = (uint32_t)(MIN(end, blocks_end) - offset);
    plan_spans(plan, first * BLOCK_BYTES);
    return plan_hold(io, plan, plan->span_count == 2 ? LARGE_BYTES : plan->spans[0].len);
}

/* Takes the plan's buffer into *ret, or fails and lets go of it. */
static enum err finish_bytes(struct store_io *io, struct plan *plan, enum err read,
                             struct piece *ret)
{
    enum err e = read ? ERR_GONE : verify_blocks(plan);
    if (e == ERR_GONE) {
        plan_disown(io, plan);
    }
    if (!e) {
        const uint8_t *bytes = plan->buffer->bytes + plan->blocks_at + plan->skip;
        *ret = (struct piece){ { (const char *)bytes, plan->give }, plan->buffer };
        plan->buffer = NULL;
    }
    plan_end(plan);
    return e ? ERR_GONE : OK;
}

static void op_finish(struct store_op *op)
{
    struct piece piece = { { NULL, 0 }, NULL };
    enum err e = finish_bytes(op->io, &op->plan, op->err, &piece);
    piece_done *done = op->piece_done;
    void *arg = op->arg;
    op_end(op);
    done(arg, e, piece);
}

enum err store_read(struct store_io *io, const struct head *head, uint64_t offset, uint64_t end,
                    piece_done *done, void *arg, struct piece *ret, struct store_op **ret_op)
{
    struct plan plan;
    enum err e = plan_bytes(io, head, offset, end, &plan);
    if (e)
        return e;
    e = plan_read_cached(&plan);
    if (e != ERR_WAIT)
        return finish_bytes(io, &plan, e, ret) ? ERR_NOT_FOUND : OK;
    struct store_op *op = op_new(io, &plan, op_finish);
    op->head = head_ref((struct head *)(uintptr_t)head);    /* counted, not changed */
    op->piece_done = done;
    op->arg = arg;
    op_start(op);
    *ret_op = op;
    return ERR_WAIT;
}
