/* disk_pool.h - threads that read for whoever may not block. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_DISK_POOL_H
#define STORE_DISK_POOL_H

#include "store/disk.h"

/* Every user brings the same function. */
void disk_pool_enter(void (*run)(struct disk_read *read));
void disk_pool_leave(void);           /* with none of its reads under way */
void disk_pool_add(struct disk_read *read);    /* run() on a thread of the pool's */

#endif
