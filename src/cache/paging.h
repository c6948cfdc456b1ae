/* paging.h - chooses the key at which a listing page begins. SPDX-License-Identifier: Apache-2.0
 *
 * If each page began at the wanted key, keys below it would need another page, and the two pages
 * would overlap: 8,133 keys read in random order took 53 pages, where 9 are enough. So the
 * stretches of keys that pages covered are remembered. For a key inside a stretch, that stretch is
 * listed again. For a key between two stretches, the page begins at the end of the lower one. So
 * pages hardly overlap: the same keys take 10 to 16 pages the first time, and 9 to 13 later. */
#ifndef CACHE_PAGING_H
#define CACHE_PAGING_H

#include "base/arena.h"
#include "base/slice.h"

struct paging;

/* The folder that is listed. Each folder has its own stretches. */
struct folder_name {
    const void *origin;               /* compared, never followed */
    slice bucket, prefix;
};

struct paging *paging_new(void) MUST_USE;
void paging_free(struct paging **paging);

/* Chooses *ret, the parameter start-after of a page that probably has `key`. The page begins after
 * *ret; if *ret is empty, it begins at the start of the folder. *ret lies in keep. If `sure`,
 * another page has just ended before the key: the new page then begins right at the key, unless a
 * remembered stretch has the key. Returns false if a page can't begin at this key. The caller must
 * hold a lock. */
bool paging_start(struct paging *paging, struct arena *keep, const struct folder_name *folder,
                  slice key, bool sure, slice *ret) MUST_USE;

/* Notes that a page for `key`, which began at `start`, had keys up to `last`. If `last` is empty,
 * the page reached the end of the folder. The caller must hold the same lock. */
void paging_note(struct paging *paging, const struct folder_name *folder, slice key, slice start,
                 slice last);

/* Finds the start-after of a listing whose first line is `key`: the key with its last code point
 * lowered by one, then U+10FFFF. Returns false if that is not valid XML text. Pure. */
bool paging_start_at(struct arena *keep, slice key, slice *ret) MUST_USE;

#endif
