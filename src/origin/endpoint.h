/* endpoint.h - where an S3 origin lives and how its URLs look. Pure.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef ORIGIN_ENDPOINT_H
#define ORIGIN_ENDPOINT_H

#include "base/arena.h"

struct endpoint {
    slice scheme, host;         /* lower case; an IPv6 host with its brackets */
    unsigned port;              /* 0: the scheme's own */
    enum { STYLE_AUTO, STYLE_PATH, STYLE_HOST } style;
};

/* http://host[:port] or https://...; ERR_BAD_ARGUMENT with a sentence for people. */
enum err endpoint_read(struct arena *keep, slice url, slice style, struct endpoint *ret,
                       slice *ret_why) MUST_USE;
/* Scheme and host in lower case, no default port, no slash behind. */
slice endpoint_url(struct arena *keep, const struct endpoint *endpoint) MUST_USE;

struct target {                  /* where one request goes */
    slice url;                  /* to connect to: "https://bucket.host:port/" */
    slice host;                 /* the Host header */
    slice path, query;          /* as sent, percent-encoded */
};
/* region: learnt for this bucket, or empty: then the endpoint is taken as it is. */
void endpoint_target(struct arena *keep, const struct endpoint *endpoint, slice bucket, slice key,
                    slice query, slice region, struct target *ret);

#endif
