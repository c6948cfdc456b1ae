/* tallies.h - what the cache holds of each bucket, and of each prefix with limits of its own.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A tally is a bucket, or a prefix of a bucket that is split (limits.h). It has a number, which
 * each record of its objects has in RAM (ages.h). The store has one table of tallies; each volume
 * adds what its records hold. A tally of a bucket is found by the bucket's hash, a tally of a
 * prefix by the name of the object. The name of a bucket is known once an object of it was
 * appended, or its name was read in a table of contents.
 *
 * Numbers are never used again in a process. Beyond TALLIES_MAX (rule H8 in src/README.md), and for
 * records whose bucket is not known, the tally is 0. The last TALLIES_KEPT numbers are for buckets
 * with a quota or a time of expiry: other buckets, however many are read, do not use them up. Any
 * thread. */
#ifndef STORE_TALLIES_H
#define STORE_TALLIES_H

#include "base/metric_bucket.h"
#include "store/limits.h"
#include "store/route.h"

#define TALLIES_MAX 16384u
#define TALLIES_KEPT 4096u

struct tallies;
struct tallies *tallies_new(const uint8_t *secret) MUST_USE;
void tallies_free(struct tallies **all);

/* Replaces the limits of buckets and prefixes. */
void tallies_set_limits(struct tallies *all, const struct store_limits *rows, size_t count);
/* Returns the limits of an object by its name, without bucket and prefix. Without a row for it,
 * there are none, and the rule decides. */
struct store_limits tallies_limits(struct tallies *all, slice name) MUST_USE;

/* ---- which tally ---- */

/* Returns the tally of an object by its name (metadata->name). */
uint16_t tallies_of_name(struct tallies *all, slice name) MUST_USE;
/* Finds the tally of the bucket with this hash. Returns false if the name of the object is needed:
 * its prefix may decide. *ret is then the tally for an object whose name is not known. */
bool tallies_of_bucket(struct tallies *all, uint64_t bucket, uint16_t *ret) MUST_USE;

/* Rises when buckets are split in another way: then a record may have another tally. */
uint32_t tallies_layout(const struct tallies *all) MUST_USE;

/* ---- sums ---- */

/* A change, or a sum of changes. */
struct tally_change {
    uint16_t tally;
    int32_t records, objects;         /* objects by their metadata */
    int64_t bytes;                    /* of data */
};
/* To be called when the volume begins to count what its folder has, and when it has counted all
 * records by this layout. In between, and after a change of the layout, no sum is complete. */
void tallies_begin(struct tallies *all, uint32_t volume);
void tallies_counted(struct tallies *all, uint32_t volume, uint32_t layout);
/* Takes away all that the volume has added: its folder was closed. For quotas, its bytes still count
 * until tallies_begin, because the folder may come back with them. */
void tallies_leave(struct tallies *all, uint32_t volume);
/* To be called when the volume's folder begins to hang, and when it answers again. Nobody waits for
 * the count of a folder that hangs: for quotas, its bytes count as those of a closed one. */
void tallies_set_hanging(struct tallies *all, uint32_t volume, bool hangs);
/* Returns true if all sums are complete, but for those of folders that hang. */
bool tallies_are_counted(const struct tallies *all) MUST_USE;
/* Adds what changed in a volume. */
void tallies_add(struct tallies *all, uint32_t volume, const struct tally_change *change);
/* Counts bytes of a tally as evicted. */
void tallies_evicted(struct tallies *all, uint16_t tally, uint64_t bytes);
/* Returns the sum of a tally in all volumes, or in one. */
struct tally_change tallies_sum(struct tallies *all, uint16_t tally) MUST_USE;
struct tally_change tallies_sum_in(struct tallies *all, uint16_t tally, uint32_t volume) MUST_USE;

/* ---- quotas ---- */

/* Takes room for bytes that are on their way to the store. Returns false if the tally would have
 * more than its quota, or has a quota and the sums are not complete. To be given back when the bytes
 * are counted, or dropped. */
bool tallies_take(struct tallies *all, uint16_t tally, uint64_t bytes) MUST_USE;
void tallies_give(struct tallies *all, uint16_t tally, uint64_t bytes);
/* Returns true if tallies_take would take this many bytes now. */
bool tallies_has_room(const struct tallies *all, uint16_t tally, uint64_t bytes) MUST_USE;
/* Returns true if the tally is at its quota, as far as its bytes are counted: it has no room for the
 * largest record. */
bool tallies_is_full(const struct tallies *all, uint16_t tally) MUST_USE;
/* Returns true if any tally is at its quota. */
bool tallies_any_full(const struct tallies *all) MUST_USE;

/* ---- expiry ----
 *
 * The time of expiry is cut into EXPIRE_SLICES slices of the ageing clock. A slice has a number
 * from 1 to 255; the same numbers come again and again. */

#define EXPIRE_SLICES 32u
#define EXPIRE_NUMBERS 255u

/* The number of slices from one to another. */
static inline uint32_t expire_age(uint8_t now, uint8_t then)
{
    return (now + EXPIRE_NUMBERS - then) % EXPIRE_NUMBERS;
}
/* Returns the slice that is `slices` slices earlier. */
static inline uint8_t expire_back(uint8_t now, uint32_t slices)
{
    return (uint8_t)(1 + (now - 1 + EXPIRE_NUMBERS - slices) % EXPIRE_NUMBERS);
}

struct tally_expiry {
    uint8_t now;                      /* the present slice; 0: the tally has no time of expiry */
    bool anew;                        /* the time has changed, or the clock was set back: all records
                                       * count from now on */
    bool jumped;                      /* so much time has passed that numbers came again */
};
/* A volume looks at all its records between these two calls. The first one moves all tallies to
 * their present slices, and returns tallies_expire_turn. A change of the time that comes between the
 * two is new at the next look. */
uint32_t tallies_expire_begin(struct tallies *all, uint32_t volume) MUST_USE;
void tallies_expire_seen(struct tallies *all, uint32_t volume);
/* Returns the changes of a tally's time of expiry since the volume's latest look. */
struct tally_expiry tallies_expiry(struct tallies *all, uint16_t tally, uint32_t volume) MUST_USE;
/* The present slice of a tally, or 0. Cheap: for reads. */
uint8_t tallies_expire_now(const struct tallies *all, uint16_t tally);
/* Returns true if any tally has a time of expiry. Cheap. */
bool tallies_any_expire(const struct tallies *all);
/* Moves all tallies to their present slices. Returns a number that has risen if one of them has
 * moved. */
uint32_t tallies_expire_turn(struct tallies *all);

/* Adds what the cache holds to ret[METRIC_BUCKETS_MAX], by the numbers of the buckets. */
void tallies_holds(struct tallies *all, struct bucket_holds *ret);

#endif
