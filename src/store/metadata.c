/* metadata.c - one version of an object, without its bytes. SPDX-License-Identifier: Apache-2.0
 *
 * Metadata is one allocation: the struct, then its name, ETag and fields. The last reference frees
 * it, on any thread. */
#include "store/metadata.h"

#include <stdlib.h>

size_t object_name_bytes(const struct object_name *name)
{
    return name->endpoint.len + name->bucket.len + name->key.len + name->version.len + 3;
}

slice object_name_write(const struct object_name *name, char *to)
{
    const slice parts[] = { name->endpoint, name->bucket, name->key, name->version };
    char *at = to;
    for (size_t i = 0; i < countof(parts); i++) {
        if (i > 0)
            *at++ = '\0';
        at += slice_put(at, parts[i]);
    }
    return (slice){ to, (size_t)(at - to) };
}

struct metadata *metadata_new(const struct object_id *id, const struct object_name *name,
                              slice etag, slice fields, uint64_t size, int64_t modified_s,
                              bool full)
{
    size_t name_len = object_name_bytes(name);
    struct metadata *metadata = must_alloc(sizeof(*metadata) + name_len + etag.len + fields.len);
    char *at = (char *)(metadata + 1);
    metadata->name = object_name_write(name, at);
    at += name_len;
    metadata->etag = (slice){ at, slice_put(at, etag) };
    at += etag.len;
    metadata->fields = (slice){ at, slice_put(at, fields) };
    metadata->id = *id;
    metadata->etag_hash = metadata_etag_hash(etag);
    metadata->size = size;
    metadata->modified_s = modified_s;
    metadata->full = full;
    atomic_init(&metadata->validated_s, 0);
    atomic_init(&metadata->granted, 0);
    atomic_init(&metadata->unproved, false);
    atomic_init(&metadata->refs, 1);
    return metadata;
}

struct metadata *metadata_ref(struct metadata *metadata)
{
    unsigned before = atomic_fetch_add_explicit(&metadata->refs, 1, memory_order_relaxed);
    check(before > 0);
    return metadata;
}

void metadata_unref(struct metadata **metadata)
{
    struct metadata *mine = *metadata;
    *metadata = NULL;
    if (!mine)
        return;
    unsigned before = atomic_fetch_sub_explicit(&mine->refs, 1, memory_order_acq_rel);
    check(before > 0);
    if (before == 1)
        free(mine);
}

size_t metadata_bytes(const struct metadata *metadata)
{
    return sizeof(*metadata) + metadata->name.len + metadata->etag.len + metadata->fields.len;
}

static bool takes(slice *rest, slice part)
{
    if (!slice_starts(*rest, part))
        return false;
    *rest = slice_from(*rest, part.len);
    return true;
}

bool metadata_has_name(const struct metadata *metadata, const struct object_name *name)
{
    static const slice nul = { "", 1 };
    slice rest = metadata->name;
    return takes(&rest, name->endpoint) && takes(&rest, nul) && takes(&rest, name->bucket) &&
           takes(&rest, nul) && takes(&rest, name->key) && takes(&rest, nul) &&
           slice_eq(rest, name->version);
}

slice metadata_field(const struct metadata *metadata, slice name)
{
    slice rest = metadata->fields;
    while (rest.len) {
        slice value = slice_cut(&rest, '\n');
        slice found = slice_cut(&value, ':');
        if (value.ptr && slice_eq_nocase(found, name)) {
            if (value.len && value.ptr[value.len - 1] == '\r')
                value.len--;
            return slice_trim(value);
        }
    }
    return (slice){ NULL, 0 };
}

/* Spreads every bit of the input over all bits of the result; one to one. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* FNV-1a of the bytes, mixed. Index and records on disk have this value. */
uint64_t metadata_etag_hash(slice etag)
{
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < etag.len; i++)
        hash = (hash ^ (uint8_t)etag.ptr[i]) * 0x100000001B3u;
    hash = mix(hash);
    return hash ? hash : 1;
}

/* Index and records on disk have this value, too. */
uint64_t metadata_mark(uint64_t size, int64_t modified_s)
{
    return mix(mix(size) + (uint64_t)modified_s);
}

bool metadata_is_of(const struct metadata *metadata, uint64_t etag_hash, uint64_t mark)
{
    return metadata->etag_hash == etag_hash &&
           metadata_mark(metadata->size, metadata->modified_s) == mark;
}

bool metadata_is_same(const struct metadata *a, const struct metadata *b)
{
    return metadata_is_of(a, b->etag_hash, metadata_mark(b->size, b->modified_s));
}
