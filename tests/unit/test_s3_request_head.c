/* test_s3_request_head.c - request heads that can be read in one way only.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>

#include "s3/request_head.h"

#define GET "GET / HTTP/1.1\r\n"
#define PUT "PUT /b/k HTTP/1.1\r\nHost: h\r\n"
#define END "\r\n\r\n"
#define LONELY_END "the line of the header A-b has a CR without LF, or an LF without CR: end each"
#define V(literal) { "" literal, sizeof(literal) - 1 }

/* The smuggling battery: each is read differently by some two parsers, or by none. */
static const struct {
    slice head;
    enum err err;
} battery[] = {
    /* lengths */
    { V(PUT "Content-Length: 5\r\nContent-Length: 0" END), ERR_BAD_HEAD },
    { V(PUT "Content-Length: 5\r\nContent-Length: 5" END), ERR_BAD_HEAD },
    { V(PUT "Content-Length: 5\r\ncontent-length: 5" END), ERR_BAD_HEAD },
    { V(PUT "Content-Length: 5, 5" END), ERR_BAD_HEAD },
    { V(PUT "Content-Length: 5 5" END), ERR_BAD_HEAD },
    { V(PUT "Content-Length: +5" END), ERR_BAD_HEAD },
    { V(PUT "Content-Length: -5" END), ERR_BAD_HEAD },
    { V(PUT "Content-Length: 0x5" END), ERR_BAD_HEAD },
    { V(PUT "Content-Length: 5.0" END), ERR_BAD_HEAD },
    { V(PUT "Content-Length: 05" END), ERR_BAD_HEAD },
    { V(PUT "Content-Length: 18446744073709551621" END), ERR_BAD_HEAD },
    { V(PUT "Content-Length: 9223372036854775808" END), ERR_BAD_HEAD },
    { V(PUT "Content-Length:" END), ERR_BAD_HEAD },
    { V(PUT "Content-Length: five" END), ERR_BAD_HEAD },
    { V(PUT "Content-Length: 5 " END), ERR_BAD_HEAD },
    { V(PUT "Content-Length:\t5" END), ERR_BAD_HEAD },
    { V(PUT "Content-Length : 5" END), ERR_BAD_HEAD },
    { V(PUT "Content-Length\t: 5" END), ERR_BAD_HEAD },
    { V(PUT "Content-Length: 5\v" END), ERR_BAD_HEAD },
    /* codings, alone and beside lengths */
    { V(PUT "Content-Length: 5\r\nTransfer-Encoding: chunked" END), ERR_BAD_HEAD },
    { V(PUT "Transfer-Encoding: chunked\r\nContent-Length: 5" END), ERR_BAD_HEAD },
    { V(PUT "Transfer-Encoding: chunked\r\nContent-Length: x" END), ERR_BAD_HEAD },
    { V(PUT "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked" END), ERR_BAD_HEAD },
    { V(PUT "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity" END), ERR_BAD_HEAD },
    { V(PUT "Transfer-Encoding: xchunked" END), ERR_BAD_HEAD },
    { V(PUT "Transfer-Encoding: identity" END), ERR_BAD_HEAD },
    { V(PUT "Transfer-Encoding: gzip, chunked" END), ERR_BAD_HEAD },
    { V(PUT "Transfer-Encoding: chunked, identity" END), ERR_BAD_HEAD },
    { V(PUT "Transfer-Encoding: chunked, chunked" END), ERR_BAD_HEAD },
    { V(PUT "Transfer-Encoding: Chunked" END), ERR_BAD_HEAD },
    { V(PUT "Transfer-Encoding: \"chunked\"" END), ERR_BAD_HEAD },
    { V(PUT "Transfer-Encoding: chunked;q=1" END), ERR_BAD_HEAD },
    { V(PUT "Transfer-Encoding:\tchunked" END), ERR_BAD_HEAD },
    { V(PUT "Transfer-Encoding: \vchunked" END), ERR_BAD_HEAD },
    { V(PUT "Transfer-Encoding : chunked" END), ERR_BAD_HEAD },
    { V(PUT "Transfer-Encoding:\r\n chunked" END), ERR_BAD_HEAD },
    { V(PUT "Transfer-Encoding:" END), ERR_BAD_HEAD },
    { V("PUT /b/k HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked" END),
      ERR_BAD_HEAD },
    /* lines */
    { V("GET / HTTP/1.1\nHost: h\n\n"), ERR_BAD_HEAD },
    { V("GET / HTTP/1.1\r\nHost: h\n\r\n"), ERR_BAD_HEAD },
    { V("GET / HTTP/1.1\r\nHost: h\r\n\n"), ERR_BAD_HEAD },
    { V("GET / HTTP/1.1\r\nHost: h\r\n\rX"), ERR_BAD_HEAD },
    { V(GET "Host: h\r\nA: b\rC: d" END), ERR_BAD_HEAD },
    { V(GET "Host: h\r\nA: b\0c" END), ERR_BAD_HEAD },
    { V(GET "Host: h\r\nA\0: b" END), ERR_BAD_HEAD },
    { V(GET "Host: h\r\nA: b\x7f" END), ERR_BAD_HEAD },
    { V(GET "Host: h\r\nA: long enough for eight at a time \x01 here" END), ERR_BAD_HEAD },
    { V(GET "Host: h\r\n folded: b" END), ERR_BAD_HEAD },
    { V(GET "Host: h\r\nA: b\r\n\tfolded" END), ERR_BAD_HEAD },
    { V(GET " Host: h" END), ERR_BAD_HEAD },
    { V(GET "Host: h\r\n: nameless" END), ERR_BAD_HEAD },
    { V(GET "Host: h\r\nno colon" END), ERR_BAD_HEAD },
    { V(GET "Host: h\r\nA(b): c" END), ERR_BAD_HEAD },
    { V(GET "Host: h\r\n\xc3\xa9: c" END), ERR_BAD_HEAD },
    /* hosts */
    { V(GET "Accept: *" END), ERR_BAD_HEAD },
    { V(GET "\r\n"), ERR_BAD_HEAD },
    { V("GET / HTTP/1.0" END), ERR_BAD_HEAD },
    { V(GET "Host: a\r\nHost: b" END), ERR_BAD_HEAD },
    { V(GET "Host: a\r\nHost: a" END), ERR_BAD_HEAD },
    { V(GET "Host:" END), ERR_BAD_HEAD },
    { V(GET "Host: a, b" END), ERR_BAD_HEAD },
    { V(GET "Host: a/b" END), ERR_BAD_HEAD },
    { V(GET "Host: u@a" END), ERR_BAD_HEAD },
    /* request lines */
    { V("\r\nGET / HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET  / HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET /  HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET\t/ HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("G@T / HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET / HTTP/1.1 \r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET / HTTP/1.2\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET / HTTP/2.0\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET / HTTP/01.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET / http/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET /\r\n\r\n"), ERR_BAD_HEAD },
    { V("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), ERR_BAD_HEAD },
    { V("OPTIONS * HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("CONNECT h:80 HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET ?a HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET /a#b HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET /a\xc3\xa9 HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET /a\0b HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    /* whole URLs as targets */
    { V("GET http://u@h/ HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http://u:p@h/ HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http://@h/ HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http://h@i/ HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http://i/ HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http://h.i/ HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http://h/ HTTP/1.1\r\nHost: h.i" END), ERR_BAD_HEAD },
    { V("GET http://h:81/ HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http://h/ HTTP/1.1\r\nHost: h:81" END), ERR_BAD_HEAD },
    { V("GET http://h:443/ HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET https://h/ HTTP/1.1\r\nHost: h:80" END), ERR_BAD_HEAD },
    { V("GET http://h:080/ HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http://[::1]/ HTTP/1.1\r\nHost: ::1" END), ERR_BAD_HEAD },
    { V("GET http://[::1]/ HTTP/1.1\r\nHost: [::2]" END), ERR_BAD_HEAD },
    { V("GET http://[f::80]/ HTTP/1.1\r\nHost: [f:]" END), ERR_BAD_HEAD },
    { V("GET http:///x HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http:// HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http:/h/x HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http:x HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http://h/x#a HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http://h#a HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http://h\\i/ HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http://h%2fi/ HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http://h;a/ HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http://h\t/ HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http://h\0/ HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http://h\r\n/ HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http://\xc3\xa9/ HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http://h/a\x01 HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http://h/ i HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET ftp://h/ HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET httpx://h/ HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET h/x HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http://h/" END), ERR_BAD_HEAD },
    { V("GET http://h/ HTTP/1.1\r\nAccept: *" END), ERR_BAD_HEAD },
    { V("GET http://h/ HTTP/1.0" END), ERR_BAD_HEAD },
    { V("GET http://h/ HTTP/1.1\r\nHost:" END), ERR_BAD_HEAD },
    { V("GET http://h/ HTTP/1.1\r\nHost: h\r\nHost: h" END), ERR_BAD_HEAD },
    { V("GET http://h/ HTTP/1.1\r\nHost: h\r\nHost: i" END), ERR_BAD_HEAD },
    { V("CONNECT http://h/ HTTP/1.1\r\nHost: h" END), ERR_BAD_HEAD },
    { V("CONNECT http://h:80 HTTP/1.1\r\nHost: h:80" END), ERR_BAD_HEAD },
    { V("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), ERR_BAD_HEAD },
    /* expectations */
    { V(PUT "Expect: 100-continue\r\nExpect: 100-continue" END), ERR_BAD_HEAD },
};

/* Byte by byte: never OK, refused for good at some byte, with the same answer as at once. */
static void refused(slice head, enum err want, size_t number)
{
    struct request_head got;
    const char *why = NULL;
    enum err e = request_head_scan(head, &got, &why);
    if (e != want || !why)
        fail_msg("vector %zu: %s instead of %s", number, err_name(e), err_name(want));
    bool over = false;
    for (size_t len = 0; len <= head.len; len++) {
        e = request_head_scan(slice_sub(head, 0, len), &got, NULL);
        if (over ? e != want : e != want && e != ERR_MORE)
            fail_msg("vector %zu at %zu: %s", number, len, err_name(e));
        over |= e == want;
    }
    ok(over);
}

TEST(every_vector_of_the_battery_is_refused_whole_and_byte_by_byte)
{
    ok(countof(battery) >= 49);
    for (size_t i = 0; i < countof(battery); i++)
        refused(battery[i].head, battery[i].err, i);
}

static enum err scan(slice bytes, struct request_head *ret)
{
    return request_head_scan(bytes, ret, NULL);
}

TEST(a_good_head_is_cut_into_its_parts)
{
    struct request_head head;
    slice bytes = S("PUT /b/k%20x?partNumber=1&uploadId=a?b HTTP/1.1\r\nHost: [::1]:9000\r\n"
                    "x-amz-meta-a: \t caf\xc3\xa9  au lait\t \r\nX-Empty:\r\n"
                    "Expect: 100-Continue\r\n"
                    "Content-Length: 12\r\nConnection: foo, Close\r\n\r\nbody");
    ok(scan(bytes, &head) == OK);
    same(slice_from(bytes, head.bytes), S("body"));
    same(head.method, S("PUT"));
    same(head.path, S("/b/k%20x"));
    same(head.query, S("partNumber=1&uploadId=a?b"));
    same(head.host, S("[::1]:9000"));
    same(request_head_get(&head, S("X-AMZ-META-A")), S("caf\xc3\xa9  au lait"));
    ok(request_head_get(&head, S("x-empty")).ptr && !request_head_get(&head, S("x-empty")).len);
    ok(request_head_get(&head, S("x-none")).ptr == NULL);
    ok(head.query.ptr && head.minor == 1 && head.has_length && head.length == 12);
    ok(!head.chunked && head.expect_continue && head.close && head.field_count == 6);
}

TEST(a_good_head_asks_for_more_until_its_last_byte)
{
    slice bytes = S("GET /a?b HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n");
    struct request_head head;
    for (size_t len = 0; len < bytes.len; len++)
        ok(scan(slice_sub(bytes, 0, len), &head) == ERR_MORE);
    ok(scan((slice){ NULL, 0 }, &head) == ERR_MORE);
    ok(scan(bytes, &head) == OK && head.bytes == bytes.len);
}

TEST(a_question_mark_without_anything_is_told_from_none)
{
    struct request_head head;
    ok(scan(S("GET /a? HTTP/1.1\r\nHost: h" END), &head) == OK);
    ok(head.query.ptr && head.query.len == 0);
    same(head.path, S("/a"));
    ok(scan(S("GET /a HTTP/1.1\r\nHost: h" END), &head) == OK && !head.query.ptr);
}

/* What a target and a Host that are of one origin leave of the URL: its path and query. */
static const struct {
    slice target, host, path, query;
    bool has_query;
} urls[] = {
    { V("http://h/b/k?a=b?c"), V("h"), V("/b/k"), V("a=b?c"), true },
    { V("HTTP://H:9000/b"), V("h:9000"), V("/b"), V(""), false },
    { V("https://h/b"), V("h"), V("/b"), V(""), false },
    { V("hTTpS://h:443/b"), V("h"), V("/b"), V(""), false },
    { V("https://h/b"), V("h:443"), V("/b"), V(""), false },
    { V("http://h:80/b"), V("H"), V("/b"), V(""), false },
    { V("http://h/b"), V("h:80"), V("/b"), V(""), false },
    { V("http://h:/b"), V("h"), V("/b"), V(""), false },
    { V("http://h:443/b"), V("h:443"), V("/b"), V(""), false },
    { V("http://[::1]:80/b"), V("[::1]"), V("/b"), V(""), false },
    { V("http://[::1]:9000/b"), V("[::1]:9000"), V("/b"), V(""), false },
    { V("http://[f::80]/b"), V("[F::80]"), V("/b"), V(""), false },
    { V("http://h"), V("h"), V("/"), V(""), false },
    { V("http://h?x"), V("h"), V("/"), V("x"), true },
    { V("http://h?"), V("h"), V("/"), V(""), true },
    { V("http://h/"), V("h"), V("/"), V(""), false },
    { V("http://h//b/k"), V("h"), V("//b/k"), V(""), false },
    { V("http://h/http://i/k"), V("h"), V("/http://i/k"), V(""), false },
    { V("http://h/u@i"), V("h"), V("/u@i"), V(""), false },
    { V("http://h?u@i/x"), V("h"), V("/"), V("u@i/x"), true },
};

TEST(a_whole_url_of_the_same_host_is_its_path_and_query)
{
    for (size_t i = 0; i < countof(urls); i++) {
        for (int minor = 0; minor <= 1; minor++) {
            char bytes[200];
            snprintf(bytes, sizeof(bytes), "GET %s HTTP/1.%d\r\nA: b\r\nHost: %s\r\n\r\n",
                     urls[i].target.ptr, minor, urls[i].host.ptr);
            struct request_head head;
            const char *why = NULL;
            for (size_t len = 0; len < strlen(bytes); len++)
                ok(scan((slice){ bytes, len }, &head) == ERR_MORE);
            if (request_head_scan(slice_of(bytes), &head, &why) != OK)
                fail_msg("%s for %s: %s", urls[i].target.ptr, urls[i].host.ptr, why);
            same(head.path, urls[i].path);
            same(head.query, urls[i].query);
            same(head.host, urls[i].host);
            ok((head.query.ptr != NULL) == urls[i].has_query && head.minor == minor);
            ok(head.path.ptr >= bytes && head.path.ptr < bytes + strlen(bytes));
        }
    }
}

TEST(a_refusal_names_the_cause_and_the_header)
{
    static const struct { slice head; const char *why; } rows[] = {
        { V("CONNECT s3.example:443 HTTP/1.1\r\n"), "remove Penstock from the client's proxy" },
        { V("CONNECT http://h HTTP/1.1\r\n"), "remove Penstock from the client's proxy" },
        { V("GET /my file HTTP/1.1\r\n"), "encode each space in the target as %20" },
        { V("GET / HTTP/2.0\r\n"), "HTTP version is neither 1.0 nor 1.1" },
        { V("GET http://a.example/k HTTP/1.1\r\nHost: b.example\r\n"),
          "the Host header, b.example, differs from the host of the URL in the request line, "
          "a.example: send the same in both" },
        { V(PUT "Content-Length: 007" END), "below 2^63, without leading zeros" },
        { V(PUT "Content-Length: 7 " END), "the header Content-Length has a tab, or a space at" },
        { V(GET "A-b: c\x01" END), "the header A-b has the control byte 0x01: remove" },
        { V(GET "A-b: c\n\n"), LONELY_END },
        { V(GET "A-b: c\rd" END), LONELY_END },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct request_head head;
        const char *why = NULL;
        ok(request_head_scan(rows[i].head, &head, &why) == ERR_BAD_HEAD);
        if (!why || !strstr(why, rows[i].why))
            fail_msg("row %zu: %s", i, why ? why : "no reason");
    }
}

TEST(chunked_alone_is_fine_and_an_upgrade_is_a_header_like_any)
{
    struct request_head head;
    ok(scan(S(PUT "Transfer-Encoding: chunked\r\nUpgrade: h2c\r\nConnection: Upgrade" END),
            &head) == OK);
    ok(head.chunked && !head.has_length && !head.close);
    ok(scan(S(PUT "Content-Length: 0" END), &head) == OK && head.has_length && head.length == 0);
}

TEST(http_1_0_closes_unless_it_asks_to_stay)
{
    struct request_head head;
    ok(scan(S("GET / HTTP/1.0\r\nHost: h\r\nExpect: 100-continue" END), &head) == OK);
    ok(head.minor == 0 && head.close && !head.expect_continue);
    ok(scan(S(PUT "Expect: 200-ok" END), &head) == OK && !head.expect_continue);
    ok(scan(S(PUT "Expect:" END), &head) == OK && !head.expect_continue);
    ok(scan(S(PUT "Expect: " END), &head) == OK && !head.expect_continue);
    ok(scan(S("GET / HTTP/1.0\r\nHost: h\r\nConnection: Keep-Alive" END), &head) == OK);
    ok(!head.close);
}

TEST(as_many_headers_pass_as_there_is_room_for_and_no_more)
{
    for (int count = HTTP_FIELDS_MAX; count <= HTTP_FIELDS_MAX + 1; count++) {
        char bytes[6 * HTTP_FIELDS_MAX + 100] = "GET / HTTP/1.1\r\nHost: h\r\n";
        for (int i = 1; i < count; i++)
            strcat(bytes, "A: b\r\n");
        strcat(bytes, "\r\n");
        struct request_head head;
        const char *why = NULL;
        enum err e = request_head_scan(slice_of(bytes), &head, &why);
        ok(count == HTTP_FIELDS_MAX ? e == OK && !why : e == ERR_HEAD_TOO_LARGE && why);
    }
}

TEST(a_head_of_32_kib_passes_and_one_byte_more_does_not)
{
    static char bytes[REQUEST_HEAD_BYTES_MAX + 8];
    for (int more = 0; more <= 1; more++) {
        int len = snprintf(bytes, sizeof(bytes), "GET / HTTP/1.1\r\nHost: h\r\nA: ");
        memset(bytes + len, 'a', sizeof(bytes) - (size_t)len);
        size_t total = REQUEST_HEAD_BYTES_MAX + (size_t)more;
        memcpy(bytes + total - 4, "\r\n\r\n", 4);
        struct request_head head;
        ok(scan((slice){ bytes, total }, &head) == (more ? ERR_HEAD_TOO_LARGE : OK));
        ok(scan((slice){ bytes, REQUEST_HEAD_BYTES_MAX - 1 }, &head) == ERR_MORE);
    }
}

RUN(cmocka_unit_test(every_vector_of_the_battery_is_refused_whole_and_byte_by_byte),
    cmocka_unit_test(a_good_head_is_cut_into_its_parts),
    cmocka_unit_test(a_good_head_asks_for_more_until_its_last_byte),
    cmocka_unit_test(a_question_mark_without_anything_is_told_from_none),
    cmocka_unit_test(a_whole_url_of_the_same_host_is_its_path_and_query),
    cmocka_unit_test(a_refusal_names_the_cause_and_the_header),
    cmocka_unit_test(chunked_alone_is_fine_and_an_upgrade_is_a_header_like_any),
    cmocka_unit_test(http_1_0_closes_unless_it_asks_to_stay),
    cmocka_unit_test(as_many_headers_pass_as_there_is_room_for_and_no_more),
    cmocka_unit_test(a_head_of_32_kib_passes_and_one_byte_more_does_not))
