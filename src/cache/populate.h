/* populate.h - what a write brought fills the cache. SPDX-License-Identifier: Apache-2.0
 *
 * The body of a PUT that the origin has taken is what the next GET will ask for. So behind the
 * answer, where `cache_writes` says so, the origin is asked by a HEAD what it has now: if that is
 * the version it has just said it made, and nothing was written since the PUT ended (H7), the body
 * goes to the store as a fill's would. Nobody waits for it. */
#ifndef CACHE_POPULATE_H
#define CACHE_POPULATE_H

#include "cache/cache.h"

struct populate_ask {
    const struct place *place;
    const struct identity *who;
    slice bucket, key;
    slice etag;                   /* as the origin answered the write */
    struct origin_body body;      /* stays until it is released, on any thread */
    void (*release)(void *arg);   /* of body.arg */
};

/* At the end of the write, when its epoch has risen. Slices but for the body are copied. Belongs to
 * the loop, and ends with it. */
void populate_start(struct cache_loop *loop, const struct populate_ask *ask);

#endif
