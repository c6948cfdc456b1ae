/* test_trace.c - the headers traceparent and tracestate, and which requests are recorded.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>

#include "base/metric.h"
#include "base/trace.h"

#define ID "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"
#define GOOD "00-" ID "-" SPAN "-01"

static void sample(bool on, double ratio, unsigned a_second)
{
    trace_sample(&(struct trace_sampling){ .on = on, .ratio = ratio, .a_second = a_second });
}

static struct trace parsed(const char *parent)
{
    struct trace trace = { 0 };
    ok(trace_parse(slice_of(parent), &trace));
    return trace;
}

static const char *written(const struct trace *trace)
{
    static char text[TRACEPARENT_BYTES + 1];
    trace_write(trace, text);
    return text;
}

TEST(a_traceparent_is_read_and_written_as_it_came)
{
    static const char *const rows[][2] = {
        { GOOD, GOOD },
        { "00-" ID "-" SPAN "-00", "00-" ID "-" SPAN "-00" },
        { "00-" ID "-" SPAN "-03", "00-" ID "-" SPAN "-03" },    /* "random" of level 2 */
        { "00-" ID "-" SPAN "-ff", "00-" ID "-" SPAN "-03" },    /* unknown flags are not sent on */
        { "cc-" ID "-" SPAN "-01", GOOD },                         /* a later version */
        { "01-" ID "-" SPAN "-03", GOOD },
        { "cc-" ID "-" SPAN "-01-what-the-future-will-be", GOOD },
        { "cc-" ID "-" SPAN "-01-", GOOD },
        { "00-00000000000000000000000000000001-0000000000000001-01",
          "00-00000000000000000000000000000001-0000000000000001-01" },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct trace trace = parsed(rows[i][0]);
        ok(trace.given && trace.remote && !trace.recorded && !trace.span);
        same(slice_of(written(&trace)), slice_of(rows[i][1]));
    }
}

TEST(any_other_traceparent_is_refused_and_changes_nothing)
{
    static const char *const rows[] = {
        "", "0", "00", "00-", "00-" ID, "00-" ID "-" SPAN, "00-" ID "-" SPAN "-",
        "00-" ID "-" SPAN "-0", "00-" ID "-" SPAN "-011", "00-" ID "-" SPAN "-01-",
        "00-" ID "-" SPAN "-01-what", "00-" ID "-" SPAN "-01.",
        "ff-" ID "-" SPAN "-01", "ff-" ID "-" SPAN "-01-more", "cc-" ID "-" SPAN "-01.more",
        "cc-" ID "-" SPAN "-011",
        "00-00000000000000000000000000000000-" SPAN "-01", "00-" ID "-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01", "00-" ID "-00F067AA0BA902B7-01",
        "0A-" ID "-" SPAN "-01", "00-" ID "-" SPAN "-0A", "0x-" ID "-" SPAN "-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473-" SPAN "-001", "00_" ID "-" SPAN "-01",
        "00-" ID "_" SPAN "-01", "00-" ID "-" SPAN "_01", " " GOOD, GOOD " ",
        "00-.bf92f3577b34da6a3ce929d0e0e4736-" SPAN "-01", "0-" ID "-" SPAN "-001",
        GOOD "," GOOD,
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct trace trace = { 0 };
        ok_as(!trace_parse(slice_of(rows[i]), &trace), rows[i]);
        ok(!trace.given);
    }
}

TEST(a_tracestate_has_at_most_32_members_of_its_grammar)
{
    static const char *const good[] = {
        "a=1", "a=1,b=2", "a=1, b=2", "a=1\t,\tb=2", "a=1,,b=2", ",a=1", "a=1,", "0a=1", "a=1;b",
        "fw529a3039@dt=FfcFxQ", "a_-*/=x y", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
    };
    static const char *const bad[] = {
        "", ",", " ", "a", "a=", "=1", "A=1", "a=1=2", "_a=1", "@a=1", "a b=1", "a=\x7f", "a=1,b",
        "\xc3\xa4=1", "a=\xc3\xa4", "a=1\n",
    };
    for (size_t i = 0; i < countof(good); i++)
        ok_as(trace_state_is_valid(slice_of(good[i])), good[i]);
    for (size_t i = 0; i < countof(bad); i++)
        ok_as(!trace_state_is_valid(slice_of(bad[i])), bad[i]);
    char many[TRACESTATE_BYTES_MAX + 8] = "";
    for (unsigned i = 0; i < 32; i++)
        sprintf(many + strlen(many), "k%u=v,", i);
    ok(trace_state_is_valid(slice_of(many)));
    strcat(many, "more=v");
    ok(!trace_state_is_valid(slice_of(many)));
    char longest[TRACESTATE_BYTES_MAX + 2];
    memset(longest, 'a', sizeof(longest));
    longest[200] = longest[457] = '=';
    longest[256] = ',';
    ok(trace_state_is_valid((slice){ longest, TRACESTATE_BYTES_MAX }));
    ok(!trace_state_is_valid((slice){ longest, TRACESTATE_BYTES_MAX + 1 }));
}

TEST(a_client_decides_whether_its_request_is_recorded)
{
    struct trace sampled = parsed(GOOD), unsampled = parsed("00-" ID "-" SPAN "-00");
    sample(true, 1, 10);
    trace_decide(&unsampled);
    ok(!unsampled.recorded);
    same(slice_of(written(&unsampled)), S("00-" ID "-" SPAN "-00"));
    trace_decide(&sampled);
    ok(sampled.recorded && sampled.remote && sampled.flags == 1);
    char parent[17] = "";
    hex_write(sampled.parent_id, 8, parent);
    same(slice_of(parent), S(SPAN));
    slice header = slice_of(written(&sampled));
    ok(slice_starts(header, S("00-" ID "-")) && slice_ends(header, S("-01")));
    ok(slice_find(header, S(SPAN)) == header.len);    /* its span has an id of its own */
}

TEST(without_an_exporter_nothing_is_recorded_and_the_header_goes_on)
{
    struct trace trace = parsed(GOOD), none = { 0 }, child;
    sample(false, 1, 10);
    trace_decide(&trace);
    trace_decide(&none);
    ok(!trace.recorded && !none.given);
    trace_child(&trace, &child);
    same(slice_of(written(&child)), S(GOOD));
    trace_sibling(&child);
    same(slice_of(written(&child)), S(GOOD));
    trace_child(&none, &child);
    ok(!child.given);
}

TEST(the_ratio_decides_for_requests_without_a_trace)
{
    static const struct { double ratio; unsigned least, most; } rows[] = {
        { 0, 0, 0 }, { 1, 20000, 20000 }, { 0.5, 9500, 10500 }, { 0.01, 120, 290 },
    };
    for (size_t row = 0; row < countof(rows); row++) {
        unsigned recorded = 0;
        sample(true, rows[row].ratio, 0);
        for (unsigned i = 0; i < 20000; i++) {
            struct trace trace = { 0 };
            trace_decide(&trace);
            ok(trace.given == trace.recorded && !trace.remote);
            recorded += trace.recorded;
        }
        ok(recorded >= rows[row].least && recorded <= rows[row].most);
    }
}

TEST(a_child_of_a_recorded_span_has_the_span_as_its_parent)
{
    struct trace trace = { 0 }, first, second;
    static const uint8_t zeros[8];
    sample(true, 1, 0);
    trace_decide(&trace);
    ok(!memcmp(trace.parent_id, zeros, 8) && memcmp(trace.span_id, zeros, 8));
    trace_child(&trace, &first);
    second = trace;
    trace_child(&second, &second);
    ok(!memcmp(first.id, trace.id, 16) && !memcmp(first.parent_id, trace.span_id, 8));
    ok(!memcmp(second.parent_id, trace.span_id, 8) && memcmp(first.span_id, second.span_id, 8));
    ok(first.recorded && !first.remote && first.flags == 1);
    second = first;
    trace_sibling(&second);
    ok(!memcmp(second.parent_id, trace.span_id, 8) && memcmp(first.span_id, second.span_id, 8));
    ok(!memcmp(second.id, trace.id, 16) && second.recorded);
}

TEST(clients_can_have_only_so_many_requests_recorded_a_second)
{
    uint64_t limited = metric_read(M_TRACES_LIMITED);
    unsigned recorded = 0;
    sample(true, 0, 7);
    for (unsigned i = 0; i < 1000; i++) {
        struct trace trace = parsed(GOOD);
        trace_decide(&trace);
        recorded += trace.recorded;
        ok(trace.recorded || slice_eq(slice_of(written(&trace)), S(GOOD)));
    }
    /* One of this second may be that of an earlier test, and the loop may see more seconds. */
    ok(recorded >= 6 && recorded <= 21);
    ok(metric_read(M_TRACES_LIMITED) - limited == 1000 - recorded);
}

RUN(cmocka_unit_test(a_traceparent_is_read_and_written_as_it_came),
    cmocka_unit_test(any_other_traceparent_is_refused_and_changes_nothing),
    cmocka_unit_test(a_tracestate_has_at_most_32_members_of_its_grammar),
    cmocka_unit_test(a_client_decides_whether_its_request_is_recorded),
    cmocka_unit_test(without_an_exporter_nothing_is_recorded_and_the_header_goes_on),
    cmocka_unit_test(the_ratio_decides_for_requests_without_a_trace),
    cmocka_unit_test(a_child_of_a_recorded_span_has_the_span_as_its_parent),
    cmocka_unit_test(clients_can_have_only_so_many_requests_recorded_a_second))
