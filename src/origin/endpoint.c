/* endpoint.c - the address of an S3 origin, and the URLs of its requests.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Path style puts the bucket into the path; host style puts the bucket before the host name. "auto"
 * uses path style for IP addresses, for hosts of a single label ("localhost", "minio"), and for
 * buckets whose name can't be a host label. With https, "auto" also uses path style
 * for a bucket whose name has a dot, because the certificate would not match. */
#include "origin/endpoint.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/url_kind.h"
#include "s3/encode.h"

#define HOST_BYTES_MAX 255

static bool is_host(slice host)
{
    if (host.len == 0 || host.len > HOST_BYTES_MAX)
        return false;
    bool literal = host.ptr[0] == '[';
    if (literal && host.ptr[host.len - 1] != ']')
        return false;
    slice inner = literal ? slice_sub(host, 1, host.len - 2) : host;
    return inner.len > 0 && slice_only(inner, LOWER_CHARS DIGIT_CHARS ".-_:") &&
           (literal || !slice_has(inner, ':'));
}

static bool read_port(slice s, unsigned standard, unsigned *ret)
{
    uint64_t port;
    if (!s.ptr)
        port = standard;
    else if (!slice_u64(s, &port) || port == 0 || port > 65535)
        return false;
    *ret = port == standard ? 0 : (unsigned)port;
    return true;
}

/* Reads "host", "host:port" or "[::1]:port". */
static bool read_authority(slice s, unsigned standard, struct endpoint *ret)
{
    slice port = url_cut_port(&s);
    ret->host = s;
    return is_host(s) && read_port(port, standard, &ret->port);
}

static bool read_style(slice style, struct endpoint *ret)
{
    static const char *const words[] = {
        [STYLE_AUTO] = "auto", [STYLE_PATH] = "path", [STYLE_HOST] = "host",
    };
    ret->style = STYLE_AUTO;
    for (size_t i = 0; style.len && i < countof(words); i++)
        if (slice_eq(style, slice_of(words[i]))) {
            ret->style = i;
            return true;
        }
    return !style.len;
}

static enum err wrong(struct arena *keep, slice what, const char *why, slice *ret_why)
{
    *ret_why = arena_printf(keep, "%.*s: %s", SLICE_ARG(what), why);
    return ERR_BAD_ARGUMENT;
}

enum err endpoint_read(struct arena *keep, slice url, slice style, struct endpoint *ret,
                       slice *ret_why)
{
    slice rest = url, scheme = arena_lower(keep, slice_cut(&rest, ':'));
    bool https = slice_eq(scheme, S("https"));
    if ((!https && !slice_eq(scheme, S("http"))) || !slice_starts(rest, S("//")))
        return wrong(keep, url, "the URL of an S3 endpoint must begin with http:// or https://",
                     ret_why);
    rest = slice_from(rest, 2);
    slice authority = arena_lower(keep, slice_cut(&rest, '/'));
    if (rest.len)
        return wrong(keep, url, "the URL of an S3 endpoint must have no path, since each request "
                     "names its bucket: remove the path", ret_why);
    ret->scheme = scheme;
    if (!read_authority(authority, https ? 443 : 80, ret))
        return wrong(keep, url, "the host or port of this URL is not valid: write "
                     "http://HOST:PORT or https://HOST:PORT", ret_why);
    return read_style(style, ret)
         ? OK : wrong(keep, style, "origin_style must be auto, path or host", ret_why);
}

static slice with_port(struct arena *keep, slice host, unsigned port)
{
    return port ? arena_printf(keep, "%.*s:%u", SLICE_ARG(host), port)
                : arena_copy(keep, host);
}

slice endpoint_url(struct arena *keep, const struct endpoint *endpoint)
{
    return arena_printf(keep, "%.*s://%.*s", SLICE_ARG(endpoint->scheme),
                        SLICE_ARG(with_port(keep, endpoint->host, endpoint->port)));
}

static bool is_address(slice host)
{
    char text[HOST_BYTES_MAX + 1];
    struct in_addr ip;
    memcpy(text, host.ptr, host.len);
    text[host.len] = '\0';
    return host.ptr[0] == '[' || inet_pton(AF_INET, text, &ip) == 1;
}

static bool is_label(slice bucket, bool dots)
{
    return bucket.len >= 3 && bucket.len <= 63 &&
           slice_only(bucket, LOWER_CHARS DIGIT_CHARS "-.") &&
           (dots || !slice_has(bucket, '.')) && !slice_has(S("-."), bucket.ptr[0]) &&
           !slice_has(S("-."), bucket.ptr[bucket.len - 1]);
}

static bool bucket_in_host(const struct endpoint *endpoint, slice bucket)
{
    if (bucket.len == 0 || endpoint->style == STYLE_PATH)
        return false;
    if (endpoint->style == STYLE_HOST)
        return is_label(bucket, true);
    return is_label(bucket, slice_eq(endpoint->scheme, S("http"))) && !is_address(endpoint->host) &&
           slice_has(endpoint->host, '.');
}

/* AWS serves a bucket only at the endpoint of its region; other servers have one endpoint. */
static slice host_of_region(struct arena *keep, slice host, slice region)
{
    bool aws = slice_eq(host, S("s3.amazonaws.com")) ||
               (slice_starts(host, S("s3.")) && slice_ends(host, S(".amazonaws.com")));
    return !aws || !region.len ? host
         : arena_printf(keep, "s3.%.*s.amazonaws.com", SLICE_ARG(region));
}

/* Escapes the bytes that a request line can't hold; existing escapes do not change. */
static slice sendable(struct arena *keep, slice query)
{
    struct text to = text_in(keep);
    for (size_t i = 0; i < query.len; i++) {
        unsigned char c = (unsigned char)query.ptr[i];
        if (c <= ' ' || c >= 0x7f || c == '#')
            text_printf(&to, "%%%02X", c);
        else
            text_char(&to, (char)c);
    }
    return text_slice(&to);
}

void endpoint_target(struct arena *keep, const struct endpoint *endpoint, slice bucket, slice key,
                    slice query, slice region, struct target *ret)
{
    check(bucket.len > 0 || key.len == 0);    /* a key needs a bucket */
    slice host = host_of_region(keep, endpoint->host, region);
    bool in_host = bucket_in_host(endpoint, bucket);
    if (in_host)
        host = arena_printf(keep, "%.*s.%.*s", SLICE_ARG(bucket), SLICE_ARG(host));
    struct text path = text_in(keep);
    text_char(&path, '/');
    if (!in_host && bucket.len) {
        uri_encode(&path, bucket, true);
        if (key.len)
            text_char(&path, '/');
    }
    uri_encode(&path, key, false);
    ret->host = with_port(keep, host, endpoint->port);
    ret->url = arena_printf(keep, "%.*s://%.*s/", SLICE_ARG(endpoint->scheme),
                            SLICE_ARG(ret->host));
    ret->path = text_slice(&path);
    ret->query = sendable(keep, query);
}
