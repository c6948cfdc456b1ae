/* log.c - one line an event: a name to grep, then key=value facts.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A line is built on the stack and leaves by one write of at most PIPE_BUF bytes, so lines of
 * several threads (or processes on one pipe) never mix, and logging allocates nothing. What is
 * longer is cut and says so. In JSON the same facts become members: whole numbers stay numbers,
 * a value in double quotes is always a string. Access lines take another way (log_access.c). */
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

bool log_says(enum log_level level)
{
    return (int)level >= atomic_load_explicit(&least_level, memory_order_relaxed);
}

/* The most that a member takes: six bytes for one, quotes, colon and comma. */
#define MEMBER_BYTES(name, value) (6 * ((name).len + (value).len) + 6)
/* Room for a line's end is set aside from the start. */
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

/* A byte that may not stand in a string as it is; how many bytes it took. */
static size_t put_code(char *to, unsigned char c)
{
    static const char digits[] = "0123456789abcdef";
    bool named = c == '"' || c == '\\';
    char mark[] = { '\\', (char)c };
    char code[] = { '\\', 'u', '0', '0', digits[c >> 4], digits[c & 15] };
    return slice_put(to, named ? (slice){ mark, sizeof(mark) } : (slice){ code, sizeof(code) });
}

static void add_escaped(struct line *line, slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        char code[8];
        size_t len = is_plain(c) ? slice_put(code, slice_sub(s, i, 1)) : put_code(code, c);
        add(line, (slice){ code, len });
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

/* A member where there is room for whatever its bytes become: the usual case, byte by byte. */
static char *put_string(char *to, slice s)
{
    *to++ = '"';
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (is_plain(c)) {
            *to++ = (char)c;
        } else {
            to += put_code(to, c);
        }
    }
    *to++ = '"';
    return to;
}

static void put_member(struct line *line, slice name, slice value, bool as_it_is)
{
    char *to = line->bytes + line->len;
    *to++ = ',';
    to = put_string(to, name);
    *to++ = ':';
    if (as_it_is)
        to += slice_put(to, value);
    else
        to = put_string(to, value);
    line->len = (size_t)(to - line->bytes);
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
        bool quoted = value.len >= 2 && value.ptr[0] == '"' && value.ptr[value.len - 1] == '"';
        bool number = !quoted && is_number(value);
        value = quoted ? slice_sub(value, 1, value.len - 2) : value;
        if (!line->cut && line->len + END_BYTES + MEMBER_BYTES(name, value) <= sizeof(line->bytes)) {
            put_member(line, name, value, number);
            continue;
        }
        size_t whole = line->len;    /* a member is there whole or not at all */
        add(line, S(","));
        add_string(line, name);
        add(line, S(":"));
        if (number)
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

/* How a line ends; one that was cut says so. */
static slice end_of(const struct line *line, bool json)
{
    if (line->cut)
        return json ? S(",\"cut\":true}\n") : S("...\n");
    return json ? S("}\n") : S("\n");
}

void log_line_build(struct line *line, const struct log_said *said)
{
    bool json = atomic_load_explicit(&as_json, memory_order_relaxed);
    line->len = 0;
    line->cut = false;
    if (json)
        add(line, S("{\"time\":\""));
    add_time(line, said->when_ns);
    add(line, json ? S("\",\"level\":\"") : S(" "));
    add(line, slice_of(level_names[said->level]));
    add(line, json ? S("\",\"event\":") : S(" "));
    if (json) {
        add_string(line, slice_of(said->event));
        add_facts_json(line, said->facts);
    } else {
        add(line, slice_of(said->event));
        if (said->facts.len)
            add_facts_text(line, said->facts);
    }
    line->len += slice_put(line->bytes + line->len, end_of(line, json));
}

/* Has stderr room for a line? A reader that stalls is waited for, but not for ever: its line is lost,
 * and while it stalls, so are others, soon. */
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
    check(level < LOG_LEVEL_OFF);
    if (!log_says(level))
        return;
    char facts[PIPE_BUF];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(facts, sizeof(facts), fmt, args);
    va_end(args);
    check(len >= 0);

    struct line line;
    struct log_said said = { clock_ns(CLOCK_REALTIME), level, event,
                             { facts, MIN((size_t)len, sizeof(facts) - 1) } };
    log_line_build(&line, &said);
    if (!takes_line())
        return;
    ssize_t ignored = write(STDERR_FILENO, line.bytes, line.len);    /* nobody left to tell */
    (void)ignored;
}

static bool is_special(unsigned char c)
{
    return c <= ' ' || c >= 0x7f || c == '"' || c == '\'' || c == '\\' || c == '%';
}

static slice escaped(struct arena *keep, slice value, const char *stays)
{
    struct text text = text_in(keep);
    size_t plain = 0;
    while (plain < value.len && !is_special((unsigned char)value.ptr[plain]))
        plain++;
    if (plain == value.len)
        return arena_copy(keep, value);    /* most are */
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        bool special = is_special(c);
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
