/* test_front.c - who clients are and what they may do. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <jansson.h>

#include "front/client.h"
#include "front/lend.h"
#include "front/places.h"

/* ---- policies ---- */

static const struct config_policy rows[] = {
    { RIGHT_READ | RIGHT_LIST, { "data", 4 }, { "", 0 } },
    { RIGHT_WRITE, { "logs", 4 }, { "mine/", 5 } },
    { RIGHT_LIST, { "logs", 4 }, { "mine/", 5 } },
};

static bool may(unsigned right, const char *bucket, const char *key)
{
    return right_allows(rows, countof(rows),
                       &(struct right_ask){ right, slice_of(bucket), slice_of(key), false });
}

TEST(a_policy_allows_its_rows_and_nothing_else)
{
    ok(may(RIGHT_READ, "data", "a") && may(RIGHT_LIST, "data", ""));
    ok(!may(RIGHT_WRITE, "data", "a") && !may(RIGHT_ADMIN, "data", ""));
    ok(!may(RIGHT_CACHE, "data", "a"));
    ok(!may(RIGHT_READ, "data2", "a") && !may(RIGHT_READ, "dat", "a") && !may(RIGHT_READ, "", ""));
    ok(may(RIGHT_WRITE, "logs", "mine/x") && !may(RIGHT_READ, "logs", "mine/x"));
    ok(!may(RIGHT_WRITE, "logs", "mine") && !may(RIGHT_WRITE, "logs", "theirs/mine/x"));
    ok(!right_allows(NULL, 0, &(struct right_ask){ RIGHT_READ, S("data"), S("a"), true }));
}

TEST(a_list_lies_inside_a_prefix_or_is_refused)
{
    ok(may(RIGHT_LIST, "logs", "mine/") && may(RIGHT_LIST, "logs", "mine/2026"));
    ok(!may(RIGHT_LIST, "logs", "") && !may(RIGHT_LIST, "logs", "mi"));
}

TEST(a_bucket_as_such_is_seen_by_who_has_a_part_of_it)
{
    ok(right_allows(rows, 3, &(struct right_ask){ RIGHT_LIST, S("logs"), S(""), true }));
    ok(!right_allows(rows, 3, &(struct right_ask){ RIGHT_READ, S("logs"), S(""), true }));
    ok(!right_allows(rows, 3, &(struct right_ask){ RIGHT_LIST, S("other"), S(""), true }));
}

/* An origin may take them for steps in a path, and arrive at another key, or in another bucket. */
TEST(a_key_with_steps_in_it_lies_in_no_bucket)
{
    static const char *const steps[] = { "mine/../theirs", "mine/..", "mine/./x", "mine/.", "../data/x", "..", "." };
    static const char *const keys[] = { "mine/...", "mine/a..", "mine/..a", "mine/.a/b.", "mine/" };
    for (size_t i = 0; i < countof(steps); i++)
        ok(!may(RIGHT_WRITE, "logs", steps[i]) && !may(RIGHT_READ, "data", steps[i]));
    for (size_t i = 0; i < countof(keys); i++)
        ok(may(RIGHT_WRITE, "logs", keys[i]) && may(RIGHT_READ, "data", keys[i]));
    static const struct config_policy all = { .rights = RIGHT_ALL };
    ok(right_allows(&all, 1, &(struct right_ask){ RIGHT_READ, S("any"), S("a/../b"), false }));
}

TEST(a_row_without_a_bucket_is_everywhere)
{
    static const struct config_policy all = { .rights = RIGHT_ALL };
    ok(right_allows(&all, 1, &(struct right_ask){ RIGHT_ADMIN, S("any"), S("key"), false }));
    ok(right_allows(&all, 1, &(struct right_ask){ RIGHT_CACHE, S("any"), S(""), false }));
    ok(right_allows(&all, 1, &(struct right_ask){ RIGHT_LIST, S(""), S(""), false }));
}

/* ---- clients ---- */

static struct front_key own_key(const char *key, const char *secret, const char *token)
{
    return (struct front_key){ slice_of(key), slice_of(secret), slice_of(token), .own = true,
                               .as = { slice_of(key), slice_of(secret), slice_of(token) } };
}

static enum err who(const struct clients *all, const char *key, const char *token,
                    const struct client **ret)
{
    return clients_find(all, slice_of(key), slice_of(token), ret);
}

TEST(a_client_is_an_access_key_and_its_session_token)
{
    struct clients *all = clients_new();
    struct front_key keys[] = { own_key("B", "b", ""), own_key("A", "a", "token"),
                                own_key("A", "a2", "other") };
    const struct client *one, *other;
    clients_set(all, keys, countof(keys));
    ok(who(all, "A", "token", &one) == OK && who(all, "A", "other", &other) == OK);
    same(one->key.secret_key, S("a"));
    ok(one->who.id && other->who.id && one->who.id != other->who.id && one->who.as == &one->key.as);
    ok(clients_count(all) == 3 && one->number >= CLIENT_KNOWN && one->number != other->number);
    ok(who(all, "A", "", &one) == ERR_UNKNOWN_KEY);
    ok(who(all, "A", "tokem", &one) == ERR_BAD_TOKEN && who(all, "B", "x", &one) == ERR_BAD_TOKEN);
    ok(who(all, "B", "", &one) == OK && who(all, "C", "", &one) == ERR_UNKNOWN_KEY);
    ok(who(all, "", "", &one) == ERR_UNKNOWN_KEY && !clients_nobody(all));
    clients_free(&all);
}

TEST(a_key_with_an_empty_secret_is_unknown)
{
    struct clients *all = clients_new();
    struct front_key keys[] = { own_key("A", "", ""), own_key("B", "b", "") };
    const struct client *client;
    clients_set(all, keys, countof(keys));
    ok(who(all, "A", "", &client) == ERR_UNKNOWN_KEY && who(all, "B", "", &client) == OK);
    ok(clients_count(all) == 1);
    clients_free(&all);
}

TEST(a_key_that_is_taken_away_is_unknown_and_one_that_stays_keeps_its_grants)
{
    struct clients *all = clients_new();
    struct front_key keys[] = { own_key("A", "a", ""), own_key("B", "b", "") };
    const struct client *before, *after;
    clients_set(all, keys, 2);
    ok(who(all, "A", "", &before) == OK);
    clients_set(all, keys + 1, 1);
    ok(who(all, "A", "", &after) == ERR_UNKNOWN_KEY);
    same(before->key.secret_key, S("a"));    /* its calls go on */
    clients_set(all, keys, 2);
    ok(who(all, "A", "", &after) == OK && after == before);
    keys[0].secret_key = keys[0].as.secret_key = S("changed");
    clients_set(all, keys, 2);
    ok(who(all, "A", "", &after) == OK && after->who.id != before->who.id);
    clients_free(&all);
}

TEST(who_signs_nothing_is_a_client_where_there_is_a_row_for_that)
{
    struct clients *all = clients_new();
    struct front_key nobody = { .own = true };
    const struct client *client;
    clients_set(all, &nobody, 1);
    client = clients_nobody(all);
    ok(client && client->who.id && client->who.as && !client->who.as->access_key.len);
    ok(clients_count(all) == 1);
    ok(who(all, "", "", &client) == ERR_UNKNOWN_KEY);
    clients_free(&all);
}

/* ---- key pairs that are lent ---- */

struct asked {
    int status;
    char key[64], secret[64], token[128], expiration[64];
};

static struct asked lent(struct lend *lend, const char *peer, const char *host, const char *auth,
                         int64_t now_s)
{
    struct arena keep = { 0 };
    struct http_field fields[] = { { S("Host"), slice_of(host) },
                                   { S("Authorization"), slice_of(auth) } };
    struct request_head head = { .field_count = auth ? 2 : 1 };
    memcpy(head.fields, fields, sizeof(fields));
    struct http_answer answer = { 0 };
    struct asked asked = { 0 };
    slice key_told = S("");
    const char *why = lend_answer(lend, &keep, slice_of(peer), &head, now_s, &key_told, &answer);
    ok((why == NULL) == (answer.status == 200) && (why == NULL) == (key_told.len > 0));
    asked.status = answer.status;
    if (answer.status == 200) {
        json_t *root = json_loadb(answer.body.ptr, answer.body.len, 0, NULL);
        const char *key, *secret, *token, *expiration;
        ok(root && json_unpack(root, "{s:s, s:s, s:s, s:s !}", "AccessKeyId", &key,
                               "SecretAccessKey", &secret, "Token", &token, "Expiration",
                               &expiration) == 0);
        snprintf(asked.key, sizeof(asked.key), "%s", key);
        snprintf(asked.secret, sizeof(asked.secret), "%s", secret);
        snprintf(asked.token, sizeof(asked.token), "%s", token);
        snprintf(asked.expiration, sizeof(asked.expiration), "%s", expiration);
        json_decref(root);
    }
    arena_free(&keep);
    return asked;
}

static bool good(struct lend *lend, const struct asked *asked, int64_t now_s)
{
    struct arena keep = { 0 };
    slice secret;
    bool found = lend_find(lend, &keep, slice_of(asked->key), slice_of(asked->token), now_s,
                           &secret) && slice_eq(secret, slice_of(asked->secret));
    arena_free(&keep);
    return found;
}

/* A body is verified with it when it has come: its pair's place may be another's by then. */
TEST(a_secret_that_was_found_stays_what_it_was)
{
    struct arena keep = { 0 };
    struct lend *lend = lend_new(S("word"));
    struct asked first = lent(lend, "127.0.0.1:5", "localhost", "word", 1000000);
    slice secret;
    ok(lend_find(lend, &keep, slice_of(first.key), slice_of(first.token), 1000000, &secret));
    for (int i = 1; i <= 8; i++)
        ok(lent(lend, "127.0.0.1:5", "localhost", "word", 1000000 + i * 3600).status == 200);
    same(secret, slice_of(first.secret));
    lend_free(&lend);
    arena_free(&keep);
}

TEST(a_pair_is_handed_out_until_it_is_an_hour_old_and_good_for_two)
{
    struct lend *lend = lend_new(S("word")), *other = lend_new(S("word"));
    struct asked first = lent(lend, "127.0.0.1:5", "localhost:9000", "word", 1000000);
    ok(first.status == 200 && good(lend, &first, 1000000));
    assert_string_equal(first.expiration, "1970-01-12T15:46:40Z");
    struct asked same_pair = lent(lend, "[::1]:5", "127.0.0.1", "word", 1003599);
    assert_string_equal(same_pair.key, first.key);
    struct asked next = lent(lend, "127.0.0.1:5", "[::1]:9000", "word", 1003600);
    ok(strcmp(next.key, first.key) != 0);
    ok(good(lend, &first, 1007199) && good(lend, &next, 1007199));
    ok(!good(lend, &first, 1007200));
    ok(!good(other, &next, 1003600));
    struct asked forged = next;
    forged.token[3] ^= 1;
    ok(!good(lend, &forged, 1003600));
    lend_free(&lend);
    lend_free(&other);
}

TEST(only_this_machine_under_its_own_name_gets_one)
{
    static const struct {
        const char *peer, *host, *auth;
        int status;
    } asks[] = {
        { "127.0.0.1:5", "127.0.0.1:9000", NULL, 403 },
        { "127.0.0.1:5", "127.0.0.1:9000", "word", 200 },
        { "127.0.0.1:5", "127.0.0.1:9000", "Bearer word", 200 },
        { "127.0.0.1:5", "127.0.0.1:9000", "words", 403 },
        { "127.0.0.1:5", "127.0.0.1:9000", "", 403 },
        { "10.0.0.1:5", "127.0.0.1:9000", "word", 403 },
        { "[fe80::1]:5", "localhost", "word", 403 },
        { "127.0.0.1:5", "evil.example:9000", "word", 403 },
        { "127.0.0.1:5", "127.0.0.1.evil.example", "word", 403 },
        { "127.0.0.1:5", "localhost.evil.example", "word", 403 },
        { "127.0.0.1:5", "", "word", 403 },
        { "127.9.9.9:5", "LOCALHOST:1", "word", 200 },
    };
    struct lend *lend = lend_new(S("word"));
    for (size_t i = 0; i < countof(asks); i++)
        if (lent(lend, asks[i].peer, asks[i].host, asks[i].auth, 1000).status != asks[i].status)
            fail_msg("%s %s %s", asks[i].peer, asks[i].host, asks[i].auth ? asks[i].auth : "-");
    lend_free(&lend);
}

/* A page that somebody stored as an object is served by this very port: to a browser, it and
 * /_/credentials are of one origin. */
TEST(what_came_through_a_proxy_or_from_a_browser_gets_none)
{
    static const char *const names[] = { "Forwarded", "via", "X-Real-IP", "X-Forwarded-For",
                                         "X-Forwarded-Host", "Origin", "Referer", "Cookie",
                                         "Sec-Fetch-Site", "sec-fetch-mode", "Sec-Fetch-Dest" };
    struct lend *lend = lend_new(S("word"));
    for (size_t i = 0; i < countof(names); i++) {
        struct arena keep = { 0 };
        struct request_head head = { .field_count = 3,
                                     .fields = { { S("Host"), S("localhost") },
                                                 { S("Authorization"), S("word") },
                                                 { slice_of(names[i]), S("x") } } };
        struct http_answer answer = { 0 };
        slice key;
        if (!lend_answer(lend, &keep, S("127.0.0.1:5"), &head, 1000, &key, &answer) ||
            answer.status != 403)
            fail_msg("%s: %d", names[i], answer.status);
        arena_free(&keep);
    }
    lend_free(&lend);
}

/* ---- places that clients share ---- */

static unsigned take_all(struct places *places, unsigned client)
{
    unsigned count = 0;
    while (places_take(places, 32, client))
        count++;
    return count;
}

TEST(a_client_may_have_half_of_the_places_that_others_leave_free)
{
    static struct places places;
    places_init(&places);
    ok(take_all(&places, 7) == 16 && take_all(&places, 8) == 8 && take_all(&places, 9) == 4);
    ok(take_all(&places, 7) == 0 && places.count == 28);
    for (int i = 0; i < 16; i++)
        places_give_back(&places, 7);
    ok(take_all(&places, 9) == 8 && take_all(&places, 7) == 6);
    for (unsigned client = 7; client <= 9; client++)
        for (int i = client == 7 ? 6 : client == 8 ? 8 : 12; i; i--)
            places_give_back(&places, client);
    ok(places.count == 0 && take_all(&places, 1) == 16);
}

RUN(cmocka_unit_test(a_policy_allows_its_rows_and_nothing_else),
    cmocka_unit_test(a_client_may_have_half_of_the_places_that_others_leave_free),
    cmocka_unit_test(a_list_lies_inside_a_prefix_or_is_refused),
    cmocka_unit_test(a_bucket_as_such_is_seen_by_who_has_a_part_of_it),
    cmocka_unit_test(a_key_with_steps_in_it_lies_in_no_bucket),
    cmocka_unit_test(a_row_without_a_bucket_is_everywhere),
    cmocka_unit_test(a_client_is_an_access_key_and_its_session_token),
    cmocka_unit_test(a_key_with_an_empty_secret_is_unknown),
    cmocka_unit_test(a_key_that_is_taken_away_is_unknown_and_one_that_stays_keeps_its_grants),
    cmocka_unit_test(who_signs_nothing_is_a_client_where_there_is_a_row_for_that),
    cmocka_unit_test(a_pair_is_handed_out_until_it_is_an_hour_old_and_good_for_two),
    cmocka_unit_test(a_secret_that_was_found_stays_what_it_was),
    cmocka_unit_test(what_came_through_a_proxy_or_from_a_browser_gets_none),
    cmocka_unit_test(only_this_machine_under_its_own_name_gets_one))
