/* disk_pool.c - threads that read for whoever may not block. SPDX-License-Identifier: Apache-2.0
 *
 * One pool for all disks of the process. It starts with one thread, grows while reads wait and
 * nobody is idle, and ends with its last user; whoever comes then starts another. Threads: any;
 * under pool.lock, which is never held together with a disk's. */
#include "store/disk_pool.h"

#include <pthread.h>
#include <signal.h>

#include "base/thread.h"

#define POOL_THREADS 16u

static struct {
    pthread_mutex_t door;             /* one disk at a time comes or goes */
    pthread_mutex_t lock;             /* guards the rest */
    void (*run)(struct disk_read *read);
    pthread_cond_t work;
    struct list queue;
    size_t queued, idle, threads, users;
    bool stopping;
    pthread_t ids[POOL_THREADS];
} pool = {
    .door = PTHREAD_MUTEX_INITIALIZER,
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .work = PTHREAD_COND_INITIALIZER,
    .queue = { &pool.queue, &pool.queue },
};

static void *worker(void *arg)
{
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        pool.idle++;
        while (list_empty(&pool.queue) && !pool.stopping)
            pthread_cond_wait(&pool.work, &pool.lock);
        pool.idle--;
        if (list_empty(&pool.queue))
            break;
        struct disk_read *read = list_of(pool.queue.next, struct disk_read, link);
        list_del(&read->link);
        pool.queued--;
        pthread_mutex_unlock(&pool.lock);
        pool.run(read);
        pthread_mutex_lock(&pool.lock);
    }
    pthread_mutex_unlock(&pool.lock);
    return arg;
}

/* Under pool.lock. Signals are for other threads. One worker must be had; more are a comfort. */
static void pool_grow(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (thread_start(&pool.ids[pool.threads], worker, NULL, "disk-%zu", pool.threads))
        pool.threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    check(pool.threads > 0 && "no thread to read with");
}

void disk_pool_add(struct disk_read *read)
{
    pthread_mutex_lock(&pool.lock);
    list_add(&pool.queue, &read->link);
    if (++pool.queued > pool.idle && pool.threads < POOL_THREADS)
        pool_grow();
    pthread_cond_signal(&pool.work);
    pthread_mutex_unlock(&pool.lock);
}

void disk_pool_enter(void (*run)(struct disk_read *read))
{
    pthread_mutex_lock(&pool.door);
    pthread_mutex_lock(&pool.lock);
    pool.run = run;
    if (pool.users++ == 0)
        pool_grow();
    pthread_mutex_unlock(&pool.lock);
    pthread_mutex_unlock(&pool.door);
}

void disk_pool_leave(void)
{
    pthread_mutex_lock(&pool.door);
    pthread_mutex_lock(&pool.lock);
    pool.stopping = --pool.users == 0;
    bool last = pool.stopping;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    if (last) {
        for (size_t i = 0; i < pool.threads; i++)
            pthread_join(pool.ids[i], NULL);
        pool.threads = 0;
        pool.stopping = false;
    }
    pthread_mutex_unlock(&pool.door);
}
