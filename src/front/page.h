/* page.h - the lowest names of many that come in any order, with sums for each.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pure. A page belongs to one thread at a time. */
#ifndef FRONT_PAGE_H
#define FRONT_PAGE_H

#include "base/arena.h"

struct page_row {
    slice name;
    uint64_t objects, bytes, cached_bytes, pinned_bytes;
    double age;                       /* the lowest one; negative: not known */
};

struct page;
/* A page of names above `marker` (ptr NULL: of all names), at most `rows_max`, which take at most
 * about `bytes_max` of memory; but at least one. While it is filled, it takes twice as much. */
struct page *page_new(slice marker, size_t rows_max, size_t bytes_max) MUST_USE;
void page_free(struct page **page);
/* Returns a row of this name, to add to; valid until the next call. There may be several of one name
 * until page_end. NULL: the name does not belong to the page. */
struct page_row *page_row(struct page *page, slice name);
/* No more rows come. Returns their number, sorted by name; `*ret_more` is true if there were names
 * after the last one. */
size_t page_end(struct page *page, const struct page_row **ret, bool *ret_more);

#endif
