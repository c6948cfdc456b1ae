/* credentials.h - whose name an origin is asked in. SPDX-License-Identifier: Apache-2.0
 *
 * Settings, then the environment, then a profile of the AWS files: the first that names an access
 * key gives all of it. The region is looked for in the same places, on its own. Reads files: at
 * start only. */
#ifndef ORIGIN_CREDENTIALS_H
#define ORIGIN_CREDENTIALS_H

#include "base/arena.h"

struct credentials {
    slice access_key, secret_key, session_token, region;    /* token, region: may be empty */
    slice from;    /* where the keys were found: "env AWS_ACCESS_KEY_ID", "profile NAME" */
};

struct credentials_ask {
    slice access_key, secret_key, session_token, region, profile;    /* settings; empty: not set */
    const char *(*env)(const char *name);    /* getenv, or a test's */
};

/* ERR_NOT_FOUND (nowhere any), ERR_BAD_ARGUMENT (half a pair) or ERR_IO, with a sentence. */
enum err credentials_find(struct arena *keep, const struct credentials_ask *ask,
                          struct credentials *ret, slice *ret_why) MUST_USE;

#endif
