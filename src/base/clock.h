/* clock.h - what time it is. SPDX-License-Identifier: Apache-2.0
 *
 * Whoever waits or measures calls these; what is pure takes `now` as an argument (H9). Wall time is
 * for what is written down or compared with others, monotonic time for waiting and measuring. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <time.h>

#include "base/base.h"

static inline uint64_t clock_ns(clockid_t which)
{
    struct timespec ts;
    clock_gettime(which, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t mono_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
static inline uint64_t mono_ms(void) { return mono_ns() / 1000000u; }
static inline int64_t wall_s(void) { return (int64_t)(clock_ns(CLOCK_REALTIME) / 1000000000u); }

#endif
