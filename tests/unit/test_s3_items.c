/* test_s3_items.c - lists of what is to be read. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <jansson.h>

#include "s3/items.h"

static struct arena arena;
static struct items items;
static slice why;

static int forget(void **state)
{
    (void)state;
    arena_free(&arena);
    return 0;
}

/* As what fills memory has it (places), or as a batch has it. */
static enum err read_as(const char *json, bool places, const char *prefix)
{
    const struct items_ask ask = { slice_of(prefix), 4, !places, places };
    json_t *list = json_loads(json, 0, NULL);
    ok(list != NULL);
    why = S("");
    enum err err = items_read(&arena, list, &ask, &items, &why);
    json_decref(list);
    return err;
}

static void says(const char *json, bool places, const char *sentence)
{
    ok(read_as(json, places, "") == ERR_BAD_ARGUMENT);
    same(why, slice_of(sentence));
}

static enum err read_batch(const char *text, struct items_batch *ret)
{
    why = S("");
    return items_read_batch(&arena, slice_of(text), 3, ret, &why);
}

TEST(an_item_can_be_said_in_every_form)
{
    ok(read_as("[\"a\", [\"b\"], [\"c\", 5, 7], {\"key\": \"d\", \"length\": 0}]", false, "p/") ==
       OK);
    ok(items.count == 4);
    same(items.list[0].key, S("p/a"));
    ok(items.list[0].kind == ITEM_WHOLE && !items.list[0].version.len);
    ok(items.list[0].if_match.ptr == NULL && items.list[0].max == ITEM_OPEN);
    same(items.list[1].key, S("p/b"));
    ok(items.list[2].kind == ITEM_SPAN && items.list[2].first == 5 && items.list[2].length == 7);
    ok(items.list[3].kind == ITEM_SPAN && items.list[3].first == 0 && items.list[3].length == 0);
}

TEST(an_item_says_conditions_a_version_and_a_range_of_http)
{
    ok(read_as("[{\"key\": \"k\", \"range\": \"bytes=-9\", \"if_match\": \"\\\"e\\\"\", "
               "\"version_id\": \"v\"}]", false, "") == OK);
    ok(items.list[0].kind == ITEM_RANGE && items.list[0].range.kind == RANGE_SUFFIX);
    ok(items.list[0].range.suffix == 9);
    same(items.list[0].if_match, S("\"e\""));
    same(items.list[0].version, S("v"));
}

TEST(an_item_says_where_its_bytes_go_and_how_many_there_may_be)
{
    ok(read_as("[[\"a\", 1, 2, 3], [\"b\", 0, -1, 9, {\"max\": 8, \"if_match\": \"x\"}]]", true, "")
       == OK);
    ok(items.list[0].to == 3 && items.list[1].to == 9 && items.list[1].max == 8);
    ok(items.list[1].kind == ITEM_SPAN && items.list[1].length == ITEM_OPEN);
    same(items.list[1].if_match, S("x"));
}

TEST(what_is_wrong_is_said_of_the_item_that_is)
{
    says("[\"a\", [\"b\", 0, \"7\"]]", false,
         "items[1]: \"length\" must be a whole number of bytes, or -1");
    says("[[\"b\", -1, 7]]", false, "items[0]: \"offset\" must be a whole number of bytes");
    says("[[\"b\", 1.0, 7]]", false, "items[0]: \"offset\" must be a whole number of bytes");
    says("[[\"b\", 0, -2]]", true, "items[0]: \"length\" must be a whole number of bytes, or -1");
    says("[{\"key\": \"k\", \"offest\": 1}]", false,
         "items[0]: no such member: \"offest\" (did you mean \"offset\"?)");
    says("[{\"key\": \"k\", \"nothing like it\": 1}]", false,
         "items[0]: no such member: \"nothing like it\"");
    says("[{\"offset\": 1}]", false, "items[0]: \"key\" is missing");
    says("[{\"key\": 1}]", false, "items[0]: \"key\" must be text without a NUL");
    says("[\"\"]", false, "items[0]: \"key\" must have 1 to 1024 bytes");
    says("[7]", false, "items[0]: must be a key, an array or an object");
    says("[[\"k\", 1]]", false, "items[0]: must be [KEY] or [KEY, OFFSET, LENGTH]");
    says("[[\"k\", 1, 2, 3]]", false, "items[0]: \"to\" is only for a fill: leave it out");
    says("[{\"key\": \"k\", \"range\": \"bytes=1-2\"}]", true,
         "items[0]: \"range\" is only for a batch: give \"offset\" and \"length\"");
    says("[{\"key\": \"k\", \"range\": \"bytes=1-2\", \"offset\": 1}]", false,
         "items[0]: \"range\" can't be given with \"offset\" or \"length\": give either "
         "\"range\", or \"offset\" and \"length\"");
    says("[{\"key\": \"k\", \"range\": \"bytes=2-1,3-4\"}]", false,
         "items[0]: \"range\" must be one range, as \"bytes=0-1023\", \"bytes=1024-\" or "
         "\"bytes=-1024\"");
    says("[[\"k\", 0, 1, 2, 3]]", true, "items[0]: the fifth element must be an object with other "
         "members of the item, as in {\"if_match\": ETAG}");
    says("[[\"k\", 0, 1, 2, {\"to\": 3}]]", true, "items[0]: \"to\" is given twice");
    says("[{\"key\": \"k\", \"if_match\": \"a\\nb\"}]", false,
         "items[0]: \"if_match\" must be text of 1 to 1024 bytes, without control characters");
    says("{}", false, "\"items\" must be an array");
}

TEST(no_span_goes_beyond_what_an_object_can_have)
{
    ok(read_as("[[\"k\", 9223372036854775806, 1]]", false, "") == OK);
    says("[[\"k\", 9223372036854775807, 1]]", false,
         "items[0]: the sum of \"offset\" and \"length\" is too large");
    ok(read_as("[[\"k\", 9223372036854775807, -1]]", false, "") == OK);
}

TEST(a_key_is_measured_with_its_prefix)
{
    char prefix[1025];
    memset(prefix, 'p', sizeof(prefix));
    prefix[1023] = '\0';
    ok(read_as("[\"k\"]", false, prefix) == OK && items.list[0].key.len == 1024);
    ok(read_as("[\"\"]", false, prefix) == OK && items.list[0].key.len == 1023);
    ok(read_as("[\"kk\"]", false, prefix) == ERR_BAD_ARGUMENT);
    same(why, S("items[0]: \"prefix\" and \"key\" together must have 1 to 1024 bytes"));
}

TEST(there_are_no_more_items_than_are_allowed)
{
    ok(read_as("[\"1\", \"2\", \"3\", \"4\"]", false, "") == OK);
    ok(read_as("[\"1\", \"2\", \"3\", \"4\", \"5\"]", false, "") == ERR_LIMIT);
    same(why, S("\"items\" has 5 elements, and may have at most 4"));
    ok(read_as("[]", false, "") == OK && items.count == 0);
}

TEST(a_batch_says_its_form_and_what_becomes_of_it_after_a_failure)
{
    struct items_batch batch;
    ok(read_batch("{\"items\": [\"k\"]}", &batch) == OK);
    ok(batch.form == BATCH_TAR && !batch.end_on_error && batch.items.count == 1);
    ok(read_batch("{\"items\": [\"k\"], \"prefix\": \"p\", \"form\": \"frames\", "
                  "\"on_error\": \"end\"}", &batch) == OK);
    ok(batch.form == BATCH_FRAMES && batch.end_on_error);
    same(batch.items.list[0].key, S("pk"));
}

TEST(a_batch_that_is_wrong_is_told_where)
{
    static const char *const bad[][2] = {
        { "", "Penstock can't read the body as JSON: line 1, column 0: " },
        { "{\"items\":\n[\"a\" \"b\"]}",
          "Penstock can't read the body as JSON: line 2, column 8: " },
        { "[]", "the body must be a JSON object with the member \"items\", as in "
          "{\"items\": [\"KEY\"]}" },
        { "{}", "\"items\" must be an array" },
        { "{\"items\": [], \"item\": 1}",
          "no such member: \"item\" (the members are \"items\", \"prefix\", \"form\" and "
          "\"on_error\")" },
        { "{\"items\": [], \"form\": \"zip\"}", "\"form\" must be \"tar\" or \"frames\"" },
        { "{\"items\": [], \"on_error\": 1}", "\"on_error\" must be \"continue\" or \"end\"" },
        { "{\"items\": [], \"prefix\": 1}", "\"prefix\" must be text" },
        { "{\"items\": [\"a\\u0000\"]}",
          "Penstock can't read the body as JSON: line 1, column 20: a text must not have \\u0000: "
          "remove it" },
    };
    struct items_batch batch;
    for (size_t i = 0; i < countof(bad); i++) {
        slice want = slice_of(bad[i][1]);
        ok(read_batch(bad[i][0], &batch) == ERR_BAD_ARGUMENT);
        same(slice_sub(why, 0, slice_ends(want, S(": ")) ? want.len : why.len), want);
    }
    ok(read_batch("{\"items\": [\"1\", \"2\", \"3\", \"4\"]}", &batch) == ERR_LIMIT);
}

TEST(many_small_things_are_not_read_into_memory)
{
    struct items_batch batch;
    char ones[400], quoted[400];
    strcpy(ones, "{\"items\": [0");
    for (size_t len = strlen(ones); len < sizeof(ones) - 3; len += 2)
        strcpy(ones + len, ",0");
    ok(items_are_dense(slice_of(ones), 3) && !items_are_dense(slice_of(ones), 30));
    ok(read_batch(ones, &batch) == ERR_LIMIT);
    same(why, S("the body has too many JSON values. A list may have at most 3 items"));
    memset(quoted, ',', sizeof(quoted));
    memcpy(quoted, "\"\\\"", 3);
    ok(!items_are_dense((slice){ quoted, sizeof(quoted) }, 3));    /* inside of text */
}

RUN(cmocka_unit_test_teardown(an_item_can_be_said_in_every_form, forget),
    cmocka_unit_test_teardown(an_item_says_conditions_a_version_and_a_range_of_http, forget),
    cmocka_unit_test_teardown(an_item_says_where_its_bytes_go_and_how_many_there_may_be, forget),
    cmocka_unit_test_teardown(what_is_wrong_is_said_of_the_item_that_is, forget),
    cmocka_unit_test_teardown(no_span_goes_beyond_what_an_object_can_have, forget),
    cmocka_unit_test_teardown(a_key_is_measured_with_its_prefix, forget),
    cmocka_unit_test_teardown(there_are_no_more_items_than_are_allowed, forget),
    cmocka_unit_test_teardown(a_batch_says_its_form_and_what_becomes_of_it_after_a_failure, forget),
    cmocka_unit_test_teardown(a_batch_that_is_wrong_is_told_where, forget),
    cmocka_unit_test_teardown(many_small_things_are_not_read_into_memory, forget))
