/* write.h - the steps around a write (rule H7 in src/README.md).
 * SPDX-License-Identifier: Apache-2.0
 *
 * write_begin marks the epochs of the keys (counters by which a fetch from before the write is
 * recognized, epoch.h), and starts the removal of their metadata, if the store has any. When the
 * removal is committed, the caller sends the write to the origin. write_end raises the epochs; only
 * then may the client get its answer. A write with an unknown outcome counts as done. A write
 * belongs to one loop. */
#ifndef CACHE_WRITE_H
#define CACHE_WRITE_H

#include "cache/cache.h"

struct write;

/* A key that a write may change, and the version that the request names, or an empty version. */
struct write_key {
    slice key, version;
};

/* Begins a write. Other names that an origin may have for these keys count as written, too
 * (alias.h). changed() is called on the loop when the removal is committed, unless write_may_go()
 * is true at once. A write without keys counts as a change of the bucket's lists only. */
struct write *write_begin(struct cache_loop *loop, const struct rules *rules, slice bucket,
                          const struct write_key *keys, size_t key_count,
                          void (*changed)(void *arg), void *arg) MUST_USE;
bool write_may_go(const struct write *write);
/* The next two are called before anything is sent to the origin. write_restates_key is for a write
 * that changes metadata of the current version of its only key, and does not name the version. */
void write_restates_key(struct write *write);
/* For a write that may change the bytes or the metadata of any object of its bucket. So the
 * metadata of all objects of the bucket is revalidated by HEAD, because only a HEAD gives all
 * metadata. write_may_go stays false until the disk has a note of this. */
void write_restates_bucket(struct write *write);
void write_end(struct write **write);    /* before the answer, whatever the outcome */

/* For writes and changes of rights through other nodes that this node has missed, all from before
 * `before_ms` (ageing time). Nothing that was known before that time counts as fresh or as granted
 * until an origin has proved it again. write_may_go is false until the disk has a note of this;
 * then the caller calls write_end. */
struct write *write_begin_doubt(struct cache_loop *loop, uint64_t before_ms,
                                void (*changed)(void *arg), void *arg) MUST_USE;

/* Shows whether a later write of one of the keys has begun. To repeat this write would then undo
 * the later one. The value may live longer than the write. Any thread. */
struct write_order {
    uint64_t number;
    const struct object_id *ids;
    size_t id_count;
};
struct write_order write_order(const struct write *write, struct arena *keep) MUST_USE;
bool write_is_latest(const struct write_order *order);

#endif
