/* test_store_recycle.c - the size is kept. SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"

#include "store/extent_inside.h"
#include "store/inside.h"
#include "store/io.h"
#include "store/pin.h"
#include "store/pinned.h"
#include "store/recycle.h"
#include "store/room.h"
#include "store/victim.h"
#include "testing_unit.h"

#define EXTENT (2 * MIB)
#define AT_ONCE 8                     /* puts in one commit */
#define TINY 6000                     /* records of an extent: its eviction takes several commits */

TEST(the_size_is_kept_and_the_newest_stays)
{
    struct unit_store unit = unit_open_sized(8 * MIB, EXTENT);
    struct store_status status;
    char key[32];
    uint64_t before = metric_read(M_STORE_RECYCLED);
    for (int i = 0; i < 40; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        ok(put_object(&unit, key, "\"1\"", 300000 + 40000 * (i % 10)) == OK);
        ok(has_object(&unit, key, "\"1\"", 300000 + 40000 * (i % 10)));
        store_status(unit.store, &status);
        ok(status.used_bytes <= 8 * MIB && status.serving);
    }
    ok(metric_read(M_STORE_RECYCLED) > before);
    ok(status.entries < 40);    /* entries left with their extents */
    ok(read_range(&unit, "k0", 0, 1) == 0);
    ok(has_object(&unit, "k39", "\"1\"", 300000 + 40000 * 9));
    unit_close(&unit);
    unit = unit_open_sized(8 * MIB, EXTENT);
    ok(has_object(&unit, "k39", "\"1\"", 300000 + 40000 * 9) && !get_metadata(&unit, "k0"));
    unit_close(&unit);
}

static bool put_number(struct unit_store *unit, const char *name, int number, uint64_t size)
{
    char key[32];
    snprintf(key, sizeof(key), "%s%d", name, number);
    return put_object(unit, key, "\"1\"", size) == OK;
}

/* The size and the disk would have room for all. */
static int play_few_inodes(void)
{
    struct unit_store unit = unit_open_sized(400 * MIB, EXTENT);
    struct store_status status;
    int here = 0;
    for (int i = 0; i < 100; i++)
        if (!put_number(&unit, "k", i, 1500000))
            return 1 + i;
    for (int i = 80; i < 100; i++) {
        char key[32];
        snprintf(key, sizeof(key), "k%d", i);
        here += has_object(&unit, key, "\"1\"", 1500000);
    }
    store_status(unit.store, &status);
    if (here < 5 || !status.serving || status.faults)
        return 101;
    if (status.capacity_bytes >= status.size_bytes / 2)
        return 102;
    unit_close(&unit);
    return access(in_folder("clean"), F_OK) ? 103 : 0;
}

TEST(a_disk_with_few_free_inodes_counts_as_full)
{
    if (!on_disk_of("size=512m,nr_inodes=80", play_few_inodes))
        skip();
}

TEST(packed_objects_leave_with_their_extent)
{
    struct unit_store unit = unit_open_sized(4 * MIB, EXTENT);
    struct store_status status;
    struct unit_append *appends = must_alloc(500 * sizeof(*appends));
    static char bytes[20000];
    char key[32];
    int here = 0;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 500; i++) {
            snprintf(key, sizeof(key), "r%d-%d", round, i);
            struct metadata *metadata = make_metadata(&unit, key, "\"1\"", sizeof(bytes));
            append_begin(&unit, &appends[i], metadata, 0, (slice){ bytes, sizeof(bytes) }, true);
        }
        for (int i = 0; i < 500; i++) {
            ok(append_wait(&appends[i]) == OK);
            metadata_unref(&appends[i].append.metadata);
        }
    }
    unit_close(&unit);
    unit = unit_open_sized(4 * MIB, EXTENT);    /* no metadata is in RAM now */
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof(key), "r%d-%d", i / 500, i % 500);
        struct metadata *metadata = get_metadata(&unit, key);
        here += metadata != NULL;
        metadata_unref(&metadata);
    }
    store_status(unit.store, &status);
    ok(here > 50 && here < 210 && status.entries == (uint64_t)here);
    free(appends);
    unit_close(&unit);
}

TEST(what_lies_in_an_extent_that_grew_old_is_read_until_it_goes)
{
    struct unit_store unit = unit_open_sized(6 * MIB, EXTENT);
    char key[32];
    for (int i = 0; i < 30; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        ok(put_object(&unit, key, "\"1\"", MIB) == OK);
        /* right bytes or none: checked inside */
        for (int back = 0; back <= i && back < 8; back++) {
            snprintf(key, sizeof(key), "k%d", i - back);
            uint64_t got = read_range(&unit, key, 0, MIB);
            ok(got == MIB || back > 0);
        }
    }
    unit_close(&unit);
}

/* ---- touches ---- */

/* The place where a thread remembers the end of the last piece. Ids are other ones in each run. */
static uint64_t place_of(struct unit_store *unit, const char *key)
{
    struct object_name name = name_of(key);
    struct object_id id;
    store_object_id(unit->store, &name, &id);
    return mean_age_hash(&id, 0) % PIECE_ENDS;
}

TEST(a_record_that_is_read_in_pieces_is_touched_once)
{
    struct unit_store unit = unit_open();
    const struct mean_age *policy = unit.store->volumes[0]->rule.policy;
    const char *other = place_of(&unit, "a") == place_of(&unit, "b") ? "c" : "b";
    ok(place_of(&unit, "a") != place_of(&unit, other));
    ok(put_object(&unit, "a", "\"1\"", MIB) == OK && put_object(&unit, other, "\"1\"", MIB) == OK);
    struct metadata *a = get_metadata(&unit, "a"), *b = get_metadata(&unit, other);
    for (uint64_t round = 1; round <= 3; round++) {
        for (uint64_t at = 0; at < MIB; at += MIB / 4) {
            ok(read_bytes(&unit, a, "a", at, at + MIB / 4) == MIB / 4);
            ok(read_bytes(&unit, b, other, at, at + MIB / 4) == MIB / 4);
        }
        ok(mean_age_now(policy) == 2 * round);
    }
    ok(read_bytes(&unit, a, "a", MIB / 2, MIB / 2 + 1000) == 1000);    /* another reader's range */
    ok(mean_age_now(policy) == 7);
    metadata_unref(&a);
    metadata_unref(&b);
    unit_close(&unit);
}

/* ---- the copy ---- */

/* Every other record of every extent was not read for long, so that a copy keeps half. */
static void make_half_old(struct volume *volume)
{
    struct arena keep = { 0 };
    uint32_t *numbers;
    size_t count = extents_numbers(volume->extents, &keep, &numbers);
    for (size_t i = 0; i < count; i++) {
        struct extent *extent = extent_ref(volume->extents, numbers[i]);
        for (uint32_t record = 0; record < ages_counted(extent_ages_of(extent)); record += 2)
            extent_touch(extent, record, rule_dead_stamp(&volume->rule));
        extent_release(&extent);
    }
    arena_free(&keep);
}

/* Fills the store, then lets the recycler make a copy while the log has room. */
static bool make_copy_ahead(struct unit_store *unit, struct volume *volume)
{
    int i = 0;
    while (room_places(volume, (uint64_t[ROOM_PLACES]){ 0 }) > 1)
        ok(put_number(unit, "old", i++, 100000));
    for (; i < 200 && !open_extent_left(volume->extents, OPEN_LOG); i++)
        ok(put_number(unit, "old", i, 100000));
    make_half_old(volume);
    ok(rule_waits_for_room(&volume->rule, true));
    for (int small = 0; small < 30 && !atomic_load(&volume->recycler.ready); small++) {
        ok(put_number(unit, "small", small, 1000));
        for (int tick = 0; tick < 100 && !atomic_load(&volume->recycler.ready); tick++)
            usleep(10000);    /* the recycler needs time, too */
    }
    return atomic_load(&volume->recycler.ready);
}

TEST(a_copy_takes_its_turn_in_the_log_before_another_extent_is_recycled)
{
    struct unit_store unit = unit_open_sized(8 * MIB, EXTENT);
    struct volume *volume = unit.store->volumes[0];
    ok(make_copy_ahead(&unit, volume));
    uint32_t copy = volume->extents->opens[OPEN_COPY]->extent->number;
    uint64_t left = open_extent_left(volume->extents, OPEN_LOG) +
                    open_extent_left(volume->extents, OPEN_COPY) / 2;
    ok(rule_waits_for_room(&volume->rule, true));    /* as an admission does when all room is promised */
    for (int i = 0; i < (int)(left / 110000); i++)
        ok(put_number(&unit, "new", i, 100000));
    ok(extent_is_open(volume->extents, copy));
    uint64_t before = metric_read(M_STORE_RECYCLED);
    for (int i = 0; i < 30; i++)
        ok(put_number(&unit, "more", i, 100000));
    ok(!extent_is_open(volume->extents, copy) && metric_read(M_STORE_RECYCLED) > before);
    unit_close(&unit);
}

/* ---- ages that are not known ---- */

#define LIVE_OF_HOLES 2               /* records that stay in the extent with holes */

/* After a kill -9, no record is counted. This state stays, because the committer's count is over. */
static void forget_ages(struct volume *volume)
{
    struct arena keep = { 0 };
    uint32_t *numbers;
    while (!atomic_load(&volume->service.counted))
        usleep(1000);
    recycle_pause(volume);
    size_t count = extents_numbers(volume->extents, &keep, &numbers);
    for (size_t i = 0; i < count; i++) {
        struct extent *extent = extent_ref(volume->extents, numbers[i]);
        struct ages *none = ages_new(1000);
        ages_set_counting(none, true);
        pthread_mutex_lock(&volume->extents->lock);    /* the watch sums what is live */
        struct ages *old = extent->ages;
        extent->ages = none;
        pthread_mutex_unlock(&volume->extents->lock);
        ages_free(&old);
        extent_release(&extent);
    }
    recycle_resume(volume);
    arena_free(&keep);
}

static uint32_t extent_of(struct volume *volume, const char *key)
{
    struct object_name name = name_of(key);
    struct object_id id;
    struct entry entry;
    uint32_t unit;
    store_object_id(store_of(volume), &name, &id);
    return index_get_metadata(volume->index, &id, &unit, &entry) == OK ? entry.extent : 0;
}

/* Removes all objects of an extent but LIVE_OF_HOLES. Returns the number of removed ones. */
static int make_holes(struct unit_store *unit, uint32_t number, int objects)
{
    struct volume *volume = unit->store->volumes[0];
    int live = 0, removed = 0;
    char key[32];
    for (int i = 0; i < objects; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        if (extent_of(volume, key) != number || live++ < LIVE_OF_HOLES)
            continue;
        ok(remove_object(unit, key) == OK);
        removed++;
    }
    return removed;
}

static int objects_there(struct unit_store *unit, int objects)
{
    int there = 0;
    char key[32];
    for (int i = 0; i < objects; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        there += extent_of(unit->store->volumes[0], key) != 0;
    }
    return there;
}

TEST(without_ages_the_extent_with_the_fewest_live_bytes_goes_and_these_are_kept)
{
    struct unit_store unit = unit_open_sized(16 * MIB, EXTENT);
    int objects = 100;
    for (int i = 0; i < objects; i++)
        ok(put_number(&unit, "k", i, 100000));
    uint32_t holes = extent_of(unit.store->volumes[0], "k50");
    ok(holes > 1);
    objects -= make_holes(&unit, holes, 100);
    unit_close(&unit);
    remove_tree(in_folder("ages"));
    unit = unit_open_sized(16 * MIB, EXTENT);
    struct volume *volume = unit.store->volumes[0];
    forget_ages(volume);
    uint64_t before = metric_read(M_STORE_RECYCLED);
    ok(rule_waits_for_room(&volume->rule, true));
    while (metric_read(M_STORE_RECYCLED) == before)
        usleep(1000);
    ok(!extent_is_there(volume->extents, holes));
    ok(objects_there(&unit, 100) == objects);
    unit_close(&unit);
}

/* The look-ups take so long that ticks begin meanwhile. */
TEST(without_ages_all_records_of_an_extent_are_judged_in_one_tick)
{
    struct unit_store unit = unit_open();
    struct volume *volume = unit.store->volumes[0];
    struct arena keep = { 0 };
    struct toc_entry *rows;
    uint32_t count, alive = 0;
    for (int i = 0; i < 10; i++)
        ok(put_number(&unit, "k", i, 1000));
    uint32_t number = extent_of(volume, "k0");
    ok(remove_object(&unit, "k4") == OK);
    unit_close(&unit);
    unit = unit_open();
    volume = unit.store->volumes[0];
    forget_ages(volume);
    struct extent *extent = extent_ref(volume->extents, number);
    ok(extent && extent_contents(volume->extents, number, &keep, &rows, &count) == OK && count == 10);
    struct victim victim = { extent, number, rows, count, mean_age_tick(volume->rule.policy) - 1 };
    struct mean_age_stamps none = { .count = 0 };
    struct victim_guess *guess = victim_guess(volume, &victim, &none);
    struct mean_age_stamps stamps = victim_stamps(guess, &none);
    for (uint32_t i = 0; i < count; i++) {
        alive += !victim_is_dead(guess, i);
        ok(mean_age_of_record(&stamps, i, victim.tick) == (victim_is_dead(guess, i) ? MEAN_AGE_CAP : 0));
    }
    ok(alive == 9);
    victim_guess_free(&guess);
    extent_release(&extent);
    arena_free(&keep);
    unit_close(&unit);
}

/* ---- readers that don't end ---- */

/* Takes a reference to each extent that is not held yet. */
static size_t hold_all(struct extents *extents, struct extent **held, size_t count)
{
    struct arena keep = { 0 };
    uint32_t *numbers;
    size_t all = extents_numbers(extents, &keep, &numbers);
    for (size_t i = 0; i < all; i++) {
        bool there = false;
        for (size_t k = 0; k < count && !there; k++)
            there = held[k]->number == numbers[i];
        if (!there && (held[count] = extent_ref(extents, numbers[i])))
            count++;
    }
    arena_free(&keep);
    return count;
}

struct bunch {
    struct unit_put puts[AT_ONCE];
};

static struct bunch bunch_begin(struct unit_store *unit, int number)
{
    struct bunch bunch;
    make_half_old(unit->store->volumes[0]);
    for (int k = 0; k < AT_ONCE; k++) {
        char key[32];
        snprintf(key, sizeof(key), "held%d", number + k);
        bunch.puts[k] = put_begin(unit, key, "\"1\"", 100000);
    }
    commit_now(unit);
    return bunch;
}

/* Returns how many were refused. */
static int bunch_wait(struct bunch *bunch)
{
    int refused = 0;
    for (int k = 0; k < AT_ONCE; k++) {
        enum err e = put_wait(&bunch->puts[k]);
        ok(e == OK || e == ERR_FULL);
        refused += e == ERR_FULL;
    }
    return refused;
}

TEST(an_append_waits_for_readers_that_hold_evicted_extents_for_a_short_time)
{
    struct unit_store unit = unit_open_sized(32 * MIB, EXTENT);
    struct volume *volume = unit.store->volumes[0];
    struct extent *held[300];
    size_t count = 0;
    uint64_t before = metric_read(M_STORE_HELD_LIMITED);
    int i = 0, refused = 0;
    for (; i < 800 && !volume_holds_too_much(volume); i += AT_ONCE) {
        count = hold_all(volume->extents, held, count);
        struct bunch bunch = bunch_begin(&unit, i);
        refused += bunch_wait(&bunch);
    }
    ok(volume_holds_too_much(volume) && refused == 0);
    struct bunch waiting[10];             /* more than the extent that is open has room for */
    for (size_t k = 0; k < countof(waiting); k++, i += AT_ONCE)
        waiting[k] = bunch_begin(&unit, i);
    usleep(200000);
    for (size_t k = 0; k < count; k++)
        extent_release(&held[k]);
    for (size_t k = 0; k < countof(waiting); k++)
        refused += bunch_wait(&waiting[k]);
    ok(refused == 0 && metric_read(M_STORE_HELD_LIMITED) == before);
    unit_close(&unit);
}

TEST(readers_that_hold_evicted_extents_make_the_cache_larger_by_a_bounded_amount)
{
    struct unit_store unit = unit_open_sized(32 * MIB, EXTENT);
    struct volume *volume = unit.store->volumes[0];
    struct extent *held[300];             /* more than there are */
    size_t count = 0;
    uint64_t most = 0, before = metric_read(M_STORE_HELD_LIMITED);
    int refused = 0;
    for (int i = 0; i < 800 && refused < 3 * AT_ONCE; i += AT_ONCE) {
        count = hold_all(volume->extents, held, count);
        struct bunch bunch = bunch_begin(&unit, i);
        refused += bunch_wait(&bunch);
        most = MAX(most, extents_bytes(volume->extents));
    }
    ok(refused > 0 && metric_read(M_STORE_HELD_LIMITED) > before);
    ok(most > 32 * MIB && most <= 32 * MIB + (2 + 2) * EXTENT);
    ok(extents_held_bytes(volume->extents) ==
       extents_bytes(volume->extents) - extents_linked_bytes(volume->extents));
    for (size_t i = 0; i < count; i++)
        extent_release(&held[i]);
    ok(extents_held_bytes(volume->extents) == 0);
    for (int i = 0; i < 60; i++)
        ok(put_number(&unit, "free", i, 100000));
    ok(extents_bytes(volume->extents) <= 32 * MIB);
    unit_close(&unit);
}

/* ---- damage ---- */

static bool is_there(uint32_t number)
{
    char name[32];
    snprintf(name, sizeof(name), "extents/%08x", number);
    return access(in_folder(name), F_OK) == 0;
}

/* The index still names the records behind the damaged header. After a clean stop, the files of
 * ages count them as live. Without an end of its tries, the recycler would take this extent again and
 * again, and the cache would store nothing more. */
static void is_given_up(uint32_t ordinal)
{
    struct unit_store unit = unit_open_sized(16 * MIB, EXTENT);
    for (int i = 0; i < 12; i++)
        ok(put_number(&unit, "old", i, 900000));
    unit_close(&unit);
    hide_rows(1, ordinal);
    unit = unit_open_sized(16 * MIB, EXTENT);
    for (int i = 0; i < 60; i++)
        ok(put_number(&unit, "new", i, 900000));
    ok(!is_there(1));
    ok(has_object(&unit, "new59", "\"1\"", 900000) && serving(&unit));
    unit_close(&unit);
}

TEST(an_extent_of_which_nobody_can_list_a_record_is_given_up) { is_given_up(0); }
TEST(an_extent_of_which_nobody_can_list_some_records_is_given_up) { is_given_up(1); }

/* The recycler keeps pinned records. */
TEST(records_of_an_extent_with_a_damaged_end_are_copied)
{
    static const off_t places[] = { -4096, -1 };
    struct pin_name name = { S("http://origin"), S("bucket"), S("old3") };
    struct store_options options = options_of(16 * MIB, EXTENT);
    struct unit_store unit;
    options.pin_percent = 50;
    for (size_t k = 0; k < countof(places); k++) {
        bool changed;
        ok(unit_try(&unit, options) == OK);
        for (int i = 0; i < 20; i++)
            ok(put_number(&unit, "old", i, 90000));
        ok(store_pin(unit.store, &name, 1, true, &changed) == OK);
        unit_close(&unit);
        flip_at(1, places[k]);
        ok(unit_try(&unit, options) == OK);
        for (int i = 0; i < 300 && is_there(1); i++)
            ok(put_number(&unit, "new", i, 300000));
        ok(!is_there(1) && has_object(&unit, "old3", "\"1\"", 90000));
        unit_close(&unit);
        remove_tree(unit_folder);
        ok(mkdir(unit_folder, 0700) == 0);
    }
}

/* Asks the recycler for room, and waits until it has tried. */
static void make_room_once(struct volume *volume)
{
    struct rule *rule = &volume->rule;
    bool waits = rule_waits_for_room(rule, true);
    ok(waits);
    for (uint64_t until = mono_ms() + 60000; waits && mono_ms() < until; usleep(1000)) {
        pthread_mutex_lock(&rule->lock);
        waits = rule->wanted != ADMIT_NO;
        pthread_mutex_unlock(&rule->lock);
    }
    ok(!waits);
}

static struct volume *volume_of_call;
static unsigned calls;

/* The fourth pass was the last one. The deletion of the entries that no row tells of is next. */
static void stop_at_fourth(void)
{
    if (++calls < 4)
        call_at(FAIL_RELOCATED, stop_at_fourth);
    else
        atomic_store(&volume_of_call->recycler.paused, true);
}

TEST(pinned_bytes_of_an_extent_that_is_given_up_count_once)
{
    struct unit_store unit;
    struct pin_name name = { S("http://origin"), S("bucket"), S("old3") };
    struct store_options options = options_of(16 * MIB, EXTENT);
    bool changed;
    options.pin_percent = 50;
    ok(unit_try(&unit, options) == OK);
    for (int i = 0; i < 10; i++)
        ok(put_number(&unit, "old", i, 90000));
    ok(store_pin(unit.store, &name, 1, true, &changed) == OK);
    unit_close(&unit);
    ok(unit_try(&unit, options) == OK);
    struct volume *volume = volume_of_call = unit.store->volumes[0];
    soon(pinned_is_known(volume));
    uint64_t lost = metric_read(M_PINS_LOST);
    uint64_t pinned = ages_pinned_bytes(extent_ages(volume->extents, 1));
    ok(pinned > 0);
    hide_rows(1, 0);
    calls = 0;
    call_at(FAIL_RELOCATED, stop_at_fourth);
    make_room_once(volume);
    ok(calls == 4 && is_there(1));
    recycle_resume(volume);
    make_room_once(volume);
    ok(!is_there(1) && metric_read(M_PINS_LOST) == lost + pinned);
    unit_close(&unit);
}

/* The number of a log whose file can't be made in the end. */
static void take_number(void)
{
    uint32_t number;
    ok(extents_take_number(volume_of_call->extents, &number) && number == 2);
}

static void give_number(void)
{
    calls++;
    fail_next(FAIL_EXTENT_MAKE, 0, 0, 0);
    extents_give_number(volume_of_call->extents, 2);
}

/* The extent has the highest number when the committer is to drop it, but had not before. */
TEST(an_extent_that_has_become_the_highest_goes_when_another_one_is_begun)
{
    struct unit_store unit = unit_open_sized(16 * MIB, EXTENT);
    struct volume *volume = volume_of_call = unit.store->volumes[0];
    ok(put_number(&unit, "old", 0, 900000));
    fail_next(FAIL_EXTENT_MAKE, 0, 1000000, EMFILE);
    ok(put_number(&unit, "old", 1, 900000) && !put_number(&unit, "old", 2, 900000));
    ok(!open_extent_is_open(volume->extents, OPEN_LOG) && extents_highest(volume->extents) == 1);
    ok(remove_object(&unit, "old0") == OK && remove_object(&unit, "old1") == OK);
    calls = 0;
    call_at(FAIL_RECYCLE, take_number);
    call_at(FAIL_RELOCATED, give_number);
    make_room_once(volume);
    ok(calls == 1 && !is_there(1) && extents_highest(volume->extents) == 2);
    unit_close(&unit);
}

/* ---- extents without records ---- */

/* Seals an extent to which nothing was appended, as a stop may. Returns its number. */
static uint32_t seal_without_records(struct volume *volume)
{
    pthread_mutex_lock(&volume->recycler.lock);
    ok(open_extent_begin(volume->extents, OPEN_COPY) == OK);
    uint32_t number = extents_highest(volume->extents);
    ok(open_extent_seal(volume->extents, OPEN_COPY) == OK && is_there(number));
    pthread_mutex_unlock(&volume->recycler.lock);
    return number;
}

/* A crash before the first page leaves a file of 0 bytes. */
TEST(extents_without_records_go_but_the_one_with_the_highest_number)
{
    struct unit_store unit = unit_open_sized(16 * MIB, EXTENT);
    ok(put_number(&unit, "old", 0, 900000));
    unit_close(&unit);
    int fd = open(in_folder("extents/00000002"), O_CREAT | O_EXCL, 0600);
    ok(fd >= 0 && close(fd) == 0);
    unit = unit_open_sized(16 * MIB, EXTENT);
    struct volume *volume = unit.store->volumes[0];
    uint32_t sealed = seal_without_records(volume), highest = seal_without_records(volume);
    ok(is_there(2) && sealed == 3 && highest == 4);
    make_room_once(volume);
    ok(!is_there(2) && !is_there(sealed) && is_there(highest));
    ok(store_folder_unusable(unit.store, 0) == 0);
    unit_close(&unit);
}

/* ---- removals while an extent of many records goes ---- */

/* One removal after the other: each is handed in when the one before is answered. Counts commits
 * between. */
struct chain {
    struct store_removal removal;
    struct store *store;
    struct object_id id;
    uint64_t handed_in_at, most, answers, failures;    /* commits; the most that one answer took */
    atomic_bool over;
    sem_t ended;
};

static void chain_next(struct chain *chain);

static void chain_answered(struct store_removal *removal, enum err err)
{
    struct chain *chain = container_of(removal, struct chain, removal);
    chain->most = MAX(chain->most, metric_read(M_STORE_COMMITS) - chain->handed_in_at);
    chain->answers++;
    chain->failures += err != OK;
    if (atomic_load(&chain->over))
        sem_post(&chain->ended);
    else
        chain_next(chain);
}

static void chain_next(struct chain *chain)
{
    chain->handed_in_at = metric_read(M_STORE_COMMITS);
    chain->removal = (struct store_removal){ .ids = &chain->id, .count = 1,
                                             .done = chain_answered };
    store_remove(chain->store, &chain->removal);
}

static void put_many_tiny(struct unit_store *unit, int from, int to)
{
    struct unit_append *appends = must_alloc((size_t)(to - from) * sizeof(*appends));
    char key[32];
    for (int i = from; i < to; i++) {
        snprintf(key, sizeof(key), "tiny%d", i);
        struct metadata *metadata = make_metadata(unit, key, "\"1\"", 1);
        append_begin(unit, &appends[i - from], metadata, 0, S("x"), true);
    }
    for (int i = 0; i < to - from; i++) {
        ok(append_wait(&appends[i]) == OK);
        metadata_unref(&appends[i].append.metadata);
    }
    free(appends);
}

TEST(a_removal_need_not_wait_until_an_extent_of_many_records_is_recycled)
{
    struct unit_store unit = unit_open_sized(8 * MIB, 4 * MIB);
    struct chain chain = { .store = unit.store };
    struct object_name name = name_of("gone");
    put_many_tiny(&unit, 0, TINY);
    store_object_id(unit.store, &name, &chain.id);
    sem_init(&chain.ended, 0, 0);
    uint64_t recycled = metric_read(M_STORE_RECYCLED);
    chain_next(&chain);
    for (int i = 0; i < 20 && metric_read(M_STORE_RECYCLED) == recycled; i++) {
        char key[16];
        snprintf(key, sizeof(key), "k%d", i);
        enum err e = put_object(&unit, key, "\"1\"", 900000);
        ok(e == OK || e == ERR_FULL);    /* on a slow machine, room may come too late for it */
    }
    atomic_store(&chain.over, true);
    while (sem_wait(&chain.ended) != 0)
        ;
    ok(metric_read(M_STORE_RECYCLED) > recycled);
    ok(chain.failures == 0 && chain.most <= 2);
    sem_destroy(&chain.ended);
    unit_close(&unit);
}

/* A removal overtakes the fills of the batch that makes room; it is still the last word on them. */
TEST(a_removal_that_comes_while_room_is_made_wins_over_what_was_handed_in_before)
{
    struct unit_store unit = unit_open_sized(8 * MIB, 4 * MIB);
    uint64_t recycled = metric_read(M_STORE_RECYCLED);
    put_many_tiny(&unit, 0, TINY);
    char key[16];
    bool stored = false;    /* on a slow machine, room may come too late for some of the fills */
    for (int i = 0; i < 40 && !(stored && metric_read(M_STORE_RECYCLED) > recycled); i++) {
        snprintf(key, sizeof(key), "k%d", i);
        uint64_t commits = metric_read(M_STORE_COMMITS);
        struct unit_put put = put_begin(&unit, key, "\"1\"", 900000);
        while (metric_read(M_STORE_COMMITS) == commits)
            usleep(100);    /* the first of those that recycle; else its own */
        ok(remove_object(&unit, key) == OK);
        enum err e = put_wait(&put);
        ok((e == OK || e == ERR_FULL) && !get_metadata(&unit, key));
        stored = e == OK;
    }
    ok(stored && metric_read(M_STORE_RECYCLED) > recycled);
    unit_close(&unit);
}

/* For the thread sanitizer: a smaller size takes effect while whoever starts us still looks for
 * the origins' credentials. */
TEST(names_are_told_while_the_folder_shrinks)
{
    char key[16];
    struct unit_store unit = unit_open();
    for (int i = 0; i < 48; i++) {
        snprintf(key, sizeof(key), "o%d", i);
        ok(put_object(&unit, key, "\"1\"", 1 * MIB) == OK);
    }
    unit_close(&unit);
    unit = unit_open_sized(8 * MIB, 4 * MIB);
    struct store_status status;
    const struct store_name name = { S("http://origin"), S("AKIA") };
    uint64_t until_ms = mono_ms() + 60000;
    do {
        store_names(unit.store, &name, 1);
        store_status(unit.store, &status);
    } while (status.used_bytes > 8 * MIB && mono_ms() < until_ms);
    ok(status.used_bytes <= 8 * MIB);
    unit_close(&unit);
}

RUN_STORE(STORE_TEST(without_ages_all_records_of_an_extent_are_judged_in_one_tick),
          STORE_TEST(without_ages_the_extent_with_the_fewest_live_bytes_goes_and_these_are_kept),
          STORE_TEST(an_append_waits_for_readers_that_hold_evicted_extents_for_a_short_time),
          STORE_TEST(readers_that_hold_evicted_extents_make_the_cache_larger_by_a_bounded_amount),
          STORE_TEST(names_are_told_while_the_folder_shrinks),
          STORE_TEST(a_record_that_is_read_in_pieces_is_touched_once),
          STORE_TEST(a_copy_takes_its_turn_in_the_log_before_another_extent_is_recycled),
          STORE_TEST(a_removal_need_not_wait_until_an_extent_of_many_records_is_recycled),
          STORE_TEST(a_removal_that_comes_while_room_is_made_wins_over_what_was_handed_in_before),
          STORE_TEST(an_extent_of_which_nobody_can_list_a_record_is_given_up),
          STORE_TEST(an_extent_of_which_nobody_can_list_some_records_is_given_up),
          STORE_TEST(records_of_an_extent_with_a_damaged_end_are_copied),
          STORE_TEST(pinned_bytes_of_an_extent_that_is_given_up_count_once),
          STORE_TEST(an_extent_that_has_become_the_highest_goes_when_another_one_is_begun),
          STORE_TEST(extents_without_records_go_but_the_one_with_the_highest_number),
          STORE_TEST(the_size_is_kept_and_the_newest_stays),
          STORE_TEST(a_disk_with_few_free_inodes_counts_as_full),
          STORE_TEST(packed_objects_leave_with_their_extent),
          STORE_TEST(what_lies_in_an_extent_that_grew_old_is_read_until_it_goes))
