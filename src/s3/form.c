/* form.c - a form that a browser posts (PostObject). SPDX-License-Identifier: Apache-2.0
 *
 * It is read in one way only: a name that comes twice, or is none that a header could have, makes
 * it no form. What goes on is written anew, with a boundary of its own, so that no two parsers can
 * read different fields, or another file, out of it.
 * The policy goes on as it was, but for who signed it: the origin judges its conditions and its
 * end, and says so in its own words. */
#include "s3/form.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

#include "s3/encode.h"

#define FIELDS_BYTES_MAX (64 * 1024)    /* of all that comes before the file; S3 takes 20,000 */
#define BOUNDARY_BYTES_MAX 200

/* ---- multipart ---- */

/* The value of a parameter of a header: name="value" or name=value; ptr NULL if it is not there. */
static slice parameter(slice header, slice name)
{
    slice rest = header;
    (void)slice_cut(&rest, ';');
    while (rest.len) {
        slice value = slice_trim(rest), word = slice_trim(slice_cut(&value, '='));
        if (!value.ptr)
            break;
        if (slice_starts(value, S("\""))) {
            rest = slice_from(value, 1);
            value = slice_cut(&rest, '"');
            (void)slice_cut(&rest, ';');
        } else {
            rest = value;
            value = slice_trim(slice_cut(&rest, ';'));
        }
        if (slice_eq_nocase(word, name))
            return value.ptr ? value : S("");
    }
    return (slice){ NULL, 0 };
}

/* What lies before the next delimiter; *rest begins behind its line, or is empty after the last.
 * false if there is none. */
static bool to_delimiter(slice *rest, slice delimiter, slice *ret)
{
    for (size_t at = 0; at + delimiter.len <= rest->len;) {
        const char *found = memmem(rest->ptr + at, rest->len - at, delimiter.ptr, delimiter.len);
        if (!found)
            return false;
        size_t begin = (size_t)(found - rest->ptr);
        slice behind = slice_from(*rest, begin + delimiter.len), line = slice_sub(behind, 0, 0);
        bool last = slice_starts(behind, S("--"));
        while (behind.len && (*behind.ptr == ' ' || *behind.ptr == '\t'))
            behind = slice_from(behind, 1);
        if (last || slice_starts(behind, S("\r\n"))) {
            *ret = slice_sub(*rest, 0, begin);
            *rest = last ? line : slice_from(behind, 2);
            return true;
        }
        at = begin + 1;
    }
    return false;
}

static bool is_name(slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = char_lower(name.ptr[i]);
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.'))
            return false;
    }
    return name.len > 0;
}

static bool is_text(slice value)
{
    for (size_t i = 0; i < value.len; i++)
        if ((unsigned char)value.ptr[i] < ' ' || value.ptr[i] == 0x7f)
            return false;
    return true;
}

struct part {
    slice disposition, type;
};

/* The lines above a part's content; false if they don't end. */
static bool read_part(slice *rest, struct part *ret)
{
    *ret = (struct part){ { 0 }, { 0 } };
    while (rest->len) {
        slice value = slice_cut(rest, '\n');
        if (!rest->ptr || !slice_ends(value, S("\r")))
            return false;
        value.len--;
        if (!value.len)
            return true;
        slice name = slice_trim(slice_cut(&value, ':'));
        if (slice_eq_nocase(name, S("content-disposition")) && !ret->disposition.ptr)
            ret->disposition = slice_trim(value);
        else if (slice_eq_nocase(name, S("content-type")) && !ret->type.ptr)
            ret->type = slice_trim(value);
    }
    return false;
}

static enum err add_field(struct form *form, slice name, slice value)
{
    if (!is_name(name) || form->field_count == FORM_FIELDS_MAX || form_get(form, name).ptr)
        return ERR_BAD_FORM;
    form->fields[form->field_count++] = (struct http_field){ name, value.ptr ? value : S("") };
    return OK;
}

/* Where a name is to be put: its last part, as some browsers say a whole path. */
static enum err put_filename(struct arena *keep, struct form *form, slice filename)
{
    static const slice mark = { "${filename}", 11 };
    for (size_t i = filename.len; i > 0; i--)
        if (filename.ptr[i - 1] == '/' || filename.ptr[i - 1] == '\\') {
            filename = slice_from(filename, i);
            break;
        }
    if (memmem(filename.ptr ? filename.ptr : "", filename.len, mark.ptr, mark.len))
        return ERR_BAD_FORM;
    for (size_t i = 0; i < form->field_count; i++) {
        slice *value = &form->fields[i].value, rest = *value;
        struct text text = text_in(keep);
        const char *found;
        if (slice_eq_nocase(form->fields[i].name, S("policy")))
            continue;
        while (rest.len && (found = memmem(rest.ptr, rest.len, mark.ptr, mark.len))) {
            size_t before = (size_t)(found - rest.ptr);
            text_add(&text, slice_sub(rest, 0, before));
            text_add(&text, filename);
            rest = slice_from(rest, before + mark.len);
        }
        if (rest.len == value->len)
            continue;
        text_add(&text, rest);
        *value = text_slice(&text);
        if (memmem(value->ptr, value->len, mark.ptr, mark.len))
            return ERR_BAD_FORM;    /* made of what stood around it */
    }
    return OK;
}

enum err form_read(struct arena *keep, slice content_type, slice body, struct form *ret)
{
    slice type = content_type, boundary = parameter(content_type, S("boundary")), content;
    *ret = (struct form){ .field_count = 0 };
    if (!slice_eq_nocase(slice_trim(slice_cut(&type, ';')), S("multipart/form-data")))
        return ERR_PRECONDITION;
    if (!boundary.len || boundary.len > BOUNDARY_BYTES_MAX)
        return ERR_BAD_FORM;
    slice delimiter = arena_printf(keep, "\r\n--%.*s", SLICE_ARG(boundary)), rest = body;
    if (!to_delimiter(&rest, slice_from(delimiter, 2), &content) || content.len)
        return ERR_BAD_FORM;
    while (rest.len) {
        struct part part;
        if (!read_part(&rest, &part) || (size_t)(rest.ptr - body.ptr) > FIELDS_BYTES_MAX)
            return ERR_BAD_FORM;
        slice name = parameter(part.disposition, S("name"));
        if (!to_delimiter(&rest, delimiter, &content))
            return ERR_BAD_FORM;
        if (slice_eq_nocase(name, S("file"))) {
            ret->file = content;
            ret->file_type = is_text(part.type) ? part.type : S("");
            return put_filename(keep, ret, parameter(part.disposition, S("filename")));
        }
        enum err e = add_field(ret, name, content);
        if (e)
            return e;
    }
    return ERR_BAD_FORM;    /* no file */
}

slice form_get(const struct form *form, slice name)
{
    for (size_t i = 0; i < form->field_count; i++)
        if (slice_eq_nocase(form->fields[i].name, name))
            return form->fields[i].value;
    return (slice){ NULL, 0 };
}

/* ---- who signed it ---- */

static const char *const v4_names[] = {
    "policy", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature",
};

bool form_is_signed(const struct form *form)
{
    for (size_t i = 0; i < countof(v4_names); i++)
        if (form_get(form, slice_of(v4_names[i])).ptr)
            return true;
    return form_get(form, S("awsaccesskeyid")).ptr || form_get(form, S("signature")).ptr;
}

static enum err wrong(struct sigv4_claim *claim, slice message, slice name, slice value)
{
    claim->fault = (struct s3_fault){
        .message = message,
        .more = { { S("ArgumentName"), name }, { S("ArgumentValue"), value } }, .more_count = 2 };
    return ERR_BAD_ARGUMENT;
}

static enum err wrong_credential(struct arena *keep, struct sigv4_claim *claim, slice said,
                                 const char *what, slice word, const char *expected)
{
    return wrong(claim, arena_printf(keep, what, SLICE_ARG(word), expected),
                 S("x-amz-credential"), said);
}

static enum err read_credential(struct arena *keep, slice said, struct sigv4_claim *claim)
{
    slice parts[5] = { { 0 } }, rest = said;
    size_t count = 0;
    for (; rest.ptr && count < countof(parts); count++)
        parts[count] = slice_cut(&rest, '/');
    if (rest.ptr || count < countof(parts))
        return wrong(claim, S("the Credential is mal-formed; expecting "
                              "\"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\"."),
                     S("x-amz-credential"), said);
    uint64_t day;
    if (parts[1].len != 8 || !slice_u64(parts[1], &day))
        return wrong_credential(keep, claim, said, "incorrect date format \"%.*s\". This date in "
                                "the credential must be in the format \"%s\".", parts[1],
                                "yyyyMMdd");
    if (!slice_eq(parts[3], S("s3")))
        return wrong_credential(keep, claim, said, "incorrect service \"%.*s\". This endpoint "
                                "belongs to \"%s\".", parts[3], "s3");
    if (!slice_eq(parts[4], S("aws4_request")))
        return wrong_credential(keep, claim, said, "incorrect terminal \"%.*s\". This endpoint "
                                "uses \"%s\".", parts[4], "aws4_request");
    claim->access_key = parts[0];
    claim->date = parts[1];
    claim->region = parts[2];
    claim->service = parts[3];
    return OK;
}

enum err form_claim(struct arena *keep, const struct form *form, struct sigv4_claim *ret)
{
    *ret = (struct sigv4_claim){ .payload = PAYLOAD_UNSIGNED };
    for (size_t i = 0; i < countof(v4_names); i++) {
        slice name = slice_of(v4_names[i]);
        if (!form_get(form, name).ptr)
            return wrong(ret, arena_printf(keep, "Bucket POST must contain a field named '%.*s'.  "
                                           "If it is specified, please check the order of the "
                                           "fields.", SLICE_ARG(name)), name, S(""));
    }
    slice algorithm = form_get(form, S("x-amz-algorithm"));
    if (!slice_eq(algorithm, S("AWS4-HMAC-SHA256")))
        return wrong(ret, S("Only AWS4-HMAC-SHA256 is supported"),
                     S("X-Amz-Algorithm"), algorithm);
    slice date = form_get(form, S("x-amz-date"));
    ret->signed_at_s = amz_date_read(date);
    if (ret->signed_at_s < 0)
        return wrong(ret, S("X-Amz-Date must be formated via ISO8601 Long format"),
                     S("X-Amz-Date"), date);
    ret->signature = form_get(form, S("x-amz-signature"));
    ret->session_token = form_get(form, S("x-amz-security-token"));
    return read_credential(keep, form_get(form, S("x-amz-credential")), ret);
}

enum err form_verify(struct sigv4 *sigv4, struct arena *scratch, const struct form *form,
                     const struct sigv4_claim *claim, slice secret_key)
{
    char ours[64];
    sigv4_text(sigv4, scratch, secret_key, claim, form_get(form, S("policy")), ours);
    return claim->signature.len == sizeof(ours) &&
           CRYPTO_memcmp(ours, claim->signature.ptr, sizeof(ours)) == 0 ? OK : ERR_SIGNATURE;
}

/* ---- signed by another ---- */

static slice replaced(struct arena *keep, slice in, slice what, slice with)
{
    struct text text = text_in(keep);
    const char *found;
    while (what.len && in.len >= what.len && (found = memmem(in.ptr, in.len, what.ptr, what.len))) {
        text_add(&text, slice_sub(in, 0, (size_t)(found - in.ptr)));
        text_add(&text, with);
        in = slice_from(in, (size_t)(found - in.ptr) + what.len);
    }
    text_add(&text, in);
    return text_slice(&text);
}

/* As some write a '/' in JSON. */
static slice escaped(struct arena *keep, slice s)
{
    return replaced(keep, s, S("/"), S("\\/"));
}

static slice base64_text(struct arena *keep, slice in)
{
    slice out = { arena_alloc(keep, in.len / 3 * 4 + 8), 0 };
    out.len = (size_t)EVP_EncodeBlock((unsigned char *)out.ptr, (const unsigned char *)in.ptr,
                                      (int)in.len);
    return out;
}

/* With a condition more, first in the list of them. */
static slice with_token(struct arena *keep, slice document, slice token)
{
    static const slice name = { "\"conditions\"", 12 };
    const char *found =
        document.len ? memmem(document.ptr, document.len, name.ptr, name.len) : NULL;
    slice behind = found ? slice_from(document, (size_t)(found - document.ptr) + name.len) : S("");
    (void)slice_cut(&behind, '[');
    if (!behind.ptr)
        return document;
    slice before = slice_sub(document, 0, (size_t)(behind.ptr - document.ptr)), next = behind;
    while (next.len && *next.ptr <= ' ')
        next = slice_from(next, 1);
    return arena_printf(keep, "%.*s{\"x-amz-security-token\":\"%.*s\"}%s%.*s", SLICE_ARG(before),
                        SLICE_ARG(token), slice_starts(next, S("]")) ? "" : ",",
                        SLICE_ARG(behind));
}

/* A token that is not the new signer's says nothing any more. */
static slice resigned(struct arena *keep, const struct form *form, slice credential, slice token)
{
    slice said = slice_trim(form_get(form, S("policy")));
    slice was = form_get(form, S("x-amz-credential"));
    size_t pad = slice_ends(said, S("==")) ? 2 : slice_ends(said, S("=")) ? 1 : 0;
    slice document = { arena_alloc(keep, said.len + 1),
                       said.len / 4 * 3 - (said.len >= 4 ? pad : 0) };
    if (!said.len || !base64_read(said, (uint8_t *)document.ptr, document.len))
        return said;    /* the origin says what is wrong with it */
    document = replaced(keep, document, was, credential);
    document = replaced(keep, document, escaped(keep, was), credential);
    document = replaced(keep, document, S("x-amz-security-token"), S("x-ignore-security-token"));
    return base64_text(keep, token.len ? with_token(keep, document, token) : document);
}

static void put_field(struct text *to, slice boundary, slice name, slice value)
{
    text_printf(to, "--%.*s\r\nContent-Disposition: form-data; name=\"%.*s\"\r\n\r\n",
                SLICE_ARG(boundary), SLICE_ARG(name));
    text_add(to, value);
    text_add(to, S("\r\n"));
}

/* The fields that are the signer's. */
static void put_signature(struct sigv4 *sigv4, struct arena *keep, const struct form *form,
                          const struct sigv4_credentials *with, slice region, slice boundary,
                          struct text *to)
{
    struct sigv4_claim scope;
    if (form_claim(keep, form, &scope) != OK)
        return;
    scope.region = region;
    slice credential = arena_printf(keep, "%.*s/%.*s/%.*s/s3/aws4_request",
                                    SLICE_ARG(with->access_key), SLICE_ARG(scope.date),
                                    SLICE_ARG(region));
    slice policy = resigned(keep, form, credential, with->session_token);
    char signature[64];
    sigv4_text(sigv4, keep, with->secret_key, &scope, policy, signature);
    put_field(to, boundary, S("policy"), policy);
    put_field(to, boundary, S("x-amz-algorithm"), S("AWS4-HMAC-SHA256"));
    put_field(to, boundary, S("x-amz-credential"), credential);
    put_field(to, boundary, S("x-amz-date"), form_get(form, S("x-amz-date")));
    put_field(to, boundary, S("x-amz-signature"), (slice){ signature, sizeof(signature) });
    if (with->session_token.len)
        put_field(to, boundary, S("x-amz-security-token"), with->session_token);
    else if (scope.session_token.len)
        put_field(to, boundary, S("x-ignore-security-token"), scope.session_token);
}

static bool is_signature(slice name)
{
    for (size_t i = 0; i < countof(v4_names); i++)
        if (slice_eq_nocase(name, slice_of(v4_names[i])))
            return true;
    return slice_eq_nocase(name, S("x-amz-security-token")) ||
           slice_eq_nocase(name, S("x-ignore-security-token")) ||
           slice_eq_nocase(name, S("awsaccesskeyid")) || slice_eq_nocase(name, S("signature"));
}

slice form_write(struct sigv4 *sigv4, struct arena *keep, const struct form *form,
                 const struct sigv4_credentials *with, slice region, slice boundary,
                 slice *ret_end)
{
    struct text to = text_in(keep);
    for (size_t i = 0; i < form->field_count; i++)
        if (!is_signature(form->fields[i].name))
            put_field(&to, boundary, form->fields[i].name, form->fields[i].value);
    if (with->access_key.len && form_is_signed(form))
        put_signature(sigv4, keep, form, with, region, boundary, &to);
    text_printf(&to, "--%.*s\r\nContent-Disposition: form-data; name=\"file\"; "
                "filename=\"file\"\r\n", SLICE_ARG(boundary));
    if (form->file_type.len)
        text_printf(&to, "Content-Type: %.*s\r\n", SLICE_ARG(form->file_type));
    text_add(&to, S("\r\n"));
    *ret_end = arena_printf(keep, "\r\n--%.*s--\r\n", SLICE_ARG(boundary));
    return text_slice(&to);
}
