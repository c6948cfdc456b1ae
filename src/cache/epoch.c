/* epoch.c - judges whether a fill may still publish (rule H7 in src/README.md).
 * SPDX-License-Identifier: Apache-2.0
 *
 * A fill brings an object from the origin into the cache; to publish it means to let readers find
 * it. This file has the arrays of counters that a write raises, one for objects and two for buckets
 * (lists, and metadata of all objects). epoch.h says how they are used. */
#include "cache/epoch.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/guard.h"
#include "base/raise.h"
#include "cache/alias.h"

#define EPOCHS 65536

static struct {
    struct epoch_pair pair;
    atomic_ullong moved;      /* the moment of the last change */
    _Atomic uint64_t moved_ms;    /* its ageing time */
    _Atomic uint64_t latest;  /* the highest number of a write */
} epochs[EPOCHS];    /* process-wide; a page that was never touched takes no memory */

static_assert(EPOCHS == UINT16_MAX + 1, "there is a row for each value of two bytes");

static atomic_ullong moments;

static size_t row_of(const struct object_id *id)
{
    uint16_t row;
    memcpy(&row, id->bytes, sizeof(row));
    return row;
}

uint64_t epoch_write_number(void)
{
    return atomic_fetch_add(&moments, 1) + 1;
}

bool epoch_write_is_latest(const struct object_id *id, uint64_t number)
{
    return atomic_load(&epochs[row_of(id)].latest) <= number;
}

static void note_moment(const struct object_id *id)
{
    atomic_store(&epochs[row_of(id)].moved, atomic_fetch_add(&moments, 1) + 1);
    raise_64(&epochs[row_of(id)].moved_ms, ageing_ms());
}

uint64_t epoch_moved_ms(const struct object_id *id)
{
    return atomic_load(&epochs[row_of(id)].moved_ms);
}

void epoch_write_begins(const struct object_id *id, uint64_t number)
{
    check(number > 0 && number <= atomic_load(&moments));
    raise_64(&epochs[row_of(id)].latest, number);
    note_moment(id);
    epoch_pair_begins(&epochs[row_of(id)].pair);
}

void epoch_write_ends(const struct object_id *id)
{
    note_moment(id);
    epoch_pair_ends(&epochs[row_of(id)].pair);
}

struct epoch_note epoch_now(const struct object_id *id)
{
    return epoch_pair_now(&epochs[row_of(id)].pair);
}

bool epoch_holds(const struct object_id *id, struct epoch_note since)
{
    return !guard_on(GUARD_EPOCH) || epoch_pair_holds(&epochs[row_of(id)].pair, since);
}

struct epoch_note epoch_supersede(const struct object_id *id, struct epoch_note since)
{
    struct epoch_pair *pair = &epochs[row_of(id)].pair;
    note_moment(id);
    struct epoch_note was = { .started = atomic_fetch_add(&pair->started, 1) };
    was.finished = atomic_fetch_add(&pair->finished, 1);
    bool held = since.started == since.finished && epoch_note_is(was, since);
    return held ? (struct epoch_note){ since.started + 1, since.finished + 1 } : since;
}

/* ---- of buckets ---- */

#define BUCKET_EPOCHS 4096

static struct epoch_pair buckets[BUCKET_EPOCHS];

struct epoch_pair *epoch_bucket_of(slice endpoint, slice bucket)
{
    uint64_t hash = metadata_etag_hash(endpoint) * 31 + metadata_etag_hash(bucket);
    return &buckets[hash % BUCKET_EPOCHS];
}

bool epoch_bucket_holds(struct epoch_pair *pair, struct epoch_note since)
{
    return !guard_on(GUARD_LISTS) || epoch_pair_holds(pair, since);
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
    return now.started == now.finished && atomic_load(&epochs[row_of(id)].moved) <= moment;
}

/* ---- of all versions of a key ---- */

struct restatement {
    atomic_ullong at_ms;
    atomic_llong at_s;
};

static void note(struct restatement *restatement, struct epoch_restated now)
{
    check(now.at_ms > 0 && now.at_s > 0);    /* 0: there was none */
    atomic_store(&restatement->at_s, now.at_s);
    atomic_store(&restatement->at_ms, now.at_ms);
}

static struct epoch_restated noted(struct restatement *restatement)
{
    return (struct epoch_restated){ atomic_load(&restatement->at_ms),
                                    atomic_load(&restatement->at_s) };
}

static struct restatement of_keys[EPOCHS];

void epoch_restate(const struct object_id *id, struct epoch_restated now)
{
    note(&of_keys[row_of(id)], now);
}

struct epoch_restated epoch_restated(const struct object_id *id)
{
    return guard_on(GUARD_EPOCH) ? noted(&of_keys[row_of(id)]) : (struct epoch_restated){ 0 };
}

/* ---- of all objects of a bucket ---- */

static struct {
    struct epoch_pair pair;
    struct restatement last;
} of_buckets[BUCKET_EPOCHS];
static atomic_bool any_restated;    /* while it is false, a hit need not hash the bucket's name */

/* For all buckets: the moment of the latest epoch_doubt. */
static struct {
    _Atomic uint64_t at_ms, at_s;
} doubted;

static size_t row_of_bucket(slice bucket)
{
    return metadata_etag_hash(alias_bucket(bucket)) % BUCKET_EPOCHS;
}

void epoch_bucket_restate_begins(slice bucket, struct epoch_restated now)
{
    size_t row = row_of_bucket(bucket);
    epoch_pair_begins(&of_buckets[row].pair);
    note(&of_buckets[row].last, now);
    atomic_store(&any_restated, true);
}

void epoch_bucket_restate_ends(slice bucket, struct epoch_restated now)
{
    size_t row = row_of_bucket(bucket);
    note(&of_buckets[row].last, now);
    epoch_pair_ends(&of_buckets[row].pair);
}

struct epoch_restated epoch_bucket_restated(slice bucket)
{
    if (!atomic_load_explicit(&any_restated, memory_order_acquire) || !guard_on(GUARD_EPOCH))
        return (struct epoch_restated){ 0 };
    struct epoch_restated last = noted(&of_buckets[row_of_bucket(bucket)].last);
    uint64_t doubted_ms = atomic_load(&doubted.at_ms), doubted_s = atomic_load(&doubted.at_s);
    return (struct epoch_restated){ MAX(last.at_ms, doubted_ms),
                                    MAX(last.at_s, (int64_t)doubted_s) };
}

/* at_ms rises last: then whoever sees it sees at_s, too. */
void epoch_doubt(struct epoch_restated moment)
{
    check(moment.at_ms > 0 && moment.at_s > 0);
    raise_64(&doubted.at_s, (uint64_t)moment.at_s);
    raise_64(&doubted.at_ms, moment.at_ms);
    atomic_store(&any_restated, true);
    for (size_t i = 0; i < BUCKET_EPOCHS; i++) {
        epoch_pair_begins(&buckets[i]);
        epoch_pair_ends(&buckets[i]);
    }
}

static bool was_restated(slice bucket, int64_t learnt_s)
{
    struct epoch_restated last = epoch_bucket_restated(bucket);
    if (!last.at_ms)
        return false;
    struct epoch_note note = epoch_pair_now(&of_buckets[row_of_bucket(bucket)].pair);
    return note.started != note.finished || learnt_s <= last.at_s;
}

bool epoch_may_publish(const struct store_append *append)
{
    const struct metadata *metadata = append->metadata;
    slice rest = metadata->name;
    (void)slice_cut(&rest, '\0');    /* the endpoint */
    return epoch_holds(&metadata->id, container_of(append, struct epoch_fill, append)->epoch) &&
           !(append->with_metadata &&
             was_restated(slice_cut(&rest, '\0'), atomic_load(&metadata->validated_s)));
}
