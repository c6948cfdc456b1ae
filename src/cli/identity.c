/* identity.c - whose keys clients sign with, and whose Penstock signs with to an origin.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Settings first, then the environment, then a profile: origin/credentials.h looks. What serve
 * starts with, check checks and config shows comes from here, so that the three agree. */
#include "cli/identity.h"

#include <stdlib.h>

static const char *environment(const char *name)
{
    return getenv(name);
}

enum err identity_of_clients(const struct config *config, struct arena *keep,
                             struct credentials *ret, slice *ret_why)
{
    struct credentials_ask ask = {
        .profile = slice_of(config->aws_profile), .env = environment
    };
    enum err err = credentials_find(keep, &ask, ret, ret_why);
    if (err)
        *ret_why = arena_printf(keep, "clients have no key to sign with (access_key, secret_key): "
                                "%.*s", SLICE_ARG(*ret_why));
    return err;
}

bool identity_is_needed(const struct config_origin *origin)
{
    return slice_starts(slice_of(origin->url), S("http"));
}

enum err identity_at_origin(const struct config_origin *origin, struct arena *keep,
                            struct credentials *ret, slice *ret_why)
{
    struct credentials_ask ask = {
        .access_key = slice_of(origin->access_key), .secret_key = slice_of(origin->secret_key),
        .session_token = slice_of(origin->session_token), .region = slice_of(origin->region),
        .profile = slice_of(origin->profile), .env = environment,
    };
    enum err err = credentials_find(keep, &ask, ret, ret_why);
    if (err)
        *ret_why = arena_printf(keep, "origin %s can't be asked: %.*s", origin->name,
                                SLICE_ARG(*ret_why));
    return err;
}
