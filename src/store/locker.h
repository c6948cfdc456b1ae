/* locker.h - chooses the extents that stay in memory. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_LOCKER_H
#define STORE_LOCKER_H

#include "store/inside.h"

struct locker;
struct read_plan;
/* Starts the thread `lock`, which locks extents of these volumes, of at most bytes_max together. */
struct locker *locker_new(struct volume *const *volumes, size_t count,
                          uint64_t bytes_max) MUST_USE;
/* To be called while the volumes exist, after the last reader has gone. */
void locker_free(struct locker **locker);    /* accepts NULL */
/* A reader has copied the blocks of this plan. If their extent is locked, the thread verifies them
 * in its map, so that later readers are lent them. Any thread; never waits. */
void locker_wants(struct locker *locker, const struct read_plan *plan);

#endif
