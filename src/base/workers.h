/* workers.h - a pool of threads with a queue. SPDX-License-Identifier: Apache-2.0
 *
 * A pool does work that would block a loop, such as checksums of bodies, or reads of disks. Each
 * piece of work has a link in the queue, which is first in, first out. Long work is done in parts;
 * after each part the link goes to the end of the queue. */
#ifndef BASE_WORKERS_H
#define BASE_WORKERS_H

#include "base/list.h"

struct workers;
#define WORKERS_MAX 64u
/* Starts a pool of at most `most` threads, named "name-0", "name-1" and so on. One thread starts
 * now, and another whenever work waits and no thread is idle. Any thread of the pool calls
 * work(link). If work returns false, one part is done, and the link goes to the end of the queue.
 * workers_new returns NULL if not even one thread could be started. */
struct workers *workers_new(unsigned most, const char *name,
                            bool (*work)(struct list *link)) MUST_USE;
void workers_put(struct workers *workers, struct list *link);    /* any thread */
void workers_free(struct workers **workers);    /* does all queued work first; accepts NULL */

#endif
