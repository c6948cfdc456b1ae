/* test_s3_checksum.c - checksums, against what others compute. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/crc.h"
#include "s3/checksum.h"
#include "s3/encode.h"

/* As other S3 endpoints answer for the same bytes; CRC-64/NVME of "123456789" from its standard. */
static const struct vector {
    enum checksum which;
    slice bytes, base64;
} vectors[] = {
#define ROW(which, bytes, base64)                                                              \
    { which, { bytes, sizeof(bytes) - 1 }, { base64, sizeof(base64) - 1 } },
    ROW(CHECKSUM_CRC32, "abcdefg", "MSpqpg==")
    ROW(CHECKSUM_CRC32C, "abcdefg", "5if0QQ==")
    ROW(CHECKSUM_CRC64NVME, "abcdefg", "SmzZ/LTp1CA=")
    ROW(CHECKSUM_SHA1, "abcdefg", "L7XhNBn8iSRoZeejJPR27GJOh0A=")
    ROW(CHECKSUM_SHA256, "abcdefg", "fRpUEnsiJQL1t5tfsIAwYRUqRPkrN+I8ZSe69mXU2po=")
    ROW(CHECKSUM_SHA512, "abcdefg", "1xakGIVptoqxtt+sF45XARTN8Oo6HMDjFIbD5BJBvGp2Qk6MN6sm8Jb8he+Yh"
                                    "sjLY0GH9P3f9kX7CZ8f9UxrjA==")
    ROW(CHECKSUM_MD5, "abcdefg", "esZsDxSN6VGbi9JkMSxNZA==")
    ROW(CHECKSUM_XXHASH64, "abcdefg", "GGCUDikCgi0=")
    ROW(CHECKSUM_XXHASH3, "abcdefg", "WkDcP9RMBS8=")
    ROW(CHECKSUM_XXHASH128, "abcdefg", "Kq/YOGmlnDE/55jA7aptxg==")
    ROW(CHECKSUM_CRC32, "the object data", "z3mWAA==")
    ROW(CHECKSUM_CRC32C, "the object data", "rxvjPA==")
    ROW(CHECKSUM_CRC64NVME, "the object data", "dYnI3/Fh0gM=")
    ROW(CHECKSUM_CRC64NVME, "hello world", "jSnVw/bqjr4=")
    ROW(CHECKSUM_CRC64NVME, "123456789", "rosUhgp5mIg=")
    ROW(CHECKSUM_CRC64NVME, "", "AAAAAAAAAAA=")
    ROW(CHECKSUM_CRC32, "", "AAAAAA==")
    ROW(CHECKSUM_SHA1, "", "2jmj7l5rSw0yVb/vlWAYkK/YBwk=")
    ROW(CHECKSUM_XXHASH64, "the object data", "McmxUfNFLUs=")
    ROW(CHECKSUM_XXHASH3, "the object data", "tLh+aNltTM4=")
    ROW(CHECKSUM_XXHASH128, "the object data", "MXqrLVobrQkTBf82+7i9AQ==")
#undef ROW
};

TEST(every_checksum_is_what_others_compute)
{
    for (size_t i = 0; i < countof(vectors); i++) {
        uint8_t sum[CHECKSUM_BYTES_MAX], want[CHECKSUM_BYTES_MAX];
        size_t bytes = checksum_bytes(vectors[i].which);
        checksum_of(vectors[i].which, vectors[i].bytes, sum);
        ok(base64_read(vectors[i].base64, want, bytes));
        ok(memcmp(sum, want, bytes) == 0);
    }
}

TEST(a_running_sum_is_the_same_however_the_bytes_are_cut_and_can_begin_again)
{
    static char bytes[4000];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * i >> 3);
    slice all = { bytes, sizeof(bytes) };
    for (enum checksum which = 0; which < CHECKSUM_COUNT; which++) {
        uint8_t want[CHECKSUM_BYTES_MAX], got[CHECKSUM_BYTES_MAX];
        struct checksum_run *run = checksum_begin(which);
        checksum_of(which, all, want);
        for (size_t cut = 0; cut < sizeof(bytes); cut += 61) {
            checksum_add(run, slice_sub(all, 0, cut));
            checksum_add(run, slice_from(all, cut));
            checksum_get(run, got);
            ok(memcmp(got, want, checksum_bytes(which)) == 0);
            checksum_again(run);
        }
        checksum_free(&run);
        checksum_free(&run);
    }
}

static uint64_t nvme_bit_by_bit(uint64_t seed, const uint8_t *bytes, size_t len)
{
    uint64_t sum = ~seed;
    for (size_t i = 0; i < len; i++) {
        sum ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0x9a6c9329ac4bc9b5u : 0);
    }
    return ~sum;
}

TEST(crc_64_is_right_for_every_length_and_alignment)
{
    uint8_t bytes[700];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 131 >> 3);
    for (size_t len = 0; len + 16 < sizeof(bytes); len++)
        ok(crc64nvme(len, bytes + len % 16, len) == nvme_bit_by_bit(len, bytes + len % 16, len));
}

TEST(names_are_found_in_any_case_and_others_are_none)
{
    for (enum checksum which = 0; which < CHECKSUM_COUNT; which++) {
        ok(checksum_of_name(checksum_name(which)) == which);
        ok(checksum_of_header(checksum_header(which)) == which);
    }
    ok(checksum_of_name(S("crc32c")) == CHECKSUM_CRC32C);
    ok(checksum_of_header(S("X-Amz-Checksum-SHA1")) == CHECKSUM_SHA1);
    ok(checksum_of_name(S("crc")) == CHECKSUM_COUNT && checksum_of_name(S("")) == CHECKSUM_COUNT);
    ok(checksum_of_header(S("x-amz-checksum-mode")) == CHECKSUM_COUNT);
}

RUN(cmocka_unit_test(every_checksum_is_what_others_compute),
    cmocka_unit_test(a_running_sum_is_the_same_however_the_bytes_are_cut_and_can_begin_again),
    cmocka_unit_test(crc_64_is_right_for_every_length_and_alignment),
    cmocka_unit_test(names_are_found_in_any_case_and_others_are_none))
