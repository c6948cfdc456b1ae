/* response_head.h - the head of an origin's answer, while it arrives.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The end of the body must be certain, so a head with two different values of Content-Length is an
 * error. A head may have at most HTTP_FIELDS_MAX fields, and, together with the 1xx heads before
 * it, 64 KiB. A struct response_head of all zeroes is ready for use; the caller frees its
 * `keep`. */
#ifndef ORIGIN_RESPONSE_HEAD_H
#define ORIGIN_RESPONSE_HEAD_H

#include "base/arena.h"
#include "s3/request_head.h"

struct response_head {
    struct arena keep;
    size_t bytes;                   /* bytes read so far, including status lines and 1xx heads */
    struct http_field *fields;      /* names in lower case; in keep */
    size_t field_count;
    bool has_length, chunked;
    uint64_t length;
};

/* Takes one line with its line end. The empty line sets *ret_ended. Returns false if the head is
 * not valid. */
bool response_head_line(struct response_head *head, slice line, bool *ret_ended) MUST_USE;

#endif
