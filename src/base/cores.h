/* cores.h - how many cores, and how much memory, this process may use.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CORES_H
#define BASE_CORES_H

#include "base/base.h"

/* The least of: cores we may be scheduled on, and the CPU quota of our cgroup (v2 or v1) and of the
 * groups around it, rounded up. At least 1. */
unsigned cores_available(void);
/* The least of: the machine's RAM, and what our cgroup (v2 or v1) and the groups around it allow
 * (memory.max, memory.high, memory.limit_in_bytes). */
struct memory_allowed {
    uint64_t bytes;
    char by[512];    /* the file that says so, or "this machine's RAM" */
};
struct memory_allowed memory_allowed(const char *root) MUST_USE;    /* root: "" but in tests */
uint64_t memory_available(void);                                    /* its bytes */

#endif
