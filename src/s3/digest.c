/* digest.c - running SHA-256, MD5 and base64. SPDX-License-Identifier: Apache-2.0
 *
 * With OpenSSL 3.0 looking an algorithm up costs more than hashing a small body, so each is
 * fetched once a process and kept. Any thread; one running digest belongs to one at a time. */
#include "s3/digest.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "s3/sigv4.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static EVP_MD *sha256_md, *md5_md;

static void fetch(void)
{
    sha256_md = EVP_MD_fetch(NULL, "SHA256", NULL);
    md5_md = EVP_MD_fetch(NULL, "MD5", NULL);
    check(sha256_md && md5_md && "OpenSSL has SHA-256 and MD5");
}

const struct evp_md_st *digest_sha256(void)
{
    pthread_once(&once, fetch);
    return sha256_md;
}

struct sha256 {
    EVP_MD_CTX *context;
};

struct sha256 *sha256_new(void)
{
    struct sha256 *sha256 = must_alloc(sizeof(*sha256));
    sha256->context = EVP_MD_CTX_new();
    check(sha256->context && EVP_DigestInit_ex2(sha256->context, digest_sha256(), NULL) == 1);
    return sha256;
}

void sha256_add(struct sha256 *sha256, slice bytes)
{
    check(EVP_DigestUpdate(sha256->context, bytes.ptr, bytes.len) == 1);
}

void sha256_end(struct sha256 **sha256, uint8_t ret[32])
{
    if (!*sha256)
        return;
    if (ret)
        check(EVP_DigestFinal_ex((*sha256)->context, ret, NULL) == 1);
    EVP_MD_CTX_free((*sha256)->context);
    free(*sha256);
    *sha256 = NULL;
}

void md5_of(slice bytes, uint8_t ret[16])
{
    pthread_once(&once, fetch);
    check(EVP_Digest(bytes.ptr, bytes.len, ret, NULL, md5_md, NULL) == 1);
}

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_read(slice s, uint8_t *ret, size_t bytes)
{
    if (s.len != (bytes + 2) / 3 * 4)
        return false;
    size_t digits = (bytes * 8 + 5) / 6;
    uint32_t held = 0;
    for (size_t i = 0, bits = 0; i < digits; i++) {
        int digit = base64_digit(s.ptr[i]);
        if (digit < 0)
            return false;
        held = held << 6 | (uint32_t)digit;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            *ret++ = (uint8_t)(held >> bits);
            held &= (1u << bits) - 1;
        }
    }
    for (size_t i = digits; i < s.len; i++)
        if (s.ptr[i] != '=')
            return false;
    return held == 0;    /* bits that belong to no byte: only one way to write each value */
}
