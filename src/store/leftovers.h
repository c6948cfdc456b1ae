/* leftovers.h - units that the index still has of removed and replaced versions of objects.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A removal deletes only the metadata of an object, so that its answer takes one short transaction.
 * The units are misses from then on (their ETag is not that of present metadata). They are queued
 * here, and deleted in small batches between commits. Otherwise they would count as live until
 * their extent is recycled. */
#ifndef STORE_LEFTOVERS_H
#define STORE_LEFTOVERS_H

#include "store/volume_inside.h"

/* Queues an object whose metadata was removed or replaced. If too many wait, the units stay until
 * their extent goes. Committer only. */
void leftovers_add(struct volume *volume, const struct object_id *id);
/* For a volume that may have stripes of the object, but not its metadata: all units that it has now
 * are left over. Any thread. */
void leftovers_add_stripes(struct volume *volume, const struct object_id *id);

bool leftovers_wait(struct volume *volume);    /* true if objects are queued; any thread */
/* For the committer: true if there is something to delete, and nothing more urgent to do. */
bool leftovers_are_due(struct volume *volume);
/* Deletes a batch. An error means that the index failed. */
enum err leftovers_step(struct volume *volume) MUST_USE;
/* Forgets the queue: the folder goes out of service. */
void leftovers_end(struct volume *volume);

#endif
