/* inside.h - struct cache, and functions that only the files of this folder use.
 * SPDX-License-Identifier: Apache-2.0
 *
 * "Under the lock" means the lock of the object (flights_lock in flight.h). */
#ifndef CACHE_INSIDE_H
#define CACHE_INSIDE_H

#include "cache/fetch.h"
#include "s3/error.h"
#include "s3/xml.h"

/* One for the process. After cache_new only `fetches` and `stopping` change. */
struct cache {
    struct store *store;
    struct peers *peers;          /* NULL: there are no other nodes */
    struct flights *flights;
    struct fresh *fresh;
    struct missing_keys *missing;
    struct parts *parts;
    struct streams *streams;
    struct grants *grants;
    uint64_t began_ms;
    /* Nothing that is known here is from before this ageing time: no cache folder had an object at
     * the start. 0: one had. */
    _Atomic uint64_t knows_from_ms;
    _Atomic uint64_t purged_ms;   /* ageing time of the last purge; 0: none */
    struct lists *lists;
    struct read_trace *trace;
    unsigned fetches_max;
    atomic_uint fetches;          /* number in progress, including those for list pages */
    atomic_bool stopping;
};

/* Returns true if there is room for one more fetch (rule H8 in src/README.md), which then counts
 * until cache_fetch_ended. */
bool cache_fetch_may_begin(struct cache *cache) MUST_USE;
void cache_fetch_ended(struct cache *cache);
/* True if half of the fetches that may be in progress are. Then none begins ahead of its reader. */
bool cache_fetches_scarce(struct cache *cache) MUST_USE;

/* Number of bytes that a fetch whose bytes are stored may be ahead of its readers. If it were
 * further ahead, the cache might evict its bytes before they are read. */
uint64_t cache_ahead_max(struct cache *cache);

void background_end_all(struct cache_loop *loop);    /* background.c */
void populate_end_all(struct cache_loop *loop);      /* populate.c */

/* True if the metadata identifies its version, so that another answer can be proved to be of the
 * same version. Only a strong ETag does. Other metadata is a version of its own: it belongs to one
 * fetch and its readers. */
bool learn_has_strong_etag(const struct metadata *metadata) MUST_USE;

/* ---- share.c ---- */
/* Returns NULL if other nodes may be asked for bytes of the object, otherwise why not: a static
 * text. `metadata` NULL: the version is not known yet. *ret_identity is the owner of Penstock's own
 * credentials. */
const char *share_why_not(const struct cache *cache, const struct origin *origin,
                          const struct metadata *metadata, slice *ret_identity) MUST_USE;
/* True if nodes can only be asked for a version that a HEAD has named: the identity is not the
 * shared one, or the client wants the newest answer, or the place of the bytes is not known. */
bool share_must_name(const struct get *get) MUST_USE;
/* Makes the span of a fetch that asks for a version that is not known one that other nodes may
 * answer, if they may: a segment at most. Under the lock. */
void share_span(const struct get *get, struct fetch_span *span);
/* Sets what the question needs besides its bytes: the ETag of the version that the origin has named,
 * or how old an answer may be that names a version itself. Returns false if other nodes must not be
 * asked. */
bool share_question(const struct fetch *fetch, struct peer_question *ret) MUST_USE;

/* True if this Cache-Control has no-store. */
bool learn_says_no_store(slice control) MUST_USE;

/* Reads the head of a 200 or 206 response: version, size, range of the bytes. Sets the fetch's
 * metadata, next, end, skip and admitted. Returns OK, ERR_CHANGED if it is another version, or
 * ERR_ORIGIN_REPLY if the head is invalid. Under the lock. */
enum err learn_answer(struct fetch *fetch, const struct origin_reply *reply) MUST_USE;

/* To be called if the origin has another version than this fetch asked for, or another size of it.
 * Removes the metadata of that version. Under the lock. */
void deliver_changed(struct fetch *fetch);

#endif
