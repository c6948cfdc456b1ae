/* gather.c - reads that go to the disk together. SPDX-License-Identifier: Apache-2.0
 *
 *   plug ── reads ──> gathered ── unplug: by extent and offset ──┬── alone: straight to its memory
 *                                                                └── bulk: neighbours, one read
 *
 * A bulk is one read into one buffer, from which each of its members gets its bytes. Small objects
 * that came together lie side by side, and one read of a megabyte costs what a few small ones do. A
 * member that the bulk did not bring, because the disk failed or the file is shorter, is read by
 * itself: what is wrong with one says nothing about its neighbours. A large read stays alone, as a
 * copy costs more than it saves.
 *
 * Threads: a store_io and all that hangs on it is its owner's. */
#include <stdlib.h>
#include <string.h>

#include "base/metric.h"
#include "store/io.h"
#include "store/trap.h"

#define LARGE_READ (UNIT_BYTES + 8u * 1024u)    /* a unit, and the head before it */

struct bulk {
    struct disk_read read;
    struct store_io *io;
    struct buffer *buffer;
    uint64_t at, end;                 /* in the extent's file */
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

/* ---- alone ---- */

static void alone_done(struct disk_read *disk_read, enum err err, size_t got)
{
    struct op_read *read = container_of(disk_read, struct op_read, read);
    op_read_ended(read, err ? err : got < disk_read->len ? ERR_IO : OK);
}

static void go_alone(struct store_io *io, struct op_read *read)
{
    const struct plan *plan = &read->op->plan;
    read->straight = read->span == 0 && plan->straight_len > 0;
    read->read = (struct disk_read){ .fd = extent_fd(plan->extent), .offset = span_of(read)->at,
                                     .done = alone_done };
    read->read.part_count = span_parts(plan, read->span, read->read.parts);
    disk_read(io->disk, &read->read);
}

/* ---- in bulk ---- */

struct copying {
    void *to;
    const void *from;
    size_t bytes;
};

static int copy(void *ask)
{
    const struct copying *copying = ask;
    memcpy(copying->to, copying->from, copying->bytes);
    return 0;
}

/* The reader's memory may be gone. */
static enum err copy_to(struct iovec to, const uint8_t *from)
{
    int none;
    struct copying copying = { to.iov_base, from, to.iov_len };
    return trap_read(copy, &copying, (slice){ to.iov_base, to.iov_len }, &none) ? OK : ERR_FAULT;
}

static enum err scatter(const struct bulk *bulk, const struct op_read *read)
{
    struct iovec parts[DISK_PARTS];
    unsigned count = span_parts(&read->op->plan, read->span, parts);
    const uint8_t *from = bulk->buffer->bytes + (span_of(read)->at - bulk->at);
    enum err e = OK;
    for (unsigned i = 0; i < count && !e; from += parts[i++].iov_len)
        e = copy_to(parts[i], from);
    return e;
}

static void bulk_done(struct disk_read *disk_read, enum err err, size_t got)
{
    struct bulk *bulk = container_of(disk_read, struct bulk, read);
    uint64_t brought = err ? 0 : bulk->at + got;
    list_each_safe(struct op_read, read, &bulk->members, link) {
        list_del(&read->link);
        if (read->op->dropped)
            op_read_ended(read, OK);
        else if (end_of(read) <= brought)
            op_read_ended(read, scatter(bulk, read));
        else
            go_alone(bulk->io, read);
    }
    buffer_give(bulk->buffer);
    free(bulk);
}

/* Of neighbours, all in [at, end). false: no buffer for it. */
static bool go_bulk(struct store_io *io, struct op_read **reads, size_t count, uint64_t end)
{
    uint64_t at = span_of(reads[0])->at;
    struct buffer *buffer = buffer_take(io, end - at);
    if (!buffer)
        return false;
    struct bulk *bulk = must_alloc(sizeof(*bulk));
    *bulk = (struct bulk){ .io = io, .buffer = buffer, .at = at, .end = end };
    list_init(&bulk->members);
    for (size_t i = 0; i < count; i++)
        list_add(&bulk->members, &reads[i]->link);
    bulk->read = (struct disk_read){ .fd = extent_fd(reads[0]->op->plan.extent), .offset = at,
                                     .part_count = 1, .parts = { { buffer->bytes, end - at } },
                                     .done = bulk_done };
    disk_read(io->disk, &bulk->read);
    return true;
}

/* ---- together ---- */

static int by_place(const void *a, const void *b)
{
    const struct op_read *left = *(struct op_read *const *)a, *right = *(struct op_read *const *)b;
    uint32_t extents[] = { left->op->plan.entries[0].extent, right->op->plan.entries[0].extent };
    uint64_t ats[] = { span_of(left)->at, span_of(right)->at };
    if (extents[0] != extents[1])
        return extents[0] < extents[1] ? -1 : 1;
    return (ats[0] > ats[1]) - (ats[0] < ats[1]);
}

/* The neighbours of the first that become one read with it; where that ends, and how much of it
 * nobody wants. */
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
        if (n > 1 && go_bulk(io, reads, n, end)) {
            metric_add(M_STORE_MERGED, n);
            metric_add(M_STORE_BEYOND, beyond);
        } else {
            n = 1;
            go_alone(io, reads[0]);
        }
    }
}

/* Those that were dropped meanwhile end here. */
static size_t take_gathered(struct store_io *io, struct op_read **reads)
{
    size_t count = 0;
    list_each_safe(struct op_read, read, &io->gathered, link) {
        list_del(&read->link);
        if (read->op->dropped)
            op_read_ended(read, OK);
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
        op_read_ended(read, OK);
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
