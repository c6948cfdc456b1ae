/* error.c - errors in the form that S3 clients know. SPDX-License-Identifier: Apache-2.0
 *
 * Only error.def pairs an enum err with an S3 error code; look-ups go in both directions. Rows are
 * few and errors are rare, so a look-up walks the whole table. Any thread may call these
 * functions. */
#include "s3/error.h"

#include "s3/xml.h"

#define CLOSE 1
#define THEIRS 2

static const struct row {
    enum err err;
    unsigned flags;
    struct s3_error error;
} rows[] = {
#define ERROR(err, status, code, flags, message) \
    { err, flags, { status, code, message, ((flags) & CLOSE) != 0 } },
#include "s3/error.def"
#undef ERROR
};

const struct s3_error *s3_error_of(enum err err)
{
    for (size_t i = 0; i < countof(rows); i++)
        if (rows[i].err == err)
            return &rows[i].error;
    check(err != ERR_INTERNAL);
    return s3_error_of(ERR_INTERNAL);
}

/* Judges by the status alone, because the answer to a HEAD has no body, and so no code. */
static enum err from_status(int status)
{
    switch (status) {
    case 304: return ERR_NOT_MODIFIED;
    case 401:
    case 403: return ERR_DENIED;
    case 404: return ERR_NO_SUCH_KEY;
    case 405: return ERR_BAD_METHOD;
    case 412: return ERR_PRECONDITION;
    case 416: return ERR_BAD_RANGE;
    case 429:
    case 503: return ERR_SLOW_DOWN;
    default: return ERR_ORIGIN_STATUS;
    }
}

enum err s3_error_from(int status, slice code)
{
    for (size_t i = 0; code.len && i < countof(rows); i++)
        if (rows[i].flags & THEIRS && slice_eq(code, slice_of(rows[i].error.code)))
            return rows[i].err;
    return code.len ? ERR_ORIGIN_STATUS : from_status(status);
}

void s3_fault_add(struct s3_fault *fault, slice name, slice value)
{
    check(fault->more_count < S3_FAULT_MORE_MAX);
    fault->more[fault->more_count++] = (struct http_field){ name, value };
}

enum err s3_fault_argument(struct s3_fault *ret, slice message, slice name, slice value)
{
    *ret = (struct s3_fault){ .message = message };
    s3_fault_add(ret, S("ArgumentName"), name);
    s3_fault_add(ret, S("ArgumentValue"), slice_sub(value, 0, S3_FAULT_QUOTED_MAX));
    return ERR_BAD_ARGUMENT;
}

slice s3_error_xml(struct arena *keep, enum err err, const struct s3_fault *fault, slice resource,
                   slice request_id)
{
    const struct s3_error *error = s3_error_of(err);
    check(err != OK && fault->more_count <= S3_FAULT_MORE_MAX);
    struct text to = text_in(keep);
    text_add(&to, S("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>"));
    xml_element(&to, "Code", slice_of(error->code));
    xml_element(&to, "Message", fault->message.len ? fault->message : slice_of(error->message));
    for (size_t i = 0; i < fault->more_count; i++)
        xml_element(&to, fault->more[i].name.ptr, fault->more[i].value);
    xml_element(&to, "Resource", resource);
    xml_element(&to, "RequestId", request_id);
    text_add(&to, S("</Error>"));
    return text_slice(&to);
}
