/* retry.c - whether and when a try is repeated. SPDX-License-Identifier: Apache-2.0
 *
 * Three sorts of requests may be repeated: a request that was not sent completely, a request that
 * the origin refused without reading it (429, 503), and a request that changes nothing. A write
 * that may happen twice (EFFECT_WRITES) is also repeated if the origin says that it failed (500).
 * After silence, an early end of the connection, or a gateway that gave up (502, 504), a write is
 * not repeated, because it may have happened or may still happen. If a reused connection fails at
 * once, the most likely cause is the origin's idle timeout. So if the request may be repeated, the
 * first such repetition of a call is free. */
#include "origin/retry.h"

#include "s3/encode.h"

#define EARN_MILLI 100
#define FIRST_MS 100
#define MOST_MS 5000

void retry_budget_init(struct retry_budget *budget)
{
    budget->milli = RETRY_BUDGET_MAX * 1000;
}

void retry_earn(struct retry_budget *budget)
{
    budget->milli = MIN(budget->milli + EARN_MILLI, RETRY_BUDGET_MAX * 1000u);
}

bool retry_spend(struct retry_budget *budget)
{
    if (budget->milli < 1000)
        return false;
    budget->milli -= 1000;
    return true;
}

static bool is_passing(const struct retry_case *what, bool *ret_refused_unread)
{
    *ret_refused_unread = false;
    switch (what->err) {
    case OK:
        *ret_refused_unread = what->status == 503 || what->status == 429;
        return *ret_refused_unread || what->status == 500 || what->status == 502 ||
               what->status == 504;
    case ERR_ORIGIN_CONNECT: case ERR_ORIGIN_CUT:
        *ret_refused_unread = !what->sent;
        return true;
    case ERR_ORIGIN_TIMEOUT:    /* one of many servers may hang, so one more try may help */
        *ret_refused_unread = !what->sent;
        return what->tries < 2;
    default:
        return false;
    }
}

static bool may_repeat(const struct retry_case *what)
{
    if (what->effect == EFFECT_WRITES)
        return !what->err && what->status == 500;
    return what->effect == EFFECT_NONE;
}

enum retry retry_judge(const struct retry_case *what)
{
    bool refused_unread;
    check(what->tries > 0 && what->tries_max > 0);
    if (what->no_retry || !is_passing(what, &refused_unread))
        return RETRY_NO;
    if (!refused_unread && !may_repeat(what))
        return RETRY_NO;
    if (what->err && what->reused && what->free_tries == 0)
        return RETRY_FREE;
    return what->tries < what->tries_max ? RETRY_PAID : RETRY_NO;
}

uint64_t retry_delay_ms(unsigned tries, uint64_t chance, uint64_t after_ms)
{
    uint64_t most = MIN((uint64_t)FIRST_MS << MIN(tries ? tries - 1 : 0, 20u), (uint64_t)MOST_MS);
    return after_ms + chance % (most + 1);
}

uint64_t retry_after_ms(slice value, int64_t now_s)
{
    uint64_t seconds;
    value = slice_trim(value);
    if (slice_u64(value, &seconds))
        return MIN(seconds, (uint64_t)86400) * 1000;
    int64_t at = value.len ? http_date_read(value) : -1;
    return at > now_s ? (uint64_t)MIN(at - now_s, (int64_t)86400) * 1000 : 0;
}
