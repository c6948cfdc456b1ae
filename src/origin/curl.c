/* curl.c - one HTTP exchange, carried by libcurl. SPDX-License-Identifier: Apache-2.0
 *
 * An exchange is one HTTP request to an origin, with its answer. libcurl signs nothing, follows no
 * redirect, decodes nothing, and uses no proxy and no netrc. It sends the caller's headers, and
 * adds only User-Agent and Content-Length.
 *
 * Time: libcurl limits the time to connect. This file limits silence: each exchange records when a
 * byte last moved. Every TICK_MS, the carrier (the thread that runs the exchanges, carrier.c) ends
 * each exchange that has waited too long. The time of a pause does not count, because during a
 * pause, the origin waits for Penstock. A 1xx head is no progress; otherwise an origin could send
 * 1xx heads for ever. Once the whole request was sent, the limit is answer_ms, because an origin
 * may need long for its work.
 *
 * If a reused connection ends before the first byte of the answer, the cause is most likely the
 * origin's idle timeout, and libcurl repeats the request by itself. But the origin may have read
 * the request before it closed the connection. So a write that was sent to its last byte is not
 * repeated, and a write uses a reused connection only if that connection has not ended yet.
 *
 * Bytes left after one answer must never be read as part of the next answer. The answer to a HEAD
 * has no body. But radosgw sends an empty last chunk after its answer to HEAD /, at any time. So if
 * a successful answer to a HEAD says "chunked", its connection is not reused. (AWS also says
 * "chunked" when it refuses a HEAD, but sends no chunk. So after a refusal, the connection is
 * reused.) If a connection that could be reused holds unread bytes, the request goes over a new
 * connection. Threads: an exchange belongs to its carrier. */
#include <config.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/metric.h"
#include "origin/carrier.h"
#include "origin/response_head.h"

#define BUFFER_BYTES (256 * 1024L)
#define IDLE_S 30L
/* A CA file may change. Parsing the bundle of a system (144 CAs) takes 16 ms of CPU, and a file
 * with one CA 0.1 ms. So libcurl keeps the CAs for 5 s, but not for a day, its default. */
#define CA_KEPT_S 5L
#define CA_CONNECTION_S 60L    /* no connection that began with older CAs is used for longer */
#define DEAD_MS 1000u    /* if a reused connection was dead, it fails within this time */

/* The request of an exchange. The carrier writes it when the exchange starts, and while libcurl
 * sends the body. */
struct request {
    struct curl_slist *fields, *connect_to;
    const struct origin_body *body;
    uint64_t body_at;
    bool writes, is_head;
    bool sends_later;    /* sending is paused: the next bytes of `body` are not there yet */
    bool rewound;                   /* the whole request was sent, and libcurl sends it again */
};

/* The answer of the origin. The carrier writes it while libcurl receives the answer. */
struct answer {
    bool begun, headed, bodiless, paused;
    struct response_head head;      /* filled as it arrives, kept to the end */
    uint64_t got;                   /* bytes of the body that were received */
};

/* The limits of time for an exchange. The carrier writes them when the exchange starts. */
struct timeouts {
    unsigned progress_ms, answer_ms, head_ms;    /* 0: no limit */
    unsigned connect_ms;
};

#define EXCHANGE_MAGIC 0x65786368u
struct exchange {
    unsigned magic;
    struct list link;               /* entry of carrier->exchanges */
    struct carrier *carrier;
    const struct exchange_events *events;
    void *arg;
    CURL *easy;
    struct request request;
    struct answer answer;
    struct timeouts timeouts;
    uint64_t started_ns, moved_ms;  /* moved_ms: when a byte was last sent or received */
    bool connected;
    bool anew;                      /* nothing was sent, and a new connection is needed */
    enum err why;                   /* the reason if this file, not libcurl, ended the exchange */
    char error[CURL_ERROR_SIZE];
};

/* ---- callbacks of libcurl ---- */

/* libcurl passes back the pointer that was set (CURLOPT_PRIVATE and similar options). */
static struct exchange *exchange_of(void *arg)
{
    struct exchange *exchange = arg;
    check(exchange->magic == EXCHANGE_MAGIC);
    return exchange;
}

/* Ends the exchange from inside a callback: libcurl gives up if a callback does not return the
 * number of bytes that it was given. */
static size_t give_up(struct exchange *exchange, enum err why)
{
    exchange->why = why;
    return 0;
}

/* Returns true if the whole request was sent, so the origin may act on it. */
static bool is_out(const struct exchange *exchange)
{
    return exchange->connected && exchange->request.body_at == exchange->request.body->length;
}

static bool was_out(const struct exchange *exchange)
{
    return exchange->request.rewound || is_out(exchange);
}

/* Returns true if the reused connection may have been dead: no answer came, and the exchange failed
 * within DEAD_MS after the connection was ready, or after the last byte was sent. */
static bool died_at_once(const struct exchange *exchange)
{
    return !exchange->why && !exchange->answer.begun && mono_ms() <= exchange->moved_ms + DEAD_MS;
}

static bool give_head(struct exchange *exchange, int status)
{
    struct answer *answer = &exchange->answer;
    const struct response_head *head = &answer->head;
    bool is_head = exchange->request.is_head;
    struct origin_reply reply = {
        .status = status,
        .has_length = head->has_length,
        .length = head->length,
        .fields = head->fields,
        .field_count = head->field_count,
        .first_byte_ns = mono_ns() - exchange->started_ns,
    };
    answer->bodiless = is_head || status == 204 || status == 304;
    if (!head->has_length && !head->chunked && !answer->bodiless) {
        exchange->why = ERR_ORIGIN_REPLY;    /* an early end would look like the end of the body */
        return false;
    }
    if (is_head && status < 300 && head->chunked)
        curl_easy_setopt(exchange->easy, CURLOPT_FORBID_REUSE, 1L);
    answer->headed = true;
    if (exchange->events->head(exchange->arg, &reply) == EXCHANGE_END) {
        exchange->why = ERR_CANCELED;
        return false;
    }
    return true;
}

static size_t on_header(char *ptr, size_t size, size_t count, void *arg)
{
    struct exchange *exchange = exchange_of(arg);
    slice line = { ptr, size * count };
    long status = 0;
    curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &status);
    exchange->answer.begun = true;
    /* If the head has a limit of its own, a line of it is no progress: lines could come for ever. */
    if (status >= 200 && (exchange->answer.headed || !exchange->timeouts.head_ms))
        exchange->moved_ms = mono_ms();
    if (exchange->answer.headed)
        return line.len;    /* the line is a trailer */
    bool ended;
    if (!response_head_line(&exchange->answer.head, line, &ended))
        return give_up(exchange, ERR_ORIGIN_REPLY);
    if (!ended || status < 200)
        return line.len;
    exchange->moved_ms = mono_ms();
    return give_head(exchange, (int)status) ? line.len : 0;
}

static size_t on_body(char *ptr, size_t size, size_t count, void *arg)
{
    struct exchange *exchange = exchange_of(arg);
    slice bytes = { ptr, size * count };
    exchange->moved_ms = mono_ms();
    if (!exchange->answer.headed)
        return give_up(exchange, ERR_ORIGIN_REPLY);
    if (bytes.len == 0)
        return 0;
    switch (exchange->events->body(exchange->arg, bytes)) {
    case EXCHANGE_PAUSE:
        exchange->answer.paused = true;
        return CURL_WRITEFUNC_PAUSE;
    case EXCHANGE_END:
        return give_up(exchange, ERR_CANCELED);
    case EXCHANGE_TAKEN:
        break;
    }
    exchange->answer.got += bytes.len;
    return bytes.len;
}

/* Returns true for a reused connection that has ended or holds unread bytes. libcurl tests reused
 * connections, too, but version 7.88 takes unread bytes as a sign of a working one. */
static bool has_ended(const struct exchange *exchange, int local_port)
{
    long connects = 1;
    char byte;
    curl_easy_getinfo(exchange->easy, CURLINFO_NUM_CONNECTS, &connects);
    int fd = exchange->carrier->served[(uint16_t)local_port];
    return connects == 0 && (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN);
}

static int on_ready(void *arg, char *peer, char *local, int peer_port, int local_port)
{
    struct exchange *exchange = exchange_of(arg);
    if (!exchange->connected && has_ended(exchange, local_port)) {
        exchange->anew = true;
        return CURL_PREREQFUNC_ABORT;
    }
    if (exchange->request.writes && was_out(exchange))
        exchange->why = ERR_ORIGIN_CUT;    /* else libcurl would repeat the write */
    else if (!exchange->events->ready(exchange->arg))
        exchange->why = ERR_CANCELED;
    if (exchange->why)
        return CURL_PREREQFUNC_ABORT;
    exchange->connected = true;
    exchange->request.rewound = false;
    exchange->moved_ms = mono_ms();
    return CURL_PREREQFUNC_OK;
}

static size_t on_send(char *ptr, size_t size, size_t count, void *arg)
{
    struct exchange *exchange = exchange_of(arg);
    struct request *request = &exchange->request;
    const struct origin_body *body = request->body;
    check(request->body_at <= body->length);
    size_t want = MIN(size * count, body->length - request->body_at);
    exchange->moved_ms = mono_ms();
    request->sends_later = false;
    if (want == 0)
        return 0;
    size_t got = body->read(body->arg, request->body_at, ptr, want);
    if (got == ORIGIN_LATER) {
        request->sends_later = true;
        return CURL_READFUNC_PAUSE;
    }
    if (got != want) {
        exchange->why = ERR_IO;
        return CURL_READFUNC_ABORT;
    }
    request->body_at += want;
    return want;
}

static int on_seek(void *arg, curl_off_t offset, int origin)
{
    struct exchange *exchange = exchange_of(arg);
    if (origin != SEEK_SET || offset < 0)
        return CURL_SEEKFUNC_CANTSEEK;
    exchange->request.rewound |= is_out(exchange);
    exchange->request.body_at = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* ---- exchanges ---- */

/* Verifies by this file alone; by default libcurl also reads its CA folder. No session is resumed,
 * because that verifies nothing. */
static void set_ca_file(CURL *easy, const char *ca_file)
{
    CURL_SET(easy, CURLOPT_CAINFO, ca_file);
    CURL_SET(easy, CURLOPT_CAPATH, NULL);
    CURL_SET(easy, CURLOPT_CA_CACHE_TIMEOUT, CA_KEPT_S);
    CURL_SET(easy, CURLOPT_MAXLIFETIME_CONN, CA_CONNECTION_S);
    CURL_SET(easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
}

void curl_rules(CURL *easy, const char *ca_file)
{
    CURL_SET(easy, CURLOPT_NOSIGNAL, 1L);
    CURL_SET(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    CURL_SET(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    CURL_SET(easy, CURLOPT_HTTP09_ALLOWED, 0L);
    CURL_SET(easy, CURLOPT_PATH_AS_IS, 1L);
    CURL_SET(easy, CURLOPT_FOLLOWLOCATION, 0L);
    CURL_SET(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    CURL_SET(easy, CURLOPT_NOPROXY, "*");
    CURL_SET(easy, CURLOPT_PROXY, "");
    CURL_SET(easy, CURLOPT_TCP_NODELAY, 1L);
    CURL_SET(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    CURL_SET(easy, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    CURL_SET(easy, CURLOPT_UPLOAD_BUFFERSIZE, BUFFER_BYTES);
    CURL_SET(easy, CURLOPT_MAXAGE_CONN, IDLE_S);
    CURL_SET(easy, CURLOPT_QUICK_EXIT, 1L);
    CURL_SET(easy, CURLOPT_USERAGENT, "penstock/" PACKAGE_VERSION);
    CURL_SET(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (ca_file[0])
        set_ca_file(easy, ca_file);
}

static void set_callbacks(struct exchange *exchange)
{
    CURL *easy = exchange->easy;
    CURL_SET(easy, CURLOPT_PRIVATE, exchange);
    CURL_SET(easy, CURLOPT_ERRORBUFFER, exchange->error);
    CURL_SET(easy, CURLOPT_PREREQFUNCTION, on_ready);
    CURL_SET(easy, CURLOPT_PREREQDATA, exchange);
    CURL_SET(easy, CURLOPT_HEADERFUNCTION, on_header);
    CURL_SET(easy, CURLOPT_HEADERDATA, exchange);
    CURL_SET(easy, CURLOPT_WRITEFUNCTION, on_body);
    CURL_SET(easy, CURLOPT_WRITEDATA, exchange);
    CURL_SET(easy, CURLOPT_READFUNCTION, on_send);
    CURL_SET(easy, CURLOPT_READDATA, exchange);
    CURL_SET(easy, CURLOPT_SEEKFUNCTION, on_seek);
    CURL_SET(easy, CURLOPT_SEEKDATA, exchange);
}

static void add_line(struct curl_slist **lines, const char *line)
{
    *lines = curl_slist_append(*lines, line);
    check(*lines != NULL);
}

struct curl_slist *curl_fields(const struct http_field *fields, size_t count)
{
    struct curl_slist *lines = NULL;
    struct arena keep = { 0 };    /* freed at the end of this function: libcurl copies the lines */
    for (size_t i = 0; i < count; i++) {
        slice name = fields[i].name, value = fields[i].value;
        slice line = value.len    /* libcurl sends "name;" as a field without a value */
            ? arena_printf(&keep, "%.*s: %.*s", SLICE_ARG(name), SLICE_ARG(value))
            : arena_printf(&keep, "%.*s;", SLICE_ARG(name));
        add_line(&lines, arena_copy(&keep, line).ptr);
    }
    add_line(&lines, "Expect:");
    add_line(&lines, "Accept:");
    arena_free(&keep);
    return lines;
}

static void set_request(struct exchange *exchange, const struct exchange_ask *ask)
{
    static const struct origin_body empty = { 0 };
    CURL *easy = exchange->easy;
    CURL_SET(easy, CURLOPT_URL, ask->url);
    CURL_SET(easy, CURLOPT_REQUEST_TARGET, ask->target);
    CURL_SET(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)ask->connect_ms);
    if (ask->once)    /* on a reused connection, libcurl may repeat the request by itself */
        CURL_SET(easy, CURLOPT_FRESH_CONNECT, 1L);
    exchange->request.body = ask->sends_length && ask->body ? ask->body : &empty;
    if (ask->sends_length) {
        CURL_SET(easy, CURLOPT_UPLOAD, 1L);
        CURL_SET(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)exchange->request.body->length);
    } else if (exchange->request.is_head) {
        CURL_SET(easy, CURLOPT_NOBODY, 1L);
    } else {
        CURL_SET(easy, CURLOPT_HTTPGET, 1L);
    }
    CURL_SET(easy, CURLOPT_CUSTOMREQUEST, ask->method);
}

static void set_mutual(struct exchange *exchange, const struct exchange_mutual *mutual)
{
    struct arena keep = { 0 };
    slice line = arena_printf(&keep, "::%s", mutual->connect_to);
    /* The certificate may change, too, and the file of a fleet's CA is short. So these limits are
     * narrower than those of set_ca_file. */
    CURL_SET(exchange->easy, CURLOPT_MAXLIFETIME_CONN, IDLE_S);
    CURL_SET(exchange->easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
    CURL_SET(exchange->easy, CURLOPT_SSLCERT, mutual->cert_file);
    CURL_SET(exchange->easy, CURLOPT_SSLKEY, mutual->key_file);
    add_line(&exchange->request.connect_to, line.ptr);
    CURL_SET(exchange->easy, CURLOPT_CONNECT_TO, exchange->request.connect_to);
    arena_free(&keep);
}

struct exchange *exchange_start(struct errand *errand, const struct exchange_ask *ask,
                                const struct exchange_events *events, void *arg)
{
    struct carrier *carrier = container_of(errand->of, struct carrier, errands);
    struct exchange *exchange = must_alloc(sizeof(*exchange));
    check(events->ready && events->head && events->body && events->end);
    exchange->magic = EXCHANGE_MAGIC;
    exchange->carrier = carrier;
    exchange->events = events;
    exchange->arg = arg;
    exchange->request.is_head = !strcmp(ask->method, "HEAD");
    exchange->request.writes = ask->writes;
    exchange->timeouts = (struct timeouts){ ask->progress_ms, ask->answer_ms, ask->head_ms,
                                             ask->connect_ms };
    exchange->started_ns = mono_ns();
    exchange->moved_ms = mono_ms();
    exchange->easy = carrier->pool_count ? carrier->pool[--carrier->pool_count] : curl_easy_init();
    check(exchange->easy != NULL);
    curl_rules(exchange->easy, ask->ca_file);
    CURL_SET(exchange->easy, CURLOPT_SHARE, carrier->all->share);
    set_callbacks(exchange);
    exchange->request.fields = curl_fields(ask->fields, ask->field_count);
    CURL_SET(exchange->easy, CURLOPT_HTTPHEADER, exchange->request.fields);
    set_request(exchange, ask);
    if (ask->mutual)
        set_mutual(exchange, ask->mutual);
    list_add(&carrier->exchanges, &exchange->link);
    check(curl_multi_add_handle(carrier->multi, exchange->easy) == CURLM_OK);
    metric_gauge_add(M_ORIGIN_CONNECTIONS, carrier->all->for_origins);
    return exchange;
}

void exchange_resume(struct exchange *exchange)
{
    check(exchange->magic == EXCHANGE_MAGIC);
    if (!exchange->answer.paused && !exchange->request.sends_later)
        return;
    exchange->answer.paused = exchange->request.sends_later = false;
    exchange->moved_ms = mono_ms();
    curl_easy_pause(exchange->easy, CURLPAUSE_CONT);    /* curl_multi_perform reports a failure */
}

bool exchange_sends_later(const struct exchange *exchange)
{
    return exchange->request.sends_later;
}

static bool was_connected(const struct exchange *exchange)
{
    curl_off_t connected_us = 0;
    curl_easy_getinfo(exchange->easy, CURLINFO_PRETRANSFER_TIME_T, &connected_us);
    return connected_us > 0;
}

void exchange_drop(struct exchange **dropped)
{
    struct exchange *exchange = *dropped;
    *dropped = NULL;
    if (!exchange)
        return;
    check(exchange->magic == EXCHANGE_MAGIC && exchange->easy);
    struct carrier *carrier = exchange->carrier;
    check(curl_multi_remove_handle(carrier->multi, exchange->easy) == CURLM_OK);
    /* libcurl 7.88: after a failed name look-up a handle keeps its buffer and refuses another
     * buffer size. So such a handle can't be reused. */
    if (was_connected(exchange) && carrier->pool_count < POOL_MAX) {
        curl_easy_reset(exchange->easy);
        carrier->pool[carrier->pool_count++] = exchange->easy;
    } else {
        curl_easy_cleanup(exchange->easy);
    }
    metric_gauge_add(M_ORIGIN_CONNECTIONS, -(int64_t)carrier->all->for_origins);
    curl_slist_free_all(exchange->request.fields);
    curl_slist_free_all(exchange->request.connect_to);
    list_del(&exchange->link);
    arena_free(&exchange->answer.head.keep);
    exchange->magic = 0;
    free(exchange);
}

/* ---- the end ---- */

static enum err err_of(const struct exchange *exchange, CURLcode code)
{
    const struct answer *answer = &exchange->answer;
    if (exchange->why)
        return exchange->why;
    switch (code) {
    case CURLE_OK:
        break;
    case CURLE_COULDNT_RESOLVE_HOST: case CURLE_COULDNT_CONNECT: case CURLE_OPERATION_TIMEDOUT:
    case CURLE_COULDNT_RESOLVE_PROXY: case CURLE_INTERFACE_FAILED: case CURLE_SSL_CONNECT_ERROR:
        return answer->headed ? ERR_ORIGIN_CUT : ERR_ORIGIN_CONNECT;
    case CURLE_PEER_FAILED_VERIFICATION: case CURLE_SSL_CACERT_BADFILE: case CURLE_SSL_ISSUER_ERROR:
        return ERR_ORIGIN_CERT;    /* nothing was sent; a repetition would fail again */
    case CURLE_RECV_ERROR: case CURLE_SEND_ERROR: case CURLE_GOT_NOTHING: case CURLE_PARTIAL_FILE:
        return ERR_ORIGIN_CUT;
    default:
        return answer->headed ? ERR_ORIGIN_CUT : ERR_ORIGIN_REPLY;
    }
    if (!answer->headed)
        return ERR_ORIGIN_REPLY;
    bool whole = answer->bodiless || answer->head.chunked || answer->got == answer->head.length;
    return whole ? OK : ERR_ORIGIN_CUT;
}

/* Stores the socket under its local port, where has_ended finds it for a reused connection. libcurl
 * gives the socket only at the end of an exchange, but the port also at the beginning. */
static void remember_socket(struct exchange *exchange)
{
    curl_socket_t fd = CURL_SOCKET_BAD;
    long port = 0;
    curl_easy_getinfo(exchange->easy, CURLINFO_ACTIVESOCKET, &fd);
    curl_easy_getinfo(exchange->easy, CURLINFO_LOCAL_PORT, &port);
    exchange->carrier->served[(uint16_t)port] = fd;
}

static void end(struct exchange *exchange, CURLcode code)
{
    remember_socket(exchange);
    long connects = 1;
    curl_easy_getinfo(exchange->easy, CURLINFO_NUM_CONNECTS, &connects);
    char why[CURL_ERROR_SIZE];
    memcpy(why, exchange->error, sizeof(why));
    long error = 0;
    curl_easy_getinfo(exchange->easy, CURLINFO_OS_ERRNO, &error);
    if (code == CURLE_COULDNT_CONNECT && error)    /* libcurl's message lacks the errno */
        snprintf(why, sizeof(why), "%.180s: %s", exchange->error, strerror((int)error));
    if (exchange->why == ERR_ORIGIN_CUT)    /* libcurl's message only says: a callback failed */
        snprintf(why, sizeof(why), "the connection ended after the write was sent, and before "
                 "the answer began, so the origin may have done the write");
    if (exchange->why == ERR_IO)
        snprintf(why, sizeof(why), "the stored body of the request can't be read");
    struct exchange_end result = {
        .err = err_of(exchange, code),
        .reused = exchange->connected && connects == 0 && died_at_once(exchange),
        .sent = was_out(exchange),
        .why = why,
    };
    const struct exchange_events *events = exchange->events;
    void *arg = exchange->arg;
    exchange_drop(&exchange);
    events->end(arg, &result);
}

static void start_anew(struct exchange *exchange)
{
    CURLM *multi = exchange->carrier->multi;
    exchange->anew = false;
    check(curl_multi_remove_handle(multi, exchange->easy) == CURLM_OK);
    CURL_SET(exchange->easy, CURLOPT_FRESH_CONNECT, 1L);
    check(curl_multi_add_handle(multi, exchange->easy) == CURLM_OK);
}

void exchanges_end_finished(struct carrier *carrier)
{
    int left;
    for (CURLMsg *message; (message = curl_multi_info_read(carrier->multi, &left)) != NULL;) {
        void *kept = NULL;
        CURLcode code = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &kept);
        struct exchange *exchange = exchange_of(kept);
        if (exchange->anew)
            start_anew(exchange);
        else
            end(exchange, code);
    }
}

/* While an exchange connects, the limit of libcurl (connect_ms) must end it first. So the limit
 * here is longer by connect_ms. */
static bool is_stuck(const struct exchange *exchange, uint64_t now_ms)
{
    const struct timeouts *timeouts = &exchange->timeouts;
    uint64_t limit = is_out(exchange) ? timeouts->answer_ms : timeouts->progress_ms;
    if (timeouts->head_ms && !exchange->answer.headed)
        limit = timeouts->head_ms;
    limit += limit && !exchange->connected ? timeouts->connect_ms : 0;
    bool waits_for_us = exchange->answer.paused || exchange->request.sends_later;
    return limit && !waits_for_us && now_ms > exchange->moved_ms + limit;
}

void exchanges_end_stuck(struct carrier *carrier, uint64_t now_ms)
{
    if (now_ms < carrier->tick_ms + TICK_MS)
        return;
    carrier->tick_ms = now_ms;
    for (bool again = true; again;) {    /* end() may change the list, so begin anew after it */
        again = false;
        list_each_safe(struct exchange, exchange, &carrier->exchanges, link)
            if (is_stuck(exchange, now_ms)) {
                exchange->why = ERR_ORIGIN_TIMEOUT;
                end(exchange, CURLE_OPERATION_TIMEDOUT);
                again = true;
                break;
            }
    }
}
