/* allow.h - what a client may do with rights that are not its own.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A client that has no identity of its own at the origin is let do there, in Penstock's name, what
 * its policy says and nothing else. Rows only allow. Pure: no I/O, any thread. */
#ifndef FRONT_ALLOW_H
#define FRONT_ALLOW_H

#include "base/config.h"
#include "base/slice.h"

/* What somebody wants to do, and to what. A list's key is its prefix. */
struct allow_ask {
    unsigned right;               /* one of RIGHT_... */
    slice bucket, key;            /* bucket empty: the service, as for ListBuckets */
    bool of_bucket;               /* about the bucket as such, as HeadBucket: any row in it */
};

/* The row of who may do whatever Penstock itself may. */
extern const struct config_policy allow_everything;

/* Has it "." or ".." between its slashes? */
bool allow_has_steps(slice key);

/* Does one of these rows allow it? */
bool allow_check(const struct config_policy *rows, size_t count, const struct allow_ask *ask);

#endif
