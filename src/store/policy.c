/* policy.c - admission and eviction. SPDX-License-Identifier: Apache-2.0
 *
 * The rule is the simplest one that works: everything is admitted, the oldest extent is recycled
 * first, and nothing is copied forward. Extents are numbered in the order in which they were made,
 * so the oldest extent has the lowest number. Pure (H9): no state, no I/O, any thread. */
#include "store/policy.h"

bool policy_admit(const struct object_id *id, uint64_t size)
{
    (void)id;
    (void)size;
    return true;
}

size_t policy_victim(const uint32_t *extents, size_t count)
{
    size_t oldest = count;
    for (size_t i = 0; i < count; i++)
        if (oldest == count || extents[i] < extents[oldest])
            oldest = i;
    return oldest;
}
