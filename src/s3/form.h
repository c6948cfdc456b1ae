/* form.h - a form that a browser posts (PostObject). SPDX-License-Identifier: Apache-2.0
 *
 * multipart/form-data: fields, then the file; what follows that is nobody's. Who made the form
 * signed its policy, a document that says what the fields may be. Pure (H9). */
#ifndef S3_FORM_H
#define S3_FORM_H

#include "s3/sigv4.h"

#define FORM_FIELDS_MAX 100

struct form {
    struct http_field fields[FORM_FIELDS_MAX];    /* any case; no two alike; not the file */
    size_t field_count;
    slice file, file_type;        /* file_type: of its part; empty if that says none */
};

/* The file is the body's, all else in keep. Every ${filename} is the file's name from then on.
 * ERR_PRECONDITION: it is no such form; ERR_BAD_FORM. */
enum err form_read(struct arena *keep, slice content_type, slice body, struct form *ret) MUST_USE;
slice form_get(const struct form *form, slice name);    /* ptr NULL: there is none */
/* Is there anything of a signature? */
bool form_is_signed(const struct form *form);

/* Fills in access_key, session_token, signature, and v2, or else date, region, service; nothing is
 * proven yet.
 * ERR_BAD_ARGUMENT: see fault. */
enum err form_claim(struct arena *keep, const struct form *form, struct sigv4_claim *ret) MUST_USE;
/* ERR_SIGNATURE, or OK: the policy is by whoever has this secret. */
enum err form_verify(struct sigv4 *sigv4, struct arena *scratch, const struct form *form,
                     const struct sigv4_claim *claim, slice secret_key) MUST_USE;

/* The form as another would have made it: whatever of it is the signer's is of `with`, for this
 * region, by version 4; an empty access key: a form as it was that nobody signed. The bytes before
 * the file (*ret_end: behind it), whose framing nothing of the file is taken for if `boundary` is
 * secret. */
slice form_write(struct sigv4 *sigv4, struct arena *keep, const struct form *form,
                 const struct sigv4_credentials *with, slice region, int64_t now_s, slice boundary,
                 slice *ret_end) MUST_USE;

#endif
