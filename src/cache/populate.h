/* populate.h - the body of a PUT fills the cache. SPDX-License-Identifier: Apache-2.0
 *
 * With the setting "cache_writes", the body of a PUT goes to the store after the client has its
 * answer. A HEAD first asks the origin for its current version. If that is the version in the
 * answer to the PUT, and no write came after the PUT (rule H7 in src/README.md), the body is stored
 * like bytes that were fetched. No client waits. */
#ifndef CACHE_POPULATE_H
#define CACHE_POPULATE_H

#include "cache/cache.h"

struct populate_ask {
    const struct rules *rules;
    const struct identity *who;
    slice bucket, key;
    slice etag;                   /* from the origin's answer to the write */
    struct origin_body body;      /* must stay until release() is called, on any thread */
    void (*release)(void *arg);   /* called with body.arg */
};

/* To be called after write_end. Copies all slices, but not the body. The work belongs to the loop,
 * and ends with the loop. */
void populate_start(struct cache_loop *loop, const struct populate_ask *ask);

#endif
