/* request_head.c - the raw head of an HTTP/1.1 request, judged. SPDX-License-Identifier: Apache-2.0
 *
 * The scan is one pass from left to right. Each step takes its bytes, or returns an error with the
 * reason. A step that runs out of bytes returns ERR_MORE. All whole lines before that point have
 * been judged, so a head is refused at the end of its first bad line, or before. The fields that
 * frame a message are rows of a table. Host, Content-Length and Transfer-Encoding are read more
 * strictly than RFC 9112 requires: if a lenient and a strict parser could differ, the head is
 * refused. Invariant: after OK the lines are exactly method SP target SP version CRLF, then name
 * ":" value CRLF for each field, then CRLF, and head->bytes is their length. Any thread may call
 * these functions. */
#include "s3/request_head.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NAME_BYTES_MAX 100      /* of the name of a header or host that a message quotes */

enum class {
    TOKEN = 1,      /* names and methods (RFC 9110 tchar) */
    TARGET = 2,     /* visible ASCII but '#' */
    VALUE = 4,      /* no control byte but the tab */
    HOST = 8        /* bytes of a host with a port */
};

static const uint8_t classes[256] = {
    ['\t'] = VALUE, [' '] = VALUE,
    ['!'] = TOKEN | TARGET | VALUE, ['"'] = TARGET | VALUE, ['#'] = TOKEN | VALUE,
    ['$' ... '\''] = TOKEN | TARGET | VALUE, ['(' ... ')'] = TARGET | VALUE,
    ['*' ... '+'] = TOKEN | TARGET | VALUE, [','] = TARGET | VALUE,
    ['-' ... '.'] = TOKEN | TARGET | VALUE | HOST, ['/'] = TARGET | VALUE,
    ['0' ... '9'] = TOKEN | TARGET | VALUE | HOST, [':'] = TARGET | VALUE | HOST,
    [';' ... '@'] = TARGET | VALUE, ['A' ... 'Z'] = TOKEN | TARGET | VALUE | HOST,
    ['['] = TARGET | VALUE | HOST, ['\\'] = TARGET | VALUE, [']'] = TARGET | VALUE | HOST,
    ['^'] = TOKEN | TARGET | VALUE, ['_'] = TOKEN | TARGET | VALUE | HOST,
    ['`'] = TOKEN | TARGET | VALUE, ['a' ... 'z'] = TOKEN | TARGET | VALUE | HOST,
    ['{'] = TARGET | VALUE, ['|'] = TOKEN | TARGET | VALUE, ['}'] = TARGET | VALUE,
    ['~'] = TOKEN | TARGET | VALUE, [0x80 ... 0xff] = VALUE,
};

bool http_name_is_valid(slice name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!(classes[(uint8_t)name.ptr[i]] & TOKEN))
            return false;
    return name.len > 0;
}

struct scan {
    const char *at, *end;
    struct request_head *head;
    const char *why;
    slice authority, default_port;    /* of a target that is a URL; ":80" or ":443" */
    bool seen_host, seen_expect, seen_keep_alive;
};

static enum err bad(struct scan *scan, const char *why)
{
    scan->why = why;
    return ERR_BAD_HEAD;
}

/* Like bad(), but makes the sentence, which names a header or host. The sentence is valid until
 * this thread's next one. */
static enum err PRINTF_LIKE(2, 3) bad_field(struct scan *scan, const char *fmt, ...)
{
    static _Thread_local char why[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof(why), fmt, args);
    va_end(args);
    return bad(scan, why);
}

static slice run_of(struct scan *scan, enum class class)
{
    const char *start = scan->at, *at = start;
    while (at < scan->end && classes[(uint8_t)*at] & class)
        at++;
    scan->at = at;
    return (slice){ start, (size_t)(at - start) };
}

/* Takes a run of VALUE bytes. Most bytes of a head belong to values, so the code judges eight bytes
 * at a time as long as none of them is a control byte. */
static slice run_of_value(struct scan *scan)
{
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    const char *start = scan->at;
    while (scan->end - scan->at >= 8) {
        uint64_t eight;
        memcpy(&eight, scan->at, 8);
        uint64_t del = eight ^ 0x7f * ones;
        if (((eight - 0x20 * ones) & ~eight & tops) | ((del - ones) & ~del & tops))
            break;
        scan->at += 8;
    }
    run_of(scan, VALUE);
    return (slice){ start, (size_t)(scan->at - start) };
}

/* Takes exactly these bytes. Refuses the head at the first byte that differs. */
static enum err literal(struct scan *scan, slice text, const char *why)
{
    for (size_t i = 0; i < text.len; i++) {
        if (scan->at == scan->end)
            return ERR_MORE;
        if (*scan->at != text.ptr[i])
            return bad(scan, why);
        scan->at++;
    }
    return OK;
}

/* Reads the front of a target that is a whole URL (RFC 9112 section 3.2.2), up to its path. The
 * scheme need not be that of this connection, because a proxy before Penstock may end TLS.
 * read_host compares the authority. */
static enum err url_front(struct scan *scan)
{
    const char *why = "the request target must be a path, or a URL that begins with http:// or "
                      "https://";
    slice scheme = run_of(scan, TOKEN);
    if (scan->at == scan->end)
        return ERR_MORE;
    if (slice_eq(scan->head->method, S("PRI")))
        return bad(scan, "the client began with HTTP/2, and Penstock speaks only HTTP/1.1: switch "
                         "HTTP/2 off in the client");
    if (slice_eq(scan->head->method, S("CONNECT")))
        return bad(scan, "the method CONNECT is for proxies, and Penstock is not a proxy: remove "
                         "Penstock from the client's proxy settings");
    bool secure = slice_eq_nocase(scheme, S("https"));
    if (!secure && !slice_eq_nocase(scheme, S("http")))
        return bad(scan, why);
    enum err e = literal(scan, S("://"), why);
    if (e)
        return e;
    scan->default_port = secure ? S(":443") : S(":80");
    scan->authority = run_of(scan, HOST);
    if (scan->at == scan->end)
        return ERR_MORE;
    if (*scan->at == '@')
        return bad(scan, "the URL in the request line has a user before its host: remove the user");
    if (!scan->authority.len || !slice_has(S("/? "), *scan->at))
        return bad(scan, "the URL in the request line must have HOST or HOST:PORT after ://");
    return OK;
}

/* Sets path and query, for a target that is a path or a URL. If a URL has no path, the path is "/".
 * The slice must point into the head, so it points to the slash before the host. */
static enum err read_target(struct scan *scan)
{
    struct request_head *head = scan->head;
    if (scan->at == scan->end)
        return ERR_MORE;
    enum err e = *scan->at == '/' ? OK : url_front(scan);
    if (e)
        return e;
    slice rest = run_of(scan, TARGET);
    head->path = slice_cut(&rest, '?');
    if (!head->path.len)
        head->path = (slice){ scan->authority.ptr - 1, 1 };
    head->query = rest;
    return OK;
}

static enum err request_line(struct scan *scan)
{
    struct request_head *head = scan->head;
    head->method = run_of(scan, TOKEN);
    if (scan->at == scan->end)
        return ERR_MORE;
    if (!head->method.len || *scan->at++ != ' ')
        return bad(scan, "the request line must begin with a method and one space");
    enum err e = read_target(scan);
    if (e)
        return e;
    if (scan->at == scan->end)
        return ERR_MORE;
    if (*scan->at++ != ' ')
        return bad(scan, "the request target has a byte that must be percent-encoded, or no "
                         "HTTP/1.1 after it: encode the byte, or add one space and HTTP/1.1");
    e = literal(scan, S("HTTP/"), "the request target must be followed by one space and HTTP/1.1: "
                                  "encode each space in the target as %20");
    if (!e)
        e = literal(scan, S("1."), "the request's HTTP version is neither 1.0 nor 1.1: use "
                                   "HTTP/1.1");
    if (e)
        return e;
    if (scan->at == scan->end)
        return ERR_MORE;
    if (*scan->at != '0' && *scan->at != '1')
        return bad(scan, "the request's HTTP version is neither 1.0 nor 1.1: use HTTP/1.1");
    head->minor = *scan->at++ - '0';
    return literal(scan, S("\r\n"), "the request line must end with CR LF");
}

/* Returns the host without `port` at its end (the default port of the scheme, as ":80"), and
 * without an empty port (":"). */
static slice without_port(slice host, slice port)
{
    if (slice_ends(host, port))
        return slice_sub(host, 0, host.len - port.len);
    return slice_ends(host, S(":")) ? slice_sub(host, 0, host.len - 1) : host;
}

/* True if the Host is the same as the authority of a target that is a URL. In RFC 9112 the
 * authority overrules the Host. But signature and bucket depend on the Host, and a proxy may use
 * one or the other. So the two must be the same. */
static bool is_of_target(const struct scan *scan, slice host)
{
    return !scan->authority.len ||
           slice_eq_nocase(without_port(scan->authority, scan->default_port),
                           without_port(host, scan->default_port));
}

static enum err read_host(struct scan *scan, slice value)
{
    if (scan->seen_host)
        return bad(scan, "the request has more than one Host header: send one");
    scan->seen_host = true;
    scan->head->host = value;
    for (size_t i = 0; i < value.len; i++)
        if (!(classes[(uint8_t)value.ptr[i]] & HOST))
            return bad(scan, "the Host header must be HOST or HOST:PORT");
    if (!value.len)
        return bad(scan, "the Host header is empty: name the host there");
    if (is_of_target(scan, value))
        return OK;
    return bad_field(scan, "the Host header, %.*s, differs from the host of the URL in the request "
                     "line, %.*s: send the same in both, and check any proxy between client and "
                     "Penstock", SLICE_ARG(slice_sub(value, 0, NAME_BYTES_MAX)),
                     SLICE_ARG(slice_sub(scan->authority, 0, NAME_BYTES_MAX)));
}

static enum err read_length(struct scan *scan, slice value)
{
    if (scan->head->has_length)
        return bad(scan, "the request has more than one Content-Length header: send one");
    if (scan->head->chunked)
        return bad(scan, "the request has both Content-Length and Transfer-Encoding: send one of "
                         "them");
    bool padded = value.len > 1 && value.ptr[0] == '0';
    if (padded || !slice_u64(value, &scan->head->length) || scan->head->length > INT64_MAX)
        return bad(scan, "the Content-Length must be a decimal number below 2^63, without "
                         "leading zeros");
    scan->head->has_length = true;
    return OK;
}

static enum err read_coding(struct scan *scan, slice value)
{
    if (scan->head->chunked)
        return bad(scan, "the request has more than one Transfer-Encoding header: send one");
    if (scan->head->has_length)
        return bad(scan, "the request has both Content-Length and Transfer-Encoding: send one of "
                         "them");
    if (scan->head->minor == 0)
        return bad(scan, "a request of HTTP/1.0 must not have a Transfer-Encoding: send a "
                         "Content-Length");
    if (!slice_eq(value, S("chunked")))
        return bad(scan, "the Transfer-Encoding must be exactly \"chunked\"");
    scan->head->chunked = true;
    return OK;
}

static enum err read_expect(struct scan *scan, slice value)
{
    if (scan->seen_expect)
        return bad(scan, "the request has more than one Expect header: send one");
    scan->seen_expect = true;
    scan->head->expect_continue =    /* other expectations are ignored */
        scan->head->minor == 1 && slice_eq_nocase(value, S("100-continue"));
    return OK;
}

static enum err read_connection(struct scan *scan, slice value)
{
    scan->head->close |= slice_list_has(value, ',', S("close"));
    scan->seen_keep_alive |= slice_list_has(value, ',', S("keep-alive"));
    return OK;
}

static const struct {
    slice name;
    bool exact;    /* only spaces may stand before the value, and nothing after it */
    enum err (*read)(struct scan *scan, slice value);
} known[] = {
    { { "host", 4 }, true, read_host },
    { { "content-length", 14 }, true, read_length },
    { { "transfer-encoding", 17 }, true, read_coding },
    { { "expect", 6 }, false, read_expect },
    { { "connection", 10 }, false, read_connection },
};

static enum err judge_field(struct scan *scan, slice name, slice raw, slice value)
{
    for (size_t i = 0; i < countof(known); i++) {
        if (name.len != known[i].name.len || !slice_eq_nocase(name, known[i].name))
            continue;
        if (known[i].exact && (slice_has(raw, '\t') || (raw.len && raw.ptr[raw.len - 1] == ' ')))
            return bad_field(scan, "the header %.*s has a tab, or a space at its end: remove the "
                             "tab or space", SLICE_ARG(name));
        return known[i].read(scan, value);
    }
    return OK;
}

/* Refuses the byte at which a header's value ended without CR LF. */
static enum err bad_end(struct scan *scan, slice name)
{
    name = slice_sub(name, 0, NAME_BYTES_MAX);
    if (*scan->at == '\n' || scan->at[-1] == '\r')
        return bad_field(scan, "the line of the header %.*s has a CR without LF, or an LF without "
                               "CR: end each line with CR LF", SLICE_ARG(name));
    return bad_field(scan, "the header %.*s has the control byte 0x%02x: remove this byte",
                     SLICE_ARG(name), (unsigned)(uint8_t)*scan->at);
}

static enum err field_line(struct scan *scan)
{
    struct request_head *head = scan->head;
    if (*scan->at == ' ' || *scan->at == '\t')
        return bad(scan, "a header line begins with a space or a tab (a folded line): write each "
                         "header in one line");
    slice name = run_of(scan, TOKEN);
    if (scan->at == scan->end)
        return ERR_MORE;
    if (!name.len || *scan->at != ':')
        return bad(scan, "a header line must begin with a name and, directly after it, a colon");
    scan->at++;
    slice raw = run_of_value(scan);
    if (scan->at == scan->end)
        return ERR_MORE;
    enum err e = literal(scan, S("\r\n"), "");
    if (e)
        return e == ERR_BAD_HEAD ? bad_end(scan, name) : e;
    if (head->field_count == HTTP_FIELDS_MAX) {
        scan->why = "the request has more than 768 headers: send fewer";
        return ERR_HEAD_TOO_LARGE;
    }
    slice value = slice_trim(raw);
    head->fields[head->field_count++] = (struct http_field){ name, value };
    return judge_field(scan, name, raw, value);
}

static enum err scan_lines(struct scan *scan)
{
    enum err e = request_line(scan);
    while (!e) {
        if (scan->at == scan->end)
            return ERR_MORE;
        if (*scan->at == '\r')
            break;
        e = field_line(scan);
    }
    if (e)
        return e;
    e = literal(scan, S("\r\n"), "a CR in the request head has no LF after it: end each line with "
                                 "CR LF");
    if (e)
        return e;
    if (!scan->seen_host)
        return bad(scan, "the request has no Host header: send one");
    if (scan->head->minor == 0 && !scan->seen_keep_alive)
        scan->head->close = true;
    return OK;
}

enum err request_head_scan(slice bytes, struct request_head *ret, const char **ret_why)
{
    memset(ret, 0, offsetof(struct request_head, fields));
    size_t len = MIN(bytes.len, (size_t)REQUEST_HEAD_BYTES_MAX);
    struct scan scan = { .at = bytes.ptr, .end = bytes.len ? bytes.ptr + len : bytes.ptr,
                         .head = ret };
    enum err e = scan_lines(&scan);
    if (e == ERR_MORE && bytes.len >= REQUEST_HEAD_BYTES_MAX) {
        scan.why = "the request head is larger than 32 KiB: send fewer or shorter headers, or a "
                   "shorter URL";
        e = ERR_HEAD_TOO_LARGE;
    }
    check(scan.at <= scan.end && ret->field_count <= HTTP_FIELDS_MAX);
    if (e == OK)
        ret->bytes = (size_t)(scan.at - bytes.ptr);
    if (ret_why)
        *ret_why = scan.why;
    return e;
}

slice http_field_get(const struct http_field *fields, size_t count, slice name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq_nocase(fields[i].name, name))
            return fields[i].value;
    return (slice){ NULL, 0 };
}

struct http_field *http_fields_copy(struct arena *keep, const struct http_field *fields,
                                    size_t count)
{
    struct http_field *copy = arena_alloc(keep, (count + 1) * sizeof(*copy));
    for (size_t i = 0; i < count; i++)
        copy[i] = (struct http_field){ arena_copy(keep, fields[i].name),
                                       arena_copy(keep, fields[i].value) };
    return copy;
}

slice request_head_get(const struct request_head *head, slice name)
{
    return http_field_get(head->fields, head->field_count, name);
}
