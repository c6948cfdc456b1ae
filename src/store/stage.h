/* stage.h - room for records that are fetched ahead of their readers.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_STAGE_H
#define STORE_STAGE_H

#include "store/volume_inside.h"

/* Sets the bytes of this volume that jobs keep ahead of readers; 0: there is no such job. Any
 * thread. */
void stage_want(struct volume *volume, uint64_t bytes);
/* Returns the bytes that staging extents may take together; 0: none are made now. Any thread. */
uint64_t stage_share(const struct volume *volume) MUST_USE;
/* True if a record may be staged now. Any thread. */
bool stage_takes(struct volume *volume) MUST_USE;

/* A quota had no room for a record that is fetched ahead of its reader: extents that readers have
 * passed go soon. Any thread. */
void stage_over_quota(struct volume *volume);

/* ---- for the committer ---- */

/* Seals the open staging extent, if there is one, and begins another. If its share or the volume is
 * full, evicts an extent before. Returns OK; ERR_FULL if there is no room; or an error of the
 * index. */
enum err stage_next_extent(struct volume *volume) MUST_USE;
/* True if staging extents are there that no reader needs: those of an earlier opening; all if no
 * job has kept records ahead of readers for a while; and after stage_over_quota those that readers
 * have passed. Never in the turn after stage_step. */
bool stage_is_due(struct volume *volume) MUST_USE;
/* Evicts some of them. Errors: as room_evict. */
enum err stage_step(struct volume *volume) MUST_USE;

#endif
