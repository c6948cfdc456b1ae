/* test_http_timer.c - what a loop waits for, without a loop. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <time.h>
#include <unistd.h>

#include "http/timer.c"

static const unsigned row_ms[ROW_COUNT] = { [ROW_HEAD] = 20, [ROW_BODY] = 1000, [ROW_IDLE] = 5,
                                            [ROW_SEND] = 1000, [ROW_LINGER] = 1000 };
static char order[32];

static void note(void *arg)
{
    strcat(order, arg);
}

TEST(timers_fire_in_the_order_they_are_due)
{
    struct http_loop loop = { 0 };
    struct http_timer *timers[200] = { NULL };
    timers_init(&loop.timers, row_ms);
    order[0] = '\0';
    for (unsigned i = 0; i < 200; i++)    /* others of a hundred lengths */
        timers[i] = http_timer_start(&loop, 60000 + i * 7919 % 100, note, (void *)"?");
    struct http_timer *a = http_timer_start(&loop, 5, note, (void *)"a");
    struct http_timer *gone = http_timer_start(&loop, 10, note, (void *)"x");
    struct http_timer *b = http_timer_start(&loop, 15, note, (void *)"b");
    struct http_timer *c = http_timer_start(&loop, 30, note, (void *)"c");
    http_timer_stop(&gone);
    ok(gone == NULL);
    for (unsigned i = 0; i < 200; i += 3)
        http_timer_stop(&timers[i]);
    ok(timers_end_turn(&loop.timers) <= 5);
    ok(!timers_run(&loop.timers) || order[0] == 'a');
    uint64_t began = mono_ms();
    while (mono_ms() < began + 20000 && strlen(order) < 3) {
        usleep(1000);
        timers_run(&loop.timers);
    }
    assert_string_equal(order, "abc");
    ok(timers_end_turn(&loop.timers) > 5000);
    http_timer_stop(&a);    /* still ours after it fired */
    http_timer_stop(&b);
    http_timer_stop(&c);
    for (unsigned i = 0; i < 200; i++)
        http_timer_stop(&timers[i]);
    timers_free(&loop.timers);
}

static struct http_timer *self;

static void stop_self(void *arg)
{
    http_timer_stop(&self);
    strcat(order, "s");
}

TEST(a_timer_may_stop_itself_while_it_fires)
{
    struct http_loop loop = { 0 };
    timers_init(&loop.timers, row_ms);
    order[0] = '\0';
    self = http_timer_start(&loop, 0, stop_self, NULL);
    ok(timers_run(&loop.timers));
    ok(!timers_run(&loop.timers));
    assert_string_equal(order, "s");
    ok(self == NULL);
    timers_free(&loop.timers);
}

TEST(a_row_fires_its_oldest_first_and_starting_again_is_young_again)
{
    struct timers timers;
    struct http_timer first = { .fn = note, .arg = (void *)"1" };
    struct http_timer second = { .fn = note, .arg = (void *)"2" };
    struct http_timer stopped = { .fn = note, .arg = (void *)"x" };
    timers_init(&timers, row_ms);
    list_init(&first.link);
    list_init(&second.link);
    list_init(&stopped.link);
    order[0] = '\0';
    timer_start(&timers, ROW_IDLE, &first);
    timer_start(&timers, ROW_IDLE, &stopped);
    timer_start(&timers, ROW_IDLE, &second);
    timer_start(&timers, ROW_IDLE, &first);    /* again */
    list_del(&stopped.link);
    list_del(&stopped.link);    /* harmless */
    usleep(10000);
    ok(timers_run(&timers));
    assert_string_equal(order, "21");
    uint64_t began = mono_ms();
    timer_start(&timers, ROW_HEAD, &first);
    uint64_t wait = timers_end_turn(&timers);
    ok(wait <= 20 && wait + (mono_ms() - began) > 5);    /* but for what has passed meanwhile */
    list_del(&first.link);
    timers_free(&timers);
}

TEST(a_row_that_is_shortened_holds_for_timers_that_wait_and_for_later_ones)
{
    struct timers timers;
    struct http_timer waiting = { .fn = note, .arg = (void *)"w" };
    struct http_timer later = { .fn = note, .arg = (void *)"l" };
    timers_init(&timers, row_ms);
    list_init(&waiting.link);
    list_init(&later.link);
    order[0] = '\0';
    timer_start(&timers, ROW_BODY, &waiting);
    timers_shorten(&timers, ROW_BODY, 2000);    /* longer than it is: nothing changes */
    ok(timers_end_turn(&timers) <= 1000);
    timers_shorten(&timers, ROW_BODY, 5);
    timer_start(&timers, ROW_BODY, &later);
    ok(timers_end_turn(&timers) <= 5);
    usleep(10000);
    ok(timers_run(&timers));
    assert_string_equal(order, "wl");
    timers_free(&timers);
}

static struct timers turning;
static struct http_timer again;

static void start_again(void *arg)
{
    strcat(order, "g");
    if (strlen(order) < 10)    /* so that a fault ends, too */
        timer_start(&turning, ROW_IDLE, &again);
}

TEST(a_turn_has_one_time_and_a_timer_that_starts_itself_waits_anew)
{
    struct http_timer early = { .fn = note, .arg = (void *)"e" };
    timers_init(&turning, row_ms);
    again = (struct http_timer){ .fn = start_again };
    list_init(&early.link);
    list_init(&again.link);
    order[0] = '\0';
    timer_start(&turning, ROW_HEAD, &early);
    usleep(10000);
    timer_start(&turning, ROW_IDLE, &again);
    ok(again.due_ms - row_ms[ROW_IDLE] == early.due_ms - row_ms[ROW_HEAD]);
    ok(timers_end_turn(&turning) == 0);    /* 5 ms of a turn that took 10 */
    timer_start(&turning, ROW_HEAD, &early);
    usleep(10000);
    ok(timers_run(&turning));
    assert_string_equal(order, "g");       /* and not again in the same turn */
    usleep(2000);
    (void)timers_end_turn(&turning);
    timer_start(&turning, ROW_HEAD, &early);    /* a new turn has a time of its own */
    ok(early.due_ms - row_ms[ROW_HEAD] > again.due_ms - row_ms[ROW_IDLE]);
    timers_free(&turning);
}

RUN(cmocka_unit_test(a_turn_has_one_time_and_a_timer_that_starts_itself_waits_anew),
    cmocka_unit_test(timers_fire_in_the_order_they_are_due),
    cmocka_unit_test(a_timer_may_stop_itself_while_it_fires),
    cmocka_unit_test(a_row_that_is_shortened_holds_for_timers_that_wait_and_for_later_ones),
    cmocka_unit_test(a_row_fires_its_oldest_first_and_starting_again_is_young_again))
