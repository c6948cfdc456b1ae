/* test_lists.c - lists that are alike share an answer. SPDX-License-Identifier: Apache-2.0 */
#include "cache_unit.h"

#include "cache/lists.h"

#define LIST_BYTES 30000u    /* of an answer: fake_origin.h has an object's bytes for it */

struct lister {
    struct list_get *get;
    const struct list_answer *answer;
};

static struct client client;    /* its loop is everybody's */

static void begin(uint64_t lists_ms, size_t lists_bytes)
{
    house.lists_ms = lists_ms;
    house.lists_bytes = lists_bytes;
    new_house(LIST_BYTES);
    client_begin(&client);
}

static void end(void)
{
    client_end(&client);
    drop_house();
}

static void start(struct lister *lister, const char *bucket, const char *query, bool newest)
{
    struct list_ask ask = {
        .rules = &house.rules, .op = S3_LIST_OBJECTS_V2, .bucket = slice_of(bucket),
        .query = slice_of(query), .newest = newest, .who = house.who,
    };
    *lister = (struct lister){ .get = list_start(client.loop, &ask, noted, NULL) };
}

static bool answered(struct lister *lister, unsigned version)
{
    uint64_t until = mono_ms() + 60000;
    while (list_answer(lister->get, &lister->answer) == ERR_WAIT) {
        check(mono_ms() < until);
        turn(&client);
    }
    const struct list_answer *answer = lister->answer;
    bool right = !answer->err && answer->status == 200 && answer->body.len == LIST_BYTES &&
                 fake_is(version, 0, answer->body);
    list_end(&lister->get);
    return right;
}

static unsigned asked(void)
{
    return atomic_load(&fake.lists);
}

static bool lists(const char *query, unsigned version)
{
    struct lister lister;
    start(&lister, "bucket", query, false);
    return answered(&lister, version);
}

TEST(lists_that_are_alike_are_asked_once)
{
    struct lister crowd[50];
    begin(0, 64 * MIB);
    atomic_store(&fake.held, true);
    for (size_t i = 0; i < countof(crowd); i++)
        start(&crowd[i], "bucket", i % 2 ? "list-type=2&prefix=a" : "prefix=a&list-type=2", false);
    atomic_store(&fake.held, false);
    for (size_t i = 0; i < countof(crowd); i++)
        ok(answered(&crowd[i], 1));
    ok(asked() == 1);
    ok(lists("list-type=2&prefix=a", 1) && asked() == 2);    /* over is over */
    end();
}

TEST(what_differs_in_anything_is_asked_for_itself)
{
    static const struct identity somebody = { .id = 7 };
    struct lister crowd[5];
    begin(60000, 64 * MIB);
    atomic_store(&fake.held, true);
    start(&crowd[0], "bucket", "list-type=2&prefix=a", false);
    start(&crowd[1], "bucket", "list-type=2&prefix=b", false);
    start(&crowd[2], "bucket2", "list-type=2&prefix=a", false);
    start(&crowd[3], "bucket", "list-type=2&prefix=a", true);    /* as new as the question */
    house.who = &somebody;
    start(&crowd[4], "bucket", "list-type=2&prefix=a", false);
    house.who = NULL;
    atomic_store(&fake.held, false);
    for (size_t i = 0; i < countof(crowd); i++)
        ok(answered(&crowd[i], 1));
    ok(asked() == 5);
    end();
}

TEST(an_answer_is_used_again_within_its_time)
{
    begin(3000, 64 * MIB);    /* longer than two lists take on a busy machine */
    ok(lists("a=b", 1) && lists("a=b", 1) && asked() == 1);
    usleep(3010000);
    ok(lists("a=b", 1) && asked() == 2);
    end();
}

TEST(who_has_an_own_identity_sees_it_no_longer_than_a_grant)
{
    static const struct identity somebody = { .id = 7 };
    begin(60000, 64 * MIB);
    house.who = &somebody;
    house.rules.grant_ms = 3000;
    ok(lists("a=b", 1) && lists("a=b", 1) && asked() == 1);
    usleep(3010000);
    ok(lists("a=b", 1) && asked() == 2);
    end();
}

TEST(a_write_in_the_bucket_ends_what_was_asked_before)
{
    struct lister before;
    struct write_key key = { S("any"), S("") };
    begin(60000, 64 * MIB);
    ok(lists("a=b", 1) && asked() == 1);
    atomic_store(&fake.held, true);
    start(&before, "bucket", "c=d", false);
    struct write *write = write_begin(client.loop, &house.rules, S("bucket"), &key, 1, noted, NULL);
    atomic_store(&fake.version, 2);
    write_end(&write);
    atomic_store(&fake.held, false);
    ok(lists("c=d", 2) && lists("a=b", 2) && asked() == 4);
    ok(answered(&before, 1));    /* it asked before */
    ok(lists("c=d", 2) && lists("a=b", 2) && asked() == 4);
    write = write_begin(client.loop, &house.rules, S("bucket"), NULL, 0, noted, NULL);
    ok(lists("a=b", 2) && lists("a=b", 2) && asked() == 6);    /* nothing holds amid a write */
    write_end(&write);
    ok(lists("a=b", 2) && asked() == 7);
    end();
}

TEST(it_ends_what_was_asked_by_another_name_of_the_bucket_too)
{
    struct lister lister;
    begin(60000, 64 * MIB);
    start(&lister, "tenant:bucket", "a=b", false);
    ok(answered(&lister, 1) && asked() == 1);
    struct write *write = write_begin(client.loop, &house.rules, S("bucket"), NULL, 0, noted, NULL);
    write_end(&write);
    atomic_store(&fake.version, 2);
    start(&lister, "tenant:bucket", "a=b", false);
    ok(answered(&lister, 2) && asked() == 2);
    end();
}

TEST(what_other_credentials_of_ours_were_shown_is_asked_again)
{
    begin(60000, 64 * MIB);
    ok(lists("a=b", 1) && lists("a=b", 1) && asked() == 1);
    atomic_store(&fake.owner_changed_ms, mono_ms());
    ok(lists("a=b", 1) && asked() == 2);
    end();
}

TEST(a_failure_and_a_refusal_are_not_kept)
{
    struct lister lister;
    begin(60000, 64 * MIB);
    atomic_store(&fake.down, true);
    start(&lister, "bucket", "a=b", false);
    ok(!answered(&lister, 1));
    atomic_store(&fake.down, false);
    atomic_store(&fake.status, 403);
    start(&lister, "bucket", "a=b", false);
    ok(!answered(&lister, 1));
    atomic_store(&fake.status, 0);
    ok(lists("a=b", 1));
    end();
}

TEST(a_refusal_ends_what_was_listed_before_in_the_same_name_and_bucket)
{
    static const struct identity somebody = { .id = 7 }, *const names[] = { NULL, &somebody };
    struct lister lister;
    begin(60000, 64 * MIB);
    house.rules.grant_ms = 60000;
    for (size_t i = 0; i < countof(names); i++) {
        house.who = names[!i];
        ok(lists("a=b", 1));
        house.who = names[i];
        ok(lists("a=b", 1) && asked() == 2 + 3 * i);
        atomic_store(&fake.status, 403);
        start(&lister, "bucket2", "c=d", false);
        ok(!answered(&lister, 1));
        ok(lists("a=b", 1) && asked() == 3 + 3 * i);    /* another bucket's is another right */
        start(&lister, "bucket", "c=d", false);
        ok(!answered(&lister, 1));
        atomic_store(&fake.status, 0);
        ok(lists("a=b", 1) && asked() == 5 + 3 * i);
        house.who = names[!i];
        ok(lists("a=b", 1) && asked() == 5 + 3 * i);
    }
    end();
}

TEST(kept_answers_make_room_and_what_does_not_fit_is_not_shared)
{
    char query[16];
    struct lister lister;
    begin(600000, 100000);
    uint64_t evicted = metric_read(M_LISTS_EVICTED), unshared = metric_read(M_LISTS_UNSHARED);
    for (int i = 0; i < 10; i++) {
        snprintf(query, sizeof(query), "n=%d", i);
        ok(lists(query, 1));
    }
    ok(metric_read(M_LISTS_EVICTED) - evicted >= 7);
    atomic_store(&fake.size, 200000);    /* more than all there is */
    start(&lister, "bucket", "large", false);
    while (list_answer(lister.get, &lister.answer) == ERR_WAIT)
        turn(&client);
    ok(lister.answer->err == ERR_LIMIT && metric_read(M_LISTS_UNSHARED) == unshared + 1);
    list_end(&lister.get);
    end();
    begin(0, 100);    /* not even a question */
    start(&lister, "bucket", "a=b", false);
    ok(!lister.get && metric_read(M_LISTS_UNSHARED) == unshared + 2);
    end();
}

TEST(the_last_who_leaves_takes_the_question_along)
{
    struct lister one, two;
    begin(0, 64 * MIB);
    atomic_store(&fake.held, true);
    start(&one, "bucket", "a=b", false);
    start(&two, "bucket", "a=b", false);
    ok(list_answer(one.get, &one.answer) == ERR_WAIT);
    list_end(&one.get);
    list_end(&two.get);
    atomic_store(&fake.version, 2);
    atomic_store(&fake.held, false);
    ok(lists("a=b", 2));
    end();
}

RUN(cmocka_unit_test(lists_that_are_alike_are_asked_once),
    cmocka_unit_test(what_differs_in_anything_is_asked_for_itself),
    cmocka_unit_test(an_answer_is_used_again_within_its_time),
    cmocka_unit_test(who_has_an_own_identity_sees_it_no_longer_than_a_grant),
    cmocka_unit_test(a_write_in_the_bucket_ends_what_was_asked_before),
    cmocka_unit_test(it_ends_what_was_asked_by_another_name_of_the_bucket_too),
    cmocka_unit_test(what_other_credentials_of_ours_were_shown_is_asked_again),
    cmocka_unit_test(a_failure_and_a_refusal_are_not_kept),
    cmocka_unit_test(a_refusal_ends_what_was_listed_before_in_the_same_name_and_bucket),
    cmocka_unit_test(kept_answers_make_room_and_what_does_not_fit_is_not_shared),
    cmocka_unit_test(the_last_who_leaves_takes_the_question_along))
