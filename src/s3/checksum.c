/* checksum.c - the checksums that S3 knows. SPDX-License-Identifier: Apache-2.0
 *
 * There are three kinds of running sums: OpenSSL's digests, CRCs (base/crc.h) and xxHash. In
 * OpenSSL 3.0 the look-up of an algorithm costs more than the hash of a small body, so the process
 * fetches each digest once and keeps it. CRCs and xxHash sums are written high byte first. */
#include "s3/checksum.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>
#include <xxhash.h>

#include "base/crc.h"

static const struct row {
    slice name, header;
    size_t bytes;
    const char *digest;    /* OpenSSL's name; NULL: not an OpenSSL digest */
} rows[CHECKSUM_COUNT] = {
    [CHECKSUM_CRC32] = { { "CRC32", 5 }, { "x-amz-checksum-crc32", 20 }, 4, NULL },
    [CHECKSUM_CRC32C] = { { "CRC32C", 6 }, { "x-amz-checksum-crc32c", 21 }, 4, NULL },
    [CHECKSUM_CRC64NVME] = { { "CRC64NVME", 9 }, { "x-amz-checksum-crc64nvme", 24 }, 8, NULL },
    [CHECKSUM_SHA1] = { { "SHA1", 4 }, { "x-amz-checksum-sha1", 19 }, 20, "SHA1" },
    [CHECKSUM_SHA256] = { { "SHA256", 6 }, { "x-amz-checksum-sha256", 21 }, 32, "SHA256" },
    [CHECKSUM_SHA512] = { { "SHA512", 6 }, { "x-amz-checksum-sha512", 21 }, 64, "SHA512" },
    [CHECKSUM_MD5] = { { "MD5", 3 }, { "x-amz-checksum-md5", 18 }, 16, "MD5" },
    [CHECKSUM_XXHASH64] = { { "XXHASH64", 8 }, { "x-amz-checksum-xxhash64", 23 }, 8, NULL },
    [CHECKSUM_XXHASH3] = { { "XXHASH3", 7 }, { "x-amz-checksum-xxhash3", 22 }, 8, NULL },
    [CHECKSUM_XXHASH128] = { { "XXHASH128", 9 }, { "x-amz-checksum-xxhash128", 24 }, 16, NULL },
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static EVP_MD *digests[CHECKSUM_COUNT];

static void fetch(void)
{
    for (size_t i = 0; i < CHECKSUM_COUNT; i++)
        if (rows[i].digest)
            digests[i] = EVP_MD_fetch(NULL, rows[i].digest, NULL);
    check(digests[CHECKSUM_SHA256] && "OpenSSL has SHA-256");
}

const struct evp_md_st *checksum_sha256(void)
{
    pthread_once(&once, fetch);
    return digests[CHECKSUM_SHA256];
}

/* ---- the table ---- */

slice checksum_name(enum checksum which)
{
    check(which < CHECKSUM_COUNT);
    return rows[which].name;
}

slice checksum_header(enum checksum which)
{
    check(which < CHECKSUM_COUNT);
    return rows[which].header;
}

size_t checksum_bytes(enum checksum which)
{
    check(which < CHECKSUM_COUNT);
    return rows[which].bytes;
}

enum checksum checksum_of_name(slice name)
{
    enum checksum which = 0;
    while (which < CHECKSUM_COUNT && !slice_eq_nocase(rows[which].name, name))
        which++;
    return which;
}

enum checksum checksum_of_header(slice header)
{
    enum checksum which = 0;
    while (which < CHECKSUM_COUNT && !slice_eq_nocase(rows[which].header, header))
        which++;
    return which;
}

/* ---- a running sum ---- */

struct checksum_run {
    enum checksum which;
    uint64_t crc;
    EVP_MD_CTX *digest;
    XXH64_state_t *xxh64;
    XXH3_state_t *xxh3;
};

struct checksum_run *checksum_begin(enum checksum which)
{
    check(which < CHECKSUM_COUNT);
    pthread_once(&once, fetch);
    struct checksum_run *run = must_alloc(sizeof(*run));
    run->which = which;
    if (rows[which].digest)
        check((run->digest = EVP_MD_CTX_new()) != NULL);
    else if (which == CHECKSUM_XXHASH64)
        check((run->xxh64 = XXH64_createState()) != NULL);
    else if (which == CHECKSUM_XXHASH3 || which == CHECKSUM_XXHASH128)
        check((run->xxh3 = XXH3_createState()) != NULL);
    checksum_again(run);
    return run;
}

void checksum_again(struct checksum_run *run)
{
    run->crc = 0;
    if (run->digest)
        check(EVP_DigestInit_ex2(run->digest, digests[run->which], NULL) == 1);
    if (run->xxh64)
        check(XXH64_reset(run->xxh64, 0) == XXH_OK);
    if (run->xxh3)    /* the same reset serves the 128-bit variant */
        check(XXH3_64bits_reset(run->xxh3) == XXH_OK);
}

void checksum_add(struct checksum_run *run, slice bytes)
{
    if (run->digest)
        check(EVP_DigestUpdate(run->digest, bytes.ptr, bytes.len) == 1);
    else if (run->xxh64)
        check(XXH64_update(run->xxh64, bytes.ptr, bytes.len) == XXH_OK);
    else if (run->which == CHECKSUM_XXHASH3)
        check(XXH3_64bits_update(run->xxh3, bytes.ptr, bytes.len) == XXH_OK);
    else if (run->which == CHECKSUM_XXHASH128)
        check(XXH3_128bits_update(run->xxh3, bytes.ptr, bytes.len) == XXH_OK);
    else if (run->which == CHECKSUM_CRC64NVME)
        run->crc = crc64nvme(run->crc, bytes.ptr, bytes.len);
    else
        run->crc = (run->which == CHECKSUM_CRC32C ? crc32c : crc32)((uint32_t)run->crc, bytes.ptr,
                                                                    bytes.len);
}

static void put_high_first(uint64_t value, size_t bytes, uint8_t *ret)
{
    while (bytes--) {
        ret[bytes] = (uint8_t)value;
        value >>= 8;
    }
}

void checksum_get(struct checksum_run *run, uint8_t ret[CHECKSUM_BYTES_MAX])
{
    if (run->digest) {
        check(EVP_DigestFinal_ex(run->digest, ret, NULL) == 1);
    } else if (run->which == CHECKSUM_XXHASH128) {
        XXH128_canonicalFromHash((XXH128_canonical_t *)ret, XXH3_128bits_digest(run->xxh3));
    } else {
        put_high_first(run->xxh64 ? XXH64_digest(run->xxh64)
                                  : run->xxh3 ? XXH3_64bits_digest(run->xxh3) : run->crc,
                       rows[run->which].bytes, ret);
    }
}

void checksum_free(struct checksum_run **run)
{
    if (!*run)
        return;
    EVP_MD_CTX_free((*run)->digest);
    XXH64_freeState((*run)->xxh64);
    XXH3_freeState((*run)->xxh3);
    free(*run);
    *run = NULL;
}

void checksum_of(enum checksum which, slice bytes, uint8_t ret[CHECKSUM_BYTES_MAX])
{
    struct checksum_run *run = checksum_begin(which);
    checksum_add(run, bytes);
    checksum_get(run, ret);
    checksum_free(&run);
}
