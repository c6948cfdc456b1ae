/* show.c - names, sizes and times as people read them, and URLs of the form s3://BUCKET/KEY.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/show.h"

#include <inttypes.h>

#include "s3/encode.h"

#define KEY_BYTES_MAX 1024u    /* of S3 */

/* ---- URLs ---- */

bool s3_url_read(const char *text, struct s3_url *ret, const char **ret_why)
{
    slice rest = slice_of(text);
    *ret_why = NULL;
    if (!slice_starts_nocase(rest, S("s3://"))) {
        *ret_why = "does not begin with s3://";
        return false;
    }
    rest = slice_from(rest, 5);
    ret->bucket = slice_cut(&rest, '/');
    ret->key = rest.ptr ? rest : S("");
    if (!ret->bucket.len)
        *ret_why = "names no bucket";
    else if (slice_has_control(ret->bucket) || slice_has(ret->bucket, ' '))
        *ret_why = "has a space or a control character in the name of the bucket";
    else if (ret->key.len > KEY_BYTES_MAX)
        *ret_why = "has more than 1024 bytes after the bucket, and a key of S3 has at most 1024";
    return !*ret_why;
}

/* ---- names ---- */

/* True for a character that a terminal would obey instead of showing it, or that would show the
 * text around it in another order. */
static bool is_hidden(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } hidden[] = {
        { 0x00, 0x1f }, { 0x7f, 0x9f }, { 0xad, 0xad }, { 0x61c, 0x61c }, { 0x200b, 0x200f },
        { 0x2028, 0x202e }, { 0x2060, 0x206f }, { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb },
        { 0xe0000, 0xe007f },
    };
    for (size_t i = 0; i < countof(hidden); i++)
        if (code >= hidden[i].first && code <= hidden[i].last)
            return true;
    return false;
}

void show_name(struct text *to, slice name)
{
    while (name.len) {
        uint32_t code = 0;
        size_t len = utf8_read(name, &code);
        bool hidden = !len || is_hidden(code);
        slice part = slice_sub(name, 0, MAX(len, 1u));
        for (size_t i = 0; hidden && i < part.len; i++)
            text_printf(to, "\\x%02x", (unsigned char)part.ptr[i]);
        if (!hidden && code == '\\')
            text_char(to, '\\');
        if (!hidden)
            text_add(to, part);
        name = slice_from(name, part.len);
    }
}

slice show_text(struct arena *keep, slice text)
{
    struct text shown = text_in(keep);
    show_name(&shown, text);
    return text_slice(&shown);
}

slice show_s3(struct arena *keep, slice bucket, slice key)
{
    struct text text = text_in(keep);
    text_add(&text, S("s3://"));
    show_name(&text, bucket);
    text_char(&text, '/');
    show_name(&text, key);
    return text_slice(&text);
}

/* ---- numbers ---- */

slice show_bytes_as(struct arena *keep, uint64_t bytes, uint64_t other)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
    double value = (double)bytes, left = (double)other;
    size_t unit = 0;
    for (; left >= 1024 && unit + 1 < countof(units); unit++) {
        left /= 1024;
        value /= 1024;
    }
    return arena_printf(keep, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

slice show_bytes(struct arena *keep, uint64_t bytes)
{
    return show_bytes_as(keep, bytes, bytes);
}

slice show_share(struct arena *keep, uint64_t part, uint64_t whole)
{
    double percent = whole ? 100 * (double)part / (double)whole : 100;
    if (part >= whole)
        return S("100 %");
    if (part && percent < 1)
        return S("<1 %");
    return arena_printf(keep, "%u %%", (unsigned)MIN(percent, 99));
}

slice show_seconds(struct arena *keep, uint64_t seconds)
{
    static const struct {
        uint64_t from, unit;
        char sign;
    } rows[] = { { 2 * 86400, 86400, 'd' }, { 2 * 3600, 3600, 'h' }, { 120, 60, 'm' } };
    for (size_t i = 0; i < countof(rows); i++)
        if (seconds >= rows[i].from)
            return arena_printf(keep, "%" PRIu64 "%c", seconds / rows[i].unit, rows[i].sign);
    return arena_printf(keep, "%" PRIu64 "s", seconds);
}
