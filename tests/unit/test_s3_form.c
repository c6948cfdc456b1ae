/* test_s3_form.c - forms that browsers post. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <string.h>

#include "s3/form.h"

#define PART(name) "--b\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n"
#define FILE_PART(filename) \
    "--b\r\ncontent-disposition: form-data; name=file; filename=\"" filename "\"\r\n\r\n"

static struct arena arena;
static struct form form;

static enum err read_form(const char *body)
{
    return form_read(&arena, S("multipart/form-data; boundary=b"), slice_of(body), &form);
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
    same(form.file, S("1\r\n--bx\r\n2"));
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
                                 S("c"), &end);
    slice whole = arena_printf(&arena, "%.*s1%.*s", SLICE_ARG(head), SLICE_ARG(end));
    ok(form_read(&arena, S("multipart/form-data; boundary=c"), whole, &again) == OK);
    ok(form_claim(&arena, &again, &claim) == OK);
    same(claim.access_key, S("B"));
    same(form_get(&again, S("x-amz-credential")), S("B/20260101/q/s3/aws4_request"));
    same(form_get(&again, S("key")), S("k"));
    ok(form_verify(sigv4, &arena, &again, &claim, S("secret")) == OK);
    ok(form_verify(sigv4, &arena, &again, &claim, S("secreT")) == ERR_SIGNATURE);
    /* {"conditions":[{"x-amz-credential":"B/20260101/q/s3/aws4_request"}]} */
    same(form_get(&again, S("policy")),
         S("eyJjb25kaXRpb25zIjpbeyJ4LWFtei1jcmVkZW50aWFsIjoiQi8yMDI2MDEwMS9xL3MzL2F3czRfcmVxdWVzdCJ9X"
           "X0="));
    sigv4_free(&sigv4);
}

#define UNIT(test) cmocka_unit_test_teardown(test, forget)
RUN(UNIT(fields_come_before_the_file_and_nothing_after_it_counts),
    UNIT(what_could_be_read_in_two_ways_is_no_form),
    UNIT(the_name_of_the_file_stands_for_its_mark_without_a_path),
    UNIT(a_form_goes_on_signed_by_another_who_says_the_same_of_it))
