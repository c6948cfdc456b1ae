/* canon.c - the canonical request, which signature version 4 signs.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The canonical request is written into one allocation, whose size is computed first. The client's
 * path and query are decoded, and encoded again by S3's rule. So the spelling of an escape, or of a
 * space in a query, does not matter. The slashes and dots of the path stay as they are. The
 * functions do no I/O and read no clock (rule H9 in src/README.md). */
#include "s3/canon.h"

#include <stdlib.h>

#include "s3/encode.h"

#define PARAMS_MAX 100

/* Decodes escapes where possible, and encodes the result by S3's rule. Writes at most 3 * s.len
 * bytes. */
static size_t recode(char *to, slice s, bool in_query)
{
    size_t len = 0;
    for (size_t i = 0; i < s.len;) {
        size_t plain = i;
        while (plain < s.len && s.ptr[plain] != '%' && !(in_query && s.ptr[plain] == '+'))
            plain++;
        len += uri_encode_to(to + len, slice_sub(s, i, plain - i), in_query);
        i = plain;
        if (i == s.len)
            break;
        uint8_t byte = s.ptr[i] == '+' ? ' ' : '%';
        i += byte == '%' && slice_unhex(slice_sub(s, i + 1, 2), &byte, 1) ? 3 : 1;
        len += uri_encode_to(to + len, (slice){ (char *)&byte, 1 }, in_query);
    }
    return len;
}

static int pair_cmp(const struct http_field *a, const struct http_field *b)
{
    int order = slice_cmp(a->name, b->name);
    return order ? order : slice_cmp(a->value, b->value);
}

static void pair_insert(struct http_field *pairs, size_t count, struct http_field pair)
{
    size_t at = count;
    for (; at && pair_cmp(&pairs[at - 1], &pair) > 0; at--)
        pairs[at] = pairs[at - 1];
    pairs[at] = pair;
}

/* Writes the parameters, sorted by encoded name, then by value. Leaves out the signature itself. */
static enum err put_query(char **at, struct arena *scratch, slice query)
{
    struct http_field pairs[PARAMS_MAX];
    size_t count = 0;
    slice name, value;
    char *coded = query.len ? arena_alloc(scratch, 3 * query.len) : NULL;
    while (query_next(&query, &name, &value)) {
        if (slice_eq(name, S("X-Amz-Signature")))
            continue;
        if (count == PARAMS_MAX)
            return ERR_BAD_URI;
        struct http_field pair = { .name = { coded, recode(coded, name, true) } };
        coded += pair.name.len;
        pair.value = (slice){ coded, recode(coded, value, true) };
        coded += pair.value.len;
        pair_insert(pairs, count++, pair);
    }
    for (size_t i = 0; i < count; i++) {
        if (i)
            *(*at)++ = '&';
        *at += slice_put(*at, pairs[i].name);
        *(*at)++ = '=';
        *at += slice_put(*at, pairs[i].value);
    }
    return OK;
}

/* Writes a trimmed value. Each run of spaces inside it becomes one space. */
static void put_value(char **at, slice value)
{
    while (value.len) {
        slice part = slice_cut(&value, ' ');
        *at += slice_put(*at, part);
        while (value.len && value.ptr[0] == ' ')
            value = slice_from(value, 1);
        if (value.len)
            *(*at)++ = ' ';
    }
}

/* Returns a short hash of a name, ignoring case. Names with different tags need no comparison. */
static uint32_t tag_of(slice name)
{
    uint32_t tag = (uint32_t)name.len;
    for (size_t i = 0; i < name.len; i++)
        tag = tag * 31 + ((uint8_t)name.ptr[i] | 0x20);
    return tag;
}

static void put_headers(char **at, struct arena *scratch, struct canon *canon)
{
    slice rest = canon->signed_headers;
    uint32_t *tags = arena_alloc(scratch, (canon->field_count + 1) * sizeof(*tags));
    for (size_t i = 0; i < canon->field_count; i++)
        tags[i] = tag_of(canon->fields[i].name);
    while (rest.ptr) {
        slice name = slice_cut(&rest, ';');
        uint32_t tag = tag_of(name);
        bool first = true;
        *at += slice_put(*at, name);
        *(*at)++ = ':';
        for (size_t i = 0; i < canon->field_count; i++) {
            const struct http_field *field = &canon->fields[i];
            if (tags[i] != tag || !slice_eq_nocase(field->name, name))
                continue;
            if (!first)
                *(*at)++ = ',';
            first = false;
            put_value(at, slice_trim(field->value));
            if (i < CANON_FIELDS_MAX)
                canon->used[i / 64] |= (uint64_t)1 << i % 64;
        }
        *(*at)++ = '\n';
    }
}

/* Returns an upper limit for the size of the canonical request. A name is signed at most once, so
 * no field is written twice. */
static size_t canon_bytes_max(const struct canon *canon)
{
    size_t bytes = canon->method.len + 3 * canon->path.len + 3 * canon->query.len + PARAMS_MAX +
                   4 * canon->signed_headers.len + canon->payload_hash.len + 16;
    for (size_t i = 0; i < canon->field_count; i++)
        bytes += canon->fields[i].value.len + 1;
    return bytes;
}

enum err canon_write(struct arena *keep, struct canon *canon, slice *ret)
{
    size_t cap = canon_bytes_max(canon);
    char *start = arena_alloc(keep, cap), *at = start;
    at += slice_put(at, canon->method);
    *at++ = '\n';
    at += recode(at, canon->path, false);
    *at++ = '\n';
    enum err e = put_query(&at, keep, canon->query);
    if (e)
        return e;
    *at++ = '\n';
    put_headers(&at, keep, canon);
    *at++ = '\n';
    at += slice_put(at, canon->signed_headers);
    *at++ = '\n';
    at += slice_put(at, canon->payload_hash);
    check((size_t)(at - start) <= cap);
    *ret = (slice){ start, (size_t)(at - start) };
    return OK;
}

bool canon_must_be_signed(const struct canon *canon, size_t i)
{
    slice name = canon->fields[i].name;
    if (canon->used[i / 64] >> i % 64 & 1)
        return false;
    return slice_starts_nocase(name, S("x-amz-")) || slice_eq_nocase(name, S("host"));
}

bool canon_all_signed(const struct canon *canon)
{
    check(canon->field_count <= CANON_FIELDS_MAX);
    for (size_t i = 0; i < canon->field_count; i++)
        if (canon_must_be_signed(canon, i))
            return false;
    return true;
}

slice canon_signed_names(struct arena *keep, const struct http_field *fields, size_t count)
{
    slice *names = arena_alloc(keep, count * sizeof(*names));
    for (size_t i = 0; i < count; i++)
        names[i] = arena_lower(keep, fields[i].name);
    qsort(names, count, sizeof(*names), slice_order);
    struct text text = text_in(keep);
    for (size_t i = 0; i < count; i++) {
        if (i && slice_eq(names[i], names[i - 1]))
            continue;
        if (i)
            text_char(&text, ';');
        text_add(&text, names[i]);
    }
    return text_slice(&text);
}
