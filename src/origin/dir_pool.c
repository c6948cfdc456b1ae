/* dir_pool.c - runs the calls of directory origins. SPDX-License-Identifier: Apache-2.0
 *
 * A read of a file on an NFS or Lustre mount may block, so directory origins have threads of their
 * own. A call is queued, running on one thread (without the lock), or parked. It is parked after
 * its reader returned PAUSE or SPARE, and then uses no thread. A call runs for a turn of a few
 * blocks, then goes to the end of the queue, so large files do not delay small ones. The state
 * changes only under pool->lock, so the callbacks of a call come one at a time. */
#include "origin/dir.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/workers.h"

#define THREADS 16
#define BLOCK_BYTES (256 * 1024)
#define TURN_BLOCKS 16

struct dir_pool {
    struct workers *workers;
    pthread_mutex_t lock;
    pthread_cond_t idle;        /* signalled when no call is left */
    struct list calls;
    bool stopping;              /* every call ends with ERR_STOPPING */
};

static void finish(struct dir_pool *pool, struct dir_call *call, enum err err)
{
    hook_done(&call->hook, err);
    pthread_mutex_lock(&pool->lock);
    list_del(&call->of_pool);
    if (list_empty(&pool->calls))
        pthread_cond_broadcast(&pool->idle);
    pthread_mutex_unlock(&pool->lock);
    if (call->fd >= 0)
        close(call->fd);
    arena_free(&call->keep);
    free(call);
}

static void forget_resume(struct dir_pool *pool, struct dir_call *call)
{
    pthread_mutex_lock(&pool->lock);
    call->resumed = false;
    pthread_mutex_unlock(&pool->lock);
}

/* Delivers the head or one block. Returns ERR_WAIT if the reader wants a pause, ERR_MORE if more is
 * to come, or OK if everything was delivered. */
static enum err step(struct dir_pool *pool, struct dir_call *call, char *buffer)
{
    enum err e = atomic_load(&call->stopped);
    if (e)
        return e;
    if (!call->headed) {
        struct origin_call *asked = call->hook.call;
        e = asked->may_send ? asked->may_send(asked, false) : OK;
        if (e)
            return e;
        call->headed = true;
        e = dir_answer(call);
        return e ? e : ERR_MORE;
    }
    if (call->at == call->end)
        return OK;
    slice bytes;
    e = dir_read(call, buffer, BLOCK_BYTES, &bytes);
    if (e)
        return e;
    forget_resume(pool, call);
    if (hook_body(&call->hook, bytes) != ORIGIN_TAKEN)
        return ERR_WAIT;
    check(bytes.len > 0 && bytes.len <= call->end - call->at);
    call->at += bytes.len;
    return ERR_MORE;
}

static enum err turn(struct dir_pool *pool, struct dir_call *call)
{
    enum err e = ERR_MORE;
    char *buffer = malloc(BLOCK_BYTES);
    check(buffer != NULL);
    for (int i = 0; i < TURN_BLOCKS && e == ERR_MORE; i++)
        e = step(pool, call, buffer);
    free(buffer);
    return e;
}

static struct dir_pool *pool_of(const struct dir_call *call)
{
    return container_of(call->hook.origin, struct dir, origin)->pool;
}

static bool work(struct list *link)
{
    struct dir_call *call = list_of(link, struct dir_call, link);
    struct dir_pool *pool = pool_of(call);
    enum err e = turn(pool, call);
    if (e != ERR_MORE && e != ERR_WAIT) {
        finish(pool, call, e);
        return true;
    }
    pthread_mutex_lock(&pool->lock);
    bool parked = e == ERR_WAIT && !call->resumed && !atomic_load(&call->stopped);
    call->parked = parked;
    pthread_mutex_unlock(&pool->lock);
    return parked;
}

/* `threads` is not used: it is the number of threads for origins in the network. */
void *dir_pool_new(unsigned threads)
{
    struct dir_pool *pool = must_alloc(sizeof(*pool));
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->idle, NULL);
    list_init(&pool->calls);
    check((pool->workers = workers_new(THREADS, "dir", work)) != NULL);
    return pool;
}

void dir_pool_start(struct origin *origin, struct origin_call *asked)
{
    struct dir_pool *pool = container_of(origin, struct dir, origin)->pool;
    struct dir_call *call = must_alloc(sizeof(*call));
    call->fd = -1;
    hook_on(&call->hook, origin, asked);
    check(!call->headed && !call->parked);
    call->started_ns = mono_ns();
    pthread_mutex_lock(&pool->lock);
    if (pool->stopping)
        atomic_store(&call->stopped, ERR_STOPPING);
    list_add(&pool->calls, &call->of_pool);
    workers_put(pool->workers, &call->link);
    pthread_mutex_unlock(&pool->lock);
}

/* The caller holds the lock. */
static void unpark(struct dir_pool *pool, struct dir_call *call)
{
    if (call->parked)
        workers_put(pool->workers, &call->link);
    call->parked = false;
}

void dir_pool_resume(struct origin_hook *hook)
{
    struct dir_call *call = container_of(hook, struct dir_call, hook);
    struct dir_pool *pool = pool_of(call);
    pthread_mutex_lock(&pool->lock);
    call->resumed = true;
    unpark(pool, call);
    pthread_mutex_unlock(&pool->lock);
}

/* The caller holds the lock. */
static void stop_call(struct dir_pool *pool, struct dir_call *call, enum err why)
{
    enum err none = OK;
    atomic_compare_exchange_strong(&call->stopped, &none, why);  /* only the first reason is kept */
    unpark(pool, call);
}

void dir_pool_cancel(struct origin_hook *hook)
{
    struct dir_call *call = container_of(hook, struct dir_call, hook);
    struct dir_pool *pool = pool_of(call);
    pthread_mutex_lock(&pool->lock);
    stop_call(pool, call, ERR_CANCELED);
    pthread_mutex_unlock(&pool->lock);
}

static void stop_all(struct dir_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    list_each(struct dir_call, call, &pool->calls, of_pool)
        stop_call(pool, call, ERR_STOPPING);
    while (!list_empty(&pool->calls))
        pthread_cond_wait(&pool->idle, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

void dir_pool_free(void *take_pool)
{
    struct dir_pool *pool = take_pool;
    stop_all(pool);
    workers_free(&pool->workers);
    pthread_cond_destroy(&pool->idle);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
