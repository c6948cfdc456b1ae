/* test_store_full.c - a folder without space for its index stays in service.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"
#include "testing_unit.h"

#include <sys/syscall.h>
#include <sys/uio.h>

#include "store/inside.h"
#include "store/leftovers.h"

#define EXTENT (2 * MIB)

static void put_some(struct unit_store *unit, int count)
{
    char key[32];
    for (int i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        ok(put_object(unit, key, "\"1\"", 300000) == OK);
    }
}

/* The removal goes into a commit with an append, or alone, or beside the commits. */
static void a_removal_finds_no_room(int objects, int failures, bool with_append)
{
    struct unit_store unit = unit_open_sized(16 * MIB, EXTENT);
    put_some(&unit, objects);
    ok(put_object(&unit, "gone", "\"1\"", 1000) == OK);
    struct unit_put put = { 0 };
    fail_next(FAIL_INDEX_COMMIT, 0, failures, ENOSPC);
    if (with_append)
        put = put_begin(&unit, "new", "\"1\"", 1000);
    ok(remove_object(&unit, "gone") == OK && !knows(&unit, "gone"));
    if (with_append)
        ok(put_wait(&put) == ERR_FULL || knows(&unit, "new"));
    ok(faults(&unit) == 0 && serving(&unit));
    ok(put_object(&unit, "later", "\"1\"", 1000) == OK && has_object(&unit, "later", "\"1\"", 1000));
    unit_close(&unit);
    unit = unit_open_sized(16 * MIB, EXTENT);
    ok(!knows(&unit, "gone") && knows(&unit, "later"));
    unit_close(&unit);
}

TEST(a_removal_is_made_alone_if_a_commit_finds_no_room_and_no_extent_may_go)
{
    a_removal_finds_no_room(0, 1, false);
    a_removal_finds_no_room(0, 1, true);
}

TEST(extents_go_until_a_removal_finds_room)
{
    a_removal_finds_no_room(30, 1, true);
    a_removal_finds_no_room(30, 3, true);
    a_removal_finds_no_room(30, 5, false);
}

static atomic_int short_writes;       /* so many writes of the index find room only for a part */

/* LMDB's own, for several pages. */
ssize_t writev(int fd, const struct iovec *parts, int count)
{
    bool is_short = count > 1 && atomic_load(&short_writes) > 0;
    atomic_fetch_sub(&short_writes, is_short);
    return syscall(SYS_writev, fd, parts, count - is_short);
}

TEST(a_disk_with_room_for_a_part_of_a_commit_is_full)
{
    struct unit_store unit = unit_open_sized(16 * MIB, EXTENT);
    struct unit_put puts[20];
    char key[32];
    put_some(&unit, 30);
    atomic_store(&short_writes, 1);
    for (size_t i = 0; i < countof(puts); i++) {
        snprintf(key, sizeof(key), "new%zu", i);
        puts[i] = put_begin(&unit, key, "\"1\"", 1000);
    }
    for (size_t i = 0; i < countof(puts); i++)
        ok(put_wait(&puts[i]) == OK);
    soon(atomic_load(&short_writes) == 0);
    ok(faults(&unit) == 0 && serving(&unit));
    unit_close(&unit);
}

/* Leftovers are deleted in transactions that take waiting removals along. */
TEST(a_removal_that_was_taken_along_by_leftovers_is_made_alone)
{
    struct unit_store unit = unit_open_sized(64 * MIB, EXTENT);
    struct volume *volume = unit.store->volumes[0];
    for (int round = 0; round < 20; round++) {
        ok(put_object(&unit, "large", round % 2 ? "\"1\"" : "\"2\"", 3 * MIB) == OK);
        ok(put_object(&unit, "gone", "\"1\"", 1000) == OK);
        ok(remove_object(&unit, "large") == OK);
        fail_next(FAIL_INDEX_COMMIT, round % 3, 1, ENOSPC);
        ok(remove_object(&unit, "gone") == OK && !knows(&unit, "gone"));
        soon(!leftovers_wait(volume));
        fail_next(FAIL_INDEX_COMMIT, 0, 0, 0);
        ok(faults(&unit) == 0);
    }
    unit_close(&unit);
}

static void lose_index(void)
{
    remove_tree(in_folder("index"));
    unlink(in_folder("clean"));
}

/* A folder whose index is built anew. So the file of purges must be written before it serves. */
static void make_folder(void)
{
    struct unit_store unit = unit_open_sized(64 * MIB, EXTENT);
    struct purge_result result;
    slice prefix = S("http://origin\0bucket\0k0\0");
    put_some(&unit, 30);
    ok(store_purge(unit.store, &prefix, 1, &result) == OK);
    soon(metric_read(M_STORE_BANS) == 0);
    soon(!atomic_load(&unit.store->volumes[0]->bans->dirty));
    unit_close(&unit);
    lose_index();
}

/* Extents go until the file finds room. */
static void opens_without_room(int failures)
{
    make_folder();
    size_t before = each_extent(NULL);
    fail_next(FAIL_BANS_WRITE, 0, failures, ENOSPC);
    struct unit_store unit = unit_open_sized(64 * MIB, EXTENT);
    ok(serving(&unit) && each_extent(NULL) + (size_t)failures == before);
    ok(knows(&unit, "k29") && !knows(&unit, "k0"));
    unit_close(&unit);
}

TEST(an_extent_goes_if_an_opening_finds_no_room_for_the_file_of_purges)
{
    opens_without_room(1);
}

TEST(two_extents_go_if_an_opening_finds_no_room_for_the_file_of_purges)
{
    opens_without_room(2);
}

TEST(an_unusable_file_goes_before_an_extent_if_an_opening_finds_no_room)
{
    make_folder();
    ok(truncate(in_folder("extents/00000002"), 100) == 0);
    fail_next(FAIL_BANS_WRITE, 0, 1, ENOSPC);
    struct unit_store unit = unit_open_sized(64 * MIB, EXTENT);
    ok(serving(&unit) && knows(&unit, "k1"));
    ok(access(in_folder("extents/00000001"), F_OK) == 0);
    ok(access(in_folder("extents/00000002"), F_OK) != 0);
    unit_close(&unit);
}

/* Something else fills the disk: the cache is not thrown away for that. */
TEST(an_opening_that_finds_no_room_says_so_and_gives_few_extents)
{
    struct unit_store unit;
    make_folder();
    size_t before = each_extent(NULL);
    fail_next(FAIL_BANS_WRITE, 0, 1000, ENOSPC);
    ok(unit_try(&unit, options_of(64 * MIB, EXTENT)) == OK && !serving(&unit));
    ok(slice_find(unit.why, S("make room")) < unit.why.len);
    ok(each_extent(NULL) + 2 == before);
    fail_next(FAIL_BANS_WRITE, 0, 0, 0);
    soon(serving(&unit));
    ok(knows(&unit, "k29") && !knows(&unit, "k0") && each_extent(NULL) + 2 == before);
    unit_close(&unit);
}

/* ---- a purge while the folder serves ---- */

#define ALWAYS 1000000

static struct unit_store open_patiently(uint32_t commit_ms)
{
    struct unit_store unit;
    struct store_options options = options_of(16 * MIB, EXTENT);
    options.commit_ms_max = commit_ms;
    ok(unit_try(&unit, options) == OK);
    return unit;
}

static bool append_waits(struct volume *volume)
{
    pthread_mutex_lock(&volume->queue.lock);
    bool waits = volume->queue.room == ROOM_COMES && !list_empty(&volume->queue.appends);
    pthread_mutex_unlock(&volume->queue.lock);
    return waits;
}

static bool has_ended(struct unit_put *put)
{
    int ended = 1;
    ok(sem_getvalue(&put->appends[0].ended, &ended) == 0);
    return ended > 0;
}

/* The test holds up the recycler, so an append waits for room. After a few seconds, this append
 * fails, and the next one waits. */
TEST(a_purge_on_a_full_disk_evicts_an_extent_although_appends_wait)
{
    struct unit_store unit = open_patiently(600000);
    struct volume *volume = unit.store->volumes[0];
    struct unit_put put = { 0 };
    char keys[2000][32];
    int count = 0;
    put_some(&unit, 20);
    pthread_mutex_lock(&volume->recycler.lock);
    for (;;) {
        ok(count < (int)countof(keys));
        snprintf(keys[count], sizeof(keys[0]), "more%d", count);
        put = put_begin(&unit, keys[count++], "\"1\"", 300000);
        while (!append_waits(volume) && !has_ended(&put))
            usleep(1000);
        if (!has_ended(&put))
            break;
        (void)!put_wait(&put);
    }
    uint64_t evicted = atomic_load(&volume->recycler.recycled);
    fail_next(FAIL_BANS_WRITE, 0, 1, ENOSPC);
    ok(purge(&unit, "k19") == OK && faults(&unit) == 0 && serving(&unit));
    ok(atomic_load(&volume->recycler.recycled) == evicted + 1 && !knows(&unit, "k19"));
    pthread_mutex_unlock(&volume->recycler.lock);
    (void)!put_wait(&put);
    ok(put_object(&unit, "later", "\"1\"", 1000) == OK && faults(&unit) == 0);
    unit_close(&unit);
}

/* Until the pass ends, no extent may go. */
TEST(a_purge_on_a_full_disk_waits_while_the_pins_are_not_known)
{
    struct unit_store unit = open_patiently(600000);
    put_some(&unit, 20);
    size_t before = each_extent(NULL);
    atomic_store(&unit.store->volumes[0]->pinned.passing, true);
    fail_next(FAIL_BANS_WRITE, 0, 3, ENOSPC);
    ok(purge(&unit, "k19") == OK && faults(&unit) == 0 && serving(&unit));
    ok(each_extent(NULL) == before && !knows(&unit, "k19") && knows(&unit, "k0"));
    atomic_store(&unit.store->volumes[0]->pinned.passing, false);
    unit_close(&unit);
}

/* Two extents go while the folder serves, and two more at its opening. */
TEST(a_folder_whose_disk_stays_full_goes_out_of_service_for_a_purge_and_gives_few_extents)
{
    struct unit_store unit = open_patiently(600000);
    put_some(&unit, 40);
    unit_close(&unit);
    unit = open_patiently(1000);
    size_t before = each_extent(NULL);
    fail_next(FAIL_BANS_WRITE, 0, ALWAYS, ENOSPC);
    ok(purge(&unit, "k39") == ERR_IO);
    soon(faults(&unit) >= 1 && !serving(&unit));
    ok(each_extent(NULL) + 4 >= before);
    fail_next(FAIL_BANS_WRITE, 0, 0, 0);
    soon(serving(&unit));
    ok(!knows(&unit, "k39") && knows(&unit, "k38"));
    unit_close(&unit);
}

/* ---- a fill that begins when a removal is answered ---- */

/* Removes two objects, and stores the first one anew at once, before the committer goes on. */
static struct anew {
    struct store_removal removal;
    struct unit_store *unit;
    struct object_id ids[2];
    struct unit_put put;
    sem_t begun;
} anew;

static void begin_anew(struct store_removal *removal, enum err err)
{
    (void)removal;
    (void)err;
    anew.put = put_begin(anew.unit, "k", "\"2\"", 1000);
    sem_post(&anew.begun);
}

static void remove_and_begin_anew(void)
{
    store_remove(anew.unit->store, &anew.removal);
}

static void anew_prepare(struct unit_store *unit)
{
    struct object_name names[] = { name_of("k"), name_of("gone") };
    anew = (struct anew){ .unit = unit };
    for (size_t i = 0; i < countof(names); i++)
        store_object_id(unit->store, &names[i], &anew.ids[i]);
    anew.removal = (struct store_removal){ .ids = anew.ids, .count = 2, .done = begin_anew };
    sem_init(&anew.begun, 0, 0);
}

static void ends_with_the_new_object(struct unit_store *unit)
{
    while (sem_wait(&anew.begun) != 0)
        ;
    ok(put_wait(&anew.put) == OK && has_object(unit, "k", "\"2\"", 1000));
    sem_destroy(&anew.begun);
}

/* The disk is full, so an extent is evicted. A transaction of the eviction takes the removal. */
TEST(a_fill_stays_if_it_begins_after_a_removal_that_an_eviction_took_along)
{
    struct unit_store unit = unit_open_sized(16 * MIB, EXTENT);
    struct purge_result result;
    slice prefix = S("http://origin\0bucket\0other\0");
    put_some(&unit, 30);
    anew_prepare(&unit);
    call_at(FAIL_EVICT, remove_and_begin_anew);
    fail_next(FAIL_BANS_WRITE, 0, 1, ENOSPC);
    ok(store_purge(unit.store, &prefix, 1, &result) == OK);
    ends_with_the_new_object(&unit);
    unit_close(&unit);
}

#define TAKEN 1000                    /* records of one unit that a commit takes at most */

/* The commit of the removal leaves older fills of both objects in the queue. The next commit has
 * these and the new one. */
TEST(a_fill_stays_if_older_ones_wait_for_the_commit_after_that_of_the_removal)
{
    struct unit_store unit = unit_open_sized(64 * MIB, EXTENT);
    struct unit_append *tiny = must_alloc((TAKEN + 1) * sizeof(*tiny));
    sem_t hang, held;
    char key[16];
    sem_init(&hang, 0, 0);
    sem_init(&held, 0, 0);
    anew_prepare(&unit);
    tiny[0] = (struct unit_append){ .hang = &hang, .held = &held };
    for (int i = 0; i <= TAKEN; i++) {
        snprintf(key, sizeof(key), "tiny%d", i);
        append_begin(&unit, &tiny[i], make_metadata(&unit, key, "\"1\"", 1), 0, S("x"), true);
        while (i == 0 && sem_wait(&held) != 0)
            ;
    }
    struct unit_put older[] = { put_begin(&unit, "k", "\"1\"", 2000),
                                put_begin(&unit, "gone", "\"1\"", 2000) };
    remove_and_begin_anew();
    sem_post(&hang);
    ends_with_the_new_object(&unit);
    ok(put_wait(&older[0]) == OK && put_wait(&older[1]) == OK && !get_metadata(&unit, "gone"));
    for (int i = 0; i <= TAKEN; i++) {
        ok(append_wait(&tiny[i]) == OK);
        metadata_unref(&tiny[i].append.metadata);
    }
    free(tiny);
    sem_destroy(&hang);
    sem_destroy(&held);
    unit_close(&unit);
}

/* ---- the names of extents ---- */

static atomic_bool sync_fails;

/* The C library's function. Fails for the folder `extents` if the test wants that. */
int fsync(int fd)
{
    struct stat synced, extents;
    if (sync_fails && fstat(fd, &synced) == 0 && stat(in_folder("extents"), &extents) == 0 &&
        synced.st_ino == extents.st_ino) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

/* After a power cut, the index would name records in an extent that is lost, and another one would get
 * its number. */
TEST(an_extent_takes_no_record_before_its_name_is_on_the_disk)
{
    struct unit_store unit = unit_open();
    sync_fails = true;
    ok(put_object(&unit, "k", "\"1\"", 2000) == ERR_IO);
    ok(access(in_folder("extents/00000001"), F_OK) != 0);
    sync_fails = false;
    soon(put_object(&unit, "k", "\"1\"", 2000) == OK);
    ok(has_object(&unit, "k", "\"1\"", 2000));
    unit_close(&unit);
}

RUN_STORE(STORE_TEST(an_extent_takes_no_record_before_its_name_is_on_the_disk),
          STORE_TEST(a_fill_stays_if_it_begins_after_a_removal_that_an_eviction_took_along),
          STORE_TEST(a_fill_stays_if_older_ones_wait_for_the_commit_after_that_of_the_removal),
          STORE_TEST(a_removal_is_made_alone_if_a_commit_finds_no_room_and_no_extent_may_go),
          STORE_TEST(extents_go_until_a_removal_finds_room),
          STORE_TEST(a_disk_with_room_for_a_part_of_a_commit_is_full),
          STORE_TEST(a_removal_that_was_taken_along_by_leftovers_is_made_alone),
          STORE_TEST(an_extent_goes_if_an_opening_finds_no_room_for_the_file_of_purges),
          STORE_TEST(two_extents_go_if_an_opening_finds_no_room_for_the_file_of_purges),
          STORE_TEST(an_unusable_file_goes_before_an_extent_if_an_opening_finds_no_room),
          STORE_TEST(an_opening_that_finds_no_room_says_so_and_gives_few_extents),
          STORE_TEST(a_purge_on_a_full_disk_evicts_an_extent_although_appends_wait),
          STORE_TEST(a_purge_on_a_full_disk_waits_while_the_pins_are_not_known),
          STORE_TEST(a_folder_whose_disk_stays_full_goes_out_of_service_for_a_purge_and_gives_few_extents))
