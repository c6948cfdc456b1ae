/* test_metric_bucket.c - counts by bucket: 100 labels, and the sum of all others.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/metric_bucket.h"

#define BUCKETS 300

static struct bucket_holds holds[METRIC_BUCKETS_MAX];    /* what the cache has, by number */

/* The samples of one family, as in the exposition. */
struct samples {
    size_t count;
    uint64_t sum, other;
};

/* The value of the label, or UINT64_MAX. */
static uint64_t look(const char *family, slice label, struct samples *ret)
{
    struct arena keep = { 0 };
    struct text text = text_in(&keep);
    uint64_t found = UINT64_MAX;
    metric_buckets_expose(&text, holds);
    slice page = text_slice(&text);
    *ret = (struct samples){ 0 };
    while (page.len) {
        slice line = slice_cut(&page, '\n'), name = slice_cut(&line, '{');
        if (!slice_eq(name, slice_of(family)))
            continue;
        (void)slice_cut(&line, '"');
        slice value_of = slice_cut(&line, '"');
        uint64_t value = strtoull(slice_from(line, 2).ptr, NULL, 10);
        ret->count++;
        ret->sum += value;
        if (slice_eq(value_of, S("other")))
            ret->other = value;
        if (slice_eq(value_of, label))
            found = value;
    }
    arena_free(&keep);
    return found;
}

static uint32_t bucket(unsigned i)
{
    char name[16];
    int len = snprintf(name, sizeof(name), "bucket-%u", i);
    return metric_bucket((slice){ name, (size_t)len });
}

static void *count_some(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < BUCKETS; i++) {
        metric_bucket_add(bucket(i), BUCKET_READS, 1);
        metric_bucket_add(bucket(i), BUCKET_BYTES, 1000 * i);
    }
    return NULL;
}

TEST(three_hundred_buckets_are_a_hundred_and_other)
{
    struct samples reads, bytes, cached;
    pthread_t threads[4];
    for (size_t i = 0; i < countof(threads); i++)
        ok(pthread_create(&threads[i], NULL, count_some, NULL) == 0);
    for (size_t i = 0; i < countof(threads); i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < BUCKETS; i++)
        holds[bucket(i)] = (struct bucket_holds){ 10, 1 };
    ok(look("penstock_bucket_reads_total", S("bucket-299"), &reads) == 4);
    ok(look("penstock_bucket_bytes_total", S("bucket-200"), &bytes) == 4 * 200000);
    ok(look("penstock_bucket_cached_bytes", S("bucket-199"), &cached) == UINT64_MAX);
    ok(reads.count == 101 && reads.sum == 4 * BUCKETS && reads.other == 4 * 200);
    ok(bytes.count == 101 && bytes.sum == 4ull * 1000 * BUCKETS * (BUCKETS - 1) / 2);
    ok(cached.count == 101 && cached.sum == 10 * BUCKETS && cached.other == 10 * 200);
}

/* After the test before this one: bucket-200 is the smallest one with a label. */
TEST(a_bucket_that_grows_gets_a_label_and_no_counter_falls)
{
    struct samples before, now;
    ok(look("penstock_bucket_bytes_total", S("bucket-200"), &before) == 800000);
    metric_bucket_add(bucket(7), BUCKET_BYTES, 2 * 800000 - 4 * 7000);
    ok(look("penstock_bucket_bytes_total", S("bucket-7"), &now) == UINT64_MAX);
    ok(now.other == before.other + 1600000 - 28000 && now.sum == before.sum + 1600000 - 28000);
    before = now;
    metric_bucket_add(bucket(7), BUCKET_BYTES, 1000);
    ok(look("penstock_bucket_bytes_total", S("bucket-7"), &now) == 1000);
    ok(now.count == 101 && now.sum == before.sum + 1000 && now.other == before.other + 800000);
    ok(look("penstock_bucket_bytes_total", S("bucket-200"), &now) == UINT64_MAX);
}

TEST(a_bucket_of_the_name_other_has_no_label_of_its_own)
{
    struct samples before, now;
    ok(look("penstock_bucket_hits_total", S("x"), &before) == UINT64_MAX);
    ok(metric_bucket(S("other")) == 0);
    metric_bucket_add(0, BUCKET_HITS, 5);
    holds[0].bytes += 7;
    (void)look("penstock_bucket_hits_total", S("x"), &now);
    ok(now.other == before.other + 5 && now.count == before.count);
    (void)look("penstock_bucket_cached_bytes", S("x"), &now);
    ok(now.other == 10 * 200 + 7);
}

TEST(there_is_a_bound_for_numbers)
{
    struct samples now;
    for (unsigned i = 0; i < METRIC_BUCKETS_MAX + 10; i++)
        metric_bucket_add(bucket(i), BUCKET_EVICTED_BYTES, 1);
    ok(bucket(METRIC_BUCKETS_MAX + 10) == 0 && bucket(5) == bucket(5) && bucket(5) != 0);
    (void)look("penstock_bucket_evicted_bytes_total", S("x"), &now);
    ok(now.count == 101 && now.sum == METRIC_BUCKETS_MAX + 10);
}

RUN(cmocka_unit_test(three_hundred_buckets_are_a_hundred_and_other),
    cmocka_unit_test(a_bucket_that_grows_gets_a_label_and_no_counter_falls),
    cmocka_unit_test(a_bucket_of_the_name_other_has_no_label_of_its_own),
    cmocka_unit_test(there_is_a_bound_for_numbers))
