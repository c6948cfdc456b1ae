/* metadata.c - credentials of the container or instance in which Penstock runs.
 * SPDX-License-Identifier: Apache-2.0
 *
 * In a container (ECS, EKS Pod Identity, Greengrass), the URL of the credentials is in the
 * environment. The same is true if another Penstock lends its credentials (at /_/credentials). On
 * an instance, the address of the metadata service is 169.254.169.254, unless the environment gives
 * another address. A PUT gets a token, then two GETs read the role's name and its credentials
 * (IMDSv2). The packet with the token may take only one network hop, so a container on an instance
 * may not get it. If the service that renews an instance's credentials fails, AWS accepts the old
 * ones after their expiry. So Penstock uses them until the origin refuses them, as the SDKs do
 * ("static stability"). */

#include "base/json.h"
#include "base/url_kind.h"
#include "origin/source.h"
#include "origin/web.h"

#define TOKEN_SECONDS "21600"
#define FIRST_TIME_MS 1000u  /* limit in the first search: outside an instance no server answers */

/* Returns true for https, and for plain http to this machine or to AWS's addresses for
 * containers. */
static bool is_trusted(slice url)
{
    static const char *const near[] = {
        "localhost", "[::1]", "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]",
    };
    if (slice_starts(url, S("https://")))
        return true;
    if (!slice_starts(url, S("http://")))
        return false;
    slice rest = slice_from(url, 7), host = slice_cut(&rest, '/');
    (void)url_cut_port(&host);
    return (slice_starts(host, S("127.")) && slice_only(host, DIGIT_CHARS ".")) ||
           slice_is_one_of(host, near, countof(near));
}

static enum err ask_for(struct seek *seek, slice from, const struct web_ask *ask,
                        struct web_reply *ret)
{
    slice why;
    enum err e = web_get(ask, seek->keep, ret, &why);
    if (e)
        return seek_fail(seek, e, "%.*s: the request to %.*s failed: %.*s. Check the server "
                         "at this URL, and the network", SLICE_ARG(from), SLICE_ARG(ask->url),
                         SLICE_ARG(why));
    if (ret->status != 200)
        return seek_fail(seek, ERR_DENIED, "%.*s: %.*s answered %d, and not 200: check whether "
                         "this server gives credentials to this machine", SLICE_ARG(from),
                         SLICE_ARG(ask->url), ret->status);
    return OK;
}

/* ---- containers ---- */

static enum err container_url(struct seek *seek, slice *ret)
{
    slice relative = seek_env(seek, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    slice full = seek_env(seek, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
    *ret = relative.len ? arena_printf(seek->keep, "http://169.254.170.2%.*s", SLICE_ARG(relative))
                        : full;
    if (!ret->len)
        return ERR_NOT_FOUND;
    if (!is_trusted(*ret))
        return seek_fail(seek, ERR_BAD_ARGUMENT, "%s must be https, or an address of this machine "
                         "or of AWS's credential services, not %.*s", relative.len ?
                         "the URL with AWS_CONTAINER_CREDENTIALS_RELATIVE_URI" :
                         "AWS_CONTAINER_CREDENTIALS_FULL_URI", SLICE_ARG(*ret));
    return OK;
}

static enum err container_token(struct seek *seek, slice *ret)
{
    slice path = seek_env(seek, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    *ret = seek_env(seek, "AWS_CONTAINER_AUTHORIZATION_TOKEN");
    if (path.len && aws_file_read(seek->keep, path, ret, &seek->why))
        return seek_fail(seek, ERR_IO, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: %.*s",
                         SLICE_ARG(seek->why));
    *ret = slice_without_line_end(*ret);
    for (size_t i = 0; i < ret->len; i++)
        if ((unsigned char)ret->ptr[i] < ' ')
            return seek_fail(seek, ERR_BAD_ARGUMENT, "AWS_CONTAINER_AUTHORIZATION_TOKEN, or the "
                             "file that AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE names, has a "
                             "control character, such as a line end: write only the token");
    return OK;
}

enum err source_container(struct seek *seek, struct credentials *ret)
{
    slice url, token;
    enum err e = container_url(seek, &url);
    if (e == ERR_NOT_FOUND)
        return e;
    ret->from = arena_printf(seek->keep, "container endpoint %.*s", SLICE_ARG(url));
    ret->nameless = true;
    ret->kind = CREDENTIALS_LENT;
    if (!e)
        e = container_token(seek, &token);
    if (e || !seek->ask->may_lend)
        return e;
    const struct http_field field = { S("Authorization"), token };
    const struct web_ask ask = {
        .method = "GET", .url = url, .fields = &field, .field_count = token.len > 0,
        .ca_file = seek->ask->env("AWS_CA_BUNDLE"), .time_ms = WEB_TIME_MS,
        .stop = seek->ask->stop,
    };
    struct web_reply reply;
    e = ask_for(seek, ret->from, &ask, &reply);
    return e ? e : seek_read_json(seek, reply.body, "Token", ret);
}

/* ---- instances ---- */

static slice instance_base(const struct seek *seek)
{
    slice set = seek_env(seek, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
    if (!set.len && slice_eq_nocase(seek_env(seek, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"),
                                    S("ipv6")))
        set = S("http://[fd00:ec2::254]");
    while (slice_ends(set, S("/")))
        set.len--;
    return set.len ? set : S("http://169.254.169.254");
}

/* Asks the metadata service for a path, with one header. */
static enum err instance_ask(struct seek *seek, const char *method, unsigned time_ms, slice url,
                             struct http_field field, slice from, slice *ret)
{
    const struct web_ask ask = {
        .method = method, .url = url, .fields = &field, .field_count = 1, .time_ms = time_ms,
        .stop = seek->ask->stop,
    };
    struct web_reply reply;
    enum err e = ask_for(seek, from, &ask, &reply);
    *ret = e ? S("") : reply.body;
    return e;
}

static enum err instance_get(struct seek *seek, slice base, slice name, slice token, slice from,
                             slice *ret)
{
    slice url = arena_printf(seek->keep, "%.*s/latest/meta-data/iam/security-credentials/%.*s",
                             SLICE_ARG(base), SLICE_ARG(name));
    struct http_field field = { S("X-aws-ec2-metadata-token"), token };
    return instance_ask(seek, "GET", WEB_TIME_MS, url, field, from, ret);
}

static enum err instance_role(struct seek *seek, slice base, struct credentials *ret)
{
    slice token, roles, document, code;
    slice token_url = arena_printf(seek->keep, "%.*s/latest/api/token", SLICE_ARG(base));
    struct http_field life = { S("X-aws-ec2-metadata-token-ttl-seconds"), S(TOKEN_SECONDS) };
    bool first = seek->ask->source == CREDENTIALS_ANY;
    enum err e = instance_ask(seek, "PUT", first ? FIRST_TIME_MS : WEB_TIME_MS, token_url, life,
                              ret->from, &token);
    if (e)    /* this is no instance, or its service can't be reached */
        return first ? ERR_NOT_FOUND : e;
    e = instance_get(seek, base, S(""), token, ret->from, &roles);
    if (e)
        return e;
    slice role = slice_trim(slice_cut(&roles, '\n'));
    ret->from = arena_printf(seek->keep, "instance role %.*s", SLICE_ARG(role));
    if (!role.len)
        return seek_fail(seek, ERR_DENIED, "this instance has no role: give the instance an "
                         "instance profile");
    e = instance_get(seek, base, role, token, ret->from, &document);
    if (e)
        return e;
    const struct json_want want = { "Code", &code };
    if (!json_read_members(seek->keep, document, &want, 1) && code.len &&
        !slice_eq(code, S("Success")))
        return seek_fail(seek, ERR_DENIED, "%.*s: the metadata service gives no credentials "
                         "(%.*s): check this role and its instance profile", SLICE_ARG(ret->from),
                         SLICE_ARG(slice_sub(code, 0, 80)));
    return seek_read_json(seek, document, "Token", ret);
}

enum err source_instance(struct seek *seek, struct credentials *ret)
{
    if (slice_eq_nocase(seek_env(seek, "AWS_EC2_METADATA_DISABLED"), S("true")) ||
        !seek->ask->may_lend)
        return ERR_NOT_FOUND;
    ret->from = S("instance role");
    ret->kind = CREDENTIALS_LENT;
    ret->outlasts = true;
    return instance_role(seek, instance_base(seek), ret);
}
