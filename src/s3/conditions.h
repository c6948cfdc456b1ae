/* conditions.h - byte ranges and conditions of a request.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef S3_CONDITIONS_H
#define S3_CONDITIONS_H

#include "base/arena.h"
#include "s3/request_head.h"

/* A requested range: first-last, first- (last == UINT64_MAX), or -suffix. */
struct s3_range {
    enum { RANGE_NONE, RANGE_SPAN, RANGE_SUFFIX } kind;
    uint64_t first, last;     /* inclusive */
    uint64_t suffix;          /* number of bytes at the end of the object */
};

/* Conditions as sent; a slice with ptr NULL or a time of -1 is absent. */
struct s3_conditions {
    slice if_match, if_none_match, if_range;
    int64_t if_modified_since, if_unmodified_since;    /* unix seconds */
};

/* Returns the conditions among these fields. An invalid date is no condition. */
struct s3_conditions s3_conditions_read(struct arena *keep, const struct http_field *fields,
                                        size_t count) MUST_USE;
/* Returns the values of all fields of that name, joined by ','. The ptr is NULL if there is no such
 * field. */
slice http_field_join(struct arena *keep, const struct http_field *fields, size_t count,
                      slice name) MUST_USE;

/* Reads the value of a Range header. The result is RANGE_NONE if the value is malformed or has
 * several ranges. */
struct s3_range s3_range_read(slice value) MUST_USE;

/* Reads "bytes 5-9/20" of an answer: the first and last byte, and the object's size. */
bool s3_content_range_read(slice value, uint64_t *ret_first, uint64_t *ret_last,
                           uint64_t *ret_size) MUST_USE;

/* Cuts a range down to an object of `size` bytes. Returns OK with *ret_first <= *ret_end (end
 * exclusive); *ret_partial is true if the answer is 206, and false if it is 200. Returns
 * ERR_BAD_RANGE if the object has no byte of the range (416). */
enum err s3_range_resolve(const struct s3_range *range, uint64_t size, uint64_t *ret_first,
                          uint64_t *ret_end, bool *ret_partial) MUST_USE;

/* True if the ETag identifies the bytes of a version: there is one, and it is not weak. */
bool s3_etag_is_strong(slice etag);
/* Judges the conditions in the order of RFC 9110 section 13.2.2. Returns OK, ERR_PRECONDITION (412)
 * or ERR_NOT_MODIFIED (304). *ret_use_range is false if the condition of If-Range is not met. An
 * ETag may have quotes or not, as in S3. modified_s is in unix seconds. */
enum err s3_conditions_judge(const struct s3_conditions *conditions, slice etag,
                             int64_t modified_s, bool *ret_use_range) MUST_USE;

#endif
