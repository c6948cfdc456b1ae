/* test_store_walk.c - a walk finds what a look-up finds. SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"

#include "store/inside.h"
#include "store/walk.h"

#define KEYS 60u

/* The objects that a walk has visited, by the number in their key. */
struct seen {
    unsigned times[KEYS];
    uint64_t size[KEYS], cached[KEYS], etag_hash[KEYS];
    unsigned count, stop_at;
};

static enum err look(void *arg, const struct walk_object *object)
{
    struct seen *seen = arg;
    uint64_t number;
    ok(slice_starts(object->key, S("dir/")) && !object->version.len);
    ok(slice_u64(slice_from(object->key, 4), &number) && number < KEYS);
    seen->times[number]++;
    seen->size[number] = object->size;
    seen->cached[number] = object->cached_bytes;
    seen->etag_hash[number] = object->etag_hash;
    return ++seen->count == seen->stop_at ? ERR_LIMIT : OK;
}

static enum err walk(struct unit_store *unit, slice bucket, slice prefix, struct seen *seen,
                     struct walk_gaps *gaps)
{
    struct walk_ask ask = { .endpoint = S("http://origin"), .bucket = bucket, .prefix = prefix,
                            .visit = look, .arg = seen };
    return store_walk(unit->store, &ask, gaps);
}

static const char *key_of(unsigned number)
{
    static char key[32];
    snprintf(key, sizeof(key), "dir/%u", number);
    return key;
}

/* Compares a walk with a look-up of each key. */
static bool agrees_now(struct unit_store *unit, const uint64_t *sizes)
{
    struct seen seen = { .count = 0 };
    struct walk_gaps gaps;
    bool good = true;
    ok(walk(unit, S("bucket"), S("dir/"), &seen, &gaps) == OK && !gaps.any);
    for (unsigned i = 0; i < KEYS; i++) {
        struct metadata *metadata = get_metadata(unit, key_of(i));
        uint32_t units = (uint32_t)((sizes[i] + UNIT_BYTES - 1) / UNIT_BYTES);
        good &= seen.times[i] == (metadata != NULL);
        if (metadata && seen.times[i])
            good &= seen.size[i] == metadata->size && seen.etag_hash[i] == metadata->etag_hash &&
                    (seen.cached[i] == metadata->size) ==
                        (store_has_units(unit->store, metadata, 0, units, RECORDS_ALL) == units);
        metadata_unref(&metadata);
    }
    return good;
}

/* The recycler may change the store between the walk and the look-ups. */
static void agrees(struct unit_store *unit, const uint64_t *sizes)
{
    bool good = false;
    for (unsigned i = 0; i < 100 && !good; i++) {
        usleep(MIN(i, 20) * 20000);
        good = agrees_now(unit, sizes);
    }
    ok(good);
}

static void play(struct unit_store *unit, uint64_t *sizes, unsigned seed, unsigned steps)
{
    for (unsigned i = 0; i < steps; i++) {
        seed = seed * 1103515245u + 12345u;
        unsigned number = (seed >> 16) % KEYS;
        if (seed >> 28 < 4) {
            ok(remove_object(unit, key_of(number)) == OK);
            sizes[number] = 0;
        } else {
            sizes[number] = seed >> 30 ? (seed >> 8) % 90000 : 200000 + (seed >> 10) % 1900000;
            (void)put_object(unit, key_of(number), seed >> 27 & 1 ? "\"1\"" : "\"2\"",
                             sizes[number]);
        }
    }
}

TEST(a_walk_finds_what_a_look_up_finds_after_random_histories_and_restarts)
{
    uint64_t sizes[KEYS] = { 0 };
    struct unit_store unit = unit_open_sized(24 * MIB, 4 * MIB);    /* so extents are recycled */
    for (unsigned round = 0; round < 4; round++) {
        play(&unit, sizes, 7 + round, 60);
        agrees(&unit, sizes);
        unit_close(&unit);
        unit = unit_open_sized(24 * MIB, 4 * MIB);
        agrees(&unit, sizes);
    }
    unit_close(&unit);
}

TEST(a_walk_counts_the_bytes_that_are_cached)
{
    struct unit_store unit = unit_open();
    struct seen seen = { .count = 0 };
    struct walk_gaps gaps;
    ok(put_object(&unit, "dir/1", "\"1\"", 1000) == OK);
    ok(put_object(&unit, "dir/2", "\"1\"", 3 * MIB + 5) == OK);
    struct metadata *metadata = make_metadata(&unit, "dir/3", "\"1\"", 5 * MIB);
    uint8_t *bytes = must_alloc(2 * UNIT_BYTES);
    struct unit_append append = { .refuse = false };
    object_fill("dir/3", "\"1\"", 4 * UNIT_BYTES, bytes, 2 * UNIT_BYTES);
    append_begin(&unit, &append, metadata, 4, (slice){ (char *)bytes, 2 * UNIT_BYTES }, true);
    ok(append_wait(&append) == OK);
    metadata_unref(&metadata);
    free(bytes);
    ok(walk(&unit, S("bucket"), S(""), &seen, &gaps) == OK && seen.count == 3);
    ok(seen.cached[1] == 1000 && seen.size[1] == 1000);
    ok(seen.cached[2] == 3 * MIB + 5 && seen.size[2] == 3 * MIB + 5);
    ok(seen.cached[3] == 2 * UNIT_BYTES && seen.size[3] == 5 * MIB);
    unit_close(&unit);
}

static bool always(void *arg)
{
    (void)arg;
    return true;
}

TEST(a_walk_visits_only_what_it_was_asked_for_and_ends_early)
{
    struct unit_store unit = unit_open();
    struct seen seen = { .count = 0 };
    struct walk_gaps gaps;
    for (unsigned i = 0; i < 20; i++)
        ok(put_object(&unit, key_of(i), "\"1\"", 100) == OK);
    ok(walk(&unit, S("bucke"), S(""), &seen, &gaps) == OK && seen.count == 0);
    ok(walk(&unit, S("bucket"), S("dir/2"), &seen, &gaps) == OK && seen.count == 1);
    ok(walk(&unit, S("bucket"), S("dir/20"), &seen, &gaps) == OK && seen.count == 1);
    seen = (struct seen){ .stop_at = 5 };
    ok(walk(&unit, S("bucket"), S(""), &seen, &gaps) == ERR_LIMIT && seen.count == 5);
    struct walk_ask ask = { .endpoint = S("http://origin"), .bucket = S("bucket"), .prefix = S(""),
                            .visit = look, .is_over = always, .arg = &seen };
    ok(store_walk(unit.store, &ask, &gaps) == ERR_STOPPING && seen.count == 5);
    ask.endpoint = S("http://other");
    ask.is_over = NULL;
    ok(store_walk(unit.store, &ask, &gaps) == OK && seen.count == 5);
    unit_close(&unit);
}

static bool finds_one(struct unit_store *unit)
{
    struct seen seen = { .count = 0 };
    struct walk_gaps gaps;
    return walk(unit, S("bucket"), S(""), &seen, &gaps) == OK && seen.count == 1 && !gaps.any;
}

TEST(a_folder_that_is_out_of_service_is_a_gap)
{
    struct unit_store unit = unit_open();
    struct seen seen = { .count = 0 };
    struct walk_gaps gaps;
    ok(put_object(&unit, "dir/1", "\"1\"", 100) == OK);
    atomic_store(&unit.store->volumes[0]->service.unproved, true);
    ok(walk(&unit, S("bucket"), S(""), &seen, &gaps) == OK && seen.count == 0);
    ok(gaps.any && gaps.folders[0] && !gaps.extents);
    /* The committer may have closed the folder meanwhile. It opens it again. */
    atomic_store(&unit.store->volumes[0]->service.unproved, false);
    soon(finds_one(&unit));
    unit_close(&unit);
}

/* A process that ended before it wrote the first page of an extent leaves an empty file. */
TEST(an_empty_file_is_no_gap)
{
    struct unit_store unit = unit_open();
    struct seen seen = { .count = 0 };
    struct walk_gaps gaps;
    ok(put_object(&unit, "dir/1", "\"1\"", 100) == OK);
    unit_close(&unit);
    int fd = open(in_folder("extents/00000007"), O_WRONLY | O_CREAT, 0600);
    ok(fd >= 0 && close(fd) == 0);
    unit = unit_open();
    ok(finds_one(&unit));
    unit_close(&unit);
    fd = open(in_folder("extents/00000007"), O_WRONLY);
    ok(fd >= 0 && write(fd, "foreign", 7) == 7 && close(fd) == 0);
    unit = unit_open();
    ok(walk(&unit, S("bucket"), S(""), &seen, &gaps) == OK && seen.count == 1 && gaps.extents == 1);
    unit_close(&unit);
}

RUN_STORE(STORE_TEST(an_empty_file_is_no_gap),
          STORE_TEST(a_walk_finds_what_a_look_up_finds_after_random_histories_and_restarts),
          STORE_TEST(a_walk_counts_the_bytes_that_are_cached),
          STORE_TEST(a_walk_visits_only_what_it_was_asked_for_and_ends_early),
          STORE_TEST(a_folder_that_is_out_of_service_is_a_gap))
