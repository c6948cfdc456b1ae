/* workers.h - a few threads that work off a queue. SPDX-License-Identifier: Apache-2.0
 *
 * For what would hold a loop: verifying bodies, writing them to a disk. First come, first served;
 * what takes long may do a part of it and take turns with the others. */
#ifndef BASE_WORKERS_H
#define BASE_WORKERS_H

#include "base/list.h"

struct workers;
#define WORKERS_MAX 8u
/* work(link) on any of `count` threads, called "name-0" and so on; false: there is more of it to do,
 * when the others had their turn. NULL: not so many threads could be had. */
struct workers *workers_new(unsigned count, const char *name,
                            bool (*work)(struct list *link)) MUST_USE;
void workers_put(struct workers *workers, struct list *link);    /* any thread */
void workers_free(struct workers **workers);    /* when the queue is empty; accepts an empty one */

#endif
