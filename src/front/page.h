/* page.h - keeps the lowest of many names that come in any order, with totals for each name.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A list of cached keys (cached.c) is sent page by page. To make a page, all names go through
 * page_row, and the page keeps those that belong to it. Pure. A page belongs to one thread at a
 * time. */
#ifndef FRONT_PAGE_H
#define FRONT_PAGE_H

#include "base/arena.h"

struct page_row {
    slice name;
    uint64_t objects, bytes, cached_bytes, pinned_bytes;
    double age;                       /* the lowest age; negative: not known */
};

struct page;
/* Makes a page for names above `marker` (ptr NULL: for all names). It has at most `rows_max` rows,
 * which take at most about `bytes_max` of memory, but always has room for one row. While it is
 * filled, it takes twice as much memory. */
struct page *page_new(slice marker, size_t rows_max, size_t bytes_max) MUST_USE;
void page_free(struct page **page);
/* Returns a row of this name, so that the caller can add to its sums. The row is valid until the
 * next call. Until page_end, several rows may have the same name. NULL: the name does not belong to
 * the page. */
struct page_row *page_row(struct page *page, slice name);
/* To be called after the last page_row. Returns the number of rows, and sets *ret to the rows,
 * sorted by name. `*ret_more` is true if there were names after that of the last row. */
size_t page_end(struct page *page, const struct page_row **ret, bool *ret_more);

#endif
