/* fresh.h - expired keys, revalidated a listing page at a time. SPDX-License-Identifier: Apache-2.0
 *
 * One ListObjectsV2 from just before an expired key renews every cached neighbour whose ETag, size
 * and Last-Modified are unchanged: at most 1,000 with one trip. A listing only confirms: what is
 * absent, changed or refused gets a HEAD, never a removal. */
#ifndef CACHE_FRESH_H
#define CACHE_FRESH_H

#include "cache/flight.h"

struct fresh;
struct page;

struct fresh *fresh_new(struct cache *cache) MUST_USE;
void fresh_free(struct fresh **fresh);

/* Joins the running page that may cover this key, or starts one. NULL: ask by HEAD (this origin,
 * prefix or key can't be listed, or too much is under way). own_only: a joined page did not cover
 * it; start one, listed as `who`. The reference is the caller's, who waits by fresh_look. */
struct page *fresh_page(struct fresh *fresh, const struct place *place,
                        const struct identity *who, const struct object_name *name,
                        bool own_only) MUST_USE;

enum page_state { PAGE_RUNNING, PAGE_COVERS, PAGE_LACKS, PAGE_MISSES };
/* COVERS: it is over and names the key, so it was renewed or has changed and needs a HEAD; LACKS:
 * it does not name it, though it could; MISSES: it ended before the key or failed. If still
 * running, waiter goes on waiting. */
enum page_state fresh_look(struct page *page, slice key, struct waiter *waiter);
void fresh_leave(struct page **page, struct waiter *waiter);

/* The asked key was not in its own page, or was: three in a row say this origin's listings are no
 * use. */
void fresh_missing(struct fresh *fresh, const struct place *place, bool missing);

#endif
