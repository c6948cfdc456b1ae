/* loader.c - reads many objects, in random order, as fast as the server lets it.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     loader --port N --path FORMAT --objects N --bytes N [--conns 16] [--sign ACCESS:SECRET]
 *            [--ranges N --range-bytes N] [--requests N] [--shuffle SEED]
 *
 * FORMAT holds one %u, the object's number; --bytes is the size of each. With --ranges it asks for
 * N distinct ranges, spread evenly over the objects, instead of whole objects. --requests ends it
 * sooner, or lets it begin again with the first. Every request is made and signed before the first
 * is sent. One thread, one request at a time on each connection; a
 * body is thrown away in the kernel, so that the client costs little. Prints one line. */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define CONNS_MAX 1024

struct made {
    uint32_t at, len;          /* in `text` */
    uint64_t expected;         /* bytes of the body */
};

static struct {
    struct made *all;
    size_t count;
    char *text;
    size_t used, cap;
} requests;

struct conn {
    struct http http;
    bool in_body;
    uint64_t left;             /* bytes of the body still to come */
    double asked_ms;
    const struct made *request;
};

static size_t next_request, done_count, wanted;
static uint64_t bytes_read;
static double *took_ms;
static uint32_t *order;

static void request_add(const struct signer *signer, const char *path, uint64_t first,
                        uint64_t last, uint64_t expected)
{
    if (requests.cap - requests.used < REQUEST_BYTES_MAX) {
        requests.cap = requests.cap * 2 + 64 * REQUEST_BYTES_MAX;
        requests.text = realloc(requests.text, requests.cap);
        if (!requests.text)
            die("out of memory");
    }
    size_t len = request_make(signer, path, first, last, requests.text + requests.used);
    requests.all[requests.count++] =
        (struct made){ (uint32_t)requests.used, (uint32_t)len, expected };
    requests.used += len;
}

/* Ranges of one object start a step apart, each moved by chance within its step: all differ. */
static void requests_make(const struct signer *signer, int argc, char **argv)
{
    const char *format = flag(argc, argv, "path", NULL);
    uint64_t objects = flag_number(argc, argv, "objects", 1);
    uint64_t bytes = flag_number(argc, argv, "bytes", 0);
    uint64_t ranges = flag_number(argc, argv, "ranges", 0);
    uint64_t range_bytes = flag_number(argc, argv, "range-bytes", 0);
    uint64_t seed = 1, each = ranges ? (ranges + objects - 1) / objects : 1;
    uint64_t step = ranges ? (bytes - range_bytes + 1) / each : 0;
    if (!format || !bytes || !objects || (ranges && (!range_bytes || !step)))
        die("see the head of tests/bench/loader.c");
    requests.all = calloc(objects * each, sizeof(*requests.all));
    for (uint64_t i = 0; i < objects; i++) {
        char path[512];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(path, sizeof(path), format, (unsigned)i);
#pragma GCC diagnostic pop
        if (!ranges)
            request_add(signer, path, 0, 0, bytes);
        for (uint64_t r = 0; ranges && r < each; r++) {
            uint64_t first = r * step + random_next(&seed) % step;
            request_add(signer, path, first, first + range_bytes - 1, range_bytes);
        }
    }
    order = calloc(requests.count, sizeof(*order));
    for (size_t i = 0; i < requests.count; i++)
        order[i] = (uint32_t)i;
    uint64_t order_seed = flag_number(argc, argv, "shuffle", 0);
    if (order_seed)
        shuffle(order, requests.count, order_seed);
    wanted = flag_number(argc, argv, "requests", requests.count);
}

static void ask(struct conn *conn)
{
    conn->request = NULL;
    if (next_request == wanted)
        return;
    conn->request = &requests.all[order[next_request++ % requests.count]];
    conn->in_body = false;
    conn->asked_ms = now_ms();
    http_send(&conn->http, requests.text + conn->request->at, conn->request->len);
}

static void ended(struct conn *conn)
{
    took_ms[done_count++] = now_ms() - conn->asked_ms;
    bytes_read += conn->request->expected;
    ask(conn);
}

static void head_came(struct conn *conn, const struct answer *answer)
{
    if (answer->status != 200 && answer->status != 206)
        die("status %d: %.*s", answer->status, (int)answer->body_have,
            conn->http.head + answer->body_at);
    if (answer->length != conn->request->expected || answer->body_have > answer->length)
        die("%llu bytes instead of %llu", (unsigned long long)answer->length,
            (unsigned long long)conn->request->expected);
    conn->in_body = true;
    conn->left = answer->length - answer->body_have;
}

/* Takes one piece of what has come; the rest makes the socket readable again. */
static void readable(struct conn *conn)
{
    struct http *http = &conn->http;
    ssize_t got;
    if (conn->in_body) {
        got = recv(http->fd, NULL, conn->left < (4u << 20) ? conn->left : 4u << 20,
                   MSG_TRUNC | MSG_DONTWAIT);
    } else {
        got = recv(http->fd, http->head + http->have, sizeof(http->head) - http->have,
                   MSG_DONTWAIT);
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0)
        die("reading: %s", got ? strerror(errno) : "the server closed");
    struct answer answer;
    if (conn->in_body) {
        conn->left -= (uint64_t)got;
    } else {
        http->have += (size_t)got;
        if (!answer_parse(http, &answer))
            return;
        head_came(conn, &answer);
    }
    if (!conn->left)
        ended(conn);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(double wall_ms)
{
    qsort(took_ms, done_count, sizeof(*took_ms), by_size);
    printf("requests=%zu bytes=%llu wall_ms=%.3f rate=%.1f p50_us=%.1f p99_us=%.1f max_us=%.1f\n",
           done_count, (unsigned long long)bytes_read, wall_ms, (double)done_count / wall_ms * 1e3,
           took_ms[done_count / 2] * 1e3, took_ms[done_count * 99 / 100] * 1e3,
           took_ms[done_count - 1] * 1e3);
}

int main(int argc, char **argv)
{
    unsigned port = (unsigned)flag_number(argc, argv, "port", 9000);
    size_t conns = flag_number(argc, argv, "conns", 16);
    struct signer signer;
    signer_make(&signer, flag(argc, argv, "sign", NULL), port);
    requests_make(&signer, argc, argv);
    if (!conns || conns > CONNS_MAX || !wanted)
        die("1 to %d connections, 1 request at least", CONNS_MAX);
    took_ms = calloc(wanted, sizeof(*took_ms));
    struct conn *all = calloc(conns, sizeof(*all));
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (size_t i = 0; i < conns; i++) {
        http_open(&all[i].http, port);
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = &all[i] };
        epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].http.fd, &event);
    }
    double began_ms = now_ms();
    for (size_t i = 0; i < conns; i++)
        ask(&all[i]);
    while (done_count < wanted) {
        struct epoll_event events[64];
        int count = epoll_wait(epoll, events, 64, 20000);
        if (count == 0)
            die("the server was silent for 20 s");
        for (int i = 0; i < count; i++)
            readable(events[i].data.ptr);
    }
    report(now_ms() - began_ms);
    return 0;
}
