/* write.h - order around a write (H7). SPDX-License-Identifier: Apache-2.0
 *
 * begin: the keys' epochs are marked and their heads' removal is committed (skipped where there is
 * neither record nor flight); then the caller talks to the origin; end: the epochs rise, and only
 * then may the client be answered. An unknown outcome counts as written. Belongs to one loop. */
#ifndef CACHE_WRITE_H
#define CACHE_WRITE_H

#include "cache/cache.h"

struct write;

/* What a write may touch: the key, and the version it names; empty if it names none. */
struct write_key {
    slice key, version;
};

/* Other names that an origin may know these by are written to as well (alias.h).
 * changed() is called on the loop when the removal is committed, unless write_may_go() says so at
 * once. Without keys it is the bucket that is written to: what its lists show. */
struct write *write_begin(struct cache_loop *loop, const struct place *place, slice bucket,
                          const struct write_key *keys, size_t key_count,
                          void (*changed)(void *arg), void *arg) MUST_USE;
bool write_may_go(const struct write *write);
/* Before anything is sent: it says something of its one key's current version, whichever it is. */
void write_says(struct write *write);
/* Before anything is sent: it may change what is said of any object of its bucket, or the objects
 * themselves. What is here of them is asked about again, by a HEAD, since only that tells it all. */
void write_restates(struct write *write);    /* and write_may_go waits until that is on disk */
void write_end(struct write **write);    /* before the answer, whatever the outcome */

/* What tells whether a later write of one of its keys has begun: to repeat this one then would undo
 * what that one did. A value that outlives the write; any thread. */
struct write_order {
    uint64_t number;
    const struct object_id *ids;
    size_t id_count;
};
struct write_order write_order(const struct write *write, struct arena *keep) MUST_USE;
bool write_is_latest(const struct write_order *order);

#endif
