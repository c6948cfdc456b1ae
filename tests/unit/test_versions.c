/* test_versions.c - versions that are asked for by name. SPDX-License-Identifier: Apache-2.0 */
#include "cache_unit.h"

#include "cache/parts.h"

static bool reads_version(struct client *client, const char *version, unsigned want)
{
    house.version = slice_of(version);
    client->version = want;
    bool whole = reads(client, 0, 0);
    settle(client);
    house.version = S("");
    return whole;
}

static unsigned asked(void)
{
    return atomic_load(&fake.gets) + atomic_load(&fake.heads) + atomic_load(&fake.lists);
}

TEST(each_version_is_an_object_of_its_own)
{
    struct client client;
    new_house(3 * MIB + 5);
    client_begin(&client);
    atomic_store(&fake.version, 4);
    ok(reads_version(&client, "v2", 2) && reads_version(&client, "v3", 3) &&
       reads_version(&client, "", 4));
    unsigned so_far = asked();
    ok(reads_version(&client, "v2", 2) && reads_version(&client, "v3", 3) &&
       reads_version(&client, "", 4));
    ok(asked() == so_far);
    client_end(&client);
    drop_house();
}

TEST(a_named_version_is_never_asked_about_again_but_null_is_by_a_head)
{
    struct client client;
    new_house(MIB);
    house.rules.freshness = FRESH_TTL;    /* ttl and grace are 0: expired after this second */
    house.rules.by_listing = true;
    client_begin(&client);
    ok(reads_version(&client, "v2", 2) && reads_version(&client, "null", 1));
    sleep(2);
    unsigned so_far = asked(), heads = atomic_load(&fake.heads);
    ok(reads_version(&client, "v2", 2) && asked() == so_far);
    ok(reads_version(&client, "null", 1));
    ok(atomic_load(&fake.heads) == heads + 1 && atomic_load(&fake.lists) == 0);
    house.rules.freshness = FRESH_ALWAYS;
    ok(reads_version(&client, "v2", 2) && atomic_load(&fake.heads) == heads + 2);
    client_end(&client);
    drop_house();
}

TEST(a_write_of_the_key_takes_null_and_leaves_named_versions)
{
    struct client client;
    new_house(MIB);
    client_begin(&client);
    ok(reads_version(&client, "v2", 2) && reads_version(&client, "null", 1));
    struct write_key key = { S("key"), S("") };
    struct write *write = write_begin(client.loop, &house.rules, S("bucket"), &key, 1, noted, NULL);
    while (!write_may_go(write))
        turn(&client);
    atomic_store(&fake.version, 5);
    write_end(&write);
    unsigned so_far = asked();
    ok(reads_version(&client, "v2", 2) && asked() == so_far);
    ok(reads_version(&client, "null", 5) && asked() == so_far + 1);
    client_end(&client);
    drop_house();
}

TEST(a_write_that_names_a_version_takes_it)
{
    struct client client;
    new_house(MIB);
    client_begin(&client);
    ok(reads_version(&client, "v2", 2));
    struct write_key key = { S("key"), S("v2") };
    struct write *write = write_begin(client.loop, &house.rules, S("bucket"), &key, 1, noted, NULL);
    while (!write_may_go(write))
        turn(&client);
    write_end(&write);
    unsigned so_far = asked();
    ok(reads_version(&client, "v2", 2) && asked() > so_far);
    client_end(&client);
    drop_house();
}

static void say(struct client *client, bool says)
{
    struct write_key key = { S("key"), S("") };
    struct write *write = write_begin(client->loop, &house.rules, S("bucket"), &key, 1, noted,
                                      NULL);
    if (says)
        write_restates_key(write);
    while (!write_may_go(write))
        turn(client);
    write_end(&write);
}

/* Which of them is current, nobody here knows. */
TEST(what_is_said_of_a_key_is_asked_about_in_each_of_its_versions_once)
{
    struct client client;
    new_house(MIB);
    client_begin(&client);
    ok(reads_version(&client, "v2", 2) && reads_version(&client, "v3", 3));
    say(&client, true);
    usleep(1100000);    /* times of heads are whole seconds */
    unsigned heads = atomic_load(&fake.heads), gets = atomic_load(&fake.gets);
    ok(reads_version(&client, "v2", 2) && atomic_load(&fake.heads) == heads + 1);
    ok(reads_version(&client, "v3", 3) && atomic_load(&fake.heads) == heads + 2);
    ok(reads_version(&client, "v2", 2) && reads_version(&client, "v3", 3));
    ok(atomic_load(&fake.heads) == heads + 2 && atomic_load(&fake.gets) == gets);
    say(&client, false);    /* another version was written: nothing is said of these */
    ok(reads_version(&client, "v2", 2) && atomic_load(&fake.heads) == heads + 2);
    client_end(&client);
    drop_house();
}

TEST(what_was_asked_of_a_version_before_something_was_said_answers_nobody_after)
{
    struct client before, after;
    new_house(MIB);
    client_begin(&before);
    client_begin(&after);
    atomic_store(&fake.held, true);
    house.version = S("v2");
    ask(&before, 0, 0);
    ok(get_decide(before.get, &before.answer) == ERR_WAIT && asked() == 1);
    usleep(2000);
    say(&after, true);
    ask(&after, 0, 0);
    ok(get_decide(after.get, &after.answer) == ERR_WAIT && asked() == 2);
    house.version = S("");
    atomic_store(&fake.held, false);
    before.version = after.version = 2;
    ok(decided(&before) == OK && read_some(&before, UINT64_MAX));
    ok(decided(&after) == OK && read_some(&after, UINT64_MAX));
    client_end(&before);
    client_end(&after);
    drop_house();
}

TEST(a_version_that_came_back_without_proof_is_asked_about_once)
{
    struct client client;
    new_house(MIB);
    client_begin(&client);
    ok(reads_version(&client, "v2", 2));
    client_end(&client);
    close_house();
    char clean[96];
    snprintf(clean, sizeof(clean), "%s/clean", house.folder);
    ok(unlink(clean) == 0);    /* as after kill -9 */
    open_house(MIB);
    client_begin(&client);
    unsigned heads = atomic_load(&fake.heads), gets = atomic_load(&fake.gets);
    ok(reads_version(&client, "v2", 2) && reads_version(&client, "v2", 2));
    ok(atomic_load(&fake.heads) == heads + 1 && atomic_load(&fake.gets) == gets);
    client_end(&client);
    drop_house();
}

TEST(where_a_part_lies_is_known_for_its_version_alone)
{
    struct object_id id = { { 1 } };
    struct object_name name = { S("http://fake"), S("bucket"), S("key"), S("") };
    struct metadata *one = metadata_new(&id, &name, S("\"a-3\""), S(""), 8 * MIB, 5, false);
    struct metadata *two = metadata_new(&id, &name, S("\"b-2\""), S(""), 8 * MIB, 5, false);
    struct parts *parts = parts_new();
    struct part part = { MIB, 2 * MIB, 3, "x-amz-checksum-crc32: AAAAAA==\r\n" }, found = { 0 };
    uint64_t evicted = metric_read(M_PARTS_EVICTED);
    parts_note(parts, one, 2, &part);
    ok(parts_find(parts, one, 2, &found) && found.first == MIB && found.count == 3 &&
       !strcmp(found.sums, part.sums));
    ok(!parts_find(parts, one, 1, &found) && !parts_find(parts, two, 2, &found));
    for (unsigned i = 0; i < 20000; i++) {    /* of 16,384 */
        metadata_unref(&two);
        memcpy(id.bytes, &i, sizeof(i));
        memcpy(id.bytes + 4, &i, sizeof(i));
        two = metadata_new(&id, &name, S("\"b-2\""), S(""), 8 * MIB, 5, false);
        parts_note(parts, two, 1, &part);
        ok(parts_find(parts, two, 1, &found));
    }
    ok(metric_read(M_PARTS_EVICTED) - evicted >= 20000 - 16384);
    parts_free(&parts);
    metadata_unref(&one);
    metadata_unref(&two);
}

RUN(cmocka_unit_test(what_is_said_of_a_key_is_asked_about_in_each_of_its_versions_once),
    cmocka_unit_test(what_was_asked_of_a_version_before_something_was_said_answers_nobody_after),
    cmocka_unit_test(where_a_part_lies_is_known_for_its_version_alone),
    cmocka_unit_test(each_version_is_an_object_of_its_own),
    cmocka_unit_test(a_named_version_is_never_asked_about_again_but_null_is_by_a_head),
    cmocka_unit_test(a_write_of_the_key_takes_null_and_leaves_named_versions),
    cmocka_unit_test(a_write_that_names_a_version_takes_it),
    cmocka_unit_test(a_version_that_came_back_without_proof_is_asked_about_once))
