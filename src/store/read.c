/* read.c - bytes of an object, found and verified. SPDX-License-Identifier: Apache-2.0
 *
 *   index (copied out) ──> reference to the extent ──> page cache ──┬──> verified ──> OK
 *                                                └─ not there: disk ─┘ later, by done()
 *
 * A read takes one span of one file, and the checksums of its blocks. Whole 64 KiB blocks are read
 * and verified, however few of their bytes are wanted. The checksums of units come with their index
 * entries. The checksums of a WHOLE object lie in its record's header, which is read in the same
 * span if the buffer has room for it, otherwise by a read of its own. Bytes that fail their checks
 * are counted and are a miss (rule H2 in src/README.md), and the index forgets them if it still
 * names this record.
 *
 * If the caller brings memory, whole blocks go directly to it. The same read puts the header,
 * blocks that are wanted only in part, and the bytes between them into a buffer; they are copied
 * when all is verified. Another process may write to the caller's memory, or take it away. So if
 * bytes fail their checks there, they are read again into a buffer, and all code that touches this
 * memory runs in a trap. If the page cache has all of a large read, the bytes are copied from the
 * extent's map, block by block, and each block is verified while it is in the processor's cache.
 * Otherwise all bytes would come from memory twice. Threads: a store_io, its buffers and its ops
 * belong to one thread. */
#include <assert.h>
#include <string.h>

#include "base/guard.h"
#include "base/metric.h"
#include "base/trap.h"
#include "store/io.h"
#include "store/locker.h"

#define STRIPE_BLOCKS (STRIPE_UNITS * (UNIT_BYTES / BLOCK_BYTES))

static_assert(STORE_OBJECT_BYTES_MAX / BLOCK_BYTES <= (uint64_t)1 << 31,
              "block numbers have 32 bits");
static_assert((STRIPE_BLOCKS & (STRIPE_BLOCKS - 1)) == 0,
              "STRIPE_BLOCKS is a power of two, for first | (STRIPE_BLOCKS - 1)");

/* Reads the header of a WHOLE record. Returns OK; ERR_GONE if it is wrong; or ERR_CHANGED if the
 * record is right, but has other metadata than the plan. */
static enum err read_header(const struct read_plan *plan, struct record *ret)
{
    if (!plan->entries[0].whole)
        return OK;
    if (!read_plan_header(plan, record_header_bytes(plan->entries[0].len), ret))
        return ERR_GONE;
    return ret->metadata_len == metadata_block_bytes(plan->metadata) ? OK : ERR_CHANGED;
}

/* Returns the checksum that block i of the plan must have. */
static uint32_t wanted_crc(const struct read_plan *plan, const struct record *record, uint32_t i)
{
    uint32_t block = plan->blocks.first + i;
    if (plan->entries[0].whole)
        return record->crc[block];
    return (uint32_t)(plan->entries[block / 2 - plan->unit].mark >> (block % 2 * 32));
}

/* Verifies each block in its place; a block in the map is copied there first. In a locked map,
 * nothing is copied, and it is noted that the block is right. Returns as read_header. */
static enum err settle_blocks(const struct read_plan *plan)
{
    struct record record;
    enum err e = read_header(plan, &record);
    for (uint32_t i = 0; i < plan->blocks.count && !e; i++) {
        uint32_t in_span = plan->blocks.at + i * BLOCK_BYTES;
        const uint8_t *at = read_plan_found(plan, in_span);
        uint8_t *place = plan->lent ? NULL : read_plan_place(plan, in_span);
        uint32_t unit = (plan->blocks.first + i) / 2, want = wanted_crc(plan, &record, i);
        uint32_t len = MIN(BLOCK_BYTES, plan->blocks.len - i * BLOCK_BYTES);
        if (place && place != at)
            at = memcpy(place, at, len);
        if (guard_on(GUARD_CRC) &&
            block_crc(&plan->id, plan->entries[0].etag_hash, unit, at, len) != want)
            e = ERR_GONE;
        else if (plan->lent)
            extent_set_verified(plan->extent, plan->spans[0].at + in_span, want);
    }
    return e;
}

/* Returns how many of the entries are of this metadata, and lie side by side in one record. */
static uint32_t fitting(const struct metadata *metadata, uint32_t unit, const struct entry *entries,
                        uint32_t count)
{
    if (count && entries[0].whole)
        return entries[0].etag_hash == metadata->etag_hash && entries[0].len == metadata->size;
    uint32_t fit = 0;
    while (fit < count && entries[fit].etag_hash == metadata->etag_hash &&
           entries[fit].len == unit_len(metadata, unit + fit) &&
           entries[fit].extent == entries[0].extent && entries[fit].ordinal == entries[0].ordinal &&
           entries[fit].offset == entries[0].offset + fit * UNIT_BYTES)
        fit++;
    return fit;
}

/* Sets the plan's entries: at most `count` units of one of these records that was not purged. */
static void find_units(struct read_plan *plan, uint32_t count, enum store_records among)
{
    struct extents *extents = plan->volume->extents;
    struct ban_set *bans = ban_set_ref(&plan->volume->bans->place);
    struct metadata *metadata = (struct metadata *)(uintptr_t)plan->metadata;    /* for its memo */
    count = index_recall_run(plan->volume->index, &plan->id, plan->unit, count, plan->entries,
                             &metadata->memo);
    plan->unit_count = fitting(plan->metadata, plan->unit, plan->entries, count);
    if (plan->unit_count &&
        ban_set_covers(bans, plan->metadata->name, plan->entries[0].extent, plan->entries[0].ordinal))
        plan->unit_count = 0;
    if (plan->unit_count && among == RECORDS_NOT_STAGED && extents_staging(extents) &&
        extents_is_staging(extents, plan->entries[0].extent))
        plan->unit_count = 0;
    ban_set_unref(&bans);
    if (!count && index_is_bad(plan->volume->index))    /* the committer builds it anew */
        volume_wants_turn(plan->volume);
}

/* Sets the spans of the wanted blocks and, for WHOLE, of the header. They are one span if the
 * buffer has room for the bytes between them. Returns the number of bytes that need a buffer. */
static uint32_t read_plan_spans(struct read_plan *plan)
{
    const struct entry *entry = &plan->entries[0];
    uint64_t blocks_start = (uint64_t)plan->blocks.first * BLOCK_BYTES;
    uint64_t at = entry->offset + blocks_start - (uint64_t)plan->unit * UNIT_BYTES;
    uint64_t before = 0;
    if (entry->whole) {
        at = record_data_at(entry->offset, entry->len,
                            (uint32_t)metadata_block_bytes(plan->metadata)) +
             blocks_start;
        before = at - entry->offset;
        if (plan->straight.len ? before > SMALL_BYTES : before + plan->blocks.len > LARGE_BYTES)
            before = 0;
    }
    plan->spans[0] = (struct span){ .at = at - before,
                                    .len = (uint32_t)(before + plan->blocks.len) };
    plan->span_count = 1;
    plan->header_at = 0;
    plan->blocks.at = (uint32_t)before;
    uint32_t buffered = plan->spans[0].len - plan->straight.len;
    if (!entry->whole || before)
        return buffered;
    plan->header_at = (uint32_t)round_up(buffered, RECORD_ALIGN);
    plan->spans[1] = (struct span){ .at = entry->offset, .len = record_header_bytes(entry->len),
                                    .to = plan->header_at };
    plan->span_count = 2;
    return plan->header_at + plan->spans[1].len;
}

/* Finds the whole blocks among the wanted bytes: they go directly to the caller's memory. Offsets
 * count from the first block here. */
static void read_plan_straight(struct read_plan *plan, void *to)
{
    uint32_t from = plan->skip ? BLOCK_BYTES : 0, end = plan->skip + plan->give;
    if (end < plan->blocks.len)
        end = end / BLOCK_BYTES * BLOCK_BYTES;
    if (!to || end <= from)
        return;
    plan->to = to;
    plan->straight.at = from;
    plan->straight.len = end - from;
}

/* ---- bytes in a locked map ---- */

/* Runs the call in a trap: a file that another program truncates must not end the process. */
static enum err in_locked_map(trap_call *call, struct read_plan *plan)
{
    int e;
    slice map = { (const char *)plan->lent, extent_size(plan->extent) };
    return trap_read(call, plan, map, &e) ? (enum err)e : ERR_IO;
}

/* Shortens the plan to its first blocks. */
static void keep_blocks(struct read_plan *plan, uint32_t count)
{
    if (count >= plan->blocks.count)
        return;
    plan->blocks.count = count;
    plan->blocks.len = count * BLOCK_BYTES;
    plan->give = MIN(plan->give, plan->blocks.len - MIN(plan->skip, plan->blocks.len));
    if (!plan->entries[0].whole)
        plan->unit_count = (plan->blocks.first + count - 1) / 2 - plan->unit + 1;
}

/* Shortens the plan to the blocks that were verified in the map. ERR_NOT_FOUND: the first was
 * not. */
static int keep_verified(void *ask)
{
    struct read_plan *plan = ask;
    struct record record;
    enum err e = read_header(plan, &record);
    uint64_t at = plan->spans[0].at + plan->blocks.at;
    uint32_t count = 0;
    while (!e && count < plan->blocks.count &&
           extent_is_verified(plan->extent, at + count * BLOCK_BYTES,
                              wanted_crc(plan, &record, count)))
        count++;
    if (e || !count)
        return (int)(e ? e : ERR_NOT_FOUND);
    keep_blocks(plan, count);
    return OK;
}

bool read_plan_is_inside(const struct read_plan *plan)
{
    uint64_t bytes = extent_size(plan->extent);
    uint32_t i = 0;
    while (i < plan->span_count && plan->spans[i].at <= bytes &&
           plan->spans[i].len <= bytes - plan->spans[i].at)
        i++;
    return i == plan->span_count;
}

static int settle_lent(void *ask)
{
    return (int)settle_blocks(ask);
}

/* Returns a hash of all that the index and the metadata say of the plan's blocks. */
static uint32_t plan_mark(const struct read_plan *plan)
{
    const struct entry *entries = plan->entries;
    size_t metadata_len = entries[0].whole ? metadata_block_bytes(plan->metadata) : 0;
    uint64_t parts[] = { entries[0].etag_hash, entries[0].len, entries[0].ordinal,
                         entries[0].offset, plan->blocks.first, plan->blocks.len,
                         metadata_len, entries[0].mark, 0, 0 };
    memcpy(&parts[8], plan->id.bytes, sizeof(plan->id.bytes));    /* one call costs less than many */
    uint32_t mark = crc32c(0, parts, sizeof(parts));
    for (uint32_t i = 1; i < plan->unit_count; i++)
        mark = crc32c(mark, &entries[i].mark, sizeof(entries[i].mark));
    return mark;
}

static uint64_t first_block_at(const struct read_plan *plan)
{
    return plan->spans[0].at + plan->blocks.at;
}

/* Verifies the blocks of the plan in its lent map. ERR_WAIT: not all of them are in memory. */
static enum err verify_lent(struct read_plan *plan)
{
    bool there = read_plan_is_inside(plan);
    for (uint32_t i = 0; i < plan->span_count && there; i++)
        there = extent_cached(plan->extent, plan->spans[i].at, plan->spans[i].len) != NULL;
    enum err e = there ? in_locked_map(settle_lent, plan) : ERR_WAIT;
    for (uint32_t i = 0; i < plan->span_count && !e; i++)
        extent_set_resident(plan->extent, plan->spans[i].at, plan->spans[i].len);
    if (!e)
        extent_set_plan_verified(plan->extent, first_block_at(plan), plan_mark(plan));
    return e;
}

/* Shortens the plan to its blocks that were verified in the lent map, if the first one was. */
static bool find_verified(struct read_plan *plan)
{
    const struct entry *entry = &plan->entries[0];
    uint32_t mark = plan_mark(plan), count = plan->blocks.count;
    if (extent_plan_is_verified(plan->extent, first_block_at(plan), mark))
        return true;
    if ((entry->whole && !extent_is_resident(plan->extent, entry->offset,
                                             record_header_bytes(entry->len))) ||
        in_locked_map(keep_verified, plan) != OK)
        return false;
    if (plan->blocks.count == count)
        extent_set_plan_verified(plan->extent, first_block_at(plan), mark);
    return true;
}

/* Lends the first bytes of the plan, as many as were verified in the locked map. Their pages are in
 * memory, so the loop never waits for the disk. If the first block was not verified yet, all blocks
 * are verified now, if their pages are in memory. */
static bool read_plan_lend(struct read_plan *plan)
{
    plan->lent = extent_lend(plan->extent);
    if (!plan->lent)
        return false;
    (void)read_plan_spans(plan);
    if ((read_plan_is_inside(plan) && find_verified(plan)) || verify_lent(plan) == OK)
        return true;
    extent_lend_end(plan->extent);
    plan->lent = NULL;
    return false;
}

enum err read_plan_verify(struct read_plan *plan)
{
    plan->lent = extent_lend(plan->extent);
    if (!plan->lent)
        return ERR_NOT_FOUND;
    enum err e = verify_lent(plan);
    if (e == ERR_GONE || e == ERR_IO)
        read_plan_disown(plan);
    extent_lend_end(plan->extent);
    plan->lent = NULL;
    return e;
}

static void finish_lent(const struct read_plan *plan, struct object_bytes *ret)
{
    const uint8_t *bytes = plan->lent + plan->spans[0].at + plan->blocks.at + plan->skip;
    *ret = (struct object_bytes){ { (const char *)bytes, plan->give }, NULL };
}

/* Makes the plan of a read. `to` is the caller's memory for the bytes, or NULL. */
static enum err read_plan_bytes(struct store_io *io, const struct metadata *metadata, uint64_t offset,
                           uint64_t end, struct store_to to, struct read_plan *plan)
{
    memset(plan, 0, offsetof(struct read_plan, entries));
    if (metadata->size > STORE_OBJECT_BYTES_MAX)
        return ERR_NOT_FOUND;
    uint64_t first = offset / BLOCK_BYTES;
    plan->unit = (uint32_t)(first / 2);
    plan->volume = store_home_of_unit(io->store, &metadata->id, plan->unit);
    plan->metadata = metadata;
    plan->id = metadata->id;
    end = MIN(end, metadata->size);
    if (offset >= end || !volume_is_serving(plan->volume))
        return ERR_NOT_FOUND;
    uint64_t last = MIN((end - 1) / BLOCK_BYTES,
                        first + (to.memory || to.lends ? RECORD_BLOCKS : BLOCKS_MAX) - 1);
    last = MIN(last, first | (STRIPE_BLOCKS - 1));    /* another volume may have the next stripe */
    find_units(plan, MIN((uint32_t)(last / 2) - plan->unit + 1, RECORD_UNITS), to.among);
    if (!plan->unit_count)
        return ERR_NOT_FOUND;
    if (plan->entries[0].whole)
        plan->unit = 0;
    else
        last = MIN(last, 2 * ((uint64_t)plan->unit + plan->unit_count) - 1);
    uint64_t blocks_end = MIN((last + 1) * BLOCK_BYTES, metadata->size);
    plan->blocks = (struct read_plan_blocks){ .first = (uint32_t)first,
                                         .count = (uint32_t)(last - first + 1),
                                         .len = (uint32_t)(blocks_end - first * BLOCK_BYTES),
                                         .ahead = to.ahead, .among = to.among };
    plan->skip = (uint32_t)(offset - first * BLOCK_BYTES);
    plan->give = (uint32_t)(MIN(end, blocks_end) - offset);
    enum err e = read_plan_hold(plan);
    if (e || (to.lends && read_plan_lend(plan)))
        return e;
    if (!to.memory)
        keep_blocks(plan, BLOCKS_MAX);
    read_plan_straight(plan, to.memory);
    uint32_t buffered = read_plan_spans(plan);
    if (plan->straight.len)
        plan->straight.at += plan->blocks.at;
    return read_plan_take_buffer(io, plan, buffered);
}

/* Copies the wanted bytes before and after the direct blocks to the caller's memory. */
static void bring_together(const struct read_plan *plan)
{
    const struct read_plan_straight *straight = &plan->straight;
    uint32_t start = plan->blocks.at + plan->skip, end = start + plan->give;
    uint32_t rest = straight->at + straight->len;
    if (start < straight->at)
        memcpy(plan->to, read_plan_place(plan, start), straight->at - start);
    if (rest < end)
        memcpy(plan->to + rest - start, read_plan_place(plan, rest), end - rest);
}

static int settle_straight(void *ask)
{
    const struct read_plan *plan = ask;
    enum err e = settle_blocks(plan);
    if (!e)
        bring_together(plan);
    return (int)e;
}

/* Verifies the bytes in the caller's memory. Returns ERR_MORE if a check failed: another process
 * may have written there, or the map failed, so the record may be right. Returns ERR_FAULT if the
 * memory was unmapped. */
static enum err finish_straight(struct read_plan *plan, struct object_bytes *ret)
{
    slice there = { (const char *)plan->to, plan->give };
    const struct read_plan_straight *straight = &plan->straight;
    slice mapped = { (const char *)straight->mapped, straight->mapped ? straight->len : 0 };
    int e, failed;
    if (!trap_read_two(settle_straight, plan, (slice[]){ there, mapped }, &e, &failed))
        return failed == 0 ? ERR_FAULT : ERR_MORE;
    if (!e)
        *ret = (struct object_bytes){ there, NULL };
    return e == ERR_GONE ? ERR_MORE : (enum err)e;
}

static enum err finish_buffered(struct read_plan *plan, struct object_bytes *ret)
{
    enum err e = settle_blocks(plan);
    if (!e) {
        const uint8_t *bytes = plan->buffer->bytes + plan->blocks.at + plan->skip;
        *ret = (struct object_bytes){ { (const char *)bytes, plan->give }, plan->buffer };
        plan->buffer = NULL;
    }
    return e;
}

/* True if the piece begins where the last piece of its record ended. A record that is read in pieces
 * is touched once, as it is when it is fetched: else time would pass faster while reads are hits. */
static bool is_next_piece(struct store_io *io, const struct read_plan *plan, uint64_t hash)
{
    struct piece_end *last = &io->ends[hash % PIECE_ENDS];
    uint64_t start = (uint64_t)plan->blocks.first * BLOCK_BYTES + plan->skip;
    bool is_next = start && last->hash == hash && last->end == start;
    *last = (struct piece_end){ hash, start + plan->give };
    return is_next;
}

/* Stamps the record as read now, and counts the touch. */
static void touch(struct store_io *io, const struct read_plan *plan)
{
    struct rule *rule = &plan->volume->rule;
    const struct tallies *tallies = volume_tallies(plan->volume);
    uint32_t ordinal = plan->entries[0].ordinal;
    extent_touch(plan->extent, ordinal, rule_stamp(rule));
    extent_count_read(plan->extent, plan->give);
    extent_note_read(plan->extent, ordinal);
    if (tallies_any_expire(tallies)) {
        struct ages *ages = extent_ages_of(plan->extent);
        uint8_t now = tallies_expire_now(tallies, ages_tally(ages, ordinal));
        if (now)
            ages_set_read(ages, ordinal, now);
    }
    uint64_t hash = mean_age_hash(&plan->id, rule_first_unit(plan->unit));
    if (!is_next_piece(io, plan, hash))
        rule_touch(rule, &io->touches[plan->volume->number], hash);
}

/* Verifies the bytes and moves them to *ret, or returns ERR_GONE, ERR_FAULT or ERR_MORE. Ends the
 * plan in each case. */
static enum err finish_bytes(struct store_io *io, struct read_plan *plan, enum err read,
                             struct object_bytes *ret)
{
    enum err e = read;
    if (!e && plan->lent)
        finish_lent(plan, ret);
    else if (!e)
        e = plan->straight.len ? finish_straight(plan, ret) : finish_buffered(plan, ret);
    if (e == ERR_GONE || e == ERR_IO)
        read_plan_disown(plan);
    if (!e && !plan->blocks.ahead)
        touch(io, plan);
    if (!e && plan->lent)
        ret->owner = read_buffer_lent(io, plan);
    else if (!e)
        locker_wants(io->store->locker, plan);
    read_plan_end(plan);
    return e == OK || e == ERR_FAULT || e == ERR_MORE ? e : ERR_GONE;
}

/* Reads the bytes again, into a read buffer. ERR_WAIT: the plan goes on, and the disk must be
 * read. */
static enum err read_again(struct store_io *io, struct read_plan *plan, const struct metadata *metadata,
                           struct object_bytes *ret)
{
    uint64_t offset = (uint64_t)plan->blocks.first * BLOCK_BYTES + plan->skip;
    metric_add(M_STORE_REREADS, 1);
    enum err e = read_plan_bytes(io, metadata, offset, offset + plan->give,
                               (struct store_to){ .ahead = plan->blocks.ahead,
                                                  .among = plan->blocks.among }, plan);
    if (e)
        return ERR_GONE;
    e = read_plan_cached(io, plan);
    return e == ERR_WAIT ? e : finish_bytes(io, plan, e, ret);
}

static void op_finish(struct store_op *op)
{
    struct object_bytes held = { { NULL, 0 }, NULL };
    enum err e = finish_bytes(op->io, &op->plan, op->err, &held);
    if (e == ERR_MORE)
        e = read_again(op->io, &op->plan, op->metadata, &held);
    if (e == ERR_WAIT) {
        op_start(op);
        return;
    }
    object_bytes_done *done = op->object_bytes_done;
    void *arg = op->arg;
    op_end(op);
    done(arg, e, held);
}

enum err store_read(struct store_io *io, const struct metadata *metadata, uint64_t offset,
                    uint64_t end, struct store_to to, object_bytes_done *done, void *arg,
                    struct object_bytes *ret, struct store_op **ret_op)
{
    struct read_plan plan;
    check(offset < end && done);
    enum err e = read_plan_bytes(io, metadata, offset, end, to, &plan);
    if (e)
        return e;
    e = read_plan_cached(io, &plan);
    if (e != ERR_WAIT)
        e = finish_bytes(io, &plan, e, ret);
    if (e == ERR_MORE)
        e = read_again(io, &plan, metadata, ret);
    if (e != ERR_WAIT)
        return e == ERR_GONE ? ERR_NOT_FOUND : e;
    struct store_op *op = op_new(io, &plan, op_finish);
    /* only the count of references changes */
    op->metadata = metadata_ref((struct metadata *)(uintptr_t)metadata);
    op->object_bytes_done = done;
    op->arg = arg;
    op_start(op);
    *ret_op = op;
    return ERR_WAIT;
}
