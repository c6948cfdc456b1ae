/* mask.c - takes secrets out of texts that leave this machine.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/mask.h"

#include <ctype.h>
#include <string.h>

#include "s3/encode.h"

#define MASKED "********"
#define SECRET_LEAST 4u
#define AWS_KEY_LEAST 16u

/* ---- what is secret ---- */

static void add_once(struct mask *mask, slice secret)
{
    for (size_t i = 0; i < mask->count; i++)
        if (slice_eq(mask->secrets[i], secret))
            return;
    check(mask->count < MASK_SECRETS_MAX);
    mask->secrets[mask->count++] = secret;
}

static slice as_json(struct arena *keep, slice text)
{
    struct text made = text_in(keep);
    for (size_t i = 0; i < text.len; i++) {
        if (strchr("\"\\/", text.ptr[i]) && text.ptr[i] != '/')
            text_char(&made, '\\');
        text_char(&made, text.ptr[i]);
    }
    return text_slice(&made);
}

void mask_add(struct mask *mask, slice secret)
{
    struct text encoded = text_in(mask->keep);
    if (secret.len < SECRET_LEAST || mask->count + 3 > MASK_SECRETS_MAX)
        return;
    secret = arena_copy(mask->keep, secret);
    uri_encode(&encoded, secret, true);
    add_once(mask, secret);
    add_once(mask, text_slice(&encoded));
    add_once(mask, as_json(mask->keep, secret));
}

static bool is_secret(const struct setting *setting)
{
    slice name = slice_of(setting->name);
    return setting->type == TYPE_SECRET || slice_ends(name, S("access_key"));
}

static void add_group(struct mask *mask, enum setting_scope scope, const void *group)
{
    for (size_t i = 0; i < setting_count; i++) {
        const struct setting *setting = &settings[i];
        if (setting->scope == scope && setting_is_text(setting) && is_secret(setting))
            mask_add(mask, slice_of(*(const char *const *)((const char *)group +
                                                           setting->offset)));
    }
}

void mask_add_settings(struct mask *mask, const struct config *config)
{
    struct config_group group;
    add_group(mask, SCOPE_GLOBAL, config);
    for (enum setting_scope scope = SCOPE_ORIGIN; scope <= SCOPE_KEY; scope++)
        for (size_t i = 0; config_group_at(config, scope, i, &group); i++)
            add_group(mask, scope, group.values);
}

/* Names of parameters, headers and members whose values are secret, in lower case. */
static const char *const words[] = {
    "signature", "credential", "token", "secret", "password", "passwd", "accesskey", "access_key",
    "access-key", "customer-key", "authorization", "cookie",
};

static bool has_word_at(slice text, size_t *ret_len)
{
    for (size_t i = 0; i < countof(words); i++) {
        slice word = slice_of(words[i]);
        *ret_len = word.len;
        if (slice_starts_nocase(text, word))
            return true;
    }
    return false;
}

void mask_add_environment(struct mask *mask, const char *const *environment)
{
    for (; *environment; environment++) {
        slice rest = slice_of(*environment), name = slice_cut(&rest, '=');
        size_t len;
        bool secret = false;
        for (size_t i = 0; i < name.len && !secret; i++)
            secret = has_word_at(slice_from(name, i), &len);
        if (secret && rest.ptr && !slice_ends(name, S("_FILE")))
            mask_add(mask, rest);
    }
}

/* ---- values after names ---- */

static size_t span(slice text, size_t at, const char *of)
{
    while (at < text.len && text.ptr[at] && strchr(of, text.ptr[at]))
        at++;
    return at;
}

static size_t span_without(slice text, size_t at, const char *end)
{
    while (at < text.len && text.ptr[at] && !strchr(end, text.ptr[at]))
        at++;
    return at;
}

static bool is_name_char(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_' || letter == '-';
}

/* Returns where the value begins after a name that ends at `at`, or 0 if no value follows. Two
 * spaces separate the columns of a table. */
static size_t find_value(slice text, size_t at)
{
    size_t begin = span(text, at, "\"'\\");
    size_t separator = span(text, begin, " ");
    bool column = separator >= begin + 2 && begin == at;
    bool escaped = slice_starts_nocase(slice_from(text, separator), S("%3d"));
    if (escaped)
        begin = separator + 3;
    else if (separator < text.len && (text.ptr[separator] == '=' || text.ptr[separator] == ':'))
        begin = separator + 1;
    else if (column)
        begin = separator;
    else
        return 0;
    return span(text, begin, " \"'\\");
}

/* Looks for a name with a value at `at`, which is the first byte of a word. Returns the end of the
 * value, and where it begins, or 0. */
static size_t match_name(slice text, size_t at, size_t *ret_begin)
{
    size_t len;
    if (!has_word_at(slice_from(text, at), &len))
        return 0;
    bool line = slice_starts_nocase(slice_from(text, at), S("authorization")) ||
                slice_starts_nocase(slice_from(text, at), S("cookie"));
    at += len;
    while (at < text.len && is_name_char(text.ptr[at]))
        at++;
    size_t begin = find_value(text, at);
    if (slice_ends(slice_sub(text, 0, at), S("redentials")))    /* a word of messages */
        return 0;
    if (!begin || begin >= text.len || strchr("{[", text.ptr[begin]))
        return 0;
    *ret_begin = begin;
    return span_without(text, begin, line ? "\r\n\"" : " \t\r\n&\"'\\,;)}]");
}

/* Looks for an access key of AWS, which may come from a profile or from an instance's role. */
static size_t match_aws_key(slice text, size_t at)
{
    slice rest = slice_from(text, at);
    size_t len = 0;
    if ((!slice_starts(rest, S("AKIA")) && !slice_starts(rest, S("ASIA"))) ||
        (at && isalnum((unsigned char)text.ptr[at - 1])))
        return 0;
    while (len < rest.len && (isupper((unsigned char)rest.ptr[len]) ||
                              isdigit((unsigned char)rest.ptr[len])))
        len++;
    return len >= AWS_KEY_LEAST ? at + len : 0;
}

/* Looks for userinfo behind "://" at `at`. */
static size_t match_userinfo(slice text, size_t at, size_t *ret_begin)
{
    if (!slice_starts(slice_from(text, at), S("://")))
        return 0;
    size_t begin = at + 3, end = span_without(text, begin, " \t\r\n/?#\"'<>");
    while (end > begin && text.ptr[end - 1] != '@')
        end--;
    *ret_begin = begin;
    return end > begin ? end - 1 : 0;
}

/* Looks for a secret at `at`. The longest one counts. */
static size_t match_secret(const struct mask *mask, slice text, size_t at)
{
    size_t most = 0;
    for (size_t i = 0; i < mask->count; i++)
        if (mask->secrets[i].len > most && mask->secrets[i].ptr[0] == text.ptr[at] &&
            slice_starts(slice_from(text, at), mask->secrets[i]))
            most = mask->secrets[i].len;
    return most ? at + most : 0;
}

slice mask_text(const struct mask *mask, slice text)
{
    struct text made = text_in(mask->keep);
    size_t at = 0, kept = 0;    /* the text from `kept` to `at` is still to be added */
    while (at < text.len) {
        size_t begin = at, end = match_secret(mask, text, at);
        if (!end)
            end = match_aws_key(text, at);
        if (!end)
            end = match_name(text, at, &begin);
        if (!end)
            end = match_userinfo(text, at, &begin);
        if (!end || end <= begin) {
            at++;
            continue;
        }
        text_add(&made, slice_sub(text, kept, begin - kept));
        text_add(&made, S(MASKED));
        at = kept = end;
    }
    text_add(&made, slice_from(text, kept));
    return text_slice(&made);
}
