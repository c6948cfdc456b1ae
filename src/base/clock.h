/* clock.h - the clocks. SPDX-License-Identifier: Apache-2.0
 *
 * These functions are for code that waits, or that measures time. Pure functions take the time as
 * an argument, `now` (rule H9 in src/README.md). There are three clocks:
 * - wall time is for times that other machines or people see: signatures, logs, HTTP dates;
 * - monotonic time is for waiting and measuring: timers, timeouts, durations;
 * - ageing time is for the age of what an origin answered: the freshness of objects, grants (proofs
 *   that the origin let a client read an object), permissions, kept refusals and kept listings.
 *   This clock counts from the boot of the machine, also while the machine sleeps, and nobody can
 *   set it. So no copy stays fresh for longer when the wall clock is set back. But in the tests'
 *   daemon, a test can move it ahead (testing.h). So compare ageing times only with ageing times. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <pthread.h>
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

/* Waits for the condition, but at most until the monotonic time until_ns. Like any wait for a
 * condition, it may return early. The caller holds the lock. */
static inline void cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns)
{
    struct timespec until = { (time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u) };
    pthread_cond_clockwait(cond, lock, CLOCK_MONOTONIC, &until);
}

static inline uint64_t ageing_ms(void)
{
    return clock_ns(CLOCK_BOOTTIME) / 1000000u + testing_ahead_ms();
}
/* Returns an ageing time in seconds. At least 1: in many places, 0 means that it is not known. */
static inline int64_t ageing_s_of(uint64_t ms) { return 1 + (int64_t)(ms / 1000u); }
static inline int64_t ageing_s(void) { return ageing_s_of(ageing_ms()); }
/* Returns an ageing time as wall time, for people. */
static inline int64_t ageing_as_wall_s(int64_t then_s) { return wall_s() - (ageing_s() - then_s); }

#endif
