/* conditions.c - byte ranges and conditions of a request.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Ranges are read as in RFC 9110, but a header with several ranges counts as no range, as in S3.
 * Conditions are judged in the order of RFC 9110 section 13.2.2. No function does I/O or reads a
 * clock (rule H9 in src/README.md). Any thread may call them. */
#include "s3/conditions.h"

#include "s3/encode.h"

slice http_field_join(struct arena *keep, const struct http_field *fields, size_t count,
                      slice name)
{
    slice all = { NULL, 0 };
    for (size_t i = 0; i < count; i++)
        if (slice_eq_nocase(fields[i].name, name))
            all = !all.ptr ? fields[i].value
                           : arena_printf(keep, "%.*s,%.*s", SLICE_ARG(all),
                                          SLICE_ARG(fields[i].value));
    return all;
}

static int64_t date_of(const struct http_field *fields, size_t count, slice name)
{
    slice value = http_field_get(fields, count, name);
    return value.ptr ? http_date_read(value) : -1;
}

struct s3_conditions s3_conditions_read(struct arena *keep, const struct http_field *fields,
                                        size_t count)
{
    return (struct s3_conditions){
        .if_match = http_field_join(keep, fields, count, S("if-match")),
        .if_none_match = http_field_join(keep, fields, count, S("if-none-match")),
        .if_range = http_field_get(fields, count, S("if-range")),
        .if_modified_since = date_of(fields, count, S("if-modified-since")),
        .if_unmodified_since = date_of(fields, count, S("if-unmodified-since")),
    };
}

/* Reads digits. A number that is too large becomes UINT64_MAX. */
static bool position(slice s, uint64_t *ret)
{
    if (!slice_u64(s, ret))
        *ret = UINT64_MAX;
    return s.len > 0 && slice_only(s, DIGIT_CHARS);
}

struct s3_range s3_range_read(slice value)
{
    const struct s3_range none = { .kind = RANGE_NONE };
    struct s3_range range = { .kind = RANGE_SPAN, .last = UINT64_MAX };
    if (!slice_starts_nocase(value, S("bytes=")))
        return none;
    slice last = slice_from(value, 6), first = slice_cut(&last, '-');
    if (!last.ptr)
        return none;
    if (!first.len) {
        range.kind = RANGE_SUFFIX;
        return position(last, &range.suffix) ? range : none;
    }
    if (!position(first, &range.first) || (last.len && !position(last, &range.last)))
        return none;
    return range.first <= range.last ? range : none;
}

bool s3_content_range_read(slice value, uint64_t *ret_first, uint64_t *ret_last,
                           uint64_t *ret_size)
{
    slice size = value;
    if (!slice_eq_nocase(slice_cut(&size, ' '), S("bytes")))
        return false;
    slice last = slice_cut(&size, '/'), first = slice_cut(&last, '-');
    return slice_u64(first, ret_first) && slice_u64(last, ret_last) && slice_u64(size, ret_size) &&
           *ret_first <= *ret_last && *ret_last < *ret_size;
}

enum err s3_range_resolve(const struct s3_range *range, uint64_t size, uint64_t *ret_first,
                          uint64_t *ret_end, bool *ret_partial)
{
    uint64_t first = 0, end = size;
    bool partial = range->kind != RANGE_NONE;
    check(range->kind != RANGE_SPAN || range->first <= range->last);
    if (range->kind == RANGE_SPAN) {
        first = range->first;
        end = range->last < size ? range->last + 1 : size;
    } else if (range->kind == RANGE_SUFFIX) {
        first = size - MIN(range->suffix, size);
        partial = size || !range->suffix;    /* bytes=-5 of an empty object gives all of it (200) */
    }
    if (partial && first >= end)
        return ERR_BAD_RANGE;
    *ret_first = first;
    *ret_end = end;
    *ret_partial = partial;
    return OK;
}

static slice unquoted(slice etag)
{
    if (etag.len >= 2 && etag.ptr[0] == '"' && etag.ptr[etag.len - 1] == '"')
        return slice_sub(etag, 1, etag.len - 2);
    return etag;
}

/* Cuts the next entity tag from the front of a list. A comma inside quotes belongs to the tag. */
static slice next_etag(slice *list)
{
    size_t quoted = slice_starts(*list, S("W/")) ? 2 : 0;
    if (list->len > quoted && list->ptr[quoted] == '"') {
        slice behind = slice_from(*list, quoted + 1), inside = slice_cut(&behind, '"');
        if (behind.ptr) {
            slice tag = slice_sub(*list, 0, quoted + inside.len + 2);
            (void)slice_cut(&behind, ',');
            *list = slice_trim(behind);
            return tag;
        }
    }
    slice tag = slice_trim(slice_cut(list, ','));
    *list = slice_trim(*list);
    return tag;
}

static slice without_weak(slice etag)
{
    return slice_starts(etag, S("W/")) ? slice_from(etag, 2) : etag;
}

/* True if the list has this ETag. In a strong comparison (If-Match, If-Range), a weak tag matches
 * nothing, not even itself. In a weak comparison (If-None-Match), only the text of the tags
 * counts. */
static bool etag_listed(slice list, slice etag, bool weak)
{
    list = slice_trim(list);
    if (slice_eq(list, S("*")))
        return true;
    if (!weak && slice_starts(etag, S("W/")))
        return false;
    slice text = unquoted(without_weak(etag));
    while (list.len) {
        slice tag = next_etag(&list);
        if (weak)
            tag = without_weak(tag);
        if (tag.len && slice_eq(unquoted(tag), text))
            return true;
    }
    return false;
}

static bool range_holds(slice if_range, slice etag, int64_t modified_s)
{
    if (!if_range.ptr)
        return true;
    int64_t date_s = http_date_read(if_range);
    return date_s >= 0 ? date_s == modified_s : etag_listed(if_range, etag, false);
}

bool s3_etag_is_strong(slice etag)
{
    return etag.len && !slice_starts(etag, S("W/"));
}

enum err s3_conditions_judge(const struct s3_conditions *conditions, slice etag,
                             int64_t modified_s, bool *ret_use_range)
{
    const struct s3_conditions *c = conditions;
    if (c->if_match.ptr ? !etag_listed(c->if_match, etag, false)
                        : c->if_unmodified_since >= 0 && modified_s > c->if_unmodified_since)
        return ERR_PRECONDITION;
    if (c->if_none_match.ptr ? etag_listed(c->if_none_match, etag, true)
                             : c->if_modified_since >= 0 && modified_s <= c->if_modified_since)
        return ERR_NOT_MODIFIED;
    *ret_use_range = range_holds(c->if_range, etag, modified_s);
    return OK;
}
