/* operation.c - finds the S3 operation of a request. SPDX-License-Identifier: Apache-2.0
 *
 * The selector of a row of op.def has the parameters and headers that a request must have to fit
 * the row. If several rows fit a request, the row whose selector has the most words is the
 * operation. If two rows fit with different parameters, the request is ambiguous and is refused:
 * otherwise a client could use the right to one operation to run the other. A request with an
 * unknown operation (the last rows of op.def) is forwarded as it came, and is never answered from
 * the cache. Any thread may call these functions. */
#include "s3/operation.h"

#include <assert.h>

#include "s3/request.h"

#define VERSION_BYTES_MAX 1024
#define NAME_BYTES_MAX 100u    /* of an unknown parameter, in a message */

static const struct s3_operation operations[] = {
#define OP(id, name, method, level, selector, route, mutates, right, metric, params) \
    [id] = { name, #method, S3_##method, S3_##level, selector, params, S3_##route, \
             S3_MUTATES_##mutates, RIGHT_##right, metric },
#define RIGHT_READ S3_READ
#define RIGHT_LIST S3_LIST_KEYS
#define RIGHT_WRITE S3_WRITE
#define RIGHT_ADMIN S3_ADMIN
#define RIGHT_CACHE S3_MANAGE_CACHE
#include "s3/op.def"
#undef OP
};

/* One byte for each row: the method and level of the row. The search skips each row whose byte is
 * not that of the request. */
#define AT(method, level) (unsigned char)((unsigned)(method) * 3 + (unsigned)(level))
static const unsigned char places[] = {
#define OP(id, name, method, level, selector, route, mutates, right, metric, params) \
    [id] = AT(S3_##method, S3_##level),
#include "s3/op.def"
#undef OP
};

static_assert(AT(S3_OPTIONS, S3_OBJECT) == S3_OPTIONS * 3 + S3_OBJECT, "a place fits into a byte");

/* Parameters of a signature; claim.c judges them. */
static const char signature_params[] =
    "x-amz-algorithm x-amz-credential x-amz-date x-amz-expires x-amz-signedheaders x-amz-signature "
    "x-amz-security-token x-amz-content-sha256";

/* Parameters that SDKs add to any operation. They describe the SDK, name the operation (x-id), or
 * belong to a signature of version 2. */
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

/* ---- words ---- */

static slice lower_in(char *buffer, size_t cap, slice s)
{
    s.len = MIN(s.len, cap);
    for (size_t i = 0; i < s.len; i++)
        buffer[i] = char_lower(s.ptr[i]);
    return (slice){ buffer, s.len };
}

/* Cuts the next word: NAME, NAME* (every name that begins with NAME) or NAME= (a parameter that
 * takes no value). *ret_end is the '*' or '=', else 0. */
static slice word_cut(slice *words, char *ret_end)
{
    slice word = slice_cut(words, ' ');
    *ret_end = slice_ends(word, S("*")) || slice_ends(word, S("=")) ? word.ptr[word.len - 1] : 0;
    word.len -= *ret_end != 0;
    return word;
}

/* Returns true if a word of the list stands for this name. */
static bool find_word(const char *words, slice name, char *ret_end)
{
    for (slice rest = slice_of(words); rest.len;) {
        slice word = word_cut(&rest, ret_end);
        if (*ret_end == '*' ? slice_starts(name, word) : slice_eq(name, word))
            return true;
    }
    return false;
}

static bool in_words(const char *words, slice name)
{
    char end;
    return find_word(words, name, &end);
}

bool s3_param_is_header(slice name)
{
    char buffer[64];
    slice lower = lower_in(buffer, sizeof(buffer), name);
    return slice_starts(lower, S("x-amz-")) && !in_words(signature_params, lower);
}

/* ---- the search for the row ---- */

/* Parameters that name an upload or a part. They must have a value: radosgw ignores them if the
 * value is empty, and runs another operation, which changes the whole object. */
static const char naming_params[] = "uploadId partNumber";

/* True if a word of a selector (param, param=value, @header) fits the request. */
static bool word_holds(slice word, const struct request_head *head,
                       const struct s3_request *request)
{
    if (slice_starts(word, S("@")))
        return s3_header_get(head, request, slice_from(word, 1)).ptr != NULL;
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
    return in_words(row->params, name) || s3_param_is_header(name) ||
           in_words(signature_params, lower) || in_words(sdk_params, lower);
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

const struct s3_param *s3_operation_unknown(const struct s3_request *request)
{
    const struct s3_operation *row = &operations[request->op];
    for (size_t i = 0; i < request->param_count; i++)
        if (!in_selector(row, request->params[i].name) &&
            !param_known(row, request->params[i].name))
            return &request->params[i];
    return NULL;
}

/* Returns the number of words in the selector of a row that fits, or -1 if the row does not fit. */
static int fit(const struct s3_operation *row, const struct request_head *head,
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

/* Returns a parameter in the selector of `row` that `best` does not know. The ptr is NULL if there
 * is none. */
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

static enum err find_row(struct arena *keep, const struct request_head *head, enum s3_level level,
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

bool s3_is_form(const struct request_head *head)
{
    slice type = slice_trim(request_head_get(head, S("content-type")));
    return slice_eq(head->method, S("POST")) &&
           slice_starts_nocase(type, S("multipart/form-data"));
}

/* A form that is posted to a bucket is a PostObject, whatever its query says, because some stores
 * ignore the query. The form has the key. */
static enum err read_form(const struct request_head *head, struct s3_request *ret)
{
    const struct s3_operation *row = &operations[ret->op];
    if (!s3_is_form(head))
        return OK;
    if (row->level == S3_BUCKET) {
        if (ret->op != S3_DELETE_OBJECTS)    /* the body of DeleteObjects must be XML, not a form */
            ret->op = S3_POST_OBJECT;
        return OK;
    }
    /* A CreateMultipartUpload without a body may have this Content-Type: it is the type of the
     * object. */
    bool bare = ret->op == S3_CREATE_UPLOAD && !head->length && !head->chunked;
    return row->method == S3_POST && !bare ? ERR_BAD_METHOD : OK;
}

/* ---- Penstock's own operations ---- */

static slice known_params(struct arena *keep, const struct s3_operation *row)
{
    struct text text = text_in(keep);
    const char *comma = "";
    char end;
    for (slice rest = slice_of(row->params); rest.len;) {
        slice word = word_cut(&rest, &end);
        if (slice_eq(word, slice_of(row->selector)))    /* it may have a value */
            continue;
        text_printf(&text, "%s%.*s", comma, SLICE_ARG(word));
        comma = ", ";
    }
    return text.len ? arena_printf(keep, ": %.*s", SLICE_ARG(text_slice(&text))) : S(" none");
}

/* Refuses an unknown parameter, because it may be a known one with a typing error: without its
 * "dry-run", a purge would purge. For the same reason, a parameter that takes no value must have
 * none. */
static enum err judge_own_param(struct arena *keep, const struct s3_param *param,
                                struct s3_request *ret)
{
    const struct s3_operation *row = &operations[ret->op];
    slice name = slice_sub(param->name, 0, NAME_BYTES_MAX);
    char end = 0;
    bool selects = slice_eq(param->name, slice_of(row->selector));
    if (!selects && !param_known(row, param->name))
        ret->detail = arena_printf(keep, "%s ?%s has no parameter %.*s. It has%.*s.",
                                   row->method_name, row->selector, SLICE_ARG(name),
                                   SLICE_ARG(known_params(keep, row)));
    else if (param->value.len && ((selects && !param_known(row, param->name)) ||
                                  (find_word(row->params, param->name, &end) &&
                                              end == '=')))
        ret->detail = arena_printf(keep, "The parameter %.*s takes no value: leave the value out.",
                                   SLICE_ARG(name));
    return ret->detail.len ? ERR_BAD_ARGUMENT : OK;
}

/* Penstock's own operations must not reach an origin, not even operations that only another version
 * of Penstock has. */
static enum err judge_own(struct arena *keep, struct s3_request *ret)
{
    slice op = slice_of(operations[ret->op].selector);
    enum err e = OK;
    for (size_t i = 0; i < ret->param_count; i++)
        if (slice_starts_nocase(ret->params[i].name, S("penstock-")) &&
            !slice_eq(ret->params[i].name, op))
            return ERR_BAD_METHOD;
    for (size_t i = 0; i < ret->param_count && !e && slice_starts(op, S("penstock-")); i++)
        e = judge_own_param(keep, &ret->params[i], ret);
    return e;
}

enum err s3_operation_find(struct arena *keep, const struct request_head *head,
                           struct s3_request *ret)
{
    enum s3_level level = ret->key.len ? S3_OBJECT : ret->bucket.len ? S3_BUCKET : S3_SERVICE;
    enum err e = find_row(keep, head, level, ret);
    if (!e)
        e = read_form(head, ret);
    return e ? e : judge_own(keep, ret);
}

/* ---- requests that only the origin can answer ---- */

/* True if the cache may answer a request with this parameter. A version id must have 1 to 1024
 * bytes. The number of a part must be 1 to 10,000, and must come without a Range. For any other
 * value the origin says what is wrong. */
static bool may_name(const struct request_head *head, const struct s3_param *param)
{
    uint64_t part;
    if (slice_eq(param->name, S("versionId")))
        return param->value.len > 0 && param->value.len <= VERSION_BYTES_MAX;
    if (slice_eq(param->name, S("partNumber")))
        return slice_u64(param->value, &part) && part >= 1 && part <= S3_PART_MAX &&
               !request_head_get(head, S("range")).ptr;
    return true;
}

bool s3_operation_needs_origin(const struct request_head *head, const struct s3_request *request)
{
    for (size_t i = 0; i < s3_header_count(head, request); i++)
        if (s3_header_fate(request, s3_header_at(head, request, i).name) == HEADER_ORIGIN)
            return true;
    for (size_t i = 0; i < request->param_count; i++)
        if (!may_name(head, &request->params[i]))
            return true;
    return false;
}
