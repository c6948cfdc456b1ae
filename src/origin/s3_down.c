/* s3_down.c - the breaker of an S3 origin, and its SlowDown. SPDX-License-Identifier: Apache-2.0
 *
 * breaker.c decides; this file gives it the names of calls and the time, and logs and counts its
 * changes. When the breaker opens, the calls that wait for a connection are woken, so that they
 * fail at once, too.
 *
 * A 503 or 429 also makes the limit of connections lower (aimd.h). The limit is for the whole
 * origin, although AWS counts the requests for each prefix: nobody knows the borders of its
 * prefixes. When the breaker closes, the limit is restored: the 503s were an outage, not too many
 * requests. The code runs on carriers, the threads that talk to origins. */
#include <stdio.h>

#include "base/clock.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/metric.h"
#include "origin/s3.h"

bool s3_down_refuses(struct s3 *s3, const struct origin_call *asked)
{
    struct breaker_name name;
    breaker_name(&name, asked->bucket, asked->key);
    pthread_mutex_lock(&s3->lock);
    bool refuses = breaker_refuses(&s3->breaker, &name, mono_ms());
    pthread_mutex_unlock(&s3->lock);
    return refuses && guard_on(GUARD_BREAKER);
}

bool s3_down_admit(struct s3 *s3, const struct origin_call *asked, struct s3_trial *ret)
{
    struct breaker_name name;
    breaker_name(&name, asked->bucket, asked->key);
    uint64_t now_ms = mono_ms();
    pthread_mutex_lock(&s3->lock);
    enum breaker_say say = breaker_admit(&s3->breaker, &name, now_ms);
    pthread_mutex_unlock(&s3->lock);
    *ret = (struct s3_trial){ .probe = say == BREAKER_PROBES, .sent_ms = now_ms };
    return say != BREAKER_REFUSES || !guard_on(GUARD_BREAKER);
}

static void log_opened(const struct s3 *s3, const struct breaker *now, enum err err, int status)
{
    struct arena keep = { 0 };
    char answered[40];
    slice keys = { now->folder.text, now->folder.len };
    snprintf(answered, sizeof(answered), "the origin answered %d", status);
    log_warn("origin_down", "origin=%s keys=%.*s* failures=%u not_answered_ms=%llu "
             "why=\"%s. Until the origin works again, Penstock sends it one request a second, and "
             "answers other requests for these keys with 503. Cached objects are still served. To "
             "test the origin, run penstock check\"",
             s3->origin.name, SLICE_ARG(log_word(&keep, keys)), now->failures,
             (unsigned long long)(now->failed_ms - now->sent_ms), err ? err_text(err) : answered);
    arena_free(&keep);
}

static void tell_change(struct s3 *s3, enum breaker_change change, const struct breaker *now,
                        enum err err, int status)
{
    bool opened = change == BREAKER_OPENED;
    metric_gauge_add(M_ORIGIN_BREAKER_OPEN, opened ? 1 : -1);
    if (opened) {
        metric_add(M_ORIGIN_BREAKER_OPENED, 1);
        log_opened(s3, now, err, status);
        limiter_wake_waiting(&s3->limiter);
    } else {
        limiter_restore(&s3->limiter);
        log_warn("origin_up", "origin=%s down_ms=%llu", s3->origin.name,
                 (unsigned long long)(now->answered_ms - now->opened_ms));
    }
}

static void adapt_limit(struct s3 *s3, enum err err, int status, uint64_t now_ms)
{
    bool slow_down = !err && (status == 503 || status == 429);
    if (slow_down)
        metric_add(M_ORIGIN_SLOWED, 1);
    if (slow_down && guard_on(GUARD_SLOW_DOWN))
        limiter_slow_down(&s3->limiter, now_ms);
    else
        limiter_grow(&s3->limiter, now_ms);
}

void s3_down_judge(struct s3 *s3, const struct origin_call *asked, struct s3_trial *trial,
                   enum err err, int status)
{
    struct breaker_try try = { .result = breaker_judge(err, status), .probe = trial->probe,
                               .sent_ms = trial->sent_ms };
    if (trial->judged)
        return;
    uint64_t now_ms = mono_ms();
    trial->judged = true;
    adapt_limit(s3, err, status, now_ms);
    breaker_name(&try.name, asked->bucket, asked->key);
    pthread_mutex_lock(&s3->lock);
    enum breaker_change change = breaker_note(&s3->breaker, &try, now_ms);
    if (change == BREAKER_SAME) {
        pthread_mutex_unlock(&s3->lock);
        return;
    }
    struct breaker now = s3->breaker;
    pthread_mutex_unlock(&s3->lock);
    tell_change(s3, change, &now, err, status);
}
