/* mean_age.h - admission and eviction by mean age. SPDX-License-Identifier: Apache-2.0
 *
 * Pure (rule H9 in src/README.md): no I/O, no lock, no clock. Time is a number of touches of
 * records; its unit is L, the mean reuse interval that a random moment falls into. A tick is L/16.
 * The caller keeps one stamp byte a record, and stores the tick there at each touch.
 *
 *     hit or miss      mean_age_count, mean_age_samples, mean_age_stamp    any thread, no lock
 *     a sampled touch  mean_age_sample                                     \
 *     end of a tick    mean_age_advance, a sweep of all stamps,             | under one lock of the
 *                      mean_age_swept                                       | caller
 *     miss             mean_age_admit                                       |
 *     room is wanted   mean_age_victim, mean_age_cut, mean_age_keeps       /
 *
 * The sweep and the cut of one extent touch stamps only, and need no lock. */
#ifndef STORE_MEAN_AGE_H
#define STORE_MEAN_AGE_H

#include <stdatomic.h>

#include "store/metadata.h"

#define MEAN_AGE_TICKS 16u            /* in L */
#define MEAN_AGE_CAP (6 * MEAN_AGE_TICKS)    /* ages are counted up to this: 6 L */
#define MEAN_AGE_UNSWEPT (4 * MEAN_AGE_TICKS)    /* ticks between two sweeps, at most */

struct mean_age;

/* `records` is the number of records that the cache can hold. */
struct mean_age *mean_age_new(uint64_t records) MUST_USE;
void mean_age_free(struct mean_age **policy);
/* Adapts to a better estimate of the number of records. Refused records lose their runs of touches,
 * so callers should do this rarely. Under the lock. */
void mean_age_resize(struct mean_age *policy, uint64_t records);

/* ---- touches ---- */

/* Hash of a record: object and first unit. One object's units are sampled independently. */
uint64_t mean_age_hash(const struct object_id *id, uint32_t unit) MUST_USE;
/* Counts `touches`, and returns true if the tick's end has been reached: mean_age_advance is due.
 * A thread may count a bunch of touches with one call. An interval is then wrong by at most the
 * touches that all threads have not counted yet; keep these below 1/64 of the records. With one
 * thread that counts each touch before it does anything else, all decisions are those of
 * tests/policy/mean_age.py. Any thread. */
bool mean_age_count(struct mean_age *policy, uint64_t touches);
/* True if this touch must go to mean_age_sample, after it was counted. About 1,000 of all records
 * that are touched are sampled. Any thread. */
bool mean_age_samples(const struct mean_age *policy, uint64_t hash) MUST_USE;
uint64_t mean_age_mask(const struct mean_age *policy) MUST_USE;    /* sampled hashes lack its bits */
void mean_age_sample(struct mean_age *policy, uint64_t hash);
/* The same, for a touch that was counted earlier: `now` is mean_age_now() of that time. */
void mean_age_sample_at(struct mean_age *policy, uint64_t hash, uint64_t now);
uint64_t mean_age_now(const struct mean_age *policy) MUST_USE;    /* any thread */
/* Begins the next tick if the end of the last one was reached. Returns true if a tick has begun:
 * the caller then sweeps all stamps and calls mean_age_swept. Decisions before that stand on the
 * sweep before. */
bool mean_age_advance(struct mean_age *policy);
/* All of these for one touch, under the lock. Returns true if a tick has begun. */
bool mean_age_touch(struct mean_age *policy, uint64_t hash);
uint64_t mean_age_tick(const struct mean_age *policy) MUST_USE;    /* any thread */
/* True if L is known, so that ticks pass. Any thread. */
bool mean_age_is_known(const struct mean_age *policy) MUST_USE;

/* ---- stamps ---- */

/* Returns the stamp of a touched record. Any thread. */
static inline uint8_t mean_age_stamp(uint64_t tick)
{
    return (uint8_t)tick;
}

/* Returns the stamp of a dead record: purged or overwritten. It counts as CAP old from then on. */
static inline uint8_t mean_age_dead_stamp(uint64_t tick)
{
    return (uint8_t)(tick - MEAN_AGE_CAP);
}

/* True if the stamp is from a later tick than `tick`: the record was touched after the caller had
 * read the tick. Sweeps keep all other stamps younger than MEAN_AGE_CAP + MEAN_AGE_UNSWEPT, so one
 * byte is enough to tell a later stamp from an old one. */
static inline bool mean_age_is_later(uint64_t tick, uint8_t stamp)
{
    return (uint8_t)(stamp - tick - 1) < MEAN_AGE_UNSWEPT;
}

static inline uint8_t mean_age_of_stamp(uint64_t tick, uint8_t stamp)
{
    return mean_age_is_later(tick, stamp) ? 0 : (uint8_t)MIN((uint8_t)(tick - stamp), MEAN_AGE_CAP);
}

/* The stamps of one extent's records. A bit of a set stands for the record of the same number;
 * other threads may set and clear bits. */
struct mean_age_stamps {
    _Atomic uint8_t *stamps;
    uint32_t count;
    const _Atomic uint64_t *pinned;   /* these count as touched now; NULL: none is */
    const _Atomic uint64_t *left_out; /* metadata records have no age; NULL: there are none */
    const _Atomic uint64_t *old;      /* these count as CAP old; NULL: none does */
};

/* An extent that may be recycled: sealed, swept in this tick, not being recycled. */
struct mean_age_extent {
    uint64_t ages;                    /* sum over its records */
    uint32_t records;
    bool taken;                       /* by mean_age_victim, until the next sweep */
};

/* The age of a record that is not left out. */
uint8_t mean_age_of_record(const struct mean_age_stamps *stamps, uint32_t record,
                           uint64_t tick) MUST_USE;
/* Adds up the ages of an extent. Moves old stamps up, so that no stamp seems young when the byte
 * wraps: every extent must be swept at least once in MEAN_AGE_UNSWEPT ticks. Any thread; a touch
 * that comes at the same time is not lost. */
struct mean_age_extent mean_age_sweep(const struct mean_age_stamps *stamps, uint64_t tick) MUST_USE;
/* To be called after a sweep with all extents that may be recycled, in the order in which they were
 * sealed. `extents` is the caller's, and goes to mean_age_victim until the next sweep. */
void mean_age_swept(struct mean_age *policy, const struct mean_age_extent *extents, size_t count);

/* ---- decisions ---- */

enum mean_age_room {
    ROOM_NONE,                        /* nothing can be stored before an extent is recycled */
    ROOM_FOR_HOT,                     /* space that was made for hot records */
    ROOM_FOR_ANY
};
enum mean_age_verdict {
    ADMIT_NO,                         /* serve it, do not store it */
    ADMIT_YES,
    RECYCLE_FOR_ANY,                  /* recycle, store it; the room is ROOM_FOR_ANY from then on */
    RECYCLE_FOR_HOT                   /* recycle, store it; the room is ROOM_FOR_HOT */
};

/* To be called once for each record that is fetched. */
enum mean_age_verdict mean_age_admit(struct mean_age *policy, uint64_t hash,
                                     enum mean_age_room room) MUST_USE;
/* The same for a record that counts as hot, whatever was read before. */
enum mean_age_verdict mean_age_admit_hot(const struct mean_age *policy,
                                         enum mean_age_room room) MUST_USE;
/* The two halves of mean_age_admit, for rules that leave one out. True if an extent is worth
 * recycling for any record. */
bool mean_age_is_stale(const struct mean_age *policy) MUST_USE;
/* True if the dead records of an extent alone raise its mean age so much that it is worth recycling
 * for any record. A caller that then keeps all live records needs no ages. */
bool mean_age_is_waste(uint64_t dead, uint64_t records) MUST_USE;
/* Counts a touch of a record that is not stored. True if the record is hot. */
bool mean_age_is_hot(struct mean_age *policy, uint64_t hash) MUST_USE;

#define MEAN_AGE_NONE SIZE_MAX
/* Returns the index of the extent to recycle, and marks it as taken. MEAN_AGE_NONE: recycle none,
 * and refuse the record. `why` is one of the two reasons to recycle. */
size_t mean_age_victim(struct mean_age *policy, struct mean_age_extent *extents, size_t count,
                       enum mean_age_verdict why) MUST_USE;
/* Age from which the records of a victim are dropped. All records of the extent are judged by one
 * tick. A record that is touched in a later tick has the age 0. */
uint8_t mean_age_cut(const struct mean_age_stamps *stamps, uint64_t tick,
                     enum mean_age_verdict why) MUST_USE;

static inline bool mean_age_keeps(uint8_t cut, uint8_t age, bool pinned)
{
    return pinned || age < cut;
}

/* ---- restart ---- */

/* State that must outlive the process. Without it, no extent is recycled until half of the sampled
 * records have come back: about 1.5 epochs. */
struct mean_age_saved {
    double m1, m2;
    uint64_t tick;
    bool known, moved;                /* L is known; the working set has moved */
};
void mean_age_save(const struct mean_age *policy, struct mean_age_saved *ret);
/* To be called before the first touch; a sweep must follow. Returns false, and changes nothing, if
 * `saved` can't have come from mean_age_save: disks lie. */
bool mean_age_restore(struct mean_age *policy, const struct mean_age_saved *saved) MUST_USE;

#endif
