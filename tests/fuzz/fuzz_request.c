/* fuzz_request.c - any head as an operation of S3. SPDX-License-Identifier: Apache-2.0
 *
 * The input is "METHOD TARGET" and headers. The order of the parameters does not change the
 * operation. An operation has the method and level of the request. An operation that reads changes
 * nothing. A cache may answer only a GET or HEAD in which every word is known. */
#include "s3/request.h"

static slice turned(struct arena *arena, slice query)
{
    struct text text = text_in(arena);
    for (size_t end = query.len, at = query.len; at-- > 0;) {
        if (at > 0 && query.ptr[at - 1] != '&')
            continue;
        if (text.len)
            text_char(&text, '&');
        text_add(&text, slice_sub(query, at, end - at));
        end = at ? at - 1 : 0;
    }
    return text_slice(&text);
}

static void judge(const struct request_head *head, const struct s3_request *request)
{
    const struct s3_operation *row = s3_operation(request->op);
    enum s3_level level = request->key.len ? S3_OBJECT : request->bucket.len ? S3_BUCKET
                                                                             : S3_SERVICE;
    bool reads = row->method == S3_GET || row->method == S3_HEAD || row->method == S3_OPTIONS;
    check(slice_eq(head->method, slice_of(row->method_name)) && row->level == level);
    check(!reads || row->mutates == S3_MUTATES_NOTHING);
    check(!request->pass || row->route == S3_CACHE || slice_has(request->bucket, ':') ||
          request->foreign.ptr);
    for (size_t i = 0; i < request->param_count && row->route == S3_CACHE; i++) {
        slice name = request->params[i].name;
        check(!slice_eq(name, S("acl")) && !slice_eq(name, S("tagging")));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { 0 };
    struct request_head head;
    struct s3_request request, again;
    slice rest = { (const char *)data, size }, line = slice_cut(&rest, '\n');
    slice bytes = arena_printf(&arena, "%.*s HTTP/1.1\r\nHost: h\r\n%.*s\r\n\r\n", SLICE_ARG(line),
                               SLICE_ARG(rest));
    if (request_head_scan(bytes, &head, NULL) == OK) {
        enum err e = s3_request_read(&arena, &head, S(""), S(""), &request);
        check(e == OK || e == ERR_BAD_URI || e == ERR_BAD_BUCKET || e == ERR_KEY_TOO_LONG ||
              e == ERR_BAD_METHOD || e == ERR_BAD_ARGUMENT);
        if (!e)
            judge(&head, &request);
        head.query = turned(&arena, head.query);
        enum err other = s3_request_read(&arena, &head, S(""), S(""), &again);
        check(!e == !other && (e || (request.op == again.op && request.pass == again.pass)));
    }
    arena_free(&arena);
    return 0;
}
