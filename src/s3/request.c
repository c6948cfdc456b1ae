/* request.c - an HTTP head read as an S3 request. SPDX-License-Identifier: Apache-2.0
 *
 * The operation is the row of op.def that fits, with the most words; two that fit and say different
 * things make the request ambiguous, which it must not be: the right that one of them takes would
 * open the other. What no row knows is forwarded as it came, and never answered from the cache.
 * S3 reads x-amz- parameters as headers, because presigned requests can say them nowhere else: they
 * are headers here too. Any thread. */
#include "s3/request.h"

#include <string.h>

#include "s3/encode.h"

#define PARAMS_MAX 100
#define VERSION_BYTES_MAX 1024

static const struct s3_operation operations[] = {
#define OP(id, name, method, level, selector, route, mutates, right, metric, params) \
    [id] = { name, #method, S3_##method, S3_##level, selector, params, S3_##route, \
             S3_MUTATES_##mutates, RIGHT_##right, metric },
#define RIGHT_READ S3_READ
#define RIGHT_LIST S3_LIST_KEYS
#define RIGHT_WRITE S3_WRITE
#define RIGHT_ADMIN S3_ADMIN
#include "s3/op.def"
#undef OP
};

/* Where they lie, apart: a request looks at the few rows of its own place. */
#define AT(method, level) (unsigned char)((unsigned)(method) * 3 + (unsigned)(level))
static const unsigned char places[] = {
#define OP(id, name, method, level, selector, route, mutates, right, metric, params) \
    [id] = AT(S3_##method, S3_##level),
#include "s3/op.def"
#undef OP
};

/* A GetObject or HeadObject with any other x-amz- header is one that only the origin understands:
 * SSE-C, x-amz-request-payer, x-amz-expected-bucket-owner ... */
static const char cache_headers[] =
    "x-amz-date x-amz-content-sha256 x-amz-security-token x-amz-checksum-mode x-amz-sdk-* "
    "x-amz-user-agent x-amz-api-version x-amz-te";

/* Signatures in the query: read and judged by claim.c. */
static const char signature_params[] =
    "x-amz-algorithm x-amz-credential x-amz-date x-amz-expires x-amz-signedheaders x-amz-signature "
    "x-amz-security-token x-amz-content-sha256";

/* What SDKs say there about themselves, in every operation. */
static const char sdk_params[] =
    "x-id x-amz-user-agent x-amz-sdk-* awsaccesskeyid signature expires";

const struct s3_operation *s3_operation(enum s3_op op)
{
    check((unsigned)op < S3_OP_COUNT);
    return &operations[op];
}

const char *s3_op_name(enum s3_op op)
{
    return s3_operation(op)->name;
}

bool s3_only_reads(enum s3_op op)
{
    enum s3_method method = s3_operation(op)->method;
    return method == S3_GET || method == S3_HEAD || method == S3_OPTIONS;
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
           c == '-' || c == '.' || c == '_' || c == ':';
}

/* Looser than AWS, which has no upper case and no '_' any more: other stores do, and radosgw says
 * whose bucket it is by "tenant:bucket". */
static bool bucket_valid(slice s)
{
    if (s.len < 3 || s.len > 63 || slice_has(S("-._"), s.ptr[0]) || slice_starts(s, S("arn:")))
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (!bucket_char(s.ptr[i]))
            return false;
    return true;
}

slice s3_host_bucket(struct arena *keep, slice host, slice domains)
{
    slice rest = host, name = arena_lower(keep, slice_cut(&rest, ':')), bucket = S("");
    while (domains.len) {
        slice domain = slice_trim(slice_cut(&domains, ','));
        if (domain.len && slice_eq(name, domain))
            return S("");    /* although it may lie below another */
        if (domain.len && name.len > domain.len + 1 && slice_ends(name, domain) &&
            name.ptr[name.len - domain.len - 1] == '.' &&
            (!bucket.len || name.len - domain.len - 1 < bucket.len))
            bucket = slice_sub(name, 0, name.len - domain.len - 1);
    }
    return bucket;
}

/* Cut first, decoded after: a "%2F" is never the slash behind the bucket. */
static enum err read_path(struct arena *keep, slice path, slice host_bucket,
                          struct s3_request *ret)
{
    slice rest = slice_from(path, 1);
    slice bucket = host_bucket.len ? host_bucket : slice_cut(&rest, '/');
    enum err e = uri_decode(keep, bucket, &ret->bucket);
    if (!e)
        e = uri_decode(keep, rest, &ret->key);
    if (e)
        return e;
    if ((path.len > 1 || host_bucket.len) && !bucket_valid(ret->bucket))
        return ERR_BAD_BUCKET;
    return ret->key.len > S3_KEY_BYTES_MAX ? ERR_KEY_TOO_LONG : OK;
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

/* x-amz- parameters are headers, but for the signature. */
static bool is_header(slice name)
{
    char buffer[64];
    slice lower = lower_in(buffer, sizeof(buffer), name);
    return slice_starts(lower, S("x-amz-")) && !in_words(signature_params, lower);
}

/* As CGI would hand it on, is it one of S3's headers by another name? Metadata is nobody's. */
static bool is_disguised(slice name)
{
    char buffer[64];
    if (!slice_has(name, '_'))
        return false;
    slice plain = lower_in(buffer, sizeof(buffer), name);
    for (size_t i = 0; i < plain.len; i++)
        if (buffer[i] == '_')
            buffer[i] = '-';
    return slice_starts(plain, S("x-amz-")) && !slice_starts(plain, S("x-amz-meta-"));
}

static enum err read_names(struct arena *keep, const struct http_head *head, struct s3_request *ret)
{
    static const slice once[] = {    /* what is done here goes by the first, there perhaps not */
        { "x-amz-acl", 9 }, { "content-md5", 11 }, { "x-amz-trailer", 13 },
        { "x-amz-copy-source", 17 }, { "x-amz-rename-source", 19 },
        { "x-amz-decoded-content-length", 28 }, { "x-amz-sdk-checksum-algorithm", 28 },
    };
    unsigned seen = 0;
    for (size_t i = 0; i < head->field_count; i++) {
        slice name = head->fields[i].name;
        unsigned before = seen;
        bool known = false;
        for (size_t k = 0; k < countof(once) && !known; k++)
            if (once[k].len == name.len && slice_eq_nocase(once[k], name)) {
                known = true;
                seen |= 1u << k;
            }
        if ((known && seen == before) || is_disguised(name)) {
            ret->detail = arena_printf(keep, "The header %.*s may be given once, and with no '_' "
                                       "for a '-'.", SLICE_ARG(slice_sub(name, 0, 64)));
            return ERR_BAD_ARGUMENT;
        }
    }
    return OK;
}

/* Said once, in the query or above it. */
static enum err read_said(struct arena *keep, const struct http_head *head,
                          struct s3_request *request)
{
    struct http_field *said = arena_alloc(keep, (request->param_count + 1) * sizeof(*said));
    request->said = said;
    for (size_t i = 0; i < request->param_count; i++) {
        struct s3_param param = request->params[i];
        if (!is_header(param.name))
            continue;
        for (size_t j = 0; j < request->said_count; j++)
            if (slice_eq_nocase(said[j].name, param.name))
                return ERR_BAD_ARGUMENT;
        if (http_head_get(head, param.name).ptr || is_disguised(param.name))
            return ERR_BAD_ARGUMENT;
        said[request->said_count++] = (struct http_field){ param.name, param.value };
    }
    return OK;
}

static slice header_of(const struct http_head *head, const struct s3_request *request, slice name)
{
    for (size_t i = 0; i < s3_header_count(head, request); i++) {
        struct http_field field = s3_header_at(head, request, i);
        if (slice_eq_nocase(field.name, name))
            return field.value.ptr ? field.value : S("");
    }
    return (slice){ NULL, 0 };
}

/* What names an upload or a part of one: with an empty value radosgw reads none there, and what was
 * about a part is about the whole object. Such a request is another one, that changes its key. */
static const char naming_params[] = "uploadId partNumber";

/* A word of a selector: param, param=value, @header. */
static bool word_holds(slice word, const struct http_head *head, const struct s3_request *request)
{
    if (slice_starts(word, S("@")))
        return header_of(head, request, slice_from(word, 1)).ptr != NULL;
    slice value = word, name = slice_cut(&value, '=');
    const struct s3_param *param = s3_param_get(request, name);
    if (!param || (!param->value.len && in_words(naming_params, name)))
        return false;
    return !value.ptr || slice_eq(param->value, value);
}

static bool param_known(const struct s3_operation *row, slice name)
{
    char buffer[64];
    slice lower = lower_in(buffer, sizeof(buffer), name);
    return in_words(row->params, name) || is_header(name) || in_words(signature_params, lower) ||
           in_words(sdk_params, lower);
}

static bool in_selector(const struct s3_operation *row, slice name)
{
    for (slice rest = slice_of(row->selector); rest.len;) {
        slice word = slice_cut(&rest, ' ');
        if (slice_eq(slice_cut(&word, '='), name))
            return true;
    }
    return false;
}

static bool has_unknown(const struct s3_request *request)
{
    const struct s3_operation *row = &operations[request->op];
    for (size_t i = 0; i < request->param_count; i++)
        if (!in_selector(row, request->params[i].name) &&
            !param_known(row, request->params[i].name))
            return true;
    return false;
}

/* How many words of the row hold, all of them; -1 if it does not fit. */
static int fit(const struct s3_operation *row, const struct http_head *head,
               const struct s3_request *request)
{
    int words = 0;
    bool by_param = false;
    for (slice rest = slice_of(row->selector); rest.len; words++) {
        slice word = slice_cut(&rest, ' ');
        if (!word_holds(word, head, request))
            return -1;
        by_param |= word.ptr[0] != '@';
    }
    for (size_t i = 0; i < request->param_count && !by_param; i++)
        if (!param_known(row, request->params[i].name))
            return -1;
    return words;
}

/* The parameter by which `row` fits as well as `best`, which says nothing of it; or ptr NULL. */
static slice conflict(const struct s3_operation *best, const struct s3_operation *row)
{
    for (slice rest = slice_of(row->selector); rest.len;) {
        slice word = slice_cut(&rest, ' ');
        if (word.ptr[0] != '@' && !in_words(best->selector, word) && !in_words(best->params, word))
            return word;
    }
    return (slice){ 0 };
}

static bool method_of(slice name, enum s3_method *ret)
{
    static const slice names[] = {
        [S3_GET] = { "GET", 3 }, [S3_HEAD] = { "HEAD", 4 }, [S3_PUT] = { "PUT", 3 },
        [S3_POST] = { "POST", 4 }, [S3_DELETE] = { "DELETE", 6 }, [S3_OPTIONS] = { "OPTIONS", 7 },
    };
    for (size_t i = 0; i < countof(names); i++) {
        *ret = (enum s3_method)i;
        if (slice_eq(names[i], name))
            return true;
    }
    return false;
}

static enum err find_op(struct arena *keep, const struct http_head *head, enum s3_level level,
                        struct s3_request *ret)
{
    enum s3_method method;
    int best = -1, words[S3_OP_COUNT];
    if (!method_of(head->method, &method))
        return ERR_BAD_METHOD;
    for (size_t i = 0; i < S3_OP_COUNT; i++) {
        if (places[i] != AT(method, level))
            continue;
        words[i] = fit(&operations[i], head, ret);
        if (words[i] < 0 || (best >= 0 && words[i] <= words[best]))
            continue;
        best = (int)i;
    }
    if (best < 0)
        return ERR_BAD_METHOD;
    ret->op = (enum s3_op)best;
    for (size_t i = 0; i < S3_OP_COUNT && words[best] > 0; i++) {
        slice other = { 0 };
        if (places[i] == AT(method, level) && words[i] > 0)
            other = conflict(&operations[best], &operations[i]);
        if (!other.ptr)
            continue;
        ret->detail = arena_printf(keep, "Conflicting query string parameters: \"%s\" and \"%.*s\"",
                                   operations[best].selector, SLICE_ARG(other));
        return ERR_BAD_ARGUMENT;
    }
    return OK;
}

/* "versionId=...", or nothing. Whatever else stands behind a '?', or could be a path, an origin may
 * take for more of the key. */
static bool read_source_version(struct arena *keep, slice said, slice *ret)
{
    *ret = S("");
    if (!said.ptr)
        return true;
    if (!slice_starts(said, S("versionId=")) || uri_decode(keep, slice_from(said, 10), ret) != OK)
        return false;
    for (size_t i = 0; i < ret->len; i++)
        if (slice_has(S("/\\?#&%"), ret->ptr[i]) || ret->ptr[i] <= ' ')
            return false;
    return ret->len > 0;
}

/* Decoded before it is cut: some clients encode the slash behind the bucket, too. */
static void read_source(struct arena *keep, slice said, struct s3_source *ret)
{
    slice version = said, path = slice_cut(&version, '?'), decoded;
    if (uri_decode(keep, path, &decoded) != OK || !read_source_version(keep, version, &version))
        return;
    slice key = slice_starts(decoded, S("/")) ? slice_from(decoded, 1) : decoded;
    slice bucket = slice_cut(&key, '/');
    if (!bucket_valid(bucket) || !key.len)
        return;
    *ret = (struct s3_source){ .bucket = bucket, .key = key, .version = version, .raw = said };
}

static void read_renamed(struct arena *keep, slice said, struct s3_request *ret)
{
    slice name, key;
    if (uri_decode(keep, said, &name) != OK)
        return;
    name = slice_from(name, slice_starts(name, S("/")) ? 1 : 0);
    key = name;
    slice bucket = slice_cut(&key, '/');
    if (name.len)
        ret->source = (struct s3_source){
            .bucket = ret->bucket, .key = name, .raw = said,
            .inner = slice_eq(bucket, ret->bucket) && key.ptr ? key : S("") };
}

static void read_sources(struct arena *keep, const struct http_head *head, struct s3_request *ret)
{
    slice copied = header_of(head, ret, S("x-amz-copy-source"));
    slice renamed = header_of(head, ret, S("x-amz-rename-source"));
    if (operations[ret->op].method != S3_PUT)
        return;
    ret->sourced = copied.ptr || renamed.ptr;
    if (ret->op == S3_RENAME_OBJECT && renamed.ptr && !copied.ptr)
        read_renamed(keep, renamed, ret);
    else if (copied.ptr && !renamed.ptr)
        read_source(keep, copied, &ret->source);
}

/* A form's key is in the form, whatever else is in the query: some stores look no further than at
 * these. */
static enum err read_form(const struct http_head *head, struct s3_request *ret)
{
    static const slice form = { "multipart/form-data", 19 };
    const struct s3_operation *row = &operations[ret->op];
    slice type = slice_trim(http_head_get(head, S("content-type")));
    if (row->method != S3_POST || !slice_eq_nocase(slice_sub(type, 0, form.len), form))
        return OK;
    if (row->level == S3_BUCKET && ret->op != S3_DELETE_OBJECTS)
        ret->op = S3_POST_OBJECT;
    else if (ret->op == S3_OTHER_OBJECT_POST || ret->op == S3_RESTORE_OBJECT)
        return ERR_BAD_METHOD;
    return OK;
}

/* ---- what the cache can't answer ---- */

/* What may be the name of a version, or a part without a range; what is wrong with any other, the
 * origin says. */
static bool may_name(const struct http_head *head, const struct s3_param *param)
{
    uint64_t part;
    if (slice_eq(param->name, S("versionId")))
        return param->value.len > 0 && param->value.len <= VERSION_BYTES_MAX;
    if (slice_eq(param->name, S("partNumber")))
        return slice_u64(param->value, &part) && part >= 1 && part <= S3_PART_MAX &&
               !http_head_get(head, S("range")).ptr;
    return true;
}

static bool only_origin_knows(const struct http_head *head, const struct s3_request *request)
{
    char buffer[64];
    for (size_t i = 0; i < head->field_count; i++) {
        slice name = lower_in(buffer, sizeof(buffer), head->fields[i].name);
        if (slice_eq(name, S("origin")) ||
            (slice_starts(name, S("x-amz-")) && !in_words(cache_headers, name)))
            return true;
    }
    for (size_t i = 0; i < request->said_count; i++)
        if (!in_words(cache_headers, lower_in(buffer, sizeof(buffer), request->said[i].name)))
            return true;
    for (size_t i = 0; i < request->param_count; i++)
        if (!may_name(head, &request->params[i]))
            return true;
    return false;
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
    const struct s3_param *part = s3_param_get(ret, S("partNumber"));
    if (part && !slice_u64(part->value, &ret->part))
        ret->part = 0;
    read_cache_control(joined(keep, head, S("cache-control")), ret);
    ret->checksum_mode =
        slice_eq_nocase(header_of(head, ret, S("x-amz-checksum-mode")), S("ENABLED"));
}

enum err s3_request_read(struct arena *keep, const struct http_head *head, slice domains,
                         struct s3_request *ret)
{
    *ret = (struct s3_request){ .raw_path = head->path, .raw_query = head->query };
    enum err e = read_path(keep, head->path, s3_host_bucket(keep, head->host, domains), ret);
    if (!e)
        e = read_params(keep, head->query, ret);
    enum s3_level level = ret->key.len ? S3_OBJECT : ret->bucket.len ? S3_BUCKET : S3_SERVICE;
    if (!e)
        e = read_names(keep, head, ret);
    if (!e && ret->param_count)
        e = read_said(keep, head, ret);
    if (!e)
        e = find_op(keep, head, level, ret);
    if (!e)
        e = read_form(head, ret);
    if (e)
        return e;
    ret->unknown = has_unknown(ret);
    read_headers(keep, head, ret);
    read_sources(keep, head, ret);
    ret->pass = operations[ret->op].route == S3_CACHE && only_origin_knows(head, ret);
    return OK;
}

enum err s3_range_resolve(const struct s3_range *range, uint64_t size, uint64_t *ret_first,
                          uint64_t *ret_end, bool *ret_partial)
{
    uint64_t first = 0, end = size;
    bool partial = range->kind != RANGE_NONE;
    if (range->kind == RANGE_SPAN) {
        first = range->first;
        end = range->last < size ? range->last + 1 : size;
    } else if (range->kind == RANGE_SUFFIX) {
        first = size - MIN(range->suffix, size);
        partial = size || !range->suffix;    /* the end of nothing is all of it */
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
