/* test_jobs_state.c - what a job's files and requests say. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/crc.h"
#include "jobs/job_body.h"
#include "s3/request.h"

static struct arena keep;

static struct job_failure failures[] = { { { "a\0b", 3 }, { "NoSuchKey", 9 }, 404 },
                                         { { "c", 1 }, { "AccessDenied", 12 }, 403 } };

static struct job_file example(void)
{
    return (struct job_file){
        .id = 0xfedcba9876543210u,
        .spec = { .owner = S("AKEY"), .bucket = S("data"), .prefix = S("train/"),
                  .ranges = { { RANGE_SPAN, 0, 65535, 0 }, { RANGE_SUFFIX, 0, 0, 100 } },
                  .range_count = 2 },
        .state = JOB_FULL, .why = S("the cache is full"), .began_s = 1000, .ended_s = 2000,
        .sums = { 1, 2, 3, 4, 5, 6, 7, 0, 0 }, .cursor = { S("train/07"), 8, 9 },
        .failures = failures, .failure_count = 2 };
}

TEST(a_state_comes_back)
{
    struct job_file file = example(), back;
    slice bytes = job_file_encode(&file, &keep);
    ok(memcmp(bytes.ptr, "PSTJ", 4) == 0);
    ok(job_file_decode(bytes, &keep, &back) == OK);
    ok(back.id == file.id && back.state == JOB_FULL && back.began_s == 1000 && back.ended_s == 2000);
    ok(memcmp(&back.sums, &file.sums, sizeof(back.sums)) == 0);
    ok(back.cursor.block == 8 && back.cursor.row == 9 && !back.spec.by_list);
    same(back.spec.owner, S("AKEY"));
    same(back.spec.bucket, S("data"));
    same(back.spec.prefix, S("train/"));
    same(back.cursor.after, S("train/07"));
    same(back.why, S("the cache is full"));
    ok(back.spec.range_count == 2 && back.spec.ranges[0].last == 65535 &&
       back.spec.ranges[1].kind == RANGE_SUFFIX && back.spec.ranges[1].suffix == 100);
    ok(back.failure_count == 2 && back.failures[0].status == 404);
    same(back.failures[0].key, failures[0].key);
    same(back.failures[1].code, S("AccessDenied"));
    arena_free(&keep);
}

TEST(any_flip_or_cut_of_a_state_is_found)
{
    struct job_file file = example(), back;
    slice bytes = job_file_encode(&file, &keep);
    uint8_t *flipped = (uint8_t *)(uintptr_t)bytes.ptr;
    for (size_t bit = 0; bit < 8 * bytes.len; bit++) {
        flipped[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ok(job_file_decode(bytes, &keep, &back) == ERR_GONE);
        flipped[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t len = 0; len < bytes.len; len++)
        ok(job_file_decode(slice_sub(bytes, 0, len), &keep, &back) == ERR_GONE);
    arena_free(&keep);
}

TEST(a_state_with_impossible_fields_is_refused)
{
    static const struct { size_t at; uint8_t value; } fields[] = {
        { 4, 0 }, { 32, JOB_STATES }, { 36, 2 }, { 116, 17 }, { 120, 101 }, { 124, 1 }, { 128, 3 },
    };
    struct job_file file = example(), back;
    for (size_t i = 0; i < countof(fields); i++) {
        slice bytes = job_file_encode(&file, &keep);
        uint8_t *wrong = (uint8_t *)(uintptr_t)bytes.ptr;
        wrong[fields[i].at] = fields[i].value;
        uint32_t crc = crc32c(0, wrong, bytes.len - 4);
        memcpy(wrong + bytes.len - 4, &crc, 4);
        ok(job_file_decode(bytes, &keep, &back) == ERR_GONE);
    }
    char after[S3_KEY_BYTES_MAX + 1] = { 0 };
    file.cursor.after = (slice){ after, sizeof(after) - 1 };
    ok(job_file_decode(job_file_encode(&file, &keep), &keep, &back) == OK);
    file.cursor.after.len++;
    ok(job_file_decode(job_file_encode(&file, &keep), &keep, &back) == ERR_GONE);
    arena_free(&keep);
}

TEST(a_state_of_a_later_version_is_not_damaged)
{
    struct job_file file = example(), back;
    slice bytes = job_file_encode(&file, &keep);
    uint8_t *later = (uint8_t *)(uintptr_t)bytes.ptr;
    later[4] = 4;
    uint32_t crc = crc32c(0, later, bytes.len - 4);
    memcpy(later + bytes.len - 4, &crc, 4);
    ok(job_file_decode(bytes, &keep, &back) == ERR_FORMAT);
    arena_free(&keep);
}

TEST(a_state_of_follow_has_a_version_of_its_own)
{
    struct job_file file = example(), back;
    ok(job_file_encode(&file, &keep).ptr[4] == 1);    /* as earlier versions of Penstock wrote */
    file.spec.mode = JOB_FOLLOW;
    file.spec.by_list = true;
    file.spec.window = 1u << 30;
    file.state = JOB_UNREAD;
    file.sums.skipped = 8;
    file.readers = (struct job_readers){ 9, 10 };
    slice bytes = job_file_encode(&file, &keep);
    ok(bytes.ptr[4] == 2 && job_file_decode(bytes, &keep, &back) == OK);
    ok(back.spec.mode == JOB_FOLLOW && back.spec.window == 1u << 30 && back.state == JOB_UNREAD);
    ok(memcmp(&back.sums, &file.sums, sizeof(back.sums)) == 0);
    ok(back.readers.read == 9 && back.readers.unread_bytes == 10);
    same(back.why, S("the cache is full"));
    file.sums.peers_bytes = 11;
    bytes = job_file_encode(&file, &keep);
    ok(bytes.ptr[4] == 3 && job_file_decode(bytes, &keep, &back) == OK);
    ok(memcmp(&back.sums, &file.sums, sizeof(back.sums)) == 0);
    ok(back.spec.mode == JOB_FOLLOW && back.spec.window == 1u << 30 && back.readers.read == 9);
    file.sums.peers_bytes = 0;
    file.spec.window = 0;
    ok(job_file_decode(job_file_encode(&file, &keep), &keep, &back) == ERR_GONE);
    file.spec.window = 1;
    file.spec.by_list = false;
    ok(job_file_decode(job_file_encode(&file, &keep), &keep, &back) == ERR_GONE);
    arena_free(&keep);
}

TEST(a_state_with_bytes_of_other_nodes_has_a_version_of_its_own)
{
    struct job_file file = example(), back;
    file.sums.peers_bytes = UINT64_MAX;
    slice bytes = job_file_encode(&file, &keep);
    ok(bytes.ptr[4] == 3 && job_file_decode(bytes, &keep, &back) == OK);
    ok(memcmp(&back.sums, &file.sums, sizeof(back.sums)) == 0);
    ok(back.spec.mode == JOB_WARM && !back.spec.window);
    same(back.why, S("the cache is full"));
    arena_free(&keep);
}

TEST(a_list_comes_back_block_by_block)
{
    static struct job_block block;
    char key[S3_KEY_BYTES_MAX];
    memset(key, 'k', sizeof(key));
    struct item item = { .key = { key, sizeof(key) }, .kind = ITEM_SPAN, .first = 5,
                         .length = ITEM_OPEN };
    size_t count = 0, bytes;
    job_block_begin(&block);
    for (; job_block_add(&block, &item); count++)
        item.key.len--;
    ok(count > 60);
    slice text = job_block_end(&block);
    struct items items;
    ok(job_block_decode(text, &keep, &items, &bytes) == OK && items.count == count);
    ok(bytes == text.len && bytes <= JOB_BLOCK_MAX);
    ok(items.list[1].key.len == sizeof(key) - 1 && items.list[1].kind == ITEM_SPAN &&
       items.list[1].first == 5 && items.list[1].length == ITEM_OPEN);
    uint8_t *flipped = (uint8_t *)block.bytes;
    for (size_t at = 0; at < text.len; at += 7) {
        flipped[at] ^= 1;
        ok(job_block_decode(text, &keep, &items, &bytes) == ERR_GONE);
        flipped[at] ^= 1;
    }
    ok(job_block_decode(slice_sub(text, 0, text.len - 1), &keep, &items, &bytes) == ERR_GONE);
    arena_free(&keep);
}

/* ---- bodies ---- */

static struct job_spec spec;
static struct items items;

static const char *wrong(const char *body, enum err want)
{
    size_t bytes;
    slice why = S("");
    spec = (struct job_spec){ .range_count = 0 };
    enum err err = job_body_read(&keep, slice_of(body), &spec, &items, &bytes, &why);
    ok(err == want && (why.len > 0) == (err != OK));
    return why.ptr;
}

TEST(a_body_names_a_prefix_or_keys)
{
    size_t bytes;
    slice why, body = S(" {\"prefix\": \"a/\",\n \"ranges\": [\"bytes=-5\"]}\n\"x\"\n");
    ok(job_body_read(&keep, body, &spec, &items, &bytes, &why) == OK);
    ok(!spec.by_list && spec.range_count == 1 && items.count == 0);
    same(spec.prefix, S("a/"));
    same(slice_from(body, bytes), S("\n\"x\"\n"));
    wrong("{\"keys\": [\"a\", [\"b\", 1, 2]], \"mode\": \"warm\", \"pin\": false}", OK);
    ok(spec.by_list && items.count == 2 && items.list[1].first == 1);
    wrong("{\"prefix\": \"\"}", OK);
    arena_free(&keep);
}

TEST(a_wrong_body_is_refused_with_a_reason)
{
    static const char *const bodies[] = {
        "", "[]", "{", "{}", "{\"prefix\": 1}", "{\"prefix\": \"a\", \"keys\": []}",
        "{\"prefix\": \"a\\u0000\"}", "{\"keys\": \"a\"}", "{\"keys\": [1]}",
        "{\"keys\": [{\"key\": \"a\", \"version_id\": \"v\"}]}",
        "{\"keys\": [{\"key\": \"a\", \"if_match\": \"e\"}]}", "{\"prefx\": \"a\"}",
        "{\"prefix\": \"a\", \"prefix\": \"b\"}", "{\"prefix\": \"a\", \"mode\": \"cold\"}",
        "{\"prefix\": \"a\", \"pin\": 1}", "{\"prefix\": \"a\", \"ranges\": \"bytes=0-1\"}",
        "{\"prefix\": \"a\", \"ranges\": [\"bytes=1-0\"]}",
    };
    for (size_t i = 0; i < countof(bodies); i++)
        wrong(bodies[i], ERR_BAD_ARGUMENT);
    wrong("{\"keys\": [\"a\"], \"pin\": true}", ERR_BAD_ARGUMENT);
    wrong("{\"prefix\": \"a\", \"pin\": true}", OK);
    ok(spec.pins);
    arena_free(&keep);
}

TEST(a_list_to_follow_has_a_window)
{
    wrong("{\"keys\": [\"a\"], \"mode\": \"follow\"}", OK);
    ok(spec.mode == JOB_FOLLOW && spec.by_list && spec.window == JOB_WINDOW_DEFAULT);
    wrong("{\"mode\": \"follow\", \"window\": 9223372036854775807, \"keys\": []}", OK);
    ok(spec.window == INT64_MAX);
    wrong("{\"keys\": [\"a\"]}", OK);
    ok(spec.mode == JOB_WARM && spec.window == 0);
    static const char *const bodies[] = {
        "{\"mode\": \"follow\", \"prefix\": \"a\"}", "{\"mode\": 1, \"keys\": [\"a\"]}",
        "{\"mode\": \"follow\", \"keys\": [\"a\"], \"window\": 0}",
        "{\"mode\": \"follow\", \"keys\": [\"a\"], \"window\": -1}",
        "{\"mode\": \"follow\", \"keys\": [\"a\"], \"window\": 9223372036854775808}",
        "{\"mode\": \"follow\", \"keys\": [\"a\"], \"window\": \"2GiB\"}",
        "{\"mode\": \"follow\", \"keys\": [\"a\"], \"window\": 1.5}",
        "{\"mode\": \"follow\", \"keys\": [\"a\"], \"ranges\": [\"bytes=0-1\"]}",
        "{\"mode\": \"follow\", \"keys\": [\"a\"], \"pin\": true}",
        "{\"mode\": \"warm\", \"keys\": [\"a\"], \"window\": 5}",
        "{\"keys\": [\"a\"], \"window\": 5}",
    };
    for (size_t i = 0; i < countof(bodies); i++)
        wrong(bodies[i], ERR_BAD_ARGUMENT);
    arena_free(&keep);
}

TEST(a_line_is_an_item)
{
    struct item item;
    slice why;
    ok(job_body_read_line(&keep, S("\"a b\""), &item, &why) == OK && item.kind == ITEM_WHOLE);
    same(item.key, S("a b"));
    ok(job_body_read_line(&keep, S("[\"k\", 3, -1]"), &item, &why) == OK && item.first == 3);
    const char *const lines[] = { "", "a", "1", "\"a\" \"b\"", "[]", "\"\"", "{}",
                                  "{\"key\": \"a\", \"if_match\": \"e\"}", "[\"k\", 3, 0]" };
    for (size_t i = 0; i < countof(lines); i++)
        ok(job_body_read_line(&keep, slice_of(lines[i]), &item, &why) == ERR_BAD_ARGUMENT);
    arena_free(&keep);
}

RUN(cmocka_unit_test(a_state_comes_back),
    cmocka_unit_test(any_flip_or_cut_of_a_state_is_found),
    cmocka_unit_test(a_state_with_impossible_fields_is_refused),
    cmocka_unit_test(a_state_of_a_later_version_is_not_damaged),
    cmocka_unit_test(a_state_of_follow_has_a_version_of_its_own),
    cmocka_unit_test(a_state_with_bytes_of_other_nodes_has_a_version_of_its_own),
    cmocka_unit_test(a_list_comes_back_block_by_block),
    cmocka_unit_test(a_body_names_a_prefix_or_keys),
    cmocka_unit_test(a_wrong_body_is_refused_with_a_reason),
    cmocka_unit_test(a_list_to_follow_has_a_window),
    cmocka_unit_test(a_line_is_an_item))
