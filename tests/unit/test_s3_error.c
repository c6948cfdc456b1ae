/* test_s3_error.c - errors as clients see them. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "s3/error.h"

TEST(every_err_of_a_request_has_a_code_of_its_own)
{
    for (enum err err = ERR_BAD_HEAD; err <= ERR_SLOW_DOWN; err++) {
        const struct s3_error *error = s3_error_of(err);
        ok(error->status >= 300 && error->status < 600);
        ok(slice_of(error->code).len && slice_of(error->message).len);
        ok(error != s3_error_of(ERR_INTERNAL));
    }
    ok(s3_error_of(ERR_WAIT) == s3_error_of(ERR_INTERNAL));
    ok(s3_error_of(ERR_INTERNAL)->status == 500);
}

TEST(a_head_that_is_refused_ends_the_connection)
{
    ok(s3_error_of(ERR_BAD_HEAD)->close && s3_error_of(ERR_BAD_HEAD)->status == 400);
    ok(s3_error_of(ERR_SIGNATURE)->close && s3_error_of(ERR_SIGNATURE)->status == 403);
    ok(!s3_error_of(ERR_NO_SUCH_KEY)->close);
}

TEST(an_origins_code_means_what_ours_means)
{
    ok(s3_error_from(404, S("NoSuchKey")) == ERR_NO_SUCH_KEY);
    ok(s3_error_from(404, S("NoSuchBucket")) == ERR_NO_SUCH_BUCKET);
    ok(s3_error_from(403, S("AccessDenied")) == ERR_DENIED);
    ok(s3_error_from(503, S("SlowDown")) == ERR_SLOW_DOWN);
    ok(s3_error_from(412, S("PreconditionFailed")) == ERR_PRECONDITION);
    ok(s3_error_from(418, S("Teapot")) == ERR_ORIGIN_STATUS);
}

TEST(an_origins_quarrel_with_our_signature_is_not_the_clients)
{
    ok(s3_error_from(403, S("SignatureDoesNotMatch")) == ERR_ORIGIN_STATUS);
    ok(s3_error_from(403, S("RequestTimeTooSkewed")) == ERR_ORIGIN_STATUS);
    ok(s3_error_from(500, S("InternalError")) == ERR_ORIGIN_STATUS);
}

TEST(without_a_code_the_status_speaks)
{
    static const struct { int status; enum err err; } rows[] = {
        { 304, ERR_NOT_MODIFIED }, { 401, ERR_DENIED }, { 403, ERR_DENIED },
        { 404, ERR_NO_SUCH_KEY }, { 405, ERR_BAD_METHOD }, { 412, ERR_PRECONDITION },
        { 416, ERR_BAD_RANGE }, { 429, ERR_SLOW_DOWN }, { 503, ERR_SLOW_DOWN },
        { 500, ERR_ORIGIN_STATUS }, { 302, ERR_ORIGIN_STATUS },
    };
    for (size_t i = 0; i < countof(rows); i++)
        ok(s3_error_from(rows[i].status, S("")) == rows[i].err);
}

TEST(the_document_escapes_what_the_client_sent)
{
    struct arena arena = { 0 };
    same(s3_error_xml(&arena, ERR_NO_SUCH_KEY, &(struct s3_fault){ 0 }, S("/b/<a>&\"'\r"), S("R1")),
         S("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>NoSuchKey</Code>"
           "<Message>The specified key does not exist.</Message>"
           "<Resource>/b/&lt;a&gt;&amp;&quot;&#39;&#13;</Resource>"
           "<RequestId>R1</RequestId></Error>"));
    struct s3_fault fault = { .message = S("two Hosts") };
    slice detailed = s3_error_xml(&arena, ERR_BAD_HEAD, &fault, S(""), S("R2"));
    ok(strstr(arena_copy(&arena, detailed).ptr, "<Message>two Hosts</Message>") != NULL);
    arena_free(&arena);
}

RUN(cmocka_unit_test(every_err_of_a_request_has_a_code_of_its_own),
    cmocka_unit_test(a_head_that_is_refused_ends_the_connection),
    cmocka_unit_test(an_origins_code_means_what_ours_means),
    cmocka_unit_test(an_origins_quarrel_with_our_signature_is_not_the_clients),
    cmocka_unit_test(without_a_code_the_status_speaks),
    cmocka_unit_test(the_document_escapes_what_the_client_sent))
