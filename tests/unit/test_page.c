/* test_page.c - the lowest names of many, with sums for each. SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "unit.h"

#include "front/page.c"

#define NAMES 5000u

static slice name_of(char buffer[16], unsigned number)
{
    return (slice){ buffer, (size_t)snprintf(buffer, 16, "%06u", number) };
}

static void add(struct page *page, slice name, uint64_t bytes)
{
    struct page_row *row = page_row(page, name);
    if (!row)
        return;
    row->objects++;
    row->bytes += bytes;
    row->cached_bytes += bytes / 2;
}

/* Adds each name `copies` times, in the order number * step % NAMES. */
static void fill(struct page *page, unsigned step, unsigned copies)
{
    char buffer[16];
    for (unsigned copy = 0; copy < copies; copy++)
        for (unsigned i = 0; i < NAMES; i++)
            add(page, name_of(buffer, (unsigned)((uint64_t)i * step % NAMES)), 2 * i);
}

static void check_page(slice marker, size_t rows_max, unsigned step, unsigned copies, unsigned first)
{
    struct page *page = page_new(marker, rows_max, MIB);
    const struct page_row *rows;
    bool more;
    char buffer[16];
    fill(page, step, copies);
    size_t count = page_end(page, &rows, &more), want = MIN(NAMES - first, rows_max);
    ok(count == want && more == (first + want < NAMES));
    for (unsigned i = 0; i < count; i++) {
        same(rows[i].name, name_of(buffer, first + i));
        ok(rows[i].objects == copies && rows[i].cached_bytes == rows[i].bytes / 2);
    }
    page_free(&page);
}

TEST(a_page_has_the_lowest_names_in_any_order_of_coming)
{
    const unsigned steps[] = { 1, 7, 4999, 2503, 13 };    /* 4999: downward */
    const size_t sizes[] = { 1, 2, 63, 64, 65, 1000, 4999, 5000, 5001 };
    for (size_t i = 0; i < countof(steps); i++)
        for (size_t j = 0; j < countof(sizes); j++)
            for (unsigned copies = 1; copies <= 3; copies++)
                check_page((slice){ NULL, 0 }, sizes[j], steps[i], copies, 0);
}

TEST(a_page_begins_after_its_marker)
{
    check_page(S("000041"), 100, 7, 2, 42);
    check_page(S("000041x"), 100, 7, 2, 42);
    check_page(S(""), 100, 7, 2, 0);
    check_page(S("004999"), 100, 7, 2, 5000);
}

TEST(pages_one_after_another_have_each_name_once)
{
    char marker[16], buffer[16];
    unsigned seen = 0;
    bool more = true;
    for (slice at = { NULL, 0 }; more;) {
        struct page *page = page_new(at, 333, MIB);
        const struct page_row *rows;
        fill(page, 2503, 2);
        size_t count = page_end(page, &rows, &more);
        for (size_t i = 0; i < count; i++, seen++)
            same(rows[i].name, name_of(buffer, seen));
        at = (slice){ marker, slice_put(marker, rows[count - 1].name) };
        page_free(&page);
    }
    ok(seen == NAMES);
}

TEST(few_names_that_come_often_are_added_up)
{
    struct page *page = page_new((slice){ NULL, 0 }, 10, MIB);
    const struct page_row *rows;
    char buffer[16];
    bool more;
    for (unsigned i = 0; i < 100000; i++)
        add(page, name_of(buffer, i % 10), 1);
    ok(page->capacity <= 256);
    ok(page_end(page, &rows, &more) == 10 && !more && rows[9].objects == 10000 && rows[9].bytes == 10000);
    page_free(&page);
}

TEST(the_memory_of_a_page_is_bounded_and_it_has_a_row_at_least)
{
    char name[1024];
    const struct page_row *rows;
    bool more;
    memset(name, 'x', sizeof(name));
    for (size_t bytes_max = 1; bytes_max < 100000; bytes_max = bytes_max * 10 + 99) {
        struct page *page = page_new((slice){ NULL, 0 }, 100000, bytes_max);
        for (unsigned i = 0; i < 20000; i++) {
            snprintf(name, sizeof(name), "%06u", i * 7919 % 20000);
            name[6] = 'x';
            add(page, (slice){ name, sizeof(name) }, 1);
            ok(page->names.used_bytes < 2 * bytes_max + 4 * sizeof(name) + 65 * 1100);
        }
        size_t count = page_end(page, &rows, &more);
        ok(more && count >= 1 && (count - 1) * sizeof(name) <= bytes_max);
        ok(slice_starts(rows[0].name, S("000000")));
        page_free(&page);
    }
}

TEST(nothing_came)
{
    struct page *page = page_new((slice){ NULL, 0 }, 10, MIB);
    const struct page_row *rows;
    bool more;
    ok(page_end(page, &rows, &more) == 0 && !more);
    page_free(&page);
    page_free(&page);
}

TEST(names_have_any_bytes)
{
    struct page *page = page_new(S("a\0"), 10, MIB);
    const struct page_row *rows;
    bool more;
    const slice names[] = { S(""), S("a"), S("a\0"), S("a\0b"), S("\xff"), S("b") };
    for (size_t i = 0; i < countof(names); i++)
        add(page, names[i], 1);
    ok(page_end(page, &rows, &more) == 3);
    same(rows[0].name, S("a\0b"));
    same(rows[1].name, S("b"));
    same(rows[2].name, S("\xff"));
    page_free(&page);
}

RUN(cmocka_unit_test(a_page_has_the_lowest_names_in_any_order_of_coming),
    cmocka_unit_test(a_page_begins_after_its_marker),
    cmocka_unit_test(pages_one_after_another_have_each_name_once),
    cmocka_unit_test(few_names_that_come_often_are_added_up),
    cmocka_unit_test(the_memory_of_a_page_is_bounded_and_it_has_a_row_at_least),
    cmocka_unit_test(nothing_came), cmocka_unit_test(names_have_any_bytes))
