/* rule.h - which records of a volume are admitted, and which extents are recycled.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The rule is mean_age.h. This part gives it the volume's touches, has the lock that it needs, and
 * knows for which records the volume has room. Threads: any, unless a comment says otherwise. */
#ifndef STORE_RULE_H
#define STORE_RULE_H

#include <pthread.h>

#include "store/extent.h"
#include "store/mean_age.h"
#include "store/what_if.h"

/* Sampled touches on their way to the policy. Any thread puts them in without a lock. If the ring
 * is full, a touch is lost. */
#define RULE_RING 1024u
struct rule_ring {
    struct rule_touch {
        _Atomic uint64_t turn;        /* the state of the place (rule.c) */
        uint64_t hash, now;
    } places[RULE_RING];
    _Atomic uint64_t head;
    uint64_t tail;                    /* under the lock */
};

/* The sealed extents whose dead records are room for any record, without regard to ages: the
 * recycler copies all live records. The committer counts them (account.c). */
struct rule_waste {
    atomic_uint much;                 /* extents with enough dead records (ages.h) ... */
    atomic_uint all;                  /* ... those of them that have no live record */
    atomic_bool no_copies;            /* the disk has no space for copies: only `all` are room */
};

#define NEVER_SWEPT UINT64_MAX
struct rule {
    struct mean_age *policy;
    pthread_mutex_t lock;             /* guards all members but the atomic ones */
    pthread_cond_t more;              /* wakes the recycler */
    uint64_t records;                 /* the number of records that the policy was made for */
    /* Why the recycler is to make room; ADMIT_NO: it is not. */
    enum mean_age_verdict wanted;
    bool must;                        /* wanted for a record that the rule did not judge */
    bool shrinks;                     /* as must, and what is not pinned goes */
    bool stopping;
    uint64_t swept;                   /* the tick of the latest sweep; NEVER_SWEPT: none yet */
    atomic_bool due;                  /* a tick has ended */
    struct rule_ring ring;
    struct what_if *what_if;          /* caches of other sizes */
    _Atomic uint64_t unsampled;       /* a record goes into the ring if its hash has none of these
                                       * bits: it is in the sample of the policy or of what_if */
    enum mean_age_room next_class;    /* for which records the next extent of the log has room */
    _Atomic uint32_t log_class;       /* enum mean_age_room: for which records the log has room */
    _Atomic int64_t room_left;        /* bytes that the log can take, minus those in the queue */
    struct rule_waste waste;
    /* the extents of the latest sweep, for the recycler only */
    struct mean_age_extent *extents;
    uint32_t *numbers;
    size_t extent_count;
};

/* `records` is a guess at how many records the volume can hold. */
void rule_init(struct rule *rule, uint64_t records);
void rule_end(struct rule *rule);
/* Follows a better guess, once it differs much from the one before: the policy then forgets the
 * records that it refused. Under the lock. */
void rule_follow(struct rule *rule, uint64_t records);

/* The stamp of a record that is touched now, and that of a dead record. */
static inline uint8_t rule_stamp(const struct rule *rule)
{
    return mean_age_stamp(mean_age_tick(rule->policy));
}
static inline uint8_t rule_dead_stamp(const struct rule *rule)
{
    return mean_age_dead_stamp(mean_age_tick(rule->policy));
}

/* The first unit of the record that has this unit, for hashes. */
static inline uint32_t rule_first_unit(uint32_t unit)
{
    return unit / RECORD_UNITS * RECORD_UNITS;
}
/* Counts a touch of a record. `bunch` is the number of touches of the calling thread that are not
 * counted yet. Takes no lock. */
void rule_touch(struct rule *rule, uint8_t *bunch, uint64_t hash);
/* Gives the policy and what_if the sampled touches. Under the lock. */
void rule_drain(struct rule *rule);
/* Gives the policy the sampled touches, and begins the next tick if it is due. But if the latest
 * sweep is MEAN_AGE_UNSWEPT ticks old, the next tick waits for another sweep. Under the lock. */
void rule_advance(struct rule *rule);
/* True if a sweep has seen all stamps in this tick. Under the lock. */
static inline bool rule_is_swept(const struct rule *rule)
{
    return rule->swept == mean_age_tick(rule->policy);
}
/* Counts a touch of a record that is not stored, and decides whether to store it. If room must be
 * made, wakes the recycler. `always`: the record counts as hot. */
bool rule_admits(struct rule *rule, uint64_t hash, bool always);
/* The same for a record that is fetched ahead of its reader. The read will be the touch: if both
 * counted, half of the reuse intervals would be those between job and reader. */
bool rule_admits_ahead(struct rule *rule, uint64_t hash, bool always);

/* To be called when an admitted record is queued: it uses these bytes of the room. */
void rule_take_room(struct rule *rule, uint64_t bytes);

/* True if there is room for any record, or for hot ones. */
bool rule_has_room(struct rule *rule);

/* Asks the recycler for room that is used for nothing: the extents must become fewer. It then keeps
 * only what is pinned. */
void rule_shrinks(struct rule *rule);
/* For an append that finds no room. Returns true if the recycler makes room now: the append may
 * wait. `must`: the recycler makes room even if the rule has not asked for it. */
bool rule_waits_for_room(struct rule *rule, bool must);

#endif
