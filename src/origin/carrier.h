/* carrier.h - the threads that carry exchanges (an exchange is one HTTP request to an origin, with
 * its answer), and the libcurl options that every request has. curl.c, carrier.c and web.c share
 * this file.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef ORIGIN_CARRIER_H
#define ORIGIN_CARRIER_H

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "origin/curl.h"

#define POOL_MAX 64
#define CARRIERS_MAX 64
#define TICK_MS 50                  /* pause between two looks for stuck exchanges */

struct carrier {
    struct carriers *all;
    pthread_t thread;
    struct errands errands;
    CURLM *multi;
    struct list exchanges;
    uint64_t tick_ms;               /* time of the last look for stuck exchanges */
    CURL *pool[POOL_MAX];           /* easy handles for reuse */
    size_t pool_count;
    /* The socket of each local port, stored at the end of an exchange. When a connection is reused,
     * libcurl gives has_ended (curl.c) only the port. */
    int served[UINT16_MAX + 1];
};

struct carriers {
    unsigned count;
    bool for_origins;               /* their connections count in penstock_origin_connections */
    atomic_uint next;
    CURLSH *share;
    pthread_mutex_t share_locks[CURL_LOCK_DATA_LAST];
    struct carrier carriers[CARRIERS_MAX];
};

/* Setting an option can fail for three reasons: libcurl is not the version of the build, there is
 * no memory, or a reused handle was not reset (exchange_drop resets it). */
#define CURL_SET(easy, option, value) check(curl_easy_setopt(easy, option, value) == CURLE_OK)

void curl_init(void);    /* must be called before any other call of libcurl */
/* In curl.c: sets the options that every request has. If `ca_file` is empty, the system's store is
 * used. */
void curl_rules(CURL *easy, const char *ca_file);
/* Returns the fields in libcurl's form; the caller frees the list. */
struct curl_slist *curl_fields(const struct http_field *fields, size_t count) MUST_USE;

/* In curl.c: ends the exchanges that libcurl has finished. The carrier calls this function. The
 * end() of an exchange may start another exchange. */
void exchanges_end_finished(struct carrier *carrier);
void exchanges_end_stuck(struct carrier *carrier, uint64_t now_ms);

#endif
