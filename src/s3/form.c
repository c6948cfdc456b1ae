/* form.c - a form that a browser posts (PostObject). SPDX-License-Identifier: Apache-2.0
 *
 * No field name may occur twice, and names have only letters, digits, '-', '_' and '.'. If a part
 * repeats a header or a parameter, the first one counts. The form that goes to the origin is
 * written anew, with a boundary of its own. So the origin can't find other fields or another file
 * in it. */
#include "s3/form.h"

#include <string.h>

#include "s3/request.h"

#define BOUNDARY_BYTES_MAX 200
#define PADDING_MAX 64    /* blanks allowed after a delimiter */

/* ---- multipart ---- */

/* Returns the value of a header's parameter, name="value" or name=value. The ptr is NULL if the
 * parameter is absent. */
static slice parameter(slice header, slice name)
{
    slice rest = header;
    (void)slice_cut(&rest, ';');
    while (rest.len) {
        slice value = slice_trim(rest), word = slice_trim(slice_cut(&value, '='));
        if (!value.ptr)
            break;
        if (slice_starts(value, S("\""))) {
            rest = slice_from(value, 1);
            value = slice_cut(&rest, '"');
            (void)slice_cut(&rest, ';');
        } else {
            rest = value;
            value = slice_trim(slice_cut(&rest, ';'));
        }
        if (slice_eq_nocase(word, name))
            return value.ptr ? value : S("");
    }
    return (slice){ NULL, 0 };
}

/* Moves the bytes before the next delimiter from *rest to *ret. *rest then begins after the
 * delimiter's line, or is empty after the last delimiter. Returns false if there is
 * no delimiter. */
static bool to_delimiter(slice *rest, slice delimiter, slice *ret)
{
    for (size_t at = 0; at + delimiter.len <= rest->len;) {
        size_t begin = at + slice_find(slice_from(*rest, at), delimiter);
        if (begin == rest->len)
            return false;
        slice behind = slice_from(*rest, begin + delimiter.len), line = slice_sub(behind, 0, 0);
        bool last = slice_starts(behind, S("--"));
        for (int i = 0; i < PADDING_MAX && behind.len && memchr(" \t", *behind.ptr, 2); i++)
            behind = slice_from(behind, 1);
        if (last || slice_starts(behind, S("\r\n"))) {
            *ret = slice_sub(*rest, 0, begin);
            *rest = last ? line : slice_from(behind, 2);
            return true;
        }
        at = begin + 1;
    }
    return false;
}

static bool is_name(slice name)
{
    return name.len > 0 && slice_only(name, LOWER_CHARS UPPER_CHARS DIGIT_CHARS "-_.");
}

struct part {
    slice disposition, type;
};

/* Reads the header lines of a part. Returns false if no empty line ends them. */
static bool read_part(slice *rest, struct part *ret)
{
    *ret = (struct part){ { 0 }, { 0 } };
    while (rest->len) {
        slice value = slice_cut(rest, '\n');
        if (!rest->ptr || !slice_ends(value, S("\r")))
            return false;
        value.len--;
        if (!value.len)
            return true;
        slice name = slice_trim(slice_cut(&value, ':'));
        if (slice_eq_nocase(name, S("content-disposition")) && !ret->disposition.ptr)
            ret->disposition = slice_trim(value);
        else if (slice_eq_nocase(name, S("content-type")) && !ret->type.ptr)
            ret->type = slice_trim(value);
    }
    return false;
}

static enum err add_field(struct form *form, slice name, slice value)
{
    if (!is_name(name) || form->field_count == FORM_FIELDS_MAX || form_get(form, name).ptr)
        return ERR_BAD_FORM;
    form->fields[form->field_count++] = (struct http_field){ name, value.ptr ? value : S("") };
    return OK;
}

slice form_replaced(struct arena *keep, slice in, slice what, slice with, size_t max)
{
    struct text text = text_in(keep);
    size_t at;
    while (what.len && text.len <= max && (at = slice_find(in, what)) < in.len) {
        text_add(&text, slice_sub(in, 0, at));
        text_add(&text, with);
        in = slice_from(in, at + what.len);
    }
    text_add(&text, in);
    return text.len ? text_slice(&text) : S("");
}

/* Replaces ${filename} in the fields by the name of the file. Some browsers send a whole path; the
 * last part of the path is then the name. */
static enum err put_filename(struct arena *keep, struct form *form, slice filename)
{
    slice mark = S("${filename}");
    filename = slice_cut_last(&filename, '/');
    filename = slice_cut_last(&filename, '\\');
    if (filename.len > S3_KEY_BYTES_MAX || slice_find(filename, mark) < filename.len)
        return ERR_BAD_FORM;
    for (size_t i = 0; i < form->field_count; i++) {
        slice *value = &form->fields[i].value;
        if (slice_eq_nocase(form->fields[i].name, S("policy")))
            continue;
        *value = form_replaced(keep, *value, mark, filename, FORM_FIELDS_BYTES_MAX);
        if (value->len > FORM_FIELDS_BYTES_MAX ||    /* or the result contains a new mark */
            slice_find(*value, mark) < value->len)
            return ERR_BAD_FORM;
    }
    return OK;
}

enum err form_read(struct arena *keep, slice content_type, slice begin, struct form *ret)
{
    slice type = content_type, boundary = parameter(content_type, S("boundary")), content;
    *ret = (struct form){ .field_count = 0 };
    if (!slice_eq_nocase(slice_trim(slice_cut(&type, ';')), S("multipart/form-data")))
        return ERR_PRECONDITION;
    if (!boundary.len || boundary.len > BOUNDARY_BYTES_MAX)
        return ERR_BAD_FORM;
    slice delimiter = arena_printf(keep, "\r\n--%.*s", SLICE_ARG(boundary)), rest = begin;
    if (!to_delimiter(&rest, slice_from(delimiter, 2), &content) || content.len)
        return ERR_BAD_FORM;
    while (rest.len) {
        struct part part;
        if (!read_part(&rest, &part))
            return ERR_BAD_FORM;
        slice name = parameter(part.disposition, S("name"));
        if (slice_eq_nocase(name, S("file"))) {
            ret->file_at = (size_t)(rest.ptr - begin.ptr);
            ret->delimiter = delimiter;
            ret->file_type = slice_has_control(part.type) ? S("") : arena_copy(keep, part.type);
            return put_filename(keep, ret, parameter(part.disposition, S("filename")));
        }
        if (!to_delimiter(&rest, delimiter, &content))
            return ERR_BAD_FORM;
        enum err e = add_field(ret, arena_copy(keep, name), arena_copy(keep, content));
        if (e)
            return e;
    }
    return ERR_BAD_FORM;    /* no file */
}

bool form_file_ends(const struct form *form, slice bytes, size_t *ret)
{
    slice rest = bytes, content;
    check(form->delimiter.len > 0);
    bool ends = to_delimiter(&rest, form->delimiter, &content);
    /* the last bytes may be the beginning of a delimiter's line */
    size_t behind = MIN(bytes.len, form->delimiter.len + PADDING_MAX + 2);
    *ret = ends ? content.len : bytes.len - behind;
    return ends;
}

slice form_get(const struct form *form, slice name)
{
    return http_field_get(form->fields, form->field_count, name);
}
