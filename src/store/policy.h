/* policy.h - what is stored and what goes. SPDX-License-Identifier: Apache-2.0
 *
 * Three pure questions (H9). For now: everything is admitted, the oldest extent goes first, nothing
 * is kept; the mean-age rule comes behind the same three calls. */
#ifndef STORE_POLICY_H
#define STORE_POLICY_H

#include "store/head.h"

struct policy_extent {
    uint32_t number;
    uint64_t live_bytes, bytes;
};
struct policy_record {
    struct object_id id;
    uint32_t age;
    bool pinned;
};

bool policy_admit(const struct object_id *id, uint64_t size);
/* Index into extents[], or count if none may go. The newest is never asked about. */
size_t policy_victim(const struct policy_extent *extents, size_t count);
bool policy_keep(const struct policy_record *record);

#endif
