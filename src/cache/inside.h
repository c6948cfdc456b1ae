/* inside.h - what the files of this room tell each other, and nobody else.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CACHE_INSIDE_H
#define CACHE_INSIDE_H

#include "cache/fetch.h"
#include "s3/error.h"
#include "s3/xml.h"

/* Room for one more fetch (H8), and its end. */
bool cache_fetch_may_begin(struct cache *cache) MUST_USE;
void cache_fetch_ended(struct cache *cache);
bool cache_is_stopping(struct cache *cache);
struct flights *cache_flights(struct cache *cache);
struct fresh *cache_fresh(struct cache *cache);
struct lists *cache_lists(struct cache *cache);
struct parts *cache_parts(struct cache *cache);
struct missing_keys *cache_missing(struct cache *cache);
struct grants *cache_grants(struct cache *cache);
uint64_t cache_began_ms(const struct cache *cache);

/* How far a fill may run ahead of its readers: further, and what is streamed at once would push
 * itself out of the cache before it is read. */
uint64_t cache_ahead_max(struct cache *cache);

void background_end_all(struct cache_loop *loop);    /* background.c */
void populate_end_all(struct cache_loop *loop);      /* populate.c */

/* Does the head name its version, so that another answer can be proved to be of the same? Only a
 * strong ETag does. One that does not is a version of its own, of one fetch and its readers. */
bool learn_is_named(const struct head *head) MUST_USE;

/* Does a Cache-Control say so? */
bool learn_says_no_store(slice control) MUST_USE;

/* Reads the head of a 200 or 206: version, size, which bytes follow. Sets the fetch's head, next,
 * end, skip and admitted. ERR_CHANGED: not the version asked for; ERR_ORIGIN_REPLY: makes no sense.
 * Under the lock. */
enum err learn_answer(struct fetch *fetch, const struct origin_reply *reply) MUST_USE;

/* The origin contradicts what is here of the object: it is gone, or its size was a mistake. What is
 * here goes. Under the lock. */
void deliver_forget(struct fetch *fetch);

/* ---- permit.c: what an answer says of who asked ---- */
/* Does a 2xx to it let who asked have the bytes of this head? A HEAD's does not where they are
 * encrypted by a key that takes a right of its own. */
bool permit_proves(const struct fetch *fetch, const struct head *head);
/* A 2xx to it came, under the lock; fetch->head is known. */
void permit_shown(struct fetch *fetch);
/* It ended in a refusal to who asked (401, 403, or of what was signed in its name). */
void permit_refused(struct fetch *fetch);

#endif
