/* mean_age.c - admission and eviction by mean age. SPDX-License-Identifier: Apache-2.0
 *
 * No age makes a single record too old: in random epochs it may be read again two epochs later. But
 * the mean age of an extent's records is a sharp statistic. If the records are in use, it is about
 * L/2; otherwise it grows without end. So an extent is recycled for any record when its mean age
 * passes 1.8 L, or 1.25 L once the working set has moved. Otherwise it is recycled only for hot
 * records, and then its younger half is copied forward. A dead record counts as 6 L old, so one
 * number measures staleness and garbage.
 *
 * tests/policy/mean_age.py is the model. test_store_mean_age.c compares each decision with it. */
#include "store/mean_age.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "store/ghost.h"
#include "store/record_set.h"
#include "store/sampler.h"

#define FADED (1.8 * MEAN_AGE_TICKS)  /* above this mean age, an extent goes for any record */
#define MOVED (1.0 * MEAN_AGE_TICKS)  /* mean age of all records once the set has moved */
#define STALE (1.25 * MEAN_AGE_TICKS) /* takes the place of FADED then, ... */
#define FEW (1.0 / 8)                 /* ... until at most this share of the extents is above it */
#define KEEP (MEAN_AGE_TICKS * 7 / 8) /* younger records are copied forward */
#define NOVEL 0.75                    /* above this share of first touches, nothing is stale */
#define BURST 16u                     /* touches within records / BURST touches count as one */
#define NEVER UINT64_MAX

struct mean_age {
    _Atomic uint64_t touches;
    char apart[64];                   /* own cache lines: threads write `touches` all the time */
    _Atomic uint64_t tick, tick_end;  /* tick_end: a number of touches; NEVER until L is known */
    bool moved;
    double oldest;                    /* highest mean age of an extent; negative: there is none */
    struct ghost ghost;
    struct sampler sampler;
};

struct mean_age *mean_age_new(uint64_t records)
{
    struct mean_age *policy = must_alloc(sizeof(*policy));
    policy->tick_end = NEVER;
    policy->oldest = -1;
    sampler_open(&policy->sampler);
    policy->sampler.burst = records / BURST;
    ghost_open(&policy->ghost, records);
    return policy;
}

void mean_age_free(struct mean_age **policy)
{
    if (*policy)
        ghost_close(&(*policy)->ghost);
    free(*policy);
    *policy = NULL;
}

void mean_age_resize(struct mean_age *policy, uint64_t records)
{
    policy->sampler.burst = records / BURST;
    ghost_close(&policy->ghost);
    ghost_open(&policy->ghost, records);
}

/* ---- touches ---- */

/* The finalizer of splitmix64. */
uint64_t mean_age_hash(const struct object_id *id, uint32_t unit)
{
    uint64_t hash;    /* an id is a keyed hash */
    static_assert(sizeof(id->bytes) >= sizeof(hash),
                  "an id has at least as many bytes as the hash");
    memcpy(&hash, id->bytes, sizeof(hash));
    hash += (unit + UINT64_C(1)) * UINT64_C(0x9E3779B97F4A7C15);
    hash = (hash ^ hash >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    hash = (hash ^ hash >> 27) * UINT64_C(0x94D049BB133111EB);
    return hash ^ hash >> 31;
}

static uint64_t relaxed(const _Atomic uint64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

bool mean_age_count(struct mean_age *policy, uint64_t touches)
{
    uint64_t before = atomic_fetch_add_explicit(&policy->touches, touches, memory_order_relaxed);
    return before + touches >= relaxed(&policy->tick_end);
}

uint64_t mean_age_mask(const struct mean_age *policy)
{
    return relaxed(&policy->sampler.mask);
}

bool mean_age_samples(const struct mean_age *policy, uint64_t hash)
{
    return !(hash & mean_age_mask(policy));
}

uint64_t mean_age_now(const struct mean_age *policy)
{
    return relaxed(&policy->touches);
}

void mean_age_sample(struct mean_age *policy, uint64_t hash)
{
    mean_age_sample_at(policy, hash, mean_age_now(policy));
}

void mean_age_sample_at(struct mean_age *policy, uint64_t hash, uint64_t now)
{
    if (!mean_age_samples(policy, hash))    /* the sample was halved since the caller looked */
        return;
    sampler_touch(&policy->sampler, hash, now);
    if (policy->sampler.interval > 0 && relaxed(&policy->tick_end) == NEVER)
        atomic_store_explicit(&policy->tick_end, 0, memory_order_relaxed);
}

/* Sets the end of the tick to the first number of touches that is not less than now + L/16. */
static void set_tick_end(struct mean_age *policy, uint64_t now)
{
    double end = (double)now + policy->sampler.interval / MEAN_AGE_TICKS;
    uint64_t whole = (uint64_t)end;
    whole += (double)whole < end;
    atomic_store_explicit(&policy->tick_end, whole, memory_order_relaxed);
}

bool mean_age_advance(struct mean_age *policy)
{
    uint64_t now = relaxed(&policy->touches), end = relaxed(&policy->tick_end);
    if (end == NEVER || now < end)
        return false;
    atomic_fetch_add_explicit(&policy->tick, 1, memory_order_relaxed);
    set_tick_end(policy, now);
    return true;
}

bool mean_age_touch(struct mean_age *policy, uint64_t hash)
{
    mean_age_count(policy, 1);
    mean_age_sample(policy, hash);
    return mean_age_advance(policy);
}

uint64_t mean_age_tick(const struct mean_age *policy)
{
    return relaxed(&policy->tick);
}

bool mean_age_is_known(const struct mean_age *policy)
{
    return relaxed(&policy->tick_end) != NEVER;
}

/* ---- stamps ---- */

static_assert(MEAN_AGE_CAP + 2 * MEAN_AGE_UNSWEPT < 256,
              "one byte tells a later stamp from an old one");

/* Moves an old stamp up, unless a touch has changed it meanwhile. */
static void move_up(_Atomic uint8_t *at, uint8_t stamp, uint64_t tick)
{
    atomic_compare_exchange_strong_explicit(at, &stamp, mean_age_dead_stamp(tick),
                                            memory_order_relaxed, memory_order_relaxed);
}

/* A pin counts more than a quota. */
static bool is_old(const struct mean_age_stamps *stamps, uint32_t record)
{
    return record_set_has(stamps->old, record) && !record_set_has(stamps->pinned, record);
}

uint8_t mean_age_of_record(const struct mean_age_stamps *stamps, uint32_t record, uint64_t tick)
{
    uint8_t stamp = atomic_load_explicit(&stamps->stamps[record], memory_order_relaxed);
    return is_old(stamps, record) ? MEAN_AGE_CAP : mean_age_of_stamp(tick, stamp);
}

struct mean_age_extent mean_age_sweep(const struct mean_age_stamps *stamps, uint64_t tick)
{
    struct mean_age_extent sum = { 0 };
    for (uint32_t i = 0; i < stamps->count; i++) {
        if (record_set_has(stamps->left_out, i))
            continue;
        if (record_set_has(stamps->pinned, i))
            atomic_store_explicit(&stamps->stamps[i], mean_age_stamp(tick), memory_order_relaxed);
        uint8_t stamp = atomic_load_explicit(&stamps->stamps[i], memory_order_relaxed);
        uint8_t age = mean_age_of_stamp(tick, stamp);
        if (age == MEAN_AGE_CAP)
            move_up(&stamps->stamps[i], stamp, tick);
        sum.ages += is_old(stamps, i) ? MEAN_AGE_CAP : age;
        sum.records++;
    }
    return sum;
}

static double mean(uint64_t ages, uint64_t records)
{
    return (double)ages / (double)MAX(records, 1);
}

/* Notes the highest mean age of an extent that is not taken. Returns the index of the last such
 * extent, or MEAN_AGE_NONE. */
static size_t find_oldest(struct mean_age *policy, const struct mean_age_extent *extents,
                          size_t count)
{
    size_t found = MEAN_AGE_NONE;
    policy->oldest = -1;
    for (size_t i = 0; i < count; i++) {
        double age = extents[i].taken ? -1 : mean(extents[i].ages, extents[i].records);
        if (age < 0 || age < policy->oldest)
            continue;
        policy->oldest = age;
        found = i;
    }
    return found;
}

void mean_age_swept(struct mean_age *policy, const struct mean_age_extent *extents, size_t count)
{
    uint64_t ages = 0, records = 0;
    size_t old = 0;
    for (size_t i = 0; i < count; i++) {
        ages += extents[i].ages;
        records += MAX(extents[i].records, 1);
        old += mean(extents[i].ages, extents[i].records) > STALE;
    }
    policy->moved = mean(ages, records) > MOVED ||
                    (policy->moved && (double)old > FEW * (double)count);
    (void)find_oldest(policy, extents, count);
}

/* ---- decisions ---- */

bool mean_age_is_stale(const struct mean_age *policy)
{
    return policy->sampler.interval > 0 && policy->sampler.novelty <= NOVEL &&
           policy->oldest > (policy->moved ? STALE : FADED);
}

bool mean_age_is_waste(uint64_t dead, uint64_t records)
{
    return mean(dead * MEAN_AGE_CAP, records) > FADED;
}

bool mean_age_is_hot(struct mean_age *policy, uint64_t hash)
{
    return ghost_touch(&policy->ghost, hash, mean_age_stamp(mean_age_tick(policy)));
}

enum mean_age_verdict mean_age_admit_hot(const struct mean_age *policy, enum mean_age_room room)
{
    if (room == ROOM_FOR_ANY)
        return ADMIT_YES;
    if (mean_age_is_stale(policy))
        return RECYCLE_FOR_ANY;
    return room == ROOM_FOR_HOT ? ADMIT_YES : RECYCLE_FOR_HOT;
}

enum mean_age_verdict mean_age_admit(struct mean_age *policy, uint64_t hash,
                                     enum mean_age_room room)
{
    bool asks = room != ROOM_FOR_ANY && !mean_age_is_stale(policy);
    return asks && !mean_age_is_hot(policy, hash) ? ADMIT_NO : mean_age_admit_hot(policy, room);
}

size_t mean_age_victim(struct mean_age *policy, struct mean_age_extent *extents, size_t count,
                       enum mean_age_verdict why)
{
    check(why == RECYCLE_FOR_ANY || why == RECYCLE_FOR_HOT);
    size_t victim = find_oldest(policy, extents, count);
    if (victim == MEAN_AGE_NONE || (why == RECYCLE_FOR_ANY && !mean_age_is_stale(policy)))
        return MEAN_AGE_NONE;
    extents[victim].taken = true;
    (void)find_oldest(policy, extents, count);
    return victim;
}

/* Returns the lowest age that more than half of the records do not exceed. */
static uint8_t median_age(const struct mean_age_stamps *stamps, uint64_t tick)
{
    uint32_t of_age[MEAN_AGE_CAP + 1] = { 0 }, records = 0, younger = 0;
    for (uint32_t i = 0; i < stamps->count; i++) {
        if (record_set_has(stamps->left_out, i))
            continue;
        of_age[mean_age_of_record(stamps, i, tick)]++;
        records++;
    }
    for (uint8_t age = 0; records && age <= MEAN_AGE_CAP; age++) {
        younger += of_age[age];
        if (younger > records / 2)
            return age;
    }
    return 0;
}

uint8_t mean_age_cut(const struct mean_age_stamps *stamps, uint64_t tick,
                     enum mean_age_verdict why)
{
    uint8_t median = median_age(stamps, tick);
    if (why == RECYCLE_FOR_HOT)
        return median;
    return median > KEEP ? KEEP : 2 * KEEP;    /* an extent with holes keeps all that is in use */
}

/* ---- restart ---- */

void mean_age_save(const struct mean_age *policy, struct mean_age_saved *ret)
{
    const struct sampler *sampler = &policy->sampler;
    *ret = (struct mean_age_saved){ sampler->m1, sampler->m2, mean_age_tick(policy),
                                    sampler->interval > 0, policy->moved };
}

static bool is_plausible(const struct mean_age_saved *saved)
{
    bool in_range = saved->m1 >= 0 && saved->m1 < 1e18 && saved->m2 >= 0 && saved->m2 < 1e36;
    if (!saved->known)
        return in_range;
    return in_range && saved->m1 > 0.5 && saved->m2 > 0.5 && saved->m2 < saved->m1 * 1e18;
}

bool mean_age_restore(struct mean_age *policy, const struct mean_age_saved *saved)
{
    check(relaxed(&policy->touches) == 0);
    if (!is_plausible(saved))
        return false;
    policy->sampler.m1 = saved->m1;
    policy->sampler.m2 = saved->m2;
    policy->moved = saved->moved;
    atomic_store_explicit(&policy->tick, saved->tick, memory_order_relaxed);
    if (saved->known) {
        policy->sampler.interval = saved->m2 / saved->m1;
        set_tick_end(policy, 0);
    }
    return true;
}
