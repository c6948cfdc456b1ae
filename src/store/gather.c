/* gather.c - joins neighbouring reads of the disk, and decides which reads are direct.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   plug ─ reads ─> gathered ─ unplug: by extent and offset ─┬─ alone: directly to its memory
 *                                                            └─ bulk: neighbours, one read
 *
 * A bulk is one read into one buffer, from which each member of the bulk gets its bytes. Small
 * objects that were stored together lie side by side, and one read of a megabyte costs as much as a
 * few small reads. If the bulk did not bring the bytes of a member, because the disk failed or the
 * file is shorter, that member is read alone: a fault of one member says nothing about the others.
 * A large read is not joined, because the copy would cost more than it saves.
 *
 * A direct read (O_DIRECT) is a bulk, too, even if it has one member. It reads whole pages around
 * the wanted bytes; pages for the caller's own memory go directly there. The kernel first writes
 * dirty pages back, so that the read finds bytes that were appended just now. If the page cache is
 * much smaller than the data that is read again and again, it drops each page before the next read
 * of it, and each page costs a copy and an eviction. So reads bypass it. But bytes that are read
 * again within as many reads as the page cache could hold are read through the page cache.
 *
 * Threads: a store_io, its buffers and its ops belong to one thread. */
#include <stdlib.h>

#include "base/metric.h"
#include "base/trap.h"
#include "store/io.h"

#define LARGE_READ (UNIT_BYTES + 8u * 1024u)    /* a unit, and the metadata before it */

struct bulk {
    struct disk_read read;
    struct store_io *io;
    struct extents *extents;          /* of the volume that has the file */
    struct read_buffer *buffer;       /* NULL: no byte needs a copy */
    uint64_t at, end;                 /* in the extent's file */
    /* The part of it that is read directly to its place. Without such a part, both are `end`. */
    uint64_t straight_at, straight_end;
    struct list members;
};

static const struct span *span_of(const struct op_read *read)
{
    return &read->op->plan.spans[read->span];
}

static uint64_t end_of(const struct op_read *read)
{
    return span_of(read)->at + span_of(read)->len;
}

/* ---- direct reads ---- */

bool store_reads_direct(const struct store *store)
{
    enum cold_reads how = store->options.cold_reads;
    return how == COLD_DIRECT ||
           (how == COLD_AUTO &&
            store_bytes(store) > store->options.memory_bytes / 2);
}

/* Returns true if this place was read recently, and marks it as read. The volume is part of the
 * mark, because extents of several volumes have the same numbers. */
static bool comes_again(struct store *store, const struct read_plan *plan, uint64_t at)
{
    uint64_t place = (uint64_t)plan->entries[0].extent << 32 | at / BLOCK_BYTES;
    uint64_t mixed = (place ^ (uintptr_t)plan->volume << 8) * 0x9E3779B97F4A7C15u;
    uint32_t mark = (uint32_t)mixed | 1;
    if (store->options.cold_reads == COLD_DIRECT)
        return false;
    return atomic_exchange_explicit(&store->lately[(mixed >> 32) % store->lately_count], mark,
                                    memory_order_relaxed) == mark;
}

/* Returns the descriptor for a direct read from the place of `read` to `end`, or -1 for a read
 * through the page cache. The result is -1 for bytes that the page cache has, or that were read
 * recently; also for all metadata, because the bytes of a small object lie behind it. */
static int direct_fd(struct store_io *io, const struct op_read *read, uint64_t end)
{
    const struct read_plan *plan = &read->op->plan;
    uint64_t at = span_of(read)->at;
    bool direct = plan->metadata && store_reads_direct(io->store);
    if (!(direct || io->wary) || disk_is_cached(extent_fd(plan->extent), at, end - at))
        return -1;
    io->wary = WARY_READS;
    if (!direct || comes_again(io->store, plan, at))
        return -1;
    return extent_direct_fd(plan->extent);
}

/* ---- alone ---- */

static void alone_done(struct disk_read *disk_read, enum err err, size_t got)
{
    struct op_read *read = container_of(disk_read, struct op_read, read);
    op_read_ended(read, err ? err : got < disk_read->len ? ERR_IO : OK);
}

static void go_buffered(struct store_io *io, struct op_read *read)
{
    const struct read_plan *plan = &read->op->plan;
    read->straight = read->span == 0 && plan->straight.len > 0;
    read->read = (struct disk_read){ .fd = extent_fd(plan->extent), .lane = plan->volume->number,
                                     .offset = span_of(read)->at, .done = alone_done };
    read->read.part_count = span_parts(plan, read->span, read->read.parts);
    disk_read(io->disk, &read->read);
}

/* The read that ended with `err` did not bring the bytes of this member. */
static void go_on_buffered(struct store_io *io, struct op_read *read, enum err err)
{
    if (disk_has_answered(err)) {
        volume_read_goes_on(read->op->plan.volume);
        read->op->began_ms = mono_ms();
    }
    go_buffered(io, read);
}

/* ---- in bulk ---- */

/* Returns ERR_FAULT if the reader has unmapped its memory. */
static enum err copy_to(struct iovec to, const uint8_t *from)
{
    return trap_copy_to(to.iov_base, from, to.iov_len) ? OK : ERR_FAULT;
}

/* Copies the bytes [from, end) of the file from the buffer of the bulk. */
static enum err copy_range(const struct bulk *bulk, uint8_t *to, uint64_t from, uint64_t end)
{
    if (from >= end)
        return OK;
    uint64_t at = from - bulk->at;
    if (from >= bulk->straight_end)
        at -= bulk->straight_end - bulk->straight_at;
    return copy_to((struct iovec){ to, end - from }, bulk->buffer->bytes + at);
}

static enum err scatter(const struct bulk *bulk, const struct op_read *read)
{
    struct iovec parts[DISK_PARTS];
    unsigned count = span_parts(&read->op->plan, read->span, parts);
    uint64_t from = span_of(read)->at;
    enum err e = OK;
    for (unsigned i = 0; i < count && !e; from += parts[i++].iov_len) {
        uint8_t *to = parts[i].iov_base;
        uint64_t end = from + parts[i].iov_len, behind = MAX(from, bulk->straight_end);
        e = copy_range(bulk, to, from, MIN(end, bulk->straight_at));
        if (!e && behind < end)
            e = copy_range(bulk, to + (behind - from), behind, end);
    }
    return e;
}

static void bulk_done(struct disk_read *disk_read, enum err err, size_t got)
{
    struct bulk *bulk = container_of(disk_read, struct bulk, read);
    uint64_t brought = err ? 0 : bulk->at + got;
    if (err == ERR_BAD_ARGUMENT)
        extent_refuse_direct(bulk->extents);
    list_each_safe(struct op_read, read, &bulk->members, link) {
        list_del(&read->link);
        if (read->op->dropped || err == ERR_CANCELED)
            op_read_ended(read, err);
        else if (end_of(read) <= brought)
            op_read_ended(read, scatter(bulk, read));
        else
            go_on_buffered(bulk->io, read, err);
    }
    read_buffer_give(bulk->buffer);
    free(bulk);
}

/* Finds the pages that can be read directly to their place. If all bytes go to the plan's buffer,
 * and the only span begins on a page, the whole span can: the buffer begins on a page, too, and has
 * room for whole pages. Otherwise the whole pages for the reader's memory can. */
static void find_straight(struct bulk *bulk, struct op_read *read)
{
    const struct read_plan *plan = &read->op->plan;
    if (!plan->straight.len && plan->span_count == 1 && bulk->at == span_of(read)->at) {
        bulk->straight_at = bulk->at;
        return;
    }
    uint64_t at = span_of(read)->at + plan->straight.at;
    uint64_t len = plan->straight.len / DISK_ALIGN * DISK_ALIGN;
    if (read->span > 0 || !len || at % DISK_ALIGN ||
        (uintptr_t)read_plan_place(plan, plan->straight.at) % DISK_ALIGN)
        return;
    bulk->straight_at = at;
    bulk->straight_end = at + len;
    read->straight = true;
}

static void aim(struct bulk *bulk, const struct op_read *first)
{
    const struct read_plan *plan = &first->op->plan;
    struct iovec parts[] = {
        { NULL, bulk->straight_at - bulk->at },
        { NULL, bulk->straight_end - bulk->straight_at },
        { NULL, bulk->end - bulk->straight_end },
    };
    if (bulk->buffer) {
        parts[0].iov_base = bulk->buffer->bytes;
        parts[2].iov_base = bulk->buffer->bytes + parts[0].iov_len;
    }
    if (parts[1].iov_len)
        parts[1].iov_base = read_plan_place(plan, plan->straight.at);
    for (size_t i = 0; i < countof(parts); i++)
        if (parts[i].iov_len)
            bulk->read.parts[bulk->read.part_count++] = parts[i];
}

/* Starts one read for neighbours that lie before `end`. It is direct if `fd` is not -1. Returns
 * false if there is no buffer for it. */
static bool go_bulk(struct store_io *io, struct op_read **reads, size_t count, uint64_t end, int fd)
{
    uint64_t align = fd >= 0 ? DISK_ALIGN : 1, at = span_of(reads[0])->at / align * align;
    struct bulk bulk = { .io = io, .extents = reads[0]->op->plan.volume->extents,
                         .at = at, .end = round_up(end, align) };
    bulk.straight_at = bulk.straight_end = bulk.end;
    if (fd >= 0 && count == 1)
        find_straight(&bulk, reads[0]);
    size_t buffered = bulk.end - at - (bulk.straight_end - bulk.straight_at);
    bulk.buffer = buffered ? read_buffer_take(io, buffered) : NULL;
    if (buffered && !bulk.buffer) {
        reads[0]->straight = false;
        return false;
    }
    bulk.read = (struct disk_read){ .fd = fd, .lane = reads[0]->op->plan.volume->number,
                                    .direct = fd >= 0, .offset = at, .done = bulk_done };
    if (fd < 0)
        bulk.read.fd = extent_fd(reads[0]->op->plan.extent);
    aim(&bulk, reads[0]);
    struct bulk *mine = must_alloc(sizeof(*mine));
    *mine = bulk;
    list_init(&mine->members);
    for (size_t i = 0; i < count; i++)
        list_add(&mine->members, &reads[i]->link);
    metric_add(M_STORE_DIRECT, fd >= 0);
    metric_add(M_STORE_BEYOND, bulk.end - at - (end - span_of(reads[0])->at));
    disk_read(io->disk, &mine->read);
    return true;
}

static void go_alone(struct store_io *io, struct op_read *read)
{
    int fd = direct_fd(io, read, end_of(read));
    if (fd < 0 || !go_bulk(io, &read, 1, end_of(read), fd))
        go_buffered(io, read);
}

/* ---- together ---- */

static int by_place(const void *a, const void *b)
{
    const struct op_read *left = *(struct op_read *const *)a, *right = *(struct op_read *const *)b;
    uintptr_t volumes[] = { (uintptr_t)left->op->plan.volume, (uintptr_t)right->op->plan.volume };
    uint32_t extents[] = { left->op->plan.entries[0].extent, right->op->plan.entries[0].extent };
    uint64_t ats[] = { span_of(left)->at, span_of(right)->at };
    if (volumes[0] != volumes[1])
        return volumes[0] < volumes[1] ? -1 : 1;
    if (extents[0] != extents[1])
        return extents[0] < extents[1] ? -1 : 1;
    return (ats[0] > ats[1]) - (ats[0] < ats[1]);
}

/* Returns how many reads, from the first one on, become one read. *ret_end is the end of that read,
 * and *ret_beyond the number of bytes in it that no member wants. */
static size_t neighbours(const struct store_io *io, struct op_read **reads, size_t count,
                         uint64_t *ret_end, uint64_t *ret_beyond)
{
    uint64_t at = span_of(reads[0])->at, end = end_of(reads[0]), beyond = 0;
    size_t n = 1;
    for (; n < count && span_of(reads[n - 1])->len <= LARGE_READ; n++) {
        const struct span *next = span_of(reads[n]);
        if (reads[n]->op->plan.extent != reads[0]->op->plan.extent || next->len > LARGE_READ ||
            next->at > end + io->store->options.read_gap_bytes ||
            MAX(end, end_of(reads[n])) - at > MERGED_BYTES_MAX)
            break;
        beyond += next->at > end ? next->at - end : 0;
        end = MAX(end, end_of(reads[n]));
    }
    *ret_end = end;
    *ret_beyond = beyond;
    return n;
}

static void start_sorted(struct store_io *io, struct op_read **reads, size_t count)
{
    for (size_t n; count > 0; reads += n, count -= n) {
        uint64_t end, beyond;
        n = neighbours(io, reads, count, &end, &beyond);
        if (n > 1 && go_bulk(io, reads, n, end, direct_fd(io, reads[0], end))) {
            metric_add(M_STORE_MERGED, n);
            metric_add(M_STORE_BEYOND, beyond);
        } else {
            n = 1;
            go_alone(io, reads[0]);
        }
    }
}

/* Moves the gathered reads to `reads`. If the op of a read was dropped, the read ends here. */
static size_t take_gathered(struct store_io *io, struct op_read **reads)
{
    size_t count = 0;
    uint64_t now_ms = mono_ms();
    list_each_safe(struct op_read, read, &io->gathered, link) {
        list_del(&read->link);
        read->op->began_ms = now_ms;    /* before, nothing was asked of the disk */
        if (read->op->dropped)
            op_read_ended(read, ERR_CANCELED);
        else
            reads[count++] = read;
    }
    io->gathered_count = 0;
    return count;
}

void gather_read(struct store_io *io, struct op_read *read)
{
    list_init(&read->link);
    if (!io->plugged) {
        go_alone(io, read);
        return;
    }
    metric_add(M_STORE_GATHERED, 1);
    list_add(&io->gathered, &read->link);
    io->gathered_count++;
}

void gather_drop(struct store_io *io)
{
    list_each_safe(struct op_read, read, &io->gathered, link) {
        check(read->op->dropped);
        list_del(&read->link);
        op_read_ended(read, ERR_CANCELED);
    }
}

void store_io_plug(struct store_io *io)
{
    check(!io->plugged);
    io->plugged = true;
}

void store_io_unplug(struct store_io *io)
{
    check(io->plugged);
    io->plugged = false;
    if (!io->gathered_count)
        return;
    struct op_read **reads = must_alloc(io->gathered_count * sizeof(*reads));
    size_t count = take_gathered(io, reads);
    if (count > 1)
        qsort(reads, count, sizeof(*reads), by_place);
    disk_hold(io->disk);
    start_sorted(io, reads, count);
    disk_go(io->disk);
    free(reads);
}
