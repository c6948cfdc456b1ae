/* slice.c - text as pointer and length. SPDX-License-Identifier: Apache-2.0 */
#include "base/slice.h"

#include <string.h>

slice slice_of(const char *text)
{
    return (slice){ text, text ? strlen(text) : 0 };
}

slice slice_from(slice s, size_t start)
{
    start = MIN(start, s.len);
    return (slice){ s.len ? s.ptr + start : s.ptr, s.len - start };
}

slice slice_sub(slice s, size_t start, size_t len)
{
    s = slice_from(s, start);
    s.len = MIN(s.len, len);
    return s;
}

static bool blank(char c)
{
    return c == ' ' || c == '\t';
}

slice slice_trim(slice s)
{
    while (s.len && blank(s.ptr[0]))
        s = slice_from(s, 1);
    while (s.len && blank(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

slice slice_without_line_end(slice s)
{
    while (slice_ends(s, S("\n")) || slice_ends(s, S("\r")))
        s.len--;
    return s;
}

slice slice_cut(slice *rest, char at)
{
    slice all = *rest;
    const char *found = all.len ? memchr(all.ptr, at, all.len) : NULL;
    if (!found) {
        *rest = (slice){ NULL, 0 };
        return all;
    }
    size_t before = (size_t)(found - all.ptr);
    *rest = (slice){ found + 1, all.len - before - 1 };
    return (slice){ all.ptr, before };
}

slice slice_cut_last(slice *rest, char at)
{
    size_t behind = rest->len;
    while (behind && rest->ptr[behind - 1] != at)
        behind--;
    slice last = slice_from(*rest, behind);
    rest->len = behind ? behind - 1 : 0;
    return last;
}

size_t slice_put(char *to, slice s)
{
    if (s.len)
        memcpy(to, s.ptr, s.len);
    return s.len;
}

bool slice_eq(slice a, slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool slice_eq_nocase(slice a, slice b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (char_lower(a.ptr[i]) != char_lower(b.ptr[i]))
            return false;
    return true;
}

bool slice_eq_secret(slice a, slice b)
{
    volatile unsigned differ = a.len != b.len;
    for (size_t i = 0; i < a.len && i < b.len; i++)
        differ |= (unsigned char)(a.ptr[i] ^ b.ptr[i]);
    return !differ;
}

int slice_cmp(slice a, slice b)
{
    size_t common = MIN(a.len, b.len);
    int order = common ? memcmp(a.ptr, b.ptr, common) : 0;
    if (order)
        return order;
    return (a.len > b.len) - (a.len < b.len);
}

int slice_order(const void *a, const void *b)
{
    return slice_cmp(*(const slice *)a, *(const slice *)b);
}

bool slice_starts(slice s, slice prefix)
{
    return s.len >= prefix.len && slice_eq(slice_sub(s, 0, prefix.len), prefix);
}

bool slice_starts_nocase(slice s, slice prefix)
{
    return slice_eq_nocase(slice_sub(s, 0, prefix.len), prefix);
}

bool slice_ends(slice s, slice suffix)
{
    return s.len >= suffix.len && slice_eq(slice_from(s, s.len - suffix.len), suffix);
}

bool slice_has(slice s, char c)
{
    return s.len && memchr(s.ptr, c, s.len) != NULL;
}

size_t slice_find(slice s, slice part)
{
    const char *found = s.len ? memmem(s.ptr, s.len, part.ptr, part.len) : NULL;
    return found ? (size_t)(found - s.ptr) : s.len;
}

bool slice_only(slice s, const char *chars)
{
    for (size_t i = 0; i < s.len; i++)
        if (!s.ptr[i] || !strchr(chars, s.ptr[i]))
            return false;
    return true;
}

bool slice_has_control(slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.ptr[i] < 0x20 || s.ptr[i] == 0x7f)
            return true;
    return false;
}

bool slice_list_has(slice list, char between, slice word)
{
    while (list.ptr)
        if (slice_eq_nocase(slice_trim(slice_cut(&list, between)), word))
            return true;
    return false;
}

bool slice_is_one_of(slice s, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(s, slice_of(words[i])))
            return true;
    return false;
}

bool slice_is_one_of_nocase(slice s, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq_nocase(s, slice_of(words[i])))
            return true;
    return false;
}

bool slice_u64(slice s, uint64_t *ret)
{
    uint64_t value = 0;
    if (s.len == 0 || s.len > 20)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(s.ptr[i] - '0'), &value))
            return false;
    }
    *ret = value;
    return true;
}

int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = char_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool slice_unhex(slice s, uint8_t *ret, size_t bytes)
{
    if (s.len != 2 * bytes)
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (hex_digit(s.ptr[i]) < 0)
            return false;
    for (size_t i = 0; i < bytes; i++)
        ret[i] = (uint8_t)(hex_digit(s.ptr[2 * i]) << 4 | hex_digit(s.ptr[2 * i + 1]));
    return true;
}

void hex_number_write(uint64_t number, unsigned digits, char *ret)
{
    for (char *at = ret + digits; at > ret; number >>= 4)
        *--at = "0123456789ABCDEF"[number & 15];
}

void hex_write(const uint8_t *bytes, size_t count, char *ret)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        ret[2 * i] = digits[bytes[i] >> 4];
        ret[2 * i + 1] = digits[bytes[i] & 15];
    }
}
