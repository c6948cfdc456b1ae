/* bare.c - what a reader without a cache could reach at best. SPDX-License-Identifier: Apache-2.0
 *
 *     bare [--check 1] --threads N --bytes B --room R --seconds S FILE ...
 *
 * Threads that do nothing but preadv, B bytes at a time, from places of the files in a random order
 * into the places of a buffer of R bytes, in turn. No index, nobody told; no checksum either, unless
 * --check has each block's computed, as any reader must who promises the right bytes. Prints one line
 * of name=number words. */
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/crc.h"

#define THREADS_MAX 64
#define BLOCK 65536u            /* what one checksum is of */
#define PIECE_MAX (1u << 20)    /* larger items are read in pieces: these fit the processor's cache */

struct place {
    int fd;
    off_t at;
};

static struct place *places;
static size_t place_count, bytes, room, check_too;
static char *memory;
static atomic_size_t next;
static _Atomic uint32_t sums;    /* so that they are not left out */
static double until_s;

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double cpu_us(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static void add_file(const char *path)
{
    struct stat file;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &file) != 0)
        err(1, "%s", path);
    for (off_t at = 0; at + (off_t)bytes <= file.st_size; at += (off_t)bytes) {
        places = realloc(places, (place_count + 1) * sizeof(*places));
        if (!places)
            err(1, "places");
        places[place_count++] = (struct place){ fd, at };
    }
}

static void shuffle(void)
{
    srandom(1);
    for (size_t i = place_count; i > 1; i--) {
        size_t other = (size_t)random() % i;
        struct place kept = places[i - 1];
        places[i - 1] = places[other];
        places[other] = kept;
    }
}

static void check_blocks(const char *piece)
{
    for (size_t at = 0; at < bytes; at += BLOCK)
        atomic_fetch_xor(&sums, crc32c(0, piece + at, MIN(bytes - at, (size_t)BLOCK)));
}

static void *work(void *arg)
{
    size_t *done = arg;
    while (now_s() < until_s) {
        size_t turn = atomic_fetch_add(&next, 1);
        struct place from = places[turn % place_count];
        struct iovec to = { memory + turn % (room / bytes) * bytes, bytes };
        if (preadv(from.fd, &to, 1, from.at) != (ssize_t)bytes)
            err(1, "preadv");
        if (check_too)
            check_blocks(to.iov_base);
        ++*done;
    }
    return NULL;
}

static size_t number(const char *name, char **argv, int *at)
{
    char *end;
    size_t value = strtoul(argv[*at + 1] ? argv[*at + 1] : "", &end, 10);
    if (*end || !value)
        errx(2, "%s needs a number", name);
    *at += 2;
    return value;
}

int main(int argc, char **argv)
{
    size_t threads = 1, seconds = 1, total = 0, done[THREADS_MAX][8] = { { 0 } };
    pthread_t thread[THREADS_MAX];
    int at = 1;
    while (at < argc && argv[at][0] == '-') {
        const char *name = argv[at];
        size_t value = number(name, argv, &at);
        size_t *to = !strcmp(name, "--threads") ? &threads : !strcmp(name, "--bytes") ? &bytes
                   : !strcmp(name, "--room") ? &room : !strcmp(name, "--seconds") ? &seconds
                   : !strcmp(name, "--check") ? &check_too : NULL;
        if (!to)
            errx(2, "no such option: %s", name);
        *to = value;
    }
    if (bytes > PIECE_MAX)
        bytes = PIECE_MAX;
    if (!bytes || room < bytes || threads > THREADS_MAX)
        errx(2, "needs --bytes and --room");
    for (; at < argc; at++)
        add_file(argv[at]);
    if (!place_count)
        errx(1, "the files hold nothing of that size");
    shuffle();
    memory = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        err(1, "mmap");
    double began_s = now_s(), began_us = cpu_us();
    until_s = began_s + (double)seconds;
    for (size_t i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, work, done[i]))
            errx(1, "no thread could be had");
    for (size_t i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        total += done[i][0];
    }
    double took_s = now_s() - began_s;
    printf("bytes=%zu seconds=%.6f cpu_us=%.0f\n", total * bytes, took_s, cpu_us() - began_us);
    return 0;
}
