/* allow.c - what a client may do with rights that are not its own.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A row names rights, and a bucket with or without a prefix, or everything. A prefix is compared
 * byte for byte: "logs" allows "logs-of-others/x", too, and "logs/" does not. A list lies inside of
 * a row if its own prefix begins with the row's: any key it may name does, then. A key with "." or
 * ".." between its slashes lies in no bucket: an origin that reads it as a path arrives
 * elsewhere. */
#include "front/allow.h"

const struct config_policy allow_everything = { .rights = RIGHT_ALL };

bool allow_has_steps(slice key)
{
    while (key.ptr) {
        slice segment = slice_cut(&key, '/');
        if (slice_eq(segment, S(".")) || slice_eq(segment, S("..")))
            return true;
    }
    return false;
}

static bool covers(const struct config_policy *row, const struct allow_ask *ask)
{
    if (!row->bucket.len)
        return true;
    if (!slice_eq(row->bucket, ask->bucket))
        return false;
    return ask->of_bucket || (slice_starts(ask->key, row->prefix) && !allow_has_steps(ask->key));
}

bool allow_check(const struct config_policy *rows, size_t count, const struct allow_ask *ask)
{
    for (size_t i = 0; i < count; i++)
        if ((rows[i].rights & ask->right) && covers(&rows[i], ask))
            return true;
    return false;
}
