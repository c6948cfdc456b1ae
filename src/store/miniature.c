/* miniature.c - a cache without bytes, in which the rule is simulated.
 * SPDX-License-Identifier: Apache-2.0
 *
 * This is the class Log of tests/policy/mean_age.py, with records of one size, without pins and
 * without removals. The decisions are those of mean_age.c itself. A place is a slot of a record:
 * extent E has the places from E * extent_records on. Records of an extent that are copied forward
 * stay in its places, so the extent is then the open one. */
#include "store/miniature.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CHAINS 4096u
#define NO_EXTENT UINT16_MAX
#define LEAST_EXTENTS 2u

struct miniature {
    struct mean_age *policy;
    uint32_t extent_records, extents; /* places of an extent; extents that there are places for */
    uint32_t allowed;                 /* extents that there is room for now */
    /* of each place */
    uint64_t *hashes;
    _Atomic uint8_t *stamps;
    uint16_t *next;                   /* place + 1 of the next record in its chain; 0: none */
    uint16_t chains[CHAINS];          /* place + 1 */
    /* of each extent */
    uint16_t *counts;                 /* records */
    uint16_t *sealed, *unused;        /* numbers of extents; `sealed` in the order of sealing */
    uint32_t sealed_count, unused_count;
    uint16_t open;                    /* or NO_EXTENT */
    bool hot;                         /* the open extent has room for hot records only */
    /* of the latest sweep */
    struct mean_age_extent *swept;
    uint16_t *swept_numbers;
    uint32_t swept_count;
};

struct miniature *miniature_new(uint32_t records_max, uint32_t extent_records)
{
    struct miniature *mini = must_alloc(sizeof(*mini));
    mini->extent_records = extent_records;
    mini->extents = MAX(LEAST_EXTENTS, (records_max + extent_records / 2) / extent_records);
    size_t places = (size_t)mini->extents * extent_records;
    check(extent_records && places < UINT16_MAX && mini->extents < NO_EXTENT);
    mini->hashes = must_alloc(places * sizeof(*mini->hashes));
    mini->stamps = must_alloc(places);
    mini->next = must_alloc(places * sizeof(*mini->next));
    mini->counts = must_alloc(mini->extents * sizeof(*mini->counts));
    mini->sealed = must_alloc(mini->extents * sizeof(*mini->sealed));
    mini->unused = must_alloc(mini->extents * sizeof(*mini->unused));
    mini->swept = must_alloc(mini->extents * sizeof(*mini->swept));
    mini->swept_numbers = must_alloc(mini->extents * sizeof(*mini->swept_numbers));
    mini->unused_count = mini->extents;
    for (uint32_t i = 0; i < mini->extents; i++)
        mini->unused[i] = (uint16_t)i;
    mini->open = NO_EXTENT;
    return mini;
}

void miniature_free(struct miniature **mini)
{
    struct miniature *gone = *mini;
    *mini = NULL;
    if (!gone)
        return;
    mean_age_free(&gone->policy);
    free(gone->hashes);
    free((void *)(uintptr_t)gone->stamps);
    free(gone->next);
    free(gone->counts);
    free(gone->sealed);
    free(gone->unused);
    free(gone->swept);
    free(gone->swept_numbers);
    free(gone);
}

double miniature_interval(const struct miniature *mini)
{
    struct mean_age_saved saved = { .known = false };
    if (mini->policy)
        mean_age_save(mini->policy, &saved);
    return saved.known ? saved.m2 / saved.m1 : 0;
}

/* ---- places ---- */

static uint16_t *chain_of(struct miniature *mini, uint64_t hash)
{
    return &mini->chains[hash >> 52];    /* the low bits are those of the sample */
}
static_assert(CHAINS == 1u << (64 - 52), "a chain for each value of the high bits");

/* Returns the place + 1, or 0. */
static uint16_t find(struct miniature *mini, uint64_t hash)
{
    uint16_t at = *chain_of(mini, hash);
    while (at && mini->hashes[at - 1] != hash)
        at = mini->next[at - 1];
    return at;
}

static void unlink_place(struct miniature *mini, uint32_t place)
{
    uint16_t *link = chain_of(mini, mini->hashes[place]);
    while (*link != place + 1)
        link = &mini->next[*link - 1];
    *link = mini->next[place];
}

/* Adds a record to the open extent. */
static void append(struct miniature *mini, uint64_t hash, uint8_t stamp)
{
    uint32_t place = mini->open * mini->extent_records + mini->counts[mini->open]++;
    uint16_t *chain = chain_of(mini, hash);
    mini->hashes[place] = hash;
    atomic_store_explicit(&mini->stamps[place], stamp, memory_order_relaxed);
    mini->next[place] = *chain;
    *chain = (uint16_t)(place + 1);
}

static struct mean_age_stamps stamps_of(struct miniature *mini, uint16_t extent)
{
    return (struct mean_age_stamps){ mini->stamps + (size_t)extent * mini->extent_records,
                                     mini->counts[extent], NULL, NULL, NULL };
}

/* ---- extents ---- */

static void sweep(struct miniature *mini)
{
    uint64_t tick = mean_age_tick(mini->policy);
    for (uint32_t i = 0; i < mini->sealed_count; i++) {
        struct mean_age_stamps stamps = stamps_of(mini, mini->sealed[i]);
        mini->swept[i] = mean_age_sweep(&stamps, tick);
        mini->swept_numbers[i] = mini->sealed[i];
    }
    if (mini->open != NO_EXTENT) {    /* not a victim; but its stamps must not wrap */
        struct mean_age_stamps stamps = stamps_of(mini, mini->open);
        (void)mean_age_sweep(&stamps, tick).ages;
    }
    mini->swept_count = mini->sealed_count;
    mean_age_swept(mini->policy, mini->swept, mini->swept_count);
}

static void unseal(struct miniature *mini, uint16_t extent)
{
    uint32_t at = 0;
    while (mini->sealed[at] != extent)
        at++;
    mini->sealed_count--;
    memmove(&mini->sealed[at], &mini->sealed[at + 1],
            (mini->sealed_count - at) * sizeof(*mini->sealed));
}

/* Drops the records of an extent from this age on. The others move to its first places. */
static void drop_older(struct miniature *mini, uint16_t extent, uint8_t cut)
{
    uint32_t first = extent * mini->extent_records, count = mini->counts[extent];
    struct mean_age_stamps stamps = stamps_of(mini, extent);
    uint64_t tick = mean_age_tick(mini->policy);
    mini->open = extent;
    mini->counts[extent] = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t age = mean_age_of_record(&stamps, i, tick);
        unlink_place(mini, first + i);
        if (mean_age_keeps(cut, age, false))
            append(mini, mini->hashes[first + i], mini->stamps[first + i]);
    }
}

/* Returns false if the rule gives no extent. */
static bool recycle(struct miniature *mini, enum mean_age_verdict why)
{
    size_t at = mean_age_victim(mini->policy, mini->swept, mini->swept_count, why);
    if (at == MEAN_AGE_NONE)
        return false;
    uint16_t victim = mini->swept_numbers[at];
    struct mean_age_stamps stamps = stamps_of(mini, victim);
    unseal(mini, victim);
    drop_older(mini, victim, mean_age_cut(&stamps, mean_age_tick(mini->policy), why));
    mini->hot = why == RECYCLE_FOR_HOT;
    return true;
}

static void begin_extent(struct miniature *mini)
{
    mini->open = mini->unused[--mini->unused_count];
    mini->hot = false;
}

static void seal(struct miniature *mini)
{
    mini->sealed[mini->sealed_count++] = mini->open;
    mini->open = NO_EXTENT;
}

/* Drops the oldest extents of the latest sweep until there are no more than are allowed. */
static void shrink(struct miniature *mini)
{
    if (mini->open != NO_EXTENT && mini->sealed_count >= mini->allowed)
        seal(mini);
    while (mini->sealed_count > mini->allowed && recycle(mini, RECYCLE_FOR_HOT)) {
        drop_older(mini, mini->open, 0);
        mini->unused[mini->unused_count++] = mini->open;
        mini->open = NO_EXTENT;
    }
}

void miniature_resize(struct miniature *mini, uint32_t records)
{
    uint32_t extents = (records + mini->extent_records / 2) / mini->extent_records;
    mini->allowed = MIN(MAX(LEAST_EXTENTS, extents), mini->extents);
    if (!mini->policy)
        mini->policy = mean_age_new(records);
    if (mini->sealed_count + (mini->open != NO_EXTENT) <= mini->allowed)
        return;
    sweep(mini);
    shrink(mini);
}

/* ---- reads ---- */

/* Does what the verdict says. Returns true if the record may be appended. */
static bool make_room(struct miniature *mini, enum mean_age_verdict verdict)
{
    if (verdict == ADMIT_NO)
        return false;
    if (verdict != ADMIT_YES) {
        if (mini->open != NO_EXTENT)
            mini->hot = false;
        else if (!recycle(mini, verdict))
            return false;
    }
    return mini->counts[mini->open] < mini->extent_records;
}

static void miss(struct miniature *mini, uint64_t hash)
{
    if (mini->open != NO_EXTENT && mini->counts[mini->open] == mini->extent_records)
        seal(mini);
    if (mini->open == NO_EXTENT && mini->sealed_count < mini->allowed)
        begin_extent(mini);
    enum mean_age_room room = mini->open == NO_EXTENT ? ROOM_NONE
                              : mini->hot ? ROOM_FOR_HOT : ROOM_FOR_ANY;
    if (make_room(mini, mean_age_admit(mini->policy, hash, room)))
        append(mini, hash, mean_age_stamp(mean_age_tick(mini->policy)));
}

bool miniature_touch(struct miniature *mini, uint64_t hash)
{
    check(mini->policy != NULL);
    if (mean_age_touch(mini->policy, hash))
        sweep(mini);
    uint16_t at = find(mini, hash);
    if (at)
        atomic_store_explicit(&mini->stamps[at - 1],
                              mean_age_stamp(mean_age_tick(mini->policy)), memory_order_relaxed);
    else
        miss(mini, hash);
    return at != 0;
}
