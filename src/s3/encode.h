/* encode.h - percent-coding, base64 and the time formats of S3. Pure.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef S3_ENCODE_H
#define S3_ENCODE_H

#include "base/arena.h"

/* S3's rule: all but A-Z a-z 0-9 - . _ ~ becomes %XX (upper case); '/' too if encode_slash. */
void uri_encode(struct text *to, slice s, bool encode_slash);
/* The same into memory of at least 3 * s.len bytes; returns how many were written. */
size_t uri_encode_to(char *to, slice s, bool encode_slash);
/* '%XX' decoded once; ERR_BAD_URI for a bad escape or a NUL. '+' stays a plus. */
enum err uri_decode(struct arena *keep, slice s, slice *ret) MUST_USE;
/* A name or value of a query: the same, but that '+' is a space there, as S3's servers read it. */
enum err query_decode(struct arena *keep, slice s, slice *ret) MUST_USE;
/* The next "name=value" of a raw query, still encoded; value.ptr NULL if there was no '='. Empty
 * pairs are passed over; false at the end. */
/* A query as it may be shown: without the parameters that prove or name a client, which are those
 * whose name, decoded, has "signature", "credential", "token", "secret", "password", "accesskey" or
 * "customer-key" in it, in any case, or can't be decoded. Otherwise as it came. */
slice query_unproved(struct arena *keep, slice query) MUST_USE;
bool query_next(slice *rest, slice *ret_name, slice *ret_value) MUST_USE;

/* "Sun, 06 Nov 1994 08:49:37 GMT" and the two obsolete forms; -1 if it is none. */
int64_t http_date_read(slice s);
#define HTTP_DATE_BYTES 30
void http_date_write(int64_t unix_s, char ret[HTTP_DATE_BYTES]);
/* "20130524T000000Z"; -1 if it is none. */
int64_t amz_date_read(slice s);
#define AMZ_DATE_BYTES 17
void amz_date_write(int64_t unix_s, char ret[AMZ_DATE_BYTES]);
/* "2009-10-12T17:50:30.000Z" with or without fraction; -1 if it is none. */
int64_t iso_date_read(slice s);
#define ISO_DATE_BYTES 25
void iso_date_write(int64_t unix_s, char ret[ISO_DATE_BYTES]);
slice iso_date_text(struct arena *keep, int64_t unix_s) MUST_USE;

/* Standard base64; false if s is not the base64 of exactly `bytes` bytes. */
bool base64_read(slice s, uint8_t *ret, size_t bytes) MUST_USE;
#define BASE64_BYTES(bytes) (((bytes) + 2) / 3 * 4)
void base64_write(const uint8_t *bytes, size_t count, char *ret);    /* BASE64_BYTES(count) chars */

#endif
