/* request.c - an HTTP head read as an S3 request. SPDX-License-Identifier: Apache-2.0
 *
 * The operation is the first row of op.def that fits. Then every parameter and every x-amz-
 * header must be one that this operation knows, or one that changes nothing: what Penstock does
 * not understand it refuses, because to ignore it would be to answer another question than the
 * one that was asked. S3 reads x-amz- parameters as headers, because presigned requests can say
 * them nowhere else: in a write they are headers here too. Any thread. */
#include "s3/request.h"

#include <string.h>

#include "s3/encode.h"

#define KEY_BYTES_MAX 1024
#define PARAMS_MAX 100

enum level { SERVICE, BUCKET, OBJECT };

static const struct row {
    slice method;
    enum level level;
    slice query;
    enum s3_mutates mutates;
} rows[] = {
#define OP(name, method, level, query, mutates) \
    [name] = { { method, sizeof(method) - 1 }, level, { query, sizeof(query) - 1 }, \
               S3_MUTATES_##mutates },
#include "s3/op.def"
#undef OP
};

/* What else an operation has in its query, beside its own parameter in op.def: words between
 * blanks, "response-*" any name that begins so. */
static const struct {
    const char *name, *params;
} facts[] = {
    [S3_LIST_BUCKETS] = { "ListBuckets", "max-buckets continuation-token prefix bucket-region" },
    [S3_GET_BUCKET_LOCATION] = { "GetBucketLocation", "" },
    [S3_LIST_UPLOADS] = { "ListMultipartUploads", "delimiter encoding-type key-marker max-uploads "
                          "prefix upload-id-marker" },
    [S3_LIST_OBJECTS_V2] = { "ListObjectsV2", "continuation-token delimiter encoding-type "
                             "fetch-owner max-keys prefix start-after marker" },
    [S3_LIST_OBJECTS] = { "ListObjects", "delimiter encoding-type marker max-keys prefix" },
    [S3_HEAD_BUCKET] = { "HeadBucket", "" },
    [S3_DELETE_OBJECTS] = { "DeleteObjects", "" },
    [S3_LIST_PARTS] = { "ListParts", "max-parts part-number-marker encoding-type" },
    [S3_GET_OBJECT] = { "GetObject", "response-*" },
    [S3_HEAD_OBJECT] = { "HeadObject", "response-*" },
    [S3_UPLOAD_PART] = { "UploadPart", "partNumber" },
    [S3_PUT_OBJECT] = { "PutObject", "" },
    [S3_CREATE_UPLOAD] = { "CreateMultipartUpload", "" },
    [S3_COMPLETE_UPLOAD] = { "CompleteMultipartUpload", "" },
    [S3_ABORT_UPLOAD] = { "AbortMultipartUpload", "" },
    [S3_DELETE_OBJECT] = { "DeleteObject", "" },
};
_Static_assert(countof(facts) == S3_OP_COUNT, "every operation has a name");

/* Headers that leave the meaning of a known operation alone, or are handed on with it; the most
 * common first. Any other x-amz- header is refused: copy-source, SSE-C, bypass, object locks ... */
static const char harmless_headers[] =
    "x-amz-date x-amz-content-sha256 x-amz-security-token x-amz-checksum-* x-amz-sdk-* "
    "x-amz-meta-* x-amz-trailer x-amz-te x-amz-user-agent x-amz-api-version x-amz-acl "
    "x-amz-grant-* "
    "x-amz-storage-class x-amz-tagging x-amz-request-payer x-amz-expected-bucket-owner "
    "x-amz-decoded-content-length x-amz-website-redirect-location x-amz-mp-object-size "
    "x-amz-server-side-encryption x-amz-server-side-encryption-aws-kms-key-id "
    "x-amz-server-side-encryption-context x-amz-server-side-encryption-bucket-key-enabled "
    "x-amz-optional-object-attributes";

/* Only the origin can say whether they hold: what the cache has must not be answered to them. */
static const char origin_headers[] = "x-amz-request-payer x-amz-expected-bucket-owner";

/* Signatures in the query: read and judged by claim.c. */
static const char signature_params[] =
    "x-amz-algorithm x-amz-credential x-amz-date x-amz-expires x-amz-signedheaders x-amz-signature "
    "x-amz-security-token x-amz-content-sha256";

/* What SDKs move there from headers, and nobody misses when something is read. */
static const char harmless_params[] = "x-id x-amz-user-agent x-amz-sdk-* x-amz-checksum-*";

const char *s3_op_name(enum s3_op op)
{
    check((unsigned)op < S3_OP_COUNT);
    return facts[op].name;
}

enum s3_mutates s3_op_mutates(enum s3_op op)
{
    check((unsigned)op < S3_OP_COUNT);
    return rows[op].mutates;
}

const struct s3_param *s3_param_get(const struct s3_request *request, slice name)
{
    for (size_t i = 0; i < request->param_count; i++)
        if (slice_eq(request->params[i].name, name))
            return &request->params[i];
    return NULL;
}

/* ---- path and parameters ---- */

static bool bucket_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '.' || c == '_';
}

/* Looser than AWS, which has no upper case and no '_' any more: other stores do. */
static bool bucket_valid(slice s)
{
    if (s.len < 3 || s.len > 63 || slice_has(S("-._"), s.ptr[0]))
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (!bucket_char(s.ptr[i]))
            return false;
    return true;
}

/* Cut first, decoded after: a "%2F" is never the slash behind the bucket. */
static enum err read_path(struct arena *keep, slice path, struct s3_request *ret)
{
    slice rest = slice_from(path, 1), bucket = slice_cut(&rest, '/');
    enum err e = uri_decode(keep, bucket, &ret->bucket);
    if (!e)
        e = uri_decode(keep, rest, &ret->key);
    if (e)
        return e;
    if (path.len > 1 && !bucket_valid(ret->bucket))
        return ERR_BAD_BUCKET;
    return ret->key.len > KEY_BYTES_MAX ? ERR_KEY_TOO_LONG : OK;
}

static size_t count_params(slice query)
{
    slice name, value;
    size_t count = 0;
    while (query_next(&query, &name, &value))
        count++;
    return count;
}

static enum err read_params(struct arena *keep, slice query, struct s3_request *ret)
{
    size_t count = query.len ? count_params(query) : 0;
    if (!count)
        return OK;
    if (count > PARAMS_MAX)
        return ERR_BAD_URI;
    ret->params = arena_alloc(keep, count * sizeof(*ret->params));
    slice name, value;
    while (query_next(&query, &name, &value)) {
        struct s3_param param = { .value = value };
        enum err e = uri_decode(keep, name, &param.name);
        if (!e && value.ptr)
            e = uri_decode(keep, value, &param.value);
        if (e)
            return e;
        if (s3_param_get(ret, param.name))
            return ERR_BAD_ARGUMENT;    /* which of the two is meant? */
        ret->params[ret->param_count++] = param;
    }
    return OK;
}

/* ---- which operation, and is that all ---- */

static slice lower_in(char *buffer, size_t cap, slice s)
{
    s.len = MIN(s.len, cap);
    for (size_t i = 0; i < s.len; i++)
        buffer[i] = char_lower(s.ptr[i]);
    return (slice){ buffer, s.len };
}

static bool in_words(const char *words, slice name)
{
    slice rest = slice_of(words);
    while (rest.len) {
        slice word = slice_cut(&rest, ' ');
        bool prefix = slice_ends(word, S("*"));
        word.len -= prefix;
        if (prefix ? slice_starts(name, word) : slice_eq(name, word))
            return true;
    }
    return false;
}

static enum err find_op(slice method, enum level level, struct s3_request *ret)
{
    for (size_t i = 0; i < S3_OP_COUNT; i++) {
        if (rows[i].level != level || !slice_eq(rows[i].method, method))
            continue;
        if (rows[i].query.len && !s3_param_get(ret, rows[i].query))
            continue;
        ret->op = (enum s3_op)i;
        return OK;
    }
    static const char s3_has[][24] = { [SERVICE] = "GET", [BUCKET] = "PUT POST DELETE",
                                       [OBJECT] = "POST" };
    return in_words(s3_has[level], method) ? ERR_NOT_IMPLEMENTED : ERR_BAD_METHOD;
}

static bool param_known(enum s3_op op, slice name)
{
    char buffer[64];
    slice lower = lower_in(buffer, sizeof(buffer), name);
    return slice_eq(name, rows[op].query) || in_words(facts[op].params, name) ||
           in_words(signature_params, lower) || in_words(harmless_params, lower);
}

static bool is_header(const struct s3_request *request, slice name)
{
    char buffer[64];
    slice lower = lower_in(buffer, sizeof(buffer), name);
    return !in_words("GET HEAD", rows[request->op].method) && slice_starts(lower, S("x-amz-")) &&
           !in_words(signature_params, lower);
}

/* Said once, in the query or above it, and known as a header. */
static enum err judge_said(const struct http_head *head, struct http_field said,
                           struct s3_request *request)
{
    char buffer[64];
    if (!in_words(harmless_headers, lower_in(buffer, sizeof(buffer), said.name))) {
        request->unknown = said.name;
        return ERR_NOT_IMPLEMENTED;
    }
    for (size_t i = 0; i < request->said_count; i++)
        if (slice_eq_nocase(request->said[i].name, said.name))
            return ERR_BAD_ARGUMENT;
    return http_head_get(head, said.name).ptr ? ERR_BAD_ARGUMENT : OK;
}

static enum err read_said(struct arena *keep, const struct http_head *head,
                          struct s3_request *request)
{
    struct http_field *said = arena_alloc(keep, (request->param_count + 1) * sizeof(*said));
    request->said = said;
    for (size_t i = 0; i < request->param_count; i++) {
        struct s3_param param = request->params[i];
        if (!is_header(request, param.name))
            continue;
        enum err e = judge_said(head, (struct http_field){ param.name, param.value }, request);
        if (e)
            return e;
        said[request->said_count++] = (struct http_field){ param.name, param.value };
    }
    return OK;
}

static enum err judge_params(struct s3_request *request)
{
    for (size_t i = 0; i < request->param_count; i++)
        if (!param_known(request->op, request->params[i].name) &&
            !is_header(request, request->params[i].name)) {
            request->unknown = request->params[i].name;
            return ERR_NOT_IMPLEMENTED;
        }
    if (request->op == S3_UPLOAD_PART && !s3_param_get(request, S("partNumber")))
        return ERR_NOT_IMPLEMENTED;
    if (request->op == S3_LIST_OBJECTS_V2 &&
        !slice_eq(s3_param_get(request, S("list-type"))->value, S("2")))
        return ERR_BAD_ARGUMENT;
    return OK;
}

static bool header_known(enum s3_op op, slice name)
{
    char buffer[64];
    slice lower = lower_in(buffer, sizeof(buffer), name);
    bool cached = op == S3_GET_OBJECT || op == S3_HEAD_OBJECT;
    return in_words(harmless_headers, lower) && !(cached && in_words(origin_headers, lower));
}

static enum err judge_headers(const struct http_head *head, struct s3_request *ret)
{
    for (size_t i = 0; i < head->field_count; i++) {
        slice name = head->fields[i].name;
        if (!slice_eq_nocase(slice_sub(name, 0, 6), S("x-amz-")))
            continue;
        if (!header_known(ret->op, name)) {
            ret->unknown = name;
            return ERR_NOT_IMPLEMENTED;
        }
    }
    return OK;
}

/* ---- ranges and conditions ---- */

/* Digits; more than fit are as good as infinity. */
static bool position(slice s, uint64_t *ret)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
    if (!slice_u64(s, ret))
        *ret = UINT64_MAX;
    return s.len > 0;
}

struct s3_range s3_range_read(slice value)
{
    const struct s3_range none = { .kind = RANGE_NONE };
    struct s3_range range = { .kind = RANGE_SPAN, .last = UINT64_MAX };
    if (!slice_eq_nocase(slice_sub(value, 0, 6), S("bytes=")))
        return none;
    slice last = slice_trim(slice_from(value, 6)), first = slice_cut(&last, '-');
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

/* The values of all fields of that name, joined by ','; ptr NULL without any. */
static slice joined(struct arena *keep, const struct http_head *head, slice name)
{
    struct text text = text_in(keep);
    slice one = { NULL, 0 };
    for (size_t i = 0; i < head->field_count; i++) {
        if (!slice_eq_nocase(head->fields[i].name, name))
            continue;
        if (!one.ptr) {
            one = head->fields[i].value;
            continue;
        }
        if (!text.len)
            text_add(&text, one);
        text_char(&text, ',');
        text_add(&text, head->fields[i].value);
    }
    return text.len ? text_slice(&text) : one;
}

static int64_t date_of(const struct http_head *head, slice name)
{
    slice value = http_head_get(head, name);
    return value.ptr ? http_date_read(value) : -1;    /* a date that is none is no condition */
}

static void read_cache_control(slice value, struct s3_request *ret)
{
    while (value.ptr) {
        slice word = slice_trim(slice_cut(&value, ','));
        if (slice_eq_nocase(word, S("no-cache")) || slice_eq_nocase(word, S("max-age=0")))
            ret->no_cache = true;
    }
}

static void read_headers(struct arena *keep, const struct http_head *head, struct s3_request *ret)
{
    slice range = joined(keep, head, S("range"));
    if (range.ptr)
        ret->range = s3_range_read(range);
    ret->conditions = (struct s3_conditions){
        .if_match = joined(keep, head, S("if-match")),
        .if_none_match = joined(keep, head, S("if-none-match")),
        .if_range = http_head_get(head, S("if-range")),
        .if_modified_since = date_of(head, S("if-modified-since")),
        .if_unmodified_since = date_of(head, S("if-unmodified-since")),
    };
    read_cache_control(joined(keep, head, S("cache-control")), ret);
    ret->checksum_mode =
        slice_eq_nocase(http_head_get(head, S("x-amz-checksum-mode")), S("ENABLED"));
}

enum err s3_request_read(struct arena *keep, const struct http_head *head, struct s3_request *ret)
{
    *ret = (struct s3_request){ .raw_path = head->path, .raw_query = head->query };
    enum err e = read_path(keep, head->path, ret);
    if (!e)
        e = read_params(keep, head->query, ret);
    enum level level = ret->key.len ? OBJECT : ret->bucket.len ? BUCKET : SERVICE;
    if (!e)
        e = find_op(head->method, level, ret);
    if (!e)
        e = judge_params(ret);
    if (!e && ret->param_count)
        e = read_said(keep, head, ret);
    if (!e)
        e = judge_headers(head, ret);
    if (!e)
        read_headers(keep, head, ret);
    return e;
}

enum err s3_range_resolve(const struct s3_range *range, uint64_t size, uint64_t *ret_first,
                          uint64_t *ret_end, bool *ret_partial)
{
    uint64_t first = 0, end = size;
    if (range->kind == RANGE_SPAN) {
        first = range->first;
        end = range->last < size ? range->last + 1 : size;
    } else if (range->kind == RANGE_SUFFIX) {
        first = size - MIN(range->suffix, size);
    }
    if (range->kind != RANGE_NONE && first >= end)
        return ERR_BAD_RANGE;
    *ret_first = first;
    *ret_end = end;
    *ret_partial = range->kind != RANGE_NONE;
    return OK;
}

static slice unquoted(slice etag)
{
    if (etag.len >= 2 && etag.ptr[0] == '"' && etag.ptr[etag.len - 1] == '"')
        return slice_sub(etag, 1, etag.len - 2);
    return etag;
}

/* The next entity tag of a list; commas inside quotes belong to it. */
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

/* A weak tag never matches strongly (If-Match, If-Range), and weakly by what it holds. */
static bool etag_listed(slice list, slice etag, bool weak)
{
    list = slice_trim(list);
    if (slice_eq(list, S("*")))
        return true;
    while (list.len) {
        slice tag = next_etag(&list);
        if (weak && slice_starts(tag, S("W/")))
            tag = slice_from(tag, 2);
        if (tag.len && slice_eq(unquoted(tag), unquoted(etag)))
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
