/* test_store_sweep.c - sweeps of purges that meet extents which can't be read.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A sweep that could not decide all is repeated after 10 seconds, so the clock runs faster while a
 * test waits for it. */
#include "store_unit.h"
#include "testing_unit.h"

#include "store/extent_inside.h"

#define ALWAYS 1000000
#define SIZE 5000u
#define OBJECTS 3u                    /* of each extent */

static char keys[4][32];

/* Object `i` of an extent. The last one is purged. */
static const char *key_of(uint32_t extent, unsigned i)
{
    static unsigned turn;
    char *key = keys[turn++ % countof(keys)];
    snprintf(key, sizeof(keys[0]), "%s%u-%u", i + 1 == OBJECTS ? "train/" : "val/", extent, i);
    return key;
}

static bool has(struct unit_store *unit, uint32_t extent, unsigned i)
{
    return has_object(unit, key_of(extent, i), "\"1\"", SIZE);
}

/* Fills the extents 1 to `count`, each in an opening of its own. */
static void fill(uint32_t count)
{
    for (uint32_t extent = 1; extent <= count; extent++) {
        struct unit_store unit = unit_open();
        for (unsigned i = 0; i < OBJECTS; i++)
            ok(put_object(&unit, key_of(extent, i), "\"1\"", SIZE) == OK);
        unit_close(&unit);
        ok(footer_of(extent).count == OBJECTS);
    }
}

static void close_files(struct unit_store *unit)
{
    while (extent_close_idle(unit->store->volumes[0]->extents))
        ;
}

static uint64_t entries_of(struct unit_store *unit)
{
    struct store_status status;
    store_status(unit->store, &status);
    return status.entries;
}

static bool in_progress(struct unit_store *unit)
{
    return atomic_load(&unit->store->volumes[0]->bans->unswept) > 0;
}

/* True if the only folder says of the first purge in progress that it can't open an extent. */
static bool says_unread(struct unit_store *unit)
{
    struct arena keep = { 0 };
    struct purge_state *states;
    bool says = store_purges(unit->store, &keep, &states) > 0 && states[0].unread[0];
    arena_free(&keep);
    return says;
}

/* A folder takes the place of the first extent, so that it can't be opened; or the extent comes
 * back. */
static void hide_extent(bool hide)
{
    const char *name = in_folder("extents/00000001"), *hidden = in_folder("extents/hidden");
    if (hide)
        ok(rename(name, hidden) == 0 && mkdir(name, 0700) == 0);
    else
        ok(rmdir(name) == 0 && rename(hidden, name) == 0);
}

/* The first extent is as one whose folder lost its mode bits for a while. The file of the second one
 * is gone. */
TEST(a_sweep_waits_for_an_extent_that_can_t_be_opened_but_for_none_that_is_gone)
{
    fill(3);
    struct unit_store unit = unit_open();
    uint64_t entries = entries_of(&unit), of_extent = entries / 3, of_object = of_extent / OBJECTS;
    close_files(&unit);
    hide_extent(true);
    ok(unlink(in_folder("extents/00000002")) == 0);
    hold_next(FAIL_SWEPT);
    ok(purge(&unit, "train/") == OK);
    soon_in_a_hurry(is_held(FAIL_SWEPT));
    ok(entries_of(&unit) == entries - of_extent - of_object && !says_unread(&unit));
    for (unsigned sweeps = 2; sweeps <= 3; sweeps++) {
        hold_next(FAIL_SWEPT);
        let_go(FAIL_SWEPT);
        soon_in_a_hurry(is_held(FAIL_SWEPT));
        ok(entries_of(&unit) == entries - of_extent - of_object && in_progress(&unit));
    }
    let_go(FAIL_SWEPT);
    soon_in_a_hurry(says_unread(&unit));    /* it is tried again much later */
    hide_extent(false);
    ok(has(&unit, 1, 0) && !knows(&unit, key_of(1, 2)));
    ok(purge(&unit, "none/") == OK);    /* the sweep need not wait */
    soon_in_a_hurry(!in_progress(&unit));
    ok(entries_of(&unit) == entries - of_extent - 2 * of_object && !says_unread(&unit));
    ok(has(&unit, 1, 0) && !knows(&unit, key_of(1, 2)) && has(&unit, 3, 1));
    unit_close(&unit);
}

/* While no footer can be read, the headers tell the rows, up to the first damaged header. */
TEST(one_read_error_costs_no_entries_although_another_extent_can_never_be_read)
{
    fill(2);
    flip_header(1, 1);
    struct unit_store unit = unit_open();
    uint64_t entries = entries_of(&unit), of_object = entries / 2 / OBJECTS;
    fail_next(FAIL_FOOTER_READ, 0, ALWAYS, EIO);
    ok(purge(&unit, "none/") == OK);
    soon_in_a_hurry(!in_progress(&unit));
    ok(entries_of(&unit) == entries - 2 * of_object);
    flip_header(2, 1);
    hold_next(FAIL_SWEPT);
    ok(purge(&unit, "none/either/") == OK);
    soon_in_a_hurry(is_held(FAIL_SWEPT));
    fail_next(FAIL_FOOTER_READ, 0, 0, 0);
    let_go(FAIL_SWEPT);
    soon_in_a_hurry(!in_progress(&unit));
    ok(entries_of(&unit) == entries - 2 * of_object && has(&unit, 2, 0) && has(&unit, 2, 2));
    unit_close(&unit);
}

static int setup(void **state)
{
    for (size_t i = 0; i < FAILPOINTS; i++) {
        fail_next((enum failpoint)i, 0, 0, 0);
        atomic_store(&unit_holds[i].next, false);
        let_go((enum failpoint)i);
    }
    return folder_setup(state);
}

#define PLAY(name) cmocka_unit_test_setup_teardown(name, setup, folder_teardown)

RUN_STORE(PLAY(a_sweep_waits_for_an_extent_that_can_t_be_opened_but_for_none_that_is_gone),
          PLAY(one_read_error_costs_no_entries_although_another_extent_can_never_be_read))
