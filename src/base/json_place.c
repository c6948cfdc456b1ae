/* json_place.c - line and column of a value in a JSON text. SPDX-License-Identifier: Apache-2.0
 *
 * The JSON library gives line and column of syntax errors only. This scanner walks the text again,
 * to find the place of a value in valid JSON. The scanner compares names without decoding
 * them. So it does not find a name that is written with escapes, and gives the place of the
 * parent. */
#include "base/json_place.h"

struct scan {
    slice text;
    size_t at;
};

static char peek(const struct scan *scan)
{
    return scan->at < scan->text.len ? scan->text.ptr[scan->at] : 0;
}

static bool peek_is(const struct scan *scan, slice any_of)
{
    return peek(scan) && slice_has(any_of, peek(scan));
}

static void skip_space(struct scan *scan)
{
    while (peek_is(scan, S(" \t\r\n")))
        scan->at++;
}

/* Moves from the opening quote past the closing one. Returns the bytes between them. */
static slice skip_string(struct scan *scan)
{
    size_t start = ++scan->at;
    while (peek(scan) && peek(scan) != '"')
        scan->at += peek(scan) == '\\' ? 2 : 1;
    slice between = slice_sub(scan->text, start, scan->at - start);
    scan->at++;
    return between;
}

static void skip_value(struct scan *scan)
{
    size_t depth = 0;
    do {
        skip_space(scan);
        if (peek_is(scan, S("{["))) {
            depth++;
            scan->at++;
        } else if (peek_is(scan, S("}]"))) {
            depth--;
            scan->at++;
        } else if (peek(scan) == '"') {
            skip_string(scan);
        } else if (peek_is(scan, S(",:"))) {
            scan->at++;
        } else {
            while (peek(scan) && !peek_is(scan, S(",:]} \t\r\n")))
                scan->at++;
        }
    } while (depth && peek(scan));
}

/* Moves from an object or array to the value of the step, and sets *ret_key to the start of the
 * value's name. Returns false, and leaves *ret_key alone, if there is no such value. */
static bool enter(struct scan *scan, const struct json_step *step, size_t *ret_key)
{
    bool by_name = step->name.ptr != NULL;
    if (peek(scan) != (by_name ? '{' : '['))
        return false;
    scan->at++;
    for (size_t i = 0; skip_space(scan), peek(scan) && !peek_is(scan, S("}]")); i++) {
        size_t key = scan->at;
        slice name = S("");
        if (by_name) {
            name = skip_string(scan);
            skip_space(scan);
            scan->at++;    /* skips the colon */
            skip_space(scan);
        }
        if (by_name ? slice_eq(name, step->name) : i == step->index) {
            *ret_key = key;
            return true;
        }
        skip_value(scan);
        skip_space(scan);
        if (peek(scan) == ',')
            scan->at++;
    }
    return false;
}

static struct text_place place_of(slice text, size_t at)
{
    struct text_place place = { 1, 1 };
    for (size_t i = 0; i < at && i < text.len; i++) {
        if (text.ptr[i] == '\n') {
            place.line++;
            place.column = 1;
        } else if ((text.ptr[i] & 0xc0) != 0x80) {    /* not a later byte of a UTF-8 character */
            place.column++;
        }
    }
    return place;
}

bool json_place(slice text, const struct json_step *path, size_t depth, struct text_place *ret_key,
                struct text_place *ret_value)
{
    struct scan scan = { text, 0 };
    skip_space(&scan);
    size_t key = scan.at, value = scan.at;
    bool all = true;
    for (size_t i = 0; i < depth && all; i++) {
        all = enter(&scan, &path[i], &key);
        if (all)
            value = scan.at;
    }
    *ret_key = place_of(text, key);
    *ret_value = place_of(text, all ? value : key);
    return all;
}
