/* test_paging.c - where listing pages begin, against a folder of sorted keys.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>

#include "cache/paging.h"

#define PAGE_KEYS 1000u
#define KEYS_MAX 100000u

static struct {
    unsigned keys;
    bool fresh[KEYS_MAX];
    unsigned pages, twice;
    uint64_t random;
    struct arena arena;
    struct paging *paging;
    struct folder_name folder;
} play;

static slice key_of(unsigned i)
{
    char *text = arena_alloc(&play.arena, 32);
    return (slice){ text, (size_t)snprintf(text, 32, "train/%08u.png", i) };
}

static unsigned random_below(unsigned end)
{
    play.random = play.random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((play.random >> 33) % end);
}

static void begin(unsigned keys, uint64_t seed)
{
    memset(&play, 0, sizeof(play));
    play.keys = keys;
    play.random = seed;
    play.paging = paging_new();
    play.folder = (struct folder_name){ &play, S("bucket"), S("train/") };
}

static void end(void)
{
    paging_free(&play.paging);
    arena_free(&play.arena);
}

/* What an origin lists: the keys behind `start`, a page of them. */
static void list_page(unsigned asked, slice start)
{
    unsigned first = 0;
    while (first < play.keys && slice_cmp(key_of(first), start) <= 0)
        first += first + 256 < play.keys && slice_cmp(key_of(first + 256), start) <= 0 ? 256 : 1;
    unsigned last = MIN(first + PAGE_KEYS, play.keys);
    for (unsigned i = first; i < last; i++)
        play.fresh[i] = true;
    play.pages++;
    paging_note(play.paging, &play.folder, key_of(asked), start,
                last < play.keys ? key_of(last - 1) : S(""));
}

static void read_key(unsigned i)
{
    slice start;
    for (int sure = 0; sure < 2 && !play.fresh[i]; sure++) {
        ok(paging_start(play.paging, &play.arena, &play.folder, key_of(i), sure, &start));
        list_page(i, start);
        play.twice += sure;
    }
    ok(play.fresh[i]);
    arena_free(&play.arena);
}

/* Every key once, in random order, all expired before. How many pages it took. */
static unsigned epoch(void)
{
    unsigned *order = calloc(play.keys, sizeof(*order));
    ok(order != NULL);
    memset(play.fresh, 0, sizeof(play.fresh));
    play.pages = play.twice = 0;
    for (unsigned i = 0; i < play.keys; i++) {
        unsigned at = random_below(i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (unsigned i = 0; i < play.keys; i++)
        read_key(order[i]);
    free(order);
    return play.pages;
}

TEST(a_random_order_takes_hardly_more_pages_than_the_keys_in_a_row)
{
    for (uint64_t seed = 1; seed <= 8; seed++) {
        begin(8133, seed);
        ok(epoch() <= 16);
        for (int again = 0; again < 3; again++)
            ok(epoch() <= 14 && play.twice == 0);
        end();
    }
}

TEST(keys_in_a_row_take_a_page_a_thousand)
{
    begin(8133, 1);
    for (unsigned i = 0; i < play.keys; i++)
        read_key(i);
    ok(play.pages == 9 && play.twice == 0);
    end();
}

TEST(few_keys_of_a_huge_folder_seldom_wait_for_two_pages)
{
    begin(KEYS_MAX, 7);
    for (unsigned i = 0; i < 40; i++)
        read_key(random_below(play.keys));
    ok(play.twice <= 8);
    end();
}

TEST(a_stretch_that_has_grown_is_found_again)
{
    begin(2000, 3);
    slice start;
    /* many came in between since */
    paging_note(play.paging, &play.folder, key_of(5), S(""), key_of(1999));
    ok(paging_start(play.paging, &play.arena, &play.folder, key_of(1500), false, &start));
    same(start, S(""));
    list_page(1500, start);
    ok(!play.fresh[1500]);
    ok(paging_start(play.paging, &play.arena, &play.folder, key_of(1500), true, &start));
    list_page(1500, start);
    ok(play.fresh[1500]);
    end();
}

TEST(folders_have_nothing_to_do_with_each_other)
{
    begin(1000, 1);
    slice start, own;
    struct folder_name other = { &play, S("bucket"), S("tram/") };
    struct folder_name elsewhere = { NULL, S("bucket"), S("train/") };
    paging_note(play.paging, &play.folder, key_of(0), S("train/a"), S("train/m"));
    ok(paging_start(play.paging, &play.arena, &play.folder, S("train/z"), false, &start));
    same(start, S("train/m"));
    ok(paging_start_at(&play.arena, S("tram/z"), &own));
    ok(paging_start(play.paging, &play.arena, &other, S("tram/z"), false, &start));
    same(start, own);
    ok(paging_start_at(&play.arena, S("train/z"), &own));
    ok(paging_start(play.paging, &play.arena, &elsewhere, S("train/z"), false, &start));
    same(start, own);
    end();
}

TEST(more_folders_than_there_is_room_for_push_others_out)
{
    begin(1, 1);
    char prefix[32];
    for (unsigned i = 0; i < 10000; i++) {
        slice name = { prefix, (size_t)snprintf(prefix, sizeof(prefix), "%05u/", i) };
        struct folder_name folder = { &play, S("bucket"), name };
        paging_note(play.paging, &folder, S("k"), S(""), S(""));
    }
    end();
}

TEST(a_page_begins_just_before_its_key)
{
    struct arena arena = { 0 };
    slice start;
    ok(paging_start_at(&arena, S("b"), &start));
    same(start, S("a\xf4\x8f\xbf\xbf"));
    ok(paging_start_at(&arena, S("x/\xc3\xa9"), &start));    /* U+00E9 */
    same(start, S("x/\xc3\xa8\xf4\x8f\xbf\xbf"));
    ok(paging_start_at(&arena, S("\xee\x80\x81"), &start));
    ok(!paging_start_at(&arena, S("\xee\x80\x80"), &start));    /* surrogates lie below */
    ok(!paging_start_at(&arena, S(" \x01"), &start));
    ok(!paging_start_at(&arena, S("a\xff"), &start));
    ok(!paging_start_at(&arena, S(""), &start));
    arena_free(&arena);
}

RUN(cmocka_unit_test(a_random_order_takes_hardly_more_pages_than_the_keys_in_a_row),
    cmocka_unit_test(keys_in_a_row_take_a_page_a_thousand),
    cmocka_unit_test(few_keys_of_a_huge_folder_seldom_wait_for_two_pages),
    cmocka_unit_test(a_stretch_that_has_grown_is_found_again),
    cmocka_unit_test(folders_have_nothing_to_do_with_each_other),
    cmocka_unit_test(more_folders_than_there_is_room_for_push_others_out),
    cmocka_unit_test(a_page_begins_just_before_its_key))
