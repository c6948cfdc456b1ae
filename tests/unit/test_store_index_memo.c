/* test_store_index_memo.c - entries kept with metadata are never older than a known commit.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "store/index.h"

#define COMMITS 400u
#define THREADS 3

struct place {
    char folder[32];
    struct index *index;
};

static struct place place_new(void)
{
    struct place place = { .folder = "store-unit-XXXXXX", .index = index_new() };
    ok(mkdtemp(place.folder) && index_open(place.index, place.folder, 64 * MIB) == OK);
    return place;
}

static void place_end(struct place *place)
{
    char file[64];
    index_free(&place->index);
    snprintf(file, sizeof(file), "%s/data.mdb", place->folder);
    unlink(file);
    ok(rmdir(place->folder) == 0);
}

static const struct object_id object = { { 1, 2, 3, 4, 5 } };

static struct entry entry_of(uint32_t ordinal)
{
    return (struct entry){ .extent = 1, .offset = 4096, .ordinal = ordinal, .len = 100,
                           .whole = true, .etag_hash = 7, .mark = 9 };
}

static void put(struct index *index, const struct object_id *id, uint32_t ordinal)
{
    struct entry entry = entry_of(ordinal);
    ok(index_put(index, id, 0, &entry) == OK);
}

static void commit_put(struct index *index, const struct object_id *id, uint32_t ordinal)
{
    ok(index_begin(index) == OK);
    put(index, id, ordinal);
    ok(index_commit(index) == OK);
}

/* Returns the ordinal of the entry that is found; 0: none. */
static uint32_t recalled(struct index *index, struct index_memo *memo)
{
    struct entry entry;
    uint32_t found = index_recall_run(index, &object, 0, 1, &entry, memo);
    ok(!found || (entry.whole && entry.etag_hash == 7 && entry.mark == 9));
    return found ? entry.ordinal : 0;
}

TEST(a_second_look_up_comes_from_the_memo)
{
    struct place place = place_new();
    struct index_memo memo = { 0 };
    ok(recalled(place.index, &memo) == 0 && atomic_load(&memo.turn) == 0);
    commit_put(place.index, &object, 5);
    ok(recalled(place.index, &memo) == 5);
    unsigned turn = atomic_load(&memo.turn);
    ok(turn > 0);
    for (int i = 0; i < 3; i++)
        ok(recalled(place.index, &memo) == 5);
    ok(atomic_load(&memo.turn) == turn);    /* nothing was written to it */
    place_end(&place);
}

TEST(each_change_is_seen_after_its_commit)
{
    struct place place = place_new();
    struct index *index = place.index;
    struct index_memo memo = { 0 };
    struct object_id neighbour = object;
    neighbour.bytes[0]++;    /* it has the same mark */
    commit_put(index, &object, 5);
    ok(recalled(index, &memo) == 5);
    commit_put(index, &object, 6);
    ok(recalled(index, &memo) == 6);
    commit_put(index, &neighbour, 7);
    ok(recalled(index, &memo) == 6);
    ok(index_begin(index) == OK);
    put(index, &object, 8);
    ok(recalled(index, &memo) == 6);    /* not committed yet */
    index_abort(index);
    ok(recalled(index, &memo) == 6);
    commit_put(index, &neighbour, 9);    /* with the number of the transaction that was aborted */
    ok(recalled(index, &memo) == 6);
    commit_put(index, &object, 10);
    ok(recalled(index, &memo) == 10);
    ok(index_begin(index) == OK && index_delete(index, &object, 0) == OK);
    ok(recalled(index, &memo) == 10);
    ok(index_commit(index) == OK);
    ok(recalled(index, &memo) == 0);
    place_end(&place);
}

TEST(another_index_knows_nothing_of_the_memo)
{
    struct place place = place_new(), other = place_new();
    struct index_memo memo = { 0 };
    commit_put(place.index, &object, 5);
    ok(recalled(place.index, &memo) == 5);
    ok(recalled(other.index, &memo) == 0);
    index_close(place.index);
    ok(recalled(place.index, &memo) == 0);
    ok(index_open(place.index, place.folder, 64 * MIB) == OK);
    ok(recalled(place.index, &memo) == 5);
    index_close(place.index);
    ok(index_open(place.index, place.folder, 64 * MIB) == OK);
    commit_put(place.index, &object, 6);
    ok(recalled(place.index, &memo) == 6);
    place_end(&place);
    place_end(&other);
}

TEST(entries_of_units_are_looked_up_each_time)
{
    struct place place = place_new();
    struct index_memo memo = { 0 };
    struct entry entry = entry_of(5), found[2];
    entry.whole = false;
    ok(index_begin(place.index) == OK && index_put(place.index, &object, 0, &entry) == OK &&
       index_put(place.index, &object, 1, &entry) == OK && index_commit(place.index) == OK);
    ok(index_recall_run(place.index, &object, 0, 2, found, &memo) == 2);
    ok(atomic_load(&memo.turn) == 0);
    place_end(&place);
}

/* ---- threads ---- */

struct shared {
    struct index *index;
    struct index_memo memo;
    atomic_uint committed;            /* the ordinal of the latest commit that has returned */
    atomic_uint begun;                /* that of the latest transaction */
    atomic_bool over;
};

static void *recall_often(void *arg)
{
    struct shared *shared = arg;
    uintptr_t wrong = 0;
    while (!atomic_load(&shared->over)) {
        uint32_t least = atomic_load(&shared->committed);
        uint32_t found = recalled(shared->index, &shared->memo);
        wrong += found < least || found > atomic_load(&shared->begun);
    }
    return (void *)wrong;
}

TEST(no_thread_finds_an_entry_that_is_older_than_a_commit_it_knows)
{
    struct place place = place_new();
    struct shared shared = { .index = place.index };
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        ok(pthread_create(&threads[i], NULL, recall_often, &shared) == 0);
    for (uint32_t n = 1; n <= COMMITS; n++) {
        atomic_store(&shared.begun, n);
        ok(index_begin(place.index) == OK);
        put(place.index, &object, n);
        if (n % 5 == 0) {
            index_abort(place.index);
            continue;
        }
        ok(index_commit(place.index) == OK);
        atomic_store(&shared.committed, n);
    }
    atomic_store(&shared.over, true);
    for (size_t i = 0; i < THREADS; i++) {
        void *wrong;
        ok(pthread_join(threads[i], &wrong) == 0 && !wrong);
    }
    place_end(&place);
}

RUN(cmocka_unit_test(a_second_look_up_comes_from_the_memo),
    cmocka_unit_test(each_change_is_seen_after_its_commit),
    cmocka_unit_test(another_index_knows_nothing_of_the_memo),
    cmocka_unit_test(entries_of_units_are_looked_up_each_time),
    cmocka_unit_test(no_thread_finds_an_entry_that_is_older_than_a_commit_it_knows))
