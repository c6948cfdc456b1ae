/* epoch.c - which fills may still publish (H7). SPDX-License-Identifier: Apache-2.0 */
#include "cache/epoch.h"

#include <stdatomic.h>
#include <string.h>

#include "base/guard.h"

#define EPOCHS 65536

static struct {
    atomic_uint started, finished;
    atomic_ullong moved;      /* the moment of the last change */
    atomic_ullong latest;     /* the highest number of a write */
} epochs[EPOCHS];    /* process-wide: pages nobody touched cost nothing */

static atomic_ullong moments;

static size_t place_of(const struct object_id *id)
{
    uint16_t place;
    memcpy(&place, id->bytes, sizeof(place));
    return place;
}

uint64_t epoch_write_number(void)
{
    return atomic_fetch_add(&moments, 1) + 1;
}

bool epoch_write_is_latest(const struct object_id *id, uint64_t number)
{
    return atomic_load(&epochs[place_of(id)].latest) <= number;
}

void epoch_write_begins(const struct object_id *id, uint64_t number)
{
    atomic_ullong *latest = &epochs[place_of(id)].latest;
    unsigned long long before = atomic_load(latest);
    while (before < number && !atomic_compare_exchange_weak(latest, &before, number))
        ;
    atomic_store(&epochs[place_of(id)].moved, atomic_fetch_add(&moments, 1) + 1);
    atomic_fetch_add(&epochs[place_of(id)].started, 1);
}

void epoch_write_ends(const struct object_id *id)
{
    atomic_store(&epochs[place_of(id)].moved, atomic_fetch_add(&moments, 1) + 1);
    atomic_fetch_add(&epochs[place_of(id)].finished, 1);
}

struct epoch_note epoch_now(const struct object_id *id)
{
    /* finished first: a write that ends between the two reads then looks unfinished, never the
     * reverse */
    unsigned finished = atomic_load(&epochs[place_of(id)].finished);
    return (struct epoch_note){ atomic_load(&epochs[place_of(id)].started), finished };
}

bool epoch_holds(const struct object_id *id, struct epoch_note since)
{
    if (!guard_on(GUARD_EPOCH))
        return true;
    struct epoch_note now = epoch_now(id);
    return since.started == since.finished && now.started == since.started &&
           now.finished == since.finished;
}

/* ---- of buckets ---- */

#define BUCKET_EPOCHS 4096

static struct {
    atomic_uint started, finished;
} buckets[BUCKET_EPOCHS];

unsigned epoch_bucket_of(slice endpoint, slice bucket)
{
    return (unsigned)((head_etag_hash(endpoint) * 31 + head_etag_hash(bucket)) % BUCKET_EPOCHS);
}

void epoch_bucket_write_begins(unsigned pair)
{
    atomic_fetch_add(&buckets[pair].started, 1);
}

void epoch_bucket_write_ends(unsigned pair)
{
    atomic_fetch_add(&buckets[pair].finished, 1);
}

struct epoch_note epoch_bucket_now(unsigned pair)
{
    unsigned finished = atomic_load(&buckets[pair].finished);    /* first, as above */
    return (struct epoch_note){ atomic_load(&buckets[pair].started), finished };
}

bool epoch_bucket_holds(unsigned pair, struct epoch_note since)
{
    if (!guard_on(GUARD_LISTS))
        return true;
    struct epoch_note now = epoch_bucket_now(pair);
    return since.started == since.finished && now.started == since.started &&
           now.finished == since.finished;
}

uint64_t epoch_moment(void)
{
    return atomic_load(&moments);
}

bool epoch_quiet_since(const struct object_id *id, uint64_t moment)
{
    if (!guard_on(GUARD_EPOCH))
        return true;
    struct epoch_note now = epoch_now(id);
    return now.started == now.finished && atomic_load(&epochs[place_of(id)].moved) <= moment;
}
