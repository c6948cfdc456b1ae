/* follow.h - how far the readers of a list have come. SPDX-License-Identifier: Apache-2.0
 *
 * The list of a follow job says in which order its readers will read. Several processes may read
 * it, each a part, so reads come out of order. The functions are told each item of the list and
 * each read, and keep the position: the oldest item that a reader may still come to.
 *
 * The readers have *reached* an item if 8 of the latest 16 reads were of this item or of later
 * ones. So a program that looks at single items far ahead does not move its own plan. The readers
 * have *passed* an unread item if they have reached an item more than FOLLOW_BEHIND items later:
 * most likely nobody will read the passed item. An item may be in the list several times; a read
 * then counts for its oldest unread occurrence.
 *
 * Items are known by a hash of their name. Two names with the same hash count as one, which costs a
 * few bytes fetched too early or too late, and nothing else. The functions do no I/O and read no
 * clock (rule H9 in src/README.md). The caller holds a lock, or is one thread. */
#ifndef JOBS_FOLLOW_H
#define JOBS_FOLLOW_H

#include "base/slice.h"

#define FOLLOW_BEHIND 1024u
#define FOLLOW_ITEMS 65536u           /* H8: known items from the position on; 2 MiB */

struct follow_use {
    uint64_t items_read;
    /* Bytes that the job has brought. Unread ones: of items that the readers have not reached; of
     * items before these; of passed items. */
    uint64_t read, ahead, behind, passed;
};

struct follow;
struct follow *follow_new(void) MUST_USE;
void follow_free(struct follow **follow);    /* accepts NULL */
/* True if FOLLOW_ITEMS items are known: none can be added before further reads. */
bool follow_is_full(const struct follow *follow) MUST_USE;
/* Adds the next item of the list, unless it is full. Returns its index in the list. */
uint64_t follow_add(struct follow *follow, uint64_t hash);
/* The job has brought these bytes of the item. To be called once for an item. */
void follow_brought(struct follow *follow, uint64_t index, uint64_t bytes);
/* Counts a read. Returns false if it is of no known item that is unread. */
bool follow_read(struct follow *follow, uint64_t hash);
/* True if it is too late to bring the item: it was read, or the readers have reached a later
 * one. */
bool follow_is_past(const struct follow *follow, uint64_t index) MUST_USE;
uint64_t follow_position(const struct follow *follow);    /* an index */
uint64_t follow_end(const struct follow *follow);         /* the number of items that were added */
const struct follow_use *follow_use(const struct follow *follow);
/* Judges what the readers have read and passed since the last judgement, once that is `window`
 * bytes. Returns the number of judgements in a row in which less than half of it was read. */
unsigned follow_judge(struct follow *follow, uint64_t window);

#endif
