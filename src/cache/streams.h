/* streams.h - clients that read one object from front to back, a range at a time.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Model streamers and file systems on S3 ask for 8 MiB after 8 MiB. Each such request waits for the
 * origin's first byte, and has one connection. So the cache remembers for a while where reads of
 * objects have ended. A read that begins where one has ended belongs to the same stream, over
 * whichever connection it comes, and the window of its plan (window.h) goes on beyond its end. */
#ifndef CACHE_STREAMS_H
#define CACHE_STREAMS_H

#include "cache/cache.h"

struct plan;
struct streams;

struct streams *streams_new(void) MUST_USE;
void streams_free(struct streams **streams);

/* To be called when the plan knows its range. If it goes on with a stream, its window begins to
 * fetch the bytes behind the range. On the loop of the plan, without a lock. */
void streams_begin(struct streams *streams, struct plan *plan);
/* To be called before the plan leaves what it reads from. If the plan has handed out its whole
 * range, remembers where it ended, and lets its fetches go on to their ends. Under the lock of
 * the object. */
void streams_end(struct streams *streams, struct plan *plan);

#endif
