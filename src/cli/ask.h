/* ask.h - one GET to the running service. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_ASK_H
#define CLI_ASK_H

#include "cli/cli.h"

#define ASK_MS 2000u

struct answer {
    int status;         /* 0: there was no answer */
    slice body;
    slice why;          /* if status is 0: what went wrong */
    bool late;          /* if status is 0: there was no answer in time */
};
/* `token` is the value of the setting "admin_token", or empty. */
struct answer ask(struct arena *keep, slice address, slice path, slice token, unsigned ms);

/* Reads address and path from the URL of --url. If the URL has no path, *ret_path does not change.
 * If the URL is wrong, reports that and returns false. */
bool ask_url(const char *url, struct arena *keep, slice *ret_address, slice *ret_path) MUST_USE;

/* Returns an address at which this machine can reach a service whose setting "listen" is `address`.
 * A service that listens at every address listens at its loopback address, too. */
slice ask_reachable(struct arena *keep, slice address) MUST_USE;

#endif
