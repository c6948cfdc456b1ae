/* workers.h - threads that work off a queue. SPDX-License-Identifier: Apache-2.0
 *
 * For what would hold a loop: bodies that are verified, disks and mounts that may block. First come,
 * first served; long work does a part of itself and then takes turns with the rest. */
#ifndef BASE_WORKERS_H
#define BASE_WORKERS_H

#include "base/list.h"

struct workers;
#define WORKERS_MAX 64u
/* Threads "name-0", "name-1" and so on, `most` at most. One starts now, another whenever work waits
 * and no thread is idle. work(link) runs on any of them; false: it did a part, and the link goes to
 * the end of the queue. NULL: the system has not even one thread left. */
struct workers *workers_new(unsigned most, const char *name,
                            bool (*work)(struct list *link)) MUST_USE;
void workers_put(struct workers *workers, struct list *link);    /* any thread */
void workers_free(struct workers **workers);    /* works off the queue first; accepts an empty one */

#endif
