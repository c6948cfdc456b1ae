/* locker.h - chooses the extents that stay in memory. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_LOCKER_H
#define STORE_LOCKER_H

#include "store/inside.h"

struct locker;
struct read_plan;
/* For volumes that have no threads yet. At most bytes_max of their extents are locked together. */
struct locker *locker_new(struct volume *const *volumes, size_t count,
                          uint64_t bytes_max) MUST_USE;
/* Starts the thread `lock`. */
void locker_start(struct locker *locker);
/* Ends the thread, and unlocks all. To be called while the volumes exist, after the last reader has
 * gone. It may be called without a thread. */
void locker_stop(struct locker *locker);
void locker_free(struct locker **locker);    /* after the volumes; accepts NULL */
/* Returns why not more is locked: static text. Any thread. */
const char *locker_why(const struct locker *locker) MUST_USE;
/* A reader has copied the blocks of this plan. If their extent is locked, the thread verifies them
 * in its map, so that later readers are lent them. Any thread; never waits. */
void locker_wants(struct locker *locker, const struct read_plan *plan);

#endif
