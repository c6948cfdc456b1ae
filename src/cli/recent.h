/* recent.h - sums of reads and bytes, since the start and in the last minute.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The main thread notes the counters each second (a look). Any thread may ask for the sums. */
#ifndef CLI_RECENT_H
#define CLI_RECENT_H

#include <pthread.h>

#include "base/base.h"

/* Sums since the start, or over some time. A read is a read of an object or a part of it, by S3, in
 * a batch, or by the fill socket. */
enum gain {
    GAIN_HITS,             /* reads whose bytes were all in the cache */
    GAIN_READS,            /* all reads that were answered */
    GAIN_CACHE_BYTES,      /* bytes of these answers that came from the cache, ... */
    GAIN_PEERS_BYTES,      /* ... from other nodes, ... */
    GAIN_ORIGIN_BYTES,     /* ... and from origins */
    GAIN_GIVEN_BYTES,      /* all bytes to clients, by any operation */
    GAIN_FETCHED_BYTES,    /* all bytes from origins */
    GAIN_COUNT
};
struct gains {
    uint64_t of[GAIN_COUNT];
};

#define RECENT_LOOKS 64
struct recent {
    pthread_mutex_t lock;
    struct look {
        uint64_t at_ms;
        struct gains gains;
    } looks[RECENT_LOOKS];
    unsigned count;        /* of all looks so far */
};

/* Makes the first look. */
void recent_init(struct recent *recent, uint64_t now_ms);
void recent_look(struct recent *recent, uint64_t now_ms);
struct gains gains_now(void);
/* Returns the sums of the last minute. If the first look was less than a minute ago, returns the
 * sums since that look. *ret_ms is the length of the time. */
struct gains recent_gains(struct recent *recent, uint64_t now_ms, uint64_t *ret_ms);

#endif
