/* stall.c - a training loop without its GPU: how much of the time does it wait for data?
 * SPDX-License-Identifier: Apache-2.0
 *
 *     stall --port N --prefix /BUCKET/PREFIX [--objects 2560] [--bytes-min 100000]
 *           [--bytes-max 200000] [--batch 64] [--workers 8] [--prefetch 2] [--step-ms 48]
 *           [--shuffle SEED] [--sign ACCESS:SECRET] [--list 1]
 *
 * One epoch as PyTorch's DataLoader runs it: batch b belongs to worker b % workers, which reads its
 * objects one after another on one connection; a worker may be `prefetch` batches ahead of the
 * step. The step takes batches in order and sleeps for step-ms on each. Stalled is what it waits
 * for a batch, the first one included. Objects are named PREFIX/size-BYTES-NUMBER, so that the
 * scripted origin has them. Prints one line. With --list, reads nothing: prints the paths of the
 * objects in the order of the batches. */
#include "client.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define WORKERS_MAX 256u

static struct {
    const char *prefix;
    unsigned port;
    size_t objects, batch, batches, workers, prefetch;
    uint64_t bytes_min, bytes_max;
    double step_ms;
    uint32_t *order;
    struct signer signer;
} plan;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static size_t taken;         /* batches the step has begun */
static bool *ready;          /* by batch */
static uint64_t bytes_read;

/* Returns the size of the object. */
static uint64_t object_path(uint32_t number, char *ret, size_t size)
{
    uint64_t seed = number, span = plan.bytes_max - plan.bytes_min + 1;
    uint64_t bytes = plan.bytes_min + random_next(&seed) % span;
    snprintf(ret, size, "%s/size-%llu-%06u", plan.prefix, (unsigned long long)bytes, number);
    return bytes;
}

static uint64_t read_object(struct http *http, uint32_t number)
{
    char path[512], request[REQUEST_BYTES_MAX];
    uint64_t bytes = object_path(number, path, sizeof(path));
    size_t len = request_make(&plan.signer, path, 0, 0, request);
    uint64_t got = http_get(http, request, len);
    if (got != bytes)
        die("%s: %llu bytes instead of %llu", path, (unsigned long long)got,
            (unsigned long long)bytes);
    return got;
}

static void *worker(void *arg)
{
    struct http *http = malloc(sizeof(*http));
    http_open(http, plan.port);
    for (size_t batch = (size_t)arg; batch < plan.batches; batch += plan.workers) {
        pthread_mutex_lock(&lock);
        while (batch >= taken + plan.workers * plan.prefetch)
            pthread_cond_wait(&moved, &lock);
        pthread_mutex_unlock(&lock);
        uint64_t bytes = 0;
        for (size_t i = 0; i < plan.batch; i++)
            bytes += read_object(http, plan.order[batch * plan.batch + i]);
        pthread_mutex_lock(&lock);
        ready[batch] = true;
        bytes_read += bytes;
        pthread_cond_broadcast(&moved);
        pthread_mutex_unlock(&lock);
    }
    http_close(http);
    free(http);
    return NULL;
}

/* Waits for a batch; how long that took. */
static double take(size_t batch)
{
    double began = now_ms();
    pthread_mutex_lock(&lock);
    while (!ready[batch])
        pthread_cond_wait(&moved, &lock);
    taken = batch + 1;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
    return now_ms() - began;
}

static double step(void)
{
    double began = now_ms();
    long ns = (long)(plan.step_ms * 1e6);
    struct timespec time = { ns / 1000000000, ns % 1000000000 };
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
    return now_ms() - began;
}

static void plan_make(int argc, char **argv)
{
    plan.port = (unsigned)flag_number(argc, argv, "port", 9000);
    plan.prefix = flag(argc, argv, "prefix", "/bench/stall");
    plan.objects = flag_number(argc, argv, "objects", 2560);
    plan.batch = flag_number(argc, argv, "batch", 64);
    plan.workers = flag_number(argc, argv, "workers", 8);
    plan.prefetch = flag_number(argc, argv, "prefetch", 2);
    plan.bytes_min = flag_number(argc, argv, "bytes-min", 100000);
    plan.bytes_max = flag_number(argc, argv, "bytes-max", 200000);
    plan.step_ms = (double)flag_number(argc, argv, "step-ms", 48);
    if (!plan.batch || !plan.workers || plan.workers > WORKERS_MAX || !plan.prefetch ||
        plan.objects < plan.batch || plan.bytes_max < plan.bytes_min)
        die("see the head of tests/bench/stall.c");
    plan.batches = plan.objects / plan.batch;
    plan.order = calloc(plan.objects, sizeof(*plan.order));
    ready = calloc(plan.batches, sizeof(*ready));
    for (size_t i = 0; i < plan.objects; i++)
        plan.order[i] = (uint32_t)i;
    shuffle(plan.order, plan.objects, flag_number(argc, argv, "shuffle", 1));
    signer_make(&plan.signer, flag(argc, argv, "sign", NULL), plan.port);
}

static void print_list(void)
{
    char path[512];
    for (size_t i = 0; i < plan.batches * plan.batch; i++) {
        object_path(plan.order[i], path, sizeof(path));
        puts(path);
    }
}

int main(int argc, char **argv)
{
    plan_make(argc, argv);
    if (flag_number(argc, argv, "list", 0)) {
        print_list();
        return 0;
    }
    pthread_t ids[WORKERS_MAX];
    double stalled = 0, stepped = 0, first = 0;
    for (size_t i = 0; i < plan.workers; i++)
        if (pthread_create(&ids[i], NULL, worker, (void *)i) != 0)
            die("no thread");
    for (size_t batch = 0; batch < plan.batches; batch++) {
        double waited = take(batch);
        stalled += waited;
        first = batch ? first : waited;
        stepped += step();
    }
    for (size_t i = 0; i < plan.workers; i++)
        pthread_join(ids[i], NULL);
    printf("stall=%.3f stall_ms=%.1f first_ms=%.1f step_ms=%.1f wall_ms=%.1f bytes=%llu "
           "objects=%zu\n",
           100 * stalled / (stalled + stepped), stalled, first, stepped, stalled + stepped,
           (unsigned long long)bytes_read, plan.batches * plan.batch);
    return 0;
}
