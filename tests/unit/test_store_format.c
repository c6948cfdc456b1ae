/* test_store_format.c - the layouts of format version 2: bytes that stay what they are, and damage
 * that is found. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "store/format_files.h"

static const uint8_t secret[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };

static uint32_t number(const uint8_t *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof(value));
    return value;
}

/* With a checksum that fits. */
static void mend(uint8_t *bytes, size_t len)
{
    uint32_t crc = crc32c(0, bytes, len - 4);
    memcpy(bytes + len - 4, &crc, 4);
}

/* ---- extents ---- */

TEST(a_head_page_has_kind_volume_and_number_where_the_page_says)
{
    struct extent_head head = { .extent = 7, .kind = EXTENT_COPY, .volume = "sixteen bytes id" };
    struct extent_head back;
    uint8_t bytes[EXTENT_HEAD_BYTES];
    extent_head_encode(&head, bytes);
    ok(memcmp(bytes, "PSTE", 4) == 0 && number(bytes + 4) == 2 && number(bytes + 8) == 7);
    ok(bytes[12] == 2 && memcmp(bytes + 16, "sixteen bytes id", 16) == 0);
    ok(number(bytes + 60) == crc32c(0, bytes, 60));
    ok(extent_head_decode(bytes, &back) == OK && back.extent == 7 && back.kind == EXTENT_COPY);
    for (unsigned bit = 0; bit < 8 * EXTENT_HEAD_BYTES; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ok(extent_head_decode(bytes, &back) == ERR_GONE);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

TEST(names_follow_each_other_and_their_lengths_are_bounded)
{
    static const slice texts[] = { { "http://o\0b\0k\0", 13 }, { "", 0 }, { "x", 1 } };
    uint8_t bytes[100];
    size_t len = 0;
    for (size_t i = 0; i < countof(texts); i++) {
        struct toc_name name = { 1000 + i, texts[i] };
        toc_name_encode(&name, bytes + len);
        len += toc_name_bytes(&name);
    }
    ok(len == 3 * 12 + 14);
    slice rest = { (char *)bytes, len };
    for (size_t i = 0; i < countof(texts); i++) {
        struct toc_name name;
        ok(toc_name_take(&rest, &name) && name.size == 1000 + i);
        same(name.name, texts[i]);
    }
    struct toc_name none;
    ok(rest.len == 0 && !toc_name_take(&rest, &none));
    slice cut = { (char *)bytes, 12 + 12 };
    ok(!toc_name_take(&cut, &none) && cut.len == 24);
    uint32_t long_one = METADATA_BLOCK_MAX + 1;
    memcpy(bytes + 8, &long_one, 4);
    slice far = { (char *)bytes, SIZE_MAX / 2 };
    ok(!toc_name_take(&far, &none));
}

TEST(a_name_is_found_in_a_metadata_block)
{
    struct object_name name = { S("http://o"), S("data"), S("a/b"), S("v") };
    struct object_id id;
    object_id_of(secret, &name, &id);
    struct metadata *metadata = metadata_new(&id, &name, S("\"e\""), S("a: b\r\n"), 4711, 0, true);
    size_t len = metadata_block_bytes(metadata);
    uint8_t block[200];
    struct toc_name found;
    metadata_block_encode(metadata, block);
    ok(toc_name_of((slice){ (char *)block, len }, &found) && found.size == 4711);
    same(found.name, metadata->name);
    ok(!toc_name_of((slice){ (char *)block, 31 }, &found));
    ok(!toc_name_of((slice){ (char *)block, 32 + found.name.len - 1 }, &found));
    metadata_unref(&metadata);
}

TEST(a_bucket_hash_is_of_endpoint_and_bucket_and_of_nothing_else)
{
    uint64_t hash = bucket_hash(secret, S("http://o"), S("data"));
    slice names[] = { { "http://o\0data\0a\0", 16 }, { "http://o\0data\0b\0c\0v", 19 } };
    for (size_t i = 0; i < countof(names); i++)
        ok(bucket_hash_of(secret, names[i]) == hash);
    ok(hash == 0x6DA8CE4A57533B41u);    /* on disk: it stays what it is */
    ok(bucket_hash(secret, S("http://"), S("odata")) != hash);
    ok(bucket_hash(secret, S("http://o"), S("dat")) != hash);
    ok(bucket_hash_of(secret, S("")) != 0);
}

TEST(a_footer_of_each_version_comes_back_and_any_flip_is_found)
{
    struct toc_footer footer = { .extent = 7, .count = 5, .offset = 8192, .rows_crc = 99,
                                 .names_len = 300, .names_crc = 98, .record_bytes = 4000,
                                 .data_bytes = 3000, .volume = "sixteen bytes id" };
    for (uint32_t version = 1; version <= 2; version++) {
        struct toc_footer back;
        uint8_t bytes[TOC_FOOTER_BYTES];
        footer.version = version;
        footer.kind = version == 1 ? 0 : EXTENT_STAGING;
        toc_footer_encode(&footer, bytes);
        ok(memcmp(bytes, "PSTT", 4) == 0 && number(bytes + 4) == version);
        ok(number(bytes + 24) == (version == 1 ? 0 : 300) && bytes[40] == (version == 1 ? 0 : 3));
        ok(toc_footer_decode(bytes, &back) == OK && back.rows_crc == 99 && back.count == 5);
        ok(back.kind == (version == 1 ? EXTENT_LOG : EXTENT_STAGING));
        for (unsigned bit = 0; bit < 8 * TOC_FOOTER_BYTES; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            ok(toc_footer_decode(bytes, &back) == ERR_GONE);
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
    ok(toc_bytes(1, 126, 0) == 4096 && toc_bytes(1, 127, 0) == 8192);
    ok(toc_bytes(2, 84, 0) == 4096 && toc_bytes(2, 84, 1) == 8192);
}

TEST(rows_of_version_1_lack_the_hashes)
{
    struct toc_entry entry = { .first_unit = 3, .offset = 4096, .data_len = 9, .kind = KIND_UNITS,
                               .bucket = 77, .etag_hash = 78 }, back;
    uint8_t bytes[48];
    memset(entry.id.bytes, 'i', sizeof(entry.id.bytes));
    for (uint32_t version = 1; version <= 2; version++) {
        ok(toc_row_bytes(version) == (version == 1 ? 32 : 48));
        toc_rows_encode(version, &entry, 1, bytes);
        ok(number(bytes + 12) == 3 && number(bytes + 16) == 4096 && bytes[28] == KIND_UNITS);
        toc_rows_decode(version, bytes, 1, &back);
        ok(memcmp(&back, &entry, 32) == 0 && back.bucket == (version == 1 ? 0 : 77));
        ok(back.etag_hash == (version == 1 ? 0 : 78));
    }
    ok(bytes[32] == 77 && bytes[40] == 78);
}

/* ---- the format file ---- */

/* Makes the second copy of a format file as the first one, and all its checksums right. */
static void mend_format(uint8_t *bytes, size_t len)
{
    size_t copy = (len - 4) / 2;
    mend(bytes, copy);
    memcpy(bytes + copy, bytes, copy);
    mend(bytes, len);
}

TEST(a_format_file_comes_back_with_its_list_from_either_copy)
{
    struct format format = { .generation = 1023, .size_bytes = GIB, .opening = 9,
                             .extent_bytes = 4 * MIB, .volume = "sixteen bytes id", .weight = 3,
                             .serial = UINT64_C(1) << 40, .volume_count = 2 }, back;
    uint8_t bytes[FORMAT_BYTES_MAX];
    const char *why;
    memcpy(format.secret, secret, sizeof(secret));
    for (uint32_t i = 0; i < 2; i++)
        format.volumes[i] = (struct route_row){ "sixteen bytes i!", i + 3 };
    format.shared[1] = format.serial;
    slice all = { (char *)bytes, format_encode(&format, bytes) };
    size_t copy = 88 + 2 * 28 + 4;
    ok(all.len == 2 * copy + 4 && number(bytes + 8) == 2 && number(bytes + 52) == 3);
    ok(format_decode(all, &back, &why) == OK && back.version == 2 && back.serial == format.serial);
    ok(back.weight == 3 && memcmp(back.volume, format.volume, sizeof(back.volume)) == 0);
    ok(memcmp(back.volumes, format.volumes, sizeof(back.volumes)) == 0 && !back.one_copy_damaged);
    ok(memcmp(back.shared, format.shared, sizeof(back.shared)) == 0);
    uint8_t again[FORMAT_BYTES_MAX], whole[FORMAT_BYTES_MAX];
    memcpy(whole, bytes, all.len);
    for (unsigned bit = 0; bit < 8 * all.len; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ok(format_decode(all, &back, &why) == OK && back.one_copy_damaged);
        ok(format_encode(&back, again) == all.len && memcmp(again, whole, all.len) == 0);
        if (bit < 8 * copy) {    /* a bit of the other copy, too */
            bytes[copy + (bit / 8 * 7) % copy] ^= 4;
            ok(format_decode(all, &back, &why) == ERR_GONE && *why);
            bytes[copy + (bit / 8 * 7) % copy] ^= 4;
        }
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t cut = 0; cut < all.len; cut++)
        ok(format_decode((slice){ all.ptr, cut }, &back, &why) == ERR_GONE);
}

/* Files from before version 2 was released lack the serials of shared runs. */
TEST(a_format_file_without_shared_runs_is_read)
{
    struct format format = { .generation = 5, .weight = 3, .serial = 8, .volume_count = 2,
                             .shared = { 0, 7 } }, back;
    uint8_t bytes[FORMAT_BYTES_MAX], old[FORMAT_BYTES_MAX];
    const char *why;
    size_t at = 88, copy = 88 + 2 * 20 + 4;
    for (uint32_t i = 0; i < 2; i++)
        format.volumes[i] = (struct route_row){ "sixteen bytes i!", i + 3 };
    (void)format_encode(&format, bytes);
    memcpy(old, bytes, at);
    for (uint32_t i = 0; i < 2; i++, at += 20)
        memcpy(old + at, bytes + 88 + i * 28, 20);
    mend_format(old, 2 * copy + 4);
    ok(format_decode((slice){ (char *)old, 2 * copy + 4 }, &back, &why) == OK);
    ok(back.serial == 8 && back.shared[1] == 0 && !back.one_copy_damaged);
    ok(memcmp(back.volumes, format.volumes, sizeof(back.volumes)) == 0);
}

TEST(an_impossible_list_of_volumes_is_refused)
{
    static const struct { size_t at; uint8_t value; } wrong[] = {
        { 80, 0 }, { 80, 1 }, { 80, 65 }, { 52, 0 }, { 88 + 16, 0 }, { 8, 0 }, { 8, 1 },
        { 79, 128 }, { 88 + 20, 1 } };    /* a serial near the highest number; one of no run */
    struct format format = { .weight = 1, .volume_count = 64 }, back;
    uint8_t bytes[FORMAT_BYTES_MAX];
    const char *why;
    for (uint32_t i = 0; i < 64; i++)
        format.volumes[i].weight = 1;
    size_t len = format_encode(&format, bytes);
    ok(format_decode((slice){ (char *)bytes, len }, &back, &why) == OK && len < 4096);
    for (size_t i = 0; i < countof(wrong); i++) {
        format_encode(&format, bytes);
        bytes[wrong[i].at] = wrong[i].value;
        mend_format(bytes, len);
        ok(format_decode((slice){ (char *)bytes, len }, &back, &why) == ERR_GONE);
    }
    format_encode(&format, bytes);
    bytes[8] = 3;
    mend_format(bytes, len);
    ok(format_decode((slice){ (char *)bytes, len }, &back, &why) == ERR_FORMAT);
}

/* ---- ages ---- */

TEST(ages_come_back_and_any_flip_is_found)
{
    static const uint8_t stamps[] = { 0, 255, 17 }, live[] = { 8, AGES_PINNED, AGES_HEAD | 1 };
    struct ages_file ages = { 5, 3, UINT64_C(1) << 40, UINT64_C(1) << 33, 77, stamps, live }, back;
    uint8_t bytes[40 + 6];
    slice all = { (char *)bytes, sizeof(bytes) };
    ok(ages_file_bytes(3) == sizeof(bytes));
    ages_file_encode(&ages, bytes);
    ok(memcmp(bytes, "PSTA", 4) == 0 && bytes[40 + 1] == 255 && bytes[40 + 3] == 8);
    ok(ages_file_decode(all, 5, &back) == OK && back.tick == ages.tick && back.count == 3);
    ok(back.live_bytes == ages.live_bytes && back.stop == 77);
    ok(memcmp(back.stamps, stamps, 3) == 0 && memcmp(back.live, live, 3) == 0);
    ok(ages_file_decode(all, 6, &back) == ERR_GONE);
    ok(ages_file_decode((slice){ all.ptr, all.len - 1 }, 5, &back) == ERR_GONE);
    for (size_t len = 0; len < all.len; len++)
        ok(ages_file_decode((slice){ all.ptr, len }, 5, &back) == ERR_GONE);
    for (unsigned bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ok(ages_file_decode(all, 5, &back) == ERR_GONE);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    ages = (struct ages_file){ .extent = 9 };
    ages_file_encode(&ages, bytes);
    ok(ages_file_decode((slice){ all.ptr, 40 }, 9, &back) == OK && back.count == 0);
}

TEST(units_beyond_the_largest_object_are_refused)
{
    struct toc_entry row = { .kind = KIND_UNITS, .data_len = UNIT_BYTES, .first_unit = UNITS_MAX - 1 };
    ok(toc_entry_is_valid(&row));
    row.data_len++;
    ok(!toc_entry_is_valid(&row));
    row = (struct toc_entry){ .kind = KIND_UNITS, .data_len = 1, .first_unit = UNITS_MAX };
    ok(!toc_entry_is_valid(&row));
    row.first_unit = 0xfffffff6u;
    ok(!toc_entry_is_valid(&row));
    static const struct { uint32_t unit; enum err err; } units[] = {
        { UNITS_MAX - 1, OK }, { UNITS_MAX, ERR_GONE }, { 0xfffffff6u, ERR_GONE },
        { METADATA_UNIT, OK } };
    for (size_t i = 0; i < countof(units); i++) {
        struct object_id id = { .bytes = { 1 } };
        struct entry entry = { .extent = 1, .len = 5, .generation = 1 }, back;
        uint8_t key[ENTRY_KEY_BYTES], value[ENTRY_BYTES];
        entry_key(&id, units[i].unit, key);
        entry_encode(&entry, key, value);
        ok(entry_decode(key, (slice){ (char *)value, sizeof(value) }, &back) == units[i].err);
    }
}

TEST(live_units_that_no_record_has_are_refused)
{
    static const uint8_t wrong[] = { 9, AGES_HEAD | 15, 0x40, 0x81 };
    for (size_t i = 0; i < sizeof(wrong); i++) {
        struct ages_file ages = { .extent = 5, .count = 1, .stamps = wrong, .live = &wrong[i] }, back;
        uint8_t bytes[42];
        ages_file_encode(&ages, bytes);
        ok(ages_file_decode((slice){ (char *)bytes, 42 }, 5, &back) == ERR_GONE);
    }
}

TEST(the_rule_comes_back_and_any_flip_is_found)
{
    struct rule_file rule = { 1234.5, 1e12, UINT64_C(1) << 41, true, false }, back;
    uint8_t bytes[RULE_FILE_BYTES];
    slice all = { (char *)bytes, sizeof(bytes) };
    rule_file_encode(&rule, bytes);
    ok(memcmp(bytes, "PSTL", 4) == 0);
    ok(rule_file_decode(all, &back) == OK && back.m1 == rule.m1 && back.m2 == rule.m2 &&
       back.tick == rule.tick && back.known && !back.moved);
    ok(rule_file_decode((slice){ all.ptr, all.len - 1 }, &back) == ERR_GONE);
    for (unsigned bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ok(rule_file_decode(all, &back) == ERR_GONE);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

/* ---- bans and pins ---- */

TEST(a_ban_covers_what_was_there_and_nothing_later)
{
    struct ban ban = { .highest = 9, .open = { { 9, 40 }, { 6, 0 } } };
    ok(ban_covers(&ban, 1, 1000000) && ban_covers(&ban, 8, 41));
    ok(ban_covers(&ban, 9, 39) && !ban_covers(&ban, 9, 40));
    ok(!ban_covers(&ban, 6, 0) && !ban_covers(&ban, 10, 0));
    ban = (struct ban){ .highest = 0 };    /* of a volume without extents */
    ok(!ban_covers(&ban, 1, 0));
}

static struct ban bans[] = {
    { 3, 9, { { 9, 40 }, { 0, 0 } }, true, { "http://o\0data\0tmp/", 18 } },
    { 7, 12, { { 12, 1 }, { 11, 2 }, { 10, 3 }, { 9, 4 } }, false, { "", 0 } },
};
static const struct bans_file bans_file = { bans, countof(bans), 8, 2 };

/* The length of the encoded bans. */
static size_t encode_bans(uint8_t *ret)
{
    bans_encode(&bans_file, ret);
    return bans_bytes(&bans_file);
}

TEST(bans_come_back_with_places_and_prefixes)
{
    uint8_t bytes[220];
    struct arena keep = { 0 };
    struct bans_file back, none = { .serial = 5, .forgotten = 5 };
    slice all = { (char *)bytes, encode_bans(bytes) };
    ok(all.len == 32 + 2 * 56 + 18 + 4 && memcmp(bytes, "PSTB", 4) == 0);
    ok(bans_decode(all, &keep, &back) == OK && back.count == 2);
    ok(back.serial == 8 && back.forgotten == 2);
    for (size_t i = 0; i < back.count; i++) {
        const struct ban *ban = &back.rows[i];
        ok(ban->serial == bans[i].serial && ban->highest == bans[i].highest);
        ok(ban->swept == bans[i].swept);
        ok(memcmp(ban->open, bans[i].open, sizeof(bans[i].open)) == 0);
        same(ban->prefix, bans[i].prefix);
    }
    bans_encode(&none, bytes);    /* none is left, but the serials are known */
    all.len = bans_bytes(&none);
    ok(bans_decode(all, &keep, &back) == OK && back.count == 0);
    ok(back.serial == 5 && back.forgotten == 5);
    arena_free(&keep);
}

TEST(damaged_bans_are_refused)
{
    uint8_t bytes[220];
    struct arena keep = { 0 };
    struct bans_file back;
    size_t len = encode_bans(bytes);
    slice all = { (char *)bytes, len };
    for (unsigned bit = 0; bit < 8 * len; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ok(bans_decode(all, &keep, &back) == ERR_GONE);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t cut = 0; cut < len; cut++)
        ok(bans_decode((slice){ all.ptr, cut }, &keep, &back) == ERR_GONE);
    /* Each has a right checksum: another version, a length beyond the end, a row too many, a serial
     * too high, a serial out of order, more forgotten than known, a wrong mark of a sweep, and a
     * serial of the list near the highest number. */
    static const struct { size_t at; uint8_t value; } wrong[] = {
        { 4, 2 }, { 4, 4 }, { 32, 200 }, { 8, 3 }, { 40, 9 }, { 40, 7 }, { 24, 9 }, { 80, 2 },
        { 23, 128 } };
    for (size_t i = 0; i < countof(wrong); i++) {
        encode_bans(bytes);
        bytes[wrong[i].at] = wrong[i].value;
        mend(bytes, len);
        ok(bans_decode(all, &keep, &back) == ERR_GONE);
    }
    arena_free(&keep);
}

TEST(pins_come_back_and_damage_is_refused)
{
    static const struct pin pins[] = { { 1, true, { "http://o\0data\0", 14 } },
                                       { 2, false, { "http://o\0data\0a", 15 } } };
    uint8_t bytes[200];
    struct arena keep = { 0 };
    struct pin *back;
    size_t count, len = pins_bytes(pins, 2);
    uint64_t serial;
    slice all = { (char *)bytes, len };
    pins_encode(pins, 2, 2, bytes);
    ok(len == 24 + 2 * 16 + 29 + 4 && memcmp(bytes, "PSTP", 4) == 0);
    ok(pins_decode(all, &keep, &back, &count, &serial) == OK && count == 2 && serial == 2);
    ok(back[0].pinned && !back[1].pinned && back[1].serial == 2);
    same(back[1].prefix, pins[1].prefix);
    for (unsigned bit = 0; bit < 8 * len; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ok(pins_decode(all, &keep, &back, &count, &serial) == ERR_GONE);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    bytes[24 + 4] = 2;    /* neither pinned nor not */
    mend(bytes, len);
    ok(pins_decode(all, &keep, &back, &count, &serial) == ERR_GONE);
    arena_free(&keep);
}

RUN(cmocka_unit_test(a_head_page_has_kind_volume_and_number_where_the_page_says),
    cmocka_unit_test(names_follow_each_other_and_their_lengths_are_bounded),
    cmocka_unit_test(a_name_is_found_in_a_metadata_block),
    cmocka_unit_test(a_bucket_hash_is_of_endpoint_and_bucket_and_of_nothing_else),
    cmocka_unit_test(a_footer_of_each_version_comes_back_and_any_flip_is_found),
    cmocka_unit_test(rows_of_version_1_lack_the_hashes),
    cmocka_unit_test(a_format_file_comes_back_with_its_list_from_either_copy),
    cmocka_unit_test(a_format_file_without_shared_runs_is_read),
          cmocka_unit_test(an_impossible_list_of_volumes_is_refused),
    cmocka_unit_test(ages_come_back_and_any_flip_is_found),
    cmocka_unit_test(units_beyond_the_largest_object_are_refused),
    cmocka_unit_test(live_units_that_no_record_has_are_refused),
    cmocka_unit_test(the_rule_comes_back_and_any_flip_is_found),
    cmocka_unit_test(a_ban_covers_what_was_there_and_nothing_later),
    cmocka_unit_test(bans_come_back_with_places_and_prefixes),
    cmocka_unit_test(damaged_bans_are_refused),
    cmocka_unit_test(pins_come_back_and_damage_is_refused))
