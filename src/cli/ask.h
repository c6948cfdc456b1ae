/* ask.h - one GET to the running service. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_ASK_H
#define CLI_ASK_H

#include "cli/cli.h"

#define ASK_MS 2000u

struct answer {
    int status;
    slice body;
    const char *why;    /* status 0: what went wrong */
    bool reached;       /* somebody listens there */
};
/* token: admin_token, or empty. */
struct answer ask(struct arena *keep, slice address, slice path, slice token, unsigned ms);

/* Where --url leads; the path stays as it is if the URL has none. False: that was said. */
bool ask_url(const char *url, struct arena *keep, slice *ret_address, slice *ret_path) MUST_USE;
/* Mistakes elsewhere don't make the service unhealthy; a flag that is none is a mistake here. */
bool ask_flags_are_good(struct cli *cli, const struct config *config) MUST_USE;

#endif
