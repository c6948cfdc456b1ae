/* form_sign.c - verifies the signature of a form, and signs it anew.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Clients sign forms by signature version 4, or by the older version 2. The form for the origin is
 * signed by version 4, which every origin accepts. In the policy, only the signer changes. The
 * origin judges the conditions and the expiry, and its answer goes to the client. */

#include "s3/encode.h"
#include "s3/form.h"
#include "s3/sigv2.h"

/* ---- the client's signature ---- */

static const char *const v4_names[] = {
    "policy", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature",
};
static const char *const v2_names[] = { "policy", "AWSAccessKeyId", "Signature" };

/* True if the form has one of these fields. The policy does not count, because both versions have
 * it. */
static bool is_signed_by(const struct form *form, const char *const *names, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (form_get(form, slice_of(names[i])).ptr)
            return true;
    return false;
}

bool form_is_signed(const struct form *form)
{
    return form_get(form, S("policy")).ptr ||
           is_signed_by(form, v4_names, countof(v4_names)) ||
           is_signed_by(form, v2_names, countof(v2_names));
}

enum err form_lacks(struct arena *keep, slice name, struct s3_fault *ret)
{
    slice message = arena_printf(keep, "Bucket POST must contain a field named '%.*s'.  If it is "
                                 "specified, please check the order of the fields.",
                                 SLICE_ARG(name));
    return s3_fault_argument(ret, message, name, S(""));
}

static enum err need_fields(struct arena *keep, const struct form *form, const char *const *names,
                            size_t count, struct sigv4_claim *claim)
{
    for (size_t i = 0; i < count; i++) {
        slice name = slice_of(names[i]);
        if (!form_get(form, name).ptr)
            return form_lacks(keep, name, &claim->fault);
    }
    return OK;
}

static enum err claim_v2(struct arena *keep, const struct form *form, struct sigv4_claim *ret)
{
    ret->v2 = true;
    ret->access_key = form_get(form, S("AWSAccessKeyId"));
    ret->signature = form_get(form, S("Signature"));
    return need_fields(keep, form, v2_names, countof(v2_names), ret);
}

static enum err claim_v4(struct arena *keep, const struct form *form, struct sigv4_claim *ret)
{
    enum err err = need_fields(keep, form, v4_names, countof(v4_names), ret);
    if (err)
        return err;
    slice algorithm = form_get(form, S("x-amz-algorithm"));
    if (!slice_eq(algorithm, S("AWS4-HMAC-SHA256")))
        return s3_fault_argument(&ret->fault, S("Only AWS4-HMAC-SHA256 is supported"),
                                 S("X-Amz-Algorithm"), algorithm);
    slice date = form_get(form, S("x-amz-date"));
    ret->signed_at_s = amz_date_read(date);
    if (ret->signed_at_s < 0)
        return s3_fault_argument(&ret->fault,
                                 S("X-Amz-Date must be formated via ISO8601 Long format"),
                                 S("X-Amz-Date"), date);
    ret->signature = form_get(form, S("x-amz-signature"));
    slice credential = form_get(form, S("x-amz-credential")), why;
    return sigv4_credential_read(keep, credential, ret, &why)
         ? OK : s3_fault_argument(&ret->fault, why, S("x-amz-credential"), credential);
}

enum err form_claim(struct arena *keep, const struct form *form, struct sigv4_claim *ret)
{
    *ret = (struct sigv4_claim){ .payload = PAYLOAD_UNSIGNED,
                                 .session_token = form_get(form, S("x-amz-security-token")) };
    bool v2 = !is_signed_by(form, v4_names, countof(v4_names)) &&
              is_signed_by(form, v2_names, countof(v2_names));
    return v2 ? claim_v2(keep, form, ret) : claim_v4(keep, form, ret);
}

enum err form_verify(struct sigv4 *sigv4, struct arena *scratch, const struct form *form,
                     const struct sigv4_claim *claim, slice secret_key)
{
    char ours[64];
    slice policy = form_get(form, S("policy"));
    if (claim->v2)
        return sigv2_text_is(secret_key, policy, claim->signature) ? OK : ERR_SIGNATURE;
    sigv4_text(sigv4, scratch, secret_key, claim, policy, ours);
    return secret_key.len && sigv4_is_same(claim->signature, ours) ? OK : ERR_SIGNATURE;
}

/* ---- the new signature ---- */

/* Returns the text with '/' written as "\/", which is allowed in JSON. */
static slice escaped(struct arena *keep, slice s)
{
    return form_replaced(keep, s, S("/"), S("\\/"), SIZE_MAX);
}

/* Adds conditions at the front of the document's list "conditions". A document without this list
 * stays as it is. */
static slice with_conditions(struct arena *keep, slice document, slice conditions)
{
    slice name = S("\"conditions\"");
    slice behind = slice_from(document, slice_find(document, name) + name.len);
    (void)slice_cut(&behind, '[');
    if (!behind.ptr || !conditions.len)
        return document;
    slice before = slice_sub(document, 0, (size_t)(behind.ptr - document.ptr)), next = behind;
    while (next.len && *next.ptr <= ' ')
        next = slice_from(next, 1);
    struct text text = text_in(keep);
    text_add(&text, before);
    text_add(&text, conditions);
    text_add(&text, slice_starts(next, S("]")) ? S("") : S(","));
    text_add(&text, behind);
    return text_slice(&text);
}

/* The new signer, and the time of the signature. */
struct signer {
    struct sigv4_claim scope;
    slice credential, amz_date, token;    /* empty token: no session token */
};

/* Returns the conditions to add to the policy. Every field of a form needs a condition, so the
 * fields that are new with version 4 need one, too. */
static slice conditions_of(struct arena *keep, bool was_v2, const struct signer *signer)
{
    struct text text = text_in(keep);
    if (was_v2)
        text_printf(&text, "{\"x-amz-algorithm\":\"AWS4-HMAC-SHA256\"},{\"x-amz-credential\":\""
                    "%.*s\"},{\"x-amz-date\":\"%.*s\"}", SLICE_ARG(signer->credential),
                    SLICE_ARG(signer->amz_date));
    if (signer->token.len)
        text_printf(&text, "%s{\"x-amz-security-token\":\"%.*s\"}", was_v2 ? "," : "",
                    SLICE_ARG(signer->token));
    return text_slice(&text);
}

/* Returns the policy for the new signer. The condition for the old signer's session token is
 * renamed, so that the condition has no effect. */
static slice resigned(struct arena *keep, const struct form *form, const struct signer *signer)
{
    slice policy = slice_trim(form_get(form, S("policy"))), document = base64_decode(keep, policy);
    slice was = form_get(form, S("x-amz-credential"));
    if (!document.len)
        return policy;    /* an unreadable policy: the origin's answer says what is wrong */
    document = form_replaced(keep, document, was, signer->credential, SIZE_MAX);
    document = form_replaced(keep, document, escaped(keep, was), signer->credential, SIZE_MAX);
    document = form_replaced(keep, document, S("x-amz-security-token"),
                             S("x-ignore-security-token"), SIZE_MAX);
    slice conditions = conditions_of(keep, signer->scope.v2, signer);
    return base64_write(keep, with_conditions(keep, document, conditions));
}

static void put_field(struct text *to, slice boundary, slice name, slice value)
{
    text_printf(to, "--%.*s\r\nContent-Disposition: form-data; name=\"%.*s\"\r\n\r\n",
                SLICE_ARG(boundary), SLICE_ARG(name));
    text_add(to, value);
    text_add(to, S("\r\n"));
}

/* Returns the new signer, with the date of the old signature. A signature of version 2 has no date,
 * so the new signature has today's date. */
static struct signer signer_of(struct arena *keep, const struct form *form,
                               const struct sigv4_claim *claim,
                               const struct sigv4_credentials *with, slice region, int64_t now_s)
{
    struct signer signer = { .scope = *claim, .token = with->session_token };
    char now[AMZ_DATE_BYTES];
    amz_date_write(now_s, now);
    signer.amz_date = claim->v2 ? arena_copy(keep, slice_of(now)) : form_get(form, S("x-amz-date"));
    signer.scope.date = claim->v2 ? slice_sub(signer.amz_date, 0, 8) : claim->date;
    signer.scope.service = S("s3");
    signer.scope.region = region;
    signer.credential = arena_printf(keep, "%.*s/%.*s/%.*s/s3/aws4_request",
                                     SLICE_ARG(with->access_key), SLICE_ARG(signer.scope.date),
                                     SLICE_ARG(region));
    return signer;
}

/* Writes the fields that depend on the signer. */
static void put_signature(struct sigv4 *sigv4, struct arena *keep, const struct form *form,
                          const struct signer *signer, slice secret_key, slice boundary,
                          struct text *to)
{
    slice policy = resigned(keep, form, signer);
    char signature[64];
    sigv4_text(sigv4, keep, secret_key, &signer->scope, policy, signature);
    put_field(to, boundary, S("policy"), policy);
    put_field(to, boundary, S("x-amz-algorithm"), S("AWS4-HMAC-SHA256"));
    put_field(to, boundary, S("x-amz-credential"), signer->credential);
    put_field(to, boundary, S("x-amz-date"), signer->amz_date);
    put_field(to, boundary, S("x-amz-signature"), (slice){ signature, sizeof(signature) });
    if (signer->token.len)
        put_field(to, boundary, S("x-amz-security-token"), signer->token);
    else if (signer->scope.session_token.len)
        put_field(to, boundary, S("x-ignore-security-token"), signer->scope.session_token);
}

static bool is_signature(slice name)
{
    return slice_is_one_of_nocase(name, v4_names, countof(v4_names)) ||
           slice_is_one_of_nocase(name, v2_names, countof(v2_names)) ||
           slice_eq_nocase(name, S("x-amz-security-token")) ||
           slice_eq_nocase(name, S("x-ignore-security-token"));
}

slice form_write(struct sigv4 *sigv4, struct arena *keep, const struct form *form,
                 const struct sigv4_credentials *with, slice region, int64_t now_s, slice boundary,
                 slice *ret_end)
{
    struct text to = text_in(keep);
    struct sigv4_claim claim;
    check(boundary.len > 0 && form->field_count <= FORM_FIELDS_MAX);
    for (size_t i = 0; i < form->field_count; i++)
        if (!is_signature(form->fields[i].name))
            put_field(&to, boundary, form->fields[i].name, form->fields[i].value);
    if (with->access_key.len && form_claim(keep, form, &claim) == OK) {
        struct signer signer = signer_of(keep, form, &claim, with, region, now_s);
        put_signature(sigv4, keep, form, &signer, with->secret_key, boundary, &to);
    }
    text_printf(&to, "--%.*s\r\nContent-Disposition: form-data; name=\"file\"; "
                "filename=\"file\"\r\n", SLICE_ARG(boundary));
    if (form->file_type.len)
        text_printf(&to, "Content-Type: %.*s\r\n", SLICE_ARG(form->file_type));
    text_add(&to, S("\r\n"));
    *ret_end = arena_printf(keep, "\r\n--%.*s--\r\n", SLICE_ARG(boundary));
    return text_slice(&to);
}
