/* integrity.c - the headers that describe a request's body. SPDX-License-Identifier: Apache-2.0
 *
 * A request may have at most one of S3's checksums, in a header or as a trailer. If the SDK names
 * the algorithm that it used, the checksum must have this algorithm. */
#include "s3/integrity.h"

#include <string.h>

#include "s3/encode.h"

static const slice sum_prefix = { "x-amz-checksum-", 15 };

/* The fields about checksums and framing, as they were sent. */
struct body_fields {
    slice sum_field, sum_text, trailer, algorithm, md5, length, encoding;
    size_t sums;
};

bool integrity_is_framing(slice name)
{
    return slice_eq_nocase(name, S("x-amz-trailer")) ||
           slice_eq_nocase(name, S("x-amz-decoded-content-length")) ||
           slice_eq_nocase(name, S("content-encoding"));
}

/* True for a header that holds a checksum; x-amz-checksum-mode, -type and -algorithm hold none. */
static bool is_sum(slice name)
{
    static const char *const others[] = { "mode", "type", "algorithm" };
    return slice_starts_nocase(name, sum_prefix) &&
           !slice_is_one_of_nocase(slice_from(name, sum_prefix.len), others, countof(others));
}

/* Notes a field. If a field occurs more than once, the last value counts. Only the values of
 * Content-Encoding, which is a list, are joined. */
static void note_field(struct arena *keep, struct http_field field, struct body_fields *ret)
{
    slice encoding = ret->encoding;
    static const struct {
        slice name;
        size_t at;
    } known[] = {
        { { "x-amz-trailer", 13 }, offsetof(struct body_fields, trailer) },
        { { "x-amz-sdk-checksum-algorithm", 28 }, offsetof(struct body_fields, algorithm) },
        { { "x-amz-decoded-content-length", 28 }, offsetof(struct body_fields, length) },
        { { "content-md5", 11 }, offsetof(struct body_fields, md5) },
        { { "content-encoding", 16 }, offsetof(struct body_fields, encoding) },
    };
    for (size_t i = 0; i < countof(known); i++)
        if (slice_eq_nocase(field.name, known[i].name))
            *(slice *)((char *)ret + known[i].at) = field.value;
    if (encoding.ptr && slice_eq_nocase(field.name, S("content-encoding")))
        ret->encoding = arena_printf(keep, "%.*s,%.*s", SLICE_ARG(encoding),
                                     SLICE_ARG(field.value));
    if (!is_sum(field.name))
        return;
    ret->sums++;
    ret->sum_field = field.name;
    ret->sum_text = field.value;
}

static enum err wrong(slice sentence, slice *ret_why)
{
    *ret_why = sentence;
    return ERR_BAD_REQUEST;
}

static enum err wrong_value(struct arena *keep, slice field, slice *ret_why)
{
    return wrong(arena_printf(keep, "Value for %.*s header is invalid.", SLICE_ARG(field)),
                 ret_why);
}

static enum err find_sum(struct arena *keep, const struct body_fields *fields,
                         struct integrity *ret, slice *ret_why)
{
    if (fields->sums) {
        ret->sum = checksum_of_header(fields->sum_field);
        if (ret->sum == CHECKSUM_COUNT)
            return wrong(S("The algorithm type you specified in x-amz-checksum- header is "
                           "invalid."), ret_why);
    }
    if (fields->trailer.len && !ret->framed)
        return wrong(S("The value specified in the x-amz-trailer header is not supported"),
                     ret_why);    /* without chunks there is no trailer */
    if (fields->sums + (fields->trailer.len > 0) > 1)
        return wrong(S("Expecting a single x-amz-checksum- header. Multiple checksum Types are "
                       "not allowed."), ret_why);
    if (fields->sums && !base64_read(fields->sum_text, ret->sum_value, checksum_bytes(ret->sum)))
        return wrong_value(keep, checksum_header(ret->sum), ret_why);
    if (fields->trailer.len) {
        ret->sum = checksum_of_header(fields->trailer);
        ret->sum_in_trailer = true;
        if (ret->sum == CHECKSUM_COUNT)
            return wrong(S("The value specified in the x-amz-trailer header is not supported"),
                         ret_why);
    }
    return OK;
}

static enum err agree(struct arena *keep, const struct body_fields *fields,
                      const struct integrity *with, slice *ret_why)
{
    if (!fields->algorithm.len)
        return OK;
    enum checksum algorithm = checksum_of_name(fields->algorithm);
    if (algorithm == CHECKSUM_COUNT)
        return wrong(S("Checksum algorithm provided is unsupported. Please try again with any of "
                       "the valid types: [CRC32, CRC32C, CRC64NVME, MD5, SHA1, SHA256, SHA512, "
                       "XXHASH128, XXHASH3, XXHASH64]"), ret_why);
    if (with->sum == CHECKSUM_COUNT && with->framed)
        return wrong(S("x-amz-sdk-checksum-algorithm specified, but no corresponding "
                       "x-amz-checksum-* or x-amz-trailer headers were found."), ret_why);
    return with->sum == CHECKSUM_COUNT || with->sum == algorithm
         ? OK : wrong_value(keep, S("x-amz-sdk-checksum-algorithm"), ret_why);
}

/* Returns the Content-Encoding after the framing was removed: "aws-chunked, gzip" becomes "gzip". A
 * value without aws-chunked stays as it is. */
static slice encoding_inside(struct arena *keep, slice value)
{
    struct text text = text_in(keep);
    bool framing = false;
    for (slice rest = value; rest.ptr;) {
        slice one = slice_trim(slice_cut(&rest, ','));
        bool is_framing = slice_eq_nocase(one, S("aws-chunked"));
        if (one.len && !is_framing)
            text_printf(&text, "%s%.*s", text.len ? "," : "", SLICE_ARG(one));
        framing |= is_framing;
    }
    return !text.len ? (slice){ NULL, 0 } : framing ? text_slice(&text) : value;
}

static enum err read_framing(struct arena *keep, const struct sigv4_claim *claim,
                             const struct body_fields *fields, struct integrity *ret,
                             slice *ret_why)
{
    ret->chunks_signed = claim->payload == PAYLOAD_SIGNED_CHUNKS ||
                         claim->payload == PAYLOAD_SIGNED_CHUNKS_TRAILER;
    ret->trailer_must = claim->payload == PAYLOAD_SIGNED_CHUNKS_TRAILER;
    ret->framed = ret->chunks_signed || claim->payload == PAYLOAD_CHUNKS_TRAILER;
    ret->has_length = slice_u64(fields->length, &ret->length);
    ret->encoding = encoding_inside(keep, fields->encoding);
    if (claim->payload == PAYLOAD_OTHER_CHUNKS) {
        *ret_why = arena_printf(keep, "The chunk encoding algorithm %.*s is not supported.",
                                SLICE_ARG(claim->payload_hash));
        return ERR_NOT_IMPLEMENTED;
    }
    return ret->framed && !ret->has_length ? ERR_NO_LENGTH : OK;
}

enum err integrity_read(struct arena *keep, const struct request_head *head,
                        const struct s3_request *request, const struct sigv4_claim *claim,
                        bool of_body, struct integrity *ret, slice *ret_why)
{
    struct body_fields fields = { 0 };
    *ret = (struct integrity){ .sum = CHECKSUM_COUNT };
    *ret_why = S("");
    for (size_t i = 0; i < s3_header_count(head, request); i++)
        note_field(keep, s3_header_at(head, request, i), &fields);
    enum err err = read_framing(keep, claim, &fields, ret, ret_why);
    if (!err && of_body)
        err = find_sum(keep, &fields, ret, ret_why);
    if (!err && of_body)
        err = agree(keep, &fields, ret, ret_why);
    if (err)
        return err;
    ret->has_sha256 = claim->payload == PAYLOAD_HEX;
    memcpy(ret->sha256, claim->payload_sha256, sizeof(ret->sha256));
    ret->has_md5 = fields.md5.ptr != NULL;
    return ret->has_md5 && !base64_read(fields.md5, ret->md5, sizeof(ret->md5)) ? ERR_BAD_MD5 : OK;
}

bool integrity_length(const struct request_head *head, const struct sigv4_claim *claim,
                      uint64_t *ret)
{
    bool framed = claim->payload != PAYLOAD_HEX && claim->payload != PAYLOAD_UNSIGNED;
    *ret = head->length;
    if (!framed && !head->chunked)
        return true;
    slice name = S("x-amz-decoded-content-length"), length = request_head_get(head, name);
    if (!length.ptr)    /* a presigned request has this length in the query */
        length = query_get(head->query, name);
    return slice_u64(length, ret);
}
