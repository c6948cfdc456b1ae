/* guard.h - safety guards that the tests' daemon can switch off.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A test of a guard must fail without the guard. These switches let a test show this failure. In
 * tests/daemon/penstock the environment variable PENSTOCK_GUARD_OFF lists the guards that are
 * switched off, separated by commas (crc, identity, epoch, if-match, pages, missing, lists, grants,
 * item-rights, fill-bounds, fill-drain, meta, leaf, mark, doubt, bans, pins, breaker, slow-down,
 * staging, hints). In
 * every other program guard_on() is true (testing.h). */
#ifndef BASE_GUARD_H
#define BASE_GUARD_H

#include "base/base.h"

enum guard {
    GUARD_CRC, GUARD_IDENTITY, GUARD_EPOCH, GUARD_IF_MATCH, GUARD_PAGES, GUARD_MISSING, GUARD_LISTS,
    GUARD_GRANTS, GUARD_ITEM_RIGHTS, GUARD_FILL_BOUNDS, GUARD_FILL_DRAIN,
    GUARD_META, GUARD_LEAF, GUARD_MARK, GUARD_DOUBT, GUARD_BANS,
    GUARD_PINS, GUARD_BREAKER, GUARD_SLOW_DOWN, GUARD_STAGING, GUARD_HINTS
};

bool guard_on(enum guard guard);

#endif
