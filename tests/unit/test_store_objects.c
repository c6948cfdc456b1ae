/* test_store_objects.c - what is handed in is found and read back.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"

#include "store/inside.h"

TEST(a_small_object_is_read_back)
{
    struct unit_store unit = unit_open();
    ok(!get_metadata(&unit, "a"));
    ok(put_object(&unit, "a", "\"1\"", 100) == OK);
    ok(has_object(&unit, "a", "\"1\"", 100));
    unit_close(&unit);
}

TEST(objects_of_every_shape_are_read_back_warm_cold_and_after_a_restart)
{
    static const uint64_t sizes[] = { 0, 1, 100, 4095, 65535, 65536, 65537, 131071, 131072, 131073,
                                      200000, 262144, 300000, 1048575, 1048576, 1048577, 1200000,
                                      3 * MIB + 5 };
    struct unit_store unit = unit_open();
    char key[32];
    for (size_t i = 0; i < countof(sizes); i++) {
        snprintf(key, sizeof(key), "o%zu", i);
        ok(put_object(&unit, key, "\"v\"", sizes[i]) == OK);
    }
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < countof(sizes); i++) {
            snprintf(key, sizeof(key), "o%zu", i);
            ok(has_object(&unit, key, "\"v\"", sizes[i]));
            struct metadata *metadata = get_metadata(&unit, key);
            ok(!atomic_load(&metadata->unproved));
            ok(atomic_load(&metadata->validated_s) == (round < 2 ? 1750000000 : 0));
            ok(store_has_units(unit.store, metadata, 0, 1000, RECORDS_ALL) ==
               (sizes[i] + UNIT_BYTES - 1) / UNIT_BYTES);
            metadata_unref(&metadata);
        }
        if (round == 1) {
            unit_close(&unit);
            unit = unit_open();
        }
        cool();
    }
    unit_close(&unit);
}

TEST(any_range_is_read_back)
{
    struct unit_store unit = unit_open();
    static const uint64_t sizes[] = { 900000, 5 * MIB + 77 };
    ok(put_object(&unit, "0", "\"v\"", sizes[0]) == OK);
    ok(put_object(&unit, "1", "\"v\"", sizes[1]) == OK);
    srand(7);
    for (int i = 0; i < 400; i++) {
        if (i % 50 == 0)
            cool();
        uint64_t size = sizes[i % 2];
        uint64_t from = (uint64_t)rand() % size, end = from + 1 + (uint64_t)rand() % (size - from);
        ok(read_range(&unit, i % 2 ? "1" : "0", from, end) == end - from);
    }
    unit_close(&unit);
}

TEST(a_new_version_replaces_the_old_one)
{
    static const uint64_t sizes[] = { 5000, 2 * MIB, 300, 140000, 5 * MIB, 0, 1 };
    struct unit_store unit = unit_open();
    char etag[32] = "";
    for (size_t i = 0; i < countof(sizes); i++) {
        struct metadata *old = get_metadata(&unit, "k");
        snprintf(etag, sizeof(etag), "\"%zu\"", i);
        ok(put_object(&unit, "k", etag, sizes[i]) == OK);
        ok(has_object(&unit, "k", etag, sizes[i]));
        if (old && old->size && sizes[i])
            ok(read_bytes(&unit, old, "k", 0, 1) == 0);
        metadata_unref(&old);
    }
    unit_close(&unit);
    unit = unit_open();
    ok(has_object(&unit, "k", etag, 1));
    unit_close(&unit);
}

TEST(units_count_only_for_the_metadata_they_were_stored_for)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "k", "\"1\"", 3 * MIB) == OK);
    struct metadata *other = make_metadata(&unit, "k", "\"2\"", 3 * MIB);
    ok(store_has_units(unit.store, other, 0, 24, RECORDS_ALL) == 0);
    ok(read_bytes(&unit, other, "k", 0, 100) == 0);
    /* its last unit is not here */
    struct metadata *longer = make_metadata(&unit, "k", "\"1\"", 3 * MIB + 1);
    ok(store_has_units(unit.store, longer, 0, 25, RECORDS_ALL) == 24);
    metadata_unref(&longer);
    metadata_unref(&other);
    unit_close(&unit);
}

TEST(a_removed_object_is_gone_also_after_a_restart)
{
    struct unit_store unit = unit_open();
    struct object_id id;
    ok(put_object(&unit, "small", "\"1\"", 1000) == OK &&
       put_object(&unit, "big", "\"1\"", 2 * MIB) == OK);
    ok(remove_object(&unit, "small") == OK && remove_object(&unit, "big") == OK);
    for (int round = 0; round < 2; round++) {
        ok(!get_metadata(&unit, "small") && !get_metadata(&unit, "big"));
        struct object_name name = name_of("small");
        store_object_id(unit.store, &name, &id);
        ok(!store_knows(unit.store, &id, NULL));
        unit_close(&unit);
        unit = unit_open();
    }
    unit_close(&unit);
}

TEST(what_may_not_be_published_is_not_there)
{
    struct unit_store unit = unit_open();
    struct metadata *metadata = make_metadata(&unit, "k", "\"1\"", 10);
    struct unit_append append = { .refuse = true };
    append_begin(&unit, &append, metadata, 0, S("0123456789"), true);
    ok(append_wait(&append) == ERR_CHANGED);
    ok(!get_metadata(&unit, "k"));
    metadata_unref(&metadata);
    unit_close(&unit);
}

TEST(another_object_with_the_same_id_is_a_miss)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "k", "\"1\"", 10) == OK);
    struct object_name right = name_of("k"), wrong = name_of("other");
    struct object_id id;
    store_object_id(unit.store, &right, &id);
    for (int round = 0; round < 2; round++) {
        struct unit_answer answer = { 0 };
        struct store_op *op = NULL;
        enum err e = store_metadata(unit.io, &id, &wrong, metadata_came, &answer, &answer.metadata,
                                    &op);
        while (e == ERR_WAIT && !answer.came)
            unit_turn(&unit);
        ok((e == ERR_WAIT ? answer.err : e) == ERR_NOT_FOUND);
        unit_close(&unit);
        unit = unit_open();    /* now it comes from the disk, and not from RAM */
        cool();
    }
    unit_close(&unit);
}

TEST(a_dropped_read_calls_nobody)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "k", "\"1\"", 3 * MIB) == OK);
    struct metadata *metadata = get_metadata(&unit, "k");
    struct unit_answer answer = { 0 };
    for (int i = 0; i < 20; i++) {
        struct store_op *op = NULL;
        cool();
        if (store_read(unit.io, metadata, 0, MIB, (struct store_to){ 0 }, bytes_came, &answer, &answer.held, &op) ==
            ERR_WAIT)
            store_op_drop(&op);
        else
            object_bytes_release(&answer.held);
        if (i % 2)
            unit_turn(&unit);
    }
    metadata_unref(&metadata);
    unit_close(&unit);
    ok(!answer.came);
}

TEST(a_renewal_is_for_the_version_that_is_here)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "k", "\"1\"", 10) == OK);
    struct metadata *metadata = get_metadata(&unit, "k");
    const struct object_id *id = &metadata->id;
    const slice none = { NULL, 0 };
    const struct store_vouch it = { metadata->etag_hash, 10, 1700000000, none, 1760000000, 0,
                                    NULL, NULL }, others[] = {
        { metadata->etag_hash, 11, 1700000000, none, 1770000000, 0, NULL, NULL },
        { metadata->etag_hash, 10, 1700000001, none, 1770000000, 0, NULL, NULL },
        { 5, 10, 1700000000, none, 1770000000, 0, NULL, NULL },
        { metadata->etag_hash, 10, 1700000000, S("content-type: a/other\r\n"), 1770000000, 0,
          NULL, NULL },
    };
    ok(store_renew(unit.store, id, &it) == STORE_RENEWED);
    ok(atomic_load(&metadata->validated_s) == 1760000000);
    for (size_t i = 0; i < countof(others); i++)
        ok(store_renew(unit.store, id, &others[i]) == STORE_CHANGED);
    ok(atomic_load(&metadata->validated_s) == 1760000000);
    struct store_vouch same = it;
    same.fields = metadata->fields;
    ok(store_renew(unit.store, id, &same) == STORE_RENEWED);
    struct object_id bucket = { { 1 } };
    same.bucket = &bucket;
    same.after_s = 1760000000;    /* more was said of it since: a listing does not tell what */
    ok(store_renew(unit.store, id, &same) == STORE_CHANGED);
    same.after_s--;
    ok(store_renew(unit.store, id, &same) == STORE_RENEWED);
    struct object_id other = *id;
    other.bytes[0] ^= 1;
    ok(store_renew(unit.store, &other, &it) == STORE_ABSENT);
    metadata_unref(&metadata);
    unit_close(&unit);
}

TEST(a_full_queue_refuses_and_counts)
{
    struct store_options options = options_of(64 * MIB, 4 * MIB);
    options.queue_bytes_max = 2 * MIB;
    struct unit_store unit;
    ok(unit_try(&unit, options) == OK);
    uint64_t before = metric_read(M_STORE_QUEUE_FULL);
    struct metadata *metadata = make_metadata(&unit, "k", "\"1\"", 3 * MIB);
    uint8_t *bytes = must_alloc(3 * MIB);
    struct unit_append appends[3] = { 0 };
    for (uint32_t i = 0; i < 3; i++)
        append_begin(&unit, &appends[i], metadata, i * 8, (slice){ (char *)bytes + i * MIB, MIB },
                     i == 0);
    ok(append_wait(&appends[0]) == OK && append_wait(&appends[1]) == OK);
    ok(append_wait(&appends[2]) == ERR_LIMIT);
    ok(metric_read(M_STORE_QUEUE_FULL) == before + 1);
    free(bytes);
    metadata_unref(&metadata);
    unit_close(&unit);
}

/* Waits until no byte lies in the queue and, if wanted, in no commit either. */
static bool queue_falls_to_0(struct queue *queue, bool commit_too)
{
    size_t waiting = 1;
    for (int i = 0; i < 6000 && waiting; i++) {
        usleep(10000);
        pthread_mutex_lock(&queue->lock);
        waiting = queue->bytes + (commit_too ? queue->taken : 0);
        pthread_mutex_unlock(&queue->lock);
    }
    return !waiting;
}

/* A commit that takes long: the records in it have memory, too. */
TEST(records_in_a_slow_commit_count_as_queued)
{
    enum { MOST = 4, MORE = 7 };
    struct store_options options = options_of(64 * MIB, 4 * MIB);
    options.queue_bytes_max = MOST * MIB;
    struct unit_store unit;
    sem_t hang;
    sem_init(&hang, 0, 0);
    ok(unit_try(&unit, options) == OK);
    struct queue *queue = &unit.store->volumes[0]->queue;
    struct metadata *metadata = make_metadata(&unit, "k", "\"1\"", (MORE + 1) * MIB);
    uint8_t *bytes = must_alloc((MORE + 1) * MIB);
    struct unit_append appends[MORE + 1] = { { .hang = &hang } };
    int stored = 0, refused = 0;
    append_begin(&unit, &appends[0], metadata, 0, (slice){ (char *)bytes, MIB }, true);
    ok(queue_falls_to_0(queue, false));    /* the commit has taken it */
    for (uint32_t i = 1; i <= MORE; i++)
        append_begin(&unit, &appends[i], metadata, i * 8,
                     (slice){ (char *)bytes + i * MIB, MIB }, false);
    sem_post(&hang);
    for (int i = 0; i <= MORE; i++) {
        enum err e = append_wait(&appends[i]);
        stored += e == OK;
        refused += e == ERR_LIMIT;
    }
    ok(stored == MOST && refused == MORE + 1 - MOST);
    struct event why = events_find(unit.store->volumes[0]->events, &metadata->id, MORE * 8, KEPT_OUT);
    ok(why.why == EVENT_QUEUE_FULL);
    ok(queue_falls_to_0(queue, true));    /* a moment after the answers */
    ok(put_object(&unit, "later", "\"1\"", 3 * MIB) == OK);
    free(bytes);
    metadata_unref(&metadata);
    sem_destroy(&hang);
    unit_close(&unit);
}

static bool serves(struct unit_store *unit)
{
    struct store_status status;
    store_status(unit->store, &status);
    return status.serving;
}

TEST(a_commit_that_hangs_takes_the_folder_out_and_it_comes_back_unproved)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "k", "\"1\"", 10) == OK && put_object(&unit, "k2", "\"1\"", 10) == OK);
    struct metadata *metadata = make_metadata(&unit, "stuck", "\"1\"", 4);
    sem_t stuck_until;
    struct unit_append append = { .hang = &stuck_until };
    sem_init(&stuck_until, 0, 0);
    append_begin(&unit, &append, metadata, 0, S("wxyz"), true);
    ok(commit_has_taken(&unit, 0));
    ok(serves(&unit) && has_object(&unit, "k", "\"1\"", 10));
    ok(remove_object(&unit, "k") == ERR_IO && !serves(&unit));    /* it hangs for ever otherwise */
    ok(!get_metadata(&unit, "k") && put_object(&unit, "k3", "\"1\"", 10) == ERR_IO);
    sem_post(&stuck_until);
    ok(append_wait(&append) == OK);
    soon(serves(&unit));
    struct metadata *other = get_metadata(&unit, "k2");
    ok(other && atomic_load(&other->unproved));
    metadata_unref(&other);
    other = get_metadata(&unit, "k");    /* the removal was lost */
    ok(!other || atomic_load(&other->unproved));
    metadata_unref(&other);
    metadata_unref(&metadata);
    unit_close(&unit);
}

TEST(metadata_that_learnt_more_takes_its_object_along)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "k", "\"1\"", 300000) == OK);
    struct object_name name = name_of("k");
    struct metadata *old = get_metadata(&unit, "k");
    struct unit_append append = { 0 };
    struct metadata *more = metadata_new(&old->id, &name, S("\"1\""),
                                         S("x-amz-checksum-crc32: AAAAAA==\r\n"), 300000,
                                         1700000000, true);
    append_begin(&unit, &append, more, 0, S(""), true);
    ok(append_wait(&append) == OK);
    ok(has_object(&unit, "k", "\"1\"", 300000));
    metadata_unref(&old);
    metadata_unref(&more);
    unit_close(&unit);
    unit = unit_open();
    ok(has_object(&unit, "k", "\"1\"", 300000));
    old = get_metadata(&unit, "k");
    same(metadata_field(old, S("x-amz-checksum-crc32")), S("AAAAAA=="));
    metadata_unref(&old);
    unit_close(&unit);
}

RUN_STORE(STORE_TEST(metadata_that_learnt_more_takes_its_object_along),
          STORE_TEST(a_commit_that_hangs_takes_the_folder_out_and_it_comes_back_unproved),
          STORE_TEST(a_small_object_is_read_back),
          STORE_TEST(objects_of_every_shape_are_read_back_warm_cold_and_after_a_restart),
          STORE_TEST(any_range_is_read_back), STORE_TEST(a_new_version_replaces_the_old_one),
          STORE_TEST(units_count_only_for_the_metadata_they_were_stored_for),
          STORE_TEST(a_removed_object_is_gone_also_after_a_restart),
          STORE_TEST(what_may_not_be_published_is_not_there),
          STORE_TEST(another_object_with_the_same_id_is_a_miss),
          STORE_TEST(a_dropped_read_calls_nobody),
          STORE_TEST(a_renewal_is_for_the_version_that_is_here),
          STORE_TEST(records_in_a_slow_commit_count_as_queued),
          STORE_TEST(a_full_queue_refuses_and_counts))
