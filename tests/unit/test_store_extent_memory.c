/* test_store_extent_memory.c - the memory of an extent grows with its records.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A cache of 1 TiB has 16,384 extents. Most of them are sealed, and have 65 records if objects are
 * large. */
#include "store_unit.h"

#include <inttypes.h>
#include <malloc.h>
#include <sched.h>

#include "store/extent_inside.h"
#include "store/inside.h"

#define EXTENT (64 * MIB)
#define WHEN 1800000000

static const struct format format = { .extent_bytes = EXTENT };

static void append(struct extents *all, unsigned count)
{
    static uint8_t bytes[60];
    for (unsigned i = 0; i < count; i++) {
        struct append_item item = { .record = { .kind = KIND_UNITS, .data_len = sizeof(bytes),
                                                .etag_hash = 1 },
                                    .bytes = { (char *)bytes, sizeof(bytes) } };
        if (open_extent_add(all, OPEN_LOG, &item) != OK)
            ok(open_extent_write(all, OPEN_LOG) == OK &&
               open_extent_add(all, OPEN_LOG, &item) == OK);
    }
    ok(open_extent_write(all, OPEN_LOG) == OK);
}

static void reopen(struct extents *all)
{
    extents_close(all);
    ok(find_extents(all, &format) == OK);
}

TEST(a_sealed_extent_has_memory_for_its_records_alone)
{
    struct extents *all = extents_new(0);
    ok(find_extents(all, &format) == OK && open_extent_roll(all) == OK);
    append(all, 65);
    struct ages *ages = extent_ages(all, 1);
    ok(ages_limit(ages) == EXTENT / RECORD_BYTES_MIN);    /* more may come */
    ok(open_extent_roll(all) == OK);    /* 2 has no record */
    ok(open_extent_roll(all) == OK);
    append(all, 65);                    /* 3 stays unsealed */
    reopen(all);
    ages = extent_ages(all, 1);
    ok(ages_limit(ages) == 65 && malloc_usable_size(ages) <= 1024);
    ages_touch(ages, 64, 7);
    ages_touch(ages, 65, 7);            /* it has no such record */
    ok(ages_stamp(ages, 64) == 7 && ages_stamp(ages, 65) == 0);
    ok(sizeof(struct extent) <= 1024);
    ok(ages_limit(extent_ages(all, 2)) == 0);
    ok(ages_limit(extent_ages(all, 3)) == EXTENT / RECORD_BYTES_MIN);
    ok(extent_seal_old(all, 3) == OK);
    reopen(all);
    ok(ages_limit(extent_ages(all, 3)) == 65);
    extents_free(&all);
}

/* True if the kernel gives no huge pages at this address. */
static bool has_small_pages(const void *at)
{
    char line[512];
    bool here = false, small = false;
    uintptr_t begin, end;
    FILE *maps = fopen("/proc/self/smaps", "r");
    ok(maps != NULL);
    while (fgets(line, sizeof(line), maps)) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2)
            here = (uintptr_t)at >= begin && (uintptr_t)at < end;
        else if (here && strncmp(line, "VmFlags:", 8) == 0)
            small = strstr(line, " nh") != NULL;
    }
    fclose(maps);
    return small;
}

TEST(an_extent_that_takes_records_has_no_huge_pages)
{
    struct extents *all = extents_new(0);
    ok(find_extents(all, &format) == OK && open_extent_roll(all) == OK);
    ok(has_small_pages(extent_ages(all, 1)));
    extents_free(&all);
}

/* Records after those of the largest chunk have no time and no grant, so the origin is asked. */
TEST(each_record_keeps_its_own_time_and_grant)
{
    static const uint32_t ordinals[] = { 0, 1, 63, 64, 191, 192, 447, 448, 4095, 4096, 65000, 524287,
                                         1048511 };
    struct extents *all = extents_new(0);
    ok(find_extents(all, &format) == OK && open_extent_roll(all) == OK);
    for (uint32_t i = 0; i < countof(ordinals); i++) {
        ok(extent_time_set(all, 1, ordinals[i], WHEN + i));
        ok(extent_granted_raise(all, 1, ordinals[i], i + 1) == i + 1);
    }
    (void)extent_time_set(all, 1, 1048512, WHEN);
    (void)extent_time_set(all, 1, UINT32_MAX, WHEN);
    struct extent *extent = extent_ref(all, 1);
    for (uint32_t i = 0; i < countof(ordinals); i++) {
        ok(extent_time(extent, ordinals[i]) == WHEN + i);
        ok(extent_granted(extent, ordinals[i]) == i + 1);
    }
    ok(extent_time(extent, 2) == 0 && extent_granted(extent, 524286) == 0);
    ok(extent_time(extent, 1048512) == 0 && extent_time(extent, UINT32_MAX) == 0);
    extent_release(&extent);
    extents_free(&all);
}

/* ---- readers, while an extent takes records ---- */

#define RECORDS 65000u

struct growth {
    struct extents *all;
    _Atomic uint32_t end;             /* the records before this one are there */
    atomic_bool done;
};

static void *read_records(void *arg)
{
    struct growth *growth = arg;
    struct extent *extent = extent_ref(growth->all, 1);
    struct ages *ages = extent_ages_of(extent);
    while (!atomic_load(&growth->done)) {
        uint32_t end = atomic_load(&growth->end);
        for (uint32_t i = end - MIN(end, 300); i < end; i += 7) {
            extent_touch(extent, i, (uint8_t)(i % 200 + 1));
            check(ages_tally(ages, i) == i % 1000 && ages_is_pinned(ages, i) == (i % 64 == 5));
            check(extent_time(extent, i) == (i % 100 ? 0 : WHEN + (int64_t)i));
        }
        sched_yield();
    }
    extent_release(&extent);
    return NULL;
}

TEST(records_are_read_while_an_extent_takes_more)
{
    struct growth growth = { .all = extents_new(0) };
    pthread_t threads[3];
    ok(find_extents(growth.all, &format) == OK && open_extent_roll(growth.all) == OK);
    for (size_t i = 0; i < countof(threads); i++)
        ok(pthread_create(&threads[i], NULL, read_records, &growth) == 0);
    struct ages *ages = extent_ages(growth.all, 1);
    for (uint32_t i = 0; i < RECORDS; i++) {
        ages_add(ages, i, &(struct ages_record){ .stamp = (uint8_t)(i % 200 + 1), .tally = i % 1000 });
        if (i % 64 == 5)
            ages_pin_new(ages, i, false);
        if (i % 100 == 0)
            ok(extent_time_set(growth.all, 1, i, WHEN + i));
        atomic_store(&growth.end, i + 1);
    }
    atomic_store(&growth.done, true);
    for (size_t i = 0; i < countof(threads); i++)
        pthread_join(threads[i], NULL);
    ok(ages_counted(ages) == RECORDS);
    for (uint32_t i = 0; i < RECORDS; i++)
        ok(ages_stamp(ages, i) == i % 200 + 1 && ages_was_pinned(ages, i) == (i % 64 == 5));
    extents_free(&growth.all);
}

RUN(STORE_TEST(a_sealed_extent_has_memory_for_its_records_alone),
    STORE_TEST(an_extent_that_takes_records_has_no_huge_pages),
    STORE_TEST(each_record_keeps_its_own_time_and_grant),
    STORE_TEST(records_are_read_while_an_extent_takes_more))
