/* free_pages.h - the index's pages that no current tree uses. SPDX-License-Identifier: Apache-2.0
 *
 * LMDB never overwrites a page that a reader may need: a change writes a copy of the page. The old
 * page stays in the file, with entries that were right once and still have a valid checksum. The
 * number of the old page is on the list of free pages. So a look-up that ends in a free page
 * followed a damaged pointer, and the entry it found is out of date.
 *
 * The struct knows two transactions at a time, the latest one and the one before. Each has marks of
 * its own, which need no clearing. Threads: the committer notes pages, any thread may ask. */
#ifndef STORE_FREE_PAGES_H
#define STORE_FREE_PAGES_H

#include "base/base.h"

struct free_pages;
struct free_pages *free_pages_new(uint64_t page_count) MUST_USE;
void free_pages_free(struct free_pages **pages);
/* Notes that the page is on the list of free pages after this transaction. */
void free_pages_note(struct free_pages *pages, uint64_t page, uint64_t transaction);
/* Returns true if the page was noted for this transaction. The answer is valid only as long as no
 * page was noted for transaction + 2 or a later one. */
bool free_pages_has(const struct free_pages *pages, uint64_t page, uint64_t transaction);

#endif
