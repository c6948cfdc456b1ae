/* verify_ahead.h - verifies the records of a locked extent before their first readers.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The first reader of a block in a locked map verifies it there (lend.c), and its pages are touched
 * for the first time. For an object of 150 KB, that costs as much as all else of the hit. New objects
 * are likely to be read next, so the thread `lock` verifies the extents that were just filled, in a
 * quarter of its time at most. It takes only bytes that the page cache has. Bad bytes are left to
 * their first reader. Threads: the thread `lock`. */
#ifndef STORE_VERIFY_AHEAD_H
#define STORE_VERIFY_AHEAD_H

#include "store/extent.h"

struct verify_ahead {
    struct extent *extent;            /* lent by the caller; NULL: none */
    struct arena keep;
    struct toc_entry *rows;           /* in keep */
    uint32_t count, at;               /* rows; the next one */
    uint64_t due_ns;                  /* no step before */
};

/* Begins with the first record of a sealed extent, which the caller holds until
 * verify_ahead_end. */
void verify_ahead_begin(struct verify_ahead *ahead, struct extent *extent);
/* Verifies the next record. Returns false if there is none, or if the extent lends no more. */
bool verify_ahead_step(struct verify_ahead *ahead) MUST_USE;
void verify_ahead_end(struct verify_ahead *ahead);

#endif
