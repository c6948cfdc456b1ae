/* test_s3_request.c - heads as S3 requests. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>

#include "s3/encode.h"
#include "s3/request.h"

static struct arena arena;
static struct request_head head;

/* "GET /b/k" plus headers that each end in CR LF. */
static enum err read_with(const char *line, const char *headers, struct s3_request *ret)
{
    slice bytes = arena_printf(&arena, "%s HTTP/1.1\r\nHost: h\r\n%s\r\n", line, headers);
    ok(request_head_scan(bytes, &head, NULL) == OK);
    return s3_request_read(&arena, &head, S("localhost, s3.example"), S(""), ret);
}

static enum err read_line(const char *line, struct s3_request *ret)
{
    return read_with(line, "", ret);
}

static int forget(void **state)
{
    arena_free(&arena);
    return 0;
}

TEST(every_operation_is_known_by_its_line)
{
    static const struct { const char *line, *name; } rows[] = {
        { "GET /", "ListBuckets" }, { "POST /bkt?penstock-batch", "penstock-batch" }, { "GET /?max-buckets=5", "ListBuckets" },
        { "GET /bkt?location", "GetBucketLocation" },
        { "GET /bkt/?location=", "GetBucketLocation" },
        { "GET /bkt?uploads&prefix=a", "ListMultipartUploads" },
        { "GET /bkt?list-type=2&prefix=a%2Fb&delimiter=%2F", "ListObjectsV2" },
        { "GET /bkt/?marker=x&max-keys=3&encoding-type=url", "ListObjects" },
        { "GET /bkt", "ListObjects" }, { "HEAD /bkt", "HeadBucket" },
        { "HEAD /bkt/", "HeadBucket" }, { "POST /bkt?delete", "DeleteObjects" },
        { "GET /bkt/k?uploadId=u&max-parts=2", "ListParts" }, { "GET /bkt/k", "GetObject" },
        { "GET /bkt/k?response-content-type=a%2Fb", "GetObject" },
        { "GET /bkt/k?x-id=GetObject", "GetObject" }, { "HEAD /bkt/k", "HeadObject" },
        { "GET /bkt/k?X-Amz-Algorithm=A&X-Amz-Credential=C&X-Amz-Date=D&X-Amz-Expires=1"
          "&X-Amz-SignedHeaders=host&X-Amz-Signature=0&X-Amz-Security-Token=t", "GetObject" },
        { "PUT /bkt/k?partNumber=1&uploadId=u", "UploadPart" }, { "PUT /bkt/k", "PutObject" },
        { "PUT /bkt/k/", "PutObject" }, { "POST /bkt/k?uploads", "CreateMultipartUpload" },
        { "POST /bkt/k?uploadId=u", "CompleteMultipartUpload" },
        { "DELETE /bkt/k?uploadId=u", "AbortMultipartUpload" }, { "DELETE /bkt/k", "DeleteObject" },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct s3_request request;
        enum err e = read_line(rows[i].line, &request);
        if (e)
            fail_msg("%s: %s", rows[i].line, err_name(e));
        same(slice_of(s3_op_name(request.op)), slice_of(rows[i].name));
    }
}

/* A request that has what the row's selector says, and nothing else. */
static enum err read_row(const struct s3_operation *row, const char *more, struct s3_request *ret)
{
    static const char *const paths[] = { "/", "/bkt", "/bkt/k" };
    struct text query = text_in(&arena), headers = text_in(&arena);
    for (slice rest = slice_of(row->selector); rest.len;) {
        slice word = slice_cut(&rest, ' ');
        if (word.ptr[0] == '@')
            text_printf(&headers, "%.*s: 1\r\n", SLICE_ARG(slice_from(word, 1)));
        else
            text_printf(&query, "%s%.*s%s", query.len ? "&" : "?", SLICE_ARG(word),
                        slice_has(word, '=') ? "" : slice_starts(word, S("penstock-")) ? "=" : "=1");
    }
    if (more[0])
        text_printf(&query, "%s%s", query.len ? "&" : "?", more);
    text_char(&query, '\0');
    text_char(&headers, '\0');
    slice line = arena_printf(&arena, "%s %s%s", row->method_name, paths[row->level], query.ptr);
    return read_with(line.ptr, headers.ptr, ret);
}

TEST(every_row_is_what_its_selector_asks_for)
{
    for (int op = 0; op < S3_OP_COUNT; op++) {
        const struct s3_operation *row = s3_operation((enum s3_op)op);
        bool other = strcmp(row->params, "*") == 0 && row->method != S3_OPTIONS;
        struct s3_request request;
        enum err e = read_row(row, other ? "never-heard-of=1" : "", &request);
        if (e || (int)request.op != op)
            fail_msg("%s: %s %s", row->name, err_name(e), e ? "" : s3_op_name(request.op));
        ok(request.pass == false || row->route == S3_CACHE);
    }
}

TEST(what_a_row_says_makes_sense)
{
    for (int op = 0; op < S3_OP_COUNT; op++) {
        const struct s3_operation *row = s3_operation((enum s3_op)op);
        bool reads = row->method == S3_GET || row->method == S3_HEAD || row->method == S3_OPTIONS;
        bool own = row->route == S3_ITEMS || row->route == S3_MANAGE || row->route == S3_JOB;
        if ((row->route != S3_PASS && !own && !reads) || (reads && row->mutates != S3_MUTATES_NOTHING) ||
            (row->mutates == S3_MUTATES_KEY && row->level != S3_OBJECT) ||
            (row->mutates == S3_MUTATES_PROPERTY && row->level != S3_OBJECT) ||
            (strncmp(row->name, "Other", 5) == 0 && row->right != S3_ADMIN) ||
            (row->mutates != S3_MUTATES_NOTHING && row->right < S3_WRITE))
            fail_msg("%s", row->name);
        for (int other = 0; other < op; other++)
            if (strcmp(row->name, s3_op_name((enum s3_op)other)) == 0)
                fail_msg("twice: %s", row->name);
    }
}

TEST(no_origin_hears_of_a_batch)
{
    static const char *const lines[] = {
        "GET /bkt?penstock-batch", "POST /bkt/k?penstock-batch", "POST /?penstock-batch",
        "PUT /bkt/k?penstock-batch", "GET /bkt?list-type=2&penstock-batch=",
    };
    struct s3_request request;
    ok(read_line("POST /bkt?penstock-batch", &request) == OK && request.op == S3_BATCH);
    for (size_t i = 0; i < countof(lines); i++)
        if (read_line(lines[i], &request) != ERR_BAD_METHOD)
            fail_msg("%s", lines[i]);
    ok(read_line("POST /bkt?penstock-batch&delete", &request) == ERR_BAD_ARGUMENT);
}

TEST(no_origin_hears_of_a_question_about_the_cache)
{
    static const char *const lines[] = {
        "POST /bkt?penstock-ls", "GET /bkt/k?penstock-ls", "GET /?penstock-du",
        "HEAD /bkt?penstock-du", "DELETE /bkt?penstock-du",
        "GET /bkt?penstock-explain", "PUT /bkt/k?penstock-explain", "HEAD /bkt/k?penstock-explain",
        "GET /bkt?penstock-next", "GET /bkt/k?penstock-next=1", "GET /bkt?Penstock-LS",
    };
    struct s3_request request;
    ok(read_line("GET /bkt?penstock-ls&prefix=a&max-keys=2&marker=b", &request) == OK);
    ok(request.op == S3_LS);
    ok(read_line("GET /bkt?penstock-du&depth=2", &request) == OK && request.op == S3_DU);
    for (size_t i = 0; i < countof(lines); i++)
        if (read_line(lines[i], &request) != ERR_BAD_METHOD)
            fail_msg("%s", lines[i]);
    ok(read_line("GET /bkt?penstock-ls&penstock-du", &request) == ERR_BAD_ARGUMENT);
    ok(read_line("GET /bkt?list-type=2&penstock-ls=", &request) == ERR_BAD_ARGUMENT);
}

TEST(no_origin_hears_of_a_purge)
{
    static const char *const lines[] = {
        "PUT /bkt?penstock-purge", "POST /bkt/k?penstock-purge", "GET /bkt/k?penstock-purge",
        "DELETE /bkt?penstock-purge", "POST /?penstock-purge", "HEAD /bkt?penstock-purge",
        "POST /bkt?penstock-ls&penstock-purge",
    };
    struct s3_request request;
    ok(read_line("POST /bkt?penstock-purge&prefix=a&dry-run", &request) == OK);
    ok(request.op == S3_PURGE);
    ok(read_line("GET /bkt?penstock-purge", &request) == OK && request.op == S3_BANS);
    for (size_t i = 0; i < countof(lines); i++)
        if (read_line(lines[i], &request) != ERR_BAD_METHOD)
            fail_msg("%s", lines[i]);
    ok(read_line("POST /bkt?penstock-purge&delete", &request) == ERR_BAD_ARGUMENT);
}

TEST(no_origin_hears_of_a_pin)
{
    static const char *const lines[] = {
        "PUT /bkt?penstock-pin", "POST /bkt/k?penstock-pin", "GET /bkt/k?penstock-pin",
        "DELETE /bkt?penstock-pin", "POST /?penstock-pin", "HEAD /bkt?penstock-unpin",
        "GET /bkt?penstock-unpin", "POST /bkt?penstock-ls&penstock-pin",
    };
    struct s3_request request;
    ok(read_line("POST /bkt?penstock-pin&prefix=a", &request) == OK && request.op == S3_PIN);
    ok(read_line("POST /bkt?penstock-unpin", &request) == OK && request.op == S3_UNPIN);
    ok(read_line("GET /bkt?penstock-pin&prefix=a", &request) == OK && request.op == S3_PINS);
    for (size_t i = 0; i < countof(lines); i++)
        if (read_line(lines[i], &request) != ERR_BAD_METHOD)
            fail_msg("%s", lines[i]);
    ok(read_line("POST /bkt?penstock-pin&penstock-unpin", &request) == ERR_BAD_ARGUMENT);
}

static void refused_with(const char *line, slice detail)
{
    struct s3_request request;
    if (read_line(line, &request) != ERR_BAD_ARGUMENT)
        fail_msg("%s", line);
    same(request.detail, detail);
}

TEST(an_operation_of_penstock_refuses_a_parameter_that_it_does_not_know)
{
    static const char *const good[] = {
        "POST /bkt?penstock-purge=&prefix=&dry-run=&x-id=Purge",
        "POST /bkt?prefix=a&penstock-pin&X-Amz-Algorithm=a&X-Amz-Signature=b&X-Amz-Expires=1",
        "GET /bkt/k?penstock-explain&range=0-1&X-Amz-Security-Token=t&x-amz-user-agent=js",
        "GET /bkt?penstock-du&depth=1&AWSAccessKeyId=a&Signature=b&Expires=1",
    };
    struct s3_request request;
    for (size_t i = 0; i < countof(good); i++)
        if (read_line(good[i], &request) != OK || request.unknown)
            fail_msg("%s", good[i]);
    refused_with("POST /bkt?penstock-purge&prefix=a&dryrun",
                 S("POST ?penstock-purge has no parameter dryrun. It has: prefix, key, dry-run."));
    refused_with("GET /bkt?penstock-purge&key=a",
                 S("GET ?penstock-purge has no parameter key. It has: prefix."));
    refused_with("POST /bkt?penstock-pin&Prefix=a",
                 S("POST ?penstock-pin has no parameter Prefix. It has: prefix."));
    refused_with("POST /bkt?penstock-unpin&prefix=a&marker=b",
                 S("POST ?penstock-unpin has no parameter marker. It has: prefix."));
    refused_with("GET /bkt?penstock-ls&list-type=3",
                 S("GET ?penstock-ls has no parameter list-type. It has: prefix, marker, max-keys."));
    refused_with("GET /bkt/k?penstock-explain&versionId=1",
                 S("GET ?penstock-explain has no parameter versionId. It has: range."));
    refused_with("POST /bkt?penstock-batch&prefix=a",
                 S("POST ?penstock-batch has no parameter prefix. It has none."));
}

TEST(an_operation_of_penstock_refuses_a_value_where_none_is_meant)
{
    refused_with("POST /bkt?penstock-purge&prefix=a&dry-run=false",
                 S("The parameter dry-run takes no value: leave the value out."));
    refused_with("POST /bkt?penstock-pin=train/",
                 S("The parameter penstock-pin takes no value: leave the value out."));
    refused_with("POST /bkt?penstock-batch=1",
                 S("The parameter penstock-batch takes no value: leave the value out."));
    refused_with("POST /bkt?penstock-purge&prefix=a&prefix=b",
                 S("The parameter prefix may be given only once."));
    refused_with("POST /bkt?penstock-purge&penstock-purge",
                 S("The parameter penstock-purge may be given only once."));
}

TEST(no_origin_hears_of_a_job)
{
    static const char *const lines[] = {
        "GET /bkt/k?penstock-job", "PUT /bkt?penstock-job", "HEAD /bkt?penstock-job=1",
        "DELETE /bkt/k?penstock-job=1", "POST /?penstock-job", "GET /?penstock-job",
    };
    struct s3_request request;
    ok(read_line("POST /bkt?penstock-job", &request) == OK && request.op == S3_JOB_START);
    ok(read_line("GET /bkt?penstock-job", &request) == OK && request.op == S3_JOB_REPORT);
    ok(read_line("GET /bkt?penstock-job=01", &request) == OK && request.op == S3_JOB_REPORT);
    ok(read_line("DELETE /bkt?penstock-job=01", &request) == OK && request.op == S3_JOB_CANCEL);
    for (size_t i = 0; i < countof(lines); i++)
        if (read_line(lines[i], &request) != ERR_BAD_METHOD)
            fail_msg("%s", lines[i]);
    refused_with("POST /bkt?penstock-job=1",
                 S("The parameter penstock-job takes no value: leave the value out."));
    refused_with("GET /bkt?penstock-job=1&prefix=a",
                 S("GET ?penstock-job has no parameter prefix. It has none."));
}

TEST(what_is_not_known_goes_to_the_origin_and_never_to_the_cache)
{
    static const struct { const char *line, *name; } rows[] = {
        { "GET /?foo", "OtherServiceGet" }, { "GET /bkt?foo=bar", "OtherBucketGet" },
        { "GET /bkt?list-type=1", "OtherBucketGet" }, { "GET /bkt?list-type", "OtherBucketGet" },
        { "HEAD /bkt?location", "OtherBucketHead" }, { "PUT /bkt?inventory", "OtherBucketPut" },
        { "POST /bkt?foo", "OtherBucketPost" }, { "DELETE /bkt?acl", "OtherBucketDelete" },
        { "GET /bkt/k?append", "OtherObjectGet" }, { "HEAD /bkt/k?acl", "OtherObjectHead" },
        { "PUT /bkt/k?uploadId=u", "OtherObjectPut" }, { "PUT /bkt/k?ACL", "OtherObjectPut" },
        { "PUT /bkt/k?uploads", "OtherObjectPut" }, { "POST /bkt/k", "OtherObjectPost" },
        { "DELETE /bkt/k?acl", "OtherObjectDelete" }, { "GET /bkt/k?%61cl", "GetObjectAcl" },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct s3_request request;
        enum err e = read_line(rows[i].line, &request);
        if (e)
            fail_msg("%s: %s", rows[i].line, err_name(e));
        same(slice_of(s3_op_name(request.op)), slice_of(rows[i].name));
        ok(s3_operation(request.op)->route == S3_PASS || i == countof(rows) - 1);
    }
}

/* radosgw takes an empty uploadId for none, and the write for one of the whole object: it must not
 * pass for one that changes nothing. */
TEST(a_parameter_that_names_nothing_makes_no_request_for_a_part_of_an_upload)
{
    static const struct { const char *line; enum s3_op op; } rows[] = {
        { "DELETE /bkt/k?uploadId=", S3_OTHER_OBJECT_DELETE },
        { "DELETE /bkt/k?uploadId", S3_OTHER_OBJECT_DELETE },
        { "PUT /bkt/k?uploadId=&partNumber=1", S3_OTHER_OBJECT_PUT },
        { "PUT /bkt/k?uploadId=u&partNumber=", S3_OTHER_OBJECT_PUT },
        { "PUT /bkt/k?uploadId=u&partNumber", S3_OTHER_OBJECT_PUT },
        { "POST /bkt/k?uploadId=", S3_OTHER_OBJECT_POST },
        { "POST /bkt/k?select", S3_OTHER_OBJECT_POST },
        { "POST /bkt/k?select&select-type=1", S3_OTHER_OBJECT_POST },
        { "POST /bkt/k?select&select-type=2", S3_SELECT_OBJECT },
        { "PUT /bkt/k?uploadId=u&partNumber=1", S3_UPLOAD_PART },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct s3_request request;
        ok(read_line(rows[i].line, &request) == OK);
        if (request.op != rows[i].op)
            fail_msg("%s: %s", rows[i].line, s3_op_name(request.op));
    }
    struct s3_request request;
    ok(read_with("PUT /bkt/k?uploadId=&partNumber=1", "x-amz-copy-source: b/k\r\n", &request) == OK);
    ok(s3_operation(request.op)->mutates != S3_MUTATES_NOTHING);
}

/* A policy that allows the one must not open the other. */
TEST(two_operations_in_one_request_are_none)
{
    struct s3_request request;
    ok(read_line("GET /bkt/k?acl&tagging", &request) == ERR_BAD_ARGUMENT);
    same(request.detail, S("Conflicting query string parameters: \"tagging\" and \"acl\""));
    ok(read_line("GET /bkt?inventory&id=1&acl", &request) == ERR_BAD_ARGUMENT);
    ok(read_line("GET /bkt?list-type=2&versions", &request) == ERR_BAD_ARGUMENT);
    ok(read_line("PUT /bkt/k?uploadId=u&partNumber=1&acl", &request) == ERR_BAD_ARGUMENT);
    ok(read_line("GET /bkt?inventory&id=1", &request) == OK);
    ok(read_line("GET /bkt?acl&id=1", &request) == OK);
}

TEST(a_copy_is_told_by_its_header)
{
    struct s3_request request;
    ok(read_with("PUT /bkt/k", "X-Amz-Copy-Source: /b/k\r\n", &request) == OK);
    ok(request.op == S3_COPY_OBJECT);
    ok(read_line("PUT /bkt/k?x-amz-%63opy-source=a", &request) == OK);
    ok(request.op == S3_COPY_OBJECT);
    ok(read_with("PUT /bkt/k?partNumber=1&uploadId=u", "x-amz-copy-source: b/k\r\n", &request) == OK);
    ok(request.op == S3_UPLOAD_PART_COPY);
    ok(read_with("PUT /bkt/k?acl", "x-amz-copy-source: b/k\r\n", &request) == OK);
    ok(request.op == S3_PUT_OBJECT_ACL);
}

static struct s3_source source_of(const char *value)
{
    struct s3_request request;
    slice header = arena_printf(&arena, "x-amz-copy-source: %s\r\n", value);
    ok(read_with("PUT /bkt/k", header.ptr, &request) == OK);
    return request.source;
}

TEST(a_copy_says_where_from)
{
    static const char *const sources[] = { "/src/a%20b/c", "src/a%20b/c", "%2Fsrc%2Fa%20b%2Fc",
                                           "src/a%20b%2Fc", "src/a%20b/c?versionId=v%2B1" };
    static const char *const none[] = { "", "src", "/", "src/", "a%/b", "arn:aws:s3:::x/y/z", "!/k",
                                       "src/a?/../b", "src/a?versionId=", "src/a?versionId=1/../b",
                                       "src/a?versionId=1%2F..", "src/a?x=1&versionId=1" };
    for (size_t i = 0; i < countof(sources); i++) {
        struct s3_source source = source_of(sources[i]);
        same(source.bucket, S("src"));
        same(source.key, S("a b/c"));
        ok(source.version.len == (i == 4 ? 3 : 0));
    }
    for (size_t i = 0; i < countof(none); i++)
        ok(source_of(none[i]).bucket.len == 0);
}

TEST(what_is_renamed_lies_in_the_same_bucket_whether_it_says_so_or_not)
{
    struct s3_request request;
    ok(read_with("PUT /bkt/k?renameObject", "x-amz-rename-source: /a%20b/c\r\n", &request) == OK);
    same(request.source.bucket, S("bkt"));
    same(request.source.key, S("a b/c"));
    ok(request.sourced && !request.source.inner.len);
    ok(read_with("PUT /bkt/k?renameObject", "x-amz-rename-source: bkt/c\r\n", &request) == OK);
    same(request.source.key, S("bkt/c"));
    same(request.source.inner, S("c"));
    ok(read_with("PUT /bkt/k?renameObject", "x-amz-rename-source: %x\r\n", &request) == OK);
    ok(request.sourced && !request.source.key.len);
    ok(read_line("PUT /bkt/k?renameObject", &request) == OK && !request.sourced);
}

TEST(a_form_is_a_PostObject_whatever_stands_in_its_query)
{
    static const char form[] = "Content-Type: Multipart/Form-Data; boundary=x\r\n";
    struct s3_request request;
    ok(read_with("POST /bkt", form, &request) == OK && request.op == S3_POST_OBJECT);
    ok(read_with("POST /bkt?never-heard-of", form, &request) == OK);
    ok(request.op == S3_POST_OBJECT);
    ok(read_with("POST /bkt?metadataTable", form, &request) == OK && request.op == S3_POST_OBJECT);
    ok(read_with("POST /bkt?delete", form, &request) == OK && request.op == S3_DELETE_OBJECTS);
    ok(read_with("POST /bkt/k?never-heard-of", form, &request) == ERR_BAD_METHOD);
    ok(read_with("POST /bkt/k?restore", form, &request) == ERR_BAD_METHOD);
    ok(read_with("POST /bkt/k?select&select-type=2", form, &request) == ERR_BAD_METHOD);
    ok(read_with("POST /bkt/k?uploadId=u", form, &request) == ERR_BAD_METHOD);
    ok(read_with("POST /bkt/k?uploads", "Content-Type: multipart/form-data\r\n"
                 "Content-Length: 5\r\n", &request) == ERR_BAD_METHOD);
    ok(read_with("POST /bkt/k?uploads", form, &request) == OK && request.op == S3_CREATE_UPLOAD);
}

TEST(amz_parameters_of_a_write_are_headers)
{
    struct s3_request request;
    ok(read_line("PUT /bkt/k?X-Amz-Acl=private&x-id=PutObject&x-amz-%6deta-A=b%20c&X-Amz-Date=D"
                 "&x-amz-content-sha256=x&x-amz-tagging", &request) == OK);
    ok(request.query_field_count == 3);
    same(request.query_fields[0].name, S("X-Amz-Acl"));
    same(request.query_fields[0].value, S("private"));
    same(request.query_fields[1].name, S("x-amz-meta-A"));
    same(request.query_fields[1].value, S("b c"));
    ok(request.query_fields[2].value.len == 0);
    ok(read_line("PUT /bkt/k?x-amz-acl=a&X-Amz-Acl=a", &request) == ERR_BAD_ARGUMENT);
    ok(read_with("PUT /bkt/k?x-amz-acl=a", "X-Amz-ACL: b\r\n", &request) == ERR_BAD_ARGUMENT);
    ok(read_line("GET /bkt/k?x-amz-checksum-mode=ENABLED", &request) == OK);
    ok(request.query_field_count == 1 && request.checksum_mode && !request.pass);
    ok(read_line("GET /bkt/k?x-amz-request-payer=requester", &request) == OK && request.pass);
}

TEST(methods_that_s3_has_not_got_there_are_not_allowed)
{
    static const char *const lines[] = {
        "PATCH /bkt/k", "TRACE /bkt/k", "CONNECT /bkt", "get /bkt/k", "OPTIONS /", "FOO /",
        "PUT /", "POST /", "DELETE /",
    };
    struct s3_request request;
    for (size_t i = 0; i < countof(lines); i++)
        ok(read_line(lines[i], &request) == ERR_BAD_METHOD);
}

TEST(what_only_the_origin_can_judge_is_not_asked_of_a_cache)
{
    static const char *const theirs[] = {
        "x-amz-request-payer: requester", "X-Amz-Expected-Bucket-Owner: 111122223333",
        "x-amz-server-side-encryption-customer-algorithm: AES256", "Origin: http://a.example",
        "x-amz-unheard-of: 1", "x-amz-meta-a: 1", "x-amz-: 1",
    };
    static const char *const ours[] = {
        "x-amz-date: x", "x-amz-content-sha256: x", "x-amz-security-token: x", "x-other: 1",
        "X-Amz-Checksum-Mode: ENABLED", "x-amz-sdk-request: 1", "x-amz-user-agent: x",
        "amz-sdk-invocation-id: 1", "x-amzn-trace-id: 1", "Range: bytes=0-1", "If-Match: a",
    };
    static const char *const lines[] = { "GET /bkt/k", "HEAD /bkt/k" };
    struct s3_request request;
    for (size_t l = 0; l < countof(lines); l++) {
        for (size_t i = 0; i < countof(theirs); i++) {
            slice header = arena_printf(&arena, "%s\r\n", theirs[i]);
            ok(read_with(lines[l], header.ptr, &request) == OK && request.pass);
        }
        for (size_t i = 0; i < countof(ours); i++) {
            slice header = arena_printf(&arena, "%s\r\n", ours[i]);
            ok(read_with(lines[l], header.ptr, &request) == OK && !request.pass);
        }
    }
    ok(read_line("GET /bkt/k?versionId=1", &request) == OK && !request.pass);
    ok(read_line("GET /bkt/k?versionId=", &request) == OK && request.pass);
    ok(read_line("GET /bkt/k?versionId", &request) == OK && request.pass);
    ok(read_line("GET /bkt/k?partNumber=10000", &request) == OK && !request.pass);
    ok(request.part == 10000);
    static const char *const none[] = { "", "=", "=0", "=10001", "=-1", "=a", "=1a" };
    for (size_t i = 0; i < countof(none); i++)
        ok(read_line(arena_printf(&arena, "GET /bkt/k?partNumber%s", none[i]).ptr, &request) == OK &&
           request.pass);
    ok(read_with("GET /bkt/k?partNumber=1", "range: bytes=0-1\r\n", &request) == OK && request.pass);
    ok(read_line("GET /bkt/k?response-expires=1", &request) == OK && !request.pass);
    ok(read_with("PUT /bkt/k", "x-amz-meta-a: 1\r\n", &request) == OK && !request.pass);
    ok(read_with("PUT /bkt/k", "x-amz-acl: private\r\n", &request) == OK && !request.pass &&
       !request.foreign.ptr);
    ok(read_with("PUT /bkt/k", "x-amz-unheard-of: 1\r\n", &request) == OK && request.pass);
    same(request.foreign, S("x-amz-unheard-of"));
}

TEST(a_key_is_decoded_once_and_normalised_never)
{
    static const struct { const char *path; slice key; } rows[] = {
        { "/bkt/a%20b+c", { "a b+c", 5 } }, { "/bkt//a", { "/a", 2 } },
        { "/bkt/./a/../b", { "./a/../b", 8 } }, { "/bkt/a%2Fb%252F", { "a/b%2F", 6 } },
        { "/bkt/%C3%A9", { "\xc3\xa9", 2 } }, { "/bkt/%ff", { "\xff", 1 } },
        { "/bkt/a/", { "a/", 2 } },
        { "/bkt/%2e%2e", { "..", 2 } }, { "/b%6Bt/x", { "x", 1 } },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        char line[64];
        snprintf(line, sizeof(line), "GET %s", rows[i].path);
        struct s3_request request;
        ok(read_line(line, &request) == OK);
        same(request.bucket, S("bkt"));
        same(request.key, rows[i].key);
        same(request.raw_path, slice_of(rows[i].path));
    }
}

TEST(a_host_may_name_the_bucket)
{
    static const struct { const char *host; slice bucket; } rows[] = {
        { "bkt.localhost:9000", { "bkt", 3 } }, { "BKT.LocalHost", { "bkt", 3 } },
        { "a.b.s3.example", { "a.b", 3 } }, { "localhost:9000", { "", 0 } },
        { ".localhost", { "", 0 } }, { "127.0.0.1:9000", { "", 0 } }, { "[::1]:9000", { "", 0 } },
        { "notlocalhost", { "", 0 } }, { "bkt.localhost.evil", { "", 0 } }, { "", { "", 0 } },
    };
    for (size_t i = 0; i < countof(rows); i++)
        same(s3_host_bucket(&arena, slice_of(rows[i].host), S("localhost, s3.example")),
             rows[i].bucket);
    struct s3_request request;
    ok(request_head_scan(S("GET /a/b HTTP/1.1\r\nHost: bkt.localhost:1\r\n\r\n"), &head, NULL) ==
       OK);
    ok(s3_request_read(&arena, &head, S("localhost"), S(""), &request) == OK);
    same(request.bucket, S("bkt"));
    same(request.key, S("a/b"));
    ok(request_head_scan(S("GET / HTTP/1.1\r\nHost: bkt.localhost:1\r\n\r\n"), &head, NULL) == OK);
    ok(s3_request_read(&arena, &head, S("localhost"), S(""), &request) == OK);
    ok(request.op == S3_LIST_OBJECTS);
    ok(request_head_scan(S("GET / HTTP/1.1\r\nHost: -a.localhost\r\n\r\n"), &head, NULL) == OK);
    ok(s3_request_read(&arena, &head, S("localhost"), S(""), &request) == ERR_BAD_BUCKET);
}

TEST(a_parameter_that_the_row_does_not_know_is_told)
{
    static const struct { const char *line; bool unknown; } rows[] = {
        { "GET /bkt/k", false }, { "GET /bkt/k?versionId=1&x-id=GetObject", false },
        { "GET /bkt/k?tagging", false }, { "GET /bkt/k?tagging&versionId=1", false },
        { "GET /bkt/k?tagging&foo", true }, { "GET /bkt?list-type=2&prefix=a&foo=1", true },
        { "PUT /bkt/k?uploadId=u&partNumber=1", false },
        { "PUT /bkt/k?uploadId=u&partNumber=1&append", true },
        { "POST /bkt/k?select&select-type=2", false }, { "PUT /bkt/k?x-amz-acl=private", false },
        { "OPTIONS /bkt/k?foo", false },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct s3_request request;
        ok(read_line(rows[i].line, &request) == OK);
        if ((request.unknown != NULL) != rows[i].unknown)
            fail_msg("%s", rows[i].line);
    }
}

TEST(a_domain_below_another_is_itself_and_no_bucket)
{
    static const char *const orders[] = { "s3.example.com,example.com", "example.com, s3.example.com" };
    for (size_t i = 0; i < countof(orders); i++) {
        slice domains = slice_of(orders[i]);
        same(s3_host_bucket(&arena, S("s3.example.com:9000"), domains), S(""));
        same(s3_host_bucket(&arena, S("bkt.s3.example.com"), domains), S("bkt"));
        same(s3_host_bucket(&arena, S("a.b.s3.example.com"), domains), S("a.b"));
        same(s3_host_bucket(&arena, S("bkt.example.com"), domains), S("bkt"));
    }
}

TEST(a_key_of_1024_bytes_passes_and_one_more_does_not)
{
    char line[2048] = "GET /bkt/";
    memset(line + 9, 'k', 1024);
    struct s3_request request;
    ok(read_line(line, &request) == OK && request.key.len == 1024);
    strcat(line, "%6b");
    ok(read_line(line, &request) == ERR_KEY_TOO_LONG);
}

TEST(bad_paths_and_parameters_are_bad_uris)
{
    struct s3_request request;
    ok(read_line("GET /bkt/%0", &request) == ERR_BAD_URI);
    ok(read_line("GET /bkt/a%00", &request) == ERR_BAD_URI);
    ok(read_line("GET /b%zzt/a", &request) == ERR_BAD_URI);
    ok(read_line("GET /bkt?%=1", &request) == ERR_BAD_URI);
    ok(read_line("GET /bkt?prefix=%1", &request) == ERR_BAD_URI);
    char line[1024] = "GET /bkt?a";
    for (int i = 0; i < 100; i++)
        strcat(line, "&a");
    ok(read_line(line, &request) == ERR_BAD_URI);
    ok(read_line("GET /bkt?prefix=a&pref%69x=b", &request) == ERR_BAD_ARGUMENT);
}

TEST(bucket_names_are_judged_loosely_but_judged)
{
    static const char *const bad[] = {
        "GET //k", "GET /ab", "GET /_/health", "GET /_bucket", "GET /...", "GET /.ab/k",
        "GET /-ab", "GET /a%2Fbc/k", "GET /a!b", "GET /caf%C3%A9/k",
    };
    struct s3_request request;
    for (size_t i = 0; i < countof(bad); i++)
        ok(read_line(bad[i], &request) == ERR_BAD_BUCKET);
    ok(read_line("GET /ab/k", &request) == ERR_BAD_BUCKET);
    ok(slice_starts(request.detail, S("The specified bucket is not valid: 'ab'. A bucket name must "
                                     "have 3 to")));
    ok(read_line("GET /My_Bucket.x-1/k", &request) == OK);
    ok(read_line("GET /tenant:bucket/k", &request) == OK);
    ok(read_line("GET /:of-no-tenant/k", &request) == OK);
    char line[128] = "GET /";
    memset(line + 5, 'b', 63);
    ok(read_line(line, &request) == OK);
    strcat(line, "b");
    ok(read_line(line, &request) == ERR_BAD_BUCKET);
}

TEST(parameters_are_decoded_and_a_missing_value_is_told_from_an_empty_one)
{
    struct s3_request request;
    ok(read_line("GET /bkt?prefix=a%2Bb+c&marker=&delimiter", &request) == OK);
    same(s3_param_get(&request, S("prefix"))->value, S("a+b c"));
    ok(s3_param_get(&request, S("marker"))->value.ptr != NULL);
    ok(s3_param_get(&request, S("delimiter"))->value.ptr == NULL);
    ok(s3_param_get(&request, S("Prefix")) == NULL);
    ok(request.param_count == 3);
}

TEST(what_an_operation_changes_stands_in_its_row)
{
    ok(s3_operation(S3_GET_OBJECT)->mutates == S3_MUTATES_NOTHING);
    ok(s3_operation(S3_PUT_OBJECT)->mutates == S3_MUTATES_KEY);
    ok(s3_operation(S3_DELETE_OBJECTS)->mutates == S3_MUTATES_KEYS);
}

static struct s3_range range_of(const char *value)
{
    struct s3_request request;
    char line[128];
    snprintf(line, sizeof(line), "Range: %s\r\n", value);
    ok(read_with("GET /bkt/k", line, &request) == OK);
    return request.range;
}

TEST(a_range_is_read_in_its_three_forms)
{
    struct s3_range r = range_of("bytes=5-9");
    ok(r.kind == RANGE_SPAN && r.first == 5 && r.last == 9);
    r = range_of("Bytes=5-");
    ok(r.kind == RANGE_SPAN && r.first == 5 && r.last == UINT64_MAX);
    r = range_of("bytes=-7");
    ok(r.kind == RANGE_SUFFIX && r.suffix == 7);
    r = range_of("bytes=0-99999999999999999999999");
    ok(r.kind == RANGE_SPAN && r.first == 0 && r.last == UINT64_MAX);
}

TEST(a_malformed_range_or_several_are_none)
{
    static const char *const none[] = { "", "bytes", "bytes=", "bytes=-", "bytes=5", "bytes=9-5",
                                        "bytes=a-b", "bytes=1-b", "bytes=-b", "bytes=0-1,3-4", "bytes= -1",
                                        "items=0-1", "bytes=+1-2", "bytes=1 -2", "bytes=0--1" };
    for (size_t i = 0; i < countof(none); i++)
        ok(range_of(none[i]).kind == RANGE_NONE);
    ok(range_of("bytes=0-1\r\nRange: bytes=3-4").kind == RANGE_NONE);
}

static bool resolves(const char *value, uint64_t size, uint64_t first, uint64_t end, bool partial)
{
    struct s3_range range = range_of(value);
    uint64_t got_first, got_end;
    bool got_partial;
    return s3_range_resolve(&range, size, &got_first, &got_end, &got_partial) == OK &&
           got_first == first && got_end == end && got_partial == partial;
}

static bool out_of(const char *value, uint64_t size)
{
    struct s3_range range = range_of(value);
    uint64_t first, end;
    bool partial;
    return s3_range_resolve(&range, size, &first, &end, &partial) == ERR_BAD_RANGE;
}

TEST(an_answer_says_which_bytes_of_how_many_it_has)
{
    static const char *const bad[] = { "", "bytes", "bytes 0-9", "bytes 0-9/*", "bytes */10",
                                       "bytes 0-10/10", "bytes 5-4/10", "units 0-9/10",
                                       "bytes=0-9/10", "bytes 0-9/10 ", "bytes -9/10" };
    uint64_t first, last, size;
    ok(s3_content_range_read(S("bytes 5-9/20"), &first, &last, &size));
    ok(first == 5 && last == 9 && size == 20);
    ok(s3_content_range_read(S("Bytes 0-0/1"), &first, &last, &size));
    for (size_t i = 0; i < countof(bad); i++)
        ok(!s3_content_range_read(slice_of(bad[i]), &first, &last, &size));
}

TEST(a_range_is_cut_down_to_its_object)
{
    ok(resolves("", 10, 0, 10, false) && resolves("", 0, 0, 0, false));
    ok(resolves("bytes=0-0", 10, 0, 1, true) && resolves("bytes=2-100", 10, 2, 10, true));
    ok(resolves("bytes=9-", 10, 9, 10, true) && resolves("bytes=-3", 10, 7, 10, true));
    ok(resolves("bytes=-30", 10, 0, 10, true) && resolves("bytes=0-9", 10, 0, 10, true));
    ok(resolves("bytes=0-18446744073709551615", UINT64_MAX, 0, UINT64_MAX, true));
    ok(out_of("bytes=10-", 10) && out_of("bytes=10-11", 10) && out_of("bytes=-0", 10));
    ok(out_of("bytes=0-", 0) && out_of("bytes=-0", 0) && resolves("bytes=-5", 0, 0, 0, false));
}

#define NOON 1700000000
static slice own_etag = { "\"e1\"", 4 };    /* of the object */
static const char noon[] = "Tue, 14 Nov 2023 22:13:20 GMT";
static const char later[] = "Wed, 15 Nov 2023 22:13:20 GMT";
static const char earlier[] = "Mon, 13 Nov 2023 22:13:20 GMT";

static enum err judge(const char *headers, bool *ret_use_range)
{
    struct s3_request request;
    ok(read_with("GET /bkt/k", headers, &request) == OK);
    return s3_conditions_judge(&request.conditions, own_etag, NOON, ret_use_range);
}

static enum err judged(const char *name, const char *value)
{
    char line[256];
    bool use_range;
    snprintf(line, sizeof(line), "%s: %s\r\n", name, value);
    return judge(line, &use_range);
}

TEST(etags_are_compared_with_quotes_or_without)
{
    ok(judged("If-Match", "\"e1\"") == OK && judged("If-Match", "e1") == OK);
    ok(judged("If-Match", "*") == OK && judged("If-Match", "\"a\", \"e1\"") == OK);
    ok(judged("If-Match", "\"a,\"e1\"") == ERR_PRECONDITION);
    ok(judged("If-Match", "\"e1\" , \"b,c\"") == OK);
    ok(judged("If-Match", "\"b,e1\"") == ERR_PRECONDITION);
    ok(judged("If-Match", "a") == ERR_PRECONDITION && judged("If-Match", "") == ERR_PRECONDITION);
    ok(judged("If-Match", "W/\"e1\"") == ERR_PRECONDITION);
    ok(judged("If-Match", "\"e1") == ERR_PRECONDITION);
    ok(judged("If-Match", "a\r\nIf-Match: \"e1\"") == OK);
    ok(judged("If-None-Match", "\"e1\"") == ERR_NOT_MODIFIED && judged("If-None-Match", "a") == OK);
    ok(judged("If-None-Match", "W/\"e1\"") == ERR_NOT_MODIFIED);
    ok(judged("If-None-Match", "a\r\nIf-None-Match: b\r\nIf-None-Match: e1") == ERR_NOT_MODIFIED);
}

/* RFC 9110, section 8.8.3.2 */
TEST(a_weak_etag_matches_only_in_a_weak_comparison)
{
    bool use_range;
    own_etag = S("W/\"e1\"");
    ok(judged("If-None-Match", "W/\"e1\"") == ERR_NOT_MODIFIED);
    ok(judged("If-None-Match", "\"e1\"") == ERR_NOT_MODIFIED);
    ok(judged("If-None-Match", "W/\"e2\"") == OK);
    ok(judged("If-Match", "W/\"e1\"") == ERR_PRECONDITION);
    ok(judged("If-Match", "\"e1\"") == ERR_PRECONDITION && judged("If-Match", "*") == OK);
    ok(judge("If-Range: W/\"e1\"\r\n", &use_range) == OK && !use_range);
    own_etag = S("\"e1\"");
}

TEST(dates_decide_only_where_no_etag_does)
{
    ok(judged("If-Unmodified-Since", noon) == OK);
    ok(judged("If-Unmodified-Since", earlier) == ERR_PRECONDITION);
    ok(judged("If-Modified-Since", noon) == ERR_NOT_MODIFIED);
    ok(judged("If-Modified-Since", later) == ERR_NOT_MODIFIED);
    ok(judged("If-Modified-Since", earlier) == OK);
    ok(judged("If-Modified-Since", "yesterday") == OK);
    bool use_range;
    ok(judge("If-Match: e1\r\nIf-Unmodified-Since: Mon, 13 Nov 2023 22:13:20 GMT\r\n",
             &use_range) == OK);
    ok(judge("If-None-Match: a\r\nIf-Modified-Since: Wed, 15 Nov 2023 22:13:20 GMT\r\n",
             &use_range) == OK);
    ok(judge("If-Match: a\r\nIf-None-Match: e1\r\n", &use_range) == ERR_PRECONDITION);
}

TEST(if_range_keeps_the_range_only_for_the_same_version)
{
    static const struct { const char *value; bool use; } rows[] = {
        { "\"e1\"", true }, { "e1", true }, { "\"e2\"", false }, { "W/\"e1\"", false },
        { noon, true }, { later, false }, { earlier, false }, { "", false },
    };
    bool use_range = false;
    ok(judge("", &use_range) == OK && use_range);
    for (size_t i = 0; i < countof(rows); i++) {
        char line[128];
        snprintf(line, sizeof(line), "If-Range: %s\r\n", rows[i].value);
        ok(judge(line, &use_range) == OK && use_range == rows[i].use);
    }
}

TEST(wishes_about_caches_and_checksums_are_read)
{
    struct s3_request request;
    ok(read_line("GET /bkt/k", &request) == OK);
    ok(!request.no_cache && !request.checksum_mode);
    ok(read_with("GET /bkt/k", "Cache-Control: foo, max-stale\r\nCache-Control: Max-Age=0\r\n"
                 "x-amz-checksum-mode: enabled\r\n", &request) == OK);
    ok(request.no_cache && request.checksum_mode);
    ok(read_with("GET /bkt/k", "Cache-Control: foo, No-Cache\r\n", &request) == OK);
    ok(request.no_cache);
}

#define UNIT(test) cmocka_unit_test_teardown(test, forget)
/* It would be judged by one, and an origin may look at the other; some read '_' as '-'. */
TEST(what_is_judged_is_said_once_and_under_one_name)
{
    static const char *const bad[] = {
        "X-Amz-Copy-Source: /a/b\r\nx-amz-copy-source: /c/d\r\n",
        "x-amz-acl: private\r\nx-amz-acl: public-read\r\n",
        "Content-MD5: a\r\ncontent-md5: b\r\n",
        "x-amz-decoded-content-length: 1\r\nx-amz-decoded-content-length: 2\r\n",
        "x-amz-trailer: a\r\nx-amz-trailer: b\r\n",
        "x-amz-rename-source: a\r\nx-amz-rename-source: b\r\n",
        "x-amz-copy_source: /a/b\r\n", "x-amz_acl: public-read\r\n",
        "X_Amz_Acl: public-read\r\n",
    };
    struct s3_request request;
    for (size_t i = 0; i < countof(bad); i++)
        if (read_with("PUT /bkt/k", bad[i], &request) != ERR_BAD_ARGUMENT)
            fail_msg("%s", bad[i]);
    ok(read_line("PUT /bkt/k?x-amz-copy_source=%2Fa%2Fb", &request) == ERR_BAD_ARGUMENT);
    ok(read_with("PUT /bkt/k", "x-amz-meta-a_b: 1\r\nx-amz-meta-a_b: 2\r\nmy_field: x\r\n"
                 "X-Amz-Meta-a.b!|~_: 3\r\n", &request) == OK);
    ok(read_with("GET /bkt/k?attributes", "x-amz-object-attributes: ETag\r\n"
                 "x-amz-object-attributes: Checksum\r\n", &request) == OK);
}

TEST(who_says_something_twice_is_told_what)
{
    struct s3_request request;
    ok(read_line("GET /bkt?prefix=a&prefix=b", &request) == ERR_BAD_ARGUMENT);
    same(request.detail, S("The parameter prefix may be given only once."));
    ok(read_with("PUT /bkt/k?x-amz-acl=a", "X-Amz-ACL: b\r\n", &request) == ERR_BAD_ARGUMENT);
    same(request.detail, S("x-amz-acl must not be both a header and a query parameter. Send it as one of "
                           "the two."));
    ok(read_with("PUT /bkt/k", "x-amz-acl: a\r\nx-amz-acl: b\r\n", &request) == ERR_BAD_ARGUMENT);
    same(request.detail, S("The header x-amz-acl may be given only once."));
    ok(read_with("PUT /bkt/k", "x-amz_acl: a\r\n", &request) == ERR_BAD_ARGUMENT);
    same(request.detail, S("The header x-amz_acl must be written with '-', not '_'."));
}

RUN(UNIT(every_operation_is_known_by_its_line),
    UNIT(who_says_something_twice_is_told_what),
    UNIT(every_row_is_what_its_selector_asks_for), UNIT(what_a_row_says_makes_sense),
    UNIT(no_origin_hears_of_a_batch), UNIT(no_origin_hears_of_a_job),
    UNIT(no_origin_hears_of_a_question_about_the_cache),
    UNIT(no_origin_hears_of_a_purge),
    UNIT(no_origin_hears_of_a_pin),
    UNIT(an_operation_of_penstock_refuses_a_parameter_that_it_does_not_know),
    UNIT(an_operation_of_penstock_refuses_a_value_where_none_is_meant),
    UNIT(what_is_not_known_goes_to_the_origin_and_never_to_the_cache),
    UNIT(a_parameter_that_names_nothing_makes_no_request_for_a_part_of_an_upload),
    UNIT(two_operations_in_one_request_are_none), UNIT(a_copy_is_told_by_its_header),
    UNIT(a_copy_says_where_from),
    UNIT(what_is_renamed_lies_in_the_same_bucket_whether_it_says_so_or_not),
    UNIT(a_form_is_a_PostObject_whatever_stands_in_its_query),
    UNIT(amz_parameters_of_a_write_are_headers),
    UNIT(methods_that_s3_has_not_got_there_are_not_allowed),
    UNIT(what_only_the_origin_can_judge_is_not_asked_of_a_cache),
    UNIT(a_key_is_decoded_once_and_normalised_never),
    UNIT(a_host_may_name_the_bucket), UNIT(a_domain_below_another_is_itself_and_no_bucket),
    UNIT(a_parameter_that_the_row_does_not_know_is_told),
    UNIT(a_key_of_1024_bytes_passes_and_one_more_does_not),
    UNIT(bad_paths_and_parameters_are_bad_uris),
    UNIT(bucket_names_are_judged_loosely_but_judged),
    UNIT(parameters_are_decoded_and_a_missing_value_is_told_from_an_empty_one),
    UNIT(what_an_operation_changes_stands_in_its_row), UNIT(a_range_is_read_in_its_three_forms),
    UNIT(a_malformed_range_or_several_are_none),
    UNIT(an_answer_says_which_bytes_of_how_many_it_has), UNIT(a_range_is_cut_down_to_its_object),
    UNIT(etags_are_compared_with_quotes_or_without),
    UNIT(a_weak_etag_matches_only_in_a_weak_comparison), UNIT(dates_decide_only_where_no_etag_does),
    UNIT(if_range_keeps_the_range_only_for_the_same_version),
    UNIT(wishes_about_caches_and_checksums_are_read),
    UNIT(what_is_judged_is_said_once_and_under_one_name))
