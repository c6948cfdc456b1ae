/* victim.c - which extent to recycle without regard to the ages of records.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Dead records are room (rule.h). Of the extents that have many, the one with the fewest live bytes
 * goes first, because its copy is the smallest. All its live records are kept.
 *
 * After a kill -9, the committer counts the live records of all extents in the background
 * (account.h). Until then the rule sees no ages, and all extents look alike to it. An extent that
 * must go meanwhile is the one with the fewest live bytes, because its eviction loses least.
 *
 * The index says which bytes are live. Its keys are keyed hashes of objects, so its first entries
 * are a random sample of all. The sample is all entries if the cache is not large. For the extent
 * that was chosen, each record that is not counted is looked up. A live record keeps the stamp that
 * a file of ages gave it, or counts as read now. */
#include "store/victim.h"

#include <stdlib.h>

#include "store/record_set.h"
#include "store/volume_rows.h"

#define SAMPLE_ENTRIES 200000u        /* 20 MB of the index */
#define BATCH_ENTRIES 500u            /* of one look-up */

bool victim_is_counting(struct volume *volume, uint32_t number)
{
    struct extent *extent = extent_ref(volume->extents, number);
    bool counting = extent && ages_are_counting(extent_ages_of(extent));
    extent_release(&extent);
    return counting;
}

static bool is_wasted(struct volume *volume, const struct ages *ages)
{
    bool copies = !atomic_load(&volume->rule.waste.no_copies);
    return ages_waste(ages) >= (copies ? WASTE_MUCH : WASTE_ALL);
}

/* Returns the place of the extent for which `bytes_of` gives the least, the first of several; or
 * `count`, if it gives UINT64_MAX for each. */
static size_t least(struct volume *volume, const uint32_t *numbers, size_t count,
                    uint64_t (*bytes_of)(struct volume *volume, const struct ages *ages))
{
    size_t found = count;
    uint64_t fewest = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        struct extent *extent = extent_ref(volume->extents, numbers[i]);
        uint64_t bytes = extent ? bytes_of(volume, extent_ages_of(extent)) : UINT64_MAX;
        extent_release(&extent);
        if (bytes >= fewest)
            continue;
        fewest = bytes;
        found = i;
    }
    return found;
}

static uint64_t live_bytes_of_wasted(struct volume *volume, const struct ages *ages)
{
    return is_wasted(volume, ages) ? ages_live_bytes(ages) : UINT64_MAX;
}

size_t victim_wasted(struct volume *volume, const uint32_t *numbers, size_t count)
{
    bool any = atomic_load(&volume->rule.waste.much) > 0;
    return any ? least(volume, numbers, count, live_bytes_of_wasted) : count;
}

/* Not the one with the least pinned bytes: that may be a small copy, all of it pinned. */
size_t victim_to_shrink(struct volume *volume, const uint32_t *numbers, size_t count,
                        uint64_t *ret_gain)
{
    size_t found = count;
    uint64_t pinned = 1;
    *ret_gain = 0;
    for (size_t i = 0; i < count && pinned; i++) {
        struct extent *extent = extent_ref(volume->extents, numbers[i]);
        if (!extent)
            continue;
        uint64_t size = extent_size(extent), gain;
        pinned = ages_pinned_bytes(extent_ages_of(extent));
        gain = size - MIN(size, pinned);
        extent_release(&extent);
        if (found < count && pinned && gain <= *ret_gain)
            continue;
        found = i;
        *ret_gain = gain;
    }
    return found;
}

/* ---- the sample ---- */

/* Returns the place of the number in the list, or `count`. */
static size_t place_of(const uint32_t *numbers, size_t count, uint32_t number)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (numbers[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && numbers[low] == number ? low : count;
}

/* Adds the bytes of the sample's entries to those of their extents. */
static void weigh(struct volume *volume, const uint32_t *numbers, size_t count, uint64_t *bytes)
{
    struct index_row *rows = must_alloc(BATCH_ENTRIES * sizeof(*rows));
    struct object_id id = { { 0 } };
    uint32_t unit = 0, got;
    for (uint32_t all = 0; all < SAMPLE_ENTRIES && !atomic_load(&volume->recycler.paused);
         all += got) {
        recycler_moves(volume);
        if (index_get_rows(volume->index, &id, unit, BATCH_ENTRIES, rows, &got) != OK)
            break;
        for (uint32_t i = 0; i < got; i++) {
            size_t at = place_of(numbers, count, rows[i].entry.extent);
            if (at < count)
                bytes[at] += rows[i].entry.len;
        }
        id = rows[got - 1].id;
        unit = rows[got - 1].unit;
        if (!entry_key_next(&id, &unit))
            break;
    }
    free(rows);
}

size_t victim_fewest_live(struct volume *volume, const uint32_t *numbers, size_t count)
{
    uint64_t *bytes = must_alloc((count + 1) * sizeof(*bytes));
    size_t found = 0;
    weigh(volume, numbers, count, bytes);
    for (size_t i = 1; i < count; i++)
        if (bytes[i] < bytes[found])
            found = i;
    free(bytes);
    return atomic_load(&volume->recycler.paused) ? count : found;
}

/* ---- the records of one extent ---- */

bool victim_is_live(struct volume *volume, uint32_t number, const struct toc_entry *row,
                    uint32_t ordinal)
{
    struct entry entries[RECORD_UNITS];
    bool failed;
    return volume_row_entries(volume, number, ordinal, row, entries, &failed) > 0 || failed;
}

/* The look-ups take seconds, so the stamps are those of the victim's tick, not of the time when each
 * record is looked up. */
static void look_up(struct volume *volume, struct victim_guess *guess, const struct victim *victim,
                    uint32_t ordinal)
{
    const struct ages *ages = extent_ages_of(victim->extent);
    const struct toc_entry *row = &victim->rows[ordinal];
    uint8_t stamp = mean_age_stamp(victim->tick);
    recycler_moves(volume);
    if (row->kind == KIND_HEAD)
        record_set_put(guess->left_out, ordinal);
    if (!victim_is_live(volume, victim->number, row, ordinal)) {
        record_set_put(guess->dead, ordinal);
        stamp = mean_age_dead_stamp(victim->tick);
    } else if (ages_is_stamped(ages, ordinal)) {
        stamp = ages_stamp(ages, ordinal);
    }
    atomic_store_explicit(&guess->stamps[ordinal], stamp, memory_order_relaxed);
}

struct victim_guess *victim_guess(struct volume *volume, const struct victim *victim,
                                  const struct mean_age_stamps *known)
{
    struct victim_guess *guess = must_alloc(sizeof(*guess));
    uint32_t count = MIN(victim->count, ages_limit(extent_ages_of(victim->extent)));
    size_t set_bytes = record_set_bytes(count);
    guess->count = count;
    guess->stamps = must_alloc(count + 1);
    guess->left_out = must_alloc(set_bytes);
    guess->old = must_alloc(set_bytes);
    guess->dead = must_alloc(set_bytes);
    for (uint32_t i = 0; i < count && !atomic_load(&volume->recycler.paused); i++) {
        if (i >= known->count) {
            look_up(volume, guess, victim, i);
            continue;
        }
        guess->stamps[i] = atomic_load_explicit(&known->stamps[i], memory_order_relaxed);
        if (record_set_has(known->left_out, i))
            record_set_put(guess->left_out, i);
        if (record_set_has(known->old, i))
            record_set_put(guess->old, i);
    }
    return guess;
}

void victim_guess_free(struct victim_guess **guess)
{
    struct victim_guess *mine = *guess;
    *guess = NULL;
    if (!mine)
        return;
    free(mine->stamps);
    free(mine->left_out);
    free(mine->old);
    free(mine->dead);
    free(mine);
}

bool victim_is_dead(const struct victim_guess *guess, uint32_t ordinal)
{
    return guess && ordinal < guess->count && record_set_has(guess->dead, ordinal);
}

struct mean_age_stamps victim_stamps(const struct victim_guess *guess,
                                     const struct mean_age_stamps *known)
{
    return (struct mean_age_stamps){ .stamps = guess->stamps, .count = guess->count,
                                     .left_out = guess->left_out, .pinned = known->pinned,
                                     .old = guess->old };
}
