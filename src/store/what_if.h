/* what_if.h - the hit ratio that a cache of another size would have.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The reads are those of records (parts of objects of at most 1 MiB), as the rule counts them. The
 * estimate knows no pins, quotas and purges: it changes only what more or less space changes.
 * penstock(1), at stat, says how far it is off.
 *
 *     what_if_mask                                             any thread
 *     what_if_note, what_if_missed, what_if_follow, what_if_take    under the rule's lock
 *     what_if_run                                              the recycler, without the lock
 *     what_if_hits                                             any thread */
#ifndef STORE_WHAT_IF_H
#define STORE_WHAT_IF_H

#include "base/base.h"

/* The sizes of a miniature: 1/2, 1, 2 and 4 times the cache. */
enum what_if_size { WHAT_IF_HALF, WHAT_IF_SAME, WHAT_IF_DOUBLE, WHAT_IF_FOURFOLD, WHAT_IF_SIZES };

struct what_if;
/* `records` is a guess at how many records the cache can hold. */
struct what_if *what_if_new(uint64_t records) MUST_USE;
void what_if_free(struct what_if **what_if);

/* A record is in the sample if its hash has none of these bits. */
uint64_t what_if_mask(const struct what_if *what_if) MUST_USE;
/* Notes a read of a record, which need not be in the sample. If too many wait for a run, it is
 * lost. */
void what_if_note(struct what_if *what_if, uint64_t hash);
void what_if_missed(struct what_if *what_if);    /* one read of any record was no hit */
void what_if_follow(struct what_if *what_if, uint64_t records);    /* a better guess */
/* Takes what was noted, for what_if_run. `reads` is the number of reads so far, `extents` the
 * number of extents that the cache has room for. */
void what_if_take(struct what_if *what_if, uint64_t reads, uint64_t extents);
void what_if_run(struct what_if *what_if, uint64_t now_ms);

/* Hits in `reads` reads, for a cache of each size. */
struct what_if_hits {
    double reads, hits[WHAT_IF_SIZES];
};
/* Sets the sums over the latest reads, at least of some rounds through the cache. All are 0 as long
 * as too few records were read again. */
void what_if_hits(struct what_if *what_if, struct what_if_hits *ret);

#endif
