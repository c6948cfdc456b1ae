/* response_head.h - the head of an origin's answer, while it arrives.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The end of the body must be certain, so two different lengths are an error. The limits are 64
 * KiB, including 1xx heads, and HTTP_FIELDS_MAX fields. A struct of all zeroes is ready for use; its
 * owner frees `keep`. */
#ifndef ORIGIN_RESPONSE_HEAD_H
#define ORIGIN_RESPONSE_HEAD_H

#include "base/arena.h"
#include "s3/request_head.h"

struct response_head {
    struct arena keep;
    size_t bytes;                   /* bytes read so far, with status lines and 1xx heads */
    struct http_field *fields;      /* names in lower case; in keep */
    size_t field_count;
    bool has_length, chunked;
    uint64_t length;
};

/* Takes one line with its line end. The empty line sets *ret_ended. Returns false if the head is
 * not valid. */
bool response_head_line(struct response_head *head, slice line, bool *ret_ended) MUST_USE;

#endif
