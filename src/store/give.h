/* give.h - the extent that goes without a copy, when the disk is full. SPDX-License-Identifier: Apache-2.0
 *
 * Committer only, or while no other thread uses the folder. */
#ifndef STORE_GIVE_H
#define STORE_GIVE_H

#include "store/extent.h"

/* Finds the extent to give up: an unusable one, or else the one with the least weight of pinned
 * records, and with the lowest number of such extents. If `held`, records count that were pinned
 * when a file of ages was written, and of which no pass knows more yet. An open extent stays, and so
 * does the one with the highest number. Returns 0 if there is none. *ret_stays: the weight, about. */
uint32_t give_choose(struct extents *extents, bool held, uint64_t *ret_stays);
/* Returns the weight, about, of an extent's records that were pinned before (`held`) and are not
 * pinned yet. The rows are those of its table; none if it can't be read. */
uint64_t give_held(struct extents *extents, uint32_t number, const struct toc_entry *rows,
                   uint32_t count);

#endif
