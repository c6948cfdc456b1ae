/* hash.c - keyed hash of an object's name, and checksums. SPDX-License-Identifier: Apache-2.0
 *
 * Only this file of the store uses OpenSSL. The process looks SipHash up once, because a look-up
 * costs more than the hash. Each thread keeps one context, which gets its key anew in every call; a
 * thread frees its context when it ends. Numbers are hashed as they lie in memory, little endian
 * (format.c). Any thread. */
#include "store/hash.h"

#include <assert.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define SIPHASH_BYTES 16

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t context_end;    /* used only for its destructor */
static EVP_MAC *siphash;
static _Thread_local EVP_MAC_CTX *context;

static void context_free(void *old)
{
    context = NULL;
    EVP_MAC_CTX_free(old);
}

static void fetch(void)
{
    siphash = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
    check(siphash != NULL && "OpenSSL has no SipHash");
    check(pthread_key_create(&context_end, context_free) == 0);
}

static EVP_MAC_CTX *own_context(void)
{
    if (context)
        return context;
    pthread_once(&once, fetch);
    size_t size = SIPHASH_BYTES;
    OSSL_PARAM params[] = { OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size),
                            OSSL_PARAM_construct_end() };
    context = EVP_MAC_CTX_new(siphash);
    check(context != NULL && EVP_MAC_CTX_set_params(context, params) == 1);
    check(pthread_setspecific(context_end, context) == 0);
    return context;
}

/* SipHash-2-4 with 128 bits of result, over `count` slices as if they were one. */
static void siphash_128(const uint8_t key[STORE_SECRET_BYTES], const slice *parts, size_t count,
                        uint8_t ret[SIPHASH_BYTES])
{
    EVP_MAC_CTX *own = own_context();
    check(EVP_MAC_init(own, key, STORE_SECRET_BYTES, NULL) == 1);
    for (size_t i = 0; i < count; i++)
        if (parts[i].len)
            check(EVP_MAC_update(own, (const uint8_t *)parts[i].ptr, parts[i].len) == 1);
    size_t len = 0;
    check(EVP_MAC_final(own, ret, &len, SIPHASH_BYTES) == 1 && len == SIPHASH_BYTES);
}

/* The lengths of all parts come first, so different names never give the same bytes. */
void object_id_of(const uint8_t secret[STORE_SECRET_BYTES], const struct object_name *name,
                  struct object_id *ret)
{
    uint8_t hash[SIPHASH_BYTES];
    const uint32_t lengths[] = { (uint32_t)name->endpoint.len, (uint32_t)name->bucket.len,
                                 (uint32_t)name->key.len, (uint32_t)name->version.len };
    const slice parts[] = { { (const char *)lengths, sizeof(lengths) },
                            name->endpoint, name->bucket, name->key, name->version };
    siphash_128(secret, parts, countof(parts), hash);
    static_assert(sizeof(ret->bytes) <= sizeof(hash),
                  "the hash has at least as many bytes as an id, which is made of its first bytes");
    memcpy(ret->bytes, hash, sizeof(ret->bytes));
}

uint64_t bucket_hash(const uint8_t secret[STORE_SECRET_BYTES], slice endpoint, slice bucket)
{
    struct object_id id;
    uint64_t hash;
    object_id_of(secret, &(struct object_name){ .endpoint = endpoint, .bucket = bucket }, &id);
    memcpy(&hash, id.bytes, sizeof(hash));
    return hash ? hash : 1;
}

uint64_t bucket_hash_of(const uint8_t secret[STORE_SECRET_BYTES], slice name)
{
    slice endpoint = slice_cut(&name, '\0');
    return bucket_hash(secret, endpoint, slice_cut(&name, '\0'));
}

/* The bytes differ from those of every object's name: these begin with four lengths. */
void installation_id_of(const uint8_t secret[STORE_SECRET_BYTES],
                        uint8_t ret[INSTALLATION_ID_BYTES])
{
    const slice text = S("the id of this installation");
    static_assert(INSTALLATION_ID_BYTES == SIPHASH_BYTES, "the whole hash is the id");
    siphash_128(secret, &text, 1, ret);
}

void secret_make(uint8_t ret[STORE_SECRET_BYTES])
{
    check(getentropy(ret, STORE_SECRET_BYTES) == 0);
}

uint32_t crc_seed(const struct object_id *id, uint64_t etag_hash, uint32_t unit)
{
    const struct __attribute__((packed)) {
        struct object_id id;
        uint64_t etag_hash;
        uint32_t unit;
    } whose = { *id, etag_hash, unit };
    static_assert(sizeof(whose) == 24, "on disk");
    return crc32c(0, &whose, sizeof(whose));
}
