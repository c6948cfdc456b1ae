/* coalesce.c - many clients who want one object at once. SPDX-License-Identifier: Apache-2.0
 *
 *     coalesce --port N --path PATH [--clients 64] [--stagger-ms 0] [--sign ACCESS:SECRET]
 *              [--first-leaves BYTES] [--first N --last N] [--sum 1]
 *
 * All connect, then client i sends its request i * stagger-ms after the start. --first-leaves lets
 * client 0 go with a reset once it has read so many bytes. A line a client, times in ms since the
 * start: number, asked, head, first byte of the body, last byte, status, bytes, a sum of the bytes.
 * The sum is the same for all who got the same; with --sum 0 bodies are thrown away in the kernel,
 * so that 64 clients on few processors do not measure themselves. */
#include "client.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define CLIENTS_MAX 1024u
#define PIECE_BYTES 262144u

struct client {
    pthread_t id;
    unsigned number;
    double asked, head, first, last;
    int status;
    uint64_t bytes, sum;
    char request[REQUEST_BYTES_MAX];
    size_t request_len;
    struct http http;
};

static double start_ms, stagger_ms;
static uint64_t first_leaves;
static bool with_sum;
static pthread_barrier_t all_connected;

/* FNV-1a over words of 8 bytes, wherever the pieces were cut: `carry` bytes wait for their word. */
struct summing {
    uint64_t sum, word;
    unsigned carry;
};

static void sum_add(struct summing *to, const uint8_t *bytes, size_t len)
{
    while (len && to->carry) {
        to->word |= (uint64_t)*bytes++ << (8 * to->carry);
        len--;
        if (++to->carry == 8) {
            to->sum = (to->sum ^ to->word) * 0x100000001B3u;
            to->word = to->carry = 0;
        }
    }
    for (; len >= 8; bytes += 8, len -= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        to->sum = (to->sum ^ word) * 0x100000001B3u;
    }
    for (; len; len--)
        to->word |= (uint64_t)*bytes++ << (8 * to->carry++);
}

static void sleep_until(double at_ms)
{
    double left = at_ms - now_ms();
    if (left <= 0)
        return;
    struct timespec time = { (time_t)(left / 1e3), (long)(left * 1e6) % 1000000000 };
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static void leave(struct client *me)
{
    struct linger reset = { 1, 0 };
    setsockopt(me->http.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
}

static void read_body(struct client *me, const struct answer *answer)
{
    uint8_t *piece = malloc(PIECE_BYTES);
    struct summing summing = { .sum = 0xCBF29CE484222325u };
    size_t got = answer->body_have;
    memcpy(piece, me->http.head + answer->body_at, got);
    for (;;) {
        if (got && me->first == 0)
            me->first = now_ms() - start_ms;
        if (with_sum)
            sum_add(&summing, piece, got);
        me->bytes += got;
        if (me->bytes >= answer->length)
            break;
        if (me->number == 0 && first_leaves && me->bytes >= first_leaves) {
            leave(me);
            break;
        }
        ssize_t came = recv(me->http.fd, piece, PIECE_BYTES, with_sum ? 0 : MSG_TRUNC);
        if (came < 0 && errno == EINTR)
            came = 0;
        else if (came <= 0)
            break;
        got = (size_t)came;
    }
    summing.sum = (summing.sum ^ summing.word) * 0x100000001B3u;
    me->sum = with_sum ? summing.sum : 0;
    free(piece);
}

static void *run(void *arg)
{
    struct client *me = arg;
    pthread_barrier_wait(&all_connected);
    pthread_barrier_wait(&all_connected);    /* main has set start_ms between the two */
    sleep_until(start_ms + stagger_ms * me->number);
    me->asked = now_ms() - start_ms;
    http_send(&me->http, me->request, me->request_len);
    struct answer answer = http_answer(&me->http);
    me->head = now_ms() - start_ms;
    me->status = answer.status;
    read_body(me, &answer);
    me->last = now_ms() - start_ms;
    http_close(&me->http);
    return NULL;
}

int main(int argc, char **argv)
{
    unsigned port = (unsigned)flag_number(argc, argv, "port", 9000);
    unsigned count = (unsigned)flag_number(argc, argv, "clients", 64);
    const char *path = flag(argc, argv, "path", NULL);
    uint64_t first = flag_number(argc, argv, "first", 0), last = flag_number(argc, argv, "last", 0);
    stagger_ms = (double)flag_number(argc, argv, "stagger-ms", 0);
    first_leaves = flag_number(argc, argv, "first-leaves", 0);
    with_sum = flag_number(argc, argv, "sum", 1);
    if (!path || !count || count > CLIENTS_MAX)
        die("see the head of tests/bench/coalesce.c");
    struct signer signer;
    signer_make(&signer, flag(argc, argv, "sign", NULL), port);
    struct client *all = calloc(count, sizeof(*all));
    pthread_barrier_init(&all_connected, NULL, count + 1);
    for (unsigned i = 0; i < count; i++) {
        all[i].number = i;
        all[i].request_len = request_make(&signer, path, first, last, all[i].request);
        http_open(&all[i].http, port);
        if (pthread_create(&all[i].id, NULL, run, &all[i]) != 0)
            die("no thread");
    }
    pthread_barrier_wait(&all_connected);
    start_ms = now_ms();
    pthread_barrier_wait(&all_connected);
    for (unsigned i = 0; i < count; i++) {
        struct client *one = &all[i];
        pthread_join(one->id, NULL);
        printf("%u %.3f %.3f %.3f %.3f %d %llu %016llx\n", i, one->asked, one->head, one->first,
               one->last, one->status, (unsigned long long)one->bytes,
               (unsigned long long)one->sum);
    }
    return 0;
}
