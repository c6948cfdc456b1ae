/* test_limiter.c - whose turn it is, where not all may be inside.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdlib.h>

#include "origin/limiter.h"

#define MANY 400

static struct errands errands;
static struct limiter limiter;
static struct {
    struct errand errand;
    struct limiter_call call;
} all[MANY];

static void woken(struct errand *errand)
{
    (void)errand;
}

static void begin(unsigned most)
{
    errands_init(&errands);
    limiter_init(&limiter, most);
    for (size_t i = 0; i < MANY; i++) {
        all[i].errand = (struct errand){ .woken = woken };
        all[i].call = (struct limiter_call){ .errand = &all[i].errand };
        errand_enter(&errands, &all[i].errand);
    }
}

static void end(void)
{
    limiter_end(&limiter);    /* checks that nobody is left */
    for (size_t i = 0; i < MANY; i++)
        errand_leave(&all[i].errand);
    errands_end(&errands);
}

static bool comes(size_t i, uint64_t list_id)
{
    all[i].call.list_id = list_id;
    return limiter_enter(&limiter, &all[i].call);
}

static bool comes_as(size_t i, enum origin_rank rank, uint64_t list_id)
{
    all[i].call.rank = rank;
    return comes(i, list_id);
}

static void goes(size_t i)
{
    limiter_leave(&limiter, &all[i].call);
}

/* Each goes when the next is looked for, in this order. */
static void served(const size_t *order, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ok(limiter_is_inside(&limiter, &all[order[i]].call));
        goes(order[i]);
    }
}

TEST(who_waits_alone_is_served_in_the_order_of_coming)
{
    begin(1);
    ok(comes(0, 0));
    for (size_t i = 1; i < 5; i++)
        ok(!comes(i, 0));
    served((size_t[]){ 0, 1, 2, 3, 4 }, 5);
    end();
}

/* By their turns 1, 5, 6, 7; between them 2, 3, 4, as they came. */
TEST(those_of_a_party_have_one_turn_and_every_second_place_goes_by_order)
{
    begin(1);
    ok(comes(0, 7));
    for (size_t i = 1; i < 5; i++)
        ok(!comes(i, 7));
    ok(!comes(5, 0) && !comes(6, 9) && !comes(7, 9));
    served((size_t[]){ 0, 1, 2, 5, 3, 6, 4, 7 }, 8);
    end();
}

TEST(the_next_of_a_party_stands_where_one_stood_that_left_without_a_turn)
{
    begin(1);
    ok(comes(0, 0));
    for (size_t i = 1; i < 4; i++)
        ok(!comes(i, 7));
    ok(!comes(4, 0));
    goes(1);
    goes(3);
    served((size_t[]){ 0, 2, 4 }, 3);
    end();
}

TEST(who_parts_stands_at_the_end_by_itself)
{
    begin(1);
    ok(comes(0, 0));
    for (size_t i = 1; i < 5; i++)
        ok(!comes(i, 7));
    ok(!comes(5, 0));
    limiter_move(&limiter, &all[4].call, ORIGIN_READER, 0);
    limiter_move(&limiter, &all[1].call, ORIGIN_READER, 0);
    limiter_move(&limiter, &all[1].call, ORIGIN_READER, 0);    /* it keeps its place */
    limiter_move(&limiter, &all[0].call, ORIGIN_READER, 0);    /* inside: nothing happens */
    served((size_t[]){ 0, 2, 3, 5, 4, 1 }, 6);
    end();
}

/* Who is inside, and goes; SIZE_MAX: nobody. */
static size_t one_goes(void)
{
    for (size_t i = 0; i < MANY; i++)
        if (all[i].call.where == LIMITER_INSIDE) {
            goes(i);
            return i;
        }
    return SIZE_MAX;
}

/* Each call of the crowd, 0 to `crowd`, comes again when it has gone. Returns the number of places
 * that were given until all `left` others were served; then all calls go. */
static size_t places_until_served(size_t crowd, size_t left)
{
    size_t given = 0;
    for (; left && given < MANY; given++) {
        size_t gone = one_goes();
        left -= gone > crowd;
        ok(gone > crowd || !comes(gone, 0));
    }
    ok(!left);
    while (one_goes() != SIZE_MAX)
        ;
    return given;
}

TEST(a_list_beside_an_endless_crowd_takes_twice_as_long_as_by_order)
{
    enum { CROWD = 50, LIST = 10 };
    begin(1);
    ok(comes(0, 0));
    for (size_t i = 1; i <= CROWD; i++)
        ok(!comes(i, 0));
    for (size_t i = 1; i <= LIST; i++)
        ok(!comes(CROWD + i, 7));
    ok(places_until_served(CROWD, LIST) <= 2 * (1 + CROWD + LIST));
    end();
}

TEST(readers_come_first_then_read_ahead_then_jobs)
{
    begin(1);
    ok(comes(0, 0));
    ok(!comes_as(1, ORIGIN_JOB, 9) && !comes_as(2, ORIGIN_JOB, 9));
    ok(!comes_as(3, ORIGIN_AHEAD, 5) && !comes_as(4, ORIGIN_READER, 0));
    ok(!comes_as(5, ORIGIN_AHEAD, 5) && !comes_as(6, ORIGIN_READER, 0));
    served((size_t[]){ 0, 4, 6, 3, 5, 1, 2 }, 7);
    end();
}

TEST(a_call_that_a_reader_joins_takes_the_place_of_a_reader)
{
    begin(1);
    ok(comes(0, 0));
    ok(!comes_as(1, ORIGIN_JOB, 9) && !comes_as(2, ORIGIN_JOB, 9) && !comes_as(3, ORIGIN_JOB, 9));
    ok(!comes_as(4, ORIGIN_AHEAD, 5) && !comes_as(5, ORIGIN_READER, 0));
    limiter_move(&limiter, &all[2].call, ORIGIN_READER, 0);
    limiter_move(&limiter, &all[1].call, ORIGIN_AHEAD, 5);
    served((size_t[]){ 0, 5, 2, 4, 1, 3 }, 6);
    end();
}

/* Each reader that goes comes again: there is always one that waits. */
TEST(jobs_beside_an_endless_crowd_of_readers_get_a_place_in_eight)
{
    enum { CROWD = 20, JOBS = 10 };
    begin(1);
    ok(comes(0, 0));
    for (size_t i = 1; i <= JOBS; i++)
        ok(!comes_as(CROWD + i, ORIGIN_JOB, 9));
    for (size_t i = 1; i <= CROWD; i++)
        ok(!comes_as(i, ORIGIN_READER, 0));
    size_t taken = places_until_served(CROWD, JOBS);
    ok(taken >= 8 * (JOBS - 1) && taken <= 8 * (JOBS + 1));
    end();
}

/* Nobody is lost, and no more are inside than may be, whatever order they come and go in. */
TEST(a_crowd_of_parties_comes_and_goes)
{
    unsigned seed = 1;
    begin(5);
    for (int i = 0; i < 100000; i++) {
        size_t who = (size_t)rand_r(&seed) % MANY;
        struct limiter_call *call = &all[who].call;
        if (call->where == LIMITER_AWAY)
            ok(comes_as(who, (enum origin_rank)(rand_r(&seed) % ORIGIN_RANKS),
                        (uint64_t)rand_r(&seed) % 9) == (call->where == LIMITER_INSIDE));
        else if (rand_r(&seed) % 9 == 0)
            limiter_move(&limiter, call, (enum origin_rank)(rand_r(&seed) % ORIGIN_RANKS),
                         (uint64_t)rand_r(&seed) % 9);
        else if (call->where == LIMITER_INSIDE || rand_r(&seed) % 3 == 0)
            goes(who);
        size_t waiting = 0, inside = 0;
        for (size_t j = 0; j < MANY && i % 100 == 0; j++) {
            waiting += all[j].call.where == LIMITER_WAITING;
            inside += all[j].call.where == LIMITER_INSIDE;
        }
        ok(i % 100 || (waiting == limiter.waiters && inside == limiter.inside && inside <= 5));
        ok(limiter.inside == 5 || !limiter.waiters);
    }
    for (size_t left = limiter.inside + limiter.waiters; left; left--)
        ok(one_goes() != SIZE_MAX);
    end();
}

/* The origin says SlowDown: places that become free are not given away until fewer are inside than
 * the limit allows. Then the limit grows again, and so do those inside. */
TEST(a_lower_limit_lets_calls_go_on_and_lets_fewer_in)
{
    uint64_t now_ms = 5000;
    begin(8);
    for (size_t i = 0; i < 8; i++)
        ok(comes(i, 0));
    for (size_t i = 8; i < 20; i++)
        ok(!comes(i, 0));
    limiter_slow_down(&limiter, now_ms);
    limiter_slow_down(&limiter, now_ms + 500);    /* once a second */
    for (size_t i = 0; i < 4; i++)
        goes(i);
    ok(limiter.inside == 4 && limiter.waiters == 12);
    goes(4);
    ok(limiter.inside == 4 && limiter_is_inside(&limiter, &all[8].call));
    ok(limiter_grow(&limiter, now_ms + AIMD_GROW_MS / 8) && limiter.inside == 5);
    ok(limiter_grow(&limiter, now_ms + AIMD_GROW_MS / 4) && limiter.inside == 6);
    ok(!limiter_grow(&limiter, now_ms + AIMD_GROW_MS / 2) && limiter.inside == 8);
    limiter_slow_down(&limiter, now_ms + AIMD_GROW_MS);
    while (limiter.inside > 4)
        ok(one_goes() != SIZE_MAX);
    limiter_restore(&limiter);
    ok(limiter.inside + limiter.waiters <= 12 && (limiter.inside == 8 || !limiter.waiters));
    while (one_goes() != SIZE_MAX)
        ;
    ok(!limiter.inside && !limiter.waiters);
    end();
}

/* A call that has a place may take a second one if that is free, and the origin not overloaded. */
TEST(a_second_place_is_taken_only_if_it_is_free)
{
    struct limiter_call second = { .errand = &all[0].errand }, third = second;
    begin(3);
    ok(comes(0, 0) && comes(1, 0));
    ok(limiter_enter_free(&limiter, &second) && limiter.inside == 3);
    ok(!limiter_enter_free(&limiter, &third) && limiter.waiters == 0);
    ok(!comes(2, 0));
    limiter_leave(&limiter, &second);
    ok(limiter_is_inside(&limiter, &all[2].call));
    limiter_leave(&limiter, &third);    /* which never came in */
    goes(1);
    goes(2);
    limiter_slow_down(&limiter, 5000);
    ok(limiter.inside == 1 && !limiter_enter_free(&limiter, &second));
    limiter_restore(&limiter);
    ok(limiter_enter_free(&limiter, &second) && limiter_enter_free(&limiter, &third));
    limiter_leave(&limiter, &second);
    limiter_leave(&limiter, &third);
    goes(0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_alone_is_served_in_the_order_of_coming),
        cmocka_unit_test(those_of_a_party_have_one_turn_and_every_second_place_goes_by_order),
        cmocka_unit_test(the_next_of_a_party_stands_where_one_stood_that_left_without_a_turn),
        cmocka_unit_test(who_parts_stands_at_the_end_by_itself),
        cmocka_unit_test(a_list_beside_an_endless_crowd_takes_twice_as_long_as_by_order),
        cmocka_unit_test(readers_come_first_then_read_ahead_then_jobs),
        cmocka_unit_test(a_call_that_a_reader_joins_takes_the_place_of_a_reader),
        cmocka_unit_test(jobs_beside_an_endless_crowd_of_readers_get_a_place_in_eight),
        cmocka_unit_test(a_crowd_of_parties_comes_and_goes),
        cmocka_unit_test(a_lower_limit_lets_calls_go_on_and_lets_fewer_in),
        cmocka_unit_test(a_second_place_is_taken_only_if_it_is_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
