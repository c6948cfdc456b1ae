/* hedge.c - decides when a request to an origin is sent a second time.
 * SPDX-License-Identifier: Apache-2.0 */
#include "origin/hedge.h"

static unsigned bucket_of(uint64_t us)
{
    uint64_t doubled = us / HEDGE_LEAST_US;
    if (!doubled)
        return 0;
    unsigned power = 63u - (unsigned)__builtin_clzll(doubled);
    uint64_t base = (uint64_t)HEDGE_LEAST_US << power;    /* base <= us < 2 * base */
    uint64_t bucket = power * HEDGE_STEPS + (us - base) * HEDGE_STEPS / base;
    return (unsigned)MIN(bucket, (uint64_t)HEDGE_BUCKETS - 1);
}

/* Returns the upper end of a bucket. */
static uint64_t end_us(unsigned bucket)
{
    uint64_t base = (uint64_t)HEDGE_LEAST_US << (bucket / HEDGE_STEPS);
    return base + base * (bucket % HEDGE_STEPS + 1) / HEDGE_STEPS;
}

static void halve(struct hedge *hedge, uint64_t now_ms)
{
    uint64_t times = now_ms > hedge->halved_ms ? (now_ms - hedge->halved_ms) / HEDGE_HALF_MS : 0;
    if (!times)
        return;
    hedge->halved_ms += times * HEDGE_HALF_MS;
    hedge->begun = times < 32 ? hedge->begun >> times : 0;
    hedge->won = times < 32 ? hedge->won >> times : 0;
    hedge->samples = 0;
    for (unsigned i = 0; i < HEDGE_BUCKETS; i++) {
        hedge->counts[i] = times < 32 ? hedge->counts[i] >> times : 0;
        hedge->samples += hedge->counts[i];
    }
}

void hedge_note(struct hedge *hedge, uint64_t first_byte_us, uint64_t now_ms)
{
    halve(hedge, now_ms);
    hedge->counts[bucket_of(first_byte_us)]++;
    hedge->samples++;
    bool pays = hedge->begun < HEDGE_JUDGED || hedge->won >= hedge->begun / 4;
    hedge->milli = MIN(hedge->milli + (pays ? HEDGE_EARN_MILLI : HEDGE_EARN_MILLI / 10),
                       HEDGE_BUDGET_MAX * 1000u);
}

/* Returns a time that at least so many per cent of the samples do not exceed. */
static uint64_t percentile_us(const struct hedge *hedge, unsigned percent)
{
    uint64_t below = 0, want = (uint64_t)hedge->samples * percent;
    unsigned bucket = 0;
    while ((below += hedge->counts[bucket]) * 100 < want)
        bucket++;
    return end_us(bucket);
}

unsigned hedge_delay_ms(struct hedge *hedge, uint64_t now_ms)
{
    halve(hedge, now_ms);
    if (hedge->off || hedge->samples < HEDGE_SAMPLES)
        return 0;
    uint64_t us = MAX(percentile_us(hedge, 95), 2 * percentile_us(hedge, 50));
    return MAX((unsigned)((us + 999) / 1000), HEDGE_FLOOR_MS);
}

bool hedge_spend(struct hedge *hedge)
{
    if (hedge->milli < 1000)
        return false;
    hedge->milli -= 1000;
    hedge->begun++;
    return true;
}

void hedge_won(struct hedge *hedge)
{
    hedge->won++;
}
