/* request.h - an HTTP head read as an S3 request. SPDX-License-Identifier: Apache-2.0
 *
 * Pure (H9). One canonical reading of bucket and key: the path percent-decoded once, nothing
 * normalised: "//", "/./" and "/../" are part of the key, '+' in a path is a plus. */
#ifndef S3_REQUEST_H
#define S3_REQUEST_H

#include "base/arena.h"
#include "base/metric.h"
#include "s3/head.h"

#define S3_PART_MAX 10000u
#define S3_KEY_BYTES_MAX 1024

enum s3_op {
#define OP(id, name, method, level, selector, route, mutates, right, metric, params) id,
#include "s3/op.def"
#undef OP
    S3_OP_COUNT
};
enum s3_method { S3_GET, S3_HEAD, S3_PUT, S3_POST, S3_DELETE, S3_OPTIONS };
enum s3_level { S3_SERVICE, S3_BUCKET, S3_OBJECT };
enum s3_route { S3_CACHE, S3_LIST, S3_PASS };
enum s3_mutates {
    S3_MUTATES_NOTHING, S3_MUTATES_KEY, S3_MUTATES_PROPERTY, S3_MUTATES_KEYS, S3_MUTATES_FORM,
    S3_MUTATES_GRANTS
};
enum s3_right { S3_READ, S3_LIST_KEYS, S3_WRITE, S3_ADMIN };

/* A row of op.def, which says what its columns mean. */
struct s3_operation {
    const char *name, *method_name;     /* "GetObject": for metrics and logs; "GET" */
    enum s3_method method;
    enum s3_level level;
    const char *selector, *params;
    enum s3_route route;
    enum s3_mutates mutates;
    enum s3_right right;
    enum metric metric;
};
const struct s3_operation *s3_operation(enum s3_op op);
const char *s3_op_name(enum s3_op op);
bool s3_only_reads(enum s3_op op);    /* by its method: nothing is changed, no body comes */

/* A range as asked: first-last, first- (last == UINT64_MAX), -suffix. */
struct s3_range {
    enum { RANGE_NONE, RANGE_SPAN, RANGE_SUFFIX } kind;
    uint64_t first, last;     /* inclusive */
    uint64_t suffix;          /* how many bytes from the end */
};

/* Conditions as sent; a slice with ptr NULL or a time of -1 is absent. */
struct s3_conditions {
    slice if_match, if_none_match, if_range;
    int64_t if_modified_since, if_unmodified_since;    /* unix seconds */
};

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
    slice raw_path, raw_query;    /* as sent */
    struct s3_param *params;
    size_t param_count;
    struct s3_range range;
    uint64_t part;            /* partNumber; 0: none, or no number */
    struct s3_conditions conditions;
    const struct http_field *said;    /* x-amz- headers that were said in the query */
    size_t said_count;
    struct s3_source source;
    bool sourced;             /* it says one of them, which can be read or not */
    bool pass;                /* GetObject, HeadObject: only the origin can answer this */
    bool no_cache;            /* Cache-Control of the request: no-cache or max-age=0 */
    bool checksum_mode;       /* x-amz-checksum-mode: ENABLED */
    bool unknown;             /* a parameter says what its operation does not know */
    slice detail;             /* of a request that is wrong: why, for people; may be empty */
};

/* OK, or what is wrong with it: ERR_BAD_URI, ERR_BAD_BUCKET, ERR_KEY_TOO_LONG, ERR_BAD_METHOD (S3
 * has no such method there), ERR_BAD_ARGUMENT (it can be read in two ways). What is not known is no
 * mistake: op.def has rows for it.
 * A malformed Range header is no range (RFC 9110); several ranges are read as none, as S3 does. */
enum err s3_request_read(struct arena *keep, const struct http_head *head, slice domains,
                         struct s3_request *ret) MUST_USE;

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

/* NULL if absent. */
const struct s3_param *s3_param_get(const struct s3_request *request, slice name);

/* A Range header's value; RANGE_NONE if it is malformed or names several. */
struct s3_range s3_range_read(slice value) MUST_USE;

/* Cuts a range down to an object of `size` bytes. OK with *ret_first <= *ret_end (end exclusive);
 * *ret_partial tells 206 from 200. ERR_BAD_RANGE: 416 with "bytes * / size". */
enum err s3_range_resolve(const struct s3_range *range, uint64_t size, uint64_t *ret_first,
                          uint64_t *ret_end, bool *ret_partial) MUST_USE;

/* RFC 9110 section 13.2.2, in its order. OK, ERR_PRECONDITION (412) or ERR_NOT_MODIFIED (304).
 * *ret_use_range is false when If-Range does not hold. ETags are compared with quotes or without,
 * as S3 does; modified_s in unix seconds. */
enum err s3_conditions_judge(const struct s3_conditions *conditions, slice etag,
                             int64_t modified_s, bool *ret_use_range) MUST_USE;

#endif
