/* test_origin_s3.c - an S3 origin against a server that does what it is told.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The server is a few threads in here. Each test gives it a function that answers the nth request;
 * false closes the connection. */
#include "origin_unit.h"

#include <arpa/inet.h>
#include <config.h>
#include <limits.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/metric.h"
#include "origin/retry.h"

#define CONNECTIONS 512

struct request {
    int fd, nth, nth_here;      /* from 0: over all, on this connection */
    bool owes_end;              /* of the chunks of an answer before, on this connection */
    char head[8192];
    slice line;
    char body[65536];
    size_t body_len;
};

static struct {
    int fd;
    char url[64];
    pthread_t thread;
    atomic_int requests, connections, open, open_most, live;
    atomic_uint newest;             /* port of the peer accepted last */
    _Atomic(bool (*)(struct request *)) answer;
    pthread_mutex_t lock;
    char lines[1024][256], authorization[1024][256];
    uint64_t at_ms[1024];
} server = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool reply(struct request *request, const char *text)
{
    return send(request->fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
}

static bool hello(struct request *request)
{
    return reply(request, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"x\"\r\n\r\nhello");
}

static const char *field_of(const struct request *request, const char *name)
{
    const char *found = strcasestr(request->head, name);
    return found ? found + strlen(name) : NULL;
}

static bool read_request(struct request *request)
{
    size_t len = 0;
    char *end;
    request->head[0] = '\0';
    while (!(end = strstr(request->head, "\r\n\r\n"))) {
        ssize_t got = recv(request->fd, request->head + len, sizeof(request->head) - 1 - len, 0);
        if (got <= 0)
            return false;
        len += (size_t)got;
        request->head[len] = '\0';
    }
    size_t head_len = (size_t)(end - request->head) + 4;
    const char *length = field_of(request, "\r\nContent-Length: ");
    size_t want = length ? (size_t)atol(length) : 0;
    request->body_len = MIN(len - head_len, sizeof(request->body));
    memcpy(request->body, request->head + head_len, request->body_len);
    request->head[head_len] = '\0';
    while (request->body_len < want) {
        ssize_t got = recv(request->fd, request->body + request->body_len,
                           sizeof(request->body) - request->body_len, 0);
        if (got <= 0)
            return false;
        request->body_len += (size_t)got;
    }
    return true;
}

static void note(struct request *request)
{
    slice rest = slice_of(request->head);
    request->line = slice_cut(&rest, '\r');
    request->nth = atomic_fetch_add(&server.requests, 1);
    const char *authorization = field_of(request, "\r\nAuthorization: ");
    pthread_mutex_lock(&server.lock);
    int row = request->nth % 1024;
    snprintf(server.lines[row], 256, "%.*s", SLICE_ARG(request->line));
    snprintf(server.authorization[row], 256, "%.250s", authorization ? authorization : "");
    server.at_ms[row] = mono_ms();
    pthread_mutex_unlock(&server.lock);
}

static void *connection(void *arg)
{
    struct request *request = must_alloc(sizeof(*request));
    request->fd = (int)(intptr_t)arg;
    atomic_fetch_add(&server.connections, 1);
    for (bool more = true; more && read_request(request); request->nth_here++) {
        note(request);
        int open = atomic_fetch_add(&server.open, 1) + 1, most = atomic_load(&server.open_most);
        while (open > most && !atomic_compare_exchange_weak(&server.open_most, &most, open))
            ;
        more = atomic_load(&server.answer)(request);
        atomic_fetch_sub(&server.open, 1);
    }
    close(request->fd);
    free(request);
    atomic_fetch_sub(&server.live, 1);
    return NULL;
}

static void *listener(void *arg)
{
    for (;;) {
        struct sockaddr_in from;
        socklen_t len = sizeof(from);
        int fd = accept(server.fd, (struct sockaddr *)&from, &len);
        if (fd < 0)
            return NULL;
        pthread_t thread;
        atomic_fetch_add(&server.live, 1);
        atomic_store(&server.newest, from.sin_port);
        check(pthread_create(&thread, NULL, connection, (void *)(intptr_t)fd) == 0);
        pthread_detach(thread);
    }
}

static bool told(int nth, const char *line, const char *authorization)
{
    pthread_mutex_lock(&server.lock);
    bool right = (!line || !strcmp(server.lines[nth], line)) &&
                 (!authorization || strstr(server.authorization[nth], authorization));
    if (!right)
        print_message("%s\n%s\n", server.lines[nth], server.authorization[nth]);
    pthread_mutex_unlock(&server.lock);
    return right;
}

static int setup(void **state)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(address);
    server.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ok(bind(server.fd, (struct sockaddr *)&address, len) == 0 &&
       listen(server.fd, CONNECTIONS) == 0);
    ok(getsockname(server.fd, (struct sockaddr *)&address, &len) == 0);
    snprintf(server.url, sizeof(server.url), "http://127.0.0.1:%d", ntohs(address.sin_port));
    ok(pthread_create(&server.thread, NULL, listener, NULL) == 0);
    return 0;
}

static int teardown(void **state)
{
    shutdown(server.fd, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    close(server.fd);
    usleep(50000);    /* connections see the end of their clients */
    return 0;
}

static struct origins *all;
static struct origin *origin;

/* How the origin answers a request that is sent twice. */
struct script {
    const char *answers[2];
    int last;                       /* this one waits until the other was answered; -1: none does */
    bool holds;                     /* the first one waits until the end of the test */
};

static struct {
    struct script script;
    atomic_int come, answered;
    atomic_bool over;
} twice;

/* On a busy machine the server may still find connections of the test before, and count them: they
 * are accepted in the order they came, so all are over once one of ours is. */
static void leftovers_are_over(void)
{
    struct sockaddr_in address;
    socklen_t len = sizeof(address);
    if (all) {    /* the test before has failed */
        atomic_store(&twice.over, true);
        origins_free(&all);
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ok(getsockname(server.fd, (struct sockaddr *)&address, &len) == 0);
    ok(connect(fd, (struct sockaddr *)&address, len) == 0);
    ok(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
    while (atomic_load(&server.newest) != address.sin_port)
        usleep(100);
    close(fd);
    while (atomic_load(&server.live))
        usleep(100);
}

static void begin(bool (*answer)(struct request *), struct origin_options options)
{
    struct arena keep = { 0 };
    slice why;
    options.name = "test";
    options.url = options.url ? options.url : server.url;
    options.access_key = "AKID";
    options.secret_key = "SECRET";
    options.connections_max = options.connections_max ? options.connections_max : 16;
    options.tries_max = options.tries_max ? options.tries_max : 3;
    options.connect_ms = 2000;
    options.progress_ms = options.progress_ms ? options.progress_ms : 5000;
    options.answer_ms = options.answer_ms ? options.answer_ms : 5000;
    leftovers_are_over();
    atomic_store(&server.answer, answer);
    atomic_store(&server.requests, 0);
    atomic_store(&server.connections, 0);
    atomic_store(&server.open_most, 0);
    all = origins_new(2);
    ok(origins_add(all, &options, &keep, &origin, &why) == OK);
    arena_free(&keep);
}

#define WITH(...) (struct origin_options){ __VA_ARGS__ }
#define PLAIN WITH(.tries_max = 3)

static struct watched *get(void)
{
    struct watched *watched = watch_new(S3_GET_OBJECT, S("bucket"), S("key"), S(""));
    origin_start(origin, &watched->call);
    return watched;
}

static struct watched *got(void)
{
    struct watched *watched = get();
    ok(watch_wait(watched, FOR_DONE));
    return watched;
}

/* One GET that ends like this, then the end of the origin. */
static void one(enum err err, int status, unsigned tries)
{
    struct watched *watched = got();
    if (watched->err != err || watched->status != status || (status && watched->tries != tries))
        fail_msg("%s, status %d, %u tries", err_name(watched->err), watched->status,
                 watched->tries);
    watch_free(&watched);
    origins_free(&all);
}

TEST(an_answer_comes_as_it_was_sent)
{
    begin(hello, PLAIN);
    struct watched *watched = got();
    ok(watched->err == OK && watched->status == 200 && watched->tries == 1);
    ok(watched->has_length && watched->length == 5);
    same(text_slice(&watched->body), S("hello"));
    same(watch_get(watched, S("etag")), S("\"x\""));
    ok(told(0, "GET /bucket/key HTTP/1.1", "Credential=AKID/"));
    ok(told(0, NULL, "/us-east-1/s3/aws4_request"));
    watch_free(&watched);
    origins_free(&all);
}

static struct watched *got_as(const struct sigv4_credentials *as)
{
    struct watched *watched = watch_new(S3_GET_OBJECT, S("bucket"), S("key"), S(""));
    watched->call.as = as;
    origin_start(origin, &watched->call);
    ok(watch_wait(watched, FOR_DONE));
    return watched;
}

TEST(a_call_is_signed_as_whom_it_names_or_not_at_all)
{
    static const struct sigv4_credentials theirs = {
        { "THEIRS", 6 }, { "secret", 6 }, { "token", 5 }
    }, nobody = { 0 };
    begin(hello, PLAIN);
    struct watched *watched = got_as(&theirs);
    ok(watched->err == OK && told(0, NULL, "Credential=THEIRS/"));
    ok(told(0, NULL, "x-amz-security-token"));    /* among the signed headers */
    watch_free(&watched);
    watched = got_as(&nobody);
    ok(watched->err == OK && atomic_load(&server.requests) == 2);
    ok(server.authorization[1][0] == '\0');
    watch_free(&watched);
    watched = got();
    ok(told(2, NULL, "Credential=AKID/"));
    watch_free(&watched);
    origins_free(&all);
}

static bool unknown_key(struct request *request)
{
    return reply(request, "HTTP/1.1 403 No\r\nContent-Length: 46\r\n\r\n"
                          "<Error><Code>InvalidAccessKeyId</Code></Error>");
}

static bool bad_signature(struct request *request)
{
    return reply(request, "HTTP/1.1 403 No\r\nContent-Length: 49\r\n\r\n"
                          "<Error><Code>SignatureDoesNotMatch</Code></Error>");
}

TEST(who_is_unknown_to_the_origin_hears_it_and_our_own_keys_are_not_in_doubt)
{
    static const struct sigv4_credentials theirs = { { "THEIRS", 6 }, { "secret", 6 }, { "", 0 } };
    begin(unknown_key, PLAIN);
    struct watched *watched = got_as(&theirs);
    ok(watched->err == OK && watched->status == 403 && watched->heads == 1);
    ok(slice_starts(text_slice(&watched->body), S("<Error><Code>InvalidAccessKeyId")));
    watch_free(&watched);
    watched = got();
    ok(watched->err == ERR_ORIGIN_KEYS && watched->heads == 0);    /* signed as ourselves */
    watch_free(&watched);
    atomic_store(&server.answer, bad_signature);
    watched = got_as(&theirs);    /* it is we who made that signature */
    ok(watched->err == ERR_ORIGIN_KEYS && watched->heads == 0);
    watch_free(&watched);
    origins_free(&all);
}

TEST(odd_keys_are_sent_byte_for_byte)
{
    static const struct {
        const char *key, *query, *line;
    } rows[] = {
        { "a b", "", "GET /bucket/a%20b HTTP/1.1" },
        { "a/../b", "", "GET /bucket/a/../b HTTP/1.1" },
        { "./x//y", "", "GET /bucket/./x//y HTTP/1.1" },
        { "%2F+?#", "", "GET /bucket/%252F%2B%3F%23 HTTP/1.1" },
        { "\xc3\xa9\n", "versionId=a%20b", "GET /bucket/%C3%A9%0A?versionId=a%20b HTTP/1.1" },
    };
    begin(hello, PLAIN);
    for (size_t i = 0; i < countof(rows); i++) {
        struct watched *watched = watch_new(S3_GET_OBJECT, S("bucket"), slice_of(rows[i].key),
                                            slice_of(rows[i].query));
        origin_start(origin, &watched->call);
        ok(watch_wait(watched, FOR_DONE) && watched->err == OK);
        ok(told((int)i, rows[i].line, NULL));
        watch_free(&watched);
    }
    ok(atomic_load(&server.connections) <= 2);    /* one a carrier */
    origins_free(&all);
}

static bool first_503(struct request *request)
{
    return request->nth ? hello(request)
        : reply(request, "HTTP/1.1 503 Slow Down\r\nContent-Length: 3\r\n\r\nbad");
}

static bool always_503(struct request *request)
{
    return reply(request, "HTTP/1.1 503 Slow Down\r\nContent-Length: 3\r\n\r\nbad");
}

TEST(a_503_is_repeated_and_the_last_one_is_handed_out)
{
    begin(first_503, PLAIN);
    one(OK, 200, 2);
    begin(always_503, WITH(.tries_max = 2));
    struct watched *watched = got();
    ok(watched->err == OK && watched->status == 503 && watched->tries == 2);
    same(text_slice(&watched->body), S("bad"));
    ok(atomic_load(&server.requests) == 2);
    watch_free(&watched);
    origins_free(&all);
}

static bool first_500(struct request *request)
{
    return request->nth ? hello(request)
        : reply(request, "HTTP/1.1 500 Oh\r\nContent-Length: 3\r\n\r\nbad");
}

/* One PUT, with this field, that is answered 500 at first: its tries. */
static unsigned tries_of_put(const char *name)
{
    const struct http_field field = { slice_of(name), S("\"x\"") };
    begin(first_500, PLAIN);
    struct watched *watched = watch_new(S3_PUT_OBJECT, S("bucket"), S("key"), S(""));
    watched->call.fields = &field;
    watched->call.field_count = 1;
    origin_start(origin, &watched->call);
    ok(watch_wait(watched, FOR_DONE));
    unsigned tries = watched->tries;
    watch_free(&watched);
    origins_free(&all);
    return tries;
}

TEST(a_write_that_must_not_happen_twice_is_sent_once)
{
    ok(tries_of_put("content-type") == 2);
    ok(tries_of_put("If-None-Match") == 1);    /* the first may have been done: 412 would be a lie */
    ok(tries_of_put("if-match") == 1);
    ok(tries_of_put("x-amz-if-match-size") == 1);
    ok(tries_of_put("x-amz-write-offset-bytes") == 1);
}

static bool retry_after(struct request *request)
{
    return request->nth ? hello(request)
        : reply(request, "HTTP/1.1 503 Slow Down\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n");
}

static bool retry_tomorrow(struct request *request)
{
    return reply(request,
                 "HTTP/1.1 503 Slow Down\r\nRetry-After: 86400\r\nContent-Length: 0\r\n\r\n");
}

TEST(retry_after_is_obeyed)
{
    begin(retry_after, PLAIN);
    one(OK, 200, 2);
    pthread_mutex_lock(&server.lock);
    ok(server.at_ms[1] - server.at_ms[0] >= 1000);
    pthread_mutex_unlock(&server.lock);
    begin(retry_tomorrow, PLAIN);
    one(OK, 503, 1);
}

TEST(retries_are_at_most_a_tenth_of_calls_and_a_few)
{
    begin(always_503, WITH(.tries_max = 5, .connections_max = 64));
    struct watched *watched[50];
    for (size_t i = 0; i < countof(watched); i++)
        watched[i] = get();
    for (size_t i = 0; i < countof(watched); i++) {
        ok(watch_wait(watched[i], FOR_DONE) && watched[i]->status == 503);
        watch_free(&watched[i]);
    }
    int requests = atomic_load(&server.requests);
    ok(requests > 50 && requests <= 50 + 5 + RETRY_BUDGET_MAX);
    origins_free(&all);
}

static bool cut_body(struct request *request)
{
    reply(request, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
    return false;
}

static bool cut_chunks(struct request *request)
{
    reply(request, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    return false;
}

static bool cut_always(struct request *request)
{
    return false;
}

static bool cut_once(struct request *request)
{
    return request->nth ? hello(request) : false;
}

TEST(a_body_that_ends_early_is_told_and_not_repeated)
{
    begin(cut_body, PLAIN);
    one(ERR_ORIGIN_CUT, 200, 1);
    ok(atomic_load(&server.requests) == 1);
    begin(cut_chunks, PLAIN);
    one(ERR_ORIGIN_CUT, 200, 1);
    begin(cut_once, PLAIN);
    one(OK, 200, 2);
    begin(cut_always, WITH(.tries_max = 2));
    one(ERR_ORIGIN_CUT, 0, 0);
    ok(atomic_load(&server.requests) == 2);
}

static bool no_length(struct request *request)
{
    reply(request, "HTTP/1.1 200 OK\r\n\r\nwho knows whether this is all");
    return false;
}

static bool chunks(struct request *request)
{
    return reply(request,
                 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
}

static bool endless_head(struct request *request)
{
    bool sent = reply(request, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 100000 && sent; i++)
        sent = reply(request, "X-More: and more and more and more\r\n");
    return false;
}

static bool two_lengths(struct request *request)
{
    return reply(request,
                 "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!");
}

static bool not_http(struct request *request)
{
    reply(request, "SSH-2.0-OpenSSH_9.2\r\n");
    return false;
}

static bool informs_first(struct request *request)
{
    return reply(request, "HTTP/1.1 103 Early Hints\r\nContent-Length: 9\r\n\r\n") &&
           hello(request);
}

TEST(an_answer_whose_end_cannot_be_told_is_none)
{
    begin(no_length, PLAIN);
    one(ERR_ORIGIN_REPLY, 0, 0);
    begin(two_lengths, PLAIN);
    one(ERR_ORIGIN_REPLY, 0, 0);
    begin(endless_head, PLAIN);
    one(ERR_ORIGIN_REPLY, 0, 0);
    begin(not_http, PLAIN);
    one(ERR_ORIGIN_REPLY, 0, 0);
    begin(chunks, PLAIN);
    one(OK, 200, 1);
    begin(informs_first, PLAIN);
    one(OK, 200, 1);
}

static bool dies_when_reused(struct request *request)
{
    return request->nth_here == 0 && hello(request);
}

TEST(a_dead_reused_connection_costs_no_retry)
{
    begin(dies_when_reused, WITH(.tries_max = 1));
    for (int i = 0; i < 8; i++) {
        struct watched *watched = got();
        ok(watched->err == OK && watched->status == 200);
        watch_free(&watched);
    }
    origins_free(&all);
}

/* As AWS: an error without a body, said to come in chunks. */
static bool head_like_aws(struct request *request)
{
    return slice_starts(request->line, S("HEAD "))
               ? reply(request, "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n")
               : hello(request);
}

/* As radosgw (HEAD of the service): the end of the chunks is sent, too. It may come at any time. */
static bool head_like_radosgw(struct request *request)
{
    if (request->owes_end)
        reply(request, "0\r\n\r\n");
    request->owes_end = slice_starts(request->line, S("HEAD "));
    return request->owes_end
               ? reply(request, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
               : hello(request);
}

static atomic_int owed;    /* documents that are not sent yet */

/* As nobody may: the document of a refused HEAD is sent, and reads like an answer. */
static bool head_with_a_body(struct request *request)
{
    if (!slice_starts(request->line, S("HEAD ")))
        return hello(request);
    atomic_fetch_add(&owed, 1);
    bool sent = reply(request, "HTTP/1.1 403 Forbidden\r\nContent-Length: 40\r\n\r\n");
    usleep(2000);
    sent = sent && reply(request, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n!!");
    for (int left = 1; sent && left && ioctl(request->fd, SIOCOUTQ, &left) == 0;)
        usleep(100);    /* acknowledged: it lies where the next look finds it */
    atomic_fetch_sub(&owed, 1);
    return sent;
}

static void heads_and_gets(bool (*answer)(struct request *), int status)
{
    begin(answer, WITH(.tries_max = 1));
    for (int i = 0; i < 8; i++) {
        struct watched *head = watch_new(S3_HEAD_OBJECT, S("bucket"), S("key"), S(""));
        origin_start(origin, &head->call);
        ok(watch_wait(head, FOR_DONE));
        if (head->err || head->status != status)
            fail_msg("HEAD %d: %s, status %d", i, err_name(head->err), head->status);
        watch_free(&head);
        while (atomic_load(&owed))    /* what comes while a request is sent can't be told apart */
            usleep(100);
        struct watched *watched = got();
        if (watched->err || watched->status != 200 ||
            !slice_eq(text_slice(&watched->body), S("hello")))
            fail_msg("GET %d: %s, status %d", i, err_name(watched->err), watched->status);
        watch_free(&watched);
    }
}

TEST(bytes_behind_the_answer_to_a_head_are_part_of_no_answer)
{
    heads_and_gets(head_like_aws, 404);
    ok(atomic_load(&server.connections) <= 2);    /* one a thread: each is used again */
    origins_free(&all);
    heads_and_gets(head_like_radosgw, 200);
    origins_free(&all);
    heads_and_gets(head_with_a_body, 403);
    origins_free(&all);
}

static bool other_region(struct request *request)
{
    const char *authorization = field_of(request, "\r\nAuthorization: ");
    if (authorization && strstr(authorization, "/eu-west-1/s3/"))
        return hello(request);
    return reply(request, "HTTP/1.1 301 Moved Permanently\r\nx-amz-bucket-region: eu-west-1\r\n"
                          "Location: http://evil.example/\r\nContent-Length: 2\r\n\r\n<>");
}

static bool only_moves(struct request *request)
{
    return reply(request, request->nth % 2
        ? "HTTP/1.1 301 Moved\r\nx-amz-bucket-region: eu-west-1\r\nContent-Length: 0\r\n\r\n"
        : "HTTP/1.1 301 Moved\r\nx-amz-bucket-region: eu-west-2\r\nContent-Length: 0\r\n\r\n");
}

TEST(a_region_is_learnt_once_and_remembered)
{
    begin(other_region, PLAIN);
    for (int i = 0; i < 3; i++) {
        struct watched *watched = got();
        ok(watched->err == OK && watched->status == 200);
        watch_free(&watched);
    }
    ok(atomic_load(&server.requests) == 4);
    origins_free(&all);
    begin(only_moves, PLAIN);
    one(OK, 301, 1);
    ok(atomic_load(&server.requests) == 2);
}

/* Until the client has left: it must, or the test hangs. */
static bool until_left(struct request *request)
{
    char more;
    while (recv(request->fd, &more, 1, 0) > 0)
        ;
    return false;
}

static bool silent(struct request *request)
{
    return until_left(request);
}

static bool stalls(struct request *request)
{
    reply(request, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
    return until_left(request);
}

static bool drips(struct request *request)
{
    reply(request, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
    for (int i = 0; i < 10; i++) {
        usleep(250000);
        reply(request, "x");
    }
    return true;
}

static bool informs_for_ever(struct request *request)
{
    for (int i = 0; i < 200; i++) {
        if (!reply(request, "HTTP/1.1 100 Continue\r\n\r\n"))
            return false;
        usleep(100000);
    }
    return hello(request);
}

TEST(an_origin_that_only_says_it_is_at_it_is_given_up)
{
    begin(informs_for_ever, WITH(.progress_ms = 400));
    uint64_t start = mono_ms();
    one(ERR_ORIGIN_TIMEOUT, 0, 0);
    ok(mono_ms() - start < 15000);    /* before it had ended, in both tries */
}

TEST(a_silent_origin_is_given_up_and_a_slow_one_is_not)
{
    begin(stalls, WITH(.progress_ms = 300));
    one(ERR_ORIGIN_TIMEOUT, 200, 1);
    begin(drips, WITH(.progress_ms = 2000));    /* its answer takes longer, and no byte of it does */
    one(OK, 200, 1);
    begin(drips, WITH(.progress_ms = 2000, .total_ms = 500));
    one(ERR_ORIGIN_TIMEOUT, 200, 1);
    begin(silent, WITH(.total_ms = 300));
    one(ERR_ORIGIN_TIMEOUT, 0, 0);
}

TEST(nobody_there_is_told_after_the_last_try)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(address);
    char url[64];
    ok(bind(fd, (struct sockaddr *)&address, len) == 0);    /* taken, but nobody listens */
    ok(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", ntohs(address.sin_port));
    begin(hello, WITH(.url = url));
    one(ERR_ORIGIN_CONNECT, 0, 0);
    close(fd);
}

/* One GET of a key of its own. */
static enum err got_key(unsigned number, int *ret_status)
{
    char key[32];
    snprintf(key, sizeof(key), "key%u", number);
    struct watched *watched = watch_new(S3_GET_OBJECT, S("bucket"), slice_of(key), S(""));
    origin_start(origin, &watched->call);
    ok(watch_wait(watched, FOR_DONE));
    enum err err = watched->err;
    *ret_status = watched->status;
    watch_free(&watched);
    return err;
}

/* Calls until one is refused, for 20 s at most. Returns the number of calls. */
static unsigned until_down(void)
{
    int status;
    for (unsigned i = 0; i < 2000; i++, usleep(10000))
        if (got_key(i, &status) == ERR_ORIGIN_DOWN)
            return i;
    fail();
    return 0;
}

TEST(an_origin_that_is_down_gets_one_call_a_second)
{
    int status, probes = 0;
    begin(always_503, WITH(.tries_max = 1));
    ok(until_down() >= 5);
    int before = atomic_load(&server.requests);
    uint64_t until_ms = mono_ms() + 2500;
    for (unsigned i = 0; mono_ms() < until_ms; i++, usleep(1000)) {
        enum err err = got_key(i, &status);
        ok(err == ERR_ORIGIN_DOWN ? status == 0 : status == 503);
        probes += err == OK;
    }
    ok(probes >= 1 && probes <= 3 && atomic_load(&server.requests) == before + probes);
    atomic_store(&server.answer, hello);
    uint64_t back_ms = mono_ms();
    while (got_key(0, &status) == ERR_ORIGIN_DOWN)
        usleep(1000);
    ok(status == 200 && mono_ms() - back_ms < 5000);
    for (unsigned i = 0; i < 100; i++)
        ok(got_key(i, &status) == OK && status == 200);
    origins_free(&all);
}

static bool hangs(struct request *request)
{
    char byte;
    return recv(request->fd, &byte, 1, 0) > 0;    /* until Penstock gives up */
}

/* Eight calls have all connections and hang; the others wait for a connection. When the eight have
 * shown that the origin is down, the others fail at once. */
TEST(calls_that_wait_for_a_connection_fail_as_soon_as_the_origin_is_down)
{
    struct watched *watched[40];
    char keys[40][8];
    uint64_t began_ms = mono_ms();
    begin(hangs, WITH(.tries_max = 1, .connections_max = 8, .progress_ms = 3000));
    for (size_t i = 0; i < countof(watched); i++) {
        snprintf(keys[i], sizeof(keys[i]), "%zu", i);
        watched[i] = watch_new(S3_GET_OBJECT, S("bucket"), slice_of(keys[i]), S(""));
        origin_start(origin, &watched[i]->call);
    }
    unsigned down = 0;
    for (size_t i = 0; i < countof(watched); i++) {
        ok(watch_wait(watched[i], FOR_DONE));
        down += watched[i]->err == ERR_ORIGIN_DOWN;
        watch_free(&watched[i]);
    }
    ok(down == countof(watched) - (unsigned)atomic_load(&server.requests));
    ok(down >= 20 && mono_ms() - began_ms < 8900);    /* not 5 times 3 s: a few had a second turn */
    origins_free(&all);
}

/* ---- what is sent ---- */

static size_t read_alphabet(void *arg, uint64_t offset, char *ret, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ret[i] = (char)('a' + (offset + i) % 26);
    return arg ? 0 : bytes;
}

static bool takes_second_put(struct request *request)
{
    bool right = request->body_len == 50000 && !field_of(request, "\r\nTransfer-Encoding") &&
                 !field_of(request, "\r\nExpect") && strstr(request->head, "PUT ") == request->head;
    for (size_t i = 0; i < request->body_len; i++)
        right = right && request->body[i] == (char)('a' + i % 26);
    if (!right)
        return reply(request, "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n");
    return request->nth ? reply(request, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                        : reply(request, "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
}

static struct watched *put(enum s3_op op, const struct origin_body *body, bool no_retry)
{
    struct watched *watched = watch_new(op, S("bucket"), S("key"),
                                        op == S3_CREATE_UPLOAD ? S("uploads") : S(""));
    watched->call.body = body;
    watched->call.no_retry = no_retry;
    origin_start(origin, &watched->call);
    ok(watch_wait(watched, FOR_DONE));
    return watched;
}

TEST(a_body_is_sent_whole_in_every_try)
{
    struct origin_body body = { .length = 50000, .read = read_alphabet };
    struct origin_body broken = body, empty = body;
    broken.arg = &broken;
    empty.length = 0;
    begin(takes_second_put, PLAIN);
    struct watched *watched = put(S3_PUT_OBJECT, &body, false);
    ok(watched->err == OK && watched->status == 200 && watched->tries == 2);
    watch_free(&watched);
    watched = put(S3_PUT_OBJECT, &broken, false);
    ok(watched->err == ERR_IO && watched->heads == 0);
    watch_free(&watched);
    watched = put(S3_PUT_OBJECT, &empty, false);
    ok(watched->err == OK && watched->status == 400);
    watch_free(&watched);
    origins_free(&all);
    begin(always_503, PLAIN);
    watched = put(S3_PUT_OBJECT, &body, true);
    ok(watched->err == OK && watched->status == 503 && atomic_load(&server.requests) == 1);
    watch_free(&watched);
    origins_free(&all);
}

TEST(what_must_not_happen_twice_does_not)
{
    begin(cut_always, PLAIN);
    struct watched *watched = put(S3_CREATE_UPLOAD, NULL, false);
    ok(watched->err == ERR_ORIGIN_CUT && atomic_load(&server.requests) == 1);
    ok(told(0, "POST /bucket/key?uploads HTTP/1.1", NULL));
    watch_free(&watched);
    origins_free(&all);
    begin(dies_when_reused, PLAIN);
    watched = got();    /* leaves a connection behind */
    watch_free(&watched);
    watched = put(S3_COMPLETE_UPLOAD, NULL, true);
    ok(watched->err == OK && watched->status == 200);
    watch_free(&watched);
    ok(atomic_load(&server.requests) == 2);
    origins_free(&all);
}

static bool takes_its_time(struct request *request)
{
    usleep(2400000);
    return hello(request);
}

static bool dies_late_when_reused(struct request *request)
{
    if (request->nth_here == 0)
        return hello(request);
    usleep(1500000);
    return false;
}

static bool fails_once(struct request *request)
{
    return request->nth ? hello(request)
                        : reply(request, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
}

static bool bad_gateway(struct request *request)
{
    return reply(request, "HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n");
}

/* A PUT or a copy ends so, after so many requests. */
static void written(enum s3_op op, uint64_t length, enum err err, int status, int requests)
{
    struct origin_body body = { .length = length, .read = read_alphabet };
    struct watched *watched = put(op, length ? &body : NULL, false);
    if (watched->err != err || watched->status != status ||
        atomic_load(&server.requests) != requests)
        fail_msg("%s, status %d, %d requests", err_name(watched->err), watched->status,
                 atomic_load(&server.requests));
    watch_free(&watched);
    origins_free(&all);
}

static void leave_connections(void)
{
    for (int i = 0; i < 2; i++) {    /* one on each carrier */
        struct watched *watched = got();
        watch_free(&watched);
    }
}

/* Beside the two requests that left the connections, the origin sees one. */
static void cut_when_kept(bool (*answers)(struct request *request), enum s3_op op, uint64_t length)
{
    begin(answers, PLAIN);
    leave_connections();
    written(op, length, ERR_ORIGIN_CUT, 0, 3);
}

TEST(what_takes_the_origin_long_is_waited_for_unless_it_is_a_read)
{
    begin(takes_its_time, WITH(.progress_ms = 1200));
    written(S3_COPY_OBJECT, 0, OK, 200, 1);
    begin(takes_its_time, WITH(.progress_ms = 1200));
    written(S3_COMPLETE_UPLOAD, 50000, OK, 200, 1);
    begin(takes_its_time, WITH(.progress_ms = 1200));
    one(ERR_ORIGIN_TIMEOUT, 0, 0);
}

TEST(what_may_have_been_written_is_not_written_again)
{
    begin(silent, WITH(.answer_ms = 300));
    written(S3_COPY_OBJECT, 0, ERR_ORIGIN_TIMEOUT, 0, 1);
    begin(silent, WITH(.progress_ms = 300, .answer_ms = 600));
    written(S3_PUT_OBJECT, 50000, ERR_ORIGIN_TIMEOUT, 0, 1);
    begin(cut_always, PLAIN);
    written(S3_PUT_OBJECT, 50000, ERR_ORIGIN_CUT, 0, 1);
    begin(bad_gateway, PLAIN);
    written(S3_PUT_OBJECT, 50000, OK, 502, 1);
    cut_when_kept(dies_late_when_reused, S3_COPY_OBJECT, 0);
    cut_when_kept(dies_late_when_reused, S3_PUT_OBJECT, 50000);
    cut_when_kept(dies_when_reused, S3_COPY_OBJECT, 0);
    cut_when_kept(dies_when_reused, S3_PUT_OBJECT, 50000);
}

TEST(what_can_t_have_been_written_is_sent_again)
{
    begin(fails_once, PLAIN);
    written(S3_PUT_OBJECT, 50000, OK, 200, 2);
}

TEST(a_body_that_was_cut_on_its_way_is_sent_again)
{
    struct origin_body body = { .length = 64u << 20, .read = read_alphabet };
    begin(hello, PLAIN);    /* the server closes in front of so much */
    struct watched *watched = put(S3_UPLOAD_PART, &body, false);
    ok(watched->err == ERR_ORIGIN_CUT);
    ok(atomic_load(&server.connections) == 3);
    watch_free(&watched);
    origins_free(&all);
}

/* Its bytes are not there before it is told so. */
struct late_body {
    atomic_bool there;
    atomic_int asked;
};

static size_t read_late(void *arg, uint64_t offset, char *ret, size_t bytes)
{
    struct late_body *late = arg;
    if (atomic_load(&late->there))
        return read_alphabet(NULL, offset, ret, bytes);
    atomic_fetch_add(&late->asked, 1);
    return ORIGIN_LATER;
}

static struct watched *put_late(struct late_body *late, struct origin_body *body)
{
    *body = (struct origin_body){ .length = 50000, .read = read_late, .arg = late };
    struct watched *watched = watch_new(S3_PUT_OBJECT, S("bucket"), S("key"), S(""));
    watched->call.body = body;
    origin_start(origin, &watched->call);
    return watched;
}

static bool asked_for(struct late_body *late, int times)
{
    for (int i = 0; i < 60000 && atomic_load(&late->asked) < times; i++)
        usleep(1000);
    return atomic_load(&late->asked) == times;
}

TEST(an_upload_whose_bytes_are_late_pauses_and_no_other_call_waits)
{
    struct late_body late = { false };
    struct origin_body body;
    begin(takes_second_put, WITH(.progress_ms = 1000));
    struct watched *watched = put_late(&late, &body);
    ok(asked_for(&late, 1));
    leave_connections();    /* each carrier answers others */
    usleep(2000000);        /* longer than a request may send nothing */
    ok(asked_for(&late, 1));
    origin_resume(&watched->call);
    ok(asked_for(&late, 2));    /* it was resumed too soon */
    atomic_store(&late.there, true);
    origin_resume(&watched->call);
    ok(watch_wait(watched, FOR_DONE) && watched->err == OK && watched->status == 200);
    watch_free(&watched);
    origins_free(&all);
}

TEST(an_upload_whose_bytes_never_come_can_be_canceled)
{
    struct late_body late = { false };
    struct origin_body body;
    begin(takes_second_put, PLAIN);
    struct watched *watched = put_late(&late, &body);
    ok(asked_for(&late, 1));
    origin_cancel(&watched->call);
    ok(watch_wait(watched, FOR_DONE) && watched->err == ERR_CANCELED);
    watch_free(&watched);
    origins_free(&all);
}

static bool shows_fields(struct request *request)
{
    bool right = field_of(request, "\r\nRange: bytes=1-2\r\n") &&
                 field_of(request, "\r\nx-amz-empty:\r\n") &&
                 !field_of(request, "\r\nAccept:") && !field_of(request, "evil") &&
                 field_of(request, "\r\nUser-Agent: penstock/" PACKAGE_VERSION "\r\n") &&
                 field_of(request, "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date;"
                                   "x-amz-empty,");
    return reply(request, right ? "HTTP/1.1 206 OK\r\nContent-Length: 0\r\n\r\n"
                                : "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n");
}

TEST(fields_are_sent_and_signed_and_never_smuggle_others)
{
    struct http_field fields[] = { { S("Range"), S("bytes=1-2") }, { S("x-amz-empty"), S("") },
                                   { S("Host"), S("evil") }, { S("Content-Length"), S("77") } };
    struct http_field bad[] = { { S("Range"), S("x\r\nevil: 1") }, { S("x y"), S("1") },
                                { S("x-a"), S("a\0b") }, { S("x:"), S("1") }, { S(""), S("1") } };
    begin(shows_fields, PLAIN);
    struct watched *watched = watch_new(S3_GET_OBJECT, S("bucket"), S("key"), S(""));
    watched->call.fields = fields;
    watched->call.field_count = countof(fields);
    origin_start(origin, &watched->call);
    ok(watch_wait(watched, FOR_DONE) && watched->err == OK && watched->status == 206);
    watch_free(&watched);
    for (size_t i = 0; i < countof(bad); i++) {
        watched = watch_new(S3_GET_OBJECT, S("bucket"), S("key"), S(""));
        watched->call.fields = &bad[i];
        watched->call.field_count = 1;
        origin_start(origin, &watched->call);
        ok(watch_wait(watched, FOR_DONE) && watched->err == ERR_BAD_REQUEST);
        watch_free(&watched);
    }
    ok(atomic_load(&server.requests) == 1);
    origins_free(&all);
}

/* ---- pauses, cancels, many ---- */

#define LARGE (1024 * 1024)

static bool large(struct request *request)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n";
    char part[4096];
    bool sent = reply(request, head);
    for (size_t at = 0; at < LARGE && sent; at += sizeof(part)) {
        for (size_t i = 0; i < sizeof(part); i++)
            part[i] = (char)((at + i) * 2654435761u >> 13);
        sent = send(request->fd, part, sizeof(part), MSG_NOSIGNAL) == sizeof(part);
    }
    return sent;
}

static bool is_large(slice body)
{
    for (size_t i = 0; i < body.len; i++)
        if (body.ptr[i] != (char)(i * 2654435761u >> 13))
            return false;
    return body.len == LARGE;
}

TEST(pauses_lose_and_repeat_nothing)
{
    begin(large, PLAIN);
    for (int at = -1; at < 70; at += at < 6 ? 1 : 13)
        for (int inside = 0; inside < 2; inside++) {
            struct watched *watched = get_with_pauses(origin, S("key"), at, inside);
            ok(is_large(text_slice(&watched->body)));
            ok(at <= 0 || watched->pauses == 1);
            watch_free(&watched);
        }
    origins_free(&all);
}

TEST(a_paused_call_is_not_late)
{
    begin(large, WITH(.progress_ms = 1000));
    struct watched *watched = watch_new(S3_GET_OBJECT, S("bucket"), S("key"), S(""));
    watched->pause_at = 3;
    origin_start(origin, &watched->call);
    ok(watch_wait(watched, FOR_PAUSE));
    usleep(2000000);
    ok(watched->dones == 0);
    origin_resume(&watched->call);
    ok(watch_wait(watched, FOR_DONE) && watched->err == OK && is_large(text_slice(&watched->body)));
    watch_free(&watched);
    origins_free(&all);
}

static void cancel_and_free(struct watched *watched, enum err want)
{
    origin_cancel(&watched->call);
    ok(watch_wait(watched, FOR_DONE) && watched->err == want);
    origin_cancel(&watched->call);
    origin_resume(&watched->call);
    watch_free(&watched);
}

TEST(a_cancel_in_any_phase_ends_the_call_once)
{
    begin(large, WITH(.connections_max = 1));
    for (int at = 1; at < 6; at++) {    /* from inside: the head, and the first bodies */
        struct watched *watched = watch_new(S3_GET_OBJECT, S("bucket"), S("key"), S(""));
        watched->cancel_at = at;
        origin_start(origin, &watched->call);
        ok(watch_wait(watched, FOR_DONE) && watched->err == ERR_CANCELED &&
           watched->bodies == at - 1);
        watch_free(&watched);
    }
    struct watched *paused = watch_new(S3_GET_OBJECT, S("bucket"), S("key"), S(""));
    paused->pause_at = 2;
    origin_start(origin, &paused->call);
    ok(watch_wait(paused, FOR_PAUSE));
    struct watched *queued = get();    /* behind the paused one, which holds the only connection */
    usleep(20000);
    ok(queued->heads == 0);
    cancel_and_free(queued, ERR_CANCELED);
    queued = get();
    cancel_and_free(paused, ERR_CANCELED);
    ok(watch_wait(queued, FOR_DONE) && queued->err == OK);
    watch_free(&queued);
    for (int us = 0; us < 3000; us += 40) {
        struct watched *watched = get();
        usleep((unsigned)us);
        origin_cancel(&watched->call);
        ok(watch_wait(watched, FOR_DONE) && (watched->err == ERR_CANCELED || watched->err == OK));
        watch_free(&watched);
    }
    origins_free(&all);
    begin(retry_after, PLAIN);
    struct watched *waiting = get();
    while (!atomic_load(&server.requests))
        usleep(1000);
    usleep(50000);
    cancel_and_free(waiting, ERR_CANCELED);    /* while it backs off */
    ok(atomic_load(&server.requests) == 1);
    origins_free(&all);
    begin(silent, PLAIN);
    waiting = get();
    usleep(50000);
    cancel_and_free(waiting, ERR_CANCELED);    /* before any answer */
    origins_free(&all);
}

static atomic_int unwanted;

static enum err until_unwanted(struct origin_call *call, bool again)
{
    return atomic_load(&unwanted) ? ERR_CANCELED : OK;
}

static enum err only_once(struct origin_call *call, bool again)
{
    return again ? ERR_BUSY : OK;
}

static struct watched *wants(enum s3_op op, enum err (*may_send)(struct origin_call *, bool))
{
    struct watched *watched = watch_new(op, S("bucket"), S("key"), S(""));
    watched->call.may_send = may_send;
    origin_start(origin, &watched->call);
    return watched;
}

static void ends_as(struct watched *watched, enum err err, int status, int requests)
{
    ok(watch_wait(watched, FOR_DONE));
    if (watched->err != err || watched->status != status ||
        atomic_load(&server.requests) != requests)
        fail_msg("%s, status %d, %d requests", err_name(watched->err), watched->status,
                 atomic_load(&server.requests));
    origin_ask_again(&watched->call);
    watch_free(&watched);
}

static struct watched *pauses(bool spares)
{
    struct watched *watched = watch_new(S3_GET_OBJECT, S("bucket"), S("key"), S(""));
    watched->pause_at = 2;
    watched->spares = spares;
    origin_start(origin, &watched->call);
    ok(watch_wait(watched, FOR_PAUSE));
    return watched;
}

static void is_answered(struct watched *watched)
{
    ok(watch_wait(watched, FOR_DONE) && watched->err == OK && watched->status == 200);
    watch_free(&watched);
}

TEST(who_waits_gets_the_connection_that_was_spared_longest_ago)
{
    begin(large, WITH(.connections_max = 3));
    struct watched *keeps = pauses(false), *first = pauses(true);
    usleep(300000);    /* we hear of a pause before its place is spared: these two in this order */
    struct watched *second = pauses(true);
    usleep(300000);
    is_answered(get());
    ok(watch_wait(first, FOR_DONE) && first->err == ERR_YIELDED);
    is_answered(get());    /* a place is free now: nobody else has to leave */
    usleep(20000);
    ok(second->dones == 0 && keeps->dones == 0);
    struct watched *third = pauses(true);
    origin_resume(&second->call);    /* it needs its place, and is not asked for it any more */
    is_answered(second);
    is_answered(get());
    ok(third->dones == 0);
    cancel_and_free(keeps, ERR_CANCELED);
    cancel_and_free(third, ERR_CANCELED);
    watch_free(&first);
    origins_free(&all);
}

TEST(who_pauses_while_others_wait_leaves_at_once)
{
    begin(large, WITH(.connections_max = 1));
    struct watched *keeps = pauses(false);
    struct watched *watched = watch_new(S3_GET_OBJECT, S("bucket"), S("key"), S(""));
    watched->pause_at = 2;
    watched->spares = true;
    origin_start(origin, &watched->call);
    usleep(300000);    /* until it stands in line */
    struct watched *last = get();
    usleep(20000);
    ok(watched->heads == 0 && last->heads == 0);
    origin_resume(&keeps->call);
    is_answered(keeps);
    ok(watch_wait(watched, FOR_DONE) && watched->err == ERR_YIELDED && watched->bodies == 2);
    is_answered(last);
    watch_free(&watched);
    origins_free(&all);
}

static bool late(struct request *request)
{
    usleep(200000);
    return always_503(request);
}

TEST(what_nobody_wants_any_more_is_not_sent)
{
    atomic_store(&unwanted, false);
    begin(large, WITH(.connections_max = 1));
    struct watched *paused = watch_new(S3_GET_OBJECT, S("bucket"), S("key"), S(""));
    paused->pause_at = 2;
    origin_start(origin, &paused->call);
    ok(watch_wait(paused, FOR_PAUSE));
    struct watched *queued = wants(S3_DELETE_OBJECT, until_unwanted);
    usleep(20000);
    atomic_store(&unwanted, true);
    origin_ask_again(&queued->call);
    ends_as(queued, ERR_CANCELED, 0, 1);
    ends_as(wants(S3_DELETE_OBJECT, until_unwanted), ERR_CANCELED, 0, 1);
    cancel_and_free(paused, ERR_CANCELED);
    origins_free(&all);

    atomic_store(&unwanted, false);
    begin(retry_after, PLAIN);
    struct watched *backs_off = wants(S3_DELETE_OBJECT, until_unwanted);
    while (!atomic_load(&server.requests))
        usleep(1000);
    usleep(50000);
    atomic_store(&unwanted, true);
    origin_ask_again(&backs_off->call);
    ends_as(backs_off, ERR_CANCELED, 0, 1);
    origins_free(&all);
}

TEST(what_is_being_sent_goes_on_unwanted_but_not_again)
{
    atomic_store(&unwanted, false);
    begin(late, PLAIN);
    struct watched *watched = wants(S3_DELETE_OBJECT, until_unwanted);
    while (!atomic_load(&server.requests))
        usleep(1000);
    atomic_store(&unwanted, true);
    origin_ask_again(&watched->call);
    ends_as(watched, OK, 503, 1);
    origins_free(&all);
}

static enum err only_if_unsent(struct origin_call *call, bool again)
{
    check(!again);
    return OK;
}

TEST(what_needs_no_other_try_is_not_asked_about_one)
{
    begin(large, PLAIN);
    ends_as(wants(S3_GET_OBJECT, only_if_unsent), OK, 200, 1);
    origins_free(&all);
}

TEST(a_call_that_may_not_be_repeated_is_neither_by_us_nor_by_libcurl)
{
    begin(always_503, PLAIN);
    ends_as(wants(S3_DELETE_OBJECT, only_once), OK, 503, 1);
    origins_free(&all);
    begin(cut_always, PLAIN);
    ends_as(wants(S3_DELETE_OBJECT, only_once), ERR_ORIGIN_CUT, 0, 1);
    origins_free(&all);
    begin(only_moves, PLAIN);
    ends_as(wants(S3_DELETE_OBJECT, only_once), ERR_BUSY, 0, 1);
    origins_free(&all);
    begin(dies_when_reused, PLAIN);
    leave_connections();
    ends_as(wants(S3_DELETE_OBJECT, only_once), ERR_ORIGIN_CUT, 0, 3);
    origins_free(&all);
    begin(dies_when_reused, PLAIN);
    leave_connections();
    ends_as(wants(S3_GET_OBJECT, only_once), ERR_BUSY, 0, 3);
    origins_free(&all);
}

/* Starts, pauses, resumes and cancels at random moments; every call must end once, and rightly. */
static void *meddle(void *arg)
{
    unsigned seed = (unsigned)(intptr_t)arg;
    for (int i = 0; i < 60; i++) {
        struct watched *watched = watch_new(S3_GET_OBJECT, S("bucket"), S("key"), S(""));
        watched->pause_at = rand_r(&seed) % 2 ? -1 : 1 + rand_r(&seed) % 40;
        watched->resume_inside = rand_r(&seed) % 4 == 0;
        watched->spares = rand_r(&seed) % 2;
        watched->cancel_at = rand_r(&seed) % 3 ? 0 : 1 + rand_r(&seed) % 40;
        origin_start(origin, &watched->call);
        bool cancel = rand_r(&seed) % 2;
        int cancel_after = rand_r(&seed) % 40;
        for (int k = 0;; k++) {
            pthread_mutex_lock(&watched->lock);
            bool over = watched->dones;
            pthread_mutex_unlock(&watched->lock);
            if (over)
                break;
            check(k < 200000 && "it never ended");
            origin_resume(&watched->call);
            if (cancel && k == cancel_after)
                origin_cancel(&watched->call);
            usleep(50);
        }
        check(watched->err == ERR_CANCELED || (watched->err == ERR_YIELDED && watched->spares) ||
              (watched->err == OK && is_large(text_slice(&watched->body))));
        check(watched->err != ERR_CANCELED || cancel || watched->cancel_at);
        watch_free(&watched);
    }
    return NULL;
}

TEST(calls_survive_meddling_from_all_sides)
{
    pthread_t threads[4];
    begin(large, WITH(.connections_max = 3));
    for (size_t i = 0; i < countof(threads); i++)
        ok(pthread_create(&threads[i], NULL, meddle, (void *)(intptr_t)(i + 1)) == 0);
    for (size_t i = 0; i < countof(threads); i++)
        pthread_join(threads[i], NULL);
    origins_free(&all);
}

TEST(many_calls_share_a_few_connections)
{
    begin(large, WITH(.connections_max = 8));
    int hedges = (int)metric_read(M_ORIGIN_HEDGES);
    static struct watched *watched[200];
    for (size_t i = 0; i < countof(watched); i++)
        watched[i] = get();
    for (size_t i = 0; i < countof(watched); i++) {
        ok(watch_wait(watched[i], FOR_DONE) && watched[i]->err == OK);
        ok(is_large(text_slice(&watched[i]->body)));
        watch_free(&watched[i]);
    }
    ok(atomic_load(&server.open_most) <= 8 + 2 && atomic_load(&server.open_most) > 1);
    hedges = (int)metric_read(M_ORIGIN_HEDGES) - hedges;    /* on a busy machine */
    int more = atomic_load(&server.requests) - 200;
    ok(more >= 0 && more <= hedges && hedges <= 6);
    origins_free(&all);
}

TEST(stopping_ends_calls_in_every_phase)
{
    begin(large, WITH(.connections_max = 2));
    struct watched *watched[6];
    for (size_t i = 0; i < countof(watched); i++) {
        watched[i] = watch_new(S3_GET_OBJECT, S("bucket"), S("key"), S(""));
        watched[i]->pause_at = 2;
        origin_start(origin, &watched[i]->call);
    }
    for (int paused = 0; paused < 2; usleep(1000)) {    /* whichever got a connection */
        paused = 0;
        for (size_t i = 0; i < countof(watched); i++) {
            pthread_mutex_lock(&watched[i]->lock);
            paused += watched[i]->pauses;
            pthread_mutex_unlock(&watched[i]->lock);
        }
    }
    origins_free(&all);
    for (size_t i = 0; i < countof(watched); i++) {
        ok(watched[i]->dones == 1 && watched[i]->err == ERR_STOPPING);
        watch_free(&watched[i]);
    }
}

/* ---- hedged requests ---- */

#define CUT "HTTP/1.1 200 OK\r\nContent-Le"
#define GOOD "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
#define SLOW_DOWN "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"
#define FAILED "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
#define DENIED "HTTP/1.1 403 No\r\nContent-Length: 40\r\n\r\n" \
               "<Error><Code>AccessDenied</Code></Error>"
#define MOVED "HTTP/1.1 301 No\r\nx-amz-bucket-region: eu-west-1\r\nContent-Length: 0\r\n\r\n"
#define HEAD_ONLY "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
#define MISSING "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"

static void pause_until(const atomic_int *counter, int least)
{
    while (atomic_load(counter) < least && !atomic_load(&twice.over))
        usleep(500);
}

static bool answers_twice(struct request *request)
{
    int nth = atomic_fetch_add(&twice.come, 1);
    if (nth > 1)
        return hello(request);
    if (nth == 0)
        pause_until(&twice.come, twice.script.holds ? INT_MAX : 2);
    if (nth == twice.script.last) {
        pause_until(&twice.answered, 1);
        usleep(30000);
    }
    const char *text = twice.script.answers[nth];
    if (!text) {
        pause_until(&twice.come, INT_MAX);
        return false;
    }
    bool more = reply(request, text) && strcmp(text, CUT);
    atomic_fetch_add(&twice.answered, 1);
    return more;
}

static bool answers_head(struct request *request)
{
    return reply(request, HEAD_ONLY);
}

/* Begins with an origin that has answered requests of this operation so often that 10 hedges are
 * saved. Returns the number of requests. */
static int begin_to_hedge_as(enum s3_op op, struct script script, struct origin_options options)
{
    leftovers_are_over();
    twice.script = script;
    atomic_store(&twice.over, false);
    atomic_store(&twice.come, 0);
    atomic_store(&twice.answered, 0);
    options.hedges = true;
    begin(op == S3_HEAD_OBJECT ? answers_head : hello, options);
    for (int i = 0; i < 340; i++) {
        struct watched *watched = watch_new(op, S("bucket"), S("key"), S(""));
        origin_start(origin, &watched->call);
        ok(watch_wait(watched, FOR_DONE) && watched->err == OK);
        watch_free(&watched);
    }
    atomic_store(&server.answer, answers_twice);
    return atomic_load(&server.requests);
}

static int begin_to_hedge(struct script script, struct origin_options options)
{
    return begin_to_hedge_as(S3_GET_OBJECT, script, options);
}

static void end_of_hedges(void)
{
    atomic_store(&twice.over, true);
    origins_free(&all);    /* checks that each place was given back */
}

#define ATTEMPTS 4u    /* of a row, after the first one */

TEST(a_late_request_is_sent_again_and_the_first_good_answer_counts)
{
    static const struct {
        const char *first, *second;
        int last, status;
        unsigned tries;
        int requests;
        bool second_wins;
    } rows[] = {
        { GOOD, GOOD, 0, 200, 1, 2, true },
        { GOOD, MISSING, 0, 200, 1, 2, false },
        { MISSING, GOOD, 1, 404, 1, 2, false },    /* the first one may say anything */
        { DENIED, GOOD, 1, 403, 1, 2, false },
        { GOOD, SLOW_DOWN, 0, 200, 1, 2, false },
        { GOOD, FAILED, 0, 200, 1, 2, false },
        { GOOD, DENIED, 0, 200, 1, 2, false },
        { GOOD, MOVED, 0, 200, 1, 2, false },
        { GOOD, CUT, 0, 200, 1, 2, false },
        { CUT, GOOD, 1, 200, 1, 2, true },         /* the first one fails, the second goes on */
        { FAILED, GOOD, 1, 200, 1, 2, true },
        { SLOW_DOWN, GOOD, 1, 200, 1, 2, true },
        { FAILED, FAILED, 1, 200, 2, 3, false },   /* then it is repeated */
        { FAILED, FAILED, 0, 200, 2, 3, false },
        { CUT, FAILED, 1, 200, 2, 3, false },
        { SLOW_DOWN, FAILED, 0, 200, 2, 3, false },
        { FAILED, NULL, 0, 200, 2, 3, false },     /* the second is silent */
        { FAILED, DENIED, 1, 200, 2, 3, false },
        { FAILED, MISSING, 1, 200, 2, 3, false },
    };
    for (size_t i = 0, attempts = 0; i < countof(rows); i++) {
        struct script script = { { rows[i].first, rows[i].second }, rows[i].last, false };
        int before = begin_to_hedge(script, PLAIN);
        uint64_t hedges = metric_read(M_ORIGIN_HEDGES), won = metric_read(M_ORIGIN_HEDGES_WON);
        uint64_t slowed = metric_read(M_ORIGIN_SLOWED);
        struct watched *watched = got();
        int requests = atomic_load(&server.requests) - before;
        hedges = metric_read(M_ORIGIN_HEDGES) - hedges;
        int more = (int)hedges - 1;    /* on a busy machine, what is repeated is late, too */
        if (watched->err || watched->status != rows[i].status || watched->heads != 1 ||
            watched->tries != rows[i].tries || requests != rows[i].requests + more || more < 0) {
            end_of_hedges();
            /* On a busy machine, a kept connection may have ended, which costs a try. */
            if (++attempts > ATTEMPTS)
                fail_msg("row %zu: %s, status %d, %u tries, %d requests, %d hedges", i,
                         err_name(watched->err), watched->status, watched->tries, requests,
                         (int)hedges);
            watch_free(&watched);
            i--;
            continue;
        }
        attempts = 0;
        same(text_slice(&watched->body), watched->status == 200 ? S("hello") :
             watched->status == 403 ? S("<Error><Code>AccessDenied</Code></Error>") : S(""));
        won = metric_read(M_ORIGIN_HEDGES_WON) - won;
        ok(won >= rows[i].second_wins && won <= rows[i].second_wins + (unsigned)more);
        slowed += !strcmp(rows[i].first, SLOW_DOWN);
        slowed += rows[i].second && !strcmp(rows[i].second, SLOW_DOWN);
        ok(metric_read(M_ORIGIN_SLOWED) == slowed);    /* each result is heard once */
        ok(told(before, server.lines[before + 1], server.authorization[before + 1]));
        watch_free(&watched);
        end_of_hedges();
    }
}

TEST(a_call_with_two_requests_in_progress_can_be_canceled_or_stopped)
{
    for (int stop = 0; stop < 2; stop++) {
        begin_to_hedge((struct script){ { GOOD, GOOD }, 1, true }, PLAIN);
        struct watched *watched = get();
        pause_until(&twice.come, 2);
        if (!stop)
            cancel_and_free(watched, ERR_CANCELED);
        origins_free(&all);
        if (stop) {
            ok(watched->dones == 1 && watched->err == ERR_STOPPING && !watched->heads);
            watch_free(&watched);
        }
        atomic_store(&twice.over, true);
    }
}

TEST(reads_are_sent_again)
{
    static const struct {
        enum s3_op op;
        const char *answer;
    } rows[] = { { S3_GET_OBJECT, GOOD }, { S3_HEAD_OBJECT, HEAD_ONLY } };
    for (size_t i = 0; i < countof(rows); i++) {
        /* the first one is held: the second one wins */
        struct script script = { { rows[i].answer, rows[i].answer }, -1, true };
        int before = begin_to_hedge_as(rows[i].op, script, PLAIN);
        uint64_t won = metric_read(M_ORIGIN_HEDGES_WON);
        struct watched *watched = watch_new(rows[i].op, S("bucket"), S("key"), S(""));
        origin_start(origin, &watched->call);
        ok(watch_wait(watched, FOR_DONE) && watched->err == OK && watched->status == 200);
        ok(atomic_load(&server.requests) >= before + 2);
        ok(metric_read(M_ORIGIN_HEDGES_WON) == won + 1);
        watch_free(&watched);
        end_of_hedges();
    }
}

static atomic_int looks;            /* of calls that are late: whether somebody waits for them */

static bool is_awaited(struct origin_call *call)
{
    atomic_fetch_add(&looks, 1);
    return true;
}

static bool is_not_awaited(struct origin_call *call)
{
    atomic_fetch_add(&looks, 1);
    return false;
}

static bool answers_at_the_end(struct request *request)
{
    atomic_fetch_add(&twice.come, 1);
    pause_until(&twice.come, INT_MAX);
    return hello(request);
}

/* The answer of each request is late. A call looks whether it is to be sent again, and again after
 * twice that time. A call that never looks is compared with one that began later and does. */
TEST(a_request_is_not_sent_again_if_that_may_do_harm_or_take_the_place_of_another)
{
    static const struct {
        const char *text;
        enum s3_op op;
        bool no_retry;
        unsigned connections;
        bool (*is_awaited)(struct origin_call *);
    } rows[] = {
        { "a write", S3_DELETE_OBJECT, false, 3, NULL },
        { "a list", S3_LIST_OBJECTS_V2, false, 3, NULL },
        { "not twice", S3_GET_OBJECT, true, 3, NULL },
        { "no place", S3_GET_OBJECT, false, 1, is_awaited },
        { "nobody waits", S3_GET_OBJECT, false, 2, is_not_awaited },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        int before = begin_to_hedge((struct script){ .last = -1 },
                                    WITH(.connections_max = rows[i].connections));
        struct watched *watched = watch_new(rows[i].op, S("bucket"), S("key"), S("")), *later = NULL;
        atomic_store(&server.answer, answers_at_the_end);
        atomic_store(&looks, 0);
        watched->call.no_retry = rows[i].no_retry;
        watched->call.is_awaited = rows[i].is_awaited;
        origin_start(origin, &watched->call);
        pause_until(&twice.come, 1);
        if (!rows[i].is_awaited) {
            later = watch_new(S3_GET_OBJECT, S("bucket"), S("later"), S(""));
            later->call.is_awaited = is_not_awaited;
            origin_start(origin, &later->call);
            pause_until(&twice.come, 2);
        }
        pause_until(&looks, 3);
        ok(watched->heads == 0 && atomic_load(&server.requests) == before + (later ? 2 : 1));
        atomic_store(&twice.over, true);
        ok(watch_wait(watched, FOR_DONE));
        if (watched->err)
            fail_msg("%s: %s", rows[i].text, err_name(watched->err));
        watch_free(&watched);
        if (later) {
            ok(watch_wait(later, FOR_DONE) && later->err == OK);
            watch_free(&later);
        }
        end_of_hedges();
    }
}

/* Each row: the connections of an origin that answers none of 14 requests, and how many of these
 * are sent again. 10 hedges are saved at first. */
TEST(hedges_need_a_budget_and_free_connections)
{
    static const struct {
        unsigned connections, hedges;
    } rows[] = { { 16, 2 }, { 40, 10 } };
    for (size_t i = 0; i < countof(rows); i++) {
        uint64_t before = metric_read(M_ORIGIN_HEDGES);
        begin_to_hedge((struct script){ .last = -1 },
                       WITH(.connections_max = rows[i].connections));
        uint64_t early = metric_read(M_ORIGIN_HEDGES) - before;    /* on a busy machine */
        uint64_t want = rows[i].hedges + (rows[i].hedges == 10 ? 0 : early);
        atomic_store(&server.answer, silent);
        struct watched *watched[14];
        for (size_t k = 0; k < countof(watched); k++)
            watched[k] = get();
        for (int tries = 0; tries < 500 && metric_read(M_ORIGIN_HEDGES) < before + want; tries++)
            usleep(10000);
        usleep(100000);
        ok(metric_read(M_ORIGIN_HEDGES) == before + want);
        for (size_t k = 0; k < countof(watched); k++)
            cancel_and_free(watched[k], ERR_CANCELED);
        end_of_hedges();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_comes_as_it_was_sent),
        cmocka_unit_test(a_call_is_signed_as_whom_it_names_or_not_at_all),
        cmocka_unit_test(who_is_unknown_to_the_origin_hears_it_and_our_own_keys_are_not_in_doubt),
        cmocka_unit_test(odd_keys_are_sent_byte_for_byte),
        cmocka_unit_test(a_write_that_must_not_happen_twice_is_sent_once),
        cmocka_unit_test(a_503_is_repeated_and_the_last_one_is_handed_out),
        cmocka_unit_test(retry_after_is_obeyed),
        cmocka_unit_test(retries_are_at_most_a_tenth_of_calls_and_a_few),
        cmocka_unit_test(a_body_that_ends_early_is_told_and_not_repeated),
        cmocka_unit_test(an_answer_whose_end_cannot_be_told_is_none),
        cmocka_unit_test(a_dead_reused_connection_costs_no_retry),
        cmocka_unit_test(bytes_behind_the_answer_to_a_head_are_part_of_no_answer),
        cmocka_unit_test(a_region_is_learnt_once_and_remembered),
        cmocka_unit_test(an_origin_that_only_says_it_is_at_it_is_given_up),
        cmocka_unit_test(a_silent_origin_is_given_up_and_a_slow_one_is_not),
        cmocka_unit_test(nobody_there_is_told_after_the_last_try),
        cmocka_unit_test(an_origin_that_is_down_gets_one_call_a_second),
        cmocka_unit_test(calls_that_wait_for_a_connection_fail_as_soon_as_the_origin_is_down),
        cmocka_unit_test(a_body_is_sent_whole_in_every_try),
        cmocka_unit_test(what_must_not_happen_twice_does_not),
        cmocka_unit_test(what_takes_the_origin_long_is_waited_for_unless_it_is_a_read),
        cmocka_unit_test(what_may_have_been_written_is_not_written_again),
        cmocka_unit_test(what_can_t_have_been_written_is_sent_again),
        cmocka_unit_test(a_body_that_was_cut_on_its_way_is_sent_again),
        cmocka_unit_test(an_upload_whose_bytes_are_late_pauses_and_no_other_call_waits),
        cmocka_unit_test(an_upload_whose_bytes_never_come_can_be_canceled),
        cmocka_unit_test(fields_are_sent_and_signed_and_never_smuggle_others),
        cmocka_unit_test(pauses_lose_and_repeat_nothing),
        cmocka_unit_test(a_paused_call_is_not_late),
        cmocka_unit_test(a_cancel_in_any_phase_ends_the_call_once),
        cmocka_unit_test(what_nobody_wants_any_more_is_not_sent),
        cmocka_unit_test(who_waits_gets_the_connection_that_was_spared_longest_ago),
        cmocka_unit_test(who_pauses_while_others_wait_leaves_at_once),
        cmocka_unit_test(what_is_being_sent_goes_on_unwanted_but_not_again),
        cmocka_unit_test(what_needs_no_other_try_is_not_asked_about_one),
        cmocka_unit_test(a_call_that_may_not_be_repeated_is_neither_by_us_nor_by_libcurl),
        cmocka_unit_test(calls_survive_meddling_from_all_sides),
        cmocka_unit_test(many_calls_share_a_few_connections),
        cmocka_unit_test(stopping_ends_calls_in_every_phase),
        cmocka_unit_test(a_late_request_is_sent_again_and_the_first_good_answer_counts),
        cmocka_unit_test(a_call_with_two_requests_in_progress_can_be_canceled_or_stopped),
        cmocka_unit_test(reads_are_sent_again),
        cmocka_unit_test(
            a_request_is_not_sent_again_if_that_may_do_harm_or_take_the_place_of_another),
        cmocka_unit_test(hedges_need_a_budget_and_free_connections),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
