/* allow.c - what the rows of a policy allow. SPDX-License-Identifier: Apache-2.0
 *
 * A row has rights, and a bucket with or without a prefix, or everything. A prefix is compared byte
 * by byte: "logs" also allows "logs-of-others/x", and "logs/" does not. A row covers a list if the
 * prefix of the list begins with the prefix of the row, because then every listed key does. No row
 * of a bucket covers a key with "." or ".." between its slashes: an origin that reads the key as a
 * path would find another object. */
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
    check(ask->right && (ask->right & (ask->right - 1)) == 0);
    for (size_t i = 0; i < count; i++)
        if ((rows[i].rights & ask->right) && covers(&rows[i], ask))
            return true;
    return false;
}
