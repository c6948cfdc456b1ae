/* hint.c - what a node tells the others of a write. SPDX-License-Identifier: Apache-2.0 */
#include "peers/hint.h"

#include <assert.h>
#include <string.h>

#include "s3/request.h"

#define TEXT_BYTES_MAX 1024u
#define WRITES (HINT_WRITE | HINT_PROPERTY | HINT_BUCKET | HINT_RIGHTS)

struct head {
    uint8_t what, zero;
    uint16_t endpoint, bucket, key, version;
};
static_assert(sizeof(struct head) == 10, "on the wire");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a hint is sent as it lies in memory");
static_assert(S3_KEY_BYTES_MAX <= TEXT_BYTES_MAX, "a hint has room for any key");
static_assert(sizeof(struct head) + 4 * TEXT_BYTES_MAX <= HINT_BYTES_MAX, "any fits");
static_assert(sizeof(uint64_t) + HINT_BYTES_MAX <= HINT_BATCH_BYTES_MAX, "one hint always fits");

/* Names in the cache have NULs between their parts (store/metadata.h). */
static bool is_text(slice text)
{
    return text.len <= TEXT_BYTES_MAX && !slice_has(text, '\0');
}

static bool makes_sense(const struct hint *hint)
{
    switch (hint->what) {
    case HINT_PURGE:
        return !hint->version.len;
    case HINT_PURGE_KEY:
        return hint->key.len && !hint->version.len;
    default:
        return hint->what & HINT_WRITE && !(hint->what & ~(unsigned)WRITES) &&
               (hint->key.len || !(hint->what & HINT_PROPERTY)) &&
               (hint->key.len || !hint->version.len);
    }
}

bool hint_is_valid(const struct hint *hint)
{
    return makes_sense(hint) && hint->endpoint.len && s3_bucket_is_valid(hint->bucket) &&
           is_text(hint->endpoint) && is_text(hint->bucket) && is_text(hint->key) &&
           is_text(hint->version);
}

size_t hint_write(const struct hint *hint, uint8_t *ret)
{
    check(hint_is_valid(hint));
    struct head head = {
        .what = (uint8_t)hint->what, .endpoint = (uint16_t)hint->endpoint.len,
        .bucket = (uint16_t)hint->bucket.len, .key = (uint16_t)hint->key.len,
        .version = (uint16_t)hint->version.len,
    };
    char *to = (char *)ret;
    memcpy(to, &head, sizeof(head));
    to += sizeof(head);
    to += slice_put(to, hint->endpoint);
    to += slice_put(to, hint->bucket);
    to += slice_put(to, hint->key);
    to += slice_put(to, hint->version);
    return (size_t)(to - (char *)ret);
}

/* Returns the next `len` bytes, or fewer if there are fewer. */
static slice take(slice *rest, size_t len)
{
    slice text = slice_sub(*rest, 0, len);
    *rest = slice_from(*rest, len);
    return text;
}

enum err hint_read(slice *rest, struct hint *ret)
{
    struct head head;
    slice bytes = *rest;
    if (bytes.len < sizeof(head))
        return ERR_BAD_REQUEST;
    memcpy(&head, bytes.ptr, sizeof(head));
    bytes = slice_from(bytes, sizeof(head));
    size_t texts = (size_t)head.endpoint + head.bucket + head.key + head.version;
    if (head.zero || bytes.len < texts)
        return ERR_BAD_REQUEST;
    ret->what = head.what;
    ret->endpoint = take(&bytes, head.endpoint);
    ret->bucket = take(&bytes, head.bucket);
    ret->key = take(&bytes, head.key);
    ret->version = take(&bytes, head.version);
    *rest = bytes;
    return hint_is_valid(ret) ? OK : ERR_BAD_REQUEST;
}

enum err hint_batch_read(struct arena *keep, slice payload, struct hint_batch *ret)
{
    slice rest = payload;
    *ret = (struct hint_batch){ .age_ms = HINT_AGE_NONE };
    if (payload.len < sizeof(ret->age_ms) || payload.len > HINT_BATCH_BYTES_MAX)
        return ERR_BAD_REQUEST;
    memcpy(&ret->age_ms, take(&rest, sizeof(ret->age_ms)).ptr, sizeof(ret->age_ms));
    while (rest.len) {
        if (ret->count == HINT_BATCH_MAX)
            return ERR_BAD_REQUEST;
        ret->hints = arena_grow(keep, ret->hints, ret->count, sizeof(*ret->hints));
        if (hint_read(&rest, &ret->hints[ret->count]))
            return ERR_BAD_REQUEST;
        ret->count++;
    }
    return OK;
}
