/* write.h - order around a write (H7). SPDX-License-Identifier: Apache-2.0
 *
 * write_begin marks the keys' epochs and starts the removal of their metadata, if the store has
 * any. When it is committed, the caller sends the write to the origin. write_end raises the epochs;
 * only then may the client get its answer. An unknown outcome counts as written. Belongs to one
 * loop. */
#ifndef CACHE_WRITE_H
#define CACHE_WRITE_H

#include "cache/cache.h"

struct write;

/* A key that a write may change, and the version that the request names; empty: none. */
struct write_key {
    slice key, version;
};

/* Other names that an origin may have for these keys count as written, too (alias.h). changed() is
 * called on the loop when the removal is committed, unless write_may_go() is true at once. A write
 * without keys changes the bucket: its lists. */
struct write *write_begin(struct cache_loop *loop, const struct rules *rules, slice bucket,
                          const struct write_key *keys, size_t key_count,
                          void (*changed)(void *arg), void *arg) MUST_USE;
bool write_may_go(const struct write *write);
/* Both before anything is sent. The write changes metadata of its one key's current version,
 * without naming the version. */
void write_restates_key(struct write *write);
/* The write may change any object of its bucket, or its metadata. So the metadata of all these
 * objects is revalidated, by HEAD: only a HEAD tells all of it. write_may_go waits until the disk
 * has a note of this. */
void write_restates_bucket(struct write *write);
void write_end(struct write **write);    /* before the answer, whatever the outcome */

/* Tells whether a later write of one of the keys has begun: to repeat this write would then undo
 * the later one. A value that outlives the write; any thread. */
struct write_order {
    uint64_t number;
    const struct object_id *ids;
    size_t id_count;
};
struct write_order write_order(const struct write *write, struct arena *keep) MUST_USE;
bool write_is_latest(const struct write_order *order);

#endif
