/* verify_random.c - verifies request heads it reads from stdin. SPDX-License-Identifier: Apache-2.0
 *
 *     verify_random ACCESS_KEY SECRET_KEY NOW < heads
 *
 * Each head is a line with its length in bytes, then the bytes. For each: one line with "ok" or the
 * name of the err. What it is for: tests/story/s01_signatures.py; also a profiler's victim:
 * --repeat N verifies each head N times and prints nanoseconds for one in the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "s3/sigv4.h"

static struct sigv4 *sigv4;

static enum err verify(slice bytes, slice access_key, slice secret_key, int64_t now_s)
{
    struct request_head head;
    struct sigv4_claim claim;
    struct arena arena = { 0 };
    enum err e = request_head_scan(bytes, &head, NULL);
    if (!e)
        e = sigv4_claim_read(&arena, &head, &claim);
    if (!e && !slice_eq(claim.access_key, access_key))
        e = ERR_UNKNOWN_KEY;
    if (!e)
        e = sigv4_verify(sigv4, &arena, &head, &claim, secret_key, now_s);
    arena_free(&arena);
    return e;
}

int main(int argc, char **argv)
{
    unsigned long repeat = 0;
    if (argc > 2 && strcmp(argv[1], "--repeat") == 0) {
        repeat = strtoul(argv[2], NULL, 10);
        argc -= 2;
        argv += 2;
    }
    if (argc != 4) {
        fprintf(stderr, "usage: verify_random [--repeat N] ACCESS_KEY SECRET_KEY NOW < heads\n");
        return 2;
    }
    sigv4 = sigv4_new();
    size_t len;
    uint64_t spent_ns = 0, runs = 0;
    static char bytes[2 * REQUEST_HEAD_BYTES_MAX];
    while (scanf("%zu", &len) == 1 && getchar() == '\n') {
        if (len > sizeof(bytes) || fread(bytes, 1, len, stdin) != len)
            return 2;
        enum err e = OK;
        uint64_t began_ns = mono_ns();
        for (unsigned long i = 0; i <= repeat; i++)
            e = verify((slice){ bytes, len }, slice_of(argv[1]), slice_of(argv[2]), atoll(argv[3]));
        spent_ns += mono_ns() - began_ns;
        runs += repeat + 1;
        puts(e ? err_name(e) : "ok");
    }
    if (repeat && runs)
        printf("%llu ns\n", (unsigned long long)(spent_ns / runs));
    sigv4_free(&sigv4);
    return 0;
}
