/* free_pages.h - the index's pages that no current tree uses. SPDX-License-Identifier: Apache-2.0
 *
 * LMDB never overwrites a page that a reader may need: a change writes a copy, and the old page
 * stays in the file, with entries that were right once and whose checksums still hold. Its number
 * is on the list of free pages. So a look-up that ends in such a page followed a damaged pointer,
 * and what it found is out of date.
 *
 * Two transactions are known at a time, the last and the one before: each has marks of its own, and
 * they need no clearing. Threads: the committer notes, anybody asks. */
#ifndef STORE_FREE_PAGES_H
#define STORE_FREE_PAGES_H

#include "base/base.h"

struct free_pages;
struct free_pages *free_pages_new(uint64_t page_count) MUST_USE;
void free_pages_free(struct free_pages **pages);
/* This page is on the list of free pages that the transaction left. */
void free_pages_note(struct free_pages *pages, uint64_t page, uint64_t transaction);
/* Was it noted so? The answer holds while neither transaction + 2 nor a later one has begun to be
 * noted. */
bool free_pages_has(const struct free_pages *pages, uint64_t page, uint64_t transaction);

#endif
