/* large.c - an item of GPU memory that does not fit into a slab.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   get ──> slab A ──> copy ─┐        one slab is read into while the other is copied out; a fill
 *       ──> slab B ──> copy ─┴─ ...   that gets only one slab reads and copies in turn
 *
 * A slab is 4 MiB of pinned memory of the host, from which the GPU copies. A larger item is a share
 * (a part of a fill) by itself. The first slab belongs to the share. The second is taken when the
 * first is being copied out and more bytes are to come, but only if no share waits for a slab.
 * While a copy is in progress, its slab is not written to, and the item does not end, not even
 * after an error.
 * Threads: the worker's thread calls these functions. */
#include <stdlib.h>

#include "local/inside.h"

struct half {
    struct large *large;
    struct slab *slab;                /* NULL: there is no second slab */
    bool copying;
    struct device_task task;
    struct gpu_copy copy;
};

struct large {
    struct share *share;
    const struct item *item;
    struct mailbox *box;
    void (*changed)(void *arg);
    void *arg;
    struct half halves[2];
    struct half *now;                 /* the half whose slab is read into */
    slice rest;                       /* bytes of the get that are in no slab yet */
    uint64_t used;                    /* bytes in the current slab */
    uint64_t at;                      /* bytes of the item that are in slabs or copied */
    enum err err;                     /* the first error of a copy */
};

struct large *large_new(struct share *share, const struct item *item, struct mailbox *box,
                        void (*changed)(void *arg), void *arg)
{
    struct large *large = must_alloc(sizeof(*large));
    *large = (struct large){ .share = share, .item = item, .box = box, .changed = changed,
                             .arg = arg, .now = &large->halves[0] };
    for (size_t i = 0; i < 2; i++)
        large->halves[i].large = large;
    large->halves[0].slab = share->slab;
    return large;
}

bool large_copies(const struct large *large)
{
    return large && (large->halves[0].copying || large->halves[1].copying);
}

void large_free(struct large **large)
{
    struct large *mine = *large;
    *large = NULL;
    if (!mine)
        return;
    check(!large_copies(mine));
    slab_give(&mine->halves[1].slab);    /* the first slab belongs to the share */
    free(mine);
}

static void copied(struct mail *mail)
{
    struct half *half = container_of(mail, struct half, task.mail);
    struct large *large = half->large;
    half->copying = false;
    if (half->task.err)
        large->err = half->task.err;
    if (large->now->copying)          /* copies may end in any order */
        large->now = half;
    large->changed(large->arg);
}

/* Starts the copy out of the current slab, and makes the other slab current. */
static void copy_out(struct large *large, bool more)
{
    struct fill *fill = large->share->fill;
    struct half *half = large->now;
    half->copy = (struct gpu_copy){ .to = fill->buffer->gpu, .from = half->slab->mem,
                                    .offset = large->item->to + large->at - large->used,
                                    .bytes = large->used };
    half->task = (struct device_task){ .mail = { .deliver = copied }, .box = large->box,
                                       .copies = &half->copy, .copy_count = 1 };
    half->copying = true;
    device_do(fill->buffer->device, &half->task);
    struct half *other = &large->halves[half == &large->halves[0]];
    if (!other->slab && more)
        other->slab = slab_take(fill->buffer->device, &fill->session->slabs, true);
    if (other->slab)
        large->now = other;
    large->used = 0;
}

/* Reads until the current slab is full, or up to the end of the item. */
static enum err read_slab(struct large *large, struct get *get, uint64_t want)
{
    while (large->used < SLAB_BYTES && large->at < want) {
        enum err err = large->rest.len ? OK : get_next(get, &large->rest);
        if (err)
            return err;
        check(large->rest.len <= want - large->at);
        slice now = slice_sub(large->rest, 0, SLAB_BYTES - large->used);
        err = get_run_copy(get, now, large->now->slab->mem + large->used, COPY_READ_SOON);
        if (err)
            return err;
        large->rest = slice_from(large->rest, now.len);
        large->used += now.len;
        large->at += now.len;
    }
    return OK;
}

enum err large_move(struct large *large, struct get *get, uint64_t want)
{
    while (!large->err && !large->now->copying && large->at < want) {
        enum err err = read_slab(large, get, want);
        if (err == ERR_WAIT)
            return ERR_WAIT;
        large->err = err;
        if (!err)
            copy_out(large, large->at < want);
    }
    return large_copies(large) ? ERR_WAIT : large->err;
}
