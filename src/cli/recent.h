/* recent.h - what reads brought, in all and in the last minute. SPDX-License-Identifier: Apache-2.0
 *
 * The main thread looks once a second; any thread asks. */
#ifndef CLI_RECENT_H
#define CLI_RECENT_H

#include <pthread.h>

#include "base/base.h"

/* Counts since the start, or of a time. Reads are objects and parts of them: by S3, in batches, by
 * the fill socket. */
struct gains {
    uint64_t hits, reads;                    /* whose bytes were all here; all that were answered */
    uint64_t cache_bytes, origin_bytes;      /* what they were given, by where it came from */
    uint64_t given_bytes, fetched_bytes;     /* to clients by anything at all; from origins, too */
};

#define RECENT_LOOKS 64
struct recent {
    pthread_mutex_t lock;
    struct look {
        uint64_t at_ms;
        struct gains gains;
    } looks[RECENT_LOOKS];
    unsigned count;                          /* ever made */
};

/* The first look is made here, so it is for the start. */
void recent_init(struct recent *recent, uint64_t now_ms);
void recent_look(struct recent *recent, uint64_t now_ms);
struct gains gains_now(void);
/* Of the last minute, or since the first look if that is less; *ret_ms: how long that was. */
struct gains recent_gains(struct recent *recent, uint64_t now_ms, uint64_t *ret_ms);

#endif
