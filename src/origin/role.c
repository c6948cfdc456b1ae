/* role.c - temporary credentials from AWS STS. SPDX-License-Identifier: Apache-2.0
 *
 * AssumeRole is signed with other credentials: those of source_profile, or of the source that
 * credential_source names. AssumeRoleWithWebIdentity is unsigned, and sends a token from a file
 * that an orchestrator mounts. The token file is read again for each request. */
#include <assert.h>

#include "origin/source.h"
#include "origin/web.h"
#include "s3/checksum.h"
#include "s3/encode.h"
#include "s3/sigv4.h"
#include "s3/xml.h"

#define STS_TIME_MS 10000u
#define DEPTH_MAX 4

static slice endpoint(const struct seek *seek)
{
    slice set = seek_env(seek, "AWS_ENDPOINT_URL_STS");
    if (set.len)
        return set;
    if (!seek->region.len)
        return S("https://sts.amazonaws.com");
    return arena_printf(seek->keep, "https://sts.%.*s.amazonaws.com%s", SLICE_ARG(seek->region),
                        slice_starts(seek->region, S("cn-")) ? ".cn" : "");
}

static void add(struct text *form, const char *name, slice value)
{
    if (!value.len)
        return;
    text_printf(form, "%s%s=", form->len ? "&" : "", name);
    uri_encode(form, value, true);
}

/* Returns the value of an environment variable, or else of a member of the profile. The variable is
 * ignored in two cases: the settings name a profile, or the search is in a source_profile. */
static slice setting(const struct seek *seek, const char *variable, const char *member)
{
    slice set = seek->ask->profile.len || seek->depth ? S("") : seek_env(seek, variable);
    return set.len ? set : seek_profile(seek, member);
}

static slice session_name(const struct seek *seek)
{
    slice set = setting(seek, "AWS_ROLE_SESSION_NAME", "role_session_name");
    return set.len ? set : arena_printf(seek->keep, "penstock-%lld", (long long)seek->ask->now_s);
}

static struct text form_of(const struct seek *seek, const char *action, slice role)
{
    struct text form = text_in(seek->keep);
    add(&form, "Action", slice_of(action));
    add(&form, "Version", S("2011-06-15"));
    add(&form, "RoleArn", role);
    add(&form, "RoleSessionName", session_name(seek));
    add(&form, "DurationSeconds", seek_profile(seek, "duration_seconds"));
    return form;
}

static slice sha256_hex(struct arena *keep, slice bytes)
{
    uint8_t digest[CHECKSUM_BYTES_MAX];
    char hex[64];
    checksum_of(CHECKSUM_SHA256, bytes, digest);
    hex_write(digest, sizeof(hex) / 2, hex);
    return arena_copy(keep, (slice){ hex, sizeof(hex) });
}

#define FIELDS_MAX 6
static_assert(FIELDS_MAX >= 2 + countof(((struct sigv4_signed *)NULL)->fields),
              "Host and Content-Type fit, too");
static const struct http_field form_type = { { "Content-Type", 12 },
                                             { "application/x-www-form-urlencoded", 33 } };

/* Signs a request and returns the number of its fields. */
static size_t sign(const struct seek *seek, const struct credentials *with, slice url, slice body,
                   struct http_field fields[FIELDS_MAX])
{
    slice host = url;
    for (int i = 0; i < 2; i++)
        slice_cut(&host, '/');
    size_t count = 0;
    fields[count++] = (struct http_field){ S("Host"), slice_cut(&host, '/') };
    fields[count++] = form_type;
    const struct sigv4_ask ask = {
        .method = S("POST"), .path = S("/"), .query = S(""), .fields = fields,
        .field_count = count, .payload_hash = sha256_hex(seek->keep, body),
        .region = seek->region.len ? seek->region : S("us-east-1"), .service = S("sts"),
        .now_s = seek->ask->now_s,
    };
    const struct sigv4_credentials keys = { with->access_key, with->secret_key,
                                            with->session_token };
    struct sigv4 *sigv4 = sigv4_new();
    struct sigv4_signed added;
    sigv4_sign(sigv4, seek->keep, &ask, &keys, &added);
    sigv4_free(&sigv4);
    for (size_t i = 0; i < added.field_count; i++)
        fields[count++] = added.fields[i];
    return count;
}

static enum err refused(struct seek *seek, slice from, const struct web_reply *reply)
{
    slice code = S(""), message = S("");
    if (xml_read_error(seek->keep, reply->body, &code, &message))
        code = message = S("");
    return seek_fail(seek, ERR_DENIED, "%.*s: STS answered %d %.*s %.*s; check the role, its "
                     "trust policy, and the credentials or token with which it is assumed",
                     SLICE_ARG(from), reply->status,
                     SLICE_ARG(slice_sub(code, 0, 80)), SLICE_ARG(slice_sub(message, 0, 300)));
}

/* Sends a request to STS. If `with` is NULL, the request is unsigned. */
static enum err ask_sts(struct seek *seek, slice body, const struct credentials *with,
                        struct credentials *ret)
{
    struct http_field fields[FIELDS_MAX] = { form_type };
    slice url = endpoint(seek);
    while (slice_ends(url, S("/")))
        url.len--;
    size_t count = with ? sign(seek, with, url, body, fields) : 1;
    const struct web_ask ask = {
        .method = "POST", .url = url, .fields = fields, .field_count = count, .body = body,
        .ca_file = seek->ask->env("AWS_CA_BUNDLE"), .time_ms = STS_TIME_MS,
        .stop = seek->ask->stop,
    };
    struct web_reply reply;
    slice why;
    enum err e = web_get(&ask, seek->keep, &reply, &why);
    if (e)
        return seek_fail(seek, e, "%.*s: the request to %.*s failed: %.*s. Check this URL "
                         "(AWS_ENDPOINT_URL_STS, region), and the network", SLICE_ARG(ret->from),
                         SLICE_ARG(url), SLICE_ARG(why));
    if (reply.status != 200)
        return refused(seek, ret->from, &reply);
    struct lent lent;
    if (xml_read_lent(seek->keep, reply.body, &lent))
        return seek_fail(seek, ERR_FORMAT, "%.*s: the answer of %.*s has no credentials: check "
                         "that this URL is an endpoint of STS", SLICE_ARG(ret->from),
                         SLICE_ARG(url));
    ret->access_key = lent.access_key;
    ret->secret_key = lent.secret_key;
    ret->session_token = lent.session_token;
    return seek_lent(seek, lent.expires, ret);
}

/* ---- AssumeRole ---- */

static enum err lender_source(struct seek *seek, slice name, struct credentials *ret)
{
    if (slice_eq(name, S("Environment")))
        return source_env(seek, ret);
    if (slice_eq(name, S("EcsContainer")))
        return source_container(seek, ret);
    if (slice_eq(name, S("Ec2InstanceMetadata")))
        return source_instance(seek, ret);
    return seek_fail(seek, ERR_BAD_ARGUMENT, "profile %.*s: credential_source must be Environment, "
                     "EcsContainer or Ec2InstanceMetadata", SLICE_ARG(seek->profile));
}

static enum err lender_profile(struct seek *seek, slice name, struct credentials *ret)
{
    struct seek lender = *seek;
    lender.profile = name;
    lender.depth++;
    if (lender.depth > DEPTH_MAX)
        return seek_fail(seek, ERR_BAD_ARGUMENT, "profile %.*s: the chain of source_profile is a "
                         "circle, or has more than %d source profiles: shorten the chain",
                         SLICE_ARG(name), DEPTH_MAX);
    static enum err (*const ways[])(struct seek *seek, struct credentials *ret) = {
        source_role, source_web_identity, source_profile, source_process,
    };
    enum err e = ERR_NOT_FOUND;
    /* A profile that names itself as its source assumes the role with its own keys. */
    for (size_t i = slice_eq(name, seek->profile) ? 2 : 0; i < countof(ways); i++) {
        *ret = (struct credentials){ 0 };
        e = ways[i](&lender, ret);
        if (e != ERR_NOT_FOUND)
            break;
    }
    seek->why = lender.why;
    return e;
}

enum err source_role(struct seek *seek, struct credentials *ret)
{
    slice role = seek_profile(seek, "role_arn"), source = seek_profile(seek, "credential_source");
    slice profile = seek_profile(seek, "source_profile");
    if (!role.len || (!source.len && !profile.len))
        return ERR_NOT_FOUND;
    slice from = arena_printf(seek->keep, "role %.*s of profile %.*s", SLICE_ARG(role),
                              SLICE_ARG(seek->profile));
    ret->from = from;
    ret->kind = CREDENTIALS_LENT;
    if (seek_profile(seek, "mfa_serial").len)
        return seek_fail(seek, ERR_BAD_ARGUMENT, "%.*s needs an MFA code (mfa_serial), which a "
                         "service can't enter: use a role without MFA", SLICE_ARG(from));
    if (!seek->ask->may_lend)
        return OK;
    struct credentials lender = { 0 };
    enum err e = profile.len ? lender_profile(seek, profile, &lender)
                             : lender_source(seek, source, &lender);
    if (e == ERR_NOT_FOUND)
        return seek_fail(seek, ERR_BAD_ARGUMENT, "%.*s can't be assumed, since %s %.*s has no "
                         "credentials: add credentials to this source, or name another",
                         SLICE_ARG(from), profile.len ? "source_profile" : "credential_source",
                         SLICE_ARG(profile.len ? profile : source));
    if (e)
        return e;
    struct text form = form_of(seek, "AssumeRole", role);
    add(&form, "ExternalId", seek_profile(seek, "external_id"));
    return ask_sts(seek, text_slice(&form), &lender, ret);
}

/* ---- AssumeRoleWithWebIdentity ---- */

enum err source_web_identity(struct seek *seek, struct credentials *ret)
{
    slice role = setting(seek, "AWS_ROLE_ARN", "role_arn"), token;
    slice path = setting(seek, "AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file");
    if (!path.len)
        return ERR_NOT_FOUND;
    ret->from = arena_printf(seek->keep, "role %.*s by the token in %.*s", SLICE_ARG(role),
                             SLICE_ARG(path));
    ret->kind = CREDENTIALS_LENT;
    bool from_profile = seek->ask->profile.len || seek->depth ||
                        !seek_env(seek, "AWS_WEB_IDENTITY_TOKEN_FILE").len;
    if (!role.len && from_profile)
        return seek_fail(seek, ERR_BAD_ARGUMENT, "profile %.*s has web_identity_token_file, and no "
                         "role_arn: add role_arn to the profile", SLICE_ARG(seek->profile));
    if (!role.len)
        return seek_fail(seek, ERR_BAD_ARGUMENT, "AWS_WEB_IDENTITY_TOKEN_FILE is set, and "
                         "AWS_ROLE_ARN is not: set AWS_ROLE_ARN, too");
    if (!seek->ask->may_lend)
        return OK;
    if (aws_file_read(seek->keep, path, &token, &seek->why))
        return seek_fail(seek, ERR_IO, "%s: %.*s", from_profile
                         ? "web_identity_token_file of the profile"
                         : "AWS_WEB_IDENTITY_TOKEN_FILE", SLICE_ARG(seek->why));
    token = slice_without_line_end(token);
    if (!slice_trim(token).len)
        return seek_fail(seek, ERR_IO, "the file of the web identity's token, %.*s, is empty: "
                         "check the program that writes this file", SLICE_ARG(path));
    struct text form = form_of(seek, "AssumeRoleWithWebIdentity", role);
    add(&form, "WebIdentityToken", token);
    return ask_sts(seek, text_slice(&form), NULL, ret);
}
