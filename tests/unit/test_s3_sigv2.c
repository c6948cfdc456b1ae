/* test_s3_sigv2.c - version 2 signatures that botocore made, verified.
 * SPDX-License-Identifier: Apache-2.0 */
#include "vector_unit.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "s3/encode.h"
#include "s3/sigv2.h"

#define SECRET S("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
#define NOW 1440938160    /* 2015-08-30T12:36:00Z */

static struct request_head head;
static struct sigv4_claim claim;

static enum err verify(slice bytes, slice bucket, int64_t now_s)
{
    struct arena arena = { 0 };
    enum err e = request_head_scan(bytes, &head, NULL);
    if (!e)
        e = sigv4_claim_read(&arena, &head, &claim);
    if (!e && (!claim.v2 || !slice_eq(claim.access_key, S("AKIDEXAMPLE"))))
        e = ERR_UNKNOWN_KEY;
    if (!e)
        e = sigv2_verify(&arena, &head, &claim, bucket, SECRET, now_s);
    arena_free(&arena);
    return e;
}

TEST(every_vector_of_botocore_verifies)
{
    FILE *file = vectors_open("sigv2.txt");
    struct vector vector;
    size_t count = 0;
    for (; vector_next(file, &vector); count++) {
        enum err e = verify((slice){ vector.head, vector.len }, S(""), NOW);
        if (e)
            fail_msg("%s: %s", vector.name, err_name(e));
    }
    fclose(file);
    ok(count == 44);
}

/* Only Host, and which part of a list is shown, is not signed. */
TEST(every_vector_with_any_one_byte_changed_is_refused)
{
    FILE *file = vectors_open("sigv2.txt");
    struct vector vector;
    while (vector_next(file, &vector)) {
        for (size_t i = 0; i < vector.len; i++) {
            char before = vector.head[i];
            if ((i >= vector.host && i < vector.host_end) || strstr(vector.name, "list-bucket"))
                continue;
            vector.head[i] = before == 'x' || before == 'X' ? 'y' : 'x';
            if (verify((slice){ vector.head, vector.len }, S(""), NOW) == OK)
                fail_msg("%s verifies with byte %zu changed", vector.name, i);
            vector.head[i] = before;
        }
    }
    fclose(file);
}

#define DATE "Date: Sun, 30 Aug 2015 12:36:00 GMT\r\n"
#define GET_KEY "Authorization: AWS AKIDEXAMPLE:bW1Yy1T39zRbconpgXfFVDydqiI=\r\n"
#define PRESIGNED "AWSAccessKeyId=AKIDEXAMPLE&Signature=kCJHO5aleaC2Q23mmwmuMrzYzuw%3D" \
                  "&Expires=1440938220"

static enum err asked(const char *target, const char *fields, slice bucket, int64_t now_s)
{
    struct arena arena = { 0 };
    enum err e = verify(arena_printf(&arena, "GET %s HTTP/1.1\r\nHost: h\r\n%s\r\n", target,
                                     fields), bucket, now_s);
    arena_free(&arena);
    return e;
}

TEST(a_bucket_may_be_named_by_the_host)
{
    ok(asked("/key", DATE GET_KEY, S("bucket"), NOW) == OK);
    ok(asked("/key", DATE GET_KEY, S("other"), NOW) == ERR_SIGNATURE);
}

TEST(time_is_kept)
{
    ok(asked("/bucket/key", DATE GET_KEY, S(""), NOW + 900) == OK);
    ok(asked("/bucket/key", DATE GET_KEY, S(""), NOW + 901) == ERR_SKEWED);
    ok(asked("/bucket/key", DATE GET_KEY, S(""), NOW - 901) == ERR_SKEWED);
    ok(asked("/bucket/key?" PRESIGNED, "", S(""), NOW + 60) == OK);
    ok(asked("/bucket/key?" PRESIGNED, "", S(""), NOW + 61) == ERR_EXPIRED);
    ok(asked("/bucket/key", GET_KEY, S(""), NOW) == ERR_DENIED);
    ok(asked("/bucket/key", "Date: soon\r\n" GET_KEY, S(""), NOW) == ERR_DENIED);
}

/* It is over one of each: an origin may look at the other. */
TEST(what_is_signed_is_said_once)
{
    ok(asked("/bucket/key", DATE GET_KEY "Content-MD5: a\r\nContent-MD5: b\r\n", S(""), NOW) ==
       ERR_AUTH_V2);
    ok(asked("/bucket/key", DATE GET_KEY "Content-Type: a\r\nContent-type: b\r\n", S(""), NOW) ==
       ERR_AUTH_V2);
    ok(asked("/bucket/key", DATE GET_KEY DATE, S(""), NOW) != OK);
    ok(asked("/bucket/key?" PRESIGNED, "Content-Type: a\r\nContent-Type: b\r\n", S(""), NOW) ==
       ERR_AUTH_V2);
}

TEST(a_digest_in_a_presigned_query_counts)
{
    ok(asked("/bucket/key?X-Amz-Content-Sha256=none&" PRESIGNED, "", S(""), NOW) ==
       ERR_BAD_ARGUMENT);
    ok(asked("/bucket/key?X-Amz-Content-Sha256=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495"
             "991b7852b855&" PRESIGNED, "", S(""), NOW) == ERR_SIGNATURE);
    ok(claim.payload == PAYLOAD_HEX);
}

TEST(what_is_not_signed_makes_no_other_operation_of_it)
{
    ok(asked("/bucket/key?prefix=any&" PRESIGNED, "", S(""), NOW) == OK);
    ok(asked("/bucket/key?attributes&" PRESIGNED, "", S(""), NOW) == ERR_NOT_SIGNED);
    ok(asked("/bucket/key?legal-hold", DATE GET_KEY, S(""), NOW) == ERR_NOT_SIGNED);
    ok(asked("/bucket/key?x-amz-acl=public-read", DATE GET_KEY, S(""), NOW) == ERR_NOT_SIGNED);
    ok(asked("/bucket/key?%61cl", DATE GET_KEY, S(""), NOW) == ERR_NOT_SIGNED);
    ok(asked("/bucket/key?acl", DATE GET_KEY, S(""), NOW) == ERR_SIGNATURE);
    ok(asked("/bucket/key", "x-amz-acl: private\r\n" DATE GET_KEY, S(""), NOW) == ERR_SIGNATURE);
}

/* A GET of one target, signed as if it was of another. */
static enum err signed_as(const char *target, const char *resource)
{
    struct arena arena = { 0 };
    uint8_t sum[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    slice secret = SECRET;
    slice text = arena_printf(&arena, "GET\n\n\nSun, 30 Aug 2015 12:36:00 GMT\n%s", resource);
    ok(HMAC(EVP_sha1(), secret.ptr, (int)secret.len, (const uint8_t *)text.ptr, text.len, sum,
            &len) && len == 20);
    slice fields = arena_printf(&arena, DATE "Authorization: AWS AKIDEXAMPLE:%.*s\r\n",
                                SLICE_ARG(base64_write(&arena, (slice){ (char *)sum, len })));
    enum err e = asked(target, fields.ptr, S(""), NOW);
    arena_free(&arena);
    return e;
}

TEST(what_has_no_value_may_be_signed_as_bare_or_as_empty)
{
    static const struct { const char *target, *resource; enum err want; } rows[] = {
        { "/b/k?uploads", "/b/k?uploads", OK }, { "/b/k?uploads=", "/b/k?uploads=", OK },
        { "/b/k?uploads=", "/b/k?uploads", OK }, { "/b/k?uploads", "/b/k?uploads=", OK },
        { "/b?acl=", "/b/?acl", OK }, { "/b?acl=", "/b/?acl=", OK }, { "/b?acl", "/b/?acl=", OK },
        { "/b?acl=", "/b?acl", OK }, { "/b?acl", "/b?acl=", OK },
        { "/b/k?acl=&versionId=1", "/b/k?acl&versionId=1", OK },
        { "/b/k?acl=&versionId=", "/b/k?acl&versionId", OK },
        { "/b/k?acl&versionId=", "/b/k?acl&versionId=", OK },
        { "/b/k?acl&versionId=", "/b/k?acl&versionId", OK },
        { "/b/k?uploads=x", "/b/k?uploads", ERR_SIGNATURE },
        { "/b/k?uploads=x", "/b/k?uploads=", ERR_SIGNATURE },
        { "/b/k?uploads", "/b/k?uploads=x", ERR_SIGNATURE },
        { "/b/k?uploads=", "/b/k", ERR_SIGNATURE }, { "/b/k?uploads", "/b/k", ERR_SIGNATURE },
        { "/b/k?acl=", "/b/k?tagging", ERR_SIGNATURE }, { "/b/k?acl=", "/b/k/?acl", ERR_SIGNATURE },
        { "/b/k?acl=&tagging=", "/b/k?acl", ERR_SIGNATURE },
    };
    for (size_t i = 0; i < countof(rows); i++)
        if (signed_as(rows[i].target, rows[i].resource) != rows[i].want)
            fail_msg("%s as %s", rows[i].target, rows[i].resource);
}

TEST(what_was_to_be_signed_is_told)
{
    static const struct {
        const char *bytes, *bucket, *text;
    } rows[] = {
        { "GET /b/k?acl&x-id=G HTTP/1.1\r\nHost: h\r\nDate: Sun, 30 Aug 2015 12:36:00 GMT\r\n"
          "x-amz-meta-a: v\r\nAuthorization: AWS AKIDEXAMPLE:AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n",
          "", "GET\n\n\nSun, 30 Aug 2015 12:36:00 GMT\nx-amz-meta-a:v\n/b/k?acl" },
        { "GET /k?AWSAccessKeyId=AKIDEXAMPLE&Expires=1440938170&"
          "Signature=AAAAAAAAAAAAAAAAAAAAAAAAAAA%3D HTTP/1.1\r\nHost: b.h\r\n\r\n", "b", "GET\n\n\n1440938170\n/b/k" },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct arena arena = { 0 };
        struct s3_fault fault = { 0 };
        ok(request_head_scan(slice_of(rows[i].bytes), &head, NULL) == OK);
        ok(sigv4_claim_read(&arena, &head, &claim) == OK && claim.v2);
        slice bucket = slice_of(rows[i].bucket);
        ok(sigv2_verify(&arena, &head, &claim, bucket, SECRET, NOW) == ERR_SIGNATURE);
        sigv2_explain(&arena, &head, &claim, bucket, &fault);
        ok(fault.more_count == 4 && slice_eq(fault.more[0].value, S("AKIDEXAMPLE")));
        ok(slice_eq(fault.more[1].name, S("StringToSign")));
        ok(slice_eq(fault.more[1].value, slice_of(rows[i].text)));
        ok(slice_eq(fault.more[2].value, S("AAAAAAAAAAAAAAAAAAAAAAAAAAA=")));
        ok(slice_starts(fault.more[3].value, S("47 45 54 0a 0a 0a ")));
        arena_free(&arena);
    }
}

TEST(a_malformed_one_is_refused)
{
    static const char *const bad[] = {
        "Authorization: AWS nothing\r\n", "Authorization: AWS :x\r\n", "Authorization: AWS a:\r\n",
        "Authorization: AWS a:b\r\nAuthorization: AWS a:b\r\n", GET_KEY "Date: x\r\n",
        GET_KEY "x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD\r\n",
    };
    static const char *const bad_queries[] = {
        "AWSAccessKeyId=a", "AWSAccessKeyId=a&Signature=b", "AWSAccessKeyId=a&Signature=b&Expires=x",
        "AWSAccessKeyId=a&Signature=b&Expires=99999999999999999999", PRESIGNED "&Expires=1440938220",
        "AWSAccessKeyId&Signature&Expires", PRESIGNED "&Signature=x",
    };
    for (size_t i = 0; i < countof(bad); i++) {
        char fields[600];
        snprintf(fields, sizeof(fields), DATE "%s", bad[i]);
        enum err e = asked("/bucket/key", fields, S(""), NOW);
        if (!e || e == ERR_SIGNATURE)
            fail_msg("%s: %s", bad[i], err_name(e));
    }
    for (size_t i = 0; i < countof(bad_queries); i++) {
        char target[600];
        snprintf(target, sizeof(target), "/bucket/key?%s", bad_queries[i]);
        enum err e = asked(target, "", S(""), NOW);
        if (!e || e == ERR_SIGNATURE)
            fail_msg("%s: %s", bad_queries[i], err_name(e));
    }
}

/* `printf text | openssl dgst -sha1 -hmac ''`, and with the key k. */
TEST(an_empty_secret_proves_nothing)
{
    ok(!sigv2_text_is(S(""), S("text"), S("8/J29QAWRAE9vSAvGFS9YfkSPQ8=")));
    ok(sigv2_text_is(S("k"), S("text"), S("JonKpEU20K4EWvBIpS3z/+JuegU=")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vector_of_botocore_verifies),
        cmocka_unit_test(every_vector_with_any_one_byte_changed_is_refused),
        cmocka_unit_test(a_bucket_may_be_named_by_the_host),
        cmocka_unit_test(time_is_kept),
        cmocka_unit_test(an_empty_secret_proves_nothing),
        cmocka_unit_test(what_is_signed_is_said_once),
        cmocka_unit_test(a_digest_in_a_presigned_query_counts),
        cmocka_unit_test(what_is_not_signed_makes_no_other_operation_of_it),
        cmocka_unit_test(what_has_no_value_may_be_signed_as_bare_or_as_empty),
        cmocka_unit_test(what_was_to_be_signed_is_told),
        cmocka_unit_test(a_malformed_one_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
