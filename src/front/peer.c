/* peer.c - the app at peer_listen: which questions are answered at all.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     GET /peer/hello              who this node is, as JSON
 *     GET /peer/1/BUCKET/KEY       the bytes of a segment (peers/question.h)
 *     POST /peer/1/hints           hints of writes through another node (peers/hint.h)
 *
 * A question names its endpoint and the owner of the credentials that the other node uses there.
 * Both must be those of this node: then both nodes would get the same object from the origin. This
 * node never connects to a URL of a question. A question for another endpoint, or of another
 * version of the protocol, means that the nodes of a fleet have different settings or versions, so
 * it is logged, at most once a second. Objects of directory origins are not shared, because nodes
 * can't tell whether their directories are the same. Threads: any loop; of struct peer_server, only
 * atomics change. */
#include "front/peer.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/workers.h"
#include "front/peering.h"
#include "s3/encode.h"

#define LOG_EACH_MS 1000u
#define CONNECTIONS_A_REQUEST 2u      /* idle ones, too; and those whose requests are refused */

/* ---- answers without frames ---- */

static bool is_drained(const struct peer_server *server)
{
    return atomic_load(&server->options.front->draining);
}

static struct http_answer plain(int status, slice why, struct arena *keep)
{
    static const struct http_field fields[] = {
        { { "content-type", 12 }, { "text/plain; charset=utf-8", 25 } },
        { { "x-penstock-peer", 15 }, { "no", 2 } }, { { "retry-after", 11 }, { "1", 1 } },
    };
    return (struct http_answer){ .status = status, .fields = fields,
                                 .field_count = status == 503 ? 3 : 2,
                                 .body = arena_printf(keep, "%.*s\n", SLICE_ARG(why)) };
}

void peer_reply(struct http_request *http, int status, slice why)
{
    struct http_answer answer = plain(status, why, http_request_arena(http));
    http_reply(http, &answer);
}

static void hello(struct peer_server *server, struct http_request *http)
{
    static const struct http_field json = { { "content-type", 12 }, { "application/json", 16 } };
    const struct peer_options *options = &server->options;
    char node[2 * NODE_ID_BYTES];
    uint8_t from[NODE_ID_BYTES];
    const struct request_head *head = http_request_head(http);
    if (slice_unhex(request_head_get(head, S("x-penstock-node")), from, sizeof(from)))
        peers_heard(cache_peers(options->front->options.cache),
                    *(const slice *)http_request_judged(http), from,
                    request_head_get(head, S("x-penstock-draining")).len > 0);
    hex_write(options->node, NODE_ID_BYTES, node);
    http_reply(http, &(struct http_answer){ .status = 200, .fields = &json, .field_count = 1,
        .body = arena_printf(http_request_arena(http), "{\"protocol\":[%u],\"node\":\"%.*s\","
                             "\"weight\":%u,\"version\":\"%s\",\"draining\":%s,"
                             "\"hints\":true,\"process\":\"%s\"}\n", PEER_PROTOCOL,
                             (int)sizeof(node), node, options->weight, options->version,
                             is_drained(server) ? "true" : "false", peers_process()) });
}

/* ---- refusals ---- */

bool peer_may_log(struct peer_server *server)
{
    uint64_t now_ms = mono_ms(), then_ms = atomic_load(&server->logged_ms);
    return (!then_ms || now_ms - then_ms >= LOG_EACH_MS) &&
           atomic_compare_exchange_strong(&server->logged_ms, &then_ms, now_ms);
}

/* For a refusal that has its reason in the settings of the nodes. */
static void log_refused(struct peer_server *server, struct http_request *http, slice why)
{
    struct arena *keep = http_request_arena(http);
    const slice *peer = http_request_judged(http);
    slice node = request_head_get(http_request_head(http), S("x-penstock-node"));
    if (peer_may_log(server))
        log_warn("peer_question_refused", "peer=%.*s node=%.*s why=\"%.*s\"", SLICE_ARG(*peer),
                 SLICE_ARG(log_word(keep, node)), SLICE_ARG(log_sentence(keep, why)));
}

static void no(struct http_request *http, slice why)
{
    metric_add(M_PEER_NO, 1);
    peer_reply(http, 404, why);
}

static void busy(struct http_request *http, slice why)
{
    metric_add(M_PEER_BUSY, 1);
    peer_reply(http, 503, why);
}

static void malformed(struct http_request *http, slice why)
{
    metric_add(M_PEER_NO, 1);
    peer_reply(http, 400, why);
}

static void unknown_path(struct peer_server *server, struct http_request *http)
{
    slice path = http_request_head(http)->path;
    if (slice_starts(path, S("/peer/")))
        log_refused(server, http, arena_printf(
            http_request_arena(http), "the peer asks for %.*s, and this version of Penstock speaks "
            "version %u of the protocol of peers: run versions on all nodes that have a version of "
            "the protocol in common", SLICE_ARG(slice_sub(path, 0, 40)), PEER_PROTOCOL));
    no(http, S("protocol"));
}

/* ---- questions ---- */

/* Returns an empty slice if both nodes read the object from the same endpoint, with credentials of
 * the same owner. Otherwise returns the word for the peer, and sets *ret_why for the log. */
static slice compare(const struct peer_question *question, const struct rules *rules,
                     struct arena *keep, slice *ret_why)
{
    slice endpoint = origin_endpoint(rules->origin), theirs = question->place.endpoint;
    slice owner = origin_owner(rules->origin);
    *ret_why = S("");
    if (!origin_knows_identities(rules->origin))
        return S("directory");
    if (!slice_eq(theirs, endpoint)) {
        *ret_why = arena_printf(keep, "the peer asks for objects of bucket %.*s at %.*s, and the "
                                "settings here have %.*s: set the same origins and buckets on all "
                                "nodes of the fleet", SLICE_ARG(question->place.bucket),
                                SLICE_ARG(theirs), SLICE_ARG(endpoint));
        return S("endpoint");
    }
    if (slice_eq(question->identity, owner))
        return S("");
    *ret_why = arena_printf(keep, "the peer uses credentials of %.*s at %.*s, and this node uses "
                            "those of %.*s: use credentials of the same owner on all nodes of the "
                            "fleet", SLICE_ARG(question->identity), SLICE_ARG(endpoint),
                            SLICE_ARG(owner));
    return S("identity");
}

static bool is_whole(const struct peer_question *question)
{
    return s3_bucket_is_valid(question->place.bucket) &&
           question->place.key.len <= S3_KEY_BYTES_MAX;
}

/* Answers the question, or returns false: it was refused, and the caller gives its place back. */
static bool take(struct peer_server *server, struct http_request *http)
{
    struct arena *keep = http_request_arena(http);
    struct peer_question question;
    slice why;
    enum err err = question_read(keep, http_request_head(http), &question);
    if (err == ERR_NOT_FOUND)
        unknown_path(server, http);
    else if (err || !is_whole(&question))
        malformed(http, S("the question can't be read, or lacks both a strong ETag in If-Match and "
                          "x-penstock-max-age"));
    if (err || !is_whole(&question))
        return false;
    const struct rules *rules = rules_of(server->options.front, question.place.bucket,
                                         question.place.key);
    slice word = rules ? compare(&question, rules, keep, &why) : S("bucket");
    if (!word.len && peer_answer_begin(server, http, &question, rules))
        return true;
    if (!word.len) {
        busy(http, S("bandwidth"));
        return false;
    }
    if (rules && why.len)
        log_refused(server, http, why);
    no(http, word);
    return false;
}

static void handle(void *arg, struct http_request *http)
{
    struct peer_server *server = arg;
    if (slice_eq(http_request_head(http)->path, S("/peer/hello"))) {
        hello(server, http);
        return;
    }
    if (peer_hints_fit(http_request_head(http))) {    /* a node that stops still answers clients */
        peer_hints_follow(server, http);
        return;
    }
    if (is_drained(server)) {
        busy(http, S("draining"));
        return;
    }
    if (atomic_fetch_add(&server->requests, 1) >= server->options.requests_max) {
        atomic_fetch_sub(&server->requests, 1);
        busy(http, S("busy"));
        return;
    }
    if (!take(server, http))
        atomic_fetch_sub(&server->requests, 1);
}

/* ---- heads ---- */

static bool judge(void *arg, struct http_loop *loop, struct arena *keep, slice peer,
                  const struct request_head *head, struct http_answer *ret)
{
    slice *judged = arena_alloc(keep, sizeof(*judged));
    *judged = arena_copy(keep, peer);
    bool is_question = slice_eq(head->method, S("GET")) && !head->chunked && !head->length;
    if (!is_question && !peer_hints_fit(head)) {
        *ret = plain(slice_eq(head->method, S("GET")) ? 413 : 405,
                     S("only GET without a body, and hints, are allowed at peer_listen: send S3 "
                       "requests to the address of the setting \"listen\""), keep);
        return false;
    }
    ret->judged = judged;
    return true;
}

static void refuse(void *arg, struct arena *keep, const struct http_refused *what,
                   struct http_answer *ret)
{
    int status = what->err == ERR_TIMEOUT ? 408 : what->err == ERR_TOO_LARGE ? 413
               : what->err == ERR_LIMIT ? 503 : 400;
    *ret = plain(status, slice_of(what->why), keep);
}

/* ---- the whole ---- */

struct peer_server *peer_server_new(const struct peer_options *options)
{
    struct peer_server *server = must_alloc(sizeof(*server));
    check(options->front && options->version && options->weight && options->requests_max);
    server->options = *options;
    server->purgers = workers_new(1, "peer-purge", peer_hints_purge);
    check(server->purgers);
    server->pace = pace_new(options->bandwidth);
    return server;
}

void peer_server_free(struct peer_server **server)
{
    if (!*server)
        return;
    workers_free(&(*server)->purgers);
    pace_free(&(*server)->pace);
    free(*server);
    *server = NULL;
}

void peer_server_bandwidth(struct peer_server *server, uint64_t bandwidth)
{
    pace_set(server->pace, bandwidth);
}

unsigned peer_connections_max(unsigned requests_max)
{
    return requests_max * CONNECTIONS_A_REQUEST;
}

struct http_app peer_server_app(struct peer_server *server, const char *listen,
                                struct http_tls *tls)
{
    check(server && tls);
    return (struct http_app){
        .setting = "peer_listen",
        .listen = listen,
        .tls = tls,
        .connections_max = peer_connections_max(server->options.requests_max),
        .arg = server,
        .judge = judge,
        .refuse = refuse,
        .handle = handle,
    };
}
