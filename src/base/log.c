/* log.c - one line an event: a name to grep, then key=value facts.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A line is built on the stack and leaves by one write of at most PIPE_BUF bytes, so lines of
 * several threads (or processes on one pipe) never mix, and logging allocates nothing. What is
 * longer is cut and says so. In JSON the same facts become members: whole numbers stay numbers,
 * a value in double quotes is always a string. */
#include "base/log.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

static const char *const level_names[] = { "debug", "info", "warn", "error", "off" };

static atomic_int least_level = LOG_LEVEL_INFO;
static atomic_bool as_json;

void log_setup(enum log_level least, bool json)
{
    atomic_store_explicit(&least_level, (int)least, memory_order_relaxed);
    atomic_store_explicit(&as_json, json, memory_order_relaxed);
}

/* A line under construction. Room for its end is set aside from the start. */
struct line {
    size_t len;
    bool cut;
    char bytes[PIPE_BUF];
};
#define END_BYTES sizeof(",\"cut\":true}\n")

static void add(struct line *line, slice s)
{
    size_t room = sizeof(line->bytes) - END_BYTES - line->len;
    if (s.len > room || line->cut) {
        line->cut = true;
        return;
    }
    memcpy(line->bytes + line->len, s.ptr, s.len);
    line->len += s.len;
}

static void add_escaped(struct line *line, slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        char code[8];
        if (c == '"' || c == '\\')
            snprintf(code, sizeof(code), "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            snprintf(code, sizeof(code), "\\u%04x", c);
        else
            snprintf(code, sizeof(code), "%c", c);
        add(line, slice_of(code));
    }
}

static void add_string(struct line *line, slice s)
{
    add(line, S("\""));
    add_escaped(line, s);
    add(line, S("\""));
}

/* What JSON takes for a whole number, short enough for a double to hold. */
static bool is_number(slice s)
{
    if (slice_starts(s, S("-")))
        s = slice_from(s, 1);
    uint64_t ignored;
    return s.len <= 15 && (s.len == 1 || !slice_starts(s, S("0"))) && slice_u64(s, &ignored);
}

/* Cuts the next word off the facts; double quotes hold spaces together. */
static slice next_word(slice *facts)
{
    size_t len = 0;
    bool quoted = false;
    for (; len < facts->len && (quoted || facts->ptr[len] != ' '); len++)
        if (facts->ptr[len] == '"')
            quoted = !quoted;
    slice word = slice_sub(*facts, 0, len);
    *facts = slice_from(*facts, len + 1);
    return word;
}

static void add_facts_json(struct line *line, slice facts)
{
    while (facts.len) {
        slice value = next_word(&facts);
        if (value.len == 0)
            continue;
        slice name = slice_cut(&value, '=');
        size_t whole = line->len;    /* a member is there whole or not at all */
        add(line, S(","));
        add_string(line, name);
        add(line, S(":"));
        if (value.len >= 2 && slice_starts(value, S("\"")) && slice_ends(value, S("\"")))
            add_string(line, slice_sub(value, 1, value.len - 2));
        else if (is_number(value))
            add(line, value);
        else
            add_string(line, value);
        if (line->cut)
            line->len = whole;
    }
}

/* Control bytes in a text line would make it two, or paint the reader's terminal. */
static void add_facts_text(struct line *line, slice facts)
{
    size_t room = sizeof(line->bytes) - END_BYTES - line->len;
    bool cut = facts.len + 1 > room;
    add(line, S(" "));
    size_t start = line->len;
    add(line, slice_sub(facts, 0, room - 1));
    line->cut = cut;
    for (size_t i = start; i < line->len; i++)
        if ((unsigned char)line->bytes[i] < 0x20 || line->bytes[i] == 0x7f)
            line->bytes[i] = '?';
}

static void add_time(struct line *line)
{
    uint64_t now_ns = clock_ns(CLOCK_REALTIME);
    time_t now_s = (time_t)(now_ns / 1000000000u);
    struct tm tm;
    gmtime_r(&now_s, &tm);
    char stamp[64];
    strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
    char whole[80];
    snprintf(whole, sizeof(whole), "%s.%03uZ", stamp, (unsigned)(now_ns / 1000000u % 1000u));
    add(line, slice_of(whole));
}

/* How a line ends; one that was cut says so. */
static slice end_of(const struct line *line, bool json)
{
    if (line->cut)
        return json ? S(",\"cut\":true}\n") : S("...\n");
    return json ? S("}\n") : S("\n");
}

static void build(struct line *line, bool json, enum log_level level, const char *event,
                  slice facts)
{
    line->len = 0;
    line->cut = false;
    if (json)
        add(line, S("{\"time\":\""));
    add_time(line);
    add(line, json ? S("\",\"level\":\"") : S(" "));
    add(line, slice_of(level_names[level]));
    add(line, json ? S("\",\"event\":") : S(" "));
    if (json) {
        add_string(line, slice_of(event));
        add_facts_json(line, facts);
    } else {
        add(line, slice_of(event));
        if (facts.len)
            add_facts_text(line, facts);
    }
    line->len += slice_put(line->bytes + line->len, end_of(line, json));
}

void log_event(enum log_level level, const char *event, const char *fmt, ...)
{
    check(level < LOG_LEVEL_OFF);
    if ((int)level < atomic_load_explicit(&least_level, memory_order_relaxed))
        return;
    char facts[PIPE_BUF];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(facts, sizeof(facts), fmt, args);
    va_end(args);
    check(len >= 0);

    struct line line;
    slice said = { facts, MIN((size_t)len, sizeof(facts) - 1) };
    build(&line, atomic_load_explicit(&as_json, memory_order_relaxed), level, event, said);
    ssize_t ignored = write(STDERR_FILENO, line.bytes, line.len);    /* nobody left to tell */
    (void)ignored;
}

static slice escaped(struct arena *keep, slice value, const char *stays)
{
    struct text text = text_in(keep);
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        bool special = c <= ' ' || c >= 0x7f || strchr("\"'\\%", c);
        if (special && (!c || !strchr(stays, c)))
            text_printf(&text, "%%%02X", c);
        else
            text_char(&text, (char)c);
    }
    return text_slice(&text);
}

slice log_word(struct arena *keep, slice value)
{
    return escaped(keep, value, "");
}

slice log_sentence(struct arena *keep, slice value)
{
    return escaped(keep, value, " '");
}
