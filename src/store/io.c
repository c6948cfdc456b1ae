/* io.c - reads of one thread: plans, and operations that wait for the disk.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Some ops are kept for the next read. A plan holds its extent until the bytes were verified, or
 * the read has failed.
 *
 * A disk that hangs may keep a read for ever, and a read that the kernel has can't be taken back. So
 * each volume knows how many ops wait for its disk, and when the latest of them ended. After
 * commit_ms_max without an end, its watch wakes all readers (rule H3 in src/README.md). A reader
 * whose own op has waited as long says that the reads of the volume hang, and gives up its ops: for
 * the caller, the op was a miss. The buffer stays with the op until the disk answers. An op that
 * reads into its caller's memory can't be given up once the kernel has it. */
#include "store/io.h"

#include <stdlib.h>
#include <string.h>

#include "base/guard.h"
#include "base/metric.h"

#define MAPPED_LEAST (256u * 1024u)   /* a map gained 3 % for 128 KiB, a third for 1 MiB */
#define OPS_KEPT 256u                 /* a batch uses many at a time */

static_assert(VOLUMES_MAX <= DISK_LANES_MAX, "each volume has a lane");

/* ---- ops of a disk that hangs ---- */

static void give_up(struct store_op *op)
{
    struct store_op *mine = op;       /* it stays until the disk answers */
    metric_add(M_STORE_GIVEN_UP, 1);
    store_op_drop(&op);
    if (mine->metadata_done)
        mine->metadata_done(mine->arg, ERR_NOT_FOUND, NULL);
    else
        mine->object_bytes_done(mine->arg, ERR_GONE, (struct object_bytes){ { NULL, 0 }, NULL });
}

/* The disk hangs if this read has waited for too long, and no other read of it has ended meanwhile.
 * Another thread may have begun the read that the volume waits for longest, and may hang itself. */
static void judge(const struct store_op *op)
{
    struct volume *volume = op->plan.volume;
    if (volume_reads_wait_long(volume) && volume_hangs_since(volume, op->began_ms))
        atomic_store(&volume->service.reads_hang, true);
}

/* A read that the disk has answered by now does not hang, even if this thread was late to look. */
static void give_up_late(void *arg)
{
    struct store_io *io = arg;
    disk_reap(io->disk);
    list_each(struct store_op, op, &io->waiting, link)
        judge(op);
    /* Reads that have not begun give their memory back: reads of other folders may need it. */
    for (size_t i = 0; i < io->store->volume_count; i++)
        if (!volume_is_serving(io->store->volumes[i]))
            disk_cancel(io->disk, io->store->volumes[i]->number);
    for (struct list *at = io->waiting.next; at != &io->waiting;) {
        struct store_op *op = list_of(at, struct store_op, link);
        at = at->next;
        if (op->dropped || store_op_writes(op) || volume_is_serving(op->plan.volume))
            continue;
        give_up(op);
        at = io->waiting.next;    /* its caller may have dropped other ops, or begun some */
    }
}

void io_wake_all(struct store *store)
{
    pthread_mutex_lock(&store->readers_lock);
    list_each(struct store_io, io, &store->readers, link)
        ticket_wake(io->ticket);
    pthread_mutex_unlock(&store->readers_lock);
}

/* ---- a reader ---- */

struct store_io *store_io_new(struct store *store, struct mailbox *box)
{
    struct store_io *io = must_alloc(sizeof(*io));
    io->store = store;
    io->disk = disk_new(store->options.engine, box, (unsigned)store->volume_count);
    list_init(&io->gathered);
    list_init(&io->huge_pages);
    list_init(&io->waiting);
    io->ticket = ticket_new(box, give_up_late, io);
    pthread_mutex_lock(&store->readers_lock);
    list_add(&store->readers, &io->link);
    pthread_mutex_unlock(&store->readers_lock);
    return io;
}

void store_io_free(struct store_io **io)
{
    struct store_io *mine = *io;
    *io = NULL;
    if (!mine)
        return;
    pthread_mutex_lock(&mine->store->readers_lock);
    list_del(&mine->link);
    pthread_mutex_unlock(&mine->store->readers_lock);
    ticket_end(&mine->ticket);
    gather_drop(mine);
    disk_free(&mine->disk);    /* ends dropped reads that are still in progress */
    read_buffers_free(mine);
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

/* ---- plans ---- */

static void forget(const struct read_plan *plan)
{
    for (uint32_t i = 0; i < plan->unit_count; i++)
        volume_update(plan->volume, UPDATE_FORGET, &plan->id, plan->unit + i, &plan->entries[i]);
}

void read_plan_disown(const struct read_plan *plan)
{
    metric_add(M_STORE_CRC_BAD, 1);
    events_note(plan->volume->events, &plan->id, plan->unit, EVENT_DAMAGED);
    atomic_fetch_add(&plan->volume->service.bad, 1);
    forget(plan);
}

/* A lack of descriptors is a miss for now. The entries stay: the extent may be good. */
enum err read_plan_hold(struct read_plan *plan)
{
    struct extents *extents = plan->volume->extents;
    enum err e = extent_hold_record(extents, plan->entries[0].extent, plan->entries[0].ordinal,
                                    &plan->extent);    /* H1 */
    if (e == ERR_NOT_FOUND && volume_is_serving(plan->volume))    /* otherwise it has no extents */
        forget(plan);
    return e ? ERR_NOT_FOUND : OK;
}

enum err read_plan_take_buffer(struct store_io *io, struct read_plan *plan, size_t bytes)
{
    plan->buffer = bytes ? read_buffer_take(io, bytes) : NULL;
    if (!bytes || plan->buffer)
        return OK;
    extent_release(&plan->extent);
    return ERR_NOT_FOUND;
}

void read_plan_end(struct read_plan *plan)
{
    if (plan->lent)
        extent_lend_end(plan->extent);
    plan->lent = NULL;
    extent_release(&plan->extent);
    read_buffer_give(plan->buffer);
    plan->buffer = NULL;
}

const uint8_t *read_plan_found(const struct read_plan *plan, uint32_t at)
{
    const struct read_plan_straight *straight = &plan->straight;
    if (plan->lent)
        return plan->lent + plan->spans[0].at + at;
    if (straight->mapped && at >= straight->at && at - straight->at < straight->len)
        return straight->mapped + (at - straight->at);
    return read_plan_place(plan, at);
}

uint8_t *read_plan_place(const struct read_plan *plan, uint32_t at)
{
    if (at < plan->straight.at)
        return plan->buffer->bytes + at;
    if (at - plan->straight.at < plan->straight.len)
        return plan->to + at - plan->blocks.at - plan->skip;
    return plan->buffer->bytes + at - plan->straight.len;
}

unsigned span_parts(const struct read_plan *plan, uint32_t i, struct iovec parts[DISK_PARTS])
{
    const struct span *span = &plan->spans[i];
    if (i > 0 || !plan->straight.len) {
        parts[0] = (struct iovec){ plan->buffer->bytes + span->to, span->len };
        return 1;
    }
    uint32_t ends[] = { plan->straight.at, plan->straight.at + plan->straight.len, span->len };
    unsigned count = 0;
    for (uint32_t at = 0, n = 0; n < countof(ends); at = ends[n++])
        if (ends[n] > at)
            parts[count++] = (struct iovec){ read_plan_place(plan, at), ends[n] - at };
    return count;
}

/* True if a read that the page cache can't serve is better joined with others, or direct. */
static bool would_join(const struct store_io *io)
{
    return io->plugged || store_reads_direct(io->store);
}

static void note_missing(struct store_io *io)
{
    if (would_join(io))
        io->wary = WARY_READS;
}

/* An attempt to read bytes that are missing in the page cache would make the kernel read them, neither
 * joined nor direct, and would wait if the queue of the device is full. After a recent miss, the
 * answer under a plug is false at once, because the unplug asks for all gathered reads together. */
static bool is_cached(struct store_io *io, const struct read_plan *plan)
{
    bool wary = io->wary && would_join(io), cached = true;
    io->wary -= wary;
    if (wary && io->plugged)
        return false;
    for (uint32_t i = 0; i < plan->span_count && cached; i++)
        cached = disk_is_cached(extent_fd(plan->extent), plan->spans[i].at, plan->spans[i].len);
    if (!cached)
        note_missing(io);
    return cached;
}

static enum err read_span(const struct read_plan *plan, uint32_t i)
{
    struct iovec parts[DISK_PARTS];
    unsigned count = span_parts(plan, i, parts);
    uint64_t at = plan->spans[i].at;
    if (i > 0 || !plan->straight.mapped)
        return disk_read_cached(extent_fd(plan->extent), parts, count, at);
    enum err e = OK;
    for (unsigned n = 0; n < count && !e; n++) {
        uint64_t len = parts[n].iov_len;
        if (at != plan->spans[0].at + plan->straight.at)
            e = disk_read_cached(extent_fd(plan->extent), &parts[n], 1, at);
        at += len;
    }
    return e;
}

enum err read_plan_cached(struct store_io *io, struct read_plan *plan)
{
    if (plan->lent)
        return OK;
    if (!is_cached(io, plan))
        return ERR_WAIT;
    struct read_plan_straight *straight = &plan->straight;
    if (straight->len >= MAPPED_LEAST)
        straight->mapped = extent_cached(plan->extent, plan->spans[0].at + straight->at,
                                         straight->len);
    enum err e = OK;
    for (uint32_t i = 0; i < plan->span_count && !e; i++)
        e = read_span(plan, i);
    if (e)
        straight->mapped = NULL;
    if (e == ERR_WAIT)
        note_missing(io);
    metric_add(M_STORE_MAPPED, straight->mapped != NULL);
    return e;
}

/* Returns true if this is the header of the record that the index named, for this object. */
static bool header_is(const struct read_plan *plan, const struct record *record)
{
    const struct entry *entry = &plan->entries[0];
    enum record_kind kind = entry->whole ? KIND_WHOLE : KIND_HEAD;
    if (!guard_on(GUARD_IDENTITY))
        return true;
    return record->kind == kind && memcmp(&record->id, &plan->id, sizeof(plan->id)) == 0 &&
           record->etag_hash == entry->etag_hash && record->extent == entry->extent &&
           record->ordinal == entry->ordinal &&
           (entry->whole ? record->data_len : record->metadata_len) == entry->len;
}

bool read_plan_header(const struct read_plan *plan, uint32_t len, struct record *ret)
{
    const uint8_t *at = plan->lent ? plan->lent + plan->spans[plan->span_count - 1].at
                                   : plan->buffer->bytes + plan->header_at;
    slice bytes = { (const char *)at, len };
    return record_decode(bytes, ret) == OK && header_is(plan, ret);
}

/* ---- reads that must wait ---- */

struct store_op *op_new(struct store_io *io, const struct read_plan *plan,
                        void (*finish)(struct store_op *op))
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
    list_init(&op->link);
    op->plan = *plan;
    op->finish = finish;
    return op;
}

void op_end(struct store_op *op)
{
    struct store_io *io = op->io;
    read_plan_end(&op->plan);
    metadata_unref(&op->metadata);
    free((char *)op->name.ptr);
    if (io->op_count >= OPS_KEPT) {
        free(op);
        return;
    }
    op->next = io->ops;
    io->ops = op;
    io->op_count++;
}

void store_op_drop(struct store_op **op)
{
    if (*op) {
        check((*op)->pending > 0);
        (*op)->dropped = true;    /* its last op_read_ended frees it */
        list_del(&(*op)->link);
        list_add(&(*op)->io->waiting, &(*op)->link);    /* behind those that may be given up */
    }
    *op = NULL;
}

bool store_op_writes(const struct store_op *op)
{
    return op && (op->reads[0].straight || op->reads[1].straight);
}

uint64_t store_op_bytes(const struct store_op *op)
{
    return op->plan.give;
}

void op_read_ended(struct op_read *read, enum err err)
{
    struct store_op *op = read->op;
    read->straight = false;
    op->answered |= disk_has_answered(err);
    if (err && op->err != ERR_IO)
        op->err = err;
    check(op->pending > 0);
    if (--op->pending > 0)
        return;
    list_del(&op->link);
    volume_read_ended(op->plan.volume, op->answered);
    metric_add(M_STORE_GIVEN_UP, !op->dropped && op->err == ERR_CANCELED);
    if (op->dropped)
        op_end(op);
    else
        op->finish(op);
}

void op_start(struct store_op *op)
{
    struct read_plan *plan = &op->plan;
    check(plan->extent && plan->span_count > 0 && plan->span_count <= countof(op->reads));
    op->pending = plan->span_count;
    op->err = OK;
    op->answered = false;
    list_add(&op->io->waiting, &op->link);
    op->began_ms = mono_ms();
    volume_read_begins(plan->volume);
    for (uint32_t i = 0; i < plan->span_count; i++)
        op->reads[i] = (struct op_read){ .op = op, .span = i };
    for (uint32_t i = 0; i < plan->span_count; i++)
        gather_read(op->io, &op->reads[i]);
}
