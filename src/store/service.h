/* service.h - takes a cache folder into service and out of it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_SERVICE_H
#define STORE_SERVICE_H

#include "store/volume_inside.h"

/* Tries once to take the folder into service. */
enum err service_begin(struct volume *volume, const char **ret_why) MUST_USE;
void service_end(struct volume *volume, const char *why);    /* `why` is static text */
void service_metrics(struct volume *volume);    /* any thread */
void service_gauges_end(struct volume *volume);    /* takes the volume out of all sums */
/* Returns the free bytes of the file system, or UINT64_MAX if they are not known. Without free
 * inodes, no byte counts as free. This and service_measure may hang with the file system, so only the committer calls them. */
uint64_t service_free_bytes(const struct volume *volume);
void service_measure(struct volume *volume);
/* Leaves a note in the folder, once while it is out of service: only this process knows the
 * removals that the folder missed. */
void service_note_doubt(struct volume *volume);
void *service_watch(void *volume);     /* a thread: if a disk hangs, answers removals, and wakes readers */

#endif
