/* test_s3_list_pages.c - the pages of an origin's list. SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "unit.h"

#include "s3/list_pages.h"

static struct list_pages pages;
static struct listed objects[2];

static enum list_fault take(const char *first, const char *last, const char *token, bool truncated)
{
    objects[0].key = slice_of(first);
    objects[1].key = slice_of(last);
    struct listing page = { .objects = objects, .object_count = first ? 2 : 0,
                            .truncated = truncated, .next_token = slice_of(token) };
    return list_pages_take(&pages, &page);
}

static bool asks(const char *query)
{
    struct arena keep = { 0 };
    bool same = slice_eq(list_pages_query(&pages, 10, &keep), slice_of(query));
    arena_free(&keep);
    return same;
}

#define BEGIN "encoding-type=url&list-type=2&max-keys=10&prefix=a%2F"

TEST(a_list_goes_on_by_token_or_after_its_last_key)
{
    list_pages_begin(&pages, S("a/"), S(""));
    ok(asks(BEGIN));
    ok(!take("a/1", "a/2", "t 1", true) && pages.more);
    ok(asks(BEGIN "&continuation-token=t%201"));
    ok(!take(NULL, NULL, "t2", true) && pages.more);
    same(pages.last, S("a/2"));
    ok(asks(BEGIN "&continuation-token=t2"));
    ok(!take("a/3", "a/4", NULL, true) && pages.more);
    ok(asks(BEGIN "&start-after=a%2F4"));
    ok(!take("a/5", "a/6", NULL, false) && !pages.more);
    same(pages.last, S("a/6"));
    list_pages_end(&pages);
}

TEST(a_list_may_begin_after_a_key)
{
    list_pages_begin(&pages, S("a/"), S("a/b"));
    ok(asks(BEGIN "&start-after=a%2Fb"));
    ok(take("a/b", "a/c", NULL, true) && !pages.more);
    same(pages.last, S("a/b"));
    ok(!take("a/b/c", "a/c", NULL, true) && pages.more);
    list_pages_end(&pages);
}

TEST(a_page_that_does_not_go_on_is_refused)
{
    list_pages_begin(&pages, S("a/"), S(""));
    ok(!take("a/1", "a/2", "t1", true));
    ok(take("a/1", "a/2", "t2", true) && !pages.more);     /* the same page again */
    ok(take("a/3", "a/4", "t1", true) && !pages.more);     /* the same token again */
    ok(!take("a/3", "a/4", NULL, true));
    ok(take("a/2", "a/9", NULL, true) && !pages.more);     /* it begins before the last key */
    ok(take(NULL, NULL, NULL, true) && !pages.more);       /* it names no place to go on from */
    list_pages_end(&pages);
}

TEST(a_list_that_goes_round_in_a_circle_is_refused)
{
    static const char *const keys[] = { "a/1", "a/3", "a/5" }, *const tokens[] = { "t1", "t2", "t3" };
    for (size_t before = 0; before < 20; before++) {
        char token[20], key[20];
        list_pages_begin(&pages, S("a/"), S(""));
        for (size_t i = 0; i < before; i++) {
            snprintf(token, sizeof(token), "b%zu", i);
            snprintf(key, sizeof(key), "a/0%zu", i + 10);
            ok(!take(key, key, token, true));
        }
        size_t round = 0;
        while (!take(keys[round % 3], keys[round % 3], tokens[round % 3], true))
            ok(round++ < 100);
        ok(round >= 3 && !pages.more);
        list_pages_end(&pages);
    }
}

TEST(a_list_in_the_order_of_folders_goes_on)
{
    list_pages_begin(&pages, S("a"), S("a/b"));
    ok(!take("a-b", "a-c", NULL, true));    /* behind "a/b" in a tree of folders */
    list_pages_end(&pages);
}

RUN(cmocka_unit_test(a_list_goes_on_by_token_or_after_its_last_key),
    cmocka_unit_test(a_list_may_begin_after_a_key),
    cmocka_unit_test(a_page_that_does_not_go_on_is_refused),
    cmocka_unit_test(a_list_that_goes_round_in_a_circle_is_refused),
    cmocka_unit_test(a_list_in_the_order_of_folders_goes_on))
