/* error.h - how an err looks to an S3 client. SPDX-License-Identifier: Apache-2.0 */
#ifndef S3_ERROR_H
#define S3_ERROR_H

#include "base/arena.h"
#include "s3/head.h"

struct s3_error {
    int status;
    const char *code, *message;
    bool close;             /* the connection ends with the answer */
};

/* The row of s3/error.def; InternalError for the rest. */
const struct s3_error *s3_error_of(enum err err);
/* The other way: what an origin's status and <Code> mean to us. ERR_ORIGIN_STATUS if unknown. */
enum err s3_error_from(int status, slice code);

/* What a client is told of an error beside its code. */
#define S3_FAULT_MORE_MAX 6
struct s3_fault {
    slice message;                                 /* empty: what s3/error.def says */
    struct http_field more[S3_FAULT_MORE_MAX];     /* elements of the document */
    size_t more_count;
};
void s3_fault_add(struct s3_fault *fault, slice name, slice value);

/* An <Error> document. detail (may be empty) replaces the message of the table. */
slice s3_error_xml(struct arena *keep, enum err err, slice detail, slice resource,
                   slice request_id) MUST_USE;
/* With elements of their own beside the message. */
slice s3_error_xml_more(struct arena *keep, enum err err, const struct s3_fault *fault,
                        slice resource, slice request_id) MUST_USE;

#endif
