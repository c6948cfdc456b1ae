/* test_window.c - large objects over several connections. SPDX-License-Identifier: Apache-2.0 */
#include "cache_unit.h"
#include "store/purge.h"

#define LARGE (72 * MIB + 12345)      /* enough for a fetch to be cut short (CUT_LEAST) */
#define SLOW_US 400u                  /* a piece of 32 KiB on average: 80 MB/s */

static void large_house(unsigned slow_us)
{
    house.folder_bytes = 256 * MIB;
    new_house(LARGE);
    atomic_store(&fake.slow_us, slow_us);
}

static uint64_t window_fetches(void)
{
    return metric_read(M_CACHE_WINDOW_FETCHES);
}

static void begin_and_read(struct client *client, uint64_t bytes)
{
    client_begin(client);
    ask(client, 0, 0);
    ok(decided(client) == OK);
    read_some(client, bytes);
}

TEST(a_large_object_from_a_slow_connection_comes_over_several)
{
    for (int no_store = 0; no_store <= 1; no_store++) {
        struct client client;
        large_house(SLOW_US);
        uint64_t before = window_fetches();
        atomic_store(&fake.no_store, no_store);
        client_begin(&client);
        ok(reads(&client, 0, 0));
        ok(client.answer->source == GET_MISS && get_cost(client.get)->cache_bytes == 0);
        unsigned at_once = atomic_load(&fake.most_at_once);    /* half of 16 slots: 4 spans */
        ok(at_once > 3 && at_once <= 6);
        ok(atomic_load(&fake.gets) >= 6 && atomic_load(&fake.gets) <= 40);
        /* On a busy machine, the reader itself asks for a gap before the window does. */
        uint64_t fetches = window_fetches() - before;
        ok(fetches >= 4 && fetches <= atomic_load(&fake.gets) - 1);
        ok(atomic_load(&fake.bytes) >= LARGE && atomic_load(&fake.bytes) <= LARGE + 65536);
        settle(&client);
        if (!no_store) {
            ok(reads(&client, 0, 0) && client.answer->source == GET_HIT);
            ok(get_cost(client.get)->cache_bytes == LARGE);
            ok(atomic_load(&fake.bytes) <= LARGE + 65536);
        }
        client_end(&client);
        drop_house();
    }
}

TEST(a_reader_of_little_and_a_fast_connection_open_no_window)
{
    struct client client;
    large_house(SLOW_US);
    uint64_t before = window_fetches();
    begin_and_read(&client, 1 * MIB - 1);    /* of all of it, and leaves */
    ok(atomic_load(&fake.gets) == 1);
    ok(reads(&client, 20 * MIB, 28 * MIB));    /* little enough for one */
    ok(atomic_load(&fake.gets) == 2);
    settle(&client);
    atomic_store(&fake.slow_us, 0);
    ask_for(&client, "another", 0, 0);
    ok(decided(&client) == OK);
    for (uint64_t most = 0; !read_some(&client, most); most += 100000)    /* never waits for long */
        ok(client.err == OK);
    ok(window_fetches() == before || client.got == LARGE);
    client_end(&client);
    drop_house();
}

TEST(a_window_fetches_what_is_missing_and_nothing_else)
{
    struct client client;
    large_house(0);
    client_begin(&client);
    for (uint64_t first = 12 * MIB; first + 2 * MIB < LARGE; first += 10 * MIB)
        ok(reads(&client, first, first + 2 * MIB));
    settle(&client);
    atomic_store(&fake.slow_us, SLOW_US);
    ok(reads(&client, 0, 0));
    ok(atomic_load(&fake.most_at_once) > 2);
    ok(atomic_load(&fake.bytes) <= LARGE + 65536);
    settle(&client);
    ok(reads(&client, 0, 0) && client.answer->source == GET_HIT);
    client_end(&client);
    drop_house();
}

TEST(a_reader_that_leaves_ends_the_fetches_of_its_window)
{
    struct client client;
    large_house(SLOW_US);
    begin_and_read(&client, 14 * MIB);
    ok(atomic_load(&fake.gets) > 3);
    settle(&client);
    uint64_t bytes = atomic_load(&fake.bytes);
    ok(bytes < LARGE);
    usleep(50000);
    ok(atomic_load(&fake.bytes) == bytes);
    ok(reads(&client, 0, 0));
    client_end(&client);
    drop_house();
}

/* Returns true if the read met the new version. On a busy machine, all bytes may come from the
 * connections of before. */
static bool meets_new_version(void)
{
    struct client client;
    large_house(SLOW_US);
    begin_and_read(&client, 3 * MIB);
    atomic_store(&fake.version, 2);
    bool all = read_some(&client, UINT64_MAX);    /* of the old version, each byte */
    bool meets = !all && client.err == ERR_CHANGED;
    settle(&client);
    client.version = 2;
    bool then = all || reads(&client, 0, 0);    /* all: the cache has the old version */
    client_end(&client);
    drop_house();
    ok((all || meets) && then);
    return meets;
}

TEST(a_window_never_mixes_versions)
{
    bool meets = false;
    for (int i = 0; i < 10 && !meets; i++)
        meets = meets_new_version();
    ok(meets);
}

/* ---- clients that read a range at a time (streams.c) ---- */

#define RANGE (2 * MIB)

TEST(a_stream_of_ranges_is_read_ahead_over_any_connection)
{
    struct client clients[3];
    large_house(SLOW_US);
    for (size_t i = 0; i < countof(clients); i++)
        client_begin(&clients[i]);
    uint64_t cached = 0;
    for (uint64_t first = 0; first < LARGE; first += RANGE) {
        struct client *client = &clients[first / RANGE % countof(clients)];
        uint64_t end = MIN(first + RANGE, (uint64_t)LARGE);
        ok(reads(client, first, end));
        cached += get_cost(client->get)->cache_bytes;
        get_end(&client->get);
    }
    ok(cached > LARGE / 4);           /* what was fetched ahead is a hit */
    ok(atomic_load(&fake.most_at_once) > 2);
    ok(atomic_load(&fake.bytes) == LARGE);    /* each byte once */
    for (size_t i = 0; i < countof(clients); i++) {
        settle(&clients[i]);
        client_end(&clients[i]);
    }
    drop_house();
}

TEST(ranges_that_are_no_stream_are_fetched_and_no_more)
{
    struct client client;
    large_house(SLOW_US);
    client_begin(&client);
    for (uint64_t first = 40 * MIB; first; first -= 4 * MIB)    /* backwards */
        ok(reads(&client, first, first + RANGE));
    settle(&client);
    ok(atomic_load(&fake.gets) == 10 && atomic_load(&fake.bytes) == 10 * RANGE);
    ok(reads(&client, 40 * MIB + RANGE, 40 * MIB + RANGE + 1000));    /* short */
    settle(&client);
    ok(atomic_load(&fake.bytes) == 10 * RANGE + UNIT_BYTES);
    client_end(&client);
    drop_house();
}

TEST(a_stream_that_ends_early_costs_a_bounded_number_of_bytes)
{
    struct client client;
    large_house(SLOW_US);
    client_begin(&client);
    for (uint64_t first = 0; first < 2 * RANGE; first += RANGE)
        ok(reads(&client, first, first + RANGE));
    settle(&client);
    uint64_t bytes = atomic_load(&fake.bytes);
    ok(bytes > 2 * RANGE && bytes <= 2 * RANGE + 8 * MIB);
    usleep(50000);
    ok(atomic_load(&fake.bytes) == bytes);
    ok(reads(&client, 2 * RANGE, 3 * RANGE) && client.answer->source == GET_HIT);
    client_end(&client);
    drop_house();
}

TEST(a_stream_that_is_not_stored_is_not_read_ahead)
{
    struct client client;
    large_house(SLOW_US);
    atomic_store(&fake.no_store, true);
    client_begin(&client);
    for (uint64_t first = 0; first < 4 * RANGE; first += RANGE)
        ok(reads(&client, first, first + RANGE));
    settle(&client);
    ok(atomic_load(&fake.gets) == 4 && atomic_load(&fake.bytes) == 4 * RANGE);
    client_end(&client);
    drop_house();
}

TEST(a_stream_ends_where_the_object_changes)
{
    struct client client;
    large_house(SLOW_US);
    house.rules.freshness = FRESH_ALWAYS;
    client_begin(&client);
    for (uint64_t first = 0; first < 4 * RANGE; first += RANGE)
        ok(reads(&client, first, first + RANGE));
    atomic_store(&fake.version, 2);
    client.version = 2;
    for (uint64_t first = 4 * RANGE; first < 8 * RANGE; first += RANGE)
        ok(reads(&client, first, first + RANGE));
    settle(&client);
    client_end(&client);
    drop_house();
    house.rules.freshness = FRESH_IMMUTABLE;
}

/* ---- what may go wrong ---- */

static void purge_key(void)
{
    struct purge_result result;
    struct arena keep = { 0 };
    slice prefix = purge_prefix(&keep, S("http://fake"), S("bucket"), S("key"), false);
    ok(store_purge(house.store, &prefix, 1, &result) == OK);
    arena_free(&keep);
}

#define SPANS_MOST (40 * MIB)         /* what was on its way when the purge came */

TEST(a_purge_in_the_middle_of_a_read_holds)
{
    struct client client;
    large_house(SLOW_US);
    begin_and_read(&client, 6 * MIB);
    atomic_store(&fake.encrypts, true);    /* another header, the same ETag */
    purge_key();
    ok(read_some(&client, UINT64_MAX));
    uint64_t bytes = atomic_load(&fake.bytes);
    settle(&client);
    ask(&client, 40 * MIB, 41 * MIB);
    ok(decided(&client) == OK);
    slice sse = metadata_field(client.answer->metadata, S("x-amz-server-side-encryption"));
    ok(slice_eq(sse, S("aws:kms")));
    ok(bytes < LARGE + SPANS_MOST);    /* what was on its way when the purge came */
    client_end(&client);
    drop_house();
}

TEST(a_read_outlives_a_few_requests_that_the_origin_refuses)
{
    struct client client;
    large_house(SLOW_US);
    begin_and_read(&client, 6 * MIB);
    atomic_store(&fake.fail_next, 3);    /* the reader itself asks so many times more (TRIES_MAX) */
    bool all = read_some(&client, UINT64_MAX);
    ok(all);
    client_end(&client);
    drop_house();
}

TEST(an_origin_that_ignores_ranges_sends_no_more_than_before)
{
    struct client client;
    large_house(SLOW_US);
    atomic_store(&fake.ignore_range, true);
    client_begin(&client);
    bool all = reads(&client, 0, 0);
    settle(&client);
    ok(all && atomic_load(&fake.bytes) < 2 * LARGE);
    client_end(&client);
    drop_house();
}

static void *large_reads(void *arg)
{
    struct client client;
    unsigned seed = *(unsigned *)arg * 104729 + 1;
    client_begin(&client);
    for (int i = 0; i < 2; i++) {
        uint64_t first = (uint64_t)rand_r(&seed) % 3 * 11 * MIB;
        ask(&client, first, LARGE);
        check(decided(&client) == OK);
        if (rand_r(&seed) % 3)
            check(read_some(&client, UINT64_MAX));
        else
            read_some(&client, (uint64_t)rand_r(&seed) % LARGE);
    }
    client_end(&client);
    return NULL;
}

TEST(windows_of_many_readers_are_right_while_the_origin_cuts)
{
    for (int no_store = 0; no_store <= 1; no_store++) {
        pthread_t threads[4];
        unsigned numbers[countof(threads)];
        large_house(SLOW_US);
        atomic_store(&fake.cut_every, 3500000);
        atomic_store(&fake.no_store, no_store);
        for (unsigned i = 0; i < countof(threads); i++) {
            numbers[i] = i;
            ok(pthread_create(&threads[i], NULL, large_reads, &numbers[i]) == 0);
        }
        for (unsigned i = 0; i < countof(threads); i++)
            pthread_join(threads[i], NULL);
        drop_house();
    }
}

RUN(cmocka_unit_test(a_large_object_from_a_slow_connection_comes_over_several),
    cmocka_unit_test(a_reader_of_little_and_a_fast_connection_open_no_window),
    cmocka_unit_test(a_window_fetches_what_is_missing_and_nothing_else),
    cmocka_unit_test(a_reader_that_leaves_ends_the_fetches_of_its_window),
    cmocka_unit_test(a_window_never_mixes_versions),
    cmocka_unit_test(a_stream_of_ranges_is_read_ahead_over_any_connection),
    cmocka_unit_test(ranges_that_are_no_stream_are_fetched_and_no_more),
    cmocka_unit_test(a_stream_that_ends_early_costs_a_bounded_number_of_bytes),
    cmocka_unit_test(a_stream_that_is_not_stored_is_not_read_ahead),
    cmocka_unit_test(a_stream_ends_where_the_object_changes),
    cmocka_unit_test(a_purge_in_the_middle_of_a_read_holds),
    cmocka_unit_test(a_read_outlives_a_few_requests_that_the_origin_refuses),
    cmocka_unit_test(an_origin_that_ignores_ranges_sends_no_more_than_before),
    cmocka_unit_test(windows_of_many_readers_are_right_while_the_origin_cuts))
