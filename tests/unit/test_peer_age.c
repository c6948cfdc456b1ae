/* test_peer_age.c - answers of the origin that another node passes on, with their age.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An older answer must not count after a write, a purge, a refusal, or a change of rights that this
 * node knows of. The peers of fake_origin.h answer with the version fake.peer_version. */
#include "cache_unit.h"

#include "cache/getting.h"
#include "cache/guess.h"

#define AGE_MS 20000u    /* less than half of the times in the rules: more costs a HEAD ahead of its time */

static const struct sigv4_credentials anna_keys = { { "ANNA", 4 }, { "a", 1 }, { "", 0 } };
static const struct identity anna = { 1, &anna_keys };

/* The other nodes have the answer of AGE_MS ago; both times in the rules are a minute. */
static void join_fleet(struct client *client)
{
    atomic_store(&fake.knows_identities, true);
    atomic_store(&fake.peers, true);
    atomic_store(&fake.peer_age_ms, AGE_MS);
    house.rules.grant_ms = house.rules.permission_ms = 60000;
    house.rules.freshness = FRESH_TTL;
    house.rules.ttl_s = 60;
    client_begin(client);
}

static void begin(struct client *client, uint64_t size)
{
    new_house(size);
    join_fleet(client);
}

static void end(struct client *client)
{
    client_end(client);
    drop_house();
}

static bool asked(unsigned unnamed, unsigned questions, unsigned heads)
{
    return atomic_load(&fake.unnamed) == unnamed && atomic_load(&fake.questions) == questions &&
           atomic_load(&fake.heads) == heads;
}

TEST(an_answer_counts_as_the_origins_of_that_time)
{
    struct client client;
    begin(&client, 300000);
    uint64_t now_ms = ageing_ms();
    ok(reads(&client, 0, 0) && asked(1, 1, 0) && atomic_load(&fake.gets) == 1);
    int64_t validated_s = atomic_load(&client.answer->metadata->validated_s);
    ok(validated_s >= ageing_s_of(now_ms - AGE_MS) &&
       validated_s <= ageing_s_of(ageing_ms() - AGE_MS));
    uint64_t until_ms = permit_until_ms(client.get, ageing_ms());
    ok(until_ms + 200 > now_ms + 60000 - AGE_MS && until_ms <= ageing_ms() + 60000 - AGE_MS);
    ok(cache_is_older(house.cache, now_ms - AGE_MS + 5000));
    ok(!cache_is_older(house.cache, now_ms - AGE_MS - 5000));    /* it began empty */
    ok(get_age_ms(client.get) >= AGE_MS && get_age_ms(client.get) < AGE_MS + 5000);
    settle(&client);
    ok(reads(&client, 0, 0) && client.answer->source == GET_HIT && asked(1, 1, 0));
    settle(&client);
    house.rules.ttl_s = AGE_MS / 1000 - 1;
    ok(reads(&client, 0, 0) && asked(1, 1, 1));
    end(&client);
}

TEST(the_right_is_as_old_as_the_answer_and_for_the_shared_identity_alone)
{
    struct client client;
    begin(&client, 300000);
    ok(reads(&client, 0, 0) && asked(1, 1, 0));
    settle(&client);
    house.who = &anna;
    atomic_store(&fake.denies, "ANNA");
    ok(!reads(&client, 0, 0) && client.answer->err == ERR_DENIED && client.got == 0);
    ok(asked(1, 1, 1));
    house.who = NULL;
    ok(reads(&client, 0, 0) && asked(1, 1, 1));
    settle(&client);
    house.rules.permission_ms = AGE_MS - 1000;
    ok(reads(&client, 0, 0) && asked(1, 1, 2));
    end(&client);
}

TEST(an_answer_older_than_the_settings_allow_is_not_taken)
{
    struct client client;
    begin(&client, 300000);
    house.rules.ttl_s = AGE_MS / 1000 - 1;
    ok(reads(&client, 0, 0) && asked(1, 1, 0));
    ok(get_age_ms(client.get) < 10000);
    end(&client);
    begin(&client, 300000);
    house.rules.permission_ms = AGE_MS - 1;
    ok(reads(&client, 0, 0) && asked(1, 1, 0));
    ok(get_age_ms(client.get) < 10000);
    end(&client);
    begin(&client, 300000);    /* who wants the newest answer asks the origin for the version */
    house.rules.freshness = FRESH_ALWAYS;
    ok(reads(&client, 0, 0) && asked(0, 1, 1));
    end(&client);
}

TEST(a_large_object_comes_a_segment_at_a_time)
{
    struct client client;
    begin(&client, 20 * MIB);
    ok(reads(&client, 0, 0) && client.got == 20 * MIB);
    ok(client.answer->metadata->full);    /* a GET of it has the checksums of the object */
    unsigned questions = atomic_load(&fake.questions);
    ok(questions >= 3 && asked(1, questions, 0));
    end(&client);
    begin(&client, 20 * MIB);
    ok(reads(&client, 6 * MIB, 10 * MIB) && client.got == 4 * MIB && asked(1, 2, 0));
    end(&client);
}

/* The other node is cut each 400,000 bytes, and the origin, which sends the rest, too. */
TEST(a_byte_counts_where_it_came_from_after_a_cut)
{
    struct client client;
    begin(&client, 3 * MIB);
    atomic_store(&fake.cut_every, 400000);
    uint64_t of_origin = metric_read(M_CACHE_ORIGIN_BYTES);
    ok(reads(&client, 0, 0) && client.answer->source == GET_MISS);
    const struct get_cost *cost = get_cost(client.get);
    uint64_t peer_bytes = atomic_load(&fake.peer_bytes);
    ok(peer_bytes >= 400000 && peer_bytes < 1 * MIB && atomic_load(&fake.bytes) == 3 * MIB);
    ok(cost->peers_bytes == peer_bytes && cost->origin_bytes == 3 * MIB - peer_bytes);
    ok(cost->cache_bytes == 0);
    settle(&client);
    ok(reads(&client, 0, 0) && client.answer->source == GET_HIT);
    cost = get_cost(client.get);
    ok(cost->cache_bytes == 3 * MIB && cost->peers_bytes + cost->origin_bytes == 0);
    end(&client);    /* the thread that counts has ended */
    ok(metric_read(M_CACHE_ORIGIN_BYTES) - of_origin == 3 * MIB - peer_bytes);
}

/* The bytes of a window come from the store, but the read itself has fetched them. */
TEST(bytes_that_a_window_fetched_count_where_they_came_from)
{
    for (unsigned cut = 0; cut <= 3000000; cut += 3000000) {
        struct client client;
        begin(&client, 32 * MIB + 12345);
        atomic_store(&fake.slow_us, 400);
        atomic_store(&fake.cut_every, cut);
        uint64_t windows = metric_read(M_CACHE_WINDOW_FETCHES);
        ok(reads(&client, 0, 0) && metric_read(M_CACHE_WINDOW_FETCHES) > windows);
        const struct get_cost *cost = get_cost(client.get);
        ok(cost->cache_bytes == 0 && cost->peers_bytes + cost->origin_bytes == client.got);
        ok(cost->peers_bytes <= atomic_load(&fake.peer_bytes));
        ok(cut ? cost->peers_bytes > 8 * MIB && cost->origin_bytes > 8 * MIB
               : cost->peers_bytes == client.got);
        end(&client);
    }
}

/* The other nodes still have version 1, and the origin has version 2. */
static void changes(struct client *client)
{
    atomic_store(&fake.version, 2);
    atomic_store(&fake.peer_version, 1);
    client->version = 2;
}

TEST(after_a_write_no_older_answer_counts)
{
    struct client client;
    begin(&client, 300000);
    struct write_key key = { S("key"), S("") };
    changes(&client);
    struct write *write = write_begin(client.loop, &house.rules, S("bucket"), &key, 1, noted, NULL);
    ok(reads(&client, 0, 0));    /* nor while it is in progress */
    write_end(&write);
    ok(reads(&client, 0, 0) && asked(0, 0, 0));
    client.version = 1;
    ask_for(&client, "other", 0, 0);    /* of this object, nobody knows a later answer */
    ok(decided(&client) == OK && read_some(&client, UINT64_MAX) && asked(1, 1, 0));
    end(&client);
}

/* There may have been writes through the process before, of which nobody else knows yet. */
TEST(after_a_restart_no_older_answer_counts)
{
    struct client client;
    begin(&client, 300000);
    ok(reads(&client, 0, 0) && asked(1, 1, 0));
    settle(&client);
    client_end(&client);
    close_house();
    open_house(300000);
    join_fleet(&client);
    changes(&client);
    ask_for(&client, "other", 0, 0);
    ok(decided(&client) == OK && read_some(&client, UINT64_MAX) && asked(0, 0, 0));
    end(&client);
}

TEST(after_a_purge_no_older_answer_counts)
{
    struct client client;
    begin(&client, 300000);
    changes(&client);
    cache_purge_begins(house.cache);
    ok(reads(&client, 0, 0) && asked(0, 0, 0));
    end(&client);
}

TEST(after_a_refusal_no_older_answer_counts)
{
    struct client client;
    begin(&client, 300000);
    atomic_store(&fake.peers, false);
    atomic_store(&fake.denies, "");
    ok(!reads(&client, 0, 0) && client.answer->err == ERR_DENIED);
    atomic_store(&fake.peers, true);
    ok(!reads(&client, 0, 0) && client.answer->err == ERR_DENIED && asked(0, 0, 0));
    end(&client);
}

TEST(an_answer_that_comes_after_a_later_one_is_not_taken)
{
    struct client client, other;
    begin(&client, 300000);
    client_begin(&other);
    changes(&client);
    atomic_store(&fake.held, true);
    ask(&client, 0, 0);
    ok(get_decide(client.get, &client.answer) == ERR_WAIT && asked(1, 1, 0));
    house.who = &anna;
    other.version = 2;
    ask(&other, 0, 0);
    ok(get_decide(other.get, &other.answer) == ERR_WAIT && asked(1, 1, 1));
    flights_lock(house.cache->flights, &client.get->of.id);
    struct inflight *inflight = client.get->plan.sources.inflight;
    inflight->learnt.answers++;    /* as if the HEAD had been answered first */
    flights_unlock(house.cache->flights, &client.get->of.id);
    atomic_store(&fake.held, false);
    ok(decided(&client) == OK && read_some(&client, UINT64_MAX));
    ok(decided(&other) == OK && read_some(&other, UINT64_MAX));
    client_end(&other);
    end(&client);
}

/* ---- the node that is asked ---- */

static struct get *asked_by_peer(struct client *client, slice if_match, uint64_t max_age_ms)
{
    struct get_ask ask = { .rules = &house.rules, .bucket = S("bucket"), .key = S("key"),
                           .range = { .kind = RANGE_SPAN, .last = 8 * MIB - 1 },
                           .for_peer = { true, if_match.len ? 0 : ageing_ms() - max_age_ms, true },
                           .conditions = { .if_match = if_match.len ? if_match : (slice){ 0 },
                                           .if_modified_since = -1,
                                           .if_unmodified_since = -1 } };
    return get_start(client->loop, &ask, noted, client);
}

static enum err answers(struct client *client, slice if_match, uint64_t max_age_ms)
{
    get_end(&client->get);
    client->got = 0;
    client->get = asked_by_peer(client, if_match, max_age_ms);
    enum err err = decided(client);
    return err ? err : read_some(client, UINT64_MAX) ? OK : client->err;
}

/* A question of another node, about the same object, goes to the origin and is answered, while this
 * node's own question to other nodes has no answer yet. Returns the number of GETs, those to other
 * nodes included. */
static unsigned gets_if_questions_cross(unsigned peer_version)
{
    struct client client, other;
    begin(&client, 20 * MIB);
    client_begin(&other);
    atomic_store(&fake.version, 2);
    client.version = other.version = 2;
    atomic_store(&fake.peer_version, peer_version);
    atomic_store(&fake.peers_held, true);
    ask(&client, 0, MIB);
    ok(get_decide(client.get, &client.answer) == ERR_WAIT && asked(1, 1, 0));
    ok(answers(&other, S(""), 60000) == OK && other.got == 8 * MIB);
    ok(atomic_load(&fake.gets) == 2);
    atomic_store(&fake.peers_held, false);
    ok(decided(&client) == OK && read_some(&client, UINT64_MAX) && client.got == MIB);
    client_end(&other);
    end(&client);
    return atomic_load(&fake.gets);
}

TEST(an_answer_after_a_later_one_counts_if_it_names_the_same_version)
{
    ok(gets_if_questions_cross(2) == 2);
    ok(gets_if_questions_cross(1) > 2);
}

TEST(a_copy_that_is_too_old_for_a_node_is_confirmed_first)
{
    struct client client;
    begin(&client, 300000);
    ok(answers(&client, S(""), 60000) == OK && asked(0, 0, 0) && atomic_load(&fake.gets) == 1);
    ok(client.answer->metadata->full);    /* the object was asked for as a whole */
    settle(&client);
    usleep(2100000);
    ok(answers(&client, S(""), 60000) == OK && asked(0, 0, 0));
    ok(get_age_ms(client.get) >= 2100 && get_age_ms(client.get) < 60000);
    ok(answers(&client, S(""), 1000) == OK && asked(0, 0, 1));
    ok(get_age_ms(client.get) <= 1500);
    end(&client);
}

TEST(a_named_version_may_be_of_any_age)
{
    struct client client;
    begin(&client, 300000);
    ok(answers(&client, S(""), 60000) == OK);
    settle(&client);
    house.rules.ttl_s = -1;
    ok(answers(&client, S("\"v1\""), 0) == OK && asked(0, 0, 0));
    ok(answers(&client, S("\"v2\""), 0) == ERR_PRECONDITION && asked(0, 0, 1));
    ok(answers(&client, S(""), 60000) == OK && asked(0, 0, 2));    /* it names none */
    end(&client);
}

TEST(a_node_gets_a_part_of_a_large_object_and_no_more)
{
    struct client client;
    begin(&client, 40 * MIB);
    ok(answers(&client, S(""), 60000) == OK && client.got == 8 * MIB);
    get_end(&client.get);
    settle(&client);
    ok(atomic_load(&fake.gets) == 1 && atomic_load(&fake.bytes) <= 8 * MIB + 65536);
    end(&client);
}

/* The first object of a folder costs the end of its answer, those after it nothing. */
TEST(larger_objects_of_a_folder_are_asked_for_by_segments)
{
    struct client client;
    begin(&client, 20 * MIB);
    atomic_store(&fake.peers, true);
    atomic_store(&fake.hold_plain, true);    /* what has no range would wait for ever */
    atomic_store(&fake.peer_age_ms, UINT64_MAX);    /* no node answers */
    guess_note(&(struct object_name){ .bucket = S("bucket"), .key = S("a/b") }, true);
    ask_for(&client, "a/c", 0, 0);
    ok(decided(&client) == OK);
    (void)!read_some(&client, 9 * MIB);
    ok(client.got >= 9 * MIB);
    get_end(&client.get);
    atomic_store(&fake.hold_plain, false);
    atomic_store(&fake.size, 1000);    /* one that is small tells it, too */
    ask_for(&client, "a/d", 0, 0);
    ok(decided(&client) == OK && read_some(&client, UINT64_MAX));
    ok(!guess_is_larger(&(struct object_name){ .bucket = S("bucket"), .key = S("a/x") }));
    end(&client);
}

/* An origin has no range of an object without bytes. */
TEST(an_empty_object_among_larger_ones_is_read)
{
    struct client client;
    begin(&client, 0);
    guess_note(&(struct object_name){ .bucket = S("bucket"), .key = S("e/b") }, true);
    atomic_store(&fake.peers, true);
    atomic_store(&fake.peer_age_ms, UINT64_MAX);
    atomic_store(&fake.fail_next, 1);
    atomic_store(&fake.fail_status, 416);
    ask_for(&client, "e/c", 0, 0);
    ok(decided(&client) == OK && client.answer->metadata->size == 0);
    end(&client);
}

TEST(a_range_behind_all_objects_is_asked_for_and_refused)
{
    struct client client;
    begin(&client, 1000);
    atomic_store(&fake.peer_age_ms, UINT64_MAX);
    atomic_store(&fake.fail_next, 1);
    atomic_store(&fake.fail_status, 416);
    ok(!reads(&client, UINT64_MAX - 20, UINT64_MAX - 4) && asked(1, 1, 0));
    ok(client.answer->err == ERR_BAD_RANGE);
    end(&client);
}

/* This comes last: the process remembers changes of a bucket. */
TEST(after_a_change_of_rights_no_older_answer_counts)
{
    struct client client;
    begin(&client, 300000);
    grants_change_begins(S("bucket"), ageing_ms());
    grants_change_ends(S("bucket"), ageing_ms());
    ok(reads(&client, 0, 0) && asked(0, 0, 0));
    end(&client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_counts_as_the_origins_of_that_time),
        cmocka_unit_test(the_right_is_as_old_as_the_answer_and_for_the_shared_identity_alone),
        cmocka_unit_test(an_answer_older_than_the_settings_allow_is_not_taken),
        cmocka_unit_test(a_large_object_comes_a_segment_at_a_time),
    cmocka_unit_test(a_byte_counts_where_it_came_from_after_a_cut),
    cmocka_unit_test(bytes_that_a_window_fetched_count_where_they_came_from),
        cmocka_unit_test(after_a_write_no_older_answer_counts),
        cmocka_unit_test(after_a_restart_no_older_answer_counts),
        cmocka_unit_test(after_a_purge_no_older_answer_counts),
        cmocka_unit_test(after_a_refusal_no_older_answer_counts),
        cmocka_unit_test(an_answer_that_comes_after_a_later_one_is_not_taken),
        cmocka_unit_test(an_answer_after_a_later_one_counts_if_it_names_the_same_version),
        cmocka_unit_test(a_copy_that_is_too_old_for_a_node_is_confirmed_first),
        cmocka_unit_test(a_named_version_may_be_of_any_age),
        cmocka_unit_test(a_node_gets_a_part_of_a_large_object_and_no_more),
        cmocka_unit_test(larger_objects_of_a_folder_are_asked_for_by_segments),
        cmocka_unit_test(an_empty_object_among_larger_ones_is_read),
        cmocka_unit_test(a_range_behind_all_objects_is_asked_for_and_refused),
        cmocka_unit_test(after_a_change_of_rights_no_older_answer_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
