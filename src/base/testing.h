/* testing.h - what only the tests' daemon can do. SPDX-License-Identifier: Apache-2.0
 *
 * Some tests need things that no user may have: a safety guard that is off, an hour that passes at
 * once, a GPU that does not exist. Only the functions below and guard_on() give them, and there are
 * two implementations. testing.c is in the shipped program: each answer is a constant, so no
 * variable and no file can change it. tests/daemon/testing.c replaces it in
 * build/tests/daemon/penstock, which is linked from the same objects. scripts/linkage checks that
 * the shipped program holds nothing of the second, and story g03 tries it. */
#ifndef BASE_TESTING_H
#define BASE_TESTING_H

#include "base/base.h"

/* Is this the tests' daemon? If so, constants of config.def may be set without a warning. */
bool testing_daemon(void);
/* Milliseconds by which the ageing clock is ahead of the real one (clock.h). Never falls. */
uint64_t testing_ahead_ms(void);

/* A value that a test sets in place of a constant; NULL: none is set. */
enum testing_value {
    TESTING_GPU_MODULE,           /* the path of the module for GPUs */
    TESTING_GPU_IDLE_MS           /* how long a GPU without a buffer is kept */
};
const char *testing_value(enum testing_value which);

#endif
