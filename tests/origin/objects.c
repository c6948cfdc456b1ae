/* objects.c - what exists, and which bytes it has. SPDX-License-Identifier: Apache-2.0
 *
 * A synthetic object's bytes are a function of (key, version, offset), so that anybody can check
 * any range of it without having read it (tests/story/synthetic.py is the twin of this):
 *
 *     pattern  = 64 KiB: SHA-256("penstock pattern " i) for i = 0 .. 2047, one after another
 *     digest_b = SHA-256(key 0x00 version 0x00 b), b = offset / 64 KiB; numbers as decimal text
 *     block b  = pattern rotated left by the first two bytes of digest_b (big-endian), then the
 *                first 32 bytes of each of its 4 KiB pages overwritten with digest_b
 *
 * A page therefore tells whose it is, and no two places of any two objects read alike. A key exists
 * if it was told to us (object=, objects=, file=, a PUT), or if the last part of its name begins
 * with "size-N-": those exist without being listed. */
#include "scripted.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 65536
#define PAGE 4096
#define FIRST_MODIFIED_S 1700000000
#define SLOTS 65536

static unsigned char pattern[2 * BLOCK];
static struct object *slots[SLOTS];
static size_t object_count;
static struct object **sorted;    /* existing ones by key; NULL: something has changed */
static size_t sorted_count;

/* ---- SHA-256 (FIPS 180-4) ---- */

static uint32_t round_constants[64], first_state[8];

/* The first 32 bits of the fractional part of the square or cube root of a prime, by bisection. */
static uint32_t root_bits(unsigned prime, bool cube)
{
    unsigned __int128 low = 0, high = (unsigned __int128)1 << 36;    /* root * 2^32 */
    while (high - low > 1) {
        unsigned __int128 middle = (low + high) / 2;
        unsigned __int128 power = middle * middle;
        bool below;
        if (cube)    /* middle^3 <= prime * 2^96, in 2^-32 steps so that it fits */
            below = (power >> 32) * middle + (((power & 0xffffffffu) * middle) >> 32)
                    < (unsigned __int128)prime << 64;
        else
            below = power < (unsigned __int128)prime << 64;
        *(below ? &low : &high) = middle;
    }
    return (uint32_t)low;
}

static void sha256_tables(void)
{
    for (unsigned n = 2, found = 0; found < 64; n++) {
        bool prime = true;
        for (unsigned d = 2; d * d <= n; d++)
            prime = prime && n % d != 0;
        if (!prime)
            continue;
        if (found < 8)
            first_state[found] = root_bits(n, false);
        round_constants[found++] = root_bits(n, true);
    }
}

static uint32_t rotate(uint32_t x, int by)
{
    return x >> by | x << (32 - by);
}

static void sha256_block(uint32_t state[8], const uint8_t *p)
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16
               | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7]
               + (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(v, state, sizeof(v));
    for (int i = 0; i < 64; i++) {
        uint32_t t1 = v[7] + (rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25))
                      + ((v[4] & v[5]) ^ (~v[4] & v[6])) + round_constants[i] + w[i];
        uint32_t t2 = (rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22))
                      + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof(v[0]));
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

void sha256_init(struct sha256 *sha)
{
    memcpy(sha->state, first_state, sizeof(first_state));
    sha->bytes = 0;
}

void sha256_add(struct sha256 *sha, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    while (bytes > 0) {
        size_t have = sha->bytes % 64, take = 64 - have < bytes ? 64 - have : bytes;
        memcpy(sha->block + have, from, take);
        sha->bytes += take;
        from += take;
        bytes -= take;
        if (have + take == 64)
            sha256_block(sha->state, sha->block);
    }
}

void sha256_end(struct sha256 *sha, uint8_t ret[32])
{
    uint64_t bits = sha->bytes * 8;
    sha256_add(sha, "\x80", 1);
    while (sha->bytes % 64 != 56)
        sha256_add(sha, "", 1);
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_add(sha, length, 8);
    for (int i = 0; i < 32; i++)
        ret[i] = (uint8_t)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
}

void hex(const uint8_t *bytes, size_t count, char *ret)
{
    for (size_t i = 0; i < count; i++)
        sprintf(ret + 2 * i, "%02x", bytes[i]);
    ret[2 * count] = 0;
}

static void digest_of(const char *key, uint64_t version, const char *last, uint8_t ret[32])
{
    char text[32];
    struct sha256 sha;
    sha256_init(&sha);
    sha256_add(&sha, key, strlen(key) + 1);
    sha256_add(&sha, text, (size_t)snprintf(text, sizeof(text), "%lu", (unsigned long)version) + 1);
    sha256_add(&sha, last, strlen(last));
    sha256_end(&sha, ret);
}

/* ---- the table ---- */

void objects_init(void)
{
    sha256_tables();
    for (unsigned i = 0; i < BLOCK / 32; i++) {
        char text[32];
        struct sha256 sha;
        sha256_init(&sha);
        sha256_add(&sha, text, (size_t)snprintf(text, sizeof(text), "penstock pattern %u", i));
        sha256_end(&sha, pattern + 32 * i);
    }
    memcpy(pattern + BLOCK, pattern, BLOCK);
}

static int64_t size_in_name(const char *key)
{
    const char *name = strrchr(key, '/');
    char *end;
    if (name == NULL || strncmp(name, "/size-", 6) != 0 || name[6] < '0' || name[6] > '9')
        return -1;
    long long size = strtoll(name + 6, &end, 10);
    return *end == '-' || *end == 0 ? size : -1;
}

static void etag_of(struct object *object)
{
    uint8_t digest[32];
    char text[65];
    digest_of(object->key, object->version, "etag", digest);
    hex(digest, 16, text);
    snprintf(object->etag, sizeof(object->etag), "\"%.32s\"", text);
}

struct object *object_get(const char *key)
{
    uint32_t hash = 2166136261u;
    for (const char *c = key; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    struct object **slot = &slots[hash % SLOTS];
    for (struct object *object = *slot; object; object = object->next)
        if (strcmp(object->key, key) == 0)
            return object;
    struct object *object = calloc(1, sizeof(*object));
    object->key = strdup(key);
    object->size = size_in_name(key);
    object->version = 1;
    object->modified_s = FIRST_MODIFIED_S;
    etag_of(object);
    object->next = *slot;
    *slot = object;
    object_count++;
    return object;
}

static void changed(void)
{
    free(sorted);
    sorted = NULL;
}

static void blob_unref(struct blob *blob)    /* under lock */
{
    if (blob && --blob->refs == 0)
        free(blob);
}

void object_set(const char *key, int64_t size)
{
    pthread_mutex_lock(&lock);
    struct object *object = object_get(key);
    blob_unref(object->stored);
    object->stored = NULL;
    object->mapped = NULL;
    if (object->size >= 0 && size >= 0 && object->size != size)
        object_flip(object);
    object->size = size;
    changed();
    pthread_mutex_unlock(&lock);
}

void object_flip(struct object *object)
{
    object->version++;
    object->modified_s++;
    blob_unref(object->stored);
    object->stored = NULL;
    object->mapped = NULL;
    etag_of(object);
}

bool object_map(const char *key, const char *path)
{
    struct stat stat;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    void *map = MAP_FAILED;
    if (fstat(fd, &stat) == 0 && stat.st_size > 0)
        map = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return false;
    object_set(key, stat.st_size);
    pthread_mutex_lock(&lock);
    object_get(key)->mapped = map;
    pthread_mutex_unlock(&lock);
    return true;
}

struct flipping {
    const char *glob;
    size_t count;
};

static void flip_one(const struct object *object, void *arg)
{
    struct flipping *flipping = arg;
    if (fnmatch(flipping->glob, object->key, 0) == 0 && object->size >= 0) {
        object_flip((struct object *)object);
        flipping->count++;
    }
}

size_t objects_flip(const char *glob)
{
    struct flipping flipping = { glob, 0 };
    pthread_mutex_lock(&lock);
    if (strpbrk(glob, "*?[") == NULL)
        object_get(glob);    /* a size-N- key may not have been asked for yet */
    objects_each(flip_one, &flipping);
    pthread_mutex_unlock(&lock);
    return flipping.count;
}

void objects_each(void (*seen)(const struct object *object, void *arg), void *arg)
{
    for (size_t i = 0; i < SLOTS; i++)
        for (struct object *object = slots[i]; object; object = object->next)
            seen(object, arg);
}

static int by_key(const void *a, const void *b)
{
    return strcmp((*(struct object *const *)a)->key, (*(struct object *const *)b)->key);
}

static void add_existing(const struct object *object, void *arg)
{
    (void)arg;
    const char *name = strchr(object->key, '/');
    if (object->size >= 0 && name && name[1] && size_in_name(object->key) < 0)
        sorted[sorted_count++] = (struct object *)object;
}

struct object **objects_sorted(const char *bucket, size_t *ret_count)
{
    if (sorted == NULL) {
        sorted = malloc((object_count + 1) * sizeof(struct object *));
        sorted_count = 0;
        objects_each(add_existing, NULL);
        qsort(sorted, sorted_count, sizeof(sorted[0]), by_key);
    }
    size_t bucket_len = strlen(bucket), first = 0, last = sorted_count;
    while (first < last) {    /* the first key that is not below "bucket/" */
        size_t middle = (first + last) / 2;
        int order = strncmp(sorted[middle]->key, bucket, bucket_len);
        if (order == 0)
            order = (unsigned char)sorted[middle]->key[bucket_len] - '/';
        if (order < 0)
            first = middle + 1;
        else
            last = middle;
    }
    for (last = first; last < sorted_count && strncmp(sorted[last]->key, bucket, bucket_len) == 0
                       && sorted[last]->key[bucket_len] == '/';)
        last++;
    *ret_count = last - first;
    return sorted + first;
}

/* ---- reading and writing ---- */

bool view_open(const char *key, struct view *ret)
{
    pthread_mutex_lock(&lock);
    struct object *object = object_get(key);
    if (object->size >= 0) {
        snprintf(ret->key, sizeof(ret->key), "%s", key);
        ret->size = object->size;
        ret->version = object->version;
        ret->modified_s = object->modified_s;
        ret->stored = object->stored;
        ret->mapped = object->mapped;
        if (ret->stored)
            ret->stored->refs++;
        memcpy(ret->etag, object->etag, sizeof(ret->etag));
        snprintf(ret->fields, sizeof(ret->fields), "%s", object->fields ? object->fields : "");
    }
    bool exists = object->size >= 0;
    pthread_mutex_unlock(&lock);
    return exists;
}

void view_close(struct view *view)
{
    pthread_mutex_lock(&lock);
    blob_unref(view->stored);
    view->stored = NULL;
    pthread_mutex_unlock(&lock);
}

void view_bytes(const struct view *view, uint64_t offset, char *to, size_t bytes)
{
    const char *kept = view->stored ? view->stored->ptr : view->mapped;
    if (kept) {
        memcpy(to, kept + offset, bytes);
        return;
    }
    while (bytes > 0) {
        uint64_t block = offset / BLOCK, at = offset % BLOCK;
        size_t take = BLOCK - at < bytes ? BLOCK - at : bytes;
        uint8_t digest[32];
        char text[32];
        snprintf(text, sizeof(text), "%lu", (unsigned long)block);
        digest_of(view->key, view->version, text, digest);
        memcpy(to, pattern + (digest[0] << 8 | digest[1]) + at, take);
        for (uint64_t page = at / PAGE * PAGE; page < at + take; page += PAGE) {
            uint64_t first = page > at ? page : at;
            uint64_t last = page + 32 < at + take ? page + 32 : at + take;
            if (first < last)
                memcpy(to + (first - at), digest + (first - page), last - first);
        }
        to += take;
        offset += take;
        bytes -= take;
    }
}

void object_store(const char *key, struct blob *take_blob, int64_t size, const uint8_t sha256[32],
                  const char *fields, char ret_etag[36])
{
    pthread_mutex_lock(&lock);
    struct object *object = object_get(key);
    if (object->size < 0)
        changed();
    object_flip(object);
    object->size = size;
    object->stored = take_blob;
    object->modified_s = time(NULL);
    free(object->fields);
    object->fields = fields ? strdup(fields) : NULL;
    hex(sha256, 32, object->sha256);
    if (take_blob)
        snprintf(object->etag, sizeof(object->etag), "\"%.32s\"", object->sha256);
    snprintf(ret_etag, 36, "%s", object->etag);
    pthread_mutex_unlock(&lock);
}
