/* policy.h - what is stored and what goes. SPDX-License-Identifier: Apache-2.0
 *
 * Two pure questions (H9). For now: everything is admitted, and the oldest extent goes first, with
 * all that is in it. */
#ifndef STORE_POLICY_H
#define STORE_POLICY_H

#include "store/metadata.h"

bool policy_admit(const struct object_id *id, uint64_t size);
/* Index into extents[], which are numbers, or count if none may go. The newest is never asked
 * about. */
size_t policy_victim(const uint32_t *extents, size_t count);

#endif
