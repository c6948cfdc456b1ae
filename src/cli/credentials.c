/* credentials.c - the keys of clients, and the credentials of Penstock at an origin.
 * SPDX-License-Identifier: Apache-2.0
 *
 * origin/credentials.h searches in the order of the SDKs. serve, check and config all use the
 * functions below, so they find the same credentials. */
#include "cli/credentials.h"

#include <stdlib.h>

#include "base/clock.h"

static const char *environment(const char *name)
{
    return getenv(name);
}

/* `so` says in a message why temporary credentials won't do. */
static enum err find_fixed(slice profile, const char *so, struct arena *keep,
                           struct credentials *ret, slice *ret_why)
{
    struct credentials_ask ask = { .profile = profile, .env = environment, .now_s = wall_s() };
    enum err err = credentials_find(keep, &ask, ret, ret_why);
    if (err || ret->kind != CREDENTIALS_LENT)
        return err;
    *ret_why = arena_printf(keep, "only temporary credentials were found (from: %.*s), and %s",
                            SLICE_ARG(ret->from), so);
    return ERR_NOT_FOUND;
}

enum err credentials_of_clients(const struct config *config, struct arena *keep,
                                struct credentials *ret, slice *ret_why)
{
    check(config->key_count == 0);
    enum err err = find_fixed(slice_of(config->aws_profile),
                              "clients can't sign with them: set access_key and secret_key",
                              keep, ret, ret_why);
    if (err)
        *ret_why = arena_printf(keep, "clients have no key to sign with (access_key and "
                                "secret_key are not set): %.*s", SLICE_ARG(*ret_why));
    return err;
}

enum err credentials_of_caller(const struct config *config, struct arena *keep,
                               struct credentials *ret, slice *ret_why)
{
    return find_fixed(config->aws_in_env ? S("") : slice_of(config->aws_profile),
                      "this command can't sign with them", keep, ret, ret_why);
}

bool credentials_may_lack(const struct config *config, const struct config_origin *origin)
{
    const struct config_key *key;
    return !config_shares_identity(config, &key) && !origin->profile[0];
}

bool credentials_are_needed(const struct config_origin *origin)
{
    return origin->kind && origin->kind->knows_identities;
}

static slice secret_file(const struct config_origin *origin, slice row)
{
    return slice_of(origin->where[setting_at(SCOPE_ORIGIN, row)].secret_file);
}

enum err credentials_at_origin(const struct config_origin *origin, bool may_lend,
                               struct arena *keep, struct credentials *ret, slice *ret_why)
{
    struct credentials_ask ask = {
        .access_key = slice_of(origin->access_key), .secret_key = slice_of(origin->secret_key),
        .session_token = slice_of(origin->session_token), .region = slice_of(origin->region),
        .profile = slice_of(origin->profile), .env = environment,
        .secret_key_file = secret_file(origin, S("secret_key")),
        .session_token_file = secret_file(origin, S("session_token")),
        .may_lend = may_lend, .now_s = wall_s(),
    };
    enum err err = credentials_find(keep, &ask, ret, ret_why);
    if (err)
        *ret_why = arena_printf(keep, "Penstock has no credentials for origin %s: %.*s",
                                origin->name, SLICE_ARG(*ret_why));
    return err;
}
