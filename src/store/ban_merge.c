/* ban_merge.c - fewer bans that cover the same, and more. SPDX-License-Identifier: Apache-2.0 */
#include "store/ban_merge.h"

#include <stdlib.h>

size_t ban_shared_bytes(slice a, slice b)
{
    size_t len = 0, most = MIN(a.len, b.len);
    while (len < most && a.ptr[len] == b.ptr[len])
        len++;
    return len;
}

static int by_prefix(const void *a, const void *b)
{
    return slice_cmp((*(struct ban_row *const *)a)->prefix, (*(struct ban_row *const *)b)->prefix);
}

static int longest_first(const void *a, const void *b)
{
    size_t left = *(const size_t *)a, right = *(const size_t *)b;
    return (left < right) - (left > right);
}

/* Returns the rows that may be merged, in the order of their prefixes. */
static struct ban_row **candidates(struct ban_row *rows, size_t count, size_t spare, size_t *ret)
{
    struct ban_row **found = must_alloc((count + 1) * sizeof(struct ban_row *));
    size_t settled = 0, kept = 0;
    for (size_t i = 0; i < count; i++)
        settled += rows[i].settled;
    for (size_t i = 0; i < count; i++)
        if (settled <= spare || rows[i].settled)
            found[kept++] = &rows[i];
    qsort(found, kept, sizeof(*found), by_prefix);
    *ret = kept;
    return found;
}

/* How many bytes rows must share to be merged, so that `spare` rows go. */
static size_t limit_of(const size_t *shared, size_t count, size_t spare)
{
    size_t *order = must_alloc((count + 1) * sizeof(*order));
    for (size_t i = 0; i < count; i++)
        order[i] = shared[i];
    qsort(order, count, sizeof(*order), longest_first);
    size_t limit = order[spare - 1];
    free(order);
    return limit;
}

static void merge_run(struct ban_row **run, size_t count, size_t len)
{
    struct ban_row *newest = run[0];
    for (size_t i = 1; i < count; i++)
        if (run[i]->serial > newest->serial)
            newest = run[i];
    for (size_t i = 0; i < count; i++) {
        if (run[i] == newest)
            continue;
        newest->settled &= run[i]->settled;
        newest->arrived = MAX(newest->arrived, run[i]->arrived);
        newest->merged = newest->unnumbered = true;
        free((char *)run[i]->prefix.ptr);
        run[i]->prefix.ptr = NULL;
    }
    newest->prefix.len = len;
}

static void merge_runs(struct ban_row **order, size_t count, const size_t *shared, size_t limit)
{
    size_t first = 0;
    while (first < count) {
        size_t end = first + 1, len = order[first]->prefix.len;
        for (; end < count && shared[end - 1] >= limit; end++)
            len = MIN(len, shared[end - 1]);
        merge_run(order + first, end - first, len);
        first = end;
    }
}

size_t ban_rows_merge(struct ban_row *rows, size_t count, size_t most)
{
    size_t spare = count > most ? count - most : 0, left = 0, found;
    check(most > 0);
    if (!spare)
        return count;
    struct ban_row **order = candidates(rows, count, spare, &found);
    size_t *shared = must_alloc(found * sizeof(*shared));
    for (size_t i = 0; i + 1 < found; i++)
        shared[i] = ban_shared_bytes(order[i]->prefix, order[i + 1]->prefix);
    merge_runs(order, found, shared, limit_of(shared, found - 1, spare));
    for (size_t i = 0; i < count; i++)
        if (rows[i].prefix.ptr)
            rows[left++] = rows[i];
    free(shared);
    free(order);
    return left;
}
