/* limits.c - the limits of buckets and prefixes, as the settings give them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/limits.h"

#include <stdlib.h>

static slice copy(slice text)
{
    return (slice){ must_strndup(text.ptr, text.len), text.len };
}

void limits_set(struct limits *limits, const struct store_limits *rows, size_t count)
{
    limits->rows = must_alloc((count + 1) * sizeof(*limits->rows));
    limits->count = count;
    for (size_t i = 0; i < count; i++) {
        limits->rows[i] = rows[i];
        limits->rows[i].bucket = copy(rows[i].bucket);
        limits->rows[i].prefix = copy(rows[i].prefix);
    }
}

void limits_end(struct limits *limits)
{
    for (size_t i = 0; i < limits->count; i++) {
        free((char *)(uintptr_t)limits->rows[i].bucket.ptr);
        free((char *)(uintptr_t)limits->rows[i].prefix.ptr);
    }
    free(limits->rows);
    *limits = (struct limits){ 0 };
}

const struct store_limits *limits_find(const struct limits *limits, slice bucket, slice key)
{
    const struct store_limits *best = NULL;
    for (size_t i = 0; i < limits->count; i++) {
        const struct store_limits *row = &limits->rows[i];
        if (slice_eq(row->bucket, bucket) && slice_starts(key, row->prefix) &&
            (!best || row->prefix.len > best->prefix.len))
            best = row;
    }
    return best;
}

const struct store_limits *limits_row(const struct limits *limits, slice bucket, slice prefix)
{
    const struct store_limits *row = limits_find(limits, bucket, prefix);
    return row && slice_eq(row->prefix, prefix) ? row : NULL;
}

static bool counts(const struct store_limits *row)
{
    return row->quota_bytes || row->expire_ms;
}

bool limits_count(const struct limits *limits, slice bucket)
{
    for (size_t i = 0; i < limits->count; i++)
        if (counts(&limits->rows[i]) && slice_eq(limits->rows[i].bucket, bucket))
            return true;
    return false;
}

bool limits_any_count(const struct limits *limits)
{
    for (size_t i = 0; i < limits->count; i++)
        if (counts(&limits->rows[i]))
            return true;
    return false;
}

bool limits_split(const struct limits *limits, slice bucket)
{
    bool prefix = false, any_counts = false;
    for (size_t i = 0; i < limits->count; i++) {
        const struct store_limits *row = &limits->rows[i];
        if (!slice_eq(row->bucket, bucket))
            continue;
        prefix |= row->prefix.len > 0;
        any_counts |= counts(row);
    }
    return prefix && any_counts;
}

bool limits_any_split(const struct limits *limits)
{
    for (size_t i = 0; i < limits->count; i++)
        if (limits_split(limits, limits->rows[i].bucket))
            return true;
    return false;
}

bool limits_any_expire(const struct limits *limits)
{
    for (size_t i = 0; i < limits->count; i++)
        if (limits->rows[i].expire_ms)
            return true;
    return false;
}

/* Returns true if each split prefix of `a` is one of `b`, too. */
static bool has_splits(const struct limits *a, const struct limits *b)
{
    for (size_t i = 0; i < a->count; i++) {
        const struct store_limits *row = &a->rows[i];
        if (row->prefix.len && limits_split(a, row->bucket) &&
            !(limits_split(b, row->bucket) && limits_row(b, row->bucket, row->prefix)))
            return false;
    }
    return true;
}

bool limits_same_split(const struct limits *a, const struct limits *b)
{
    return has_splits(a, b) && has_splits(b, a);
}
