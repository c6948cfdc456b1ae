/* read_metadata.c - metadata, found in RAM or on the disk and verified.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Metadata lies in a record of its own, or before the bytes of a WHOLE object. In a WHOLE record,
 * only the header has the length of the metadata, so long metadata takes a second read. Metadata
 * that fails its checks is counted and is a miss (rule H2 in src/README.md), and the index forgets
 * it if it still names this record. Metadata that was read goes into RAM, unless a commit, a
 * removal or an unclean opening came in between. Threads: a store_io belongs to one thread. */
#include <stdlib.h>

#include "base/guard.h"
#include "store/io.h"

#define METADATA_FIRST_READ 8192u

static enum err read_plan_metadata(struct store_io *io, const struct object_id *id,
                              const struct object_name *name, struct read_plan *plan)
{
    struct volume *volume = store_home(io->store, id);
    struct entry *entry = &plan->entries[0];
    *plan = (struct read_plan){ .volume = volume, .id = *id, .unit_count = 1 };
    if (!volume_is_serving(volume))
        return ERR_NOT_FOUND;
    plan->generation = atomic_load(&volume->generation);
    plan->changes = atomic_load(change_counter(volume, id));
    /* not the serial of the list: the look-up compares only the bans that the volume has taken */
    plan->compared = atomic_load(&volume->bans->applied);
    if (volume_find_metadata(volume, id, name, &plan->unit, entry) != OK)
        return ERR_NOT_FOUND;
    uint64_t len = record_header_bytes(0) + (uint64_t)entry->len;
    /* The header has the length of the metadata, so it is not known yet. The append ends at a page:
     * bytes up to there can be read. */
    if (entry->whole) {
        uint64_t least = entry->offset + record_header_bytes(entry->len) + (uint64_t)entry->len;
        len = MIN(METADATA_FIRST_READ, round_up(least, PAGE_BYTES) - entry->offset);
    }
    len = MIN(len, LARGE_BYTES);
    plan->spans[plan->span_count++] = (struct span){ .at = entry->offset, .len = (uint32_t)len };
    enum err e = read_plan_hold(plan);
    return e ? e : read_plan_take_buffer(io, plan, len);
}

/* Returns ERR_MORE if the metadata is longer than the span that was read; the span then has the
 * right length. */
static enum err decode_metadata(struct store_io *io, struct read_plan *plan, struct metadata **ret)
{
    struct record record;
    struct span *span = &plan->spans[0];
    if (!read_plan_header(plan, span->len, &record))
        return ERR_GONE;
    uint32_t start = record_header_bytes(record.data_len), need = start + record.metadata_len;
    if (need > span->len) {
        if (plan->buffer->kind < LARGE) {
            read_buffer_give(plan->buffer);
            plan->buffer = read_buffer_take(io, LARGE_BYTES);
        }
        span->len = need;
        return plan->buffer ? ERR_MORE : ERR_LIMIT;
    }
    slice bytes = { (const char *)plan->buffer->bytes + start, record.metadata_len };
    if (guard_on(GUARD_CRC) &&
        record.metadata_crc != block_crc(&plan->id, plan->entries[0].etag_hash, METADATA_UNIT,
                                         bytes.ptr, bytes.len))
        return ERR_GONE;
    struct metadata *metadata = metadata_block_decode(&plan->id, bytes);
    bool right = metadata && (!guard_on(GUARD_IDENTITY) ||
                              (metadata_is_of(metadata, record.etag_hash, plan->entries[0].mark) &&
                               (record.kind == KIND_HEAD || metadata->size == record.data_len)));
    if (!right)
        metadata_unref(&metadata);
    *ret = metadata;
    return right ? OK : ERR_GONE;
}

/* Puts the metadata into RAM, unless a commit, a removal or an unclean opening has changed it since
 * the look-up in the index. */
static void remember_metadata(const struct read_plan *plan, struct metadata *metadata)
{
    struct volume *volume = plan->volume;
    bool unproved = plan->entries[0].generation != plan->generation;
    metadata->unshared |= plan->entries[0].refused || (unproved && guard_on(GUARD_DOUBT)) ||
                      names_are_others(volume->known.names, volume->secret, metadata,
                                       plan->entries[0].extent);
    atomic_store(&metadata->validated_s, extent_time(plan->extent, plan->entries[0].ordinal));
    atomic_store(&metadata->compared, plan->compared);
    metadata->restated = restated_is(volume->known.restated, volume->secret, metadata,
                                     plan->entries[0].extent);
    atomic_store(&metadata->granted, extent_granted(plan->extent, plan->entries[0].ordinal));
    atomic_store(&metadata->unproved, unproved);
    metadata_cache_put(volume->known.cache, metadata);
    if (atomic_load(change_counter(volume, &plan->id)) != plan->changes)
        metadata_cache_drop(volume->known.cache, &plan->id);
    if (atomic_load(&volume->generation) != plan->generation || !volume_is_serving(volume)) {
        atomic_store(&metadata->unproved, true);
        metadata_cache_drop(volume->known.cache, &plan->id);
    }
}

static enum err finish_metadata(struct store_io *io, struct read_plan *plan, struct metadata **ret)
{
    enum err e = decode_metadata(io, plan, ret);
    if (!e)
        remember_metadata(plan, *ret);
    if (e == ERR_GONE)
        read_plan_disown(plan);
    return e == OK || e == ERR_MORE ? e : ERR_NOT_FOUND;
}

static bool has_name(const struct metadata *metadata, const struct object_name *name)
{
    return !guard_on(GUARD_IDENTITY) || metadata_has_name(metadata, name);
}

/* Reads metadata from the page cache alone. ERR_WAIT: the disk must be read, and the plan goes
 * on. */
static enum err metadata_at_once(struct store_io *io, struct read_plan *plan, struct metadata **ret)
{
    enum err e;
    do {
        e = read_plan_cached(io, plan);
        if (e == ERR_WAIT)
            return e;
        if (e) {
            read_plan_disown(plan);
            e = ERR_NOT_FOUND;
            break;
        }
        e = finish_metadata(io, plan, ret);
    } while (e == ERR_MORE);
    read_plan_end(plan);
    return e;
}

static void op_finish(struct store_op *op)
{
    struct metadata *metadata = NULL;
    enum err e = ERR_NOT_FOUND;
    if (op->err == ERR_IO)
        read_plan_disown(&op->plan);
    else if (!op->err)
        e = finish_metadata(op->io, &op->plan, &metadata);
    if (e == ERR_MORE) {
        op_start(op);
        return;
    }
    if (!e && guard_on(GUARD_IDENTITY) && !slice_eq(metadata->name, op->name)) {
        metadata_unref(&metadata);
        e = ERR_NOT_FOUND;
    }
    metadata_done *done = op->metadata_done;
    void *arg = op->arg;
    op_end(op);
    done(arg, e, metadata);
}

enum err store_metadata(struct store_io *io, const struct object_id *id,
                        const struct object_name *name, metadata_done *done, void *arg,
                        struct metadata **ret, struct store_op **ret_op)
{
    struct volume *home = store_home(io->store, id);
    struct metadata *metadata = metadata_cache_get(home->known.cache, id);
    struct read_plan plan;
    if (metadata && ban_list_has_metadata(&io->store->installation.bans, metadata))
        metadata_unref(&metadata);
    enum err e = metadata ? OK : read_plan_metadata(io, id, name, &plan);
    if (!metadata && !e)
        e = metadata_at_once(io, &plan, &metadata);
    if (e == ERR_WAIT) {
        struct store_op *op = op_new(io, &plan, op_finish);
        op->metadata_done = done;
        op->arg = arg;
        op->name = object_name_write(name, must_alloc(object_name_bytes(name)));
        op_start(op);
        *ret_op = op;
        return ERR_WAIT;
    }
    if (!e && !has_name(metadata, name)) {
        metadata_unref(&metadata);
        e = ERR_NOT_FOUND;
    }
    if (!e)
        *ret = metadata;
    return e;
}
