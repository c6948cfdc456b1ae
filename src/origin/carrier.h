/* carrier.h - the threads that carry exchanges: what curl.c and carrier.c share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef ORIGIN_CARRIER_H
#define ORIGIN_CARRIER_H

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "origin/curl.h"

#define POOL_MAX 64
#define CARRIERS_MAX 64
#define TICK_MS 50                  /* the carrier looks for stuck exchanges this often */

struct carrier {
    struct carriers *all;
    pthread_t thread;
    struct errands errands;
    CURLM *multi;
    struct list exchanges;
    uint64_t tick_ms;               /* the last look for stuck exchanges */
    CURL *pool[POOL_MAX];           /* easy handles for reuse */
    size_t pool_count;
    int served[UINT16_MAX + 1];     /* sockets of connections that have served, by local port */
};

struct carriers {
    unsigned count;
    atomic_uint next;
    CURLSH *share;
    pthread_mutex_t share_locks[CURL_LOCK_DATA_LAST];
    struct carrier carriers[CARRIERS_MAX];
};

/* In curl.c; call them on the carrier. Ending an exchange may start others. */
void exchanges_end_finished(struct carrier *carrier);
void exchanges_end_stuck(struct carrier *carrier, uint64_t now_ms);

#endif
