/* fresh.h - expired keys, revalidated a listing page at a time. SPDX-License-Identifier: Apache-2.0
 *
 * One ListObjectsV2 from just before an expired key renews every cached neighbour whose ETag, size
 * and Last-Modified are unchanged: at most 1,000 with one trip. A listing only confirms: a key that
 * is absent, changed or refused gets a HEAD, never a removal. */
#ifndef CACHE_FRESH_H
#define CACHE_FRESH_H

#include "cache/flight.h"

struct fresh;
struct list_page;

struct fresh *fresh_new(struct cache *cache) MUST_USE;
void fresh_free(struct fresh **fresh);

/* Joins a running page that may cover this key, or starts one. NULL: ask by HEAD, because this
 * origin, prefix or key can't be listed, or too many fetches are in progress. own_only: a joined
 * page did not cover the key; starts one in the name of `who`. The reference is the caller's, which
 * waits by fresh_look. */
struct list_page *fresh_list_page(struct fresh *fresh, const struct rules *rules,
                                  const struct identity *who, const struct object_name *name,
                                  bool own_only) MUST_USE;

enum list_page_state { PAGE_RUNNING, PAGE_COVERS, PAGE_LACKS, PAGE_MISSES };
/* COVERS: the page is over and lists the key, so the key was renewed, or has changed and needs a
 * HEAD. LACKS: the page passes the key and does not list it. MISSES: the page ended before the key,
 * or failed. RUNNING: the waiter goes on waiting. */
enum list_page_state fresh_look(struct list_page *page, slice key, struct waiter *waiter);
void fresh_leave(struct list_page **page, struct waiter *waiter);

/* Tells whether the key was missing in its own page. After three in a row, listings of this origin
 * are no longer used. */
void fresh_missing(struct fresh *fresh, const struct rules *rules, bool missing);

#endif
