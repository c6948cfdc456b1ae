/* test_breaker.c - when an origin counts as down, and which calls may be sent meanwhile.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>

#include "origin/breaker.h"

static struct breaker breaker;
static uint64_t now_ms;

static void begin(void)
{
    breaker = (struct breaker){ 0 };
    now_ms = 1000000;
}

static struct breaker_name name_of(const char *text)
{
    struct breaker_name name;
    slice key = slice_of(text), bucket = slice_cut(&key, '/');
    breaker_name(&name, bucket, key);
    return name;
}

static enum breaker_change note_sent(const char *text, enum breaker_result result, bool probe,
                                     uint64_t sent_ms)
{
    return breaker_note(&breaker, &(struct breaker_try){ name_of(text), result, probe, sent_ms },
                        now_ms);
}

static enum breaker_change note(const char *text, enum breaker_result result)
{
    return note_sent(text, result, false, now_ms);
}

static enum breaker_say admit(const char *text)
{
    struct breaker_name name = name_of(text);
    bool refuses = breaker_refuses(&breaker, &name, now_ms);
    enum breaker_say say = breaker_admit(&breaker, &name, now_ms);
    ok(refuses == (say == BREAKER_REFUSES));
    return say;
}

static enum breaker_change probed(const char *text, enum breaker_result result)
{
    struct breaker_name name = name_of(text);
    ok(!breaker_refuses(&breaker, &name, now_ms));
    ok(breaker_admit(&breaker, &name, now_ms) == BREAKER_PROBES);
    ok(breaker_refuses(&breaker, &name, now_ms));
    return note_sent(text, result, true, now_ms);
}

/* Failures of `count` names in a folder, `each_ms` apart. Returns true if the breaker is open. */
static bool fails(const char *folder, unsigned count, enum breaker_result result, unsigned each_ms)
{
    char text[100];
    for (unsigned i = 0; i < count; i++, now_ms += each_ms) {
        snprintf(text, sizeof(text), "%s%u", folder, i);
        note(text, result);
    }
    return breaker.open;
}

TEST(the_result_of_a_try_is_judged_by_whose_fault_it_is)
{
    static const struct {
        enum err err;
        int status;
        enum breaker_result result;
    } rows[] = {
        { OK, 200, BREAKER_ANSWER }, { OK, 206, BREAKER_ANSWER }, { OK, 301, BREAKER_ANSWER },
        { OK, 304, BREAKER_ANSWER }, { OK, 400, BREAKER_ANSWER }, { OK, 401, BREAKER_ANSWER },
        { OK, 403, BREAKER_ANSWER }, { OK, 404, BREAKER_ANSWER }, { OK, 412, BREAKER_ANSWER },
        { OK, 416, BREAKER_ANSWER }, { OK, 429, BREAKER_ANSWER }, { OK, 501, BREAKER_ANSWER },
        { OK, 500, BREAKER_FAILURE }, { OK, 502, BREAKER_FAILURE }, { OK, 503, BREAKER_FAILURE },
        { OK, 504, BREAKER_FAILURE }, { OK, 599, BREAKER_FAILURE },
        { ERR_ORIGIN_CONNECT, 0, BREAKER_UNREACHED },
        { ERR_ORIGIN_TIMEOUT, 0, BREAKER_FAILURE }, { ERR_ORIGIN_CUT, 0, BREAKER_FAILURE },
        { ERR_CANCELED, 0, BREAKER_NOTHING }, { ERR_YIELDED, 0, BREAKER_NOTHING },
        { ERR_STOPPING, 0, BREAKER_NOTHING }, { ERR_SLOW_DOWN, 0, BREAKER_NOTHING },
        { ERR_NO_KEYS, 0, BREAKER_NOTHING }, { ERR_ORIGIN_KEYS, 0, BREAKER_NOTHING },
        { ERR_ORIGIN_CERT, 0, BREAKER_NOTHING }, { ERR_ORIGIN_REPLY, 0, BREAKER_NOTHING },
        { ERR_BAD_REQUEST, 0, BREAKER_NOTHING }, { ERR_IO, 0, BREAKER_NOTHING },
    };
    for (size_t i = 0; i < countof(rows); i++)
        if (breaker_judge(rows[i].err, rows[i].status) != rows[i].result)
            fail_msg("row %zu", i);
}

/* Each row: some results, and whether the origin counts as down after them. */
TEST(an_origin_is_down_if_many_names_fail_for_a_second_without_an_answer)
{
    static const struct {
        const char *text, *folder;
        unsigned count;
        enum breaker_result result;
        unsigned each_ms;
        bool down;
    } rows[] = {
        { "5 in a second", "b/", 5, BREAKER_FAILURE, 250, true },
        { "4 in two seconds", "b/", 4, BREAKER_FAILURE, 500, false },
        { "1000 at once", "b/", 1000, BREAKER_FAILURE, 0, false },
        { "1000 in 0.9 s", "b/", 900, BREAKER_FAILURE, 1, false },
        { "1000 in 1 s", "b/", 1002, BREAKER_FAILURE, 1, true },
        { "no connection", "b/", 5, BREAKER_UNREACHED, 250, true },
        { "nothing is said", "b/", 100, BREAKER_NOTHING, 250, false },
        { "answers", "b/", 100, BREAKER_ANSWER, 250, false },
        { "far apart", "b/", 100, BREAKER_FAILURE, BREAKER_MEMORY_MS + 1, false },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        begin();
        if (fails(rows[i].folder, rows[i].count, rows[i].result, rows[i].each_ms) != rows[i].down)
            fail_msg("%s", rows[i].text);
    }
}

TEST(one_bad_object_or_two_never_count_as_a_bad_origin)
{
    begin();
    for (int i = 0; i < 1000; i++, now_ms += 100)
        ok(note(i % 2 ? "b/one" : "b/two", BREAKER_FAILURE) == BREAKER_SAME);
    ok(!breaker.open && admit("b/one") == BREAKER_ADMITS);
    ok(note("b/three", BREAKER_FAILURE) == BREAKER_OPENED);
}

TEST(without_a_connection_one_name_is_enough_for_its_bucket)
{
    begin();
    ok(note("b/good/x", BREAKER_ANSWER) == BREAKER_SAME);
    for (int i = 0; i < 4; i++, now_ms += 400)
        ok(note("b/bad/one", BREAKER_UNREACHED) == BREAKER_SAME);
    ok(note("b/bad/one", BREAKER_UNREACHED) == BREAKER_OPENED);
    ok(admit("b/good/x") == BREAKER_REFUSES && admit("c/x") == BREAKER_ADMITS);
    ok(note("c/x", BREAKER_UNREACHED) == BREAKER_SAME && admit("c/y") == BREAKER_REFUSES);
}

TEST(an_answer_begins_the_count_anew)
{
    begin();
    for (int i = 0; i < 100; i++) {
        ok(!fails("b/", 4, BREAKER_FAILURE, 400));
        ok(note("b/x", BREAKER_ANSWER) == BREAKER_SAME);
        ok(!fails("b/", 50, BREAKER_FAILURE, 10));    /* half a second after the answer */
        ok(note("b/x", BREAKER_ANSWER) == BREAKER_SAME);
    }
}

TEST(while_it_is_open_one_call_a_second_goes_through)
{
    begin();
    ok(fails("b/", 5, BREAKER_FAILURE, 250));
    ok(admit("b/0") == BREAKER_REFUSES && admit("b/new") == BREAKER_REFUSES);
    unsigned probes = 0, calls = 0;
    for (uint64_t end_ms = now_ms + 10000; now_ms < end_ms; now_ms += 10, calls++)
        if (admit("b/0") == BREAKER_PROBES) {
            ok(note_sent("b/0", BREAKER_FAILURE, true, now_ms) == BREAKER_SAME);
            probes++;
        }
    ok(calls == 1000 && probes >= 9 && probes <= 10);
    now_ms += BREAKER_PROBE_MS;
    ok(probed("b/0", BREAKER_ANSWER) == BREAKER_CLOSED);
    for (int i = 0; i < 1000; i++)
        ok(admit("b/0") == BREAKER_ADMITS);
}

TEST(a_probe_is_alone_until_it_ends_or_hangs)
{
    begin();
    ok(fails("b/", 5, BREAKER_FAILURE, 250));
    now_ms += BREAKER_PROBE_MS;
    ok(admit("b/0") == BREAKER_PROBES);
    now_ms += BREAKER_PATIENCE_MS - 1;
    ok(admit("b/0") == BREAKER_REFUSES);
    now_ms += 1;
    ok(admit("b/0") == BREAKER_PROBES);    /* the first one hangs */
    ok(note_sent("b/0", BREAKER_NOTHING, true, now_ms) == BREAKER_SAME);
    ok(admit("b/0") == BREAKER_PROBES);    /* the second was cancelled: the next may go at once */
    ok(note_sent("b/0", BREAKER_UNREACHED, true, now_ms) == BREAKER_SAME);
    ok(admit("b/0") == BREAKER_REFUSES);
    ok(note("b/9", BREAKER_ANSWER) == BREAKER_CLOSED);    /* a call from before has its answer */
}

TEST(a_call_that_was_sent_before_does_not_delay_the_probe)
{
    begin();
    ok(fails("b/", 5, BREAKER_FAILURE, 250));
    now_ms += BREAKER_PROBE_MS;
    ok(note("b/7", BREAKER_FAILURE) == BREAKER_SAME);
    ok(admit("b/0") == BREAKER_PROBES);
}

TEST(a_bad_prefix_cuts_off_no_other)
{
    begin();
    ok(fails("b/team/bad/", 5, BREAKER_FAILURE, 250));
    ok(admit("b/team/bad/x") == BREAKER_REFUSES && admit("b/team/badly") == BREAKER_ADMITS);
    ok(admit("b/other") == BREAKER_ADMITS && admit("c/x") == BREAKER_ADMITS);
    ok(note("b/other", BREAKER_ANSWER) == BREAKER_CLOSED);
    ok(!fails("b/team/bad/", 99, BREAKER_FAILURE, BREAKER_ELSEWHERE_MS / 100));    /* it works */
    ok(fails("b/team/bad/", 3, BREAKER_FAILURE, BREAKER_ELSEWHERE_MS / 100));
    begin();
    ok(fails("b/team/bad/", 5, BREAKER_FAILURE, 250));
    ok(note("b/team/x", BREAKER_FAILURE) == BREAKER_SAME);    /* others fail, too: it gets wider */
    ok(admit("b/team/good") == BREAKER_REFUSES && admit("b/other") == BREAKER_ADMITS);
    ok(note("b/other", BREAKER_FAILURE) == BREAKER_SAME);
    ok(admit("b/any") == BREAKER_REFUSES && admit("bb/any") == BREAKER_ADMITS);
    ok(note("bb/other", BREAKER_FAILURE) == BREAKER_SAME);
    ok(admit("c/any") == BREAKER_REFUSES);
}

TEST(failures_of_two_folders_count_although_a_third_answered_a_moment_ago)
{
    begin();
    ok(note("b/good/x", BREAKER_ANSWER) == BREAKER_SAME);
    now_ms += 100;
    ok(!fails("b/one/", 10, BREAKER_FAILURE, 200));
    ok(note("b/good/y", BREAKER_FAILURE) == BREAKER_OPENED);
    ok(admit("b/good/x") == BREAKER_REFUSES);
}

TEST(a_long_wait_in_vain_is_silence)
{
    begin();
    ok(note("b/0", BREAKER_ANSWER) == BREAKER_SAME);
    now_ms += 20000;
    uint64_t sent_ms = now_ms - 19000;
    for (int i = 0; i < 4; i++)
        ok(note_sent(i % 2 ? "b/1" : "b/2", BREAKER_FAILURE, false, sent_ms) == BREAKER_SAME);
    ok(note_sent("b/3", BREAKER_FAILURE, false, now_ms) == BREAKER_OPENED);
    begin();
    sent_ms = now_ms - 19000;
    for (int i = 0; i < 100; i++)    /* ... but not if another call had an answer meanwhile */
        ok(note_sent(i % 2 ? "b/1" : "b/2", BREAKER_FAILURE, false, sent_ms) == BREAKER_SAME &&
           note("b/3", BREAKER_ANSWER) == BREAKER_SAME);
    for (int i = 0; i < 100; i++, now_ms += 9)
        ok(note_sent(i % 2 ? "b/1" : "b/2", BREAKER_FAILURE, false, sent_ms) == BREAKER_SAME &&
           note_sent("b/3", BREAKER_FAILURE, false, sent_ms) == BREAKER_SAME);
}

TEST(names_longer_than_the_longest_count_by_their_beginning)
{
    char longest[3000];
    struct breaker_try try = { .result = BREAKER_FAILURE };
    begin();
    memset(longest, 'x', sizeof(longest));
    breaker_name(&try.name, S("b"), (slice){ longest, sizeof(longest) });
    ok(try.name.len == BREAKER_NAME_BYTES);
    for (int i = 0; i < 20; i++, now_ms += 200)
        ok(breaker_note(&breaker, &try, now_ms) == BREAKER_SAME);    /* one object */
    ok(!fails("b/y", 1, BREAKER_FAILURE, 0));
    ok(note("b/z", BREAKER_FAILURE) == BREAKER_OPENED);
    ok(breaker_admit(&breaker, &try.name, now_ms) == BREAKER_REFUSES);
    ok(admit("b/x") == BREAKER_REFUSES && admit("c/x") == BREAKER_ADMITS);
}

RUN(cmocka_unit_test(the_result_of_a_try_is_judged_by_whose_fault_it_is),
    cmocka_unit_test(an_origin_is_down_if_many_names_fail_for_a_second_without_an_answer),
    cmocka_unit_test(one_bad_object_or_two_never_count_as_a_bad_origin),
    cmocka_unit_test(without_a_connection_one_name_is_enough_for_its_bucket),
    cmocka_unit_test(an_answer_begins_the_count_anew),
    cmocka_unit_test(while_it_is_open_one_call_a_second_goes_through),
    cmocka_unit_test(a_probe_is_alone_until_it_ends_or_hangs),
    cmocka_unit_test(a_call_that_was_sent_before_does_not_delay_the_probe),
    cmocka_unit_test(a_bad_prefix_cuts_off_no_other),
    cmocka_unit_test(failures_of_two_folders_count_although_a_third_answered_a_moment_ago),
    cmocka_unit_test(a_long_wait_in_vain_is_silence),
    cmocka_unit_test(names_longer_than_the_longest_count_by_their_beginning))
