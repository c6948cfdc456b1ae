/* clock.h - what time it is. SPDX-License-Identifier: Apache-2.0
 *
 * Rooms that wait or measure call these; pure functions take `now` as an argument (H9). Three clocks:
 * - wall time is for what is written down or compared with others: signatures, logs, HTTP dates;
 * - monotonic time is for waiting and measuring: timers, timeouts, durations;
 * - ageing time tells how old an answer of the origin is: freshness, grants, permissions, refusals
 *   and listings that are remembered. ageing_s() is wall time and ageing_ms() is monotonic time, but
 *   in the tests' daemon, where a test lets them run ahead (testing.h). A time of this clock is
 *   compared with times of this clock only. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <time.h>

#include "base/base.h"
#include "base/testing.h"

static inline uint64_t clock_ns(clockid_t which)
{
    struct timespec ts;
    clock_gettime(which, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t mono_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
static inline uint64_t mono_ms(void) { return mono_ns() / 1000000u; }
static inline int64_t wall_s(void) { return (int64_t)(clock_ns(CLOCK_REALTIME) / 1000000000u); }

static inline uint64_t ageing_ms(void) { return mono_ms() + testing_ahead_ms(); }
static inline int64_t ageing_s(void)
{
    return (int64_t)((clock_ns(CLOCK_REALTIME) / 1000000u + testing_ahead_ms()) / 1000u);
}

#endif
