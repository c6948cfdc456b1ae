/* refusal.c - explains why the service did not do what a command asked for.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every message says what happened, why, and what to do. A table has a row for each S3 error code
 * that needs words of its own. If such a code may have several causes, the row repeats the message
 * of the answer (%M). */
#include <string.h>

#include "cli/server.h"
#include "s3/xml.h"

#define QUOTED_MAX 300u    /* bytes of an answer that a message repeats */
#define CODE_MAX 60u

/* Texts of a row: %U the URL and its source, %K the access key and its source, %R the right,
 * %B the bucket, %M the answer's message. */
static const struct {
    const char *code, *text;
} rows[] = {
    { "InvalidAccessKeyId", "%U does not know the access key %K, or knows it only with a session "
      "token. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to a pair in the settings of the "
      "service: access_key and secret_key, or a row of \"keys\". If that row has a session_token, "
      "set AWS_SESSION_TOKEN, too" },
    { "SignatureDoesNotMatch", "%U knows the access key %K, but with another secret key. Set the "
      "secret key that belongs to this access key" },
    { "InvalidToken", "%U has the access key %K with another session token, or with none. Send "
      "the session token that the settings of the service have for this key (AWS_SESSION_TOKEN); "
      "if they have none, send none" },
    { "RequestTimeTooSkewed", "the clock of this machine and that of %U differ by more than 15 "
      "minutes. Set the clock that is wrong" },
    { "AuthorizationHeaderMalformed", "%U refuses the signature: %M. If its setting \"regions\" "
      "names other regions, set AWS_REGION to one of them" },
    { "AccessDenied", "%U refuses the request of the access key %K: %M. If this message names no "
                      "other reason, the access key needs the right %R" },
    { "NoSuchBucket", "%U has no bucket %B. Check the name. If the bucket is at an origin, "
      "the settings of the service must name that origin" },
    { "NoSuchJob", "%U has no job with this id in the bucket %B, or another client started it. penstock "
      "jobs s3://%B shows the jobs that the access key %K may see" },
    { "SlowDown", "%U can't do this now: %M" },
    { "ServiceUnavailable", "%U can't do this now: %M" },
};

static void add_message(struct text *to, slice message)
{
    bool plain = message.len && message.len < QUOTED_MAX;
    while (message.len && slice_has(S(". "), message.ptr[message.len - 1]))
        message.len--;
    show_name(to, plain ? message : S("without an explanation"));
}

static void add_part(struct text *to, char part, const struct server *server,
                     const struct question *question, slice message)
{
    if (part == 'U')
        text_printf(to, "%.*s (%.*s)", SLICE_ARG(server->url), SLICE_ARG(server->url_from));
    else if (part == 'K')
        text_printf(to, "%.*s (from %.*s)", SLICE_ARG(server->keys.access_key),
                    SLICE_ARG(server->keys_from));
    else if (part == 'R')
        text_printf(to, "%s", question->right);
    else if (part == 'B')
        show_name(to, question->of.bucket);
    else
        add_message(to, message);
}

static void report(const struct server *server, const struct question *question, const char *text,
                   slice message, struct arena *keep)
{
    struct text line = text_in(keep);
    for (slice rest = slice_of(text); rest.len;) {
        slice plain = slice_cut(&rest, '%');
        text_add(&line, plain);
        if (!rest.len)
            break;
        add_part(&line, rest.ptr[0], server, question, message);
        rest = slice_from(rest, 1);
    }
    fprintf(stderr, "penstock %s: %.*s\n", server->command, (int)line.len, line.ptr);
}

/* For answers that no Penstock of this version gives. */
static void report_other(const struct server *server, const struct question *question,
                         const struct refused *refused, slice code, slice message,
                         struct arena *keep)
{
    slice name = slice_sub(question->query, 0, MIN(slice_find(question->query, S("&")),
                                                   slice_find(question->query, S("="))));
    bool is_penstock = slice_starts_nocase(refused->software, S("penstock"));
    struct text text = text_in(keep);
    text_printf(&text, "%%U answered %d", refused->status);
    if (code.len)
        text_printf(&text, " %.*s (%%M)", SLICE_ARG(code));
    if (is_penstock)
        text_printf(&text, " to %.*s. The service may be an older version of Penstock than this "
                    "command, or this address is its admin_listen. Give the address of the setting "
                    "\"listen\", or upgrade the service", SLICE_ARG(name));
    else
        text_printf(&text, " to %.*s, so this server is not a Penstock, or is a Penstock of "
                    "another version. Give the address of the Penstock by --url http://HOST:PORT "
                    "or AWS_ENDPOINT_URL",
                    SLICE_ARG(name));
    report(server, question, arena_copy(keep, text_slice(&text)).ptr, message, keep);
}

static void read_error(const struct refused *refused, struct arena *keep, slice *ret_code,
                       slice *ret_message)
{
    *ret_code = *ret_message = S("");
    if (refused->status && xml_read_error(keep, refused->body, ret_code, ret_message))
        *ret_code = *ret_message = S("");
    if (ret_code->len > CODE_MAX || !slice_only(*ret_code, LOWER_CHARS UPPER_CHARS DIGIT_CHARS))
        *ret_code = S("");
}

bool refusal_is_busy(const struct refused *refused, struct arena *keep)
{
    slice code, message;
    read_error(refused, keep, &code, &message);
    return refused->status == 503 && slice_eq(code, S("SlowDown")) &&
           slice_starts(message, S("Please reduce"));    /* other messages say what to do */
}

void refusal_report(const struct server *server, const struct question *question,
                    const struct refused *refused, struct arena *keep)
{
    slice code, message;
    bool no_penstock = refused->status / 100 == 2 || refused->status == 405 ||
                       refused->status == 501;
    if (!refused->status) {
        report(server, question, refused->late
               ? "%U did not answer in time. Give it more time by --timeout SECONDS"
               : "can't ask %U: %M. Check that the service runs. If the address begins with https, "
                 "check also that this machine trusts the service's certificate (AWS_CA_BUNDLE). "
                 "If the service has another address, give it by --url or AWS_ENDPOINT_URL",
                 refused->why, keep);
        return;
    }
    read_error(refused, keep, &code, &message);
    for (size_t i = 0; i < countof(rows) && !no_penstock; i++) {
        if (!slice_eq(code, slice_of(rows[i].code)))
            continue;
        report(server, question, rows[i].text, message, keep);
        return;
    }
    bool is_penstock = slice_starts_nocase(refused->software, S("penstock"));
    if (no_penstock || !is_penstock || !code.len)
        report_other(server, question, refused, code, message, keep);
    else
        report(server, question, arena_printf(keep, "%%U refuses this: %.*s (%%M)",
                                              SLICE_ARG(code)).ptr, message,
               keep);
}
