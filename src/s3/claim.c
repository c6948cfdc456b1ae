/* claim.c - reads a request's claim about its signature. SPDX-License-Identifier: Apache-2.0
 *
 * A claim is what a request says about its signature: access key, date, signature and more. It
 * stands in an Authorization header or in parameters of the query. A request with both is refused,
 * and so is a claim with a part that occurs twice. Reading a claim proves nothing; sigv4.c and
 * sigv2.c prove it. Any thread may call these functions. */
#include <stdarg.h>
#include <stdio.h>

#include "s3/encode.h"
#include "s3/sigv4.h"

#define EXPIRES_S_MAX (7 * 86400)
#define NO_DATE "AWS authentication requires a valid Date or x-amz-date header."
#define CREDENTIAL "Error parsing the X-Amz-Credential parameter; "

/* The values of the headers and parameters that can make up a claim. ptr NULL: absent. */
struct sources {
    slice authorization, amz_date, date, sha256, token;
    slice algorithm, credential, query_date, expires, signed_headers, signature, query_token,
        query_sha256, v2_key, v2_signature, v2_expires;
};

static const struct source {
    slice name;
    size_t at;
} headers[] = {
    { { "authorization", 13 }, offsetof(struct sources, authorization) },
    { { "x-amz-date", 10 }, offsetof(struct sources, amz_date) },
    { { "x-amz-content-sha256", 20 }, offsetof(struct sources, sha256) },
    { { "x-amz-security-token", 20 }, offsetof(struct sources, token) },
    { { "date", 4 }, offsetof(struct sources, date) },
}, params[] = {
    { { "X-Amz-Algorithm", 15 }, offsetof(struct sources, algorithm) },
    { { "X-Amz-Credential", 16 }, offsetof(struct sources, credential) },
    { { "X-Amz-Date", 10 }, offsetof(struct sources, query_date) },
    { { "X-Amz-Expires", 13 }, offsetof(struct sources, expires) },
    { { "X-Amz-SignedHeaders", 19 }, offsetof(struct sources, signed_headers) },
    { { "X-Amz-Signature", 15 }, offsetof(struct sources, signature) },
    { { "X-Amz-Security-Token", 20 }, offsetof(struct sources, query_token) },
    { { "X-Amz-Content-Sha256", 20 }, offsetof(struct sources, query_sha256) },
    { { "AWSAccessKeyId", 14 }, offsetof(struct sources, v2_key) },
    { { "Signature", 9 }, offsetof(struct sources, v2_signature) },
    { { "Expires", 7 }, offsetof(struct sources, v2_expires) },
};

/* Returns the member for the value of a header or parameter, or NULL if the header or parameter is
 * no part of a claim. */
static slice *member_of(struct sources *sources, const struct source *rows, size_t count,
                        slice name)
{
    for (size_t i = 0; i < count; i++)
        if (name.len == rows[i].name.len && slice_eq_nocase(name, rows[i].name))
            return (slice *)((char *)sources + rows[i].at);
    return NULL;
}

static enum err find_headers(const struct request_head *head, struct sources *ret)
{
    for (size_t i = 0; i < head->field_count; i++) {
        slice *value = member_of(ret, headers, countof(headers), head->fields[i].name);
        if (value && value->ptr)
            return ERR_BAD_AUTH_HEADER;
        if (value)
            *value = head->fields[i].value;
    }
    return OK;
}

/* Finds the parameters by name, ignoring case, as S3 does. The signature covers the names as they
 * were sent. */
static enum err find_params(struct arena *keep, slice query, struct sources *ret)
{
    slice name, text;
    while (query_next(&query, &name, &text)) {
        if (query_decode(keep, name, &name) != OK)
            continue;    /* no parameter of a claim; a later check judges it */
        slice *value = member_of(ret, params, countof(params), name);
        if (value && (value->ptr || !text.ptr || query_decode(keep, text, value) != OK))
            return ERR_BAD_AUTH_QUERY;
    }
    return OK;
}

/* ---- the messages for a malformed claim, in S3's words ---- */

static slice quoted(slice s)
{
    return slice_sub(s, 0, S3_FAULT_QUOTED_MAX);
}

/* Reports a malformed claim. The error depends on where the claim stands: header or query. A
 * message about a claim in the query begins with `part`. Messages about a header all begin
 * alike. */
static PRINTF_LIKE(4, 5) enum err wrong(struct arena *keep, struct sigv4_claim *ret,
                                        const char *part, const char *fmt, ...)
{
    char text[2 * S3_FAULT_QUOTED_MAX + 200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    ret->fault.message = arena_printf(keep, "%s%s", ret->presigned ? part
                                      : "The authorization header is malformed; ", text);
    return ret->presigned ? ERR_BAD_AUTH_QUERY : ERR_BAD_AUTH_HEADER;
}

static enum err fault(struct sigv4_claim *ret, enum err err, const char *message)
{
    ret->fault.message = slice_of(message);
    return err;
}

/* ---- the parts of a claim ---- */

bool sigv4_credential_read(struct arena *keep, slice s, struct sigv4_claim *ret, slice *ret_why)
{
    size_t slashes = 0;
    for (size_t i = 0; i < s.len; i++)
        slashes += s.ptr[i] == '/';
    /* cut from the end, because the access key may have a slash */
    slice terminal = slice_cut_last(&s, '/');
    bool ours = slice_eq(terminal, S("aws4_request"));
    ret->service = slice_cut_last(&s, '/');
    ret->region = slice_cut_last(&s, '/');
    ret->date = slice_cut_last(&s, '/');
    ret->access_key = s;
    char stamp[AMZ_DATE_BYTES];
    slice_put(stamp, slice_sub(ret->date, 0, 8));
    slice_put(stamp + 8, S("T000000Z"));
    if (slashes < 4 || (slashes > 4 && !ours) || !s.len || !ret->region.len)
        *ret_why = S("the Credential is mal-formed; expecting "
                     "\"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".");
    else if (!slice_eq(ret->service, S("s3")))
        *ret_why = arena_printf(keep, "incorrect service \"%.*s\". This endpoint belongs to "
                                "\"s3\".", SLICE_ARG(quoted(ret->service)));
    else if (!ours)
        *ret_why = arena_printf(keep, "incorrect terminal \"%.*s\". This endpoint uses "
                                "\"aws4_request\".", SLICE_ARG(quoted(terminal)));
    else if (ret->date.len != 8 || amz_date_read((slice){ stamp, 16 }) < 0)
        *ret_why = arena_printf(keep, "incorrect date format \"%.*s\". This date in the credential "
                                "must be in the format \"yyyyMMdd\".",
                                SLICE_ARG(quoted(ret->date)));
    else
        return true;
    return false;
}

static enum err read_credential(struct arena *keep, slice credential, struct sigv4_claim *ret)
{
    slice why;
    return sigv4_credential_read(keep, credential, ret, &why)
         ? OK : wrong(keep, ret, CREDENTIAL, "%.*s", SLICE_ARG(why));
}

/* True if the names are in lower case and sorted, and no name occurs twice. */
static bool names_ordered(slice s)
{
    slice before = { NULL, 0 };
    if (!s.len)
        return false;
    while (s.ptr) {
        slice name = slice_cut(&s, ';');
        if (!name.len || (before.ptr && slice_cmp(before, name) >= 0))
            return false;
        for (size_t i = 0; i < name.len; i++)
            if (name.ptr[i] <= ' ' || name.ptr[i] == ':' || name.ptr[i] > '~' ||
                (name.ptr[i] >= 'A' && name.ptr[i] <= 'Z'))
                return false;
        before = name;
    }
    return true;
}

static enum err read_payload(slice hash, struct sigv4_claim *ret)
{
    ret->payload_hash = hash;
    if (slice_eq(hash, S("UNSIGNED-PAYLOAD")))
        ret->payload = PAYLOAD_UNSIGNED;
    else if (slice_eq(hash, S("STREAMING-AWS4-HMAC-SHA256-PAYLOAD")))
        ret->payload = PAYLOAD_SIGNED_CHUNKS;
    else if (slice_eq(hash, S("STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER")))
        ret->payload = PAYLOAD_SIGNED_CHUNKS_TRAILER;
    else if (slice_eq(hash, S("STREAMING-UNSIGNED-PAYLOAD-TRAILER")))
        ret->payload = PAYLOAD_CHUNKS_TRAILER;
    else if (slice_starts(hash, S("STREAMING-")))
        ret->payload = PAYLOAD_OTHER_CHUNKS;
    else if (slice_unhex(hash, ret->payload_sha256, sizeof(ret->payload_sha256)))
        ret->payload = PAYLOAD_HEX;
    else
        return s3_fault_argument(
            &ret->fault,
            S("x-amz-content-sha256 must be UNSIGNED-PAYLOAD, "
              "STREAMING-UNSIGNED-PAYLOAD-TRAILER, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, "
              "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER, "
              "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD, "
              "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER or a valid sha256 value."),
            S("x-amz-content-sha256"), hash);
    return OK;
}

/* Reads "Credential=..., SignedHeaders=..., Signature=...". The three may come in any order, each
 * once. */
static enum err components_read(struct arena *keep, slice s, slice *ret_credential,
                                struct sigv4_claim *ret)
{
    size_t count = 1;
    for (size_t i = 0; i < s.len; i++)
        count += s.ptr[i] == ',';
    if (count != 3)
        return wrong(keep, ret, "", "the authorization header requires three components: "
                     "Credential, SignedHeaders, and Signature.");
    while (s.ptr) {
        slice whole = slice_trim(slice_cut(&s, ',')), part = whole, name = slice_cut(&part, '=');
        slice *slot = slice_eq(name, S("Credential")) ? ret_credential
                    : slice_eq(name, S("SignedHeaders")) ? &ret->signed_headers
                    : slice_eq(name, S("Signature")) ? &ret->signature : NULL;
        if (!part.ptr)    /* only its start is quoted, because it may be a signature */
            return wrong(keep, ret, "", "the authorization component \"%.*s\" is malformed.",
                         SLICE_ARG(slice_sub(whole, 0, 32)));
        if (slot && !slot->ptr)
            *slot = part;    /* there are three parts: if one is repeated, another is missing */
    }
    const char *missing = !ret_credential->ptr ? "Credential"
                        : !ret->signed_headers.ptr ? "SignedHeaders"
                        : !ret->signature.ptr ? "Signature" : NULL;
    return missing ? wrong(keep, ret, "", "missing %s.", missing) : OK;
}

/* Checks a claim from a header or from the query: the names must be sorted, the signature must have
 * the right length, and the date must lie on the day that the credential names. */
static enum err claim_holds(struct arena *keep, struct sigv4_claim *ret)
{
    char stamp[AMZ_DATE_BYTES];
    amz_date_write(ret->signed_at_s, stamp);
    if (!slice_eq(ret->date, (slice){ stamp, 8 }))
        return ret->presigned
            ? wrong(keep, ret, "", "Invalid credential date \"%.*s\". This date is not the same as "
                    "X-Amz-Date: \"%.8s\".", SLICE_ARG(ret->date), stamp)
            : wrong(keep, ret, "", "The authorization header is malformed; Invalid credential "
                    "date. Date is not the same as X-Amz-Date.");
    if (!names_ordered(ret->signed_headers))
        return wrong(keep, ret, "", "SignedHeaders must be header names in lower case, each "
                     "once, in alphabetical order.");
    if (ret->signature.len != SIGNATURE_CHARS)    /* text that is not hex never matches */
        return wrong(keep, ret, "", "the Signature must have 64 hexadecimal digits.");
    return OK;
}

static enum err read_header_claim(struct arena *keep, const struct sources *from,
                                  struct sigv4_claim *ret)
{
    slice rest = from->authorization, scheme = slice_cut(&rest, ' ');
    slice credential = { NULL, 0 };
    if (!rest.ptr)
        return s3_fault_argument(
            &ret->fault,
            S("Authorization header is invalid -- one and only one ' ' (space) required."),
            S("Authorization"), from->authorization);
    if (!slice_eq(scheme, S("AWS4-HMAC-SHA256")))
        return s3_fault_argument(&ret->fault, S("Unsupported Authorization Type"),
                                 S("Authorization"), scheme);
    enum err e = components_read(keep, rest, &credential, ret);
    if (!e)
        e = read_credential(keep, credential, ret);
    if (e)
        return e;
    ret->signed_at_s = from->amz_date.ptr ? amz_date_read(from->amz_date)
                                          : http_date_read(from->date);
    if (ret->signed_at_s < 0)
        return fault(ret, ERR_DENIED, NO_DATE);
    e = claim_holds(keep, ret);
    if (e)
        return e;
    ret->session_token = from->token;
    if (!from->sha256.ptr)
        return fault(ret, ERR_BAD_REQUEST,
                   "Missing required header for this request: x-amz-content-sha256");
    return read_payload(from->sha256, ret);
}

/* Reads the number of seconds that a presigned URL is valid: at most 604800, which is a week. */
static enum err expires_read(struct arena *keep, slice s, struct sigv4_claim *ret)
{
    uint64_t expires_s;
    slice digits = slice_from(s, slice_starts(s, S("-")) ? 1 : 0);
    if (!slice_u64(digits, &expires_s))
        return wrong(keep, ret, "", "X-Amz-Expires should be a number");
    if (digits.len < s.len)
        return wrong(keep, ret, "", "X-Amz-Expires must be non-negative");
    if (expires_s > EXPIRES_S_MAX)
        return wrong(keep, ret, "", "X-Amz-Expires must be less than a week (in seconds); that is, "
                     "the given X-Amz-Expires must be less than 604800 seconds");
    ret->expires_s = (int64_t)expires_s;
    return OK;
}

static enum err query_is_whole(struct arena *keep, const struct sources *from,
                               struct sigv4_claim *ret)
{
    if (!from->algorithm.len || !from->credential.len || !from->signature.len ||
        !from->query_date.len || !from->signed_headers.len || !from->expires.len)
        return wrong(keep, ret, "", "Query-string authentication version 4 requires the "
                     "X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, X-Amz-Date, "
                     "X-Amz-SignedHeaders, and X-Amz-Expires parameters.");
    if (slice_eq(from->algorithm, S("AWS4-ECDSA-P256-SHA256")))
        return wrong(keep, ret, "", "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"");
    if (!slice_eq(from->algorithm, S("AWS4-HMAC-SHA256")))
        /* AWS's own words */
        return wrong(keep, ret, "", "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256 and "
                     "AWS4-ECDSA-P256-SHA256\"");
    return OK;
}

static enum err read_query_claim(struct arena *keep, const struct sources *from,
                                 struct sigv4_claim *ret)
{
    ret->presigned = true;
    enum err e = query_is_whole(keep, from, ret);
    if (!e)
        e = read_credential(keep, from->credential, ret);
    if (!e && (ret->signed_at_s = amz_date_read(from->query_date)) < 0)
        e = wrong(keep, ret, "", "X-Amz-Date must be in the ISO8601 Long Format "
                  "\"yyyyMMdd'T'HHmmss'Z'\"");
    ret->signed_headers = from->signed_headers;
    ret->signature = from->signature;
    if (!e)
        e = expires_read(keep, from->expires, ret);
    if (!e)
        e = claim_holds(keep, ret);
    if (e)
        return e;
    if (from->token.ptr && from->query_token.ptr)
        return wrong(keep, ret, "", "X-Amz-Security-Token is given as a header and as a "
                     "parameter: send one of them.");
    ret->session_token = from->query_token.ptr ? from->query_token : from->token;
    slice hash = from->sha256.ptr ? from->sha256 : from->query_sha256;
    return read_payload(hash.ptr ? hash : S("UNSIGNED-PAYLOAD"), ret);
}

/* ---- version 2 ---- */

/* Reads a date as in x-amz-date, or an HTTP date. Older clients end an HTTP date in "+0000". */
static int64_t v2_date_read(struct arena *keep, slice s)
{
    int64_t amz_s = amz_date_read(s);
    if (slice_ends(s, S(" +0000")))
        s = arena_printf(keep, "%.*s GMT", (int)(s.len - 6), s.ptr);
    return amz_s >= 0 ? amz_s : http_date_read(s);
}

static enum err read_v2_header(struct arena *keep, const struct sources *from,
                               struct sigv4_claim *ret)
{
    slice key = slice_trim(slice_from(from->authorization, 4));
    slice signature = slice_cut_last(&key, ':');
    if (!key.len || !signature.len)
        return fault(ret, ERR_AUTH_V2, "AWS authorization header is invalid. Expected "
                     "AwsAccessKeyId:signature");
    ret->access_key = key;
    ret->signature = signature;
    ret->signed_at_s = v2_date_read(keep, from->amz_date.ptr ? from->amz_date : from->date);
    return ret->signed_at_s < 0 ? fault(ret, ERR_DENIED, NO_DATE) : OK;
}

static enum err read_v2_query(const struct sources *from, struct sigv4_claim *ret)
{
    uint64_t end_s;
    ret->presigned = true;
    ret->access_key = from->v2_key;
    ret->signature = from->v2_signature;
    if (!ret->access_key.len || !ret->signature.len || !from->v2_expires.len)
        return fault(ret, ERR_DENIED, "Query-string authentication requires the Signature, Expires "
                     "and AWSAccessKeyId parameters");
    if (!slice_u64(from->v2_expires, &end_s) || end_s > INT64_MAX / 2)
        return fault(ret, ERR_DENIED, "Invalid date (should be seconds since epoch)");
    ret->expires_s = (int64_t)end_s;
    return OK;
}

static bool occurs_twice(const struct request_head *head, slice name)
{
    size_t count = 0;
    for (size_t i = 0; i < head->field_count; i++)
        count += slice_eq_nocase(head->fields[i].name, name);
    return count > 1;
}

static enum err read_v2_claim(struct arena *keep, const struct request_head *head,
                              const struct sources *from, struct sigv4_claim *ret)
{
    ret->v2 = true;
    if (occurs_twice(head, S("content-md5")) || occurs_twice(head, S("content-type")) ||
        (from->token.ptr && from->query_token.ptr))
        /* the signature could cover one value while Penstock uses the other */
        return fault(ret, ERR_AUTH_V2, "With a signature of version 2, Content-MD5, Content-Type "
                     "and the session token may be given only once.");
    ret->session_token = from->token.ptr ? from->token : from->query_token;
    enum err e = from->authorization.ptr ? read_v2_header(keep, from, ret)
                                         : read_v2_query(from, ret);
    slice hash = from->sha256.ptr ? from->sha256 : from->query_sha256;
    if (!e)
        e = read_payload(hash.ptr ? hash : S("UNSIGNED-PAYLOAD"), ret);
    bool can_sign = ret->payload == PAYLOAD_UNSIGNED || ret->payload == PAYLOAD_HEX ||
                    ret->payload == PAYLOAD_CHUNKS_TRAILER;
    return e || can_sign ? e : fault(ret, ERR_BAD_ARGUMENT, "A signature of version 2 can't sign "
                                     "chunks: sign with version 4.");
}

/* ---- a whole claim ---- */

enum err sigv4_claim_read(struct arena *keep, const struct request_head *head,
                          struct sigv4_claim *ret)
{
    struct sources from = { 0 };
    *ret = (struct sigv4_claim){ 0 };
    enum err e = find_headers(head, &from);
    if (!e && head->query.len)
        e = find_params(keep, head->query, &from);
    if (e)
        return e;
    bool v2 = from.v2_key.ptr || from.v2_signature.ptr;
    bool v4 = from.algorithm.ptr || from.credential.ptr || from.signature.ptr ||
              from.signed_headers.ptr || from.expires.ptr;
    if ((from.authorization.ptr != NULL) + v2 + v4 > 1)
        return s3_fault_argument(
            &ret->fault,
            S("Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, "
              "Signature query string parameter or the Authorization header should be specified"),
            S("Authorization"), from.authorization);
    if (from.sha256.ptr && from.query_sha256.ptr && !slice_eq(from.sha256, from.query_sha256))
        return fault(ret, ERR_BAD_ARGUMENT, "x-amz-content-sha256 has one value as a header, and "
                     "another as a parameter: send one of them.");
    if (v2 || slice_starts(from.authorization, S("AWS ")))
        return read_v2_claim(keep, head, &from, ret);
    if (from.authorization.ptr)
        return read_header_claim(keep, &from, ret);
    if (v4)
        return read_query_claim(keep, &from, ret);
    /* An unsigned request may still give the hash of its body. If the hash can't be read, no body
     * will match it. */
    enum err unread = read_payload(from.sha256.ptr ? from.sha256 : S("UNSIGNED-PAYLOAD"), ret);
    (void)unread;
    ret->fault = (struct s3_fault){ .more_count = 0 };
    return ERR_NO_AUTH;
}

enum err sigv4_claim_region(struct arena *keep, slice regions, struct sigv4_claim *claim)
{
    if (claim->v2 || !regions.len)
        return OK;
    slice first = S("");
    for (slice rest = regions; rest.ptr;) {
        slice region = slice_trim(slice_cut(&rest, ','));
        if (slice_eq(region, claim->region))
            return OK;
        first = first.len ? first : region;
    }
    enum err e = wrong(keep, claim, CREDENTIAL, "the region \"%.*s\" is wrong; expecting "
                       "\"%.*s\"", SLICE_ARG(quoted(claim->region)), SLICE_ARG(quoted(first)));
    if (!claim->presigned)
        s3_fault_add(&claim->fault, S("Region"), first);
    return e;
}
