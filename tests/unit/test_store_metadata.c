/* test_store_metadata.c - metadata, the budget they share.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/metric.h"
#include "store/metadata.h"

static struct object_id id_number(uint32_t number)
{
    struct object_id id = { { 0 } };
    number *= 2654435761u;
    memcpy(id.bytes, &number, 4);
    memcpy(id.bytes + 4, &number, 4);
    return id;
}

static struct metadata *metadata_number(uint32_t number)
{
    char text[32];
    snprintf(text, sizeof(text), "key-%08u", number);
    struct object_name name = { S("http://o"), S("data"), slice_of(text), S("") };
    struct object_id id = id_number(number);
    return metadata_new(&id, &name, S("\"e\""), S("content-type: text/plain\r\nx-amz-meta-a:\r\n"),
                        number, 1700000000, true);
}

TEST(metadata_keeps_copies_of_all_it_was_given)
{
    char endpoint[] = "http://o", etag[] = "\"abc\"", fields[] = "content-type: a:b\r\n";
    struct object_name name = { slice_of(endpoint), S("data"), S("k"), S("v1") };
    struct object_id id = id_number(1);
    struct metadata *metadata = metadata_new(&id, &name, slice_of(etag), slice_of(fields), 42, -5,
                                             false);
    endpoint[0] = etag[1] = fields[0] = 'X';
    same(metadata->name, ((slice){ "http://o\0data\0k\0v1", 18 }));
    same(metadata->etag, S("\"abc\""));
    same(metadata_field(metadata, S("Content-Type")), S("a:b"));
    ok(metadata->size == 42 && metadata->modified_s == -5 && !metadata->full);
    ok(metadata->etag_hash == metadata_etag_hash(S("\"abc\"")));
    ok(metadata_bytes(metadata) > sizeof(*metadata) + 18 + 5);
    ok(metadata->validated_s == 0 && !metadata->unproved);
    metadata_unref(&metadata);
    ok(metadata == NULL);
    metadata_unref(&metadata);
}

TEST(a_name_is_compared_whole)
{
    struct object_name name = { S("http://o"), S("data"), S("a/b"), S("") };
    struct object_id id = id_number(1);
    struct metadata *metadata = metadata_new(&id, &name, S(""), S(""), 0, 0, true);
    ok(metadata_has_name(metadata, &name));
    name.key = S("a/");
    ok(!metadata_has_name(metadata, &name));
    name.key = S("a/bc");
    ok(!metadata_has_name(metadata, &name));
    name.key = S("a/b");
    name.version = S("1");
    ok(!metadata_has_name(metadata, &name));
    name.version = S("");
    name.bucket = S("dat");
    ok(!metadata_has_name(metadata, &name));
    metadata_unref(&metadata);
}

TEST(an_absent_field_differs_from_an_empty_one)
{
    struct metadata *metadata = metadata_number(1);
    same(metadata_field(metadata, S("content-type")), S("text/plain"));
    slice empty = metadata_field(metadata, S("x-amz-meta-a"));
    ok(empty.ptr != NULL && empty.len == 0);
    ok(metadata_field(metadata, S("x-amz-meta")).ptr == NULL);
    ok(metadata_field(metadata, S("etag")).ptr == NULL);
    metadata_unref(&metadata);
}

/* They lie on disk: a change here is a change of the format. */
TEST(hashes_that_lie_on_disk_stay_what_they_are)
{
    ok(metadata_etag_hash(S("")) == 0xF52A15E9A9B5E89Bu);
    ok(metadata_etag_hash(S("\"d41d8cd98f00b204e9800998ecf8427e\"")) == 0x901EC601ED988C56u);
    ok(metadata_mark(0, 0) == 0);
    ok(metadata_mark(1, 2) == 0xEF30B01C2974AEEBu);
}

TEST(a_mark_changes_with_size_and_with_time)
{
    ok(metadata_mark(10, 20) == metadata_mark(10, 20));
    ok(metadata_mark(10, 20) != metadata_mark(20, 10));
    ok(metadata_mark(10, 20) != metadata_mark(11, 20) &&
       metadata_mark(10, 20) != metadata_mark(10, 21));
}

TEST(metadata_put_is_found_replaced_and_dropped)
{
    struct metadata_cache *cache = metadata_cache_new(MIB);
    struct metadata *old = metadata_number(7), *new = metadata_number(7);
    metadata_cache_put(cache, old);
    struct metadata *got = metadata_cache_get(cache, &old->id);
    ok(got == old && old->refs == 3);
    metadata_unref(&got);
    size_t bytes = metadata_cache_bytes(cache);
    metadata_cache_put(cache, new);
    ok(old->refs == 1 && metadata_cache_bytes(cache) == bytes);
    got = metadata_cache_get(cache, &new->id);
    ok(got == new);
    metadata_unref(&got);
    struct object_id other = id_number(8);
    ok(metadata_cache_get(cache, &other) == NULL);
    metadata_cache_drop(cache, &other);
    metadata_cache_drop(cache, &new->id);
    ok(metadata_cache_get(cache, &new->id) == NULL && metadata_cache_bytes(cache) == 0 &&
       new->refs == 1);
    metadata_unref(&old);
    metadata_unref(&new);
    metadata_cache_free(&cache);
    ok(cache == NULL);
}

TEST(the_budget_holds_and_what_is_used_outlives_what_is_not)
{
    struct metadata_cache *cache = metadata_cache_new(256 * KIB);
    struct object_id favourite = id_number(0);
    uint64_t evicted = metric_read(M_STORE_HEADS_EVICTED);
    for (uint32_t i = 0; i < 20000; i++) {
        struct metadata *metadata = metadata_number(i);
        metadata_cache_put(cache, metadata);
        metadata_unref(&metadata);
        ok(metadata_cache_bytes(cache) <= 256 * KIB);
        struct metadata *got = metadata_cache_get(cache, &favourite);
        ok(got != NULL && got->size == 0);
        metadata_unref(&got);
    }
    ok(metadata_cache_bytes(cache) > 200 * KIB);
    ok(metric_read(M_STORE_HEADS_EVICTED) > evicted);
    struct object_id forgotten = id_number(1), latest = id_number(19999);
    ok(metadata_cache_get(cache, &forgotten) == NULL);
    struct metadata *got = metadata_cache_get(cache, &latest);
    ok(got != NULL && got->size == 19999);
    metadata_cache_free(&cache);
    ok(got->refs == 1);    /* a reader keeps it beyond the table's end */
    metadata_unref(&got);
}

TEST(metadata_larger_than_the_budget_is_not_kept)
{
    struct metadata_cache *cache = metadata_cache_new(64);
    struct metadata *metadata = metadata_number(1);
    metadata_cache_put(cache, metadata);
    ok(metadata_cache_bytes(cache) == 0 && metadata_cache_get(cache, &metadata->id) == NULL &&
       metadata->refs == 1);
    metadata_unref(&metadata);
    metadata_cache_free(&cache);
}

static void *churn(void *arg)
{
    struct metadata_cache *cache = arg;
    void *wrong = NULL;
    for (uint32_t i = 0; i < 4000; i++) {
        uint32_t number = i * 7 % 300;
        struct object_id id = id_number(number);
        struct metadata *metadata = metadata_cache_get(cache, &id);
        if (!metadata) {
            metadata = metadata_number(number);
            metadata_cache_put(cache, metadata);
        }
        if (metadata->size != number)
            wrong = arg;
        if (i % 50 == 0)
            metadata_cache_drop(cache, &id);
        metadata_unref(&metadata);
    }
    return wrong;
}

TEST(threads_share_metadata)
{
    struct metadata_cache *cache = metadata_cache_new(40 * KIB);
    pthread_t threads[4];
    for (size_t i = 0; i < countof(threads); i++)
        ok(pthread_create(&threads[i], NULL, churn, cache) == 0);
    for (size_t i = 0; i < countof(threads); i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        ok(wrong == NULL);
    }
    ok(metadata_cache_bytes(cache) <= 40 * KIB);
    metadata_cache_free(&cache);
}

struct looker {
    struct metadata_cache *cache;
    atomic_bool stop;
};

/* All of these were put before the thread began. */
static void *find_the_first_ones(void *arg)
{
    struct looker *looker = arg;
    for (uint32_t i = 0; !atomic_load(&looker->stop); i++) {
        struct object_id id = id_number(i % 100);
        struct metadata *metadata = metadata_cache_get(looker->cache, &id);
        check(metadata && metadata->size == i % 100);
        metadata_unref(&metadata);
        if (i % 100 == 99)
            usleep(50);    /* else the writer hardly gets the locks */
    }
    return NULL;
}

TEST(what_is_there_is_found_while_the_table_grows_and_others_are_dropped)
{
    enum { COUNT = 10000 };    /* 156 a shard: each grows four times */
    struct looker looker = { .cache = metadata_cache_new(GIB) };
    pthread_t threads[2];
    for (uint32_t i = 0; i < COUNT; i++) {
        struct metadata *metadata = metadata_number(i);
        metadata_cache_put(looker.cache, metadata);
        metadata_unref(&metadata);
        for (size_t t = 0; t < countof(threads) && i == 100; t++)
            ok(pthread_create(&threads[t], NULL, find_the_first_ones, &looker) == 0);
    }
    for (uint32_t i = 100; i < COUNT; i++) {
        struct object_id id = id_number(i);
        metadata_cache_drop(looker.cache, &id);
    }
    atomic_store(&looker.stop, true);
    for (size_t t = 0; t < countof(threads); t++)
        pthread_join(threads[t], NULL);
    metadata_cache_free(&looker.cache);
}

RUN(cmocka_unit_test(metadata_keeps_copies_of_all_it_was_given),
    cmocka_unit_test(a_name_is_compared_whole),
    cmocka_unit_test(an_absent_field_differs_from_an_empty_one),
    cmocka_unit_test(hashes_that_lie_on_disk_stay_what_they_are),
    cmocka_unit_test(a_mark_changes_with_size_and_with_time),
    cmocka_unit_test(metadata_put_is_found_replaced_and_dropped),
    cmocka_unit_test(the_budget_holds_and_what_is_used_outlives_what_is_not),
    cmocka_unit_test(metadata_larger_than_the_budget_is_not_kept),
    cmocka_unit_test(threads_share_metadata),
    cmocka_unit_test(what_is_there_is_found_while_the_table_grows_and_others_are_dropped))
