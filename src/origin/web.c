/* web.c - one small HTTP request that blocks its caller. SPDX-License-Identifier: Apache-2.0
 *
 * The exchange is an errand on a carrier. The caller sleeps meanwhile, and checks *stop now and
 * then. The carrier owns the shared members until it sets `ended`, under the lock. */
#include "origin/web.h"

#include <pthread.h>
#include <stdio.h>

#include "base/clock.h"

#define BODY_BYTES_MAX (64 * 1024)
#define LOOK_MS 100

struct web {
    struct errand errand;
    struct exchange_ask ask;
    struct exchange *exchange;
    struct origin_body body;
    uint64_t deadline_ms;
    atomic_bool canceled;
    struct text got;
    int status;
    enum err err;
    char why[200];
    pthread_mutex_t lock;               /* for the members below */
    pthread_cond_t change;
    bool ended;
};

static void finish(struct web *web, enum err err, const char *why)
{
    exchange_drop(&web->exchange);
    web->err = err;
    snprintf(web->why, sizeof(web->why), "%s", why);
    pthread_mutex_lock(&web->lock);
    errand_leave(&web->errand);    /* under the lock, where the caller checks before it wakes */
    web->ended = true;
    pthread_cond_signal(&web->change);
    pthread_mutex_unlock(&web->lock);
}

static enum exchange_take on_head(void *arg, const struct exchange_head *head)
{
    ((struct web *)arg)->status = head->status;
    return EXCHANGE_TAKEN;
}

static enum exchange_take on_body(void *arg, slice bytes)
{
    struct web *web = arg;
    if (web->got.len + bytes.len > BODY_BYTES_MAX)
        return EXCHANGE_END;
    text_add(&web->got, bytes);
    return EXCHANGE_TAKEN;
}

static bool on_ready(void *arg)
{
    return !atomic_load(&((struct web *)arg)->canceled);
}

static void on_end(void *arg, const struct exchange_end *end)
{
    struct web *web = arg;
    web->exchange = NULL;
    if (end->err == ERR_CANCELED && !atomic_load(&web->canceled))
        finish(web, ERR_TOO_LARGE, "the answer is too long");
    else
        finish(web, end->err, end->why && *end->why ? end->why : err_text(end->err));
}

static void woken(struct errand *errand)
{
    static const struct exchange_events events = { on_ready, on_head, on_body, on_end };
    struct web *web = container_of(errand, struct web, errand);
    if (errand_stopping(errand) || atomic_load(&web->canceled)) {
        finish(web, ERR_STOPPING, err_text(ERR_STOPPING));
    } else if (mono_ms() >= web->deadline_ms) {
        finish(web, ERR_TIMEOUT, "there was no answer in time");
    } else if (!web->exchange) {
        errand_due(errand, web->deadline_ms);
        web->exchange = exchange_start(errand, &web->ask, &events, web);
    } else {
        errand_due(errand, web->deadline_ms);
    }
}

static size_t read_body(void *arg, uint64_t offset, char *ret, size_t bytes)
{
    return slice_put(ret, slice_sub(*(const slice *)arg, offset, bytes));
}

/* Cuts a URL: scheme://host:port/ to connect to, and the rest for the request line. */
static bool cut_url(struct arena *keep, slice url, slice *ret_base, slice *ret_host,
                    slice *ret_target)
{
    size_t scheme = slice_starts(url, S("http://")) ? 7 : slice_starts(url, S("https://")) ? 8 : 0;
    if (!scheme)
        return false;
    slice target = slice_from(url, scheme), host = slice_cut(&target, '/');
    *ret_host = arena_copy(keep, host);
    *ret_base = arena_printf(keep, "%.*s%.*s/", (int)scheme, url.ptr, SLICE_ARG(host));
    *ret_target = arena_printf(keep, "/%.*s", SLICE_ARG(target));
    return host.len > 0 && !slice_has(host, '@');
}

static bool make(struct web *web, const struct web_ask *asked, struct arena *keep)
{
    slice base, host, target;
    struct http_field *fields = arena_alloc(keep, (asked->field_count + 1) * sizeof(*fields));
    if (!cut_url(keep, asked->url, &base, &host, &target))
        return false;
    fields[0] = (struct http_field){ S("Host"), host };
    for (size_t i = 0; i < asked->field_count; i++)
        fields[i + 1] = asked->fields[i];
    web->body = (struct origin_body){ .length = asked->body.len, .read = read_body,
                                      .arg = (void *)&asked->body };
    web->ask = (struct exchange_ask){
        .method = asked->method, .url = base.ptr, .target = target.ptr,
        .ca_file = asked->ca_file ? asked->ca_file : "",
        .fields = fields, .field_count = asked->field_count + 1,
        .body = asked->body.len ? &web->body : NULL,
        .sends_length = *asked->method == 'P',
        .connect_ms = asked->time_ms, .progress_ms = asked->time_ms,
        .answer_ms = asked->time_ms,
    };
    web->deadline_ms = mono_ms() + asked->time_ms;
    web->errand.woken = woken;
    web->got = text_in(keep);
    return true;
}

static void wait_for_end(struct web *web, const atomic_bool *stop)
{
    pthread_mutex_lock(&web->lock);
    while (!web->ended) {
        struct timespec until;
        uint64_t at_ns = mono_ns() + LOOK_MS * 1000000u;
        until.tv_sec = (time_t)(at_ns / 1000000000u);
        until.tv_nsec = (long)(at_ns % 1000000000u);
        pthread_cond_timedwait(&web->change, &web->lock, &until);
        if (stop && atomic_load(stop) && !web->ended && !atomic_exchange(&web->canceled, true))
            errand_wake(&web->errand);
    }
    pthread_mutex_unlock(&web->lock);
}

enum err web_get(struct carriers *carriers, const struct web_ask *ask, struct arena *keep,
                 struct web_reply *ret, slice *ret_why)
{
    struct web *web = arena_alloc(keep, sizeof(*web));
    pthread_condattr_t monotonic;
    if (!make(web, ask, keep)) {
        *ret_why = arena_printf(keep, "\"%.*s\" is no http or https URL", SLICE_ARG(ask->url));
        return ERR_BAD_ARGUMENT;
    }
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&web->lock, NULL);
    pthread_cond_init(&web->change, &monotonic);
    errand_enter(carriers_next(carriers), &web->errand);
    wait_for_end(web, ask->stop);
    pthread_cond_destroy(&web->change);
    pthread_mutex_destroy(&web->lock);
    pthread_condattr_destroy(&monotonic);
    slice body = text_slice(&web->got);
    *ret = (struct web_reply){ web->status, body.ptr ? body : S("") };
    if (web->err)
        *ret_why = arena_copy(keep, slice_of(web->why));
    return web->err;
}
