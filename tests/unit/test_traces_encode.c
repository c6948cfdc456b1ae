/* test_traces_encode.c - spans as JSON, as OTLP has them, and the answer of a collector.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <jansson.h>

#include "traces/encode.h"

static const struct encode_source source = { "1.2.3", "0f", "a\"host" };

static struct span example(void)
{
    struct span span = {
        .flags = 1, .remote = true, .kind = SPAN_SERVER, .method = "GET",
        .operation = "GetObject", .began_ns = 1700000000123456789u, .took_ns = 1000000011u,
    };
    memset(span.id, 0xab, sizeof(span.id));
    memset(span.span_id, 0x01, sizeof(span.span_id));
    memset(span.parent_id, 0xf0, sizeof(span.parent_id));
    return span;
}

static json_t *decoded(const struct span *spans, size_t count)
{
    char *body = encode_spans(&source, spans, count);
    json_t *all = json_loads(body, JSON_REJECT_DUPLICATES, NULL);
    ok(all != NULL);
    free(body);
    return all;
}

static void is_json(json_t *got, const char *wanted)
{
    json_t *want = json_loads(wanted, 0, NULL);
    ok(want != NULL);
    if (!json_equal(got, want))
        fail_msg("%s is not %s", json_dumps(got, JSON_COMPACT), wanted);
    json_decref(want);
}

TEST(a_span_is_written_as_otlp_has_it)
{
    struct span spans[2] = { example(), example() };
    span_text(&spans[0], "a.text", S("say \"hi\"\\"));
    span_number(&spans[0], "a.number", 9007199254740993u);
    span_link(&spans[0], &(struct trace){ .given = true, .id = { 1 }, .span_id = { 2 } });
    spans[0].links_dropped = 4;
    spans[1].remote = false;
    spans[1].failed = true;
    spans[1].kind = SPAN_CLIENT;
    spans[1].operation = "";
    memset(spans[1].parent_id, 0, sizeof(spans[1].parent_id));
    json_t *all = decoded(spans, 2);
    is_json(all,
        "{\"resourceSpans\":[{\"resource\":{\"attributes\":["
        "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"penstock\"}},"
        "{\"key\":\"service.version\",\"value\":{\"stringValue\":\"1.2.3\"}},"
        "{\"key\":\"service.instance.id\",\"value\":{\"stringValue\":\"0f\"}},"
        "{\"key\":\"host.name\",\"value\":{\"stringValue\":\"a\\\"host\"}}]},"
        "\"scopeSpans\":[{\"scope\":{\"name\":\"penstock\",\"version\":\"1.2.3\"},\"spans\":["
        "{\"traceId\":\"abababababababababababababababab\",\"spanId\":\"0101010101010101\","
        "\"parentSpanId\":\"f0f0f0f0f0f0f0f0\",\"name\":\"GET GetObject\",\"kind\":2,"
        "\"startTimeUnixNano\":\"1700000000123456789\","
        "\"endTimeUnixNano\":\"1700000001123456800\",\"flags\":769,"
        "\"attributes\":[{\"key\":\"a.text\",\"value\":{\"stringValue\":\"say \\\"hi\\\"\\\\\"}},"
        "{\"key\":\"a.number\",\"value\":{\"intValue\":\"9007199254740993\"}}],"
        "\"links\":[{\"traceId\":\"01000000000000000000000000000000\","
        "\"spanId\":\"0200000000000000\"}],\"droppedLinksCount\":4},"
        "{\"traceId\":\"abababababababababababababababab\",\"spanId\":\"0101010101010101\","
        "\"name\":\"GET\",\"kind\":3,\"startTimeUnixNano\":\"1700000000123456789\","
        "\"endTimeUnixNano\":\"1700000001123456800\",\"flags\":257,\"attributes\":[],"
        "\"status\":{\"code\":2}}]}]}]}");
    json_decref(all);
}

/* Each row: the body of an answer, the number of rejected spans, and the reason. */
TEST(the_answer_of_a_collector_may_reject_spans)
{
    static const struct { const char *body; uint64_t rejected; const char *why; } rows[] = {
        { "{\"partialSuccess\":{\"rejectedSpans\":\"3\",\"errorMessage\":\"too old\"}}", 3,
          "too old" },
        { "{\"partialSuccess\":{\"rejectedSpans\":3}}", 3, "" },
        { "{\"partialSuccess\":{\"rejectedSpans\":\"0\",\"errorMessage\":\"be careful\"}}", 0, "" },
        { "{\"partialSuccess\":{}}", 0, "" }, { "{}", 0, "" }, { "", 0, "" }, { "nonsense", 0, "" },
        { "{\"partialSuccess\":{\"rejectedSpans\":-1}}", 0, "" },
        { "{\"partialSuccess\":{\"rejectedSpans\":\"-1\"}}", 0, "" },
        { "{\"partialSuccess\":{\"rejectedSpans\":[1]}}", 0, "" }, { "[1]", 0, "" }, { "7", 0, "" },
        { "{\"partialSuccess\":7}", 0, "" }, { "{\"partialSuccess\":{\"rejectedSpans\":1", 0, "" },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct arena keep = { 0 };
        slice why;
        ok_as(encode_read_rejected(slice_of(rows[i].body), &keep, &why) == rows[i].rejected,
              rows[i].body);
        same(why, slice_of(rows[i].why));
        arena_free(&keep);
    }
}

RUN(cmocka_unit_test(a_span_is_written_as_otlp_has_it),
    cmocka_unit_test(the_answer_of_a_collector_may_reject_spans))
