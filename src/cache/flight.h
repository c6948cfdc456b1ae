/* flight.h - bytes on their way from an origin to readers and the store.
 * SPDX-License-Identifier: Apache-2.0
 *
 * inflight ──┬─ probes     HEADs in progress, with their waiters
 *            ├─ fetch ──── one origin GET of a span of units; leader of the flights it feeds
 *            └─ flights    runs of at most 8 units in one aligned 1 MiB group, filling in RAM
 *
 * An inflight is an object with something in progress; a unit is 128 KiB of an object. The table of
 * inflights has 64 shards; an object's hash gives its shard. The shard's lock guards everything
 * that belongs to the object. A thread may take the lock of the slots while it holds a shard's
 * lock, and no other lock then. Bytes are copied outside of the lock: only the fetch's origin
 * thread writes a flight's slot (its memory), and it announces the number of bytes in `filled`. A
 * flight is joinable until the store has committed it (rule H6 in src/README.md). A reader looks
 * here first and in the store second, so it finds every byte in one of the two. A write of a key
 * unhooks its object from the table (H7): the readers of the object go on, and later readers do not
 * find it and start anew. */
#ifndef CACHE_FLIGHT_H
#define CACHE_FLIGHT_H

#include <pthread.h>

#include "base/list.h"
#include "cache/cache.h"
#include "cache/epoch.h"

#define GROUP_BYTES ((uint64_t)RECORD_BYTES_MAX)
#define WAIT_AHEAD_BYTES (8 * MIB)    /* a reader joins a fetch that is at most so far behind it */
#define UNSTORED_AHEAD_BYTES (2 * MIB)    /* how far an unstored stream may lead its readers */
#define UNSTORED_KEPT 4               /* flights that such a stream keeps for slower readers */

struct flights;
struct fetch;
struct admission;                 /* fetch.h */

/* All fetches and flights in progress for one object. */
struct inflight {
    uint64_t magic;
    struct list link;             /* in the shard, until it is unhooked */
    struct flights *flights;
    struct cache *cache;
    struct object_id id;
    const struct rules *rules;
    struct object_name name;      /* own copies, but for the endpoint */
    struct metadata *metadata;    /* of the newest answer; NULL before it, or without an object */
    struct learnt {               /* of the newest answer */
        uint64_t etag_hash;       /* 0: before the first answer, or there is no object */
        unsigned answers;         /* number of answers up to it, and of late ones */
        bool strong;              /* its ETag is a strong one */
    } learnt;
    /* The origin's latest answer to the shared identity, in the form of metadata->granted, but for
     * any metadata of the object (permit.c). */
    uint32_t granted;
    struct list fetches, flying;
    struct list probes;           /* HEADs: fetches without a body */
    struct epoch_note epoch;      /* the note when it was put into the table */
    uint64_t compared;            /* store_compared() at that time */
    unsigned refs;                /* under the lock */
    bool unhooked;
};

struct flight {
    uint64_t magic;
    struct list link;             /* inflight->flying while it can be joined */
    struct inflight *inflight;
    struct fetch *fetch;          /* the fetch that feeds it; NULL: it has landed or failed */
    struct metadata *metadata;
    uint64_t start, length;       /* its bytes in the object; a unit begins at `start` */
    _Atomic uint64_t filled;      /* number of bytes that are there, from start on */
    /* The bytes before it came from another node, and the others from the origin. */
    _Atomic uint64_t peer_end;
    char *bytes;
    size_t slot_bytes;
    bool ahead;                   /* a fetch that was begun ahead of its reader feeds it */
    struct list waiters;
    uint64_t woken_ns, woken_bytes;    /* time and `filled` of the latest wake of its waiters */
    unsigned refs;                /* under the lock */
    struct epoch_fill fill;
};

/* A waiter is woken when a flight or a fetch makes progress. Linked under the lock. */
struct waiter {
    struct list link;
    struct ticket *ticket;
};

struct flights *flights_new(struct cache *cache, size_t slots_bytes) MUST_USE;
void flights_free(struct flights **flights);    /* nothing may be in progress */

/* Number of objects with a fetch in progress, a reader still attached, or bytes on their way to the
 * store. */
size_t flights_objects(struct flights *flights);
/* True if nothing is in progress for any object of this shard. A hit then needs no lock. */
bool flights_idle(struct flights *flights, const struct object_id *id);
void flights_lock(struct flights *flights, const struct object_id *id);
void flights_unlock(struct flights *flights, const struct object_id *id);

/* ---- under the lock of the object ---- */
/* Returns a reference, or NULL. */
struct inflight *inflight_find(struct flights *flights, const struct object_id *id) MUST_USE;
struct inflight *inflight_get(struct flights *flights, const struct object_id *id,
                          const struct object_name *name, const struct rules *rules) MUST_USE;
struct inflight *inflight_ref(struct inflight *inflight) MUST_USE;
void inflight_unref(struct inflight **inflight);
/* True if bytes that are fetched for it now may still be published: no write or purge has come
 * since it was put into the table. */
bool inflight_is_current(const struct inflight *inflight) MUST_USE;
void inflight_unhook(struct flights *flights, const struct object_id *id);
void inflight_set_metadata(struct inflight *inflight, struct metadata *metadata);
/* To be called when the fill's record was published, or not. If not, and no answer has said
 * otherwise since, the store must not keep the metadata of an older version. */
void inflight_fill_ended(struct inflight *inflight, const struct epoch_fill *fill, enum err err);
/* To be called for each answer that says which version is current, or that there is none.
 * answer->answers is learnt.answers when its request was sent. LEARNT_OTHER: the answer before
 * was of another version, which may be on its way into the store. LEARNT_LATE: the answer before
 * came after this request was sent, and was of another version, so nobody knows which of the two
 * is current. In both cases, other fills of the object are not published, because they may be of
 * the older version. After LEARNT_LATE, the caller's fill is not published either. If no version
 * is known to be current then, later gets find none. *since is the note of the answer's fetch. */
enum learnt_how { LEARNT_SAME, LEARNT_OTHER, LEARNT_LATE };
enum learnt_how inflight_learn(struct inflight *inflight, const struct learnt *answer,
                               struct epoch_note *since) MUST_USE;

/* Finds the joinable flight of this version that has this byte, or will have it. Returns a
 * reference, or NULL. */
struct flight *flight_find(struct inflight *inflight, uint64_t etag_hash, uint64_t offset) MUST_USE;
struct flight *flight_ref(struct flight *flight) MUST_USE;
void flight_unref(struct flight **flight);
void waiter_add(struct list *waiters, struct waiter *waiter);
void waiters_wake(struct list *waiters);

/* ---- slots: RAM for bodies, a byte budget ---- */
/* Makes a flight with a slot, linked and referenced by the fetch. Returns NULL if no slot is free
 * now; the fetch `feeder` will be resumed when a slot is free. Under the lock. */
struct flight *flight_new(struct inflight *inflight, struct fetch *feeder,
                          struct metadata *metadata, uint64_t start, uint64_t length) MUST_USE;
/* Ends a flight that is full, or was closed early at a whole unit. If the store has admitted it,
 * gives the flight to the store. Returns false if the store did not get it; the flight then stays
 * joinable only while it is referenced. Under the lock. */
bool flight_land(struct flight *flight, const struct admission *admission,
                 bool with_metadata) MUST_USE;
void flight_fail(struct flight **flight);
/* To be called when the fetch ends or begins again: it no longer waits for a slot. */
void slots_forget(struct flights *flights, struct fetch *fetch);
/* Lets a fetch that is over, or waits for its readers, keep flights for them until other fetches
 * need the slots. Returns false if other fetches need the slots already. */
bool slots_spare(struct flights *flights, struct fetch *fetch) MUST_USE;
/* Takes away the flights that slots_spare let fetches keep. The caller must hold no lock. */
void slots_press(struct flights *flights);
/* Sets slots aside for a fetch that begins ahead of its reader, so that all such fetches together
 * take at most half of the slots: fetches that a reader waits for get the others. Returns false if
 * that half is given away, or half of the slots are in use. */
bool slots_reserve(struct flights *flights, size_t bytes) MUST_USE;
void slots_unreserve(struct flights *flights, size_t bytes);
/* True if few slots are left: a slow reader must copy, and release its slot. */
bool slots_scarce(struct flights *flights);

#endif
