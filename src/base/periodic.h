/* periodic.h - a thread that does its work from time to time. SPDX-License-Identifier: Apache-2.0
 *
 * The owner embeds a struct periodic, and its thread looks like this:
 *
 *     pthread_mutex_lock(&periodic->lock);
 *     while (!atomic_load(&periodic->stop))
 *         if it is time: unlock, work, lock;  else periodic_wait(periodic, until_ns);
 *     pthread_mutex_unlock(&periodic->lock);
 *
 * Work that takes long polls `stop`. The lock may guard members of the owner, too. */
#ifndef BASE_PERIODIC_H
#define BASE_PERIODIC_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"

struct periodic {
    pthread_t thread;
    bool running;                   /* the thread was started */
    atomic_bool stop;               /* once set, it stays so */
    pthread_mutex_t lock;
    pthread_cond_t change;
};

void periodic_init(struct periodic *periodic);
/* Returns false if the thread could not be started. */
bool periodic_start(struct periodic *periodic, void *(*run)(void *arg), void *arg,
                    const char *name) MUST_USE;
/* The thread waits until the monotonic time until_ns, until periodic_wake or until the stop. Like
 * any wait for a condition, it may return early. Under the lock. */
void periodic_wait(struct periodic *periodic, uint64_t until_ns);
void periodic_wake(struct periodic *periodic);    /* under the lock */
/* Stops the thread, if it was started, and returns when it has ended. */
void periodic_end(struct periodic *periodic);

#endif
