/* sigv2.c - verifies signatures of version 2 (sigv2.h). SPDX-License-Identifier: Apache-2.0 */
#include "s3/sigv2.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "s3/encode.h"

#define SKEW_S (15 * 60)
#define SHA1_BYTES 20
#define LINES_MAX 256

/* Parameters that the signature covers, with their values. */
static const char *const signed_params[] = {
    "accelerate", "acl", "analytics", "cors", "defaultObjectAcl", "delete", "inventory",
    "lifecycle", "location", "logging", "metrics", "notification", "object-lock", "partNumber",
    "policy", "replication", "requestPayment", "response-cache-control",
    "response-content-disposition", "response-content-encoding", "response-content-language",
    "response-content-type", "response-expires", "restore", "select", "select-type", "storageClass",
    "tagging", "torrent", "uploadId", "uploads", "versionId", "versioning", "versions", "website",
};
/* Parameters that the signature does not cover: parts of the claim, and filters of a list. */
static const char *const free_params[] = {
    "AWSAccessKeyId", "Signature", "Expires", "x-id", "list-type", "prefix", "delimiter", "marker",
    "max-keys", "encoding-type", "continuation-token", "start-after", "fetch-owner", "key-marker",
    "version-id-marker", "upload-id-marker", "max-uploads", "part-number-marker", "max-parts",
};

static bool is_amz(slice name)
{
    return slice_starts_nocase(name, S("x-amz-"));
}

/* ---- the signed text ---- */

struct lines {
    struct http_field list[LINES_MAX];
    size_t count;
};

/* Inserts a line in the order of names; equal names keep their order. */
static bool insert(struct lines *lines, slice name, slice value)
{
    size_t at = lines->count;
    if (at == LINES_MAX)
        return false;
    for (; at && slice_cmp(lines->list[at - 1].name, name) > 0; at--)
        lines->list[at] = lines->list[at - 1];
    lines->list[at] = (struct http_field){ name, value };
    lines->count++;
    return true;
}

/* Returns the value of a header, or of the parameter of that name in a presigned URL. Returns an
 * empty slice if there is no such header or parameter, or if the parameter occurs twice. */
static slice signed_value(struct arena *keep, const struct request_head *head,
                          const struct sigv4_claim *claim, slice name)
{
    slice rest = head->query, param, text, value = request_head_get(head, name);
    if (value.ptr || !claim->presigned)
        return slice_trim(value);
    while (query_next(&rest, &param, &text)) {
        if (!slice_eq_nocase(param, name))
            continue;
        if (value.ptr || !text.ptr || query_decode(keep, text, &value) != OK)
            return S("");
    }
    return slice_trim(value);
}

static enum err put_amz(struct arena *keep, const struct request_head *head,
                        const struct sigv4_claim *claim, struct text *to)
{
    struct lines lines = { .count = 0 };
    slice rest = head->query, name, value;
    for (size_t i = 0; i < head->field_count; i++)
        if (is_amz(head->fields[i].name) &&
            !insert(&lines, arena_lower(keep, head->fields[i].name),
                    slice_trim(head->fields[i].value)))
            return ERR_BAD_URI;
    while (claim->presigned && query_next(&rest, &name, &value)) {
        if (!is_amz(name))
            continue;
        if (query_decode(keep, value.ptr ? value : S(""), &value) != OK ||
            !insert(&lines, arena_lower(keep, name), slice_trim(value)))
            return ERR_BAD_URI;
    }
    for (size_t i = 0; i < lines.count; i++) {
        const struct http_field *line = &lines.list[i];
        if (i && slice_eq(line->name, line[-1].name))
            text_printf(to, ",%.*s", SLICE_ARG(line->value));
        else
            text_printf(to, "%s%.*s:%.*s", i ? "\n" : "", SLICE_ARG(line->name),
                        SLICE_ARG(line->value));
    }
    if (lines.count)
        text_char(to, '\n');
    return OK;
}

/* True for the path of a bucket. boto3 signs this path with a slash at the end, but sends it
 * without that slash. */
static bool is_bucket(slice path)
{
    return path.len > 1 && path.ptr[0] == '/' && !slice_has(slice_from(path, 1), '/');
}

enum valueless { AS_SENT, BARE, EMPTY };    /* BARE: "?uploads"; EMPTY: "?uploads=" */

/* A way to write the signed text. A client may sign another variant than it sends. */
struct variant {
    enum valueless valueless;
    bool with_slash;
};

/* minio-go sends "?uploads=" but signs "?uploads". The two mean the same, so a signature of either
 * form is good. If a query has parameters of both forms, the client may sign it as sent, or with
 * all of them bare, as S3 documents it. */
static enum valueless other_form(slice query)
{
    slice name, value;
    bool bare = false, empty = false;
    while (query_next(&query, &name, &value)) {
        bare |= !value.ptr;
        empty |= value.ptr && !value.len;
    }
    return empty ? BARE : bare ? EMPTY : AS_SENT;
}

static void put_param(const struct http_field *param, char before, enum valueless valueless,
                      struct text *to)
{
    bool equals = valueless == AS_SENT || param->value.len ? param->value.ptr != NULL
                                                           : valueless == EMPTY;
    text_printf(to, "%c%.*s%s%.*s", before, SLICE_ARG(param->name), equals ? "=" : "",
                SLICE_ARG(param->value));
}

/* Writes the path and the signed parameters. Every parameter must be one of signed_params, one of
 * free_params, or (in a presigned URL) a header. */
static enum err put_resource(struct arena *keep, const struct request_head *head,
                             const struct sigv4_claim *claim, slice bucket,
                             struct variant variant, struct text *to)
{
    struct lines lines = { .count = 0 };
    slice rest = head->query, name, value;
    if (bucket.len)
        text_printf(to, "/%.*s", SLICE_ARG(bucket));
    text_printf(to, "%.*s%s", SLICE_ARG(head->path), variant.with_slash ? "/" : "");
    while (query_next(&rest, &name, &value)) {
        bool is_header = is_amz(name) || slice_eq_nocase(name, S("content-md5")) ||
                         slice_eq_nocase(name, S("content-type"));
        if ((claim->presigned && is_header) ||
            slice_is_one_of(name, free_params, countof(free_params)))
            continue;
        if (!slice_is_one_of(name, signed_params, countof(signed_params)))
            return ERR_NOT_SIGNED;
        if ((value.ptr && query_decode(keep, value, &value) != OK) || !insert(&lines, name, value))
            return ERR_BAD_URI;
    }
    for (size_t i = 0; i < lines.count; i++)
        put_param(&lines.list[i], i ? '&' : '?', variant.valueless, to);
    return OK;
}

static enum err text_to_sign(struct arena *keep, const struct request_head *head,
                             const struct sigv4_claim *claim, slice bucket,
                             struct variant variant, slice *ret)
{
    struct text text = text_in(keep);
    slice date = signed_value(keep, head, claim, S("date"));
    if (request_head_get(head, S("x-amz-date")).ptr)
        date = S("");
    if (claim->presigned)
        date = arena_printf(keep, "%lld", (long long)claim->expires_s);
    text_printf(&text, "%.*s\n%.*s\n%.*s\n%.*s\n", SLICE_ARG(head->method),
                SLICE_ARG(signed_value(keep, head, claim, S("content-md5"))),
                SLICE_ARG(signed_value(keep, head, claim, S("content-type"))), SLICE_ARG(date));
    enum err e = put_amz(keep, head, claim, &text);
    if (!e)
        e = put_resource(keep, head, claim, bucket, variant, &text);
    *ret = text_slice(&text);
    return e;
}

static enum err judge_time(const struct sigv4_claim *claim, int64_t now_s)
{
    if (claim->presigned)
        return now_s > claim->expires_s ? ERR_EXPIRED : OK;
    bool near = claim->signed_at_s <= now_s + SKEW_S && claim->signed_at_s >= now_s - SKEW_S;
    return near ? OK : ERR_SKEWED;
}

bool sigv2_text_is(slice secret_key, slice text, slice signature)
{
    uint8_t claimed[SHA1_BYTES], made[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    check(HMAC(EVP_sha1(), secret_key.ptr, (int)secret_key.len, (const uint8_t *)text.ptr, text.len,
               made, &len) && len == SHA1_BYTES);
    return secret_key.len && base64_read(signature, claimed, sizeof(claimed)) &&
           CRYPTO_memcmp(claimed, made, sizeof(claimed)) == 0;
}

static enum err verify_as(struct arena *scratch, const struct request_head *head,
                          const struct sigv4_claim *claim, slice bucket, struct variant variant,
                          slice secret_key)
{
    slice text;
    enum err e = text_to_sign(scratch, head, claim, bucket, variant, &text);
    if (e)
        return e;
    return sigv2_text_is(secret_key, text, claim->signature) ? OK : ERR_SIGNATURE;
}

enum err sigv2_verify(struct arena *scratch, const struct request_head *head,
                      const struct sigv4_claim *claim, slice bucket, slice secret_key,
                      int64_t now_s)
{
    struct variant variants[4] = { { AS_SENT, false } };    /* sigv2_explain uses this one */
    enum valueless other = other_form(head->query);
    size_t count = 1;
    if (other != AS_SENT)
        variants[count++] = (struct variant){ other, false };
    for (size_t i = count; i && !bucket.len && is_bucket(head->path); i--, count++)
        variants[count] = (struct variant){ variants[i - 1].valueless, true };
    check(claim->v2);
    enum err e = judge_time(claim, now_s);
    if (e)
        return e;
    e = ERR_SIGNATURE;
    for (size_t i = 0; i < count && e == ERR_SIGNATURE; i++)
        e = verify_as(scratch, head, claim, bucket, variants[i], secret_key);
    return e;
}

void sigv2_explain(struct arena *keep, const struct request_head *head,
                   const struct sigv4_claim *claim, slice bucket, struct s3_fault *ret)
{
    slice text;
    if (!text_to_sign(keep, head, claim, bucket, (struct variant){ AS_SENT, false }, &text))
        sigv4_explain_text(keep, claim, text, ret);
}
