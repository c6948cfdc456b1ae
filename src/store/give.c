/* give.c - chooses the extent that is evicted without a copy when the disk is full.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two files evict such extents: room.c while the folder serves, and folder.c while the folder is
 * being opened. After an opening, and until the first pass over the pins has ended, no record is
 * pinned yet. The files of ages say which records were pinned before (ages.h). The extents with
 * these records are evicted last, too. Staging extents go before all others: their records are
 * fetched again at little cost. */
#include "store/give.h"

/* Without its row, the weight of a record that was pinned before is not known. So each of these
 * records counts as one without data. */
static uint64_t stays(struct extents *extents, uint32_t number, bool held)
{
    const struct ages *ages = extent_ages(extents, number);
    if (!ages)
        return 0;
    return ages_pinned_bytes(ages) + (held ? ages_held(ages) * pin_weight(0) : 0);
}

uint32_t give_choose(struct extents *extents, bool held, uint64_t *ret_stays)
{
    struct arena keep = { 0 };
    uint32_t *numbers, found = 0;
    size_t count = extents_numbers(extents, &keep, &numbers);
    *ret_stays = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        uint64_t weight = stays(extents, numbers[i], held);
        bool first = extents_is_unusable(extents, numbers[i]) ||
                     extents_is_staging(extents, numbers[i]);
        if (extent_is_open(extents, numbers[i]) || (weight >= *ret_stays && !first) ||
            numbers[i] == extents_highest(extents))
            continue;
        found = numbers[i];
        *ret_stays = weight;
        if (first)
            break;
    }
    arena_free(&keep);
    return found;
}

uint64_t give_held(struct extents *extents, uint32_t number, const struct toc_entry *rows,
                   uint32_t count)
{
    const struct ages *ages = extent_ages(extents, number);
    uint64_t weight = 0;
    if (!ages || !ages_held(ages))
        return 0;
    for (uint32_t i = 0; i < count; i++)
        if (ages_was_pinned(ages, i) && !ages_is_pinned(ages, i) && !ages_is_dead(ages, i))
            weight += pin_weight(rows[i].data_len);
    return count ? weight : ages_held(ages) * pin_weight(0);
}
