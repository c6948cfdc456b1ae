/* test_missing.c - keys that were not there a moment ago. SPDX-License-Identifier: Apache-2.0 */
#include "cache_unit.h"

static void begin(struct client *client, uint64_t missing_ms)
{
    house.missing_ms = missing_ms;
    new_house(1000);
    client_begin(client);
    atomic_store(&fake.status, 404);
}

static void end(struct client *client)
{
    client_end(client);
    drop_house();
    house.missing_ms = 0;
}

static bool is_missing(struct client *client)
{
    ask(client, 0, 0);
    return decided(client) == ERR_NO_SUCH_KEY;
}

static bool is_known_missing(struct client *client)
{
    unsigned gets = atomic_load(&fake.gets);
    return is_missing(client) && client->answer->source == GET_NEGATIVE &&
           atomic_load(&fake.gets) == gets;
}

TEST(a_key_that_was_not_there_is_asked_for_once)
{
    struct client client;
    begin(&client, 60000);
    ok(is_missing(&client) && client.answer->source != GET_NEGATIVE);
    ok(is_known_missing(&client) && is_known_missing(&client));
    ok(client.answer->refusal->status == 404);
    ask_for(&client, "another", 0, 0);
    ok(decided(&client) == ERR_NO_SUCH_KEY && client.answer->source != GET_NEGATIVE);
    house.rules.freshness = FRESH_ALWAYS;
    ok(is_missing(&client) && client.answer->source != GET_NEGATIVE);
    end(&client);
}

TEST(it_is_not_known_for_longer_than_was_said)
{
    struct client client;
    begin(&client, 3000);    /* longer than two reads take on a busy machine */
    ok(is_missing(&client) && is_known_missing(&client));
    usleep(3010000);
    atomic_store(&fake.status, 0);
    ok(reads(&client, 0, 0));
    end(&client);
    begin(&client, 0);
    ok(is_missing(&client));
    atomic_store(&fake.status, 0);
    ok(reads(&client, 0, 0));
    end(&client);
}

static void put(struct client *client)
{
    struct write_key key = { S("key"), S("") };
    struct write *write = write_begin(client->loop, &house.rules, S("bucket"), &key, 1, noted,
                                      NULL);
    while (!write_may_go(write))
        turn(client);
    atomic_store(&fake.status, 0);
    write_end(&write);
}

TEST(a_write_ends_it_at_once)
{
    struct client client;
    begin(&client, 60000);
    ok(is_missing(&client) && is_known_missing(&client));
    put(&client);
    ok(reads(&client, 0, 0));
    end(&client);
}

TEST(an_answer_that_was_overtaken_by_a_write_is_not_remembered)
{
    struct client client, other;
    begin(&client, 60000);
    client_begin(&other);
    atomic_store(&fake.held, true);
    ask(&other, 0, 0);
    ok(get_decide(other.get, &other.answer) == ERR_WAIT);    /* the origin has said 404 to it ... */
    put(&client);
    atomic_store(&fake.held, false);
    ok(decided(&other) == ERR_NO_SUCH_KEY);    /* ... which comes when the write is over */
    ok(reads(&client, 0, 0));
    client_end(&other);
    end(&client);
}

TEST(nor_one_to_a_question_amid_a_write)
{
    struct client client;
    begin(&client, 60000);
    struct write_key key = { S("key"), S("") };
    struct write *write = write_begin(client.loop, &house.rules, S("bucket"), &key, 1, noted, NULL);
    ok(is_missing(&client));
    atomic_store(&fake.status, 0);    /* the origin has it now, and the write is not over */
    ok(reads(&client, 0, 0));
    write_end(&write);
    ok(reads(&client, 0, 0));
    end(&client);
}

TEST(with_no_room_it_is_forgotten_and_counted)
{
    struct client client;
    char key[16];
    begin(&client, 600000);
    uint64_t dropped = metric_read(M_CACHE_NEGATIVE_DROPPED);
    for (int i = 0; i < 6000; i++) {    /* of 4,096 that are remembered */
        snprintf(key, sizeof(key), "k%d", i);
        ask_for(&client, key, 0, 0);
        ok(decided(&client) == ERR_NO_SUCH_KEY);
    }
    ok(metric_read(M_CACHE_NEGATIVE_DROPPED) - dropped > 1900);
    end(&client);
}

RUN(cmocka_unit_test(a_key_that_was_not_there_is_asked_for_once),
    cmocka_unit_test(it_is_not_known_for_longer_than_was_said),
    cmocka_unit_test(a_write_ends_it_at_once),
    cmocka_unit_test(an_answer_that_was_overtaken_by_a_write_is_not_remembered),
    cmocka_unit_test(nor_one_to_a_question_amid_a_write),
    cmocka_unit_test(with_no_room_it_is_forgotten_and_counted))
