/* test_log.c - lines stay lines, facts stay facts. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <fcntl.h>

#include "base/log.c"

/* What one event writes to stderr. */
static slice heard(char *ret, size_t cap, void (*speak)(void))
{
    int ends[2], old = dup(STDERR_FILENO);
    check(old >= 0 && pipe2(ends, O_NONBLOCK) == 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    speak();
    dup2(old, STDERR_FILENO);
    ssize_t len = read(ends[0], ret, cap);
    close(old);
    close(ends[0]);
    close(ends[1]);
    return (slice){ ret, len > 0 ? (size_t)len : 0 };
}

static char page[2 * PIPE_BUF];

static void say_plain(void) { log_warn("origin_slow", "origin=%s wait_ms=%u", "main", 250u); }
static void say_nothing_more(void) { log_info("ready", "%s", ""); }
static void say_debug(void) { log_debug("detail", "a=%d", 1); }
static void say_odd(void)
{
    log_error("odd", "why=\"no such \\ file\" id=\"123\" n=-45 zero=0 code=007 empty= tab=\t|");
}

static void say_much(void)
{
    char long_value[2 * PIPE_BUF];
    memset(long_value, 'x', sizeof(long_value));
    long_value[sizeof(long_value) - 1] = 0;
    log_info("much", "first=1 value=%s", long_value);
}

static void say_lines(void) { log_info("lines", "value=%s", "a\nb\033[31m"); }

TEST(a_text_line_is_time_level_event_and_facts)
{
    log_setup(LOG_LEVEL_INFO, false);
    slice line = heard(page, sizeof(page), say_plain);
    ok(line.len > 25 && line.ptr[10] == 'T' && line.ptr[23] == 'Z');
    same(slice_from(line, 24), S(" warn origin_slow origin=main wait_ms=250\n"));
    same(slice_from(heard(page, sizeof(page), say_nothing_more), 24), S(" info ready\n"));
}

TEST(what_is_below_the_level_is_not_said)
{
    log_setup(LOG_LEVEL_INFO, false);
    ok(heard(page, sizeof(page), say_debug).len == 0);
    log_setup(LOG_LEVEL_DEBUG, false);
    ok(heard(page, sizeof(page), say_debug).len > 0);
    log_setup(LOG_LEVEL_OFF, false);
    ok(heard(page, sizeof(page), say_odd).len == 0);
}

TEST(facts_become_members_and_whole_numbers_stay_numbers)
{
    log_setup(LOG_LEVEL_INFO, true);
    slice line = heard(page, sizeof(page), say_odd);
    ok(slice_starts(line, S("{\"time\":\"2")));
    same(slice_from(line, 33),
         S("\",\"level\":\"error\",\"event\":\"odd\","
           "\"why\":\"no such \\\\ file\",\"id\":\"123\",\"n\":-45,\"zero\":0,"
           "\"code\":\"007\",\"empty\":\"\",\"tab\":\"\\u0009|\"}\n"));
}

TEST(a_line_too_long_for_one_write_is_cut_and_says_so)
{
    log_setup(LOG_LEVEL_INFO, true);
    slice line = heard(page, sizeof(page), say_much);
    ok(line.len <= PIPE_BUF);
    ok(slice_ends(line, S("\"event\":\"much\",\"first\":1,\"cut\":true}\n")));
    log_setup(LOG_LEVEL_INFO, false);
    line = heard(page, sizeof(page), say_much);
    ok(line.len <= PIPE_BUF && line.len > PIPE_BUF / 2 && slice_ends(line, S("xxx...\n")));
}

TEST(one_event_is_one_line_whatever_it_carries)
{
    log_setup(LOG_LEVEL_INFO, false);
    slice line = heard(page, sizeof(page), say_lines);
    ok(slice_ends(line, S("value=a?b?[31m\n")));
}

TEST(a_word_from_outside_is_one_word)
{
    struct arena arena = { 0 };
    same(log_word(&arena, S("a b\n\"%\xc3\xa9/=")), S("a%20b%0A%22%25%C3%A9/="));
    ok(log_word(&arena, S("")).len == 0);
    same(log_sentence(&arena, S("can't \"a\"\n%")), S("can't 'a'%0A%25"));
    arena_free(&arena);
}

RUN(cmocka_unit_test(a_text_line_is_time_level_event_and_facts),
    cmocka_unit_test(what_is_below_the_level_is_not_said),
    cmocka_unit_test(facts_become_members_and_whole_numbers_stay_numbers),
    cmocka_unit_test(a_line_too_long_for_one_write_is_cut_and_says_so),
    cmocka_unit_test(one_event_is_one_line_whatever_it_carries),
    cmocka_unit_test(a_word_from_outside_is_one_word))
