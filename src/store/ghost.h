/* ghost.h - runs of touches of records that were refused. SPDX-License-Identifier: Apache-2.0
 *
 * A record is hot if it was touched several times in short order, though each time it was refused.
 * The ghost counts these runs. Under the caller's lock. */
#ifndef STORE_GHOST_H
#define STORE_GHOST_H

#include "base/base.h"

struct ghost {
    void *memory;
    uint32_t *entries;                /* WAYS to a bucket, in line with the cache lines */
    uint64_t buckets;
};

/* Makes room for twice as many runs as the cache can hold records. */
void ghost_open(struct ghost *ghost, uint64_t records);
void ghost_close(struct ghost *ghost);
uint64_t ghost_bytes(uint64_t records) MUST_USE;
/* Counts a touch of a refused record. Returns true if it is hot now; its run ends with that. */
bool ghost_touch(struct ghost *ghost, uint64_t hash, uint8_t tick);

#endif
