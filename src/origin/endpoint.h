/* endpoint.h - the address of an S3 origin, and the URLs of its requests. Does no I/O.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef ORIGIN_ENDPOINT_H
#define ORIGIN_ENDPOINT_H

#include "base/arena.h"

struct endpoint {
    slice scheme, host;         /* in lower case; an IPv6 host has its brackets */
    unsigned port;              /* 0: the default port of the scheme */
    enum { STYLE_AUTO, STYLE_PATH, STYLE_HOST } style;
};

/* Reads http://host[:port] or https://host[:port]. With ERR_BAD_ARGUMENT, *ret_why is a sentence
 * for people. */
enum err endpoint_read(struct arena *keep, slice url, slice style, struct endpoint *ret,
                       slice *ret_why) MUST_USE;
/* Returns the canonical URL: scheme and host in lower case, without a default port or a slash at
 * the end. */
slice endpoint_url(struct arena *keep, const struct endpoint *endpoint) MUST_USE;

struct target {                  /* the target of one request */
    slice url;                  /* the server to connect to: "https://bucket.host:port/" */
    slice host;                 /* the Host header */
    slice path, query;          /* as sent, percent-encoded */
};
/* `region` is the region that the origin reported for this bucket, or empty. If the region is known
 * and the endpoint is one of AWS, the host becomes that of the region. */
void endpoint_target(struct arena *keep, const struct endpoint *endpoint, slice bucket, slice key,
                    slice query, slice region, struct target *ret);

#endif
