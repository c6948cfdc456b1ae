/* reply_head.h - the head of an origin's answer while it comes in.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What tells the body's end must be beyond doubt: two lengths that differ are an error. At most
 * 64 KiB and HTTP_FIELDS_MAX fields, 1xx heads counted in. One of all zeroes is a fresh one. */
#ifndef ORIGIN_REPLY_HEAD_H
#define ORIGIN_REPLY_HEAD_H

#include "base/arena.h"
#include "s3/head.h"

struct reply_head {
    struct arena keep;
    size_t bytes;                   /* so far, status lines and 1xx heads included */
    struct http_field *fields;      /* names in lower case; in keep */
    size_t field_count, field_room;
    bool has_length, chunked;
    uint64_t length;
};

/* Takes one line, its end included; *ret_ended with the empty one. False: no head to believe. */
bool reply_head_line(struct reply_head *head, slice line, bool *ret_ended) MUST_USE;
void reply_head_end(struct reply_head *head);

#endif
