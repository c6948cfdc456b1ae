/* fills.h - the fill socket as a step of the service. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_FILLS_H
#define CLI_FILLS_H

#include "cli/serve.h"

enum err fills_up(struct serve *serve) MUST_USE;
void fills_down(struct serve *serve);
void fills_access_log(struct serve *serve, bool on);    /* while it is up */
/* Connections it may have, where the process may have so many descriptors; 0: there is none. */
unsigned fills_sessions(const struct config *config, uint64_t files);
/* Could it be had with these settings? *ret_why, in keep, or empty. */
bool fills_could(const struct config *config, struct arena *keep, slice *ret_why) MUST_USE;
/* Would it be made now? As local_look; OK where there is none. */
enum err fills_look(const struct config *config, struct arena *keep, slice *ret_why) MUST_USE;

#endif
