/* give.h - chooses the extent that is evicted without a copy when the disk is full.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Committer only, or while no other thread uses the folder. */
#ifndef STORE_GIVE_H
#define STORE_GIVE_H

#include "store/extent.h"

/* Returns the number of the extent to evict, or 0 if there is none. This is an unusable extent, or
 * else the extent whose pinned records have the least weight. If several have the same weight, it
 * is the one with the lowest number. Open extents and the extent with the highest number are never
 * chosen. `held`: records also count if a file of ages says that they were pinned, and no pass has
 * looked at them since. *ret_stays is the approximate weight. */
uint32_t give_choose(struct extents *extents, bool held, uint64_t *ret_stays);
/* Returns the approximate weight of an extent's records that were pinned before (`held`) and are
 * not pinned yet. `rows` is the extent's table of contents; `count` is 0 if the table can't be
 * read. */
uint64_t give_held(struct extents *extents, uint32_t number, const struct toc_entry *rows,
                   uint32_t count);

#endif
