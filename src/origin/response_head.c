/* response_head.c - collects the head of an origin's answer, line by line (response_head.h).
 * SPDX-License-Identifier: Apache-2.0 */
#include "origin/response_head.h"

#define HEAD_BYTES_MAX (64 * 1024)

static bool keep_field(struct response_head *head, slice line)
{
    slice value = line, name = slice_cut(&value, ':');
    if (!value.ptr || head->field_count == HTTP_FIELDS_MAX)
        return false;
    name = arena_lower(&head->keep, slice_trim(name));
    value = arena_copy(&head->keep, slice_trim(value));
    head->fields = arena_grow(&head->keep, head->fields, head->field_count, sizeof(*head->fields));
    head->fields[head->field_count++] = (struct http_field){ name, value };
    if (slice_eq(name, S("content-length"))) {
        uint64_t length;
        if (!slice_u64(value, &length) || (head->has_length && length != head->length))
            return false;
        head->has_length = true;
        head->length = length;
    }
    if (slice_eq(name, S("transfer-encoding")))
        head->chunked = true;
    return true;
}

bool response_head_line(struct response_head *head, slice line, bool *ret_ended)
{
    *ret_ended = false;
    head->bytes += line.len;
    if (head->bytes > HEAD_BYTES_MAX)
        return false;
    while (line.len && (line.ptr[line.len - 1] == '\n' || line.ptr[line.len - 1] == '\r'))
        line.len--;
    if (slice_starts(line, S("HTTP/"))) {    /* a new head: any head before it was a 1xx */
        arena_free(&head->keep);
        head->field_count = 0;
        head->has_length = head->chunked = false;
        return true;
    }
    *ret_ended = line.len == 0;
    return *ret_ended || keep_field(head, line);
}
