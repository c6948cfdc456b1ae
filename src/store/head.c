/* head.c - what is known of one version of an object. SPDX-License-Identifier: Apache-2.0
 *
 * A head is one allocation: the struct, then its name, ETag and fields. It ends with its last
 * reference, on whatever thread that is. */
#include "store/head.h"

#include <stdlib.h>
#include <string.h>

static char *append(char *at, slice s)
{
    if (s.len)
        memcpy(at, s.ptr, s.len);
    return at + s.len;
}

struct head *head_new(const struct object_id *id, const struct object_name *name, slice etag,
                      slice fields, uint64_t size, int64_t modified_s, bool full)
{
    size_t name_len = name->endpoint.len + name->bucket.len + name->key.len + name->version.len + 3;
    struct head *head = must_alloc(sizeof(*head) + name_len + etag.len + fields.len);
    char *text = (char *)(head + 1), *at = text;
    at = append(at, name->endpoint) + 1;    /* memory is zeroed: each step leaves a NUL */
    at = append(at, name->bucket) + 1;
    at = append(at, name->key) + 1;
    at = append(at, name->version);
    head->name = (slice){ text, name_len };
    head->etag = (slice){ at, etag.len };
    at = append(at, etag);
    head->fields = (slice){ at, fields.len };
    append(at, fields);
    head->id = *id;
    head->etag_hash = head_etag_hash(etag);
    head->size = size;
    head->modified_s = modified_s;
    head->full = full;
    atomic_init(&head->validated_s, 0);
    atomic_init(&head->shown, 0);
    atomic_init(&head->unproved, false);
    atomic_init(&head->refs, 1);
    return head;
}

struct head *head_ref(struct head *head)
{
    unsigned before = atomic_fetch_add_explicit(&head->refs, 1, memory_order_relaxed);
    check(before > 0);
    return head;
}

void head_unref(struct head **head)
{
    struct head *mine = *head;
    *head = NULL;
    if (!mine)
        return;
    unsigned before = atomic_fetch_sub_explicit(&mine->refs, 1, memory_order_acq_rel);
    check(before > 0);
    if (before == 1)
        free(mine);
}

size_t head_bytes(const struct head *head)
{
    return sizeof(*head) + head->name.len + head->etag.len + head->fields.len;
}

static bool takes(slice *rest, slice part)
{
    if (!slice_starts(*rest, part))
        return false;
    *rest = slice_from(*rest, part.len);
    return true;
}

bool head_is_named(const struct head *head, const struct object_name *name)
{
    static const slice nul = { "", 1 };
    slice rest = head->name;
    return takes(&rest, name->endpoint) && takes(&rest, nul) && takes(&rest, name->bucket) &&
           takes(&rest, nul) && takes(&rest, name->key) && takes(&rest, nul) &&
           slice_eq(rest, name->version);
}

slice head_field(const struct head *head, slice name)
{
    slice rest = head->fields;
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

/* On disk: FNV-1a of the bytes, mixed. */
uint64_t head_etag_hash(slice etag)
{
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < etag.len; i++)
        hash = (hash ^ (uint8_t)etag.ptr[i]) * 0x100000001B3u;
    hash = mix(hash);
    return hash ? hash : 1;
}

/* On disk, too. */
uint64_t head_mark(uint64_t size, int64_t modified_s)
{
    return mix(mix(size) + (uint64_t)modified_s);
}

bool head_is_of(const struct head *head, uint64_t etag_hash, uint64_t mark)
{
    return head->etag_hash == etag_hash && head_mark(head->size, head->modified_s) == mark;
}

bool head_is_same(const struct head *a, const struct head *b)
{
    return head_is_of(a, b->etag_hash, head_mark(b->size, b->modified_s));
}
