/* recycle.h - makes room: copies what is kept of an extent, and drops the extent.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_RECYCLE_H
#define STORE_RECYCLE_H

#include "store/volume_inside.h"

/* A copy of pinned records must regain at least this part of an extent. */
#define RECYCLE_GAIN 8u

/* The recycler's thread. It waits until the rule wants room (rule.h). It sweeps the stamps of all
 * extents once a tick. */
void *recycle_run(void *volume);
void recycle_stop(struct volume *volume);    /* the thread ends; the committer must still run */
/* To be called before the folder is closed. Returns when the recycler does not use it any more. */
void recycle_pause(struct volume *volume);
/* To be called when the folder was opened. */
void recycle_resume(struct volume *volume);

#endif
