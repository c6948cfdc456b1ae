/* claim.c - what a request says about its signature. SPDX-License-Identifier: Apache-2.0
 *
 * A claim comes in an Authorization header or in X-Amz- parameters, never in both, and nothing in
 * it may be said twice. Reading it proves nothing: sigv4.c does. Any thread. */
#include <string.h>

#include "s3/encode.h"
#include "s3/sigv4.h"

#define EXPIRES_S_MAX (7 * 86400)
#define SIGNATURE_CHARS 64    /* compared as text: what is no hex matches nothing */

static bool named(const struct http_field *field, slice name)
{
    return field->name.len == name.len && slice_eq_nocase(field->name, name);
}

/* The headers and parameters that carry a claim; ptr NULL where absent. */
struct sources {
    slice authorization, amz_date, date, sha256, token;
    slice algorithm, credential, query_date, expires, signed_headers, signature, query_token,
        query_sha256, v2_key, v2_signature;
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
};

static slice *slot_of(struct sources *sources, const struct source *source)
{
    return (slice *)((char *)sources + source->at);
}

static enum err find_headers(const struct http_head *head, struct sources *ret)
{
    for (size_t i = 0; i < head->field_count; i++)
        for (size_t k = 0; k < countof(headers); k++) {
            if (!named(&head->fields[i], headers[k].name))
                continue;
            slice *slot = slot_of(ret, &headers[k]);
            if (slot->ptr)
                return ERR_BAD_AUTH_HEADER;
            *slot = head->fields[i].value;
        }
    return OK;
}

/* In any case, as S3 reads them; the signature is over them as they were sent. */
static enum err find_params(struct arena *keep, slice query, struct sources *ret)
{
    slice name, value;
    while (query_next(&query, &name, &value)) {
        if (uri_decode(keep, name, &name) != OK)
            continue;    /* no name of these; whether it may be there at all is asked later */
        for (size_t k = 0; k < countof(params); k++) {
            if (!named(&(struct http_field){ name, value }, params[k].name))
                continue;
            slice *slot = slot_of(ret, &params[k]);
            if (slot->ptr || !value.ptr || uri_decode(keep, value, slot) != OK)
                return ERR_BAD_AUTH_QUERY;
        }
    }
    return OK;
}

static slice cut_last(slice *rest)
{
    size_t at = rest->len;
    while (at && rest->ptr[at - 1] != '/')
        at--;
    slice last = slice_from(*rest, at);
    rest->len = at ? at - 1 : 0;
    return last;
}

/* access key / day / region / "s3" / "aws4_request"; read from behind: the key is the client's. */
static bool credential_read(slice s, struct sigv4_claim *ret)
{
    char stamp[AMZ_DATE_BYTES];
    amz_date_write(ret->signed_at_s, stamp);
    if (!slice_eq(cut_last(&s), S("aws4_request")))
        return false;
    ret->service = cut_last(&s);
    ret->region = cut_last(&s);
    ret->date = cut_last(&s);
    ret->access_key = s;
    return slice_eq(ret->service, S("s3")) && ret->region.len && ret->access_key.len &&
           slice_eq(ret->date, (slice){ stamp, 8 });
}

/* Lower case, each once, in order: what sorting them again would give. */
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
        return ERR_BAD_ARGUMENT;
    return OK;
}

/* "Credential=..., SignedHeaders=..., Signature=..." in any order, each once. */
static bool components_read(slice s, slice *ret_credential, struct sigv4_claim *ret)
{
    while (s.ptr) {
        slice part = slice_trim(slice_cut(&s, ',')), name = slice_cut(&part, '=');
        slice *slot = slice_eq(name, S("Credential")) ? ret_credential
                    : slice_eq(name, S("SignedHeaders")) ? &ret->signed_headers
                    : slice_eq(name, S("Signature")) ? &ret->signature : NULL;
        if (!slot || slot->ptr || !part.ptr)
            return false;
        *slot = part;
    }
    return ret_credential->ptr && ret->signed_headers.ptr && ret->signature.ptr;
}

static enum err read_header_claim(const struct sources *from, struct sigv4_claim *ret)
{
    slice rest = from->authorization, scheme = slice_cut(&rest, ' ');
    if (slice_eq(scheme, S("AWS")))
        return ERR_AUTH_V2;
    slice credential = { NULL, 0 };
    if (!slice_eq(scheme, S("AWS4-HMAC-SHA256")) || !components_read(rest, &credential, ret))
        return ERR_BAD_AUTH_HEADER;
    ret->signed_at_s = from->amz_date.ptr ? amz_date_read(from->amz_date)
                                          : http_date_read(from->date);
    if (ret->signed_at_s < 0)
        return ERR_DENIED;    /* S3: AWS authentication requires a valid Date or x-amz-date */
    if (!credential_read(credential, ret) || !names_ordered(ret->signed_headers) ||
        ret->signature.len != SIGNATURE_CHARS)
        return ERR_BAD_AUTH_HEADER;
    ret->session_token = from->token;
    return from->sha256.ptr ? read_payload(from->sha256, ret) : ERR_BAD_REQUEST;
}

static enum err read_query_claim(const struct sources *from, struct sigv4_claim *ret)
{
    uint64_t expires_s;
    if (!slice_eq(from->algorithm, S("AWS4-HMAC-SHA256")) || !from->credential.ptr ||
        !from->signature.ptr || (from->token.ptr && from->query_token.ptr) ||
        !slice_u64(from->expires, &expires_s) || expires_s > EXPIRES_S_MAX)
        return ERR_BAD_AUTH_QUERY;
    ret->presigned = true;
    ret->expires_s = (int64_t)expires_s;
    ret->signed_at_s = amz_date_read(from->query_date);
    ret->signed_headers = from->signed_headers;
    ret->signature = from->signature;
    if (ret->signed_at_s < 0 || !credential_read(from->credential, ret) ||
        !names_ordered(ret->signed_headers) || ret->signature.len != SIGNATURE_CHARS)
        return ERR_BAD_AUTH_QUERY;
    ret->session_token = from->query_token.ptr ? from->query_token : from->token;
    slice hash = from->sha256.ptr ? from->sha256 : from->query_sha256;
    return read_payload(hash.ptr ? hash : S("UNSIGNED-PAYLOAD"), ret);
}

enum err sigv4_claim_read(struct arena *keep, const struct http_head *head,
                          struct sigv4_claim *ret)
{
    struct sources from = { 0 };
    *ret = (struct sigv4_claim){ 0 };
    enum err e = find_headers(head, &from);
    if (!e && head->query.len)
        e = find_params(keep, head->query, &from);
    if (e)
        return e;
    bool v2 = from.v2_key.ptr && from.v2_signature.ptr;
    bool v4 = from.algorithm.ptr || from.credential.ptr || from.signature.ptr;
    if ((from.authorization.ptr != NULL) + v2 + v4 > 1)
        return ERR_BAD_ARGUMENT;    /* S3: only one auth mechanism allowed */
    if (from.sha256.ptr && from.query_sha256.ptr && !slice_eq(from.sha256, from.query_sha256))
        return ERR_BAD_ARGUMENT;
    if (from.authorization.ptr)
        return read_header_claim(&from, ret);
    if (v4)
        return read_query_claim(&from, ret);
    if (v2)
        return ERR_AUTH_V2;
    /* who signs nothing may still say what the body is; nonsense is a digest that never fits */
    enum err unread = read_payload(from.sha256.ptr ? from.sha256 : S("UNSIGNED-PAYLOAD"), ret);
    (void)unread;
    return ERR_NO_AUTH;
}
