/* unit.h - what every unit test includes first. SPDX-License-Identifier: Apache-2.0
 * cmocka, with ok() for a condition and TEST() for a sentence as a name. */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/slice.h"

#define TEST(name) static void name(void **unit_state __attribute__((unused)))
#define ok(condition)                                                                          \
    do {                                                                                       \
        bool unit_ok = (condition);                                                            \
        _assert_true(unit_ok, #condition, __FILE__, __LINE__);                                 \
        if (!unit_ok)                                                                          \
            abort();    /* not reached: tells the compiler what holds from here on */          \
    } while (0)
#define same(a, b)                                                                             \
    do {                                                                                       \
        slice same_a = (a), same_b = (b);                                                      \
        if (!slice_eq(same_a, same_b))                                                         \
            fail_msg("\"%.*s\" is not \"%.*s\"", SLICE_ARG(same_a), SLICE_ARG(same_b));         \
    } while (0)
#define RUN(...)                                                                               \
    int main(void)                                                                             \
    {                                                                                          \
        const struct CMUnitTest tests[] = { __VA_ARGS__ };                                     \
        return cmocka_run_group_tests(tests, NULL, NULL);                                      \
    }

#endif
