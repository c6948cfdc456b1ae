/* test_permit.c - who may read what is in the cache. SPDX-License-Identifier: Apache-2.0 */
#include "cache_unit.h"

#include "cache/getting.h"

static const struct sigv4_credentials anna_keys = { { "ANNA", 4 }, { "a", 1 }, { "", 0 } },
                                      ben_keys = { { "BEN", 3 }, { "b", 1 }, { "", 0 } };
static const struct identity anna = { 1, &anna_keys }, ben = { 2, &ben_keys };

static void new_shared_house(uint64_t size)
{
    new_house(size);
    atomic_store(&fake.knows_identities, true);
    house.rules.grant_ms = house.rules.permission_ms = 60000;
}

static enum err got_as(struct client *client, const struct identity *who)
{
    house.who = who;
    if (reads(client, 0, 0))
        return OK;
    check(client->answer->err);
    return client->answer->err;
}

TEST(a_hit_needs_a_grant_of_ones_own)
{
    struct client client;
    new_shared_house(300000);
    client_begin(&client);
    ok(got_as(&client, &anna) == OK && atomic_load(&fake.gets) == 1);
    ok(got_as(&client, &anna) == OK && atomic_load(&fake.heads) == 0);
    ok(got_as(&client, &ben) == OK && atomic_load(&fake.heads) == 1);
    ok(got_as(&client, &ben) == OK && atomic_load(&fake.heads) == 1);
    atomic_store(&fake.denies, "");
    ok(got_as(&client, NULL) == ERR_DENIED);    /* ours alone was never shown it */
    ok(atomic_load(&fake.gets) == 1 && atomic_load(&fake.heads) == 2);
    client_end(&client);
    drop_house();
}

TEST(a_refusal_ends_a_grant_at_once_and_gives_no_byte)
{
    struct client client;
    new_shared_house(300000);
    client_begin(&client);
    ok(got_as(&client, &anna) == OK && got_as(&client, &ben) == OK);
    atomic_store(&fake.denies, "BEN");
    ok(got_as(&client, &ben) == OK);    /* nobody has asked yet */
    house.who = &ben;
    struct get_ask newest = { .rules = &house.rules, .who = &ben, .bucket = S("bucket"),
                              .key = S("key"), .revalidate = true,
                              .conditions = { .if_modified_since = -1,
                                              .if_unmodified_since = -1 } };
    get_end(&client.get);
    client.got = 0;
    client.get = get_start(client.loop, &newest, noted, &client);
    ok(decided(&client) == ERR_DENIED && client.got == 0);
    unsigned heads = atomic_load(&fake.heads);
    ok(got_as(&client, &ben) == ERR_DENIED && atomic_load(&fake.heads) == heads + 1);
    ok(got_as(&client, &anna) == OK && atomic_load(&fake.heads) == heads + 1);
    client_end(&client);
    drop_house();
}

TEST(who_joins_a_fill_asks_in_their_own_name_first)
{
    struct client leader, follower;
    new_shared_house(3 * MIB);
    client_begin(&leader);
    client_begin(&follower);
    atomic_store(&fake.denies, "BEN");
    atomic_store(&fake.held, true);
    house.who = &anna;
    ask(&leader, 0, 0);
    ok(get_decide(leader.get, &leader.answer) == ERR_WAIT && atomic_load(&fake.gets) == 1);
    house.who = &ben;
    ask(&follower, 0, 0);
    ok(get_decide(follower.get, &follower.answer) == ERR_WAIT);
    ok(atomic_load(&fake.gets) == 1 && atomic_load(&fake.heads) == 1);
    atomic_store(&fake.held, false);
    ok(decided(&follower) == ERR_DENIED && follower.got == 0);
    ok(decided(&leader) == OK && read_some(&leader, UINT64_MAX));
    client_end(&leader);
    client_end(&follower);
    drop_house();
}

TEST(a_leaders_refusal_is_not_the_followers)
{
    struct client leader, follower;
    new_shared_house(300000);
    client_begin(&leader);
    client_begin(&follower);
    ok(got_as(&follower, &ben) == OK);
    house.rules.grant_scope = GRANT_BUCKET;    /* so that a grant outlives the object's record */
    struct object_name name = { .endpoint = S("http://fake"), .bucket = S("bucket") };
    struct grant_name grant = { ben.id, { { 0 } }, GRANT_BUCKET };
    store_object_id(house.store, &name, &grant.id);
    uint64_t now_ms = mono_ms();
    grants_give(house.cache->grants, &grant, 0, S("bucket"),
                grant_note_now(&grant, S("bucket")), now_ms, 60000, now_ms);
    atomic_store(&fake.denies, "ANNA");
    atomic_store(&fake.held, true);
    house.who = &anna;
    ask_for(&leader, "cold", 0, 0);
    ok(get_decide(leader.get, &leader.answer) == ERR_WAIT && atomic_load(&fake.gets) == 2);
    house.who = &ben;
    ask_for(&follower, "cold", 0, 0);
    ok(get_decide(follower.get, &follower.answer) == ERR_WAIT && atomic_load(&fake.gets) == 2);
    atomic_store(&fake.held, false);
    ok(decided(&leader) == ERR_DENIED);
    ok(decided(&follower) == OK && read_some(&follower, UINT64_MAX));
    ok(atomic_load(&fake.gets) == 3);    /* in their own name */
    client_end(&leader);
    client_end(&follower);
    drop_house();
}

TEST(a_head_is_no_proof_where_the_bytes_take_a_key_of_their_own)
{
    struct client client;
    new_shared_house(3 * MIB);
    client_begin(&client);
    atomic_store(&fake.encrypts, true);
    ok(got_as(&client, &anna) == OK && atomic_load(&fake.gets) == 1);
    settle(&client);
    atomic_store(&fake.denies, "BEN");    /* but for his HEADs */
    ok(got_as(&client, &ben) == ERR_DENIED && client.got == 0);
    ok(atomic_load(&fake.heads) == 1 && atomic_load(&fake.gets) == 2);
    ok(got_as(&client, &ben) == ERR_DENIED && client.got == 0);
    atomic_store(&fake.denies, NULL);
    usleep(2000);    /* of two answers to questions of one millisecond, the refusal counts */
    uint64_t before = atomic_load(&fake.bytes);
    ok(got_as(&client, &ben) == OK && atomic_load(&fake.gets) == 4);
    ok(atomic_load(&fake.bytes) - before <= UNIT_BYTES);
    ok(got_as(&client, &ben) == OK && atomic_load(&fake.gets) == 4);
    ok(got_as(&client, NULL) == OK && atomic_load(&fake.gets) == 5);
    ok(got_as(&client, NULL) == OK && atomic_load(&fake.gets) == 5);
    client_end(&client);
    drop_house();
}

TEST(a_part_that_is_not_known_leaves_the_fetch_that_proved_the_right)
{
    struct client client;
    new_shared_house(3 * MIB);
    client_begin(&client);
    atomic_store(&fake.encrypts, true);
    ok(got_as(&client, &anna) == OK);
    settle(&client);
    struct get_ask part = { .rules = &house.rules, .who = &ben, .bucket = S("bucket"),
                            .key = S("key"), .part = 1,
                            .conditions = { .if_modified_since = -1,
                                            .if_unmodified_since = -1 } };
    client.get = get_start(client.loop, &part, noted, &client);
    ok(decided(&client) == ERR_NOT_IMPLEMENTED);    /* this origin knows no parts */
    get_end(&client.get);
    for (uint64_t until = mono_ms() + 5000; flights_objects(house.cache->flights) > 0;) {
        check(mono_ms() < until);
        turn(&client);
    }
    client_end(&client);
    drop_house();
}

TEST(an_outage_is_bridged_only_for_who_has_a_grant)
{
    struct client client;
    new_shared_house(300000);
    client_begin(&client);
    house.rules.freshness = FRESH_TTL;
    house.rules.grace_s = 3600;
    ok(got_as(&client, &anna) == OK);
    atomic_store(&fake.down, true);
    ok(got_as(&client, &anna) == OK);
    ok(got_as(&client, &ben) == ERR_ORIGIN_CONNECT && client.got == 0);
    client_end(&client);
    drop_house();
}

TEST(what_was_learnt_in_a_clients_name_stays_theirs_over_a_restart)
{
    struct client client;
    new_shared_house(300000);
    client_begin(&client);
    ok(got_as(&client, &anna) == OK);
    client_end(&client);
    close_house();
    open_house(300000);
    atomic_store(&fake.knows_identities, true);
    house.rules.grant_ms = house.rules.permission_ms = 60000;
    client_begin(&client);
    ok(got_as(&client, NULL) == OK);
    ok(atomic_load(&fake.heads) == 1 && atomic_load(&fake.gets) == 0);
    ok(got_as(&client, NULL) == OK && atomic_load(&fake.heads) == 1);
    client_end(&client);
    drop_house();
}

TEST(what_was_learnt_in_our_own_name_needs_no_word_after_a_restart)
{
    struct client client;
    new_shared_house(300000);
    client_begin(&client);
    ok(got_as(&client, NULL) == OK);
    client_end(&client);
    close_house();
    open_house(300000);
    atomic_store(&fake.knows_identities, true);
    house.rules.grant_ms = house.rules.permission_ms = 60000;
    client_begin(&client);
    ok(got_as(&client, NULL) == OK);
    ok(atomic_load(&fake.heads) == 0 && atomic_load(&fake.gets) == 0);
    house.rules.permission_ms = 0;    /* ask every time */
    ok(got_as(&client, NULL) == OK && got_as(&client, NULL) == OK);
    ok(atomic_load(&fake.heads) == 2);
    client_end(&client);
    drop_house();
}

/* ---- what is under way, and what is said of it ---- */

struct said {
    unsigned asked_s;    /* from now */
    bool refused;
};

static struct get_ask quiet_ask(const char *key)
{
    return (struct get_ask){ .rules = &house.rules, .bucket = S("bucket"), .key = slice_of(key),
                             .conditions = { .if_modified_since = -1, .if_unmodified_since = -1 } };
}

/* Does a read in the shared name take no word from the origin? Nobody is asked: none answers. */
static bool is_let(struct client *client, const char *key)
{
    struct get_ask want = quiet_ask(key);
    atomic_store(&fake.down, true);
    get_end(&client->get);
    client->get = get_start(client->loop, &want, noted, client);
    bool let = decided(client) == OK;
    get_end(&client->get);
    atomic_store(&fake.down, false);
    return let;
}

static struct inflight *under_way(const char *key)
{
    struct object_name name = { S("http://fake"), S("bucket"), slice_of(key), S("") };
    struct object_id id;
    store_object_id(house.store, &name, &id);
    flights_lock(house.cache->flights, &id);
    struct inflight *inflight = inflight_get(house.cache->flights, &id, &name, &house.rules);
    flights_unlock(house.cache->flights, &id);
    return inflight;
}

static void answer(struct inflight *inflight, struct metadata *metadata, struct said said)
{
    struct fetch fetch = { .inflight = inflight, .asked.kind = FETCH_HEAD,
                           .metadata = metadata,
                           .sent.at_ms = mono_ms() + said.asked_s * 1000 };
    flights_lock(inflight->flights, &inflight->id);
    fetch.request.status = said.refused ? 403 : 200;
    if (said.refused)
        ok(permit_refused(&fetch));
    else
        permit_granted(&fetch);
    flights_unlock(inflight->flights, &inflight->id);
}

static void let_go(struct inflight *inflight)
{
    struct flights *flights = inflight->flights;
    struct object_id id = inflight->id;
    flights_lock(flights, &id);
    inflight_unref(&inflight);
    flights_unlock(flights, &id);
}

/* ---- a question that is under way, and what became known since it was asked ---- */

enum since { NOTHING_SINCE, REFUSED_SINCE, CHANGED_SINCE };

static void begin_as(struct client *client, const struct identity *who, bool head_only)
{
    struct get_ask want = quiet_ask("key");
    want.who = who;
    want.head_only = head_only;
    client->got = 0;
    client->get = get_start(client->loop, &want, noted, client);
    ok(get_decide(client->get, &client->answer) == ERR_WAIT);
}

static void becomes_known(enum since since, const struct asker *asker)
{
    struct inflight *inflight = under_way("key");
    struct fetch refused = { .inflight = inflight, .asked.as = *asker,
                             .request.status = 403, .sent.at_ms = mono_ms() };
    if (since == REFUSED_SINCE) {
        flights_lock(inflight->flights, &inflight->id);
        ok(permit_refused(&refused));
        flights_unlock(inflight->flights, &inflight->id);
    }
    if (since == CHANGED_SINCE) {
        grants_change_begins(S("bucket"), mono_ms());
        grants_change_ends(S("bucket"), mono_ms());
    }
    let_go(inflight);
}

/* Does who asks the same in the same name, some time later, wait for the first one's answer? */
static bool joins(const struct identity *who, bool head_only, enum since since)
{
    struct client leader, follower;
    new_shared_house(300000);
    client_begin(&leader);
    client_begin(&follower);
    atomic_store(&fake.held, true);
    begin_as(&leader, who, head_only);
    unsigned asked = atomic_load(&fake.gets) + atomic_load(&fake.heads);
    usleep(2000);    /* who asked before it was sent shares it whatever becomes known */
    becomes_known(since, &leader.get->of.asker);
    begin_as(&follower, who, head_only);
    unsigned more = atomic_load(&fake.gets) + atomic_load(&fake.heads) - asked;
    ok(asked == 1 && atomic_load(&fake.gets) == !head_only);
    if (since != NOTHING_SINCE)
        atomic_store(&fake.denies, who ? "ANNA" : "");
    atomic_store(&fake.held, false);
    ok(decided(&follower) == (since == NOTHING_SINCE ? OK : ERR_DENIED));
    client_end(&leader);
    client_end(&follower);
    drop_house();
    return !more;
}

TEST(who_was_refused_since_a_question_was_asked_does_not_wait_for_its_answer)
{
    for (unsigned i = 0; i < 4; i++) {
        const struct identity *who = i % 2 ? &anna : NULL;
        ok(joins(who, i / 2, NOTHING_SINCE));
        ok(!joins(who, i / 2, REFUSED_SINCE));
    }
}

TEST(nor_does_who_asks_after_a_change_of_who_may_read_what)
{
    for (unsigned i = 0; i < 4; i++)
        ok(!joins(i % 2 ? &anna : NULL, i / 2, CHANGED_SINCE));
}

/* ---- two objects of one name: of two tenants, or before and after another's write ---- */

static enum err newest_as(struct client *client, const struct identity *who)
{
    struct get_ask newest = { .rules = &house.rules, .who = who, .bucket = S("bucket"),
                              .key = S("key"), .revalidate = true,
                              .conditions = { .if_modified_since = -1,
                                              .if_unmodified_since = -1 } };
    get_end(&client->get);
    client->got = 0;
    client->get = get_start(client->loop, &newest, noted, client);
    return decided(client);
}

TEST(a_grant_for_ones_own_object_opens_no_other_of_its_name)
{
    struct client client;
    new_shared_house(300000);
    client_begin(&client);
    ok(got_as(&client, &anna) == OK);
    atomic_store(&fake.version, 2);
    client.version = 2;
    ok(newest_as(&client, &ben) == OK && read_some(&client, UINT64_MAX));
    settle(&client);
    ok(got_as(&client, &ben) == OK);
    atomic_store(&fake.denies, "ANNA");
    ok(got_as(&client, &anna) == ERR_DENIED && client.got == 0);
    client_end(&client);
    drop_house();
}

TEST(nor_does_it_let_anybody_join_a_fill_of_what_nobody_knows_yet)
{
    struct client leader, follower;
    new_shared_house(300000);
    client_begin(&leader);
    client_begin(&follower);
    ok(got_as(&follower, &anna) == OK);
    struct metadata *older = metadata_ref((struct metadata *)follower.answer->metadata);
    settle(&follower);
    struct inflight *inflight = under_way("key");
    flights_lock(inflight->flights, &inflight->id);
    deliver_changed(&(struct fetch){ .inflight = inflight, .metadata = older });
    flights_unlock(inflight->flights, &inflight->id);
    metadata_unref(&older);
    struct object_id id = inflight->id;
    let_go(inflight);
    while (store_knows(house.store, &id, NULL))
        turn(&leader);
    atomic_store(&fake.version, 2);
    atomic_store(&fake.held, true);
    house.who = &ben;
    leader.version = 2;
    ask(&leader, 0, 0);
    ok(get_decide(leader.get, &leader.answer) == ERR_WAIT && atomic_load(&fake.gets) == 2);
    atomic_store(&fake.denies, "ANNA");
    house.who = &anna;
    ask(&follower, 0, 0);
    ok(get_decide(follower.get, &follower.answer) == ERR_WAIT && atomic_load(&fake.heads) == 1);
    atomic_store(&fake.held, false);
    ok(decided(&follower) == ERR_DENIED && follower.got == 0);
    ok(decided(&leader) == OK && read_some(&leader, UINT64_MAX));
    client_end(&leader);
    client_end(&follower);
    drop_house();
}

TEST(what_the_shared_name_was_shown_opens_no_other_object_of_its_name)
{
    struct client client;
    new_shared_house(300000);
    client_begin(&client);
    ok(got_as(&client, NULL) == OK);
    struct metadata *ours = metadata_ref((struct metadata *)client.answer->metadata);
    settle(&client);
    atomic_store(&fake.version, 2);
    client.version = 2;
    ok(newest_as(&client, &ben) == OK && read_some(&client, UINT64_MAX));
    struct metadata *bens = metadata_ref((struct metadata *)client.answer->metadata);
    settle(&client);
    struct inflight *inflight = under_way("key");
    inflight_set_metadata(inflight, bens);
    answer(inflight, ours, (struct said){ 1, false });    /* it took longer than his */
    let_go(inflight);
    ok(!is_let(&client, "key"));
    metadata_unref(&ours);
    metadata_unref(&bens);
    client_end(&client);
    drop_house();
}

/* The next process, of a clean stop: what it remembers lies in the folder. */
static void again(struct client *client)
{
    client_end(client);
    close_house();
    open_house(300000);
    atomic_store(&fake.knows_identities, true);
    house.rules.grant_ms = house.rules.permission_ms = 60000;
    client_begin(client);
}

TEST(what_was_refused_to_the_shared_name_is_not_served_in_it_after_a_restart)
{
    struct client client;
    new_shared_house(300000);
    client_begin(&client);
    ok(got_as(&client, NULL) == OK);
    settle(&client);
    again(&client);
    ok(got_as(&client, NULL) == OK && atomic_load(&fake.heads) == 0);
    atomic_store(&fake.denies, "");
    ok(newest_as(&client, NULL) == ERR_DENIED);
    for (unsigned restarts = 0; restarts < 2; restarts++) {
        again(&client);
        atomic_store(&fake.denies, "");
        ok(got_as(&client, NULL) == ERR_DENIED && client.got == 0);
    }
    ok(got_as(&client, &ben) == OK && atomic_load(&fake.gets) == 0);    /* it is here for others */
    atomic_store(&fake.denies, NULL);
    usleep(200000);    /* of one tick's answers, the refusal counts */
    ok(got_as(&client, NULL) == OK);
    again(&client);
    ok(got_as(&client, NULL) == OK && atomic_load(&fake.heads) == 0);    /* forgiven there, too */
    client_end(&client);
    drop_house();
}

static void call_it(const char *name)
{
    store_names(house.store, &(struct store_name){ S("http://fake"), slice_of(name) }, 1);
}

TEST(another_name_of_ours_is_shown_first_what_the_last_one_was)
{
    struct client client;
    new_shared_house(300000);
    call_it("MAIN");
    client_begin(&client);
    ok(got_as(&client, NULL) == OK);
    settle(&client);
    again(&client);
    call_it("MAIN");
    ok(got_as(&client, NULL) == OK && atomic_load(&fake.heads) == 0);
    for (unsigned restarts = 0; restarts < 2; restarts++) {
        again(&client);
        call_it("LESSER");
        atomic_store(&fake.denies, "");
        ok(got_as(&client, NULL) == ERR_DENIED && client.got == 0);
        ok(got_as(&client, &ben) == OK && atomic_load(&fake.gets) == 0);
    }
    again(&client);
    call_it("");    /* not known yet */
    ok(got_as(&client, NULL) == OK && atomic_load(&fake.heads) == 1);
    ok(got_as(&client, NULL) == OK && atomic_load(&fake.heads) == 1);
    ask_for(&client, "new", 0, 0);
    ok(decided(&client) == OK && read_some(&client, UINT64_MAX));
    settle(&client);
    again(&client);
    call_it("LESSER");    /* what came in its time is its own */
    ask_for(&client, "new", 0, 0);
    ok(decided(&client) == OK && read_some(&client, UINT64_MAX));
    ok(atomic_load(&fake.heads) == 0 && atomic_load(&fake.gets) == 0);
    client_end(&client);
    drop_house();
}

TEST(so_is_one_that_comes_while_we_run)
{
    struct client client;
    new_shared_house(300000);
    call_it("MAIN");
    client_begin(&client);
    ok(got_as(&client, NULL) == OK && got_as(&client, NULL) == OK);
    settle(&client);
    ok(atomic_load(&fake.heads) == 0);
    usleep(200000);
    atomic_store(&fake.owner_changed_ms, mono_ms());
    usleep(200000);
    ask_for(&client, "new", 0, 0);    /* shown to the newcomer alone */
    ok(decided(&client) == OK && read_some(&client, UINT64_MAX));
    settle(&client);
    atomic_store(&fake.denies, "");
    ok(got_as(&client, NULL) == ERR_DENIED && client.got == 0);
    again(&client);
    call_it("MAIN");    /* back */
    atomic_store(&fake.denies, "");
    ask_for(&client, "new", 0, 0);
    ok(decided(&client) == ERR_DENIED && client.got == 0);
    client_end(&client);
    drop_house();
}

TEST(a_refusal_that_overtakes_the_bytes_on_their_way_to_the_disk_is_kept_with_them)
{
    struct client client;
    new_shared_house(300000);
    client_begin(&client);
    ok(got_as(&client, NULL) == OK);    /* not settled: a batch takes up to 100 ms */
    usleep(1000);
    atomic_store(&fake.denies, "");
    ok(newest_as(&client, NULL) == ERR_DENIED);
    settle(&client);
    again(&client);
    atomic_store(&fake.denies, "");
    ok(got_as(&client, NULL) == ERR_DENIED && client.got == 0);
    client_end(&client);
    drop_house();
}

TEST(who_was_refused_what_is_not_lost_with_the_index)
{
    struct client client;
    char command[128];
    new_shared_house(300000);
    client_begin(&client);
    ok(got_as(&client, NULL) == OK);
    settle(&client);
    atomic_store(&fake.denies, "");
    ok(newest_as(&client, NULL) == ERR_DENIED);
    client_end(&client);
    close_house();
    snprintf(command, sizeof(command), "rm -r %s/index", house.folder);
    ok(system(command) == 0);
    open_house(300000);
    atomic_store(&fake.knows_identities, true);
    house.rules.permission_ms = 60000;
    client_begin(&client);
    struct object_name name = { S("http://fake"), S("bucket"), S("key"), S("") };
    struct object_id id;
    store_object_id(house.store, &name, &id);
    struct store_vouch listed = { metadata_etag_hash(S("\"v1\"")), 300000, 784111777, { NULL, 0 },
                                  wall_s(), 0, NULL, NULL };
    ok(store_renew(house.store, &id, &listed) == STORE_RENEWED);    /* it may list, not read */
    atomic_store(&fake.denies, "");
    ok(got_as(&client, NULL) == ERR_DENIED && client.got == 0);
    client_end(&client);
    drop_house();
}

/* Each client's right comes from a HEAD in its own name; the bytes come from another node once. */
TEST(the_bytes_of_a_peer_come_after_the_word_of_the_origin)
{
    struct client client;
    new_shared_house(300000);
    client_begin(&client);
    atomic_store(&fake.peers, true);
    ok(got_as(&client, &anna) == OK);
    ok(atomic_load(&fake.heads) == 1 && atomic_load(&fake.questions) == 1);
    ok(got_as(&client, &ben) == OK && atomic_load(&fake.heads) == 2);
    atomic_store(&fake.denies, "");
    ok(got_as(&client, NULL) == ERR_DENIED);
    ok(got_as(&client, &anna) == OK);
    ok(atomic_load(&fake.questions) == 1 && atomic_load(&fake.gets) == 1);
    client_end(&client);
    drop_house();
}

/* The proof of the shared identity is as old as the origin's answer, and so is the metadata. */
TEST(the_bytes_of_a_named_version_prove_nothing)
{
    struct client client;
    new_shared_house(16 * MIB);
    client_begin(&client);
    house.who = NULL;
    ok(reads(&client, 0, 100000));    /* the version is known now */
    atomic_store(&fake.peers, true);
    uint64_t etag_hash = client.answer->metadata->etag_hash;
    uint32_t granted = atomic_load(&client.answer->metadata->granted);
    int64_t validated_s = atomic_load(&client.answer->metadata->validated_s);
    unsigned questions = atomic_load(&fake.questions);
    usleep(1100000);    /* the clocks of both have gone on */
    ok(reads(&client, 9 * MIB, 9 * MIB + 100000));
    ok(atomic_load(&fake.questions) > questions && !atomic_load(&fake.unnamed));
    ok(client.answer->metadata->etag_hash == etag_hash);
    ok(atomic_load(&client.answer->metadata->granted) == granted);
    ok(atomic_load(&client.answer->metadata->validated_s) == validated_s);
    client_end(&client);
    drop_house();
}

/* Otherwise two nodes could wait for each other. */
TEST(a_get_for_a_peer_asks_no_peer)
{
    struct client client;
    new_shared_house(16 * MIB);
    client_begin(&client);
    house.who = NULL;
    ok(reads(&client, 0, 100000));    /* the version is known now */
    atomic_store(&fake.peers, true);
    struct get_ask from_peer = { .rules = &house.rules, .bucket = S("bucket"), .key = S("key"),
                                 .range = { .kind = RANGE_SPAN, .first = 9 * MIB,
                                            .last = 9 * MIB + 100000 },
                                 .for_peer = { .is = true },
                                 .conditions = { .if_modified_since = -1,
                                                 .if_unmodified_since = -1 } };
    unsigned gets = atomic_load(&fake.gets);
    client.got = 0;
    get_end(&client.get);
    client.get = get_start(client.loop, &from_peer, noted, &client);
    ok(decided(&client) == OK);
    ok(atomic_load(&fake.questions) == 0 && atomic_load(&fake.gets) == gets + 1);
    client_end(&client);
    drop_house();
}

TEST(a_change_of_who_may_read_what_ends_every_permission_in_its_bucket)
{
    struct client client;
    new_shared_house(300000);
    client_begin(&client);
    ok(got_as(&client, NULL) == OK && got_as(&client, &anna) == OK);
    ok(atomic_load(&fake.heads) == 1);
    grants_change_begins(S("bucket"), mono_ms());
    ok(got_as(&client, &anna) == OK && atomic_load(&fake.heads) == 2);
    ok(got_as(&client, &anna) == OK && atomic_load(&fake.heads) == 3);    /* it is not over */
    grants_change_ends(S("bucket"), mono_ms());
    ok(got_as(&client, &anna) == OK && atomic_load(&fake.heads) == 4);
    ok(got_as(&client, &anna) == OK && atomic_load(&fake.heads) == 4);
    ok(got_as(&client, NULL) == OK && atomic_load(&fake.heads) == 5);
    client_end(&client);
    drop_house();
}

static void doubt(struct client *client, uint64_t before_ms)
{
    struct write *write = write_begin_doubt(client->loop, before_ms, noted, NULL);
    while (!write_may_go(write))
        turn(client);
    write_end(&write);
}

/* The last test: doubts are of the process. */
TEST(a_doubt_ends_every_proof_from_before_it_and_no_later_one)
{
    struct client client;
    new_shared_house(300000);
    client_begin(&client);
    ok(got_as(&client, NULL) == OK && got_as(&client, &anna) == OK);
    unsigned heads = atomic_load(&fake.heads);
    doubt(&client, ageing_ms() - 5000);
    ok(got_as(&client, NULL) == OK && got_as(&client, &anna) == OK);
    ok(atomic_load(&fake.heads) == heads);
    doubt(&client, ageing_ms());
    ok(got_as(&client, NULL) == OK && atomic_load(&fake.heads) == heads + 1);
    ok(got_as(&client, &anna) == OK && atomic_load(&fake.heads) == heads + 2);
    atomic_store(&fake.denies, "ANNA");
    doubt(&client, ageing_ms());
    ok(got_as(&client, &anna) == ERR_DENIED && client.got == 0);
    client_end(&client);
    drop_house();
}

TEST(what_is_said_of_a_key_ends_the_permissions_to_its_versions)
{
    struct client client;
    new_shared_house(300000);
    client_begin(&client);
    house.version = S("v2");
    client.version = 2;
    ok(got_as(&client, &anna) == OK && got_as(&client, NULL) == OK);
    unsigned heads = atomic_load(&fake.heads);
    ok(got_as(&client, &anna) == OK && got_as(&client, NULL) == OK);
    ok(atomic_load(&fake.heads) == heads);
    struct write_key key = { S("key"), S("") };
    struct write *write = write_begin(client.loop, &house.rules, S("bucket"), &key, 1, noted, NULL);
    write_restates_key(write);    /* an ACL, say */
    while (!write_may_go(write))
        turn(&client);
    write_end(&write);
    atomic_store(&fake.denies, "ANNA");
    ok(got_as(&client, &anna) == ERR_DENIED && client.got == 0);
    atomic_store(&fake.denies, "");
    ok(got_as(&client, NULL) == ERR_DENIED && client.got == 0);
    house.version = S("");
    client_end(&client);
    drop_house();
}

/* ---- the shared name: the answer to the question that was asked last counts ---- */

static const struct {
    struct said first, second;    /* in the order they were answered */
    bool let;
} orders[] = {
    { { 1, false }, { 2, true }, false }, { { 2, true }, { 1, false }, false },
    { { 1, true }, { 2, false }, true }, { { 2, false }, { 1, true }, true },
    { { 1, true }, { 1, false }, false }, { { 1, false }, { 1, true }, false },
};

TEST(a_late_answer_to_an_earlier_question_changes_nothing_in_the_shared_name)
{
    struct client client;
    new_shared_house(300000);
    client_begin(&client);
    for (size_t i = 0; i < countof(orders); i++) {
        char key[] = { 'k', (char)('a' + i), '\0' };
        ask_for(&client, key, 0, 0);
        ok(decided(&client) == OK && read_some(&client, UINT64_MAX));
        struct metadata *metadata = metadata_ref((struct metadata *)client.answer->metadata);
        settle(&client);
        ok(is_let(&client, key));
        struct inflight *inflight = under_way(key);
        answer(inflight, metadata, orders[i].first);
        answer(inflight, metadata, orders[i].second);
        let_go(inflight);
        ok(is_let(&client, key) == orders[i].let);
        metadata_unref(&metadata);
    }
    client_end(&client);
    drop_house();
}

TEST(nor_does_one_that_brings_what_was_not_here)
{
    struct client client;
    new_shared_house(300000);
    client_begin(&client);
    for (size_t i = 0; i < countof(orders); i++) {
        char key[] = { 'k', (char)('a' + i), '\0' };
        struct inflight *inflight = under_way(key);
        struct object_name name = { S("http://fake"), S("bucket"), slice_of(key), S("") };
        struct metadata *metadata = metadata_new(&inflight->id, &name, S("\"v1\""), S(""), 0, 5,
                                                 true);
        const struct said *first = &orders[i].first, *second = &orders[i].second;
        answer(inflight, first->refused ? NULL : metadata, *first);
        flights_lock(inflight->flights, &inflight->id);
        inflight_set_metadata(inflight, metadata);
        flights_unlock(inflight->flights, &inflight->id);
        answer(inflight, second->refused ? NULL : metadata, *second);
        ok(is_let(&client, key) == orders[i].let);
        let_go(inflight);
        metadata_unref(&metadata);
    }
    client_end(&client);
    drop_house();
}

/* A grant of one version came before. */
TEST(a_late_refusal_grants_no_other_version)
{
    struct client client;
    new_shared_house(300000);
    client_begin(&client);
    struct inflight *inflight = under_way("versions");
    struct object_name name = { S("http://fake"), S("bucket"), S("versions"), S("") };
    struct metadata *first = metadata_new(&inflight->id, &name, S("\"v1\""), S(""), 0, 5, true);
    struct metadata *second = metadata_new(&inflight->id, &name, S("\"v2\""), S(""), 0, 6, true);
    second->unshared = true;              /* a client brings it, in its own name */
    answer(inflight, first, (struct said){ 2, false });
    flights_lock(inflight->flights, &inflight->id);
    inflight_set_metadata(inflight, second);
    flights_unlock(inflight->flights, &inflight->id);
    answer(inflight, NULL, (struct said){ 1, true });
    ok(atomic_load(&first->granted) && !(atomic_load(&first->granted) & GRANTED_REFUSED));
    ok(atomic_load(&second->granted) == 0);
    let_go(inflight);
    metadata_unref(&first);
    metadata_unref(&second);
    client_end(&client);
    drop_house();
}

#define ASKERS 4u

static void *asks_and_hears(void *arg)
{
    struct inflight *inflight = arg;
    for (unsigned i = 0; i < 2000; i++)
        answer(inflight, inflight->metadata, (struct said){ i / 2, i % 2 });
    return NULL;
}

TEST(whatever_order_threads_hear_the_last_question_counts)
{
    struct client client;
    new_shared_house(300000);
    client_begin(&client);
    ok(reads(&client, 0, 0));
    struct metadata *metadata = metadata_ref((struct metadata *)client.answer->metadata);
    settle(&client);
    struct inflight *inflight = under_way("key");
    inflight_set_metadata(inflight, metadata);
    for (unsigned round = 0; round < 2; round++) {
        pthread_t threads[ASKERS];
        for (unsigned i = 0; i < ASKERS; i++)
            ok(pthread_create(&threads[i], NULL, asks_and_hears, inflight) == 0);
        if (round)    /* while they do, a question later than all of theirs is answered */
            answer(inflight, metadata, (struct said){ 5000, false });
        for (unsigned i = 0; i < ASKERS; i++)
            pthread_join(threads[i], NULL);
        ok(is_let(&client, "key") == (round == 1));
    }
    let_go(inflight);
    metadata_unref(&metadata);
    client_end(&client);
    drop_house();
}

RUN(cmocka_unit_test(another_name_of_ours_is_shown_first_what_the_last_one_was),
    cmocka_unit_test(so_is_one_that_comes_while_we_run),
    cmocka_unit_test(a_grant_for_ones_own_object_opens_no_other_of_its_name),
    cmocka_unit_test(nor_does_it_let_anybody_join_a_fill_of_what_nobody_knows_yet),
    cmocka_unit_test(what_the_shared_name_was_shown_opens_no_other_object_of_its_name),
    cmocka_unit_test(what_was_refused_to_the_shared_name_is_not_served_in_it_after_a_restart),
    cmocka_unit_test(a_refusal_that_overtakes_the_bytes_on_their_way_to_the_disk_is_kept_with_them),
    cmocka_unit_test(who_was_refused_what_is_not_lost_with_the_index),
    cmocka_unit_test(what_is_said_of_a_key_ends_the_permissions_to_its_versions),
    cmocka_unit_test(a_late_answer_to_an_earlier_question_changes_nothing_in_the_shared_name),
    cmocka_unit_test(a_late_refusal_grants_no_other_version),
    cmocka_unit_test(nor_does_one_that_brings_what_was_not_here),
    cmocka_unit_test(whatever_order_threads_hear_the_last_question_counts),
    cmocka_unit_test(a_head_is_no_proof_where_the_bytes_take_a_key_of_their_own),
    cmocka_unit_test(a_part_that_is_not_known_leaves_the_fetch_that_proved_the_right),
    cmocka_unit_test(a_hit_needs_a_grant_of_ones_own),
    cmocka_unit_test(a_refusal_ends_a_grant_at_once_and_gives_no_byte),
    cmocka_unit_test(who_joins_a_fill_asks_in_their_own_name_first),
    cmocka_unit_test(who_was_refused_since_a_question_was_asked_does_not_wait_for_its_answer),
    cmocka_unit_test(nor_does_who_asks_after_a_change_of_who_may_read_what),
    cmocka_unit_test(a_leaders_refusal_is_not_the_followers),
    cmocka_unit_test(an_outage_is_bridged_only_for_who_has_a_grant),
    cmocka_unit_test(what_was_learnt_in_a_clients_name_stays_theirs_over_a_restart),
    cmocka_unit_test(what_was_learnt_in_our_own_name_needs_no_word_after_a_restart),
    cmocka_unit_test(the_bytes_of_a_peer_come_after_the_word_of_the_origin),
    cmocka_unit_test(the_bytes_of_a_named_version_prove_nothing),
    cmocka_unit_test(a_get_for_a_peer_asks_no_peer),
    cmocka_unit_test(a_change_of_who_may_read_what_ends_every_permission_in_its_bucket),
    cmocka_unit_test(a_doubt_ends_every_proof_from_before_it_and_no_later_one))
