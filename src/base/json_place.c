/* json_place.c - line and column of a value in a JSON text. SPDX-License-Identifier: Apache-2.0
 *
 * The JSON library gives line and column of syntax errors only. This scanner reads the text again,
 * once, and remembers the places of all values in a hash table: a settings file may have thousands
 * of entries. The key of a row is a hash of the path to the value. Two paths with the same hash
 * would cost a wrong place, or a wrong report of a repeated name beside a true one. */
#include "base/json_place.h"

#include "base/json.h"

struct json_place_row {
    uint64_t path;                /* 0: the row is free */
    struct text_place key, value;
};

struct scan {
    slice text;
    size_t at;
    struct json_places *places;
    struct arena *keep;
    size_t free_rows;             /* that may still be used; valid JSON needs no more */
    size_t counted;               /* the byte that `place` is about */
    struct text_place place;
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

/* Moves from the opening quote past the closing one. Returns these bytes, with the quotes. */
static slice skip_string(struct scan *scan)
{
    size_t start = scan->at++;
    while (peek(scan) && peek(scan) != '"')
        scan->at += peek(scan) == '\\' ? 2 : 1;
    scan->at++;
    return slice_sub(scan->text, start, scan->at - start);
}

static slice read_name(struct scan *scan)
{
    slice quoted = skip_string(scan);
    return slice_has(quoted, '\\') ? json_unquoted(scan->keep, quoted)
                                   : slice_sub(quoted, 1, MAX(quoted.len, 2) - 2);
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

/* ---- places ---- */

/* The place of the present byte. The scan only moves forward, so each byte is counted once. */
static struct text_place here(struct scan *scan)
{
    for (; scan->counted < scan->at && scan->counted < scan->text.len; scan->counted++) {
        char c = scan->text.ptr[scan->counted];
        if (c == '\n') {
            scan->place.line++;
            scan->place.column = 1;
        } else if ((c & 0xc0) != 0x80) {    /* not a later byte of a UTF-8 character */
            scan->place.column++;
        }
    }
    return scan->place;
}

/* FNV-1a of a path and one more step. */
static uint64_t path_hash(uint64_t path, const struct json_step *step)
{
    slice bytes = step->name.ptr ? step->name : (slice){ (const char *)&step->index,
                                                         sizeof(step->index) };
    path = (path ^ (step->name.ptr ? '.' : '[')) * 0x100000001b3;
    for (size_t i = 0; i < bytes.len; i++)
        path = (path ^ (unsigned char)bytes.ptr[i]) * 0x100000001b3;
    return path ? path : 1;
}

#define TOP_PATH 0xcbf29ce484222325u

/* Returns the row of the path, or the free row where it would be. */
static struct json_place_row *row_of(const struct json_places *places, uint64_t path)
{
    size_t i = path & (places->row_count - 1);
    while (places->rows[i].path && places->rows[i].path != path)
        i = (i + 1) & (places->row_count - 1);
    return &places->rows[i];
}

static void add_repeat(struct scan *scan, slice name, struct text_place first,
                       struct text_place place)
{
    struct json_repeat *repeat = arena_alloc(scan->keep, sizeof(*repeat));
    *repeat = (struct json_repeat){ scan->places->repeats, name, first, place };
    scan->places->repeats = repeat;
}

/* Reads the members or elements of the value that begins here. */
static void read_value(struct scan *scan, uint64_t path, unsigned depth)
{
    bool named = peek(scan) == '{';
    if (depth >= JSON_PLACE_DEPTH || !peek_is(scan, S("{["))) {
        skip_value(scan);
        return;
    }
    scan->at++;
    for (size_t i = 0; skip_space(scan), peek(scan) && !peek_is(scan, S("}]")); i++) {
        struct json_step step = { { NULL, 0 }, i };
        struct text_place key = here(scan);
        if (named) {
            step.name = read_name(scan);
            skip_space(scan);
            scan->at++;    /* skips the colon */
            skip_space(scan);
        }
        uint64_t below = path_hash(path, &step);
        struct json_place_row *row = row_of(scan->places, below);
        if (row->path) {
            add_repeat(scan, step.name, row->key, key);
            skip_value(scan);
        } else {
            if (scan->free_rows) {
                *row = (struct json_place_row){ below, key, here(scan) };
                scan->free_rows--;
            }
            read_value(scan, below, depth + 1);
        }
        skip_space(scan);
        if (peek(scan) == ',')
            scan->at++;
    }
    scan->at++;
}

void json_places_read(struct json_places *ret, slice text, struct arena *keep)
{
    struct scan scan = { .text = text, .places = ret, .keep = keep, .place = { 1, 1 } };
    size_t values = 1;
    for (size_t i = 0; i < text.len; i++)    /* each value follows one of these */
        values += slice_has(S("{[,"), text.ptr[i]);
    *ret = (struct json_places){ .row_count = 2 };
    while (ret->row_count < 2 * values)
        ret->row_count *= 2;
    ret->rows = arena_alloc(keep, ret->row_count * sizeof(*ret->rows));
    scan.free_rows = ret->row_count / 2;
    skip_space(&scan);
    ret->top = here(&scan);
    read_value(&scan, TOP_PATH, 0);
}

bool json_place(const struct json_places *places, const struct json_step *path, size_t depth,
                struct text_place *ret_key, struct text_place *ret_value)
{
    uint64_t below = TOP_PATH;
    *ret_key = *ret_value = places->top;
    for (size_t i = 0; i < depth; i++) {
        below = path_hash(below, &path[i]);
        const struct json_place_row *row = row_of(places, below);
        if (!row->path) {
            *ret_value = *ret_key;
            return false;
        }
        *ret_key = row->key;
        *ret_value = row->value;
    }
    return true;
}
