/* beside.h - a transaction of the index between two commits. SPDX-License-Identifier: Apache-2.0
 *
 * For work without a client that waits: batches of relocations, and units of removed objects.
 * Removals in the queue go into the same transaction, so the work delays them by one batch at most.
 * Committer only. */
#ifndef STORE_BESIDE_H
#define STORE_BESIDE_H

#include "store/volume_inside.h"

/* Changes the index. It may run at most a thousand changes. */
typedef enum err beside_publish(struct volume *volume, void *arg);
/* Begins a transaction, calls `publish`, and commits. Then calls `settle`, unless it is NULL, and
 * answers the removals. After an error nothing has changed. */
enum err beside_commit(struct volume *volume, beside_publish *publish,
                       void (*settle)(struct volume *volume, void *arg), void *arg) MUST_USE;

#endif
