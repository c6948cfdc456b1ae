/* recent.c - sums of reads and bytes, since the start and in the last minute.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Counters only rise. So the sum over a period is the counter at the end of the period, less the
 * counter at its start. The counters are noted each second; each note (a look) is kept for a minute. */
#include "cli/recent.h"

#include <assert.h>

#include "base/metric.h"

#define MINUTE_MS 60000u
static_assert(RECENT_LOOKS > MINUTE_MS / 1000, "there is room for one look a second, for a minute");

struct gains gains_now(void)
{
    uint64_t hits = metric_read(M_CACHE_HIT) + metric_read(M_CACHE_STALE) +
                    metric_read(M_CACHE_STALE_IF_ERROR) +
                    metric_read(M_CACHE_REVALIDATED) + metric_read(M_FILL_ITEMS_HIT);
    uint64_t filled = metric_read(M_FILL_BYTES), here = metric_read(M_FILL_FROM_CACHE);
    uint64_t peers = metric_read(M_FILL_FROM_PEERS);
    return (struct gains){ {
        [GAIN_HITS] = hits,
        [GAIN_READS] = hits + metric_read(M_CACHE_PARTIAL) + metric_read(M_CACHE_MISS) +
                       metric_read(M_FILL_ITEMS_MISS),
        [GAIN_CACHE_BYTES] = metric_read(M_FRONT_FROM_CACHE) + here,
        [GAIN_PEERS_BYTES] = metric_read(M_FRONT_FROM_PEERS) + peers,
        [GAIN_ORIGIN_BYTES] = metric_read(M_FRONT_FROM_ORIGIN) + filled - MIN(filled, here + peers),
        [GAIN_GIVEN_BYTES] = metric_read(M_FRONT_SENT) + filled,
        [GAIN_FETCHED_BYTES] = metric_read(M_ORIGIN_BYTES_IN),
    } };
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

/* Returns the newest look that is at least a minute old, or the oldest look if there is none. */
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
    struct gains gains = gains_now();
    pthread_mutex_lock(&recent->lock);
    struct look begin = begin_of(recent, now_ms);
    pthread_mutex_unlock(&recent->lock);
    check(begin.at_ms <= now_ms);
    *ret_ms = now_ms - begin.at_ms;
    for (size_t i = 0; i < GAIN_COUNT; i++)
        gains.of[i] -= begin.gains.of[i];
    return gains;
}
