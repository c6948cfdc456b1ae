/* origin.c - the table of origin kinds, and the contract of a call.
 * SPDX-License-Identifier: Apache-2.0
 *
 * This file holds the table of kinds, chooses the kind of an origin by its URL, and passes calls on
 * to the kind. All callbacks go through the hook_ functions here, which check their order (one
 * head, then bodies, then one done) and count the results. Threads: call->priv is set, read and set
 * to NULL under one of a few locks, chosen by the call's address. If a cancel or resume comes after
 * done(), it finds NULL and does nothing. */
#include "origin/origin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/metric.h"
#include "origin/kind.h"

static const struct origin_kind *const kinds[] = {
#define KIND(name) &name,
#include "origin/kind.def"
};

struct origins {
    struct list list;
    unsigned threads;
    void *shared[countof(kinds)];   /* one for each kind; NULL until an origin needs it */
};

/* ---- hooks ---- */

static pthread_mutex_t locks[64] = { [0 ... 63] = PTHREAD_MUTEX_INITIALIZER };

static pthread_mutex_t *lock_of(const struct origin_call *call)
{
    uintptr_t bits = (uintptr_t)call / 64;
    return &locks[(bits ^ bits >> 6) % countof(locks)];
}

static void attach(struct origin_hook *hook, struct origin *origin, struct origin_call *call)
{
    check(!call->priv);
    *hook = (struct origin_hook){ .magic = HOOK_MAGIC, .origin = origin, .call = call };
    call->priv = hook;
}

void hook_on(struct origin_hook *hook, struct origin *origin, struct origin_call *call)
{
    metric_gauge_add(M_ORIGIN_CALLS, 1);
    atomic_fetch_add(&origin->calls, 1);
    attach(hook, origin, call);
    client_span_begin(hook);
}

void hook_attach(struct origin_hook *hook, struct origin *origin, struct origin_call *call,
                 void (*enter)(struct origin_hook *hook))
{
    check(origin->magic == ORIGIN_MAGIC);
    pthread_mutex_lock(lock_of(call));
    trace_child(&call->trace, &call->trace);
    attach(hook, origin, call);
    enter(hook);
    pthread_mutex_unlock(lock_of(call));
}

void hook_detach(struct origin_hook *hook)
{
    struct origin_call *call = hook->call;
    check(hook->magic == HOOK_MAGIC && call->priv == hook);
    hook->magic = 0;
    pthread_mutex_lock(lock_of(call));
    call->priv = NULL;
    pthread_mutex_unlock(lock_of(call));
}

void hook_ask_next(struct origin_hook *hook)
{
    struct origin_call *call = hook->call;
    check(hook->magic == HOOK_MAGIC && call->priv == hook);
    pthread_mutex_lock(lock_of(call));
    trace_sibling(&call->trace);
    pthread_mutex_unlock(lock_of(call));
}

bool hook_pass_on(struct origin_hook *hook, struct origin *origin, const atomic_bool *canceled)
{
    struct origin_call *call = hook->call;
    check(hook->magic == HOOK_MAGIC && call->priv == hook && origin->magic == ORIGIN_MAGIC);
    pthread_mutex_lock(lock_of(call));    /* a cancel comes before, or to the origin */
    bool passed = !atomic_load(canceled);
    if (passed) {
        hook->magic = 0;
        call->priv = NULL;
        trace_sibling(&call->trace);
        origin->kind->start(origin, call);    /* it may run, but can't end before the unlock */
    }
    pthread_mutex_unlock(lock_of(call));
    return passed;
}

void hook_head(struct origin_hook *hook, const struct origin_reply *reply)
{
    check(hook->magic == HOOK_MAGIC && !hook->headed);
    check(reply->status >= 200 && reply->status <= 999);
    hook->headed = true;
    hook->status = reply->status;
    atomic_store(&hook->origin->answered_s, wall_s());
    metric_time(M_ORIGIN_FIRST_BYTE, reply->first_byte_ns);
    client_span_head(hook, reply);
    hook->call->events->head(hook->call, reply);
}

enum origin_take hook_body(struct origin_hook *hook, slice bytes)
{
    check(hook->magic == HOOK_MAGIC && hook->headed && bytes.len > 0);
    enum origin_take take = hook->call->events->body(hook->call, bytes);
    if (take == ORIGIN_TAKEN) {
        metric_add(M_ORIGIN_BYTES_IN, bytes.len);
        hook->body_bytes += bytes.len;
    }
    return take;
}

/* Returns true if the origin works but does not support this request. Such a result is no failure
 * of the origin. */
static bool is_lack(const struct origin_hook *hook, enum err err)
{
    return err == ERR_BAD_REQUEST || err == ERR_READ_ONLY || err == ERR_NOT_IMPLEMENTED ||
           (!err && hook->status == 501);
}

/* Returns true if the failure is the origin's fault, not the client's or the request's. */
static bool is_failure(const struct origin_hook *hook, enum err err)
{
    return (err || hook->status >= 500) && !is_lack(hook, err) && err != ERR_BUSY &&
           err != ERR_SLOW_DOWN && err != ERR_ORIGIN_DOWN;
}

static void note_failure(const struct origin_hook *hook, enum err err)
{
    struct origin *origin = hook->origin;
    pthread_mutex_lock(&origin->lock);
    origin->failed_s = wall_s();
    if (!origin->failing_s || origin->failing_s < atomic_load(&origin->answered_s))
        origin->failing_s = origin->failed_s;
    char answered[40];
    snprintf(answered, sizeof(answered), "the origin answered %d", hook->status);
    snprintf(origin->why, sizeof(origin->why), "%s%s%s", err ? err_text(err) : answered,
             hook->why && *hook->why ? ": " : "", hook->why ? hook->why : "");
    pthread_mutex_unlock(&origin->lock);
}

void hook_done(struct origin_hook *hook, enum err err)
{
    struct origin_call *call = hook->call;
    check(hook->magic == HOOK_MAGIC && (err || hook->headed));
    metric_gauge_add(M_ORIGIN_CALLS, -1);
    check(atomic_fetch_sub(&hook->origin->calls, 1) > 0);
    bool ended = err == ERR_CANCELED || err == ERR_YIELDED || err == ERR_STOPPING;
    if (err == ERR_YIELDED)
        metric_add(M_ORIGIN_YIELDED, 1);
    bool failed = !ended && is_failure(hook, err);
    if (failed)
        note_failure(hook, err);
    if (failed || (!ended && !err))
        atomic_store(&hook->origin->failing, failed);
    if (ended)
        metric_add(M_ORIGIN_CANCELED, 1);
    else if (err == ERR_ORIGIN_DOWN)
        metric_add(M_ORIGIN_BREAKER_REFUSED, 1);
    else if (err == ERR_ORIGIN_KEYS)
        metric_add(M_ORIGIN_REFUSED_KEYS, 1);
    else if (!is_lack(hook, err) && (err || hook->status >= 500))
        metric_add(M_ORIGIN_ERROR, 1);
    else
        metric_add(M_ORIGIN_OK, 1);
    client_span_end(hook, err);
    hook_detach(hook);
    call->events->done(call, err);
}

slice call_field(const struct origin_call *call, slice name)
{
    return http_field_get(call->fields, call->field_count, name);
}

slice origin_reply_get(const struct origin_reply *reply, slice name)
{
    return http_field_get(reply->fields, reply->field_count, name);
}

/* ---- calls ---- */

void origin_start(struct origin *origin, struct origin_call *call)
{
    check(origin->magic == ORIGIN_MAGIC);
    check(!call->form || call->body);    /* `body` is the file of the form */
    check(call->fields || !call->field_count);
    check(call->events && call->events->head && call->events->body && call->events->done);
    pthread_mutex_lock(lock_of(call));
    trace_child(&call->trace, &call->trace);
    origin->kind->start(origin, call);    /* it may run, but can't end before the unlock */
    pthread_mutex_unlock(lock_of(call));
}

void origin_resume(struct origin_call *call)
{
    pthread_mutex_lock(lock_of(call));
    struct origin_hook *hook = call->priv;
    if (hook)
        hook->origin->kind->resume(hook);
    pthread_mutex_unlock(lock_of(call));
}

void origin_cancel(struct origin_call *call)
{
    pthread_mutex_lock(lock_of(call));
    struct origin_hook *hook = call->priv;
    if (hook)
        hook->origin->kind->cancel(hook);
    pthread_mutex_unlock(lock_of(call));
}

void origin_ask_again(struct origin_call *call)
{
    pthread_mutex_lock(lock_of(call));
    struct origin_hook *hook = call->priv;
    if (hook && hook->origin->kind->ask_again)
        hook->origin->kind->ask_again(hook);
    pthread_mutex_unlock(lock_of(call));
}

void origin_trace(const struct origin_call *call, struct trace *ret)
{
    pthread_mutex_lock(lock_of(call));
    *ret = call->trace;
    pthread_mutex_unlock(lock_of(call));
}

slice origin_endpoint(const struct origin *origin)
{
    return slice_of(origin->endpoint);
}

void origin_health(struct origin *origin, struct arena *keep, struct origin_health *ret)
{
    ret->keys = (struct origin_keys){ 0 };
    if (origin->kind->health)
        origin->kind->health(origin, keep, &ret->keys);
    ret->calls = atomic_load(&origin->calls);
    ret->answered_s = atomic_load(&origin->answered_s);
    ret->failing = atomic_load(&origin->failing);
    pthread_mutex_lock(&origin->lock);
    ret->name = slice_of(origin->name);
    ret->failed_s = origin->failed_s;
    ret->failing_s = origin->failing_s >= ret->answered_s ? origin->failing_s : 0;
    ret->why = arena_copy(keep, slice_of(origin->why));
    pthread_mutex_unlock(&origin->lock);
}

bool origin_is_read_only(const struct origin *origin)
{
    return origin->kind->read_only;
}

bool origin_knows_identities(const struct origin *origin)
{
    return origin->kind->url.knows_identities;
}

bool origin_is_busy(const struct origin *origin)
{
    return atomic_load(&origin->calls) >= origin->busy_calls;
}

uint64_t origin_owner_changed_ms(const struct origin *origin)
{
    return origin->kind->owner_changed_ms ? origin->kind->owner_changed_ms(origin) : 0;
}

slice origin_owner(const struct origin *origin)
{
    return origin->kind->owner ? origin->kind->owner(origin) : S("");
}

/* ---- making origins ---- */

const struct url_kind *origin_url_kind(size_t i)
{
    return i < countof(kinds) ? &kinds[i]->url : NULL;
}

struct origins *origins_new(unsigned threads)
{
    struct origins *all = must_alloc(sizeof(*all));
    list_init(&all->list);
    all->threads = MAX(threads, 1u);
    return all;
}

static size_t place_of_kind(slice url)
{
    const struct url_scheme *scheme;
    slice rest;
    const struct url_kind *kind = url_kind_of(origin_url_kind, url, &scheme, &rest);
    size_t place = 0;
    while (place < countof(kinds) && &kinds[place]->url != kind)
        place++;
    return place;
}

enum err origins_add(struct origins *all, const struct origin_options *options, struct arena *keep,
                     struct origin **ret, slice *ret_why)
{
    size_t place = place_of_kind(slice_of(options->url));
    struct origin *origin;
    if (place == countof(kinds)) {
        *ret_why = arena_printf(keep, "%s: the URL of an origin must be %s", options->url,
                                url_forms(origin_url_kind, keep));
        return ERR_BAD_ARGUMENT;
    }
    if (!all->shared[place])
        all->shared[place] = kinds[place]->shared_new(all->threads);
    enum err e = kinds[place]->open(all->shared[place], options, keep, &origin, ret_why);
    if (e)
        return e;
    origin->magic = ORIGIN_MAGIC;
    origin->kind = kinds[place];
    origin->busy_calls = MAX(options->connections_max / 2, 1u);
    pthread_mutex_init(&origin->lock, NULL);
    origin->name = must_strndup(options->name, strlen(options->name));
    list_add(&all->list, &origin->link);
    *ret = origin;
    return OK;
}

static void free_one(struct origin *origin)
{
    check(origin->magic == ORIGIN_MAGIC && atomic_load(&origin->calls) == 0);
    list_del(&origin->link);
    origin->magic = 0;
    pthread_mutex_destroy(&origin->lock);
    free(origin->name);
    free(origin->endpoint);
    origin->kind->free(origin);
}

void origins_free(struct origins **all)
{
    struct origins *mine = *all;
    *all = NULL;
    if (!mine)
        return;
    for (size_t i = 0; i < countof(kinds); i++)
        if (mine->shared[i])
            kinds[i]->shared_free(mine->shared[i]);
    while (!list_empty(&mine->list))
        free_one(list_of(mine->list.next, struct origin, link));
    free(mine);
}
