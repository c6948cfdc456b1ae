/* fleet.c - clients of several nodes, which count failures instead of ending with the first.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     fleet --ports P,P,... --path FORMAT --objects N --bytes N [--conns 8] [--requests N]
 *           [--large FORMAT --large-objects N --large-bytes N] [--large-conns 1]
 *           [--rate N] [--seed N] [--apart 0] [--sign ACCESS:SECRET]
 *           [--pid P --signal S --after N]
 *
 * Each port is a node, with clients of its own: `conns` connections read the small objects once
 * each, in an order by chance. With more `requests` than objects, the other GETs are repetitions,
 * evenly among the first reads. --rate: at most so many of these GETs a second and node.
 * `large-conns` connections read the large objects, one after another. --apart 1: each node has an
 * order of its own, otherwise all have the same. FORMAT has one %u, the object's number. All bytes
 * are compared with those of the scripted origin. After so many small GETs of all nodes, the
 * process P gets the signal S.
 *
 * A GET fails if its status is not 200, its bytes are wrong or too few, or nothing comes for 20 s.
 * Silence is the time without a byte on a connection with an open request. One thread. Prints lines
 * of facts: the first failures, the longest silence, each node, all. */
#include "client.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "synthetic.h"

#define NODES_MAX 64
#define PATH_BYTES 256
#define PIECE_BYTES 262144
#define SILENT_MS 20000.0
#define LOOK_MS 1000
#define ERRORS_TOLD 20

enum { SMALL, LARGE, KINDS };

static struct kind {
    const char *format;
    uint64_t objects, bytes, requests;    /* requests: of each node */
    size_t conns;                         /* of each node */
} kinds[KINDS];

static struct node {
    unsigned port;
    struct signer signer;
    uint64_t begun[KINDS], ended, failed, bytes;
    uint32_t *order[KINDS];
    double due_ms;                        /* when its next small GET may begin */
    double ended_ms;                      /* when its last request ended */
} nodes[NODES_MAX];

struct conn {
    struct node *node;
    int kind;
    bool is_open, in_body, waits;         /* waits: for its turn by the rate */
    uint64_t left;                        /* bytes of the body still to come */
    double heard_ms;                      /* when the last byte came, or the request was sent */
    struct http http;
    struct synthetic object;
    char path[PATH_BYTES];
};

static size_t node_count, busy;
static uint64_t small_ended, failures, wrongs;
static double began_ms, gap_ms;           /* between two small GETs of a node */
static int epoll;

static struct {
    pid_t pid;
    int number;
    uint64_t after;
    double sent_ms;
} told_signal;

static struct {
    double ms, at_ms;                     /* the longest, and when it ended */
    unsigned port;
    char path[PATH_BYTES];
    uint64_t over_100, over_500;
} silence;

/* ---- requests ---- */

static void connect_to_node(struct conn *conn)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = conn };
    http_open(&conn->http, conn->node->port);
    epoll_ctl(epoll, EPOLL_CTL_ADD, conn->http.fd, &event);
}

static void send_signal_if_due(void)
{
    if (!told_signal.pid || told_signal.sent_ms != 0 || small_ended < told_signal.after)
        return;
    if (kill(told_signal.pid, told_signal.number) != 0)
        die("the process %d gets no signal: %s", (int)told_signal.pid, strerror(errno));
    told_signal.sent_ms = now_ms();
}

static void ask(struct conn *conn)
{
    struct node *node = conn->node;
    const struct kind *kind = &kinds[conn->kind];
    char request[REQUEST_BYTES_MAX];
    conn->is_open = conn->in_body = conn->waits = false;
    if (node->begun[conn->kind] == kind->requests) {
        busy--;
        return;
    }
    if (conn->kind == SMALL && now_ms() < node->due_ms) {
        conn->waits = true;
        return;
    }
    node->due_ms += conn->kind == SMALL ? gap_ms : 0;
    unsigned number = node->order[conn->kind][node->begun[conn->kind]++];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(conn->path, sizeof(conn->path), kind->format, number);
#pragma GCC diagnostic pop
    size_t len = request_make(&node->signer, conn->path, 0, 0, request);
    synthetic_begin(&conn->object, conn->path + 1);
    conn->http.have = 0;
    conn->is_open = true;
    conn->heard_ms = now_ms();
    http_send(&conn->http, request, len);
}

static void ended(struct conn *conn)
{
    conn->node->ended++;
    conn->node->ended_ms = now_ms();
    small_ended += conn->kind == SMALL;
    send_signal_if_due();
    ask(conn);
}

/* The request has failed: the next one has a new connection. */
static void failed(struct conn *conn, const char *why)
{
    if (failures++ < ERRORS_TOLD)
        printf("error at_ms=%.1f port=%u path=%s why=%s\n", now_ms() - began_ms, conn->node->port,
               conn->path, why);
    conn->node->failed++;
    http_close(&conn->http);
    connect_to_node(conn);
    ended(conn);
}

/* ---- answers ---- */

static void end_silence(struct conn *conn)
{
    double now = now_ms(), ms = now - conn->heard_ms;
    conn->heard_ms = now;
    silence.over_100 += ms > 100;
    silence.over_500 += ms > 500;
    if (ms <= silence.ms)
        return;
    silence.ms = ms;
    silence.at_ms = now;
    silence.port = conn->node->port;
    memcpy(silence.path, conn->path, sizeof(silence.path));
}

/* Returns why the bytes are not those of the object, or NULL. */
static const char *take_body(struct conn *conn, const char *bytes, size_t count)
{
    if (count > conn->left)
        return "more bytes than the length";
    conn->left -= count;
    conn->node->bytes += count;
    if (synthetic_next(&conn->object, bytes, count))
        return NULL;
    wrongs++;
    return "wrong bytes";
}

static const char *take_head(struct conn *conn, size_t count)
{
    static char status[40];
    struct http *http = &conn->http;
    struct answer answer;
    http->have += count;
    if (!answer_parse(http, &answer))
        return NULL;
    snprintf(status, sizeof(status), "status %d", answer.status);
    if (answer.status != 200)
        return status;
    if (answer.length != kinds[conn->kind].bytes)
        return "another length";
    conn->in_body = true;
    conn->left = answer.length;
    return take_body(conn, http->head + answer.body_at, answer.body_have);
}

/* Takes one piece of what has come; the rest makes the socket readable again. */
static void readable(struct conn *conn)
{
    static char piece[PIECE_BYTES];
    struct http *http = &conn->http;
    char *to = conn->in_body ? piece : http->head + http->have;
    size_t room = conn->in_body ? sizeof(piece) : sizeof(http->head) - http->have;
    ssize_t got = recv(http->fd, to, room, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (!conn->is_open) {    /* a server may close an idle connection */
        http_close(http);
        return;
    }
    if (got <= 0) {
        failed(conn, got ? strerror(errno) : "closed early");
        return;
    }
    end_silence(conn);
    const char *why = conn->in_body ? take_body(conn, to, (size_t)got)
                                    : take_head(conn, (size_t)got);
    if (why)
        failed(conn, why);
    else if (conn->in_body && !conn->left)
        ended(conn);
}

/* Returns for how long nothing is due. */
static int ask_those_due(struct conn *all, size_t count)
{
    double soon_ms = LOOK_MS;
    for (size_t i = 0; i < count; i++)
        if (all[i].waits && all[i].node->due_ms <= now_ms())
            ask(&all[i]);
    for (size_t i = 0; i < count; i++)
        if (all[i].waits && all[i].node->due_ms - now_ms() < soon_ms)
            soon_ms = all[i].node->due_ms - now_ms();
    return soon_ms > 0 ? (int)soon_ms + (gap_ms > 0) : 0;
}

static void look_for_silent(struct conn *all, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (all[i].is_open && now_ms() - all[i].heard_ms > SILENT_MS) {
            end_silence(&all[i]);
            failed(&all[i], "silent for 20 s");
        }
}

/* ---- the whole ---- */

static void kinds_make(int argc, char **argv)
{
    struct kind *small = &kinds[SMALL], *large = &kinds[LARGE];
    small->format = flag(argc, argv, "path", NULL);
    small->objects = flag_number(argc, argv, "objects", 1);
    small->bytes = flag_number(argc, argv, "bytes", 0);
    small->requests = flag_number(argc, argv, "requests", small->objects);
    small->conns = flag_number(argc, argv, "conns", 8);
    large->format = flag(argc, argv, "large", NULL);
    large->objects = large->requests = flag_number(argc, argv, "large-objects", 1);
    large->bytes = flag_number(argc, argv, "large-bytes", 0);
    large->conns = large->format ? flag_number(argc, argv, "large-conns", 1) : 0;
    if (!small->format || !small->objects || !small->bytes || !large->objects ||
        (large->format && !large->bytes))
        die("see the head of tests/bench/fleet.c");
    uint64_t rate = flag_number(argc, argv, "rate", 0);
    gap_ms = rate ? 1e3 / (double)rate : 0;
    told_signal.pid = (pid_t)flag_number(argc, argv, "pid", 0);
    told_signal.number = (int)flag_number(argc, argv, "signal", SIGKILL);
    told_signal.after = flag_number(argc, argv, "after", 0);
}

/* The objects that a node reads, in order: first reads, and between them repetitions. */
static uint32_t *order_make(const struct kind *kind, uint64_t seed)
{
    uint32_t *first = calloc(kind->objects, sizeof(*first));
    uint32_t *order = calloc(kind->requests, sizeof(*order));
    size_t read = 0;
    for (size_t i = 0; i < kind->objects; i++)
        first[i] = (uint32_t)i;
    shuffle(first, kind->objects, seed);
    for (size_t i = 0; i < kind->requests; i++) {
        bool is_new = read < kind->objects && read * kind->requests <= i * kind->objects;
        order[i] = is_new ? first[read++] : first[random_next(&seed) % read];
    }
    free(first);
    return order;
}

static void node_make(unsigned port, const char *credentials, uint64_t seed)
{
    if (node_count == NODES_MAX)
        die("at most %d nodes", NODES_MAX);
    struct node *node = &nodes[node_count++];
    node->port = port;
    signer_make(&node->signer, credentials, port);
    for (int kind = 0; kind < KINDS; kind++)
        node->order[kind] = order_make(&kinds[kind], seed);
}

static void nodes_make(int argc, char **argv)
{
    const char *sign = flag(argc, argv, "sign", NULL);
    char *ports = strdup(flag(argc, argv, "ports", ""));
    uint64_t seed = flag_number(argc, argv, "seed", 1), apart = flag_number(argc, argv, "apart", 0);
    for (char *rest = ports, *word; (word = strsep(&rest, ",")) && *word;)
        node_make((unsigned)strtoul(word, NULL, 10), sign, seed + (apart ? node_count : 0));
    free(ports);
    if (!node_count)
        die("--ports P,P,...");
}

static void report(void)
{
    uint64_t requests = 0, bytes = 0;
    double last_ms = began_ms, since_ms = told_signal.sent_ms;
    if (silence.ms > 0)
        printf("silent ms=%.1f at_ms=%.1f after_signal_ms=%.1f port=%u path=%s\n", silence.ms,
               silence.at_ms - began_ms, since_ms > 0 ? silence.at_ms - since_ms : -1,
               silence.port, silence.path);
    for (size_t i = 0; i < node_count; i++) {
        const struct node *node = &nodes[i];
        printf("node port=%u wall_ms=%.1f requests=%llu errors=%llu bytes=%llu\n", node->port,
               node->ended_ms - began_ms, (unsigned long long)node->ended,
               (unsigned long long)node->failed, (unsigned long long)node->bytes);
        requests += node->ended;
        bytes += node->bytes;
        last_ms = node->ended_ms > last_ms ? node->ended_ms : last_ms;
    }
    printf("all wall_ms=%.1f requests=%llu errors=%llu wrong=%llu bytes=%llu silence_ms=%.1f "
           "over_100ms=%llu over_500ms=%llu signal_ms=%.1f\n", last_ms - began_ms,
           (unsigned long long)requests, (unsigned long long)failures, (unsigned long long)wrongs,
           (unsigned long long)bytes, silence.ms, (unsigned long long)silence.over_100,
           (unsigned long long)silence.over_500, since_ms > 0 ? since_ms - began_ms : -1);
}

/* All connections of all nodes. */
static struct conn *conns_make(size_t *ret_count)
{
    size_t each = kinds[SMALL].conns + kinds[LARGE].conns;
    struct conn *all = calloc(node_count * each, sizeof(*all));
    *ret_count = busy = node_count * each;
    for (size_t i = 0; i < busy; i++) {
        all[i].node = &nodes[i / each];
        all[i].kind = i % each < kinds[LARGE].conns ? LARGE : SMALL;
        connect_to_node(&all[i]);
    }
    return all;
}

int main(int argc, char **argv)
{
    size_t count;
    kinds_make(argc, argv);
    nodes_make(argc, argv);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    struct conn *all = conns_make(&count);
    double looked_ms = began_ms = now_ms();
    for (size_t i = 0; i < node_count; i++)
        nodes[i].due_ms = began_ms;
    for (size_t i = 0; i < count; i++)
        ask(&all[i]);
    while (busy) {
        struct epoll_event events[64];
        int ready = epoll_wait(epoll, events, 64, ask_those_due(all, count));
        for (int i = 0; i < ready; i++)
            readable(events[i].data.ptr);
        if (now_ms() - looked_ms < LOOK_MS)
            continue;
        looked_ms = now_ms();
        look_for_silent(all, count);
    }
    report();
    return 0;
}
