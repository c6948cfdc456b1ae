/* log.c - one line for each event: a name to grep, then key=value facts.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A line is built on the stack and written by one call of write, with at most PIPE_BUF bytes. So
 * lines of several threads, or of several processes on one pipe, never mix, and logging allocates
 * no memory. A longer line is cut and marked. In JSON the same facts become members: whole numbers
 * of at most 15 digits stay numbers, and a value in double quotes is always a string. log_access.c
 * writes access lines, of which each request has one. log_kept.c keeps warnings and errors in
 * memory. */
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log_inside.h"

#define PATIENCE_MS 500
#define STALLING_MS 20

static const char *const level_names[] = { "debug", "info", "warn", "error", "off" };

static atomic_int least_level = LOG_LEVEL_INFO;
static atomic_bool as_json;

void log_setup(enum log_level least, bool json)
{
    atomic_store_explicit(&least_level, (int)least, memory_order_relaxed);
    atomic_store_explicit(&as_json, json, memory_order_relaxed);
}

bool log_enabled(enum log_level level)
{
    return (int)level >= atomic_load_explicit(&least_level, memory_order_relaxed);
}

const char *log_level_name(enum log_level level)
{
    check(level < countof(level_names));
    return level_names[level];
}

#define CODE_BYTES_MAX 6    /* the longest code of one byte: "\\u001b" */
/* Room for the end of a line is reserved from the start. */
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

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c != 0x7f && c != '"' && c != '\\';
}

/* Writes the escape code of a byte that must not stand in a JSON string unescaped. Returns the
 * length of the code. */
static size_t put_code(char *to, unsigned char c)
{
    static const char digits[] = "0123456789abcdef";
    bool short_code = c == '"' || c == '\\';
    char mark[] = { '\\', (char)c };
    char code[] = { '\\', 'u', '0', '0', digits[c >> 4], digits[c & 15] };
    return slice_put(to, short_code ? (slice){ mark, sizeof(mark) }
                                    : (slice){ code, sizeof(code) });
}

bool log_is_number(slice s)
{
    if (slice_starts(s, S("-")))
        s = slice_from(s, 1);
    uint64_t ignored;
    return s.len <= 15 && (s.len == 1 || !slice_starts(s, S("0"))) && slice_u64(s, &ignored);
}

/* Writes the character `before`, then the string. Returns the end of the text, or NULL if it does
 * not fit before `end`. */
static char *put_string(char *to, const char *end, char before, slice s, bool quotes)
{
    if (!to || end - to < 3)
        return NULL;
    *to++ = before;
    if (quotes)
        *to++ = '"';
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (end - to <= CODE_BYTES_MAX)
            return NULL;
        if (is_plain(c))
            *to++ = (char)c;
        else
            to += put_code(to, c);
    }
    if (quotes)
        *to++ = '"';
    return to;
}

/* Adds a whole member, or nothing. The first member that does not fit ends the line. */
static void add_member(struct line *line, slice name, slice value, bool quotes)
{
    const char *end = line->bytes + sizeof(line->bytes) - END_BYTES;
    char *to = line->cut ? NULL : put_string(line->bytes + line->len, end, ',', name, true);
    to = put_string(to, end, ':', value, quotes);
    line->cut = !to;
    if (to)
        line->len = (size_t)(to - line->bytes);
}

slice log_next_word(slice *facts)
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
        slice value = log_next_word(&facts);
        if (value.len == 0)
            continue;
        slice name = slice_cut(&value, '=');
        bool quoted = value.len >= 2 && value.ptr[0] == '"' && value.ptr[value.len - 1] == '"';
        if (quoted)
            add_member(line, name, slice_sub(value, 1, value.len - 2), true);
        else
            add_member(line, name, value, !log_is_number(value));
    }
}

/* Adds the facts, with '?' in place of control bytes, which would split a line, or control the
 * reader's terminal. */
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

static void add_digits(struct line *line, unsigned value, size_t width, char behind)
{
    char text[8];
    check(width < sizeof(text));
    for (size_t i = width; i-- > 0; value /= 10)
        text[i] = (char)('0' + value % 10);
    text[width] = behind;
    add(line, (slice){ text, width + 1 });
}

static void add_time(struct line *line, uint64_t when_ns)
{
    time_t when_s = (time_t)(when_ns / 1000000000u);
    struct tm tm;
    gmtime_r(&when_s, &tm);
    add_digits(line, (unsigned)tm.tm_year + 1900, 4, '-');
    add_digits(line, (unsigned)tm.tm_mon + 1, 2, '-');
    add_digits(line, (unsigned)tm.tm_mday, 2, 'T');
    add_digits(line, (unsigned)tm.tm_hour, 2, ':');
    add_digits(line, (unsigned)tm.tm_min, 2, ':');
    add_digits(line, (unsigned)tm.tm_sec, 2, '.');
    add_digits(line, (unsigned)(when_ns / 1000000u % 1000u), 3, 'Z');
}

/* Returns the end of a line, with a mark if the line was cut. */
static slice end_of(const struct line *line, bool json)
{
    if (line->cut)
        return json ? S(",\"cut\":true}\n") : S("...\n");
    return json ? S("}\n") : S("\n");
}

void log_line_build(struct line *line, const struct log_entry *entry)
{
    bool json = atomic_load_explicit(&as_json, memory_order_relaxed);
    line->len = 0;
    line->cut = false;
    if (json)
        add(line, S("{\"time\":\""));
    add_time(line, entry->when_ns);
    add(line, json ? S("\",\"level\":\"") : S(" "));
    add(line, slice_of(level_names[entry->level]));
    add(line, json ? S("\"") : S(" "));
    if (json) {
        add_member(line, S("event"), slice_of(entry->event), true);
        add_facts_json(line, entry->facts);
    } else {
        add(line, slice_of(entry->event));
        if (entry->facts.len)
            add_facts_text(line, entry->facts);
    }
    line->len += slice_put(line->bytes + line->len, end_of(line, json));
}

/* Waits until stderr has room for a line, at most PATIENCE_MS. Returns false if there is no room;
 * then the line is lost. While the reader of stderr stalls, later lines wait only STALLING_MS. */
static bool takes_line(void)
{
    static atomic_bool stalls;
    struct pollfd out = { .fd = STDERR_FILENO, .events = POLLOUT };
    bool takes = poll(&out, 1, atomic_load(&stalls) ? STALLING_MS : PATIENCE_MS) != 0;
    atomic_store(&stalls, !takes);
    return takes;
}

void log_event(enum log_level level, const char *event, const char *fmt, ...)
{
    bool keeps = level >= LOG_LEVEL_WARN;
    check(level < LOG_LEVEL_OFF);
    if (!keeps && !log_enabled(level))
        return;
    char facts[PIPE_BUF];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(facts, sizeof(facts), fmt, args);
    va_end(args);
    check(len >= 0);

    struct line line;
    struct log_entry entry = { clock_ns(CLOCK_REALTIME), level, event,
                             { facts, MIN((size_t)len, sizeof(facts) - 1) } };
    if (keeps)
        log_keep(&entry);
    if (!log_enabled(level))
        return;
    log_line_build(&line, &entry);
    if (!takes_line())
        return;
    (void)!write(STDERR_FILENO, line.bytes, line.len);  /* no place is left to log an error */
}

static bool is_special(unsigned char c)
{
    return c <= ' ' || c >= 0x7f || c == '"' || c == '\'' || c == '\\' || c == '%';
}

static slice escaped(struct arena *keep, slice value, bool is_sentence)
{
    struct text text = text_in(keep);
    size_t plain = 0;
    while (plain < value.len && !is_special((unsigned char)value.ptr[plain]))
        plain++;
    if (plain == value.len)
        return arena_copy(keep, value);    /* most values need no escapes */
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        if (c == '"' && is_sentence)
            text_char(&text, '\'');
        else if (is_special(c) && !(is_sentence && (c == ' ' || c == '\'')))
            text_printf(&text, "%%%02X", c);
        else
            text_char(&text, (char)c);
    }
    return text_slice(&text);
}

slice log_word(struct arena *keep, slice value)
{
    return escaped(keep, value, false);
}

slice log_sentence(struct arena *keep, slice value)
{
    return escaped(keep, value, true);
}
