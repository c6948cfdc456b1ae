/* request.h - an HTTP head read as an S3 request. SPDX-License-Identifier: Apache-2.0
 *
 * Bucket and key have one canonical reading: the path is percent-decoded once, and nothing is
 * normalised. "//", "/./" and "/../" are part of the key, and '+' in a path is a plus. The
 * functions do no I/O and read no clock (rule H9 in src/README.md). */
#ifndef S3_REQUEST_H
#define S3_REQUEST_H

#include "base/header.h"
#include "s3/conditions.h"
#include "s3/request_head.h"
#include "s3/operation.h"

#define S3_PART_MAX 10000u
#define S3_KEY_BYTES_MAX 1024

struct s3_param {
    slice name, value;    /* percent-decoded, '+' is a space; value.ptr NULL: no '=' */
};

/* The source that x-amz-copy-source or x-amz-rename-source names, decoded. Empty if there is no
 * such header, or if the value does not have the form /bucket/key?versionId=... The source of a
 * rename lies in the request's bucket. If x-amz-rename-source begins with the name of this bucket,
 * `inner` is the key after that name. */
struct s3_source {
    slice bucket, key, version, inner;
    slice raw;                /* the header's value */
};

struct s3_request {
    enum s3_op op;
    slice bucket, key;        /* decoded; the key is empty for bucket operations */
    slice raw_path;           /* as sent */
    struct s3_param *params;
    size_t param_count;
    struct s3_range range;
    uint64_t part;            /* partNumber; 0: none, or not a number */
    struct s3_conditions conditions;
    struct http_field *query_fields;  /* x-amz- headers that stand in the query */
    size_t query_field_count;
    struct s3_source source;
    bool sourced;             /* the request has a source header, even if it can't be read */
    bool pass;                /* only the origin can answer this request */
    bool no_cache;            /* Cache-Control of the request: no-cache or max-age=0 */
    bool checksum_mode;       /* x-amz-checksum-mode: ENABLED */
    const struct s3_param *unknown;    /* the first parameter that `op` does not have, or NULL */
    slice foreign;            /* the first unknown header that is forwarded; ptr NULL: none */
    slice listed;             /* the value of the setting "forward_headers" (base/header.h) */
    slice detail;             /* the fault of a refused request, for people; may be empty */
};

/* Returns OK, ERR_BAD_URI, ERR_BAD_BUCKET, ERR_KEY_TOO_LONG, ERR_BAD_METHOD (S3 does not have that
 * method for a service, bucket or object), or ERR_BAD_ARGUMENT (the request can be read in two
 * ways). An unknown operation is no error: op.def has rows for unknown operations. A malformed
 * Range header counts as no range (RFC 9110), and so does a header with several ranges, as in
 * S3. */
enum err s3_request_read(struct arena *keep, const struct request_head *head, slice domains,
                         slice listed, struct s3_request *ret) MUST_USE;

/* True if a bucket may have this name. */
bool s3_bucket_is_valid(slice bucket);

/* Returns the bucket in a Host of the form BUCKET.DOMAIN:PORT, in lower case. The result is empty
 * for any other Host; the bucket is then the first part of the path. `domains` is a list with
 * commas, in lower case. */
slice s3_host_bucket(struct arena *keep, slice host, slice domains) MUST_USE;

/* The headers of a request are first those in its head, then those in its query. */
static inline size_t s3_header_count(const struct request_head *head,
                                     const struct s3_request *request)
{
    return head->field_count + request->query_field_count;
}
static inline struct http_field s3_header_at(const struct request_head *head,
                                             const struct s3_request *request, size_t i)
{
    check(i < s3_header_count(head, request));
    return i < head->field_count ? head->fields[i] : request->query_fields[i - head->field_count];
}

/* Returns the fate of a header of this request (base/header.h). */
static inline enum header_fate s3_header_fate(const struct s3_request *request, slice name)
{
    return header_judge(name, request->listed).fate;
}

/* Returns the value of the first header of that name. The ptr is NULL if there is none. */
slice s3_header_get(const struct request_head *head, const struct s3_request *request,
                    slice name) MUST_USE;

/* Returns the parameter of that name, or NULL if there is none. */
const struct s3_param *s3_param_get(const struct s3_request *request, slice name);

#endif
