/* error.h - errors in the form that S3 clients know: status, code and <Error> document.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef S3_ERROR_H
#define S3_ERROR_H

#include "base/arena.h"
#include "s3/request_head.h"

struct s3_error {
    int status;
    const char *code, *message;
    bool close;             /* the connection is closed after the answer */
};

/* Returns the row of s3/error.def, or that of ERR_INTERNAL if the err has no row. */
const struct s3_error *s3_error_of(enum err err);
/* Returns the err for an origin's status and <Code>, or ERR_ORIGIN_STATUS if they are unknown. */
enum err s3_error_from(int status, slice code);

/* The details of an error, which a client gets in addition to the code. */
#define S3_FAULT_MORE_MAX 6
#define S3_FAULT_QUOTED_MAX 200    /* bytes of a client's text in a message */
struct s3_fault {
    slice message;                                 /* empty: the message of s3/error.def */
    struct http_field more[S3_FAULT_MORE_MAX];     /* extra elements of the <Error> document */
    size_t more_count;
};
void s3_fault_add(struct s3_fault *fault, slice name, slice value);
/* Sets the fault of a wrong argument; a long value is cut. Returns ERR_BAD_ARGUMENT. */
enum err s3_fault_argument(struct s3_fault *ret, slice message, slice name, slice value);

/* Returns an <Error> document. */
slice s3_error_xml(struct arena *keep, enum err err, const struct s3_fault *fault, slice resource,
                   slice request_id) MUST_USE;

#endif
