/* test_store_extent.c - files of records: held, recycled, and read through few descriptors.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>

#include "store/extent_inside.h"
#include "store/inside.h"

#define EXTENT (2 * MIB)

static const struct format format = { .extent_bytes = EXTENT };

/* One record of `len` bytes, written. */
static void append_one(struct extents *all, uint8_t fill, size_t len)
{
    static uint8_t bytes[RECORD_BYTES_MAX];
    memset(bytes, fill, len);
    struct append_item item = { .record = { .kind = KIND_UNITS, .data_len = (uint32_t)len,
                                         .etag_hash = 1 },
                             .bytes = { (char *)bytes, len } };
    ok(open_extent_add(all, OPEN_LOG, &item) == OK && open_extent_write(all, OPEN_LOG) == OK);
}

static bool reads(const struct extent *extent, uint8_t fill)
{
    uint8_t got[100];
    return pread(extent_fd(extent), got, sizeof(got), 2 * PAGE_BYTES) == sizeof(got) &&
           got[0] == fill &&
           got[99] == fill;
}

static struct extent *hold(struct extents *all, uint32_t number)
{
    struct extent *extent;
    ok(extent_hold(all, number, &extent) == OK);
    return extent;
}

static bool can_hold(struct extents *all, uint32_t number)
{
    struct extent *extent;
    enum err e = extent_hold(all, number, &extent);
    extent_release(&extent);
    return e == OK;
}

/* Small objects with a full unit: each has a header, metadata, data, and both kinds of padding. */
TEST(an_append_takes_as_many_records_as_may_be_gathered_of_any_shape)
{
    static uint8_t bytes[UNIT_BYTES + 1];
    struct format large = { .extent_bytes = 32 * MIB };
    struct extents *all = extents_new(UINT64_MAX);
    ok(find_extents(all, &large) == OK && open_extent_roll(all) == OK);
    for (unsigned i = 0; i < GATHER_MAX; i++) {
        struct append_item item = {
            .record = { .kind = KIND_WHOLE, .data_len = sizeof(bytes), .metadata_len = 100,
                        .etag_hash = 1 },
            .metadata_block = { (char *)bytes, 100 },
            .bytes = { (char *)bytes, sizeof(bytes) },
        };
        ok(open_extent_add(all, OPEN_LOG, &item) == OK);
    }
    ok(open_extent_write(all, OPEN_LOG) == OK);
    extents_free(&all);
}

TEST(a_reader_keeps_a_recycled_extent_alive)
{
    struct extents *all = extents_new(UINT64_MAX);
    ok(find_extents(all, &format) == OK);
    ok(open_extent_roll(all) == OK);
    append_one(all, 'a', UNIT_BYTES);
    struct extent *held = hold(all, 1);
    ok(open_extent_roll(all) == OK);
    uint64_t bytes = extents_bytes(all);
    ok(bytes > UNIT_BYTES);
    extent_drop(all, 1);
    ok(!can_hold(all, 1));    /* gone for newcomers */
    ok(access(in_folder("extents/00000001"), F_OK) != 0);
    ok(extents_bytes(all) == bytes);    /* but it still takes room */
    append_one(all, 'b', UNIT_BYTES);
    ok(reads(held, 'a'));
    extent_release(&held);
    ok(extents_bytes(all) < bytes);
    extents_free(&all);
}

TEST(a_number_is_never_used_again)
{
    struct extents *all = extents_new(UINT64_MAX);
    ok(find_extents(all, &format) == OK);
    for (uint32_t i = 1; i <= 5; i++) {
        ok(open_extent_roll(all) == OK);
        append_one(all, 'a', 100);
        if (i > 1)
            extent_drop(all, i - 1);
    }
    extents_close(all);
    ok(find_extents(all, &format) == OK && open_extent_roll(all) == OK);
    struct extent *held = hold(all, 6);
    ok(extents_count(all) == 2);
    extent_release(&held);
    extents_free(&all);
}

/* ---- few descriptors ---- */

#define MANY 64u
#define FEW_FILES 64u                 /* of which extents get a quarter */
#define FEW (FEW_FILES / 4)

static struct rlimit files_before;
static int hoarded[FEW_FILES];
static unsigned hoarded_count;

static int few_files_setup(void **state)
{
    hoarded_count = 0;
    getrlimit(RLIMIT_NOFILE, &files_before);
    struct rlimit few = { FEW_FILES, files_before.rlim_max };
    return folder_setup(state) == 0 ? setrlimit(RLIMIT_NOFILE, &few) : -1;
}

/* Leaves so many to be had. */
static void hoard_but(unsigned left)
{
    int fd;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0)
        hoarded[hoarded_count++] = fd;
    while (left-- > 0)
        close(hoarded[--hoarded_count]);
}

static int few_files_teardown(void **state)
{
    while (hoarded_count > 0)
        close(hoarded[--hoarded_count]);
    return setrlimit(RLIMIT_NOFILE, &files_before) == 0 ? folder_teardown(state) : -1;
}

static unsigned files_open(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Extent n holds bytes of the value n; open again, from then on as after a start. */
static struct extents *open_with(uint32_t count)
{
    struct extents *all = extents_new(UINT64_MAX);
    ok(find_extents(all, &format) == OK);
    for (uint32_t n = 1; n <= count; n++) {
        ok(open_extent_roll(all) == OK);
        append_one(all, (uint8_t)n, UNIT_BYTES);
    }
    extents_close(all);
    ok(find_extents(all, &format) == OK);
    return all;
}

static uint64_t bytes_on_disk;

static void add_bytes(const char *path)
{
    struct stat st;
    ok(stat(path, &st) == 0);
    bytes_on_disk += (uint64_t)st.st_size;
}

TEST(any_number_of_extents_is_written_found_and_read_through_few_descriptors)
{
    unsigned before = files_open();
    struct extents *all = open_with(MANY);
    bytes_on_disk = 0;
    each_extent(add_bytes);
    ok(extents_count(all) == MANY && extents_bytes(all) == bytes_on_disk);
    for (uint32_t n = 1; n <= MANY; n++)
        ok(extent_is_sealed(all, n) == (n < MANY));
    for (uint32_t i = 0; i < 3 * MANY; i++) {
        struct extent *held = hold(all, 1 + i % MANY);
        ok(reads(held, (uint8_t)(1 + i % MANY)));
        extent_release(&held);
        ok(files_open() <= before + 1 + FEW);    /* the folder, and they */
    }
    extents_free(&all);
    ok(files_open() == before);
}

TEST(what_is_held_stays_open_whatever_others_read)
{
    struct extents *all = open_with(MANY);
    struct extent *recycled = hold(all, 1), *held = hold(all, 2);
    extent_drop(all, 1);
    for (uint32_t n = 3; n <= MANY; n++)
        ok(can_hold(all, n));
    ok(reads(recycled, 1) && reads(held, 2) && !can_hold(all, 1));
    extent_release(&recycled);
    extent_release(&held);
    extents_free(&all);
}

static bool is_open(struct extents *all, uint32_t number)
{
    return extent_find(all, number)->fd >= 0;
}

TEST(an_extent_that_was_held_since_its_last_turn_is_spared_when_one_is_closed_for_another)
{
    struct extents *all = open_with(FEW + 3);
    while (extent_close_idle(all))
        ;
    for (uint32_t n = 1; n <= FEW + 1; n++)    /* the last one ends a round: all were held */
        ok(can_hold(all, n));
    ok(!is_open(all, 1));
    ok(can_hold(all, 2) && can_hold(all, 4));
    ok(can_hold(all, FEW + 2) && !is_open(all, 3));
    ok(can_hold(all, FEW + 3) && !is_open(all, 5));
    for (uint32_t n = 1; n <= FEW + 3; n++)
        ok(is_open(all, n) == (n != 1 && n != 3 && n != 5));
    extents_free(&all);
}

/* As many as can be held at once: which is never for want of the extent. */
static size_t hold_all(struct extents *all, uint32_t count, struct extent **ret)
{
    size_t held = 0;
    for (uint32_t n = 1; n <= count; n++) {
        enum err e = extent_hold(all, n, &ret[held]);
        ok(e == OK || e == ERR_LIMIT);
        held += e == OK;
    }
    return held;
}

static void release_all(struct extent **held, size_t count)
{
    for (size_t i = 0; i < count; i++)
        extent_release(&held[i]);
}

TEST(a_quarter_of_the_process_s_descriptors_can_be_held)
{
    struct extents *all = open_with(MANY);
    struct extent *held[MANY];
    uint64_t before = metric_read(M_STORE_NO_FD);
    ok(hold_all(all, MANY, held) == FEW);
    ok(metric_read(M_STORE_NO_FD) == before + MANY - FEW);
    extent_release(&held[3]);
    ok(can_hold(all, MANY));
    release_all(held, FEW);
    ok(hold_all(all, MANY, held) == FEW);
    release_all(held, FEW);
    extents_free(&all);
}

TEST(a_process_short_of_descriptors_closes_idle_extents_and_misses_none)
{
    struct extents *all = open_with(MANY);
    struct extent *held[MANY];
    extents_close(all);
    all->fds_max = 2 * MANY;    /* others have taken what was meant for us */
    hoard_but(8);
    ok(find_extents(all, &format) == OK && extents_count(all) == MANY);
    for (uint32_t n = 1; n <= MANY; n++)
        ok(can_hold(all, n));
    size_t count = hold_all(all, MANY, held);
    ok(count >= 4 && count <= 8);
    ok(open_extent_roll(all) == ERR_LIMIT);
    release_all(held, count);
    ok(open_extent_roll(all) == OK);
    extents_free(&all);
}

static bool maps(struct extent *extent)
{
    const uint8_t *map = extent_cached(extent, 2 * PAGE_BYTES, 100);
    ok(!map || (map[0] == extent->number && map[99] == extent->number));
    return map != NULL;
}

/* Does it have one by now? */
static bool is_mapped(struct extents *all, uint32_t number)
{
    return atomic_load(&extent_find(all, number)->map) != NULL;
}

TEST(no_more_is_mapped_than_may_be_and_what_was_not_held_lately_gives_way)
{
    struct extents *all = open_with(4);
    struct extent *held[4];
    all->mapped.bytes_max = 2 * EXTENT + 1;
    for (uint32_t n = 1; n <= 4; n++)
        held[n - 1] = hold(all, n);
    ok(maps(held[0]) && maps(held[1]) && !maps(held[2]) && maps(held[0]));
    extent_release(&held[0]);
    extent_release(&held[1]);    /* the third has asked, so both have had a turn */
    ok(can_hold(all, 1));
    ok(maps(held[2]) && !is_mapped(all, 2) && is_mapped(all, 1) && is_open(all, 2));
    ok(maps(held[3]) && !is_mapped(all, 1) && is_mapped(all, 3));
    ok(atomic_load(&all->mapped.bytes) == 2 * EXTENT);
    ok(can_hold(all, 1) && can_hold(all, 2));
    extent_release(&held[2]);
    extent_release(&held[3]);
    all->mapped.bytes_max = 0;
    held[0] = hold(all, 1);
    ok(!maps(held[0]) && atomic_load(&all->mapped.bytes) == 0);
    extent_release(&held[0]);
    extents_free(&all);
}

TEST(nothing_is_mapped_where_address_space_is_limited)
{
    struct rlimit before, few;
    ok(getrlimit(RLIMIT_AS, &before) == 0);
    few = (struct rlimit){ UINT64_C(1) << 46, before.rlim_max };    /* the thread sanitizer's, too */
    if (before.rlim_cur == RLIM_INFINITY && setrlimit(RLIMIT_AS, &few) == 0) {
        ok(extent_mapped_allowed(7) == 0);
        ok(setrlimit(RLIMIT_AS, &before) == 0 && extent_mapped_allowed(7) == 7);
    }
}

TEST(a_map_is_there_while_its_extent_is_held_and_goes_with_its_descriptor)
{
    struct extents *all = open_with(4);
    struct extent *first = hold(all, 1), *second = hold(all, 2), *third = hold(all, 3);
    ok(maps(first) && maps(third));
    extent_drop(all, 1);
    extent_drop(all, 2);
    ok(maps(second));    /* out of the table by now */
    ok(maps(first) && reads(first, 1) && atomic_load(&all->mapped.bytes) == 3 * EXTENT);
    extent_release(&first);
    extent_release(&second);
    ok(atomic_load(&all->mapped.bytes) == EXTENT);
    ok(all->clocks[CLOCK_MAPS].next == &third->turns[CLOCK_MAPS].link &&
       all->clocks[CLOCK_MAPS].prev == &third->turns[CLOCK_MAPS].link);
    while (extent_close_idle(all))
        ok(is_mapped(all, 3));
    extent_release(&third);
    while (extent_close_idle(all))
        ;
    ok(!is_mapped(all, 3) && atomic_load(&all->mapped.bytes) == 0);
    third = hold(all, 3);
    ok(maps(third));
    extents_close(all);
    ok(maps(third));
    extent_release(&third);
    ok(atomic_load(&all->mapped.bytes) == 0);
    extents_free(&all);
}

struct mapper {
    struct extents *all;
    uint32_t seed;
    atomic_uint *found;
};

static void *map_some(void *arg)
{
    struct mapper *mapper = arg;
    for (unsigned i = 0; i < rounds_of(4000, 400); i++) {
        mapper->seed = mapper->seed * 1103515245 + 12345;
        struct extent *extent = hold(mapper->all, 1 + (mapper->seed >> 16) % 4);
        atomic_fetch_add(mapper->found, maps(extent));
        extent_release(&extent);
    }
    return NULL;
}

TEST(maps_come_and_go_under_many_readers)
{
    struct extents *all = open_with(4);
    struct mapper mappers[3];
    pthread_t threads[countof(mappers)];
    atomic_uint found = 0;
    all->mapped.bytes_max = 2 * EXTENT;
    for (uint32_t i = 0; i < countof(mappers); i++) {
        mappers[i] = (struct mapper){ all, i, &found };
        ok(pthread_create(&threads[i], NULL, map_some, &mappers[i]) == 0);
    }
    for (size_t i = 0; i < countof(threads); i++)
        pthread_join(threads[i], NULL);
    ok(found > 0 && atomic_load(&all->mapped.bytes) <= 2 * EXTENT);
    extents_free(&all);
}

/* ---- readers and the committer, at the same time ---- */

struct racer {
    struct extents *all;
    _Atomic uint32_t *oldest;         /* the extent that goes next; 0: all is done */
    uint32_t found, late;
};

/* Only the oldest extents are held, just before they go and just after. */
static void *hold_oldest(void *arg)
{
    struct racer *racer = arg;
    for (uint32_t i = 0, oldest; (oldest = atomic_load(racer->oldest)) > 0; i++) {
        struct extent *extent;
        uint32_t number = oldest + i % 2;
        if (extent_hold(racer->all, number, &extent) == OK) {
            check(extent->number == number && extent_fd(extent) >= 0);
            check(fcntl(extent_fd(extent), F_GETFL) & O_NOATIME);    /* opened anew, too */
            if (i % 16 == 0)
                check(reads(extent, (uint8_t)number));
            racer->found++;
        } else {
            racer->late++;
        }
        extent_release(&extent);
    }
    return NULL;
}

static void *mark_oldest(void *arg)
{
    struct racer *racer = arg;
    for (uint32_t oldest, highest = 0; (oldest = atomic_load(racer->oldest)) > 0;) {
        uint32_t granted = oldest % 1000 + 1;
        bool there = extent_time_set(racer->all, oldest, 3, 1800000000);
        check(extent_granted_raise(racer->all, oldest, 3, granted) >= granted);
        racer->found += there;
        racer->late += !there;
        check(oldest >= highest);
        highest = oldest;
    }
    return NULL;
}

static void race(struct extents *all, uint32_t rounds)
{
    _Atomic uint32_t oldest = 1;
    struct racer racers[3];
    pthread_t threads[countof(racers)];
    uint32_t found = 0;
    for (size_t i = 0; i < countof(racers); i++) {
        racers[i] = (struct racer){ .all = all, .oldest = &oldest };
        ok(pthread_create(&threads[i], NULL, i ? hold_oldest : mark_oldest, &racers[i]) == 0);
    }
    for (uint32_t n = 1; n <= rounds; n++) {
        ok(open_extent_roll(all) == OK);
        append_one(all, (uint8_t)extents_highest(all), 2 * PAGE_BYTES);
        extent_drop(all, n);
        atomic_store(&oldest, n + 1);
        extent_close_idle(all);
    }
    atomic_store(&oldest, 0);
    for (size_t i = 0; i < countof(racers); i++) {
        pthread_join(threads[i], NULL);
        found += racers[i].found;
    }
    ok(found > 0);
}

#define RACE_ROUNDS rounds_of(2000u, 400u)

TEST(extents_are_held_while_they_are_dropped_and_their_files_closed)
{
    unsigned before = files_open();
    struct extents *all = open_with(8);
    uint32_t first = extents_count(all);
    race(all, RACE_ROUNDS);
    ok(extents_count(all) == first);
    uint64_t bytes = 0;
    for (uint32_t n = RACE_ROUNDS + 1; n <= extents_highest(all); n++) {
        struct extent *held = hold(all, n);
        bytes += extent_size(held);
        extent_release(&held);
    }
    ok(extents_bytes(all) == bytes);    /* each of the dropped ones was freed */
    extents_free(&all);
    ok(files_open() == before);
}

/* Looks once. The flag is relaxed, so it orders nothing. Only the read epoch in extent_is_there
 * keeps the extent from being freed during the look. If there is no read epoch, the thread
 * sanitizer reports it. */
static void *look_once(void *arg)
{
    struct racer *racer = arg;
    racer->found = extent_is_there(racer->all, 1);
    atomic_store_explicit(racer->oldest, 0, memory_order_relaxed);
    return NULL;
}

TEST(an_extent_is_freed_only_after_each_thread_that_looks_for_it_has_gone_on)
{
    struct extents *all = open_with(2);
    _Atomic uint32_t looks = 1;
    struct racer racer = { .all = all, .oldest = &looks };
    pthread_t thread;
    ok(pthread_create(&thread, NULL, look_once, &racer) == 0);
    while (atomic_load_explicit(&looks, memory_order_relaxed))
        sched_yield();
    extent_drop(all, 1);
    ok(!extent_is_there(all, 1) && extent_is_there(all, 2));
    pthread_join(thread, NULL);
    ok(racer.found);
    extents_free(&all);
}

/* Each thread reads three extents in turn, through the descriptor and through the map. */
static void *read_one(void *arg)
{
    struct racer *racer = arg;
    for (uint32_t number = 1; atomic_load(racer->oldest) > 0; number = 1 + number % 3) {
        struct extent *extent;
        check(extent_hold(racer->all, number, &extent) == OK);
        check(reads(extent, (uint8_t)number));
        const uint8_t *map = extent_cached(extent, 2 * PAGE_BYTES, 100);
        check(!map || map[0] == number);
        racer->found += map != NULL;
        extent_release(&extent);
    }
    return NULL;
}

TEST(a_file_is_closed_and_a_map_removed_only_while_nobody_holds_the_extent)
{
    unsigned before = files_open();
    struct extents *all = open_with(3);
    _Atomic uint32_t go_on = 1;
    struct racer racers[2];
    pthread_t threads[countof(racers)];
    unsigned closed = 0;
    all->mapped.bytes_max = EXTENT;    /* so that the maps displace each other */
    for (size_t i = 0; i < countof(racers); i++) {
        racers[i] = (struct racer){ .all = all, .oldest = &go_on };
        ok(pthread_create(&threads[i], NULL, read_one, &racers[i]) == 0);
    }
    while (closed < rounds_of(1000, 200))
        closed += extent_close_idle(all);
    atomic_store(&go_on, 0);
    unsigned found = 0;    /* a busy machine may give one of them no time */
    for (size_t i = 0; i < countof(racers); i++) {
        pthread_join(threads[i], NULL);
        found += racers[i].found;
    }
    ok(found > 0);
    extents_free(&all);
    ok(files_open() == before);
}

TEST(running_out_of_descriptors_forgets_nothing)
{
    enum { COUNT = 40 };    /* two of them in an extent */
    struct unit_store unit = unit_open_sized(128 * MIB, EXTENT);
    struct store_status before, after;
    struct extent *held[COUNT];
    struct unit_put puts[COUNT];
    char keys[COUNT][16];
    for (int i = 0; i < COUNT; i++) {
        snprintf(keys[i], sizeof(keys[i]), "k%d", i);
        puts[i] = put_begin(&unit, keys[i], "\"1\"", 900000);
    }
    for (int i = 0; i < COUNT; i++)
        ok(put_wait(&puts[i]) == OK);
    store_status(unit.store, &before);
    for (int round = 0; round < 2; round++) {    /* metadata in RAM, then metadata on the disk */
        int here = 0;
        size_t count = hold_all(unit.store->volumes[0]->extents, COUNT / 2, held);
        for (int i = 0; i < COUNT; i++)
            here += has_object(&unit, keys[i], "\"1\"", 900000);
        ok(here > 0 && here < COUNT);
        release_all(held, count);
        /* with what else waits for a commit */
        ok(put_object(&unit, "later", "\"1\"", 10) == OK);
        for (int i = 0; i < COUNT; i++)
            ok(has_object(&unit, keys[i], "\"1\"", 900000));
        store_status(unit.store, &after);
        ok(after.entries == before.entries + 1);
        unit_close(&unit);
        unit = unit_open_sized(128 * MIB, EXTENT);
    }
    unit_close(&unit);
}

#define FEW_FILES_TEST(name)                                                                   \
    cmocka_unit_test_setup_teardown(name, few_files_setup, few_files_teardown)

RUN_STORE(STORE_TEST(an_append_takes_as_many_records_as_may_be_gathered_of_any_shape),
          STORE_TEST(a_reader_keeps_a_recycled_extent_alive),
          STORE_TEST(a_number_is_never_used_again),
          FEW_FILES_TEST(any_number_of_extents_is_written_found_and_read_through_few_descriptors),
          FEW_FILES_TEST(what_is_held_stays_open_whatever_others_read),
          FEW_FILES_TEST(
              an_extent_that_was_held_since_its_last_turn_is_spared_when_one_is_closed_for_another),
          FEW_FILES_TEST(a_quarter_of_the_process_s_descriptors_can_be_held),
          FEW_FILES_TEST(a_process_short_of_descriptors_closes_idle_extents_and_misses_none),
          FEW_FILES_TEST(no_more_is_mapped_than_may_be_and_what_was_not_held_lately_gives_way),
          STORE_TEST(nothing_is_mapped_where_address_space_is_limited),
          FEW_FILES_TEST(a_map_is_there_while_its_extent_is_held_and_goes_with_its_descriptor),
          FEW_FILES_TEST(maps_come_and_go_under_many_readers),
          FEW_FILES_TEST(extents_are_held_while_they_are_dropped_and_their_files_closed),
          FEW_FILES_TEST(an_extent_is_freed_only_after_each_thread_that_looks_for_it_has_gone_on),
          FEW_FILES_TEST(a_file_is_closed_and_a_map_removed_only_while_nobody_holds_the_extent),
          FEW_FILES_TEST(running_out_of_descriptors_forgets_nothing))
