/* victim.h - which extent to recycle without regard to the ages of records.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_VICTIM_H
#define STORE_VICTIM_H

#include "store/volume_inside.h"

/* Returns true if an earlier process wrote records of this extent that are not counted yet. */
bool victim_is_counting(struct volume *volume, uint32_t number);

/* Returns the place of the extent with the fewest live bytes in this ascending list. Of several such
 * extents it is the oldest. Returns `count` if the recycler must pause. Reads the index. For the
 * recycler. */
size_t victim_fewest_live(struct volume *volume, const uint32_t *numbers, size_t count);

/* Returns the place of the extent with the fewest live bytes of those whose dead records are room
 * (rule.h). Returns `count` if there is none. For the recycler. */
size_t victim_wasted(struct volume *volume, const uint32_t *numbers, size_t count);
/* Returns the place of the extent to recycle when the extents must have fewer bytes: the oldest of
 * those without pinned bytes; or else the one whose copy regains most. *ret_gain is set to the bytes
 * that this regains. Returns `count` if there is none. Any thread. */
size_t victim_to_shrink(struct volume *volume, const uint32_t *numbers, size_t count,
                        uint64_t *ret_gain);

/* True if the index names the record of this row, or if the index fails. For the recycler. */
bool victim_is_live(struct volume *volume, uint32_t number, const struct toc_entry *row,
                    uint32_t ordinal);

/* The stamps of all records of an extent that is still being counted. */
struct victim_guess {
    _Atomic uint8_t *stamps;
    _Atomic uint64_t *left_out, *old, *dead;
    uint32_t count;
};
/* An extent to recycle, its rows, and the tick in which its records are judged. */
struct victim {
    const struct extent *extent;
    uint32_t number;
    const struct toc_entry *rows;
    uint32_t count;
    uint64_t tick;
};
/* Looks up in the index which of the extent's records are live, except those that are counted.
 * `known` has the stamps of the counted records; the result has those of all. The caller frees the
 * result. For the recycler. */
struct victim_guess *victim_guess(struct volume *volume, const struct victim *victim,
                                  const struct mean_age_stamps *known) MUST_USE;
void victim_guess_free(struct victim_guess **guess);
/* True if the index did not name the record when it was looked up. */
bool victim_is_dead(const struct victim_guess *guess, uint32_t ordinal);
/* The stamps for the rule. Valid as long as the guess. */
struct mean_age_stamps victim_stamps(const struct victim_guess *guess,
                                     const struct mean_age_stamps *known);

#endif
