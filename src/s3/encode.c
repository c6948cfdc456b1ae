/* encode.c - percent-coding, base64, UTF-8 and the time formats of S3.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Dates are read without strptime, which depends on the locale and accepts too much. Days are
 * counted from 1970 in the proleptic Gregorian calendar; an earlier day, or one that does not
 * exist, is refused. Any thread may call these functions. */
#include "s3/encode.h"

#include <assert.h>
#include <limits.h>
#include <openssl/evp.h>
#include <string.h>

#define DAY_S 86400

static bool plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '.' || c == '_' || c == '~';
}

size_t uri_encode_to(char *to, slice s, bool encode_slash)
{
    static const char digits[] = "0123456789ABCDEF";
    char *at = to;
    for (size_t i = 0; i < s.len; i++) {
        uint8_t c = (uint8_t)s.ptr[i];
        if (plain((char)c) || (c == '/' && !encode_slash)) {
            *at++ = (char)c;
            continue;
        }
        *at++ = '%';
        *at++ = digits[c >> 4];
        *at++ = digits[c & 15];
    }
    return (size_t)(at - to);
}

void uri_encode(struct text *to, slice s, bool encode_slash)
{
    char part[3 * 128];
    for (size_t i = 0; i < s.len; i += 128) {
        size_t len = uri_encode_to(part, slice_sub(s, i, 128), encode_slash);
        text_add(to, (slice){ part, len });
    }
}

enum err uri_decode(struct arena *keep, slice s, slice *ret)
{
    if (slice_has(s, '\0'))
        return ERR_BAD_URI;
    if (!slice_has(s, '%')) {
        *ret = s;
        return OK;
    }
    char *decoded = arena_alloc(keep, s.len);
    size_t len = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '%') {
            uint8_t byte;
            if (!slice_unhex(slice_sub(s, i + 1, 2), &byte, 1) || byte == 0)
                return ERR_BAD_URI;
            c = (char)byte;
            i += 2;
        }
        decoded[len++] = c;
    }
    *ret = (slice){ decoded, len };
    return OK;
}

enum err query_decode(struct arena *keep, slice s, slice *ret)
{
    if (slice_has(s, '+')) {
        char *spaced = arena_alloc(keep, s.len);
        for (size_t i = 0; i < s.len; i++)
            spaced[i] = s.ptr[i] == '+' ? ' ' : s.ptr[i];
        s.ptr = spaced;
    }
    return uri_decode(keep, s, ret);
}

bool query_next(slice *rest, slice *ret_name, slice *ret_value)
{
    while (rest->ptr) {
        slice pair = slice_cut(rest, '&');
        if (!pair.len)
            continue;    /* the pair is empty, as in "a&&b" and "a&" */
        *ret_name = slice_cut(&pair, '=');
        *ret_value = pair;
        return true;
    }
    return false;
}

slice query_get(slice query, slice name)
{
    slice param, value;
    while (query_next(&query, &param, &value))
        if (slice_eq_nocase(param, name))
            return value.ptr ? value : S("");
    return (slice){ NULL, 0 };
}

/* ---- days and seconds ---- */

static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
static const char weekdays[] = "SunMonTueWedThuFriSat";

/* Returns the number of days from 1970-01-01. The function counts in eras of 400 years, which begin
 * on the 1st of March. */
static int64_t days_from(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t era = year / 400, of_era = year - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

struct moment {
    int64_t year, month, day, hour, minute, second;
};

static struct moment moment_of(int64_t unix_s)
{
    int64_t days = unix_s / DAY_S, second = unix_s % DAY_S;
    int64_t z = days + 719468, era = z / 146097, of_era = z - era * 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t shifted = (5 * of_year + 2) / 153;
    int64_t month = shifted < 10 ? shifted + 3 : shifted - 9;
    return (struct moment){ year + era * 400 + (month <= 2), month,
                            of_year - (153 * shifted + 2) / 5 + 1,
                            second / 3600, second / 60 % 60, second % 60 };
}

static int64_t moment_seconds(const struct moment *m)
{
    static const int8_t lengths[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    bool leap = m->year % 4 == 0 && (m->year % 100 != 0 || m->year % 400 == 0);
    if (m->year < 1970 || m->month < 1 || m->month > 12 || m->day < 1 ||
        m->day > lengths[m->month - 1] || (m->month == 2 && m->day == 29 && !leap) ||
        m->hour > 23 || m->minute > 59 || m->second > 60)
        return -1;
    return days_from(m->year, m->month, m->day) * DAY_S + m->hour * 3600 + m->minute * 60 +
           m->second;
}

/* ---- reading a date by its picture ---- */

static int64_t name_index(const char *names, const char *three)
{
    for (int64_t i = 0; names[3 * i]; i++)
        if (memcmp(names + 3 * i, three, 3) == 0)
            return i;
    return -1;
}

/* A picture describes the text of a date. Each letter Y n D h m s stands for one digit, and '_' for
 * a space or a digit of the day. NNN stands for the name of a month, WWW for the name of a weekday.
 * Any other letter stands for itself. */
#define HTTP_DATE "WWW, DD NNN YYYY hh:mm:ss GMT"
#define AMZ_DATE "YYYYnnDDThhmmssZ"
#define ISO_DATE "YYYY-nn-DDThh:mm:ss.000Z"
static_assert(sizeof(HTTP_DATE) == HTTP_DATE_BYTES, "the size counts the NUL");
static_assert(sizeof(AMZ_DATE) == AMZ_DATE_BYTES, "the size counts the NUL");

static int64_t *field_of(struct moment *m, char letter)
{
    switch (letter) {
    case 'Y': return &m->year;
    case 'n': return &m->month;
    case 'D': case '_': return &m->day;
    case 'h': return &m->hour;
    case 'm': return &m->minute;
    case 's': return &m->second;
    default: return NULL;
    }
}

static bool picture_read(slice s, const char *picture, struct moment *ret)
{
    struct moment m = { 0 };
    if (s.len != strlen(picture))
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i], letter = picture[i];
        int64_t *field = field_of(&m, letter);
        if (letter == 'N' || letter == 'W') {
            int64_t index = name_index(letter == 'N' ? months : weekdays, s.ptr + i);
            if (index < 0)
                return false;
            if (letter == 'N')
                m.month = index + 1;
            i += 2;
        } else if (field && c >= '0' && c <= '9') {
            *field = *field * 10 + (c - '0');
        } else if (!(letter == '_' && c == ' ') && (field || c != letter)) {
            return false;
        }
    }
    *ret = m;
    return true;
}

static int64_t read_as(slice s, const char *picture)
{
    struct moment m;
    return picture_read(s, picture, &m) ? moment_seconds(&m) : -1;
}

static int64_t read_rfc850(slice s)
{
    static const char *const days[] = { "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday",
                                        "Friday", "Saturday" };
    slice rest = s, weekday = slice_cut(&rest, ',');
    struct moment m;
    if (!slice_is_one_of(weekday, days, countof(days)) ||
        !picture_read(rest, " DD-NNN-YY hh:mm:ss GMT", &m))
        return -1;
    m.year += m.year < 70 ? 2000 : 1900;
    return moment_seconds(&m);
}

int64_t http_date_read(slice s)
{
    int64_t at = read_as(s, HTTP_DATE);
    if (at < 0)
        at = read_as(s, "WWW NNN _D hh:mm:ss YYYY");
    return at < 0 ? read_rfc850(s) : at;
}

int64_t amz_date_read(slice s)
{
    return read_as(s, AMZ_DATE);
}

int64_t iso_date_read(slice s)
{
    slice whole = slice_sub(s, 0, 19), rest = slice_from(s, 19);
    if (!slice_ends(rest, S("Z")))
        return -1;
    rest.len--;
    bool fraction = rest.len > 1 && rest.ptr[0] == '.' &&
                    slice_only(slice_from(rest, 1), DIGIT_CHARS);
    return fraction || !rest.len ? read_as(whole, "YYYY-nn-DDThh:mm:ss") : -1;
}

static void digits(char **at, int64_t number, int count)
{
    for (int i = count - 1; i >= 0; i--, number /= 10)
        (*at)[i] = (char)('0' + number % 10);
    *at += count;
}

/* Writes a date by a picture, with the letters that picture_read knows. A time outside the years
 * 1970 to 9999 becomes the nearest time inside. */
static void picture_write(int64_t unix_s, const char *picture, char *ret)
{
    int64_t inside_s = MIN(MAX(unix_s, 0), (int64_t)253402300799);
    struct moment m = moment_of(inside_s);
    char *at = ret;
    for (const char *p = picture; *p;) {
        int count = 1;
        while (p[count] == *p)
            count++;
        if (*p == 'N')
            memcpy(at, months + 3 * (m.month - 1), 3), at += 3;
        else if (*p == 'W')
            memcpy(at, weekdays + 3 * ((inside_s / DAY_S + 4) % 7), 3), at += 3;
        else if (field_of(&m, *p))
            digits(&at, *field_of(&m, *p), count);
        else
            for (int i = 0; i < count; i++)
                *at++ = *p;
        p += count;
    }
    *at = '\0';
}

void http_date_write(int64_t unix_s, char ret[HTTP_DATE_BYTES])
{
    picture_write(unix_s, HTTP_DATE, ret);
}

void amz_date_write(int64_t unix_s, char ret[AMZ_DATE_BYTES])
{
    picture_write(unix_s, AMZ_DATE, ret);
}

slice iso_date_text(struct arena *keep, int64_t unix_s)
{
    char *text = arena_alloc(keep, sizeof(ISO_DATE));
    picture_write(unix_s, ISO_DATE, text);
    return slice_of(text);
}

slice iso_date_or_never(struct arena *keep, int64_t unix_s)
{
    return unix_s ? iso_date_text(keep, unix_s) : S("never");
}

/* ---- base64 ---- */

slice base64_write(struct arena *keep, slice bytes)
{
    check(bytes.len < INT_MAX / 2);    /* OpenSSL counts in int */
    uint8_t *text = arena_alloc(keep, (bytes.len + 2) / 3 * 4 + 1);
    int len = EVP_EncodeBlock(text, (const uint8_t *)bytes.ptr, (int)bytes.len);
    return (slice){ (const char *)text, (size_t)len };
}

slice base64_decode(struct arena *keep, slice s)
{
    check(s.len < INT_MAX / 2);
    int padding = slice_ends(s, S("==")) ? 2 : slice_ends(s, S("=")) ? 1 : 0;
    uint8_t *bytes = arena_alloc(keep, s.len + 1);
    int len = EVP_DecodeBlock(bytes, (const uint8_t *)s.ptr, (int)s.len);
    slice decoded = { (const char *)bytes, (size_t)MAX(len - padding, 0) };
    bool good = len >= padding && slice_eq(base64_write(keep, decoded), s);
    return good ? decoded : (slice){ NULL, 0 };    /* only one spelling of each value is accepted */
}

bool base64_read(slice s, uint8_t *ret, size_t bytes)
{
    struct arena keep = { 0 };
    slice decoded = base64_decode(&keep, s);
    bool good = decoded.ptr && decoded.len == bytes;
    if (good)
        slice_put((char *)ret, decoded);
    arena_free(&keep);
    return good;
}

/* ---- UTF-8 and queries ---- */

size_t utf8_read(slice s, uint32_t *ret_code)
{
    check(s.len > 0);
    uint8_t first = (uint8_t)s.ptr[0];
    size_t len = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    if (len == 1) {
        *ret_code = first;
        return 1;
    }
    if (first < 0xc2 || first > 0xf4 || s.len < len)
        return 0;
    uint32_t code = first & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if (((uint8_t)s.ptr[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | ((uint8_t)s.ptr[i] & 0x3f);
    }
    *ret_code = code;
    return code >= least[len] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? len : 0;
}

static bool has_nocase(slice s, slice part)
{
    for (size_t i = 0; i + part.len <= s.len; i++)
        if (slice_eq_nocase(slice_sub(s, i, part.len), part))
            return true;
    return false;
}

static bool proves(struct arena *keep, slice name)
{
    static const char *const parts[] = { "signature", "credential", "token", "secret", "password",
                                         "accesskey", "customer-key" };
    slice decoded;
    if (uri_decode(keep, name, &decoded) != OK)
        return true;
    for (size_t i = 0; i < countof(parts); i++)
        if (has_nocase(decoded, slice_of(parts[i])))
            return true;
    return false;
}

slice query_unproved(struct arena *keep, slice query)
{
    struct text text = text_in(keep);
    while (query.len) {
        slice param = slice_cut(&query, '&'), value = param;
        slice name = slice_cut(&value, '=');
        if (!name.len || proves(keep, name))
            continue;
        if (text.len)
            text_char(&text, '&');
        text_add(&text, param);
    }
    return text_slice(&text);
}
