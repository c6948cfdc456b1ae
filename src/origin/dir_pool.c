/* dir_pool.c - threads that may block on a file system. SPDX-License-Identifier: Apache-2.0
 *
 * Reading a file of an NFS or Lustre mount blocks, so directory origins have threads of their own.
 * A call has one state: QUEUED (waits for a thread), RUNNING (one thread works on it, without the
 * lock) or PARKED (its reader returned PAUSE; it takes no thread). A call runs for a turn of a few
 * blocks, then goes to the end of the queue, so large files do not hold up small ones. The state
 * changes only under pool->lock; that is why the callbacks of a call come one at a time. */
#include "origin/dir.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/thread.h"

#define BLOCK_BYTES (256 * 1024)
#define TURN_BLOCKS 16
#define THREADS_MAX 64

struct dir_pool {
    pthread_mutex_t lock;
    pthread_cond_t work, idle;
    struct list queue, parked, running;
    unsigned live;              /* number of calls that are not done */
    bool stopping;              /* every call ends with ERR_STOPPING */
    bool ending;                /* the threads end */
    unsigned thread_count;
    pthread_t threads[THREADS_MAX];
};

static void place(struct dir_pool *pool, struct dir_call *call, int where)
{
    list_del(&call->link);
    call->where = where;
    switch (call->where) {
    case DIR_QUEUED:
        list_add(&pool->queue, &call->link);
        pthread_cond_signal(&pool->work);
        break;
    case DIR_RUNNING: list_add(&pool->running, &call->link); break;
    case DIR_PARKED: list_add(&pool->parked, &call->link); break;
    }
}

static void finish(struct dir_pool *pool, struct dir_call *call, enum err err)
{
    hook_done(&call->hook, err);
    pthread_mutex_lock(&pool->lock);
    check(call->where == DIR_RUNNING && pool->live > 0);
    list_del(&call->link);
    if (--pool->live == 0)
        pthread_cond_broadcast(&pool->idle);
    pthread_mutex_unlock(&pool->lock);
    dir_call_free(call);
}

static void forget_resume(struct dir_pool *pool, struct dir_call *call)
{
    pthread_mutex_lock(&pool->lock);
    call->resumed = false;
    pthread_mutex_unlock(&pool->lock);
}

/* Delivers the head or one block. ERR_WAIT: the reader wants a pause; ERR_MORE: there is more; OK:
 * everything was delivered. */
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

static void turn(struct dir_pool *pool, struct dir_call *call, char *buffer)
{
    enum err e = ERR_MORE;
    for (int i = 0; i < TURN_BLOCKS && e == ERR_MORE; i++)
        e = step(pool, call, buffer);
    if (e != ERR_MORE && e != ERR_WAIT) {
        finish(pool, call, e);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    bool park = e == ERR_WAIT && !call->resumed && !atomic_load(&call->stopped);
    place(pool, call, park ? DIR_PARKED : DIR_QUEUED);
    pthread_mutex_unlock(&pool->lock);
}

static void *work(void *arg)
{
    struct dir_pool *pool = arg;
    char *buffer = must_alloc(BLOCK_BYTES);
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (list_empty(&pool->queue) && !pool->ending)
            pthread_cond_wait(&pool->work, &pool->lock);
        if (list_empty(&pool->queue))
            break;
        struct dir_call *call = list_of(pool->queue.next, struct dir_call, link);
        place(pool, call, DIR_RUNNING);
        pthread_mutex_unlock(&pool->lock);
        turn(pool, call, buffer);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    free(buffer);
    return NULL;
}

struct dir_pool *dir_pool_new(unsigned threads)
{
    struct dir_pool *pool = must_alloc(sizeof(*pool));
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->idle, NULL);
    list_init(&pool->queue);
    list_init(&pool->parked);
    list_init(&pool->running);
    pool->thread_count = MAX(1u, MIN(threads, THREADS_MAX));
    for (unsigned i = 0; i < pool->thread_count; i++)
        check(thread_start(&pool->threads[i], work, pool, "dir-%u", i));
    return pool;
}

void dir_pool_start(struct dir_pool *pool, struct dir_call *call)
{
    call->started_ns = mono_ns();
    list_init(&call->link);
    pthread_mutex_lock(&pool->lock);
    check(!pool->ending);
    if (pool->stopping)
        atomic_store(&call->stopped, ERR_STOPPING);
    pool->live++;
    place(pool, call, DIR_QUEUED);
    pthread_mutex_unlock(&pool->lock);
}

void dir_pool_resume(struct dir_pool *pool, struct dir_call *call)
{
    pthread_mutex_lock(&pool->lock);
    call->resumed = true;
    if (call->where == DIR_PARKED)
        place(pool, call, DIR_QUEUED);
    pthread_mutex_unlock(&pool->lock);
}

/* Under the lock. */
static void stop_call(struct dir_pool *pool, struct dir_call *call, enum err why)
{
    enum err none = OK;
    atomic_compare_exchange_strong(&call->stopped, &none, why);    /* the first reason counts */
    if (call->where == DIR_PARKED)
        place(pool, call, DIR_QUEUED);
}

void dir_pool_cancel(struct dir_pool *pool, struct dir_call *call)
{
    pthread_mutex_lock(&pool->lock);
    stop_call(pool, call, ERR_CANCELED);
    pthread_mutex_unlock(&pool->lock);
}

void dir_pool_stop(struct dir_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    list_each_safe(struct dir_call, call, &pool->queue, link)
        stop_call(pool, call, ERR_STOPPING);
    list_each_safe(struct dir_call, call, &pool->running, link)
        stop_call(pool, call, ERR_STOPPING);
    while (!list_empty(&pool->parked))
        stop_call(pool, list_of(pool->parked.next, struct dir_call, link), ERR_STOPPING);
    while (pool->live)
        pthread_cond_wait(&pool->idle, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

void dir_pool_free(struct dir_pool **pool)
{
    struct dir_pool *mine = *pool;
    *pool = NULL;
    if (!mine)
        return;
    dir_pool_stop(mine);
    pthread_mutex_lock(&mine->lock);
    check(list_empty(&mine->queue) && list_empty(&mine->running) && list_empty(&mine->parked));
    mine->ending = true;
    pthread_cond_broadcast(&mine->work);
    pthread_mutex_unlock(&mine->lock);
    for (unsigned i = 0; i < mine->thread_count; i++)
        pthread_join(mine->threads[i], NULL);
    pthread_cond_destroy(&mine->work);
    pthread_cond_destroy(&mine->idle);
    pthread_mutex_destroy(&mine->lock);
    free(mine);
}
