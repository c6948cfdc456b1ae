/* test_s3_form.c - forms that browsers post. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <string.h>

#include "s3/encode.h"
#include "s3/form.h"

#define PART(name) "--b\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n"
#define FILE_PART(filename) \
    "--b\r\ncontent-disposition: form-data; name=file; filename=\"" filename "\"\r\n\r\n"

static struct arena arena;
static struct form form;

static slice file;    /* of the last */

/* Looked at a few bytes more at a time, as it is where a body lies in a file. */
static enum err find_file(slice body)
{
    size_t more, at = form.file_at;
    for (size_t bytes = 1; at + bytes <= body.len; bytes++) {
        bool ends = form_file_ends(&form, slice_sub(body, at, bytes), &more);
        file = slice_sub(body, form.file_at, at + more - form.file_at);
        if (ends)
            return OK;
        at += more;
        bytes -= more;
    }
    return ERR_BAD_FORM;
}

static enum err read_form(const char *body)
{
    slice begin = slice_sub(slice_of(body), 0, FORM_FIELDS_BYTES_MAX);
    enum err err = form_read(&arena, S("multipart/form-data; boundary=b"), begin, &form);
    return err ? err : find_file(slice_of(body));
}

static int forget(void **state)
{
    arena_free(&arena);
    return 0;
}

TEST(fields_come_before_the_file_and_nothing_after_it_counts)
{
    ok(read_form(PART("key") "a\r\n" PART("ACL") "\r\n" FILE_PART("x") "1\r\n--bx\r\n2\r\n"
                 PART("key") "other\r\n--b--\r\n") == OK);
    ok(form.field_count == 2 && !form_is_signed(&form));
    same(form_get(&form, S("Key")), S("a"));
    ok(form_get(&form, S("acl")).ptr && !form_get(&form, S("acl")).len);
    same(file, S("1\r\n--bx\r\n2"));
}

TEST(a_file_ends_at_its_delimiter_wherever_the_pieces_of_it_end)
{
    slice body = arena_printf(&arena, PART("key") "a\r\n" FILE_PART("x") "%0300d\r\n--bx%030d"
                              "\r\n--b%65s\r\n%030d\r\n--b \t\r\n\r\n--b--", 1, 2, "", 3);
    ok(read_form(body.ptr) == OK);
    ok(file.len == 300 + 6 + 30 + 5 + 65 + 2 + 30 && slice_ends(file, S("0003")));
}

TEST(what_could_be_read_in_two_ways_is_no_form)
{
    static const char *const bad[] = {
        "", "--b", "--b--\r\n", PART("key") "a\r\n--b--\r\n", PART("key") "a\r\n" FILE_PART("x") "1",
        PART("key") "a\r\n" PART("KEY") "b\r\n" FILE_PART("x") "1\r\n--b--\r\n",
        PART("a\rb") "a\r\n" FILE_PART("x") "1\r\n--b--\r\n",
        PART("") "a\r\n" FILE_PART("x") "1\r\n--b--\r\n",
        "x\r\n" PART("key") "a\r\n" FILE_PART("x") "1\r\n--b--\r\n",
        PART("key") "${${filename}\r\n" FILE_PART("filename}") "1\r\n--b--\r\n",
        PART("key") "${filename}\r\n" FILE_PART("${filename}") "1\r\n--b--\r\n",
    };
    for (size_t i = 0; i < countof(bad); i++)
        if (read_form(bad[i]) != ERR_BAD_FORM)
            fail_msg("%s", bad[i]);
    ok(form_read(&arena, S("text/plain"), S(""), &form) == ERR_PRECONDITION);
    ok(form_read(&arena, S("multipart/form-data"), S(""), &form) == ERR_BAD_FORM);
}

TEST(the_name_of_the_file_stands_for_its_mark_without_a_path)
{
    ok(read_form(PART("key") "in/${filename}.${filename}\r\n" FILE_PART("/a\\b/c") "1\r\n--b--") ==
       OK);
    same(form_get(&form, S("key")), S("in/c.c"));
}

TEST(a_form_goes_on_signed_by_another_who_says_the_same_of_it)
{
    /* {"conditions":[{"x-amz-credential":"A\/20260101\/r\/s3\/aws4_request"}]} */
    ok(read_form(PART("key") "k\r\n" PART("x-amz-algorithm") "AWS4-HMAC-SHA256\r\n"
                 PART("x-amz-credential") "A/20260101/r/s3/aws4_request\r\n"
                 PART("x-amz-date") "20260101T000000Z\r\n" PART("x-amz-signature") "00\r\n"
                 PART("policy") "eyJjb25kaXRpb25zIjpbeyJ4LWFtei1jcmVkZW50aWFsIjoiQVwvMjAyNjAxMDFcL3"
                                "JcL3MzXC9hd3M0X3JlcXVlc3QifV19\r\n"
                 FILE_PART("x") "1\r\n--b--\r\n") == OK);
    struct sigv4 *sigv4 = sigv4_new();
    struct sigv4_claim claim;
    struct form again;
    slice end, head = form_write(sigv4, &arena, &form,
                                 &(struct sigv4_credentials){ S("B"), S("secret"), S("") }, S("q"),
                                 0, S("c"), &end);
    slice whole = arena_printf(&arena, "%.*s1%.*s", SLICE_ARG(head), SLICE_ARG(end));
    ok(form_read(&arena, S("multipart/form-data; boundary=c"), whole, &again) == OK);
    ok(form_claim(&arena, &again, &claim) == OK);
    same(claim.access_key, S("B"));
    same(form_get(&again, S("x-amz-credential")), S("B/20260101/q/s3/aws4_request"));
    same(form_get(&again, S("key")), S("k"));
    ok(form_verify(sigv4, &arena, &again, &claim, S("secret")) == OK);
    ok(form_verify(sigv4, &arena, &again, &claim, S("secreT")) == ERR_SIGNATURE);
    char empty[64];
    sigv4_text(sigv4, &arena, S(""), &claim, form_get(&again, S("policy")), empty);
    claim.signature = (slice){ empty, sizeof(empty) };
    ok(form_verify(sigv4, &arena, &again, &claim, S("")) == ERR_SIGNATURE);
    /* {"conditions":[{"x-amz-credential":"B/20260101/q/s3/aws4_request"}]} */
    same(form_get(&again, S("policy")),
         S("eyJjb25kaXRpb25zIjpbeyJ4LWFtei1jcmVkZW50aWFsIjoiQi8yMDI2MDEwMS9xL3MzL2F3czRfcmVxdWVzdCJ9X"
           "X0="));
    sigv4_free(&sigv4);
}

/* The policy is {"conditions":[["eq","$key","k"]]}; its signature by `openssl dgst -sha1 -hmac`. */
#define POLICY_V2 "eyJjb25kaXRpb25zIjpbWyJlcSIsIiRrZXkiLCJrIl1dfQ=="
#define SIGNATURE_V2 "5gzJP8Y6yAn5fBQ5ForPBfi7cCk="

static enum err read_v2(const char *signature)
{
    return read_form(arena_printf(&arena, PART("kEy") "k\r\n" PART("aWSAccessKeyId") "A\r\n"
                                  PART("signature") "%s\r\n" PART("pOLICy") POLICY_V2 "\r\n"
                                  FILE_PART("x") "1\r\n--b--\r\n", signature).ptr);
}

TEST(a_form_of_version_2_is_proven_by_its_policy)
{
    struct sigv4 *sigv4 = sigv4_new();
    struct sigv4_claim claim;
    ok(read_v2(SIGNATURE_V2) == OK && form_is_signed(&form));
    ok(form_claim(&arena, &form, &claim) == OK && claim.v2);
    same(claim.access_key, S("A"));
    ok(form_verify(sigv4, &arena, &form, &claim, S("secret")) == OK);
    ok(form_verify(sigv4, &arena, &form, &claim, S("secreT")) == ERR_SIGNATURE);
    ok(read_v2("AAAAAAAAAAAAAAAAAAAAAAAAAAA=") == OK && form_claim(&arena, &form, &claim) == OK);
    ok(form_verify(sigv4, &arena, &form, &claim, S("secret")) == ERR_SIGNATURE);
    ok(read_v2("K69XyAQpjcGzHT379SZc2nXrXCs=") == OK && form_claim(&arena, &form, &claim) == OK);
    ok(form_verify(sigv4, &arena, &form, &claim, S("")) == ERR_SIGNATURE);    /* it is right */
    ok(read_v2("") == OK && form_claim(&arena, &form, &claim) == OK);
    ok(form_verify(sigv4, &arena, &form, &claim, S("secret")) == ERR_SIGNATURE);
    ok(read_form(PART("key") "k\r\n" PART("AWSAccessKeyId") "A\r\n" PART("policy") POLICY_V2 "\r\n"
                 FILE_PART("x") "1\r\n--b--\r\n") == OK && form_is_signed(&form));
    ok(form_claim(&arena, &form, &claim) == ERR_BAD_ARGUMENT);
    sigv4_free(&sigv4);
}

TEST(a_form_of_version_2_goes_on_signed_by_version_4_with_conditions_for_its_fields)
{
    struct sigv4 *sigv4 = sigv4_new();
    struct sigv4_claim claim;
    struct form again;
    const struct sigv4_credentials with = { S("B"), S("secret"), S("t") };
    ok(read_v2(SIGNATURE_V2) == OK);
    slice end, head = form_write(sigv4, &arena, &form, &with, S("q"), 1440938160, S("c"), &end);
    slice whole = arena_printf(&arena, "%.*s1%.*s", SLICE_ARG(head), SLICE_ARG(end));
    ok(form_read(&arena, S("multipart/form-data; boundary=c"), whole, &again) == OK);
    ok(form_claim(&arena, &again, &claim) == OK && !claim.v2);
    ok(form_verify(sigv4, &arena, &again, &claim, S("secret")) == OK);
    same(form_get(&again, S("x-amz-date")), S("20150830T123600Z"));
    same(form_get(&again, S("x-amz-credential")), S("B/20150830/q/s3/aws4_request"));
    ok(!form_get(&again, S("AWSAccessKeyId")).ptr && !form_get(&again, S("signature")).ptr);
    char policy[512] = "";
    slice said = form_get(&again, S("policy"));
    size_t pad = slice_ends(said, S("==")) ? 2 : slice_ends(said, S("=")) ? 1 : 0;
    ok(base64_read(said, (uint8_t *)policy, said.len / 4 * 3 - pad));
    same(slice_of(policy), S("{\"conditions\":[{\"x-amz-algorithm\":\"AWS4-HMAC-SHA256\"},"
                             "{\"x-amz-credential\":\"B/20150830/q/s3/aws4_request\"},"
                             "{\"x-amz-date\":\"20150830T123600Z\"},"
                             "{\"x-amz-security-token\":\"t\"},[\"eq\",\"$key\",\"k\"]]}"));
    sigv4_free(&sigv4);
}

#define UNIT(test) cmocka_unit_test_teardown(test, forget)
RUN(UNIT(fields_come_before_the_file_and_nothing_after_it_counts),
    UNIT(a_file_ends_at_its_delimiter_wherever_the_pieces_of_it_end),
    UNIT(what_could_be_read_in_two_ways_is_no_form),
    UNIT(the_name_of_the_file_stands_for_its_mark_without_a_path),
    UNIT(a_form_goes_on_signed_by_another_who_says_the_same_of_it),
    UNIT(a_form_of_version_2_is_proven_by_its_policy),
    UNIT(a_form_of_version_2_goes_on_signed_by_version_4_with_conditions_for_its_fields))
