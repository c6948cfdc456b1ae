/* cache.h - what the files of the cache share: rules, loops, refusals.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The cache stands between a store and origins. It decides hit, stale and miss (get.h), runs
 * fetches (requests to an origin) that feed flights (bytes on their way into the store, flight.h),
 * revalidates objects (fresh.h), and keeps the order of reads and writes (write.h). It knows no
 * HTTP server: a caller that waits gives a ticket (base/mailbox.h), and is woken on its own
 * thread. */
#ifndef CACHE_CACHE_H
#define CACHE_CACHE_H

#include "cache/grant.h"
#include "origin/origin.h"
#include "peers/peers.h"
#include "store/store.h"

enum freshness { FRESH_TTL, FRESH_IMMUTABLE, FRESH_ALWAYS };

/* The origin of a bucket's objects, and how fresh they must be. Lives as long as the cache. */
struct rules {
    struct origin *origin;
    enum freshness freshness;
    int64_t ttl_s, grace_s;
    int64_t stale_if_error_s;     /* like grace_s, but only while the origin fails */
    bool by_listing;              /* expired keys are revalidated a listing page at a time */
    bool cache_writes;            /* the body of a PUT is stored in the cache */
    /* How long a proof of the right to read counts (permit.c), and for which keys. */
    uint64_t grant_ms;            /* for the identity of a client */
    uint64_t permission_ms;       /* for the shared identity */
    enum grant_scope grant_scope;
    slice grant_prefix;           /* for GRANT_PREFIX */
};

struct cache_options {
    struct store *store;
    size_t slots_bytes;           /* RAM for bodies on their way in (rule H8 in src/README.md) */
    unsigned fetches_max;         /* origin GETs and HEADs in progress; any more: SlowDown */
    uint64_t lists_ms;            /* how long the answer to a list may be used again */
    size_t lists_bytes;           /* RAM for lists, in progress and kept (rule H8) */
    uint64_t missing_ms;          /* how long a missing key is remembered as missing */
    size_t grants_bytes;          /* RAM for grants (rule H8) */
};

struct cache;
struct cache *cache_new(const struct cache_options *options) MUST_USE;
/* Every cache_loop must be gone. Waits for the fetches in progress to end. */
void cache_free(struct cache **cache);
/* From now on, other nodes are asked before the origin. To be called before the first get. They must
 * live until the last get has ended. */
void cache_share(struct cache *cache, struct peers *peers);
struct peers *cache_peers(struct cache *cache);    /* NULL: there are no other nodes */
/* True if the cache may know something from before this moment (ageing time). */
bool cache_is_older(const struct cache *cache, uint64_t at_ms) MUST_USE;
/* To be called before a purge begins in the store. From then on, no answer counts that the origin
 * gave another node before this moment. Any thread. */
void cache_purge_begins(struct cache *cache);
/* Cancels the fetches in progress. From now on no fetch begins. */
void cache_stop(struct cache *cache);
/* True after cache_stop: errors from then on say nothing about the origin. Any thread. */
bool cache_is_stopping(struct cache *cache) MUST_USE;
struct store *cache_store(struct cache *cache);
struct read_trace *cache_trace(struct cache *cache);    /* lives as long as the cache */
/* True if no bytes of this object are being fetched, or are on their way into the store. So it is
 * known by now which of them the store keeps. Any thread. */
bool cache_is_idle(struct cache *cache, const struct object_id *id);

/* The part of the cache that belongs to one reading thread. */
struct cache_loop {
    struct cache *cache;
    struct mailbox *box;
    struct store_io *io;
    struct list background;       /* revalidations that no client waits for (background.c) */
    unsigned background_count;
    struct list populates;        /* PUT bodies that are being stored (populate.c) */
    unsigned populate_count;
};
struct cache_loop *cache_loop_new(struct cache *cache, struct mailbox *box) MUST_USE;
void cache_loop_free(struct cache_loop **loop);
void cache_loop_turn(struct cache_loop *loop);    /* call it after the mails were delivered */
/* From plug to unplug, reads of the disk by this loop's gets are gathered (store_io_plug). */
void cache_loop_plug(struct cache_loop *loop);
void cache_loop_unplug(struct cache_loop *loop);

/* An origin's refusal, kept so that a client can get it unchanged. Shared by reference. */
struct refusal {
    atomic_uint refs;
    enum err err;                 /* its meaning: ERR_NO_SUCH_KEY, ERR_DENIED, ERR_ORIGIN_CONNECT */
    int status;                   /* 0: no answer came, or an invalid one */
    slice fields;                 /* "name: value\r\n"...: headers of the answer that clients get */
    slice content_type, body;     /* the origin's own error document, possibly empty */
};
struct refusal *refusal_new(enum err err, int status, slice content_type, slice fields,
                            slice body) MUST_USE;
struct refusal *refusal_ref(struct refusal *refusal) MUST_USE;
void refusal_unref(struct refusal **refusal);
/* True if a stale copy, or another try, may be better than this answer: for a 5xx, an unreachable
 * origin, or a timeout. */
bool refusal_is_outage(const struct refusal *refusal);

#endif
