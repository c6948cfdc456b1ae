/* request.c - reads the head of an HTTP request as an S3 request.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Path, parameters and headers are read once. A request that can be read in two ways is refused. As
 * in S3, an x-amz- parameter counts as a header, because a presigned URL has no headers.
 * operation.c finds the operation. Any thread may call these functions. */
#include "s3/request.h"

#include "s3/encode.h"

#define PARAMS_MAX 100
#define NAME_BYTES_MAX 64    /* limit of a name in a message */
#define DISGUISED "The header %.*s must be written with '-', not '_'."
#define BUCKET_RULE "A bucket name must have 3 to 63 letters, digits, '-', '.', '_' or ':', and " \
    "must not begin with '-', '.', '_' or arn:."
#define NOT_IN_DOMAINS " Penstock took the name from the path, because the setting \"domains\" " \
    "lists no parent domain of the Host header. If the client puts the bucket into the host " \
    "name, add the rest of the host name to \"domains\". Otherwise, correct the bucket in the " \
    "path."

slice s3_header_get(const struct request_head *head, const struct s3_request *request, slice name)
{
    for (size_t i = 0; i < s3_header_count(head, request); i++) {
        struct http_field field = s3_header_at(head, request, i);
        if (slice_eq_nocase(field.name, name))
            return field.value.ptr ? field.value : S("");
    }
    return (slice){ NULL, 0 };
}

const struct s3_param *s3_param_get(const struct s3_request *request, slice name)
{
    for (size_t i = 0; i < request->param_count; i++)
        if (slice_eq(request->params[i].name, name))
            return &request->params[i];
    return NULL;
}

/* ---- path and parameters ---- */

/* The rule is looser than that of AWS: AWS no longer allows upper case and '_' in names of buckets,
 * but other stores do. radosgw writes a bucket with its owner as "tenant:bucket". */
bool s3_bucket_is_valid(slice s)
{
    return s.len >= 3 && s.len <= 63 && !slice_has(S("-._"), s.ptr[0]) &&
           !slice_starts(s, S("arn:")) &&
           slice_only(s, LOWER_CHARS UPPER_CHARS DIGIT_CHARS "-._:");
}

slice s3_host_bucket(struct arena *keep, slice host, slice domains)
{
    slice rest = host, name = arena_lower(keep, slice_cut(&rest, ':')), bucket = S("");
    while (domains.len) {
        slice domain = slice_trim(slice_cut(&domains, ','));
        if (domain.len && slice_eq(name, domain))
            return S("");    /* no bucket, even if the host also ends with another domain */
        if (domain.len && name.len > domain.len + 1 && slice_ends(name, domain) &&
            name.ptr[name.len - domain.len - 1] == '.' &&
            (!bucket.len || name.len - domain.len - 1 < bucket.len))
            bucket = slice_sub(name, 0, name.len - domain.len - 1);
    }
    return bucket;
}

static bool is_name(slice host)    /* false for an IP address, and for a single label */
{
    slice rest = host, label = S("");
    bool many = slice_has(host, '.');
    while (rest.len)
        label = slice_cut(&rest, '.');
    return many && label.len && char_lower(label.ptr[0]) >= 'a' && char_lower(label.ptr[0]) <= 'z';
}

/* Cuts the path into bucket and key before it decodes them, so "%2F" is never taken for the slash
 * after the bucket. */
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
    if ((path.len > 1 || host_bucket.len) && !s3_bucket_is_valid(ret->bucket))
        return ERR_BAD_BUCKET;
    return ret->key.len > S3_KEY_BYTES_MAX ? ERR_KEY_TOO_LONG : OK;
}

/* Refuses a request. `what` is a format with a %.*s for the name. */
static enum err wrong(struct arena *keep, const char *what, slice name, struct s3_request *ret)
{
    ret->detail = arena_printf(keep, what, SLICE_ARG(slice_sub(name, 0, NAME_BYTES_MAX)));
    return ERR_BAD_ARGUMENT;
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
        enum err e = query_decode(keep, name, &param.name);
        if (!e && value.ptr)
            e = query_decode(keep, value, &param.value);
        if (e)
            return e;
        if (s3_param_get(ret, param.name))    /* a repeated parameter is ambiguous */
            return wrong(keep, "The parameter %.*s may be given only once.", param.name, ret);
        check(ret->param_count < count);
        ret->params[ret->param_count++] = param;
    }
    return OK;
}

/* Refuses a Connection header that names a header with a meaning for Penstock or the origin. The
 * Connection header marks a header as meant for this connection alone, so a proxy would have to
 * drop it. */
static enum err judge_connection(struct arena *keep, slice words, struct s3_request *ret)
{
    while (words.ptr) {
        slice word = slice_trim(slice_cut(&words, ','));
        enum header_fate fate = s3_header_fate(ret, word);
        if (fate == HEADER_SENT || fate == HEADER_ORIGIN)
            return wrong(keep, "The header Connection must not name %.*s, which is meant "
                               "for Penstock or the origin.", word, ret);
    }
    return OK;
}

static bool is_there_before(const struct request_head *head, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (slice_eq_nocase(head->fields[i].name, head->fields[at].name))
            return true;
    return false;
}

static enum err judge_names(struct arena *keep, const struct request_head *head,
                            struct s3_request *ret)
{
    enum err e = OK;
    for (size_t i = 0; i < head->field_count && !e; i++) {
        slice name = head->fields[i].name;
        struct header_known known = header_judge(name, ret->listed);
        if (known.once && is_there_before(head, i))
            return wrong(keep, "The header %.*s may be given only once.", name, ret);
        if (header_is_disguised(name))
            return wrong(keep, DISGUISED, name, ret);
        if (known.fate == HEADER_FOREIGN && !ret->foreign.ptr)
            ret->foreign = name;
        if (slice_eq_nocase(name, S("connection")))
            e = judge_connection(keep, head->fields[i].value, ret);
    }
    return e;
}

/* Reads the headers in the query. A header must not occur in both query and head. */
static enum err read_query_fields(struct arena *keep, const struct request_head *head,
                                  struct s3_request *request)
{
    request->query_fields =
        arena_alloc(keep, (request->param_count + 1) * sizeof(*request->query_fields));
    for (size_t i = 0; i < request->param_count; i++) {
        struct s3_param param = request->params[i];
        if (!s3_param_is_header(param.name))
            continue;
        if (s3_header_get(head, request, param.name).ptr)
            return wrong(keep, "%.*s must not be both a header and a query parameter. Send it as "
                         "one of the two.",
                         param.name, request);
        if (header_is_disguised(param.name))
            return wrong(keep, DISGUISED, param.name, request);
        if (s3_header_fate(request, param.name) == HEADER_FOREIGN && !request->foreign.ptr)
            request->foreign = param.name;
        check(request->query_field_count < request->param_count);
        request->query_fields[request->query_field_count++] =
            (struct http_field){ param.name, param.value };
    }
    return OK;
}

/* Accepts "versionId=..." or nothing after the '?'. An origin might take any other text for a part
 * of the key. It might do the same with a version id that looks like a path. */
static bool read_source_version(struct arena *keep, slice value, slice *ret)
{
    *ret = S("");
    if (!value.ptr)
        return true;
    if (!slice_starts(value, S("versionId=")) || uri_decode(keep, slice_from(value, 10), ret) != OK)
        return false;
    for (size_t i = 0; i < ret->len; i++)
        if (slice_has(S("/\\?#&%"), ret->ptr[i]) || ret->ptr[i] <= ' ')
            return false;
    return ret->len > 0;
}

/* Decodes the source before it cuts the source into bucket and key, because some clients encode
 * even the slash after the bucket. */
static void read_source(struct arena *keep, slice value, struct s3_source *ret)
{
    slice version = value, path = slice_cut(&version, '?'), decoded;
    if (uri_decode(keep, path, &decoded) != OK || !read_source_version(keep, version, &version))
        return;
    slice key = slice_starts(decoded, S("/")) ? slice_from(decoded, 1) : decoded;
    slice bucket = slice_cut(&key, '/');
    if (!s3_bucket_is_valid(bucket) || !key.len)
        return;
    *ret = (struct s3_source){ .bucket = bucket, .key = key, .version = version, .raw = value };
}

static void read_renamed(struct arena *keep, slice value, struct s3_request *ret)
{
    slice name, key;
    if (uri_decode(keep, value, &name) != OK)
        return;
    name = slice_from(name, slice_starts(name, S("/")) ? 1 : 0);
    key = name;
    slice bucket = slice_cut(&key, '/');
    if (name.len)
        ret->source = (struct s3_source){
            .bucket = ret->bucket, .key = name, .raw = value,
            .inner = slice_eq(bucket, ret->bucket) && key.ptr ? key : S("") };
}

static void read_sources(struct arena *keep, const struct request_head *head,
                         struct s3_request *ret)
{
    slice copied = s3_header_get(head, ret, S("x-amz-copy-source"));
    slice renamed = s3_header_get(head, ret, S("x-amz-rename-source"));
    if (s3_operation(ret->op)->method != S3_PUT)
        return;
    ret->sourced = copied.ptr || renamed.ptr;
    if (ret->op == S3_RENAME_OBJECT && renamed.ptr && !copied.ptr)
        read_renamed(keep, renamed, ret);
    else if (copied.ptr && !renamed.ptr)
        read_source(keep, copied, &ret->source);
}

static void read_headers(struct arena *keep, const struct request_head *head,
                         struct s3_request *ret)
{
    const struct http_field *fields = head->fields;
    size_t count = head->field_count;
    slice range = http_field_join(keep, fields, count, S("range"));
    if (range.ptr)
        ret->range = s3_range_read(range);
    ret->conditions = s3_conditions_read(keep, fields, count);
    const struct s3_param *part = s3_param_get(ret, S("partNumber"));
    if (part && !slice_u64(part->value, &ret->part))
        ret->part = 0;
    slice control = http_field_join(keep, fields, count, S("cache-control"));
    ret->no_cache = slice_list_has(control, ',', S("no-cache")) ||
                    slice_list_has(control, ',', S("max-age=0"));
    ret->checksum_mode =
        slice_eq_nocase(s3_header_get(head, ret, S("x-amz-checksum-mode")), S("ENABLED"));
}

enum err s3_request_read(struct arena *keep, const struct request_head *head, slice domains,
                         slice listed, struct s3_request *ret)
{
    *ret = (struct s3_request){ .raw_path = head->path, .listed = listed };
    slice host_bucket = s3_host_bucket(keep, head->host, domains);
    enum err e = read_path(keep, head->path, host_bucket, ret);
    if (e == ERR_BAD_BUCKET)
        ret->detail = arena_printf(keep, "The specified bucket is not valid: '%.*s'. " BUCKET_RULE
                                   "%s", SLICE_ARG(slice_sub(ret->bucket, 0, NAME_BYTES_MAX)),
                                   !host_bucket.len && is_name(head->host) ? NOT_IN_DOMAINS : "");
    if (!e)
        e = read_params(keep, head->query, ret);
    if (!e)
        e = judge_names(keep, head, ret);
    if (!e && ret->param_count)
        e = read_query_fields(keep, head, ret);
    if (!e)
        e = s3_operation_find(keep, head, ret);
    if (e)
        return e;
    ret->unknown = s3_operation_unknown(ret);
    read_headers(keep, head, ret);
    read_sources(keep, head, ret);
    ret->pass = slice_has(ret->bucket, ':') ||    /* "tenant:bucket" is a second name of a bucket
                                                     (cache/alias.h) */
                ret->foreign.ptr ||
                (s3_operation(ret->op)->route == S3_CACHE && s3_operation_needs_origin(head, ret));
    return OK;
}
