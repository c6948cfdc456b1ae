/* test_s3_encode.c - percent-coding and dates. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "s3/encode.h"

static struct arena arena;

static slice encoded(slice s, bool encode_slash)
{
    struct text text = text_in(&arena);
    uri_encode(&text, s, encode_slash);
    return text_slice(&text);
}

static bool decodes(slice s, slice want)
{
    slice got = { NULL, 0 };
    return uri_decode(&arena, s, &got) == OK && slice_eq(got, want);
}

TEST(only_the_unreserved_stay_as_they_are)
{
    same(encoded(S("AZaz09-._~"), true), S("AZaz09-._~"));
    same(encoded(S("a b+c/d%\xc3\xa9"), true), S("a%20b%2Bc%2Fd%25%C3%A9"));
    same(encoded(S("a/b"), false), S("a/b"));
    char all[300];
    memset(all, '*', sizeof(all));
    slice three = encoded((slice){ all, sizeof(all) }, true);
    ok(three.len == 900 && slice_ends(three, S("%2A%2A")));
    arena_free(&arena);
}

TEST(an_escape_is_decoded_once_and_a_plus_stays)
{
    ok(decodes(S("a%2520+b"), S("a%20+b")));
    ok(decodes(S("%c3%A9%2f"), S("\xc3\xa9/")));
    ok(decodes(S("plain"), S("plain")) && decodes(S(""), S("")));
    arena_free(&arena);
}

TEST(a_plus_is_a_space_in_a_query_alone)
{
    slice out;
    ok(query_decode(&arena, S("a+b%2Bc%20+"), &out) == OK);
    same(out, S("a b+c  "));
    ok(query_decode(&arena, S("a+%"), &out) == ERR_BAD_URI);
    arena_free(&arena);
}

TEST(a_bad_escape_or_a_nul_is_refused)
{
    slice out;
    ok(uri_decode(&arena, S("%"), &out) == ERR_BAD_URI);
    ok(uri_decode(&arena, S("%4"), &out) == ERR_BAD_URI);
    ok(uri_decode(&arena, S("a%4g"), &out) == ERR_BAD_URI);
    ok(uri_decode(&arena, S("a%00"), &out) == ERR_BAD_URI);
    ok(uri_decode(&arena, S("a\0b"), &out) == ERR_BAD_URI);
    arena_free(&arena);
}

TEST(a_query_is_walked_pair_by_pair)
{
    slice rest = S("a=1&&b&c==2&"), name, value;
    ok(query_next(&rest, &name, &value));
    same(name, S("a"));
    same(value, S("1"));
    ok(query_next(&rest, &name, &value) && value.ptr == NULL);
    same(name, S("b"));
    ok(query_next(&rest, &name, &value));
    same(value, S("=2"));
    ok(!query_next(&rest, &name, &value));
}

TEST(the_three_http_dates_are_one_moment)
{
    ok(http_date_read(S("Sun, 06 Nov 1994 08:49:37 GMT")) == 784111777);
    ok(http_date_read(S("Sunday, 06-Nov-94 08:49:37 GMT")) == 784111777);
    ok(http_date_read(S("Sun Nov  6 08:49:37 1994")) == 784111777);
    ok(http_date_read(S("Sun Nov 16 08:49:37 1994")) == 784975777);
    ok(http_date_read(S("Saturday, 01-Jan-00 00:00:00 GMT")) == 946684800);
}

TEST(what_is_no_date_is_minus_one)
{
    static const char *const none[] = {
        "", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 6 Nov 1994 08:49:37 GMT", "Xxx, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Xov 1994 08:49:37 GMT", "Sun, 31 Apr 1994 08:49:37 GMT",
        "Sun, 29 Feb 1900 00:00:00 GMT", "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT", "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1969 08:49:37 GMT",
        "Someday, 06-Nov-94 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 XXX",
        "Sun Nov _6 08:49:37 1994",
    };
    for (size_t i = 0; i < countof(none); i++)
        ok(http_date_read(slice_of(none[i])) == -1);
    ok(amz_date_read(S("20130524T000000")) == -1 && amz_date_read(S("20131324T000000Z")) == -1);
    ok(amz_date_read(S("20130024T000000Z")) == -1 && amz_date_read(S("2013052xT000000Z")) == -1);
    ok(iso_date_read(S("2009-10-12T17:50:30")) == -1 && iso_date_read(S("")) == -1);
    ok(iso_date_read(S("2009-10-12T17:50:30.Z")) == -1);
    ok(iso_date_read(S("2009-10-12T17:50:30,5Z")) == -1);
    ok(iso_date_read(S("2009-10-12T17:50:30.5xZ")) == -1);
}

TEST(every_format_reads_what_it_wrote)
{
    for (int64_t at = 0; at < 253402300800; at += 86400 * 13 + 12345) {
        char http[HTTP_DATE_BYTES], amz[AMZ_DATE_BYTES];
        struct arena keep = { 0 };
        http_date_write(at, http);
        amz_date_write(at, amz);
        ok(http_date_read(slice_of(http)) == at);
        ok(amz_date_read(slice_of(amz)) == at);
        ok(iso_date_read(iso_date_text(&keep, at)) == at);
        arena_free(&keep);
    }
}

TEST(dates_look_as_s3_writes_them)
{
    char http[HTTP_DATE_BYTES], amz[AMZ_DATE_BYTES];
    struct arena keep = { 0 };
    http_date_write(784111777, http);
    same(slice_of(http), S("Sun, 06 Nov 1994 08:49:37 GMT"));
    amz_date_write(1369353600, amz);
    same(slice_of(amz), S("20130524T000000Z"));
    same(iso_date_text(&keep, 1255369830), S("2009-10-12T17:50:30.000Z"));
    ok(iso_date_read(S("2009-10-12T17:50:30Z")) == 1255369830);
    same(iso_date_text(&keep, INT64_MAX), S("9999-12-31T23:59:59.000Z"));
    arena_free(&keep);
    amz_date_write(-5, amz);
    same(slice_of(amz), S("19700101T000000Z"));
}

TEST(base64_has_one_way_to_write_each_value)
{
    uint8_t bytes[4];
    ok(base64_read(S("Zm9v"), bytes, 3) && memcmp(bytes, "foo", 3) == 0);
    ok(base64_read(S("Zm8="), bytes, 2) && memcmp(bytes, "fo", 2) == 0);
    ok(base64_read(S("+/9abg=="), bytes, 4) && memcmp(bytes, "\xfb\xff\x5a\x6e", 4) == 0);
    ok(base64_read(S("Zg=="), bytes, 1) && bytes[0] == 'f' && base64_read(S(""), bytes, 0));
    ok(!base64_read(S("Zh=="), bytes, 1) && !base64_read(S("Zg"), bytes, 1) &&
       !base64_read(S("Zg=A"), bytes, 1));
    ok(!base64_read(S("Z-9v"), bytes, 3) && !base64_read(S("Zm9v"), bytes, 2));
    ok(!base64_read(S(" Zm9v"), bytes, 3) && !base64_read(S("Zm9v\n"), bytes, 3));
    ok(!base64_read(S("===="), bytes, 1) && !base64_read(S("Zm9vZ"), bytes, 3));
    struct arena keep = { 0 };
    same(base64_write(&keep, S("\xfb\xff\x5a\x6e")), S("+/9abg=="));
    same(base64_write(&keep, S("foofo")), S("Zm9vZm8="));
    same(base64_write(&keep, S("foo")), S("Zm9v"));
    same(base64_decode(&keep, S("Zm9vZm8=")), S("foofo"));
    ok(!base64_decode(&keep, S("Zm9vZm8")).ptr);
    arena_free(&keep);
}

TEST(a_query_is_shown_without_what_proves_it)
{
    same(query_unproved(&arena, S("tagging&versionId=a%20b")), S("tagging&versionId=a%20b"));
    same(query_unproved(&arena, S("acl=&X-Amz-Signature=ab&X-Amz-Credential=k/d&x-id=Get")),
         S("acl=&x-id=Get"));
    same(query_unproved(&arena, S("X-Amz-Security-Token=t&uploads")), S("uploads"));
    same(query_unproved(&arena, S("X-Amz-Sign%61ture=ab&x-amz-signatUre=c&uploads")), S("uploads"));
    same(query_unproved(&arena, S("AWSAccessKeyId=k&Signature=s&Expires=1")), S("Expires=1"));
    same(query_unproved(&arena, S("access_token=t&Password=p&client_secret=s")), S(""));
    same(query_unproved(&arena, S("x-amz-server-side-encryption-customer-key=k&a=b")), S("a=b"));
    same(query_unproved(&arena, S("%zz=1&a=signature")), S("a=signature"));
    same(query_unproved(&arena, S("&&=&a&")), S("a"));
    same(query_unproved(&arena, S("")), S(""));
    arena_free(&arena);
}

RUN(cmocka_unit_test(a_query_is_shown_without_what_proves_it), cmocka_unit_test(only_the_unreserved_stay_as_they_are),
    cmocka_unit_test(an_escape_is_decoded_once_and_a_plus_stays),
    cmocka_unit_test(a_plus_is_a_space_in_a_query_alone),
    cmocka_unit_test(a_bad_escape_or_a_nul_is_refused),
    cmocka_unit_test(a_query_is_walked_pair_by_pair),
    cmocka_unit_test(the_three_http_dates_are_one_moment),
    cmocka_unit_test(what_is_no_date_is_minus_one),
    cmocka_unit_test(every_format_reads_what_it_wrote),
    cmocka_unit_test(dates_look_as_s3_writes_them),
    cmocka_unit_test(base64_has_one_way_to_write_each_value))
