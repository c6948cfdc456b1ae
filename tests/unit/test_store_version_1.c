/* test_store_version_1.c - a cache folder of format version 1 is taken over, and nothing of it is
 * lost; its Penstock refuses a folder of version 2. SPDX-License-Identifier: Apache-2.0
 *
 * tests/vectors/folder-1.tar.gz was written by Penstock's store at format version 1. It has the
 * objects below in two extents: the first was sealed by a clean stop, the second was left by a
 * kill. */
#include "store_unit.h"

#include <signal.h>

#include "store/extent_inside.h"
#include "store/inside.h"
#include "store/walk.h"

static void unpack(void)
{
    char command[600];
    const char *srcdir = getenv("srcdir");
    remove_tree(unit_folder);
    snprintf(command, sizeof(command),
             "mkdir %s && tar -xzf %s/tests/vectors/folder-1.tar.gz -C %s --strip-components=1",
             unit_folder, srcdir ? srcdir : ".", unit_folder);
    ok(system(command) == 0);
}

static slice file_bytes(const char *name)
{
    static char bytes[2][64 * KIB];
    static unsigned turn;
    char *to = bytes[turn++ % 2];
    int fd = open(in_folder(name), O_RDONLY);
    ssize_t len = read(fd, to, sizeof(bytes[0]));
    ok(fd >= 0 && len >= 0);
    close(fd);
    return (slice){ to, (size_t)len };
}

static struct format format_now(void)
{
    struct format format;
    const char *why;
    ok(format_decode(file_bytes("format"), &format, &why) == OK);
    return format;
}

/* The metadata, and the last unit, which is short. */
static bool has_part(struct unit_store *unit, const char *key, uint64_t size)
{
    uint64_t at = 8 * UNIT_BYTES;
    struct metadata *metadata = get_metadata(unit, key);
    bool right = metadata && metadata->size == size && read_range(unit, key, at, size) == size - at;
    metadata_unref(&metadata);
    return right && read_range(unit, key, 0, at) == 0;
}

static void all_is_there(struct unit_store *unit)
{
    ok(has_object(unit, "tiny", "\"1\"", 300) && has_object(unit, "empty", "\"1\"", 0));
    ok(has_object(unit, "second", "\"1\"", 200));
    ok(has_part(unit, "part", 8 * UNIT_BYTES + 1000));
    ok(has_part(unit, "part2", 8 * UNIT_BYTES + 700));
}

static void starts_with(const char *name, const char *magic)
{
    ok(memcmp(file_bytes(name).ptr, magic, 4) == 0);
}

TEST(a_folder_of_version_1_becomes_one_of_version_2_and_keeps_what_it_has)
{
    for (int lose_index = 0; lose_index < 2; lose_index++) {
        unpack();
        struct format before = format_now(), after;
        struct toc_footer footer;
        slice extent = file_bytes("extents/00000001");
        ok(before.version == 1 && before.volume_count == 0 && before.opening == 2);
        if (lose_index)
            remove_tree(in_folder("index"));
        struct unit_store unit = unit_open();
        all_is_there(&unit);
        ok(is_unproved(&unit, "tiny") && put_object(&unit, "new", "\"1\"", 2 * MIB) == OK);
        unit_close(&unit);
        after = format_now();
        ok(after.version == 2 && after.opening == 3 && after.weight == 1 && after.serial > 1);
        ok(memcmp(after.secret, before.secret, sizeof(after.secret)) == 0);
        ok(after.volume_count == 1 && after.volumes[0].weight == 1);
        ok(memcmp(after.volumes[0].id, after.volume, VOLUME_ID_BYTES) == 0);
        same(file_bytes("extents/00000001"), extent);
        /* The one that was unsealed has a table now, of version 1. */
        slice sealed = file_bytes("extents/00000002");
        ok(toc_footer_decode((const uint8_t *)sealed.ptr + sealed.len - 64, &footer) == OK);
        ok(footer.version == 1 && footer.count == 3);
        starts_with("extents/00000001", "PSTR");
        starts_with("extents/00000002", "PSTR");
        starts_with("extents/00000003", "PSTE");
        for (int again = 0; again < 2; again++) {    /* then with a rebuild from both versions */
            unit = unit_open();
            all_is_there(&unit);
            ok(has_object(&unit, "new", "\"1\"", 2 * MIB));
            unit_close(&unit);
            ok(memcmp(format_now().volume, after.volume, VOLUME_ID_BYTES) == 0);
            remove_tree(in_folder("index"));
        }
    }
}

static enum err add_kinds(void *arg, const struct toc_row *row)
{
    char *kinds = arg;
    ok(row->name.name.len == 0 && row->entry->bucket == 0 && strlen(kinds) < 9);
    kinds[strlen(kinds)] = (char)('0' + row->entry->kind);
    return OK;
}

static enum err nothing(void *arg, const struct walk_object *object)
{
    (void)object;
    ++*(unsigned *)arg;
    return OK;
}

TEST(a_walk_counts_the_extents_of_version_1_that_have_objects)
{
    unpack();
    struct unit_store unit = unit_open();
    unsigned visits = 0;
    struct walk_ask ask = { .endpoint = S("http://origin"), .bucket = S("bucket"), .visit = nothing,
                            .arg = &visits };
    struct walk_gaps gaps;
    ok(store_walk(unit.store, &ask, &gaps) == OK && visits == 0);
    ok(gaps.any && gaps.unnamed == 2 && gaps.extents == 0 && !gaps.folders[0]);
    for (size_t i = 0; i < 2; i++)    /* of the first extent, or of the second */
        ok(remove_object(&unit, (const char *[]){ "second", "part2" }[i]) == OK);
    ok(store_walk(unit.store, &ask, &gaps) == OK && gaps.any && gaps.unnamed == 1);
    unit_close(&unit);
}

TEST(rows_of_version_1_have_no_names_and_no_buckets)
{
    unpack();
    struct unit_store unit = unit_open();
    struct extents *all = unit.store->volumes[0]->extents;
    struct toc_footer footer;
    for (uint32_t number = 1; number <= 2; number++) {
        char kinds[10] = { 0 };
        ok(extent_each_row(all, number, add_kinds, kinds) == OK);
        same(slice_of(kinds), number == 1 ? S("2231") : S("231"));
        ok(extent_footer(all, number, &footer) == OK && footer.version == 1 &&
           footer.kind == EXTENT_LOG);
    }
    unit_close(&unit);
}

TEST(a_kill_while_a_folder_is_taken_over_loses_nothing)
{
    for (unsigned round = 0; round < 40; round++) {
        unpack();
        pid_t child = fork();
        if (child == 0) {
            unit_open();
            pause();
        }
        usleep(round * 150);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        struct unit_store unit = unit_open();
        all_is_there(&unit);
        unit_close(&unit);
        ok(format_now().version == 2);
    }
}

/* ---- the way back ---- */

struct format_of_version_1 {
    char magic[8];
    uint32_t version, generation;
    uint8_t secret[16];
    uint64_t size_bytes, opening;
    uint32_t extent_bytes, zero[2], crc;
};

/* As version 1 has it, word for word. */
static enum err decode_as_version_1(slice bytes)
{
    struct format_of_version_1 disk = { .version = 0 };
    uint32_t crc;
    if (bytes.len < offsetof(struct format_of_version_1, generation) + sizeof(crc) ||
        memcmp(bytes.ptr, "PENSTOCK", 8) != 0)
        return ERR_GONE;
    memcpy(&crc, bytes.ptr + bytes.len - sizeof(crc), sizeof(crc));
    if (crc != crc32c(0, bytes.ptr, bytes.len - sizeof(crc)))
        return ERR_GONE;
    memcpy(&disk, bytes.ptr, MIN(bytes.len, sizeof(disk)));
    if (disk.version > 1)
        return ERR_FORMAT;
    if (bytes.len != sizeof(disk) || disk.version != 1 || disk.generation >= 1024)
        return ERR_GONE;
    return OK;
}

/* A damaged file would be no reason to refuse: version 1 would begin anew. */
TEST(version_1_refuses_a_folder_of_version_2)
{
    unpack();
    ok(decode_as_version_1(file_bytes("format")) == OK);
    struct unit_store unit = unit_open();
    unit_close(&unit);
    ok(decode_as_version_1(file_bytes("format")) == ERR_FORMAT);
}

/* ---- what a volume is ---- */

TEST(the_weight_is_that_of_the_first_start)
{
    struct unit_store unit = unit_open_sized(3 * GIB + 5, 4 * MIB);
    unit_close(&unit);
    ok(format_now().weight == 3);
    unit = unit_open_sized(64 * MIB, 4 * MIB);
    unit_close(&unit);
    ok(format_now().weight == 3 && format_now().size_bytes == 64 * MIB);
}

TEST(an_opening_raises_the_serial_and_takes_the_present_list)
{
    struct unit_store unit = unit_open();
    unit_close(&unit);
    struct format format = format_now();
    uint8_t bytes[FORMAT_BYTES_MAX];
    format.serial = 7;
    format.volume_count = 2;
    format.volumes[1] = (struct route_row){ "another volume", 9 };
    size_t len = format_encode(&format, bytes);
    int fd = open(in_folder("format"), O_WRONLY | O_TRUNC);
    ok(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    close(fd);
    unit = unit_open();
    for (int i = 0; i < 6000 && format_now().volume_count == 2; i++)    /* a step of the committer */
        usleep(10000);
    unit_close(&unit);
    struct format after = format_now();
    ok(after.opening == format.opening + 1 && after.serial > 7 && after.volume_count == 1);
    ok(memcmp(after.volumes, format.volumes, sizeof(after.volumes[0])) == 0);
}

/* An extent of another folder of the same installation: the secret and the number are right. */
TEST(an_extent_of_another_folder_is_not_taken_in)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "k", "\"1\"", 1000) == OK);
    unit_close(&unit);
    struct format format = format_now();
    uint8_t bytes[FORMAT_BYTES_MAX];
    format.volume[3] ^= 1;
    format.volumes[0].id[3] ^= 1;
    size_t len = format_encode(&format, bytes);
    int fd = open(in_folder("format"), O_WRONLY | O_TRUNC);
    ok(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    close(fd);
    remove_tree(in_folder("index"));    /* so that it would be built from the extents */
    unit = unit_open();
    ok(!get_metadata(&unit, "k") && put_object(&unit, "k", "\"2\"", 1000) == OK);
    ok(has_object(&unit, "k", "\"2\"", 1000));
    unit_close(&unit);
    starts_with("extents/00000002", "PSTE");
}

RUN_STORE(STORE_TEST(a_folder_of_version_1_becomes_one_of_version_2_and_keeps_what_it_has),
          STORE_TEST(a_walk_counts_the_extents_of_version_1_that_have_objects),
          STORE_TEST(rows_of_version_1_have_no_names_and_no_buckets),
          STORE_TEST(a_kill_while_a_folder_is_taken_over_loses_nothing),
          STORE_TEST(version_1_refuses_a_folder_of_version_2),
          STORE_TEST(the_weight_is_that_of_the_first_start),
          STORE_TEST(an_opening_raises_the_serial_and_takes_the_present_list),
          STORE_TEST(an_extent_of_another_folder_is_not_taken_in))
