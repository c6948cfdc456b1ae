/* server_ask.c - signs and sends one request of a command, and waits for the answer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The service reads a part of every file of the cache for some of these requests, and sends nothing
 * meanwhile. So a line on stderr says that the command waits. Ctrl-C closes the connection, and the
 * service then ends its work. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/server.h"
#include "origin/web.h"
#include "s3/checksum.h"
#include "s3/encode.h"

#define BODY_BYTES_MAX (256 * MIB)
#define NOTICE_FIRST_MS 3000u
#define NOTICE_MS 30000u
#define BUSY_MS 500u

struct waiting {
    const struct server *server;
    const struct question *question;
    uint64_t since_ms, notice_ms;    /* notice_ms: when the next notice is due */
};

void query_add(struct text *to, const char *name, slice value)
{
    text_printf(to, "&%s=", name);
    uri_encode(to, value, true);
}

static void say_waits(struct waiting *waiting, const char *why)
{
    uint64_t now_ms = mono_ms();
    if (now_ms < waiting->notice_ms)
        return;
    fprintf(stderr, "penstock %s: after %" PRIu64 " s, still waiting for %.*s. %s. Ctrl-C ends "
            "this command\n", waiting->server->command, (now_ms - waiting->since_ms) / 1000,
            SLICE_ARG(waiting->server->url), why);
    waiting->notice_ms = now_ms + NOTICE_MS;
}

static void notice(void *arg)
{
    struct waiting *waiting = arg;
    say_waits(waiting, waiting->question->slow);
}

static slice path_of(const struct question *question, struct arena *keep)
{
    struct text path = text_in(keep);
    text_char(&path, '/');
    uri_encode(&path, question->of.bucket, true);
    if (question->of.key.len) {
        text_char(&path, '/');
        uri_encode(&path, question->of.key, false);
    }
    return text_slice(&path);
}

static void sign(const struct server *server, const struct question *question, slice path,
                 struct arena *keep, struct http_field fields[5], size_t *ret_count)
{
    struct sigv4_signed proof;
    uint8_t sum[CHECKSUM_BYTES_MAX];
    char hash[64];
    checksum_of(CHECKSUM_SHA256, question->body, sum);
    hex_write(sum, sizeof(hash) / 2, hash);
    slice host = slice_from(server->url, slice_find(server->url, S("://")) + 3);
    fields[0] = (struct http_field){ S("Host"), host };
    struct sigv4_ask ask = {
        .method = slice_of(question->method), .path = path, .query = question->query,
        .fields = fields, .field_count = 1, .payload_hash = { hash, sizeof(hash) },
        .region = server->region, .service = S("s3"), .now_s = wall_s(),
    };
    sigv4_sign(server->sigv4, keep, &ask, &server->keys, &proof);
    memcpy(&fields[1], proof.fields, proof.field_count * sizeof(*fields));
    *ret_count = 1 + proof.field_count;
}

static bool send_once(const struct server *server, const struct question *question,
                      struct waiting *waiting, struct arena *keep, struct refused *ret)
{
    struct http_field fields[5];
    struct web_reply reply = { 0 };
    slice path = path_of(question, keep), why = S("");
    uint64_t now_ms = mono_ms();
    struct web_ask ask = {
        .method = question->method, .fields = fields, .ca_file = server->ca_file,
        .body = question->body,
        .time_ms = server->until_ms > now_ms ? (unsigned)(server->until_ms - now_ms) : 1,
        .body_bytes_max = BODY_BYTES_MAX, .waiting = notice, .arg = waiting,
        .url = arena_printf(keep, "%.*s%.*s?%.*s", SLICE_ARG(server->url), SLICE_ARG(path),
                            SLICE_ARG(question->query)),
    };
    sign(server, question, path, keep, fields, &ask.field_count);
    enum err err = web_get(&ask, keep, &reply, &why);
    *ret = (struct refused){ .status = err ? 0 : reply.status, .body = reply.body,
                             .software = reply.software, .why = why, .late = err == ERR_TIMEOUT };
    return !err && reply.status / 100 == 2;
}

int server_ask(const struct server *server, const struct question *question, struct arena *keep,
               slice *ret_body)
{
    struct refused refused;
    uint64_t now_ms = mono_ms();
    struct waiting waiting = { server, question, now_ms, now_ms + NOTICE_FIRST_MS };
    while (!send_once(server, question, &waiting, keep, &refused)) {
        bool away = !refused.status && !refused.late &&
                    mono_ms() < now_ms + server->away_ms;
        if ((!away && !refusal_is_busy(&refused, keep)) ||
            mono_ms() + BUSY_MS > server->until_ms) {
            refusal_report(server, question, &refused, keep);
            return EXIT_FAILED;
        }
        say_waits(&waiting, away ? "The service can't be reached. Maybe it restarts"
                                 : question->slow);
        usleep(BUSY_MS * 1000);
    }
    bool none = question->may_be_empty && !refused.body.len &&
                slice_starts_nocase(refused.software, S("penstock"));
    /* Penstock answers with JSON or XML, or with nothing if the answer may be empty. Another S3
     * server ignores our query parameter, and answers 2xx with something else. */
    if (none || slice_starts(refused.body, question->is_xml ? S("<") : S("{"))) {
        *ret_body = refused.body;
        return EXIT_GOOD;
    }
    refusal_report(server, question, &refused, keep);
    return EXIT_FAILED;
}
