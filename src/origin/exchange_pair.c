/* exchange_pair.c - an HTTP exchange that may be sent twice. SPDX-License-Identifier: Apache-2.0
 *
 * Each of the two exchanges has a side. A side is out when its exchange has failed, or when the
 * other side has won; no callback of the owner is called for it any more. There is always a side
 * that is not out, and the pair ends with its exchange. */
#include "origin/exchange_pair.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/metric.h"

struct side {
    struct exchange_pair *pair;
    struct exchange *exchange;      /* NULL before it starts, and after it has ended */
    bool out;
};

#define PAIR_MAGIC 0x70616972u
struct exchange_pair {
    unsigned magic;
    struct errand *errand;
    struct exchange_ask ask;
    const struct exchange_pair_events *events;
    void *arg;
    struct side first, second;
    bool hedged, headed;            /* hedged: the second exchange was started */
    uint64_t started_ns;
};

static bool runs(const struct side *side)
{
    return side->exchange && !side->out;
}

static struct side *other_of(struct side *side)
{
    struct exchange_pair *pair = side->pair;
    check(pair->magic == PAIR_MAGIC);
    return side == &pair->first ? &pair->second : &pair->first;
}

/* Returns the exchange of the answer, or the first one that is in progress. */
static struct exchange *current(const struct exchange_pair *pair)
{
    return runs(&pair->first) ? pair->first.exchange : pair->second.exchange;
}

/* ---- callbacks of an exchange ---- */

static bool on_ready(void *arg)
{
    struct side *side = arg;
    struct exchange_pair *pair = side->pair;
    check(pair->magic == PAIR_MAGIC);
    if (side == &pair->second)
        return !side->out;
    return !side->out && pair->events->one.ready(pair->arg);
}

static void put_out(struct side *side)
{
    side->out = true;
    errand_wake(side->pair->errand);
}

static enum exchange_take on_head(void *arg, const struct origin_reply *got)
{
    struct side *side = arg, *other = other_of(side);
    struct exchange_pair *pair = side->pair;
    bool is_second = side == &pair->second;
    struct origin_reply reply = *got;
    if (side->out)
        return EXCHANGE_END;
    bool wins = pair->events->wins(pair->arg, is_second, got->status);
    if (runs(other) && !wins) {
        put_out(side);
        pair->events->out(pair->arg, is_second, OK, got);
        return EXCHANGE_END;
    }
    if (runs(other))
        put_out(other);
    pair->headed = true;
    metric_add(M_ORIGIN_HEDGES_WON, is_second && wins);
    if (is_second && wins)
        pair->events->second_won(pair->arg);
    if (is_second)
        reply.first_byte_ns = mono_ns() - pair->started_ns;
    return pair->events->one.head(pair->arg, &reply);
}

static enum exchange_take on_body(void *arg, slice bytes)
{
    struct side *side = arg;
    check(side->pair->magic == PAIR_MAGIC);
    return side->out ? EXCHANGE_END : side->pair->events->one.body(side->pair->arg, bytes);
}

static void on_end(void *arg, const struct exchange_end *end)
{
    struct side *side = arg, *other = other_of(side);
    struct exchange_pair *pair = side->pair;
    const struct exchange_pair_events *events = pair->events;
    side->exchange = NULL;
    if (runs(other)) {
        bool fails = !side->out;
        put_out(side);
        /* A reused connection that was dead is no failure of the origin. */
        if (fails)
            events->out(pair->arg, side == &pair->second, end->reused ? ERR_CANCELED : end->err,
                        NULL);
    } else if (!side->out) {
        void *owner = pair->arg;
        exchange_pair_drop(&pair);
        events->one.end(owner, end);
    }
}

static const struct exchange_events side_events = { on_ready, on_head, on_body, on_end };

/* ---- pairs ---- */

static void start(struct side *side)
{
    struct exchange_pair *pair = side->pair;
    side->exchange = exchange_start(pair->errand, &pair->ask, &side_events, side);
}

struct exchange_pair *exchange_pair_start(struct errand *errand, const struct exchange_ask *ask,
                                          const struct exchange_pair_events *events, void *arg)
{
    struct exchange_pair *pair = must_alloc(sizeof(*pair));
    check(events->wins && events->out);
    *pair = (struct exchange_pair){
        .magic = PAIR_MAGIC, .errand = errand, .ask = *ask, .events = events, .arg = arg,
        .first = { .pair = pair }, .second = { .pair = pair }, .started_ns = mono_ns(),
    };
    start(&pair->first);
    return pair;
}

bool exchange_pair_may_hedge(const struct exchange_pair *pair)
{
    return !pair->hedged && !pair->headed;
}

void exchange_pair_hedge(struct exchange_pair *pair)
{
    check(exchange_pair_may_hedge(pair) && runs(&pair->first) && !pair->ask.body);
    pair->hedged = pair->ask.once = true;
    metric_add(M_ORIGIN_HEDGES, 1);
    start(&pair->second);
}

void exchange_pair_end_second(struct exchange_pair *pair)
{
    check(pair->magic == PAIR_MAGIC && runs(&pair->first) && runs(&pair->second));
    pair->second.out = true;
    exchange_drop(&pair->second.exchange);
}

bool exchange_pair_settle(struct exchange_pair *pair)
{
    check(pair->magic == PAIR_MAGIC);
    if (pair->first.out)
        exchange_drop(&pair->first.exchange);
    if (pair->second.out)
        exchange_drop(&pair->second.exchange);
    return pair->first.exchange && pair->second.exchange;
}

void exchange_pair_resume(struct exchange_pair *pair)
{
    exchange_resume(current(pair));
}

bool exchange_pair_sends_later(const struct exchange_pair *pair)
{
    return exchange_sends_later(current(pair));
}

void exchange_pair_drop(struct exchange_pair **pair)
{
    if (!*pair)
        return;
    check((*pair)->magic == PAIR_MAGIC);
    exchange_drop(&(*pair)->first.exchange);
    exchange_drop(&(*pair)->second.exchange);
    (*pair)->magic = 0;
    free(*pair);
    *pair = NULL;
}
