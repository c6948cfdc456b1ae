/* flight.h - bytes on their way in. SPDX-License-Identifier: Apache-2.0
 *
 * inflight ──┬─ probes     HEADs under way, for who wants their answers
 *            ├─ fetch ──── one origin GET of a span of units; leader of the flights it feeds
 *            └─ flights    runs of at most 8 units in one aligned 1 MiB group, filling in RAM
 *
 * The table is by object hash in 64 shards; everything below an object is guarded by its shard's
 * lock (order: shard lock, then slots, then none). Bytes are copied outside the lock: only the
 * fetch's origin thread writes a flight's slot, and publishes how far it got in `filled`. A flight
 * is joinable until the store has committed it (H6): looked up here first, then in the store, a
 * byte is never missed between the two. An object whose key is written to is unhooked from the
 * table (H7): its readers go on, newcomers find nothing and start anew. */
#ifndef CACHE_FLIGHT_H
#define CACHE_FLIGHT_H

#include <pthread.h>

#include "base/list.h"
#include "cache/cache.h"
#include "cache/epoch.h"

#define GROUP_BYTES ((uint64_t)RECORD_BYTES_MAX)
#define WAIT_AHEAD_BYTES (8 * MIB)    /* a fetch so far behind a byte is worth waiting for */
#define REFUSED_AHEAD_BYTES (2 * MIB) /* an unstored stream before its fastest reader */
#define REFUSED_KEPT 4                /* and keeps so many flights for the slower ones */

struct flights;
struct fetch;

/* Everything under way for one object. */
struct inflight {
    uint64_t magic;
    struct list link;             /* in its shard; unlinked when unhooked */
    struct flights *flights;
    struct cache *cache;
    struct object_id id;
    const struct place *place;
    slice bucket, key, version;   /* own copies */
    struct head *head;            /* what the newest answer said; NULL until one came */
    uint32_t shown;               /* to the shared name: as head->shown, of any head (permit.c) */
    struct list fetches, flying;
    struct list probes;           /* HEADs: fetches without a body */
    struct epoch_note epoch;      /* when it was hooked in */
    unsigned refs;                /* under the lock */
    bool unhooked;
};

enum flight_state { FLIGHT_FILLING, FLIGHT_LANDED, FLIGHT_FAILED };

struct flight {
    uint64_t magic;
    struct list link;             /* inflight->flying while it can be joined */
    struct inflight *inflight;
    struct fetch *fetch;          /* who feeds it; NULL once it landed */
    struct head *head;
    uint64_t start, length;       /* bytes of the object; start on a unit */
    _Atomic uint64_t filled;      /* bytes that are there, counted from start */
    _Atomic int state;            /* enum flight_state */
    char *bytes;
    size_t slot_bytes;
    struct list waiters;
    uint64_t woken_ns, woken_bytes;    /* when they were last woken, and how far it was then */
    unsigned refs;                /* under the lock */
    struct store_append append;
    struct epoch_note epoch;
};

/* Somebody who waits for a flight or a fetch to get further. Embedded; linked under the lock. */
struct waiter {
    struct list link;
    struct ticket *ticket;
};

struct flights *flights_new(struct cache *cache, size_t slots_bytes) MUST_USE;
void flights_free(struct flights **flights);    /* nothing may be under way */

/* Of how many objects is something under way, or read by who has waited for it, or on its way from
 * here to the store? */
size_t flights_objects(struct flights *flights);
/* True if nothing is under way for any object of this shard: a hit needs no lock. */
bool flights_idle(struct flights *flights, const struct object_id *id);
void flights_lock(struct flights *flights, const struct object_id *id);
void flights_unlock(struct flights *flights, const struct object_id *id);

/* ---- under the lock of the object ---- */
/* A reference, or NULL. */
struct inflight *inflight_find(struct flights *flights, const struct object_id *id) MUST_USE;
struct inflight *inflight_get(struct flights *flights, const struct object_id *id,
                          const struct object_name *name, const struct place *place) MUST_USE;
struct inflight *inflight_ref(struct inflight *inflight) MUST_USE;
void inflight_unref(struct inflight **inflight);
void inflight_unhook(struct flights *flights, const struct object_id *id);
void inflight_set_head(struct inflight *inflight, struct head *head);

/* The joinable flight of that version that has or will have this byte: a reference, or NULL. */
struct flight *flight_find(struct inflight *inflight, uint64_t etag_hash, uint64_t offset) MUST_USE;
struct flight *flight_ref(struct flight *flight) MUST_USE;
void flight_unref(struct flight **flight);
void waiter_add(struct list *waiters, struct waiter *waiter);
void waiters_wake(struct list *waiters);

/* ---- slots: RAM for bodies, a byte budget ---- */
/* A new flight with its slot, linked and referenced by the fetch; NULL: no slot free just now, and
 * `feeder` will be resumed when there is one. Under the lock. */
struct flight *flight_new(struct inflight *inflight, struct fetch *feeder, struct head *head,
                          uint64_t start, uint64_t length) MUST_USE;
/* Full, or closed early at a whole unit: hands it to the store if `store_it`. Under the lock.
 * false: it was not handed over, and stays joinable only as long as somebody holds it. */
bool flight_land(struct flight *flight, bool store_it, bool with_head) MUST_USE;
void flight_fail(struct flight **flight);
/* A fetch goes, or begins again: it waits for no slot any more. */
void slots_forget(struct flights *flights, struct fetch *fetch);
/* A fetch that is over, or waits for its readers, keeps flights for them: until others need a slot.
 * false: they do already. */
bool slots_spare(struct flights *flights, struct fetch *fetch) MUST_USE;
/* Takes such flights away. With no lock held. */
void slots_press(struct flights *flights);
/* Little is left: who reads slowly must not hold on to a slot. */
bool slots_scarce(struct flights *flights);

#endif
