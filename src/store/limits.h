/* limits.h - the limits of buckets and prefixes, as the settings give them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The row with the longest prefix that fits has the limits of an object, as in front/rules.c. Pure;
 * the caller has a lock. */
#ifndef STORE_LIMITS_H
#define STORE_LIMITS_H

#include "store/store.h"

struct limits {
    struct store_limits *rows;        /* own copies */
    size_t count;
};

void limits_set(struct limits *limits, const struct store_limits *rows, size_t count);
void limits_end(struct limits *limits);
/* Returns the row for this key, or NULL. */
const struct store_limits *limits_find(const struct limits *limits, slice bucket, slice key);
/* Returns the row with exactly this prefix, or NULL. */
const struct store_limits *limits_row(const struct limits *limits, slice bucket, slice prefix);
/* Returns true if the prefixes of this bucket are accounted for one by one: it has a row with a
 * prefix, and a row with a quota or a time of expiry. */
bool limits_split(const struct limits *limits, slice bucket);
/* Returns true if the bucket has a row with a quota or a time of expiry. */
bool limits_count(const struct limits *limits, slice bucket);
/* Returns true if any row has a quota or a time of expiry. */
bool limits_any_count(const struct limits *limits);
/* Returns true if any bucket is split. */
bool limits_any_split(const struct limits *limits);
/* Returns true if any row has a time of expiry. */
bool limits_any_expire(const struct limits *limits);
/* Returns true if the same buckets are split at the same prefixes. */
bool limits_same_split(const struct limits *a, const struct limits *b);

#endif
