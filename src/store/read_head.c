/* read_head.c - a head, found in RAM or on the disk and verified.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A head lies by itself or in front of a WHOLE object; how long it is there says the record's
 * header, so that a long one takes a second read. What fails its checks is counted, forgotten by
 * the index (if it still names this record), and a miss (H2). What was read goes into RAM, unless a
 * commit, a removal or a doubt came between. Threads: a store_io is its owner's. */
#include <stdlib.h>
#include <string.h>

#include "base/guard.h"
#include "store/io.h"

#define HEAD_FIRST_READ 8192u

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
    uint64_t len = record_header_bytes(0) + (uint64_t)entry->len;
    /* how long the head is says the header; the append goes on to a full page */
    if (entry->whole) {
        uint64_t least = entry->offset + record_header_bytes(entry->len) + (uint64_t)entry->len;
        len = MIN(HEAD_FIRST_READ, round_up(least, PAGE_BYTES) - entry->offset);
    }
    len = MIN(len, LARGE_BYTES);
    plan->spans[plan->span_count++] = (struct span){ .at = entry->offset, .len = (uint32_t)len };
    return plan_hold(io, plan, len);
}

/* ERR_MORE: the head is longer than what was read; the plan says now how long. */
static enum err decode_head(struct store_io *io, struct plan *plan, struct head **ret)
{
    struct record record;
    struct span *span = &plan->spans[0];
    if (!plan_header(plan, span->len, &record))
        return ERR_GONE;
    uint32_t start = record_header_bytes(record.data_len), need = start + record.head_len;
    if (need > span->len) {
        if (plan->buffer->kind < LARGE) {
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
    bool unproved = plan->entries[0].generation != plan->generation;
    head->unshared |= plan->entries[0].refused || (unproved && guard_on(GUARD_DOUBT)) ||
                      names_are_others(store->names, store->secret, head, plan->entries[0].extent);
    atomic_store(&head->validated_s, extent_time(plan->extent, plan->entries[0].ordinal));
    head->restated = restated_is(store->restated, store->secret, head, plan->entries[0].extent);
    atomic_store(&head->shown, extent_shown(plan->extent, plan->entries[0].ordinal));
    atomic_store(&head->unproved, unproved);
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
        plan_disown(io, plan);
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
        e = plan_read_cached(io, plan);
        if (e == ERR_WAIT)
            return e;
        if (e) {
            plan_disown(io, plan);
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

static void op_finish(struct store_op *op)
{
    struct head *head = NULL;
    enum err e = ERR_NOT_FOUND;
    if (op->err) {
        plan_disown(op->io, &op->plan);
    } else {
        e = finish_head(op->io, &op->plan, &head);
    }
    if (e == ERR_MORE) {
        op_start(op);
        return;
    }
    if (!e && guard_on(GUARD_IDENTITY) &&
        !slice_eq(head->name, (slice){ op->name, op->name_len })) {
        head_unref(&head);
        e = ERR_NOT_FOUND;
    }
    head_done *done = op->head_done;
    void *arg = op->arg;
    op_end(op);
    done(arg, e, head);
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
        struct store_op *op = op_new(io, &plan, op_finish);
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
