/* fuzz_range.c - any head as a request, its range and its conditions.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The input is a whole head if it begins with a method, otherwise the headers of a GET. */
#include "s3/request.h"

static void judge(const struct s3_request *request, uint64_t size)
{
    uint64_t first, end;
    bool partial, use_range;
    enum err e = s3_range_resolve(&request->range, size, &first, &end, &partial);
    check(e == OK || e == ERR_BAD_RANGE);
    if (!e)
        check(first <= end && end <= size && (partial ? first < end : first == 0 && end == size));
    check(e == OK || request->range.kind != RANGE_NONE);
    e = s3_conditions_judge(&request->conditions, S("\"e1,2\""), 1440938160, &use_range);
    check(e == OK || e == ERR_PRECONDITION || e == ERR_NOT_MODIFIED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t sizes[] = { 0, 1, 2, 131072, UINT64_MAX - 1, UINT64_MAX };
    struct arena arena = { 0 };
    struct request_head head;
    struct s3_request request;
    slice bytes = { (const char *)data, size };
    if (!slice_has(slice_sub(bytes, 0, 8), ' ') || slice_has(slice_sub(bytes, 0, 8), ':'))
        bytes = arena_printf(&arena, "GET /bkt/k HTTP/1.1\r\nHost: h\r\n%.*s\r\n\r\n",
                             SLICE_ARG(bytes));
    if (request_head_scan(bytes, &head, NULL) == OK &&
        s3_request_read(&arena, &head, S("h"), S(""), &request) == OK) {
        check((unsigned)request.op < S3_OP_COUNT && request.key.len <= 1024);
        check(!slice_has(request.key, '\0') && !slice_has(request.bucket, '/'));
        for (size_t i = 0; i < countof(sizes); i++)
            judge(&request, sizes[i]);
    }
    arena_free(&arena);
    return 0;
}
