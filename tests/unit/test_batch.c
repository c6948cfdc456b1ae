/* test_batch.c - what stands around the items of a batch. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "front/batch.h"

static char out[16384];

static struct batch_entry entry_of(slice key, uint64_t length)
{
    return (struct batch_entry){ .index = 7, .key = key, .etag = S("\"e\""), .status = 200,
                                 .length = length, .size = length, .modified_s = 1600000000 };
}

static uint64_t octal(const char *field, size_t bytes)
{
    char text[16] = "";
    memcpy(text, field, bytes);
    return strtoull(text, NULL, 8);
}

/* A header's own sum holds. */
static bool sums_up(const char *block)
{
    unsigned sum = 0;
    for (size_t i = 0; i < 512; i++)
        sum += i >= 148 && i < 156 ? ' ' : (uint8_t)block[i];
    return octal(block + 148, 8) == sum;
}

TEST(a_frame_is_64_bytes_then_etag_and_code)
{
    struct batch_entry entry = entry_of(S("key"), 5);
    entry.code = S("NoSuchKey");
    entry.first = 3;
    ok(batch_frames.head(out, &entry) == 64 + 3 + 9);
    ok(memcmp(out, "PSB1\x07\0\0\0\xC8\0\x03\0\x09\0\0\0\x05\0\0\0\0\0\0\0\x03", 25) == 0);
    ok(memcmp(out + 64, "\"e\"NoSuchKey", 12) == 0);
    ok(batch_frames.tail == NULL);
}

TEST(the_end_of_frames_counts_them)
{
    struct batch_end end = { .answered = 258, .failed = 2 };
    ok(batch_frames.end(&end, out) == 64 && end.over);
    ok(memcmp(out + 4, "\xFF\xFF\xFF\xFF", 4) == 0);
    ok(out[16] == 2 && out[32] == 2 && out[33] == 1);
}

TEST(a_member_of_tar_is_a_header_and_whole_blocks)
{
    struct batch_entry entry = entry_of(S("a/key"), 513);
    ok(batch_tar.head(out, &entry) == 512 && sums_up(out));
    ok(strcmp(out, "a/key") == 0 && out[156] == '0' && memcmp(out + 257, "ustar\00000", 8) == 0);
    ok(octal(out + 124, 12) == 513 && octal(out + 136, 12) == 1600000000);
    ok(batch_tar.tail(out, &entry) == 511);
    entry = entry_of(S("k"), 1024);
    ok(batch_tar.tail(out, &entry) == 0);
}

/* Its length counts its own digits. */
TEST(a_long_name_is_in_a_pax_header)
{
    static char name[1024];
    memset(name, 'n', sizeof(name));
    for (size_t len = 101; len <= sizeof(name); len++) {
        struct batch_entry entry = entry_of((slice){ name, len }, 1);
        size_t wrote = batch_tar.head(out, &entry), pax = (size_t)octal(out + 124, 12);
        ok(wrote == 1024 + (pax + 511) / 512 * 512 && wrote <= BATCH_ROOM(&entry));
        ok(sums_up(out) && out[156] == 'x' && sums_up(out + wrote - 512));
        ok(strtoull(out + 512, NULL, 10) == pax && out[512 + pax - 1] == '\n');
        ok(pax == len + strlen(" path=\n") + (pax > 999 ? 4 : 3));
    }
}

TEST(what_is_8_gib_or_more_says_so_in_a_pax_header)
{
    struct batch_entry entry = entry_of(S("k"), 077777777777);
    ok(batch_tar.head(out, &entry) == 512 && octal(out + 124, 12) == 077777777777);
    entry = entry_of(S("k"), 0100000000000);
    ok(batch_tar.head(out, &entry) == 1536 && out[156] == 'x');
    ok(memcmp(out + 512, "19 size=8589934592\n", 19) == 0);
}

TEST(failures_are_the_last_member_of_tar)
{
    static struct item item[] = { { .key = { "a\"\n", 3 } }, { .key = { "b", 1 } } };
    const struct items items = { item, 2 };
    struct batch_failure failures[] = { { 0, 404, S("NoSuchKey") }, { 1, 412, S("PreconditionFailed") } };
    struct batch_end end = { .items = &items, .failures = failures };
    size_t len = 0;
    for (; end.failed < 2; end.failed++) {
        const struct batch_failure *failure = &failures[end.failed];
        struct batch_entry entry = { .index = failure->index, .key = item[end.failed].key,
                                     .status = failure->status, .code = failure->code };
        ok(batch_tar.failure(&end, out, &entry) == 0);
    }
    while (!end.over)
        len += batch_tar.end(&end, out + len);
    static const char want[] =
        "{\"errors\":[{\"index\":0,\"key\":\"a\\\"\\u000a\",\"status\":404,\"code\":\"NoSuchKey\"},"
        "{\"index\":1,\"key\":\"b\",\"status\":412,\"code\":\"PreconditionFailed\"}]}\n";
    ok(len == 512 + 512 + 1024 && sums_up(out) && octal(out + 124, 12) == sizeof(want) - 1);
    ok(strcmp(out, "__penstock__/errors.json") == 0 && strcmp(out + 512, want) == 0);
}

TEST(without_failures_tar_ends_in_two_blocks_of_zeroes)
{
    struct batch_end end = { .answered = 3 };
    memset(out, 1, sizeof(out));
    ok(batch_tar.end(&end, out) == 1024 && end.over && out[0] == 0 && out[1023] == 0);
}

RUN(cmocka_unit_test(a_frame_is_64_bytes_then_etag_and_code),
    cmocka_unit_test(the_end_of_frames_counts_them),
    cmocka_unit_test(a_member_of_tar_is_a_header_and_whole_blocks),
    cmocka_unit_test(a_long_name_is_in_a_pax_header),
    cmocka_unit_test(what_is_8_gib_or_more_says_so_in_a_pax_header),
    cmocka_unit_test(failures_are_the_last_member_of_tar),
    cmocka_unit_test(without_failures_tar_ends_in_two_blocks_of_zeroes))
