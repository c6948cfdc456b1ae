/* operation.h - finds the S3 operation of a request. SPDX-License-Identifier: Apache-2.0
 *
 * The operations are the rows of op.def, which explains its columns. The functions do no I/O and
 * read no clock (rule H9 in src/README.md). */
#ifndef S3_OPERATION_H
#define S3_OPERATION_H

#include "base/metric.h"
#include "s3/request_head.h"

enum s3_op {
#define OP(id, name, method, level, selector, route, mutates, right, metric, params) id,
#include "s3/op.def"
#undef OP
    S3_OP_COUNT
};
enum s3_method { S3_GET, S3_HEAD, S3_PUT, S3_POST, S3_DELETE, S3_OPTIONS };
enum s3_level { S3_SERVICE, S3_BUCKET, S3_OBJECT };
enum s3_route { S3_CACHE, S3_LIST, S3_PASS, S3_ITEMS, S3_CACHED, S3_MANAGE, S3_JOB };
enum s3_mutates {
    S3_MUTATES_NOTHING, S3_MUTATES_KEY, S3_MUTATES_PROPERTY, S3_MUTATES_KEYS, S3_MUTATES_FORM,
    S3_MUTATES_GRANTS, S3_MUTATES_HEADS, S3_MUTATES_BUCKET, S3_MUTATES_CACHED
};
enum s3_right { S3_READ, S3_LIST_KEYS, S3_WRITE, S3_ADMIN, S3_MANAGE_CACHE };

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
bool s3_only_reads(enum s3_op op);    /* true for GET, HEAD and OPTIONS */
/* True for a browser's form, whose body has the key. */
bool s3_is_form(const struct request_head *head);

/* ---- for request.c ---- */
struct s3_request;
struct s3_param;
/* Sets ret->op. Returns OK, ERR_BAD_METHOD, or ERR_BAD_ARGUMENT if the request can be read in two
 * ways. An error may set ret->detail. */
enum err s3_operation_find(struct arena *keep, const struct request_head *head,
                           struct s3_request *ret) MUST_USE;
/* Returns the first parameter that the operation does not know, or NULL if it knows all of them. */
const struct s3_param *s3_operation_unknown(const struct s3_request *request);
/* True for a GetObject or HeadObject with headers or parameters that only the origin
 * understands. */
bool s3_operation_needs_origin(const struct request_head *head, const struct s3_request *request);
/* True for an x-amz- parameter, which counts as a header. False for a parameter of the
 * signature. */
bool s3_param_is_header(slice name);

#endif
