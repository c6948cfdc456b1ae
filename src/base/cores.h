/* cores.h - the number of cores, and the memory, that this process may use.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CORES_H
#define BASE_CORES_H

#include "base/base.h"

/* Returns the smallest of these: the cores that this process may be scheduled on, and the CPU
 * quotas of its cgroup (v2 or v1) and of the groups around it, rounded up. The result is at least
 * 1. */
unsigned cores_available(void);
/* The smallest of these: the machine's RAM, and the limits of this process's cgroup (v2 or v1) and
 * of the groups around it (memory.max, memory.high, memory.limit_in_bytes). */
struct memory_allowed {
    uint64_t bytes;
    char by[512];    /* the file with this limit, or "this machine's RAM" */
};
struct memory_allowed memory_allowed(const char *root) MUST_USE;    /* root: "", except in tests */

#endif
