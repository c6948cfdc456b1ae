/* question.c - the request for a segment, from one peer to another.
 * SPDX-License-Identifier: Apache-2.0 */
#include "peers/question.h"

#include <inttypes.h>

#include "s3/conditions.h"
#include "s3/encode.h"

#define PREFIX S("/peer/")
#define VERSION_ID S("versionId")
#define MAX_AGE S("x-penstock-max-age")
#define ALL_FIELDS S("x-penstock-all-fields")

slice question_write(struct arena *keep, const struct peer_question *question,
                     struct http_field fields[PEER_FIELDS_MAX], size_t *ret_count)
{
    const struct rank_place *place = &question->place;
    struct text target = text_in(keep);
    char *id = arena_alloc(keep, 2 * NODE_ID_BYTES);
    size_t count = 0;
    check(question->first < question->end &&
          question->first / PEERS_SEGMENT_BYTES == (question->end - 1) / PEERS_SEGMENT_BYTES);
    text_printf(&target, "%.*s%u/", SLICE_ARG(PREFIX), PEER_PROTOCOL);
    uri_encode(&target, place->bucket, true);
    text_char(&target, '/');
    uri_encode(&target, place->key, true);
    if (place->version.len) {
        text_printf(&target, "?%.*s=", SLICE_ARG(VERSION_ID));
        uri_encode(&target, place->version, true);
    }
    hex_write(question->node, NODE_ID_BYTES, id);
    fields[count++] = (struct http_field){ S("x-penstock-node"), { id, 2 * NODE_ID_BYTES } };
    fields[count++] = (struct http_field){ S("x-penstock-endpoint"), place->endpoint };
    fields[count++] = (struct http_field){ S("x-penstock-identity"), question->identity };
    fields[count++] = (struct http_field){
        S("range"), arena_printf(keep, "bytes=%" PRIu64 "-%" PRIu64, question->first,
                                 question->end - 1) };
    if (question->etag.len)
        fields[count++] = (struct http_field){ S("if-match"), question->etag };
    else
        fields[count++] = (struct http_field){
            MAX_AGE, arena_printf(keep, "%" PRIu64, question->max_age_ms) };
    if (!question->etag.len && question->all_fields)
        fields[count++] = (struct http_field){ ALL_FIELDS, S("1") };
    check(count <= PEER_FIELDS_MAX);
    *ret_count = count;
    return text_slice(&target);
}

/* A key is one part of the target: its slashes are escaped. */
static enum err read_target(struct arena *keep, const struct request_head *head,
                            struct rank_place *ret)
{
    slice rest = head->path, version;
    uint64_t protocol;
    if (!slice_starts(rest, PREFIX))
        return ERR_NOT_FOUND;
    rest = slice_from(rest, PREFIX.len);
    if (!slice_u64(slice_cut(&rest, '/'), &protocol) || protocol != PEER_PROTOCOL)
        return ERR_NOT_FOUND;
    slice bucket = slice_cut(&rest, '/');
    if (!bucket.len || !rest.len || slice_has(rest, '/') ||
        uri_decode(keep, bucket, &ret->bucket) || uri_decode(keep, rest, &ret->key))
        return ERR_BAD_REQUEST;
    version = query_get(head->query, VERSION_ID);
    ret->version = S("");
    return version.len && uri_decode(keep, version, &ret->version) ? ERR_BAD_REQUEST : OK;
}

static enum err read_range(slice value, struct peer_question *ret)
{
    struct s3_range range = s3_range_read(value);
    if (range.kind != RANGE_SPAN || range.last == UINT64_MAX)
        return ERR_BAD_REQUEST;
    ret->first = range.first;
    ret->end = range.last + 1;
    ret->place.segment = range.first / PEERS_SEGMENT_BYTES;
    return ret->place.segment == range.last / PEERS_SEGMENT_BYTES ? OK : ERR_BAD_REQUEST;
}

enum err question_read(struct arena *keep, const struct request_head *head,
                       struct peer_question *ret)
{
    *ret = (struct peer_question){ .etag = S("") };
    enum err e = read_target(keep, head, &ret->place);
    slice node = request_head_get(head, S("x-penstock-node"));
    slice etag = request_head_get(head, S("if-match"));
    ret->place.endpoint = request_head_get(head, S("x-penstock-endpoint"));
    ret->identity = request_head_get(head, S("x-penstock-identity"));
    if (e)
        return e;
    if (!slice_eq(head->method, S("GET")) || !slice_unhex(node, ret->node, NODE_ID_BYTES) ||
        !ret->place.endpoint.len || !ret->identity.ptr ||
        (etag.ptr && !s3_etag_is_strong(etag)))
        return ERR_BAD_REQUEST;
    if (!etag.ptr && !slice_u64(request_head_get(head, MAX_AGE), &ret->max_age_ms))
        return ERR_BAD_REQUEST;
    ret->all_fields = !etag.ptr && slice_eq(request_head_get(head, ALL_FIELDS), S("1"));
    ret->etag = etag.ptr ? etag : S("");
    return read_range(request_head_get(head, S("range")), ret);
}
