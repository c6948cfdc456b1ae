/* workers.h - a pool of threads with a queue. SPDX-License-Identifier: Apache-2.0
 *
 * For work that would block a loop: checksums of bodies, reads of disks and mounts. The order is
 * first in, first out. Long work is done in parts and goes to the end of the queue after each
 * part. */
#ifndef BASE_WORKERS_H
#define BASE_WORKERS_H

#include "base/list.h"

struct workers;
#define WORKERS_MAX 64u
/* Starts a pool of at most `most` threads: "name-0", "name-1" and so on. One starts now, another
 * when work waits and no thread is idle. work(link) runs on any of them. False: a part is done, and
 * the link goes to the end of the queue. NULL: not even one thread could be started. */
struct workers *workers_new(unsigned most, const char *name,
                            bool (*work)(struct list *link)) MUST_USE;
void workers_put(struct workers *workers, struct list *link);    /* any thread */
void workers_free(struct workers **workers);    /* does all queued work first; accepts NULL */

#endif
