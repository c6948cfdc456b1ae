/* s3_call.c - a call of an origin that speaks S3. SPDX-License-Identifier: Apache-2.0
 *
 * A call is an errand, which is work that belongs to one thread (errand.h). Its thread is a
 * carrier: a thread that talks to origins (curl.h). A call is in one of five states until it is
 * done:
 *
 *     NEW -> WAITING (for a connection) -> SENDING -> done
 *               ^                             |
 *               +------- BACKING_OFF <--------+  the try failed and may be repeated
 *               +------- RENEWING <-----------+  own credentials expired or were refused
 *
 * A request whose answer is late may be sent a second time (a hedged request: hedge.h). This second
 * exchange (exchange_pair.h) belongs to the same try, and has a place of its own in the limiter.
 *
 * Only the carrier changes the state, so the callbacks of a call come one at a time. Other threads
 * set a flag and wake the errand. Each try is built and signed again (s3_ask.c). If a try will be
 * repeated, its answer is read and dropped. After a head was given to the caller, nothing is
 * repeated.
 *
 * An answer that may refuse Penstock's own credentials is held back until its whole document is
 * there. A client that got such an answer at once would believe that its own credentials are wrong
 * (s3_keys.c).
 *
 * For a bucket of another region, the origin answers 301, 307 or 400 and names the region. The
 * region is stored for the bucket, and the request is signed again for it. Penstock never connects
 * to the target of a redirect: signed requests go to the endpoint of the settings, or to AWS's own
 * endpoint of the region. */
#include "origin/s3.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/metric.h"

#define SWALLOW_BYTES_MAX (64 * 1024)
#define HELD_BYTES_MAX (16 * 1024)
#define RENEW_MS 11000u             /* longest RENEWING; more than the 10 s limit of STS */
#define RENEW_LOOK_MS 20u
#define HEDGE_LOOK_MS_MAX 10000u
#define SECOND_MS 100u              /* a second exchange has so long after the first has failed */
#define GROW_LOOK_MS 1000u          /* while the limit of connections is low (limiter_grow) */

/* The current try of a call. The carrier writes it when it sends the try, and while the answer
 * comes. */
struct try {
    struct exchange_pair *pair;
    struct arena keep;              /* memory of this try */
    char region[REGION_BYTES_MAX];  /* the region that this try was signed for */
    struct sigv4_credentials with;  /* the credentials of this try, unless the call has `as` */
    unsigned with_version;
    bool again;                     /* the call will be repeated, so this answer is dropped */
    uint64_t again_ms;              /* when it will be repeated; 0: at once */
    struct s3_trial trial;
    uint64_t swallowed;             /* bytes of this answer that were dropped */
    uint64_t retry_after_ms;        /* of the header Retry-After */
};

/* The second exchange of the current try. The carrier writes it while the call is SENDING. */
struct hedging {
    struct limiter_call limited;
    bool inside;                    /* `limited` has a place */
    unsigned delay_ms;              /* 0: the try is not sent a second time */
    unsigned waited_ms;             /* before the second exchange began */
    uint64_t look_ms;               /* when the call looks whether it is */
    /* The first exchange has failed, while the second one was in progress. */
    struct hedging_failure {
        bool present;
        enum err err;
        int status;
        uint64_t until_ms;          /* the second one may take so long */
    } failure;
};

/* The wait for newer own credentials. The carrier writes it when RENEWING begins. */
struct renewal {
    unsigned looks;                 /* provider_looks at that time */
    uint64_t until_ms;              /* end of the wait for the source, at most once in a call; 0: no
                                     * wait yet */
    bool tried_others;              /* newer credentials of the provider were tried, too */
};

/* An answer that may be a refusal, so it is held back. The carrier writes it from the answer's head
 * until the answer is judged. */
struct held {
    bool present;
    struct origin_reply reply;
    struct text body;
};

struct s3_call {
    struct origin_hook hook;
    struct errand errand;
    struct limiter_call limited;
    struct s3 *s3;
    atomic_bool resumed, canceled;
    enum { NEW, WAITING, SENDING, BACKING_OFF, RENEWING } where;
    struct try try;
    struct hedging hedging;
    struct renewal renewal;
    struct held held;
    unsigned tries, free_tries;
    bool region_learnt;
    bool sent;                      /* a request of this call was sent */
    uint64_t deadline_ms, waited_out_ms;    /* UINT64_MAX: no limit */
};

/* ---- the states of a call ---- */

static const struct exchange_pair_events events;

static bool renew(struct s3_call *call);
static void try_again(struct s3_call *call);
static void finish(struct s3_call *call, enum err err);

/* Sets when the call looks at the exchange that it has just started: at the call's deadline, or
 * when the answer is late. */
static void wait_for_answer(struct s3_call *call)
{
    struct hedging *hedging = &call->hedging;
    hedging->look_ms = hedging->delay_ms ? mono_ms() + hedging->delay_ms : UINT64_MAX;
    uint64_t due_ms = hedging->failure.present ? hedging->failure.until_ms : hedging->look_ms;
    errand_due(&call->errand, MIN(call->deadline_ms, due_ms));
}

static void send_try(struct s3_call *call)
{
    check(!call->try.pair && limiter_is_inside(&call->s3->limiter, &call->limited));
    struct exchange_ask ask;
    const struct sigv4_credentials *as = call->hook.call->as;
    struct try *try = &call->try;
    arena_free(&try->keep);
    try->again = call->held.present = false;
    if (!as && provider_take(call->s3->provider, &try->keep, &try->with, &try->with_version)) {
        if (!renew(call))
            finish(call, ERR_NO_KEYS);
        return;
    }
    if (!s3_down_admit(call->s3, call->hook.call, &try->trial)) {
        finish(call, ERR_ORIGIN_DOWN);
        return;
    }
    s3_ask_make(call->s3, &try->keep, call->hook.call, as ? as : &try->with, try->region, &ask);
    call->where = SENDING;
    call->hedging.delay_ms = s3_hedge_delay_ms(call->s3, call->hook.call);
    call->hedging.failure.present = false;
    wait_for_answer(call);
    try->again_ms = try->swallowed = try->retry_after_ms = 0;
    try->pair = exchange_pair_start(&call->errand, &ask, &events, call);
}

static enum err must_stop(const struct s3_call *call)
{
    if (atomic_load(&call->canceled))
        return ERR_CANCELED;
    if (errand_stopping(&call->errand))
        return ERR_STOPPING;
    return mono_ms() >= call->deadline_ms ? ERR_ORIGIN_TIMEOUT : OK;
}

/* Returns OK, or the error that ends the call before its next request is sent. One reason is that
 * the caller no longer wants the request (may_send). */
static enum err must_not_send(const struct s3_call *call)
{
    struct origin_call *asked = call->hook.call;
    enum err stop = must_stop(call);
    if (stop || !asked->may_send)
        return stop;
    return asked->may_send(asked, call->sent || call->tries > 1);
}

/* Tells the breaker the result of the current try. */
static void judge_try(struct s3_call *call, enum err err, int status)
{
    s3_down_judge(call->s3, call->hook.call, &call->try.trial, err, status);
}

/* Gives back the place of the second exchange, which has ended. */
static void leave_second_place(struct s3_call *call)
{
    if (call->hedging.inside)
        limiter_leave(&call->s3->limiter, &call->hedging.limited);
    call->hedging.inside = false;
}

static void finish(struct s3_call *call, enum err err)
{
    if (call->try.pair)
        judge_try(call, ERR_CANCELED, 0);
    exchange_pair_drop(&call->try.pair);
    leave_second_place(call);
    limiter_leave(&call->s3->limiter, &call->limited);
    hook_done(&call->hook, err);
    errand_leave(&call->errand);
    arena_free(&call->try.keep);
    free(call);
}

/* Sets when a call that waits for a connection looks again. */
static void wait_on(struct s3_call *call)
{
    uint64_t due_ms = MIN(call->deadline_ms, call->waited_out_ms), now_ms = mono_ms();
    if (limiter_grow(&call->s3->limiter, now_ms))
        due_ms = MIN(due_ms, now_ms + GROW_LOOK_MS);
    errand_due(&call->errand, due_ms);
}

static void wait_for_connection(struct s3_call *call)
{
    struct s3 *s3 = call->s3;
    if (s3_down_refuses(s3, call->hook.call)) {
        finish(call, ERR_ORIGIN_DOWN);
        return;
    }
    call->where = WAITING;
    call->limited.list_id = atomic_load(&call->hook.call->list_id);
    call->limited.rank = atomic_load(&call->hook.call->rank);
    uint64_t now_ms = mono_ms();
    if (limiter_enter(&s3->limiter, &call->limited)) {
        send_try(call);
        return;
    }
    call->waited_out_ms = s3->timeouts.wait_ms ? now_ms + s3->timeouts.wait_ms : UINT64_MAX;
    wait_on(call);
}

/* Ends a call that has waited too long for a connection. A client that is told to slow down retries
 * later; a client that is left waiting would time out and retry at once. */
static void judge_wait(struct s3_call *call)
{
    if (mono_ms() < call->waited_out_ms) {
        wait_on(call);
        return;
    }
    metric_add(M_ORIGIN_WAITED_OUT, 1);
    finish(call, ERR_SLOW_DOWN);
}

static void begin(struct s3_call *call)
{
    struct s3 *s3 = call->s3;
    if (!s3_fields_are_sendable(call->hook.call)) {
        finish(call, ERR_BAD_REQUEST);
        return;
    }
    pthread_mutex_lock(&s3->lock);
    retry_earn(&s3->budget);
    pthread_mutex_unlock(&s3->lock);
    call->tries = 1;
    wait_for_connection(call);
}

/* Sends the request a second time, if its answer is late and somebody waits for it. */
static void hedge(struct s3_call *call)
{
    struct origin_call *asked = call->hook.call;
    struct hedging *hedging = &call->hedging;
    if (!exchange_pair_may_hedge(call->try.pair)) {
        hedging->delay_ms = 0;
    } else if ((!asked->is_awaited || asked->is_awaited(asked)) &&
               s3_hedge_begins(call->s3, asked, &hedging->limited)) {
        hedging->inside = call->sent = true;
        hedging->waited_ms = hedging->delay_ms;
        hedging->delay_ms = 0;
        exchange_pair_hedge(call->try.pair);
    } else {
        hedging->delay_ms = MIN(2 * hedging->delay_ms, HEDGE_LOOK_MS_MAX);    /* later, perhaps */
    }
    wait_for_answer(call);
}

/* Gives back the second place if only one exchange is in progress, or if another call needs it. */
static void settle_second(struct s3_call *call)
{
    bool two = exchange_pair_settle(call->try.pair);
    if (two && !limiter_stay(&call->s3->limiter, &call->hedging.limited, false)) {
        exchange_pair_end_second(call->try.pair);
        two = false;
    }
    if (!two)
        leave_second_place(call);
}

static bool repeats_first(struct s3_call *call);

/* Called when the call was woken while sending: it was resumed, must give its place to another
 * call, has a late answer, or one of its two exchanges is out. */
static void go_on_or_yield(struct s3_call *call)
{
    if (repeats_first(call))
        return;
    if (mono_ms() >= call->hedging.look_ms)
        hedge(call);
    settle_second(call);
    bool resumed = atomic_exchange(&call->resumed, false);
    if (!limiter_stay(&call->s3->limiter, &call->limited, resumed))
        finish(call, ERR_YIELDED);
    else if (resumed)
        exchange_pair_resume(call->try.pair);
}

/* Waits until the source of Penstock's own credentials was asked again. A call waits for this at
 * most once. If the provider already has newer credentials than this try, the call first tries the
 * newer ones, at most once, because they may be revoked, too. Returns false if the call can't
 * wait. */
static bool renew(struct s3_call *call)
{
    struct provider *provider = call->s3->provider;
    struct origin_call *asked = call->hook.call;
    struct renewal *renewal = &call->renewal;
    bool others = !renewal->tried_others && provider_version(provider) != call->try.with_version;
    if (renewal->until_ms)
        return false;
    renewal->tried_others |= others;
    renewal->until_ms = others ? 0 : mono_ms() + RENEW_MS;
    renewal->looks = provider_looks(provider);
    /* The answer to a HEAD gives no reason. */
    bool guess = call->held.present && !call->held.body.len;
    if (!others && !provider_renew(provider, call->try.with_version, guess))
        return false;
    if (call->sent && asked->may_send && asked->may_send(asked, true))
        return false;
    limiter_leave(&call->s3->limiter, &call->limited);
    call->where = RENEWING;
    errand_due(&call->errand, mono_ms() + RENEW_LOOK_MS);
    return true;
}

static enum err judge_held(struct s3_call *call);

static void renewing(struct s3_call *call)
{
    struct provider *provider = call->s3->provider;
    const struct renewal *renewal = &call->renewal;
    if (provider_version(provider) != call->try.with_version) {
        metric_add(M_ORIGIN_RETRY, call->sent ? 1 : 0);
        wait_for_connection(call);
    } else if (provider_looks(provider) != renewal->looks || mono_ms() >= renewal->until_ms) {
        finish(call, call->held.present ? judge_held(call) : ERR_NO_KEYS);
    } else {
        errand_due(&call->errand, mono_ms() + RENEW_LOOK_MS);
    }
}

static void woken(struct errand *errand)
{
    struct s3_call *call = container_of(errand, struct s3_call, errand);
    enum err stop = call->where == SENDING ? must_stop(call) : must_not_send(call);
    if (stop) {
        finish(call, stop);
        return;
    }
    switch (call->where) {
    case NEW:
        begin(call);
        break;
    case WAITING:
        limiter_move(&call->s3->limiter, &call->limited, atomic_load(&call->hook.call->rank),
                     atomic_load(&call->hook.call->list_id));
        if (limiter_is_inside(&call->s3->limiter, &call->limited))
            send_try(call);
        else if (s3_down_refuses(call->s3, call->hook.call))
            finish(call, ERR_ORIGIN_DOWN);
        else
            judge_wait(call);
        break;
    case SENDING:
        go_on_or_yield(call);
        break;
    case RENEWING:
        renewing(call);
        break;
    case BACKING_OFF:
        if (mono_ms() >= call->try.again_ms)
            wait_for_connection(call);
        break;
    }
}

static bool may_spend(struct s3 *s3)
{
    pthread_mutex_lock(&s3->lock);
    bool may = retry_spend(&s3->budget);
    pthread_mutex_unlock(&s3->lock);
    if (!may)
        metric_add(M_ORIGIN_RETRY_DENIED, 1);
    return may;
}

static uint64_t chance(const struct s3_call *call)
{
    uint64_t x = mono_ns() ^ (uint64_t)(uintptr_t)call;    /* mixed as splitmix64 does */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Returns true if the call must be repeated, at call->try.again_ms (0: at once). */
static bool decide_again(struct s3_call *call, enum err err, int status,
                         const struct exchange_end *end)
{
    struct origin_call *asked = call->hook.call;
    struct try *try = &call->try;
    struct retry_case what = {
        .err = err, .status = status,
        .sent = !end || end->sent, .reused = end && end->reused,
        .no_retry = asked->no_retry || call->hook.headed,
        .effect = s3_effect(asked),
        .tries = call->tries - call->free_tries, .tries_max = call->s3->tries_max,
        .free_tries = call->free_tries,
    };
    enum retry retry = retry_judge(&what);
    if (retry == RETRY_NO || (asked->may_send && asked->may_send(asked, true)))
        return false;
    if (retry == RETRY_FREE)
        call->free_tries++;
    if (retry == RETRY_PAID && (try->retry_after_ms > RETRY_AFTER_MS_MAX ||
                                s3_down_refuses(call->s3, asked) || !may_spend(call->s3)))
        return false;
    if (retry == RETRY_PAID)
        try->again_ms =
            mono_ms() + retry_delay_ms(call->tries, chance(call), try->retry_after_ms);
    call->tries++;
    metric_add(M_ORIGIN_RETRY, 1);
    return true;
}

/* The first exchange failed in a way that the call is repeated for, and the second one has not
 * answered soon after that. Returns true if the call is repeated now. */
static bool repeats_first(struct s3_call *call)
{
    const struct hedging_failure *failure = &call->hedging.failure;
    if (!failure->present || mono_ms() < failure->until_ms)
        return false;
    call->hedging.failure.present = false;
    if (call->hook.headed || !decide_again(call, failure->err, failure->status, NULL))
        return false;
    exchange_pair_drop(&call->try.pair);
    leave_second_place(call);
    try_again(call);
    return true;
}

static void try_again(struct s3_call *call)
{
    if (!call->try.again_ms) {
        send_try(call);    /* the call keeps its place in the limiter */
        return;
    }
    limiter_leave(&call->s3->limiter, &call->limited);
    call->where = BACKING_OFF;
    errand_due(&call->errand, MIN(call->try.again_ms, call->deadline_ms));
}

/* ---- the answer ---- */

static struct s3_call *sending(void *arg)
{
    struct s3_call *call = arg;
    check(call->hook.magic == HOOK_MAGIC && call->where == SENDING && call->try.pair);
    return call;
}

static bool tells_region(struct s3_call *call, const struct origin_reply *reply)
{
    slice region = origin_reply_get(reply, S("x-amz-bucket-region"));
    if (!region.len)
        region = origin_reply_get(reply, S("x-amz-region"));    /* AuthorizationHeaderMalformed */
    if (reply->status != 301 && reply->status != 307 && reply->status != 400)
        return false;
    if (call->region_learnt || !region_valid(region) ||
        slice_eq(region, slice_of(call->try.region)))
        return false;
    region_learn(&call->s3->regions, call->hook.call->bucket, region);
    return call->region_learnt = true;
}

static bool on_ready(void *arg)
{
    struct s3_call *call = sending(arg);
    if (must_not_send(call))
        return false;
    call->sent = true;
    return true;
}

static void hold(struct s3_call *call, const struct origin_reply *reply)
{
    struct held *held = &call->held;
    check(!held->present && !call->hook.headed);
    held->reply = *reply;
    held->reply.fields = http_fields_copy(&call->try.keep, reply->fields, reply->field_count);
    held->body = text_in(&call->try.keep);
    held->present = true;
}

/* Gives a held answer to the caller, because it is no refusal of credentials. */
static void let_go(struct s3_call *call)
{
    struct held *held = &call->held;
    slice body = text_slice(&held->body);
    check(held->present);
    held->present = false;
    hook_head(&call->hook, &held->reply);
    if (body.len && !atomic_load(&call->canceled))
        hook_body(&call->hook, body);
}

/* Of two answers, the longer time counts. */
static void note_retry_after(struct s3_call *call, const struct origin_reply *reply)
{
    uint64_t after_ms = retry_after_ms(origin_reply_get(reply, S("retry-after")), wall_s());
    call->try.retry_after_ms = MAX(call->try.retry_after_ms, after_ms);
}

/* If both exchanges have failed, the call is repeated if the first failure is one that it is
 * repeated for. `status` is that of the second, or 0. */
static bool decide_by_first(struct s3_call *call, int status)
{
    const struct hedging_failure *failure = &call->hedging.failure;
    return failure->present && (!status || status >= 300) && status != 304 &&
           decide_again(call, failure->err, failure->status, NULL);
}

static enum exchange_take on_head(void *arg, const struct origin_reply *got)
{
    struct s3_call *call = sending(arg);
    struct origin_reply reply = *got;
    note_retry_after(call, got);
    judge_try(call, OK, got->status);
    s3_hedge_note(call->s3, call->hook.call, got);
    if (must_stop(call))
        return EXCHANGE_END;
    if (tells_region(call, got) || decide_by_first(call, got->status) ||
        decide_again(call, OK, got->status, NULL)) {
        call->try.again = true;
        return EXCHANGE_TAKEN;
    }
    reply.tries = call->tries;
    if (s3_keys_in_doubt(reply.status)) {
        hold(call, &reply);
        return EXCHANGE_TAKEN;
    }
    if (reply.status < 500 && !call->hook.call->as)
        s3_keys_taken(call->s3);
    hook_head(&call->hook, &reply);
    return atomic_load(&call->canceled) ? EXCHANGE_END : EXCHANGE_TAKEN;
}

static enum exchange_take on_body(void *arg, slice bytes)
{
    struct s3_call *call = sending(arg);
    if (call->try.again) {    /* a short answer is read to its end to reuse the connection */
        call->try.swallowed += bytes.len;
        return call->try.swallowed > SWALLOW_BYTES_MAX ? EXCHANGE_END : EXCHANGE_TAKEN;
    }
    if (must_stop(call))
        return EXCHANGE_END;
    if (call->held.present && call->held.body.len + bytes.len <= HELD_BYTES_MAX) {
        text_add(&call->held.body, bytes);
        return EXCHANGE_TAKEN;
    }
    if (call->held.present)    /* the answer is longer than any document that refuses credentials */
        let_go(call);
    if (atomic_load(&call->canceled))
        return EXCHANGE_END;
    /* If the exchange waits for bytes of the request body, the resume may be for these. */
    if (!exchange_pair_sends_later(call->try.pair))
        atomic_store(&call->resumed, false);
    enum origin_take take = hook_body(&call->hook, bytes);
    if (atomic_load(&call->canceled))
        return EXCHANGE_END;
    if (take == ORIGIN_SPARE)
        limiter_spare(&call->s3->limiter, &call->limited);    /* may wake this call, so that it ends
                                                            * with ERR_YIELDED */
    return take == ORIGIN_TAKEN ? EXCHANGE_TAKEN : EXCHANGE_PAUSE;
}

/* Judges a held answer after its whole document has come. */
static enum err judge_held(struct s3_call *call)
{
    const struct origin_call *asked = call->hook.call;
    slice document = text_slice(&call->held.body);
    int status = call->held.reply.status;
    check(call->held.present && s3_keys_in_doubt(status));
    bool refused = asked->as ? s3_signing_refused(call->s3, asked, status, document)
                             : s3_keys_refused(call->s3, asked->op, status, document);
    bool old = !asked->as && (refused || s3_keys_may_be_old(status, document));
    if (old && provider_is_past(call->s3->provider, call->try.with_version))
        return ERR_NO_KEYS;    /* expired, not revoked: newer credentials will be accepted */
    if (refused)
        return ERR_ORIGIN_KEYS;
    let_go(call);
    return must_stop(call) == ERR_CANCELED ? ERR_CANCELED : OK;
}

static bool may_be_renewed(const struct s3_call *call)
{
    const struct held *held = &call->held;
    return !call->hook.call->as &&
           s3_keys_may_be_old(held->reply.status, text_slice(&held->body));
}

static void on_end(void *arg, const struct exchange_end *end)
{
    struct s3_call *call = sending(arg);
    call->try.pair = NULL;
    leave_second_place(call);
    judge_try(call, end->reused ? ERR_CANCELED : end->err, 0);
    bool unsent = call->try.again || end->err == ERR_CANCELED;
    enum err stop = unsent ? must_not_send(call) : must_stop(call);
    if (stop && (end->err || call->try.again)) {
        finish(call, stop);
    } else if (call->try.again || (end->err && (decide_by_first(call, 0) ||
                                                decide_again(call, end->err, 0, end)))) {
        try_again(call);
    } else if (!end->err && call->held.present) {
        if (!may_be_renewed(call) || !renew(call))
            finish(call, judge_held(call));
    } else {
        if (end->err)
            s3_failure_log(call->s3, call->hook.call->op, call->tries, end);
        char why[400];
        snprintf(why, sizeof(why), "%s%s", end->why, s3_failure_advice(end));
        call->hook.why = why;    /* finish() reads it before this function returns */
        finish(call, end->err);
    }
}

static bool on_wins(void *arg, bool is_second, int status)
{
    return s3_hedge_wins(is_second, status);
}

/* Tells the breaker the result of one exchange of two. The other one has a result of its own, so
 * the trial of this try is not judged by this one. An error of the second exchange is no news for
 * the breaker, which counts calls. */
static void on_out(void *arg, bool is_second, enum err err, const struct origin_reply *reply)
{
    struct s3_call *call = sending(arg);
    struct s3_trial trial = call->try.trial;
    int status = reply ? reply->status : 0;
    if (reply)
        note_retry_after(call, reply);
    if (!is_second || reply)
        s3_down_judge(call->s3, call->hook.call, &trial, err, status);
    if (is_second || call->hook.headed)
        return;
    call->hedging.failure = (struct hedging_failure){
        .present = true, .err = err, .status = status,
        .until_ms = mono_ms() + MAX(call->hedging.waited_ms, SECOND_MS) };
    errand_due(&call->errand, MIN(call->deadline_ms, call->hedging.failure.until_ms));
}

static void on_second_won(void *arg)
{
    struct s3_call *call = sending(arg);
    s3_hedge_won(call->s3, call->hook.call);
}

static const struct exchange_pair_events events = {
    { on_ready, on_head, on_body, on_end }, on_wins, on_out, on_second_won
};

/* ---- the functions of the kind ---- */

void s3_call_start(struct origin *origin, struct origin_call *asked)
{
    struct s3 *s3 = container_of(origin, struct s3, origin);
    struct s3_call *call = must_alloc(sizeof(*call));
    call->s3 = s3;
    call->errand.woken = woken;
    call->limited.errand = call->hedging.limited.errand = &call->errand;
    unsigned total_ms = s3->timeouts.total_ms;
    call->deadline_ms = total_ms ? mono_ms() + total_ms : UINT64_MAX;
    hook_on(&call->hook, origin, asked);
    errand_enter(carriers_next(s3->carriers), &call->errand);
}

void s3_call_resume(struct origin_hook *hook)
{
    struct s3_call *call = container_of(hook, struct s3_call, hook);
    atomic_store(&call->resumed, true);
    errand_wake(&call->errand);
}

void s3_call_cancel(struct origin_hook *hook)
{
    struct s3_call *call = container_of(hook, struct s3_call, hook);
    atomic_store(&call->canceled, true);
    errand_wake(&call->errand);
}

void s3_call_ask_again(struct origin_hook *hook)
{
    errand_wake(&container_of(hook, struct s3_call, hook)->errand);
}
