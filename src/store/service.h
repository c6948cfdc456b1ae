/* service.h - a folder in and out of service. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_SERVICE_H
#define STORE_SERVICE_H

#include "store/inside.h"

/* One attempt to take the folder into service. */
enum err service_begin(struct store *store, const char **ret_why) MUST_USE;
void service_end(struct store *store, const char *why);    /* static text */
void service_metrics(struct store *store);
/* What the file system has left, UINT64_MAX if it does not say. Both may hang with it: the
 * committer's. */
uint64_t service_free_bytes(const struct store *store);
void service_measure(struct store *store);
/* Once, while the folder is out: our memory of what it did not see ends with us. */
void service_note_doubt(struct store *store);
void *service_watch(void *store);     /* a thread: answers for the committer when it is stuck */

#endif
