/* test_store_waste.c - dead records are room for any record. SPDX-License-Identifier: Apache-2.0
 *
 * Nothing is known of the reuse of records here: each record is asked for once, so that only free
 * space and dead records admit one. */
#include "store_unit.h"

#include "store/room.h"

#define EXTENT (2 * MIB)
#define CACHE (12 * MIB)
#define SIZE 100000u
#define OBJECTS 1000                  /* more than the cache can hold */

static struct volume *volume_of(struct unit_store *unit)
{
    return unit->store->volumes[0];
}

/* Stores the object as a fetch does. Returns false if it is not admitted, or finds no room. */
static bool offer(struct unit_store *unit, const char *set, int number)
{
    char key[32];
    uint8_t *bytes = must_alloc(SIZE);
    snprintf(key, sizeof(key), "%s%d", set, number);
    struct metadata *metadata = make_metadata(unit, key, "\"1\"", SIZE);
    object_fill(key, "\"1\"", 0, bytes, SIZE);
    bool stored = volume_admits(volume_of(unit), metadata, 0, false);
    if (stored)
        stored = append_now(unit, (struct store_append){
            .metadata = metadata, .with_metadata = true, .bytes = { (char *)bytes, SIZE } }) == OK;
    metadata_unref(&metadata);
    free(bytes);
    return stored;
}

/* Offers objects until one is refused, `most` at most. Returns the number of those before it. */
static int fill(struct unit_store *unit, const char *set, int most)
{
    int count = 0;
    while (count < most && offer(unit, set, count))
        count++;
    return count;
}

/* Removes every object of a set whose number leaves one of these rests. */
static void remove_some(struct unit_store *unit, const char *set, int count, int of, int rests)
{
    char key[32];
    for (int i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "%s%d", set, i);
        if (i % of < rests)
            ok(remove_object(unit, key) == OK);
    }
}

TEST(a_full_cache_stores_nothing_more)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    int count = fill(&unit, "a", OBJECTS);
    uint64_t before = metric_read(M_STORE_RECYCLED);
    ok(count > 70 && count < 120);
    ok(fill(&unit, "b", OBJECTS) == 0 && count_there(&unit, "a", count, SIZE) == count);
    ok(metric_read(M_STORE_RECYCLED) == before);
    unit_close(&unit);
}

TEST(a_cache_whose_objects_were_all_removed_stores_as_many_new_ones_at_once)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    int count = fill(&unit, "a", OBJECTS);
    remove_some(&unit, "a", count, 1, 1);
    uint64_t copied = metric_read(M_STORE_COPIED);
    int extent = EXTENT / SIZE;    /* the last extent is not full of the new ones */
    ok(fill(&unit, "b", count - extent) == count - extent);
    ok(count_there(&unit, "b", count - extent, SIZE) == count - extent);
    ok(metric_read(M_STORE_COPIED) == copied);
    unit_close(&unit);
}

TEST(dead_records_are_room_after_a_kill_once_they_are_counted)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    int count = fill(&unit, "a", OBJECTS), extent = EXTENT / SIZE;
    remove_some(&unit, "a", count, 1, 1);
    unit_close(&unit);
    remove_tree(in_folder("ages"));
    unit = unit_open_sized(CACHE, EXTENT);
    while (!atomic_load(&volume_of(&unit)->service.counted))
        usleep(1000);
    ok(fill(&unit, "b", count - extent) == count - extent);
    unit_close(&unit);
}

TEST(dead_records_are_room_after_a_clean_stop)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    int count = fill(&unit, "a", OBJECTS), extent = EXTENT / SIZE;
    remove_some(&unit, "a", count, 1, 1);
    unit_close(&unit);
    unit = unit_open_sized(CACHE, EXTENT);
    ok(fill(&unit, "b", count - extent) == count - extent);
    unit_close(&unit);
}

/* As after a folder was added: a share of each extent moves away. */
TEST(extents_with_many_dead_records_make_room_and_lose_no_live_one)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    int count = fill(&unit, "a", OBJECTS), live = 0;
    remove_some(&unit, "a", count, 5, 2);    /* 40 % */
    for (int i = 0; i < count; i++)
        live += i % 5 >= 2;
    int more = count / 4;
    ok(fill(&unit, "b", more) == more);
    ok(count_there(&unit, "a", count, SIZE) == live && count_there(&unit, "b", more, SIZE) == more);
    unit_close(&unit);
}

TEST(a_few_dead_records_are_no_room)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    int count = fill(&unit, "a", OBJECTS);
    remove_some(&unit, "a", count, 10, 1);
    uint64_t before = metric_read(M_STORE_RECYCLED);
    ok(fill(&unit, "b", OBJECTS) == 0);
    ok(metric_read(M_STORE_RECYCLED) == before);
    unit_close(&unit);
}

/* ---- records that are not published yet ---- */

#define PACKED 60                     /* in one commit: more than two extents have room for */

static struct volume *watched;
static unsigned most_waste;           /* for the committer, until the appends are answered */

/* The records of the commit are written, and most of them are not published. */
static bool looks_at_waste(const struct store_append *append)
{
    most_waste = MAX(most_waste, atomic_load(&watched->rule.waste.much));
    return may_publish(append);
}

static void queue(struct unit_store *unit, struct unit_append *append, int number, sem_t *hang)
{
    static char bytes[SIZE];
    char key[32];
    snprintf(key, sizeof(key), "p%d", number);
    append->refuse = false;
    append->hang = hang;
    append->append = (struct store_append){
        .metadata = make_metadata(unit, key, "\"1\"", SIZE), .with_metadata = true,
        .bytes = { bytes, SIZE }, .may_publish = looks_at_waste, .done = append_done };
    sem_init(&append->ended, 0, 0);
    ok(store_append(unit->store, &append->append) == OK);
}

TEST(records_that_are_not_published_yet_are_not_dead)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    struct unit_append *appends = must_alloc((PACKED + 1) * sizeof(*appends));
    sem_t hang;
    watched = volume_of(&unit);
    most_waste = 0;
    sem_init(&hang, 0, 0);
    queue(&unit, &appends[0], 0, &hang);
    volume_wants_turn(watched);
    soon(atomic_load(&watched->service.busy_since_ms) && !watched->queue.bytes);
    for (int i = 1; i <= PACKED; i++)
        queue(&unit, &appends[i], i, NULL);
    sem_post(&hang);
    for (int i = 0; i <= PACKED; i++) {
        ok(append_wait(&appends[i]) == OK);
        metadata_unref(&appends[i].append.metadata);
    }
    ok(most_waste == 0 && extents_count(watched->extents) >= 3);
    sem_destroy(&hang);
    free(appends);
    unit_close(&unit);
}

/* ---- files that are no extents ---- */

/* Makes a file in extents/, with bytes up to `full`, and sparse from there on. */
static const char *make_file(const char *name, uint64_t full, uint64_t bytes)
{
    static char path[300];
    uint8_t *zeroes = must_alloc(MIB);
    snprintf(path, sizeof(path), "%s", in_folder(name));
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    ok(fd >= 0);
    for (uint64_t at = 0; at < full; at += MIB)
        ok(pwrite(fd, zeroes, MIB, (off_t)at) == (ssize_t)MIB);
    ok(ftruncate(fd, (off_t)bytes) == 0 && close(fd) == 0);
    free(zeroes);
    return path;
}

TEST(a_huge_sparse_file_evicts_nothing)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    struct store_status status;
    int count = fill(&unit, "a", OBJECTS);
    unit_close(&unit);
    make_file("extents/00000500", 0, 600 * GIB);
    unit = unit_open_sized(CACHE, EXTENT);
    store_status(unit.store, &status);
    ok(status.used_bytes <= CACHE && !room_is_exceeded(volume_of(&unit)));
    ok(store_folder_unusable(unit.store, 0) == 1 && count_there(&unit, "a", count, SIZE) == count);
    unit_close(&unit);
}

TEST(a_file_that_is_no_extent_goes_before_all_extents)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    int count = fill(&unit, "a", OBJECTS);
    unit_close(&unit);
    const char *path = make_file("extents/00000500", CACHE, CACHE);    /* the highest number */
    unit = unit_open_sized(CACHE, EXTENT);
    soon(access(path, F_OK) != 0 && store_folder_unusable(unit.store, 0) == 0);
    ok(count_there(&unit, "a", count, SIZE) == count && !room_is_exceeded(volume_of(&unit)));
    ok(extents_highest(volume_of(&unit)->extents) > 0x500);
    unit_close(&unit);
}

/* Its place is room for any record. */
TEST(a_file_that_is_no_extent_goes_when_a_record_needs_its_place)
{
    struct unit_store unit = unit_open_sized(CACHE, EXTENT);
    unit_close(&unit);
    const char *path = make_file("extents/00000500", CACHE / 2, CACHE / 2);
    unit = unit_open_sized(CACHE, EXTENT);
    int count = fill(&unit, "a", OBJECTS);
    ok(count > 70 && count_there(&unit, "a", count, SIZE) == count);
    ok(access(path, F_OK) != 0);
    unit_close(&unit);
}

#define WASTE_TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WASTE_TEST(a_full_cache_stores_nothing_more),
        WASTE_TEST(a_cache_whose_objects_were_all_removed_stores_as_many_new_ones_at_once),
        WASTE_TEST(dead_records_are_room_after_a_kill_once_they_are_counted),
        WASTE_TEST(dead_records_are_room_after_a_clean_stop),
        WASTE_TEST(extents_with_many_dead_records_make_room_and_lose_no_live_one),
        WASTE_TEST(a_few_dead_records_are_no_room),
        WASTE_TEST(records_that_are_not_published_yet_are_not_dead),
        WASTE_TEST(a_huge_sparse_file_evicts_nothing),
        WASTE_TEST(a_file_that_is_no_extent_goes_before_all_extents),
        WASTE_TEST(a_file_that_is_no_extent_goes_when_a_record_needs_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
