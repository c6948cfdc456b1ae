/* recent.c - what reads brought, in all and in the last minute. SPDX-License-Identifier: Apache-2.0
 *
 * Counters only rise, so the difference of two looks is what happened between them. A look a second
 * is kept for a minute. */
#include "cli/recent.h"

#include "base/metric.h"

#define MINUTE_MS 60000u

struct gains gains_now(void)
{
    uint64_t hits = metric_read(M_CACHE_HIT) + metric_read(M_CACHE_STALE) +
                    metric_read(M_CACHE_REVALIDATED) + metric_read(M_FILL_ITEMS_HIT);
    uint64_t filled = metric_read(M_FILL_BYTES), here = metric_read(M_FILL_FROM_CACHE);
    return (struct gains){
        .hits = hits,
        .reads = hits + metric_read(M_CACHE_PARTIAL) + metric_read(M_CACHE_MISS) +
                 metric_read(M_FILL_ITEMS_MISS),
        .cache_bytes = metric_read(M_FRONT_FROM_CACHE) + here,
        .origin_bytes = metric_read(M_FRONT_FROM_ORIGIN) + (filled > here ? filled - here : 0),
        .given_bytes = metric_read(M_FRONT_SENT) + filled,
        .fetched_bytes = metric_read(M_ORIGIN_BYTES_IN),
    };
}

void recent_look(struct recent *recent, uint64_t now_ms)
{
    struct gains gains = gains_now();
    pthread_mutex_lock(&recent->lock);
    recent->looks[recent->count++ % RECENT_LOOKS] = (struct look){ now_ms, gains };
    pthread_mutex_unlock(&recent->lock);
}

void recent_init(struct recent *recent, uint64_t now_ms)
{
    pthread_mutex_init(&recent->lock, NULL);
    recent_look(recent, now_ms);
}

/* The latest that is a minute old, else the oldest there is. */
static struct look begin_of(const struct recent *recent, uint64_t now_ms)
{
    struct look look = { .at_ms = now_ms };
    unsigned held = MIN(recent->count, RECENT_LOOKS);
    for (unsigned back = 1; back <= held; back++) {
        look = recent->looks[(recent->count - back) % RECENT_LOOKS];
        if (look.at_ms + MINUTE_MS <= now_ms)
            break;
    }
    return look;
}

struct gains recent_gains(struct recent *recent, uint64_t now_ms, uint64_t *ret_ms)
{
    struct gains now = gains_now();
    pthread_mutex_lock(&recent->lock);
    struct look begin = begin_of(recent, now_ms);
    pthread_mutex_unlock(&recent->lock);
    *ret_ms = now_ms - begin.at_ms;
    return (struct gains){
        .hits = now.hits - begin.gains.hits,
        .reads = now.reads - begin.gains.reads,
        .cache_bytes = now.cache_bytes - begin.gains.cache_bytes,
        .origin_bytes = now.origin_bytes - begin.gains.origin_bytes,
        .given_bytes = now.given_bytes - begin.gains.given_bytes,
        .fetched_bytes = now.fetched_bytes - begin.gains.fetched_bytes,
    };
}
