/* origin_unit.h - a caller of origins for tests: it writes down what comes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It can pause or cancel at any of its callbacks, and fails the test when the contract is broken:
 * a head twice, bytes before the head, two callbacks at once, anything after the end. */
#ifndef ORIGIN_UNIT_H
#define ORIGIN_UNIT_H

#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "origin/origin.h"

struct watched {
    struct origin_call call;
    /* what to do */
    int pause_at;    /* the nth body callback is answered PAUSE (from 1); -1: every second one */
    bool spares;                /* by SPARE */
    bool resume_inside;         /* resume before that is returned */
    int cancel_at;              /* 1: in head, n + 1: in the nth body callback */
    void (*on_body)(struct watched *watched);
    void *arg;
    /* what came */
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct arena keep;
    struct text body;
    atomic_int inside;
    int heads, bodies, dones, pauses;
    int status;
    unsigned tries;
    bool has_length;
    uint64_t length;
    struct http_field fields[64];
    size_t field_count;
    enum err err;
};

static void watched_enter(struct watched *watched)
{
    check(atomic_fetch_add(&watched->inside, 1) == 0 && "two callbacks at once");
    pthread_mutex_lock(&watched->lock);
    check(watched->dones == 0);
}

static void watched_leave(struct watched *watched)
{
    atomic_fetch_sub(&watched->inside, 1);
    pthread_cond_broadcast(&watched->change);
    pthread_mutex_unlock(&watched->lock);
}

static void watched_head(struct origin_call *call, const struct origin_reply *reply)
{
    struct watched *watched = container_of(call, struct watched, call);
    watched_enter(watched);
    check(++watched->heads == 1 && watched->bodies == 0);
    watched->status = reply->status;
    watched->tries = reply->tries;
    watched->has_length = reply->has_length;
    watched->length = reply->length;
    for (size_t i = 0; i < reply->field_count && i < countof(watched->fields); i++)
        watched->fields[watched->field_count++] = (struct http_field){
            arena_copy(&watched->keep, reply->fields[i].name),
            arena_copy(&watched->keep, reply->fields[i].value) };
    bool cancel = watched->cancel_at == 1;
    watched_leave(watched);
    if (cancel)
        origin_cancel(call);
}

static enum origin_take watched_body(struct origin_call *call, slice bytes)
{
    struct watched *watched = container_of(call, struct watched, call);
    watched_enter(watched);
    check(watched->heads == 1 && bytes.len > 0);
    watched->bodies++;
    bool cancel = watched->cancel_at == watched->bodies + 1;
    bool pause = watched->pause_at == watched->bodies ||
                 (watched->pause_at == -1 && watched->bodies % 2);
    if (pause)
        watched->pauses++;
    else
        text_add(&watched->body, bytes);
    watched_leave(watched);
    if (watched->on_body)
        watched->on_body(watched);
    if (pause && watched->resume_inside)
        origin_resume(call);
    if (cancel)
        origin_cancel(call);
    return !pause ? ORIGIN_TAKEN : watched->spares ? ORIGIN_SPARE : ORIGIN_PAUSE;
}

static void watched_done(struct origin_call *call, enum err err)
{
    struct watched *watched = container_of(call, struct watched, call);
    watched_enter(watched);
    watched->dones++;
    watched->err = err;
    watched_leave(watched);
}

static const struct origin_events watched_events = { watched_head, watched_body, watched_done };

static struct watched *watch_new(enum s3_op op, slice bucket, slice key, slice query)
{
    struct watched *watched = must_alloc(sizeof(*watched));
    pthread_mutex_init(&watched->lock, NULL);
    pthread_cond_init(&watched->change, NULL);
    watched->call = (struct origin_call){
        .events = &watched_events, .op = op, .bucket = bucket, .key = key, .query = query };
    watched->body = text_in(&watched->keep);
    return watched;
}

enum { FOR_DONE, FOR_PAUSE, FOR_HEAD };

/* False after 60 s: no fact depends on how long that is. */
static bool watch_wait(struct watched *watched, int what)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    int late = 0;
    pthread_mutex_lock(&watched->lock);
    while (!late && !watched->dones && !(what == FOR_PAUSE && watched->pauses) &&
           !(what == FOR_HEAD && watched->heads))
        late = pthread_cond_timedwait(&watched->change, &watched->lock, &until);
    pthread_mutex_unlock(&watched->lock);
    return !late;
}

/* Resumes it from outside at each of its pauses, until it is over. */
static inline void watch_and_resume(struct watched *watched)
{
    for (int seen = 0; watch_wait(watched, FOR_PAUSE);) {
        pthread_mutex_lock(&watched->lock);
        bool news = watched->pauses > seen, over = watched->dones;
        seen = watched->pauses;
        pthread_mutex_unlock(&watched->lock);
        if (over)
            return;
        if (news)
            origin_resume(&watched->call);
        usleep(200);
    }
}

/* Gets an object of "bucket" whole, with pauses as pause_at says, which end inside the callback or
 * from outside. */
static inline struct watched *get_with_pauses(struct origin *origin, slice key, int pause_at,
                                              bool inside)
{
    struct watched *watched = watch_new(S3_GET_OBJECT, S("bucket"), key, S(""));
    watched->pause_at = pause_at;
    watched->resume_inside = inside;
    origin_start(origin, &watched->call);
    if (!inside)
        watch_and_resume(watched);
    ok(watch_wait(watched, FOR_DONE) && watched->err == OK);
    return watched;
}

static void watch_free(struct watched **watched)
{
    pthread_mutex_lock(&(*watched)->lock);      /* the last callback lets go of it */
    pthread_mutex_unlock(&(*watched)->lock);
    pthread_mutex_destroy(&(*watched)->lock);
    pthread_cond_destroy(&(*watched)->change);
    arena_free(&(*watched)->keep);
    free(*watched);
    *watched = NULL;
}

static inline slice watch_get(const struct watched *watched, slice name)
{
    for (size_t i = 0; i < watched->field_count; i++)
        if (slice_eq(watched->fields[i].name, name))
            return watched->fields[i].value;
    return (slice){ NULL, 0 };
}

#endif
