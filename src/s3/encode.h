/* encode.h - percent-coding, base64, UTF-8 and the time formats of S3. No function does I/O or
 * reads a clock.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef S3_ENCODE_H
#define S3_ENCODE_H

#include "base/arena.h"

/* Encodes by S3's rule: every byte but A-Z a-z 0-9 - . _ ~ becomes %XX (upper case). A '/' is
 * encoded only if encode_slash is true. */
void uri_encode(struct text *to, slice s, bool encode_slash);
/* Encodes into memory of at least 3 * s.len bytes. Returns the number of bytes written. */
size_t uri_encode_to(char *to, slice s, bool encode_slash);
/* Decodes '%XX' once. Returns OK, or ERR_BAD_URI for a bad escape or a NUL. '+' stays a plus. */
enum err uri_decode(struct arena *keep, slice s, slice *ret) MUST_USE;
/* Decodes a name or value of a query, where '+' is a space, as S3's servers read it. */
enum err query_decode(struct arena *keep, slice s, slice *ret) MUST_USE;
/* Returns a query that may be logged, without the parameters that prove or name a client. A
 * parameter is left out if its decoded name contains "signature", "credential", "token", "secret",
 * "password", "accesskey" or "customer-key", ignoring case, or if its name can't be decoded. */
slice query_unproved(struct arena *keep, slice query) MUST_USE;
/* Cuts the next "name=value" from the front of a raw query, and skips empty pairs. Name and value
 * stay encoded; value.ptr is NULL if there is no '='. Returns false at the end of the query. */
bool query_next(slice *rest, slice *ret_name, slice *ret_value) MUST_USE;

/* Returns the raw value of the first parameter of that name, ignoring case. The ptr is NULL if
 * there is no such parameter. */
slice query_get(slice query, slice name) MUST_USE;

/* Reads "Sun, 06 Nov 1994 08:49:37 GMT" or one of the two obsolete forms. Returns -1 for any other
 * text. */
int64_t http_date_read(slice s);
#define HTTP_DATE_BYTES 30
void http_date_write(int64_t unix_s, char ret[HTTP_DATE_BYTES]);
/* Reads "20130524T000000Z". Returns -1 for any other text. */
int64_t amz_date_read(slice s);
#define AMZ_DATE_BYTES 17
void amz_date_write(int64_t unix_s, char ret[AMZ_DATE_BYTES]);
/* Reads "2009-10-12T17:50:30.000Z", with or without the fraction. Returns -1 for any other text. */
int64_t iso_date_read(slice s);
slice iso_date_text(struct arena *keep, int64_t unix_s) MUST_USE;
slice iso_date_or_never(struct arena *keep, int64_t unix_s) MUST_USE;    /* 0: "never" */

/* Returns the length of the UTF-8 character at the start of s, or 0 if s does not start with one.
 * s must not be empty. */
size_t utf8_read(slice s, uint32_t *ret_code) MUST_USE;

/* Reads standard base64. Returns false if s is not the base64 of exactly `bytes` bytes. */
bool base64_read(slice s, uint8_t *ret, size_t bytes) MUST_USE;
/* Decodes any number of bytes. The ptr of the result is NULL if s is not base64. */
slice base64_decode(struct arena *keep, slice s) MUST_USE;
slice base64_write(struct arena *keep, slice bytes) MUST_USE;

#endif
