/* rest.c - the rest of an answer whose origin call ended early. SPDX-License-Identifier: Apache-2.0
 *
 * Penstock asks the origin for the rest by a range request. Only the answer to this request shows
 * whether the origin supports ranges. So this second answer is used only if it has exactly the
 * requested bytes, of the version that the first answer had (rule H10 in src/README.md). */
#include "front/rest.h"

#include <inttypes.h>

bool rest_possible(const struct s3_request *request)
{
    const struct s3_operation *row = s3_operation(request->op);
    return row->method == S3_GET && row->level == S3_OBJECT &&
           !s3_param_get(request, S("partNumber"));
}

void rest_begin(struct rest *rest, struct arena *keep, const struct origin_reply *reply)
{
    slice etag = origin_reply_get(reply, S("etag"));
    slice range = origin_reply_get(reply, S("content-range"));
    uint64_t last, size;
    if (!rest->possible || !reply->has_length || !s3_etag_is_strong(etag))
        return;
    rest->end = reply->length;
    if (reply->status == 206) {
        if (!s3_content_range_read(range, &rest->first, &last, &size) ||
            last - rest->first + 1 != reply->length)
            return;
        rest->end = last + 1;
    } else if (reply->status != 200) {
        return;
    }
    rest->etag = arena_copy(keep, etag);
    rest->until = rest->end;
}

void rest_free(struct rest *rest)
{
    arena_free(&rest->asking);
}

struct http_field *rest_ask(struct rest *rest, const struct http_field *fields, size_t count,
                            size_t *ret_count)
{
    struct arena *keep = &rest->asking;
    arena_free(keep);
    struct http_field *list = arena_alloc(keep, (count + 2) * sizeof(*list));
    size_t kept = 0;
    check(rest->etag.len && rest->range_bytes > 0);
    rest->until = MIN(rest->end, rest->first + rest->got + rest->range_bytes);
    for (size_t i = 0; i < count; i++)
        if (!slice_eq_nocase(fields[i].name, S("range")) &&
            !slice_starts_nocase(fields[i].name, S("if-")))
            list[kept++] = fields[i];
    list[kept++] = (struct http_field){
        S("range"), arena_printf(keep, "bytes=%" PRIu64 "-%" PRIu64, rest->first + rest->got,
                                 rest->until - 1) };
    list[kept++] = (struct http_field){ S("if-match"), rest->etag };
    *ret_count = kept;
    return list;
}

bool rest_is(const struct rest *rest, const struct origin_reply *reply)
{
    uint64_t first, last, size;
    slice range = origin_reply_get(reply, S("content-range"));
    return reply->status == 206 &&
           s3_content_range_read(range, &first, &last, &size) &&
           first == rest->first + rest->got && last + 1 == rest->until && reply->has_length &&
           reply->length == rest->until - first &&
           slice_eq(origin_reply_get(reply, S("etag")), rest->etag);
}
