/* test_store_limits.c - what the cache has of each bucket and prefix, and the limits of it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"

#include "store/inside.h"
#include "store/extent.h"
#include "store/limits.h"

#define EXTENT (4 * MIB)
#define SMALL (100u * 1024)
#define LARGE (3 * MIB + 5000)        /* more than a record: metadata and units lie apart */

static struct store_limits row(const char *bucket, const char *prefix, uint64_t quota_bytes)
{
    return (struct store_limits){ .bucket = slice_of(bucket), .prefix = slice_of(prefix),
                                  .quota_bytes = quota_bytes };
}

/* ---- rows ---- */

TEST(the_row_with_the_longest_prefix_has_the_limits)
{
    struct store_limits rows[] = { row("b", "x/", 1), row("b", "", 2), row("b", "x/y", 3),
                                   row("c", "x/", 4) };
    struct limits limits;
    limits_set(&limits, rows, countof(rows));
    ok(limits_find(&limits, S("b"), S("x/yz"))->quota_bytes == 3);
    ok(limits_find(&limits, S("b"), S("x/z"))->quota_bytes == 1);
    ok(limits_find(&limits, S("b"), S("y"))->quota_bytes == 2);
    ok(limits_find(&limits, S("c"), S("x"))  == NULL && !limits_find(&limits, S("d"), S("x/")));
    ok(limits_row(&limits, S("b"), S("x/y"))->quota_bytes == 3 && !limits_row(&limits, S("b"), S("x")));
    limits_end(&limits);
}

TEST(a_bucket_is_split_at_its_prefixes_if_one_of_its_rows_counts_bytes)
{
    struct store_limits rows[] = { row("b", "x/", 0), row("b", "", 2), row("c", "x/", 0),
                                   row("d", "", 5) };
    struct limits a, b, none = { 0 };
    limits_set(&a, rows, countof(rows));
    ok(limits_split(&a, S("b")) && !limits_split(&a, S("c")) && !limits_split(&a, S("d")));
    ok(limits_any_split(&a) && !limits_any_split(&none));
    rows[1].quota_bytes = 7;
    limits_set(&b, rows, countof(rows));
    ok(limits_same_split(&a, &b) && !limits_same_split(&a, &none) && !limits_same_split(&none, &b));
    limits_end(&b);
    rows[1].quota_bytes = 0;
    limits_set(&b, rows, countof(rows));
    ok(!limits_same_split(&a, &b) && limits_same_split(&b, &none));
    limits_end(&a);
    limits_end(&b);
}

/* ---- what the cache has ---- */

/* Returns why the store has nothing of the object, if a reason is known. */
static enum event_why why_not(struct unit_store *unit, const char *key, enum event_kind kind)
{
    struct metadata *metadata = make_metadata(unit, key, "\"1\"", 0);
    struct object_id id = metadata->id;
    metadata_unref(&metadata);
    struct volume *home = unit->store->volumes[0];
    enum event_why why = events_find(home->events, &id, 0, kind).why;
    return why ? why : events_find(home->events, &id, METADATA_UNIT, kind).why;
}

static void set_limits(struct unit_store *unit, const struct store_limits *rows, size_t count)
{
    store_set_limits(unit->store, rows, count);
}

/* What the store has of the tally of a key. */
static struct tally_change held(struct unit_store *unit, const char *key)
{
    struct tallies *tallies = unit->store->installation.tallies;
    struct metadata *metadata = make_metadata(unit, key, "\"1\"", 0);
    struct tally_change sum = tallies_sum(tallies, tallies_of_name(tallies, metadata->name));
    metadata_unref(&metadata);
    return sum;
}

/* Waits until every record has its tally. */
static void wait_for_tallies(struct unit_store *unit)
{
    struct tallies *tallies = unit->store->installation.tallies;
    uint64_t until_ms = mono_ms() + 60000;
    for (size_t i = 0; i < unit->store->volume_count; i++) {
        struct volume *volume = unit->store->volumes[i];
        while ((volume->upkeep.counting.layout != tallies_layout(tallies) ||
                !atomic_load(&volume->service.counted)) && mono_ms() < until_ms)
            usleep(10000);
        ok(atomic_load(&volume->service.counted));
    }
}

#define AT_ONCE 20u
static void fill(struct unit_store *unit, const char *prefix, unsigned small, unsigned large)
{
    struct unit_put puts[AT_ONCE];
    char keys[AT_ONCE][32];
    for (unsigned i = 0; i < small + large; i += AT_ONCE) {
        unsigned count = MIN(small + large - i, AT_ONCE);
        for (unsigned k = 0; k < count; k++) {
            snprintf(keys[k], sizeof(keys[k]), "%s%u", prefix, i + k);
            puts[k] = put_begin(unit, keys[k], "\"1\"", i + k < small ? SMALL : LARGE);
        }
        for (unsigned k = 0; k < count; k++)
            ok(put_wait(&puts[k]) == OK);
    }
}

static void holds(struct unit_store *unit, const char *key, unsigned small, unsigned large)
{
    struct tally_change sum = held(unit, key);
    ok(sum.bytes == (int64_t)(small * SMALL + large * LARGE));
    ok(sum.objects == (int32_t)(small + large) && sum.records == (int32_t)(small + 5 * large));
}

TEST(prefixes_are_told_apart_also_in_units_and_after_a_restart)
{
    const struct store_limits rows[] = { row("bucket", "a/", GIB), row("bucket", "", GIB) };
    struct store_options options = options_of(256 * MIB, EXTENT);
    options.limits = rows;
    options.limit_count = 2;
    struct unit_store unit;
    ok(unit_try(&unit, options) == OK);
    fill(&unit, "a/", 5, 2);
    fill(&unit, "b/", 3, 1);
    unit_bucket = "second";
    fill(&unit, "a/", 2, 1);
    for (int round = 0; round < 2; round++) {
        unit_bucket = "second";
        holds(&unit, "a/", 2, 1);
        unit_bucket = "bucket";
        holds(&unit, "a/", 5, 2);
        holds(&unit, "b/", 3, 1);
        unit_close(&unit);
        ok(unit_try(&unit, options) == OK);
        wait_for_tallies(&unit);
    }
    unit_close(&unit);
}

TEST(a_reload_splits_a_bucket_that_is_full_of_records)
{
    const struct store_limits rows[] = { row("bucket", "a/", GIB), row("bucket", "a/x", GIB) };
    struct unit_store unit = unit_open_sized(256 * MIB, EXTENT);
    fill(&unit, "a/", 5, 2);
    fill(&unit, "a/x", 4, 0);
    fill(&unit, "b/", 3, 1);
    holds(&unit, "b/", 12, 3);
    set_limits(&unit, rows, 2);
    fill(&unit, "b/new", 1, 1);    /* while the others get their tallies */
    wait_for_tallies(&unit);
    holds(&unit, "a/", 5, 2);
    holds(&unit, "a/x", 4, 0);
    holds(&unit, "b/", 4, 2);
    set_limits(&unit, rows, 1);
    wait_for_tallies(&unit);
    holds(&unit, "a/x", 9, 2);
    set_limits(&unit, rows, 0);
    wait_for_tallies(&unit);
    holds(&unit, "a/", 13, 4);
    ok(remove_object(&unit, "a/1") == OK);
    holds(&unit, "a/", 12, 4);
    unit_close(&unit);
}

/* ---- quotas ---- */

TEST(a_quota_bounds_its_bucket_and_no_other)
{
    const struct store_limits rows[] = { row("bucket", "", 4 * MIB) };
    struct unit_store unit = unit_open_sized(256 * MIB, EXTENT);
    struct unit_put puts[64];
    char keys[64][16];
    unsigned stored = 0;
    set_limits(&unit, rows, 1);
    for (unsigned i = 0; i < 64; i++) {    /* all at once: those on their way count, too */
        snprintf(keys[i], sizeof(keys[i]), "%u", i);
        puts[i] = put_begin(&unit, keys[i], "\"1\"", SMALL);
    }
    for (unsigned i = 0; i < 64; i++) {
        enum err e = put_wait(&puts[i]);
        ok(e == OK || e == ERR_FULL);
        stored += e == OK;
    }
    ok(stored == 4 * MIB / SMALL && held(&unit, "0").bytes == stored * SMALL);
    struct metadata *more = make_metadata(&unit, "more", "\"1\"", SMALL);
    ok(!store_admits(unit.store, more, 0) && !store_admits_metadata(unit.store, more));
    ok(store_allows(unit.store, more));
    unit_bucket = "second";
    fill(&unit, "", 60, 0);
    unit_bucket = "bucket";
    ok(remove_object(&unit, "0") == OK && store_admits(unit.store, more, 0));
    ok(put_object(&unit, "more", "\"1\"", SMALL) == OK);
    ok(put_object(&unit, "again", "\"1\"", SMALL) == ERR_FULL);
    metadata_unref(&more);
    unit_close(&unit);
}

TEST(a_quota_holds_however_many_other_buckets_were_read)
{
    const struct store_limits rows[] = { row("bucket", "", 4 * MIB), row("second", "a/", 2 * MIB) };
    struct unit_store unit = unit_open_sized(256 * MIB, EXTENT);
    struct tallies *tallies = unit.store->installation.tallies;
    uint16_t tally;
    set_limits(&unit, rows, 2);
    wait_for_tallies(&unit);
    for (uint64_t i = 1; i <= TALLIES_MAX; i++)
        (void)!tallies_of_bucket(tallies, i << 32 | i, &tally);
    ok(!tallies_of_bucket(tallies, 12345, &tally) && tally == 0);    /* its name decides */
    for (int i = 0; i < 2; i++) {
        unsigned stored = 0, limit = i ? 2 * MIB / SMALL : 4 * MIB / SMALL;
        unit_bucket = i ? "second" : "bucket";
        for (unsigned k = 0; k <= limit; k++) {
            char key[16];
            snprintf(key, sizeof(key), "a/%u", k);
            stored += put_object(&unit, key, "\"1\"", SMALL) == OK;
        }
        ok(stored == limit);
    }
    unit_bucket = "third";
    ok(put_object(&unit, "a", "\"1\"", SMALL) == OK && held(&unit, "a").objects == 1);
    unit_bucket = "bucket";
    unit_close(&unit);
}

TEST(a_bucket_beyond_its_quota_is_evicted_first)
{
    const struct store_limits rows[] = { row("second", "", 8 * MIB) };
    struct unit_store unit = unit_open_sized(64 * MIB, EXTENT);
    fill(&unit, "", 240, 0);           /* 24 MiB, the oldest */
    unit_bucket = "second";
    fill(&unit, "", 240, 0);           /* 24 MiB */
    set_limits(&unit, rows, 1);
    unit_bucket = "third";
    fill(&unit, "", 300, 0);           /* 30 MiB: 24 have to go */
    ok(held(&unit, "0").objects == 300);
    unit_bucket = "bucket";
    ok(held(&unit, "0").objects > 200);
    unit_bucket = "second";
    ok(held(&unit, "0").bytes < (int64_t)(8 * MIB + EXTENT));
    unsigned told = 0, gone = 0;
    for (unsigned i = 0; i < 240; i++) {
        char key[32];
        snprintf(key, sizeof(key), "%u", i);
        bool there = has_object(&unit, key, "\"1\"", SMALL);
        gone += !there;
        told += !there && why_not(&unit, key, TAKEN_OUT) == EVENT_EVICTED_QUOTA;
    }
    ok(gone >= 80 && told >= gone / 2);    /* the ring of reasons has forgotten some */
    unit_bucket = "bucket";
    unit_close(&unit);
}

#define EXTENTS 30u
#define QUOTA (12 * MIB)

/* Puts many objects at once. Returns how many are stored; the quota refuses the others. */
static unsigned put_beyond(struct unit_store *unit, const char *prefix, unsigned count)
{
    struct unit_put puts[200];
    char keys[200][16];
    unsigned stored = 0;
    check(count <= countof(puts));
    for (unsigned i = 0; i < count; i++) {
        snprintf(keys[i], sizeof(keys[i]), "%s%u", prefix, i);
        puts[i] = put_begin(unit, keys[i], "\"1\"", SMALL);
    }
    for (unsigned i = 0; i < count; i++) {
        enum err e = put_wait(&puts[i]);
        ok(e == OK || e == ERR_FULL);
        stored += e == OK;
    }
    return stored;
}

/* The committer counts one extent in a turn. The records of the bucket lie in the last ones. */
TEST(a_quota_holds_while_the_records_are_counted)
{
    const struct store_limits rows[] = { row("second", "", QUOTA) };
    struct store_options options = options_of(256 * MIB, EXTENT);
    struct unit_store unit;
    options.limits = rows;
    options.limit_count = 1;
    ok(unit_try(&unit, options) == OK);
    fill(&unit, "", EXTENTS * EXTENT / SMALL, 0);
    unit_bucket = "second";
    ok(put_beyond(&unit, "a", 200) == QUOTA / SMALL);
    for (int clean = 0; clean < 2; clean++) {
        unit_close(&unit);
        ok(clean || unlink(in_folder("clean")) == 0);
        ok(unit_try(&unit, options) == OK);
        (void)!put_beyond(&unit, clean ? "b" : "c", 200);
        wait_for_tallies(&unit);
        ok(held(&unit, "0").bytes == QUOTA / SMALL * SMALL);
    }
    ok(remove_object(&unit, "a0") == OK);
    ok(put_beyond(&unit, "d", 10) == 1);
    unit_bucket = "bucket";
    unit_close(&unit);
}

/* Gives the bucket a quota of 4 MiB, and waits until all is counted. Returns metadata of "k". */
static struct metadata *begin_quota(struct unit_store *unit)
{
    const struct store_limits rows[] = { row("bucket", "", 4 * MIB) };
    set_limits(unit, rows, 1);
    soon(tallies_are_counted(unit->store->installation.tallies));
    return make_metadata(unit, "k", "\"1\"", SMALL);
}

/* The store has one volume. This test and the next one play a second one. */
TEST(bytes_that_are_not_counted_and_those_of_a_folder_that_is_out_leave_no_room)
{
    struct unit_store unit = unit_open();
    struct tallies *tallies = unit.store->installation.tallies;
    struct metadata *metadata = begin_quota(&unit);
    const struct tally_change most = { tallies_of_name(tallies, metadata->name), 1, 1, 3 * MIB };
    const struct tally_change some = { most.tally, 1, 1, 1000 };
    tallies_begin(tallies, 1);
    ok(!store_admits(unit.store, metadata, 0) && !store_admits_metadata(unit.store, metadata));
    ok(put_object(&unit, "k", "\"1\"", SMALL) == ERR_FULL);
    ok(why_not(&unit, "k", KEPT_OUT) == EVENT_QUOTA_NOT_COUNTED);
    ok(!tallies_is_full(tallies, most.tally));    /* nothing is evicted because of this */
    tallies_add(tallies, 1, &most);
    tallies_counted(tallies, 1, tallies_layout(tallies));
    ok(tallies_has_room(tallies, most.tally, MIB) &&
       !tallies_has_room(tallies, most.tally, MIB + 1));
    tallies_leave(tallies, 1);
    ok(held(&unit, "k").bytes == 0 && !tallies_has_room(tallies, most.tally, MIB + 1));
    tallies_begin(tallies, 1);    /* and the folder fails again in the middle of the count */
    tallies_add(tallies, 1, &some);
    tallies_leave(tallies, 1);
    ok(tallies_has_room(tallies, most.tally, MIB) &&
       !tallies_has_room(tallies, most.tally, MIB + 1));
    tallies_begin(tallies, 1);
    tallies_add(tallies, 1, &some);
    tallies_counted(tallies, 1, tallies_layout(tallies));
    ok(held(&unit, "k").bytes == 1000 && tallies_has_room(tallies, most.tally, 4 * MIB - 1000));
    tallies_leave(tallies, 1);
    tallies_leave(tallies, 1);
    ok(tallies_has_room(tallies, most.tally, 4 * MIB - 1000));
    ok(put_object(&unit, "k", "\"1\"", SMALL) == OK);
    metadata_unref(&metadata);
    unit_close(&unit);
}

TEST(a_folder_that_hangs_while_it_is_counted_closes_no_quota)
{
    struct unit_store unit = unit_open();
    struct tallies *tallies = unit.store->installation.tallies;
    struct metadata *metadata = begin_quota(&unit);
    const struct tally_change most = { tallies_of_name(tallies, metadata->name), 1, 1, 3 * MIB };
    const struct tally_change some = { most.tally, 1, 1, 1000 };
    tallies_begin(tallies, 1);
    tallies_add(tallies, 1, &some);
    ok(!tallies_has_room(tallies, most.tally, 1));
    tallies_set_hanging(tallies, 1, true);
    ok(tallies_has_room(tallies, most.tally, 4 * MIB - 1000) &&
       !tallies_has_room(tallies, most.tally, 4 * MIB));
    tallies_set_hanging(tallies, 1, false);
    ok(!tallies_has_room(tallies, most.tally, 1));
    tallies_add(tallies, 1, &most);
    tallies_counted(tallies, 1, tallies_layout(tallies));
    ok(!tallies_has_room(tallies, most.tally, MIB));
    tallies_set_hanging(tallies, 1, true);    /* a folder that is counted: nothing changes */
    ok(tallies_has_room(tallies, most.tally, MIB - 1000) &&
       !tallies_has_room(tallies, most.tally, MIB));
    tallies_leave(tallies, 1);    /* these bytes are known when it is counted anew */
    for (int hangs = 0; hangs < 2; hangs++) {
        tallies_begin(tallies, 1);
        tallies_add(tallies, 1, &some);
        ok(!tallies_has_room(tallies, most.tally, 1));
        tallies_set_hanging(tallies, 1, true);
        ok(!tallies_has_room(tallies, most.tally, MIB - 1000));
        ok(tallies_has_room(tallies, most.tally, MIB - 2000));
        tallies_leave(tallies, 1);
        ok(tallies_has_room(tallies, most.tally, MIB - 1000) &&
           !tallies_has_room(tallies, most.tally, MIB));
    }
    tallies_begin(tallies, 1);
    tallies_set_hanging(tallies, 1, true);
    tallies_add(tallies, 1, &some);
    tallies_counted(tallies, 1, tallies_layout(tallies));
    ok(held(&unit, "k").bytes == 1000 && tallies_has_room(tallies, most.tally, 4 * MIB - 1000));
    tallies_leave(tallies, 1);
    metadata_unref(&metadata);
    unit_close(&unit);
}

/* The newest extent, which is not evicted, is larger than the folder may be. */
TEST(a_folder_that_stays_too_large_is_counted_too)
{
    const struct store_limits rows[] = { row("bucket", "", GIB) };
    struct store_options options = options_of(256 * MIB, 4 * EXTENT);
    options.limits = rows;
    options.limit_count = 1;
    struct unit_store unit;
    ok(unit_try(&unit, options) == OK);
    fill(&unit, "k", 60, 0);
    unit_close(&unit);
    ok(unlink(in_folder("clean")) == 0);
    unit_one_folder.size_bytes = 1;
    ok(unit_try(&unit, options) == OK);
    wait_for_tallies(&unit);
    ok(held(&unit, "k").bytes > 0 && extents_count(unit.store->volumes[0]->extents) == 1);
    unit_close(&unit);
}

/* ---- admission ---- */

TEST(never_and_too_large_allow_nothing)
{
    struct store_limits rows[] = { row("bucket", "n/", 0), row("bucket", "", 0) };
    rows[0].admission = ADMISSION_NEVER;
    rows[1].object_bytes_max = 1000;
    struct unit_store unit = unit_open();
    set_limits(&unit, rows, 2);
    static const struct { const char *key; uint64_t size; enum event_why why; } cases[] = {
        { "n/1", 1, EVENT_ADMIT_NEVER }, { "m", 1000, EVENT_NONE }, { "m", 0, EVENT_NONE },
        { "m", 1001, EVENT_OVER_MAX_OBJECT }, { "o", 1001, EVENT_OVER_MAX_OBJECT },
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct metadata *metadata = make_metadata(&unit, cases[i].key, "\"1\"", cases[i].size);
        ok(store_allows(unit.store, metadata) == !cases[i].why);
        ok(why_not(&unit, cases[i].key, KEPT_OUT) == cases[i].why);
        metadata_unref(&metadata);
    }
    unit_close(&unit);
}

RUN_STORE(STORE_TEST(the_row_with_the_longest_prefix_has_the_limits),
          STORE_TEST(a_bucket_is_split_at_its_prefixes_if_one_of_its_rows_counts_bytes),
          STORE_TEST(prefixes_are_told_apart_also_in_units_and_after_a_restart),
          STORE_TEST(a_reload_splits_a_bucket_that_is_full_of_records),
          STORE_TEST(a_quota_bounds_its_bucket_and_no_other),
          STORE_TEST(a_quota_holds_however_many_other_buckets_were_read),
          STORE_TEST(a_bucket_beyond_its_quota_is_evicted_first),
          STORE_TEST(a_quota_holds_while_the_records_are_counted),
          STORE_TEST(bytes_that_are_not_counted_and_those_of_a_folder_that_is_out_leave_no_room),
          STORE_TEST(a_folder_that_hangs_while_it_is_counted_closes_no_quota),
          STORE_TEST(a_folder_that_stays_too_large_is_counted_too),
          STORE_TEST(never_and_too_large_allow_nothing))
