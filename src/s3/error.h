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

/* An <Error> document. detail (may be empty) replaces the message of the table. */
slice s3_error_xml(struct arena *keep, enum err err, slice detail, slice resource,
                   slice request_id) MUST_USE;
/* With elements of their own beside the message. */
slice s3_error_xml_more(struct arena *keep, enum err err, slice detail,
                        const struct http_field *more, size_t more_count, slice resource,
                        slice request_id) MUST_USE;

#endif
