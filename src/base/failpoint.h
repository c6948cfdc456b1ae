/* failpoint.h - places where the tests' daemon fails. SPDX-License-Identifier: Apache-2.0
 *
 * A test must show that a cache folder outlives a failure of each of its writes, and the end of the
 * process between any two of them. In tests/daemon/penstock the environment variable
 * PENSTOCK_FAILPOINTS names a file. Each of its lines has this form:
 *
 *     NAME ACTION [SKIP [TIMES]]
 *
 * NAME is a place of failpoint.def. The first SKIP visits (default 0) of the place do nothing; the
 * next TIMES visits (default 1) do the action. `crash` ends the process as kill -9 does, `stop`
 * waits until the line is gone, `eio` and `enospc` make the step fail. The file is read at each
 * visit. If its name is FILE, the file FILE.hits gets a line for each action that was done, and
 * FILE.known gets the names of all places. In every other program failpoint() is false
 * (testing.h). */
#ifndef BASE_FAILPOINT_H
#define BASE_FAILPOINT_H

#include <errno.h>

#include "base/file.h"

enum failpoint {
#define POINT(id, name, fails) FAIL_##id,
#include "base/failpoint.def"
    FAILPOINTS
};

/* Returns true if this step must fail; errno says how. Any thread may call this function. */
bool failpoint(enum failpoint where);

/* Like failpoint(), but returns the error. */
static inline enum err failpoint_err(enum failpoint where)
{
    return !failpoint(where) ? OK : file_err(errno);
}

#endif
