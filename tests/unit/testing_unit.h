/* testing_unit.h - the functions of base/testing.h for a unit test: steps that fail, and a clock
 * that is ahead. SPDX-License-Identifier: Apache-2.0
 *
 * Takes the place of src/base/testing.c in the test that includes it. */
#ifndef TESTING_UNIT_H
#define TESTING_UNIT_H

#include <stdatomic.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/guard.h"
#include "base/testing.h"

/* So many next visits of a step fail, with this errno; or so many after the first `skip`. */
static struct fails {
    atomic_int skip, times, with;
} unit_fails[FAILPOINTS];

static _Atomic uint64_t unit_ahead_ms;

__attribute__((unused)) static void fail_next(enum failpoint where, int skip, int times, int with)
{
    atomic_store(&unit_fails[where].times, 0);
    atomic_store(&unit_fails[where].skip, skip);
    atomic_store(&unit_fails[where].with, with);
    atomic_store(&unit_fails[where].times, times);
}

/* Waits as soon() does, while the clock of testing_ahead_ms() runs 11 times as fast, until it gained
 * 30 s. So a sweep is repeated in time, but none that waits 10 minutes for an extent. */
#define soon_in_a_hurry(condition)                                                             \
    do {                                                                                       \
        int hurry_left = 300;                                                                  \
        soon((atomic_fetch_add(&unit_ahead_ms, hurry_left-- > 0 ? 100u : 0u), (condition)));   \
    } while (0)

/* The next visit of a step waits until the test lets it go on. */
static struct holds {
    atomic_bool next, holds;
} unit_holds[FAILPOINTS];

__attribute__((unused)) static void hold_next(enum failpoint where)
{
    atomic_store(&unit_holds[where].next, true);
}

__attribute__((unused)) static bool is_held(enum failpoint where)
{
    return atomic_load(&unit_holds[where].holds);
}

__attribute__((unused)) static void let_go(enum failpoint where)
{
    atomic_store(&unit_holds[where].holds, false);
}

/* Called at the next visit of a step, by the thread that is there. */
static _Atomic(void (*)(void)) unit_calls[FAILPOINTS];

__attribute__((unused)) static void call_at(enum failpoint where, void (*call)(void))
{
    atomic_store(&unit_calls[where], call);
}

bool failpoint(enum failpoint where)
{
    struct fails *fails = &unit_fails[where];
    struct holds *holds = &unit_holds[where];
    if (atomic_exchange(&holds->next, false)) {
        atomic_store(&holds->holds, true);
        while (is_held(where))
            usleep(1000);
    }
    void (*call)(void) = atomic_exchange(&unit_calls[where], NULL);
    if (call)
        call();
    if (atomic_load(&fails->times) <= 0 || atomic_fetch_sub(&fails->skip, 1) > 0 ||
        atomic_fetch_sub(&fails->times, 1) <= 0)
        return false;
    errno = atomic_load(&fails->with);
    return true;
}

bool guard_on(enum guard guard)
{
    (void)guard;
    return true;
}

bool testing_daemon(void) { return true; }

uint64_t testing_ahead_ms(void) { return atomic_load(&unit_ahead_ms); }

const char *testing_value(enum testing_value which)
{
    (void)which;
    return NULL;
}

#endif
