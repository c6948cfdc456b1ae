/* index_pages.h - are the pages that a write will touch sound? SPDX-License-Identifier: Apache-2.0
 *
 * Looks at an LMDB 0.9 data file through its map, and knows its format but nothing of its library.
 * The library copies pages to the heap and works on them there, and believes every length and
 * offset in them: so each page is looked at before the library changes it. What this transaction
 * has changed lies on its heap, made of pages that were looked at; the tree walked here is the one
 * last committed.
 *
 * Reads only, never beyond the map; beyond the end of the file it faults: call it in a trap. One
 * thread. */
#ifndef STORE_INDEX_PAGES_H
#define STORE_INDEX_PAGES_H

#include "base/slice.h"
#include "store/free_pages.h"

#define PAGES_LEVELS 16u              /* deeper than any tree of ours */
#define PAGES_COUNTS 4096u
#define PAGES_COPIED 1024u

/* A leaf's nodes are one of these shapes. */
struct node_shape {
    uint16_t key_bytes, value_bytes;
};

struct tree {
    uint64_t root, pages;             /* branches and leaves */
    uint16_t depth;
};

struct index_pages {
    const uint8_t *map;
    uint64_t count;                   /* pages in the map */
    uint32_t page_bytes;
    const struct node_shape *shapes;
    uint32_t shape_count;
    struct free_pages *free_pages;    /* told what is free, and asked; NULL: not */
    /* Of this transaction. */
    uint64_t last;                    /* the one before: its tree is the one walked here */
    uint64_t next;                    /* no page has this number or a higher one */
    struct tree main, free;
    uint8_t losses[PAGES_COUNTS];     /* nodes each may have lost; by number modulo PAGES_COUNTS */
    uint64_t path[PAGES_LEVELS];      /* of the last key */
    uint64_t copied[PAGES_COPIED];    /* pages whose bytes no longer matter; by number, too */
};

/* Where the map begins, by an address in one of its pages; NULL if that is no page of it. */
const uint8_t *index_pages_map_of(const void *inside, uint32_t page_bytes);

/* Each call: true if all it looked at is sound. */
/* A transaction begins, this one: the meta page of the last, and the whole tree of free pages. */
bool index_pages_begin(struct index_pages *pages, uint64_t transaction) MUST_USE;
/* What writing this key may change: the pages from the root to its leaf. None of them is free, and
 * each holds keys that belong below the ones above. */
bool index_pages_put(struct index_pages *pages, slice key) MUST_USE;
/* For who only reads: the same, but nothing else of the pages is looked at. */
bool index_pages_lead(const struct index_pages *pages, slice key) MUST_USE;
/* Deleting it: these, and the neighbours of each that may fall below the library's threshold. */
bool index_pages_delete(struct index_pages *pages, slice key) MUST_USE;
/* That key was written or deleted: the library has copies of the pages from the root to its leaf,
 * and they need not be looked at again. */
void index_pages_changed(struct index_pages *pages);
/* Does this lie in the map, in a page that the transaction's tree may use, and among its nodes? Or
 * else on the library's heap. `bytes` is a node's value, behind a key of `key_bytes`. Any thread,
 * within the bounds of free_pages_has. */
bool index_pages_is_current(const struct index_pages *pages, uint64_t transaction,
                            const void *bytes, uint32_t key_bytes) MUST_USE;

#endif
