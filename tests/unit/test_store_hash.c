/* test_store_hash.c - the store's hash and checksum, against their definitions.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <pthread.h>

#include "store/hash.c"

static const uint8_t key[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };

/* From the vectors of SipHash's authors: 128 bits over the bytes 00 01 02 ... */
TEST(the_hash_is_siphash_2_4_of_128_bits)
{
    static const uint8_t of_none[16] = { 0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6,
                                         0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93 };
    static const uint8_t of_one[16] = { 0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44,
                                        0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45 };
    uint8_t hash[16];
    for (int again = 0; again < 2; again++) {    /* the context is used again, keyed anew */
        siphash_128(key, NULL, 0, hash);
        ok(memcmp(hash, of_none, 16) == 0);
        slice zero = { "\0", 1 };
        siphash_128(key, &zero, 1, hash);
        ok(memcmp(hash, of_one, 16) == 0);
    }
}

static struct object_id id_of(slice endpoint, slice bucket, slice object_key, slice version)
{
    struct object_name name = { endpoint, bucket, object_key, version };
    struct object_id id;
    object_id_of(key, &name, &id);
    return id;
}

static bool same_id(struct object_id a, struct object_id b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

TEST(every_part_of_a_name_and_where_it_ends_counts)
{
    struct object_id id = id_of(S("http://o"), S("data"), S("a/b"), S(""));
    ok(same_id(id, id_of(S("http://o"), S("data"), S("a/b"), S(""))));
    ok(!same_id(id, id_of(S("http://p"), S("data"), S("a/b"), S(""))));
    ok(!same_id(id, id_of(S("http://o"), S("dat"), S("aa/b"), S(""))));
    ok(!same_id(id, id_of(S("http://o"), S("data"), S("a/"), S("b"))));
    ok(!same_id(id, id_of(S("http://o"), S("data"), S("a/b"), S("null"))));
}

TEST(another_secret_gives_other_ids)
{
    struct object_name name = { S("http://o"), S("data"), S("k"), S("") };
    uint8_t secret[2][STORE_SECRET_BYTES];
    struct object_id id[2];
    for (int i = 0; i < 2; i++) {
        secret_make(secret[i]);
        object_id_of(secret[i], &name, &id[i]);
    }
    ok(memcmp(secret[0], secret[1], STORE_SECRET_BYTES) != 0);
    ok(!same_id(id[0], id[1]));
}

static void *hash_many(void *arg)
{
    const struct object_id *wanted = arg;
    for (int i = 0; i < 2000; i++)
        if (!same_id(*wanted, id_of(S("http://o"), S("data"), S("a/b"), S(""))))
            return arg;
    return NULL;
}

TEST(threads_hash_side_by_side)
{
    struct object_id id = id_of(S("http://o"), S("data"), S("a/b"), S(""));
    pthread_t threads[4];
    for (size_t i = 0; i < countof(threads); i++)
        ok(pthread_create(&threads[i], NULL, hash_many, &id) == 0);
    for (size_t i = 0; i < countof(threads); i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        ok(wrong == NULL);
    }
}

/* RFC 3720, B.4, and the usual one. */
TEST(the_checksum_is_crc32c)
{
    uint8_t bytes[32];
    ok(crc32c(0, "123456789", 9) == 0xE3069283);
    memset(bytes, 0, sizeof(bytes));
    ok(crc32c(0, bytes, 32) == 0x8A9136AA);
    memset(bytes, 0xFF, sizeof(bytes));
    ok(crc32c(0, bytes, 32) == 0x62A8AB43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    ok(crc32c(0, bytes, 32) == 0x46DD794E);
    ok(crc32c(77, bytes, 0) == 77);
}

static uint32_t bit_by_bit(uint32_t seed, const uint8_t *bytes, size_t len)
{
    uint32_t sum = ~seed;
    for (size_t i = 0; i < len; i++) {
        sum ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0x82F63B78u : 0);
    }
    return ~sum;
}

TEST(a_checksum_goes_on_where_it_ended)
{
    uint8_t bytes[3000];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 131 >> 3);
    for (size_t len = 0; len < sizeof(bytes); len += 97) {
        uint32_t whole = crc32c(5, bytes + 1, len);
        ok(whole == bit_by_bit(5, bytes + 1, len));
        size_t cut = len / 3;
        ok(whole == crc32c(crc32c(5, bytes + 1, cut), bytes + 1 + cut, len - cut));
    }
}

TEST(a_seed_tells_objects_versions_and_units_apart)
{
    struct object_id a = { "aaaaaaaaaaa" }, b = { "aaaaaaaaaab" };
    uint32_t seed = crc_seed(&a, 1, 0);
    ok(seed == crc_seed(&a, 1, 0));
    ok(seed != crc_seed(&b, 1, 0) && seed != crc_seed(&a, 2, 0) && seed != crc_seed(&a, 1, 1));
    ok(crc_seed(&a, 1u << 31, 0) != crc_seed(&a, (uint64_t)1 << 63, 0));
    static const uint8_t written[24] = "aaaaaaaaaaa\0\1\0\0\0\0\0\0\0\2\0\0";
    ok(crc_seed(&a, 1, 2) == bit_by_bit(0, written, sizeof(written)));    /* it is on disk */
}

RUN(cmocka_unit_test(the_hash_is_siphash_2_4_of_128_bits),
    cmocka_unit_test(every_part_of_a_name_and_where_it_ends_counts),
    cmocka_unit_test(another_secret_gives_other_ids),
    cmocka_unit_test(threads_hash_side_by_side),
    cmocka_unit_test(the_checksum_is_crc32c),
    cmocka_unit_test(a_checksum_goes_on_where_it_ended),
    cmocka_unit_test(a_seed_tells_objects_versions_and_units_apart))
