/* service.h - a folder in and out of service. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_SERVICE_H
#define STORE_SERVICE_H

#include "store/inside.h"

/* One attempt to take the folder into service. */
enum err service_begin(struct store *store, const char **ret_why) MUST_USE;
void service_end(struct store *store, const char *why);    /* static text */
void service_metrics(struct store *store);
/* Free bytes of the file system; UINT64_MAX: it does not tell. Both may hang with the file system,
 * so they are the committer's. */
uint64_t service_free_bytes(const struct store *store);
void service_measure(struct store *store);
/* Leaves a note in the folder, once while it is out of service: only this process knows the
 * removals that the folder missed. */
void service_note_doubt(struct store *store);
void *service_watch(void *store);     /* a thread: answers for a committer that is stuck */

#endif
