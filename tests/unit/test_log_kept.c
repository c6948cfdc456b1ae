/* test_log_kept.c - warnings and errors stay for people who look later.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>

#include "base/log_kept.c"

static struct log_kept *kept;
static uint64_t gone;

/* Forgets all entries. */
static void begin(void)
{
    memset(table, 0, sizeof(table));
    forgotten = 0;
    log_setup(LOG_LEVEL_OFF, false);    /* nothing is written; see below */
}

static void keep_at(uint64_t when_s, const char *event, const char *facts)
{
    log_keep(&(struct log_entry){ when_s * 1000000000u, LOG_LEVEL_WARN, event, slice_of(facts) });
}

TEST(warnings_and_errors_stay_even_if_the_log_hides_them)
{
    struct arena keep = { 0 };
    begin();
    log_info("ready", "listen=%s", "here");
    log_warn("origin_down", "origin=%s failures=%u why=\"%s\"", "main", 5u, "no answer: do this");
    log_error("gpu_lost", "gpu=%s", "GPU-1");
    assert_int_equal(log_kept_read(&keep, &kept, &gone), 2);
    assert_string_equal(kept[0].event, "gpu_lost");
    ok(kept[0].level == LOG_LEVEL_ERROR && kept[1].level == LOG_LEVEL_WARN);
    same(kept[0].facts, S("gpu=GPU-1"));
    same(kept[0].why, S(""));
    assert_string_equal(kept[1].event, "origin_down");
    same(kept[1].why, S("no answer: do this"));
    same(kept[1].facts, S("origin=main failures=5"));
    ok(kept[1].count == 1 && kept[1].first_s == kept[1].last_s && kept[1].last_s > 1700000000);
    ok(gone == 0);
    arena_free(&keep);
}

TEST(a_fault_that_repeats_takes_one_entry)
{
    struct arena keep = { 0 };
    begin();
    keep_at(10, "cache_folder", "path=/a serving=0 why=\"first\"");
    keep_at(11, "cache_folder", "path=/b serving=0 why=\"other folder\"");
    keep_at(12, "purges_merged", "count=3 why=\"too many\"");
    keep_at(13, "cache_folder", "path=/a serving=0 why=\"second\"");
    keep_at(14, "purges_merged", "count=70 why=\"too many\"");
    assert_int_equal(log_kept_read(&keep, &kept, &gone), 3);
    assert_string_equal(kept[0].event, "purges_merged");
    ok(kept[0].count == 2 && kept[0].first_s == 12 && kept[0].last_s == 14);
    same(kept[0].facts, S("count=70"));
    ok(kept[1].count == 2 && kept[1].first_s == 10 && kept[1].last_s == 13);
    same(kept[1].why, S("second"));
    same(kept[2].facts, S("path=/b serving=0"));
    arena_free(&keep);
}

TEST(at_the_limit_the_entry_with_the_oldest_line_gives_way)
{
    struct arena keep = { 0 };
    char facts[32];
    begin();
    for (unsigned i = 0; i < LOG_KEPT_MAX; i++) {
        snprintf(facts, sizeof(facts), "job=x%u", i);
        keep_at(100 + i, "job_state_bad", facts);
    }
    keep_at(1000, "job_state_bad", "job=x0");    /* the first entry has the latest line now */
    assert_int_equal(log_kept_read(&keep, &kept, &gone), LOG_KEPT_MAX);
    ok(gone == 0);
    keep_at(1001, "job_state_bad", "job=new");
    assert_int_equal(log_kept_read(&keep, &kept, &gone), LOG_KEPT_MAX);
    ok(gone == 1);
    same(kept[0].facts, S("job=new"));
    same(kept[1].facts, S("job=x0"));
    ok(kept[1].count == 2);
    same(kept[LOG_KEPT_MAX - 1].facts, S("job=x2"));
    arena_free(&keep);
}

#define THREADS 4
#define LINES 500

static void *log_much(void *arg)
{
    struct arena keep = { 0 };
    struct log_kept *found;
    uint64_t ignored;
    for (unsigned i = 0; i < LINES; i++) {
        log_warn("crowd", "thread=%s why=\"line %u\"", (const char *)arg, i);
        if (i % 50 == 0)
            (void)log_kept_read(&keep, &found, &ignored);
    }
    arena_free(&keep);
    return NULL;
}

TEST(threads_log_at_once_and_every_line_counts)
{
    struct arena keep = { 0 };
    pthread_t threads[THREADS];
    char names[THREADS][2] = { "a", "b", "c", "d" };
    begin();
    for (size_t i = 0; i < THREADS; i++)
        ok(pthread_create(&threads[i], NULL, log_much, names[i]) == 0);
    for (size_t i = 0; i < THREADS; i++)
        ok(pthread_join(threads[i], NULL) == 0);
    assert_int_equal(log_kept_read(&keep, &kept, &gone), THREADS);
    for (size_t i = 0; i < THREADS; i++) {
        ok(kept[i].count == LINES);
        same(kept[i].why, S("line 499"));
    }
    arena_free(&keep);
}

TEST(long_and_odd_facts_are_cut_and_kept_apart)
{
    struct arena keep = { 0 };
    char facts[2 * FACTS_MAX];
    begin();
    memset(facts, 'y', sizeof(facts));
    memcpy(facts, "path=/c why=\"", 13);
    facts[sizeof(facts) - 1] = '\0';
    keep_at(1, "long", facts);
    keep_at(2, "bare", "");
    keep_at(3, "odd", "  a=1  why=none b=\"two words\" why=\"");
    assert_int_equal(log_kept_read(&keep, &kept, &gone), 3);
    same(kept[0].facts, S("a=1 why=none b=\"two words\""));
    same(kept[0].why, S(""));
    same(kept[1].facts, S(""));
    same(kept[2].facts, S("path=/c"));
    ok(kept[2].why.len == FACTS_MAX - 13 && slice_only(kept[2].why, "y"));
    arena_free(&keep);
}

RUN(cmocka_unit_test(warnings_and_errors_stay_even_if_the_log_hides_them),
    cmocka_unit_test(a_fault_that_repeats_takes_one_entry),
    cmocka_unit_test(at_the_limit_the_entry_with_the_oldest_line_gives_way),
    cmocka_unit_test(threads_log_at_once_and_every_line_counts),
    cmocka_unit_test(long_and_odd_facts_are_cut_and_kept_apart))
