/* aimd.h - the number of connections that an origin takes without SlowDown.
 * SPDX-License-Identifier: Apache-2.0
 *
 * AIMD means: additive increase, multiplicative decrease. If an origin answers 503 or 429, it gets
 * too many requests at once, and the limit of connections halves. Then the limit grows by one at a
 * time, up to the setting. Time is an argument (rule H9 in src/README.md). */
#ifndef ORIGIN_AIMD_H
#define ORIGIN_AIMD_H

#include "base/slice.h"

/* The limit halves at most once in this time: all calls that are in progress get the same SlowDown,
 * and the effect of the smaller limit shows only in later answers. */
#define AIMD_SHRINK_MS 1000u
/* The limit grows from 0 to the setting in this time, if no SlowDown comes: with 64 connections, by
 * 3 a second. A faster growth costs more SlowDown, a slower one leaves connections unused after the
 * origin has room again. */
#define AIMD_GROW_MS 20000u

struct aimd {
    unsigned most, limit;           /* limit: from 1 to most */
    unsigned shrunk;                /* the limit after it halved last */
    uint64_t shrunk_ms;             /* when that was; 0: never */
};

void aimd_init(struct aimd *aimd, unsigned most);
/* The origin answered 503 or 429. Returns true if the limit is smaller now. */
bool aimd_shrink(struct aimd *aimd, uint64_t now_ms);
void aimd_grow(struct aimd *aimd, uint64_t now_ms);    /* as much as has become due */
void aimd_restore(struct aimd *aimd);                  /* sets the limit to `most` */

#endif
