/* test_store_descriptors.c - a folder for whose files no file descriptor is left stays in service.
 * SPDX-License-Identifier: Apache-2.0
 *
 * In most tests, the writes of small files fail with EMFILE, as if they could not be opened. */
#include "store_unit.h"
#include "testing_unit.h"

#include <sys/resource.h>

#include "store/folder_files.h"
#include "store/inside.h"
#include "store/pin.h"

#define SIZE 1000u
#define ALWAYS 1000000

static bool is_written(struct unit_store *unit)
{
    const struct store *store = unit->store;
    return atomic_load(&store->volumes[0]->bans->written) == ban_list_version(&store->installation.bans);
}

static bool has_failed(enum failpoint where)
{
    return atomic_load(&unit_fails[where].times) < ALWAYS;
}

static void put_two(struct unit_store *unit)
{
    ok(put_object(unit, "train/1", "\"1\"", SIZE) == OK);
    ok(put_object(unit, "val/1", "\"1\"", SIZE) == OK);
}

TEST(a_purge_that_can_t_be_stored_fails_and_is_stored_later)
{
    struct unit_store unit = unit_open();
    put_two(&unit);
    fail_next(FAIL_BANS_WRITE, 0, ALWAYS, EMFILE);
    ok(purge(&unit, "train/") == ERR_BUSY && purge(&unit, "train/") == ERR_BUSY);
    ok(serving(&unit) && faults(&unit) == 0);
    ok(!knows(&unit, "train/1") && has_object(&unit, "val/1", "\"1\"", SIZE));
    ok(put_object(&unit, "val/2", "\"1\"", SIZE) == OK && has_object(&unit, "val/2", "\"1\"", SIZE));
    fail_next(FAIL_BANS_WRITE, 0, 0, 0);
    soon(is_written(&unit));
    ok(purge(&unit, "other/") == OK && faults(&unit) == 0);
    unit_close(&unit);
    unit = unit_open();
    ok(!knows(&unit, "train/1") && !is_unproved(&unit, "val/1"));
    unit_close(&unit);
}

#define FILES 256

static int hoarded[FILES];
static unsigned hoarded_count;

/* Takes all descriptors. Idle extents keep theirs. */
static void hoard(void)
{
    int fd;
    hoarded_count = 0;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0)
        hoarded[hoarded_count++] = fd;
    ok(errno == EMFILE);
}

static void give_back(void)
{
    while (hoarded_count > 0)
        close(hoarded[--hoarded_count]);
}

TEST(a_purge_takes_the_descriptor_of_an_idle_extent)
{
    struct rlimit before, few;
    ok(getrlimit(RLIMIT_NOFILE, &before) == 0);
    few = (struct rlimit){ FILES, before.rlim_max };
    ok(setrlimit(RLIMIT_NOFILE, &few) == 0);
    struct unit_store unit = unit_open();
    for (int i = 0; i < 30; i++) {
        char key[32];
        snprintf(key, sizeof(key), "train/%d", i);
        ok(put_object(&unit, key, "\"1\"", MIB) == OK);
    }
    ok(extents_count(unit.store->volumes[0]->extents) > 6);
    hoard();
    enum err e = purge(&unit, "train/");
    give_back();
    ok(e == OK && serving(&unit) && faults(&unit) == 0);
    unit_close(&unit);
    ok(setrlimit(RLIMIT_NOFILE, &before) == 0);
}

TEST(a_pin_that_can_t_be_stored_fails)
{
    struct store_options options = options_of(64 * MIB, 4 * MIB);
    struct pin_name name = { S("http://origin"), S("bucket"), S("train/") };
    struct unit_store unit;
    bool changed;
    options.pin_percent = 50;
    ok(unit_try(&unit, options) == OK);
    put_two(&unit);
    fail_next(FAIL_FILE_WRITE, 0, ALWAYS, EMFILE);
    ok(store_pin(unit.store, &name, 1, true, &changed) == ERR_IO);
    ok(has_failed(FAIL_FILE_WRITE) && serving(&unit) && faults(&unit) == 0);
    fail_next(FAIL_FILE_WRITE, 0, 0, 0);
    ok(store_pin(unit.store, &name, 1, true, &changed) == OK && changed);
    ok(serving(&unit) && faults(&unit) == 0);
    unit_close(&unit);
}

/* As if another folder had gone out of service. */
TEST(the_file_format_is_written_later)
{
    struct unit_store unit = unit_open();
    struct format format;
    const char *why;
    put_two(&unit);
    fail_next(FAIL_FILE_WRITE, 0, ALWAYS, ENFILE);
    uint64_t serial = atomic_fetch_add(&unit.store->installation.runs.serial, 1) + 1;
    soon(has_failed(FAIL_FILE_WRITE));
    ok(put_object(&unit, "val/2", "\"1\"", SIZE) == OK);    /* a further turn */
    ok(serving(&unit) && faults(&unit) == 0);
    fail_next(FAIL_FILE_WRITE, 0, 0, 0);
    soon(folder_peek(unit_folder, &format, &why) == OK && format.serial == serial);
    ok(serving(&unit) && faults(&unit) == 0);
    unit_close(&unit);
}

/* A write may have changed all objects of the bucket. */
static enum err restate(struct unit_store *unit)
{
    struct object_name name = { S("http://origin"), S("bucket"), S(""), S("") };
    struct object_id id;
    store_object_id(unit->store, &name, &id);
    struct unit_removal mine = { .removal = { .ids = &id, .count = 1, .bucket = true,
                                              .done = removal_done } };
    sem_init(&mine.ended, 0, 0);
    store_remove(unit->store, &mine.removal);
    while (sem_wait(&mine.ended) != 0)
        ;
    sem_destroy(&mine.ended);
    return mine.err;
}

/* The file lacks the bucket, so the next start takes a note of doubt for it. */
TEST(a_bucket_stays_restated_although_the_file_could_not_be_written)
{
    struct unit_store unit = unit_open();
    put_two(&unit);
    fail_next(FAIL_FILE_WRITE, 0, ALWAYS, EMFILE);
    ok(restate(&unit) == OK && has_failed(FAIL_FILE_WRITE));
    ok(serving(&unit) && faults(&unit) == 0);
    fail_next(FAIL_FILE_WRITE, 0, 0, 0);
    unit_close(&unit);
    unit = unit_open();
    struct metadata *metadata = get_metadata(&unit, "val/1");
    ok(metadata && metadata->restated);
    metadata_unref(&metadata);
    unit_close(&unit);
}

TEST(a_folder_that_lacks_a_descriptor_at_its_opening_says_so)
{
    struct unit_store unit = unit_open();
    put_two(&unit);
    unit_close(&unit);
    fail_next(FAIL_FILE_WRITE, 0, ALWAYS, EMFILE);
    ok(unit_try(&unit, options_of(64 * MIB, 4 * MIB)) == OK && !serving(&unit));
    ok(slice_find(unit.why, S("LimitNOFILE")) < unit.why.len);
    fail_next(FAIL_FILE_WRITE, 0, 0, 0);
    soon(serving(&unit));
    ok(knows(&unit, "train/1") && knows(&unit, "val/1"));
    unit_close(&unit);
}

static int setup(void **state)
{
    for (size_t i = 0; i < FAILPOINTS; i++)
        fail_next((enum failpoint)i, 0, 0, 0);
    return folder_setup(state);
}

#define PLAY(name) cmocka_unit_test_setup_teardown(name, setup, folder_teardown)

RUN(PLAY(a_purge_that_can_t_be_stored_fails_and_is_stored_later),
    PLAY(a_purge_takes_the_descriptor_of_an_idle_extent),
    PLAY(a_pin_that_can_t_be_stored_fails),
    PLAY(the_file_format_is_written_later),
    PLAY(a_bucket_stays_restated_although_the_file_could_not_be_written),
    PLAY(a_folder_that_lacks_a_descriptor_at_its_opening_says_so))
