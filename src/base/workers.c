/* workers.c - a pool of threads with a queue. SPDX-License-Identifier: Apache-2.0 */
#include "base/workers.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/thread.h"

struct workers {
    const char *name;
    bool (*work)(struct list *link);
    pthread_mutex_t lock;    /* guards all members below */
    pthread_cond_t wake;
    struct list queue;
    size_t queued, idle;
    bool stopping;
    unsigned most, count;
    pthread_t threads[WORKERS_MAX];
};

static void *run(void *arg)
{
    struct workers *workers = arg;
    pthread_mutex_lock(&workers->lock);
    for (;;) {
        workers->idle++;
        while (list_empty(&workers->queue) && !workers->stopping)
            pthread_cond_wait(&workers->wake, &workers->lock);
        workers->idle--;
        if (list_empty(&workers->queue))
            break;
        struct list *link = list_take(&workers->queue);
        check(workers->queued > 0);
        workers->queued--;
        pthread_mutex_unlock(&workers->lock);
        bool over = workers->work(link);
        pthread_mutex_lock(&workers->lock);
        if (over)
            continue;
        list_add(&workers->queue, link);    /* no signal, as this thread takes the next link */
        workers->queued++;
    }
    pthread_mutex_unlock(&workers->lock);
    return NULL;
}

/* The caller holds the lock. The pool needs its first thread. If a later thread can't start, the pool
 * goes on without it. */
static void grow(struct workers *workers)
{
    check(workers->count < workers->most);
    if (thread_start(&workers->threads[workers->count], run, workers, "%s-%u", workers->name,
                     workers->count))
        workers->count++;
}

void workers_put(struct workers *workers, struct list *link)
{
    pthread_mutex_lock(&workers->lock);
    check(!workers->stopping);
    list_add(&workers->queue, link);
    if (++workers->queued > workers->idle && workers->count < workers->most)
        grow(workers);
    pthread_cond_signal(&workers->wake);
    pthread_mutex_unlock(&workers->lock);
}

struct workers *workers_new(unsigned most, const char *name, bool (*work)(struct list *link))
{
    struct workers *workers = must_alloc(sizeof(*workers));
    check(most > 0 && most <= WORKERS_MAX);
    check(pthread_mutex_init(&workers->lock, NULL) == 0);
    check(pthread_cond_init(&workers->wake, NULL) == 0);
    list_init(&workers->queue);
    workers->name = name;
    workers->work = work;
    workers->most = most;
    pthread_mutex_lock(&workers->lock);
    grow(workers);
    bool any = workers->count > 0;
    pthread_mutex_unlock(&workers->lock);
    if (!any)
        workers_free(&workers);
    return workers;
}

void workers_free(struct workers **workers)
{
    struct workers *mine = *workers;
    *workers = NULL;
    if (!mine)
        return;
    pthread_mutex_lock(&mine->lock);
    mine->stopping = true;
    pthread_cond_broadcast(&mine->wake);
    pthread_mutex_unlock(&mine->lock);
    for (unsigned i = 0; i < mine->count; i++)
        pthread_join(mine->threads[i], NULL);
    pthread_cond_destroy(&mine->wake);
    pthread_mutex_destroy(&mine->lock);
    free(mine);
}
