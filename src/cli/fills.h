/* fills.h - the fill socket as a step of the daemon. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_FILLS_H
#define CLI_FILLS_H

#include "cli/serve.h"

enum err fills_up(struct serve *serve) MUST_USE;
/* The limit of sessions in a process that may have `files` descriptors; 0: there is no socket. */
unsigned fills_sessions(const struct config *config, uint64_t files);
/* Are the settings of the socket right? If not, *ret_why says why, in keep. */
bool fills_could(const struct config *config, struct arena *keep, slice *ret_why) MUST_USE;
/* Could the socket be opened now? As local_look; OK without a socket. */
enum err fills_look(const struct config *config, struct arena *keep, slice *ret_why) MUST_USE;

#endif
