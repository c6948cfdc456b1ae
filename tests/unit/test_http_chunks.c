/* test_http_chunks.c - a chunked body ends where every reader says it ends, or is refused.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <string.h>

#include "http/chunks.h"

static enum err decode(const char *coded, size_t cut, char *ret, size_t *ret_rest)
{
    struct chunks chunks = { 0 };
    char bytes[256];
    size_t len = strlen(coded), decoded = 0, first = MIN(cut, len), got = 0;
    memcpy(bytes, coded, len);
    enum err err = chunks_decode(&chunks, bytes, first, &decoded, ret_rest);
    if (err == ERR_MORE && first < len) {
        memmove(bytes + decoded, bytes + first, len - first);
        err = chunks_decode(&chunks, bytes + decoded, len - first, &got, ret_rest);
    } else {
        *ret_rest += len - first;    /* of what was never shown */
    }
    memcpy(ret, bytes, decoded + got);
    ret[decoded + got] = '\0';
    return err;
}

TEST(a_body_may_come_in_two_pieces_cut_anywhere) {
    const char *coded = "5\r\nhello\r\n00B\r\n and so on.\r\n0\r\n\r\n";
    char body[256];
    size_t rest;
    for (size_t cut = 0; cut <= strlen(coded); cut++) {
        ok(decode(coded, cut, body, &rest) == OK);
        ok(strcmp(body, "hello and so on.") == 0);
        ok(rest == 0);
    }
}

TEST(what_comes_behind_a_body_is_kept_for_the_next_request) {
    struct chunks chunks = { 0 };
    char bytes[] = "3\r\nabc\r\n0\r\n\r\nGET /";
    size_t decoded, rest;
    ok(chunks_decode(&chunks, bytes, strlen(bytes), &decoded, &rest) == OK);
    ok(decoded == 3 && rest == 5);
    ok(memcmp(bytes, "abcGET /", 8) == 0);
}

TEST(what_readers_could_differ_on_is_refused_at_its_first_byte) {
    static const char *const bad[] = {
        "5 \r\nhello\r\n0\r\n\r\n", "5 x\r\nhello\r\n0\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n", "-5\r\nhello\r\n0\r\n\r\n", " 5\r\nhello\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n", "5\r\nhello\r\n0\n\r\n",
        "5\r\nhello\r\n0\r\n\n", "5\r\r\nhello\r\n0\r\n\r\n", "\r\n5\r\nhello\r\n0\r\n\r\n",
        "5;a=b\r\nhello\r\n0\r\n\r\n", "5\r\nhello\r\n0;a\r\n\r\n", "4\r\nhello\r\n0\r\n\r\n",
        "6\r\nhello\r\n0\r\n\r\n", "5\r\nhello0\r\n\r\n", "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "0000000000000005\r\nhello\r\n0\r\n\r\n", "5\r\nhello\r\n0\r\nX: y\r\n\r\n",
        "5\r\nhello\r\n\r\n0\r\n\r\n", "g\r\n", ";\r\n", "\n",
    };
    char body[256];
    size_t rest;
    for (size_t i = 0; i < countof(bad); i++)
        for (size_t cut = 0; cut <= strlen(bad[i]); cut++)
            ok(decode(bad[i], cut, body, &rest) == ERR_BAD_HEAD);
}

TEST(a_body_that_does_not_end_is_waited_for) {
    char body[256];
    size_t rest;
    ok(decode("5\r\nhel", 99, body, &rest) == ERR_MORE);
    ok(strcmp(body, "hel") == 0);
    ok(decode("0\r\n", 99, body, &rest) == ERR_MORE);
    ok(decode("", 99, body, &rest) == ERR_MORE);
}

RUN(cmocka_unit_test(a_body_may_come_in_two_pieces_cut_anywhere),
    cmocka_unit_test(what_comes_behind_a_body_is_kept_for_the_next_request),
    cmocka_unit_test(what_readers_could_differ_on_is_refused_at_its_first_byte),
    cmocka_unit_test(a_body_that_does_not_end_is_waited_for))
