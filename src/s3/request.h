/* request.h - an HTTP head read as an S3 request. SPDX-License-Identifier: Apache-2.0
 *
 * Pure (H9). One canonical reading of bucket and key: the path percent-decoded once, nothing
 * normalised: "//", "/./" and "/../" are part of the key, '+' in a path is a plus. */
#ifndef S3_REQUEST_H
#define S3_REQUEST_H

#include "base/arena.h"
#include "base/header.h"
#include "s3/conditions.h"
#include "s3/head.h"
#include "s3/operation.h"

#define S3_PART_MAX 10000u
#define S3_KEY_BYTES_MAX 1024

struct s3_param {
    slice name, value;    /* percent-decoded, '+' left alone; value.ptr NULL if there was no '=' */
};

/* What x-amz-copy-source or x-amz-rename-source names, decoded; empty if there is none, or none of
 * the form /bucket/key?versionId=... What is renamed lies in the same bucket, which its name may
 * begin with, or not: `inner` is the key if it does. */
struct s3_source {
    slice bucket, key, version, inner;
    slice raw;                /* as it was said */
};

struct s3_request {
    enum s3_op op;
    slice bucket, key;        /* decoded; key empty for bucket operations */
    slice raw_path;           /* as sent */
    struct s3_param *params;
    size_t param_count;
    struct s3_range range;
    uint64_t part;            /* partNumber; 0: none, or no number */
    struct s3_conditions conditions;
    const struct http_field *said;    /* x-amz- headers that were said in the query */
    size_t said_count;
    struct s3_source source;
    bool sourced;             /* it says one of them, which can be read or not */
    bool pass;                /* only the origin can answer this */
    bool no_cache;            /* Cache-Control of the request: no-cache or max-age=0 */
    bool checksum_mode;       /* x-amz-checksum-mode: ENABLED */
    const struct s3_param *unknown;    /* the first that its operation does not know, or NULL */
    slice foreign;            /* the first header that goes on and is not known; ptr NULL: none */
    slice named;              /* headers that forward_headers names (base/header.h) */
    slice detail;             /* of a request that is wrong: why, for people; may be empty */
};

/* OK, or what is wrong with it: ERR_BAD_URI, ERR_BAD_BUCKET, ERR_KEY_TOO_LONG, ERR_BAD_METHOD (S3
 * has no such method there), ERR_BAD_ARGUMENT (it can be read in two ways). What is not known is no
 * mistake: op.def has rows for it.
 * A malformed Range header is no range (RFC 9110); several ranges are read as none, as S3 does. */
enum err s3_request_read(struct arena *keep, const struct http_head *head, slice domains,
                         slice named, struct s3_request *ret) MUST_USE;

/* Could a bucket have this name? */
bool s3_bucket_is_valid(slice bucket);

/* The bucket that a Host names (BUCKET.DOMAIN:PORT), in lower case; empty if it names none: then
 * the bucket is the first part of the path. domains: separated by commas, in lower case. */
slice s3_host_bucket(struct arena *keep, slice host, slice domains) MUST_USE;

/* The headers of a request: those of its head, then those that were said in its query. */
static inline size_t s3_header_count(const struct http_head *head,
                                     const struct s3_request *request)
{
    return head->field_count + request->said_count;
}
static inline struct http_field s3_header_at(const struct http_head *head,
                                             const struct s3_request *request, size_t i)
{
    return i < head->field_count ? head->fields[i] : request->said[i - head->field_count];
}

/* What is known of a header of this request. */
static inline enum header_fate s3_header_fate(const struct s3_request *request, slice name)
{
    return header_judge(name, request->named).fate;
}

/* The first of that name; ptr NULL if absent. */
slice s3_header_get(const struct http_head *head, const struct s3_request *request,
                    slice name) MUST_USE;

/* NULL if absent. */
const struct s3_param *s3_param_get(const struct s3_request *request, slice name);

#endif
