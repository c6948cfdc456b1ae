/* replay.c - reads what a trace says, as fast as it goes. SPDX-License-Identifier: Apache-2.0
 *
 *     replay --port N [--workers 4] [--sign ACCESS:SECRET]    <trace
 *
 * Each line of the trace is one GET: "PATH", or "PATH FIRST LAST" for a range. Each worker has a
 * connection, and takes the next line when its last answer is whole. So the order of the reads is
 * that of the trace, but for `workers` neighbours. Prints one line. */
#include "client.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS_MAX 64u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct signer signer;
static unsigned port;
static uint64_t reads, bytes_read;

/* Under the lock. Returns false at the end of the trace. */
static bool next_read(char path[512], unsigned long long *first, unsigned long long *last)
{
    char line[600];
    *first = *last = 0;
    if (!fgets(line, sizeof(line), stdin))
        return false;
    int words = sscanf(line, "%511s %llu %llu", path, first, last);
    if (words != 1 && words != 3)
        die("not a line of a trace: %s", line);
    reads++;
    return true;
}

static void *worker(void *arg)
{
    struct http http;
    char path[512], request[REQUEST_BYTES_MAX];
    unsigned long long first, last;
    http_open(&http, port);
    pthread_mutex_lock(&lock);
    while (next_read(path, &first, &last)) {
        pthread_mutex_unlock(&lock);
        size_t len = request_make(&signer, path, first, last, request);
        uint64_t got = http_get(&http, request, len);
        if (last && got != last - first + 1)
            die("%s: %llu bytes of %llu-%llu", path, (unsigned long long)got, first, last);
        pthread_mutex_lock(&lock);
        bytes_read += got;
    }
    pthread_mutex_unlock(&lock);
    http_close(&http);
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t ids[WORKERS_MAX];
    uint64_t workers = flag_number(argc, argv, "workers", 4);
    port = (unsigned)flag_number(argc, argv, "port", 9000);
    signer_make(&signer, flag(argc, argv, "sign", NULL), port);
    if (!workers || workers > WORKERS_MAX)
        die("see the head of tests/bench/replay.c");
    double began = now_ms();
    for (size_t i = 0; i < workers; i++)
        if (pthread_create(&ids[i], NULL, worker, NULL) != 0)
            die("no thread");
    for (size_t i = 0; i < workers; i++)
        pthread_join(ids[i], NULL);
    printf("reads=%llu bytes=%llu wall_ms=%.1f\n", (unsigned long long)reads,
           (unsigned long long)bytes_read, now_ms() - began);
    return 0;
}
