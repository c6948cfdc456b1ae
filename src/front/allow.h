/* allow.h - what the rows of a policy allow. SPDX-License-Identifier: Apache-2.0
 *
 * A client without its own identity at the origin uses Penstock's identity there. It may do what
 * its policy allows, and nothing else. Rows only allow; no row forbids. Pure: no I/O, any
 * thread. */
#ifndef FRONT_ALLOW_H
#define FRONT_ALLOW_H

#include "base/config.h"
#include "base/slice.h"

/* One right on one object. For a list the key is its prefix. */
struct allow_ask {
    unsigned right;               /* one of RIGHT_... */
    slice bucket, key;            /* bucket empty: the service, as for ListBuckets */
    bool of_bucket;               /* as for HeadBucket: a row for any part of the bucket will do */
};

/* A row that allows all that Penstock itself may do. */
extern const struct config_policy allow_everything;

/* True for a key with "." or ".." between its slashes. */
bool allow_has_steps(slice key);

/* True if one of these rows allows it. */
bool allow_check(const struct config_policy *rows, size_t count, const struct allow_ask *ask);

#endif
