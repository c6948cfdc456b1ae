/* testing.h - functions that only the tests' daemon has. SPDX-License-Identifier: Apache-2.0
 *
 * Some tests need things that no user may have: a safety guard that is off, an hour that passes at
 * once, a GPU that does not exist, a disk that fails at one step. Three headers provide such
 * things, and no other: this one, guard.h and failpoint.h. Each of their functions has two
 * implementations. The shipped
 * program has base/testing.c: each answer is a constant, so no variable and no file can change it.
 * build/tests/daemon/penstock is linked from the same objects, but with tests/daemon/testing.c in
 * place of base/testing.c. scripts/linkage checks that the shipped program holds no part of
 * tests/daemon/testing.c. The test g03 checks that no variable switches anything in the shipped
 * program. */
#ifndef BASE_TESTING_H
#define BASE_TESTING_H

#include "base/base.h"

/* Returns true in the tests' daemon; there, constants of config.def may be set without a
 * warning. */
bool testing_daemon(void);
/* Returns the milliseconds by which the ageing clock is ahead of the real one (clock.h). The number
 * never falls. */
uint64_t testing_ahead_ms(void);

/* Returns a value that a test sets in place of a constant, or NULL if none is set. */
enum testing_value {
    TESTING_GPU_MODULE,           /* the path of the module for GPUs */
    TESTING_GPU_IDLE_MS,          /* how long a GPU without a buffer is kept */
    TESTING_NAME_SERVER           /* ADDRESS:PORT, in place of the name servers of resolv.conf */
};
const char *testing_value(enum testing_value which);

#endif
