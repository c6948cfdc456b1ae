/* fuzz_request_head.c - any bytes as a request head. SPDX-License-Identifier: Apache-2.0
 *
 * A head that passes is framed in one way only. A head gets the same verdict whole or cut. */
#include <string.h>

#include "s3/request_head.h"

static bool inside(slice part, slice all)
{
    return !part.ptr || (part.ptr >= all.ptr && part.ptr + part.len <= all.ptr + all.len);
}

static size_t count_of(const struct request_head *head, slice name)
{
    size_t count = 0;
    for (size_t i = 0; i < head->field_count; i++)
        count += slice_eq_nocase(head->fields[i].name, name);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    slice bytes = { (const char *)data, size };
    struct request_head head, cut;
    const char *why = NULL;
    enum err e = request_head_scan(bytes, &head, &why);
    check(e == OK || e == ERR_MORE || (why && (e == ERR_BAD_HEAD || e == ERR_HEAD_TOO_LARGE)));
    if (e == ERR_MORE || e == OK)
        for (size_t len = size / 2; len < (e ? size : head.bytes); len += 1 + size / 8)
            check(request_head_scan(slice_sub(bytes, 0, len), &cut, NULL) == ERR_MORE);
    if (e)
        return 0;
    check(head.bytes <= size && memcmp(data + head.bytes - 4, "\r\n\r\n", 4) == 0);
    check(!memchr(data, '\0', head.bytes));
    check(count_of(&head, S("host")) == 1);
    check(count_of(&head, S("content-length")) == head.has_length);
    check(count_of(&head, S("transfer-encoding")) == head.chunked);
    check(!(head.chunked && head.has_length));
    check(head.path.ptr && inside(head.path, bytes) && inside(head.query, bytes));
    check(*head.path.ptr == '/' && !memchr(head.path.ptr, '?', head.path.len));
    check(head.query.ptr || !head.query.len);
    size_t lines = 0;
    for (size_t i = 0; i < head.bytes; i++)
        lines += data[i] == '\n';
    check(lines == head.field_count + 2);
    check(request_head_scan(slice_sub(bytes, 0, head.bytes - 1), &cut, NULL) == ERR_MORE);
    return 0;
}
