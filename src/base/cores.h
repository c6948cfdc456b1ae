/* cores.h - how many cores, and how much memory, this process may use.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CORES_H
#define BASE_CORES_H

#include "base/base.h"

/* The smallest of: the cores we may be scheduled on, and the CPU quotas of our cgroup (v2 or v1)
 * and of the groups around it, rounded up. At least 1. */
unsigned cores_available(void);
/* The smallest of: the machine's RAM, and the limits of our cgroup (v2 or v1) and of the groups
 * around it (memory.max, memory.high, memory.limit_in_bytes). */
struct memory_allowed {
    uint64_t bytes;
    char by[512];    /* the file with this limit, or "this machine's RAM" */
};
struct memory_allowed memory_allowed(const char *root) MUST_USE;    /* root: "" but in tests */

#endif
