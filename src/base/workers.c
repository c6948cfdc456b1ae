/* workers.c - a few threads that work off a queue. SPDX-License-Identifier: Apache-2.0 */
#include "base/workers.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/thread.h"

struct workers {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct list queue;
    bool stopping;
    bool (*work)(struct list *link);
    unsigned count;
    pthread_t threads[WORKERS_MAX];
};

/* NULL: there is none, and there will be none. */
static struct list *take(struct workers *workers)
{
    struct list *link = NULL;
    pthread_mutex_lock(&workers->lock);
    while (list_empty(&workers->queue) && !workers->stopping)
        pthread_cond_wait(&workers->wake, &workers->lock);
    if (!list_empty(&workers->queue)) {
        link = workers->queue.next;
        list_del(link);
    }
    pthread_mutex_unlock(&workers->lock);
    return link;
}

void workers_put(struct workers *workers, struct list *link)
{
    pthread_mutex_lock(&workers->lock);
    list_add(&workers->queue, link);
    pthread_cond_signal(&workers->wake);
    pthread_mutex_unlock(&workers->lock);
}

static void *run(void *arg)
{
    struct workers *workers = arg;
    for (struct list *link; (link = take(workers)) != NULL;)
        if (!workers->work(link))
            workers_put(workers, link);
    return NULL;
}

struct workers *workers_new(unsigned count, const char *name, bool (*work)(struct list *link))
{
    struct workers *workers = must_alloc(sizeof(*workers));
    check(count <= WORKERS_MAX);
    check(pthread_mutex_init(&workers->lock, NULL) == 0);
    check(pthread_cond_init(&workers->wake, NULL) == 0);
    list_init(&workers->queue);
    workers->work = work;
    while (workers->count < count && thread_start(&workers->threads[workers->count], run, workers,
                                                  "%s-%u", name, workers->count))
        workers->count++;
    if (workers->count < count)
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
