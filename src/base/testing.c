/* testing.c - the functions of testing.h in the shipped program: all return constants.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/testing.h"

#include "base/failpoint.h"
#include "base/guard.h"

bool guard_on(enum guard guard)
{
    (void)guard;
    return true;
}

bool failpoint(enum failpoint where)
{
    (void)where;
    return false;
}

bool testing_daemon(void) { return false; }

uint64_t testing_ahead_ms(void) { return 0; }

const char *testing_value(enum testing_value which)
{
    (void)which;
    return NULL;
}
