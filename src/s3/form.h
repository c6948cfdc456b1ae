/* form.h - a form that a browser posts (PostObject). SPDX-License-Identifier: Apache-2.0
 *
 * A form is multipart/form-data: fields, then the file. Everything after the file is ignored. The
 * author of the form signed its policy, a document that says which values the fields may have.
 * The functions do no I/O and read no clock (rule H9 in src/README.md). */
#ifndef S3_FORM_H
#define S3_FORM_H

#include "s3/sigv4.h"

#define FORM_FIELDS_MAX 100

struct form {
    struct http_field fields[FORM_FIELDS_MAX];    /* all but the file; no two names are equal */
    size_t field_count;
    slice file_type;              /* the Content-Type of the file's part; empty if there is none */
    size_t file_at, file_bytes;   /* in the body; the caller finds the end with form_file_ends */
    slice delimiter;
};

#define FORM_FIELDS_BYTES_MAX (64 * 1024)    /* all bytes before the file; S3 allows 20,000 */
/* Reads the fields of a form. `begin` is the body, or its first FORM_FIELDS_BYTES_MAX bytes. The
 * fields are copied into keep. Every ${filename} outside the policy is replaced by the name of the
 * file. Returns OK, ERR_PRECONDITION if content_type is not that of a form, or ERR_BAD_FORM if the
 * form is invalid. */
enum err form_read(struct arena *keep, slice content_type, slice begin, struct form *ret) MUST_USE;
/* Looks for the end of the file in the next bytes of the body. Returns true if the file ends there,
 * after *ret bytes. Otherwise the first *ret bytes belong to the file, and the next look must start
 * after these. */
bool form_file_ends(const struct form *form, slice bytes, size_t *ret) MUST_USE;
/* Returns the text with every `what` replaced by `with`. No more are replaced once the result has
 * more than `max` bytes. */
slice form_replaced(struct arena *keep, slice in, slice what, slice with, size_t max) MUST_USE;
slice form_get(const struct form *form, slice name);    /* ptr NULL: no such field */
/* Sets *ret to the fault of a form without a field `name`. Returns ERR_BAD_ARGUMENT. */
enum err form_lacks(struct arena *keep, slice name, struct s3_fault *ret);
/* True if the form has any field of a signature. */
bool form_is_signed(const struct form *form);

/* Reads the claim (sigv4.h): what the form says about its signature. Sets access_key, session_token
 * and signature; for signatures of version 2 also v2, for those of version 4 date, region and
 * service. Nothing is proved yet. Returns OK, or ERR_BAD_ARGUMENT with the reason in ret->fault. */
enum err form_claim(struct arena *keep, const struct form *form, struct sigv4_claim *ret) MUST_USE;
/* Returns OK if the policy was signed with this secret, otherwise ERR_SIGNATURE. */
enum err form_verify(struct sigv4 *sigv4, struct arena *scratch, const struct form *form,
                     const struct sigv4_claim *claim, slice secret_key) MUST_USE;

/* Writes the form anew, signed by version 4 with the credentials `with`, for this region. If the
 * access key is empty, the form stays unsigned. Returns the bytes before the file; *ret_end has the
 * bytes after the file. The caller chooses a `boundary` that nobody can guess. Otherwise bytes of
 * the file could be taken for the boundary. */
slice form_write(struct sigv4 *sigv4, struct arena *keep, const struct form *form,
                 const struct sigv4_credentials *with, slice region, int64_t now_s, slice boundary,
                 slice *ret_end) MUST_USE;

#endif
