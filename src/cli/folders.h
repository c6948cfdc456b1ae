/* folders.h - the cache folders of the daemon. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_FOLDERS_H
#define CLI_FOLDERS_H

#include "cli/serve.h"

enum err folders_up(struct serve *serve) MUST_USE;
void folders_down(struct serve *serve);
/* Logs the folders that went out of service or came back, grew, or lack room. The store itself does
 * not log. */
void folders_watch(struct serve *serve);
/* http_body_limits.spill_folder: chooses the folder for a request body. */
const char *folders_spill(void *serve, const char *in, uint64_t bytes);
void folders_expose(void *serve, struct text *to);    /* adds the metrics of each folder */
void folders_tell(struct serve *serve, struct arena *keep, struct status_document *to);

#endif
