/* presign.c - the identity of the C client: a presigned URL in its hello.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The URL is for a POST that is never sent. Its signature (version 4) proves who the client is. The
 * URL depends only on the keys, the region and the time. */
#include "inside.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SHA256_BYTES 32

static void add(struct url *to, const char *text)
{
    size_t len = strlen(text);
    to->full = to->full || len >= sizeof(to->text) - to->len;
    if (to->full)
        return;
    memcpy(to->text + to->len, text, len + 1);
    to->len += len;
}

static void add_encoded(struct url *to, const char *text)
{
    for (; *text; text++) {
        char code[4] = { *text };
        bool plain = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
                     (*text >= '0' && *text <= '9') || strchr("-._~", *text);
        if (!plain)
            snprintf(code, sizeof(code), "%%%02X", (unsigned char)*text);
        add(to, code);
    }
}

static void hex(const unsigned char bytes[SHA256_BYTES], char ret[2 * SHA256_BYTES + 1])
{
    for (int i = 0; i < SHA256_BYTES; i++)
        snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

static bool mac(unsigned char key[SHA256_BYTES], const char *text)
{
    unsigned len;
    return HMAC(EVP_sha256(), key, SHA256_BYTES, (const unsigned char *)text, strlen(text), key,
                &len);
}

static bool sign(const char *secret, const char *day, const char *region, const char *text,
                 char ret[2 * SHA256_BYTES + 1])
{
    struct url first = { .len = 0 };
    unsigned char key[SHA256_BYTES];
    unsigned len;
    add(&first, "AWS4");
    add(&first, secret);
    bool good = !first.full &&
                HMAC(EVP_sha256(), first.text, (int)first.len, (const unsigned char *)day,
                     strlen(day), key, &len) &&
                mac(key, region) && mac(key, "s3") && mac(key, "aws4_request") && mac(key, text);
    hex(key, ret);
    return good;
}

/* Adds the query without its signature. The names are sorted, as the signature requires. */
static void add_query(struct url *query, const struct penstock_options *who, const char *stamp)
{
    char credential[512];
    snprintf(credential, sizeof(credential), "%s/%.8s/%s/s3/aws4_request", who->access_key, stamp,
             who->region);
    add(query, "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=");
    add_encoded(query, credential);
    add(query, "&X-Amz-Date=");
    add(query, stamp);
    add(query, "&X-Amz-Expires=300");
    if (who->session_token) {
        add(query, "&X-Amz-Security-Token=");
        add_encoded(query, who->session_token);
    }
    add(query, "&X-Amz-SignedHeaders=host");
}

bool penstock_presign(const struct penstock_options *who, struct url *ret)
{
    struct url query = { .len = 0 }, canonical = { .len = 0 };
    unsigned char sum[SHA256_BYTES];
    char stamp[24], day[9], text[512];
    char sum_hex[2 * SHA256_BYTES + 1], signature[2 * SHA256_BYTES + 1];
    time_t now = time(NULL);
    check(who->access_key && who->secret_key && who->region && ret->len == 0);
    struct tm utc;
    strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &utc));
    snprintf(day, sizeof(day), "%.8s", stamp);
    add_query(&query, who, stamp);
    add(&canonical, "POST\n/_/fill\n");
    add(&canonical, query.text);
    add(&canonical, "\nhost:localhost\n\nhost\nUNSIGNED-PAYLOAD");
    if (query.full || canonical.full ||
        !EVP_Digest(canonical.text, canonical.len, sum, NULL, EVP_sha256(), NULL))
        return false;
    hex(sum, sum_hex);
    snprintf(text, sizeof(text), "AWS4-HMAC-SHA256\n%s\n%s/%s/s3/aws4_request\n%s", stamp, day,
             who->region, sum_hex);
    if (!sign(who->secret_key, day, who->region, text, signature))
        return false;
    add(ret, "http://localhost/_/fill?");
    add(ret, query.text);
    add(ret, "&X-Amz-Signature=");
    add(ret, signature);
    return !ret->full;
}
