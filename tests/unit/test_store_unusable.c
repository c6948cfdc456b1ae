/* test_store_unusable.c - files in extents/ that can't be extents of the folder.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Another program may have made such a file, or an extent is damaged. Its records are misses. */
#include "store_unit.h"

#include "store/format.h"

#define EXTENT (2 * MIB)
#define CACHE (12 * MIB)
#define SIZE 100000u

static void put_many(struct unit_store *unit, const char *set, int count)
{
    char key[32];
    for (int i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "%s%d", set, i);
        ok(put_object(unit, key, "\"1\"", SIZE) == OK);
    }
}

/* ---- longer than an extent can be ---- */

static off_t length;

/* As a kill leaves the newest extent: without its table of contents. Then it is made longer. */
static void cut_and_stretch(const char *path)
{
    uint8_t bytes[TOC_FOOTER_BYTES];
    struct toc_footer footer;
    struct stat st;
    int fd = open(path, O_RDWR);
    ok(fd >= 0 && fstat(fd, &st) == 0);
    ok(pread(fd, bytes, sizeof(bytes), st.st_size - (off_t)sizeof(bytes)) == (ssize_t)sizeof(bytes));
    ok(toc_footer_decode(bytes, &footer) == OK);
    ok(ftruncate(fd, (off_t)footer.offset) == 0 && ftruncate(fd, length) == 0);
    close(fd);
}

/* At 512 GiB the number of records that fit in the file no longer fits in 32 bits. */
TEST(an_extent_that_is_longer_than_any_can_be_is_a_miss)
{
    static const off_t lengths[] = { 512 * (off_t)GIB - 128, 512 * (off_t)GIB, 1025 * (off_t)GIB,
                                     129 * (off_t)MIB };
    for (size_t i = 0; i < countof(lengths); i++) {
        struct unit_store unit = unit_open_sized(CACHE, EXTENT);
        put_many(&unit, "a", 10);
        unit_close(&unit);
        length = lengths[i];
        ok(each_extent(cut_and_stretch) == 1);
        unit = unit_open_sized(CACHE, EXTENT);
        ok(serving(&unit) && count_there(&unit, "a", 10, SIZE) == 0);
        put_many(&unit, "b", 10);
        ok(count_there(&unit, "b", 10, SIZE) == 10);
        unit_close(&unit);
        remove_tree(unit_folder);
    }
}

RUN(STORE_TEST(an_extent_that_is_longer_than_any_can_be_is_a_miss))
