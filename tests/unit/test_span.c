/* test_span.c - spans, and their queue. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <pthread.h>

#include "base/metric.h"
#include "base/span.h"

static struct trace recorded(void)
{
    struct trace trace = { 0 };
    trace_sample(&(struct trace_sampling){ .on = true, .ratio = 1 });
    trace_decide(&trace);
    return trace;
}

static struct span begun(const struct trace *trace)
{
    struct span span;
    span_begin(&span, trace, SPAN_SERVER, "GET", "GetObject");
    return span;
}

static slice text_of(const struct span *span, unsigned i)
{
    return (slice){ span->text + span->attributes[i].at, span->attributes[i].len };
}

TEST(a_span_leaves_out_what_has_no_room)
{
    struct trace trace = recorded();
    struct span span = begun(&trace);
    char longer[SPAN_TEXT_BYTES + 1];
    memset(longer, 'x', sizeof(longer));
    span_text(&span, "too.long", (slice){ longer, sizeof(longer) });
    ok(span.attribute_count == 0);
    span_text(&span, "fits", (slice){ longer, SPAN_TEXT_BYTES - 3 });
    span_text(&span, "odd", S("\xff\n"));
    span_text(&span, "too.long.now", S("ab"));
    span_number(&span, "number", UINT64_MAX);
    ok(span.attribute_count == 3);
    same(text_of(&span, 1), S("??"));
    ok(!span.attributes[2].is_text && span.attributes[2].number == INT64_MAX);
    for (unsigned i = 0; i < 2 * SPAN_ATTRIBUTES; i++)
        span_number(&span, "more", i);
    ok(span.attribute_count == SPAN_ATTRIBUTES);
    span_text(&span, "no.room", S(""));
    ok(span.attribute_count == SPAN_ATTRIBUTES);
    span_text(NULL, "no.span", S("x"));
    span_number(NULL, "no.span", 1);
}

TEST(a_span_links_to_others_and_not_to_its_children)
{
    struct trace mine = recorded(), child, none = { 0 };
    struct span span = begun(&mine);
    trace_child(&mine, &child);
    span_link(&span, &child);
    span_link(&span, &none);
    span_link(NULL, &child);
    ok(span.link_count == 0);
    for (unsigned i = 0; i < SPAN_LINKS + 3; i++) {
        struct trace other = recorded();
        span_link(&span, &other);
        if (i < SPAN_LINKS)
            span_link(&span, &other);    /* the same link again: it counts once */
        ok(i >= SPAN_LINKS || !memcmp(span.links[i].id, other.id, 16));
    }
    ok(span.link_count == SPAN_LINKS && span.links_dropped == 3);
}

TEST(a_full_queue_drops_spans_and_counts_them)
{
    struct trace trace = recorded();
    struct span *batch = must_alloc(8 * sizeof(*batch)), *given = batch;
    uint64_t dropped = metric_read(M_SPANS_DROPPED);
    spans_begin(8);
    for (unsigned i = 0; i < 11; i++) {
        struct span span = begun(&trace);
        span_number(&span, "i", i);
        span_end(&span);
    }
    ok(metric_read(M_SPANS_DROPPED) - dropped == 3);
    ok(spans_take(&batch) == 8 && batch != given);    /* at once: it is more than half full */
    for (unsigned i = 0; i < 8; i++)
        ok(batch[i].attributes[0].number == i && !memcmp(batch[i].id, trace.id, 16));
    struct span late = begun(&trace);
    span_end(&late);                  /* into the array that was given in exchange */
    spans_finish();
    ok(spans_are_finished());
    spans_pause(1000000);             /* does not wait any more */
    ok(spans_take(&batch) == 1);
    ok(spans_take(&batch) == 0);      /* the end */
    spans_free();
    span_end(&late);
    ok(metric_read(M_SPANS_DROPPED) - dropped == 4);
    free(batch);
}

enum { THREADS = 4, SPANS = 5000 };

static void *end_many(void *arg)
{
    struct trace trace = *(struct trace *)arg;
    for (unsigned i = 0; i < SPANS; i++) {
        struct span span = begun(&trace);
        span_end(&span);
    }
    return NULL;
}

static void *take_all(void *arg)
{
    struct span *batch = must_alloc(64 * sizeof(*batch));
    size_t *total = arg;
    for (size_t count; (count = spans_take(&batch)) > 0;)
        *total += count;
    free(batch);
    return NULL;
}

TEST(many_threads_end_spans_and_each_is_taken_or_dropped)
{
    pthread_t threads[THREADS], taker;
    struct trace trace = recorded();
    uint64_t dropped = metric_read(M_SPANS_DROPPED);
    size_t taken = 0;
    spans_begin(64);
    ok(pthread_create(&taker, NULL, take_all, &taken) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        ok(pthread_create(&threads[i], NULL, end_many, &trace) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    spans_finish();
    pthread_join(taker, NULL);
    ok(taken > 0 && taken + metric_read(M_SPANS_DROPPED) - dropped == THREADS * SPANS);
    spans_free();
}

RUN(cmocka_unit_test(a_span_leaves_out_what_has_no_room),
    cmocka_unit_test(a_span_links_to_others_and_not_to_its_children),
    cmocka_unit_test(a_full_queue_drops_spans_and_counts_them),
    cmocka_unit_test(many_threads_end_spans_and_each_is_taken_or_dropped))
