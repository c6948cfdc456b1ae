/* credentials.c - finds the credentials for an origin. SPDX-License-Identifier: Apache-2.0
 *
 * This file has the table of sources, which are tried in order. Each source tells whether it is
 * configured at all. A key pair always comes from one source, with one exception: a secret in a
 * mounted file may go with an access key in the environment. AWS SDKs also support SSO and MFA.
 * Penstock does not, and its error messages say what to use instead. */
#include <stdio.h>

#include "base/json.h"
#include "origin/source.h"
#include "s3/encode.h"

slice seek_env(const struct seek *seek, const char *name)
{
    return slice_of(seek->ask->env(name));
}

slice seek_profile(const struct seek *seek, const char *name)
{
    return aws_files_value(&seek->files, seek->profile, slice_of(name));
}

enum err seek_fail(struct seek *seek, enum err err, const char *fmt, ...)
{
    char text[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    seek->why = arena_copy(seek->keep, slice_of(text));
    return err;
}

enum err seek_lent(struct seek *seek, slice expires, struct credentials *ret)
{
    check(ret->from.len > 0);
    ret->kind = CREDENTIALS_LENT;
    ret->expires_s = expires.len ? iso_date_read(expires) : 0;
    if (!slice_trim(ret->access_key).len || !slice_trim(ret->secret_key).len)
        return seek_fail(seek, ERR_FORMAT, "%.*s gave no access key or no secret key: "
                         "check this source", SLICE_ARG(ret->from));
    if (ret->expires_s < 0)
        return seek_fail(seek, ERR_FORMAT, "%.*s gave credentials that expire at \"%.*s\", which "
                         "is not a valid time: this source must give a time such as "
                         "2026-01-31T12:00:00Z", SLICE_ARG(ret->from),
                         SLICE_ARG(slice_sub(expires, 0, 80)));
    if (ret->expires_s && ret->expires_s <= seek->ask->now_s && !ret->outlasts)
        return seek_fail(seek, ERR_EXPIRED, "%.*s gave credentials that expired at %.*s: check "
                         "this source, and this machine's clock", SLICE_ARG(ret->from),
                         SLICE_ARG(expires));
    return OK;
}

enum err seek_read_json(struct seek *seek, slice document, const char *token_name,
                        struct credentials *ret)
{
    slice expires;
    const struct json_want wants[] = {
        { "AccessKeyId", &ret->access_key }, { "SecretAccessKey", &ret->secret_key },
        { token_name, &ret->session_token }, { "Expiration", &expires },
    };
    if (json_read_members(seek->keep, document, wants, countof(wants)))
        return seek_fail(seek, ERR_FORMAT, "%.*s did not give credentials in JSON: check this "
                         "source", SLICE_ARG(ret->from));
    return seek_lent(seek, expires, ret);
}

/* ---- keys in settings, environment and files ---- */

static bool is_bare(slice text)    /* no space at either end */
{
    return slice_trim(text).len == text.len;
}

/* Checks a key pair. Returns ERR_NOT_FOUND if both keys are missing. Returns ERR_BAD_ARGUMENT if
 * only one key is missing, or if a key or the session token begins or ends with a space. The
 * message uses `access_name` and `secret_name`. */
static enum err settle(struct seek *seek, struct credentials *ret, const char *access_name,
                       const char *secret_name)
{
    bool half = ret->access_key.len > 0, in_file = slice_starts(ret->from, S("profile"));
    if (!ret->access_key.len && !ret->secret_key.len)
        return ERR_NOT_FOUND;
    if (!is_bare(ret->access_key) || !is_bare(ret->secret_key))
        return seek_fail(seek, ERR_BAD_ARGUMENT, "%s begins or ends with a space: remove the space",
                         is_bare(ret->access_key) ? secret_name : access_name);
    if (!is_bare(ret->session_token))
        return seek_fail(seek, ERR_BAD_ARGUMENT, "%s begins or ends with a space: remove the space",
                         in_file ? "aws_session_token" : "AWS_SESSION_TOKEN");
    if (half && ret->secret_key.len)
        return OK;
    return seek_fail(seek, ERR_BAD_ARGUMENT, "%s is set and %s is not: set both%s%.*s",
                     half ? access_name : secret_name, half ? secret_name : access_name,
                     in_file ? " in " : "", SLICE_ARG(in_file ? ret->from : S("")));
}

/* Sets *ret to the first line of the file at `path`. An orchestrator mounts such files, and may
 * rewrite them. If `path` is empty, *ret does not change. `name` is the setting or variable that
 * has the path. */
static enum err from_file(struct seek *seek, const char *name, slice path, slice *ret)
{
    slice text;
    if (!path.len)
        return OK;
    if (aws_file_read(seek->keep, path, &text, &seek->why))
        return seek_fail(seek, ERR_IO, "%s: %.*s", name, SLICE_ARG(seek->why));
    *ret = slice_trim(slice_without_line_end(slice_cut(&text, '\n')));
    if (!ret->len)
        return seek_fail(seek, ERR_BAD_ARGUMENT, "the first line of %.*s is empty: write the key "
                         "or token for the origin into this line", SLICE_ARG(path));
    return OK;
}

static enum err source_settings(struct seek *seek, struct credentials *ret)
{
    const struct credentials_ask *ask = seek->ask;
    ret->from = S("settings");
    ret->access_key = ask->access_key;
    ret->secret_key = ask->secret_key;
    ret->session_token = ask->session_token;
    if (ask->secret_key_file.len || ask->session_token_file.len)
        ret->kind = CREDENTIALS_IN_FILES;
    enum err e = from_file(seek, "origin_secret_key_file", ask->secret_key_file,
                           &ret->secret_key);
    if (!e)
        e = from_file(seek, "origin_session_token_file", ask->session_token_file,
                      &ret->session_token);
    return e ? e : settle(seek, ret, "the access key", "the secret key");
}

enum err source_env(struct seek *seek, struct credentials *ret)
{
    ret->from = S("env AWS_ACCESS_KEY_ID");
    ret->access_key = seek_env(seek, "AWS_ACCESS_KEY_ID");
    ret->secret_key = seek_env(seek, "AWS_SECRET_ACCESS_KEY");
    ret->session_token = seek_env(seek, "AWS_SESSION_TOKEN");
    return settle(seek, ret, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
}

/* Reads keys from files that an orchestrator mounts. The orchestrator writes the files anew when
 * the keys change. */
static enum err source_mounted(struct seek *seek, struct credentials *ret)
{
    const struct {
        const char *name;
        slice *to;
    } files[] = {
        { "AWS_ACCESS_KEY_ID_FILE", &ret->access_key },
        { "AWS_SECRET_ACCESS_KEY_FILE", &ret->secret_key },
        { "AWS_SESSION_TOKEN_FILE", &ret->session_token },
    };
    if (!seek_env(seek, files[0].name).len && !seek_env(seek, files[1].name).len)
        return ERR_NOT_FOUND;
    ret->from = seek_env(seek, files[0].name).len ? S("env AWS_ACCESS_KEY_ID_FILE")
                                                  : S("env AWS_SECRET_ACCESS_KEY_FILE");
    ret->kind = CREDENTIALS_IN_FILES;
    ret->access_key = seek_env(seek, "AWS_ACCESS_KEY_ID");
    enum err e;
    for (size_t i = 0; i < countof(files); i++)
        if ((e = from_file(seek, files[i].name, seek_env(seek, files[i].name), files[i].to)))
            return e;
    return settle(seek, ret, files[0].name, files[1].name);
}

enum err source_profile(struct seek *seek, struct credentials *ret)
{
    ret->from = arena_printf(seek->keep, "profile %.*s", SLICE_ARG(seek->profile));
    ret->kind = CREDENTIALS_IN_FILES;
    ret->access_key = seek_profile(seek, "aws_access_key_id");
    ret->secret_key = seek_profile(seek, "aws_secret_access_key");
    ret->session_token = seek_profile(seek, "aws_session_token");
    return settle(seek, ret, "aws_access_key_id", "aws_secret_access_key");
}

/* ---- the order of the sources ---- */

static const struct {
    enum err (*find)(struct seek *seek, struct credentials *ret);
    bool is_env;    /* skip this source if the settings name a profile */
} sources[] = {
    { source_settings, false },
    { source_mounted, true },    /* before source_env, which refuses an access key alone */
    { source_env, true },
    { source_role, false },
    { source_web_identity, false },
    { source_profile, false },
    { source_process, false },
    { source_container, true },
    { source_instance, true },
};

static void find_region(struct seek *seek)
{
    const slice places[] = { seek->ask->region, seek_env(seek, "AWS_REGION"),
                             seek_env(seek, "AWS_DEFAULT_REGION"), seek_profile(seek, "region") };
    for (size_t i = 0; i < countof(places) && !seek->region.len; i++)
        seek->region = places[i];
}

static enum err nowhere(struct seek *seek)
{
    if (seek_profile(seek, "sso_start_url").len || seek_profile(seek, "sso_session").len)
        return seek_fail(seek, ERR_NOT_FOUND, "profile '%.*s' uses SSO, which Penstock does not "
                         "support. Make a second profile with the line \"credential_process = aws "
                         "configure export-credentials --profile %.*s --format process\". Then "
                         "name the second profile in the setting aws_profile, in the member "
                         "'profile' of an entry of origins, or in the environment variable "
                         "AWS_PROFILE",
                         SLICE_ARG(seek->profile), SLICE_ARG(seek->profile));
    if (seek->ask->profile.len)
        return seek_fail(seek, ERR_NOT_FOUND, "profile '%.*s' has no credentials: give it an "
                         "aws_access_key_id, a role or a credential_process. While the setting "
                         "aws_profile (in origins: profile) names a profile, Penstock uses "
                         "neither the environment nor the role of a container or instance",
                         SLICE_ARG(seek->profile));
    return seek_fail(seek, ERR_NOT_FOUND, "there are no credentials%s. Do one of three things: (1) "
                     "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment; (2) give "
                     "profile '%.*s' an aws_access_key_id, a role or a credential_process; (3) set "
                     "keys in the settings: access_key for clients, origin_access_key for origins",
                     seek->ask->may_lend ? ", and no role of a container or instance" : "",
                     SLICE_ARG(seek->profile));
}

static enum err walk(struct seek *seek, struct credentials *ret)
{
    for (unsigned i = 0; i < countof(sources); i++) {
        if (seek->ask->source != CREDENTIALS_ANY && seek->ask->source != i + 1)
            continue;
        if (sources[i].is_env && seek->ask->profile.len)
            continue;
        *ret = (struct credentials){ .source = i + 1 };
        enum err e = sources[i].find(seek, ret);
        if (e != ERR_NOT_FOUND)
            return e;
    }
    *ret = (struct credentials){ 0 };
    return nowhere(seek);
}

enum err credentials_find(struct arena *keep, const struct credentials_ask *ask,
                          struct credentials *ret, slice *ret_why)
{
    struct seek seek = { .keep = keep, .ask = ask, .profile = ask->profile };
    if (!seek.profile.len)
        seek.profile = slice_of(ask->env("AWS_PROFILE"));
    if (!seek.profile.len)
        seek.profile = S("default");
    slice unread = S("");
    enum err files = aws_files_read(keep, ask->env, &seek.files, &unread);
    find_region(&seek);
    enum err e = walk(&seek, ret);
    if (e == ERR_NOT_FOUND && files) {    /* the credentials may be in the unreadable file */
        e = files;
        seek.why = unread;
    }
    ret->access_key = arena_copy(keep, ret->access_key);
    ret->secret_key = arena_copy(keep, ret->secret_key);
    ret->session_token = arena_copy(keep, ret->session_token);
    ret->region = arena_copy(keep, seek.region);
    check(e || !ask->may_lend || (ret->access_key.len && ret->secret_key.len));
    if (e)
        *ret_why = seek.why;
    return e;
}
