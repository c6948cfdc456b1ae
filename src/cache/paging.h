/* paging.h - where a listing page begins. SPDX-License-Identifier: Apache-2.0
 *
 * A page that begins at the wanted key leaves a gap below it, and the next page in that gap
 * overlaps it: 8,133 keys read in random order took 53 pages where 9 would do. So the stretches
 * that pages covered are remembered. For a key inside a stretch, that stretch is listed again. For
 * a key between two stretches, the page begins at the end of the lower one. So pages lie side by
 * side: 10 to 16 pages the first time, 9 to 13 later. */
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

/* Where to begin (start-after, exclusive; empty: at the folder's start) so that `key` is probably
 * on the page, in *ret (keep). sure: a page begun elsewhere has just failed to reach it; it is
 * listed from itself, unless a remembered stretch holds it. false: this key can't be listed from.
 * The caller's lock. */
bool paging_start(struct paging *paging, struct arena *keep, const struct folder_name *folder,
                  slice key, bool sure, slice *ret) MUST_USE;

/* A page begun at `start` for `key` brought keys up to `last`; last empty: all there were. The
 * caller's lock. */
void paging_note(struct paging *paging, const struct folder_name *folder, slice key, slice start,
                 slice last);

/* Where a listing has to begin so that its first line is `key`: the key with its last code point
 * lowered by one, then U+10FFFF. false if that is not valid XML text. Pure. */
bool paging_start_at(struct arena *keep, slice key, slice *ret) MUST_USE;

#endif
