/* read.c - heads and bytes, found and verified. SPDX-License-Identifier: Apache-2.0
 *
 *   index (copied out) ──> reference to the extent ──> page cache ──┬──> verified ──> OK
 *                                                └─ not there: disk ─┘ later, by done()
 *
 * A read is planned first: one span of one file, and what its blocks must add up to. Whole 64 KiB blocks
 * are read and verified, however few of their bytes are wanted. The checksums of units come with their
 * index entries; a WHOLE object's lie in its record's header, which is read in the same span where
 * the buffer takes it, else by a read of its own. What fails is counted, forgotten by the index (if it
 * still names this record), and a miss (H2).
 *
 * Buffers belong to a store_io; a few are kept for the next read. The reference to the extent is let go
 * when the bytes are in the buffer. Threads: a store_io and all that hangs on it is its owner's. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/guard.h"
#include "base/metric.h"
#include "store/inside.h"

#define SMALL_BYTES (20u * 1024u)
#define LARGE_BYTES (PIECE_BYTES_MAX + 16u * 1024u)
#define HEADER_AT PIECE_BYTES_MAX     /* in a large buffer: a header that is read by itself */
#define KEPT_MAX 8u                   /* buffers of each size */
#define BLOCKS_MAX (PIECE_BYTES_MAX / BLOCK_BYTES)
#define UNITS_MAX (BLOCKS_MAX / 2 + 1)
#define HEAD_FIRST_READ 8192u

static_assert(LARGE_BYTES - PIECE_BYTES_MAX >= RECORD_HEADER_MAX, "a header fits behind a piece");
static_assert(LARGE_BYTES >= RECORD_HEADER_MAX + HEAD_BLOCK_MAX, "and a head into a buffer");

struct buffer {
    struct store_io *io;
    struct buffer *next;              /* while it is kept */
    bool large;
    uint8_t *bytes;
};

struct span {
    uint64_t at;                      /* in the extent's file */
    uint32_t len, to;                 /* in the buffer */
};

/* What is read, and what it must be. */
struct plan {
    struct extent *extent;
    struct buffer *buffer;
    const struct head *head;          /* of a read of bytes; not owned */
    struct object_id id;
    uint32_t generation, changes;     /* a head: as they were before the index was asked */
    struct span spans[2];
    uint32_t span_count;
    struct entry entries[UNITS_MAX];  /* of units from `unit` on; or one WHOLE, or of a head */
    uint32_t unit, unit_count;
    uint32_t header_at;               /* in the buffer: WHOLE and heads */
    uint32_t blocks_at, first_block, block_count, blocks_len;    /* blocks: counted in the object */
    uint32_t skip, give;              /* of the blocks' bytes */
};

struct op_read {
    struct disk_read read;
    struct store_op *op;
};
struct store_op {
    struct store_op *next;            /* while it is kept */
    struct store_io *io;
    struct plan plan;
    struct op_read reads[2];
    uint32_t pending;
    enum err err;
    bool wants_head;
    bool dropped;
    head_done *head_done;
    piece_done *piece_done;
    void *arg;
    struct head *head;                /* a reference, while bytes are read */
    char *name;                       /* a head's, joined, to be compared */
    size_t name_len;
};

struct store_io {
    struct store *store;
    struct disk *disk;
    struct buffer *small, *large;
    uint32_t small_count, large_count;
    struct store_op *ops;
    uint32_t op_count;
};

/* ---- buffers and ops ---- */

static struct buffer *buffer_take(struct store_io *io, size_t bytes)
{
    bool large = bytes > SMALL_BYTES;
    struct buffer **kept = large ? &io->large : &io->small, *buffer = *kept;
    if (buffer) {
        *kept = buffer->next;
        *(large ? &io->large_count : &io->small_count) -= 1;
        return buffer;
    }
    if (atomic_fetch_add(&io->store->buffers, 1) >= BUFFERS_MAX) {
        atomic_fetch_sub(&io->store->buffers, 1);
        metric_add(M_STORE_NO_BUFFER, 1);
        return NULL;
    }
    buffer = must_alloc(sizeof(*buffer));
    buffer->io = io;
    buffer->large = large;
    buffer->bytes = aligned_alloc(PAGE_BYTES, large ? LARGE_BYTES : SMALL_BYTES);
    check(buffer->bytes != NULL);
    return buffer;
}

static void buffer_end(struct buffer *buffer)
{
    atomic_fetch_sub(&buffer->io->store->buffers, 1);
    free(buffer->bytes);
    free(buffer);
}

static void buffer_give(struct buffer *buffer)
{
    if (!buffer)
        return;
    struct store_io *io = buffer->io;
    uint32_t *count = buffer->large ? &io->large_count : &io->small_count;
    if (*count >= KEPT_MAX) {
        buffer_end(buffer);
        return;
    }
    struct buffer **kept = buffer->large ? &io->large : &io->small;
    buffer->next = *kept;
    *kept = buffer;
    ++*count;
}

void piece_release(struct piece *piece)
{
    buffer_give(piece->owner);
    *piece = (struct piece){ { NULL, 0 }, NULL };
}

struct store_io *store_io_new(struct store *store, struct mailbox *box)
{
    struct store_io *io = must_alloc(sizeof(*io));
    io->store = store;
    io->disk = disk_new(store->options.engine, box);
    return io;
}

void store_io_free(struct store_io **io)
{
    struct store_io *mine = *io;
    *io = NULL;
    if (!mine)
        return;
    disk_free(&mine->disk);    /* ends what was dropped and is still under way */
    for (struct buffer *next, *at = mine->small; at; at = next) {
        next = at->next;
        buffer_end(at);
    }
    for (struct buffer *next, *at = mine->large; at; at = next) {
        next = at->next;
        buffer_end(at);
    }
    for (struct store_op *next, *at = mine->ops; at; at = next) {
        next = at->next;
        free(at);
    }
    free(mine);
}

void store_io_reap(struct store_io *io)
{
    disk_reap(io->disk);
}

static struct store_op *op_new(struct store_io *io, const struct plan *plan)
{
    struct store_op *op = io->ops;
    if (op) {
        io->ops = op->next;
        io->op_count--;
        memset(op, 0, sizeof(*op));
    } else {
        op = must_alloc(sizeof(*op));
    }
    op->io = io;
    op->plan = *plan;
    return op;
}

static void op_end(struct store_op *op)
{
    struct store_io *io = op->io;
    extent_release(&op->plan.extent);
    buffer_give(op->plan.buffer);
    head_unref(&op->head);
    free(op->name);
    if (io->op_count >= 4 * KEPT_MAX) {
        free(op);
        return;
    }
    op->next = io->ops;
    io->ops = op;
    io->op_count++;
}

void store_op_drop(struct store_op **op)
{
    if (*op)
        (*op)->dropped = true;    /* op_read_done ends it */
    *op = NULL;
}

/* ---- verifying ---- */

/* The record's header is that of the record the index named, for this object. */
static bool header_is(const struct plan *plan, const struct record *record)
{
    const struct entry *entry = &plan->entries[0];
    enum record_kind kind = entry->whole ? KIND_WHOLE : KIND_HEAD;
    if (!guard_on(GUARD_IDENTITY))
        return true;
    return record->kind == kind && memcmp(&record->id, &plan->id, sizeof(plan->id)) == 0 &&
           record->etag_hash == entry->etag_hash && record->extent == entry->extent &&
           record->ordinal == entry->ordinal &&
           (entry->whole ? record->data_len : record->head_len) == entry->len;
}

static bool read_header(const struct plan *plan, uint32_t len, struct record *ret)
{
    slice bytes = { (const char *)plan->buffer->bytes + plan->header_at, len };
    return record_decode(bytes, ret) == OK && header_is(plan, ret);
}

/* ERR_CHANGED: the record is fine, but its head is not the one the plan was made with. */
static enum err verify_blocks(const struct plan *plan)
{
    struct record record;
    bool whole = plan->entries[0].whole;
    if (whole && !read_header(plan, record_header_bytes(plan->entries[0].len), &record))
        return ERR_GONE;
    if (whole && record.head_len != head_block_bytes(plan->head))
        return ERR_CHANGED;
    const uint8_t *at = plan->buffer->bytes + plan->blocks_at;
    for (uint32_t i = 0; i < plan->block_count; i++) {
        uint32_t block = plan->first_block + i, unit = block / 2;
        uint32_t len = MIN(BLOCK_BYTES, plan->blocks_len - i * BLOCK_BYTES);
        uint32_t want = whole ? record.crc[block]
                              : (uint32_t)(plan->entries[unit - plan->unit].mark >> (block % 2 * 32));
        if (guard_on(GUARD_CRC) &&
            block_crc(&plan->id, plan->entries[0].etag_hash, unit, at, len) != want)
            return ERR_GONE;
        at += len;
    }
    return OK;
}

/* What the plan was made from is no good: the index forgets it. */
static void disown(struct store_io *io, const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->unit_count; i++)
        store_tweak(io->store, TWEAK_FORGET, &plan->id, plan->unit + i, &plan->entries[i]);
}

/* H1. Out of descriptors is a miss for now: the entry is as good as before. */
static enum err hold(struct store_io *io, struct plan *plan)
{
    enum err e = extent_hold(io->store->extents, plan->entries[0].extent, &plan->extent);
    if (e == ERR_NOT_FOUND)
        disown(io, plan);
    return e;
}

static void plan_end(struct plan *plan)
{
    extent_release(&plan->extent);
    buffer_give(plan->buffer);
    plan->buffer = NULL;
}

static enum err read_cached(const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->span_count; i++) {
        const struct span *span = &plan->spans[i];
        enum err e = disk_read_cached(extent_fd(plan->extent), plan->buffer->bytes + span->to, span->len,
                                      span->at);
        if (e)
            return e;
    }
    return OK;
}

/* ---- reads that must wait ---- */

static void op_finish(struct store_op *op);

static void op_read_done(struct disk_read *read, enum err err, size_t got)
{
    struct store_op *op = container_of(read, struct op_read, read)->op;
    if (err || got < read->len)
        op->err = ERR_IO;
    if (--op->pending == 0)
        op_finish(op);
}

static void op_start(struct store_op *op)
{
    struct plan *plan = &op->plan;
    op->pending = plan->span_count;
    op->err = OK;
    for (uint32_t i = 0; i < plan->span_count; i++) {
        op->reads[i].op = op;
        op->reads[i].read = (struct disk_read){ .fd = extent_fd(plan->extent),
                                                .buffer = plan->buffer->bytes + plan->spans[i].to,
                                                .len = plan->spans[i].len,
                                                .offset = plan->spans[i].at,
                                                .done = op_read_done };
    }
    for (uint32_t i = 0; i < plan->span_count; i++)
        disk_read(op->io->disk, &op->reads[i].read);
}

/* ---- heads ---- */

static enum err plan_head(struct store_io *io, const struct object_id *id, struct plan *plan)
{
    struct store *store = io->store;
    struct entry *entry = &plan->entries[0];
    *plan = (struct plan){ .id = *id, .unit_count = 1 };
    if (!store_is_serving(store))
        return ERR_NOT_FOUND;
    plan->generation = atomic_load(&store->generation);
    plan->changes = atomic_load(change_counter(store, id));
    if (index_get_head(store->index, id, &plan->unit, entry) != OK)
        return ERR_NOT_FOUND;
    if (hold(io, plan) != OK)
        return ERR_NOT_FOUND;
    uint64_t len = record_header_bytes(0) + (uint64_t)entry->len;
    if (entry->whole) {    /* how long the head is says the header; the append goes on to a full page */
        uint64_t least = entry->offset + record_header_bytes(entry->len) + (uint64_t)entry->len;
        len = MIN(HEAD_FIRST_READ, round_up(least, PAGE_BYTES) - entry->offset);
    }
    len = MIN(len, LARGE_BYTES);
    plan->spans[plan->span_count++] = (struct span){ .at = entry->offset, .len = (uint32_t)len };
    plan->buffer = buffer_take(io, len);
    if (!plan->buffer)
        extent_release(&plan->extent);
    return plan->buffer ? OK : ERR_NOT_FOUND;
}

/* ERR_MORE: the head is longer than what was read; the plan says now how long. */
static enum err decode_head(struct store_io *io, struct plan *plan, struct head **ret)
{
    struct record record;
    struct span *span = &plan->spans[0];
    if (!read_header(plan, span->len, &record))
        return ERR_GONE;
    uint32_t start = record_header_bytes(record.data_len), need = start + record.head_len;
    if (need > span->len) {
        if (!plan->buffer->large) {
            buffer_give(plan->buffer);
            plan->buffer = buffer_take(io, LARGE_BYTES);
        }
        span->len = need;
        return plan->buffer ? ERR_MORE : ERR_LIMIT;
    }
    slice bytes = { (const char *)plan->buffer->bytes + start, record.head_len };
    if (guard_on(GUARD_CRC) && record.head_crc != block_crc(&plan->id, plan->entries[0].etag_hash,
                                                            HEAD_UNIT, bytes.ptr, bytes.len))
        return ERR_GONE;
    struct head *head = head_block_decode(&plan->id, bytes);
    bool right = head && (!guard_on(GUARD_IDENTITY) ||
                          (head->etag_hash == record.etag_hash &&
                           head_mark(head->size, head->modified_s) == plan->entries[0].mark &&
                           (record.kind == KIND_HEAD || head->size == record.data_len)));
    if (!right)
        head_unref(&head);
    *ret = head;
    return right ? OK : ERR_GONE;
}

/* Into RAM, but not over what was committed, removed or doubted since the index was asked. */
static void remember_head(struct store *store, const struct plan *plan, struct head *head)
{
    atomic_store(&head->validated_s, extent_time(plan->extent, plan->entries[0].ordinal));
    atomic_store(&head->unproved, plan->entries[0].generation != plan->generation);
    heads_put(store->heads, head);
    if (atomic_load(change_counter(store, &plan->id)) != plan->changes)
        heads_drop(store->heads, &plan->id);
    if (atomic_load(&store->generation) != plan->generation || !store_is_serving(store)) {
        atomic_store(&head->unproved, true);
        heads_drop(store->heads, &plan->id);
    }
}

static enum err finish_head(struct store_io *io, struct plan *plan, struct head **ret)
{
    enum err e = decode_head(io, plan, ret);
    if (!e)
        remember_head(io->store, plan, *ret);
    if (e == ERR_GONE) {
        metric_add(M_STORE_CRC_BAD, 1);
        disown(io, plan);
    }
    return e == OK || e == ERR_MORE ? e : ERR_NOT_FOUND;
}

static bool is_named(const struct head *head, const struct object_name *name)
{
    return !guard_on(GUARD_IDENTITY) || head_is_named(head, name);
}

/* What the page cache has. ERR_WAIT: the plan stands, and the disk must be asked. */
static enum err head_at_once(struct store_io *io, struct plan *plan, struct head **ret)
{
    enum err e;
    do {
        e = read_cached(plan);
        if (e == ERR_WAIT)
            return e;
        if (e) {
            metric_add(M_STORE_CRC_BAD, 1);
            disown(io, plan);
            e = ERR_NOT_FOUND;
            break;
        }
        e = finish_head(io, plan, ret);
    } while (e == ERR_MORE);
    plan_end(plan);
    return e;
}

/* As a head keeps it: each part but the last with a NUL behind it. */
static void name_keep(struct store_op *op, const struct object_name *name)
{
    const slice parts[] = { name->endpoint, name->bucket, name->key, name->version };
    size_t len = countof(parts) - 1;
    for (size_t i = 0; i < countof(parts); i++)
        len += parts[i].len;
    op->name = must_alloc(len + 1);
    op->name_len = 0;
    for (size_t i = 0; i < countof(parts); i++) {
        if (parts[i].len)
            memcpy(op->name + op->name_len, parts[i].ptr, parts[i].len);
        op->name_len += parts[i].len + 1;
    }
    op->name_len = len;
}

enum err store_head(struct store_io *io, const struct object_id *id, const struct object_name *name,
                    head_done *done, void *arg, struct head **ret, struct store_op **ret_op)
{
    struct head *head = heads_get(io->store->heads, id);
    struct plan plan;
    enum err e = head ? OK : plan_head(io, id, &plan);
    if (!head && !e)
        e = head_at_once(io, &plan, &head);
    if (e == ERR_WAIT) {
        struct store_op *op = op_new(io, &plan);
        op->wants_head = true;
        op->head_done = done;
        op->arg = arg;
        name_keep(op, name);
        op_start(op);
        *ret_op = op;
        return ERR_WAIT;
    }
    if (!e && !is_named(head, name)) {
        head_unref(&head);
        e = ERR_NOT_FOUND;
    }
    if (!e)
        *ret = head;
    return e;
}

static void op_finish_head(struct store_op *op)
{
    struct head *head = NULL;
    enum err e = ERR_NOT_FOUND;
    if (op->err) {
        metric_add(M_STORE_CRC_BAD, 1);
        disown(op->io, &op->plan);
    } else {
        e = finish_head(op->io, &op->plan, &head);
    }
    if (e == ERR_MORE) {
        op_start(op);
        return;
    }
    if (!e && guard_on(GUARD_IDENTITY) && !slice_eq(head->name, (slice){ op->name, op->name_len })) {
        head_unref(&head);
        e = ERR_NOT_FOUND;
    }
    head_done *done = op->head_done;
    void *arg = op->arg;
    op_end(op);
    done(arg, e, head);
}

/* ---- bytes ---- */

static uint32_t len_of_unit(const struct head *head, uint32_t unit)
{
    return (uint32_t)MIN(UNIT_BYTES, head->size - (uint64_t)unit * UNIT_BYTES);
}

/* How many of the entries found lie in a row in one record, and are this head's. */
static uint32_t fitting(const struct head *head, uint32_t unit, const struct entry *entries, uint32_t count)
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

/* Where in the file the wanted blocks lie, and for WHOLE the header, in one span if the buffer takes both. */
static void plan_spans(struct plan *plan, uint64_t blocks_start)
{
    const struct entry *entry = &plan->entries[0];
    if (!entry->whole) {
        uint64_t at = entry->offset + blocks_start - (uint64_t)plan->unit * UNIT_BYTES;
        plan->spans[0] = (struct span){ .at = at, .len = plan->blocks_len };
        plan->span_count = 1;
        return;
    }
    uint64_t at = record_data_at(entry->offset, entry->len, (uint32_t)head_block_bytes(plan->head)) +
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

static enum err plan_bytes(struct store_io *io, const struct head *head, uint64_t offset, uint64_t end,
                           struct plan *plan)
{
    *plan = (struct plan){ .head = head, .id = head->id };
    end = MIN(end, head->size);
    if (offset >= end || !store_is_serving(io->store))
        return ERR_NOT_FOUND;
    uint64_t first = offset / BLOCK_BYTES, last = MIN((end - 1) / BLOCK_BYTES, first + BLOCKS_MAX - 1);
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
    if (hold(io, plan) != OK)
        return ERR_NOT_FOUND;
    plan->buffer = buffer_take(io, plan->span_count == 2 ? LARGE_BYTES : plan->spans[0].len);
    if (!plan->buffer)
        extent_release(&plan->extent);
    return plan->buffer ? OK : ERR_NOT_FOUND;
}

/* Takes the plan's buffer into *ret, or fails and lets go of it. */
static enum err finish_bytes(struct store_io *io, struct plan *plan, enum err read, struct piece *ret)
{
    enum err e = read ? ERR_GONE : verify_blocks(plan);
    if (e == ERR_GONE) {
        metric_add(M_STORE_CRC_BAD, 1);
        disown(io, plan);
    }
    if (!e) {
        const uint8_t *bytes = plan->buffer->bytes + plan->blocks_at + plan->skip;
        *ret = (struct piece){ { (const char *)bytes, plan->give }, plan->buffer };
        plan->buffer = NULL;
    }
    plan_end(plan);
    return e ? ERR_GONE : OK;
}

enum err store_read(struct store_io *io, const struct head *head, uint64_t offset, uint64_t end,
                    piece_done *done, void *arg, struct piece *ret, struct store_op **ret_op)
{
    struct plan plan;
    enum err e = plan_bytes(io, head, offset, end, &plan);
    if (e)
        return e;
    e = read_cached(&plan);
    if (e != ERR_WAIT)
        return finish_bytes(io, &plan, e, ret) ? ERR_NOT_FOUND : OK;
    struct store_op *op = op_new(io, &plan);
    op->head = head_ref((struct head *)(uintptr_t)head);    /* counted, not changed */
    op->piece_done = done;
    op->arg = arg;
    op_start(op);
    *ret_op = op;
    return ERR_WAIT;
}

static void op_finish_bytes(struct store_op *op)
{
    struct piece piece = { { NULL, 0 }, NULL };
    enum err e = finish_bytes(op->io, &op->plan, op->err, &piece);
    piece_done *done = op->piece_done;
    void *arg = op->arg;
    op_end(op);
    done(arg, e, piece);
}

static void op_finish(struct store_op *op)
{
    if (op->dropped)
        op_end(op);
    else if (op->wants_head)
        op_finish_head(op);
    else
        op_finish_bytes(op);
}
