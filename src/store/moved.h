/* moved.h - entries that belong to another volume since the list of volumes changed.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_MOVED_H
#define STORE_MOVED_H

#include "store/volume_inside.h"

/* To be called when the folder was opened, before it serves. */
void moved_begin(struct volume *volume);
/* Deletes some of the entries. After the last ones, the format file takes the present list. Any
 * error means that the folder must go out of service. Committer only. */
enum err moved_step(struct volume *volume) MUST_USE;
/* Returns true if the record may be stored now. Under the lock of the queue; any thread. */
bool moved_may_append(const struct volume *volume, const struct store_append *append) MUST_USE;

#endif
