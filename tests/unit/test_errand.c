/* test_errand.c - errands are woken when they are due, in this order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdlib.h>

#include "origin/errand.h"

#define MANY 300

static struct errands errands;
static struct errand all[MANY];
static struct errand *woken[2 * MANY];
static unsigned count;

static void note(struct errand *errand)
{
    woken[count++] = errand;
}

static void begin(void)
{
    errands_init(&errands);
    for (size_t i = 0; i < MANY; i++) {
        all[i] = (struct errand){ .woken = note };
        errand_enter(&errands, &all[i]);
        errand_due(&all[i], UINT64_MAX);
    }
    errands_run(&errands, 0);    /* each is woken once because it is new */
    count = 0;
}

static void end(void)
{
    for (size_t i = 0; i < MANY; i++)
        errand_leave(&all[i]);
    errands_end(&errands);
}

TEST(errands_are_woken_in_the_order_in_which_they_are_due)
{
    unsigned seed = 1;
    begin();
    for (unsigned round = 0; round < 20; round++) {
        for (size_t i = 0; i < 2 * MANY; i++)    /* some are set anew */
            errand_due(&all[rand_r(&seed) % MANY],
                       rand_r(&seed) % 2 ? 1000 + rand_r(&seed) % 50 : rand_r(&seed) % 90000);
        unsigned set = 0, before = 0;
        for (size_t i = 0; i < MANY; i++)
            set += all[i].due_ms != UINT64_MAX;
        count = 0;
        for (uint64_t now_ms = 0; now_ms < 100000; now_ms += 10) {
            errands_run(&errands, now_ms);
            for (; before < count; before++) {
                ok(woken[before]->due_ms <= now_ms && woken[before]->due_ms + 10 > now_ms);
                ok(before == 0 || woken[before - 1]->due_ms <= woken[before]->due_ms);
            }
        }
        ok(count == set);
        for (size_t i = 0; i < MANY; i++)
            errand_due(&all[i], UINT64_MAX);
    }
    end();
}

TEST(errands_that_are_due_at_the_same_time_are_woken_in_the_order_of_setting)
{
    begin();
    errand_due(&all[0], 5);
    errand_due(&all[1], 90000);
    for (size_t i = 2; i < MANY; i++)
        errand_due(&all[i], i % 2 ? 100 : 80000);
    errands_run(&errands, 90000);
    ok(count == MANY && woken[0] == &all[0] && woken[MANY - 1] == &all[1]);
    for (size_t i = 1; i < MANY / 2; i++)
        ok(woken[i] == &all[2 * i + 1] && woken[MANY / 2 - 1 + i] == &all[2 * i]);
    end();
}

TEST(an_errand_that_is_set_to_never_is_not_woken)
{
    begin();
    errand_due(&all[0], 5);
    errand_due(&all[1], 6);
    errand_due(&all[0], UINT64_MAX);
    errands_run(&errands, 10);
    ok(count == 1 && woken[0] == &all[1]);
    ok(errands_wait_ms(&errands, 10) > 0);
    end();
}

RUN(cmocka_unit_test(errands_are_woken_in_the_order_in_which_they_are_due),
    cmocka_unit_test(errands_that_are_due_at_the_same_time_are_woken_in_the_order_of_setting),
    cmocka_unit_test(an_errand_that_is_set_to_never_is_not_woken))
