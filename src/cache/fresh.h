/* fresh.h - revalidates expired keys with pages of a listing. SPDX-License-Identifier: Apache-2.0
 *
 * One ListObjectsV2 that starts just before an expired key renews every cached key on its page
 * whose ETag, size and Last-Modified are unchanged: at most 1,000 keys with one call. A listing can
 * only confirm a key. If a key is absent or changed, or the listing is refused, the key gets a
 * HEAD; it is never removed because of a listing. */
#ifndef CACHE_FRESH_H
#define CACHE_FRESH_H

#include "cache/flight.h"

struct asker;
struct fresh;
struct list_page;

struct fresh *fresh_new(struct cache *cache) MUST_USE;
void fresh_free(struct fresh **fresh);

/* Joins a page in progress that may cover this key, or starts one. Returns a reference; the caller
 * then waits with fresh_look. Returns NULL if the caller must ask by HEAD, because this origin,
 * prefix or key can't be listed, or too many fetches are in progress. If own_only, it joins no
 * page, and starts one with the identity of `asker`: for a caller whose joined page did not cover
 * the key. */
struct list_page *fresh_list_page(struct fresh *fresh, const struct rules *rules,
                                  const struct asker *asker, const struct object_name *name,
                                  bool own_only) MUST_USE;

enum list_page_state { PAGE_RUNNING, PAGE_COVERS, PAGE_LACKS, PAGE_MISSES };
/* COVERS: the page is over and lists the key, so the key was renewed, or has changed and needs a
 * HEAD. LACKS: the page goes beyond the key and does not list it. MISSES: the page ended before the
 * key, or failed. RUNNING: the page is not over; the waiter still waits. */
enum list_page_state fresh_look(struct list_page *page, slice key, struct waiter *waiter);
void fresh_leave(struct list_page **page, struct waiter *waiter);

/* Reports the result of a page that covers the place of a key: `missing` if the page does not list
 * the key (PAGE_LACKS). After three missing keys in a row, listings of this origin are not used for
 * 10 minutes. */
void fresh_missing(struct fresh *fresh, const struct rules *rules, bool missing);

#endif
