/* s3_hedge.c - hedged requests to an S3 origin. SPDX-License-Identifier: Apache-2.0
 *
 * hedge.c decides when a request is sent a second time; this file gives it the time and the times
 * of answers. Only reads of objects are hedged: a second one has no effect, and they are what
 * clients wait for. While the origin is down or overloaded, nothing is hedged, because its trouble
 * is not one slow server. A hedge uses a connection that no call waits for, and
 * gives it up when a call waits. The code runs on
 * carriers, the threads that talk to origins. */
#include "base/clock.h"
#include "origin/s3.h"

static bool may_be_hedged(const struct origin_call *asked)
{
    bool reads = asked->op == S3_GET_OBJECT || asked->op == S3_HEAD_OBJECT;
    return reads && !asked->body && !asked->no_retry && s3_effect(asked) == EFFECT_NONE;
}

static struct hedge *hedge_of(struct s3 *s3, const struct origin_call *asked)
{
    return &s3->hedges[asked->op == S3_HEAD_OBJECT];
}

unsigned s3_hedge_delay_ms(struct s3 *s3, const struct origin_call *asked)
{
    if (!may_be_hedged(asked))
        return 0;
    pthread_mutex_lock(&s3->lock);
    unsigned delay_ms = hedge_delay_ms(hedge_of(s3, asked), mono_ms());
    pthread_mutex_unlock(&s3->lock);
    return delay_ms;
}

bool s3_hedge_begins(struct s3 *s3, const struct origin_call *asked, struct limiter_call *call)
{
    if (!limiter_enter_free(&s3->limiter, call))
        return false;
    pthread_mutex_lock(&s3->lock);
    bool begins = !s3->breaker.open && hedge_spend(hedge_of(s3, asked));
    pthread_mutex_unlock(&s3->lock);
    if (begins)
        limiter_spare(&s3->limiter, call);
    else
        limiter_leave(&s3->limiter, call);
    return begins;
}

void s3_hedge_note(struct s3 *s3, const struct origin_call *asked,
                   const struct origin_reply *reply)
{
    if (!may_be_hedged(asked) || reply->status >= 500 || reply->status == 429)
        return;
    pthread_mutex_lock(&s3->lock);
    hedge_note(hedge_of(s3, asked), reply->first_byte_ns / 1000, mono_ms());
    pthread_mutex_unlock(&s3->lock);
}

void s3_hedge_won(struct s3 *s3, const struct origin_call *asked)
{
    pthread_mutex_lock(&s3->lock);
    hedge_won(hedge_of(s3, asked));
    pthread_mutex_unlock(&s3->lock);
}

/* A second answer that is no good one might come from a server that lacks the object. */
bool s3_hedge_wins(bool is_second, int status)
{
    bool fails = status >= 500 || status == 429, good = status < 300 || status == 304;
    return is_second ? good : !fails;
}
