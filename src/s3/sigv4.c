/* sigv4.c - verifies and makes signatures. SPDX-License-Identifier: Apache-2.0
 *
 * Verifying and making a signature use the same canonical request (canon.h).
 *
 * A day key is derived once from secret, date, region and service, and is kept as a keyed HMAC
 * context. A signature then costs one SHA-256 and one HMAC, without a look-up of algorithms. Its
 * memory comes only from the scratch arena. A struct sigv4 belongs to one thread. */
#include "s3/sigv4.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdlib.h>
#include <string.h>

#include "s3/canon.h"
#include "s3/checksum.h"
#include "s3/encode.h"

#define DAY_KEYS 64
#define DAY_KEY_ID_BYTES 192
#define SKEW_S (15 * 60)
/* The explanation of a wrong signature has the canonical request as text and in hex, together 4
 * times as long as the text. If the text is longer than this, the explanation leaves both out. */
#define EXPLAINED_BYTES_MAX 4096

struct day_key {
    char id[DAY_KEY_ID_BYTES];    /* the parts of the key; id_len is 0 in a free slot */
    size_t id_len;
    EVP_MAC_CTX *keyed;
};

struct sigv4 {
    EVP_MAC *hmac;
    EVP_MAC_CTX *deriving;
    EVP_MD_CTX *sha256;
    struct day_key days[DAY_KEYS];
};

static EVP_MAC_CTX *hmac_context(EVP_MAC *hmac)
{
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    EVP_MAC_CTX *context = EVP_MAC_CTX_new(hmac);
    check(context && EVP_MAC_CTX_set_params(context, params) == 1);
    return context;
}

struct sigv4 *sigv4_new(void)
{
    struct sigv4 *sigv4 = must_alloc(sizeof(*sigv4));
    sigv4->hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    check(sigv4->hmac && "OpenSSL has HMAC");
    sigv4->deriving = hmac_context(sigv4->hmac);
    sigv4->sha256 = EVP_MD_CTX_new();
    check(sigv4->sha256 && EVP_DigestInit_ex2(sigv4->sha256, checksum_sha256(), NULL) == 1);
    return sigv4;
}

void sigv4_free(struct sigv4 **sigv4)
{
    if (!*sigv4)
        return;
    for (size_t i = 0; i < DAY_KEYS; i++)
        EVP_MAC_CTX_free((*sigv4)->days[i].keyed);
    EVP_MAC_CTX_free((*sigv4)->deriving);
    EVP_MAC_free((*sigv4)->hmac);
    EVP_MD_CTX_free((*sigv4)->sha256);
    OPENSSL_cleanse(*sigv4, sizeof(**sigv4));    /* the ids hold secrets */
    free(*sigv4);
    *sigv4 = NULL;
}

/* ---- day keys ---- */

/* Makes the HMAC of a message. If `key` is NULL, the context already holds the key. */
static void hmac(EVP_MAC_CTX *context, const uint8_t *key, size_t key_len, slice message,
                 uint8_t ret[32])
{
    size_t len;
    check(EVP_MAC_init(context, key, key_len, NULL) == 1);
    check(EVP_MAC_update(context, (const uint8_t *)message.ptr, message.len) == 1);
    check(EVP_MAC_final(context, ret, &len, 32) == 1 && len == 32);
}

struct scope {
    slice date, region, service;
};

static void derive(struct sigv4 *sigv4, struct arena *scratch, slice secret,
                   const struct scope *scope, EVP_MAC_CTX *ret)
{
    slice first = arena_printf(scratch, "AWS4%.*s", SLICE_ARG(secret));
    uint8_t key[32];
    hmac(sigv4->deriving, (const uint8_t *)first.ptr, first.len, scope->date, key);
    hmac(sigv4->deriving, key, sizeof(key), scope->region, key);
    hmac(sigv4->deriving, key, sizeof(key), scope->service, key);
    hmac(sigv4->deriving, key, sizeof(key), S("aws4_request"), key);
    check(EVP_MAC_init(ret, key, sizeof(key), NULL) == 1);
    OPENSSL_cleanse((char *)first.ptr, first.len);
    OPENSSL_cleanse(key, sizeof(key));
}

/* Writes the parts that a day key is derived from, each after its length, so that different parts
 * never give the same id. Returns the length of the id, or 0 if the id is too long to be kept. */
static size_t day_id(slice secret, const struct scope *scope, char ret[DAY_KEY_ID_BYTES])
{
    const slice parts[] = { secret, scope->date, scope->region, scope->service };
    size_t len = 0;
    for (size_t i = 0; i < countof(parts); i++) {
        if (parts[i].len > 255 || len + 1 + parts[i].len > DAY_KEY_ID_BYTES)
            return 0;
        ret[len++] = (char)parts[i].len;
        len += slice_put(ret + len, parts[i]);
    }
    return len;
}

static size_t slot_of(const char *id, size_t len)
{
    uint64_t hash = len;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (uint8_t)id[i]) * 0x100000001b3u;
    return (hash >> 32) % DAY_KEYS;
}

static EVP_MAC_CTX *day_key(struct sigv4 *sigv4, struct arena *scratch, slice secret,
                            const struct scope *scope)
{
    char id[DAY_KEY_ID_BYTES];
    size_t len = day_id(secret, scope, id);
    struct day_key *day = &sigv4->days[slot_of(id, len)];
    if (!day->keyed)
        day->keyed = hmac_context(sigv4->hmac);
    if (!len || day->id_len != len || memcmp(day->id, id, len) != 0) {
        derive(sigv4, scratch, secret, scope, day->keyed);
        memcpy(day->id, id, len);
        day->id_len = len;
    }
    return day->keyed;
}

/* ---- a signature ---- */

static enum err canon_hash(struct sigv4 *sigv4, struct arena *scratch, struct canon *canon,
                           uint8_t ret[32])
{
    slice text;
    enum err e = canon_write(scratch, canon, &text);
    if (e)
        return e;
    check(EVP_DigestInit_ex2(sigv4->sha256, NULL, NULL) == 1);
    check(EVP_DigestUpdate(sigv4->sha256, text.ptr, text.len) == 1);
    check(EVP_DigestFinal_ex(sigv4->sha256, ret, NULL) == 1);
    return OK;
}

/* Writes "<algorithm>\n<time>\n<day>/<region>/<service>/aws4_request\n<hash in hex>". The code does
 * not use printf, because every request needs this text. */
static slice text_to_sign(struct arena *scratch, slice algorithm, int64_t at_s,
                          const struct scope *scope, const uint8_t hash[32])
{
    size_t cap = 128 + algorithm.len + scope->date.len + scope->region.len + scope->service.len;
    char *start = arena_alloc(scratch, cap), *at = start;
    at += slice_put(at, algorithm);
    *at++ = '\n';
    amz_date_write(at_s, at);
    at += AMZ_DATE_BYTES - 1;
    *at++ = '\n';
    at += slice_put(at, scope->date);
    *at++ = '/';
    at += slice_put(at, scope->region);
    *at++ = '/';
    at += slice_put(at, scope->service);
    at += slice_put(at, S("/aws4_request\n"));
    hex_write(hash, 32, at);
    at += SIGNATURE_CHARS;
    check((size_t)(at - start) <= cap);
    return (slice){ start, (size_t)(at - start) };
}

static void sign_text(struct sigv4 *sigv4, struct arena *scratch, slice secret,
                      const struct scope *scope, slice text, char ret[SIGNATURE_CHARS])
{
    uint8_t mac[32];
    hmac(day_key(sigv4, scratch, secret, scope), NULL, 0, text, mac);
    hex_write(mac, sizeof(mac), ret);
}

/* Makes the signature of a canonical request. */
static enum err signature_of(struct sigv4 *sigv4, struct arena *scratch, struct canon *canon,
                             const struct scope *scope, int64_t at_s, slice secret,
                             char ret[SIGNATURE_CHARS])
{
    uint8_t hash[32];
    enum err e = canon_hash(sigv4, scratch, canon, hash);
    if (e)
        return e;
    sign_text(sigv4, scratch, secret, scope,
              text_to_sign(scratch, S("AWS4-HMAC-SHA256"), at_s, scope, hash), ret);
    return OK;
}

static struct scope scope_of(const struct sigv4_claim *claim)
{
    return (struct scope){ claim->date, claim->region, claim->service };
}

void sigv4_text(struct sigv4 *sigv4, struct arena *scratch, slice secret_key,
                const struct sigv4_claim *claim, slice text, char ret[SIGNATURE_CHARS])
{
    const struct scope scope = scope_of(claim);
    sign_text(sigv4, scratch, secret_key, &scope, text, ret);
}

bool sigv4_is_same(slice signature, const char ours[SIGNATURE_CHARS])
{
    return signature.len == SIGNATURE_CHARS &&
           CRYPTO_memcmp(signature.ptr, ours, SIGNATURE_CHARS) == 0;
}

/* ---- proving ---- */

static enum err judge_time(const struct sigv4_claim *claim, int64_t now_s)
{
    if (claim->signed_at_s > now_s + SKEW_S)
        return ERR_SKEWED;
    if (claim->presigned)
        return now_s >= claim->signed_at_s + claim->expires_s ? ERR_EXPIRED : OK;
    return now_s > claim->signed_at_s + SKEW_S ? ERR_SKEWED : OK;
}

static struct canon canon_of_claim(const struct request_head *head, const struct sigv4_claim *claim)
{
    return (struct canon){
        .method = head->method, .path = head->path, .query = head->query,
        .fields = head->fields, .field_count = head->field_count,
        .signed_headers = claim->signed_headers, .payload_hash = claim->payload_hash,
    };
}

enum err sigv4_verify(struct sigv4 *sigv4, struct arena *scratch, const struct request_head *head,
                      const struct sigv4_claim *claim, slice secret_key, int64_t now_s)
{
    check(!claim->v2);
    enum err e = judge_time(claim, now_s);
    if (e)
        return e;
    struct canon canon = canon_of_claim(head, claim);
    struct scope scope = scope_of(claim);
    char signature[SIGNATURE_CHARS];
    e = signature_of(sigv4, scratch, &canon, &scope, claim->signed_at_s, secret_key, signature);
    if (e)
        return e;
    bool same = sigv4_is_same(claim->signature, signature);
    if (!canon_all_signed(&canon))
        return ERR_NOT_SIGNED;
    return same && secret_key.len ? OK : ERR_SIGNATURE;
}

/* ---- explaining a refusal ---- */

static slice spaced_hex(struct arena *keep, slice bytes)
{
    char *text = arena_alloc(keep, 3 * bytes.len + 1);
    for (size_t i = 0; i < bytes.len; i++) {
        hex_write((const uint8_t *)bytes.ptr + i, 1, text + 3 * i);
        text[3 * i + 2] = ' ';
    }
    return (slice){ text, bytes.len ? 3 * bytes.len - 1 : 0 };
}

void sigv4_explain_text(struct arena *keep, const struct sigv4_claim *claim, slice text,
                        struct s3_fault *ret)
{
    bool is_short = text.len <= EXPLAINED_BYTES_MAX;
    s3_fault_add(ret, S("AWSAccessKeyId"), claim->access_key);
    if (is_short)
        s3_fault_add(ret, S("StringToSign"), text);
    s3_fault_add(ret, S("SignatureProvided"), claim->signature);
    if (is_short)
        s3_fault_add(ret, S("StringToSignBytes"), spaced_hex(keep, text));
}

static void explain_signature(struct sigv4 *sigv4, struct arena *keep,
                              const struct request_head *head, const struct sigv4_claim *claim,
                              struct s3_fault *ret)
{
    struct canon canon = canon_of_claim(head, claim);
    struct scope scope = scope_of(claim);
    uint8_t hash[32];
    slice text;
    if (canon_write(keep, &canon, &text) || canon_hash(sigv4, keep, &canon, hash))
        return;
    sigv4_explain_text(keep, claim, text_to_sign(keep, S("AWS4-HMAC-SHA256"), claim->signed_at_s,
                                                 &scope, hash), ret);
    if (text.len > EXPLAINED_BYTES_MAX)
        return;
    s3_fault_add(ret, S("CanonicalRequest"), text);
    s3_fault_add(ret, S("CanonicalRequestBytes"), spaced_hex(keep, text));
}

static void explain_unsigned(struct arena *keep, const struct request_head *head,
                             const struct sigv4_claim *claim, struct s3_fault *ret)
{
    struct canon canon = canon_of_claim(head, claim);
    struct text names = text_in(keep);
    slice text;
    if (canon_write(keep, &canon, &text))
        return;
    for (size_t i = 0; i < canon.field_count; i++)
        if (canon_must_be_signed(&canon, i))
            text_printf(&names, "%s%.*s", names.len ? ", " : "",
                        SLICE_ARG(arena_lower(keep, canon.fields[i].name)));
    if (names.len)    /* none: the caller's message gives another reason */
        s3_fault_add(ret, S("HeadersNotSigned"), text_slice(&names));
}

static void explain_time(struct arena *keep, const struct sigv4_claim *claim, enum err err,
                         int64_t now_s, struct s3_fault *ret)
{
    char stamp[AMZ_DATE_BYTES];
    if (err == ERR_SKEWED) {
        amz_date_write(claim->signed_at_s, stamp);
        s3_fault_add(ret, S("RequestTime"), arena_copy(keep, slice_of(stamp)));
        s3_fault_add(ret, S("ServerTime"), iso_date_text(keep, now_s));
        s3_fault_add(ret, S("MaxAllowedSkewMilliseconds"), S("900000"));
        ret->message = arena_printf(keep, "The difference between the request time (%.*s) and the "
                                    "current time (%.*s, by Penstock's clock) is too large: more "
                                    "than 15 minutes. Set the clock that is wrong.",
                                    SLICE_ARG(iso_date_text(keep, claim->signed_at_s)),
                                    SLICE_ARG(iso_date_text(keep, now_s)));
        return;
    }
    if (!claim->v2)
        s3_fault_add(ret, S("X-Amz-Expires"),
                     arena_printf(keep, "%lld", (long long)claim->expires_s));
    s3_fault_add(ret, S("Expires"),
                 iso_date_text(keep, claim->expires_s + (claim->v2 ? 0 : claim->signed_at_s)));
    s3_fault_add(ret, S("ServerTime"), iso_date_text(keep, now_s));
}

void sigv4_explain(struct sigv4 *sigv4, struct arena *keep, const struct request_head *head,
                   const struct sigv4_claim *claim, enum err err, int64_t now_s,
                   struct s3_fault *ret)
{
    *ret = (struct s3_fault){ 0 };
    if (err == ERR_UNKNOWN_KEY)
        s3_fault_add(ret, S("AWSAccessKeyId"), claim->access_key);
    else if (err == ERR_SKEWED || err == ERR_EXPIRED)
        explain_time(keep, claim, err, now_s, ret);
    else if (err == ERR_SIGNATURE && !claim->v2)
        explain_signature(sigv4, keep, head, claim, ret);
    else if (err == ERR_NOT_SIGNED && !claim->v2)
        explain_unsigned(keep, head, claim, ret);
}

/* ---- chunks ---- */

struct sigv4_chain {
    EVP_MAC_CTX *keyed;                 /* a copy, because the day key's slot may be reused */
    struct arena keep;
    slice scope;                        /* "\n<time>\n<day>/<region>/<service>/aws4_request\n" */
    char last[SIGNATURE_CHARS];
    char *text;                         /* the text to sign; has room for the longest */
};

bool sigv4_can_chain(const struct sigv4_claim *claim)
{
    return claim->access_key.len > 0 && claim->signature.len == SIGNATURE_CHARS;
}

struct sigv4_chain *sigv4_chain_new(struct sigv4 *sigv4, const struct sigv4_claim *claim,
                                    slice secret_key)
{
    static const uint8_t no_hash[32];
    struct scope scope = scope_of(claim);
    struct sigv4_chain *chain = must_alloc(sizeof(*chain));
    chain->keyed = EVP_MAC_CTX_dup(day_key(sigv4, &chain->keep, secret_key, &scope));
    check(chain->keyed != NULL && sigv4_can_chain(claim));
    slice text = text_to_sign(&chain->keep, S(""), claim->signed_at_s, &scope, no_hash);
    chain->scope = slice_sub(text, 0, text.len - SIGNATURE_CHARS);
    chain->text = arena_alloc(&chain->keep, 32 + text.len + 2 * (SIGNATURE_CHARS + 1));
    slice_put(chain->last, claim->signature);
    return chain;
}

void sigv4_chain_free(struct sigv4_chain **chain)
{
    if (!*chain)
        return;
    EVP_MAC_CTX_free((*chain)->keyed);
    arena_free(&(*chain)->keep);
    free(*chain);
    *chain = NULL;
}

enum err sigv4_chain_next(struct sigv4_chain *chain, enum sigv4_link link,
                          const uint8_t sha256[32], slice signature)
{
    char *at = chain->text;
    uint8_t mac[32];
    at += slice_put(at, link == LINK_CHUNK ? S("AWS4-HMAC-SHA256-PAYLOAD")
                                           : S("AWS4-HMAC-SHA256-TRAILER"));
    at += slice_put(at, chain->scope);
    at += slice_put(at, (slice){ chain->last, sizeof(chain->last) });
    *at++ = '\n';
    if (link == LINK_CHUNK)    /* the text has a hash of the chunk's headers here; there are none */
        at += slice_put(at, S(EMPTY_SHA256 "\n"));
    hex_write(sha256, 32, at);
    at += SIGNATURE_CHARS;
    hmac(chain->keyed, NULL, 0, (slice){ chain->text, (size_t)(at - chain->text) }, mac);
    hex_write(mac, sizeof(mac), chain->last);
    return sigv4_is_same(signature, chain->last) ? OK : ERR_SIGNATURE;
}

/* ---- making ---- */

void sigv4_sign(struct sigv4 *sigv4, struct arena *keep, const struct sigv4_ask *ask,
                const struct sigv4_credentials *with, struct sigv4_signed *ret)
{
    char stamp[AMZ_DATE_BYTES], signature[SIGNATURE_CHARS];
    check(ask->payload_hash.len > 0 && ask->region.len > 0 && ask->service.len > 0);
    amz_date_write(ask->now_s, stamp);
    slice date = arena_copy(keep, slice_of(stamp));
    *ret = (struct sigv4_signed){ .fields = { { S("x-amz-date"), date },
                                              { S("x-amz-content-sha256"), ask->payload_hash } },
                                  .field_count = 2 };
    if (with->session_token.len)
        ret->fields[ret->field_count++] =
            (struct http_field){ S("x-amz-security-token"), with->session_token };

    size_t count = ask->field_count + ret->field_count;
    struct http_field *all = arena_alloc(keep, count * sizeof(*all));
    for (size_t i = 0; i < count; i++)
        all[i] = i < ask->field_count ? ask->fields[i] : ret->fields[i - ask->field_count];
    struct canon canon = { .method = ask->method, .path = ask->path, .query = ask->query,
                           .fields = all, .field_count = count,
                           .signed_headers = canon_signed_names(keep, all, count),
                           .payload_hash = ask->payload_hash };
    struct scope scope = { slice_sub(date, 0, 8), ask->region, ask->service };
    enum err e = signature_of(sigv4, keep, &canon, &scope, ask->now_s, with->secret_key, signature);
    check(e == OK);    /* Penstock's own requests have few parameters */
    slice authorization = arena_printf(
        keep, "AWS4-HMAC-SHA256 Credential=%.*s/%.*s/%.*s/%.*s/aws4_request, SignedHeaders=%.*s, "
        "Signature=%.*s", SLICE_ARG(with->access_key), SLICE_ARG(scope.date),
        SLICE_ARG(scope.region), SLICE_ARG(scope.service), SLICE_ARG(canon.signed_headers),
        SIGNATURE_CHARS, signature);
    ret->fields[ret->field_count++] = (struct http_field){ S("authorization"), authorization };
}
