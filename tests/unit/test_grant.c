/* test_grant.c - grants: bounded, of one identity, for so long.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/metric.h"
#include "cache/grant.h"

#define TTL 60000u

static struct grant_name name_of(uint64_t identity, uint32_t object)
{
    struct grant_name name = { .identity = identity };
    for (size_t i = 0; i < sizeof(name.id.bytes); i++)    /* what a keyed hash looks like */
        name.id.bytes[i] = (uint8_t)(object * 2654435761u >> (i % 4 * 8)) ^ (uint8_t)(i * 37);
    return name;
}

static void give(struct grants *grants, struct grant_name name, uint64_t at_ms)
{
    grants_give(grants, &name, 1, S("bucket"), grant_note_now(&name, S("bucket")), at_ms, TTL, at_ms);
}

static bool has(struct grants *grants, struct grant_name name, uint64_t now_ms)
{
    return grants_find(grants, &name, 1, S("bucket"), now_ms) > now_ms;
}

TEST(a_grant_is_of_one_identity_for_one_object_and_scope)
{
    struct grants *grants = grants_new(MIB);
    struct grant_name mine = name_of(1, 7), wider = mine;
    wider.scope = GRANT_PREFIX;
    give(grants, mine, 1000);
    ok(has(grants, mine, 1000));
    ok(!has(grants, name_of(2, 7), 1000) && !has(grants, name_of(1, 8), 1000));
    ok(!has(grants, wider, 1000));
    grants_free(&grants);
}

TEST(a_grant_is_of_the_version_that_was_shown)
{
    struct grants *grants = grants_new(MIB);
    struct grant_name mine = name_of(1, 7);
    struct grant_note note = grant_note_now(&mine, S("bucket"));
    give(grants, mine, 1000);
    ok(grants_find(grants, &mine, 2, S("bucket"), 1000) == 0);
    grants_give(grants, &mine, 2, S("bucket"), note, 2000, TTL, 2000);
    ok(grants_find(grants, &mine, 2, S("bucket"), 2000) > 2000 && !has(grants, mine, 2000));
    grants_give(grants, &mine, 1, S("bucket"), note, 1500, TTL, 2000);    /* asked before */
    ok(grants_find(grants, &mine, 2, S("bucket"), 2000) > 2000 && !has(grants, mine, 2000));
    grants_free(&grants);
}

TEST(it_ends_when_its_time_is_over_counted_from_the_question)
{
    struct grants *grants = grants_new(MIB);
    struct grant_name mine = name_of(1, 7);
    struct grant_note note = grant_note_now(&mine, S("bucket"));
    grants_give(grants, &mine, 1, S("bucket"), note, 1000, TTL, 5000);
    ok(has(grants, mine, 1000 + TTL - 1) && !has(grants, mine, 1000 + TTL));
    mine = name_of(1, 8);
    grants_give(grants, &mine, 1, S("bucket"), note, 1000, TTL, 1000 + TTL);    /* too late */
    ok(!has(grants, mine, 1000 + TTL));
    grants_give(grants, &mine, 1, S("bucket"), note, 1000, 0, 1000);    /* ask every time */
    ok(!has(grants, mine, 1000));
    grants_free(&grants);
}

TEST(a_refusal_outweighs_what_was_asked_before_it)
{
    struct grants *grants = grants_new(MIB);
    struct grant_name mine = name_of(1, 7);
    struct grant_note note = grant_note_now(&mine, S("bucket"));
    give(grants, mine, 1000);
    grants_refuse(grants, &mine, 2000, TTL, 2100);
    ok(!has(grants, mine, 2100));
    grants_give(grants, &mine, 1, S("bucket"), note, 1900, TTL, 2200);    /* its answer took longer */
    ok(!has(grants, mine, 2200));
    grants_give(grants, &mine, 1, S("bucket"), note, 2300, TTL, 2400);
    ok(has(grants, mine, 2400));
    grants_free(&grants);
}

TEST(a_write_of_the_object_ends_it_and_a_question_from_before_gives_none)
{
    struct grants *grants = grants_new(MIB);
    struct grant_name mine = name_of(1, 7);
    struct grant_note before = grant_note_now(&mine, S("bucket"));
    give(grants, mine, 1000);
    epoch_write_begins(&mine.id, epoch_write_number());
    ok(!has(grants, mine, 1000));
    struct grant_note during = grant_note_now(&mine, S("bucket"));
    epoch_write_ends(&mine.id);
    grants_give(grants, &mine, 1, S("bucket"), before, 1000, TTL, 1000);
    ok(!has(grants, mine, 1000));
    grants_give(grants, &mine, 1, S("bucket"), during, 1000, TTL, 1000);
    ok(!has(grants, mine, 1000));
    give(grants, mine, 1000);
    ok(has(grants, mine, 1000));
    grants_free(&grants);
}

TEST(a_change_in_the_bucket_ends_all_of_it_and_a_question_from_before_gives_none)
{
    struct grants *grants = grants_new(MIB);
    struct grant_name mine = name_of(1, 7), theirs = name_of(2, 9);
    struct grant_note before = grant_note_now(&mine, S("bucket"));
    give(grants, mine, 1000);
    give(grants, theirs, 1000);
    grants_change_begins(S("bucket"), 1100);
    ok(!has(grants, mine, 1100) && !has(grants, theirs, 1100));
    give(grants, mine, 1150);
    ok(!has(grants, mine, 1150));    /* who knows which side of it that answer is on */
    grants_change_ends(S("bucket"), 1200);
    grants_give(grants, &mine, 1, S("bucket"), before, 1050, TTL, 1200);
    ok(!has(grants, mine, 1200) && grants_changed_ms(S("bucket")) == 1200);
    give(grants, mine, 1300);
    ok(has(grants, mine, 1300));
    grants_free(&grants);
}

TEST(a_change_under_another_name_of_the_bucket_is_one_of_the_bucket)
{
    struct grants *grants = grants_new(MIB);
    struct grant_name mine = name_of(1, 7);
    give(grants, mine, 1000);
    grants_change_begins(S("tenant:bucket"), 1100);
    grants_change_ends(S("tenant:bucket"), 1200);
    ok(!has(grants, mine, 1200) && grants_changed_ms(S("bucket")) == 1200);
    grants_free(&grants);
}

/* The table is small: more grants than it holds push out others, are counted, and are never
 * somebody else's. */
TEST(a_full_table_forgets_and_counts)
{
    struct grants *grants = grants_new(64 * 1024);
    unsigned live = 0;
    uint64_t before = metric_read(M_GRANTS_EVICTED);
    for (uint32_t i = 0; i < 20000; i++)
        give(grants, name_of(1 + i % 3, i), 1000 + i / 100);
    for (uint32_t i = 0; i < 20000; i++) {
        live += has(grants, name_of(1 + i % 3, i), 1300);
        ok(!has(grants, name_of(1 + (i + 1) % 3, i), 1300));
    }
    ok(live > 0 && live < 1500);
    ok(metric_read(M_GRANTS_EVICTED) - before >= 20000 - 1500);
    ok(has(grants, name_of(1 + 19999 % 3, 19999), 1300));
    grants_free(&grants);
}

TEST(refusals_push_out_no_grant)
{
    struct grants *grants = grants_new(1);    /* one row of a few slots a shard */
    struct grant_name mine = name_of(1, 7);
    give(grants, mine, 1000);
    for (uint32_t i = 0; i < 5000; i++) {
        struct grant_name other = name_of(2, 100 + i);
        grants_refuse(grants, &other, 1000, TTL, 1000);
    }
    ok(has(grants, mine, 1000));
    grants_free(&grants);
}

/* Nor does a full table forget that there was one: what was asked before it is not shared. */
TEST(a_refusal_counts_for_one_identity_and_one_name)
{
    struct grant_name mine = name_of(1, 7), theirs = name_of(2, 7), other = name_of(1, 8);
    uint32_t before[] = { grant_refusals(&mine), grant_refusals(&theirs), grant_refusals(&other) };
    grant_refusals_add(&mine, 1234);
    ok(grant_refused_ms(&mine) == 1234 && !grant_refused_ms(&theirs) && !grant_refused_ms(&other));
    ok(grant_refusals(&mine) == before[0] + 1);
    ok(grant_refusals(&theirs) == before[1] && grant_refusals(&other) == before[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grant_is_of_one_identity_for_one_object_and_scope),
        cmocka_unit_test(a_grant_is_of_the_version_that_was_shown),
        cmocka_unit_test(it_ends_when_its_time_is_over_counted_from_the_question),
        cmocka_unit_test(a_refusal_outweighs_what_was_asked_before_it),
        cmocka_unit_test(a_write_of_the_object_ends_it_and_a_question_from_before_gives_none),
        cmocka_unit_test(a_change_in_the_bucket_ends_all_of_it_and_a_question_from_before_gives_none),
        cmocka_unit_test(a_change_under_another_name_of_the_bucket_is_one_of_the_bucket),
        cmocka_unit_test(a_full_table_forgets_and_counts),
        cmocka_unit_test(refusals_push_out_no_grant),
        cmocka_unit_test(a_refusal_counts_for_one_identity_and_one_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
