/* rule.c - which records of a volume are admitted, and which extents are recycled.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/rule.h"

#include <stdlib.h>

#define BUNCH 16u                     /* touches that a thread counts at once */

/* ---- the ring ----
 *
 * A place whose turn is N is free for touch N. When the touch is there, the turn is N + 1. When the
 * touch was taken out, the turn is N + RULE_RING. */

static void ring_init(struct rule_ring *ring)
{
    for (size_t i = 0; i < RULE_RING; i++)
        atomic_init(&ring->places[i].turn, i);
}

/* Returns true if the ring is half full. */
static bool ring_put(struct rule_ring *ring, uint64_t hash, uint64_t now)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    struct rule_touch *place;
    for (;;) {
        place = &ring->places[head % RULE_RING];
        uint64_t turn = atomic_load_explicit(&place->turn, memory_order_acquire);
        if (turn < head)
            return true;    /* full */
        if (turn > head)    /* another thread has taken this place */
            head = atomic_load_explicit(&ring->head, memory_order_relaxed);
        else if (atomic_compare_exchange_weak_explicit(&ring->head, &head, head + 1,
                                                       memory_order_relaxed, memory_order_relaxed))
            break;
    }
    place->hash = hash;
    place->now = now;
    atomic_store_explicit(&place->turn, head + 1, memory_order_release);
    return head % (RULE_RING / 2) == 0 && head;
}

void rule_init(struct rule *rule, uint64_t records)
{
    rule->policy = mean_age_new(records);
    rule->what_if = what_if_new(records);
    rule->records = records;
    rule->swept = NEVER_SWEPT;
    rule->wanted = ADMIT_NO;
    rule->next_class = ROOM_FOR_ANY;
    atomic_init(&rule->log_class, ROOM_FOR_ANY);
    ring_init(&rule->ring);
    pthread_mutex_init(&rule->lock, NULL);
    pthread_cond_init(&rule->more, NULL);
}

void rule_follow(struct rule *rule, uint64_t records)
{
    what_if_follow(rule->what_if, records);
    if (records / 2 < rule->records && records >= rule->records / 4)
        return;
    mean_age_resize(rule->policy, records);
    rule->records = records;
}

void rule_end(struct rule *rule)
{
    mean_age_free(&rule->policy);
    what_if_free(&rule->what_if);
    pthread_cond_destroy(&rule->more);
    pthread_mutex_destroy(&rule->lock);
    free(rule->extents);
    free(rule->numbers);
}

/* Both masks are low bits, so one of the two samples has all records of the other. */
static void set_unsampled(struct rule *rule)
{
    uint64_t mask = mean_age_mask(rule->policy) & what_if_mask(rule->what_if);
    if (mask != atomic_load_explicit(&rule->unsampled, memory_order_relaxed))
        atomic_store_explicit(&rule->unsampled, mask, memory_order_relaxed);
}

void rule_drain(struct rule *rule)
{
    struct rule_ring *ring = &rule->ring;
    for (;; ring->tail++) {
        struct rule_touch *place = &ring->places[ring->tail % RULE_RING];
        if (atomic_load_explicit(&place->turn, memory_order_acquire) != ring->tail + 1)
            break;
        mean_age_sample_at(rule->policy, place->hash, place->now);
        what_if_note(rule->what_if, place->hash);
        atomic_store_explicit(&place->turn, ring->tail + RULE_RING, memory_order_release);
    }
    set_unsampled(rule);
}

/* ---- touches ---- */

static bool is_sampled(const struct rule *rule, uint64_t hash)
{
    return !(hash & atomic_load_explicit(&rule->unsampled, memory_order_relaxed));
}

/* Counts touches, the last one of this record. */
static void count(struct rule *rule, uint64_t touches, uint64_t hash)
{
    bool due = mean_age_count(rule->policy, touches);
    bool full = is_sampled(rule, hash) &&
                ring_put(&rule->ring, hash, mean_age_now(rule->policy));
    due = due && !atomic_exchange(&rule->due, true);
    if (due || full)
        pthread_cond_signal(&rule->more);    /* may be lost: the recycler also wakes by itself */
}

void rule_touch(struct rule *rule, uint8_t *bunch, uint64_t hash)
{
    if (++*bunch < BUNCH && !is_sampled(rule, hash))
        return;
    count(rule, *bunch, hash);
    *bunch = 0;
}

void rule_advance(struct rule *rule)
{
    rule_drain(rule);
    if (mean_age_tick(rule->policy) - rule->swept >= MEAN_AGE_UNSWEPT)
        return;
    if (atomic_exchange(&rule->due, false))
        (void)mean_age_advance(rule->policy);
}

/* Under the lock. */
static enum mean_age_room room(const struct rule *rule)
{
    if (rule->wanted != ADMIT_NO && !rule->must)
        return rule->wanted == RECYCLE_FOR_ANY ? ROOM_FOR_ANY : ROOM_FOR_HOT;
    if (atomic_load_explicit(&rule->room_left, memory_order_relaxed) <= 0)
        return ROOM_NONE;
    return (enum mean_age_room)atomic_load_explicit(&rule->log_class, memory_order_relaxed);
}

static void want(struct rule *rule, enum mean_age_verdict why, bool must)
{
    rule->wanted = why;
    rule->must = must;
    pthread_cond_signal(&rule->more);
}

/* The atomic members only. */
static bool has_waste(const struct rule *rule)
{
    return atomic_load(atomic_load(&rule->waste.no_copies) ? &rule->waste.all : &rule->waste.much);
}

/* Under the lock. An extent that is being recycled loses its records one by one, and that is no
 * room yet. So nothing counts while room is made. */
static bool is_waste_room(const struct rule *rule)
{
    return rule->wanted == ADMIT_NO && has_waste(rule);
}

/* Dead records are room for any record, like free space. */
static enum mean_age_verdict judge(struct rule *rule, uint64_t hash, enum mean_age_room before,
                                   bool always)
{
    if (before != ROOM_FOR_ANY && is_waste_room(rule))
        return RECYCLE_FOR_ANY;
    return always ? mean_age_admit_hot(rule->policy, before)
                  : mean_age_admit(rule->policy, hash, before);
}

static bool admits(struct rule *rule, uint64_t hash, bool always, bool is_read)
{
    if (is_read)
        count(rule, 1, hash);
    pthread_mutex_lock(&rule->lock);
    rule_advance(rule);
    if (is_read)
        what_if_missed(rule->what_if);
    enum mean_age_room before = room(rule);
    enum mean_age_verdict verdict = judge(rule, hash, before, always);
    if (verdict == RECYCLE_FOR_ANY && before == ROOM_FOR_HOT)
        atomic_store(&rule->log_class, ROOM_FOR_ANY);    /* made for hot records, now for all */
    else if (verdict == RECYCLE_FOR_ANY || verdict == RECYCLE_FOR_HOT)
        want(rule, verdict, false);
    pthread_mutex_unlock(&rule->lock);
    return verdict != ADMIT_NO;
}

bool rule_admits(struct rule *rule, uint64_t hash, bool always)
{
    return admits(rule, hash, always, true);
}

bool rule_admits_ahead(struct rule *rule, uint64_t hash, bool always)
{
    return admits(rule, hash, always, false);
}

void rule_take_room(struct rule *rule, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&rule->room_left, (int64_t)bytes, memory_order_relaxed);
}

bool rule_has_room(struct rule *rule)
{
    pthread_mutex_lock(&rule->lock);
    bool has = room(rule) != ROOM_NONE || is_waste_room(rule);
    pthread_mutex_unlock(&rule->lock);
    return has;
}

void rule_shrinks(struct rule *rule)
{
    pthread_mutex_lock(&rule->lock);
    if (rule->wanted == ADMIT_NO) {
        rule->shrinks = true;
        want(rule, RECYCLE_FOR_HOT, true);
    }
    pthread_mutex_unlock(&rule->lock);
}

bool rule_waits_for_room(struct rule *rule, bool must)
{
    pthread_mutex_lock(&rule->lock);
    if (rule->wanted == ADMIT_NO && must)
        want(rule, RECYCLE_FOR_HOT, true);
    else if (rule->wanted == ADMIT_NO &&
             atomic_load(&rule->log_class) == ROOM_FOR_HOT)    /* admitted while there was room */
        want(rule, RECYCLE_FOR_HOT, false);
    else if (rule->wanted == ADMIT_NO &&
             (has_waste(rule) || mean_age_is_stale(rule->policy)))
        want(rule, RECYCLE_FOR_ANY, false);
    bool waits = rule->wanted != ADMIT_NO;
    pthread_mutex_unlock(&rule->lock);
    return waits;
}
