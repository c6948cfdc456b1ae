/* form.h - a form that a browser posts (PostObject). SPDX-License-Identifier: Apache-2.0
 *
 * multipart/form-data: fields, then the file; everything behind the file is ignored. The author of
 * the form signed its policy, a document that says which values the fields may have. Pure (H9). */
#ifndef S3_FORM_H
#define S3_FORM_H

#include "s3/sigv4.h"

#define FORM_FIELDS_MAX 100

struct form {
    struct http_field fields[FORM_FIELDS_MAX];    /* names in any case, all different; no file */
    size_t field_count;
    slice file_type;              /* in its part; empty if there is none */
    size_t file_at, file_bytes;   /* in the body; the caller finds the end with form_file_ends */
    slice delimiter;
};

#define FORM_FIELDS_BYTES_MAX (64 * 1024)    /* limit of all before the file; S3's is 20,000 */
/* Reads the fields of a form. `begin` is the body, or its first FORM_FIELDS_BYTES_MAX bytes; what
 * is read lies in keep. Every ${filename} is replaced by the name of the file. ERR_PRECONDITION:
 * the body is no such form; ERR_BAD_FORM. */
enum err form_read(struct arena *keep, slice content_type, slice begin, struct form *ret) MUST_USE;
/* True if the file ends in these bytes of the body, after *ret of them. Otherwise *ret of them
 * belong to it, and the next look starts behind those. */
bool form_file_ends(const struct form *form, slice bytes, size_t *ret) MUST_USE;
/* The text with every `what` replaced. Stops behind `max` bytes. */
slice form_replaced(struct arena *keep, slice in, slice what, slice with, size_t max) MUST_USE;
slice form_get(const struct form *form, slice name);    /* ptr NULL: no such field */
/* Sets the fault of a form without that field. Returns ERR_BAD_ARGUMENT. */
enum err form_lacks(struct arena *keep, slice name, struct s3_fault *ret);
/* True if the form has any field of a signature. */
bool form_is_signed(const struct form *form);

/* Reads the claim: access_key, session_token, signature, and either v2 or date, region and service.
 * Nothing is proven yet. ERR_BAD_ARGUMENT: ret->fault says why. */
enum err form_claim(struct arena *keep, const struct form *form, struct sigv4_claim *ret) MUST_USE;
/* OK if the policy was signed with this secret, otherwise ERR_SIGNATURE. */
enum err form_verify(struct sigv4 *sigv4, struct arena *scratch, const struct form *form,
                     const struct sigv4_claim *claim, slice secret_key) MUST_USE;

/* Writes the form anew, signed with `with`, for this region, by version 4. With an empty access key
 * the form stays unsigned. Returns the bytes before the file; *ret_end are the bytes behind it. If
 * `boundary` is secret, no byte of the file can be taken for framing. */
slice form_write(struct sigv4 *sigv4, struct arena *keep, const struct form *form,
                 const struct sigv4_credentials *with, slice region, int64_t now_s, slice boundary,
                 slice *ret_end) MUST_USE;

#endif
