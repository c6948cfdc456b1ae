/* index_pages.h - checks the index pages that a write will touch.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The code looks at the data file of LMDB 0.9 through the file's map. It knows the file format, and
 * does not use the library. The library copies a page to the heap, changes the copy, and trusts
 * every length and offset in it. So each page is checked before the library changes it. The pages
 * that this transaction has changed lie on the heap; they are copies of checked pages. The tree
 * that is walked here is that of the latest commit.
 *
 * The code only reads, and never beyond the map. A read beyond the end of the file faults, so
 * callers use a trap. One thread. */
#ifndef STORE_INDEX_PAGES_H
#define STORE_INDEX_PAGES_H

#include "base/slice.h"
#include "store/free_pages.h"

#define PAGES_LEVELS 16u              /* more levels than the index ever has */
#define PAGES_COUNTS 4096u
#define PAGES_COPIED 1024u

/* Each node of a leaf has one of these shapes. */
struct node_shape {
    uint16_t key_bytes, value_bytes;
};

struct tree {
    uint64_t root, pages;             /* root page; number of branches and leaves */
    uint16_t depth;
};

struct index_pages {
    const uint8_t *map;
    uint64_t count;                   /* pages in the map */
    uint32_t page_bytes;
    const struct node_shape *shapes;
    uint32_t shape_count;
    struct free_pages *free_pages;    /* the list of free pages; NULL: it is not kept */
    /* for this transaction */
    uint64_t last;                    /* the transaction before, whose tree is walked here */
    uint64_t next;                    /* every page has a lower number */
    struct tree main, free;
    uint8_t losses[PAGES_COUNTS];     /* nodes a page may have lost, at its number % PAGES_COUNTS */
    uint64_t path[PAGES_LEVELS];      /* the pages from the root to the latest key */
    uint64_t copied[PAGES_COPIED];    /* pages already copied, at their number % PAGES_COPIED */
};

/* Returns the beginning of the map of this file that has the address `inside` in one of its pages.
 * Returns NULL if the page has a wrong number, so that the beginning is not known, or if the file
 * can't be read. */
const uint8_t *index_pages_map_of(const void *inside, uint32_t page_bytes, int file) MUST_USE;

/* The next four functions return true if all pages that they check are sound. */
/* Begins a transaction. Checks the meta page of the transaction before, and the whole tree of free
 * pages. */
bool index_pages_begin(struct index_pages *pages, uint64_t transaction) MUST_USE;
/* Checks the pages that a write of this key may change: those from the root to the key's leaf. None
 * of them may be free, and each may hold only keys that belong below the pages above it. */
bool index_pages_put(struct index_pages *pages, slice key) MUST_USE;
/* For reading: checks only that these pages lead to the key. */
bool index_pages_lead(const struct index_pages *pages, slice key) MUST_USE;
/* For deleting the key: checks the same pages as index_pages_put. If one of them may fall below the
 * library's threshold, its neighbours are checked, too. */
bool index_pages_delete(struct index_pages *pages, slice key) MUST_USE;
/* To be called after the key was written or deleted. The library now has copies of the pages from
 * the root to the key's leaf, so the pages need not be checked again. */
void index_pages_changed(struct index_pages *pages);
/* Returns true if `bytes` is the value of a node, after a key of `key_bytes`, in a page that the
 * tree of the transaction may use; or if `bytes` lies outside of the map, on the library's heap.
 * Any thread, within the limits of free_pages_has. */
bool index_pages_is_current(const struct index_pages *pages, uint64_t transaction,
                            const void *bytes, uint32_t key_bytes) MUST_USE;

#endif
