/* fills.h - the fill socket as a step of the daemon. SPDX-License-Identifier: Apache-2.0
 *
 * Through the fill socket, a Unix socket, Penstock reads objects into memory of local processes. */
#ifndef CLI_FILLS_H
#define CLI_FILLS_H

#include "cli/serve.h"

enum err fills_up(struct serve *serve) MUST_USE;
/* The limit of sessions in a process that may have `files` descriptors; 0: there is no socket. */
unsigned fills_sessions(const struct config *config, uint64_t files);
/* Returns true if the settings of the socket are right. If not, *ret_why, in keep, says why. */
bool fills_could(const struct config *config, struct arena *keep, slice *ret_why) MUST_USE;
/* Returns OK if the socket could be opened now, or if there is no socket; otherwise an error of
 * local_look. */
enum err fills_look(const struct config *config, struct arena *keep, slice *ret_why) MUST_USE;

#endif
