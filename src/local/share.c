/* share.c - cuts a fill into shares, and copies the shares of GPU memory through a slab.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A fill is a list of items. A share is some consecutive items of the list, about a mebibyte; a
 * worker takes one share at a time. For GPU memory (the path "ring", memory.h), a share is instead
 * as many items as fit into one slab: 4 MiB of pinned memory of the host. When the last item has
 * been read, the GPU copies the items out of the slab as one batch. An item larger than a slab is a
 * share by itself (large.c).
 * Threads: the keeper of the session (the worker that has the session, inside.h) cuts the fill into
 * shares. The worker that read the last item of a share calls share_settle. When the copies of the
 * share have ended, too, the keeper calls settled. */
#include <stdlib.h>

#include "base/metric.h"
#include "local/inside.h"

#define SHARE_BYTES MIB
#define OPEN_BYTES (256 * KIB)        /* assumed size of an item without a length */
/* A program that has two buffers reads one while the other is filled. Of fills of this size,
 * the processor's caches (usually 32 MiB for some cores) would have little when it does so. */
#define CACHED_BYTES_MAX (16 * MIB)

static uint64_t weight(const struct item *item)
{
    return item->length == ITEM_OPEN ? MIN(item->max, OPEN_BYTES) : item->length;
}

/* Sets *ret to the item's place in the slab of its share, after the first `used` bytes. Returns
 * false if the slab has no room for it. */
static bool fits(const struct item *item, uint64_t *used, uint32_t *ret)
{
    uint64_t bytes = item->length == ITEM_OPEN ? item->max : item->length;
    uint64_t at = bytes < SLAB_ALIGN ? *used : (*used + SLAB_ALIGN - 1) / SLAB_ALIGN * SLAB_ALIGN;
    if (bytes > SLAB_BYTES || at > SLAB_BYTES - bytes)
        return false;
    *ret = (uint32_t)at;
    *used = at + bytes;
    return true;
}

/* For the path ring: takes as many items as fit into a slab, or one large item by itself. */
static void gather_slab(struct fill *fill, struct share *share)
{
    const struct items *items = &fill->message->items;
    uint64_t used = 0;
    share->offsets = arena_alloc(&fill->keep, SHARE_ITEMS * sizeof(*share->offsets));
    while (share->first + share->count < items->count && share->count < SHARE_ITEMS &&
           fits(&items->list[share->first + share->count], &used, &share->offsets[share->count]))
        share->count++;
    share->large = share->count == 0;
    share->count = MAX(share->count, (size_t)1);
}

static void gather_bytes(struct fill *fill, struct share *share)
{
    const struct items *items = &fill->message->items;
    for (uint64_t bytes = 0; share->first + share->count < items->count && bytes < SHARE_BYTES &&
                             share->count < SHARE_ITEMS; share->count++)
        bytes += weight(&items->list[share->first + share->count]);
}

/* The keeper calls this when all items of the share were read, and all its copies have ended. */
static void settled(struct mail *mail)
{
    struct share *share = container_of(mail, struct share, mail);
    slab_give(&share->slab);
    fill_settle(share->fill);
}

/* Memory of a GPU is filled through slabs, which are small enough to stay in the caches. */
static enum copy_use use_of(const struct fill *fill)
{
    const struct items *items = &fill->message->items;
    uint64_t bytes = 0;
    for (size_t i = 0; i < items->count; i++)
        bytes += weight(&items->list[i]);
    bool in_slabs = fill->buffer && fill->buffer->device;
    return bytes < CACHED_BYTES_MAX || in_slabs ? COPY_READ_SOON : COPY_READ_LATER;
}

void fill_cut(struct fill *fill)
{
    fill->use = use_of(fill);
    for (size_t first = 0; first < fill->message->items.count;) {
        struct share *share = arena_alloc(&fill->keep, sizeof(*share));
        *share = (struct share){ .fill = fill, .first = first, .mail = { .deliver = settled } };
        list_init(&share->link);
        if (fill->buffer && fill->buffer->device)
            gather_slab(fill, share);
        else
            gather_bytes(fill, share);
        first += share->count;
        share->left = share->count;
        fill->shares_left++;
        queue_put(fill->session->worker->local, fill->session, share);
    }
}

/* ---- through a slab ---- */

bool share_take_slab(struct share *share)
{
    struct fill *fill = share->fill;
    struct device *device = fill->buffer ? fill->buffer->device : NULL;
    if (!device || atomic_load(&fill->canceled))
        return true;
    share->slab = slab_take(device, &fill->session->slabs, false);
    if (!share->slab && !share->waited)
        metric_add(M_FILL_SLAB_WAITS, 1);
    share->waited = true;
    return share->slab != NULL;
}

static void copied(struct mail *mail)
{
    struct share *share = container_of(mail, struct share, task.mail);
    enum err err = share->task.err;
    free(share->task.copies);
    for (size_t i = 0; i < share->count && err; i++) {
        struct result *result = &share->fill->results[share->first + i];
        if (!result->err)
            *result = (struct result){ .err = err };
    }
    settled(&share->mail);
}

/* Gives the thread of the GPU (the copier, device.h) one task: to copy the share's items. Returns
 * false if no bytes are to be copied. */
static bool copy_out(struct share *share)
{
    struct fill *fill = share->fill;
    struct gpu_copy *copies = must_alloc(share->count * sizeof(*copies));
    size_t count = 0;
    for (size_t i = 0; i < share->count; i++) {
        const struct result *result = &fill->results[share->first + i];
        if (!result->err && result->bytes)
            copies[count++] = (struct gpu_copy){
                .to = fill->buffer->gpu, .offset = fill->message->items.list[share->first + i].to,
                .from = share->slab->mem + share->offsets[i], .bytes = result->bytes };
    }
    share->task = (struct device_task){ .mail = { .deliver = copied }, .copies = copies,
                                        .copy_count = count, .box = fill->session->worker->box };
    if (count)
        device_do(fill->buffer->device, &share->task);
    else
        free(copies);
    return count > 0;
}

void share_settle(struct share *share)
{
    check(share->left == 0);
    if (share->slab && !share->large && copy_out(share))
        return;
    /* the mail arrives, because a worker ends only when no fill is left */
    check(mailbox_post(share->fill->session->worker->box, &share->mail));
}
