/* periodic.c - a thread that does its work from time to time. SPDX-License-Identifier: Apache-2.0 */
#include "base/periodic.h"

#include "base/clock.h"
#include "base/thread.h"

void periodic_init(struct periodic *periodic)
{
    *periodic = (struct periodic){ .running = false };
    pthread_mutex_init(&periodic->lock, NULL);
    pthread_cond_init(&periodic->change, NULL);
}

bool periodic_start(struct periodic *periodic, void *(*run)(void *arg), void *arg,
                    const char *name)
{
    check(!periodic->running);
    periodic->running = true;    /* before the thread looks */
    if (!thread_start(&periodic->thread, run, arg, "%s", name))
        periodic->running = false;
    return periodic->running;
}

void periodic_wait(struct periodic *periodic, uint64_t until_ns)
{
    if (!atomic_load(&periodic->stop))
        cond_wait_until(&periodic->change, &periodic->lock, until_ns);
}

void periodic_wake(struct periodic *periodic)
{
    pthread_cond_signal(&periodic->change);
}

void periodic_end(struct periodic *periodic)
{
    pthread_mutex_lock(&periodic->lock);
    atomic_store(&periodic->stop, true);
    periodic_wake(periodic);
    pthread_mutex_unlock(&periodic->lock);
    if (periodic->running)
        pthread_join(periodic->thread, NULL);
    pthread_cond_destroy(&periodic->change);
    pthread_mutex_destroy(&periodic->lock);
}
