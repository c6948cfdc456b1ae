/* ask.h - one GET to the running service. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_ASK_H
#define CLI_ASK_H

#include "cli/cli.h"

#define ASK_MS 2000u

struct answer {
    int status;         /* 0: there was no answer */
    slice body;
    slice why;          /* status 0: what went wrong */
    bool late;          /* status 0: the time was up */
};
/* token: admin_token, or empty. */
struct answer ask(struct arena *keep, slice address, slice path, slice token, unsigned ms);

/* The address in the URL of --url. The path stays as it is if the URL has none. False: the URL is
 * wrong, which was reported. */
bool ask_url(const char *url, struct arena *keep, slice *ret_address, slice *ret_path) MUST_USE;

#endif
