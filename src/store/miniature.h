/* miniature.h - a cache without bytes, in which the rule is simulated.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A miniature has a log of extents, as a volume has, but of a record only its hash and its stamp.
 * It is fed with a hash sample of the touches, and has the same share of the real cache's places.
 * Its hit ratio is then about that of a real cache. One thread. */
#ifndef STORE_MINIATURE_H
#define STORE_MINIATURE_H

#include "store/mean_age.h"

/* The most records of a miniature; places are numbers of 16 bits. */
#define MINIATURE_RECORDS_MAX 16384u

struct miniature;
/* `extent_records` is the number of records in an extent. The miniature can be resized to at most
 * `records_max` records. It may have no record before the first miniature_resize. */
struct miniature *miniature_new(uint32_t records_max, uint32_t extent_records) MUST_USE;
void miniature_free(struct miniature **mini);
/* Sets the number of records that there is room for. If these are fewer, extents are dropped. */
void miniature_resize(struct miniature *mini, uint32_t records);
/* One read of a record. Returns true if it was a hit. */
bool miniature_touch(struct miniature *mini, uint64_t hash);
/* Returns L, the reuse interval of the records, in touches. 0: it is not known yet. */
double miniature_interval(const struct miniature *mini) MUST_USE;

#endif
