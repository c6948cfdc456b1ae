/* page.c - keeps the lowest of many names that come in any order, with totals for each name.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The rows have two parts. The first part is sorted, and has each name once. New names go to the
 * end of the second part, which is not sorted. When the second part is as long as the first one,
 * both are sorted and merged, and the highest names leave if they are too many. So a name costs
 * O(log n). Once names have left, each name above that of the last sorted row is refused.
 * So the name of the last row can only become lower, and a name that has left never comes back. */
#include "front/page.h"

#include <stdlib.h>
#include <string.h>

#include "store/explain.h"

#define TAIL_LEAST 64u                /* length of the second part before a merge */

struct page {
    slice marker;
    size_t rows_max, bytes_max;
    struct page_row *rows;
    size_t count, sorted, capacity;   /* rows before `sorted` are sorted */
    struct arena names;               /* of all rows */
    bool more;                        /* names above the last sorted row do not belong here */
};

struct page *page_new(slice marker, size_t rows_max, size_t bytes_max)
{
    struct page *page = must_alloc(sizeof(*page));
    check(rows_max > 0);
    page->marker = marker.ptr ? (slice){ must_strndup(marker.ptr, marker.len), marker.len }
                              : (slice){ NULL, 0 };
    page->rows_max = rows_max;
    page->bytes_max = bytes_max;
    return page;
}

void page_free(struct page **page)
{
    struct page *mine = *page;
    *page = NULL;
    if (!mine)
        return;
    free((char *)mine->marker.ptr);
    free(mine->rows);
    arena_free(&mine->names);
    free(mine);
}

static int by_name(const void *a, const void *b)
{
    return slice_cmp(((const struct page_row *)a)->name, ((const struct page_row *)b)->name);
}

/* Returns the sorted row of this name, or NULL. */
static struct page_row *find(struct page *page, slice name)
{
    struct page_row wanted = { .name = name };
    return page->sorted ? bsearch(&wanted, page->rows, page->sorted, sizeof(wanted), by_name)
                        : NULL;
}

/* If several rows have the same name, adds them up in the first of them, and drops the others. */
static void join_alike(struct page *page)
{
    size_t count = 0;
    for (size_t i = 0; i < page->count; i++) {
        struct page_row *row = &page->rows[i], *last = count ? &page->rows[count - 1] : NULL;
        if (!last || slice_cmp(last->name, row->name) != 0) {
            page->rows[count++] = *row;
            continue;
        }
        last->objects += row->objects;
        last->bytes += row->bytes;
        last->cached_bytes += row->cached_bytes;
        last->pinned_bytes += row->pinned_bytes;
        last->age = explain_younger(last->age, row->age);
    }
    page->count = count;
}

/* Drops the rows beyond the limits. */
static void cut(struct page *page)
{
    size_t count = 0, bytes = 0;
    while (count < MIN(page->count, page->rows_max)) {
        bytes += sizeof(page->rows[0]) + page->rows[count].name.len;
        if (bytes > page->bytes_max && count)
            break;
        count++;
    }
    page->more = page->more || count < page->count;
    page->count = count;
}

static void merge(struct page *page)
{
    struct arena names = { 0 };
    if (page->count)
        qsort(page->rows, page->count, sizeof(page->rows[0]), by_name);
    join_alike(page);
    cut(page);
    for (size_t i = 0; i < page->count; i++)
        page->rows[i].name = arena_copy(&names, page->rows[i].name);
    arena_free(&page->names);
    page->names = names;
    page->sorted = page->count;
}

static bool is_wanted(const struct page *page, slice name)
{
    if (page->marker.ptr && slice_cmp(name, page->marker) <= 0)
        return false;
    return !page->more || !page->sorted || slice_cmp(name, page->rows[page->sorted - 1].name) <= 0;
}

static bool must_merge(const struct page *page)
{
    size_t tail = page->count - page->sorted;
    return tail >= MAX(page->sorted, TAIL_LEAST) || page->names.used_bytes > 2 * page->bytes_max;
}

struct page_row *page_row(struct page *page, slice name)
{
    struct page_row *row = find(page, name);
    if (row || !is_wanted(page, name))
        return row;
    if (page->count > page->sorted && slice_eq(page->rows[page->count - 1].name, name))
        return &page->rows[page->count - 1];
    if (must_merge(page)) {
        merge(page);
        if (!is_wanted(page, name))
            return NULL;
    }
    if (page->count == page->capacity) {
        page->capacity = MAX(2 * page->capacity, TAIL_LEAST);
        page->rows = realloc(page->rows, page->capacity * sizeof(page->rows[0]));
        check(page->rows);
    }
    row = &page->rows[page->count++];
    *row = (struct page_row){ .name = arena_copy(&page->names, name), .age = -1 };
    return row;
}

size_t page_end(struct page *page, const struct page_row **ret, bool *ret_more)
{
    merge(page);
    *ret = page->rows;
    *ret_more = page->more;
    return page->count;
}
