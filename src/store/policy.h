/* policy.h - admission and eviction. SPDX-License-Identifier: Apache-2.0
 *
 * Two pure functions (H9). For now everything is admitted, and the oldest extent is recycled first,
 * with all its records. */
#ifndef STORE_POLICY_H
#define STORE_POLICY_H

#include "store/metadata.h"

bool policy_admit(const struct object_id *id, uint64_t size);
/* Returns the index of the extent to recycle in extents[], which holds numbers, or `count` if none
 * may be recycled. The newest extent must not be among them. */
size_t policy_victim(const uint32_t *extents, size_t count);

#endif
