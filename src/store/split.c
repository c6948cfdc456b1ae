/* split.c - removals and appends that concern several volumes, each answered once.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   removal ──┬──> part ──> volume ──> done() of the part ──┬──> the last one calls done()
 *             └──> part ──> volume ──> done() of the part ──┘
 *
 * A part that fails makes the whole fail, after the other parts have ended. Threads: any thread may
 * start a split. The parts end on threads of their volumes, and the last part frees what they
 * share. */
#include "store/split.h"

#include <stdlib.h>

/* ---- removals ---- */

struct removal_part {
    struct store_removal removal;
    struct removal_split *split;
};

struct removal_split {
    struct store_removal *whole;
    atomic_size_t left;               /* parts that have not ended */
    atomic_bool failed;
    struct object_id *ids;            /* of all parts, by part; NULL: each part has all ids */
    struct removal_part parts[];
};

static void removal_part_done(struct store_removal *removal, enum err err)
{
    struct removal_split *split = container_of(removal, struct removal_part, removal)->split;
    if (err)
        atomic_store(&split->failed, true);
    if (atomic_fetch_sub(&split->left, 1) > 1)
        return;
    struct store_removal *whole = split->whole;
    enum err e = atomic_load(&split->failed) ? ERR_IO : OK;
    free(split->ids);
    free(split);
    whole->done(whole, e);
}

static struct removal_split *removal_split_new(struct store_removal *whole, size_t count)
{
    struct removal_split *split = must_alloc(sizeof(*split) + count * sizeof(split->parts[0]));
    split->whole = whole;
    for (size_t i = 0; i < count; i++)
        split->parts[i] = (struct removal_part){
            .removal = { .ids = whole->ids, .count = whole->count,
                         .versions = whole->versions, .unawaited = whole->unawaited,
                         .done = removal_part_done },
            .split = split,
        };
    return split;
}

/* Copies the ids of each volume into one row, and points its part to them. Returns the number of
 * volumes with an id. */
static size_t sort_ids(const struct store *store, const uint8_t *homes, struct removal_split *split)
{
    const struct store_removal *whole = split->whole;
    size_t at = 0, used = 0;
    split->ids = must_alloc(whole->count * sizeof(*split->ids));
    for (size_t part = 0; part < store->volume_count; part++) {
        struct store_removal *removal = &split->parts[part].removal;
        removal->ids = &split->ids[at];
        for (size_t i = 0; i < whole->count; i++)
            if (homes[i] == part)
                split->ids[at++] = whole->ids[i];
        removal->count = (size_t)(&split->ids[at] - removal->ids);
        used += removal->count > 0;
    }
    check(at == whole->count);
    return used;
}

static void hand_in(struct store *store, const uint8_t *homes, struct store_removal *removal)
{
    struct removal_split *split = removal_split_new(removal, store->volume_count);
    size_t left = sort_ids(store, homes, split);
    atomic_store(&split->left, left);
    for (size_t i = 0; left > 0; i++) {    /* the last part may free the split at once */
        check(i < store->volume_count);
        if (!split->parts[i].removal.count)
            continue;
        left--;
        volume_remove(store->volumes[i], &split->parts[i].removal);
    }
}

void split_removal(struct store *store, struct store_removal *removal)
{
    uint8_t *homes = must_alloc(removal->count);
    bool one = true;
    check(removal->count > 0);
    for (size_t i = 0; i < removal->count; i++) {
        homes[i] = (uint8_t)route_home(store->installation.route, store->volume_count,
                                       &removal->ids[i], 0);
        one = one && homes[i] == homes[0];
    }
    if (one)
        volume_remove(store->volumes[homes[0]], removal);
    else
        hand_in(store, homes, removal);
    free(homes);
}

void split_restate(struct store *store, struct store_removal *removal)
{
    size_t count = store->volume_count;
    if (count == 1) {
        volume_restate(store->volumes[0], removal);
        return;
    }
    struct removal_split *split = removal_split_new(removal, count);
    atomic_store(&split->left, count);
    for (size_t i = 0; i < count; i++)
        volume_restate(store->volumes[i], &split->parts[i].removal);
}

/* ---- appends ---- */

struct append_part {
    struct store_append append;
    struct append_split *split;
};

struct append_split {
    struct store_append *whole;
    atomic_uint left;
    atomic_int err;                   /* of the first part that failed */
    struct append_part metadata, bytes;
};

static bool part_may_publish(const struct store_append *append)
{
    const struct store_append *whole =
        container_of(append, struct append_part, append)->split->whole;
    return whole->may_publish(whole);
}

/* Returns true if this was the last part. The split belongs to the caller then. */
static bool part_ends(struct append_split *split, enum err err)
{
    int none = OK;
    if (err)
        (void)atomic_compare_exchange_strong(&split->err, &none, (int)err);
    return atomic_fetch_sub(&split->left, 1) == 1;
}

static void append_part_done(struct store_append *append, enum err err)
{
    struct append_split *split = container_of(append, struct append_part, append)->split;
    if (!part_ends(split, err))
        return;
    struct store_append *whole = split->whole;
    enum err e = (enum err)atomic_load(&split->err);
    free(split);
    whole->done(whole, e);
}

/* The bytes are queued first. If the volume of the metadata then refuses its part, the part with
 * the bytes calls done(). If that part has already ended, done() is not called, and the caller gets
 * the error. */
enum err split_append(struct volume *home, struct volume *of_bytes, struct store_append *append)
{
    struct append_split *split = must_alloc(sizeof(*split));
    split->whole = append;
    atomic_store(&split->left, 2);
    struct store_append part = { .metadata = append->metadata, .done = append_part_done,
                                 .compared = append->compared, .must = append->must,
                                 .staged = append->staged, .read = append->read,
                                 .ahead = append->ahead,
                                 .may_publish = append->may_publish ? part_may_publish : NULL };
    split->metadata = (struct append_part){ part, split };
    split->metadata.append.with_metadata = true;
    split->bytes = (struct append_part){ part, split };
    split->bytes.append.first_unit = append->first_unit;
    split->bytes.append.bytes = append->bytes;
    enum err e = volume_append(of_bytes, &split->bytes.append);
    if (e) {
        free(split);
        return e;
    }
    e = volume_append(home, &split->metadata.append);
    if (!e || !part_ends(split, e))
        return OK;
    free(split);
    return e;
}
