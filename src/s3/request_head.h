/* request_head.h - the raw head of an HTTP/1.1 request, judged before anything trusts it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Request smuggling needs two parsers that read one request differently. So this scan refuses
 * everything that could be read in two ways: a repeated or malformed Content-Length, a
 * Content-Length together with a Transfer-Encoding, a Transfer-Encoding that is not exactly
 * "chunked", a missing or second Host, bare LF, bare CR, NUL and control bytes, folded lines,
 * spaces before the colon, chunked in HTTP/1.0, a target that is neither a path nor a URL of the
 * Host, and more. The scan does no I/O and allocates no memory; the slices of its result point into
 * `bytes`. */
#ifndef S3_REQUEST_HEAD_H
#define S3_REQUEST_HEAD_H

#include "base/arena.h"

#define REQUEST_HEAD_BYTES_MAX 32768
#define HTTP_FIELDS_MAX 768       /* S3's 2 KB of metadata can hold 680 names */

struct http_field {
    slice name, value;      /* as sent, value trimmed */
};

struct request_head {
    size_t bytes;    /* length of the head, with the blank line; also the offset of the body */
    slice method;
    slice path, query;      /* of the target (path or URL); query.ptr is NULL if it has no '?' */
    int minor;              /* HTTP/1.minor: 0 or 1 */
    slice host;
    bool has_length, chunked, expect_continue, close;
    uint64_t length;        /* length of the body, if has_length */
    size_t field_count;
    struct http_field fields[HTTP_FIELDS_MAX];    /* a copy of the struct may end after field_count
                                                   * fields */
};

/* Returns OK, ERR_MORE (the blank line has not come yet), ERR_BAD_HEAD or ERR_HEAD_TOO_LARGE. After
 * ERR_BAD_HEAD or ERR_HEAD_TOO_LARGE, the caller must answer 400 and close the connection. *ret_why
 * (if ret_why is not NULL) is then a sentence with the reason, valid until this thread's next scan.
 * A bad head is refused at once, even before it is complete. */
enum err request_head_scan(slice bytes, struct request_head *ret, const char **ret_why) MUST_USE;

/* Returns the value of the first field of that name, ignoring case. The ptr is NULL if there is no
 * such field. A caller that signs or trusts a field that may be repeated must walk the fields
 * instead. */
slice request_head_get(const struct request_head *head, slice name);
/* Does the same as request_head_get, for any list of fields. */
slice http_field_get(const struct http_field *fields, size_t count, slice name);

/* Copies fields with their texts. */
struct http_field *http_fields_copy(struct arena *keep, const struct http_field *fields,
                                    size_t count) MUST_USE;

/* True if a header may have this name: an RFC 9110 token. */
bool http_name_is_valid(slice name);

#endif
