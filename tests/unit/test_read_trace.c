/* test_read_trace.c - the latest reads of clients. SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "unit.h"

#include "cache/read_trace.h"

#define PLACES 65536u
#define WRITES 300000u                /* of each thread */

static struct read_trace *trace;
static uint64_t taken[PLACES];

static size_t take(size_t max)
{
    return read_trace_take(trace, read_trace_head(trace), taken, max);
}

TEST(reads_come_out_in_their_order)
{
    trace = read_trace_new();
    ok(take(10) == 0);
    for (uint64_t i = 1; i <= 100; i++)
        read_trace_add(trace, i);
    ok(take(60) == 60 && taken[0] == 1 && taken[59] == 60);
    ok(read_trace_take(trace, 70, taken, 60) == 10 && taken[9] == 70);
    ok(take(60) == 30 && taken[29] == 100);
    ok(take(60) == 0);
    read_trace_free(&trace);
    ok(!trace);
}

TEST(the_oldest_reads_are_overwritten_when_it_is_full)
{
    trace = read_trace_new();
    for (uint64_t i = 1; i <= PLACES + 1000; i++)
        read_trace_add(trace, i);
    ok(take(PLACES) == PLACES);
    ok(taken[0] == 1001 && taken[PLACES - 1] == PLACES + 1000);
    read_trace_add(trace, 7);
    ok(take(PLACES) == 1 && taken[0] == 7);
    read_trace_free(&trace);
}

TEST(it_is_watched_as_long_as_anyone_watches)
{
    trace = read_trace_new();
    ok(!read_trace_is_watched(trace));
    read_trace_watch(trace, true);
    read_trace_watch(trace, true);
    read_trace_watch(trace, false);
    ok(read_trace_is_watched(trace));
    read_trace_watch(trace, false);
    ok(!read_trace_is_watched(trace));
    read_trace_free(&trace);
}

TEST(a_name_is_all_its_parts)
{
    slice reader = S("KEY"), bucket = S("data"), key = S("a/b");
    trace = read_trace_new();
    uint64_t hash = read_trace_hash(trace, reader, bucket, key, 0);
    ok(hash && hash == read_trace_hash(trace, S("KEY"), S("data"), S("a/b"), 0));
    ok(hash != read_trace_hash(trace, S("OTHER"), bucket, key, 0));
    ok(hash != read_trace_hash(trace, reader, S("date"), key, 0));
    ok(hash != read_trace_hash(trace, reader, bucket, S("a/c"), 0));
    ok(hash != read_trace_hash(trace, reader, bucket, key, 1));
    ok(read_trace_hash(trace, (slice){ NULL, 0 }, bucket, key, 0) ==
       read_trace_hash(trace, S(""), bucket, key, 0));
    read_trace_free(&trace);
}

/* ---- two writers and a taker. A hash names its writer (the high half), and its number ---- */

static atomic_uint writing;

static void *write_reads(void *arg)
{
    uint64_t writer = (uintptr_t)arg;
    for (uint64_t i = 1; i <= WRITES; i++)
        read_trace_add(trace, writer << 32 | i);
    atomic_fetch_sub(&writing, 1);
    return NULL;
}

TEST(two_writers_lose_nothing_but_what_is_overwritten)
{
    static uint8_t seen[2][WRITES + 1];
    pthread_t threads[2];
    uint64_t total = 0;
    trace = read_trace_new();
    atomic_store(&writing, 2);
    for (uintptr_t i = 0; i < 2; i++)
        ok(pthread_create(&threads[i], NULL, write_reads, (void *)i) == 0);
    for (bool last = false; !last;) {
        last = !atomic_load(&writing);
        for (size_t count; (count = take(256)) > 0; total += count)
            for (size_t i = 0; i < count; i++) {
                uint64_t writer = taken[i] >> 32, number = taken[i] & UINT32_MAX;
                ok(writer < 2 && number >= 1 && number <= WRITES);
                ok(!seen[writer][number]++);
            }
    }
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    ok(total >= PLACES / 2 && total <= 2 * WRITES);
    ok(take(256) == 0);
    read_trace_free(&trace);
}

RUN(cmocka_unit_test(reads_come_out_in_their_order),
    cmocka_unit_test(the_oldest_reads_are_overwritten_when_it_is_full),
    cmocka_unit_test(it_is_watched_as_long_as_anyone_watches),
    cmocka_unit_test(a_name_is_all_its_parts),
    cmocka_unit_test(two_writers_lose_nothing_but_what_is_overwritten))
