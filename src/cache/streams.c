/* streams.c - clients that read one object from front to back, a range at a time.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The table has no references: an entry is a position, and what to do for a reader that goes on
 * there. If no reader comes, the fetches beyond the end of the last range end with their spans, and
 * their bytes are in the store. Only bytes that the store takes are fetched beyond a range. */
#include "cache/streams.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cache/plan.h"

#define SETS 64u
#define WAYS 8u
#define FORGOTTEN_MS 10000u           /* a stream without a further range ends then */
#define RANGE_LEAST MIB               /* shorter ranges are not from such clients */
#define AHEAD_FIRST (8 * MIB)

static_assert(AHEAD_FIRST <= WINDOW_AHEAD_MOST, "a window may have this lead");

struct entry {
    struct object_id id;
    uint64_t etag_hash, pos;
    uint64_t at_ms;                   /* ageing time; 0: free */
    uint64_t ahead;
    unsigned fetches_max;
};

struct set {
    pthread_mutex_t lock;
    _Atomic uint64_t latest_ms;       /* time of the newest entry: spares most hits the lock */
    struct entry entries[WAYS];
};

struct streams {
    struct set sets[SETS];
};

struct streams *streams_new(void)
{
    struct streams *streams = must_alloc(sizeof(*streams));
    for (size_t i = 0; i < SETS; i++)
        pthread_mutex_init(&streams->sets[i].lock, NULL);
    return streams;
}

void streams_free(struct streams **streams)
{
    for (size_t i = 0; *streams && i < SETS; i++)
        pthread_mutex_destroy(&(*streams)->sets[i].lock);
    free(*streams);
    *streams = NULL;
}

static struct set *set_of(struct streams *streams, const struct plan *plan)
{
    return &streams->sets[plan->of->id.bytes[4] % SETS];
}

/* Batches and fills know what they will read, and ask for all of it. Another node reads ahead itself,
 * and asks the owner of each segment. */
static bool may_belong(const struct plan *plan)
{
    return !plan->to && !plan->of->asker.list_id && !plan->of->asker.for_peer &&
           plan->end - plan->first >= RANGE_LEAST &&
           learn_has_strong_etag(plan->metadata);
}

/* Takes the entry of the stream that this plan goes on with. */
static bool take(struct set *set, const struct plan *plan, struct entry *ret)
{
    bool found = false;
    pthread_mutex_lock(&set->lock);
    for (size_t i = 0; i < WAYS && !found; i++) {
        struct entry *entry = &set->entries[i];
        found = entry->at_ms && entry->pos == plan->first &&
                plan->of->began_ms < entry->at_ms + FORGOTTEN_MS &&
                entry->etag_hash == plan->metadata->etag_hash &&
                memcmp(&entry->id, &plan->of->id, sizeof(entry->id)) == 0;
        if (found) {
            *ret = *entry;
            entry->at_ms = 0;
        }
    }
    pthread_mutex_unlock(&set->lock);
    return found;
}

static void put(struct set *set, const struct entry *entry)
{
    pthread_mutex_lock(&set->lock);
    check(entry->at_ms > 0);    /* 0: free */
    struct entry *oldest = &set->entries[0];
    for (size_t i = 1; i < WAYS; i++)
        if (set->entries[i].at_ms < oldest->at_ms)
            oldest = &set->entries[i];
    *oldest = *entry;
    atomic_store(&set->latest_ms, entry->at_ms);
    pthread_mutex_unlock(&set->lock);
}

void streams_begin(struct streams *streams, struct plan *plan)
{
    struct set *set = set_of(streams, plan);
    struct entry entry;
    if (!plan->first || plan->of->began_ms >= atomic_load(&set->latest_ms) + FORGOTTEN_MS ||
        !may_belong(plan) || !take(set, plan, &entry))
        return;
    flights_lock(plan->of->flights, &plan->of->id);
    plan_hook_in(plan);
    window_go_on(plan, entry.fetches_max, entry.ahead);
    flights_unlock(plan->of->flights, &plan->of->id);
}

void streams_end(struct streams *streams, struct plan *plan)
{
    const struct window *window = &plan->window;
    const struct fetch *fetch = plan->sources.fetch;
    bool stored = fetch ? fetch->admission.stores : window->stored;
    if (!plan->metadata || plan->pos < plan->end || plan->end >= plan->metadata->size || !stored ||
        !may_belong(plan))
        return;
    check(plan->pos == plan->end);
    struct entry entry = { .id = plan->of->id, .etag_hash = plan->metadata->etag_hash,
                           .pos = plan->end, .at_ms = ageing_ms(), .ahead = window->ahead,
                           .fetches_max = window->fetches_max };
    if (fetch || !window->ahead) {    /* the reader waited for the origin */
        entry.ahead = MIN(MAX(entry.ahead * 2, (uint64_t)AHEAD_FIRST), (uint64_t)WINDOW_AHEAD_MOST);
        entry.fetches_max = MIN(MAX(entry.fetches_max, 1u) * 2, WINDOW_FETCHES);
    }
    put(set_of(streams, plan), &entry);
    window_detach(plan);
}
