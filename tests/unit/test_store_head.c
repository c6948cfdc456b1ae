/* test_store_head.c - heads, the budget they share, and the three questions of the policy.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <pthread.h>
#include <stdio.h>

#include "base/metric.h"
#include "store/head.h"
#include "store/policy.h"

static struct object_id id_number(uint32_t number)
{
    struct object_id id = { { 0 } };
    number *= 2654435761u;
    memcpy(id.bytes, &number, 4);
    memcpy(id.bytes + 4, &number, 4);
    return id;
}

static struct head *head_number(uint32_t number)
{
    char text[32];
    snprintf(text, sizeof(text), "key-%08u", number);
    struct object_name name = { S("http://o"), S("data"), slice_of(text), S("") };
    struct object_id id = id_number(number);
    return head_new(&id, &name, S("\"e\""), S("content-type: text/plain\r\nx-amz-meta-a:\r\n"),
                    number, 1700000000, true);
}

TEST(a_head_keeps_copies_of_all_it_was_told)
{
    char endpoint[] = "http://o", etag[] = "\"abc\"", fields[] = "content-type: a:b\r\n";
    struct object_name name = { slice_of(endpoint), S("data"), S("k"), S("v1") };
    struct object_id id = id_number(1);
    struct head *head = head_new(&id, &name, slice_of(etag), slice_of(fields), 42, -5, false);
    endpoint[0] = etag[1] = fields[0] = 'X';
    same(head->name, ((slice){ "http://o\0data\0k\0v1", 18 }));
    same(head->etag, S("\"abc\""));
    same(head_field(head, S("Content-Type")), S("a:b"));
    ok(head->size == 42 && head->modified_s == -5 && !head->full);
    ok(head->etag_hash == head_etag_hash(S("\"abc\"")));
    ok(head_bytes(head) > sizeof(*head) + 18 + 5);
    ok(head->validated_s == 0 && !head->unproved);
    head_unref(&head);
    ok(head == NULL);
    head_unref(&head);
}

TEST(a_name_is_compared_whole)
{
    struct object_name name = { S("http://o"), S("data"), S("a/b"), S("") };
    struct object_id id = id_number(1);
    struct head *head = head_new(&id, &name, S(""), S(""), 0, 0, true);
    ok(head_is_named(head, &name));
    name.key = S("a/");
    ok(!head_is_named(head, &name));
    name.key = S("a/bc");
    ok(!head_is_named(head, &name));
    name.key = S("a/b");
    name.version = S("1");
    ok(!head_is_named(head, &name));
    name.version = S("");
    name.bucket = S("dat");
    ok(!head_is_named(head, &name));
    head_unref(&head);
}

TEST(an_absent_field_differs_from_an_empty_one)
{
    struct head *head = head_number(1);
    same(head_field(head, S("content-type")), S("text/plain"));
    slice empty = head_field(head, S("x-amz-meta-a"));
    ok(empty.ptr != NULL && empty.len == 0);
    ok(head_field(head, S("x-amz-meta")).ptr == NULL);
    ok(head_field(head, S("etag")).ptr == NULL);
    head_unref(&head);
}

/* They lie on disk: a change here is a change of the format. */
TEST(hashes_that_lie_on_disk_stay_what_they_are)
{
    ok(head_etag_hash(S("")) == 0xF52A15E9A9B5E89Bu);
    ok(head_etag_hash(S("\"d41d8cd98f00b204e9800998ecf8427e\"")) == 0x901EC601ED988C56u);
    ok(head_mark(0, 0) == 0);
    ok(head_mark(1, 2) == 0xEF30B01C2974AEEBu);
}

TEST(a_mark_changes_with_size_and_with_time)
{
    ok(head_mark(10, 20) == head_mark(10, 20));
    ok(head_mark(10, 20) != head_mark(20, 10));
    ok(head_mark(10, 20) != head_mark(11, 20) && head_mark(10, 20) != head_mark(10, 21));
}

TEST(a_head_put_is_found_replaced_and_dropped)
{
    struct heads *heads = heads_new(MIB);
    struct head *old = head_number(7), *new = head_number(7);
    heads_put(heads, old);
    struct head *got = heads_get(heads, &old->id);
    ok(got == old && old->refs == 3);
    head_unref(&got);
    size_t bytes = heads_bytes(heads);
    heads_put(heads, new);
    ok(old->refs == 1 && heads_bytes(heads) == bytes);
    got = heads_get(heads, &new->id);
    ok(got == new);
    head_unref(&got);
    struct object_id other = id_number(8);
    ok(heads_get(heads, &other) == NULL);
    heads_drop(heads, &other);
    heads_drop(heads, &new->id);
    ok(heads_get(heads, &new->id) == NULL && heads_bytes(heads) == 0 && new->refs == 1);
    head_unref(&old);
    head_unref(&new);
    heads_free(&heads);
    ok(heads == NULL);
}

TEST(the_budget_holds_and_what_is_used_outlives_what_is_not)
{
    struct heads *heads = heads_new(256 * KIB);
    struct object_id favourite = id_number(0);
    uint64_t evicted = metric_read(M_STORE_HEADS_EVICTED);
    for (uint32_t i = 0; i < 20000; i++) {
        struct head *head = head_number(i);
        heads_put(heads, head);
        head_unref(&head);
        ok(heads_bytes(heads) <= 256 * KIB);
        struct head *got = heads_get(heads, &favourite);
        ok(got != NULL && got->size == 0);
        head_unref(&got);
    }
    ok(heads_bytes(heads) > 200 * KIB);
    ok(metric_read(M_STORE_HEADS_EVICTED) > evicted);
    struct object_id forgotten = id_number(1), latest = id_number(19999);
    ok(heads_get(heads, &forgotten) == NULL);
    struct head *got = heads_get(heads, &latest);
    ok(got != NULL && got->size == 19999);
    heads_free(&heads);
    ok(got->refs == 1);    /* a reader keeps it beyond the table's end */
    head_unref(&got);
}

TEST(a_head_larger_than_the_budget_is_not_kept)
{
    struct heads *heads = heads_new(64);
    struct head *head = head_number(1);
    heads_put(heads, head);
    ok(heads_bytes(heads) == 0 && heads_get(heads, &head->id) == NULL && head->refs == 1);
    head_unref(&head);
    heads_free(&heads);
}

static void *churn(void *arg)
{
    struct heads *heads = arg;
    void *wrong = NULL;
    for (uint32_t i = 0; i < 4000; i++) {
        uint32_t number = i * 7 % 300;
        struct object_id id = id_number(number);
        struct head *head = heads_get(heads, &id);
        if (!head) {
            head = head_number(number);
            heads_put(heads, head);
        }
        if (head->size != number)
            wrong = arg;
        if (i % 50 == 0)
            heads_drop(heads, &id);
        head_unref(&head);
    }
    return wrong;
}

TEST(threads_share_heads)
{
    struct heads *heads = heads_new(40 * KIB);
    pthread_t threads[4];
    for (size_t i = 0; i < countof(threads); i++)
        ok(pthread_create(&threads[i], NULL, churn, heads) == 0);
    for (size_t i = 0; i < countof(threads); i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        ok(wrong == NULL);
    }
    ok(heads_bytes(heads) <= 40 * KIB);
    heads_free(&heads);
}

TEST(the_oldest_extent_goes_first)
{
    struct policy_extent extents[] = { { 9, 1, 2 }, { 4, 2, 2 }, { 11, 0, 2 } };
    ok(policy_victim(extents, 3) == 1);
    ok(policy_victim(extents, 1) == 0);
    ok(policy_victim(extents, 0) == 0);    /* as many as there are: none may go */
    struct object_id id = id_number(1);
    ok(policy_admit(&id, GIB));
}

RUN(cmocka_unit_test(a_head_keeps_copies_of_all_it_was_told),
    cmocka_unit_test(a_name_is_compared_whole),
    cmocka_unit_test(an_absent_field_differs_from_an_empty_one),
    cmocka_unit_test(hashes_that_lie_on_disk_stay_what_they_are),
    cmocka_unit_test(a_mark_changes_with_size_and_with_time),
    cmocka_unit_test(a_head_put_is_found_replaced_and_dropped),
    cmocka_unit_test(the_budget_holds_and_what_is_used_outlives_what_is_not),
    cmocka_unit_test(a_head_larger_than_the_budget_is_not_kept),
    cmocka_unit_test(threads_share_heads),
    cmocka_unit_test(the_oldest_extent_goes_first))
