/* cores.h - how many cores, and how much memory, this process may use.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CORES_H
#define BASE_CORES_H

#include "base/base.h"

/* The least of: cores we may be scheduled on, and the CPU quota of our cgroup (v2 or v1) and of the
 * groups around it, rounded up. At least 1. */
unsigned cores_available(void);
/* The least of: the machine's, and the limit of our cgroup and of the groups around it. */
uint64_t memory_available(void);

#endif
