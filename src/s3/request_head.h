/* request_head.h - the raw head of an HTTP/1.1 request, judged before anything trusts it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Request smuggling needs two parsers that read one request differently. So this scan refuses
 * everything that could be read in two ways: repeated or malformed Content-Length, Content-Length
 * beside Transfer-Encoding, anything but exactly "chunked", zero or two Hosts, bare LF, bare CR,
 * NUL and control bytes, folded lines, spaces before the colon, chunked in HTTP/1.0, a target that
 * is neither a path nor a URL of the Host ... Pure: no I/O, no memory of its own; slices point into
 * `bytes`. */
#ifndef S3_REQUEST_HEAD_H
#define S3_REQUEST_HEAD_H

#include "base/slice.h"

#define REQUEST_HEAD_BYTES_MAX 32768
#define HTTP_FIELDS_MAX 768       /* S3's 2 KB of metadata can hold 680 names */

struct http_field {
    slice name, value;      /* as sent, value trimmed */
};

struct request_head {
    size_t bytes;           /* length, with the blank line; the body starts here */
    slice method;
    slice path, query;      /* of the target (path or URL); query.ptr NULL: it has no '?' */
    int minor;              /* HTTP/1.minor: 0 or 1 */
    slice host;
    bool has_length, chunked, expect_continue, close;
    uint64_t length;        /* length of the body, if has_length */
    size_t field_count;
    struct http_field fields[HTTP_FIELDS_MAX];    /* a copy may have room for only field_count */
};

/* OK; ERR_MORE before the blank line has come; ERR_BAD_HEAD or ERR_HEAD_TOO_LARGE: the caller
 * answers 400 and closes. *ret_why (may be NULL) is then a static sentence with the reason. A bad
 * head is refused at once, even before it is complete. */
enum err request_head_scan(slice bytes, struct request_head *ret, const char **ret_why) MUST_USE;

/* The value of the first field of that name, ignoring case; ptr NULL if it is absent. A caller that
 * signs or trusts a field that may repeat must walk the fields instead. */
slice request_head_get(const struct request_head *head, slice name);
/* The same for any list of fields. */
slice http_field_get(const struct http_field *fields, size_t count, slice name);

/* True if a header may have this name: an RFC 9110 token. */
bool http_name_is_valid(slice name);

#endif
