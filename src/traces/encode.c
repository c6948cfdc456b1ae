/* encode.c - spans as a request of OTLP. SPDX-License-Identifier: Apache-2.0
 *
 * The texts of a span are printable ASCII (span_text), so jansson takes all of them. */
#include "traces/encode.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "base/json.h"

#define STATUS_ERROR 2
#define FLAG_KNOWS_REMOTE 0x100       /* the next bit says whether the parent is remote */
#define FLAG_IS_REMOTE 0x200

static json_t *checked(json_t *value)    /* NULL: no memory, or a text that is not UTF-8 */
{
    check(value != NULL);
    return value;
}

static json_t *hex(const uint8_t *bytes, size_t count)
{
    char text[2 * sizeof(((struct span *)NULL)->id)];
    check(2 * count <= sizeof(text));
    hex_write(bytes, count, text);
    return checked(json_stringn(text, 2 * count));
}

static json_t *number(uint64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRIu64, value);
    return checked(json_string(text));
}

static json_t *text_attribute(const char *name, slice value)
{
    return checked(json_pack("{s:s, s:{s:s%}}", "key", name, "value", "stringValue", value.ptr,
                             value.len));
}

static json_t *attribute(const struct span *span, const struct span_attribute *of)
{
    if (of->is_text)
        return text_attribute(of->name, (slice){ span->text + of->at, of->len });
    return checked(json_pack("{s:s, s:{s:o}}", "key", of->name, "value", "intValue",
                             number((uint64_t)of->number)));
}

static void add(json_t *array, json_t *take_value)
{
    check(json_array_append_new(array, take_value) == 0);
}

static void set(json_t *object, const char *name, json_t *take_value)
{
    check(json_object_set_new(object, name, take_value) == 0);
}

static json_t *links_of(const struct span *span)
{
    json_t *links = checked(json_array());
    for (unsigned i = 0; i < span->link_count; i++) {
        const struct span_link *link = &span->links[i];
        add(links, checked(json_pack("{s:o, s:o}", "traceId", hex(link->id, sizeof(link->id)),
                                     "spanId", hex(link->span_id, sizeof(link->span_id)))));
    }
    return links;
}

static json_t *span_of(const struct span *span)
{
    static const uint8_t none[sizeof(span->parent_id)];
    char name[64];
    bool has_parent = !slice_eq((slice){ (const char *)span->parent_id, sizeof(none) },
                                (slice){ (const char *)none, sizeof(none) });
    snprintf(name, sizeof(name), "%s%s%s", span->method, *span->operation ? " " : "",
             span->operation);
    json_t *to = checked(json_pack("{s:o, s:o, s:s, s:i, s:o, s:o, s:i}",
        "traceId", hex(span->id, sizeof(span->id)),
        "spanId", hex(span->span_id, sizeof(span->span_id)), "name", name, "kind", (int)span->kind,
        "startTimeUnixNano", number(span->began_ns),
        "endTimeUnixNano", number(span->began_ns + span->took_ns),
        "flags", span->flags | FLAG_KNOWS_REMOTE | (span->remote ? FLAG_IS_REMOTE : 0)));
    if (has_parent)
        set(to, "parentSpanId", hex(span->parent_id, sizeof(span->parent_id)));
    json_t *attributes = checked(json_array());
    for (unsigned i = 0; i < span->attribute_count; i++)
        add(attributes, attribute(span, &span->attributes[i]));
    set(to, "attributes", attributes);
    if (span->link_count)
        set(to, "links", links_of(span));
    if (span->links_dropped)
        set(to, "droppedLinksCount", checked(json_integer(span->links_dropped)));
    if (span->failed)
        set(to, "status", checked(json_pack("{s:i}", "code", STATUS_ERROR)));
    return to;
}

static json_t *resource_of(const struct encode_source *from)
{
    return checked(json_pack("{s:[o, o, o, o]}", "attributes",
                             text_attribute("service.name", S("penstock")),
                             text_attribute("service.version", slice_of(from->version)),
                             text_attribute("service.instance.id", slice_of(from->instance)),
                             text_attribute("host.name", slice_of(from->host))));
}

char *encode_spans(const struct encode_source *from, const struct span *spans, size_t count)
{
    json_t *list = checked(json_array());
    for (size_t i = 0; i < count; i++)
        add(list, span_of(&spans[i]));
    json_t *all = checked(json_pack("{s:[{s:o, s:[{s:{s:s, s:s}, s:o}]}]}", "resourceSpans",
                                    "resource", resource_of(from), "scopeSpans", "scope", "name",
                                    "penstock", "version", from->version, "spans", list));
    char *body = json_dumps(all, JSON_COMPACT);
    check(body != NULL);
    json_decref(all);
    return body;
}

uint64_t encode_read_rejected(slice body, struct arena *keep, slice *ret_why)
{
    json_t *answer = json_loadb(body.ptr ? body.ptr : "", body.len, 0, NULL);
    json_t *partial = json_object_get(answer, "partialSuccess");
    json_t *count = json_object_get(partial, "rejectedSpans");
    uint64_t rejected = 0;
    json_int_t whole = json_integer_value(count);
    if (json_is_integer(count) && whole > 0)
        rejected = (uint64_t)whole;
    else if (json_is_string(count) && !slice_u64(json_text(count), &rejected))
        rejected = 0;
    slice why = json_text(json_object_get(partial, "errorMessage"));
    *ret_why = rejected ? arena_copy(keep, why) : S("");
    json_decref(answer);
    return rejected;
}
